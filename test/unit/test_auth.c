/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealed datagrams: vectors, what is refused of them, by which keys, and which have come before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/datagram/seal.h"
#include "test/unit/random.h"
#include "test/vectors/vectors.h"

#define MANY 3000 /* more than there are ciphers */

static const struct dw_process source = {{1, 2}, 9}, sink = {{1, 0}, 5};
static const uint8_t source_secret[DIWARP_SECRET_BYTES] = {
    0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f};
static const uint8_t sink_secret[DIWARP_SECRET_BYTES] = {
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f};
static const uint8_t no_file[DW_HMAC_BYTES];
static struct diwarp_counters counters;

/* Two ends of a way, each with what it was told of the other. */
struct ends {
    struct dw_auth *from, *to;
    struct dw_seal seal;
};

static struct dw_auth *open_end(enum diwarp_auth mode, const struct dw_process *me,
                                const uint8_t *secret, const uint8_t *file_key)
{
    struct dw_auth *auth = dw_auth_create(mode, me, secret, file_key, 1);
    assert_non_null(auth);
    return auth;
}

static struct ends open_ends(enum diwarp_auth mode, const uint8_t *file_key)
{
    struct ends ends = {.from = open_end(mode, &source, source_secret, file_key),
                        .to = open_end(mode, &sink, sink_secret, file_key)};
    assert_int_equal(dw_auth_on_told(ends.from, &sink, sink_secret), 0);
    ends.seal = dw_seal_of(true, ends.from);
    return ends;
}

static void close_ends(struct ends *ends)
{
    dw_auth_destroy(ends->from);
    dw_auth_destroy(ends->to);
}

/* From the source to the sink, of `bytes` without the tag, at buf. */
static void make(const struct ends *ends, enum dw_llp_type type, uint64_t number, uint8_t *buf,
                 uint32_t bytes)
{
    const struct dw_llp_header header = {
        .type = (uint8_t)type,
        .flags = dw_seal_flags(&ends->seal, &sink),
        .incarnation = source.incarnation,
        .token = 0xff,
        .job = source.name.job,
        .rank = source.name.rank,
        .number = number,
    };
    dw_llp_header_put(buf, &header);
    for (uint32_t i = DW_LLP_HEADER_BYTES; i < bytes; i++)
        buf[i] = (uint8_t)(i * 7);
    uint8_t *place = dw_seal_place(&ends->seal, buf);
    dw_seal(&ends->seal, &sink, buf, bytes, place);
    memmove(buf, place, bytes + DW_TAG_BYTES);
}

/* What is wrong with a datagram, by a copy of it. */
static uint64_t *verdict(struct dw_auth *auth, const uint8_t *buf, uint32_t len)
{
    struct dw_llp_header header;
    uint8_t *copy = exact_copy(buf, len);
    if (dw_llp_header_get(&header, copy, len) || !(header.flags & DW_LLP_SEALED)) {
        free(copy);
        return &counters.drop_header;
    }
    uint64_t *wrong = dw_auth_open(auth, &counters, &header, copy, len);
    free(copy);
    return wrong;
}

static bool take(struct dw_auth *auth, uint64_t number)
{
    const struct dw_llp_header header = {.type = DW_LLP_DATA,
                                         .incarnation = source.incarnation,
                                         .job = source.name.job,
                                         .rank = source.name.rank,
                                         .number = number};
    return dw_auth_on_taken(auth, &header);
}

/* ---- vectors ---- */

