/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a queue pair between two processes, as the verbs benchmark drives it: verbs_measure.c
 * measures by these calls alone, so that diwarp's own API (verbs_native.c) and libibverbs
 * (verbs_of.c) are measured by the same method. Knows nothing of time.
 */
#ifndef VERBS_END_H
#define VERBS_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum verbs_service { VERBS_UD, VERBS_RD, VERBS_RC };
enum verbs_verb { VERBS_SEND, VERBS_WRITE, VERBS_READ };

/* Messages go from, and to, as much memory at each end; one of them fits at least. */
#define VERBS_MEMORY_BYTES (16u << 20)
#define VERBS_BYTES_MAX    (4u << 20)
/* Receives that are posted, and room for requests: two windows of a stream fit (verbs_measure.h).
 */
#define VERBS_RECEIVES 1024u
#define VERBS_SENDS    512u
/* Copied at the post where the service can. */
#define VERBS_INLINE_BYTES 64u
/* Partial records are handed over so long after they began, and reads over UD end. It must be more
 * than the largest takes on its way: 4 MiB at 40 MB/s. */
#define VERBS_RECORD_NS 100000000u

struct verbs_plan {
    enum verbs_service service;
    enum verbs_verb verb;
    uint32_t bytes_max;          /* the largest message */
    uint32_t datagram_max_bytes; /* see diwarp_device_attr; 0: by the MTU */
    const char *ip;              /* the interface's */
    bool caller;                 /* the end that measures */
};

/* What has happened since the end was opened. */
struct verbs_counts {
    uint64_t sent;        /* signaled requests that succeeded */
    uint64_t received;    /* whole messages: Sends, full records */
    uint64_t partial;     /* records handed over with holes; reads over UD whose time was over */
    uint64_t valid_bytes; /* of all that was handed over: what had come */
    uint64_t last_bytes;  /* of that, of messages whose last segment had come */
    uint64_t mark;        /* the highest */
};

struct verbs_end {
    const struct verbs_plan *plan;
    struct verbs_counts counts;
    uint8_t *from, *to; /* memory of messages sent, and received */
    const char *failed; /* why nothing more will come of it; NULL */
};

#define VERBS_ADDRESS_BYTES 320

/* What cannot be done ends the process, by verbs_die(). */
struct verbs_ops {
    const char *api;
    /* Why such messages are not there; NULL: they are. */
    const char *(*lack)(const struct verbs_plan *plan, uint32_t bytes);
    /* Receives of bytes_max are posted, and posted again as they are used. */
    struct verbs_end *(*open)(const struct verbs_plan *plan);
    void (*address)(struct verbs_end *end, uint8_t buf[VERBS_ADDRESS_BYTES]);
    /* The other end's; it is doing the same. */
    void (*meet)(struct verbs_end *end, const uint8_t buf[VERBS_ADDRESS_BYTES]);
    /* A signaled message of the plan's verb, at that place of both memories; with a mark other than
     * 0 an unsignaled Send of one byte that bears it. 0; or -EAGAIN: there is no room, poll. */
    int (*post)(struct verbs_end *end, uint32_t bytes, size_t at, uint32_t mark);
    /* True: something has happened. */
    bool (*poll)(struct verbs_end *end);
    void (*close)(struct verbs_end *end);
};

/* Says what failed, with the error when it is not 0, and ends the process. */
void verbs_die(const char *what, int error) __attribute__((noreturn));
double verbs_now(void);
/* The program: options, both roles, output. Returns its exit status. */
int verbs_run(int argc, char **argv, const struct verbs_ops *ops);

/* Whether a write shows in the target's memory only: its last byte changes last. */
static inline bool verbs_is_silent(const struct verbs_plan *plan)
{
    return plan->service == VERBS_RC && plan->verb == VERBS_WRITE;
}

/* Whether nothing tells the sender that messages have arrived. */
static inline bool verbs_is_paced(const struct verbs_plan *plan)
{
    return plan->service == VERBS_UD && plan->verb != VERBS_READ;
}

/* Whether the completion alone says that a message has arrived. */
static inline bool verbs_is_one_sided(const struct verbs_plan *plan)
{
    return plan->verb == VERBS_READ || (plan->service == VERBS_RD && plan->verb == VERBS_WRITE);
}

#endif
