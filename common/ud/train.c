/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service's datagrams on their way out, a train at a time, and the numbers of what has been
 * sent to whom. */
#include <stdlib.h>

#include "common/ud/ud.h"

/* Destinations whose last numbers are kept, in 5 MB; then all are forgotten. What overtakes another
 * datagram just then makes that one too late: with half as many, twice as often. */
#define TARGETS_MAX 65536

static uint32_t lead_bytes(const struct dw_ud_outgoing *out)
{
    return DW_LLP_HEADER_BYTES + (out->intro ? DW_INTRO_BYTES : 0);
}

uint32_t dw_ud_datagram_bytes(const struct dw_ud_outgoing *out, uint32_t payload)
{
    return lead_bytes(out) + dw_segment_header_bytes(&out->ddp) + payload +
           out->ud->qp.port->datagrams.seal.trailer_bytes;
}

uint32_t dw_ud_build(struct dw_ud_outgoing *out, uint8_t *buf, uint32_t payload)
{
    struct dw_datagrams *datagrams = &out->ud->qp.port->datagrams;
    const struct dw_process to = {.name = out->ah->name, .incarnation = out->ah->incarnation};
    const struct dw_llp_header header = {
        .type = DW_LLP_UD,
        .flags = dw_seal_flags(&datagrams->seal, &to) | (out->intro ? DW_LLP_INTRO : 0),
        .incarnation = datagrams->incarnation,
        .token = out->ah->token,
        .job = datagrams->name.job,
        .rank = datagrams->name.rank,
        .number = ++datagrams->number,
        .dst_qpn = out->ah->qpn,
        .src_qpn = out->ud->qp.num,
        .psn = out->qkey,
        .timestamp = (uint16_t)(out->ud->qp.port->ran_ns >> DW_TIMESTAMP_SHIFT),
    };
    out->ddp.last = out->record.offset + payload == out->record.total;
    dw_llp_header_put(buf, &header);
    if (out->intro)
        dw_port_put_intro(out->ud->qp.port, dw_ah_path(out->ah), buf + DW_LLP_HEADER_BYTES);
    uint8_t *at = dw_segment_put(buf + lead_bytes(out), &out->ddp, &out->record, payload);
    struct dw_sealing sealing = dw_sealing_begin(&datagrams->seal, &to, buf, (size_t)(at - buf));
    dw_sealing_gather(&sealing, at, out->iov, out->record.offset, payload);
    dw_sealing_end(&sealing, at + payload);
    out->record.offset += payload;
    if (out->ddp.tagged)
        out->ddp.to += payload;
    else
        out->ddp.mo += payload;
    return (uint32_t)(at - buf) + payload + datagrams->seal.trailer_bytes;
}

int dw_ud_send_train(struct dw_ud_outgoing *out, uint64_t now_ns)
{
    struct dw_datagrams *datagrams = &out->ud->qp.port->datagrams;
    const struct dw_write_record *record = &out->record;
    const struct dw_llp_addr to = dw_ah_addr(out->ah);
    struct dw_path *path = dw_ah_path(out->ah);
    dw_path_expire(path, now_ns);
    const uint32_t datagram = dw_ah_datagram_max_bytes(out->ah);
    const uint32_t payload_max = datagram - dw_ud_datagram_bytes(out, 0);
    uint32_t bytes = 0;
    unsigned n = dw_train_datagrams(datagram);
    do {
        const uint32_t left = record->total - record->offset;
        bytes +=
            dw_ud_build(out, datagrams->stage + bytes, left < payload_max ? left : payload_max);
    } while (record->offset < record->total && --n);
    const uint32_t segment = bytes < datagram ? bytes : datagram;
    const struct iovec iov = {.iov_base = datagrams->stage, .iov_len = bytes};
    struct dw_llp_train train = {
        .to = &to,
        .iov = &iov,
        .iov_count = 1,
        .segment_bytes = segment,
        .flow = path->flow,
        .whole = dw_path_takes_whole(path, segment, now_ns),
    };
    return dw_datagrams_send(datagrams, &train);
}

void dw_ud_targets_fini(struct dw_ud_qp *ud)
{
    size_t slot = 0;
    for (void *target; (target = dw_map_next(&ud->targets, &slot));)
        free(target);
    dw_map_fini(&ud->targets);
}

struct dw_ud_target *dw_ud_target_of(struct dw_ud_qp *ud, const struct diwarp_ah *ah)
{
    struct dw_port *port = ud->qp.port;
    /* Processes that have one token, as those of verbs on one port of several hosts, share what
     * numbers their messages: to each some are missing, as if lost. */
    const uint64_t key = ah->token ^ ah->qpn;
    struct dw_ud_target *target = dw_map_get(&ud->targets, key);
    if (target)
        return target;
    if (ud->targets.count == TARGETS_MAX) {
        dw_ud_targets_fini(ud);
        dw_map_init(&ud->targets, dw_device_random(port->device));
        port->datagrams.number += DW_UD_NUMBERS_ANEW;
    }
    target = malloc(sizeof *target);
    if (!target || dw_map_put(&ud->targets, key, target)) {
        free(target);
        return NULL;
    }
    for (unsigned kind = 0; kind < DW_UD_KINDS; kind++)
        target->last[kind] = port->device->env.first_serial;
    return target;
}
