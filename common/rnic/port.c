/* SPDX-License-Identifier: BSD-3-Clause */
/* The port of a device: opened with its first datagram QP, closed with the last. */
#include "common/rnic/port.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

pthread_mutex_t dw_ports_lock = PTHREAD_MUTEX_INITIALIZER;

unsigned dw_port_service_index(const struct dw_port *port, const struct dw_service *service)
{
    unsigned i = 0;
    while (port->device->services[i] != service)
        i++;
    assert(i < DW_PORT_SERVICES);
    return i;
}

void dw_port_trim_later(struct dw_port *port, uint64_t now_ns)
{
    if (!port->trim_timer.slot)
        dw_heap_set(&port->timers, &port->trim_timer, now_ns + port->device->env.rest_ns / 2);
}

static int open_llp(struct dw_port *port, struct diwarp_diagnosis *why)
{
    const struct diwarp_device *device = port->device;
    const struct diwarp_device_attr *attr = &device->attr;
    struct dw_llp_attr llp_attr = {
        .family = AF_INET,
        .port_min = attr->port_min,
        .port_max = attr->port_max,
        .rcvbuf_bytes = attr->rcvbuf_bytes,
        .sndbuf_bytes = attr->sndbuf_bytes,
        .gso = attr->gso,
        .gro = attr->gro,
        .connected = attr->connected,
        .checksum = attr->crc == DIWARP_OFF,
    };
    bool v4 = false;
    for (unsigned i = 0; i < device->interface_count; i++)
        v4 |= device->interfaces[i].family == AF_INET;
    if (!v4)
        llp_attr.family = AF_INET6;
    /* One interface: listen there only. Several: any; the token keeps strangers out. */
    if (device->interface_count == 1)
        llp_attr.bind_ip = device->interfaces[0].ip;
    return device->env.open_llp(device->env.arg, &llp_attr, &port->datagrams.counters,
                                &port->datagrams.llp, why);
}

static void port_close(struct dw_port *port)
{
    for (unsigned i = 0; port->device->services[i]; i++)
        if (port->states[i])
            port->device->services[i]->close(port->states[i]);
    dw_map_fini(&port->qp_by_num);
    dw_datagrams_fini(&port->datagrams);
    dw_heap_fini(&port->timers);
    dw_paths_fini(&port->paths);
    free(port);
}

int dw_port_get(struct diwarp_device *device, const struct dw_runner_ops *ops,
                const struct dw_datagrams_taker *taker,
                void (*trim)(struct dw_timer *timer, uint64_t now_ns), struct dw_port **out,
                struct diwarp_diagnosis *why)
{
    if (device->port) {
        *out = device->port;
        return 0;
    }
    struct dw_port *port = calloc(1, sizeof *port);
    if (!port)
        return -ENOMEM;
    port->runner.ops = ops;
    port->device = device;
    port->mtu_max_bytes = UINT32_MAX;
    port->trim_timer.fire = trim;
    port->datagrams.seal.crc = device->attr.crc != DIWARP_OFF;
    port->datagrams.token = dw_device_random(device);
    port->datagrams.incarnation = (uint32_t)dw_device_random(device);
    port->datagrams.number = dw_device_random(device) >> 16; /* anywhere, far from the end */
    port->datagrams.name = device->attr.name;
    port->datagrams.taker = taker;
    port->datagrams.taker_arg = port;
    dw_paths_init(&port->paths, device->random_key);
    dw_list_init(&port->qps);
    dw_map_init(&port->qp_by_num, dw_device_random(device));
    dw_heap_init(&port->timers);
    int rc = dw_heap_reserve(&port->timers); /* trim_timer */
    if (!rc)
        rc = dw_datagrams_init(&port->datagrams, device->attr.send_pool_bytes);
    if (!rc)
        rc = open_llp(port, why);
    if (rc) {
        port_close(port);
        return rc;
    }
    dw_list_append(&device->runners, &port->runner.link);
    *out = device->port = port;
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
