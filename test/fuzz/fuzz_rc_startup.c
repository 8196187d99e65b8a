/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the set-up of RC connections as streams meet it: strangers who call a listener, or one who
 * answers our call. The input is a script of frames (right, or with one byte that is not), raw
 * bytes, hang-ups and time. Nobody becomes a caller, or a connection, who has not shown the token.
 */
#define _GNU_SOURCE /* memmem */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rc/qp.h"
#include "common/wire/bytes.h"
#include "test/fuzz/input.h"
#include "test/unit/fake_streams.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WRITTEN_MAX 4096

struct target {
    struct fake_net net;
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_listener *listener;
    struct diwarp_rc_qp *qp; /* our call; NULL: we are called */
    struct fake_stream *stream;
    uint64_t token;
    uint16_t port;
    bool accepts, over;
    size_t written; /* to the stream */
    uint8_t bytes[WRITTEN_MAX];
};

static void call(struct target *t)
{
    t->stream = fake_call(&t->net, t->port);
    t->written = 0;
}

static void put(struct target *t, const void *bytes, size_t count)
{
    if (t->written + count > WRITTEN_MAX)
        return;
    fake_write(t->stream, bytes, count);
    memcpy(t->bytes + t->written, bytes, count);
    t->written += count;
}

static bool has_shown_token(const struct target *t)
{
    uint8_t token[8];

    dw_put_be64(token, t->token);
    return memmem(t->bytes, t->written, token, sizeof token) != NULL;
}

static void answer(struct target *t, struct diwarp_connect_request *request)
{
    struct diwarp_rc_qp_attr attr;

    require(has_shown_token(t));
    diwarp_rc_qp_attr_init(&attr);
    attr.cq = t->cq;
    if (!t->accepts || t->qp)
        diwarp_reject(request, "no", 2);
    else
        require(!diwarp_accept(request, t->pd, &attr, "yes", 3, &t->qp));
}

static void run(struct target *t)
{
    struct diwarp_wc wcs[8];
    const int n = diwarp_poll_cq(t->cq, 8, wcs);

    for (int i = 0; i < n; i++) {
        const int opcode = (int)wcs[i].wc.opcode;
        if (opcode == DIWARP_WC_CONNECT_REQUEST)
            answer(t, wcs[i].request);
        require(opcode != DIWARP_WC_CONNECTED || has_shown_token(t));
        t->over |= opcode == DIWARP_WC_DISCONNECTED;
    }
}

static void set_up(struct target *t, struct input *in)
{
    struct dw_env env;
    struct diwarp_device_attr device_attr;
    struct diwarp_rc_qp_attr attr;
    struct diwarp_address address;
    const uint32_t mode = take(in, 1);

    t->net.random = mode;
    t->net.most_bytes = mode & 1 ? 1 + take(in, 1) : 0;
    t->accepts = mode & 2;
    fake_env(&t->net, &env);
    diwarp_device_attr_init(&device_attr);
    require(!dw_device_open(&device_attr, &env, &t->device, NULL));
    t->pd = diwarp_alloc_pd(t->device);
    t->cq = diwarp_create_cq(t->device, 16);
    require(t->pd && t->cq && !diwarp_listen(t->pd, t->cq, &t->listener, NULL));
    diwarp_query_listener(t->listener, &address);
    t->token = address.token;
    t->port = address.port;
    if (!(mode & 4)) {
        call(t);
        return;
    }
    diwarp_rc_qp_attr_init(&attr);
    attr.cq = t->cq;
    attr.mpa_revision = mode & 8 ? 1 : 2;
    require(!diwarp_connect(t->pd, &attr, &address, NULL, 0, &t->qp, NULL));
    t->stream = fake_take_call(&t->net, t->port);
    require(t->stream != NULL);
}

/* A frame as ours are, with the token or another one; the input may change a byte. */
static void put_frame(struct target *t, struct input *in)
{
    const uint32_t what = take(in, 1);
    const struct dw_mpa_frame frame = {
        .kind = what & 1 ? DW_MPA_REPLY : DW_MPA_REQUEST,
        .flags = (uint8_t)take(in, 1) & DW_MPA_FLAGS,
        .revision = what & 2 ? 1 : 2,
        .control = (uint8_t)(what >> 4),
        .ird = 4,
        .private_bytes = what & 8 ? 4 : 0,
        .private_data = (const uint8_t *)"data",
    };
    struct dw_rc_tail tail = {0};

    require(!dw_rc_frame_add(&tail, t->device, what & 4 ? t->token : take(in, 4), frame));
    const uint32_t at = take(in, 1);
    if (at < tail.bytes)
        tail.buf[at] ^= (uint8_t)take(in, 1);
    put(t, tail.buf, tail.bytes);
    free(tail.buf);
}

static void put_raw(struct target *t, struct input *in)
{
    size_t bytes = take(in, 1);

    if (bytes > (size_t)(in->end - in->at))
        bytes = (size_t)(in->end - in->at);
    put(t, in->at, bytes);
    in->at += bytes;
}

static void hang_up(struct target *t, bool reset)
{
    fake_hang_up(t->stream, reset);
    t->stream = NULL;
    run(t);
}

static void step(struct target *t, struct input *in)
{
    const uint32_t what = take(in, 1);

    switch (what & 7) {
    case 0:
    case 1:
        put_frame(t, in);
        break;
    case 2:
    case 3:
        put_raw(t, in);
        break;
    case 4:
        t->net.now_ns += (uint64_t)take(in, 2) * 1000000;
        break;
    case 5:
        (void)fake_read(t->stream, (uint8_t[256]){0}, 256);
        break;
    case 6:
        fake_end(t->stream);
        break;
    default:
        if (t->qp) /* there is nobody else */
            break;
        hang_up(t, what & 8);
        call(t);
    }
    run(t);
}

/* What decodes is put as it was. */
static void check_hello(const uint8_t *data, size_t size)
{
    struct dw_rc_hello hello;
    uint8_t again[DW_RC_HELLO_BYTES];
    const int rc = dw_rc_hello_get(&hello, data, size);

    require(rc == 0 || rc == (size < DW_RC_HELLO_BYTES ? -EBADMSG : -EPROTO));
    if (rc)
        return;
    dw_rc_hello_put(again, &hello);
    require(!memcmp(again, data, 3) && !memcmp(again + 4, data + 4, DW_RC_HELLO_BYTES - 6));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct target *t = calloc(1, sizeof *t);

    require(t != NULL);
    check_hello(data, size);
    set_up(t, &in);
    while (in.at < in.end && !t->over)
        step(t, &in);
    for (unsigned i = 0; i < 10; i++)
        run(t);
    hang_up(t, size & 1);
    for (unsigned i = 0; i < 10; i++)
        run(t);
    if (t->qp)
        diwarp_destroy_rc_qp(t->qp);
    diwarp_destroy_listener(t->listener);
    diwarp_destroy_cq(t->cq);
    diwarp_dealloc_pd(t->pd);
    diwarp_close_device(t->device);
    free(t);
    return 0;
}
