/* SPDX-License-Identifier: BSD-3-Clause */
/* What one peer can fill does not stop another: whatever is over its share is refused to itself. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/rd/parts.h"
#include "common/ud/ud.h"
#include "test/sim/sim_fixture.h"

/* Of the three nodes: the one all of whose share is taken, and the one that is to be served. */
enum { HERE, FULL, OTHER };

static struct fixture *open_three(void)
{
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    return f;
}

static void meet(struct fixture *f, unsigned from, unsigned to)
{
    uint8_t data[8] = {0};
    assert_int_equal(fixture_post(f, from, to, 9999, IBV_WR_SEND, 0, data, sizeof data, NULL), 0);
    sim_world_run_for(&f->world, 2 * MS);
}

/* ---- the send queue ---- */

/* Posts to FULL, which does not run, until that is refused. */
static unsigned fill_queue(struct fixture *f, enum ibv_wr_opcode opcode, uint8_t *data,
                           const struct diwarp_mr *mr)
{
    unsigned posted = 0;
    int rc;
    f->world.nodes[FULL].paused_until_ns = DW_NEVER;
    while (!(rc = fixture_post(f, HERE, FULL, posted, opcode, 0, data, 8, mr))) {
        assert_true(++posted < 1000);
        sim_world_run_for(&f->world, MS / 100);
    }
    assert_int_equal(rc, -ENOMEM);
    return posted;
}

