/* SPDX-License-Identifier: BSD-3-Clause */
/* The libraries as they are used here, by known answers: GCM's own test cases 1 to 4 (McGrew,
 * Viega; NIST's gcmEncryptExtIV128 has them too), one of NIST's without text, RFC 4231, RFC 5869.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/crypto.h"

#define MAX_BYTES 64

struct text {
    uint8_t bytes[MAX_BYTES];
    size_t len;
};

static struct text text_of(const char *hex)
{
    struct text text = {.len = 0};
    for (; *hex; hex += 2, text.len++) {
        const char digits[] = {hex[0], hex[1], '\0'};
        text.bytes[text.len] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return text;
}

#define TEXT_4                                                         \
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72" \
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
#define CIPHER_4                                                       \
    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e" \
    "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"

static const struct {
    const char *key, *nonce, *associated, *text, *cipher, *tag;
} cases[] = {
    {"00000000000000000000000000000000", "000000000000000000000000", "", "", "",
     "58e2fccefa7e3061367f1d57a4e7455a"},
    {"00000000000000000000000000000000", "000000000000000000000000", "",
     "00000000000000000000000000000000", "0388dace60b6a392f328c2b971b2fe78",
     "ab6e47d42cec13bdf53a67b21257bddf"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "", TEXT_4 "1aafd255",
     CIPHER_4 "473f5985", "4d5c2af327cd64a62cf35abd2ba6fab4"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2", TEXT_4, CIPHER_4,
     "5bc94fbc3221a5db94fae95ae7121a47"},
    {"77be63708971c4e240d1cb79e8d77feb", "e0e00f19fed7ba0136a797f3",
     "7a43ec1d9c0a5a78a0b16533a6213cab", "", "", "209fcc8d3675ed938e9c7166709dd946"},
};

/* In pieces of `step` bytes, associated data only where there is to be no text. */
static void run(struct dw_gcm *gcm, size_t i, size_t step, bool with_text, const struct text *from,
                uint8_t *to)
{
    const struct text nonce = text_of(cases[i].nonce), associated = text_of(cases[i].associated);
    assert_true(dw_gcm_begin(gcm, nonce.bytes));
    if (with_text)
        assert_true(dw_gcm_associate(gcm, associated.bytes, associated.len));
    for (size_t at = 0, n; !with_text && at < associated.len; at += n) {
        n = associated.len - at < step ? associated.len - at : step;
        assert_true(dw_gcm_associate(gcm, associated.bytes + at, n));
    }
    for (size_t at = 0, n; at < from->len; at += n) {
        n = from->len - at < step ? from->len - at : step;
        assert_true(dw_gcm_crypt(gcm, to + at, from->bytes + at, n));
    }
}

