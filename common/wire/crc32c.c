/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C by carry-less multiplication (VPCLMULQDQ, AVX-512), by the crc32 instruction (SSE4.2), or
 * by eight tables, eight bytes per step. Each function names the instructions it needs, so that no
 * compiler flag is required and the same object runs on every x86-64.
 *
 * Arithmetic. All values are reflected: the lowest bit is the highest power of x. In that notation
 * a carry-less product comes out multiplied by x. With constants of 32 bits in the low half of a
 * quadword:
 *   crc32_u64(0, clmul(a, k)) = a * k * x^33          so k = x^(n - 33) moves a CRC over n bits;
 *   a 128-bit lane lo, hi moves over n bits to lo * x^(n + 64) + hi * x^n, which is
 *   clmul(lo, x^(n + 31)) ^ clmul(hi, x^(n - 33)).
 */
#include "common/wire/crc32c.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "common/base/copy.h"

/* v * x^degree modulo Castagnoli's polynomial, all reflected: bit 31 is x^0, x^32 is implied. Takes
 * degree steps. */
static uint32_t shift(uint32_t v, unsigned degree)
{
    while (degree-- > 0)
        v = v >> 1 ^ (v & 1 ? 0x82f63b78u : 0);
    return v;
}

/* ---- portable ---- */

/* tables[k][b]: what byte b, followed by k zero bytes, does to a register of 0. */
static uint32_t tables[8][256];

static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++)
        for (unsigned k = 0; k < 8; k++)
            tables[k][b] = shift(k ? tables[k - 1][b] : b, 8);
}

static uint32_t portable_update(uint32_t state, const uint8_t *src, size_t len)
{
    for (; len >= 8; len -= 8, src += 8) {
        uint32_t near, far; /* `far` does not wait for the state of the step before */
        memcpy(&near, src, sizeof near);
        memcpy(&far, src + 4, sizeof far);
        near = le32toh(near) ^ state;
        far = le32toh(far);
        far = tables[3][far & 0xff] ^ tables[2][far >> 8 & 0xff] ^ tables[1][far >> 16 & 0xff] ^
              tables[0][far >> 24];
        state = (tables[7][near & 0xff] ^ tables[6][near >> 8 & 0xff]) ^
                (tables[5][near >> 16 & 0xff] ^ tables[4][near >> 24]) ^ far;
    }
    for (; len > 0; len--, src++)
        state = state >> 8 ^ tables[0][(state ^ *src) & 0xff];
    return state;
}

#if defined(__x86_64__)

#define SSE42  __attribute__((target("sse4.2,pclmul")))
#define AVX512 __attribute__((target("sse4.2,pclmul,vpclmulqdq,avx512f,avx512vl")))
#define INLINE inline __attribute__((always_inline))

/* From here on three interleaved streams, which hide the three cycles of the instruction, gain more
 * than joining them costs. */
#define STREAMED_MIN_BYTES 216
/* Bounds the table, and how much is lost when a stream ends. */
#define STREAM_MAX_WORDS 128

/* over(n) moves a CRC over n words of 64 bits. */
#define OVER_WORDS_MAX (2 * STREAM_MAX_WORDS)
static uint64_t overs[OVER_WORDS_MAX + 1]; /* the last is over(0) */

static INLINE const uint64_t *over(size_t words)
{
    return &overs[OVER_WORDS_MAX - words];
}

static void fill_overs(void)
{
    uint32_t v = 0xa9cdda0d; /* x^-33 */
    for (unsigned n = 0; n <= OVER_WORDS_MAX; n++, v = shift(v, 64))
        overs[OVER_WORDS_MAX - n] = v;
}

/* ---- sse4.2 ---- */

/* Here and below: copies as it goes when `copy` is set; otherwise dst is not used. */
SSE42 static INLINE uint32_t straight(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len,
                                      const bool copy)
{
    uint64_t wide = state, v;
    size_t at = 0;
    for (; at + 8 <= len; at += 8) {
        memcpy(&v, src + at, sizeof v);
        wide = _mm_crc32_u64(wide, v);
        if (copy)
            memcpy(dst + at, &v, sizeof v);
    }
    state = (uint32_t)wide;
    for (; at < len; at++) {
        state = _mm_crc32_u8(state, src[at]);
        if (copy)
            dst[at] = src[at];
    }
    return state;
}

SSE42 static INLINE __m128i clmul(uint64_t a, uint64_t b)
{
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi64_si128((long long)b),
                                0);
}

