/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: how many sources are remembered, that the silent ones make room for newcomers and what they
 * sent does not come again then; what one source may hold; that destinations are not
 * remembered without end; and that the time for a segment does not grow with what is open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/datagram/segments.h"
#include "common/open.h"
#include "common/ud/ud.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "test/fuzz/memory_llp.h"

#define SOURCES_MAX 65536
#define RECORDS_MAX (1u << 17)
#define SECOND      1000000000ull

static struct memory_llp net;
static uint64_t now_ns = SECOND;
static struct diwarp_device *device;
static struct diwarp_pd *pd;
static struct diwarp_cq *cq;
static struct diwarp_qp *qp;
static struct diwarp_address address;
static uint8_t payload = 1;

static uint64_t virtual_now_ns(void *arg)
{
    (void)arg;
    return now_ns;
}

static void open_world(void)
{
    static const struct diwarp_interface interface = {
        .family = AF_INET, .prefix_bits = 24, .mtu_bytes = 1500, .ip = {10, 0, 0, 1}};
    const struct dw_env env = {.now_ns = virtual_now_ns,
                               .open_llp = memory_open,
                               .arg = &net,
                               .seed = 1,
                               .interfaces = &interface,
                               .interface_count = 1};
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    diwarp_device_attr_init(&attr);
    assert_int_equal(dw_device_open(&attr, &env, &device, NULL), 0);
    pd = diwarp_alloc_pd(device);
    cq = diwarp_create_cq(device, 16);
    diwarp_qp_attr_init(&qp_attr);
    qp_attr.type = DIWARP_QPT_UD;
    qp_attr.cq = cq;
    qp_attr.max_recv_wr = RECORDS_MAX;
    assert_int_equal(diwarp_create_qp(pd, &qp_attr, &qp, NULL), 0);
    diwarp_query_address(qp, &address);
}

static void close_world(void)
{
    diwarp_destroy_qp(qp);
    diwarp_destroy_cq(cq);
    diwarp_dealloc_pd(pd);
    diwarp_close_device(device);
}

/* One segment, which ends its message if it is a Send; of a record, its last byte. */
static void hear_segment(uint32_t rank, uint64_t number, const struct dw_ddp_header *ddp,
                         const struct dw_write_record *record)
{
    const struct dw_llp_header header = {.type = DW_LLP_UD,
                                         .token = address.token,
                                         .number = number,
                                         .job = 1,
                                         .rank = rank,
                                         .dst_qpn = address.qpn};
    struct diwarp_wc wc;
    dw_llp_header_put(net.datagram, &header);
    uint8_t *end = dw_segment_put(net.datagram + DW_LLP_HEADER_BYTES, ddp, record, !!record);
    if (record)
        *end++ = payload;
    net.bytes = (uint32_t)(end - net.datagram);
    dw_put_be32(end, dw_crc32c(0, net.datagram, net.bytes));
    net.bytes += DW_CRC_BYTES;
    net.segment_bytes = net.bytes;
    net.waiting = true;
    assert_true(diwarp_poll_cq(cq, 1, &wc) >= 0);
}

static void hear_number(uint32_t rank, uint64_t number)
{
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_SEND, .msn = (uint32_t)number + 1};
    hear_segment(rank, number, &ddp, NULL);
}

/* A Send, for which there is no receive. */
static void hear(uint32_t rank)
{
    hear_number(rank, 0);
}

static void ud_sources__silent_ones_make_room(void **state)
{
    (void)state;
    const struct diwarp_counters *counters;
    struct diwarp_memory memory;
    open_world();
    counters = diwarp_query_counters(qp);
    for (uint32_t rank = 0; rank < SOURCES_MAX; rank++)
        hear(rank);
    assert_int_equal(counters->drop_source, 0);
    hear(SOURCES_MAX);
    assert_int_equal(counters->drop_source, 1);
    now_ns += 11 * SECOND;
    hear(0); /* is the last one now */
    hear(SOURCES_MAX);
    hear(SOURCES_MAX + 1);
    assert_int_equal(counters->drop_source, 1);
    diwarp_query_memory(cq, pd, &memory);
    assert_int_equal(memory.peers, SOURCES_MAX);
    close_world();
}

static void post_receives(unsigned n)
{
    struct ibv_recv_wr recv = {0};
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(diwarp_post_recv(qp, &recv), 0);
}

