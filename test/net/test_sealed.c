/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authenticated nodes on real sockets, and a man in the middle who has all that one sends to the
 * other: what he repeats, changes or makes himself is counted by its cause and never delivered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/base/crypto.h"
#include "common/include/diwarp_rc.h"
#include "test/net/forge.h"
#include "test/net/rd_pair.h"

#define MARK      "a text that nobody else is to read"
#define MOST      512
#define FAR_AHEAD 1000000 /* of a number: it has not come */

struct caught {
    size_t bytes;
    uint8_t *buf;
};

/* Node a sends to b by way of the man, b to a at once. */
static struct {
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    struct node a, b;
    struct diwarp_ah *ab, *ba;
    struct diwarp_mr *mr;
    int man;
    struct caught caught[MOST];
    unsigned count;
} w;

static void to_b(const uint8_t *buf, size_t bytes)
{
    const struct sockaddr_in b = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(w.b.address.port)};
    assert_int_equal(sendto(w.man, buf, bytes, 0, (const struct sockaddr *)&b, sizeof b), bytes);
}

/* Hands on what has come to the man, and keeps it. True: so that it is part of a loop. */
static bool relay(void)
{
    static uint8_t buf[65536];
    for (ssize_t n; (n = recv(w.man, buf, sizeof buf, MSG_DONTWAIT)) > 0;) {
        if (w.count < MOST) {
            struct caught *caught = &w.caught[w.count++];
            *caught = (struct caught){.bytes = (size_t)n, .buf = malloc((size_t)n)};
            assert_non_null(caught->buf);
            memcpy(caught->buf, buf, (size_t)n);
        }
        to_b(buf, (size_t)n);
    }
    return true;
}

static void connect_nodes(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    struct diwarp_address by_man = w.b.address;
    assert_int_equal(getsockname(w.man, (struct sockaddr *)&name, &len), 0);
    by_man.port = ntohs(name.sin_port);
    assert_int_equal(diwarp_create_ah(w.a.qp, &by_man, &w.ab), 0);
    w.ba = node_ah(&w.b, &w.a);
}

static void open_world(enum diwarp_auth auth, enum diwarp_qp_type type)
{
    const struct sockaddr_in any = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(&w, 0, sizeof w);
    w.attr = loopback_attr(1);
    w.attr.auth = auth;
    w.attr.datagram_max_bytes = 1472;
    w.qp_attr = qp_attr_of(type);
    node_open(&w.a, &w.attr, &w.qp_attr);
    w.attr.name.rank = 2;
    node_open(&w.b, &w.attr, &w.qp_attr);
    w.man = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(w.man >= 0);
    assert_int_equal(bind(w.man, (const struct sockaddr *)&any, sizeof any), 0);
    connect_nodes();
    w.mr = diwarp_reg_mr(w.b.pd, source, sizeof source, RIGHTS_ALL);
    assert_non_null(w.mr);
}

static void close_world(void)
{
    diwarp_destroy_ah(w.ab);
    diwarp_destroy_ah(w.ba);
    diwarp_dereg_mr(w.mr);
    node_close(&w.a);
    node_close(&w.b);
    close(w.man);
    for (unsigned i = 0; i < w.count; i++)
        free(w.caught[i].buf);
}

/* A message, and over RD a read and a write of several datagrams. */
static void converse(void)
{
    const unsigned sends = w.a.sends, recvs = w.b.recvs;
    static const char text[] = MARK;
    assert_int_equal(post(&w.a, w.ab, IBV_WR_SEND, (void *)(uintptr_t)text, sizeof text,
                          IBV_SEND_SIGNALED, 0, NULL, 0),
                     0);
    RUN_UNTIL(relay() && w.a.sends == sends + 1 && w.b.recvs == recvs + 1, &w.a, &w.b);
    if (w.qp_attr.type == DIWARP_QPT_UD)
        return;
    assert_memory_equal(w.b.data, text, sizeof text);
    const unsigned reads = w.a.reads, writes = w.a.writes;
    fill(source, 100000, reads);
    assert_int_equal(
        post(&w.a, w.ab, IBV_WR_RDMA_READ, sink, 100000, IBV_SEND_SIGNALED, 0, w.mr, 0), 0);
    RUN_UNTIL(relay() && w.a.reads == reads + 1, &w.a, &w.b);
    assert_filled(sink, 100000, reads);
    fill(sink, 50000, reads + 7);
    assert_int_equal(
        post(&w.a, w.ab, IBV_WR_RDMA_WRITE, sink, 50000, IBV_SEND_SIGNALED, 0, w.mr, 200000), 0);
    RUN_UNTIL(relay() && w.a.writes == writes + 1, &w.a, &w.b);
    assert_filled(source + 200000, 50000, reads + 7);
    RUN_FOR(2 * MS, &w.a, &w.b); /* acknowledgements */
    (void)relay();
    RUN_FOR(2 * MS, &w.a, &w.b);
}

