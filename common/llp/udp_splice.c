/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A datagram to this host whose payload the kernel need not copy: its skb points to the pages where
 * it lies (vmsplice, splice), which the receiver then reads. What that saves is writing to pages
 * that the receiver's core read last.
 *
 * Goes through a connected socket of its own, which segments: such a socket leaves the checksum to
 * the device, here to nobody, where the kernel would compute it for what comes in several calls.
 * Other sends would only be slower through it. What does not work goes the usual way, as does the
 * next to that destination, for a while.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* vmsplice, splice, pipe2 */
#endif
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <netinet/udp.h>

#include "common/llp/udp.h"

/* Datagrams to the same destination that go the usual way after one that did not work. */
#define TRY_AGAIN_AFTER 4096

void dw_udp_splice_init(struct dw_udp *udp, bool wanted)
{
    udp->llp.splices = wanted && udp->hot_wanted;
    udp->pipe[0] = udp->pipe[1] = -1;
}

/* With what may be left in it. */
static void close_pipe(struct dw_udp *udp)
{
    for (unsigned i = 0; i < 2; i++) {
        if (udp->pipe[i] >= 0) {
            close(udp->pipe[i]);
        }
        udp->pipe[i] = -1;
    }
}

void dw_udp_splice_fini(struct dw_udp *udp)
{
    close_pipe(udp);
}

/* Closing ends what is begun of a datagram. Always -EOPNOTSUPP. */
static int give_up(struct dw_udp *udp, struct dw_udp_hot *hot)
{
    if (hot->splice_fd >= 0) {
        close(hot->splice_fd);
    }
    hot->splice_fd = -1;
    hot->splice_wait = TRY_AGAIN_AFTER;
    close_pipe(udp);
    udp->llp.counters->splice_fallbacks++;
    return -EOPNOTSUPP;
}

/* What the next datagrams go through. */
static void open_socket(struct dw_udp *udp, struct dw_udp_hot *hot)
{
    hot->splice_fd = dw_udp_connected(udp, &hot->to);
    if (hot->splice_fd < 0 ||
        dw_udp_set_int(hot->splice_fd, IPPROTO_UDP, UDP_SEGMENT, DW_LLP_TRAIN_BYTES) < 0) {
        (void)give_up(udp, hot);
    }
}

static bool open_pipe(struct dw_udp *udp)
{
    if (udp->pipe[0] < 0 && pipe2(udp->pipe, O_NONBLOCK | O_CLOEXEC) < 0) {
        udp->pipe[0] = udp->pipe[1] = -1;
    }
    return udp->pipe[0] >= 0;
}

/* All of the payload, or an error that leaves an unfinished datagram. */
static bool append_payload(const struct dw_udp *udp, int fd, const struct iovec *payload)
{
    const ssize_t bytes = (ssize_t)payload->iov_len;

    udp->llp.counters->tx_syscalls += 2;
    return vmsplice(udp->pipe[1], payload, 1, SPLICE_F_NONBLOCK) == bytes &&
           splice(udp->pipe[0], NULL, fd, NULL, payload->iov_len,
                  SPLICE_F_MORE | SPLICE_F_NONBLOCK) == bytes;
}

int dw_udp_splice(struct dw_udp *udp, const struct dw_llp_train *train)
{
    struct dw_udp_hot *hot = dw_udp_hot_find(udp, train->to);
    const struct iovec *head = &train->iov[0], *payload = &train->iov[1], *trailer = &train->iov[2];

    assert(train->iov_count == 3 && train->total_bytes == train->segment_bytes);
    if (!hot || (hot->splice_wait > 0 && --hot->splice_wait > 0)) {
        return -EOPNOTSUPP;
    }
    if (hot->splice_fd < 0) {
        open_socket(udp, hot);
        return -EOPNOTSUPP;
    }
    if (!open_pipe(udp)) {
        return give_up(udp, hot);
    }
    udp->llp.counters->tx_syscalls++;
    if (send(hot->splice_fd, head->iov_base, head->iov_len, MSG_MORE) < 0) {
        if (errno == EAGAIN) {
            udp->llp.counters->tx_eagain++;
            return -EAGAIN;
        }
        return give_up(udp, hot);
    }
    if (!append_payload(udp, hot->splice_fd, payload)) {
        return give_up(udp, hot);
    }
    udp->llp.counters->tx_syscalls++;
    if (send(hot->splice_fd, trailer->iov_base, trailer->iov_len, 0) < 0) {
        return give_up(udp, hot);
    }
    (void)dw_udp_hot_fd(udp, train->to); /* counts it */
    udp->llp.counters->tx_spliced++;
    return 0;
}