static void auth__golden_vectors(void **state)
{
    (void)state;
    static const uint8_t file_key[DW_HMAC_BYTES] = {0x0b, 0xd7, 0xc6, 0x8a, 0x0f, 0xb6, 0x78, 0xad,
                                                    0x87, 0xc8, 0x16, 0xa2, 0x92, 0x79, 0xbc, 0x70,
                                                    0x6a, 0xd1, 0x89, 0xeb, 0x34, 0xdb, 0xef, 0x86,
                                                    0xdd, 0x3f, 0xf8, 0x8b, 0x05, 0xc9, 0x0e, 0x03};
    static const struct {
        const char *name, *text; /* what ends it, in the clear */
        enum diwarp_auth mode;
        const uint8_t *file_key;
        bool told; /* the sink, of the source; else the source, of the sink */
    } cases[] = {
        {"sealed_data_gmac", "hello", DIWARP_AUTH_GMAC, no_file, false},
        {"sealed_ud_gmac", "uds", DIWARP_AUTH_GMAC, no_file, false},
        {"sealed_record_aes_gcm", "\xaa\xbb\xcc\xdd", DIWARP_AUTH_AES_GCM, file_key, false},
        {"sealed_reset_source_key", "\x11\x22\x33\x44\x55\x66\x77\x88", DIWARP_AUTH_AES_GCM,
         no_file, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dw_llp_header header;
        struct vector v, again;
        struct ends ends = open_ends(cases[i].mode, cases[i].file_key);
        if (cases[i].told) {
            assert_int_equal(dw_auth_on_told(ends.to, &source, source_secret), 0);
            dw_auth_on_untold(ends.from, sink.name);
        }
        vector_load(&v, cases[i].name);
        again = v;
        assert_int_equal(dw_llp_header_get(&header, v.bytes, v.len), 0);
        assert_null(dw_auth_open(ends.to, &counters, &header, v.bytes, (uint32_t)v.len));
        const size_t bytes = v.len - DW_TAG_BYTES, text = strlen(cases[i].text);
        assert_memory_equal(v.bytes + bytes - text, cases[i].text, text);
        assert_int_equal(dw_seal_flags(&ends.seal, &sink), v.bytes[1]);
        dw_seal(&ends.seal, &sink, v.bytes, (uint32_t)bytes, v.bytes);
        assert_memory_equal(v.bytes, again.bytes, v.len);
        close_ends(&ends);
    }
}

/* ---- what is refused ---- */

static void auth_open__every_flipped_bit_is_refused(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + 70 };
    for (int mode = DIWARP_AUTH_GMAC; mode <= DIWARP_AUTH_AES_GCM; mode++)
        for (int type = DW_LLP_UD; type < DW_LLP_TYPES; type++) {
            struct ends ends = open_ends((enum diwarp_auth)mode, no_file);
            uint8_t buf[BYTES + DW_TAG_BYTES];
            make(&ends, (enum dw_llp_type)type, 77, buf, BYTES);
            assert_null(verdict(ends.to, buf, sizeof buf));
            for (uint32_t bit = 0; bit < 8 * sizeof buf; bit++) {
                buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
                if (!verdict(ends.to, buf, sizeof buf))
                    fail_msg("mode %d, type %d: bit %u", mode, type, bit);
                buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
            }
            for (uint32_t len = 0; len < sizeof buf; len++)
                assert_non_null(verdict(ends.to, buf, len));
            close_ends(&ends);
        }
}

/* What another process, mode, job or direction sealed; and what was sealed before a restart. */
static void auth_open__other_keys_are_refused(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + 8 };
    static const uint8_t file_key[DW_HMAC_BYTES] = {1};
    const struct dw_process restarted = {sink.name, sink.incarnation + 1};
    const struct dw_process other = {{1, 3}, sink.incarnation};
    uint8_t buf[BYTES + DW_TAG_BYTES];
    struct ends ends = open_ends(DIWARP_AUTH_GMAC, no_file);
    const struct {
        enum diwarp_auth mode;
        const struct dw_process *me;
        const uint8_t *secret, *file_key;
        bool opens;
    } cases[] = {
        {DIWARP_AUTH_GMAC, &sink, sink_secret, no_file, true},
        {DIWARP_AUTH_AES_GCM, &sink, sink_secret, no_file, false},
        {DIWARP_AUTH_GMAC, &restarted, sink_secret, no_file, false},
        {DIWARP_AUTH_GMAC, &other, sink_secret, no_file, false},
        {DIWARP_AUTH_GMAC, &source, sink_secret, no_file, false},
        {DIWARP_AUTH_GMAC, &sink, source_secret, no_file, false},
        {DIWARP_AUTH_GMAC, &sink, sink_secret, file_key, false},
    };
    make(&ends, DW_LLP_DATA, 5, buf, BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dw_auth *auth =
            open_end(cases[i].mode, cases[i].me, cases[i].secret, cases[i].file_key);
        uint64_t *wrong = verdict(auth, buf, sizeof buf);
        assert_ptr_equal(wrong, cases[i].opens ? NULL : &counters.drop_auth);
        dw_auth_destroy(auth);
    }
    close_ends(&ends);
}