/* One that has been forgotten for newcomers, and what it sent before comes again. */
static void ud_sources__forgotten__no_replay(void **state)
{
    (void)state;
    enum { NUMBER = 7 };
    const struct diwarp_counters *counters;
    open_world();
    counters = diwarp_query_counters(qp);
    post_receives(5);
    hear_number(0, UINT64_MAX - 1); /* these two wrap */
    hear_number(0, NUMBER);
    for (uint32_t rank = 1; rank < SOURCES_MAX; rank++)
        hear_number(rank, UINT64_MAX);
    assert_int_equal(counters->rx_send_msgs, 5);
    now_ns += 11 * SECOND;
    hear(SOURCES_MAX); /* in place of 0 */
    post_receives(3);
    now_ns += 11 * SECOND;
    hear_number(0, NUMBER);
    hear_number(0, UINT64_MAX - 1);
    assert_int_equal(counters->rx_send_msgs, 5);
    assert_int_equal(counters->rx_dup_datagrams, 2);
    hear_number(0, NUMBER + 2); /* in place of 1 */
    assert_int_equal(counters->rx_send_msgs, 6);
    hear_number(0, NUMBER); /* nor once it is known again */
    hear_number(0, NUMBER + 2);
    assert_int_equal(counters->rx_send_msgs, 6);
    hear_number(0, NUMBER + 1);
    assert_int_equal(counters->rx_send_msgs, 7);
    assert_int_equal(counters->drop_source, 0);
    close_world();
}

/* What somebody uses cannot be forgotten, and is in nobody's way. */
static void ud_sources__silent_one_in_use__others_make_room(void **state)
{
    (void)state;
    const struct diwarp_counters *counters;
    uint8_t byte;
    open_world();
    counters = diwarp_query_counters(qp);
    struct diwarp_mr *mr =
        diwarp_reg_mr(pd, &byte, 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    const struct dw_ddp_header put = {.tagged = true,
                                      .last = true,
                                      .opcode = DW_RDMAP_WRITE_RECORD,
                                      .stag = mr->stag,
                                      .to = (uintptr_t)&byte};
    const struct dw_write_record record = {.id = DW_RECORD_ID_FROM_SOURCE, .total = 1};
    hear_segment(0, 0, &put, &record); /* handed over, and kept */
    assert_int_equal(counters->rx_records_complete, 1);
    for (uint32_t rank = 1; rank < SOURCES_MAX; rank++)
        hear(rank);
    now_ns += 11 * SECOND;
    hear(SOURCES_MAX);
    assert_int_equal(counters->drop_source, 0);
    diwarp_dereg_mr(mr);
    close_world();
}

/* Begins `n` messages, or records, of two datagrams, and ends none. */
static void begin(uint32_t rank, uint32_t n, const struct diwarp_mr *mr)
{
    struct dw_ddp_header ddp = {.opcode = DW_RDMAP_SEND};
    struct dw_write_record record = {.total = 2};
    if (mr)
        ddp = (struct dw_ddp_header){.tagged = true,
                                     .opcode = DW_RDMAP_WRITE_RECORD,
                                     .stag = mr->stag,
                                     .to = (uintptr_t)mr->addr};
    for (uint32_t i = 1; i <= n; i++) {
        record.id = DW_RECORD_ID_FROM_SOURCE | i;
        ddp.msn = mr ? 0 : i;
        hear_segment(rank, i, &ddp, &record);
    }
}

/* What was under way when it began anew is not taken for the new message of the same number. */
static void ud_source__numbers_anew_amid_a_message__not_mixed(void **state)
{
    (void)state;
    enum { BYTES = 3 };
    static uint8_t memory[BYTES], inbox[2][BYTES];
    open_world();
    const struct diwarp_counters *counters = diwarp_query_counters(qp);
    struct diwarp_mr *mr =
        diwarp_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct dw_ddp_header put = {
        .tagged = true, .opcode = DW_RDMAP_WRITE_RECORD, .stag = mr->stag, .to = (uintptr_t)memory};
    struct dw_ddp_header send = {.opcode = DW_RDMAP_SEND, .msn = 1};
    struct dw_write_record record = {.id = DW_RECORD_ID_FROM_SOURCE | 1, .total = BYTES};
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_sge sge = {.addr = (uintptr_t)inbox[i], .length = BYTES};
        const struct ibv_recv_wr recv = {.wr_id = i, .sg_list = &sge, .num_sge = 1};
        assert_int_equal(diwarp_post_recv(qp, &recv), 0);
    }
    payload = 'a';
    hear_segment(0, 1, &put, &record);
    hear_segment(0, 2, &send, &record);
    payload = 'b';
    for (uint32_t at = 0; at < BYTES; at++) {
        const uint64_t number = 10 + DW_UD_NUMBERS_ANEW + 2 * at;
        record.offset = send.mo = at;
        put.to = (uintptr_t)memory + at;
        put.last = send.last = at == BYTES - 1;
        hear_segment(0, number, &put, &record);
        hear_segment(0, number + 1, &send, &record);
    }
    assert_memory_equal(memory, "bbb", BYTES);
    assert_int_equal(counters->rx_records_partial, 1);
    assert_int_equal(counters->rx_records_complete, 1);
    assert_memory_equal(inbox[0], "bbb", BYTES);
    assert_int_equal(counters->rx_partial_msgs, 1);
    assert_int_equal(counters->rx_send_msgs, 1);
    payload = 1;
    diwarp_dereg_mr(mr);
    close_world();
}