/* Three runs of `words` words each, one behind the other. */
SSE42 static INLINE uint32_t three_streams(uint32_t state, uint8_t *dst, const uint8_t *src,
                                           size_t words, const bool copy)
{
    uint64_t a = state, b = 0, c = 0;
    for (size_t at = 0; at < 8 * words; at += 8) {
        uint64_t va, vb, vc;
        memcpy(&va, src + at, sizeof va);
        memcpy(&vb, src + at + 8 * words, sizeof vb);
        memcpy(&vc, src + at + 16 * words, sizeof vc);
        if (copy) {
            memcpy(dst + at, &va, sizeof va);
            memcpy(dst + at + 8 * words, &vb, sizeof vb);
            memcpy(dst + at + 16 * words, &vc, sizeof vc);
        }
        a = _mm_crc32_u64(a, va);
        b = _mm_crc32_u64(b, vb);
        c = _mm_crc32_u64(c, vc);
    }
    __m128i moved = _mm_xor_si128(clmul(a, *over(2 * words)), clmul(b, *over(words)));
    return (uint32_t)(c ^ _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(moved)));
}

SSE42 static INLINE uint32_t streamed(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len,
                                      const bool copy)
{
    size_t at = 0;
    while (len - at >= STREAMED_MIN_BYTES) {
        const size_t most = (len - at) / 24;
        const size_t words = most < STREAM_MAX_WORDS ? most : STREAM_MAX_WORDS;
        state = three_streams(state, copy ? dst + at : NULL, src + at, words, copy);
        at += 24 * words;
    }
    return straight(state, copy ? dst + at : NULL, src + at, len - at, copy);
}

SSE42 static uint32_t sse42_update(uint32_t state, const uint8_t *src, size_t len)
{
    return streamed(state, NULL, src, len, false);
}

SSE42 static uint32_t sse42_copy(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len,
                                 bool past)
{
    (void)past; /* eight bytes at a time, that would take longer */
    return streamed(state, dst, src, len, true);
}

/* ---- vpclmulqdq ---- */

#define BLOCK_BYTES 64
#define BLOCK_WORDS 8
/* Below, the crc32 instruction alone is quicker than setting up and reducing vectors. */
#define FOLDED_MIN_BYTES (2 * BLOCK_BYTES)

/* What becomes of the blocks that are read. */
enum copy {
    NO_COPY, /* dst is not used */
    TO_CACHE,
    PAST_CACHE, /* dst is aligned to a block */
};

AVX512 static INLINE __m512i load(uint8_t *dst, const uint8_t *src, size_t block,
                                  const enum copy copy)
{
    __m512i v = _mm512_loadu_si512(src + block * BLOCK_BYTES);
    if (copy == TO_CACHE)
        _mm512_storeu_si512(dst + block * BLOCK_BYTES, v);
    else if (copy == PAST_CACHE)
        _mm512_stream_si512((void *)(dst + block * BLOCK_BYTES), v);
    return v;
}

AVX512 static INLINE __m512i fold_by(__m512i v, __m512i k, __m512i next)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(v, k, 0x00),
                                     _mm512_clmulepi64_epi128(v, k, 0x11), next, 0x96);
}

/* next + v moved over so many blocks */
AVX512 static INLINE __m512i fold(__m512i v, unsigned blocks, __m512i next)
{
    const void *k = over(blocks * BLOCK_WORDS + 1);
    return fold_by(v, _mm512_broadcast_i32x4(_mm_loadu_si128(k)), next);
}

/* A CPU looks ahead by itself, but not beyond a page; cold data then passes half as fast again. */
#define PREFETCH_MIN_BLOCKS  64
#define PREFETCH_AHEAD_BYTES 4096

/* Four blocks. No address is wrong: beyond the data, it just does nothing. */
static INLINE void prefetch(const uint8_t *p)
{
    for (size_t i = 0; i < 4; i++)
        _mm_prefetch((const void *)(p + i * BLOCK_BYTES + PREFETCH_AHEAD_BYTES), _MM_HINT_T0);
}

/* The CRC register after the 64 bytes that v is congruent to: its lanes moved to the last one. */
AVX512 static INLINE uint32_t reduce(__m512i v)
{
    v = fold_by(v, _mm512_loadu_si512(over(BLOCK_WORDS - 1)), _mm512_setzero_si512());
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    __m128i lane = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    uint64_t state = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane));
    return (uint32_t)_mm_crc32_u64(state, (uint64_t)_mm_extract_epi64(lane, 1));
}

