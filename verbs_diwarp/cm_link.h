/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets, with one thread that waits for all of them and for their deadlines. It must not know
 * what the messages mean. Every function runs with the lock held. */
#pragma once

#include <sys/socket.h>

#include "verbs_diwarp/cm.h"

#define DV_CM_NEVER INT64_MAX

struct dv_cm_link {
    int fd;                    /* -1: closed */
    struct dv_cm_id *id;       /* NULL: a caller who has said nothing */
    struct dv_cm_id *listener; /* of such a caller */
    int64_t deadline_ns;
    void (*on_ready)(struct dv_cm_link *link); /* there is something to read, write or accept */
    void (*on_deadline)(struct dv_cm_link *link);
    LIST_ENTRY(dv_cm_link) entry;
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    size_t count;
};

int64_t dv_cm_now_ns(void);
/* Takes fd, which does not block, when it succeeds. NULL with errno set. It is not yet waited for.
 */
struct dv_cm_link *dv_cm_link_open(int fd);
/* From now on for a connection, or for what can be read. */
void dv_cm_link_writes(struct dv_cm_link *link);
void dv_cm_link_reads(struct dv_cm_link *link);
/* Nothing that comes is looked at any more. */
void dv_cm_link_mute(struct dv_cm_link *link);
void dv_cm_link_close(struct dv_cm_link *link);
void dv_cm_link_wait(struct dv_cm_link *link, int64_t deadline_ns);
/* 0 or a negative errno. */
int dv_cm_link_send(struct dv_cm_link *link, const struct dv_cm_message *message);
/* 1: a message; 0: none yet; a negative errno: the stream has ended, or is none of ours. */
int dv_cm_link_receive(struct dv_cm_link *link, struct dv_cm_message *message);
/* The oldest of the callers who have said nothing, and their number. */
struct dv_cm_link *dv_cm_link_oldest_silent(unsigned *count);
/* Callers of a listener who have said nothing go with it. */
void dv_cm_link_close_silent(const struct dv_cm_id *listener);
/* Whether the port of a socket that is bound, and of connections that remain of it, may be bound
 * again while it does not listen. */
static inline void dv_cm_set_reuse(int fd, int on)
{
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}
