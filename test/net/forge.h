/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests: datagrams made by hand, field by field, and a plain UDP socket that sends them. A
 * forger knows what a peer knows (token, name) unless the test says otherwise. After <cmocka.h>.
 */
#ifndef TEST_FORGE_H
#define TEST_FORGE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/include/diwarp.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "common/wire/rdmap.h"

struct forger {
    int fd;
    uint16_t port;
    struct dw_llp_header header; /* of the next datagram */
    struct dw_intro intro;       /* put when the header's flag says so */
    size_t bytes;
    uint8_t buf[65507];
};

static inline void forger_open(struct forger *forger, const struct diwarp_address *target,
                               enum dw_llp_type type, uint32_t rank)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;

    memset(forger, 0, sizeof *forger);
    forger->fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(forger->fd >= 0);
    assert_int_equal(bind(forger->fd, (struct sockaddr *)&name, len), 0);
    assert_int_equal(getsockname(forger->fd, (struct sockaddr *)&name, &len), 0);
    forger->port = ntohs(name.sin_port);
    name.sin_port = htons(target->port);
    assert_int_equal(connect(forger->fd, (struct sockaddr *)&name, sizeof name), 0);
    forger->header = (struct dw_llp_header){.type = (uint8_t)type,
                                            .token = target->token,
                                            .job = 7,
                                            .rank = rank,
                                            .incarnation = 99,
                                            .dst_qpn = target->qpn,
                                            .src_qpn = 1};
    if (type != DW_LLP_UD)
        forger->header.credit_kib = 1024;
    forger->intro = (struct dw_intro){
        .token = 0x5eed, .family = AF_INET, .port = forger->port, .mtu_bytes = 65535};
    memcpy(forger->intro.ip, &name.sin_addr, 4);
}

/* What a QP is to know of the forger, to make a handle of. */
static inline struct diwarp_address forger_address(const struct forger *forger,
                                                   const struct diwarp_address *target)
{
    struct diwarp_address address = *target;

    address.name = (struct diwarp_name){forger->header.job, forger->header.rank};
    address.port = forger->port;
    address.token = forger->intro.token;
    address.incarnation = forger->header.incarnation;
    return address;
}

static inline void forge_begin(struct forger *forger)
{
    dw_llp_header_put(forger->buf, &forger->header);
    forger->bytes = DW_LLP_HEADER_BYTES;
    if (forger->header.flags & DW_LLP_INTRO) {
        dw_intro_put(forger->buf + forger->bytes, &forger->intro);
        forger->bytes += DW_INTRO_BYTES;
    }
}

/* A segment: DDP header, then `head` (a payload's own header), then data. */
static inline void forge_segment(struct forger *forger, const struct dw_ddp_header *ddp,
                                 const void *head, size_t head_bytes, const void *data,
                                 size_t data_bytes)
{
    uint32_t padding = dw_segment_padding((uint32_t)forger->bytes);
    memset(forger->buf + forger->bytes, 0, padding);
    forger->bytes += padding;
    uint8_t *at = forger->buf + forger->bytes;
    size_t n = dw_ddp_put(at + DW_SEGMENT_LEN_BYTES, ddp);

    if (head_bytes)
        memcpy(at + DW_SEGMENT_LEN_BYTES + n, head, head_bytes);
    n += head_bytes;
    if (data_bytes)
        memcpy(at + DW_SEGMENT_LEN_BYTES + n, data, data_bytes);
    n += data_bytes;
    dw_put_be16(at, (uint16_t)n);
    forger->bytes += DW_SEGMENT_LEN_BYTES + n;
}

static inline void forge_raw(struct forger *forger, const void *data, size_t bytes)
{
    memcpy(forger->buf + forger->bytes, data, bytes);
    forger->bytes += bytes;
}

static inline void forge_trailer(struct forger *forger)
{
    dw_put_be32(forger->buf + forger->bytes, dw_crc32c(0, forger->buf, forger->bytes));
    forger->bytes += DW_CRC_BYTES;
}

static inline void forge_send_bytes(struct forger *forger)
{
    assert_int_equal(send(forger->fd, forger->buf, forger->bytes, 0), forger->bytes);
}

static inline void forge_send(struct forger *forger)
{
    forge_trailer(forger);
    forge_send_bytes(forger);
}

static inline void forge_write_record(struct forger *forger, uint32_t id, uint32_t stag,
                                      uint64_t to, uint32_t offset, uint32_t total,
                                      const void *data, uint32_t bytes)
{
    uint8_t head[DW_WRITE_RECORD_BYTES];
    struct dw_write_record wr = {.id = id, .offset = offset, .total = total};
    struct dw_ddp_header ddp = {.tagged = true,
                                .last = offset + bytes == total,
                                .opcode = DW_RDMAP_WRITE_RECORD,
                                .stag = stag,
                                .to = to + offset};

    dw_put_be32(head, wr.id);
    dw_put_be32(head + 4, wr.offset);
    dw_put_be32(head + 8, wr.total);
    forge_segment(forger, &ddp, head, sizeof head, data, bytes);
}

static inline void forge_control(struct forger *forger, const struct dw_record_control *control)
{
    uint8_t payload[DW_RECORD_STATUS_BYTES(DW_RECORD_MAX_RANGES) + 128];
    struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_RECORD_CONTROL, .qn = DW_QN_RECORD, .msn = 1};
    size_t n = dw_record_control_put(payload, control);

    forge_segment(forger, &ddp, payload, n, NULL, 0);
}

static inline void forge_message(struct forger *forger, uint32_t msn, const void *data,
                                 uint32_t bytes)
{
    struct dw_ddp_header ddp = {.last = true, .opcode = DW_RDMAP_SEND, .msn = msn};

    forge_segment(forger, &ddp, NULL, 0, data, bytes);
}

/* The header of the next datagram that comes to the forger; false: none within the time. */
static inline bool forger_hear(struct forger *forger, struct dw_llp_header *header, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = forger->fd, .events = POLLIN};
    uint8_t buf[65536];

    if (poll(&poll_fd, 1, timeout_ms) != 1)
        return false;
    ssize_t n = recv(forger->fd, buf, sizeof buf, 0);
    return n > 0 && dw_llp_header_get(header, buf, (size_t)n) == 0;
}

static inline void forger_close(struct forger *forger)
{
    close(forger->fd);
}

#endif
