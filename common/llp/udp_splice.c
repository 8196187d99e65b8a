/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending without a copy: the pages of a large payload go through a pipe into the socket, which
 * refers to them until the receiver has read them (splice to UDP, Linux 6.5). Headers are copied as
 * ever. Falls back for good at the first sign of trouble.
 *
 * What is changed while it is under way arrives damaged, fails its CRC, and is sent again: callers
 * lend memory that is not to change.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* vmsplice, splice */
#endif
#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/llp/udp.h"

/* Below, the calls cost more than the copy. */
#define SPLICE_MIN_BYTES 32768
/* An skb refers to at most 17 pieces of memory: 16 pages and a trailer. */
#define PAGE_BYTES       4096
#define SPLICE_MAX_BYTES (15 * PAGE_BYTES)
/* IPv6 and UDP. */
#define IP_UDP_HEADER_MAX_BYTES 48
/* Slots of the pipe: one for each piece. */
#define PIPE_BYTES (32 * PAGE_BYTES)
/* The last bytes of datagrams under way, one after the other: reused long after each has come. */
#define TRAILER_BYTES 4
#define TRAILERS      (4 * PAGE_BYTES / TRAILER_BYTES)

static void close_pipe(struct dw_udp_splice *state)
{
    if (state->open) {
        close(state->pipe[0]);
        close(state->pipe[1]);
    }
    state->open = state->usable = false;
}

void dw_udp_splice_init(struct dw_udp_splice *state)
{
    if (sysconf(_SC_PAGESIZE) != PAGE_BYTES ||
        posix_memalign((void **)&state->trailers, PAGE_BYTES, TRAILERS * TRAILER_BYTES)) {
        return;
    }
    if (pipe2(state->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        return;
    }
    state->open = state->usable = true;
    if (fcntl(state->pipe[0], F_SETPIPE_SZ, PIPE_BYTES) < PIPE_BYTES) {
        close_pipe(state);
    }
}

void dw_udp_splice_fini(struct dw_udp_splice *state)
{
    close_pipe(state);
    free(state->trailers);
}

/* A datagram in several calls would get its checksum in software, on both sides: unless it were
 * segmented. So the socket says it segments, into more than it is ever given. */
bool dw_udp_splice_prepare(const struct dw_udp *udp, int fd)
{
    int mtu_bytes = 0;
    socklen_t len = sizeof(mtu_bytes);
    bool v4 = udp->family == AF_INET;
    int rc = getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu_bytes,
                        &len);
    return rc == 0 && udp->splice.usable && udp->llp.gso &&
           mtu_bytes >= DW_LLP_TRAIN_BYTES + IP_UDP_HEADER_MAX_BYTES &&
           dw_udp_set_int(fd, IPPROTO_UDP, UDP_SEGMENT, DW_LLP_TRAIN_BYTES) == 0;
}

bool dw_udp_splice_fits(const struct dw_udp_splice *state, const struct dw_llp_train *train)
{
    return state->usable && train->lent && train->iov_count == 3 &&
           train->iov[1].iov_len >= SPLICE_MIN_BYTES && train->iov[1].iov_len <= SPLICE_MAX_BYTES &&
           train->iov[2].iov_len == TRAILER_BYTES;
}

static bool move_on(const struct dw_udp_splice *state, int fd, size_t bytes, unsigned flags)
{
    while (bytes > 0) {
        ssize_t n = splice(state->pipe[0], NULL, fd, NULL, bytes, flags);
        if (n <= 0) {
            return false;
        }
        bytes -= (size_t)n;
    }
    return true;
}

/* Head, then all else: the socket puts them into one datagram, which leaves with the last byte. */
int dw_udp_splice_send(struct dw_udp_splice *state, int fd, const struct dw_llp_train *train)
{
    uint8_t *trailer = state->trailers + state->next_trailer++ % TRAILERS * TRAILER_BYTES;
    struct iovec rest[2] = {train->iov[1], {.iov_base = trailer, .iov_len = TRAILER_BYTES}};
    ssize_t bytes = (ssize_t)(rest[0].iov_len + rest[1].iov_len);

    if (send(fd, train->iov[0].iov_base, train->iov[0].iov_len, MSG_MORE) < 0) {
        return -errno;
    }
    memcpy(trailer, train->iov[2].iov_base, TRAILER_BYTES);
    if (vmsplice(state->pipe[1], rest, 2, SPLICE_F_NONBLOCK) != bytes) {
        goto broken;
    }
    /* The kernel hands 16 pieces at a time to the socket, and ends the datagram with each. */
    if (!move_on(state, fd, rest[0].iov_len, SPLICE_F_MORE) ||
        !move_on(state, fd, TRAILER_BYTES, 0)) {
        goto broken;
    }
    return 0;

broken:
    close_pipe(state);
    return -EPIPE;
}
