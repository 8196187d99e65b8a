/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast the tags of datagrams are made, and datagrams encrypted, by each library that diwarp can
 * use: a nonce, the LLP header as associated data, the rest as associated data or text, a tag. The
 * best of many short runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/samples.h"
#include "common/base/crypto.h"

#define HEADER_BYTES 60
#define RUNS         50
#define RUN_BYTES    (4 << 20)
#define RUN_MESSAGES 2000 /* at most */

static bool seal(struct dw_gcm *gcm, uint64_t number, const uint8_t *from, uint8_t *to,
                 size_t bytes, bool secret)
{
    uint8_t nonce[DW_GCM_NONCE_BYTES] = {1};
    const size_t clear = secret ? HEADER_BYTES : bytes;
    memcpy(nonce + 4, &number, sizeof number);
    return dw_gcm_begin(gcm, nonce) && dw_gcm_associate(gcm, from, clear) &&
           (!secret || dw_gcm_crypt(gcm, to + clear, from + clear, bytes - clear)) &&
           dw_gcm_end(gcm, to + bytes);
}

static void measure(const struct dw_gcm_ops *library, size_t bytes, bool secret)
{
    static const uint8_t key[DW_GCM_KEY_BYTES];
    static uint8_t from[65536], to[sizeof from + DW_GCM_TAG_BYTES];
    static uint64_t number;
    const size_t all = RUN_BYTES / bytes, count = all < RUN_MESSAGES ? all : RUN_MESSAGES;
    struct dw_gcm *gcm = library->create(true, secret);
    double best_ns = 1e18;
    if (!gcm || !dw_gcm_set_key(gcm, key))
        exit(1);
    for (int run = 0; run < RUNS; run++) {
        const double start_ns = 1e9 * samples_now();
        for (size_t i = 0; i < count; i++)
            if (!seal(gcm, ++number, from, to, bytes, secret))
                exit(1);
        const double ns = (1e9 * samples_now() - start_ns) / (double)count;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    printf("cipher library=%s mode=%s bytes=%zu ns=%.0f mb_s=%.0f\n", library->library,
           secret ? "aes-gcm" : "gmac", bytes, best_ns, (double)bytes / best_ns * 1e3);
    dw_gcm_destroy(gcm);
}

int main(void)
{
    static const size_t sizes[] = {84, 1472, 65536};
    const char *fault = dw_crypto_load();
    if (fault) {
        fprintf(stderr, "cipher_speed: no libcrypto: %s\n", fault);
        return 1;
    }
    for (const struct dw_gcm_ops *const *library = dw_gcm_libraries(); *library; library++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            measure(*library, sizes[i], false);
            measure(*library, sizes[i], true);
        }
    }
    return 0;
}
