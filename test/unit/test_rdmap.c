/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMAP payloads, against vectors written from WIRE.md. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/include/diwarp.h"
#include "common/wire/bytes.h"
#include "common/wire/rdmap.h"
#include "test/vectors/vectors.h"

#define RELEASE_OVER_MAX_BYTES (DIWARP_RELEASE_MAX_BYTES + 1)

/* ---- each decoder behind one signature ---------------------------------------------------- */

static int get_write_record(const uint8_t *buf, size_t len)
{
    struct dw_write_record out;

    return dw_write_record_get(&out, buf, len);
}

static int get_read_request(const uint8_t *buf, size_t len)
{
    struct dw_read_request out;

    return dw_read_request_get(&out, buf, len);
}

static int get_atomic_request(const uint8_t *buf, size_t len)
{
    struct dw_atomic_request out;

    return dw_atomic_request_get(&out, buf, len);
}

static int get_atomic_response(const uint8_t *buf, size_t len)
{
    struct dw_atomic_response out;

    return dw_atomic_response_get(&out, buf, len);
}

static int get_record_control(const uint8_t *buf, size_t len)
{
    struct dw_record_control out;

    return dw_record_control_get(&out, buf, len);
}

typedef int get_fn(const uint8_t *buf, size_t len);

static const struct {
    const char *name;
    get_fn *get;
    size_t bytes;
} kinds[] = {
    {"write_record", get_write_record, DW_WRITE_RECORD_BYTES},
    {"read_request", get_read_request, DW_READ_REQUEST_BYTES},
    {"atomic_request_fetch_add", get_atomic_request, DW_ATOMIC_REQUEST_BYTES},
    {"atomic_request_cmp_swap", get_atomic_request, DW_ATOMIC_REQUEST_BYTES},
    {"atomic_response", get_atomic_response, DW_ATOMIC_RESPONSE_BYTES},
    {"record_open", get_record_control, DW_RECORD_OPEN_BYTES},
    {"record_status", get_record_control, DW_RECORD_STATUS_BYTES(2)},
    {"record_complete", get_record_control, DW_RECORD_CONTROL_BYTES + 6},
    {"record_abort", get_record_control, DW_RECORD_CONTROL_BYTES},
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static void get__truncated(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        bool any_release = strcmp(kinds[i].name, "record_complete") == 0;
        struct vector v;

        vector_load(&v, kinds[i].name);
        assert_int_equal(v.len, kinds[i].bytes);
        for (size_t len = 0; len <= v.len; len++) {
            uint8_t *bytes = exact_copy(v.bytes, len);
            bool whole = len == v.len || (any_release && len >= DW_RECORD_CONTROL_BYTES);

            assert_int_equal(kinds[i].get(bytes, len), whole ? 0 : -EBADMSG);
            free(bytes);
        }
    }
}

