/* SPDX-License-Identifier: BSD-3-Clause */
/* A packet comes from bottleneck_put() to the queue, from there by dequeue() to the line. */
#include "test/net/bottleneck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/random.h"

#define TRANSPORT_HEADER_BYTES 8 /* UDP's; of TCP what is behind the ports may be hit, too */

/* ---- packets ---- */

static uint32_t ip_header_bytes(const uint8_t *data, uint32_t bytes)
{
    if (bytes >= 20 && data[0] >> 4 == 4 && (data[0] & 15) >= 5)
        return (data[0] & 15u) * 4;
    return bytes >= 40 && data[0] >> 4 == 6 ? 40 : 0;
}

/* Of IPv4 the word of the mark is the first; RFC 1624: HC' = ~(~HC + ~m + m'). */
static void mark_ipv4(uint8_t *data)
{
    const uint32_t before = (uint32_t)data[0] << 8 | data[1];
    data[1] |= 3;
    const uint32_t after = (uint32_t)data[0] << 8 | data[1];
    const uint32_t checksum = (uint32_t)data[10] << 8 | data[11];
    uint32_t sum = (~checksum & 0xffff) + (~before & 0xffff) + after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    data[10] = (uint8_t)(sum >> 8);
    data[11] = (uint8_t)sum;
}

bool bottleneck_mark(uint8_t *data, uint32_t bytes)
{
    if (!ip_header_bytes(data, bytes))
        return false;
    const bool v4 = data[0] >> 4 == 4;
    const unsigned ecn = v4 ? data[1] & 3u : data[1] >> 4 & 3u;
    if (ecn == 0 || ecn == 3)
        return false;
    if (v4)
        mark_ipv4(data);
    else
        data[1] |= 0x30;
    return true;
}

bool bottleneck_corrupt(uint8_t *data, uint32_t bytes, uint64_t random)
{
    const uint32_t header = ip_header_bytes(data, bytes) + TRANSPORT_HEADER_BYTES;
    const uint32_t words = bytes > header ? (bytes - header) / 2 : 0;
    if (header == TRANSPORT_HEADER_BYTES || words < 2)
        return false;
    uint8_t *const payload = data + header;
    if (random & 1) {
        const uint64_t bit = (random >> 1) % ((uint64_t)words * 16);
        payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
        return true;
    }
    const uint64_t first = (random >> 1) % words;
    for (uint64_t step = 1; step < words; step++) {
        uint8_t *const a = payload + 2 * first, *const b = payload + 2 * ((first + step) % words);
        uint8_t kept[2];
        if (memcmp(a, b, 2) == 0)
            continue;
        memcpy(kept, a, 2);
        memcpy(a, b, 2);
        memcpy(b, kept, 2);
        return true;
    }
    return false;
}

/* ---- lists ---- */

static void append(struct bottleneck_list *list, struct bottleneck_packet *packet)
{
    packet->next = NULL;
    if (list->first)
        list->last->next = packet;
    else
        list->first = packet;
    list->last = packet;
}

static struct bottleneck_packet *pop(struct bottleneck_list *list)
{
    struct bottleneck_packet *const packet = list->first;
    list->first = packet->next;
    return packet;
}

/* Few are late at a time, so that the place is found soon from the front of what is due later. */
static void insert_by_due(struct bottleneck_list *list, struct bottleneck_packet *packet)
{
    if (!list->first || list->last->due_ns <= packet->due_ns) {
        append(list, packet);
        return;
    }
    struct bottleneck_packet **link = &list->first;
    while ((*link)->due_ns <= packet->due_ns)
        link = &(*link)->next;
    packet->next = *link;
    *link = packet;
}

static void free_list(struct bottleneck_list *list)
{
    while (list->first)
        free(pop(list));
}

/* ---- in ---- */

void bottleneck_init(struct bottleneck *link, const struct bottleneck_options *options)
{
    *link = (struct bottleneck){.options = *options, .random = options->seed};
}

void bottleneck_fini(struct bottleneck *link)
{
    free_list(&link->queue);
    free_list(&link->line);
}

static bool happens(struct bottleneck *link, double probability)
{
    return (double)(random_next(&link->random) >> 11) * 0x1p-53 < probability;
}

/* The packet has left the queue. */
static void depart(struct bottleneck *link, struct bottleneck_packet *packet, uint64_t sent_ns)
{
    const bool late = happens(link, link->options.reorder);
    packet->due_ns = sent_ns + link->options.delay_ns + (late ? link->options.reorder_ns : 0);
    link->counters.reordered += late;
    insert_by_due(&link->line, packet);
}

static bool enqueue(struct bottleneck *link, struct bottleneck_packet *packet)
{
    const struct bottleneck_options *const options = &link->options;
    if (link->queue_bytes + packet->bytes > options->queue_bytes) {
        link->counters.overflowed++;
        return false;
    }
    if (options->aqm == BOTTLENECK_STEP && link->queue_bytes > options->step_bytes) {
        if (!options->ecn || !bottleneck_mark(packet->data, packet->bytes)) {
            link->counters.aqm_dropped++;
            return false;
        }
        link->counters.marked++;
    }
    link->queue_bytes += packet->bytes;
    if (link->queue_bytes > link->counters.queue_bytes_max)
        link->counters.queue_bytes_max = link->queue_bytes;
    append(&link->queue, packet);
    return true;
}

