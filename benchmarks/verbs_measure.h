/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two roles of the verbs benchmark over one end each: the caller measures, the server does what
 * it is told over the control connection (TCP). Both read the same clock: they are on one machine.
 */
#ifndef VERBS_MEASURE_H
#define VERBS_MEASURE_H

#include "benchmarks/options.h"
#include "benchmarks/verbs_end.h"

enum verbs_word {
    VERBS_TRIPS = 1, /* of `bytes`; until the next word */
    VERBS_STREAM,    /* likewise */
    VERBS_DONE,      /* `count` messages were posted, the last mark is `mark` */
    VERBS_BYE,
    VERBS_READY,
    VERBS_CREDIT, /* `mark` has come */
    VERBS_RESULT, /* counts of the measure; `last` is when the last of it came */
};

struct verbs_message {
    uint32_t word, bytes;
    uint64_t count, mark;
    double last;
    struct verbs_counts counts;
};

struct verbs_session {
    const struct verbs_ops *ops;
    struct verbs_end *end;
    const struct verbs_plan *plan;
    int control;
    uint32_t mark;  /* the last that was posted */
    uint8_t serial; /* of a silent write, in its last byte */
};

/* Each prints a line. */
void verbs_trips(struct verbs_session *s, uint32_t bytes, double seconds);
void verbs_stream(struct verbs_session *s, uint32_t bytes, double seconds);
void verbs_serve(struct verbs_session *s);

/* Posts, and polls while there is no room, until `deadline`; false: there was none. */
bool verbs_post(struct verbs_session *s, uint32_t bytes, size_t at, uint32_t mark, double deadline);
/* Takes a message of the control connection if a whole one is there. */
bool verbs_hear_now(struct verbs_session *s, struct verbs_message *message);
/* "service=ud verb=send bytes=8", as every line has it. */
void verbs_print_head(const struct verbs_session *s, const char *what, uint32_t bytes);

/* Messages under way: a megabyte, which fills the way, and which a socket buffer of 4 MiB takes
 * twice, as UD has it, whose windows overlap. */
#define VERBS_WINDOW_BYTES (1u << 20)
#define VERBS_WINDOW       256u
static inline uint32_t verbs_window(uint32_t bytes)
{
    const uint32_t most = VERBS_WINDOW_BYTES / bytes;
    return most < 2 ? 2 : most < VERBS_WINDOW ? most : VERBS_WINDOW;
}

/* The place of a message in the memories, which are used in turn. */
static inline size_t verbs_place(uint64_t number, uint32_t bytes)
{
    return number % (VERBS_MEMORY_BYTES / bytes) * bytes;
}

/* Megabytes per second; 0 where no time has passed. */
static inline double verbs_rate(uint64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / seconds / 1e6 : 0;
}

/* Of the messages that were posted, those that did not come whole. */
static inline double verbs_lost_percent(uint64_t posted, uint64_t whole)
{
    return posted > whole ? 100.0 * (double)(posted - whole) / (double)posted : 0;
}

#endif
