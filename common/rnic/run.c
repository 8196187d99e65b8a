/* SPDX-License-Identifier: BSD-3-Clause */
/* A port: opened with its first datagram QP, closed with the last, and run by polls between: what
 * comes, what its services send, timers. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/rel/rtt.h"
#include "common/rnic/groups.h"
#include "common/rnic/qp.h"
#include "common/rnic/secret.h"

/* Timers run at the latest after this, though the socket has not been read empty; an absence counts
 * as a quarter of that at most. Half would resend what has come and is not read yet where a process
 * loses its core for a time slice; twice finds losses later. */
#define TIMERS_WAIT_MAX_NS 20000000
/* Of timers, after which the socket is read again, as what many time-outs would ask for may have
 * come meanwhile; and of ICMP's messages. */
#define EVENTS_PER_RUN 64
/* Receive calls in one run that may bring nothing but acknowledgements. More let what is to be sent
 * wait for them, fewer let a flood of small messages fill the socket between two runs. */
#define RECEIVES_PER_RUN 4
/* Completions that point to received data, over which no more is taken: small messages need more
 * memory there than in the arena. Then half of them go first, for all peers are told each time. */
#define HELD_WCS_MAX 2048
/* Silence after which a drained QP may go. A peer that missed our last acknowledgement, be it the
 * first that it waits for, has asked again by then, unless round trips to it take long. */
#define LINGER_NS (DW_RTO_INITIAL_NS + DW_RTO_INITIAL_NS / 4)

static struct dw_port *port_of(const struct dw_runner *runner)
{
    return dw_container(runner, struct dw_port, runner);
}

