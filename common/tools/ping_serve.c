/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/tools/ping_serve.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tools/ping_link.h"

/* At the same time; the next ones wait to be accepted. */
#define CLIENTS_MAX 8
/* Longest that a client may take in all, and between two frames. */
#define CLIENT_SECONDS 600
#define SILENCE_NS     20000000000ull
/* --once ends after that without a client. */
#define ONCE_SECONDS 60
/* Whoever has not been heard for so long is waited for asleep. */
#define SPIN_NS 1000000u
#define MS_NS   1000000u

struct session {
    int fd;
    const struct ping_options *options;
    const struct ping_host *host;
    struct diwarp_name name;
    struct ping_link link;
    bool open;
    struct ping_counts counts;
};

static void on_message(void *arg, enum diwarp_qp_type service, const uint8_t *data, uint32_t bytes)
{
    struct session *session = arg;
    if (data[1] < PING_PHASES)
        session->counts.received[data[1]]++;
    if (data[0] != PING_ECHO)
        return;
    const int rc = ping_link_send(&session->link, service, data, bytes);
    if (rc && rc != -EAGAIN)
        session->counts.send_error = (uint32_t)-rc;
}

/* ---- what a client asks ---------------------------------------------------------------------- */

static int open_link(struct session *session, const struct ping_try *try, struct ping_ready *ready)
{
    struct diwarp_diagnosis why = {""};
    if (try->interface >= session->host->interface_count) {
        snprintf(ready->error, sizeof ready->error, "no such interface");
        return -EINVAL;
    }
    const struct ping_link_attr attr = {
        .interface = &session->host->interfaces[try->interface],
        .datagram_max_bytes = try->datagram_max_bytes,
        .port_min = session->options->udp_min,
        .port_max = session->options->udp_max,
        .name = session->name,
    };
    int rc = ping_link_open(&session->link, &attr, &why);
    session->open = !rc;
    if (!rc)
        rc = ping_link_meet(&session->link, try->addresses);
    if (rc)
        snprintf(ready->error, sizeof ready->error, "%.*s", (int)sizeof ready->error - 1,
                 rc == -ENETUNREACH ? PING_UNREACHABLE
                 : why.text[0]      ? why.text
                                    : strerror(-rc));
    return rc;
}

static int on_try(struct session *session, const struct ping_try *try)
{
    struct ping_ready ready = {.error = ""};
    if (session->open)
        ping_link_close(&session->link);
    session->open = false;
    session->counts = (struct ping_counts){.send_error = 0};
    if (open_link(session, try, &ready) == 0) {
        ping_link_addresses(&session->link, ready.addresses);
        ready.stag = session->link.mr->stag;
        ready.to = (uintptr_t)session->link.memory;
    }
    return ping_send(session->fd, PING_READY, &ready);
}

static int on_ask(struct session *session)
{
    struct diwarp_qp_info info = {0};
    if (session->open)
        diwarp_query_qp(session->link.qps[DIWARP_QPT_RD], &info);
    session->counts.rcvbuf_bytes = info.rcvbuf_bytes;
    session->counts.sndbuf_bytes = info.sndbuf_bytes;
    session->counts.gso = info.gso;
    session->counts.gro = info.gro;
    return ping_send(session->fd, PING_COUNTS, &session->counts);
}

/* Runs the RNIC until the client says something; false: it does not. */
static bool answer(struct session *session)
{
    const uint64_t begin_ns = ping_now_ns();
    uint64_t now_ns = begin_ns, heard_ns = begin_ns, looked_ns = 0;
    const int qp_fd = session->open ? diwarp_qp_fd(session->link.qps[DIWARP_QPT_RD]) : -1;
    for (; now_ns - heard_ns < SILENCE_NS; now_ns = ping_now_ns()) {
        if (session->open && ping_link_poll(&session->link) > 0)
            heard_ns = now_ns;
        if (now_ns - looked_ns < MS_NS)
            continue;
        struct pollfd entries[2] = {{.fd = session->fd, .events = POLLIN},
                                    {.fd = qp_fd, .events = POLLIN}};
        looked_ns = now_ns;
        (void)poll(entries, 2, now_ns - heard_ns > SPIN_NS);
        if (entries[0].revents)
            return true;
    }
    return false;
}