/* By its own secret a process speaks to whom it was not told of, if that one was told of it. */
static void auth_open__source_key(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + 8 };
    uint8_t buf[BYTES + DW_TAG_BYTES];
    struct ends ends = open_ends(DIWARP_AUTH_AES_GCM, no_file);
    dw_auth_on_untold(ends.from, sink.name);
    make(&ends, DW_LLP_DATA, 5, buf, BYTES);
    assert_int_equal(buf[1], DW_LLP_SEALED | DW_LLP_SOURCE_KEY);
    assert_ptr_equal(verdict(ends.to, buf, sizeof buf), &counters.drop_auth);
    assert_int_equal(dw_auth_on_told(ends.to, &source, source_secret), 0);
    assert_null(verdict(ends.to, buf, sizeof buf));
    assert_int_equal(dw_auth_on_told(ends.from, &sink, sink_secret), 0);
    make(&ends, DW_LLP_DATA, 6, buf, BYTES);
    assert_int_equal(buf[1], DW_LLP_SEALED);
    assert_null(verdict(ends.to, buf, sizeof buf));
    close_ends(&ends);
}

/* ---- sealing in pieces ---- */

static void sealing__pieces_like_one(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + 5000 };
    static uint8_t whole[BYTES + DW_TAG_BYTES], pieces[sizeof whole];
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t random = seed;
        const enum diwarp_auth mode = (enum diwarp_auth)(1 + seed % 2);
        const uint32_t bytes = DW_LLP_HEADER_BYTES + 1 + random_below(&random, 5000);
        const uint32_t head = DW_LLP_HEADER_BYTES + random_below(&random, 40) % (bytes - 60);
        struct ends ends = open_ends(mode, no_file);
        make(&ends, DW_LLP_RECORD, seed, whole, bytes);
        struct iovec iov[4];
        static uint8_t text[BYTES];
        for (uint32_t i = DW_LLP_HEADER_BYTES; i < bytes; i++)
            text[i] = (uint8_t)(i * 7);
        uint32_t skip = random_below(&random, 50), at = 0;
        static uint8_t memory[4][BYTES + 50];
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t left = skip + bytes - head - at;
            const uint32_t n = i == 3 ? left : random_below(&random, left + 1);
            for (uint32_t k = 0; k < n; k++)
                memory[i][k] = at + k < skip ? 0xee : text[head + at + k - skip];
            iov[i] = (struct iovec){memory[i], n};
            at += n;
        }
        memcpy(pieces, whole, DW_LLP_HEADER_BYTES);
        memcpy(pieces + DW_LLP_HEADER_BYTES, text + DW_LLP_HEADER_BYTES,
               head - DW_LLP_HEADER_BYTES);
        struct dw_sealing sealing = dw_sealing_begin(&ends.seal, &sink, pieces, head);
        dw_sealing_gather(&sealing, pieces + head, iov, skip, bytes - head);
        dw_sealing_end(&sealing, pieces + bytes);
        assert_for_seed(seed, !memcmp(whole, pieces, bytes + DW_TAG_BYTES));
        assert_for_seed(seed, !verdict(ends.to, pieces, bytes + DW_TAG_BYTES));
        close_ends(&ends);
    }
}

