/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Somebody on the simulated network who reads all that is received and sends what he has read
 * again, late and in another order, or changed: bits, numbers, names, destination, without its
 * seal.
 */
#ifndef SIM_ATTACK_H
#define SIM_ATTACK_H

#include "common/base/map.h"
#include "test/sim/sim_net.h"

#define SIM_ATTACK_COPIES 64

struct sim_attack_copy {
    const struct sim_endpoint *from;
    struct dw_llp_addr to;
    uint32_t bytes;
    uint8_t *buf;
};

struct sim_attack {
    uint64_t random_state;
    unsigned left; /* how often he still does it */
    unsigned seen; /* datagrams; those that are kept are chosen at random */
    struct sim_attack_copy copies[SIM_ATTACK_COPIES];
    uint64_t replayed;
    struct dw_map nonces; /* of all that was sent, with destination and incarnation */
};

void sim_attack_init(struct sim_attack *attack, uint64_t seed, unsigned times);
void sim_attack_fini(struct sim_attack *attack);
/* Of the net's hook filter. False: two datagrams under one key have the same nonce. */
bool sim_attack_on_sent(struct sim_attack *attack, const uint8_t *buf);
/* Of the net's hook on_receive. */
void sim_attack_on_receive(struct sim_attack *attack, const struct sim_endpoint *at,
                           const struct sim_datagram *datagram);

#endif