static void check_answers(const struct dw_gcm_ops *library, bool with_text)
{
    static const size_t steps[] = {MAX_BYTES, 1, 16, 7};
    struct dw_gcm *encrypts = library->create(true, with_text);
    struct dw_gcm *decrypts = library->create(false, with_text);
    for (size_t k = 0; k < sizeof cases / sizeof *cases * 4; k++) {
        const size_t i = k / 4, step = steps[k % 4];
        const struct text key = text_of(cases[i].key), text = text_of(cases[i].text);
        const struct text cipher = text_of(cases[i].cipher), right = text_of(cases[i].tag);
        uint8_t to[MAX_BYTES], tag[DW_GCM_TAG_BYTES];
        if (text.len && !with_text)
            continue;
        assert_true(dw_gcm_set_key(encrypts, key.bytes) && dw_gcm_set_key(decrypts, key.bytes));
        run(encrypts, i, step, with_text, &text, to);
        assert_true(dw_gcm_end(encrypts, tag));
        assert_memory_equal(to, cipher.bytes, cipher.len);
        assert_memory_equal(tag, right.bytes, sizeof tag);
        run(decrypts, i, step, with_text, &cipher, to);
        assert_true(dw_gcm_matches(decrypts, tag));
        assert_memory_equal(to, text.bytes, text.len);
        for (unsigned bit = 0; bit < 8 * DW_GCM_TAG_BYTES; bit++) {
            tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
            run(decrypts, i, step, with_text, &cipher, to);
            assert_false(dw_gcm_matches(decrypts, tag));
            tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    dw_gcm_destroy(encrypts);
    dw_gcm_destroy(decrypts);
}

static void gcm__known_answers(void **state)
{
    (void)state;
    for (const struct dw_gcm_ops *const *library = dw_gcm_libraries(); *library; library++) {
        print_message("%s\n", (*library)->library);
        check_answers(*library, true);
        check_answers(*library, false);
    }
}

/* Datagrams of any length, as diwarp seals and opens them, in pieces: all libraries agree. */
static void gcm__libraries_agree(void **state)
{
    (void)state;
    enum { HEADER = 60, MOST = 3000 };
    static uint8_t from[MOST], to[2][MOST], tags[2][DW_GCM_TAG_BYTES];
    const uint8_t key[DW_GCM_KEY_BYTES] = {1, 2, 3}, nonce[DW_GCM_NONCE_BYTES] = {4, 5};
    const struct dw_gcm_ops *const *libraries = dw_gcm_libraries();
    for (size_t i = 0; i < MOST; i++)
        from[i] = (uint8_t)(i * 7 + i / 251);
    for (size_t len = HEADER; len < MOST && libraries[1]; len += 1 + len / 50) {
        for (unsigned with_text = 0; with_text < 2; with_text++) {
            for (unsigned i = 0; i < 2; i++) {
                struct dw_gcm *gcm = libraries[i]->create(true, with_text);
                const size_t half = (len - HEADER) / 2, rest = len - HEADER - half;
                assert_true(dw_gcm_set_key(gcm, key) && dw_gcm_begin(gcm, nonce) &&
                            dw_gcm_associate(gcm, from, HEADER));
                if (with_text)
                    assert_true(dw_gcm_crypt(gcm, to[i], from + HEADER, half) &&
                                dw_gcm_crypt(gcm, to[i] + half, from + HEADER + half, rest));
                else
                    assert_true(dw_gcm_associate(gcm, from + HEADER, half) &&
                                dw_gcm_associate(gcm, from + HEADER + half, rest));
                assert_true(dw_gcm_end(gcm, tags[i]));
                dw_gcm_destroy(gcm);
            }
            assert_memory_equal(tags[0], tags[1], sizeof tags[0]);
            assert_memory_equal(to[0], to[1], len - HEADER);
        }
    }
}

static void hmac__rfc_4231_case_2(void **state)
{
    (void)state;
    static const char data[] = "what do ya want for nothing?";
    const struct text right =
        text_of("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    uint8_t mac[DW_HMAC_BYTES];
    assert_true(dw_hmac("Jefe", 4, data, sizeof data - 1, mac));
    assert_memory_equal(mac, right.bytes, sizeof mac);
}

static void hkdf__rfc_5869_case_1(void **state)
{
    (void)state;
    const struct text ikm = text_of("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b");
    const struct text salt = text_of("000102030405060708090a0b0c");
    const struct text info = text_of("f0f1f2f3f4f5f6f7f8f9");
    const struct text right =
        text_of("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
    const struct text okm = text_of("3cb25f25faacd57a90434f64d0362f2a");
    uint8_t prk[DW_HMAC_BYTES], key[DW_GCM_KEY_BYTES];
    assert_true(dw_hmac(salt.bytes, salt.len, ikm.bytes, ikm.len, prk));
    assert_memory_equal(prk, right.bytes, sizeof prk);
    assert_true(dw_hkdf_expand(prk, info.bytes, info.len, key));
    assert_memory_equal(key, okm.bytes, sizeof key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcm__known_answers),
        cmocka_unit_test(gcm__libraries_agree),
        cmocka_unit_test(hmac__rfc_4231_case_2),
        cmocka_unit_test(hkdf__rfc_5869_case_1),
    };
    const char *fault = dw_crypto_load();
    if (fault) {
        print_message("skipped: no libcrypto: %s\n", fault);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