/* b has taken all that it was sent, and nothing came of it. */
#define EXPECT_ONLY(counter, moved, statement)                                  \
    do {                                                                        \
        const struct diwarp_counters *c_ = w.b.counters;                        \
        const uint64_t before_ = c_->counter, rx_ = c_->rx_datagrams;           \
        const uint64_t placed_ = c_->rx_record_bytes, sent_ = c_->tx_datagrams; \
        const unsigned recvs_ = w.b.recvs;                                      \
        statement;                                                              \
        RUN_UNTIL(c_->rx_datagrams >= rx_ + (moved), &w.b);                     \
        assert_int_equal(c_->counter, before_ + (moved));                       \
        assert_int_equal(w.b.recvs, recvs_);                                    \
        assert_int_equal(c_->rx_record_bytes, placed_);                         \
        assert_int_equal(c_->tx_datagrams, sent_);                              \
        assert_int_equal(w.b.errors + w.b.gone, 0);                             \
    } while (0)

/* Sends all that was caught again, each changed first. The socket holds them. */
static void send_again(void (*change)(uint8_t *buf, size_t *bytes))
{
    static uint8_t buf[65536];
    for (unsigned i = 0; i < w.count; i++) {
        size_t bytes = w.caught[i].bytes;
        memcpy(buf, w.caught[i].buf, bytes);
        if (change)
            change(buf, &bytes);
        to_b(buf, bytes);
    }
}

static void renumber(uint8_t *buf, size_t *bytes)
{
    (void)bytes;
    dw_put_be64(buf + 24, dw_get_be64(buf + 24) + FAR_AHEAD);
}

static void rename_source(uint8_t *buf, size_t *bytes)
{
    (void)bytes;
    dw_put_be32(buf + 20, 77);
}

static void flip_text(uint8_t *buf, size_t *bytes)
{
    renumber(buf, bytes);
    buf[*bytes - DW_TAG_BYTES - 1] ^= 1;
}

static void put_crc(uint8_t *buf, size_t *bytes)
{
    renumber(buf, bytes);
    buf[1] &= (uint8_t)~DW_LLP_SEALED;
    *bytes -= DW_TAG_BYTES - DW_CRC_BYTES;
    dw_put_be32(buf + *bytes - DW_CRC_BYTES, dw_crc32c(0, buf, *bytes - DW_CRC_BYTES));
}

static void put_nothing(uint8_t *buf, size_t *bytes)
{
    put_crc(buf, bytes);
    buf[1] |= DW_LLP_NO_CRC;
    dw_put_be32(buf + *bytes - DW_CRC_BYTES, 0);
}

static void put_token(uint8_t *buf, size_t *bytes)
{
    (void)bytes;
    dw_put_be64(buf + 8, w.b.address.token);
}

static bool was_readable(void)
{
    for (unsigned i = 0; i < w.count; i++)
        if (memmem(w.caught[i].buf, w.caught[i].bytes, MARK, sizeof MARK))
            return true;
    return false;
}

static const enum diwarp_auth modes[] = {DIWARP_AUTH_GMAC, DIWARP_AUTH_AES_GCM};
#define EACH_MODE(mode) \
    for (const enum diwarp_auth *mode = modes; mode < modes + sizeof modes / sizeof *modes; mode++)

