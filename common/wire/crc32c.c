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

/* One way to compute. `state` is the CRC register itself: no inversions. */
struct impl {
    const char *name;
    uint32_t (*update)(uint32_t state, const uint8_t *data, size_t len);
    uint32_t (*update_copy)(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len);
    uint32_t (*update_copy_past)(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len);
};

/* v * x^degree modulo Castagnoli's polynomial, all reflected: bit 31 is x^0, x^32 is implied. Takes
 * degree steps. */
static uint32_t shift(uint32_t v, unsigned degree)
{
    while (degree-- > 0)
        v = v >> 1 ^ (v & 1 ? 0x82f63b78u : 0);
    return v;
}

/* For a path without a fused copy: in blocks that are still in the first-level cache when the CRC
 * reads them, from where they were put. */
static uint32_t copy_blocks(uint32_t (*update)(uint32_t, const uint8_t *, size_t), uint32_t state,
                            uint8_t *dst, const uint8_t *src, size_t len)
{
    for (size_t n; len > 0; dst += n, src += n, len -= n) {
        n = len < 8192 ? len : 8192;
        dw_copy(dst, src, n);
        state = update(state, dst, n);
    }
    return state;
}

/* ---- portable ----------------------------------------------------------------------------- */

/* tables[k][b]: what byte b, followed by k zero bytes, does to a register of 0. */
static uint32_t tables[8][256];

static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++)
        for (unsigned k = 0; k < 8; k++)
            tables[k][b] = shift(k ? tables[k - 1][b] : b, 8);
}

static uint32_t portable_update(uint32_t state, const uint8_t *p, size_t len)
{
    for (; len >= 8; len -= 8, p += 8) {
        uint32_t near, far; /* `far` does not wait for the state of the step before */
        memcpy(&near, p, sizeof near);
        memcpy(&far, p + 4, sizeof far);
        near = le32toh(near) ^ state;
        far = le32toh(far);
        far = tables[3][far & 0xff] ^ tables[2][far >> 8 & 0xff] ^ tables[1][far >> 16 & 0xff] ^
              tables[0][far >> 24];
        state = (tables[7][near & 0xff] ^ tables[6][near >> 8 & 0xff]) ^
                (tables[5][near >> 16 & 0xff] ^ tables[4][near >> 24]) ^ far;
    }
    for (; len > 0; len--, p++)
        state = state >> 8 ^ tables[0][(state ^ *p) & 0xff];
    return state;
}

static uint32_t portable_update_copy(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len)
{
    return copy_blocks(portable_update, state, dst, src, len);
}

static const struct impl portable = {"portable", portable_update, portable_update_copy,
                                     portable_update_copy};

#if defined(__x86_64__)

#define SSE42  __attribute__((target("sse4.2,pclmul")))
#define AVX512 __attribute__((target("sse4.2,pclmul,vpclmulqdq,avx512f,avx512vl")))
#define INLINE inline __attribute__((always_inline))

/* ---- sse4.2 ------------------------------------------------------------------------------- */

/* From here on three interleaved streams, which hide the three cycles of the instruction, gain more
 * than joining them costs. */
#define STREAMED_MIN_BYTES 216
/* Bounds the table, and how much is lost when a stream ends. */
#define STREAM_MAX_WORDS 128

/* over_words[n] moves a CRC over n words of 64 bits. */
static uint32_t over_words[2 * STREAM_MAX_WORDS + 1];

/* One word of straight(). */
#define WORD(type, crc, crc32)         \
    do {                               \
        type v;                        \
        memcpy(&v, src, sizeof v);     \
        crc = crc32(crc, v);           \
        src += sizeof v;               \
        if (copy) {                    \
            memcpy(dst, &v, sizeof v); \
            dst += sizeof v;           \
        }                              \
    } while (0)

/* Here and below: copies as it goes when `copy` is set; otherwise dst is not used. */
SSE42 static INLINE uint32_t straight(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len,
                                      const bool copy)
{
    uint64_t wide = state;
    for (; len >= 8; len -= 8)
        WORD(uint64_t, wide, _mm_crc32_u64);
    state = (uint32_t)wide;
    if (len & 4)
        WORD(uint32_t, state, _mm_crc32_u32);
    if (len & 2)
        WORD(uint16_t, state, _mm_crc32_u16);
    if (len & 1)
        WORD(uint8_t, state, _mm_crc32_u8);
    return state;
}

SSE42 static INLINE __m128i clmul32(uint64_t a, uint32_t b)
{
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi32_si128((int)b), 0x00);
}

/* Three runs of `words` words each, one behind the other. */
SSE42 static INLINE uint32_t three_streams(uint32_t state, const uint8_t *p, size_t words)
{
    uint64_t a = state, b = 0, c = 0;
    for (size_t i = 0; i < words; i++, p += 8) {
        uint64_t va, vb, vc;
        memcpy(&va, p, sizeof va);
        memcpy(&vb, p + 8 * words, sizeof vb);
        memcpy(&vc, p + 16 * words, sizeof vc);
        a = _mm_crc32_u64(a, va);
        b = _mm_crc32_u64(b, vb);
        c = _mm_crc32_u64(c, vc);
    }
    __m128i moved = _mm_xor_si128(clmul32(a, over_words[2 * words]), clmul32(b, over_words[words]));
    return (uint32_t)(c ^ _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(moved)));
}

