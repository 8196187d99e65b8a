/* SPDX-License-Identifier: BSD-3-Clause */
/* What all records share: their budgets, their states, their status messages. */
#include "common/record/record.h"

#include <assert.h>

#include "common/rnic/port.h"

/* Share of the socket's buffer that records may fill; the rest is for eager datagrams. */
#define RECORD_SHARE_NUM 3
#define RECORD_SHARE_DEN 4
/* Under way for all records: not divided among them, so that the oldest record is whole soonest.
 * More would fall out of the cache on its way. */
#define RECORD_WINDOW_BYTES (1u << 20)
/* Worse, where processes take turns on a core or poll rarely, is a sender whose turn ends with its
 * grant. */
#define SHARED_RECORD_WINDOW_BYTES (4u << 20)
#define RECORD_WINDOW_MIN_BYTES    (16u << 10)
/* Open records that a peer has asked us for, in 5 MB; beyond, its requests are refused. Some of an
 * honest one's have ended there and not yet here. */
#define ASKED_MAX (2 * DW_QUEUED_MAX)

/* ---- budgets ---- */

static uint32_t mtu_max_bytes(const struct dw_port *port, uint64_t budget, uint64_t long_budget)
{
    bool longs =
        dw_datagram_max_bytes(port, AF_INET6, (uint32_t)(long_budget / 2)) >= DW_LLP_LONG_BYTES;
    uint64_t half = (longs ? long_budget : budget) / 2;
    /* Where two do not fit, a large one does better than one small one at a time. */
    if (half > DW_LLP_TRAIN_BYTES ||
        2 * (uint64_t)dw_llp_truesize((uint32_t)half) > port->datagrams.llp->rcvbuf_bytes)
        return UINT32_MAX;
    return (uint32_t)half;
}

static uint32_t within_window(uint64_t payload, uint32_t window)
{
    if (payload < RECORD_WINDOW_MIN_BYTES)
        payload = RECORD_WINDOW_MIN_BYTES;
    return window < payload ? window : (uint32_t)payload;
}

static uint64_t record_truesize(const struct dw_port *port)
{
    return (uint64_t)port->datagrams.llp->rcvbuf_bytes * RECORD_SHARE_NUM / RECORD_SHARE_DEN;
}

uint32_t dw_records_eager_bytes(const struct dw_port *port)
{
    return port->datagrams.llp->rcvbuf_bytes - (uint32_t)record_truesize(port);
}

void dw_records_size_budgets(struct dw_records *records)
{
    struct dw_port *port = records->port;
    const struct diwarp_device_attr *attr = &port->device->attr;
    /* The kernel charges truesize: what is left for payload depends on the datagram. Of those that
     * are not long, plan for those of MTU 1500. */
    const uint64_t truesize = record_truesize(port);
    uint64_t payload = truesize * 1400 / dw_llp_truesize(1472);
    uint64_t long_payload =
        truesize * (DW_LLP_LONG_BYTES - 72) / dw_llp_truesize(DW_LLP_LONG_BYTES);
    uint32_t window = attr->record_window_bytes;
    if (!window)
        window = attr->shared_cores || records->polled_rarely ? SHARED_RECORD_WINDOW_BYTES
                                                              : RECORD_WINDOW_BYTES;
    if (port->mtu_max_bytes == UINT32_MAX)
        port->mtu_max_bytes = mtu_max_bytes(port, payload, long_payload);
    records->grant_budget_bytes = within_window(payload, window);
    records->grant_budget_long_bytes = within_window(long_payload, window);
}

/* ---- records and peers ---- */

void dw_records_init(struct dw_records *records, struct dw_port *port,
                     const struct dw_record_ops *ops)
{
    *records =
        (struct dw_records){.ops = ops, .port = port, .next_id = port->device->env.first_serial};
    dw_map_init(&records->sinks, dw_device_random(port->device));
    dw_map_init(&records->sources, dw_device_random(port->device));
    dw_list_init(&records->want);
    dw_list_init(&records->ready);
    dw_records_size_budgets(records);
}

