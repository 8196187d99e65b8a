/* SPDX-License-Identifier: BSD-3-Clause */
/* The end that measures; see verbs_measure.h. Every loop has a deadline: what is lost over UD stays
 * lost. */
#include "benchmarks/verbs_measure.h"

#include <stdio.h>
#include <string.h>

#include "benchmarks/raw_link.h"
#include "benchmarks/samples.h"

#define TRIPS_MAX     50000
#define WARM_UP       20
#define WARM_UP_SHARE 4 /* and no more than this part of the time */
#define TRIPS_MIN     5
#define TRIP_SECONDS  0.2
/* Trips lost in a row: the next would be, too. */
#define LOST_MAX 5
/* A window of UD whose marks are lost. */
#define MARK_SECONDS 0.005
/* What was posted may take so long after the last post. */
#define END_SECONDS 5.0
#define POLL_EVERY  16

void verbs_print_head(const struct verbs_session *s, const char *what, uint32_t bytes)
{
    static const char *const services[] = {"ud", "rd", "rc"}, *const verbs[] = {"send", "write",
                                                                                "read"};
    printf("%s api=%s service=%s verb=%s bytes=%u ", what, s->ops->api, services[s->plan->service],
           verbs[s->plan->verb], bytes);
}

static void begin(struct verbs_session *s, enum verbs_word word, uint32_t bytes)
{
    struct verbs_message message = {.word = word, .bytes = bytes};
    raw_tell(s->control, &message, sizeof message);
    raw_hear(s->control, &message, sizeof message);
    if (message.word != VERBS_READY)
        verbs_die("the server is not ready", 0);
}

static struct verbs_message end_of(struct verbs_session *s, uint64_t count)
{
    struct verbs_message message = {.word = VERBS_DONE, .count = count, .mark = s->mark};
    raw_tell(s->control, &message, sizeof message);
    do
        raw_hear(s->control, &message, sizeof message);
    while (message.word == VERBS_CREDIT);
    if (message.word != VERBS_RESULT)
        verbs_die("the server has no result", 0);
    return message;
}

bool verbs_post(struct verbs_session *s, uint32_t bytes, size_t at, uint32_t mark, double deadline)
{
    for (unsigned tries = 1; !s->end->failed; tries++) {
        if (s->ops->post(s->end, bytes, at, mark) == 0)
            return true;
        (void)s->ops->poll(s->end);
        if (tries % POLL_EVERY == 0 && verbs_now() > deadline)
            return false;
    }
    return false;
}

/* ---- round trips --------------------------------------------------------------------------- */

/* What says that the answer is there. */
static uint64_t answers(const struct verbs_session *s)
{
    return verbs_is_one_sided(s->plan) ? s->end->counts.sent : s->end->counts.received;
}

static bool await(struct verbs_session *s, uint32_t bytes, uint64_t before, double deadline)
{
    const volatile uint8_t *last = s->end->to + bytes - 1;
    const bool silent = verbs_is_silent(s->plan);
    for (unsigned polls = 1; !s->end->failed; polls++) {
        (void)s->ops->poll(s->end);
        if (silent ? *last == s->serial : answers(s) != before)
            return true;
        if (polls % POLL_EVERY == 0 && verbs_now() > deadline)
            return false;
    }
    return false;
}

static bool trip(struct verbs_session *s, uint32_t bytes)
{
    const double deadline =
        verbs_now() + TRIP_SECONDS + (s->plan->service == VERBS_UD ? 0 : END_SECONDS);
    const uint64_t before = answers(s);
    s->serial = s->serial == UINT8_MAX ? 1 : (uint8_t)(s->serial + 1);
    if (verbs_is_silent(s->plan))
        s->end->from[bytes - 1] = s->serial;
    return verbs_post(s, bytes, 0, 0, deadline) && await(s, bytes, before, deadline);
}

static void print_trips(const struct verbs_session *s, uint32_t bytes, double *times, int n,
                        int lost)
{
    if (s->end->failed)
        return;
    verbs_print_head(s, "latency", bytes);
    if (!n) {
        printf("why=no message came whole, there and back\n");
        return;
    }
    samples_sort(times, n);
    printf("us=%.3f p99_us=%.3f trips=%d lost=%d\n", samples_quantile(times, n, 0.5),
           samples_quantile(times, n, 0.99), n, lost);
}

