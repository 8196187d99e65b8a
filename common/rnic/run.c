/* SPDX-License-Identifier: BSD-3-Clause */
/* One run of the RNIC over a port: what comes, what its services send, timers. */
#include "common/rnic/run.h"

#include <errno.h>
#include <poll.h>

#include "common/rnic/lock.h"
#include "common/rnic/memory.h"
#include "common/rel/rtt.h"
#include "common/rnic/qp.h"
#include "common/rnic/route.h"

/* Timers run at the latest after this, though the socket has not been read empty; when nobody ran
 * us for as long, it begins anew, but no more often than that. */
#define TIMERS_WAIT_MAX_NS 20000000
#define ABSENCES_MAX       4
/* Then the socket is read again: what many time-outs would ask for may have come meanwhile. */
#define TIMERS_PER_RUN 64
/* Of what comes back for datagrams, in one run. */
#define ICMP_PER_RUN 8
/* Receive calls in one run that may bring nothing but acknowledgements. */
#define RECEIVES_PER_RUN 4
/* Completions that point to received data, over which no more is taken: small messages need more
 * memory there than in the arena. */
#define HELD_WCS_MAX 2048
/* So many fewer before more is taken: not a few at a time, of which all peers would be told. */
#define HELD_WCS_ROOM 1024
/* Silence after which a drained QP may go. A peer that missed our last acknowledgement, be it the
 * first that it waits for, has asked again by then, unless round trips to it take long. */
#define LINGER_NS (DW_RTO_INITIAL_NS + DW_RTO_INITIAL_NS / 4)

static struct dw_port *port_of(const struct dw_runner *runner)
{
    return dw_container(runner, struct dw_port, runner);
}

/* Visits each service that has, or had, a QP on the port: its table and its state. */
#define for_each_service(port, service, state)                                                    \
    for (unsigned i_ = 0; (port)->device->services[i_]; i_++)                                     \
        for (const struct dw_service *service = (port)->states[i_] ? (port)->device->services[i_] \
                                                                   : NULL;                        \
             service; service = NULL)                                                             \
            for (void *state = (port)->states[i_]; service; service = NULL)

/* ---- what comes ---- */

/* Whose datagrams these are, by their type. */
static const struct dw_service *service_of(const struct dw_port *port, uint8_t type,
                                           unsigned *index)
{
    const bool reliable = type != DW_LLP_UD;
    for (unsigned i = 0; port->device->services[i]; i++) {
        *index = i;
        if (port->states[i] && port->device->services[i]->reliable == reliable)
            return port->device->services[i];
    }
    return NULL;
}

static struct diwarp_qp *qp_of(const struct dw_port *port, const struct dw_service *service,
                               uint32_t qpn)
{
    struct diwarp_qp *qp = dw_map_get(&port->qp_by_num, qpn);
    return qp && qp->service == service ? qp : NULL;
}

static bool place(void *arg, const struct dw_arrival *arrival, uint64_t now_ns)
{
    const struct dw_port *port = arg;
    unsigned index;
    const struct dw_service *service = service_of(port, arrival->header.type, &index);
    return service && service->place && service->place(port->states[index], arrival, now_ns);
}

static void take(void *arg, const struct dw_arrival *arrival, uint64_t now_ns)
{
    struct dw_port *port = arg;
    unsigned index;
    const struct dw_service *service = service_of(port, arrival->header.type, &index);
    struct diwarp_qp *qp = service ? qp_of(port, service, arrival->header.dst_qpn) : NULL;
    if (qp || (service && service->reliable))
        service->take(port->states[index], qp, arrival, now_ns);
    else
        port->datagrams.counters.drop_qpn++;
}

static const struct dw_datagrams_taker taker = {.place = place, .take = take};

/* Where the next receive call goes; NULL: nowhere that would leave alone what is held. */
static uint8_t *next_place(struct dw_port *port)
{
    uint32_t held_max = port->refuses_data ? HELD_WCS_MAX - HELD_WCS_ROOM : HELD_WCS_MAX;
    for_each_service(port, service,
                     state) if (service->is_full && service->is_full(state)) return NULL;
    if (port->device->held >= held_max)
        return NULL;
    return dw_arena_next(&port->datagrams.arena);
}

