/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the raw benchmark; see raw_message.h. */
#include "benchmarks/raw_message.h"
#include "benchmarks/raw_link.h"
#include "common/wire/crc32c.h"

#include <stdlib.h>
#include <string.h>

/* Of an acknowledgement: a mark and the bytes received. In an exchange it is known by its length,
 * since others have a multiple of 8 bytes; elsewhere by the mark, which no data begins with. */
#define ACK_BYTES 9
#define ACK_MARK  0x5a
#define DATA_BYTE 1

/* Most that one datagram, or what GRO has joined, can have. */
#define PLACE_BYTES (64u << 10)
/* Messages from this on are placed past the cache, as diwarp's. */
#define PAST_MIN_BYTES (512u << 10)
/* Data begins with a cache line. */
#define LINE_BYTES 64u

static char hot_buffer[RAW_CHUNK_BYTES];

/* ---- memory -------------------------------------------------------------------------------- */

static struct raw_memory memory_get(size_t bytes)
{
    struct raw_memory memory = {.bytes = bytes};

    if (!bytes)
        return memory;
    memory.base =
        aligned_alloc(LINE_BYTES, (bytes + RAW_CHUNK_BYTES) / LINE_BYTES * LINE_BYTES + LINE_BYTES);
    if (!memory.base)
        raw_die("out of memory");
    memset(memory.base, DATA_BYTE, bytes + RAW_CHUNK_BYTES);
    return memory;
}

static void memory_put(struct raw_memory *memory)
{
    free(memory->base);
}

char *raw_memory_at(const struct raw_memory *memory)
{
    return memory->bytes ? memory->base + memory->at : hot_buffer;
}

void raw_memory_pass(struct raw_memory *memory, size_t bytes)
{
    memory->at += (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    if (memory->at >= memory->bytes)
        memory->at = 0;
}

/* ---- flows --------------------------------------------------------------------------------- */

void raw_fit_train(struct raw_request *r)
{
    if (r->protocol == RAW_UDP && r->train > r->window)
        r->train = r->window / r->segment * r->segment;
}

struct raw_flow raw_flow_open(int fd, const struct raw_request *r)
{
    return (struct raw_flow){
        .fd = fd, .r = r, .from = memory_get(r->memory_bytes), .into = memory_get(r->memory_bytes)};
}

void raw_flow_close(struct raw_flow *flow)
{
    memory_put(&flow->from);
    memory_put(&flow->into);
}

/* Of a sealed flow: a train on its way out, and what one call receives. Headers are whatever lies
 * there, but for the first byte of a train, which is 0. */
static _Alignas(LINE_BYTES) char stage[PLACE_BYTES], slot[PLACE_BYTES];

/* Of a sealed datagram, the last of a message aside. */
static size_t datagram_bytes(const struct raw_request *r)
{
    return r->message < r->segment ? r->message : r->segment;
}

/* Copies a train, and gives each datagram its CRC. */
static void seal(const struct raw_request *r, char *to, const char *from, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < datagram_bytes(r) ? bytes - at : datagram_bytes(r);
        const size_t data = at + r->sealed, end = at + n - RAW_CRC_BYTES;
        uint32_t sum = dw_crc32c(0, to + at, r->sealed);
        sum = dw_crc32c_copy(sum, to + data, from + data, end - data, false);
        memcpy(to + end, &sum, sizeof sum);
    }
}

/* Checks and copies what one call has received, large messages past the cache. */
static void open_sealed(const struct raw_request *r, char *to, const char *from, size_t bytes)
{
    const bool past = r->message >= PAST_MIN_BYTES;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < datagram_bytes(r) ? bytes - at : datagram_bytes(r);
        const size_t data = at + r->sealed, end = at + n - RAW_CRC_BYTES;
        if (n < r->sealed + RAW_CRC_BYTES)
            raw_die("a datagram is shorter than its headers");
        uint32_t sum = dw_crc32c(0, from + at, r->sealed);
        sum = dw_crc32c_copy(sum, to + data, from + data, end - data, past);
        if (memcmp(from + end, &sum, sizeof sum) != 0)
            raw_die("a datagram is not what was sent");
    }
    dw_crc32c_copy_fence();
}

size_t raw_take(struct raw_flow *flow, size_t most)
{
    char *at = raw_memory_at(&flow->into);

    if (!flow->r->sealed)
        return raw_spin_recv(flow->fd, at, most);
    const size_t n = raw_spin_recv(flow->fd, slot, PLACE_BYTES);
    if (slot[0] != ACK_MARK)
        open_sealed(flow->r, at, slot, n);
    else
        memcpy(at, slot, n);
    return n;
}

