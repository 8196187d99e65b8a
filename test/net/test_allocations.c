/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No memory, and no descriptors: everything that the library asks the system for is refused once,
 * one at a time, from opening to closing, over RD, UD and RC; then everything from there on. Each
 * call gives an error or does its work, whatever was posted completes, what completes well has the
 * right bytes, nothing is left behind, and once there is memory again, the same objects go on.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/include/diwarp_group.h"
#include "test/fault/llp_fault.h"
#include "test/net/starving_ends.h"

#define SENDS      24
#define SEND_BYTES 9000u

static uint8_t local[RECORD_BYTES], inbox[SENDS][SEND_BYTES];
static uint64_t answer;

static int open_qp(struct end *end, enum diwarp_qp_type type)
{
    struct diwarp_qp_attr attr = qp_attr_of(type);

    attr.cq = end->cq;
    attr.record_time_ns = attr.read_time_ns = TIMEOUT_NS;
    int rc = diwarp_create_qp(end->pd, &attr, &end->qp, NULL);
    if (!rc)
        diwarp_query_address(end->qp, &end->address);
    return rc;
}

static int open_datagram_pair(enum diwarp_qp_type type)
{
    int rc = open_end(&a, 1);
    rc = rc ? rc : open_end(&b, 2);
    rc = rc ? rc : open_qp(&a, type);
    rc = rc ? rc : open_qp(&b, type);
    rc = rc ? rc : diwarp_create_ah(a.qp, &b.address, &a.ah);
    return rc ? rc : diwarp_create_ah(b.qp, &a.address, &b.ah);
}

/* ---- posting ---- */

static int post_to_b_once(enum ibv_wr_opcode opcode, void *addr, uint32_t length, unsigned flags)
{
    struct ibv_sge sge = {.addr = (uintptr_t)addr, .length = length};
    struct diwarp_send_wr wr = {.wr = {.wr_id = flags,
                                       .sg_list = &sge,
                                       .num_sge = 1,
                                       .opcode = opcode,
                                       .send_flags = flags | IBV_SEND_SIGNALED},
                                .ah = a.ah};

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.wr.atomic.rkey = b.mr->stag;
        wr.wr.wr.atomic.remote_addr = (uintptr_t)remote;
    } else {
        wr.wr.wr.rdma.rkey = b.mr->stag;
        wr.wr.wr.rdma.remote_addr = (uintptr_t)remote;
    }
    return a.rc_qp ? diwarp_rc_post_send(a.rc_qp, &wr.wr) : diwarp_post_send(a.qp, &wr);
}

static bool post_to_b(enum ibv_wr_opcode opcode, void *addr, uint32_t length, unsigned flags)
{
    unsigned tries = 0;
    int rc;

    do
        rc = post_to_b_once(opcode, addr, length, flags);
    while (again(rc, &tries));
    posted += !rc;
    return succeeded(rc, "post");
}

static void post_sends(void)
{
    for (unsigned i = 0; i < SENDS; i++) {
        (void)post_to_b(IBV_WR_SEND, local, i % 2 ? SEND_BYTES : 100, 0);
        poll_end(&a);
        poll_end(&b);
    }
}

static int post_recv_once(unsigned i)
{
    struct ibv_sge sge = {.addr = (uintptr_t)inbox[i], .length = SEND_BYTES};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

    return b.rc_qp ? diwarp_rc_post_recv(b.rc_qp, &wr) : diwarp_post_recv(b.qp, &wr);
}

static void post_recvs(void)
{
    for (unsigned i = 0; i < SENDS; i++) {
        unsigned tries = 0;
        int rc;
        do
            rc = post_recv_once(i);
        while (again(rc, &tries));
        (void)succeeded(rc, "receive");
    }
}