/* A text that is sent again stays what it is, and leaves as something else each time. */
static void seal__leaves_the_text_of_a_secret_datagram(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + 100 };
    struct ends ends = open_ends(DIWARP_AUTH_AES_GCM, no_file);
    uint8_t buf[BYTES + DW_TAG_BYTES] = {0}, before[sizeof buf], first[sizeof buf];
    const struct dw_llp_header header = {.type = DW_LLP_DATA, .flags = DW_LLP_SEALED, .number = 1};
    dw_llp_header_put(buf, &header);
    memcpy(before, buf, sizeof buf);
    uint8_t *place = dw_seal_place(&ends.seal, buf);
    assert_ptr_not_equal(place, buf);
    dw_seal(&ends.seal, &sink, buf, BYTES, place);
    assert_memory_equal(buf, before, sizeof buf);
    memcpy(first, place, sizeof first);
    buf[31]++; /* its number */
    dw_seal(&ends.seal, &sink, buf, BYTES, place);
    for (unsigned i = DW_LLP_HEADER_BYTES; i < sizeof first; i += 16)
        assert_memory_not_equal(first + i, place + i, 16);
    close_ends(&ends);
}

/* ---- replay ---- */

static void auth_open__replay(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + 8 };
    struct ends ends = open_ends(DIWARP_AUTH_GMAC, no_file);
    uint8_t buf[BYTES + DW_TAG_BYTES], later[sizeof buf];
    make(&ends, DW_LLP_DATA, 100, buf, BYTES);
    make(&ends, DW_LLP_DATA, 101, later, BYTES);
    assert_null(verdict(ends.to, buf, sizeof buf));
    assert_null(verdict(ends.to, buf, sizeof buf)); /* it was not taken */
    assert_true(take(ends.to, 101));
    assert_null(verdict(ends.to, buf, sizeof buf)); /* overtaken */
    assert_true(take(ends.to, 100));
    assert_ptr_equal(verdict(ends.to, buf, sizeof buf), &counters.drop_replay);
    assert_ptr_equal(verdict(ends.to, later, sizeof later), &counters.drop_replay);
    make(&ends, DW_LLP_UD, 100, buf, BYTES); /* which are numbered by themselves */
    assert_null(verdict(ends.to, buf, sizeof buf));
    close_ends(&ends);
}

/* RESETs come in order, or not at all. */
static void auth_open__reset_once(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + DW_RESET_BYTES };
    struct ends ends = open_ends(DIWARP_AUTH_GMAC, no_file);
    uint8_t first[BYTES + DW_TAG_BYTES], second[sizeof first];
    assert_int_equal(dw_auth_on_told(ends.to, &source, source_secret), 0);
    make(&ends, DW_LLP_RESET, 7, first, BYTES);
    make(&ends, DW_LLP_RESET, 9, second, BYTES);
    assert_null(verdict(ends.to, second, sizeof second));
    assert_ptr_equal(verdict(ends.to, second, sizeof second), &counters.drop_replay);
    assert_ptr_equal(verdict(ends.to, first, sizeof first), &counters.drop_replay);
    close_ends(&ends);
}

/* What was taken does not come again when its source has been forgotten, or another incarnation has
 * taken its name. */