void verbs_trips(struct verbs_session *s, uint32_t bytes, double seconds)
{
    static double times[TRIPS_MAX];
    const double share = verbs_is_one_sided(s->plan) ? 1 : 0.5;
    double stop = verbs_now() + seconds / WARM_UP_SHARE;
    int n = 0, lost = 0, in_row = 0;
    s->end->to[bytes - 1] = 0;
    s->serial = 0;
    begin(s, VERBS_TRIPS, bytes);
    for (int i = 0; i < WARM_UP && in_row < LOST_MAX && verbs_now() < stop; i++)
        in_row = trip(s, bytes) ? 0 : in_row + 1;
    stop = verbs_now() + seconds;
    while (n < TRIPS_MAX && in_row < LOST_MAX && !s->end->failed) {
        const double sent = verbs_now();
        const bool whole = trip(s, bytes);
        const double now = verbs_now();
        if (whole)
            times[n++] = (now - sent) * share * 1e6;
        lost += !whole;
        in_row = whole ? 0 : in_row + 1;
        if (now > stop && n + lost >= TRIPS_MIN)
            break;
    }
    (void)end_of(s, 0);
    print_trips(s, bytes, times, n, lost);
}

/* ---- streams ------------------------------------------------------------------------------- */

/* Over UD nothing says that messages have arrived: after each half of a window two Sends bear the
 * same mark, each in a datagram of its own, and the server tells by TCP that it came. Half a window
 * goes on when all before the last half has been seen, or both marks are lost. */
struct pace {
    uint64_t posted;
    uint32_t credit; /* the highest mark that was seen, or given up */
};

static void post_mark(struct verbs_session *s, double deadline)
{
    s->mark++;
    for (int i = 0; i < 2; i++)
        (void)verbs_post(s, 1, 0, s->mark, deadline);
}

static void await_credit(struct verbs_session *s, struct pace *pace)
{
    const double deadline = verbs_now() + MARK_SECONDS;
    while (s->mark - pace->credit >= 2 && !s->end->failed) {
        struct verbs_message message;
        (void)s->ops->poll(s->end);
        if (verbs_hear_now(s, &message))
            pace->credit = (uint32_t)message.mark;
        else if (verbs_now() > deadline)
            pace->credit = s->mark - 1;
    }
}

/* Requests that completed, whether all came of them or not. */
static uint64_t ended(const struct verbs_session *s)
{
    return s->end->counts.sent + s->end->counts.partial;
}

static void await_room(struct verbs_session *s, uint64_t most, uint64_t before, uint64_t posted,
                       double deadline)
{
    for (unsigned polls = 1; posted - (ended(s) - before) > most; polls++) {
        (void)s->ops->poll(s->end);
        if (s->end->failed || (polls % POLL_EVERY == 0 && verbs_now() > deadline))
            return;
    }
}

/* Posts until `stop`. */
static uint64_t post_all(struct verbs_session *s, uint32_t bytes, double stop)
{
    const bool paced = verbs_is_paced(s->plan);
    const uint32_t window = verbs_window(bytes);
    const uint64_t before = ended(s);
    const double deadline = stop + END_SECONDS;
    struct pace pace = {.credit = s->mark};
    do {
        if (paced && pace.posted && pace.posted % (window / 2) == 0) {
            post_mark(s, deadline);
            await_credit(s, &pace);
        }
        if (!paced)
            await_room(s, window - 1, before, pace.posted, deadline);
        if (!verbs_post(s, bytes, verbs_place(pace.posted, bytes), 0, deadline))
            break;
        pace.posted++;
        if (pace.posted % POLL_EVERY == 0)
            (void)s->ops->poll(s->end);
    } while (verbs_now() < stop);
    if (!paced)
        await_room(s, 0, before, pace.posted, deadline);
    return pace.posted;
}

void verbs_stream(struct verbs_session *s, uint32_t bytes, double seconds)
{
    begin(s, VERBS_STREAM, bytes);
    const double first = verbs_now();
    const struct verbs_counts before = s->end->counts;
    const uint64_t posted = post_all(s, bytes, first + seconds);
    double last = verbs_now();
    if (!verbs_is_one_sided(s->plan))
        post_mark(s, last + END_SECONDS);
    struct verbs_message result = end_of(s, posted);
    struct verbs_counts *counts = &result.counts;
    if (!verbs_is_one_sided(s->plan))
        last = result.last;
    if (verbs_is_one_sided(s->plan) || (verbs_is_silent(s->plan) && result.mark == s->mark)) {
        counts->received = s->end->counts.sent - before.sent;
        counts->partial = s->end->counts.partial - before.partial;
        counts->last_bytes = counts->received * bytes;
        counts->valid_bytes = counts->last_bytes + s->end->counts.valid_bytes - before.valid_bytes;
    }
    if (s->plan->service != VERBS_UD && counts->received < posted && !s->end->failed)
        s->end->failed = "not all arrived in time";
    if (s->end->failed)
        return;
    verbs_print_head(s, "stream", bytes);
    printf("MBps=%.3f valid_MBps=%.3f last_MBps=%.3f posted=%lu whole=%lu partial=%lu "
           "lost_percent=%.3f\n",
           verbs_rate(counts->received * bytes, last - first),
           verbs_rate(counts->valid_bytes, last - first),
           verbs_rate(counts->last_bytes, last - first), (unsigned long)posted,
           (unsigned long)counts->received, (unsigned long)counts->partial,
           verbs_lost_percent(posted, counts->received));
}