static void rd__repeated_and_forged__nothing_comes_of_it(void **state)
{
    (void)state;
    EACH_MODE(mode)
    {
        open_world(*mode, DIWARP_QPT_RD);
        converse();
        converse();
        assert_true(w.count > 40);
        assert_int_equal(was_readable(), *mode == DIWARP_AUTH_GMAC);
        EXPECT_ONLY(drop_replay, w.count, send_again(NULL));
        EXPECT_ONLY(drop_auth, w.count, send_again(renumber));
        EXPECT_ONLY(drop_auth, w.count, send_again(rename_source));
        EXPECT_ONLY(drop_auth, w.count, send_again(flip_text));
        EXPECT_ONLY(drop_auth, w.count, send_again(put_crc));
        EXPECT_ONLY(drop_auth, w.count, send_again(put_nothing));
        converse();
        assert_int_equal(w.a.counters->drop_auth + w.a.counters->drop_replay, 0);
        close_world();
    }
}

/* Nobody else is believed for knowing token and address. */
static void rd__stranger_with_the_token(void **state)
{
    (void)state;
    static struct forger forger;
    EACH_MODE(mode)
    {
        open_world(*mode, DIWARP_QPT_RD);
        converse();
        forger_open(&forger, &w.b.address, DW_LLP_DATA, 9);
        forger.header.flags = DW_LLP_INTRO;
        forge_begin(&forger);
        forge_message(&forger, 1, "hello", 5);
        EXPECT_ONLY(drop_auth, 1, forge_send(&forger));
        forger.header.flags = DW_LLP_INTRO | DW_LLP_SEALED;
        static const uint8_t tag[DW_TAG_BYTES];
        for (unsigned source_key = 0; source_key < 2; source_key++) {
            forge_begin(&forger);
            forge_message(&forger, 1, "hello", 5);
            forge_raw(&forger, tag, sizeof tag);
            EXPECT_ONLY(drop_auth, 1, forge_send_bytes(&forger));
            forger.header.flags |= DW_LLP_SOURCE_KEY;
        }
        forger_close(&forger);
        converse();
        close_world();
    }
}

static void rd__of_an_older_incarnation(void **state)
{
    (void)state;
    EACH_MODE(mode)
    {
        open_world(*mode, DIWARP_QPT_RD);
        converse();
        /* Of the source: b knows the next one, and met the one before. */
        node_close(&w.a);
        diwarp_destroy_ah(w.ab);
        w.attr.name.rank = 1;
        node_open(&w.a, &w.attr, &w.qp_attr);
        const unsigned old = w.count;
        diwarp_destroy_ah(w.ba);
        connect_nodes();
        RUN_FOR(MS, &w.b); /* it hears that the one before is gone */
        w.b.gone = 0;
        EXPECT_ONLY(drop_replay, old, send_again(NULL));
        converse();
        while (w.count > old)
            free(w.caught[--w.count].buf);
        EXPECT_ONLY(drop_replay, old, send_again(NULL));
        /* Of the destination: what was sent to the one before has its token, and its key. */
        diwarp_dereg_mr(w.mr);
        diwarp_destroy_ah(w.ba);
        node_close(&w.b);
        w.attr.name.rank = 2;
        node_open(&w.b, &w.attr, &w.qp_attr);
        w.mr = diwarp_reg_mr(w.b.pd, source, sizeof source, RIGHTS_ALL);
        diwarp_destroy_ah(w.ab);
        connect_nodes();
        EXPECT_ONLY(drop_token, old, send_again(NULL));
        EXPECT_ONLY(drop_auth, old, send_again(put_token));
        close_world();
    }
}

static void ud__repeated_and_forged__nothing_comes_of_it(void **state)
{
    (void)state;
    static uint8_t buffers[8][64];
    EACH_MODE(mode)
    {
        open_world(*mode, DIWARP_QPT_UD);
        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(post_recv(&w.b, buffers[i], 64, i), 0);
        for (unsigned i = 0; i < 3; i++)
            converse();
        assert_int_equal(w.count, 3);
        assert_memory_equal(buffers[0], MARK, sizeof MARK);
        assert_int_equal(was_readable(), *mode == DIWARP_AUTH_GMAC);
        EXPECT_ONLY(rx_dup_datagrams, w.count, send_again(NULL));
        EXPECT_ONLY(drop_auth, w.count, send_again(renumber));
        EXPECT_ONLY(drop_auth, w.count, send_again(flip_text));
        EXPECT_ONLY(drop_auth, w.count, send_again(put_crc));
        EXPECT_ONLY(drop_auth, w.count, send_again(put_nothing));
        converse();
        close_world();
    }
}

/* ---- what both must have alike -------------------------------------------------------------- */