static void put_one(struct bottleneck *link, const uint8_t *data, uint32_t bytes, uint64_t now_ns)
{
    struct bottleneck_packet *const packet =
        link->packets < BOTTLENECK_PACKETS_MAX ? malloc(sizeof *packet + bytes) : NULL;
    if (!packet) {
        link->counters.overflowed++;
        return;
    }
    packet->bytes = bytes;
    packet->queued_ns = now_ns;
    memcpy(packet->data, data, bytes);
    if (happens(link, link->options.corrupt) &&
        bottleneck_corrupt(packet->data, bytes, random_next(&link->random)))
        link->counters.corrupted++;
    if (link->options.rate_bps == 0)
        depart(link, packet, now_ns);
    else if (!enqueue(link, packet)) {
        free(packet);
        return;
    }
    link->packets++;
}

void bottleneck_put(struct bottleneck *link, const uint8_t *data, uint32_t bytes, uint64_t now_ns)
{
    link->counters.in++;
    if (happens(link, link->options.loss)) {
        link->counters.lost++;
        return;
    }
    put_one(link, data, bytes, now_ns);
    if (happens(link, link->options.duplicate)) {
        link->counters.duplicated++;
        put_one(link, data, bytes, now_ns);
    }
}

/* ---- the queue's end ---- */

static uint64_t bytes_ns(const struct bottleneck *link, uint32_t bytes)
{
    return (uint64_t)(bytes * 8e9 / link->options.rate_bps);
}

/* When the sender can take the first of the queue. */
static uint64_t ready_ns(const struct bottleneck *link)
{
    const uint64_t came_ns = link->queue.first->queued_ns;
    return link->free_ns > came_ns ? link->free_ns : came_ns;
}

/* RFC 8289: waiting has been longer than the target for a whole interval, and more than one packet
 * is left. */
static bool codel_waits_long(struct bottleneck *link, uint64_t waited_ns, uint64_t now_ns)
{
    const struct bottleneck_options *const options = &link->options;
    if (waited_ns < options->codel_target_ns || !link->queue.first) {
        link->codel.above_since_ns = 0;
        return false;
    }
    if (!link->codel.above_since_ns)
        link->codel.above_since_ns = now_ns;
    return now_ns - link->codel.above_since_ns >= options->codel_interval_ns;
}

static uint64_t codel_after(const struct bottleneck *link, uint64_t from_ns)
{
    return from_ns + (uint64_t)((double)link->options.codel_interval_ns / sqrt(link->codel.count));
}

/* Whether this packet is to be marked or dropped. */
static bool codel_strikes(struct bottleneck *link, uint64_t waited_ns, uint64_t now_ns)
{
    const bool waits_long = codel_waits_long(link, waited_ns, now_ns);
    if (!waits_long) {
        link->codel.dropping = false;
        return false;
    }
    if (link->codel.dropping) {
        if (now_ns < link->codel.next_ns)
            return false;
        link->codel.count++;
        link->codel.next_ns = codel_after(link, link->codel.next_ns);
        return true;
    }
    /* Soon after the last time: at nearly the rate that was found then. */
    const uint64_t recent_ns = 16 * link->options.codel_interval_ns;
    const bool again = link->codel.count > 2 && now_ns < link->codel.next_ns + recent_ns;
    link->codel.count = again ? link->codel.count - 2 : 1;
    link->codel.dropping = true;
    link->codel.next_ns = codel_after(link, now_ns);
    return true;
}

/* Sends the first of the queue, or drops it. */
static void dequeue(struct bottleneck *link, uint64_t at_ns)
{
    struct bottleneck_packet *const packet = pop(&link->queue);
    const uint64_t waited_ns = at_ns - packet->queued_ns;
    link->queue_bytes -= packet->bytes;
    if (waited_ns > link->counters.queue_ns_max)
        link->counters.queue_ns_max = waited_ns;
    if (link->options.aqm == BOTTLENECK_CODEL && codel_strikes(link, waited_ns, at_ns)) {
        if (!link->options.ecn || !bottleneck_mark(packet->data, packet->bytes)) {
            link->counters.aqm_dropped++;
            link->packets--;
            free(packet);
            return;
        }
        link->counters.marked++;
    }
    link->free_ns = at_ns + bytes_ns(link, packet->bytes);
    depart(link, packet, link->free_ns);
}

struct bottleneck_packet *bottleneck_take(struct bottleneck *link, uint64_t now_ns)
{
    /* What a late call finds ready left in time, as far as the bucket reaches back. */
    const uint64_t burst_ns =
        link->options.rate_bps > 0 ? bytes_ns(link, link->options.burst_bytes) : 0;
    while (link->queue.first && ready_ns(link) <= now_ns) {
        const uint64_t ready = ready_ns(link);
        dequeue(link, ready + burst_ns < now_ns ? now_ns - burst_ns : ready);
    }
    if (!link->line.first || link->line.first->due_ns > now_ns)
        return NULL;
    struct bottleneck_packet *const packet = pop(&link->line);
    link->packets--;
    link->counters.out++;
    link->counters.bytes_out += packet->bytes;
    return packet;
}

uint64_t bottleneck_deadline_ns(const struct bottleneck *link)
{
    uint64_t deadline_ns = link->line.first ? link->line.first->due_ns : UINT64_MAX;
    if (link->queue.first && ready_ns(link) < deadline_ns)
        deadline_ns = ready_ns(link);
    return deadline_ns;
}
