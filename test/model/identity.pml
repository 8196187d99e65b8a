/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who a source is: two processes that speak with each other. Process 0 may start again under its
 * name, and both may forget each other. WIRE.md 8.7.
 *
 * Mirrors: common/rd/identity.c (on_datagram, on_reset, on_proof, in_step, asks, take, cookie_of,
 * look), peer.c (dw_peer_adopt, meet, dw_handle_restart), transmit.c (put_lead, dw_peer_knows_us),
 * rd.h (dw_peer_is_confirmed), receive.c (heard_from), sendwin.c (dw_sendwin_renumber).
 *
 * Abstracted away: the window (one DATA is unacknowledged at a time; window.pml has the rest), UDP
 * addresses (the token says which process gets a datagram), forged datagrams, silence of minutes. A
 * cookie is what goes into its hash. What begins anywhere begins at another multiple of 8, and
 * numbers STEP apart are not of one sequence. The timer probes, fires early EARLY times, and fires
 * when nothing else can happen. A process forgets another after 10 s of silence: when nothing is on
 * its way. CROWDED: nobody is learnt without a PROOF. Where both wait, their timers take turns.
 *
 * Holds: a message is delivered once at most; once it is known that a process has started again,
 * nothing of the one before is delivered; the new one gets nothing that was for the one before; what
 * completes was delivered; no deadlock; every message of a process that lives completes or, when the
 * peer has started again, ends in error.
 *
 * Bounds: see the defaults, and `run'. 64,765 states with 3 messages, 1 restart, 1 fault, 2
 * overtakings; 522,881 with 1 forgetting instead, 2 faults, 1 overtaking; 208,250 with 2 restarts,
 * CROWDED.
 *
 * MUTANT: 1 the incarnation of a datagram is not looked at; 2 a PROOF's numbers are not adopted; 3 a
 * peer is forgotten before it knows what has arrived; 4 the token is not looked at; 5 who goes on is
 * taken as it comes; 6 the cookie says nothing of what is to be replaced; 7 what waits is not
 * renumbered; 8 PROOFs that cross are taken.
 */
#ifndef POSTS0
#define POSTS0 2 /* messages that process 0 posts, in all its lives */
#endif
#ifndef POSTS1
#define POSTS1 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef FORGETS
#define FORGETS 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef OVERTAKES
#define OVERTAKES 2 /* datagrams that overtake another */
#endif
#ifndef EARLY
#define EARLY 0
#endif
#ifndef CROWDED
#define CROWDED 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define SLOTS 2 /* datagrams to a process; a further one is as good as lost */
#define STEP  4
#define MESSAGES (POSTS0 + POSTS1)

#define BIT(i) (1 << (i))

#define DATA  1
#define ACK   2
#define PROBE 3
#define REPLY 4
#define RESET 5
#define PROOF 6

#define PENDING 1
#define OK      2
#define ERROR   3

/* Of a process. */
byte incarnation[2] = 1; /* its token, too */
bool forgot[2];
byte posts[2];
/* What it knows of the other. */
bool met[2], heard[2], introduced[2], goes_on[2], waits[2];
byte known[2], token[2], next[2], ack[2], message[2]; /* known: incarnation; 0: no handle */
bool ack_owed[2], reply_owed[2], data_acked[2], probe_acked[2], probe_answered[2], lost[2], patient[2];
byte proofs[2]; /* sent, modulo 8 */
bool yields[2]; /* the one with the greater name has proved itself: it asks for nothing, once */
byte probe_number[2], reply_number[2]; /* of our last probe; of the one to be answered; modulo 4 */
byte begun = 1; /* new beginnings so far */

/* Datagrams to process n in slots n * SLOTS and on. */
byte used[2];
byte q_type[4], q_from[4], q_token[4], q_psn[4], q_ack[4], q_message[4];
short q_cookie[4];
bool q_intro[4], q_goes_on[4];

/* Only for the judge: by message. */
byte delivered[MESSAGES], outcome[MESSAGES], era[MESSAGES];
byte newest[2];

byte faults = FAULTS, overtakes = OVERTAKES, early = EARLY, restarts = RESTARTS, forgets = FORGETS, looks = FORGETS;
byte n, i, k;
short cookie;
bit turn; /* whose timer fired last, when nothing else happened */
bool any, follows, same, done;

/* ---- sending: node n ---- */

/* To the other: of that type, from its state; psn of a PROOF is the first unacknowledged. */
inline send(kind, with)
{
    k = 0;
    do
    :: k < SLOTS && (used[1 - n] & BIT(k)) -> k++
    :: else -> break
    od;
    k = (k == SLOTS && kind == PROOF -> SLOTS - 1 : k); /* else it would be lost each time */
    if
    :: k < SLOTS ->
        used[1 - n] = used[1 - n] | BIT(k);
        k = (1 - n) * SLOTS + k;
        q_type[k] = kind;
        q_from[k] = incarnation[n];
        q_token[k] = token[n];
        q_intro[k] = !introduced[n] || kind == PROOF;
        q_goes_on[k] = q_intro[k] && goes_on[n];
        q_psn[k] = (kind == DATA || kind == PROOF -> next[n] - waits[n] :
                    (kind == PROBE -> probe_number[n] : (kind == REPLY -> reply_number[n] : 0)));
        q_ack[k] = ack[n];
        q_cookie[k] = with;
        q_message[k] = (kind == DATA -> message[n] + 1 : 0)
    :: else
    fi;
    ack_owed[n] = false
}

/* To whom slot i's intro names, of whom nothing need be known. */
inline send_reset()
{
    k = 0;
    do
    :: k < SLOTS && (used[1 - n] & BIT(k)) -> k++
    :: else -> break
    od;
    if
    :: k < SLOTS ->
        used[1 - n] = used[1 - n] | BIT(k);
        k = (1 - n) * SLOTS + k;
        q_type[k] = RESET;
        q_from[k] = incarnation[n];
        q_token[k] = q_from[i];
        q_cookie[k] = cookie
    :: else
    fi
}

inline send_data()
{
    lost[n] = false;
    send(DATA, 0)
}

/* ---- what is known of the other ---- */

inline unmeet()
{
    met[n] = false; heard[n] = false; introduced[n] = false; goes_on[n] = false;
    next[n] = 0; ack[n] = 0; message[n] = 0; waits[n] = false; lost[n] = false; patient[n] = false;
    ack_owed[n] = false; reply_owed[n] = false;
    data_acked[n] = false; probe_acked[n] = false; probe_answered[n] = false; proofs[n] = 0; yields[n] = false;
    probe_number[n] = 0; reply_number[n] = 0
}

inline meet()
{
    if
    :: !met[n] ->
        met[n] = true;
        goes_on[n] = forgot[n];
        data_acked[n] = true;
        if
        :: forgot[n] -> next[n] = 8 * begun; begun++
        :: else -> next[n] = 0
        fi;
        ack[n] = next[n]
    :: else
    fi
}

inline fail()
{
    if
    :: waits[n] -> outcome[message[n]] = ERROR
    :: else
    fi
}

/* dw_peer_adopt() */
inline adopt(psn, first)
{
    ack[n] = psn;
#if MUTANT == 7
    if
    :: !waits[n] -> next[n] = first
    :: else
    fi;
#else
    next[n] = first + waits[n];
#endif
    data_acked[n] = true
}

#define NEW_BEGINNING (met[n] && goes_on[n] && !heard[n])
#define ASKS          (!NEW_BEGINNING || (patient[n] && n == 0))
/* Unsigned differences: of the same beginning, and no further apart than STEP. */
#define NEAR(a, b)    ((a) + STEP > (b) && (b) + STEP > (a))

/* in_step(), of slot i */
inline judge_step()
{
    if
    :: !q_goes_on[i] && !(NEW_BEGINNING) -> follows = true
    :: else ->
        follows = met[n] && q_ack[i] <= next[n] && next[n] - q_ack[i] < STEP &&
                  ((q_type[i] != DATA && q_type[i] != PROOF) || NEAR(q_psn[i], ack[n]))
    fi
}

/* ---- receiving: node n, slot i ---- */

inline on_ack()
{
    if
    :: waits[n] && q_ack[i] == next[n] ->
        waits[n] = false;
        lost[n] = false;
        outcome[message[n]] = OK;
        assert(delivered[message[n]] == 1)
    :: else
    fi
}

inline deliver()
{
    if
    :: q_psn[i] == ack[n] ->
        k = q_message[i] - 1;
        delivered[k]++;
        assert(delivered[k] == 1);
        assert(n == 0 || era[k] >= newest[n]); /* of the one that is known */
        assert(n == 1 || era[k] == incarnation[0]); /* for this one */
        ack[n]++;
        data_acked[n] = false;
        probe_acked[n] = false
    :: else
    fi;
    ack_owed[n] = true
}

/* dw_rd_take() behind the identity */
inline accept()
{
    if
    :: q_from[i] > newest[n] -> newest[n] = q_from[i]
    :: else
    fi;
    heard[n] = true; introduced[n] = true; goes_on[n] = true; patient[n] = false; yields[n] = false;
    if
    :: q_type[i] == DATA -> deliver()
    :: q_type[i] == PROBE -> reply_owed[n] = true; reply_number[n] = q_psn[i]
    :: q_type[i] == PROOF -> ack_owed[n] = true
    :: else
    fi;
    on_ack();
    if
    :: q_type[i] == REPLY ->
        probe_answered[n] = probe_answered[n] || q_psn[i] == probe_number[n];
        lost[n] = waits[n]
    :: else
    fi
}

/* What went into the hash: who asks, whom it is to replace, what numbers, and how often we proved
 * ourselves to it. */
#if MUTANT == 6
#define REPLACES 0
#else
#define REPLACES (known[n] != q_from[i] -> known[n] : 0)
#endif
#define NUMBERS (met[n] && MUTANT != 6 -> ack[n] : 0)
#if MUTANT == 8 || MUTANT == 6
#define PROOFS 0
#else
#define PROOFS (proofs[n])
#endif
#define COOKIE (q_from[i] + 8 * REPLACES + 64 * NUMBERS + 4096 * PROOFS)

inline on_datagram()
{
    if
    :: !known[n] && q_intro[i] && !CROWDED &&
#if MUTANT == 5
       true
#else
       !q_goes_on[i]
#endif
       -> known[n] = q_from[i]; token[n] = q_from[i]
    :: else
    fi;
#if MUTANT == 1
    same = known[n] != 0;
#else
    same = known[n] == q_from[i];
#endif
    judge_step();
#if MUTANT == 5
    follows = follows || !met[n];
#endif
    if
    :: same && follows ->
        if
        :: !met[n] -> meet(); adopt(0, 0)
        :: else
        fi;
        accept()
    :: !(same && follows) && q_intro[i] && (!same || ASKS) ->
        if
        :: same && yields[n] -> yields[n] = false
        :: else -> cookie = COOKIE; send_reset()
        fi
    :: else
    fi
}

inline on_reset()
{
    if
    :: met[n] && !introduced[n] && known[n] == q_from[i] ->
        cookie = q_cookie[i];
        send(PROOF, cookie);
        proofs[n] = (proofs[n] + 1) % 8;
        yields[n] = n == 1;
        lost[n] = waits[n]
    :: else
    fi
}

inline on_proof()
{
    if
    :: q_cookie[i] == COOKIE ->
        if
        :: known[n] != q_from[i] -> fail(); unmeet(); known[n] = q_from[i]; token[n] = q_from[i]
        :: else
        fi;
        judge_step();
        if
        :: !met[n] || !follows ->
            meet();
#if MUTANT != 2
            adopt(q_psn[i], q_ack[i])
#endif
        :: else
        fi;
        accept()
    :: else
    fi
}

inline take()
{
    if
#if MUTANT != 4
    :: q_token[i] != incarnation[n]
#endif
#if MUTANT == 4
    :: false
#endif
    :: else ->
        if
        :: q_type[i] == RESET -> on_reset()
        :: q_type[i] == PROOF -> on_proof()
        :: else -> on_datagram()
        fi
    fi
}

/* What is behind it moves up. */
inline clear()
{
    if
    :: i == n * SLOTS && used[n] == 3 ->
        q_type[i] = q_type[i + 1]; q_from[i] = q_from[i + 1]; q_token[i] = q_token[i + 1];
        q_psn[i] = q_psn[i + 1]; q_ack[i] = q_ack[i + 1]; q_cookie[i] = q_cookie[i + 1];
        q_message[i] = q_message[i + 1]; q_intro[i] = q_intro[i + 1];
        q_goes_on[i] = q_goes_on[i + 1];
        i++
    :: else
    fi;
    used[n] = used[n] & ~BIT(i - n * SLOTS);
    q_type[i] = 0; q_from[i] = 0; q_token[i] = 0; q_psn[i] = 0; q_ack[i] = 0; q_cookie[i] = 0;
    q_message[i] = 0; q_intro[i] = false; q_goes_on[i] = false
}

inline rest()
{
    done = posts[0] == POSTS0 && posts[1] == POSTS1 && !waits[0] && !waits[1];
    n = 0; i = 0; k = 0; cookie = 0; any = false; follows = false; same = false
}

/* ---- what happens ---- */

inline post()
{
    k = (n == 0 -> posts[0] : POSTS0 + posts[1]);
    posts[n]++;
    if
    :: !known[n] -> known[n] = incarnation[1 - n]; token[n] = incarnation[1 - n]
    :: else
    fi;
    outcome[k] = PENDING;
    era[k] = (n == 0 -> incarnation[0] : known[1]);
    i = k;
    meet();
    message[n] = i;
    waits[n] = true;
    next[n]++;
    data_acked[n] = true;
    send_data()
}

inline restart()
{
    n = 0;
    if
    :: waits[0] -> outcome[message[0]] = ERROR
    :: else
    fi;
    unmeet();
    known[0] = 0; token[0] = 0; forgot[0] = false; newest[0] = 0;
    incarnation[0]++
}

#define IDLE      (!used[0] && !used[1] && !ack_owed[0] && !ack_owed[1] && !reply_owed[0] && !reply_owed[1])
#define QUIET     (IDLE && !lost[0] && !lost[1])
#define MAY_POST(m) (posts[m] < (m == 0 -> POSTS0 : POSTS1) && !waits[m])
#if MUTANT == 3
#define CONFIRMED(m) (!waits[m])
#else
#define CONFIRMED(m) (!waits[m] && (data_acked[m] || (probe_answered[m] && probe_acked[m])))
#endif
#define MAY_FORGET(m) (IDLE && met[m] && CONFIRMED(m))
/* It has to know whether its peer knows: look() */
#define MAY_CONFIRM(m) (IDLE && met[m] && !waits[m] && !CONFIRMED(m))

inline probe()
{
    probe_acked[n] = true;
    probe_answered[n] = false;
    probe_number[n] = (probe_number[n] + 1) % 4;
    patient[n] = true;
    send(PROBE, 0)
}

#define EITHER(what) if :: what(0) -> n = 0 :: what(1) -> n = 1 fi
#define SOME(what)   (what(0) || what(1))
#define USED(m)      (used[m])
#define ACK_OWED(m)  (ack_owed[m])
#define REPLY_OWED(m) (reply_owed[m])
#define LOST(m)      (lost[m])
#define WAITS(m)     (waits[m])

active proctype world()
{
    do
    :: atomic { SOME(MAY_POST) -> EITHER(MAY_POST); d_step { post(); rest() } }
    :: atomic { SOME(USED) ->
        EITHER(USED);
        if
        :: i = n * SLOTS
        :: overtakes && used[n] == 3 -> overtakes--; i = n * SLOTS + 1
        fi;
        if
        :: true
        :: faults -> faults--; any = true
        fi;
        d_step {
            take();
            if
            :: !any -> clear()
            :: else
            fi;
            rest() } }
    :: atomic { SOME(USED) && faults ->
        EITHER(USED);
        if
        :: i = n * SLOTS
        :: used[n] == 3 -> i = n * SLOTS + 1
        fi;
        d_step { faults--; clear(); rest() } }
    :: atomic { SOME(ACK_OWED) -> EITHER(ACK_OWED); d_step { send(ACK, 0); rest() } }
    :: atomic { SOME(REPLY_OWED) -> EITHER(REPLY_OWED);
        d_step { reply_owed[n] = false; send(REPLY, 0); reply_number[n] = 0; rest() } }
    :: atomic { SOME(LOST) -> EITHER(LOST); d_step { send_data(); rest() } }
    :: d_step { restarts && posts[0] < POSTS0 -> restarts--; restart(); rest() }
    :: atomic { forgets && !done && (SOME(MAY_FORGET)) -> EITHER(MAY_FORGET);
        d_step {
            forgets--;
            unmeet();
            known[n] = 0; token[n] = 0; newest[n] = 0;
            forgot[n] = true;
            introduced[1 - n] = false; /* after such a silence it leads with its intro */
            rest() } }
    :: atomic { looks && !done && (SOME(MAY_CONFIRM)) -> EITHER(MAY_CONFIRM);
        d_step { looks--; introduced[0] = false; introduced[1] = false; probe(); rest() } }
    :: atomic { early && (SOME(WAITS)) -> EITHER(WAITS); d_step { early--; probe(); rest() } }
    :: done && QUIET -> break
    :: d_step { !done && QUIET && !(SOME(MAY_POST)) -> /* it was silent for long */
        assert(SOME(WAITS)); /* else: a deadlock */
        n = (waits[1 - turn] -> 1 - turn : turn);
        turn = n;
        introduced[n] = false;
        probe();
        rest() }
    od;
    k = 0;
    do
    :: k < MESSAGES ->
        assert(outcome[k] == OK || (outcome[k] == ERROR && incarnation[0] > 1));
        k++
    :: else -> break
    od
}

ltl completes { <> done }