/* One field of a vector is overwritten with a value. */
static void get__field_out_of_domain(void **state)
{
    static const struct {
        const char *name;
        get_fn *get;
        size_t offset, bytes;
        uint32_t value;
        int expected;
    } cases[] = {
        {"write_record", get_write_record, 4, 4, 0x104, 0},
        {"write_record", get_write_record, 4, 4, 0x105, -EPROTO},
        {"write_record", get_write_record, 4, 4, UINT32_MAX, -EPROTO},
        {"write_record", get_write_record, 0, 4, 0, 0},
        {"read_request", get_read_request, 28, 4, 0x80000000, -EPROTO},
        {"read_request", get_read_request, 28, 4, 0xffffffff, -EPROTO},
        {"read_request", get_read_request, 12, 4, 0, 0},
        {"atomic_request_cmp_swap", get_atomic_request, 0, 4, 0, 0},
        {"atomic_request_cmp_swap", get_atomic_request, 0, 4, 1, -EPROTO},
        {"atomic_request_cmp_swap", get_atomic_request, 0, 4, 3, -EPROTO},
        {"atomic_request_cmp_swap", get_atomic_request, 0, 4, 15, -EPROTO},
        {"atomic_response", get_atomic_response, 12, 4, DW_STATUS_COUNT - 1, 0},
        {"atomic_response", get_atomic_response, 12, 4, DW_STATUS_COUNT, -EPROTO},
        {"atomic_response", get_atomic_response, 12, 4, 0x01000000, -EPROTO},
        {"record_abort", get_record_control, 0, 1, 0, -EPROTO},
        {"record_abort", get_record_control, 0, 1, 5, -EPROTO},
        {"record_abort", get_record_control, 0, 1, 255, -EPROTO},
        {"record_abort", get_record_control, 1, 1, DW_STATUS_COUNT, -EPROTO},
        {"record_abort", get_record_control, 1, 1, 255, -EPROTO},
        {"record_abort", get_record_control, 2, 2, 1, -EPROTO},
        {"record_abort", get_record_control, 2, 2, 0x0100, -EPROTO},
        {"record_open", get_record_control, 2, 2, 1, -EPROTO},
        {"record_open", get_record_control, 4, 4, 0x7fffffff, -EPROTO},
        {"record_open", get_record_control, 4, 4, 0, -EPROTO},
        {"record_complete", get_record_control, 2, 2, 1, -EPROTO},
        {"record_status", get_record_control, 2, 2, 1, -EPROTO},
        {"record_status", get_record_control, 2, 2, 3, -EBADMSG},
        {"record_status", get_record_control, 2, 2, DW_RECORD_MAX_RANGES, -EBADMSG},
        {"record_status", get_record_control, 2, 2, DW_RECORD_MAX_RANGES + 1, -EPROTO},
        {"record_status", get_record_control, 2, 2, 0xffff, -EPROTO},
        {"record_status", get_record_control, 12, 4, 0x5a0, -EPROTO},    /* empty range */
        {"record_status", get_record_control, 16, 4, 0xfffff, 0},        /* ranges that touch */
        {"record_status", get_record_control, 16, 4, 0x100000, -EPROTO}, /* that overlap */
        {"record_status", get_record_control, 24, 4, 0xfffff, -EPROTO},  /* empty range */
        {"record_status", get_record_control, 24, 4, 0, -EPROTO},        /* reversed range */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vector v;

        vector_load(&v, cases[i].name);
        for (size_t b = 0; b < cases[i].bytes; b++) {
            v.bytes[cases[i].offset + b] =
                (uint8_t)(cases[i].value >> 8 * (cases[i].bytes - 1 - b));
        }
        assert_int_equal(cases[i].get(v.bytes, v.len), cases[i].expected);
    }
}

static void atomic_request_get__reserved_bits(void **state)
{
    struct vector v;

    (void)state;
    vector_load(&v, "atomic_request_cmp_swap");
    for (unsigned bit = 4; bit < 32; bit++) {
        dw_put_be32(v.bytes, 1u << bit | DW_ATOMIC_CMP_SWAP);
        assert_int_equal(get_atomic_request(v.bytes, v.len), -EPROTO);
    }
}

/* Record control is read whole; bytes behind OPEN, STATUS and ABORT belong to nothing. */
static void record_control_get__trailing_byte(void **state)
{
    static const char *const names[] = {"record_open", "record_status", "record_abort"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct vector v;

        vector_load(&v, names[i]);
        v.bytes[v.len] = 0;
        assert_int_equal(get_record_control(v.bytes, v.len + 1), -EPROTO);
    }
}

/* ---- golden ------------------------------------------------------------------------------- */

static void write_record__golden(void **state)
{
    const struct dw_write_record in = {.id = 0x80000001, .offset = 0x100, .total = 0x104};
    uint8_t buf[DW_WRITE_RECORD_BYTES];
    struct dw_write_record out;
    struct vector v;

    (void)state;
    vector_load(&v, "write_record");
    assert_int_equal(dw_write_record_get(&out, v.bytes, v.len), 0);
    assert_memory_equal(&out, &in, sizeof in);
    dw_write_record_put(buf, &in);
    assert_memory_equal(buf, v.bytes, sizeof buf);
}

static void read_request__golden(void **state)
{
    const struct dw_read_request in = {.sink_stag = 0xa1a2a3a4,
                                       .sink_to = 0x0000700012345678,
                                       .size = 0x100000,
                                       .source_stag = 0xb1b2b3b4,
                                       .source_to = 0x00007fff87654321,
                                       .record_id = 0x7fffffff,
                                       .granted = 0x8000};
    uint8_t buf[DW_READ_REQUEST_BYTES];
    struct dw_read_request out;
    struct vector v;

    (void)state;
    vector_load(&v, "read_request");
    assert_int_equal(dw_read_request_get(&out, v.bytes, v.len), 0);
    assert_int_equal(out.sink_stag, in.sink_stag);
    assert_true(out.sink_to == in.sink_to);
    assert_int_equal(out.size, in.size);
    assert_int_equal(out.source_stag, in.source_stag);
    assert_true(out.source_to == in.source_to);
    assert_int_equal(out.record_id, in.record_id);
    assert_int_equal(out.granted, in.granted);
    dw_read_request_put(buf, &in);
    assert_memory_equal(buf, v.bytes, sizeof buf);
}

