/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window of RD: one sender, one receiver, a network that loses, repeats and reorders.
 *
 * Mirrors: common/rel/sendwin.c (dw_sendwin_on_send, _on_resend, _on_ack, flag_lost, is_overtaken,
 * _on_probe_reply, _room_datagrams, _may_send), common/rel/recvwin.h (_check, _on_received, _sack),
 * common/rd/receive.c (is_new, take_segments, take_ack, take_credit), common/rd/transmit.c
 * (dw_transmit_lost), common/rd/probe.c (dw_probe, dw_probe_on_timer), service.c (on_room).
 *
 * Abstracted away: bytes and truesize (credit is none or enough), the congestion window (the window
 * is what PSNs allow; a smaller one only sends less), segments, the intro. Time is the order of
 * transmissions: a probe tells of all that was sent before it. The timer may fire early, EARLY
 * times, and fires whenever nothing else can happen. Acknowledgements wait for any time. A datagram
 * dies before the receiver has moved on by half the sequence space: 2^31 datagrams in the product.
 *
 * Holds: each message is delivered once and inside the window; what is acknowledged was delivered;
 * no deadlock; all messages are acknowledged once the network has lost and repeated what it may
 * (FAULTS), and the receiver was without room ROOM times.
 *
 * Bounds: see the defaults, and `run' for those that are checked. 344,344 states with 4 messages,
 * window 3, 2 faults, 1 early probe; 162,428 with 1 fault and 1 time without room; 13,263 with window
 * 2, 7 messages over 4 sequence numbers, 2 faults.
 *
 * MUTANT: 1 a repeated DATA is delivered again; 2 neither end keeps to the window; 3 the answer to a
 * probe makes nothing lost; 4 the SACK is read one PSN too early; 5 no probe while there is no credit;
 * 6 datagrams live for ever; 7 (PATHS 2) what is sent again takes the way that it went first.
 *
 * PATHS 2: two ways to the receiver. The sender leaves one for the other at any time, SWITCHES
 * times, with what is under way on the old one still to come; with CUT way 0 goes dead, and what is
 * on it, both ways, is lost: the sender leaves it when the timer fires. An acknowledgement takes the
 * way that the last datagram came by.
 */
#ifndef WINDOW
#define WINDOW 3
#endif
#ifndef SEQ
#define SEQ (4 * WINDOW) /* sequence numbers; a multiple of WINDOW, as 2^32 is of 256 */
#endif
#ifndef REPORTED
#define REPORTED 2 /* DW_SACK_DATAGRAMS: the first and, by the SACK, those behind it */
#endif
#ifndef REORDER
#define REORDER 1 /* DW_REORDER_DATAGRAMS */
#endif
#ifndef MESSAGES
#define MESSAGES 5
#endif
#ifndef FIRST
#define FIRST (SEQ - 2) /* PSN of message 0: next to the wrap */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef EARLY
#define EARLY 1
#endif
#ifndef ROOM
#define ROOM 1
#endif
#ifndef PATHS
#define PATHS 1
#endif
#ifndef SWITCHES
#define SWITCHES 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define COPIES 2 /* of one DATA on one way; of more, all but two are as good as lost */
#define ACKS   2 /* datagrams on their way back; further ones are not sent before there is room */

#define PSN(id)    (((id) + FIRST) % SEQ)
#define AHEAD(a, b) (((a) + SEQ - (b)) % SEQ) /* dw_serial_diff(): negative from SEQ / 2 on */
#define BIT(i)     (1 << (i))

/* The sender. */
byte next;        /* message to be sent next; its PSN is PSN(next) */
short unacked, lost;
byte order[MESSAGES];
byte next_order, acked_order;
bool credit = true;
byte way;

/* The receiver. */
byte r_ack = FIRST % SEQ;
byte came;        /* by PSN modulo WINDOW */
bool room = true, told_full, ack_owed, reply_owed;
byte reply_stamp; /* of the probe */
byte r_way;

/* Only for the judge: by message, without wrap. */
short delivered;
byte r_first;

/* On the way: copies of each DATA; one probe on each way; what goes back. */
byte net[MESSAGES * PATHS];
byte probe[PATHS];   /* order at its sending + 1; 0: none */
byte b_used;         /* slots of the way back, as bits */
byte b_ack[ACKS];    /* without wrap, so that age can be told */
byte b_sack[ACKS];
byte b_stamp[ACKS];  /* of the probe that it answers; 0: none */
bool b_credit[ACKS];
byte b_way[ACKS];

byte faults = FAULTS, early = EARLY, refusals = ROOM, switches = SWITCHES;
bool dead;           /* way 0 is */
#ifdef CUT
bool may_cut = true;
#endif
bool done;
byte i, j, k, first, ahead, stamp;
bool any, had, kept;

/* ---- the sender ---- */

/* The oldest that is not acknowledged; next: all are. */
inline find_first()
{
    first = 0;
    do
    :: first < next && !(unacked & BIT(first)) -> first++
    :: else -> break
    od
}

inline put(id)
{
#if MUTANT == 7
    j = 0;
#else
    j = way;
#endif
    if
    :: !(dead && j == 0) && net[j * MESSAGES + id] < COPIES -> net[j * MESSAGES + id]++
    :: else
    fi
}

inline transmit(id)
{
    next_order++;
    order[id] = next_order;
    lost = lost & ~BIT(id);
    put(id)
}

/* dw_transmit_lost() */
inline transmit_lost()
{
    k = 0;
    do
    :: k < next && credit ->
        if
        :: lost & BIT(k) -> transmit(k)
        :: else
        fi;
        k++
    :: else -> break
    od
}

/* Of those that acknowledgements report; until: order up to which, overtaken: only such. */
inline flag_lost(overtaken, until)
{
    find_first();
    k = first;
    do
    :: k < next && k - first < REPORTED ->
        if
        :: (unacked & BIT(k)) && order[k] <= until &&
           (!overtaken || acked_order >= order[k] + REORDER) -> lost = lost | BIT(k)
        :: else
        fi;
        k++
    :: else -> break
    od
}

/* dw_sendwin_on_ack() */
inline on_ack(ack, sack)
{
    any = false;
    if
    :: AHEAD(PSN(next), ack) < SEQ / 2 ->
        k = 0;
        do
        :: k < next ->
            ahead = AHEAD(PSN(k), ack);
            if
            :: (unacked & BIT(k)) && (ahead >= SEQ / 2 ||
#if MUTANT == 4
               (ahead < REPORTED && (sack & BIT(ahead))))
#else
               (ahead > 0 && ahead < REPORTED && (sack & BIT(ahead - 1))))
#endif
                ->
                assert(delivered & BIT(k));
                unacked = unacked & ~BIT(k);
                lost = lost & ~BIT(k);
                if
                :: order[k] > acked_order -> acked_order = order[k]
                :: else
                fi;
                any = true;
                order[k] = 0
            :: else
            fi;
            k++
        :: else -> break
        od;
        if
        :: any -> flag_lost(true, 255)
        :: else
        fi
    :: else
    fi
}

/* dw_rd_take(): the way back's slot i has come. */
inline take_back()
{
    had = credit;
    stamp = b_stamp[i];
    on_ack(PSN(b_ack[i]), b_sack[i]);
    if
    :: stamp && b_credit[i] && MUTANT != 3 -> flag_lost(false, stamp - 1)
    :: else
    fi;
    /* take_credit(): not of one that others have overtaken */
    find_first();
    if
    :: AHEAD(PSN(b_ack[i]), PSN(first)) < SEQ / 2 -> credit = b_credit[i]
    :: else
    fi;
    if
    :: credit && !had -> flag_lost(false, 255)
    :: else
    fi;
    transmit_lost()
}

/* ---- the receiver ---- */

/* One copy of a DATA has come by way j. */
inline take(id)
{
    r_way = j;
    ahead = AHEAD(PSN(id), r_ack);
    ack_owed = true;
    if
#if MUTANT == 1
    :: ahead < SEQ / 2 && ahead < WINDOW && room ->
#elif MUTANT == 2
    :: ahead < SEQ / 2 && !(came & BIT(PSN(id) % WINDOW)) && room ->
#else
    :: ahead < WINDOW && !(came & BIT(PSN(id) % WINDOW)) && room ->
#endif
        assert(!(delivered & BIT(id)));
        assert(id >= r_first && id < r_first + WINDOW);
        delivered = delivered | BIT(id);
        came = came | BIT(PSN(id) % WINDOW);
        do
        :: came & BIT(r_ack % WINDOW) ->
            came = came & ~BIT(r_ack % WINDOW);
            r_ack = (r_ack + 1) % SEQ;
            r_first++
        :: else -> break
        od
    :: else
    fi
}

/* Into a free slot: the windows as they are; a reply to the probe, if one is owed. */
inline send_back()
{
    k = 0;
    do
    :: b_used & BIT(k) -> k++
    :: else -> break
    od;
    if
    :: dead && r_way == 0
    :: else ->
        b_used = b_used | BIT(k);
        b_ack[k] = r_first;
        ahead = 1;
        do
        :: ahead < REPORTED ->
            if
            :: came & BIT((r_ack + ahead) % WINDOW) -> b_sack[k] = b_sack[k] | BIT(ahead - 1)
            :: else
            fi;
            ahead++
        :: else -> break
        od;
        b_stamp[k] = (reply_owed -> reply_stamp : 0);
        b_credit[k] = room;
        b_way[k] = r_way
    fi;
    told_full = !room;
    ack_owed = false;
    reply_owed = false;
    reply_stamp = 0
}

/* ---- the network ---- */

inline drop_back()
{
    b_used = b_used & ~BIT(i);
    b_ack[i] = 0;
    b_sack[i] = 0;
    b_stamp[i] = 0;
    b_credit[i] = 0;
    b_way[i] = 0
}

/* What is too old to be told from what is new. */
inline expire()
{
#if MUTANT != 6
    k = 0;
    do
    :: k < MESSAGES * PATHS ->
        if
        :: (k % MESSAGES) + SEQ / 2 < r_first -> net[k] = 0
        :: else
        fi;
        k++
    :: else -> break
    od
#else
    skip
#endif
}

inline choose_back()
{
    if
    :: b_used & 1 -> i = 0
    :: b_used & 2 -> i = 1
    fi
}

/* Any that there is: k is the last of them. */
inline choose_data()
{
    d_step {
        k = MESSAGES * PATHS - 1;
        do
        :: !net[k] -> k--
        :: else -> break
        od;
        i = 0
    }
    do
    :: net[i] -> break
    :: i < k -> i++
    od
}

inline reset_scratch()
{
    i = 0; j = 0; k = 0; first = 0; ahead = 0; stamp = 0; any = false; had = false; kept = false
}

/* The timer: asks what has arrived; with two ways, by the other one if this one is silent. */
inline send_probe()
{
    if
    :: dead && way == 0 -> way = PATHS - 1
    :: else
    fi;
    if
    :: !(dead && way == 0) && probe[way] == 0 -> probe[way] = next_order + 1
    :: else
    fi
}

#if MUTANT == 2
#define MAY_SEND (next < MESSAGES && (!unacked || credit))
#else
#define MAY_SEND (next < MESSAGES && (!unacked || (credit && span_left)))
#endif
#if MUTANT == 5
#define MAY_ASK (unacked && credit)
#else
#define MAY_ASK (unacked != 0)
#endif

/* Nothing happens any more but by the timer; what the environment may still do does not count. */
#define QUIET \
    (!(MAY_SEND) && !in_net && !in_probe && !b_used && !ack_owed && !reply_owed && room)

bool span_left = true, in_net, in_probe;

inline age(stamped)
{
    if
    :: stamped -> stamped = (stamped > k + 1 -> stamped - k : 1)
    :: else
    fi
}

/* Only what orders are to each other matters: the least of them becomes 1. */
inline renumber_orders()
{
    k = next_order;
    i = 0;
    do
    :: i < MESSAGES ->
        if
        :: (unacked & BIT(i)) && order[i] <= k -> k = order[i] - 1
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < MESSAGES ->
        if
        :: unacked & BIT(i) -> order[i] = order[i] - k
        :: else
        fi;
        i++
    :: else -> break
    od;
    next_order = next_order - k;
    acked_order = (acked_order > k -> acked_order - k : 0);
    age(b_stamp[0]);
    age(b_stamp[1]);
    age(probe[0]);
    age(reply_stamp);
#if PATHS > 1
    age(probe[1])
#endif
}

/* What guards depend on. */
inline look()
{
    renumber_orders();
    find_first();
    span_left = next - first < WINDOW;
    in_net = false;
    in_probe = false;
    k = 0;
    do
    :: k < MESSAGES * PATHS -> in_net = in_net || net[k]; k++
    :: else -> break
    od;
    in_probe = probe[0] != 0;
#if PATHS > 1
    in_probe = in_probe || probe[1] != 0;
#endif
    done = next == MESSAGES && !unacked;
    reset_scratch()
}

active proctype world()
{
    do
    :: d_step { MAY_SEND && !done ->
        unacked = unacked | BIT(next);
        next++;
        transmit(next - 1);
        look() }
    :: atomic { in_net -> /* comes, and stays as a copy if it is repeated */
        choose_data();
        if
        :: net[i]--
        :: faults -> faults--
        fi;
        d_step { j = i / MESSAGES; take(i % MESSAGES); expire(); look() } }
    :: atomic { in_net && faults -> choose_data(); d_step { net[i]--; faults--; look() } }
    :: atomic { in_probe ->
        if
        :: probe[0] -> i = 0
#if PATHS > 1
        :: probe[1] -> i = 1
#endif
        fi;
        if
        :: reply_owed = true; reply_stamp = probe[i]; r_way = i
        :: faults -> faults--
        fi;
        d_step { probe[i] = 0; look() } }
    :: d_step { (ack_owed || reply_owed) && b_used != BIT(ACKS) - 1 -> send_back(); look() }
    :: atomic { b_used ->
        choose_back();
        any = false;
        if
        :: any = true
        :: faults -> faults--
        fi;
        d_step {
            kept = !any;
            if
            :: b_ack[i] + SEQ / 2 >= next -> take_back() /* else it is too old */
            :: else
            fi;
            if
            :: !kept -> drop_back()
            :: else
            fi;
            look() } }
    :: atomic { b_used && faults -> choose_back(); d_step { drop_back(); faults--; look() } }
    :: d_step { room && refusals && !done -> room = false; refusals--; look() }
    :: d_step { !room -> /* on_room() */
        room = true;
        ack_owed = ack_owed || told_full;
        look() }
    :: d_step { early && MAY_ASK && !in_probe -> early--; send_probe(); look() }
#if PATHS > 1
    :: d_step { switches && unacked -> switches--; way = 1 - way; look() }
#endif
#ifdef CUT
    :: d_step { may_cut && unacked ->
        may_cut = false;
        dead = true;
        probe[0] = 0;
        k = 0;
        do
        :: k < MESSAGES -> net[k] = 0; k++
        :: else -> break
        od;
        i = 0;
        do
        :: i < ACKS ->
            if
            :: (b_used & BIT(i)) && b_way[i] == 0 -> drop_back()
            :: else
            fi;
            i++
        :: else -> break
        od;
        look() }
#endif
    :: done && QUIET -> break
    :: d_step { !done && QUIET -> assert(MAY_ASK); send_probe(); look() } /* else: a deadlock */
    od;
    assert(delivered == BIT(MESSAGES) - 1)
}

ltl completes { <> done }
