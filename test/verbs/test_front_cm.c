/* SPDX-License-Identifier: BSD-3-Clause */
/* The front for librdmacm: its messages, and what others on the network may send to who listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "test/verbs/cm_ends.h"
#include "verbs_diwarp/cm_wire.h"

static struct dv_cm_message some_request(uint8_t private_bytes)
{
    struct dv_cm_message message = {.type = DV_CM_REQUEST,
                                    .qp_type = DV_CM_RC,
                                    .responder_resources = 1,
                                    .initiator_depth = 2,
                                    .retry_count = 3,
                                    .rnr_retry_count = 4,
                                    .flow_control = 5,
                                    .srq = 6,
                                    .gid = {1, 2, [15] = 16},
                                    .qpn = 0x123456,
                                    .psn = 0xabcdef,
                                    .qkey = 0x01234567,
                                    .status = 0x89abcdef,
                                    .private_bytes = private_bytes};
    memset(message.private_data, 0x5a, private_bytes);
    return message;
}

/* ---- messages ---- */

static void message__survives_the_wire(void **state)
{
    (void)state;
    const uint8_t sizes[] = {0, 1, 56};
    for (size_t i = 0; i < sizeof sizes; i++) {
        const struct dv_cm_message sent = some_request(sizes[i]);
        uint8_t bytes[DV_CM_MESSAGE_BYTES];
        struct dv_cm_message got;
        const size_t count = dv_cm_encode(&sent, bytes);
        assert_int_equal(count, DV_CM_HEADER_BYTES + sizes[i]);
        for (size_t part = 1; part < count; part++)
            assert_int_equal(dv_cm_decode(bytes, part, &got), 0);
        assert_int_equal(dv_cm_decode(bytes, count, &got), count);
        assert_memory_equal(&got, &sent, sizeof sent);
    }
}

static const struct change {
    const char *what;
    size_t at;
    uint8_t value;
    bool is_message; /* a message, but none for a listener of RC */
} changes[] = {
    {"magic", 0, 'X', false},
    {"version 0", 4, 0, false},
    {"version 2", 4, 2, false},
    {"type 0", 5, 0, false},
    {"type 6", 5, 6, false},
    {"length beyond any message", 6, 0xff, false},
    {"length below the header", 7, 47, false},
    {"length of other private data", 7, 60, false},
    {"queue pair type", 8, 3, false},
    {"private data beyond the length", 15, 57, false},
    {"QPN of 25 bits", 32, 1, false},
    {"PSN of 25 bits", 36, 1, false},
    {"an answer", 5, DV_CM_ACCEPT, true},
    {"ready, with private data", 5, DV_CM_READY, false},
    {"UD", 8, DV_CM_UD, true},
    {"GID that is no IPv4 address", 16, 0xfe, true},
    {"GID of another host", 31, 99, true},
};
#define CHANGES (sizeof changes / sizeof *changes)

static void message__is_refused(void **state)
{
    (void)state;
    const struct dv_cm_message message = some_request(8);
    for (size_t i = 0; i < CHANGES; i++) {
        uint8_t bytes[DV_CM_MESSAGE_BYTES];
        struct dv_cm_message got;
        const size_t count = dv_cm_encode(&message, bytes);
        bytes[changes[i].at] = changes[i].value;
        if (!changes[i].is_message && dv_cm_decode(bytes, count, &got) != -EPROTO)
            fail_msg("taken: %s", changes[i].what);
    }
}

static void message__has_room_for_so_much_private_data(void **state)
{
    (void)state;
    struct dv_cm_message message = some_request(57);
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    size_t count = dv_cm_encode(&message, bytes);
    assert_int_equal(dv_cm_decode(bytes, count, &message), -EPROTO);
    message = some_request(180);
    message.qp_type = DV_CM_UD;
    count = dv_cm_encode(&message, bytes);
    assert_int_equal(dv_cm_decode(bytes, count, &message), count);
}

/* ---- strangers ---- */

#define MAX_UNANSWERED 1024

static struct listener start_listening(int backlog)
{
    return start_listening_at((struct in_addr){htonl(INADDR_LOOPBACK)}, RDMA_PS_TCP, backlog);
}

static int call(const struct listener *listener)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&listener->address, sizeof(struct sockaddr_in)), 0);
    return fd;
}

/* A request that is in order, from this host. */
static size_t good_request(uint8_t *bytes)
{
    struct dv_cm_message message = some_request(8);
    const union ibv_gid gid = own_gid();
    memcpy(message.gid, &gid, sizeof gid);
    return dv_cm_encode(&message, bytes);
}