/* RFC 5040's 28 bytes are the first of ours. */
static void read_request_stream__golden(void **state)
{
    uint8_t buf[DW_READ_REQUEST_STREAM_BYTES];
    struct dw_read_request out;
    struct vector v;

    (void)state;
    vector_load(&v, "read_request_stream");
    assert_int_equal(v.len, sizeof buf);
    assert_int_equal(dw_read_request_get_stream(&out, v.bytes, v.len), 0);
    assert_int_equal(out.sink_stag, 0xa1a2a3a4);
    assert_true(out.sink_to == 0x0000700012345678);
    assert_int_equal(out.size, 0x100000);
    assert_int_equal(out.source_stag, 0xb1b2b3b4);
    assert_true(out.source_to == 0x00007fff87654321);
    assert_int_equal(out.record_id | out.granted, 0);
    dw_read_request_put_stream(buf, &out);
    assert_memory_equal(buf, v.bytes, v.len);
}

static void read_request_get_stream__length(void **state)
{
    struct dw_read_request out;
    struct vector v;

    (void)state;
    vector_load(&v, "read_request");
    for (size_t len = 0; len <= v.len; len++) {
        uint8_t *bytes = exact_copy(v.bytes, len);

        assert_int_equal(dw_read_request_get_stream(&out, bytes, len), len < 28    ? -EBADMSG
                                                                       : len == 28 ? 0
                                                                                   : -EPROTO);
        free(bytes);
    }
}

static void check_atomic_request(const char *name, const struct dw_atomic_request *in)
{
    uint8_t buf[DW_ATOMIC_REQUEST_BYTES];
    struct dw_atomic_request out;
    struct vector v;

    vector_load(&v, name);
    assert_int_equal(dw_atomic_request_get(&out, v.bytes, v.len), 0);
    assert_int_equal(out.opcode, in->opcode);
    assert_int_equal(out.request_id, in->request_id);
    assert_int_equal(out.stag, in->stag);
    assert_true(out.to == in->to);
    assert_true(out.add_swap == in->add_swap && out.add_swap_mask == in->add_swap_mask);
    assert_true(out.compare == in->compare && out.compare_mask == in->compare_mask);
    dw_atomic_request_put(buf, in);
    assert_memory_equal(buf, v.bytes, sizeof buf);
}

static void atomic_request__golden(void **state)
{
    (void)state;
    check_atomic_request("atomic_request_fetch_add",
                         &(struct dw_atomic_request){.opcode = DW_ATOMIC_FETCH_ADD,
                                                     .request_id = 7,
                                                     .stag = 0xc1c2c3c4,
                                                     .to = 0x1000,
                                                     .add_swap = UINT64_MAX});
    check_atomic_request("atomic_request_cmp_swap",
                         &(struct dw_atomic_request){.opcode = DW_ATOMIC_CMP_SWAP,
                                                     .request_id = 8,
                                                     .stag = 0xc1c2c3c4,
                                                     .to = 0x1008,
                                                     .add_swap = 5,
                                                     .add_swap_mask = UINT32_MAX,
                                                     .compare = 4,
                                                     .compare_mask = UINT32_MAX});
}

static void atomic_response__golden(void **state)
{
    const struct dw_atomic_response in = {
        .request_id = 8, .original = 0x1122334455667788, .status = DW_STATUS_BAD_STAG};
    uint8_t buf[DW_ATOMIC_RESPONSE_BYTES];
    struct dw_atomic_response out;
    struct vector v;

    (void)state;
    vector_load(&v, "atomic_response");
    assert_int_equal(dw_atomic_response_get(&out, v.bytes, v.len), 0);
    assert_int_equal(out.request_id, in.request_id);
    assert_true(out.original == in.original);
    assert_int_equal(out.status, in.status);
    dw_atomic_response_put(buf, &in);
    assert_memory_equal(buf, v.bytes, sizeof buf);
}

static void check_record_control(const char *name, const struct dw_record_control *in)
{
    uint8_t buf[DW_RECORD_STATUS_BYTES(DW_RECORD_MAX_RANGES)];
    struct dw_record_control out;
    struct vector v;

    vector_load(&v, name);
    assert_int_equal(dw_record_control_get(&out, v.bytes, v.len), 0);
    assert_int_equal(out.kind, in->kind);
    assert_int_equal(out.status, in->status);
    assert_int_equal(out.range_count, in->range_count);
    assert_int_equal(out.id, in->id);
    assert_int_equal(out.stag, in->stag);
    assert_true(out.to == in->to);
    assert_int_equal(out.length, in->length);
    assert_int_equal(out.granted, in->granted);
    assert_memory_equal(out.ranges, in->ranges, in->range_count * sizeof in->ranges[0]);
    assert_int_equal(out.release_bytes, in->release_bytes);
    if (in->release_bytes > 0) {
        assert_ptr_equal(out.release, v.bytes + DW_RECORD_CONTROL_BYTES);
        assert_memory_equal(out.release, in->release, in->release_bytes);
    }
    assert_int_equal(dw_record_control_put(buf, in), v.len);
    assert_memory_equal(buf, v.bytes, v.len);
}

