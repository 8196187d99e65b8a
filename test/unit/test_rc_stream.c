/* SPDX-License-Identifier: BSD-3-Clause */
/* RC QPs over streams that are cut anywhere: at each position once, and at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/rc_end.h"
#include "test/unit/fake_streams.h"
#include "test/unit/random.h"

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void pair_open(struct rc_pair *pair, struct fake_net *net)
{
    struct dw_env env;

    fake_env(net, &env);
    rc_end_open(&pair->a, 1, &env);
    env.seed++;
    rc_end_open(&pair->b, 2, &env);
}

static void pair_finish(struct rc_pair *pair)
{
    diwarp_disconnect(pair->b.qp);
    RC_UNTIL(pair->a.disconnects && pair->b.disconnects, &pair->a, &pair->b);
    assert_int_equal(pair->a.disconnected.wc.status, IBV_WC_SUCCESS);
    assert_int_equal(pair->b.disconnected.wc.status, IBV_WC_SUCCESS);
    rc_pair_close(pair);
}

/* ---- each position -------------------------------------------------------------------------- */

static uint64_t short_dialogue(struct fake_net *net, unsigned markers)
{
    static uint8_t from[700], to[700], back[700];
    struct rc_pair pair;

    pair_open(&pair, net);
    pair.a.attr.markers = markers & 1;
    pair.b.attr.markers = markers & 2;
    struct diwarp_mr *mr = diwarp_reg_mr(pair.b.pd, to, sizeof to, RIGHTS);

    assert_non_null(mr);
    rc_pair_connect(&pair);
    fill(from, sizeof from, 7);
    memset(to, 0, sizeof to);
    memset(back, 0, sizeof back);
    uint8_t small[2][5];

    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(rc_post_recv(&pair.b, small[i], 5, i), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, from, 3, 0, 0, NULL, 0), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_RDMA_WRITE, from, 600, 0, 1, mr, 9), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_RDMA_READ, back, 500, IBV_SEND_SIGNALED, 2, mr, 9), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, from + 1, 5, 0, 3, NULL, 0), 0);
    RC_UNTIL(pair.b.recvs == 2 && pair.a.reads == 1, &pair.a, &pair.b);
    assert_memory_equal(small[0], from, 3);
    assert_memory_equal(small[1], from + 1, 5);
    assert_memory_equal(to + 9, from, 600);
    assert_memory_equal(back, from, 500);
    assert_int_equal(back[500], 0);
    diwarp_dereg_mr(mr);
    pair_finish(&pair);
    return net->delivered;
}

static void rc_stream__cut_at_each_position(void **state)
{
    (void)state;
    for (unsigned markers = 0; markers < 4; markers += 3) {
        struct fake_net whole = {.emss = 536};
        uint64_t bytes = short_dialogue(&whole, markers);

        assert_true(bytes > 1200);
        for (uint64_t cut = 1; cut < bytes; cut++) {
            struct fake_net net = {.emss = 536, .cut = cut};

            short_dialogue(&net, markers);
        }
    }
}

/* ---- at random ------------------------------------------------------------------------------ */

#define MESSAGES   24
#define MOST_BYTES 9000

struct traffic {
    struct rc_end *from, *to;
    struct diwarp_mr *mr; /* of the other side: room[0] */
    uint32_t bytes[MESSAGES];
    unsigned posted, read_count, recv_posted;
    bool write_posted;                  /* of the next message */
    uint8_t *out, *in, *written, *back; /* MESSAGES pieces of MOST_BYTES */
};

static void traffic_open(struct traffic *t, struct rc_end *from, struct rc_end *to,
                         uint64_t *random)
{
    *t = (struct traffic){.from = from, .to = to};
    uint8_t **bufs[] = {&t->out, &t->in, &t->written, &t->back};
    for (unsigned i = 0; i < 4; i++) {
        *bufs[i] = calloc(MESSAGES, MOST_BYTES);
        assert_non_null(*bufs[i]);
    }
    t->mr = diwarp_reg_mr(to->pd, t->written, MESSAGES * MOST_BYTES, RIGHTS);
    assert_non_null(t->mr);
    for (unsigned i = 0; i < MESSAGES; i++) {
        t->bytes[i] = random_below(random, random_percent(random, 50) ? 64 : MOST_BYTES);
        fill(t->out + i * MOST_BYTES, t->bytes[i], (uint32_t)random_next(random));
    }
}

/* Message i: a Send, a Write of the same bytes, and now and then a Read of them. */
static void traffic_post(struct traffic *t, uint64_t *random)
{
    unsigned i = t->posted;

    if (i == MESSAGES)
        return;
    uint8_t *out = t->out + i * MOST_BYTES;
    uint32_t bytes = t->bytes[i];
    int rc = 0;
    if (!t->write_posted)
        rc = rc_post(t->from, IBV_WR_RDMA_WRITE, out, bytes, 0, i, t->mr, i * MOST_BYTES);
    assert_true(rc == 0 || rc == -ENOMEM);
    t->write_posted = rc == 0;
    if (!rc)
        rc = rc_post(t->from, IBV_WR_SEND, out, bytes, IBV_SEND_SIGNALED, i, NULL, 0);
    assert_true(rc == 0 || rc == -ENOMEM);
    if (rc)
        return;
    t->write_posted = false;
    t->posted++;
    if (random_percent(random, 30) && !rc_post(t->from, IBV_WR_RDMA_READ, t->back + i * MOST_BYTES,
                                               bytes, IBV_SEND_SIGNALED, i, t->mr, i * MOST_BYTES))
        t->read_count++;
    else
        memcpy(t->back + i * MOST_BYTES, out, bytes);
}

