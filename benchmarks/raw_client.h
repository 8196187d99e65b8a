/* SPDX-License-Identifier: BSD-3-Clause */
/* The process of the raw benchmark that measures: what it is asked for, and the figures it prints.
 */
#ifndef RAW_CLIENT_H
#define RAW_CLIENT_H

#include "benchmarks/options.h"
#include "benchmarks/turns.h"

struct raw_plan {
    bool protocol[2];
    struct size_list latency;
    struct size_list messages; /* streams in messages of these sizes, beside those without */
    int trips;                 /* of a sample, each timed alone for the quantiles; 0: all at once */
    int header;                /* bytes of every datagram */
    bool sealed;               /* of these the last are a CRC of messages' datagrams over UDP */
    int window;                /* bytes under way of a UDP stream */
    int segment;               /* bytes of a GSO train's datagram */
    int samples;
    int sample_bytes; /* streamed per sample and direction; 0 for no streams */
    int memory_bytes; /* of UDP's streams without messages; 0: one hot buffer */
    bool uni, bi;     /* streams in one direction, in both */
    bool gso, large;  /* UDP in trains, in single datagrams; round trips in trains if only these */
};

/* Measures all of it against the server at the other end. */
void raw_measure(int control, const struct raw_plan *plan, struct turns *turns);

#endif