static void send_all(int fd, const void *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

/* What is said before the end, which comes within the time; 0: nothing, or a reset. */
static uint32_t reason_of_end(int fd, int wait_ms)
{
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    struct dv_cm_message message = {0};
    assert_true(is_readable(fd, wait_ms));
    const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0)
        return 0;
    assert_int_equal(dv_cm_decode(bytes, (size_t)got, &message), got);
    assert_int_equal(message.type, DV_CM_REJECT);
    assert_true(is_readable(fd, wait_ms));
    assert_true(recv(fd, bytes, sizeof bytes, 0) <= 0);
    return message.status;
}

static void listener__hangs_up_on_what_is_no_request(void **state)
{
    (void)state;
    struct listener listener = start_listening(0);
    for (size_t i = 0; i < CHANGES; i++) {
        uint8_t bytes[DV_CM_MESSAGE_BYTES];
        const size_t count = good_request(bytes);
        const int fd = call(&listener);
        bytes[changes[i].at] = changes[i].value;
        send_all(fd, bytes, count);
        const uint32_t reason = reason_of_end(fd, 2000);
        if (reason != (changes[i].is_message ? DV_CM_INVALID_SERVICE : 0u))
            fail_msg("reason %u: %s", reason, changes[i].what);
        close(fd);
    }
    assert_false(is_readable(listener.channel->fd, 20));
    stop_listening(&listener);
}

/* Garbage at once; part of a request, and its end. */
static void listener__hears_no_half_request(void **state)
{
    (void)state;
    struct listener listener = start_listening(0);
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    const size_t count = good_request(bytes);
    int fd = call(&listener);
    send_all(fd, "GET / HTTP/1.1\r\n\r\n", 18);
    assert_int_equal(reason_of_end(fd, 2000), 0);
    close(fd);
    fd = call(&listener);
    send_all(fd, bytes, count - 1);
    shutdown(fd, SHUT_WR);
    assert_int_equal(reason_of_end(fd, 2000), 0);
    close(fd);
    assert_false(is_readable(listener.channel->fd, 20));
    stop_listening(&listener);
}

static void listener__does_not_wait_for_the_silent(void **state)
{
    (void)state;
    struct listener listener = start_listening(0);
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    const size_t count = good_request(bytes);
    int fds[66];
    for (size_t i = 0; i < 66; i++)
        fds[i] = call(&listener);
    /* There is room for 64, and for others where one has been silent for half a second. */
    for (size_t i = 64; i < 66; i++) {
        assert_int_equal(reason_of_end(fds[i], 2000), 0);
        close(fds[i]);
    }
    assert_false(is_readable(fds[0], 0));
    usleep(600000);
    for (size_t i = 64; i < 66; i++)
        fds[i] = call(&listener);
    assert_int_equal(reason_of_end(fds[0], 2000), 0);
    assert_int_equal(reason_of_end(fds[1], 2000), 0);
    assert_false(is_readable(fds[2], 0));
    send_all(fds[65], bytes, 10);
    send_all(fds[65], bytes + 10, count - 10);
    struct rdma_cm_event *event = take_event(&listener, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *caller = event->id;
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_destroy_id(caller), 0);
    assert_int_equal(reason_of_end(fds[65], 2000), DV_CM_CONSUMER_DEFINED);
    assert_int_equal(reason_of_end(fds[64], 8000), 0); /* for five seconds */
    for (size_t i = 0; i < 66; i++)
        close(fds[i]);
    stop_listening(&listener);
}

static void listener__tells_the_program_what_was_sent(void **state)
{
    (void)state;
    struct listener listener = start_listening(0);
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    const size_t count = good_request(bytes);
    const int fd = call(&listener);
    send_all(fd, bytes, count);
    struct rdma_cm_event *event = take_event(&listener, RDMA_CM_EVENT_CONNECT_REQUEST);
    const struct rdma_conn_param *param = &event->param.conn;
    struct rdma_cm_id *caller = event->id;
    assert_ptr_equal(event->listen_id, listener.id);
    assert_ptr_equal(caller->context, listener.channel);
    assert_int_equal(param->private_data_len, 8);
    assert_memory_equal(param->private_data, bytes + DV_CM_HEADER_BYTES, 8);
    assert_int_equal(param->responder_resources, 2); /* as many as the caller initiates */
    assert_int_equal(param->initiator_depth, 1);
    assert_int_equal(param->qp_num, 0x123456);
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_reject(caller, "no", 149), -1);
    assert_int_equal(rdma_reject(caller, "no", 2), 0);
    assert_int_equal(reason_of_end(fd, 2000), DV_CM_CONSUMER_DEFINED);
    assert_int_equal(rdma_accept(caller, NULL), -1);
    assert_int_equal(rdma_destroy_id(caller), 0);
    close(fd);
    stop_listening(&listener);
}

