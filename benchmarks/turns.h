/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns: several programs in a ring, each of which measures one sample, passes the turn on and
 * sleeps until it comes round. What disturbs the machine for longer than a sample falls on all
 * alike, and figures can be compared sample by sample.
 *
 * Every program of the ring has the same number of turns: one when it has started, so that none
 * measures while another still starts; one to get ready; one for each sample; one to end. All of
 * its processes take part; one of them leads and passes the turn on.
 */
#ifndef TURNS_H
#define TURNS_H

#include <stdbool.h>
#include <stdint.h>

/* FILE:INDEX:COUNT: what the ring shares, 4 bytes that are 0 at the start; the program's place in
 * it; how many programs there are. Unset: the program measures alone. */
#define TURNS_VARIABLE "DIWARP_BENCH_TURNS"

struct turns {
    uint32_t *over; /* turns that are over, of all; NULL: alone, and all below does nothing */
    uint32_t next;  /* ours */
    uint32_t count;
    bool leads;
};

/* By the environment, and begins the turn to start, which is to be ended. Ends the process when the
 * environment is malformed. */
void turns_open(struct turns *turns, bool leads);
/* Sleeps until it is the program's turn. Ends the process when it does not come. */
void turns_begin(const struct turns *turns);
/* What the program's processes have to do in this turn is done, so far as this one knows. */
void turns_end(struct turns *turns);
/* The turns of a figure of so many samples that cannot be measured: the others have theirs. */
void turns_pass(struct turns *turns, int samples);

static inline bool turns_taken(const struct turns *turns)
{
    return turns->over;
}

/* How often a turn measures; the last counts. The first of two finds what others left in the
 * caches. */
static inline int turns_samples(const struct turns *turns)
{
    return turns_taken(turns) ? 2 : 1;
}

#endif
