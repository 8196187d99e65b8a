/* SPDX-License-Identifier: BSD-3-Clause */
/* When a peer was heard, asked and probed last. */
#ifndef DW_CONTACT_H
#define DW_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

struct dw_contact {
    uint64_t heard_ns;
    uint64_t asked_ns; /* we gave it something to answer */
    uint64_t probe_sent_ns : 63;
    bool probe_answered : 1; /* the latest of ours */
};

static inline void dw_contact_on_probe(struct dw_contact *contact, uint64_t now_ns)
{
    contact->probe_sent_ns = now_ns & INT64_MAX;
    contact->probe_answered = false;
}

#endif
