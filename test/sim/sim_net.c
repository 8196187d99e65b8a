/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/sim/sim_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/random.h"

#define FIRST_PORT             40000
#define IPV4_UDP_HEADERS_BYTES 28
#define BELIEVED_NS            600000000000ull
#define MAX_FLIPPED_BITS \
    3 /* fewer than CRC32C's distance at every datagram length: always caught */

/* ---- randomness ---- */

uint64_t sim_random_below(uint64_t *state, uint64_t limit)
{
    return random_next(state) % limit;
}

bool sim_random_permille(uint64_t *state, uint32_t permille)
{
    return permille && sim_random_below(state, 1000) < permille;
}

void sim_impairment_draw(struct sim_impairment *impairment, uint64_t *random_state)
{
    static const uint32_t worst_permille[] = {0, 10, 50, 200};
    static const uint64_t delays_ns[] = {1000, 20000, 500000};
    static const uint64_t reorders_ns[] = {20000, 500000, 5000000};
    static const double links[] = {0.125, 1.25, 12.5};
    uint32_t worst = SIM_RANDOM_OF(random_state, worst_permille);
    *impairment = (struct sim_impairment){
        .loss_permille = (uint32_t)sim_random_below(random_state, worst + 1),
        .dup_permille = (uint32_t)sim_random_below(random_state, worst + 1),
        .corrupt_permille = (uint32_t)sim_random_below(random_state, worst / 2 + 1),
        .reorder_permille = (uint32_t)sim_random_below(random_state, worst + 1),
        .delay_ns = SIM_RANDOM_OF(random_state, delays_ns),
        .reorder_ns = SIM_RANDOM_OF(random_state, reorders_ns),
        .bytes_per_ns = SIM_RANDOM_OF(random_state, links),
    };
    if (sim_random_below(random_state, 2))
        impairment->jitter_ns = impairment->delay_ns;
}

/* ---- the network ---- */

void sim_net_init(struct sim_net *net, uint64_t seed)
{
    *net = (struct sim_net){
        .random_state = seed,
        .impairment = {.delay_ns = 5000, .bytes_per_ns = 12.5},
    };
}

void sim_net_fini(struct sim_net *net)
{
    while (net->in_flight.count) {
        struct dw_timer *timer = net->in_flight.slots[1];
        dw_heap_set(&net->in_flight, timer, DW_NEVER);
        free(dw_container(timer, struct sim_datagram, timer));
    }
    dw_heap_fini(&net->in_flight);
}

uint64_t sim_net_next_ns(const struct sim_net *net)
{
    return dw_heap_next_ns(&net->in_flight);
}

void sim_net_deliver(struct sim_net *net)
{
    dw_heap_run(&net->in_flight, net->now_ns, SIZE_MAX);
}

static struct sim_endpoint *endpoint_at(const struct sim_net *net, const struct dw_llp_addr *addr)
{
    for (unsigned i = 0; i < net->endpoint_count; i++) {
        struct sim_endpoint *endpoint = net->endpoints[i];
        if (endpoint->addr.port == addr->port && endpoint->addr.ip[3] == addr->ip[3])
            return endpoint;
    }
    return NULL;
}

static void refuse(struct sim_net *net, const struct sim_datagram *datagram)
{
    for (unsigned i = 0; i < net->endpoint_count; i++) {
        if (net->endpoints[i] != datagram->from)
            continue;
        net->endpoints[i]->told = true;
        net->endpoints[i]->icmp_to = datagram->to;
        net->endpoints[i]->icmp_mtu_bytes = net->rejecting ? net->rejection : DW_LLP_NO_PORT;
    }
}

/* The rule of udp_queue_rcv_skb(): what would exceed the buffer still gets in when it has room. */
static void on_arrival(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct sim_datagram *datagram = dw_container(timer, struct sim_datagram, timer);
    struct sim_net *net = datagram->net;
    struct sim_endpoint *endpoint = endpoint_at(net, &datagram->to);
    if (!endpoint || net->rejecting) {
        refuse(net, datagram);
        free(datagram);
    } else if (endpoint->queued_bytes > endpoint->llp.rcvbuf_bytes) {
        net->overflowed++;
        free(datagram);
    } else {
        endpoint->queued_bytes += dw_llp_truesize(datagram->bytes);
        dw_list_append(&endpoint->queue, &datagram->link);
    }
}