static void create_ah__other_mode_is_refused(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    const struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct node nodes[3];
    struct diwarp_ah *ah;
    for (int i = 0; i < 3; i++) {
        attr.name.rank = (uint32_t)i;
        attr.auth = (enum diwarp_auth)i;
        node_open(&nodes[i], &attr, &qp_attr);
    }
    for (int i = 0; i < 9; i++) {
        const int rc = diwarp_create_ah(nodes[i / 3].qp, &nodes[i % 3].address, &ah);
        assert_int_equal(rc, i / 3 == i % 3 ? 0 : -EPROTO);
        if (!rc)
            diwarp_destroy_ah(ah);
    }
    for (int i = 0; i < 3; i++)
        node_close(&nodes[i]);
}

static void write_file(const char *path, const char *text, size_t bytes, mode_t mode)
{
    (void)unlink(path);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void open_device__key_file(void **state)
{
    (void)state;
    static const char key[] = "0123456789abcdef", other[] = "0123456789abcdeF";
    static const struct {
        const char *text;
        size_t bytes;
        mode_t mode;
        int rc;
        const char *said;
    } cases[] = {
        {key, 16, 0600, 0, ""},
        {key, 16, 0400, 0, ""},
        {key, 16, 0640, -EACCES, "chmod 600"},
        {key, 16, 0604, -EACCES, "chmod 600"},
        {key, 16, 0620, -EACCES, "chmod 600"},
        {key, 15, 0600, -EINVAL, "less than 16"},
    };
    char folder[] = "/tmp/diwarp-key-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_device *device;
    struct diwarp_diagnosis why;
    attr.auth = DIWARP_AUTH_GMAC;
    attr.auth_key_file = path;
    assert_int_equal(diwarp_open_device(&attr, &device, &why), -ENOENT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(path, cases[i].text, cases[i].bytes, cases[i].mode);
        assert_int_equal(diwarp_open_device(&attr, &device, &why), cases[i].rc);
        assert_non_null(strstr(why.text, cases[i].said));
        if (!cases[i].rc)
            diwarp_close_device(device);
    }
    attr.auth_key_file = folder;
    assert_int_equal(diwarp_open_device(&attr, &device, &why), -EACCES);
    attr.auth = DIWARP_AUTH_OFF;
    assert_int_equal(diwarp_open_device(&attr, &device, &why), -EINVAL);
    attr.auth = DIWARP_AUTH_GMAC;

    const struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct node same[2], without, with_other;
    struct diwarp_ah *ah;
    attr.auth_key_file = path;
    write_file(path, key, 16, 0600);
    node_open(&same[0], &attr, &qp_attr);
    node_open(&same[1], &attr, &qp_attr);
    write_file(path, other, 16, 0600);
    node_open(&with_other, &attr, &qp_attr);
    attr.auth_key_file = NULL;
    node_open(&without, &attr, &qp_attr);
    assert_int_equal(diwarp_create_ah(same[0].qp, &with_other.address, &ah), -EPROTO);
    assert_int_equal(diwarp_create_ah(same[0].qp, &without.address, &ah), -EPROTO);
    ah = node_ah(&same[0], &same[1]);
    diwarp_destroy_ah(ah);
    struct node *const all[] = {&same[0], &same[1], &without, &with_other};
    for (int i = 0; i < 4; i++)
        node_close(all[i]);
    assert_int_equal(unlink(path) | rmdir(folder), 0);
}

static void listen__is_refused(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    const struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct diwarp_listener *listener;
    struct diwarp_diagnosis why;
    struct node node;
    attr.auth = DIWARP_AUTH_GMAC;
    node_open(&node, &attr, &qp_attr);
    assert_int_equal(diwarp_listen(node.pd, node.cq, &listener, &why), -EOPNOTSUPP);
    node_close(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__repeated_and_forged__nothing_comes_of_it),
        cmocka_unit_test(rd__stranger_with_the_token),
        cmocka_unit_test(rd__of_an_older_incarnation),
        cmocka_unit_test(ud__repeated_and_forged__nothing_comes_of_it),
        cmocka_unit_test(create_ah__other_mode_is_refused),
        cmocka_unit_test(open_device__key_file),
        cmocka_unit_test(listen__is_refused),
    };
    const char *fault = dw_crypto_load();
    if (fault) {
        print_message("skipped: no libcrypto: %s\n", fault);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