/* Folds whole blocks, at least one, into one vector: four at a time while there are four. */
AVX512 static INLINE __m512i fold_blocks(uint32_t state, uint8_t *dst, const uint8_t *src,
                                         size_t blocks, const enum copy copy)
{
    __m512i a = _mm512_xor_si512(load(dst, src, 0, copy),
                                 _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    size_t i = 1;
    if (blocks >= 4) {
        __m512i b = load(dst, src, 1, copy), c = load(dst, src, 2, copy);
        __m512i d = load(dst, src, 3, copy);
        for (i = 4; blocks - i >= 4; i += 4) {
            if (blocks >= PREFETCH_MIN_BLOCKS) {
                prefetch(src + i * BLOCK_BYTES);
                if (copy == TO_CACHE)
                    prefetch(dst + i * BLOCK_BYTES);
            }
            a = fold(a, 4, load(dst, src, i, copy));
            b = fold(b, 4, load(dst, src, i + 1, copy));
            c = fold(c, 4, load(dst, src, i + 2, copy));
            d = fold(d, 4, load(dst, src, i + 3, copy));
        }
        a = fold(fold(a, 1, b), 2, fold(c, 1, d));
    }
    for (; i < blocks; i++)
        a = fold(a, 1, load(dst, src, i, copy));
    return a;
}

AVX512 static INLINE uint32_t folded(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len,
                                     const enum copy copy)
{
    const size_t bytes = len & ~(size_t)(BLOCK_BYTES - 1);
    if (len < FOLDED_MIN_BYTES)
        return straight(state, dst, src, len, copy);
    state = reduce(fold_blocks(state, dst, src, bytes / BLOCK_BYTES, copy));
    return straight(state, copy ? dst + bytes : NULL, src + bytes, len - bytes, copy);
}

AVX512 static uint32_t vpclmulqdq_update(uint32_t state, const uint8_t *src, size_t len)
{
    return folded(state, NULL, src, len, NO_COPY);
}

AVX512 static uint32_t vpclmulqdq_copy(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len,
                                       bool past)
{
    const size_t unaligned = -(uintptr_t)dst % BLOCK_BYTES;
    if (!past || len < unaligned)
        return folded(state, dst, src, len, TO_CACHE);
    state = straight(state, dst, src, unaligned, true);
    return folded(state, dst + unaligned, src + unaligned, len - unaligned, PAST_CACHE);
}

#endif

/* ---- choice ---- */

/* Ways to compute, best first. `state` is the CRC register itself: no inversions. */
static struct impl {
    const char *name;
    uint32_t (*update)(uint32_t state, const uint8_t *src, size_t len);
    /* NULL: in blocks, by memcpy() and update(). */
    uint32_t (*copy)(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len, bool past);
    bool here; /* the CPU has what it takes */
} impls[] = {
#if defined(__x86_64__)
    {"vpclmulqdq", vpclmulqdq_update, vpclmulqdq_copy, false},
    {"sse4.2", sse42_update, sse42_copy, false},
#endif
    {"portable", portable_update, NULL, true},
};

/* Atomic for the sake of dw_crc32c_force(); a relaxed load costs nothing. */
static const struct impl *_Atomic current;

/* Before main() or the return of dlopen(), so that no caller can be earlier. */
__attribute__((constructor)) static void choose_impl(void)
{
    fill_tables();
#if defined(__x86_64__)
    fill_overs();
    __builtin_cpu_init();
    impls[1].here = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    impls[0].here = impls[1].here && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
#endif
    const struct impl *best = impls;
    while (!best->here)
        best++;
    current = best;
}

static const struct impl *chosen(void)
{
    return atomic_load_explicit(&current, memory_order_relaxed);
}

uint32_t dw_crc32c(uint32_t crc, const void *data, size_t len)
{
    return ~chosen()->update(~crc, data, len);
}

uint32_t dw_crc32c_copy(uint32_t crc, void *to, const void *from, size_t len, bool past)
{
    const struct impl *impl = chosen();
    const uint8_t *src = from;
    uint8_t *dst = to;
    uint32_t state = ~crc;
    if (impl->copy)
        return ~impl->copy(state, dst, src, len, past);
    /* Of blocks that are still in the first-level cache when the CRC reads them. */
    for (size_t n; len > 0; dst += n, src += n, len -= n) {
        n = len < 8192 ? len : 8192;
        dw_copy(dst, src, n);
        state = impl->update(state, dst, n);
    }
    return ~state;
}

void dw_crc32c_copy_fence(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence(); /* such stores are not ordered as others are */
#endif
}

const char *dw_crc32c_path(void)
{
    return chosen()->name;
}

int dw_crc32c_force(const char *path)
{
    for (unsigned i = 0; i < sizeof impls / sizeof *impls; i++)
        if (impls[i].here && strcmp(impls[i].name, path) == 0) {
            current = &impls[i];
            return 0;
        }
    return -ENOTSUP;
}