static void traffic_recv(struct traffic *t)
{
    if (t->recv_posted < MESSAGES &&
        !rc_post_recv(t->to, t->in + t->recv_posted * MOST_BYTES, MOST_BYTES, t->recv_posted))
        t->recv_posted++;
}

static void traffic_check(struct traffic *t)
{
    size_t bytes = (size_t)MESSAGES * MOST_BYTES;

    assert_memory_equal(t->in, t->out, bytes);
    assert_memory_equal(t->written, t->out, bytes);
    assert_memory_equal(t->back, t->out, bytes);
    diwarp_dereg_mr(t->mr);
    free(t->out);
    free(t->in);
    free(t->written);
    free(t->back);
}

static bool traffic_done(const struct traffic *t)
{
    return t->posted == MESSAGES && t->to->recvs == MESSAGES && t->from->reads == t->read_count;
}

static void random_attr(struct rc_end *end, uint64_t *random)
{
    end->attr.markers = random_percent(random, 30);
    end->attr.crc = random_percent(random, 70);
    end->attr.mpa_revision = 1 + random_percent(random, 50);
    end->attr.max_send_wr = 1 + random_below(random, 40);
    end->attr.max_recv_wr = 1 + random_below(random, 20);
    end->attr.max_rd_atomic = 1 + random_below(random, 4);
    end->attr.rnr_timeout_ns = UINT64_MAX;
    if (random_percent(random, 50))
        end->attr.srq = diwarp_create_srq(end->pd, 1 + random_below(random, 20), 4);
}

static void random_dialogue(uint64_t seed)
{
    static const uint32_t emss[] = {128, 536, 1448, 8948, 65483};
    uint64_t random = seed;
    struct fake_net net = {.random = seed ^ 0x5555};
    struct rc_pair pair;
    struct traffic ab, ba;

    net.most_bytes = random_percent(&random, 20) ? 0 : 1 + random_below(&random, 3000);
    net.room_bytes = 1 + random_below(&random, random_percent(&random, 50) ? 5000 : 100000);
    net.emss = emss[random_below(&random, 5)];
    pair_open(&pair, &net);
    random_attr(&pair.a, &random);
    random_attr(&pair.b, &random);
    rc_pair_connect(&pair);
    traffic_open(&ab, &pair.a, &pair.b, &random);
    traffic_open(&ba, &pair.b, &pair.a, &random);
    for (unsigned steps = 0; !traffic_done(&ab) || !traffic_done(&ba); steps++) {
        if (steps > 3000000 || pair.a.disconnects || pair.b.disconnects)
            fail_msg("seed %llu: stuck or closed: %u %u", (unsigned long long)seed,
                     pair.a.disconnected.wc.vendor_err, pair.b.disconnected.wc.vendor_err);
        switch (random_below(&random, 8)) {
        case 0:
            traffic_post(&ab, &random);
            break;
        case 1:
            traffic_post(&ba, &random);
            break;
        case 2:
            traffic_recv(&ab);
            break;
        case 3:
            traffic_recv(&ba);
            break;
        default:
            rc_end_poll(random_percent(&random, 50) ? &pair.a : &pair.b);
        }
    }
    traffic_check(&ab);
    traffic_check(&ba);
    struct diwarp_srq *srqs[] = {pair.a.attr.srq, pair.b.attr.srq};
    struct diwarp_memory memory;

    RC_UNTIL(pair.a.sends == MESSAGES && pair.b.sends == MESSAGES, &pair.a, &pair.b);
    diwarp_query_memory(pair.a.cq, pair.a.pd, &memory);
    assert_true(memory.peer_bytes > 0 && memory.receive_bytes < 1u << 20);
    diwarp_disconnect(pair.b.qp);
    RC_UNTIL(pair.a.disconnects && pair.b.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_SUCCESS);
    rc_end_destroy_qp(&pair.a);
    rc_end_destroy_qp(&pair.b);
    for (unsigned i = 0; i < 2; i++)
        if (srqs[i])
            diwarp_destroy_srq(srqs[i]);
    rc_pair_close(&pair);
}

static void rc_stream__cut_at_random(void **state)
{
    (void)state;
    const char *only = getenv("DW_SEED");
    const char *count = getenv("DW_SEEDS");
    uint64_t first = only ? strtoull(only, NULL, 0) : 1;
    uint64_t last = only ? first : count ? strtoull(count, NULL, 0) : 300;

    for (uint64_t seed = first; seed <= last; seed++) {
        if (getenv("DW_VERBOSE"))
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        random_dialogue(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_stream__cut_at_each_position),
        cmocka_unit_test(rc_stream__cut_at_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