static void auth_open__replay_of_the_forgotten(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + 8 };
    const struct dw_process restarted = {source.name, source.incarnation + 1};
    for (int restart = 0; restart < 2; restart++) {
        struct ends ends = open_ends(DIWARP_AUTH_GMAC, no_file);
        uint8_t old[BYTES + DW_TAG_BYTES], new[sizeof old];
        make(&ends, DW_LLP_DATA, 100, old, BYTES);
        make(&ends, DW_LLP_DATA, 101, new, BYTES);
        assert_true(take(ends.to, 100));
        if (restart)
            assert_int_equal(dw_auth_on_told(ends.to, &restarted, source_secret), 0);
        else
            dw_auth_on_forgotten(ends.to, source.name);
        assert_int_equal(ends.to->peers.count, restart);
        assert_ptr_equal(verdict(ends.to, old, sizeof old), &counters.drop_replay);
        assert_null(verdict(ends.to, new, sizeof new));
        if (restart) /* back to the first: an address that is told late */
            assert_int_equal(dw_auth_on_told(ends.to, &source, source_secret), 0);
        assert_ptr_equal(verdict(ends.to, old, sizeof old), &counters.drop_replay);
        assert_true(take(ends.to, 101));
        assert_ptr_equal(verdict(ends.to, old, sizeof old), &counters.drop_replay);
        assert_ptr_equal(verdict(ends.to, new, sizeof new), &counters.drop_replay);
        close_ends(&ends);
    }
}

/* ---- bounds ---- */

static void auth__ciphers_are_bounded_and_given_back(void **state)
{
    (void)state;
    struct ends ends = open_ends(DIWARP_AUTH_GMAC, no_file);
    uint8_t header[DW_LLP_HEADER_BYTES] = {0x21, DW_LLP_SEALED};
    const uint64_t empty_bytes = dw_auth_bytes(ends.from);
    for (uint32_t rank = 10; rank < 10 + MANY; rank++) {
        const struct dw_process process = {{1, rank}, 1};
        assert_int_equal(dw_auth_on_told(ends.from, &process, sink_secret), 0);
        assert_non_null(dw_auth_seal(ends.from, &process, header));
        assert_non_null(dw_auth_seal(ends.from, &sink, header)); /* always in use */
        assert_true(ends.from->cipher_count <= DW_AUTH_CIPHERS_MAX);
    }
    assert_int_equal(ends.from->cipher_count, DW_AUTH_CIPHERS_MAX);
    assert_true(dw_auth_trim(ends.from));
    assert_false(dw_auth_trim(ends.from));
    assert_int_equal(ends.from->cipher_count, 0);
    for (uint32_t rank = 10; rank < 10 + MANY; rank++)
        dw_auth_on_untold(ends.from, (struct diwarp_name){1, rank});
    assert_int_equal(ends.from->peers.count, 1);
    assert_true(dw_auth_bytes(ends.from) < empty_bytes + MANY * 64);
    close_ends(&ends);
}

/* Strangers whose datagrams are forged leave nothing behind. */
static void auth_open__strangers_leave_nothing(void **state)
{
    (void)state;
    enum { BYTES = DW_LLP_HEADER_BYTES + 8 };
    struct ends ends = open_ends(DIWARP_AUTH_GMAC, no_file);
    uint8_t buf[BYTES + DW_TAG_BYTES];
    make(&ends, DW_LLP_DATA, 5, buf, BYTES);
    for (uint32_t rank = 0; rank < MANY; rank++) {
        dw_put_be32(buf + 20, 1000 + rank);
        assert_ptr_equal(verdict(ends.to, buf, sizeof buf), &counters.drop_auth);
    }
    assert_int_equal(ends.to->peers.count, 0);
    assert_true(ends.to->cipher_count <= 2);
    close_ends(&ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auth__golden_vectors),
        cmocka_unit_test(auth_open__every_flipped_bit_is_refused),
        cmocka_unit_test(auth_open__other_keys_are_refused),
        cmocka_unit_test(auth_open__source_key),
        cmocka_unit_test(sealing__pieces_like_one),
        cmocka_unit_test(seal__leaves_the_text_of_a_secret_datagram),
        cmocka_unit_test(auth_open__replay),
        cmocka_unit_test(auth_open__reset_once),
        cmocka_unit_test(auth_open__replay_of_the_forgotten),
        cmocka_unit_test(auth__ciphers_are_bounded_and_given_back),
        cmocka_unit_test(auth_open__strangers_leave_nothing),
    };
    const char *fault = dw_crypto_load();
    if (fault) {
        print_message("skipped: no libcrypto: %s\n", fault);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