void dw_records_fini(struct dw_records *records)
{
    dw_map_fini(&records->sinks);
    dw_map_fini(&records->sources);
}

uint32_t dw_records_next_id(struct dw_records *records, const struct dw_map *map,
                            const struct dw_record_peer *peer, uint32_t from_source)
{
    uint32_t id;
    do {
        id = ++records->next_id & ~DW_RECORD_ID_FROM_SOURCE;
    } while (!id || dw_map_get(map, dw_record_key(peer, id | from_source)));
    return id | from_source;
}

void dw_record_peer_init(struct dw_record_peer *peer, struct dw_records *records,
                         struct diwarp_ah *ah, uint32_t index)
{
    *peer = (struct dw_record_peer){.records = records, .ah = ah, .index = index};
    dw_list_init(&peer->sinks);
    dw_list_init(&peer->sources);
}

bool dw_record_peer_may_ask(const struct dw_record_peer *peer)
{
    return peer->asked_count < ASKED_MAX;
}

/* ---- states ---- */

void dw_sink_set_state(struct dw_sink *sink, enum dw_sink_state state)
{
    static const bool may_follow[DW_SINK_STATES][DW_SINK_STATES] = {
        [DW_SINK_ASKING] =
            {[DW_SINK_WANTING] = true, [DW_SINK_GRANTED] = true, [DW_SINK_ENDED] = true},
        [DW_SINK_WANTING] =
            {[DW_SINK_PARKED] = true, [DW_SINK_GRANTED] = true, [DW_SINK_ENDED] = true},
        [DW_SINK_PARKED] = {[DW_SINK_WANTING] = true, [DW_SINK_ENDED] = true},
        [DW_SINK_GRANTED] = {[DW_SINK_HELD] = true, [DW_SINK_ENDED] = true},
        [DW_SINK_HELD] = {[DW_SINK_ENDED] = true},
    };
    struct dw_record_peer *peer = sink->peer;
    assert(may_follow[sink->state][state]);
    if (sink->state == DW_SINK_WANTING) {
        peer->sinks_wanting--;
        dw_list_remove(&sink->want_link);
    }
    sink->state = (uint8_t)state;
    if (state == DW_SINK_WANTING) {
        peer->sinks_wanting++;
        dw_list_append(&peer->records->want, &sink->want_link);
    }
}

void dw_source_set_state(struct dw_source *source, enum dw_source_state state)
{
    static const bool may_follow[DW_SOURCE_STATES][DW_SOURCE_STATES] = {
        [DW_SOURCE_WAITING] = {[DW_SOURCE_READY] = true, [DW_SOURCE_ENDED] = true},
        [DW_SOURCE_READY] = {[DW_SOURCE_WAITING] = true, [DW_SOURCE_ENDED] = true},
    };
    assert(may_follow[source->state][state]);
    source->state = (uint8_t)state;
    if (state == DW_SOURCE_READY)
        dw_list_append(&source->peer->records->ready, &source->ready_link);
    else
        dw_list_remove(&source->ready_link);
}

/* ---- what a sink tells and waits for ---- */

void dw_sink_send_status(struct dw_sink *sink, const struct dw_range *missing, unsigned count)
{
    struct dw_record_control status = {
        .kind = DW_RECORD_STATUS,
        .id = sink->id,
        .range_count = (uint16_t)count,
        .granted = sink->record.granted,
    };
    for (unsigned i = 0; i < count; i++)
        status.ranges[i] = (struct dw_record_range){missing[i].start, missing[i].end};
    dw_record_counters(sink->peer)->tx_record_status++;
    sink->peer->records->ops->send_status(sink->peer, sink->qpns, &status);
}

void dw_sink_arm(struct dw_sink *sink)
{
    if (!sink->timer.slot)
        dw_heap_set(&sink->peer->records->port->timers, &sink->timer, dw_sink_deadline_ns(sink));
}
