/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/tools/ping_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define RECEIVES 512
#define POLLED   16
/* Polls that find nothing, after which others may have the core: both ends may share one. */
#define SPINS 100
/* Silence after which RD gives the peer up. */
#define PEER_TIMEOUT_NS 5000000000ull
#define DRAIN_NS        200000000ull

static const char *const gone_texts[] = {
    [DIWARP_GONE_SILENT] = "it is silent",
    [DIWARP_GONE_UNREACHABLE] = "its host answers that no process has its port (ICMP)",
    [DIWARP_GONE_NO_ROOM] = "it takes no answers",
    [DIWARP_GONE_TOO_LARGE] = "what is large vanishes on the way to it",
    [DIWARP_GONE_PROHIBITED] = "a firewall answers that it lets nothing through to it",
    [DIWARP_GONE_NOT_SENT] = "this host refuses to send to it",
    [DIWARP_GONE_RESTARTED] = "another process has its name",
    [DIWARP_GONE_GIVEN_UP] = "it was given up",
};
#define GONE_TEXTS (sizeof gone_texts / sizeof *gone_texts)

const char *ping_format_ip(const struct diwarp_interface *interface, char *buf)
{
    return inet_ntop(interface->family, interface->ip, buf, INET6_ADDRSTRLEN) ? buf : "?";
}

static int post_receive(struct ping_link *link, uint64_t id)
{
    uint8_t *at = link->memory + PING_STREAM_BYTES + id * link->receive_bytes;
    struct ibv_sge sge = {.addr = (uintptr_t)at, .length = link->receive_bytes};
    const struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
    return diwarp_post_recv(link->qps[DIWARP_QPT_UD], &wr);
}

static int open_qps(struct ping_link *link, struct diwarp_diagnosis *why)
{
    for (int type = DIWARP_QPT_UD; type <= DIWARP_QPT_RD; type++) {
        struct diwarp_qp_attr attr;
        diwarp_qp_attr_init(&attr);
        attr.type = (enum diwarp_qp_type)type;
        attr.cq = link->cq;
        const int rc = diwarp_create_qp(link->pd, &attr, &link->qps[type], why);
        if (rc)
            return rc;
    }
    struct diwarp_address address;
    diwarp_query_address(link->qps[DIWARP_QPT_UD], &address);
    link->ud_qpn = address.qpn;
    link->counters = diwarp_query_counters(link->qps[DIWARP_QPT_RD]);
    int rc = 0;
    for (uint64_t id = 0; id < RECEIVES && !rc; id++)
        rc = post_receive(link, id);
    return rc;
}