static bool receive(struct dw_port *port, uint64_t now_ns)
{
    uint8_t *at = next_place(port);
    const bool had_none = port->refuses_data;
    port->refuses_data = !at;
    if (had_none && at)
        for_each_service(port, service, state) if (service->on_room) service->on_room(state);
    /* The stage is idle now; nothing that comes then stays in it. */
    return dw_datagrams_receive(&port->datagrams, at ? at : port->datagrams.stage, now_ns);
}

static void on_icmp(struct dw_port *port, struct dw_path *path, const struct dw_llp_icmp *icmp,
                    uint64_t now_ns)
{
    if (!icmp->mtu_bytes) {
        for_each_service(port, service, state) if (service->on_unreachable)
            service->on_unreachable(state, path, icmp->to.port, now_ns);
        return;
    }
    const uint32_t bytes = dw_datagram_max_bytes(port, icmp->to.family, icmp->mtu_bytes);
    if (!dw_path_on_told(path, bytes, now_ns))
        return;
    port->datagrams.counters.paths_narrowed++;
    for_each_service(port, service, state) if (service->on_narrow) service->on_narrow(state, path);
}

static void take_icmp(struct dw_port *port, uint64_t now_ns)
{
    struct dw_llp *llp = port->datagrams.llp;
    struct dw_llp_icmp icmp;
    for (unsigned i = 0; i < ICMP_PER_RUN && llp->ops->icmp(llp, &icmp); i++)
        for (struct dw_path *path = dw_paths_find(&port->paths, &icmp.to); path;
             path = dw_path_next(path))
            on_icmp(port, path, &icmp, now_ns);
}

/* ---- a run ---- */

/* Whoever ran it last was away for so long. */
static void on_absence(struct dw_port *port, uint64_t away_ns, uint64_t now_ns)
{
    if (port->absences < ABSENCES_MAX) {
        port->absences++;
        port->timers_ran_ns = now_ns;
    }
    for_each_service(port, service, state) if (service->on_absence)
        service->on_absence(state, away_ns);
}

static void run_timers(struct dw_port *port, uint64_t now_ns)
{
    port->absences = 0;
    port->timers_ran_ns = now_ns;
    dw_heap_run(&port->timers, now_ns, TIMERS_PER_RUN);
}

static int run(struct dw_runner *runner, uint64_t now_ns)
{
    struct dw_port *port = port_of(runner);
    const uint64_t pushed = port->device->pushed;
    int received = 0;
    bool drained = false;
    if (now_ns - port->ran_ns > TIMERS_WAIT_MAX_NS)
        on_absence(port, now_ns - port->ran_ns, now_ns);
    port->ran_ns = now_ns;
    while (received < RECEIVES_PER_RUN && port->device->pushed == pushed) {
        drained = !receive(port, now_ns);
        if (drained)
            break;
        received++;
    }
    for_each_service(port, service, state) if (service->run) service->run(state, now_ns);
    /* What a time-out would ask for may lie in the socket: it is read first, within reason. */
    if (drained || now_ns - port->timers_ran_ns > TIMERS_WAIT_MAX_NS)
        run_timers(port, now_ns);
    take_icmp(port, now_ns);
    return received;
}

static bool has_more(const struct dw_runner *runner)
{
    const struct dw_port *port = port_of(runner);
    for_each_service(port, service,
                     state) if (service->has_more && service->has_more(state)) return true;
    return false;
}

static uint64_t next_deadline_ns(const struct dw_runner *runner)
{
    const struct dw_port *port = port_of(runner);
    uint64_t next_ns = dw_heap_next_ns(&port->timers);
    for_each_service(port, service, state)
    {
        uint64_t deadline_ns =
            service->next_deadline_ns ? service->next_deadline_ns(state, port->ran_ns) : DW_NEVER;
        if (deadline_ns < next_ns)
            next_ns = deadline_ns;
    }
    return next_ns;
}

