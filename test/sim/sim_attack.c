/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/sim/sim_attack.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/llp_header.h"

void sim_attack_init(struct sim_attack *attack, uint64_t seed, unsigned times)
{
    *attack = (struct sim_attack){.random_state = seed, .left = times};
    dw_map_init(&attack->nonces, seed);
}

void sim_attack_fini(struct sim_attack *attack)
{
    for (unsigned i = 0; i < SIM_ATTACK_COPIES; i++)
        free(attack->copies[i].buf);
    dw_map_fini(&attack->nonces);
}

/* By a hash of 64 bits: there are some 10^5 of them. */
bool sim_attack_on_sent(struct sim_attack *attack, const uint8_t *buf)
{
    const uint8_t type = buf[0] & 0xf;
    const uint64_t fields[] = {dw_get_be64(buf + 8), dw_get_be64(buf + 24), dw_get_be64(buf + 16),
                               (uint64_t)dw_get_be32(buf + 4) << 32 |
                                   (uint64_t)(buf[1] & DW_LLP_SOURCE_KEY) << 8 |
                                   (type == DW_LLP_UD || type == DW_LLP_RESET ? type : 0xff)};
    uint64_t hash = 0;
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        hash = dw_map_hash(fields[i] + hash, attack->nonces.seed + i);
    if (dw_map_get(&attack->nonces, hash))
        return false;
    if (dw_map_put(&attack->nonces, hash, attack))
        abort();
    return true;
}

static uint64_t below(struct sim_attack *attack, uint64_t limit)
{
    return sim_random_below(&attack->random_state, limit);
}

static void keep(struct sim_attack *attack, const struct sim_endpoint *at,
                 const struct sim_datagram *datagram)
{
    const uint64_t place =
        attack->seen < SIM_ATTACK_COPIES ? attack->seen : below(attack, SIM_ATTACK_COPIES * 2);
    attack->seen++;
    if (place >= SIM_ATTACK_COPIES)
        return;
    struct sim_attack_copy *copy = &attack->copies[place];
    free(copy->buf);
    *copy = (struct sim_attack_copy){.from = datagram->from,
                                     .to = at->addr,
                                     .bytes = datagram->bytes,
                                     .buf = malloc(datagram->bytes)};
    if (!copy->buf)
        abort();
    memcpy(copy->buf, datagram->buf, datagram->bytes);
}

/* As one that nothing seals, or a CRC. */
static uint32_t unseal(uint8_t *buf, uint32_t bytes, bool crc)
{
    bytes -= DW_TAG_BYTES;
    buf[1] = (uint8_t)((buf[1] & ~(DW_LLP_SEALED | DW_LLP_SOURCE_KEY)) | (crc ? 0 : DW_LLP_NO_CRC));
    dw_put_be32(buf + bytes, crc ? dw_crc32c(0, buf, bytes) : 0);
    return bytes + DW_CRC_BYTES;
}

/* Changes a copy; returns its length then. */
static uint32_t change(struct sim_attack *attack, uint8_t *buf, uint32_t bytes)
{
    const uint64_t bit = below(attack, bytes * 8);
    switch (below(attack, 7)) {
    case 0:
        return unseal(buf, bytes, true);
    case 1:
        return unseal(buf, bytes, false);
    case 2: /* a number that has not come */
        dw_put_be64(buf + 24, dw_get_be64(buf + 24) + 1 + below(attack, 100000));
        return bytes;
    case 3: /* another process's */
        dw_put_be32(buf + 20, dw_get_be32(buf + 20) + 1 + (uint32_t)below(attack, 4));
        return bytes;
    case 4: /* another incarnation's */
        dw_put_be32(buf + 4, dw_get_be32(buf + 4) + 1);
        return bytes;
    case 5: /* a tag of nothing */
        memset(buf + bytes - DW_TAG_BYTES, 0, DW_TAG_BYTES);
        return bytes;
    default:
        buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
        return bytes;
    }
}

void sim_attack_on_receive(struct sim_attack *attack, const struct sim_endpoint *at,
                           const struct sim_datagram *datagram)
{
    static const uint64_t delays_ns[] = {1, 100000, 10000000, 1000000000};
    if (!datagram->corrupted)
        keep(attack, at, datagram);
    if (!attack->left || !attack->seen || below(attack, 3))
        return;
    attack->left--;
    const uint64_t kept = attack->seen < SIM_ATTACK_COPIES ? attack->seen : SIM_ATTACK_COPIES;
    const struct sim_attack_copy *copy = &attack->copies[below(attack, kept)];
    uint8_t *buf = malloc(copy->bytes);
    if (!buf)
        abort();
    memcpy(buf, copy->buf, copy->bytes);
    const bool forges = below(attack, 2);
    const uint32_t bytes = forges ? change(attack, buf, copy->bytes) : copy->bytes;
    attack->replayed += !forges;
    sim_net_inject(copy->from, &copy->to, buf, bytes,
                   below(attack, SIM_RANDOM_OF(&attack->random_state, delays_ns)), forges);
    free(buf);
}
