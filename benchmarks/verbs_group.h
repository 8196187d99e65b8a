/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One sender and some receivers, each a process: what a group (multicast, broadcast) carries of UD
 * beside unicast to each receiver. The sender measures; each receiver does what it is told over a
 * control connection (TCP). All read the same clock: they are on one machine.
 */
#ifndef VERBS_GROUP_H
#define VERBS_GROUP_H

#include "benchmarks/options.h"
#include "benchmarks/raw_link.h"
#include "benchmarks/verbs_measure.h"
#include "common/include/diwarp_group.h"

#define GROUP_RECEIVERS_MAX 7
#define GROUP_QKEY          0x76657267u
/* Of the window that all receivers have registered for the group's Write-Records. */
#define GROUP_STAG 0x5eed1u

/* To the group, or to each receiver in turn. */
enum group_way { GROUP_MULTICAST, GROUP_BROADCAST, GROUP_UNICAST };

struct group_plan {
    enum group_way way;
    bool write;    /* Write-Records; or Sends */
    int receivers; /* of the sender; 0: a receiver */
    struct size_list sizes;
    double seconds;        /* of each measure */
    const char *ip;        /* the interface's */
    struct raw_address at; /* where the sender listens */
    struct diwarp_group group;
};

/* What a receiver tells first. */
struct group_hello {
    uint64_t addr; /* of its window */
    uint32_t stag;
    uint8_t address[DIWARP_ADDRESS_MAX_BYTES];
};

struct group_end {
    const struct group_plan *plan;
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp;
    uint8_t *memory; /* VERBS_MEMORY_BYTES: sent from, or received to */
};

/* Ends the process when `rc`, a negative errno value or other number, is not 0. */
void group_must(int rc, const char *what);
/* Takes a message if one is there. */
bool group_hear_now(int control, struct verbs_message *message);

/* A role each, until the sender has measured all sizes, of which it prints a line each. */
void group_send_all(struct group_end *end, const int *controls);
void group_receive_all(struct group_end *end, int control);

#endif
