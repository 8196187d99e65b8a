/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast libcrypto makes the tags of datagrams, and encrypts them: a nonce, the LLP header as
 * associated data, the rest as associated data or text, a tag. The best of many short runs. */
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEADER_BYTES 60
#define TAG_BYTES    16
#define RUNS         50
#define RUN_BYTES    (4 << 20)
#define RUN_MESSAGES 2000 /* at most */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int seal(EVP_CIPHER_CTX *ctx, uint64_t number, const uint8_t *from, uint8_t *to, int bytes,
                int encrypts)
{
    uint8_t nonce[12] = {1};
    int done;
    memcpy(nonce + 4, &number, sizeof number);
    return EVP_CipherInit_ex(ctx, NULL, NULL, NULL, nonce, -1) &&
           EVP_CipherUpdate(ctx, NULL, &done, from, HEADER_BYTES) &&
           EVP_CipherUpdate(ctx, encrypts ? to : NULL, &done, from + HEADER_BYTES,
                            bytes - HEADER_BYTES) &&
           EVP_CipherFinal_ex(ctx, to, &done) &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, to + bytes);
}

static void measure(EVP_CIPHER_CTX *ctx, const char *name, const uint8_t *from, uint8_t *to,
                    int bytes, int encrypts)
{
    const int all = RUN_BYTES / bytes, count = all < RUN_MESSAGES ? all : RUN_MESSAGES;
    static uint64_t number;
    double best_ns = 1e18;
    for (int run = 0; run < RUNS; run++) {
        const double start_ns = now_ns();
        for (int i = 0; i < count; i++)
            if (!seal(ctx, ++number, from, to, bytes, encrypts))
                exit(1);
        const double ns = (now_ns() - start_ns) / count;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    printf("cipher mode=%s bytes=%d ns=%.0f mb_s=%.0f\n", name, bytes, best_ns,
           bytes / best_ns * 1e3);
}

int main(void)
{
    static const int sizes[] = {84, 1472, 65536};
    static uint8_t from[65536], to[65536 + TAG_BYTES], key[16], nonce[12];
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (!ctx || !EVP_CipherInit_ex(ctx, EVP_aes_128_gcm(), NULL, key, nonce, 1))
        return 1;
    memset(from, 0x5a, sizeof from);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        measure(ctx, "gmac", from, to, sizes[i], 0);
        measure(ctx, "aes-gcm", from, to, sizes[i], 1);
    }
    EVP_CIPHER_CTX_free(ctx);
    return 0;
}