/* Half of what is left to the others, and no more, whatever it begins. */
static void ud_shares__one_source_begins_all(void **state)
{
    (void)state;
    enum { POSTED = 100 };
    static uint8_t memory[2];
    open_world();
    const struct diwarp_counters *counters = diwarp_query_counters(qp);
    struct diwarp_mr *mr =
        diwarp_reg_mr(pd, memory, 2, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    post_receives(POSTED);
    begin(0, POSTED, NULL);
    assert_int_equal(counters->drop_no_buffer, POSTED / 2);
    hear(1);
    assert_int_equal(counters->rx_send_msgs, 1);
    begin(2, POSTED, NULL);
    assert_int_equal(counters->drop_no_buffer, POSTED / 2 + POSTED - POSTED / 4);
    hear(3);
    assert_int_equal(counters->rx_send_msgs, 2);
    const uint64_t dropped = counters->drop_no_buffer;
    begin(0, RECORDS_MAX, mr);
    assert_int_equal(counters->drop_no_buffer, dropped + RECORDS_MAX / 2);
    begin(1, 1, mr);
    assert_int_equal(counters->rx_record_segments, RECORDS_MAX / 2 + 1);
    diwarp_bind_mr(mr, (struct diwarp_name){.job = 1, .rank = 8});
    begin(7, 1, mr);
    assert_int_equal(counters->drop_stag, 1);
    begin(8, 1, mr);
    assert_int_equal(counters->rx_record_segments, RECORDS_MAX / 2 + 2);
    diwarp_dereg_mr(mr);
    close_world();
}

/* A client that meets servers without end. Its numbers begin anew, and say so. */
static void ud_targets__without_end__forgotten(void **state)
{
    (void)state;
    enum { TARGETS_MAX = 65536 };
    struct diwarp_memory memory;
    struct diwarp_ah *ah;
    open_world();
    struct diwarp_address to = address;
    const uint64_t *number = &qp->port->datagrams.number;
    const uint64_t first = *number;
    for (uint32_t i = 0; i <= TARGETS_MAX; i++) {
        assert_true(*number - first == i);
        to.token++;
        assert_int_equal(diwarp_create_ah(qp, &to, &ah), 0);
        const struct diwarp_send_wr wr = {.wr = {.opcode = IBV_WR_SEND}, .ah = ah};
        assert_int_equal(diwarp_post_send(qp, &wr), 0);
        diwarp_destroy_ah(ah);
    }
    assert_true(*number - first > DW_UD_NUMBERS_ANEW);
    diwarp_query_memory(cq, pd, &memory);
    assert_true(memory.address_bytes < 10000);
    close_world();
}

/* Processor time of 2000 segments of records of 3000 bytes while `open` others are under way. */
static uint64_t time_with_open_ns(uint32_t open)
{
    enum { BYTES = 3000, TIMED = 2000 };
    static uint8_t memory[BYTES];
    struct timespec begin, end;
    now_ns = SECOND;
    open_world();
    struct diwarp_mr *mr =
        diwarp_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    const struct dw_ddp_header ddp = {
        .tagged = true, .opcode = DW_RDMAP_WRITE_RECORD, .stag = mr->stag, .to = (uintptr_t)memory};
    struct dw_write_record record = {.total = BYTES};
    for (uint32_t i = 1; i <= open; i++) {
        record.id = DW_RECORD_ID_FROM_SOURCE | i;
        hear_segment(0, i, &ddp, &record);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (uint32_t i = 1; i <= TIMED; i++)
        hear_segment(0, open + i, &ddp, &record);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    assert_int_equal(diwarp_query_counters(qp)->rx_record_segments, open + TIMED);
    diwarp_dereg_mr(mr);
    close_world();
    return (uint64_t)(end.tv_sec - begin.tv_sec) * SECOND + (uint64_t)end.tv_nsec -
           (uint64_t)begin.tv_nsec;
}

static void ud_records__50000_open__no_more_time_per_segment(void **state)
{
    (void)state;
    const uint64_t few_ns = time_with_open_ns(10), many_ns = time_with_open_ns(50000);
    if (many_ns > 10 * few_ns)
        fail_msg("%llu ns with 10 open, %llu with 50000", (unsigned long long)few_ns,
                 (unsigned long long)many_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ud_sources__silent_ones_make_room),
        cmocka_unit_test(ud_sources__forgotten__no_replay),
        cmocka_unit_test(ud_sources__silent_one_in_use__others_make_room),
        cmocka_unit_test(ud_source__numbers_anew_amid_a_message__not_mixed),
        cmocka_unit_test(ud_shares__one_source_begins_all),
        cmocka_unit_test(ud_targets__without_end__forgotten),
        cmocka_unit_test(ud_records__50000_open__no_more_time_per_segment),
    };
    return cmocka_run_group_tests_name("ud_sources", tests, NULL, NULL);
}