static int serve_client(int fd, const struct ping_options *options, const struct ping_host *host)
{
    struct session session = {.fd = fd, .options = options, .host = host};
    session.link.on_message = on_message;
    session.link.arg = &session;
    if (getrandom(&session.name.job, sizeof session.name.job, 0) != sizeof session.name.job)
        return -EIO;
    int rc = ping_receive(fd, PING_HELLO, NULL, PING_ANSWER_NS);
    if (rc == -EPIPE) /* a port scan, say */
        return -ECONNRESET;
    rc = rc ? rc : ping_send(fd, PING_HOST, host);
    while (!rc) {
        struct ping_try try;
        if (!answer(&session)) {
            rc = -ETIMEDOUT;
            break;
        }
        const int type = ping_receive_any(fd, &try, PING_ANSWER_NS);
        rc = type == PING_TRY ? on_try(&session, &try) : type == PING_ASK ? on_ask(&session) : type;
    }
    if (session.open)
        ping_link_close(&session.link);
    return rc;
}

/* ---- clients --------------------------------------------------------------------------------- */

/* In a child. Exit status 0: it was a client of ours. */
static int run_client(int fd, const char *who, const struct ping_options *options)
{
    struct ping_host host;
    struct diwarp_diagnosis why = {""};
    alarm(CLIENT_SECONDS);
    int rc = ping_this_host(options, &host, &why);
    if (rc) {
        fprintf(stderr, "diwarp_ping: %s\n", why.text);
        return 1;
    }
    rc = serve_client(fd, options, &host);
    if (rc == -EPIPE) /* how each ends that is done */
        return 0;
    fprintf(stderr, "diwarp_ping: %s: %s\n", who,
            rc == -EPROTO ? "what it sends is not of diwarp_ping, or of another version"
                          : strerror(-rc));
    return 1;
}

/* Waits until no more than `most` are left; true: one has ended well. */
static bool reap(unsigned *clients, unsigned most)
{
    bool well = false;
    for (int status = 0; *clients > 0;) {
        if (waitpid(-1, &status, *clients > most ? 0 : WNOHANG) <= 0)
            break;
        (*clients)--;
        well |= WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (WIFSIGNALED(status))
            fprintf(stderr, "diwarp_ping: a client's process died of signal %d\n",
                    WTERMSIG(status));
    }
    return well;
}

int ping_serve(const struct ping_options *options)
{
    const int listener = ping_listen(options->port);
    char who[80];
    unsigned clients = 0;
    if (listener < 0) {
        fprintf(stderr,
                "diwarp_ping: cannot listen on TCP port %s: %s; choose another with --port, at "
                "both ends\n",
                options->port, strerror(-listener));
        return 1;
    }
    printf("diwarp_ping: listening on TCP port %s\n", options->port);
    fflush(stdout);
    const uint64_t begin_ns = ping_now_ns();
    for (;;) {
        struct pollfd entry = {.fd = listener, .events = POLLIN};
        const bool waiting = poll(&entry, 1, 200) == 1;
        if (reap(&clients, CLIENTS_MAX - 1) && options->once)
            return 0;
        if (options->once && !clients &&
            ping_now_ns() - begin_ns > ONCE_SECONDS * (uint64_t)1000000000) {
            fprintf(stderr, "diwarp_ping: no client came within %d s\n", ONCE_SECONDS);
            return 1;
        }
        const int fd = waiting ? ping_accept(listener, who, sizeof who) : -1;
        if (fd < 0)
            continue;
        const pid_t child = fork();
        if (child == 0) {
            close(listener);
            _exit(run_client(fd, who, options));
        }
        clients += child > 0;
        close(fd);
    }
}