static void queue__of_one_full__the_other_is_served(void **state)
{
    (void)state;
    static const struct {
        enum ibv_wr_opcode opcode;
        enum ibv_wc_opcode done;
    } kinds[] = {{IBV_WR_SEND, IBV_WC_SEND},
                 {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
                 {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
                 {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct fixture *f = open_three();
        uint64_t word[3] = {0}, local = 0;
        f->config.qp.max_send_wr = 8;
        f->config.device.send_window_datagrams = 4;
        fixture_open(f);
        bool sends = kinds[i].opcode == IBV_WR_SEND;
        struct diwarp_mr *full = sends ? NULL : fixture_reg(f, FULL, &word[FULL], 8);
        struct diwarp_mr *other = sends ? NULL : fixture_reg(f, OTHER, &word[OTHER], 8);
        unsigned posted = fill_queue(f, kinds[i].opcode, (uint8_t *)&local, full);
        assert_true(posted >= 8);
        assert_int_equal(fixture_post(f, HERE, OTHER, 500, kinds[i].opcode, 0, &local, 8, other),
                         0);
        sim_world_run_for(&f->world, MS);
        fixture_assert_status(f, HERE, 500, (int)kinds[i].done, IBV_WC_SUCCESS);
        f->world.nodes[FULL].paused_until_ns = 0;
        fixture_run(f, 2 * SECOND);
        assert_int_equal(fixture_count(f, HERE, (int)kinds[i].done), posted + 1);
        fixture_close(f);
    }
}

/* ---- the send pool ---- */

/* FULL acknowledges nothing; OTHER is sent more than one datagram, all of which leave at once. */
static void pool__one_acknowledges_nothing__the_other_has_a_window(void **state)
{
    (void)state;
    enum { BYTES = 60000, WIDEN = 120, TO_FULL = 60, TO_OTHER = 4 };
    struct fixture *f = open_three();
    uint8_t *data = fixture_payload(1, BYTES);
    f->config.mtu_bytes = 65535;
    f->config.device.rcvbuf_bytes = 32u << 20;
    f->config.impairment.delay_ns = MS;
    fixture_open(f);
    meet(f, HERE, OTHER);
    for (unsigned i = 0; i < WIDEN; i++) /* the window to it grows */
        assert_int_equal(fixture_post(f, HERE, FULL, i, IBV_WR_SEND, 0, data, BYTES, NULL), 0);
    sim_world_run_for(&f->world, 19 * MS);
    assert_int_equal(sim_peer(&f->world.nodes[HERE], FULL)->sendwin.count, 0);
    f->world.nodes[FULL].paused_until_ns = DW_NEVER;
    for (unsigned i = 0; i < TO_FULL; i++)
        assert_int_equal(fixture_post(f, HERE, FULL, i, IBV_WR_SEND, 0, data, BYTES, NULL), 0);
    sim_world_run_for(&f->world, MS / 10);
    for (unsigned i = 0; i < TO_OTHER; i++)
        assert_int_equal(fixture_post(f, HERE, OTHER, 100 + i, IBV_WR_SEND, 0, data, BYTES, NULL),
                         0);
    sim_world_run_for(&f->world, MS / 2);
    assert_int_equal(sim_peer(&f->world.nodes[HERE], OTHER)->sendwin.count, TO_OTHER);
    f->world.nodes[FULL].paused_until_ns = 0;
    fixture_run(f, 8 * SECOND);
    fixture_close(f);
    free(data);
}

/* ---- record control that a full socket holds up ---- */

static void held__one_has_many__the_other_is_told_too(void **state)
{
    (void)state;
    enum { WRITES = 100, BYTES = 30000 };
    struct fixture *f = open_three();
    uint8_t *remote = fixture_payload(1, BYTES), *local = fixture_payload(2, BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, HERE, remote, BYTES);
    meet(f, HERE, FULL);
    meet(f, HERE, OTHER);
    struct sim_endpoint *socket =
        dw_container(f->world.nodes[HERE].qp->port->datagrams.llp, struct sim_endpoint, llp);
    socket->links[0].free_ns = f->world.net.now_ns + MS;
    for (unsigned i = 0; i < WRITES; i++)
        assert_int_equal(fixture_post(f, FULL, HERE, i, IBV_WR_RDMA_WRITE, 0, local, BYTES, mr), 0);
    sim_world_run_for(&f->world, MS / 4);
    assert_int_equal(fixture_post(f, OTHER, HERE, 1, IBV_WR_RDMA_WRITE, 0, local, BYTES, mr), 0);
    sim_world_run_for(&f->world, MS);
    assert_true(f->world.net.now_ns > socket->links[0].free_ns);
    fixture_assert_status(f, OTHER, 1, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    fixture_run(f, 4 * SECOND);
    assert_int_equal(fixture_count(f, FULL, IBV_WC_RDMA_WRITE), WRITES);
    assert_int_equal(fixture_count(f, OTHER, IBV_WC_RDMA_WRITE), 1);
    fixture_close(f);
    free(remote);
    free(local);
}

/* What is held for a peer goes with it. */
static void held__its_peer_goes(void **state)
{
    (void)state;
    enum { WRITES = 6, BYTES = 30000 };
    struct fixture *f = open_three();
    uint8_t *remote = fixture_payload(1, BYTES), *local = fixture_payload(2, BYTES);
    f->config.device.peer_timeout_ns = SECOND;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, HERE, remote, BYTES);
    f->world.net.full_host = 1 + FULL;
    for (unsigned i = 0; i < WRITES; i++)
        assert_int_equal(fixture_post(f, FULL, HERE, i, IBV_WR_RDMA_WRITE, 0, local, BYTES, mr), 0);
    sim_world_run_for(&f->world, MS);
    assert_true(sim_rd_of(&f->world.nodes[HERE])->records.refused);
    f->world.nodes[FULL].paused_until_ns = DW_NEVER;
    sim_world_run_for(&f->world, 8 * SECOND);
    assert_int_equal(fixture_count(f, HERE, DIWARP_WC_PEER_GONE), 1);
    assert_false(sim_rd_of(&f->world.nodes[HERE])->records.refused);
    assert_true(dw_list_empty(&sim_rd_of(&f->world.nodes[HERE])->records.want));
    fixture_run(f, 8 * SECOND);
    fixture_close(f);
    free(remote);
    free(local);
}

/* ---- records that peers ask for ---- */

static void ask_to_read(struct fixture *f, unsigned from, uint32_t id, const struct diwarp_mr *mr)
{
    struct dw_read_request request = {.size = 1, .source_stag = mr->stag, .record_id = id};
    uint8_t payload[DW_READ_REQUEST_BYTES];
    request.source_to = (uintptr_t)mr->addr;
    dw_read_request_put(payload, &request);
    const struct dw_incoming in = {
        .peer = dw_peer_wake(sim_handle(&f->world.nodes[HERE], from)),
        .ends = {.qp = f->world.nodes[HERE].qp, .qpns = {1, 1}},
        .segment = {.payload = payload, .bytes = sizeof payload},
        .sequenced = true,
        .now_ns = f->world.net.now_ns,
    };
    assert_non_null(in.peer);
    dw_rdma_on_read_request(&in);
}

static void records__one_asks_for_too_many__the_other_is_served(void **state)
{
    (void)state;
    enum { MOST = 2 * DW_QUEUED_MAX };
    struct fixture *f = open_three();
    uint8_t remote[8] = {0};
    fixture_open(f);
    const struct dw_rd *rd = sim_rd_of(&f->world.nodes[HERE]);
    struct diwarp_mr *mr = fixture_reg(f, HERE, remote, sizeof remote);
    ask_to_read(f, OTHER, 1, mr); /* is awake */
    for (uint32_t id = 1; id <= MOST + 3; id++)
        ask_to_read(f, FULL, id, mr);
    assert_int_equal(rd->records.ends.count, MOST + 1);
    ask_to_read(f, OTHER, 2, mr);
    assert_int_equal(rd->records.ends.count, MOST + 2);
    sim_world_fini(&f->world);
    free(f);
}

/* ---- messages being put together ---- */

enum { PIECE = 30000 };

/* Bytes [at, at + PIECE) of message msn, not the last. */
static bool deliver_in(struct fixture *f, unsigned from, bool in_order, uint32_t msn, uint32_t at,
                       bool last)
{
    static const uint8_t payload[PIECE];
    const struct dw_arrival arrival = {.len = PIECE};
    const struct dw_incoming in = {
        .peer = dw_peer_wake(sim_handle(&f->world.nodes[HERE], from)),
        .ends = {.qp = f->world.nodes[HERE].qp, .qpns = {1, 1}},
        .segment = {.ddp = {.opcode = DW_RDMAP_SEND, .msn = msn, .mo = at, .last = last},
                    .payload = payload,
                    .bytes = PIECE},
        .arrival = &arrival,
        .in_order = in_order,
        .sequenced = true,
    };
    assert_non_null(in.peer);
    return dw_deliver_send(&in);
}

static bool deliver(struct fixture *f, unsigned from, uint32_t msn, uint32_t at, bool last)
{
    return deliver_in(f, from, false, msn, at, last);
}

static void assemblies__one_begins_all_it_may__the_other_too(void **state)
{
    (void)state;
    struct fixture *f = open_three();
    unsigned begun[3] = {0};
    fixture_open(f);
    while (deliver(f, FULL, 1 + begun[FULL], 0, false))
        begun[FULL]++;
    while (deliver(f, OTHER, 1 + begun[OTHER], 0, false))
        begun[OTHER]++;
    assert_in_range(begun[FULL], 8, 64);
    assert_true(begun[OTHER] > 1);
    sim_world_fini(&f->world);
    free(f);
}

/* Nor does one that begins its messages in turn, but ends none, whatever their numbers. */
static void assemblies__begun_with_falling_numbers__the_other_too(void **state)
{
    (void)state;
    struct fixture *f = open_three();
    uint32_t msn = 1000;
    fixture_open(f);
    while (deliver_in(f, FULL, true, msn, 0, false))
        assert_true(--msn > 900);
    assert_true(deliver_in(f, OTHER, true, 1, 0, false));
    sim_world_fini(&f->world);
    free(f);
}

/* The one message that may go on beyond the bound is of a peer that does not answer any more. */
static void assembly__of_a_silent_peer__the_other_is_served(void **state)
{
    (void)state;
    struct fixture *f = open_three();
    uint32_t at = 0;
    f->config.qp.max_msg_bytes = 4 << 20;
    fixture_open(f);
    for (; at < 2 << 20; at += PIECE)
        assert_true(deliver_in(f, FULL, true, 1, at, false));
    assert_false(deliver_in(f, OTHER, true, 1, 0, false));
    struct dw_peer *silent = dw_peer_wake(sim_handle(&f->world.nodes[HERE], FULL));
    silent->unanswered = DW_OFTEN;
    silent->records.contact.probe_sent_ns = (silent->records.contact.heard_ns + 1) & INT64_MAX;
    for (uint32_t other_at = 0; other_at < 2 << 20; other_at += PIECE)
        assert_true(deliver_in(f, OTHER, true, 1, other_at, false));
    assert_false(deliver_in(f, FULL, true, 1, at, false)); /* it is the other's turn now */
    sim_world_fini(&f->world);
    free(f);
}

/* What lies beyond the end that was told, or an end before what has come, is not of the message. */
static void assembly__beyond_its_end__refused(void **state)
{
    (void)state;
    struct fixture *f = open_three();
    fixture_open(f);
    const struct diwarp_counters *counters = sim_counters(&f->world, HERE);
    /* The end is told first. */
    assert_true(deliver(f, FULL, 1, PIECE, true));
    assert_true(deliver(f, FULL, 1, 2 * PIECE, false));
    assert_int_equal(counters->drop_header, 1);
    assert_true(deliver(f, FULL, 1, PIECE / 2, true));
    assert_int_equal(counters->drop_header, 2);
    assert_int_equal(counters->rx_send_msgs, 0);
    assert_true(deliver(f, FULL, 1, 0, false));
    assert_int_equal(counters->rx_send_msgs, 1);
    /* What lies beyond comes first. */
    assert_true(deliver(f, FULL, 2, 2 * PIECE, false));
    assert_true(deliver(f, FULL, 2, PIECE, true));
    assert_int_equal(counters->drop_header, 3);
    assert_int_equal(counters->rx_send_msgs, 1);
    sim_world_fini(&f->world);
    free(f);
}

/* A UD datagram of one segment, as from a node of that rank. */
static void deliver_ud(struct fixture *f, uint32_t msn, uint32_t at, bool last)
{
    enum { BYTES = 100 };
    uint8_t buf[DW_SEGMENT_LEN_BYTES + DW_DDP_UNTAGGED_BYTES + BYTES] = {0};
    const struct dw_arrival arrival = {
        .header = {.type = DW_LLP_UD, .job = 7, .rank = OTHER, .dst_qpn = 1},
        .segments = buf,
        .segments_len = sizeof buf,
    };
    struct dw_ddp_header ddp = {.opcode = DW_RDMAP_SEND, .msn = msn, .mo = at, .last = last};
    buf[1] = DW_DDP_UNTAGGED_BYTES + BYTES;
    dw_ddp_put(buf + DW_SEGMENT_LEN_BYTES, &ddp);
    dw_ud_take(NULL, f->world.nodes[HERE].qp, &arrival, f->world.net.now_ns);
}

static void ud_assembly__beyond_its_end__refused(void **state)
{
    (void)state;
    enum { BYTES = 100 };
    struct fixture *f = open_three();
    uint8_t buf[1000];
    struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = sizeof buf};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
    f->config.qp.type = DIWARP_QPT_UD;
    fixture_open(f);
    const struct diwarp_counters *counters = sim_counters(&f->world, HERE);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(diwarp_post_recv(f->world.nodes[HERE].qp, &wr), 0);
    deliver_ud(f, 1, BYTES, true);
    deliver_ud(f, 1, 2 * BYTES, false);
    assert_int_equal(counters->drop_header, 1);
    assert_int_equal(counters->rx_send_msgs, 0);
    deliver_ud(f, 1, 0, false);
    assert_int_equal(counters->rx_send_msgs, 1);
    deliver_ud(f, 2, 2 * BYTES, false);
    deliver_ud(f, 2, BYTES, true);
    assert_int_equal(counters->drop_header, 2);
    assert_int_equal(counters->rx_send_msgs, 1);
    sim_world_fini(&f->world);
    free(f);
}

/* ---- no counter decides ---- */

/* How long a burst takes whose socket is full now and then, and a record that needs many runs; and
 * how many of the runs were followed by more to send. */
static uint64_t burst_ns(bool counts)
{
    enum { SENDS = 300, BYTES = 5000, WRITE_BYTES = 1 << 20 };
    struct diwarp_counters elsewhere = {0};
    struct fixture *f = open_three();
    uint8_t *data = fixture_payload(1, WRITE_BYTES), *remote = malloc(WRITE_BYTES);
    uint64_t busy = 0;
    assert_non_null(remote);
    f->config.device.sndbuf_bytes = 16384;
    f->config.impairment.bytes_per_ns = 0.5;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, OTHER, remote, WRITE_BYTES);
    if (!counts)
        f->world.nodes[HERE].qp->port->datagrams.llp->counters = &elsewhere;
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(fixture_post(f, HERE, FULL, i, IBV_WR_SEND, 0, data, BYTES, NULL), 0);
    assert_int_equal(fixture_post(f, HERE, OTHER, 0, IBV_WR_RDMA_WRITE, 0, data, WRITE_BYTES, mr),
                     0);
    const uint64_t begin_ns = f->world.net.now_ns;
    while (f->wc_count < 2 * SENDS + 1) {
        assert_true(sim_world_step(&f->world));
        busy += diwarp_cq_busy(f->world.nodes[HERE].cq);
    }
    const uint64_t took_ns = f->world.net.now_ns - begin_ns;
    fixture_run(f, SECOND);
    fixture_close(f);
    free(data);
    free(remote);
    return took_ns + busy;
}

static void llp__counts_nothing__all_goes_as_with_one_that_does(void **state)
{
    (void)state;
    assert_int_equal(burst_ns(false), burst_ns(true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue__of_one_full__the_other_is_served),
        cmocka_unit_test(pool__one_acknowledges_nothing__the_other_has_a_window),
        cmocka_unit_test(held__one_has_many__the_other_is_told_too),
        cmocka_unit_test(held__its_peer_goes),
        cmocka_unit_test(records__one_asks_for_too_many__the_other_is_served),
        cmocka_unit_test(assemblies__one_begins_all_it_may__the_other_too),
        cmocka_unit_test(assemblies__begun_with_falling_numbers__the_other_too),
        cmocka_unit_test(assembly__of_a_silent_peer__the_other_is_served),
        cmocka_unit_test(assembly__beyond_its_end__refused),
        cmocka_unit_test(ud_assembly__beyond_its_end__refused),
        cmocka_unit_test(llp__counts_nothing__all_goes_as_with_one_that_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