static void flip_bits(struct sim_net *net, struct sim_datagram *datagram)
{
    uint64_t bits = (uint64_t)datagram->bytes * 8;
    uint64_t first = sim_random_below(&net->random_state, bits);
    uint64_t count = 1 + sim_random_below(&net->random_state, MAX_FLIPPED_BITS);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = (first + i * 7) % bits;
        datagram->buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    datagram->corrupted = true;
}

/* Which is also the number of the link there. */
static unsigned network_of(const struct sim_endpoint *from, const struct dw_llp_addr *to,
                           unsigned flow)
{
    const unsigned ecmp = from->net->ecmp;
    return (ecmp ? (from->addr.port + flow + to->port) % ecmp : to->ip[2]) % SIM_MAX_NETWORKS;
}

static double link_rate(const struct sim_net *net, unsigned network)
{
    return net->impairment.bytes_per_ns / (net->slow_networks >> network & 1 ? 4 : 1);
}

/* What waits at the port is what has not left by the time a datagram comes there. False: no room.
 */
static bool pass_port(struct sim_net *net, const struct sim_datagram *datagram, uint64_t *at_ns)
{
    const struct sim_impairment *impairment = &net->impairment;
    struct sim_endpoint *to = endpoint_at(net, &datagram->to);
    if (impairment->port_bytes_per_ns <= 0 || !to)
        return true;
    struct sim_link *port = &to->links[network_of(datagram->from, &datagram->to, 0)];
    if (port->port_free_ns < *at_ns)
        port->port_free_ns = *at_ns;
    if ((double)(port->port_free_ns - *at_ns) * impairment->port_bytes_per_ns + datagram->bytes >
        impairment->port_bytes) {
        net->port_dropped++;
        return false;
    }
    port->port_free_ns += 1 + (uint64_t)(datagram->bytes / impairment->port_bytes_per_ns);
    *at_ns = port->port_free_ns;
    return true;
}

/* One copy on its way. */
static void launch(struct sim_endpoint *from, const struct dw_llp_addr *to, unsigned network,
                   const uint8_t *buf, uint32_t bytes)
{
    struct sim_net *net = from->net;
    const struct sim_impairment *impairment = &net->impairment;
    struct sim_datagram *datagram = malloc(sizeof *datagram + bytes);
    if (!datagram)
        abort();
    *datagram = (struct sim_datagram){.net = net, .from = from, .to = *to, .bytes = bytes};
    datagram->timer.fire = on_arrival;
    memcpy(datagram->buf, buf, bytes);
    if (sim_random_permille(&net->random_state, impairment->corrupt_permille))
        flip_bits(net, datagram);
    struct sim_link *link = &from->links[network];
    uint64_t at_ns = link->free_ns + impairment->delay_ns;
    at_ns += net->far_networks >> network & 1 ? net->far_ns : 0;
    if (impairment->jitter_ns)
        at_ns += sim_random_below(&net->random_state, impairment->jitter_ns);
    if (at_ns <= link->last_arrival_ns)
        at_ns = link->last_arrival_ns + 1;
    link->last_arrival_ns = at_ns;
    if (!pass_port(net, datagram, &at_ns)) {
        free(datagram);
        return;
    }
    if (sim_random_permille(&net->random_state, impairment->reorder_permille))
        at_ns += sim_random_below(&net->random_state, impairment->reorder_ns + 1);
    if (dw_heap_set(&net->in_flight, &datagram->timer, at_ns))
        abort();
}

void sim_net_inject(const struct sim_endpoint *from, const struct dw_llp_addr *to,
                    const uint8_t *buf, uint32_t bytes, uint64_t after_ns, bool forged)
{
    struct sim_net *net = from->net;
    struct sim_datagram *datagram = malloc(sizeof *datagram + bytes);
    if (!datagram)
        abort();
    *datagram = (struct sim_datagram){
        .net = net, .from = from, .to = *to, .injected = true, .forged = forged, .bytes = bytes};
    datagram->timer.fire = on_arrival;
    memcpy(datagram->buf, buf, bytes);
    if (dw_heap_set(&net->in_flight, &datagram->timer, net->now_ns + after_ns))
        abort();
}

static uint32_t believed_mtu_bytes(const struct sim_endpoint *endpoint)
{
    return endpoint->net->now_ns < endpoint->believed_until_ns ? endpoint->believed_mtu_bytes : 0;
}