static void send_part(struct raw_flow *flow, size_t bytes)
{
    const char *from = raw_memory_at(&flow->from);

    if (flow->r->sealed) {
        seal(flow->r, stage, from, bytes);
        from = stage;
    }
    raw_spin_send(flow->fd, from, bytes);
    raw_memory_pass(&flow->from, bytes);
    flow->sent += bytes;
}

/* ---- messages in turns --------------------------------------------------------------------- */

static void send_ack(struct raw_flow *flow)
{
    char ack[ACK_BYTES] = {ACK_MARK};

    memcpy(ack + 1, &flow->got, sizeof flow->got);
    raw_spin_send(flow->fd, ack, sizeof ack);
    flow->told = flow->got;
}

/* Bytes of data received; 0: it was an acknowledgement, or several that GRO has joined. */
static size_t receive_part(struct raw_flow *flow, size_t most)
{
    char *at = raw_memory_at(&flow->into);
    size_t n = raw_take(flow, most);

    if (flow->r->protocol == RAW_TCP || at[0] != ACK_MARK) {
        flow->got += n;
        raw_memory_pass(&flow->into, n);
        return n;
    }
    memcpy(&flow->acked, at + n - sizeof flow->acked, sizeof flow->acked);
    at[0] = DATA_BYTE;
    return 0;
}

void raw_send_message(struct raw_flow *flow)
{
    const struct raw_request *r = flow->r;

    flow->acked = flow->sent;
    flow->from.at = 0;
    for (size_t left = r->message; left > 0;) {
        size_t part = left < r->train ? left : r->train;
        if (r->protocol == RAW_UDP && flow->sent + part - flow->acked > r->window) {
            (void)receive_part(flow, PLACE_BYTES);
            continue;
        }
        send_part(flow, part);
        left -= part;
    }
}

void raw_receive_message(struct raw_flow *flow)
{
    const struct raw_request *r = flow->r;

    flow->told = flow->got;
    flow->into.at = 0;
    for (size_t left = r->message; left > 0;) {
        size_t most = left < RAW_CHUNK_BYTES ? left : RAW_CHUNK_BYTES;
        size_t n = receive_part(flow, r->protocol == RAW_UDP ? PLACE_BYTES : most);
        left -= n < left ? n : left;
        if (r->protocol == RAW_UDP && left && flow->got - flow->told >= r->window / 4)
            send_ack(flow);
    }
}

/* ---- streams ------------------------------------------------------------------------------- */

void raw_stream_until(struct raw_flow *flow, uint64_t end)
{
    const struct raw_request *r = flow->r;

    while (flow->acked < end) {
        uint64_t left = r->message ? r->message - flow->sent % r->message : end - flow->sent, told;
        size_t part = left < r->train ? (size_t)left : r->train;
        if (flow->sent < end && flow->sent + part - flow->acked <= r->window)
            send_part(flow, part);
        else if (raw_spin_recv(flow->fd, &told, sizeof told) == sizeof told && told > flow->acked)
            flow->acked = told;
    }
}

static void send_exchanged(struct raw_flow *flow, size_t bytes)
{
    memcpy(raw_memory_at(&flow->from), &flow->got, sizeof flow->got);
    if (bytes == ACK_BYTES)
        raw_spin_send(flow->fd, raw_memory_at(&flow->from), bytes);
    else
        send_part(flow, bytes);
    flow->told = flow->got;
}

void raw_exchange(struct raw_flow *flow, uint64_t end)
{
    const struct raw_request *r = flow->r;

    while (flow->acked < end || flow->told < end) {
        uint64_t left = end - flow->sent, acked;
        size_t part = left < r->segment ? (size_t)left : r->segment;

        if (left && flow->sent + part - flow->acked <= r->window) {
            send_exchanged(flow, part);
            continue;
        }
        if (flow->got - flow->told >= r->window / 4 || (flow->got >= end && flow->told < end)) {
            send_exchanged(flow, ACK_BYTES);
            continue;
        }
        char *into = raw_memory_at(&flow->into);
        part = raw_spin_recv(flow->fd, into, PLACE_BYTES);
        memcpy(&acked, into, sizeof acked);
        flow->acked = acked > flow->acked ? acked : flow->acked;
        if (part == ACK_BYTES)
            continue;
        raw_memory_pass(&flow->into, part);
        flow->got += part;
    }
}
