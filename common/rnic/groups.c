/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: which QPs are attached, what comes to them, and handles to send there. */
#include "common/rnic/groups.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/llp/interface.h"
#include "common/wire/bytes.h"

/* Groups of one run, and receive calls for each: as many again wait for the next run, which is soon
 * while there is something. */
#define READY_PER_RUN    8
#define RECEIVES_PER_RUN 16

struct member {
    struct dw_list link; /* in group.members */
    struct diwarp_qp *qp;
    struct dw_window window;
};

struct group {
    struct dw_list link; /* in dw_groups.list */
    struct dw_group_socket socket;
    struct diwarp_group id;
    struct dw_list members;
};

/* ---- what a group is, and by which interfaces ---- */

static size_t ip_bytes(const struct diwarp_group *id)
{
    return id->family == AF_INET6 ? 16 : 4;
}

static bool is_broadcast_of(uint32_t ip, const struct diwarp_interface *interface)
{
    return interface->family == AF_INET && interface->prefix_bits < 31 &&
           ip == (dw_get_be32(interface->ip) | UINT32_MAX >> interface->prefix_bits);
}

bool diwarp_is_group_ip(uint8_t family, const uint8_t *ip,
                        const struct diwarp_interface *interfaces, unsigned count)
{
    if (family == AF_INET6)
        return IN6_IS_ADDR_MULTICAST(ip);
    const uint32_t ipv4 = dw_get_be32(ip);
    bool group = IN_MULTICAST(ipv4);
    for (unsigned i = 0; i < count; i++)
        group |= is_broadcast_of(ipv4, &interfaces[i]);
    return group;
}

static bool leads_to(const struct diwarp_interface *interface, const struct diwarp_group *id)
{
    const bool named = !id->interface[0] || !strncmp(interface->name, id->interface, 16);
    return named && interface->family == id->family &&
           diwarp_is_group_ip(id->family, id->ip, interface, 1);
}

static bool is_same(const struct diwarp_group *a, const struct diwarp_group *b)
{
    return a->token == b->token && a->family == b->family && a->port == b->port &&
           !memcmp(a->ip, b->ip, ip_bytes(a)) && !strncmp(a->interface, b->interface, 16);
}

/* The interface by which the group is sent to; -ENODEV. */
static int sends_by(const struct diwarp_device *device, const struct diwarp_group *id)
{
    int found = -ENODEV;
    for (unsigned i = 0; i < device->interface_count; i++) {
        const struct diwarp_interface *interface = &device->interfaces[i];
        if (leads_to(interface, id) &&
            (found < 0 || (device->interfaces[found].loopback && !interface->loopback)))
            found = (int)i;
    }
    return found;
}

/* 0: QPs of that kind may have to do with that group. */
static int check(const struct diwarp_qp *qp, const struct diwarp_group *id)
{
    const struct diwarp_device *device = qp->port->device;
    if (qp->attr.type != DIWARP_QPT_UD || !id->token || !id->port ||
        (id->family != AF_INET && id->family != AF_INET6) ||
        !diwarp_is_group_ip(id->family, id->ip, device->interfaces, device->interface_count))
        return -EINVAL;
    if (qp->port->datagrams.seal.auth || !qp->port->datagrams.llp->ops->open_group)
        return -EOPNOTSUPP;
    const int interface = sends_by(device, id);
    return interface < 0 ? interface : 0;
}

static struct dw_llp_addr addr_of(const struct diwarp_group *id)
{
    struct dw_llp_addr addr = {
        .family = id->family, .port = id->port, .hops = id->hops ? id->hops : 1};
    memcpy(addr.ip, id->ip, ip_bytes(id));
    return addr;
}

/* ---- what comes ---- */

/* Sent by the QP itself. */
static bool is_own(const struct diwarp_qp *qp, const struct dw_llp_header *header)
{
    const struct dw_datagrams *datagrams = &qp->port->datagrams;
    return header->src_qpn == qp->num && header->incarnation == datagrams->incarnation &&
           header->job == datagrams->name.job && header->rank == datagrams->name.rank;
}

void dw_groups_take(struct dw_port *port, struct dw_arrival *arrival, uint64_t now_ns)
{
    struct group *group = dw_container(arrival->group, struct group, socket);
    if (!dw_datagrams_open(&port->datagrams, arrival))
        return;
    dw_foreach (member, struct member, link, &group->members) {
        struct diwarp_qp *qp = member->qp;
        arrival->window = &member->window;
        if (!qp->attr.block_self || !is_own(qp, &arrival->header))
            qp->service->take(qp->state, qp, arrival, now_ns);
    }
}

static struct dw_groups *groups_of(const struct dw_runner *runner)
{
    return dw_container(runner, struct dw_groups, runner);
}

static int run(struct dw_runner *runner, uint64_t now_ns)
{
    struct dw_groups *groups = groups_of(runner);
    struct epoll_event ready[READY_PER_RUN];
    const int n = groups->count ? epoll_wait(runner->fds[0], ready, READY_PER_RUN, 0) : 0;
    int received = 0;
    runner->more = false;
    for (int i = 0; i < n; i++) {
        const struct group *group = ready[i].data.ptr;
        for (unsigned calls = 0; calls < RECEIVES_PER_RUN; calls++, received++)
            if (!dw_datagrams_receive_group(&groups->port->datagrams, &group->socket, now_ns))
                break;
    }
    return received;
}

