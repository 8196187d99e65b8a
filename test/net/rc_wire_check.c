/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real traffic of RC queue pairs as captures for outsiders to read: rc_wire runs this and has
 * tshark judge the captures. For each scenario NAME.pcap, and NAME.expect with what was posted;
 * then copies of a capture with one thing broken, broken-NAME.pcap, that the judge must not let
 * pass.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/include/diwarp_rc.h"
#include "test/net/clock.h"
#include "test/net/rc_record.h"

#define PATIENCE_NS   60000000000ull
#define MESSAGE_BYTES 200000
#define RECEIVES      64
#define MEMORY_BYTES  (1u << 20)

/* ---- scenarios ---------------------------------------------------------------------------- */

struct scenario {
    const char *name;
    bool markers, crc;
    uint8_t revision;
    uint32_t mss; /* of TCP; 0: of the loopback interface */
    enum { WHOLE, BRIEF } traffic;
    uint16_t cause; /* of the Terminate that ends it; 0: an orderly end */
};

/* Markers in both directions: tshark 4.0 looks for them in both, or in neither. */
static const struct scenario scenarios[] = {
    {"plain", false, true, 2, 0, WHOLE, 0},
    {"revision1", false, true, 1, 0, WHOLE, 0},
    {"small_mss", false, true, 2, 536, WHOLE, 0},
    {"no_crc", false, false, 2, 1460, WHOLE, 0},
    {"markers", true, true, 2, 0, WHOLE, 0},
    {"markers_revision1", true, true, 1, 1460, WHOLE, 0},
    {"markers_small_mss", true, true, 2, 536, WHOLE, 0},
    {"markers_no_crc", true, false, 2, 1460, WHOLE, 0},
    {"write_stag", false, true, 2, 0, BRIEF, DW_TERM_DDP_STAG},
    {"write_bounds", false, true, 1, 0, BRIEF, DW_TERM_DDP_BOUNDS},
    {"read_stag", false, true, 2, 1460, BRIEF, DW_TERM_RDMAP_STAG},
    {"markers_read_bounds", true, true, 2, 1460, BRIEF, DW_TERM_RDMAP_BOUNDS},
    {"brief", false, true, 2, 1460, BRIEF, 0},
    {"brief_markers", true, true, 2, 1460, BRIEF, 0},
};
#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

struct end {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_rc_qp *qp;
    struct diwarp_connect_request *request;
    uint8_t *memory;         /* sent from, written to, read from and into */
    struct diwarp_mr *mr;    /* of it, for the other side */
    uint8_t *receives;       /* RECEIVES buffers */
    unsigned done, received; /* requests, receives */
    bool connected, disconnected;
    struct diwarp_wc last; /* that told the end */
};

struct world {
    const struct scenario *scenario;
    struct end ends[2];
    struct diwarp_listener *listener; /* of the second */
    struct rc_record record;
};

/* ---- running ------------------------------------------------------------------------------ */

static void post_recv(struct end *end, uint64_t slot)
{
    struct ibv_sge sge = {.addr = (uintptr_t)(end->receives + slot * MESSAGE_BYTES),
                          .length = MESSAGE_BYTES};
    struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

    must(!diwarp_rc_post_recv(end->qp, &wr), "posting a receive");
}

static void take(struct end *end, const struct diwarp_wc *wc)
{
    switch ((int)wc->wc.opcode) {
    case DIWARP_WC_CONNECT_REQUEST:
        end->request = wc->request;
        return;
    case DIWARP_WC_CONNECTED:
        end->connected = true;
        return;
    case DIWARP_WC_DISCONNECTED:
        end->disconnected = true;
        end->last = *wc;
        return;
    default:
        break;
    }
    if (wc->wc.status == IBV_WC_WR_FLUSH_ERR)
        return;
    must(wc->wc.status == IBV_WC_SUCCESS, "a request");
    if (wc->wc.opcode != IBV_WC_RECV) {
        end->done++;
        return;
    }
    end->received++;
    post_recv(end, wc->wc.wr_id);
}

static void run(struct world *world)
{
    struct diwarp_wc wc[32];
    int rc = tap_run(&world->record.tap);

    if (rc)
        die("the tap: %s", strerror(-rc));
    for (int i = 0; i < 2; i++) {
        int n = diwarp_poll_cq(world->ends[i].cq, 32, wc);

        must(n >= 0, "polling");
        for (int j = 0; j < n; j++)
            take(&world->ends[i], &wc[j]);
    }
}

