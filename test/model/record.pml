/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record (RDMA Write-Record over RD): gets, short gets and puts, one after the other, over a
 * network that loses, repeats and reorders.
 *
 * Mirrors: common/rel/record.c (dw_record_sink_on_segment, _on_gap, _on_timeout,
 * dw_record_source_on_status, _next), common/record/sink.c (find, dw_sink_place, on_full, on_timer,
 * dw_sinks_on_probe_reply), grant.c (give, grant_in_turn, dw_grant_first), record.c (dw_record_end,
 * dw_record_abandon, dw_record_destroy), common/rd/rdma.c (dw_rdma_on_read_request, on_open,
 * on_status, on_complete, on_abort, dw_rdma_end, answer_short_read).
 *
 * Abstracted away: bytes (a record has UNITS segments, each with a bit in the validity map), trains,
 * budgets and windows (a grant of GRANT more may be given at any time), STags. What is sequenced
 * comes exactly once, in any order: window.pml shows that. The timer of a sink may fire early, EARLY
 * times, and fires whenever nothing else can happen. A STATUS asks for ASKED units at most.
 *
 * What may happen to a record besides: its responder refuses it or deregisters the region amid it;
 * the queue pair of its requester goes (ENDINGS such events in all). A get may be held until its
 * release is posted.
 *
 * Holds: a requester is told once; told success only when every byte is there; nothing is placed
 * once the application has its buffer back, nothing read from a source that was released,
 * deregistered or told; a source is released once; no deadlock; both ends of every record end.
 *
 * Bounds: see the defaults, and `run'. 166,411 states with one record of 3 units, 1 fault, 1 early
 * timer, 1 ending; 57,792 with two of 2 units, 1 fault.
 *
 * MUTANT: 1 the last segment completes, not the map; 2 a sink that is held takes segments; 3 the
 * timer asks for nothing; 4 COMPLETE is not sequenced; 5 a withdrawal does not wait until the peer is
 * known to have the request; 6 the record id is not looked at; 7 grants are not repeated by STATUS
 * that the timer causes.
 */
#ifndef RECORDS
#define RECORDS 2
#endif
#ifndef UNITS
#define UNITS 3
#endif
#ifndef GRANT
#define GRANT 2
#endif
#ifndef ASKED
#define ASKED 2
#endif
#ifndef REORDER
#define REORDER 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef EARLY
#define EARLY 1
#endif
#ifndef ENDINGS
#define ENDINGS 1
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define STATUSES 2 /* on the way; a further one is as good as lost */

#define BIT(i)   (1 << (i))
#define BELOW(n) (BIT(n) - 1)
#define ALL      BELOW(UNITS)

#define NONE  0
#define LIVE  1
#define HELD  2
#define ENDED 3

#define PUT   1
#define GET   2
#define SHORT 3

byte kind[RECORDS];
byte current; /* records begun */

/* The sink's end; gone: the queue pair of a requester. */
byte sink[RECORDS], map[RECORDS], s_granted[RECORDS], requested[RECORDS];
bool s_gone[RECORDS], late[RECORDS];
/* The source's. */
byte source[RECORDS], sent[RECORDS], granted[RECORDS], again[RECORDS];
bool o_gone[RECORDS];

/* On the way, sequenced; req_grant: in the request of a get. */
bool d_request[RECORDS], d_complete[RECORDS], d_answer[RECORDS];
bool d_abort_source[RECORDS], d_abort_sink[RECORDS], d_withdrawn[RECORDS];
byte req_grant[RECORDS];
/* And not. */
byte net[RECORDS];  /* segments, as bits */
bool probe, reply, u_complete[RECORDS];
byte st_used, st_record[STATUSES], st_granted[STATUSES], st_missing[STATUSES];

/* Only for the judge. */
byte told[RECORDS], released[RECORDS];
bool sink_closed[RECORDS], source_closed[RECORDS], gone[RECORDS];
byte placed[RECORDS];

byte faults = FAULTS, early = EARLY, endings = ENDINGS;
byte r, u, k, m, limit;
bool ok, keep, done, any;

/* The requester's application is told. */
inline tell(success)
{
    told[r]++;
    assert(told[r] == 1 && !gone[r]);
    assert(!success || placed[r] == ALL)
}

inline end_sink()
{
    sink[r] = ENDED;
    sink_closed[r] = true;
    late[r] = false
}

inline end_source()
{
    source[r] = ENDED;
    source_closed[r] = true
}

inline send_status(g, missing)
{
    k = 0;
    do
    :: k < STATUSES && (st_used & BIT(k)) -> k++
    :: else -> break
    od;
    if
    :: k < STATUSES ->
        st_used = st_used | BIT(k);
        st_record[k] = r;
        st_granted[k] = g;
        st_missing[k] = missing
    :: else
    fi
}

inline send_complete()
{
#if MUTANT == 4
    u_complete[r] = true;
#else
    assert(!d_complete[r]);
    d_complete[r] = true;
#endif
}

/* Of the holes in [from, until) the first ASKED. */
inline ask(from, until)
{
    m = 0;
    limit = 0;
    u = from;
    do
    :: u < until && limit < ASKED ->
        if
        :: !(map[r] & BIT(u)) -> m = m | BIT(u); limit++
        :: else
        fi;
        u++
    :: else -> break
    od;
    requested[r] = u
}

inline ask_gap()
{
    limit = 0;
    u = 0;
    do
    :: u < UNITS ->
        if
        :: map[r] & BIT(u) -> limit = u + 1
        :: else
        fi;
        u++
    :: else -> break
    od;
    limit = (limit > REORDER -> limit - REORDER : 0);
    k = limit;
    if
    :: k > requested[r] ->
        ask(requested[r], k);
        if
        :: m -> send_status(s_granted[r], m)
        :: else
        fi
    :: else
    fi
}

inline on_full()
{
    if
    :: kind[r] != PUT -> sink_closed[r] = true; tell(true)
    :: else
    fi;
    if
    :: keep && kind[r] != PUT -> sink[r] = HELD; late[r] = false
    :: else -> send_complete(); end_sink()
    fi
}

/* dw_sink_place(): `bits` of record r come; keep: the application holds a get. */
inline place(bits)
{
    if
#if MUTANT == 2
    :: sink[r] == LIVE || sink[r] == HELD ->
#else
    :: sink[r] == LIVE ->
#endif
        if
        :: s_gone[r] -> send_complete(); end_sink()
        :: else ->
            assert(!sink_closed[r]);
            assert((bits & ~BELOW(s_granted[r])) == 0 || kind[r] == SHORT);
            late[r] = false;
            placed[r] = placed[r] | bits;
            map[r] = map[r] | bits;
            if
#if MUTANT == 1
            :: bits & BIT(UNITS - 1) -> on_full()
#else
            :: map[r] == ALL -> on_full()
#endif
            :: else -> ask_gap()
            fi
        fi
    :: else /* stale */
    fi
}

/* dw_record_source_on_status(), on_status() */
inline on_status()
{
    r = st_record[k];
    if
    :: source[r] == LIVE && o_gone[r] -> d_withdrawn[r] = true; end_source()
    :: source[r] == LIVE && !o_gone[r] ->
        if
        :: st_granted[k] > granted[r] -> granted[r] = st_granted[k]
        :: else
        fi;
        again[r] = again[r] | (st_missing[k] & BELOW(sent[r]))
    :: else
    fi
}

inline drop_status()
{
    st_used = st_used & ~BIT(k);
    st_record[k] = 0;
    st_granted[k] = 0;
    st_missing[k] = 0
}

/* dw_record_source_next(): the next unit leaves. */
inline send_next()
{
    assert(!source_closed[r]);
    if
    :: again[r] ->
        u = 0;
        do
        :: !(again[r] & BIT(u)) -> u++
        :: else -> break
        od;
        again[r] = again[r] & ~BIT(u)
    :: else -> u = sent[r]; sent[r]++
    fi;
    net[r] = net[r] | BIT(u)
}

/* The responder has it, or refuses it. */
inline on_request()
{
    d_request[r] = false;
    if
    :: !ok && kind[r] == PUT -> d_abort_source[r] = true; sink[r] = ENDED
    :: !ok && kind[r] != PUT -> d_abort_sink[r] = true; source[r] = ENDED
    :: ok && kind[r] == PUT -> sink[r] = LIVE
    :: ok && kind[r] != PUT ->
        source[r] = LIVE;
        granted[r] = req_grant[r];
        if
        :: kind[r] == SHORT -> d_answer[r] = true; sent[r] = UNITS
        :: else
        fi
    fi
}

inline on_complete()
{
    if
    :: source[r] == LIVE ->
        if
        :: kind[r] != PUT -> released[r]++; assert(released[r] == 1)
        :: kind[r] == PUT && !o_gone[r] -> tell(true)
        :: else
        fi;
        end_source()
    :: else
    fi
}

/* From who was asked; then from who asked. */
inline on_abort()
{
    if
    :: d_abort_source[r] ->
        d_abort_source[r] = false;
        if
        :: source[r] == LIVE ->
            end_source();
            if
            :: !o_gone[r] -> tell(false)
            :: else
            fi
        :: else
        fi
    :: d_abort_sink[r] ->
        d_abort_sink[r] = false;
        if
        :: sink[r] == LIVE ->
            end_sink();
            if
            :: !s_gone[r] -> tell(false)
            :: else
            fi
        :: else
        fi
    :: d_withdrawn[r] ->
        d_withdrawn[r] = false;
        if
        :: sink[r] == LIVE -> end_sink()
        :: else
        fi
    fi
}

/* dw_record_abandon(): the requester's queue pair goes. */
inline abandon()
{
    gone[r] = true;
    if
    :: kind[r] == PUT ->
        o_gone[r] = true;
        source_closed[r] = true;
        if
#if MUTANT == 5
        :: true -> d_withdrawn[r] = true; end_source()
#else
        :: granted[r] -> d_withdrawn[r] = true; end_source()
#endif
        :: else
        fi
    :: else ->
        s_gone[r] = true;
        sink_closed[r] = true;
        if
        :: map[r] -> send_complete(); end_sink()
        :: else
        fi
    fi
}

/* dw_rdma_end(): the responder deregisters the region. */
inline deregister()
{
    if
    :: kind[r] == PUT -> end_sink(); d_abort_source[r] = true
    :: else -> end_source(); d_abort_sink[r] = true
    fi
}

inline begin()
{
    r = current;
    current++;
    kind[r] = k;
    d_request[r] = true;
    if
    :: k == PUT -> source[r] = LIVE
    :: k == GET ->
        sink[r] = LIVE;
        req_grant[r] = (ok -> GRANT : 0);
        s_granted[r] = req_grant[r]
    :: k == SHORT ->
        sink[r] = LIVE;
        req_grant[r] = UNITS;
        s_granted[r] = UNITS
    fi
}

/* Of record u: its sink waits for what was granted. */
#define DUE(u) (sink[u] == LIVE && (map[u] != BELOW(s_granted[u])) && !d_request[u])

inline on_timer()
{
    r = 0;
    do
    :: r < RECORDS ->
        if
        :: DUE(r) -> late[r] = true; probe = true
        :: else
        fi;
        r++
    :: else -> break
    od
}

/* dw_sinks_on_probe_reply() */
inline on_reply()
{
    r = 0;
    do
    :: r < RECORDS ->
        if
        :: late[r] && DUE(r) ->
            late[r] = false;
            ask(0, s_granted[r]);
#if MUTANT != 3
#if MUTANT == 7
            send_status(0, m)
#else
            send_status(s_granted[r], m)
#endif
#endif
        :: else
        fi;
        r++
    :: else -> break
    od
}

inline rest()
{
    done = current == RECORDS;
    any = false;
    r = 0;
    do
    :: r < current ->
        done = done && sink[r] == ENDED && source[r] == ENDED;
        r++
    :: else -> break
    od;
    r = 0; u = 0; k = 0; m = 0; limit = 0; ok = false; keep = false
}

/* The n-th of what there is to choose from. */
#if RECORDS == 1
#define EITHER(what) if :: what(0) -> r = 0 fi
#define SOME(what)   (what(0))
#else
#define EITHER(what) if :: what(0) -> r = 0 :: what(1) -> r = 1 fi
#define SOME(what)   (what(0) || what(1))
#endif
#define READY(n)     (source[n] == LIVE && !o_gone[n] && (again[n] || sent[n] < granted[n]))
#define GROWS(n)     (sink[n] == LIVE && s_granted[n] < UNITS && !d_request[n] && st_used != BELOW(STATUSES))
#define REQUEST(n)   (d_request[n])
#define ANSWER(n)    (d_answer[n])
#define COMPLETE(n)  (d_complete[n])
#define COMPLETE_U(n) (u_complete[n])
#define ABORT(n)     (d_abort_source[n] || d_abort_sink[n] || d_withdrawn[n])
#define SEGMENT(n)   (net[n])
#define HOLDS(n)     (sink[n] == HELD)
#define ASKS(n)      (n < current && !gone[n] && !told[n])
#define RESPONDS(n)  ((kind[n] == PUT && sink[n] == LIVE) || (kind[n] > PUT && source[n] == LIVE))
/* The application has its buffer back: it may use it for the next. */
#define MAY_BEGIN    (current < RECORDS && (current == 0 || told[current - 1] || gone[current - 1]))

/* Nothing happens any more but by a timer; what the environment may still do does not count. */
#define QUIET \
    (!(SOME(REQUEST)) && !(SOME(GROWS)) && !(SOME(READY)) && !(SOME(SEGMENT)) && \
     !(SOME(ANSWER)) && !(SOME(COMPLETE)) && !(SOME(COMPLETE_U)) && !(SOME(ABORT)) && \
     !(SOME(HOLDS)) && !st_used && !probe && !reply && !(MAY_BEGIN))

inline choose_segment()
{
    EITHER(SEGMENT);
    u = 0;
    do
    :: net[r] & BIT(u) -> break
    :: net[r] >> (u + 1) -> u++
    od
}

inline choose_status()
{
    if
    :: st_used & 1 -> k = 0
    :: st_used & 2 -> k = 1
    fi
}

active proctype world()
{
    do
    :: atomic { MAY_BEGIN ->
        if
        :: k = PUT
        :: k = GET
        :: k = GET; ok = true
        :: k = SHORT
        fi;
        d_step { begin(); rest() } }
    :: atomic { SOME(REQUEST) ->
        EITHER(REQUEST);
        if
        :: ok = true
        :: endings -> endings--
        fi;
        d_step { on_request(); rest() } }
    :: atomic { SOME(GROWS) -> /* grant_in_turn() */
        EITHER(GROWS);
        d_step {
            s_granted[r] = (s_granted[r] + GRANT < UNITS -> s_granted[r] + GRANT : UNITS);
            send_status(s_granted[r], 0);
            rest() } }
    :: atomic { SOME(READY) -> EITHER(READY); d_step { send_next(); rest() } }
    :: atomic { SOME(SEGMENT) ->
        choose_segment();
        if
        :: net[r] = net[r] & ~BIT(u)
        :: faults -> faults--
        fi;
        if
        :: keep = true
        :: true
        fi;
        d_step {
#if MUTANT == 6
            if
            :: RECORDS == 2 && sink[0] == ENDED && r == 0 -> r = 1
            :: else
            fi;
#endif
            k = BIT(u);
            place(k);
            rest() } }
    :: atomic { SOME(SEGMENT) && faults -> choose_segment();
        d_step { net[r] = net[r] & ~BIT(u); faults--; rest() } }
    :: atomic { SOME(ANSWER) ->
        EITHER(ANSWER);
        if
        :: keep = true
        :: true
        fi;
        d_step { d_answer[r] = false; place(ALL); rest() } }
    :: atomic { st_used ->
        choose_status();
        any = false;
        if
        :: true
        :: faults -> faults--; any = true
        fi;
        d_step {
            on_status();
            if
            :: !any -> drop_status()
            :: else
            fi;
            rest() } }
    :: atomic { st_used && faults -> choose_status(); d_step { drop_status(); faults--; rest() } }
    :: atomic { SOME(COMPLETE) -> EITHER(COMPLETE);
        d_step { d_complete[r] = false; on_complete(); rest() } }
#if MUTANT == 4
    :: atomic { SOME(COMPLETE_U) -> EITHER(COMPLETE_U);
        if
        :: u_complete[r] = false; on_complete()
        :: faults -> faults--; u_complete[r] = false
        fi;
        rest() }
#endif
    :: atomic { SOME(ABORT) -> EITHER(ABORT); d_step { on_abort(); rest() } }
    :: atomic { SOME(HOLDS) -> EITHER(HOLDS); /* diwarp_post_release() */
        d_step { send_complete(); end_sink(); rest() } }
    :: atomic { endings && SOME(ASKS) -> EITHER(ASKS); d_step { endings--; abandon(); rest() } }
    :: atomic { endings && SOME(RESPONDS) -> EITHER(RESPONDS);
        d_step { endings--; deregister(); rest() } }
    :: atomic { probe ->
        if
        :: reply = true
        :: faults -> faults--
        fi;
        probe = false }
    :: atomic { reply -> d_step { reply = false; on_reply(); rest() } }
    :: d_step { early && !probe && !reply && (SOME(DUE)) -> early--; on_timer(); rest() }
    :: done && QUIET -> break
    :: d_step { !done && QUIET -> assert(SOME(DUE)); on_timer(); rest() } /* else: a deadlock */
    od;
    r = 0;
    do
    :: r < RECORDS -> assert(told[r] == 1 || gone[r]); r++
    :: else -> break
    od
}

ltl completes { <> done }
