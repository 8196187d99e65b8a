/* SPDX-License-Identifier: BSD-3-Clause */
/* The front for librdmacm: what an id and its events tell the program. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_verbs.h>

#include "test/verbs/cm_ends.h"

/* ---- a route ---- */

static void assert_has_route(const struct rdma_cm_id *id)
{
    const union ibv_gid gid = own_gid();
    const struct rdma_ib_addr *addr = &id->route.addr.addr.ibaddr;
    const struct ibv_sa_path_rec *path = id->route.path_rec;
    assert_memory_equal(&addr->sgid, &gid, sizeof gid);
    assert_memory_equal(&addr->dgid, &gid, sizeof gid);
    assert_int_equal(addr->pkey, htons(0xffff));
    assert_int_equal(id->route.num_paths, 1);
    assert_non_null(path);
    assert_memory_equal(&path->sgid, &gid, sizeof gid);
    assert_memory_equal(&path->dgid, &gid, sizeof gid);
    assert_int_equal(path->pkey, htons(0xffff));
    assert_int_equal(path->mtu, IBV_MTU_4096);
    assert_int_equal(path->hop_limit, 64);
    assert_int_equal(path->numb_path, 1);
    assert_true(path->reversible);
}

static void route__is_told_to_both_sides(void **state)
{
    (void)state;
    struct connection c = connect_ids();
    assert_has_route(c.caller.id);
    assert_has_route(c.called);
    destroy_ids(&c);
}

/* Before anybody has answered, and by whatever address this host is called. */
static void route__is_told_to_who_calls(void **state)
{
    (void)state;
    const struct in_addr addresses[] = {own_address(), {htonl(INADDR_LOOPBACK)}};
    static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP};
    for (size_t i = 0; i < 4; i++) {
        struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = htons(1), .sin_addr = addresses[i % 2]};
        struct listener caller = route_to(to, spaces[i / 2]);
        assert_has_route(caller.id);
        stop_listening(&caller);
    }
}

/* Programs look for a free port by binding one after the other. */
static void bind__to_a_port_that_another_id_has(void **state)
{
    (void)state;
    struct listener first = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    struct sockaddr_in address = first.address;
    struct rdma_cm_id *ids[2];
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rdma_create_id(first.channel, &ids[i], NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_bind_addr(ids[i], (struct sockaddr *)&address), -1);
        assert_int_equal(errno, EADDRINUSE);
    }
    address.sin_port = 0;
    assert_int_equal(rdma_bind_addr(ids[0], (struct sockaddr *)&address), 0);
    address.sin_port = rdma_get_src_port(ids[0]);
    assert_int_equal(rdma_bind_addr(ids[1], (struct sockaddr *)&address), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(rdma_destroy_id(ids[0]), 0);
    assert_int_equal(rdma_bind_addr(ids[1], (struct sockaddr *)&address), 0);
    assert_int_equal(rdma_destroy_id(ids[1]), 0);
    stop_listening(&first);
}

/* RDMA_OPTION_ID_REUSEADDR, of both. */
static void bind__to_a_port_that_another_id_shares(void **state)
{
    (void)state;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = own_address()};
    struct rdma_cm_id *ids[2];
    int on = 1;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP), 0);
        assert_int_equal(
            rdma_set_option(ids[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), 0);
        assert_int_equal(rdma_bind_addr(ids[i], (struct sockaddr *)&address), 0);
        address.sin_port = rdma_get_src_port(ids[0]);
    }
    assert_int_equal(rdma_listen(ids[0], 1), 0);
    assert_int_equal(rdma_listen(ids[1], 1), -1);
    assert_int_equal(errno, EADDRINUSE);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(rdma_destroy_id(ids[i]), 0);
    rdma_destroy_event_channel(channel);
}

/* Of a listener that is gone, to whom somebody had connected, and who closed first: there TCP keeps
 * the port for a while from who does not allow to share it. */