#define RUN_UNTIL(world, truth)                                          \
    do {                                                                 \
        uint64_t until_ns = clock_ns() + PATIENCE_NS;                    \
        while (!(truth)) {                                               \
            run(world);                                                  \
            if (clock_ns() > until_ns)                                   \
                die("%s: in vain: %s", (world)->scenario->name, #truth); \
        }                                                                \
    } while (0)

static void open_end(struct end *end, uint32_t rank)
{
    struct diwarp_device_attr attr;
    struct diwarp_diagnosis why;

    diwarp_device_attr_init(&attr);
    attr.if_include = "127.0.0.0/8";
    attr.name = (struct diwarp_name){.job = 7, .rank = rank};
    if (diwarp_open_device(&attr, &end->device, &why))
        die("device: %s", why.text);
    end->pd = diwarp_alloc_pd(end->device);
    end->cq = diwarp_create_cq(end->device, 256);
    end->memory = malloc(MEMORY_BYTES);
    end->receives = malloc((size_t)RECEIVES * MESSAGE_BYTES);
    must(end->pd && end->cq && end->memory && end->receives, "setting up");
    for (size_t i = 0; i < MEMORY_BYTES; i++)
        end->memory[i] = (uint8_t)(i * 37 + i / 251 + rank);
    end->mr =
        diwarp_reg_mr(end->pd, end->memory, MEMORY_BYTES,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    must(end->mr != NULL, "registering memory");
}

static void close_end(struct end *end)
{
    diwarp_destroy_rc_qp(end->qp);
    diwarp_dereg_mr(end->mr);
    diwarp_destroy_cq(end->cq);
    diwarp_dealloc_pd(end->pd);
    diwarp_close_device(end->device);
    free(end->memory);
    free(end->receives);
}

static struct diwarp_rc_qp_attr qp_attr(const struct scenario *scenario, const struct end *end)
{
    struct diwarp_rc_qp_attr attr;

    diwarp_rc_qp_attr_init(&attr);
    attr.cq = end->cq;
    attr.markers = scenario->markers;
    attr.crc = scenario->crc;
    attr.mpa_revision = scenario->revision;
    return attr;
}

static void connect_ends(struct world *world)
{
    struct end *a = &world->ends[0], *b = &world->ends[1];
    struct diwarp_rc_qp_attr attr = qp_attr(world->scenario, a);
    struct diwarp_diagnosis why;
    struct diwarp_address address;
    int rc;

    if (diwarp_listen(b->pd, b->cq, &world->listener, &why))
        die("listening: %s", why.text);
    diwarp_query_listener(world->listener, &address);
    rc = tap_open(&world->record.tap, address.port, world->scenario->mss);
    if (rc)
        die("the tap: %s", strerror(-rc));
    address.port = world->record.tap.port;
    if (diwarp_connect(a->pd, &attr, &address, "call", 4, &a->qp, &why))
        die("connecting: %s", why.text);
    RUN_UNTIL(world, b->request);
    attr = qp_attr(world->scenario, b);
    must(!diwarp_accept(b->request, b->pd, &attr, "answer", 6, &b->qp), "accepting");
    RUN_UNTIL(world, a->connected && b->connected);
    /* The caller's first FPDU, which lets the other side speak. */
    world->record.ledger.messages[DW_RDMAP_WRITE]++;
    for (uint64_t i = 0; i < RECEIVES; i++) {
        post_recv(a, i);
        post_recv(b, i);
    }
}

/* ---- traffic ------------------------------------------------------------------------------ */

static const uint32_t sizes[] = {0,    1,    2,     3,     4,     5,     17,     100,    489,
                                 490,  491,  492,   493,   508,   512,   516,    1023,   1424,
                                 1436, 1448, 4096,  8192,  30000, 64999, 65456,  65483,  65536,
                                 9,    80,   65536, 12345, 20000, 1,     100001, 199999, 200000};
#define SIZES (sizeof sizes / sizeof *sizes)

static void note(struct rc_ledger *ledger, enum dw_rdmap_opcode opcode, uint32_t bytes)
{
    ledger->messages[opcode]++;
    ledger->bytes[opcode] += bytes;
}

static void post(struct end *end, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned flags,
                 uint32_t stag, uint64_t to)
{
    struct ibv_sge sge[2] = {
        {.addr = (uintptr_t)end->memory + 13, .length = bytes / 3},
        {.addr = (uintptr_t)end->memory + MEMORY_BYTES / 2, .length = bytes - bytes / 3}};
    struct ibv_send_wr wr = {
        .sg_list = sge, .num_sge = 2, .opcode = opcode, .send_flags = flags | IBV_SEND_SIGNALED};

    if (opcode == IBV_WR_SEND_WITH_INV)
        wr.invalidate_rkey = stag;
    wr.wr.rdma.rkey = opcode == IBV_WR_SEND_WITH_INV ? 0 : stag;
    wr.wr.rdma.remote_addr = to;
    must(!diwarp_rc_post_send(end->qp, &wr), "posting");
}

static void sends(struct world *world, int from, unsigned count)
{
    struct end *end = &world->ends[from], *other = &world->ends[!from];
    unsigned received = other->received;

    for (unsigned i = 0; i < count; i++) {
        note(&world->record.ledger, i % 3 ? DW_RDMAP_SEND : DW_RDMAP_SEND_SE, sizes[i]);
        post(end, IBV_WR_SEND, sizes[i], i % 3 ? 0 : IBV_SEND_SOLICITED, 0, 0);
    }
    RUN_UNTIL(world, other->received == received + count);
}

static void invalidates(struct world *world, int from)
{
    struct end *end = &world->ends[from], *other = &world->ends[!from];
    unsigned received = other->received;

    for (unsigned i = 0; i < 6; i++) {
        struct diwarp_mr *mr = diwarp_reg_mr(other->pd, other->memory, 64, IBV_ACCESS_REMOTE_READ);

        must(mr != NULL, "registering memory");
        note(&world->record.ledger, i % 2 ? DW_RDMAP_SEND_INVALIDATE : DW_RDMAP_SEND_SE_INVALIDATE,
             i * 400);
        post(end, IBV_WR_SEND_WITH_INV, i * 400, i % 2 ? 0 : IBV_SEND_SOLICITED, mr->stag, 0);
        RUN_UNTIL(world, other->received == received + i + 1);
        diwarp_dereg_mr(mr);
    }
}

/* Writes and reads in turns, both ways at once. */
static void writes_and_reads(struct world *world)
{
    unsigned done[2] = {world->ends[0].done, world->ends[1].done};

    for (unsigned i = 0; i < SIZES; i++) {
        for (int from = 0; from < 2; from++) {
            const struct diwarp_mr *mr = world->ends[!from].mr;
            uint64_t to = (uint64_t)(uintptr_t)mr->addr + i;
            bool read = (i + (unsigned)from) % 2;

            note(&world->record.ledger, read ? DW_RDMAP_READ_RESPONSE : DW_RDMAP_WRITE, sizes[i]);
            if (read)
                note(&world->record.ledger, DW_RDMAP_READ_REQUEST, 28);
            post(&world->ends[from], read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, sizes[i], 0,
                 mr->stag, to);
        }
    }
    RUN_UNTIL(world, world->ends[0].done == done[0] + SIZES);
    RUN_UNTIL(world, world->ends[1].done == done[1] + SIZES);
}

/* A write or a read that the other side must refuse: 100 bytes, by a key that nobody gave out, or
 * of which the last ones are outside of the region. */
static void provoke(struct world *world, uint16_t cause)
{
    const struct diwarp_mr *mr = world->ends[1].mr;
    bool read = cause == DW_TERM_RDMAP_STAG || cause == DW_TERM_RDMAP_BOUNDS;
    bool outside = cause == DW_TERM_RDMAP_BOUNDS || cause == DW_TERM_DDP_BOUNDS;
    uint64_t to = (uint64_t)(uintptr_t)mr->addr + (outside ? MEMORY_BYTES - 99 : 0);

    if (read)
        note(&world->record.ledger, DW_RDMAP_READ_REQUEST, 28);
    else
        note(&world->record.ledger, DW_RDMAP_WRITE, 100);
    note(&world->record.ledger, DW_RDMAP_TERMINATE, read ? 4 + 2 + 18 + 28 : 4 + 2 + 14);
    post(&world->ends[0], read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 100, 0,
         outside ? mr->stag : mr->stag ^ 1, to);
}

static void end_connection(struct world *world)
{
    struct end *a = &world->ends[0], *b = &world->ends[1];
    uint16_t cause = world->scenario->cause;

    if (cause)
        provoke(world, cause);
    else
        diwarp_disconnect(a->qp);
    RUN_UNTIL(world, a->disconnected && b->disconnected);
    must(a->last.wc.status == (cause ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS) &&
             a->last.wc.vendor_err == cause,
         "the end");
    /* Every byte has to be in the capture, the last ones of a closed QP too. */
    RUN_UNTIL(world, world->record.tap.from[0].ended && world->record.tap.from[1].ended);
}

/* ------------------------------------------------------------------------------------------- */

static void run_scenario(const char *dir, const struct scenario *scenario)
{
    static struct world world;

    world = (struct world){.scenario = scenario,
                           .record = {.name = scenario->name,
                                      .markers = scenario->markers,
                                      .crc = scenario->crc,
                                      .revision = scenario->revision,
                                      .cause = scenario->cause}};
    open_end(&world.ends[0], 1);
    open_end(&world.ends[1], 2);
    connect_ends(&world);
    if (scenario->traffic == WHOLE) {
        sends(&world, 0, SIZES);
        sends(&world, 1, SIZES);
        invalidates(&world, 0);
        writes_and_reads(&world);
        invalidates(&world, 1);
    } else {
        sends(&world, 0, 20);
        sends(&world, 1, 20);
    }
    end_connection(&world);
    rc_record_write(&world.record, dir);
    if (scenario->traffic == BRIEF && !scenario->cause)
        rc_record_write_broken(&world.record, dir);
    diwarp_destroy_listener(world.listener);
    tap_close(&world.record.tap);
    close_end(&world.ends[0]);
    close_end(&world.ends[1]);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < SCENARIOS; i++)
        run_scenario(argv[1], &scenarios[i]);
    return 0;
}