SSE42 static uint32_t sse42_update(uint32_t state, const uint8_t *p, size_t len)
{
    while (len >= STREAMED_MIN_BYTES) {
        size_t words = len / 24 < STREAM_MAX_WORDS ? len / 24 : STREAM_MAX_WORDS;
        state = three_streams(state, p, words);
        p += 24 * words;
        len -= 24 * words;
    }
    return straight(state, NULL, p, len, false);
}

SSE42 static uint32_t sse42_update_copy(uint32_t state, uint8_t *dst, const uint8_t *src,
                                        size_t len)
{
    if (len < STREAMED_MIN_BYTES)
        return straight(state, dst, src, len, true);
    return copy_blocks(sse42_update, state, dst, src, len);
}

/* ---- vpclmulqdq --------------------------------------------------------------------------- */

#define BLOCK_BYTES 64
/* Below, the crc32 instruction alone is quicker than setting up and reducing vectors. */
#define FOLDED_MIN_BYTES (2 * BLOCK_BYTES)

/* over_blocks[n] moves each lane over n blocks; over_lanes moves lanes 0 to 2 onto lane 3. */
static struct {
    uint64_t lo, hi;
} over_blocks[5], over_lanes[4];

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
    return fold_by(
        v, _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)&over_blocks[blocks])), next);
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

/* The CRC register after the 64 bytes that v is congruent to. */
AVX512 static INLINE uint32_t reduce(__m512i v)
{
    __m512i moved = fold_by(v, _mm512_loadu_si512(over_lanes), _mm512_setzero_si512());
    __m256i half =
        _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));
    __m128i lane = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    lane = _mm_xor_si128(lane, _mm512_extracti32x4_epi32(v, 3));
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

AVX512 static uint32_t vpclmulqdq_update(uint32_t state, const uint8_t *p, size_t len)
{
    return folded(state, NULL, p, len, NO_COPY);
}

AVX512 static uint32_t vpclmulqdq_update_copy(uint32_t state, uint8_t *dst, const uint8_t *src,
                                              size_t len)
{
    return folded(state, dst, src, len, TO_CACHE);
}

AVX512 static uint32_t vpclmulqdq_update_copy_past(uint32_t state, uint8_t *dst, const uint8_t *src,
                                                   size_t len)
{
    size_t head = -(uintptr_t)dst % BLOCK_BYTES;
    if (head > len)
        head = len;
    state = straight(state, dst, src, head, true);
    return folded(state, dst + head, src + head, len - head, PAST_CACHE);
}

static void fill_constants(void)
{
    over_words[1] = shift(0x80000000u, 64 - 33); /* of x^0 */
    for (unsigned n = 2; n <= 2 * STREAM_MAX_WORDS; n++)
        over_words[n] = shift(over_words[n - 1], 64);
    for (unsigned n = 1; n <= 4; n++) {
        over_blocks[n].lo = over_words[8 * n + 1];
        over_blocks[n].hi = over_words[8 * n];
    }
    for (unsigned lane = 0; lane < 3; lane++) {
        over_lanes[lane].lo = over_words[2 * (3 - lane) + 1];
        over_lanes[lane].hi = over_words[2 * (3 - lane)];
    }
}

static const struct impl sse42 = {"sse4.2", sse42_update, sse42_update_copy, sse42_update_copy};
static const struct impl vpclmulqdq = {"vpclmulqdq", vpclmulqdq_update, vpclmulqdq_update_copy,
                                       vpclmulqdq_update_copy_past};

#endif

/* ---- choice ------------------------------------------------------------------------------- */

/* What the CPU has, best first. */
static const struct impl *impls[] = {NULL, NULL, &portable};

/* Atomic for the sake of dw_crc32c_force(); a relaxed load costs nothing. */
static const struct impl *_Atomic current = &portable;

/* Before main() or the return of dlopen(), so that no caller can be earlier. */
__attribute__((constructor)) static void choose_impl(void)
{
    fill_tables();
#if defined(__x86_64__)
    fill_constants();
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        impls[1] = &sse42;
    if (impls[1] && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("vpclmulqdq"))
        impls[0] = &vpclmulqdq;
#endif
    current = impls[0] ? impls[0] : impls[1] ? impls[1] : &portable;
}

static const struct impl *chosen(void)
{
    return atomic_load_explicit(&current, memory_order_relaxed);
}

uint32_t dw_crc32c(uint32_t crc, const void *data, size_t len)
{
    return ~chosen()->update(~crc, data, len);
}

uint32_t dw_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t len)
{
    return ~chosen()->update_copy(~crc, dst, src, len);
}

uint32_t dw_crc32c_copy_past(uint32_t crc, void *dst, const void *src, size_t len)
{
    return ~chosen()->update_copy_past(~crc, dst, src, len);
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
        if (impls[i] && strcmp(impls[i]->name, path) == 0) {
            current = impls[i];
            return 0;
        }
    return -ENOTSUP;
}
