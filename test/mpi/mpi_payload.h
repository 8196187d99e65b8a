/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the MPI tests send: patterns derived from source, destination, tag, sequence and offset,
 * their check, and buffers between guard bytes.
 */
#ifndef DIWARP_TEST_MPI_PAYLOAD_H
#define DIWARP_TEST_MPI_PAYLOAD_H

#include "test/mpi/mpi_test.h"

/* ---- random numbers and patterns ---------------------------------------------------------- */

static inline uint64_t mt_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t mt_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return mt_mix(*state);
}

/* In [0, n). */
static inline size_t mt_random_below(uint64_t *state, size_t n)
{
    return (size_t)(mt_random(state) % n);
}

/* What a payload's bytes derive from, besides their offset. */
struct mt_key {
    int src, dst, tag;
    uint64_t seq;
};

static inline uint64_t mt_key_seed(struct mt_key key)
{
    uint64_t x = mt_mix((uint64_t)(uint32_t)key.src << 32 | (uint32_t)key.dst);

    return mt_mix(mt_mix(x ^ (uint32_t)key.tag) + key.seq);
}

static inline uint64_t mt_pattern_word(uint64_t seed, size_t word)
{
    return mt_mix(seed + (uint64_t)word * 0x9e3779b97f4a7c15u);
}

static inline unsigned char mt_pattern_byte(uint64_t seed, size_t offset)
{
    uint64_t word = mt_pattern_word(seed, offset / 8);
    unsigned char bytes[8];

    memcpy(bytes, &word, 8);
    return bytes[offset % 8];
}

static inline void mt_fill(void *buf, size_t len, struct mt_key key)
{
    uint64_t seed = mt_key_seed(key);
    unsigned char *p = buf;
    size_t words = len / 8;

    for (size_t i = 0; i < words; i++) {
        uint64_t word = mt_pattern_word(seed, i);

        memcpy(p + i * 8, &word, 8);
    }
    for (size_t i = words * 8; i < len; i++)
        p[i] = mt_pattern_byte(seed, i);
}

#define MT_POISON 0xEE

/* How much is wrong and where; poison means that the byte was never written. */
__attribute__((noreturn)) static inline void mt_fail_mismatch(const unsigned char *p, size_t len,
                                                              struct mt_key key, const char *what)
{
    uint64_t seed = mt_key_seed(key);
    size_t first = len, last = 0, wrong = 0, poison = 0;

    for (size_t i = 0; i < len; i++) {
        if (p[i] == mt_pattern_byte(seed, i))
            continue;
        first = first == len ? i : first;
        last = i;
        wrong++;
        poison += p[i] == MT_POISON;
    }
    mt_fail("%s: payload of (src %d, dst %d, tag %d, seq %llu), %zu bytes: %zu wrong between offset"
            " %zu and %zu (%zu of them never written); first is 0x%02x, not 0x%02x",
            what, key.src, key.dst, key.tag, (unsigned long long)key.seq, len, wrong, first, last,
            poison, p[first], mt_pattern_byte(seed, first));
}

static inline void mt_verify(const void *buf, size_t len, struct mt_key key, const char *what)
{
    uint64_t seed = mt_key_seed(key);
    const unsigned char *p = buf;
    size_t words = len / 8;

    for (size_t i = 0; i < words; i++) {
        uint64_t word = mt_pattern_word(seed, i);

        if (memcmp(p + i * 8, &word, 8))
            mt_fail_mismatch(p, len, key, what);
    }
    for (size_t i = words * 8; i < len; i++) {
        if (p[i] != mt_pattern_byte(seed, i))
            mt_fail_mismatch(p, len, key, what);
    }
}

/* Order-sensitive 64-bit hash (not cryptographic). */
static inline uint64_t mt_hash(const void *buf, size_t len)
{
    const unsigned char *p = buf;
    uint64_t h = mt_mix(len + 1);
    size_t i = 0;

    for (; i + 8 <= len; i += 8) {
        uint64_t word;

        memcpy(&word, p + i, 8);
        h = (h ^ word) * 0x9fb21c651e98df25u;
        h ^= h >> 32;
    }
    for (; i < len; i++)
        h = (h ^ p[i]) * 0x9fb21c651e98df25u;
    return mt_mix(h);
}

/* ---- guarded buffers ---------------------------------------------------------------------- */

#define MT_GUARD_BYTES 64
#define MT_GUARD       0xC5

/* `data` holds `len` bytes between two guards that no transport may touch. */
struct mt_buf {
    unsigned char *base, *data;
    size_t capacity, len;
};

static inline void *mt_alloc(size_t len)
{
    void *p = malloc(len ? len : 1);

    MT_CHECK(p, "no memory for %zu bytes", len);
    return p;
}

static inline void mt_buf_init(struct mt_buf *buf, size_t capacity)
{
    buf->capacity = capacity;
    buf->base = mt_alloc(capacity + 3 * MT_GUARD_BYTES);
    buf->data = buf->base + MT_GUARD_BYTES;
    buf->len = 0;
}

static inline void mt_buf_fini(struct mt_buf *buf)
{
    free(buf->base);
    buf->base = buf->data = NULL;
}

/* Poisons `len` bytes, `shift` (below 64) off the natural alignment, and sets the guards. */
static inline void mt_buf_arm(struct mt_buf *buf, size_t len, size_t shift)
{
    MT_CHECK(len <= buf->capacity && shift < MT_GUARD_BYTES, "test bug: buffer of %zu for %zu",
             buf->capacity, len);
    buf->data = buf->base + MT_GUARD_BYTES + shift;
    buf->len = len;
    memset(buf->data - MT_GUARD_BYTES, MT_GUARD, MT_GUARD_BYTES);
    memset(buf->data, MT_POISON, len);
    memset(buf->data + len, MT_GUARD, MT_GUARD_BYTES);
}

static inline void mt_buf_check_guards(const struct mt_buf *buf, const char *what)
{
    for (int i = 0; i < MT_GUARD_BYTES; i++) {
        MT_CHECK(buf->data[i - MT_GUARD_BYTES] == MT_GUARD,
                 "%s: byte %d before a buffer of %zu "
                 "bytes was overwritten",
                 what, MT_GUARD_BYTES - i, buf->len);
        MT_CHECK(buf->data[buf->len + (size_t)i] == MT_GUARD,
                 "%s: byte %d after a buffer of %zu "
                 "bytes was overwritten",
                 what, i + 1, buf->len);
    }
}

static inline void mt_buf_verify(const struct mt_buf *buf, struct mt_key key, const char *what)
{
    mt_verify(buf->data, buf->len, key, what);
    mt_buf_check_guards(buf, what);
}

/* The status must name this message. */
static inline void mt_check_status(const MPI_Status *status, int src, int tag, size_t len,
                                   const char *what)
{
    int count = -1;

    MPI_Get_count(status, MPI_BYTE, &count);
    MT_CHECK(status->MPI_SOURCE == src && status->MPI_TAG == tag && count == mt_count(len),
             "%s: status says source %d, tag %d, %d bytes; the message is source %d, tag %d, "
             "%zu bytes",
             what, status->MPI_SOURCE, status->MPI_TAG, count, src, tag, len);
}

#endif