/* A read of the peer's memory, then a write to it; `read_flags` beside those of all. */
static void read_and_write(unsigned read_flags)
{
    fill(remote, sizeof remote, 1);
    memset(local, 0, sizeof local);
    if (post_to_b(IBV_WR_RDMA_READ, local, sizeof local, read_flags)) {
        POLL_UNTIL(a.done == posted);
        if (a.done == posted && !a.failed && !is_over())
            assert_filled(local, sizeof local, 1);
    }
    fill(local, sizeof local, 2);
    if (post_to_b(IBV_WR_RDMA_WRITE, local, sizeof local, 0) &&
        post_to_b(IBV_WR_RDMA_READ, &answer, sizeof answer, 0)) { /* RC: it follows the write */
        POLL_UNTIL(a.done == posted);
        if (a.done == posted && !a.failed && !is_over())
            assert_filled(remote, sizeof remote, 2);
    }
}

/* ---- what is done over each service ---- */

static void rd_traffic(void)
{
    post_sends();
    POLL_UNTIL(a.done == posted && b.recvs == posted);
    read_and_write((unsigned)DIWARP_SEND_HOLD);
    if (post_to_b(IBV_WR_ATOMIC_FETCH_AND_ADD, &answer, sizeof answer, 0))
        POLL_UNTIL(a.done == posted);
    const int rc = diwarp_block_cq(a.cq, 1000);
    assert_true(!rc || failing.refused);
}

static int rd_open(void)
{
    return open_datagram_pair(DIWARP_QPT_RD);
}

static int ud_open(void)
{
    return open_datagram_pair(DIWARP_QPT_UD);
}

/* As ud_open(), but a sends to a group that b is attached to. */
static int ud_group_open(void)
{
    const struct diwarp_group group = {
        .family = AF_INET, .ip = {239, 255, 80, 1}, .port = 20471, .token = 0xa110c};
    int rc = ud_open();

    rc = rc ? rc : diwarp_attach_group(b.qp, &group, b.mr, b.mr->stag);
    if (rc)
        return rc;
    diwarp_destroy_ah(a.ah);
    a.ah = NULL;
    return diwarp_create_group_ah(a.qp, &group, &a.ah);
}

static void ud_group_traffic(void)
{
    post_recvs();
    post_sends();
    POLL_UNTIL(a.done == posted);
    if (!failing.refused)
        POLL_UNTIL(b.recvs == posted);
}

/* Messages may be lost, but not what is posted. */
static void ud_traffic(void)
{
    post_recvs();
    post_sends();
    (void)post_to_b(IBV_WR_RDMA_WRITE, local, SEND_BYTES, 0);
    POLL_UNTIL(a.done == posted);
    if (!failing.refused)
        POLL_UNTIL(b.recvs == posted);
    (void)post_to_b(IBV_WR_RDMA_READ, local, SEND_BYTES, 0);
    POLL_UNTIL(a.done == posted);
}

static int rc_open(void)
{
    int rc = open_end(&a, 1);
    rc = rc ? rc : open_end(&b, 2);
    rc = rc ? rc : diwarp_listen(b.pd, b.cq, &b.listener, NULL);
    if (!rc)
        diwarp_query_listener(b.listener, &b.address);
    return rc;
}

static struct diwarp_rc_qp_attr rc_attr(struct diwarp_cq *cq)
{
    struct diwarp_rc_qp_attr attr;

    diwarp_rc_qp_attr_init(&attr);
    attr.cq = cq;
    attr.connect_timeout_ns = attr.rnr_timeout_ns = TIMEOUT_NS;
    return attr;
}

static void rc_connect(void)
{
    const struct diwarp_rc_qp_attr attr_a = rc_attr(a.cq), attr_b = rc_attr(b.cq);
    int rc = diwarp_connect(a.pd, &attr_a, &b.address, "hi", 2, &a.rc_qp, NULL);

    assert_true(!rc || failing.refused);
    if (rc)
        return;
    POLL_UNTIL(b.requests);
    if (!b.requests || is_over())
        return;
    rc = diwarp_accept(b.request, b.pd, &attr_b, "ho", 2, &b.rc_qp);
    assert_true(!rc || failing.refused);
    POLL_UNTIL(a.connects && b.connects);
}

