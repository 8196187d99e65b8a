/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_link.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_READY 64

static LIST_HEAD(, dv_cm_link) links = LIST_HEAD_INITIALIZER(links);
/* Closed: the thread may have just been told of them, so it is the thread that frees them. */
static LIST_HEAD(, dv_cm_link) closed = LIST_HEAD_INITIALIZER(closed);
static int poll_fd = -1, wake_fd = -1;

int64_t dv_cm_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the thread ---- */

static int64_t next_deadline_ns(void)
{
    int64_t next = DV_CM_NEVER;
    const struct dv_cm_link *link;
    LIST_FOREACH(link, &links, entry)
    if (link->deadline_ns < next)
        next = link->deadline_ns;
    return next;
}

static int timeout_ms(void)
{
    dv_cm_lock();
    const int64_t next = next_deadline_ns();
    dv_cm_unlock();
    if (next == DV_CM_NEVER)
        return -1;
    const int64_t left = next - dv_cm_now_ns();
    return left <= 0 ? 0 : left > 1000000000 ? 1000 : (int)(left / 1000000) + 1;
}

static void run_deadlines(void)
{
    const int64_t now = dv_cm_now_ns();
    struct dv_cm_link *next;
    for (struct dv_cm_link *link = LIST_FIRST(&links); link; link = next) {
        next = LIST_NEXT(link, entry); /* a link closes none but itself */
        if (link->deadline_ns <= now) {
            link->deadline_ns = DV_CM_NEVER;
            link->on_deadline(link);
        }
    }
}

static void free_closed(void)
{
    while (!LIST_EMPTY(&closed)) {
        struct dv_cm_link *link = LIST_FIRST(&closed);
        LIST_REMOVE(link, entry);
        free(link);
    }
}

/* A message may have come with the one before, of which the socket does not tell. */
static void serve(struct dv_cm_link *link)
{
    size_t before = 0;
    do {
        before = link->count;
        if (link->fd >= 0)
            link->on_ready(link);
    } while (link->fd >= 0 && link->count && link->count != before);
}

static void *run(void *arg)
{
    (void)arg;
    for (;;) {
        struct epoll_event ready[MAX_READY];
        const int count = epoll_wait(poll_fd, ready, MAX_READY, timeout_ms());
        dv_cm_lock();
        for (int i = 0; i < count; i++) {
            struct dv_cm_link *link = ready[i].data.ptr;
            eventfd_t wakes;
            if (!link)
                (void)!eventfd_read(wake_fd, &wakes);
            else
                serve(link);
        }
        run_deadlines();
        free_closed();
        dv_cm_unlock();
    }
    return NULL;
}

/* No signal of the program's is to end up here. */
static int start_thread(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc)
        pthread_detach(thread);
    return rc;
}

/* 0 or a positive errno. */
static int start(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (poll_fd >= 0)
        return 0;
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    poll_fd = wake_fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
    int rc =
        poll_fd < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, wake_fd, &event) ? errno : start_thread();
    if (!rc)
        return 0;
    if (poll_fd >= 0)
        close(poll_fd);
    if (wake_fd >= 0)
        close(wake_fd);
    poll_fd = wake_fd = -1;
    return rc;
}

static void wake(void)
{
    (void)!eventfd_write(wake_fd, 1);
}

/* ---- links ---- */

struct dv_cm_link *dv_cm_link_open(int fd)
{
    const int rc = start();
    struct dv_cm_link *link = rc ? NULL : calloc(1, sizeof *link);
    if (!link)
        return dv_fail(rc ? rc : ENOMEM);
    link->fd = fd;
    link->deadline_ns = DV_CM_NEVER;
    LIST_INSERT_HEAD(&links, link, entry);
    return link;
}

/* Failure is what its deadline is for. */
static void wait_for(struct dv_cm_link *link, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = link};
    if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, link->fd, &event) && errno == ENOENT)
        (void)epoll_ctl(poll_fd, EPOLL_CTL_ADD, link->fd, &event);
}

void dv_cm_link_writes(struct dv_cm_link *link)
{
    wait_for(link, EPOLLOUT);
}

void dv_cm_link_reads(struct dv_cm_link *link)
{
    wait_for(link, EPOLLIN);
}

/* Not with no events, of which the end of the stream would be told all the same. */
void dv_cm_link_mute(struct dv_cm_link *link)
{
    (void)epoll_ctl(poll_fd, EPOLL_CTL_DEL, link->fd, NULL);
}

void dv_cm_link_close(struct dv_cm_link *link)
{
    /* A child of fork(2) may have the socket, too, and with it its place here. */
    (void)epoll_ctl(poll_fd, EPOLL_CTL_DEL, link->fd, NULL);
    close(link->fd);
    link->fd = -1;
    LIST_REMOVE(link, entry);
    LIST_INSERT_HEAD(&closed, link, entry);
    wake();
}

void dv_cm_link_wait(struct dv_cm_link *link, int64_t deadline_ns)
{
    link->deadline_ns = deadline_ns;
    wake();
}

/* The socket's buffer has room for the few messages of a connection: less is a peer's fault. */
int dv_cm_link_send(struct dv_cm_link *link, const struct dv_cm_message *message)
{
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    const size_t count = dv_cm_encode(message, bytes);
    const ssize_t sent = send(link->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return -errno;
    return (size_t)sent == count ? 0 : -ECONNRESET;
}

int dv_cm_link_receive(struct dv_cm_link *link, struct dv_cm_message *message)
{
    int used = link->count ? dv_cm_decode(link->bytes, link->count, message) : 0;
    if (!used) {
        const ssize_t got = recv(link->fd, link->bytes + link->count,
                                 sizeof link->bytes - link->count, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            return got ? -errno : -ECONNRESET;
        link->count += (size_t)got;
        used = dv_cm_decode(link->bytes, link->count, message);
    }
    if (used <= 0)
        return used;
    link->count -= (size_t)used;
    memmove(link->bytes, link->bytes + used, link->count);
    return 1;
}

struct dv_cm_link *dv_cm_link_oldest_silent(unsigned *count)
{
    struct dv_cm_link *link, *oldest = NULL;
    *count = 0;
    LIST_FOREACH(link, &links, entry)
    if (link->listener) {
        oldest = link; /* the list begins with the newest */
        ++*count;
    }
    return oldest;
}

void dv_cm_link_close_silent(const struct dv_cm_id *listener)
{
    struct dv_cm_link *next;
    for (struct dv_cm_link *link = LIST_FIRST(&links); link; link = next) {
        next = LIST_NEXT(link, entry);
        if (link->listener == listener)
            dv_cm_link_close(link);
    }
}