/* False: the router has dropped it, and said so. */
static bool pass_router(struct sim_endpoint *from, const struct dw_llp_addr *to, uint32_t bytes,
                        bool whole)
{
    struct sim_net *net = from->net;
    const uint32_t believed = whole ? 0 : believed_mtu_bytes(from);
    if (believed && bytes + IPV4_UDP_HEADERS_BYTES > believed) {
        net->fragmented++;
        return true;
    }
    if (!net->path_mtu_bytes || bytes + IPV4_UDP_HEADERS_BYTES <= net->path_mtu_bytes)
        return true;
    from->told = true;
    from->icmp_to = *to;
    from->icmp_mtu_bytes = net->claimed_mtu_bytes ? net->claimed_mtu_bytes : net->path_mtu_bytes;
    return false;
}

static bool is_cut(const struct sim_endpoint *from, unsigned network)
{
    const struct sim_net *net = from->net;
    return net->cut_networks >> network & 1 &&
           (!net->cut_host || net->cut_host == from->addr.ip[3]);
}

static void send_one(struct sim_endpoint *from, const struct dw_llp_addr *to, unsigned network,
                     const uint8_t *buf, uint32_t bytes, bool whole)
{
    struct sim_net *net = from->net;
    struct sim_link *link = &from->links[network];
    net->sent++;
    if (link->free_ns < net->now_ns)
        link->free_ns = net->now_ns;
    link->free_ns += 1 + (uint64_t)(bytes / link_rate(net, network));
    enum sim_verdict verdict = net->filter ? net->filter(net->arg, from, buf, bytes) : SIM_PASS;
    if (verdict == SIM_DROP || is_cut(from, network) || !pass_router(from, to, bytes, whole) ||
        sim_random_permille(&net->random_state, net->impairment.loss_permille)) {
        net->lost++;
        return;
    }
    launch(from, to, network, buf, bytes);
    if (verdict == SIM_REPEAT ||
        sim_random_permille(&net->random_state, net->impairment.dup_permille)) {
        net->repeated++;
        launch(from, to, network, buf, bytes);
    }
}

/* ---- the LLP ---- */

static struct sim_endpoint *endpoint_of(struct dw_llp *llp)
{
    return dw_container(llp, struct sim_endpoint, llp);
}

static bool is_full(const struct sim_endpoint *endpoint, const struct dw_llp_addr *to,
                    unsigned network)
{
    const struct sim_net *net = endpoint->net;
    const uint64_t free_ns = endpoint->links[network].free_ns;
    if (net->full_host && net->full_host == to->ip[3])
        return true;
    return free_ns > net->now_ns &&
           (double)(free_ns - net->now_ns) * link_rate(net, network) > endpoint->llp.sndbuf_bytes;
}

static int sim_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    static uint8_t flat[DW_LLP_SLOT_BYTES];
    struct sim_endpoint *endpoint = endpoint_of(llp);
    const unsigned network = network_of(endpoint, train->to, train->flow);
    llp->counters->tx_syscalls++;
    if (endpoint->net->no_route_host && endpoint->net->no_route_host == train->to->ip[3])
        return -ENETUNREACH;
    if (is_full(endpoint, train->to, network)) {
        llp->counters->tx_eagain++;
        return -EAGAIN;
    }
    uint32_t total = 0, count = 0;
    for (unsigned i = 0; i < train->iov_count; i++) {
        if (total + train->iov[i].iov_len > sizeof flat)
            abort();
        memcpy(flat + total, train->iov[i].iov_base, train->iov[i].iov_len);
        total += (uint32_t)train->iov[i].iov_len;
    }
    if (total != train->total_bytes || !train->segment_bytes || total > DW_LLP_TRAIN_BYTES)
        abort(); /* no train that a kernel would take */
    for (uint32_t at = 0; at < total; at += train->segment_bytes, count++) {
        uint32_t left = total - at;
        send_one(endpoint, train->to, network, flat + at,
                 left < train->segment_bytes ? left : train->segment_bytes, train->whole);
    }
    if (count > DW_LLP_TRAIN_DATAGRAMS)
        abort();
    llp->counters->tx_datagrams += count;
    llp->counters->tx_bytes += total;
    return 0;
}

/* To the end of what has come to buf by now; its bytes then. */
static uint32_t receive(struct sim_endpoint *endpoint, uint8_t *buf, uint32_t bytes,
                        struct sim_datagram *datagram)
{
    struct sim_net *net = endpoint->net;
    memcpy(buf + bytes, datagram->buf, datagram->bytes);
    endpoint->queued_bytes -= dw_llp_truesize(datagram->bytes);
    dw_list_remove(&datagram->link);
    net->corrupted_received += datagram->corrupted;
    net->forged_received += datagram->forged;
    if (net->on_receive && !datagram->injected)
        net->on_receive(net->arg, endpoint, datagram);
    return bytes + datagram->bytes;
}