static void rc_traffic(void)
{
    rc_connect();
    if (!a.connects || !b.connects || is_over())
        return;
    post_recvs();
    post_sends();
    POLL_UNTIL(a.done == posted && b.recvs == posted);
    read_and_write(0);
    diwarp_disconnect(a.rc_qp);
    POLL_UNTIL(false);
}

/* ---- the sweep ---- */

struct service {
    int (*open)(void);
    void (*traffic)(void);
};

static unsigned open_files(void)
{
    unsigned count = 0;
    DIR *files = opendir("/proc/self/fd");

    assert_non_null(files);
    while (readdir(files))
        count++;
    closedir(files);
    return count;
}

/* How the runs of a sweep ended: so that one that tests nothing is seen. */
static struct {
    unsigned not_opened, completed, in_part;
} outcomes;
static unsigned posts_of_all;

static void note_outcome(int rc)
{
    const bool completed = !rc && !a.failed && a.done == posts_of_all;

    outcomes.not_opened += rc != 0;
    outcomes.completed += completed;
    outcomes.in_part += !rc && !completed;
}

/* Returns whether something was refused. */
static bool run_once(const struct service *service, unsigned at, bool forever)
{
    const unsigned files = open_files();

    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    posted = 0;
    failing = (struct failing_libc){.armed = true, .forever = forever, .at = at};
    const int rc = service->open();
    if (rc && !failing.refused)
        fail_msg("opening failed though nothing was refused: %d", rc);
    if (!rc)
        service->traffic();
    note_outcome(rc);
    close_end(&a);
    close_end(&b);
    failing.armed = false;
    if (failing.held)
        fail_msg("call %u (%s) refused: %ld blocks are left", at,
                 failing.refused ? failing.refused : "none", failing.held);
    assert_int_equal(open_files(), files);
    return failing.refused;
}

static void sweep(const struct service *service, const char *name)
{
    for (unsigned forever = 0; forever < 2; forever++) {
        unsigned at = 1;

        assert_false(run_once(service, 0, false));
        assert_int_equal(a.failed, 0);
        assert_int_equal(a.done, posted);
        posts_of_all = posted;
        memset(&outcomes, 0, sizeof outcomes);
        while (run_once(service, at, forever))
            at++;
        print_message("%s, refused %s: %u calls; %u times not opened, %u all completed, %u not\n",
                      name, forever ? "from there on" : "once", at - 1, outcomes.not_opened,
                      outcomes.completed, outcomes.in_part);
        assert_true(outcomes.not_opened && (outcomes.completed || forever) && outcomes.in_part);
    }
}

static void rd__each_refused(void **state)
{
    (void)state;
    sweep(&(struct service){rd_open, rd_traffic}, "rd");
}

/* With the memory that loss and disorder take. */
static void rd__each_refused__lossy(void **state)
{
    (void)state;
    assert_int_equal(setenv(DW_FAULT_VARIABLE, "drop=0.03,reorder=0.2,seed=5,exact", 1), 0);
    sweep(&(struct service){rd_open, rd_traffic}, "rd, lossy");
    unsetenv(DW_FAULT_VARIABLE);
}

static void ud__each_refused(void **state)
{
    (void)state;
    sweep(&(struct service){ud_open, ud_traffic}, "ud");
}

static void ud_group__each_refused(void **state)
{
    (void)state;
    sweep(&(struct service){ud_group_open, ud_group_traffic}, "ud, to a group");
}

static void rc__each_refused(void **state)
{
    (void)state;
    sweep(&(struct service){rc_open, rc_traffic}, "rc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__each_refused), cmocka_unit_test(rd__each_refused__lossy),
        cmocka_unit_test(ud__each_refused), cmocka_unit_test(ud_group__each_refused),
        cmocka_unit_test(rc__each_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