static void recycle(struct dw_runner *runner)
{
    struct dw_port *port = port_of(runner);
    for_each_service(port, service, state) if (service->recycle) service->recycle(state);
    dw_arena_recycle(&port->datagrams.arena);
}

static int fd_of(const struct dw_runner *runner, bool *deaf)
{
    const int fd = port_of(runner)->datagrams.llp->fd;
    *deaf = fd < 0;
    return fd;
}

/* ---- giving back what is not needed any more ---- */

static void on_trim(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_port *port = dw_container(timer, struct dw_port, trim_timer);
    bool more = dw_datagrams_trim(&port->datagrams);
    uint64_t next_ns = DW_NEVER;
    for_each_service(port, service, state)
    {
        const uint64_t service_ns = service->trim ? service->trim(state, now_ns) : DW_NEVER;
        next_ns = service_ns < next_ns ? service_ns : next_ns;
    }
    dw_list_foreach (it, &port->qps)
        more |= dw_cq_trim(dw_container(it, struct diwarp_qp, port_link)->cq);
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
    memory->base_bytes += sizeof *port + dw_memory_of_map(&port->qp_by_num);
    dw_list_foreach (it, &port->qps)
        memory->base_bytes += dw_container(it, struct diwarp_qp, port_link)->service->qp_bytes;
    /* Arena and stage, as far as they were touched. */
    const uint64_t bytes = datagrams->arena.touched + DW_LLP_SLOT_BYTES;
    memory->receive_bytes += bytes;
    memory->send_pool_bytes += datagrams->pool.touched_bytes +
                               datagrams->pool.chunk_max * sizeof *datagrams->pool.returned;
    memory->mapped_bytes += bytes + datagrams->pool.touched_bytes;
    memory->peer_bytes += dw_heap_bytes(&port->timers);
    memory->address_bytes +=
        port->paths.count * sizeof(struct dw_path) + dw_memory_of_map(&port->paths.buckets);
    for_each_service(port, service, state) if (service->add_memory)
        service->add_memory(state, memory);
}

static const struct dw_runner_ops runner_ops = {
    .recycle = recycle,
    .run = run,
    .has_more = has_more,
    .next_deadline_ns = next_deadline_ns,
    .fd = fd_of,
    .add_memory = add_memory,
};

int dw_run_get_port(struct diwarp_device *device, struct dw_port **port,
                    struct diwarp_diagnosis *why)
{
    return dw_port_get(device, &runner_ops, &taker, on_trim, port, why);
}

/* ---- draining ---- */

/* What other QPs of the port go on with is not waited for. */
static bool is_busy(const struct diwarp_qp *qp, bool received)
{
    return (qp->service->owes && qp->service->owes(qp)) ||
           (dw_qp_is_alone(qp) && (received || has_more(&qp->port->runner)));
}

int diwarp_drain_qp(struct diwarp_qp *qp, uint64_t timeout_ns)
{
    struct dw_port *port = qp->port;
    struct diwarp_device *device = port->device;
    dw_lock(device);
    uint64_t start_ns = dw_device_now_ns(device), now_ns = start_ns;
    qp->draining = true;
    if (qp->service->begin_drain)
        qp->service->begin_drain(qp);
    for (uint64_t busy_ns = start_ns; now_ns - start_ns < timeout_ns;
         now_ns = dw_device_now_ns(device)) {
        struct pollfd fd = {.fd = port->datagrams.llp->fd, .events = POLLIN};
        qp->cq->count = 0;
        if (device->held == qp->cq->held)
            recycle(&port->runner);
        if (is_busy(qp, run(&port->runner, now_ns)))
            busy_ns = now_ns;
        else if (fd.fd < 0 || now_ns - busy_ns >= LINGER_NS)
            break;
        dw_unlock(device);
        if (fd.fd >= 0)
            (void)poll(&fd, 1, 1);
        dw_lock(device);
    }
    int rc = is_busy(qp, false) ? -ETIMEDOUT : 0;
    qp->draining = false;
    dw_unlock(device);
    return rc;
}