int ping_link_open(struct ping_link *link, const struct ping_link_attr *attr,
                   struct diwarp_diagnosis *why)
{
    char ip[INET6_ADDRSTRLEN];
    struct diwarp_device_attr device_attr;
    diwarp_device_attr_init(&device_attr);
    device_attr.name = attr->name;
    device_attr.if_include = ping_format_ip(attr->interface, ip);
    device_attr.port_min = attr->port_min;
    device_attr.port_max = attr->port_max;
    device_attr.datagram_max_bytes = attr->datagram_max_bytes;
    device_attr.peer_timeout_ns = PEER_TIMEOUT_NS;
    *link = (struct ping_link){.on_message = link->on_message, .arg = link->arg};
    int rc = diwarp_open_device(&device_attr, &link->device, why);
    if (rc)
        return rc;
    const uint32_t mtu = attr->interface->mtu_bytes;
    link->receive_bytes = mtu < UINT16_MAX ? mtu : UINT16_MAX;
    link->memory = calloc(1, PING_STREAM_BYTES + (size_t)RECEIVES * link->receive_bytes);
    link->pd = diwarp_alloc_pd(link->device);
    link->cq = diwarp_create_cq(link->device, 2 * RECEIVES);
    if (link->memory && link->pd && link->cq)
        link->mr = diwarp_reg_mr(link->pd, link->memory, PING_STREAM_BYTES,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    rc = link->mr ? open_qps(link, why) : -ENOMEM;
    if (rc)
        ping_link_close(link);
    return rc;
}

void ping_link_addresses(const struct ping_link *link, struct diwarp_address addresses[2])
{
    for (unsigned i = 0; i < 2; i++)
        diwarp_query_address(link->qps[i], &addresses[i]);
}

int ping_link_meet(struct ping_link *link, const struct diwarp_address addresses[2])
{
    int rc = 0;
    for (unsigned i = 0; i < 2 && !rc; i++)
        rc = diwarp_create_ah(link->qps[i], &addresses[i], &link->ahs[i]);
    if (!rc)
        diwarp_bind_mr(link->mr, addresses[DIWARP_QPT_RD].name);
    return rc;
}

void ping_link_close(struct ping_link *link)
{
    if (link->qps[DIWARP_QPT_RD] && link->ahs[DIWARP_QPT_RD])
        (void)diwarp_drain_qp(link->qps[DIWARP_QPT_RD], DRAIN_NS);
    for (unsigned i = 0; i < 2; i++)
        if (link->ahs[i])
            diwarp_destroy_ah(link->ahs[i]);
    for (unsigned i = 0; i < 2; i++)
        if (link->qps[i])
            diwarp_destroy_qp(link->qps[i]);
    if (link->mr)
        diwarp_dereg_mr(link->mr);
    if (link->cq)
        diwarp_destroy_cq(link->cq);
    if (link->pd)
        diwarp_dealloc_pd(link->pd);
    if (link->device)
        diwarp_close_device(link->device);
    free(link->memory);
    *link = (struct ping_link){.on_message = link->on_message, .arg = link->arg};
}

int ping_link_send(struct ping_link *link, enum diwarp_qp_type service, const void *data,
                   uint32_t bytes)
{
    struct ibv_sge sge = {.addr = (uintptr_t)data, .length = bytes};
    const struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = IBV_WR_SEND,
               .send_flags = service == DIWARP_QPT_RD ? IBV_SEND_INLINE : 0},
        .ah = link->ahs[service]};
    const int rc = diwarp_post_send(link->qps[service], &wr);
    return rc < 0 ? rc : 0;
}

static void take(struct ping_link *link, const struct diwarp_wc *wc)
{
    const bool ud = wc->wc.qp_num == link->ud_qpn;
    if (wc->wc.status != IBV_WC_SUCCESS) {
        link->failed = true;
        if ((int)wc->wc.opcode == DIWARP_WC_PEER_GONE)
            link->gone = gone_texts[wc->wc.vendor_err % GONE_TEXTS];
    } else if ((int)wc->wc.opcode == DIWARP_WC_PEER_SILENT) {
        link->gone = gone_texts[wc->wc.vendor_err % GONE_TEXTS];
    } else if (!(wc->wc.opcode & IBV_WC_RECV)) {
        link->completed++;
    } else if (wc->wc.opcode == IBV_WC_RECV) {
        const uint64_t id = wc->wc.wr_id % RECEIVES;
        const uint8_t *data =
            ud ? link->memory + PING_STREAM_BYTES + id * link->receive_bytes : wc->data;
        if (wc->wc.byte_len >= PING_MESSAGE_BYTES)
            link->on_message(link->arg, ud ? DIWARP_QPT_UD : DIWARP_QPT_RD, data, wc->wc.byte_len);
        if (ud)
            link->failed |= post_receive(link, id) != 0;
    }
}

int ping_link_poll(struct ping_link *link)
{
    struct diwarp_wc wc[POLLED];
    const int n = diwarp_poll_cq(link->cq, POLLED, wc);
    for (int i = 0; i < n; i++)
        take(link, &wc[i]);
    link->empty_polls = n ? 0 : link->empty_polls + 1;
    if (link->empty_polls > SPINS)
        sched_yield();
    link->failed |= n < 0;
    return n;
}
