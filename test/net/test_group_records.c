/* SPDX-License-Identifier: BSD-3-Clause */
/* Write-Record to a group over real sockets on 127.0.0.1: what is placed in the members' regions,
 * and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/group_members.h"

#define STAG 0x600d

static int write_to(struct three *three, uint32_t length, uint32_t stag, uint64_t offset)
{
    struct ibv_sge sge = {.addr = (uintptr_t)buf_a, .length = length};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = IBV_WR_RDMA_WRITE,
               .wr.rdma = {.rkey = stag, .remote_addr = offset}},
        .ah = three->to_group,
    };
    return diwarp_post_send(three->a.qp, &wr);
}

static struct diwarp_mr *attach_window(struct node *node, const struct diwarp_group *group,
                                       uint8_t *buf, size_t bytes)
{
    struct diwarp_mr *mr = diwarp_reg_mr_iova(node->pd, buf, bytes, node->address.name.rank,
                                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(mr);
    assert_int_equal(diwarp_attach_group(node->qp, group, mr, STAG), 0);
    return mr;
}

static void group_record__comes_to_each_members_region(void **state)
{
    (void)state;
    struct diwarp_record_info info;
    struct three three;
    three_open(&three);
    struct diwarp_mr *mr_b = attach_window(&three.b, &three.group, buf_b, sizeof buf_b);
    struct diwarp_mr *mr_c = attach_window(&three.c, &three.group, buf_c, sizeof buf_c);

    for (unsigned i = 0; i < 5; i++) {
        struct node *nodes[] = {&three.b, &three.c};
        const uint8_t *bufs[] = {buf_b, buf_c};
        fill(buf_a, 50000, i);
        assert_int_equal(write_to(&three, 50000, STAG, 1000 * i), 0);
        RUN_UNTIL(three.b.records == i + 1 && three.c.records == i + 1, &three.b, &three.c);
        for (unsigned k = 0; k < 2; k++) {
            diwarp_query_record(nodes[k]->last.record, &info);
            assert_true(info.full);
            assert_ptr_equal(info.addr, bufs[k] + 1000 * i);
            assert_int_equal(nodes[k]->last.group, three.group.token);
            assert_filled(bufs[k] + 1000 * i, 50000, i);
            diwarp_release_record(nodes[k]->last.record);
        }
    }
    diwarp_dereg_mr(mr_b);
    diwarp_dereg_mr(mr_c);
    three_close(&three);
}

/* Beyond the region, another STag, even the region's own, and one that is gone. */
static void group_record__outside_its_window_is_dropped(void **state)
{
    (void)state;
    struct three three;
    three_open(&three);
    struct diwarp_mr *mr = attach_window(&three.b, &three.group, buf_b, 5000);
    attach(&three.c, &three.group);
    const struct {
        uint32_t stag;
        uint64_t offset;
    } bad[] = {{STAG, 4901},
               {STAG, 5001},
               {STAG, UINT64_MAX - 50},
               {STAG, -(uint64_t)(uintptr_t)buf_b},
               {STAG + 1, 0},
               {mr->stag, (uintptr_t)buf_b}};
    const unsigned count = sizeof bad / sizeof *bad;

    memset(buf_b, 0xee, 5200);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(write_to(&three, 100, bad[i].stag, bad[i].offset), 0);
        RUN_UNTIL(three.b.counters->drop_stag == i + 1, &three.b);
    }
    diwarp_dereg_mr(mr);
    assert_int_equal(write_to(&three, 100, STAG, 0), 0);
    RUN_UNTIL(three.b.counters->drop_stag == count + 1, &three.b);
    RUN_UNTIL(three.c.counters->drop_stag == count + 1, &three.c);
    for (unsigned i = 0; i < 5200; i++)
        assert_int_equal(buf_b[i], 0xee);
    three_close(&three);
}

/* Nobody can be asked for memory by way of a group, nor would one know who answers. */
static void group_read__is_refused(void **state)
{
    (void)state;
    static struct forger forger;
    const struct dw_ddp_header ddp = {
        .opcode = DW_RDMAP_READ_REQUEST, .last = true, .qn = DW_QN_REQUEST, .msn = 1};
    const uint8_t request[DW_READ_REQUEST_BYTES] = {0};
    struct three three;
    three_open(&three);
    struct diwarp_mr *mr = attach_window(&three.b, &three.group, buf_b, 5000);
    assert_int_equal(post(&three.a, three.to_group, IBV_WR_RDMA_READ, buf_a, 100, 0, 0, mr, 0),
                     -EINVAL);

    forger_to_group(&forger, &three);
    forge_begin(&forger);
    forge_segment(&forger, &ddp, request, sizeof request, NULL, 0);
    forge_send(&forger);
    RUN_UNTIL(three.b.counters->drop_stag == 1, &three.b);
    /* An answer, of which the id was the reader's. */
    forger.header.number++;
    forge_begin(&forger);
    forge_write_record(&forger, 1, STAG, 0, 0, 100, buf_a, 100);
    forge_send(&forger);
    RUN_UNTIL(three.b.counters->drop_header == 1, &three.b);
    forger_close(&forger);
    diwarp_dereg_mr(mr);
    three_close(&three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_record__comes_to_each_members_region),
        cmocka_unit_test(group_record__outside_its_window_is_dropped),
        cmocka_unit_test(group_read__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