static int fill(struct sim_endpoint *endpoint, uint8_t *buf, uint32_t *segment_bytes)
{
    struct sim_datagram *first = dw_container(endpoint->queue.next, struct sim_datagram, link);
    const uint32_t each = first->bytes;
    uint32_t bytes = receive(endpoint, buf, 0, first);
    while (endpoint->net->gro && !dw_list_empty(&endpoint->queue)) {
        struct sim_datagram *next = dw_container(endpoint->queue.next, struct sim_datagram, link);
        if (next->from != first->from || next->bytes > each ||
            bytes + next->bytes > DW_LLP_SLOT_BYTES - 1)
            break;
        bool shorter = next->bytes < each;
        bytes = receive(endpoint, buf, bytes, next);
        free(next);
        if (shorter)
            break;
    }
    free(first);
    *segment_bytes = each;
    return (int)bytes;
}

static int sim_recv(struct dw_llp *llp, uint8_t *buf, uint32_t *segment_bytes)
{
    struct sim_endpoint *endpoint = endpoint_of(llp);
    if (dw_list_empty(&endpoint->queue)) {
        llp->counters->rx_empty_syscalls++;
        return -1;
    }
    llp->counters->rx_syscalls++;
    return fill(endpoint, buf, segment_bytes);
}

static int sim_icmp(struct dw_llp *llp, struct dw_llp_addr *to)
{
    struct sim_endpoint *endpoint = endpoint_of(llp);
    bool told = endpoint->told;
    endpoint->told = false;
    *to = endpoint->icmp_to;
    if (told && endpoint->icmp_mtu_bytes > DW_LLP_PROHIBITED) {
        const uint32_t truth = endpoint->net->path_mtu_bytes;
        endpoint->believed_mtu_bytes = truth ? truth : endpoint->icmp_mtu_bytes;
        endpoint->believed_until_ns = endpoint->net->now_ns + BELIEVED_NS;
    }
    return told ? (int)endpoint->icmp_mtu_bytes : -1;
}

static uint32_t sim_path_mtu_bytes(struct dw_llp *llp, const struct dw_llp_addr *to)
{
    (void)to;
    return believed_mtu_bytes(endpoint_of(llp));
}

static void sim_close(struct dw_llp *llp)
{
    struct sim_endpoint *endpoint = endpoint_of(llp);
    struct sim_net *net = endpoint->net;
    dw_list_foreach (it, &endpoint->queue) {
        dw_list_remove(it);
        free(dw_container(it, struct sim_datagram, link));
    }
    for (unsigned i = 0; i < net->endpoint_count; i++)
        if (net->endpoints[i] == endpoint)
            net->endpoints[i] = net->endpoints[--net->endpoint_count];
    free(endpoint);
}

static const struct dw_llp_ops sim_ops = {
    .send = sim_send,
    .recv = sim_recv,
    .icmp = sim_icmp,
    .path_mtu_bytes = sim_path_mtu_bytes,
    .close = sim_close,
};

int sim_net_open(struct sim_net *net, uint8_t host, void *owner,
                 const struct diwarp_device_attr *attr, struct diwarp_counters *counters,
                 struct dw_llp **llp)
{
    struct dw_llp_addr addr = {.family = AF_INET, .port = FIRST_PORT, .ip = {10, 0, 0, host}};
    if (net->endpoint_count == SIM_MAX_ENDPOINTS)
        return -EMFILE;
    struct sim_endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        return -ENOMEM;
    while (endpoint_at(net, &addr))
        addr.port++;
    endpoint->llp = (struct dw_llp){
        .ops = &sim_ops,
        .told = true,
        .counters = counters,
        .fd = -1,
        .port = addr.port,
        .rcvbuf_bytes = attr->rcvbuf_bytes,
        .sndbuf_bytes = attr->sndbuf_bytes,
        .gso = true,
        .gro = net->gro,
    };
    endpoint->net = net;
    endpoint->owner = owner;
    endpoint->addr = addr;
    dw_list_init(&endpoint->queue);
    net->endpoints[net->endpoint_count++] = endpoint;
    *llp = &endpoint->llp;
    return 0;
}