static struct sockaddr_in port_in_time_wait(void)
{
    struct listener listener = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    const struct sockaddr_in address = listener.address;
    const int caller = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(caller, (const struct sockaddr *)&address, sizeof address), 0);
    usleep(100000); /* it is accepted, and says nothing */
    stop_listening(&listener);
    close(caller);
    assert_int_equal(bind(other, (const struct sockaddr *)&address, sizeof address), -1);
    close(other);
    return address;
}

/* It is the next one's, and nobody else's. */
static void bind__to_the_port_of_connections_that_ended(void **state)
{
    (void)state;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in address = port_in_time_wait();
    struct rdma_cm_id *ids[2];
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(ids[0], (struct sockaddr *)&address), 0);
    assert_int_equal(rdma_bind_addr(ids[1], (struct sockaddr *)&address), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(rdma_listen(ids[0], 1), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(rdma_destroy_id(ids[i]), 0);
    rdma_destroy_event_channel(channel);
}

static void bind__tells_the_gid(void **state)
{
    (void)state;
    struct listener listener = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    const struct rdma_ib_addr *addr = &listener.id->route.addr.addr.ibaddr;
    const union ibv_gid gid = own_gid();
    if (listener.id->verbs) { /* not by an address of the loopback interface */
        assert_memory_equal(&addr->sgid, &gid, sizeof gid);
        assert_int_equal(addr->pkey, htons(0xffff));
    }
    assert_int_equal(listener.id->route.num_paths, 0);
    stop_listening(&listener);
}

/* ---- a queue pair ---- */

static void create_qp__tells_what_it_made(void **state)
{
    (void)state;
    struct listener listener = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    struct listener caller = route_to(listener.address, RDMA_PS_TCP);
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    assert_int_equal(rdma_create_srq(caller.id, NULL, &srq_attr), 0);
    assert_int_equal(rdma_create_qp(caller.id, NULL, &attr), 0);
    assert_non_null(attr.send_cq);
    assert_non_null(attr.recv_cq);
    assert_ptr_equal(attr.send_cq, caller.id->send_cq);
    assert_ptr_equal(attr.recv_cq, caller.id->recv_cq);
    assert_ptr_equal(attr.srq, caller.id->srq);
    rdma_destroy_qp(caller.id);
    rdma_destroy_srq(caller.id);
    stop_listening(&caller);
    stop_listening(&listener);
}

/* What has gone with the failure is not told. */
static void create_qp__tells_nothing_when_it_fails(void **state)
{
    (void)state;
    struct listener listener = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    struct listener caller = route_to(listener.address, RDMA_PS_TCP);
    struct ibv_qp_init_attr attr = {.cap = {1u << 30, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    assert_int_equal(rdma_create_qp(caller.id, NULL, &attr), -1);
    assert_null(attr.send_cq);
    assert_null(attr.recv_cq);
    stop_listening(&caller);
    stop_listening(&listener);
}

static void create_ep__keeps_the_pd(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = own_address()};
    struct rdma_addrinfo info = {.ai_flags = RAI_PASSIVE,
                                 .ai_port_space = RDMA_PS_TCP,
                                 .ai_qp_type = IBV_QPT_RC,
                                 .ai_src_addr = (struct sockaddr *)&address,
                                 .ai_src_len = sizeof address};
    struct ibv_context **devices = rdma_get_devices(NULL);
    struct ibv_pd *pd = ibv_alloc_pd(devices[0]);
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    assert_non_null(pd);
    for (size_t i = 0; i < 2; i++) {
        struct rdma_cm_id *id;
        assert_int_equal(rdma_create_ep(&id, &info, pd, i ? &attr : NULL), 0);
        assert_ptr_equal(id->pd, pd);
        rdma_destroy_ep(id);
    }
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    rdma_free_devices(devices);
}

/* ---- a refusal ---- */

/* The statuses of InfiniBand's CM, which asks by SIDR where UD's queue pair is. */
#define SIDR_UNSUPPORTED 1
#define SIDR_REJECT      2

static struct listener call(const struct listener *listener)
{
    struct listener caller = route_to(listener->address, RDMA_PS_UDP);
    struct rdma_conn_param param = {0};
    make_qp(caller.id);
    assert_int_equal(rdma_connect(caller.id, &param), 0);
    return caller;
}

/* Its queue pair goes on: there is no connection that it would be without. */
static void assert_refused(struct listener *caller, int status, uint8_t private_bytes)
{
    struct rdma_cm_event *event = take_event(caller, RDMA_CM_EVENT_UNREACHABLE);
    assert_int_equal(event->status, status);
    assert_int_equal(event->param.ud.private_data_len, private_bytes);
    if (private_bytes)
        assert_memory_equal(event->param.ud.private_data, "no", private_bytes);
    rdma_ack_cm_event(event);
    assert_int_equal(state_of(caller->id->qp), IBV_QPS_RTS);
    rdma_destroy_qp(caller->id);
    stop_listening(caller);
}

static void ud__hears_of_a_refusal_as_unreachable(void **state)
{
    (void)state;
    struct listener listener = start_listening_at(own_address(), RDMA_PS_UDP, 0);
    struct listener caller = call(&listener);
    struct rdma_cm_id *called = take_caller(&listener);
    assert_int_equal(rdma_reject(called, "no", 2), 0);
    assert_refused(&caller, SIDR_REJECT, 2);
    assert_int_equal(rdma_destroy_id(called), 0);
    stop_listening(&listener);
    listener = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    caller = call(&listener);
    assert_refused(&caller, SIDR_UNSUPPORTED, 0); /* for callers of RC */
    stop_listening(&listener);
    caller = call(&listener);
    assert_refused(&caller, SIDR_UNSUPPORTED, 0); /* nobody listens */
}

/* ---- names ---- */

/* Of the address found; AF_UNSPEC: none. */
static int family_of(const char *node, int family, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_family = family}, *found = NULL;
    if (rdma_getaddrinfo(node, "7", &hints, &found))
        return AF_UNSPEC;
    const struct sockaddr *addr = flags & RAI_PASSIVE ? found->ai_src_addr : found->ai_dst_addr;
    const int is = addr->sa_family;
    assert_int_equal(found->ai_family, is);
    rdma_freeaddrinfo(found);
    return is;
}

/* As librdmacm: the hints say which family, whether with RAI_FAMILY or not. */
static void getaddrinfo__finds_the_family_asked_for(void **state)
{
    (void)state;
    for (int flags = 0; flags <= RAI_FAMILY; flags += RAI_FAMILY) {
        assert_int_equal(family_of(NULL, AF_INET6, flags | RAI_PASSIVE), AF_INET6);
        assert_int_equal(family_of(NULL, AF_INET, flags | RAI_PASSIVE), AF_INET);
        assert_int_equal(family_of("127.0.0.1", AF_INET, flags), AF_INET);
        assert_int_equal(family_of("::1", AF_INET6, flags), AF_INET6);
        assert_int_equal(family_of("::1", AF_INET, flags), AF_UNSPEC);
        assert_int_equal(family_of("127.0.0.1", AF_INET6, flags), AF_UNSPEC);
    }
    assert_int_equal(family_of("127.0.0.1", 0, 0), AF_INET);
    assert_int_equal(family_of("::1", 0, 0), AF_INET6);
    assert_int_equal(family_of(NULL, 0, RAI_PASSIVE), AF_INET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(route__is_told_to_both_sides),
        cmocka_unit_test(route__is_told_to_who_calls),
        cmocka_unit_test(bind__to_a_port_that_another_id_has),
        cmocka_unit_test(bind__to_a_port_that_another_id_shares),
        cmocka_unit_test(bind__to_the_port_of_connections_that_ended),
        cmocka_unit_test(bind__tells_the_gid),
        cmocka_unit_test(create_qp__tells_what_it_made),
        cmocka_unit_test(create_qp__tells_nothing_when_it_fails),
        cmocka_unit_test(create_ep__keeps_the_pd),
        cmocka_unit_test(ud__hears_of_a_refusal_as_unreachable),
        cmocka_unit_test(getaddrinfo__finds_the_family_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