static uint64_t least(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* For each service with that hook that has, or had, a QP on the port: by `service` and `state`. */
#define EACH_SERVICE(port, hook, statement)                              \
    for (unsigned i_ = 0; (port)->device->services[i_]; i_++) {          \
        const struct dw_service *service = (port)->device->services[i_]; \
        void *state = (port)->states[i_];                                \
        if (state && service->hook)                                      \
            statement;                                                   \
    }

/* ---- what comes ---- */

static void take(struct dw_datagrams *datagrams, struct dw_arrival *arrival, uint64_t now_ns)
{
    struct dw_port *port = dw_container(datagrams, struct dw_port, datagrams);
    if (arrival->group) {
        dw_groups_take(port, arrival, now_ns);
        return;
    }
    const enum diwarp_qp_type type =
        arrival->header.type == DW_LLP_UD ? DIWARP_QPT_UD : DIWARP_QPT_RD;
    const struct dw_service *service = port->device->services[type];
    void *state = port->states[type]; /* NULL: the service has no QP */
    const bool may_place = state && service->place && !datagrams->seal.auth;
    if ((may_place && service->place(state, arrival, now_ns)) ||
        !dw_datagrams_open(datagrams, arrival))
        return;
    struct diwarp_qp *qp = dw_map_get(&port->qp_by_num, arrival->header.dst_qpn);
    if (qp && qp->service != service)
        qp = NULL;
    if (qp || (state && type == DIWARP_QPT_RD)) /* which answers for QPs that are gone */
        service->take(state, qp, arrival, now_ns);
    else
        datagrams->counters.drop_qpn++;
}

/* One receive call, to where it leaves alone what is held. */
static bool receive(struct dw_port *port, uint64_t now_ns)
{
    const bool refused = port->refuses_data;
    bool full = port->device->held >= HELD_WCS_MAX / (refused ? 2 : 1);
    if (port->device->held)
        EACH_SERVICE(port, is_full, full |= service->is_full(state))
    uint8_t *at = full ? NULL : dw_arena_next(&port->datagrams.arena);
    port->refuses_data = !at;
    if (refused && at)
        EACH_SERVICE(port, on_room, service->on_room(state))
    /* The stage is idle now; nothing that comes then stays in it. */
    return dw_datagrams_receive(&port->datagrams, at ? at : port->datagrams.stage, now_ns);
}

static void on_icmp(struct dw_port *port, struct dw_path *path, uint16_t udp_port, uint32_t told,
                    uint64_t now_ns)
{
    if (told == DW_LLP_NO_PORT || told == DW_LLP_PROHIBITED) {
        EACH_SERVICE(port, on_unreachable,
                     service->on_unreachable(state, path, udp_port, (enum dw_llp_told)told, now_ns))
    } else if (dw_path_on_told(path, dw_datagram_max_bytes(port, path->host.family, told),
                               now_ns)) {
        port->datagrams.counters.paths_narrowed++;
        EACH_SERVICE(port, on_narrow, service->on_narrow(state, path))
    }
}

static void take_icmp(struct dw_port *port, uint64_t now_ns)
{
    struct dw_llp *llp = port->datagrams.llp;
    struct dw_llp_addr to;
    int told = 0;
    for (unsigned i = 0; llp->told && i < EVENTS_PER_RUN && (told = llp->ops->icmp(llp, &to)) >= 0;
         i++)
        for (struct dw_path *path = dw_paths_find(&port->paths, &to); path; path = path->next)
            on_icmp(port, path, to.port, (uint32_t)told, now_ns);
}

/* ---- a run ---- */

static int run(struct dw_runner *runner, uint64_t now_ns)
{
    struct dw_port *port = port_of(runner);
    const uint64_t pushed = port->device->pushed;
    int received = 0;
    bool drained = false;
    if (port->handed_out && !port->device->held) {
        port->handed_out = false;
        EACH_SERVICE(port, recycle, service->recycle(state))
        dw_arena_recycle(&port->datagrams.arena);
    }
    const uint64_t away_ns = now_ns - port->ran_ns; /* whoever ran it last */
    port->ran_ns = now_ns;
    port->timers_wait_ns += least(away_ns, TIMERS_WAIT_MAX_NS / 4);
    while (received < RECEIVES_PER_RUN && port->device->pushed == pushed && !drained) {
        drained = !receive(port, now_ns);
        received += !drained;
    }
    runner->more = false;
    EACH_SERVICE(port, run, runner->more |= service->run(state, now_ns))
    /* What a time-out would ask for may lie in the socket: it is read first, within reason. */
    if (drained || port->timers_wait_ns > TIMERS_WAIT_MAX_NS) {
        port->timers_wait_ns = 0;
        dw_heap_run(&port->timers, now_ns, EVENTS_PER_RUN);
        EACH_SERVICE(port, expire, service->expire(state, now_ns))
    }
    take_icmp(port, now_ns);
    return received;
}

static uint64_t next_deadline_ns(const struct dw_runner *runner)
{
    const struct dw_port *port = port_of(runner);
    uint64_t next_ns = dw_heap_next_ns(&port->timers);
    EACH_SERVICE(port, next_deadline_ns,
                 next_ns = least(next_ns, service->next_deadline_ns(state, port->ran_ns)))
    return next_ns;
}

/* ---- giving back what is not needed any more ---- */

void dw_port_trim_later(struct dw_port *port, uint64_t now_ns)
{
    const uint64_t due_ns = now_ns + port->device->env.rest_ns / 2;
    if (!port->trim_timer.slot || due_ns < port->trim_timer.deadline_ns)
        dw_heap_set(&port->timers, &port->trim_timer, due_ns);
}

static void on_trim(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_port *port = dw_container(timer, struct dw_port, trim_timer);
    bool more = dw_datagrams_trim(&port->datagrams);
    uint64_t next_ns = DW_NEVER;
    EACH_SERVICE(port, trim, next_ns = least(next_ns, service->trim(state, now_ns)))
    dw_foreach (qp, struct diwarp_qp, link, &port->qps)
        more |= dw_cq_trim(qp->cq);
    dw_heap_set(&port->timers, timer, next_ns);
    if (more)
        dw_port_trim_later(port, now_ns);
}

static void add_memory(const struct dw_runner *runner, struct diwarp_memory *memory)
{
    const struct dw_port *port = port_of(runner);
    const struct dw_datagrams *datagrams = &port->datagrams;
    if (datagrams->llp->ops->add_memory)
        datagrams->llp->ops->add_memory(datagrams->llp, memory);
    memory->base_bytes += sizeof *port + dw_map_bytes(&port->qp_by_num);
    dw_foreach (qp, struct diwarp_qp, link, &port->qps)
        memory->base_bytes += qp->service->qp_bytes;
    const uint64_t bytes = datagrams->arena.touched + DW_LLP_SLOT_BYTES; /* the stage */
    memory->receive_bytes += bytes;
    memory->send_pool_bytes += datagrams->pool.touched_bytes +
                               datagrams->pool.chunk_max * sizeof *datagrams->pool.returned;
    memory->mapped_bytes += bytes + datagrams->pool.touched_bytes;
    memory->peer_bytes += dw_heap_bytes(&port->timers);
    if (datagrams->seal.auth)
        memory->peer_bytes += dw_auth_bytes(datagrams->seal.auth);
    memory->address_bytes += port->paths.count * sizeof(struct dw_path) + port->paths.ways_bytes +
                             dw_map_bytes(&port->paths.buckets);
    EACH_SERVICE(port, add_memory, service->add_memory(state, memory))
}

static const struct dw_runner_ops runner_ops = {
    .run = run,
    .next_deadline_ns = next_deadline_ns,
    .add_memory = add_memory,
};

/* ---- opening and closing ---- */

static int open_llp(struct dw_port *port, struct diwarp_diagnosis *why)
{
    const struct diwarp_device *device = port->device;
    const struct dw_llp_addr at = dw_device_listens_at(device);
    return device->env.open_llp(device->env.arg, &device->attr, &at, &port->datagrams.counters,
                                &port->datagrams.llp, why);
}

/* What protects its datagrams, by the device's attributes. */
static int set_seal(struct dw_port *port, struct diwarp_diagnosis *why)
{
    struct diwarp_device *device = port->device;
    struct dw_datagrams *datagrams = &port->datagrams;
    const struct dw_process me = {.name = datagrams->name, .incarnation = datagrams->incarnation};
    uint8_t secret[DIWARP_SECRET_BYTES];
    struct dw_auth *auth = NULL;
    if (device->attr.auth != DIWARP_AUTH_OFF) {
        const int rc = dw_secret_draw(secret, sizeof secret, why);
        if (rc)
            return rc;
        auth = dw_auth_create(device->attr.auth, &me, secret, device->file_key,
                              dw_device_random(device));
        explicit_bzero(secret, sizeof secret);
        if (!auth)
            return -ENOMEM;
    }
    datagrams->seal = dw_seal_of(device->attr.crc != DIWARP_OFF, auth);
    return 0;
}

static void port_close(struct dw_port *port)
{
    if (port->all_fd >= 0)
        close(port->all_fd);
    dw_groups_close(port);
    EACH_SERVICE(port, close, service->close(state))
    dw_map_fini(&port->qp_by_num);
    dw_datagrams_fini(&port->datagrams);
    dw_heap_fini(&port->timers);
    dw_ways_fini(&port->paths);
    dw_paths_fini(&port->paths);
    free(port);
}

int dw_port_get(struct diwarp_device *device, struct diwarp_diagnosis *why)
{
    if (device->port)
        return 0;
    struct dw_port *port = calloc(1, sizeof *port);
    if (!port)
        return -ENOMEM;
    port->runner.ops = &runner_ops;
    port->device = device;
    port->all_fd = -1;
    port->mtu_max_bytes = UINT32_MAX;
    port->trim_timer.fire = on_trim;
    port->datagrams.token = device->attr.token ? device->attr.token : dw_device_random(device);
    do
        port->datagrams.incarnation = (uint32_t)dw_device_random(device);
    while (!port->datagrams.incarnation);
    port->datagrams.number = dw_device_random(device) >> 16; /* anywhere, far from the end */
    port->datagrams.name = device->attr.name;
    port->datagrams.take = take;
    dw_paths_init(&port->paths, device->random_key);
    dw_list_init(&port->qps);
    dw_map_init(&port->qp_by_num, dw_device_random(device));
    int rc = set_seal(port, why);
    if (!rc)
        rc = dw_heap_reserve(&port->timers); /* trim_timer */
    if (!rc)
        rc = dw_datagrams_init(&port->datagrams, device->attr.send_pool_bytes);
    if (!rc)
        rc = open_llp(port, why);
    if (rc) {
        port_close(port);
        return rc;
    }
    struct dw_llp *llp = port->datagrams.llp;
    port->runner.fds[0] = llp->fd;
    port->runner.fds[1] = -1;
    if (llp->ops->share) {
        port->datagrams.token = llp->ops->share(llp, port->datagrams.token, DW_LLP_TOKEN_AT);
        port->runner.fds[1] = llp->forwarded_fd;
    }
    dw_list_append(&device->runners, &port->runner.link);
    device->port = port;
    return 0;
}

void dw_port_put(struct dw_port *port)
{
    if (!dw_list_empty(&port->qps))
        return;
    dw_list_remove(&port->runner.link);
    port->device->port = NULL;
    port_close(port);
}

/* ---- draining ---- */

/* What other QPs of the port go on with is not waited for. */
static bool is_busy(const struct diwarp_qp *qp, int received)
{
    return (qp->service->owes && qp->service->owes(qp)) ||
           (dw_qp_is_alone(qp) && (received || qp->port->runner.more));
}

int diwarp_drain_qp(struct diwarp_qp *qp, uint64_t timeout_ns)
{
    struct dw_port *port = qp->port;
    struct diwarp_device *device = port->device;
    dw_lock(device);
    const uint64_t start_ns = dw_device_now_ns(device);
    struct pollfd fds[] = {{.fd = port->runner.fds[0], .events = POLLIN},
                           {.fd = port->runner.fds[1], .events = POLLIN}};
    qp->draining = true;
    for (uint64_t now_ns = start_ns, busy_ns = start_ns; now_ns - start_ns < timeout_ns;
         now_ns = dw_device_now_ns(device)) {
        dw_cq_drop(qp->cq);
        if (is_busy(qp, run(&port->runner, now_ns)))
            busy_ns = now_ns;
        else if (fds[0].fd < 0 || now_ns - busy_ns >= LINGER_NS)
            break;
        dw_unlock(device);
        if (fds[0].fd >= 0)
            (void)poll(fds, 2, 1);
        dw_lock(device);
    }
    int rc = is_busy(qp, 0) ? -ETIMEDOUT : 0;
    qp->draining = false;
    dw_unlock(device);
    return rc;
}
