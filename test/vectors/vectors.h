/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads golden vectors: hexadecimal digits, white space, and comments from # to the end of the
 * line. For cmocka tests; include after <cmocka.h>. The folder is $DW_VECTORS_DIR, or the one that
 * the build compiled in.
 */
#ifndef TEST_VECTORS_H
#define TEST_VECTORS_H

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DW_VECTORS_DIR
#define DW_VECTORS_DIR "test/vectors"
#endif

#define VECTOR_MAX_BYTES 512

struct vector {
    size_t len;
    uint8_t bytes[VECTOR_MAX_BYTES];
};

static inline unsigned vector_nibble(int c)
{
    return (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
}

static inline void vector_append(struct vector *v, const char *line, const char *name)
{
    for (const char *p = line; *p != '\0' && *p != '#'; p++) {
        if (isspace((unsigned char)*p)) {
            continue;
        }
        if (!isxdigit((unsigned char)p[0]) || !isxdigit((unsigned char)p[1]) ||
            v->len == sizeof v->bytes) {
            fail_msg("%s: not a vector near \"%s\"", name, p);
        }
        v->bytes[v->len++] = (uint8_t)(vector_nibble(p[0]) << 4 | vector_nibble(p[1]));
        p++;
    }
}

static inline void vector_load(struct vector *v, const char *name)
{
    const char *dir = getenv("DW_VECTORS_DIR");
    char path[1024], line[256];
    FILE *file;

    v->len = 0;
    snprintf(path, sizeof path, "%s/%s.hex", dir != NULL ? dir : DW_VECTORS_DIR, name);
    file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("cannot open %s: set DW_VECTORS_DIR", path);
        return;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        vector_append(v, line, name);
    }
    fclose(file);
    assert_true(v->len > 0);
}

/* A copy on the heap of exactly len bytes, so that ASan sees a read past them. */
static inline uint8_t *exact_copy(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len);

    assert_true(copy != NULL || len == 0);
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

#endif