/* More callers than the program takes, one of which gives up: that makes no room, as a call that
 * is taken does. */
static void listener__has_a_backlog(void **state)
{
    (void)state;
    struct listener listener = start_listening(2);
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    const size_t count = good_request(bytes);
    const int first = call(&listener), second = call(&listener), third = call(&listener);
    send_all(first, bytes, count);
    assert_true(is_readable(listener.channel->fd, 2000));
    close(first);
    send_all(second, bytes, count);
    assert_false(is_readable(second, 50));
    send_all(third, bytes, count);
    assert_int_equal(reason_of_end(third, 2000), DV_CM_NO_RESOURCES);
    struct rdma_cm_id *caller = take_caller(&listener);
    const int fourth = call(&listener);
    send_all(fourth, bytes, count);
    assert_false(is_readable(fourth, 50));
    assert_int_equal(rdma_accept(caller, NULL), -1);   /* the one that gave up */
    assert_int_equal(rdma_destroy_id(listener.id), 0); /* with an event that nobody took */
    assert_int_equal(reason_of_end(second, 2000), 0);
    assert_int_equal(reason_of_end(fourth, 2000), 0);
    assert_int_equal(rdma_destroy_id(caller), 0);
    rdma_destroy_event_channel(listener.channel);
    close(second);
    close(third);
    close(fourth);
}

/* The program may take calls without end, and answer later: there is a bound for that, too. */
static void listener__has_a_bound_beyond_its_backlog(void **state)
{
    (void)state;
    struct listener listener = start_listening(2);
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    const size_t count = good_request(bytes);
    static struct rdma_cm_id *callers[MAX_UNANSWERED];
    for (size_t i = 0; i < MAX_UNANSWERED; i++) {
        const int fd = call(&listener);
        send_all(fd, bytes, count);
        callers[i] = take_caller(&listener);
        close(fd);
    }
    int fd = call(&listener);
    send_all(fd, bytes, count);
    assert_int_equal(reason_of_end(fd, 2000), DV_CM_NO_RESOURCES);
    close(fd);
    assert_int_equal(rdma_destroy_id(callers[0]), 0);
    fd = call(&listener);
    send_all(fd, bytes, count);
    callers[0] = take_caller(&listener);
    for (size_t i = 0; i < MAX_UNANSWERED; i++)
        assert_int_equal(rdma_destroy_id(callers[i]), 0);
    close(fd);
    stop_listening(&listener);
}

static atomic_bool destroyed;

static void bind__takes_a_device_by_no_address_of_all_hosts(void **state)
{
    (void)state;
    const uint32_t any[] = {INADDR_ANY, INADDR_LOOPBACK};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(any[i])}};
        struct rdma_cm_id *id;
        assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
        assert_null(id->verbs);
        assert_int_not_equal(rdma_get_src_port(id), 0);
        assert_int_equal(rdma_destroy_id(id), 0);
    }
}

static void *destroy(void *id)
{
    const int rc = rdma_destroy_id(id);
    destroyed = true;
    return rc ? id : NULL;
}

static void id__stays_until_its_event_is_acknowledged(void **state)
{
    (void)state;
    struct listener listener = start_listening(0);
    uint8_t bytes[DV_CM_MESSAGE_BYTES];
    pthread_t thread;
    void *failed;
    const int fd = call(&listener);
    send_all(fd, bytes, good_request(bytes));
    struct rdma_cm_event *event = take_event(&listener, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(rdma_destroy_id(event->id), 0); /* the event is the listener's */
    assert_int_equal(pthread_create(&thread, NULL, destroy, listener.id), 0);
    poll(NULL, 0, 50);
    assert_false(destroyed);
    rdma_ack_cm_event(event);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    rdma_destroy_event_channel(listener.channel);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message__survives_the_wire),
        cmocka_unit_test(message__is_refused),
        cmocka_unit_test(message__has_room_for_so_much_private_data),
        cmocka_unit_test(listener__hangs_up_on_what_is_no_request),
        cmocka_unit_test(listener__hears_no_half_request),
        cmocka_unit_test(listener__does_not_wait_for_the_silent),
        cmocka_unit_test(listener__tells_the_program_what_was_sent),
        cmocka_unit_test(listener__has_a_backlog),
        cmocka_unit_test(listener__has_a_bound_beyond_its_backlog),
        cmocka_unit_test(bind__takes_a_device_by_no_address_of_all_hosts),
        cmocka_unit_test(id__stays_until_its_event_is_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
