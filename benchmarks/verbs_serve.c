/* SPDX-License-Identifier: BSD-3-Clause */
/* The end that does what it is told; see verbs_measure.h. */
#include "benchmarks/verbs_measure.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "benchmarks/raw_link.h"

/* Polls that find nothing, after which the control connection is looked at, and the clock. */
#define LOOK_EVERY 64
/* After the last post: over UD partial records are handed over later, and nothing else comes. */
#define QUIET_SECONDS_UD (1e-9 * VERBS_RECORD_NS + 0.03)
#define QUIET_SECONDS    5.0
/* A caller that is silent for so long is gone. */
#define CALLER_SECONDS 30.0

static void tell(struct verbs_session *s, const struct verbs_message *message)
{
    raw_tell(s->control, message, sizeof *message);
}

static struct verbs_counts since(const struct verbs_counts *now, const struct verbs_counts *before)
{
    return (struct verbs_counts){
        .received = now->received - before->received,
        .partial = now->partial - before->partial,
        .valid_bytes = now->valid_bytes - before->valid_bytes,
        .last_bytes = now->last_bytes - before->last_bytes,
    };
}

/* ---- round trips --------------------------------------------------------------------------- */

struct echo {
    uint32_t bytes;
    uint64_t answered; /* messages received until then have their answer */
};

static void answer(struct verbs_session *s, struct echo *echo)
{
    const volatile uint8_t *last = s->end->to + echo->bytes - 1;
    const double deadline = verbs_now() + QUIET_SECONDS;
    bool owed;
    if (verbs_is_silent(s->plan)) {
        const uint8_t serial = *last;
        owed = serial != s->serial;
        s->serial = s->end->from[echo->bytes - 1] = serial;
    } else {
        owed = s->end->counts.received != echo->answered;
        echo->answered = s->end->counts.received;
    }
    if (owed && !verbs_is_one_sided(s->plan))
        (void)verbs_post(s, echo->bytes, 0, 0, deadline);
}

static void serve_trips(struct verbs_session *s, uint32_t bytes)
{
    struct echo echo = {.bytes = bytes, .answered = s->end->counts.received};
    struct verbs_message message = {.word = VERBS_READY};
    double heard = verbs_now();
    s->end->to[bytes - 1] = 0;
    s->serial = 0;
    tell(s, &message);
    for (unsigned empty = 0;;) {
        empty = s->ops->poll(s->end) ? 0 : empty + 1;
        answer(s, &echo);
        if (empty % LOOK_EVERY != LOOK_EVERY - 1)
            continue;
        (void)sched_yield();
        if (verbs_hear_now(s, &message))
            break;
        if (verbs_now() - heard > CALLER_SECONDS)
            verbs_die("the caller is silent", ETIMEDOUT);
    }
    message = (struct verbs_message){.word = VERBS_RESULT};
    tell(s, &message);
}

/* ---- streams ------------------------------------------------------------------------------- */

struct sink {
    struct verbs_counts before;
    uint64_t posted; /* of the caller, and its last mark; UINT64_MAX: it goes on */
    uint64_t mark;
    double moved; /* when something came last */
    double last;  /* when something whole came last, or a mark */
};

static void look(struct verbs_session *s, struct sink *sink)
{
    struct verbs_message message;
    if (sink->posted == UINT64_MAX && verbs_hear_now(s, &message)) {
        sink->posted = message.count;
        sink->mark = message.mark;
        sink->moved = verbs_now();
    }
}

static bool is_over(const struct verbs_session *s, const struct sink *sink)
{
    const struct verbs_counts *now = &s->end->counts;
    const bool ud = s->plan->service == VERBS_UD, going = sink->posted == UINT64_MAX;
    const double quiet = going ? CALLER_SECONDS : ud ? QUIET_SECONDS_UD : QUIET_SECONDS;
    if (s->end->failed || verbs_now() - sink->moved > quiet)
        return true;
    if (going)
        return false;
    if (verbs_is_one_sided(s->plan))
        return true;
    const struct verbs_counts come = since(now, &sink->before);
    return now->mark >= sink->mark &&
           (verbs_is_silent(s->plan) || come.received + come.partial >= sink->posted);
}

static void serve_stream(struct verbs_session *s)
{
    struct verbs_message message = {.word = VERBS_READY};
    struct sink sink = {.before = s->end->counts, .posted = UINT64_MAX, .moved = verbs_now()};
    const struct verbs_counts *now = &s->end->counts;
    uint64_t whole = now->received, mark = now->mark;
    sink.last = sink.moved;
    tell(s, &message);
    for (unsigned empty = 0;;) {
        const bool moved = s->ops->poll(s->end);
        empty = moved ? 0 : empty + 1;
        if (moved)
            sink.moved = verbs_now();
        if (now->received != whole || now->mark != mark)
            sink.last = sink.moved;
        if (now->mark != mark && s->plan->service == VERBS_UD)
            tell(s, &(struct verbs_message){.word = VERBS_CREDIT, .mark = now->mark});
        whole = now->received;
        mark = now->mark;
        if (empty % LOOK_EVERY == LOOK_EVERY - 1) {
            (void)sched_yield();
            look(s, &sink);
            if (is_over(s, &sink))
                break;
        }
    }
    message = (struct verbs_message){.word = VERBS_RESULT,
                                     .mark = now->mark,
                                     .last = sink.last,
                                     .counts = since(now, &sink.before)};
    tell(s, &message);
}

void verbs_serve(struct verbs_session *s)
{
    const double silence = CALLER_SECONDS;
    for (double heard = verbs_now();;) {
        struct verbs_message message;
        (void)s->ops->poll(s->end);
        if (!verbs_hear_now(s, &message)) {
            if (verbs_now() - heard > silence)
                verbs_die("the caller is silent", ETIMEDOUT);
            continue;
        }
        if (message.word == VERBS_TRIPS)
            serve_trips(s, message.bytes);
        else if (message.word == VERBS_STREAM)
            serve_stream(s);
        else
            return;
        heard = verbs_now();
    }
}