static uint64_t next_deadline_ns(const struct dw_runner *runner)
{
    (void)runner;
    return DW_NEVER;
}

static void add_memory(const struct dw_runner *runner, struct diwarp_memory *memory)
{
    const struct dw_groups *groups = groups_of(runner);
    memory->base_bytes += sizeof *groups;
    dw_foreach (group, const struct group, link, &groups->list) {
        memory->base_bytes += sizeof *group;
        group->socket.llp->ops->add_memory(group->socket.llp, memory);
        dw_foreach (member, const struct member, link, &group->members)
            memory->base_bytes += sizeof *member;
    }
}

static const struct dw_runner_ops runner_ops = {
    .run = run,
    .next_deadline_ns = next_deadline_ns,
    .add_memory = add_memory,
};

/* ---- opening and closing ---- */

static int watch(int epoll_fd, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void close_all(struct dw_groups *groups)
{
    if (groups->runner.fds[0] >= 0)
        close(groups->runner.fds[0]);
    free(groups);
}

/* The port's, made at first use. 0 or negative errno. */
static int get_groups(struct dw_port *port)
{
    if (port->groups)
        return 0;
    struct dw_groups *groups = calloc(1, sizeof *groups);
    if (!groups)
        return -ENOMEM;
    groups->runner.ops = &runner_ops;
    groups->port = port;
    dw_list_init(&groups->list);
    groups->runner.fds[0] = epoll_create1(EPOLL_CLOEXEC);
    groups->runner.fds[1] = -1;
    int rc = groups->runner.fds[0] < 0 ? -errno : 0;
    if (!rc && port->all_fd >= 0)
        rc = watch(port->all_fd, groups->runner.fds[0], NULL);
    if (rc) {
        close_all(groups);
        return rc;
    }
    dw_list_append(&port->device->runners, &groups->runner.link);
    port->groups = groups;
    return 0;
}

void dw_groups_close(struct dw_port *port)
{
    if (!port->groups)
        return;
    dw_list_remove(&port->groups->runner.link);
    close_all(port->groups);
    port->groups = NULL;
}

/* ---- one descriptor for all sockets ---- */

static int watch_all(struct dw_port *port)
{
    const int fds[] = {port->runner.fds[0], port->runner.fds[1],
                       port->groups ? port->groups->runner.fds[0] : -1};
    const int all_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = all_fd < 0 ? -errno : 0;
    for (unsigned i = 0; i < sizeof fds / sizeof *fds && !rc; i++)
        rc = fds[i] < 0 ? 0 : watch(all_fd, fds[i], NULL);
    if (!rc)
        port->all_fd = all_fd;
    else if (all_fd >= 0)
        close(all_fd);
    return rc;
}

/* A set of one would cost each datagram two wakes of it for nothing. */
int diwarp_qp_fd(struct diwarp_qp *qp)
{
    struct dw_port *port = qp->port;
    dw_lock(port->device);
    const bool one = port->runner.fds[1] < 0 && !port->groups;
    const int rc = one || port->all_fd >= 0 ? 0 : watch_all(port);
    const int fd = rc ? rc : one ? port->runner.fds[0] : port->all_fd;
    dw_unlock(port->device);
    return fd;
}

/* ---- attaching and detaching ---- */

static struct group *find(const struct dw_port *port, const struct diwarp_group *id)
{
    if (port->groups)
        dw_foreach (group, struct group, link, &port->groups->list)
            if (is_same(&group->id, id))
                return group;
    return NULL;
}

static struct member *member_of(const struct group *group, const struct diwarp_qp *qp)
{
    dw_foreach (member, struct member, link, &group->members)
        if (member->qp == qp)
            return member;
    return NULL;
}

static int open_socket(struct dw_port *port, struct group *group)
{
    const struct diwarp_device *device = port->device;
    const struct dw_llp_addr addr = addr_of(&group->id);
    struct dw_llp *llp = port->datagrams.llp;
    const uint32_t first = dw_interface_index(&device->interfaces[sends_by(device, &group->id)]);
    uint32_t interfaces[DIWARP_MAX_INTERFACES] = {first};
    unsigned count = 1;
    for (unsigned i = 0; i < device->interface_count; i++) {
        const uint32_t index = dw_interface_index(&device->interfaces[i]);
        bool known = !leads_to(&device->interfaces[i], &group->id);
        for (unsigned k = 0; k < count; k++)
            known |= interfaces[k] == index;
        if (!known)
            interfaces[count++] = index;
    }
    const bool multicast = diwarp_is_group_ip(addr.family, addr.ip, NULL, 0);
    return llp->ops->open_group(llp, &addr, interfaces, multicast ? count : 0, &group->socket.llp);
}

/* One without members. */
static int add_group(struct dw_port *port, const struct diwarp_group *id, struct group **added)
{
    int rc = get_groups(port);
    if (!rc && port->groups->count == DIWARP_MAX_GROUPS)
        rc = -ENOSPC;
    struct group *group = rc ? NULL : calloc(1, sizeof *group);
    if (!group)
        return rc ? rc : -ENOMEM;
    group->id = *id;
    group->socket.token = id->token;
    dw_list_init(&group->members);
    rc = open_socket(port, group);
    if (!rc && (rc = watch(port->groups->runner.fds[0], group->socket.llp->fd, group)))
        group->socket.llp->ops->close(group->socket.llp);
    if (rc) {
        free(group);
        return rc;
    }
    dw_list_append(&port->groups->list, &group->link);
    port->groups->count++;
    *added = group;
    return 0;
}

static void drop_if_empty(struct dw_port *port, struct group *group)
{
    if (!dw_list_empty(&group->members))
        return;
    /* Closed alone, a child process of ours keeps it, and the descriptor would tell of it. */
    (void)epoll_ctl(port->groups->runner.fds[0], EPOLL_CTL_DEL, group->socket.llp->fd, NULL);
    group->socket.llp->ops->close(group->socket.llp);
    dw_list_remove(&group->link);
    port->groups->count--;
    free(group);
}

static void remove_member(struct dw_port *port, struct group *group, struct member *member)
{
    dw_list_remove(&member->link);
    free(member);
    drop_if_empty(port, group);
}

static int attach(struct diwarp_qp *qp, const struct diwarp_group *id,
                  const struct dw_window *window)
{
    struct group *group = find(qp->port, id);
    int rc = check(qp, id);
    if (rc)
        return rc;
    if (group && member_of(group, qp))
        return -EALREADY;
    if (!group && (rc = add_group(qp->port, id, &group)))
        return rc;
    struct member *member = malloc(sizeof *member);
    if (!member) {
        drop_if_empty(qp->port, group);
        return -ENOMEM;
    }
    *member = (struct member){.qp = qp, .window = *window};
    dw_list_append(&group->members, &member->link);
    return 0;
}

int diwarp_attach_group(struct diwarp_qp *qp, const struct diwarp_group *group,
                        const struct diwarp_mr *mr, uint32_t stag)
{
    struct dw_window window = {.stag = stag};
    if (mr && mr->pd != qp->pd)
        return -EINVAL;
    if (mr) {
        window.own_stag = mr->stag;
        window.iova = mr->iova;
        window.length = mr->length;
    }
    dw_lock(qp->pd->device);
    const int rc = attach(qp, group, &window);
    dw_unlock(qp->pd->device);
    return rc;
}

int diwarp_detach_group(struct diwarp_qp *qp, const struct diwarp_group *id)
{
    dw_lock(qp->pd->device);
    struct group *group = find(qp->port, id);
    struct member *member = group ? member_of(group, qp) : NULL;
    if (member)
        remove_member(qp->port, group, member);
    dw_unlock(qp->pd->device);
    return member ? 0 : -ENOENT;
}

void dw_groups_leave(struct diwarp_qp *qp)
{
    if (!qp->port->groups)
        return;
    dw_foreach (group, struct group, link, &qp->port->groups->list) {
        struct member *member = member_of(group, qp);
        if (member)
            remove_member(qp->port, group, member);
    }
}

/* ---- handles ---- */

/* False: no memory. */
static bool set_route(struct diwarp_ah *ah, const struct diwarp_group *id, uint8_t interface)
{
    struct dw_port *port = dw_ah_port(ah);
    const struct diwarp_interface *by = &port->device->interfaces[interface];
    struct dw_llp_addr addr = addr_of(id);
    struct dw_ways_list list = {.count = 1, .nics = {DW_WAYS_NO_NIC}};
    addr.interface = dw_interface_index(by);
    list.paths[0] =
        dw_path_get(&port->paths, &addr, interface, 0,
                    dw_datagram_max_bytes(port, addr.family, dw_told_mtu_bytes(port, by)));
    ah->ways = list.paths[0] ? dw_ways_get(&port->paths, &list) : NULL;
    if (!ah->ways)
        return false;
    ah->udp_port = id->port;
    ah->peer_datagram_bytes = dw_ah_path(ah)->datagram_max_bytes;
    ah->token = id->token;
    return true;
}

int diwarp_create_group_ah(struct diwarp_qp *qp, const struct diwarp_group *id,
                           struct diwarp_ah **ah_out)
{
    const struct diwarp_address nobody = {.qpn = DW_QPN_GROUP};
    const struct dw_service *service = qp->service;
    struct diwarp_device *device = qp->pd->device;
    dw_lock(device);
    int rc = check(qp, id);
    struct diwarp_ah *ah = rc ? NULL : service->get_ah(qp, &nobody);
    if (ah && !set_route(ah, id, (uint8_t)sends_by(device, id))) {
        service->put_ah(ah);
        ah = NULL;
    }
    if (ah) {
        ah = service->get_ah_of_qpn(ah, DW_QPN_GROUP);
        ah->owners++;
    }
    dw_unlock(device);
    *ah_out = ah;
    return rc || ah ? rc : -ENOMEM;
}