static void record_control__golden(void **state)
{
    static const uint8_t release[] = {0x01, 0x00, 0x00, 0x00, 0xca, 0xfe};

    (void)state;
    check_record_control("record_open", &(struct dw_record_control){.kind = DW_RECORD_OPEN,
                                                                    .id = 0x80000002,
                                                                    .stag = 0xd1d2d3d4,
                                                                    .to = 0x00007f0000000000,
                                                                    .length = 0x400000});
    check_record_control("record_status",
                         &(struct dw_record_control){.kind = DW_RECORD_STATUS,
                                                     .id = 0x11,
                                                     .granted = 0x20000,
                                                     .range_count = 2,
                                                     .ranges = {{0, 1440}, {1048575, 1048576}}});
    check_record_control("record_complete",
                         &(struct dw_record_control){.kind = DW_RECORD_COMPLETE,
                                                     .id = 0x11,
                                                     .release = release,
                                                     .release_bytes = sizeof release});
    check_record_control("record_abort", &(struct dw_record_control){.kind = DW_RECORD_ABORT,
                                                                     .status = DW_STATUS_CANCELLED,
                                                                     .id = 0x80000002});
}

/* ---- bounds ------------------------------------------------------------------------------- */

static void record_control__release_bounds(void **state)
{
    static const size_t lengths[] = {0, 1, DIWARP_RELEASE_MAX_BYTES};
    uint8_t release[DIWARP_RELEASE_MAX_BYTES],
        buf[DW_RECORD_CONTROL_BYTES + RELEASE_OVER_MAX_BYTES];
    struct dw_record_control out;

    (void)state;
    memset(release, 0x5a, sizeof release);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct dw_record_control in = {.kind = DW_RECORD_COMPLETE,
                                       .id = 1,
                                       .release = lengths[i] > 0 ? release : NULL,
                                       .release_bytes = (uint32_t)lengths[i]};
        size_t len = dw_record_control_put(buf, &in);

        assert_int_equal(len, DW_RECORD_CONTROL_BYTES + lengths[i]);
        assert_int_equal(dw_record_control_get(&out, buf, len), 0);
        assert_int_equal(out.release_bytes, lengths[i]);
        assert_memory_equal(out.release, release, lengths[i]);
    }
    assert_int_equal(dw_record_control_get(&out, buf, sizeof buf), -EPROTO);
}

static void record_control__all_ranges(void **state)
{
    struct dw_record_control in = {.kind = DW_RECORD_STATUS, .id = 1, .granted = UINT32_MAX};
    uint8_t buf[DW_RECORD_STATUS_BYTES(DW_RECORD_MAX_RANGES)];

    (void)state;
    for (uint16_t n = 0; n <= DW_RECORD_MAX_RANGES; n++) {
        struct dw_record_control out;
        uint8_t *bytes;
        size_t len;

        in.range_count = n;
        if (n > 0) {
            in.ranges[n - 1] = (struct dw_range){n * 10u, n * 10u + 9};
        }
        len = dw_record_control_put(buf, &in);
        assert_int_equal(len, DW_RECORD_STATUS_BYTES(n));
        bytes = exact_copy(buf, len);
        assert_int_equal(dw_record_control_get(&out, bytes, len), 0);
        assert_int_equal(out.range_count, n);
        assert_memory_equal(out.ranges, in.ranges, n * sizeof in.ranges[0]);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get__truncated),
        cmocka_unit_test(get__field_out_of_domain),
        cmocka_unit_test(atomic_request_get__reserved_bits),
        cmocka_unit_test(record_control_get__trailing_byte),
        cmocka_unit_test(write_record__golden),
        cmocka_unit_test(read_request__golden),
        cmocka_unit_test(read_request_stream__golden),
        cmocka_unit_test(read_request_get_stream__length),
        cmocka_unit_test(atomic_request__golden),
        cmocka_unit_test(atomic_response__golden),
        cmocka_unit_test(record_control__golden),
        cmocka_unit_test(record_control__release_bounds),
        cmocka_unit_test(record_control__all_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
