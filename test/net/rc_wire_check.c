/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real traffic of RC queue pairs as captures for outsiders to read: rc_wire runs this and has
 * tshark judge the captures. For each scenario NAME.pcap, and NAME.expect with what was posted;
 * then copies of a capture with one thing broken, broken-NAME.pcap, that the judge must not let
 * pass.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/include/diwarp_rc.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/ddp.h"
#include "common/wire/mpa.h"
#include "common/wire/terminate.h"
#include "test/net/tap.h"

#define PATIENCE_NS   20000000000ull
#define OPCODES       (DW_RDMAP_TERMINATE + 1)
#define MESSAGE_BYTES (200000)
#define RECEIVES      64
#define MEMORY_BYTES  (1u << 20)

static const char *const opcode_names[OPCODES] = {"Write",       "Read Request",    "Read Response",
                                                  "Send",        "Send Invalidate", "Send SE",
                                                  "Send SE Inv", "Terminate"};

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

/* What was posted. */
struct ledger {
    uint64_t messages[OPCODES], bytes[OPCODES];
    unsigned left_out; /* FPDUs that are not in the capture: see write_fpdus() */
};

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
    struct tap tap;
    struct ledger ledger;
};

static _Noreturn void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("rc_wire_check: ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    exit(1);
}

static void must(bool truth, const char *what)
{
    if (!truth)
        die("%s failed", what);
}

static uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

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
    int rc = tap_run(&world->tap);

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
    rc = tap_open(&world->tap, address.port, world->scenario->mss);
    if (rc)
        die("the tap: %s", strerror(-rc));
    address.port = world->tap.port;
    if (diwarp_connect(a->pd, &attr, &address, "call", 4, &a->qp, &why))
        die("connecting: %s", why.text);
    RUN_UNTIL(world, b->request);
    attr = qp_attr(world->scenario, b);
    must(!diwarp_accept(b->request, b->pd, &attr, "answer", 6, &b->qp), "accepting");
    RUN_UNTIL(world, a->connected && b->connected);
    /* The caller's first FPDU, which lets the other side speak. */
    world->ledger.messages[DW_RDMAP_WRITE]++;
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

static void note(struct ledger *ledger, enum dw_rdmap_opcode opcode, uint32_t bytes)
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
        note(&world->ledger, i % 3 ? DW_RDMAP_SEND : DW_RDMAP_SEND_SE, sizes[i]);
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
        note(&world->ledger, i % 2 ? DW_RDMAP_SEND_INVALIDATE : DW_RDMAP_SEND_SE_INVALIDATE,
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

            note(&world->ledger, read ? DW_RDMAP_READ_RESPONSE : DW_RDMAP_WRITE, sizes[i]);
            if (read)
                note(&world->ledger, DW_RDMAP_READ_REQUEST, 28);
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
        note(&world->ledger, DW_RDMAP_READ_REQUEST, 28);
    else
        note(&world->ledger, DW_RDMAP_WRITE, 100);
    note(&world->ledger, DW_RDMAP_TERMINATE, read ? 4 + 2 + 18 + 28 : 4 + 2 + 14);
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
    RUN_UNTIL(world, world->tap.from[0].ended && world->tap.from[1].ended);
}

/* ---- captures ----------------------------------------------------------------------------- */

#define CALLER_PORT 40000

/* How far the bytes of one side are in the capture. */
struct cutter {
    const uint8_t *bytes; /* that say where the segments end */
    const uint8_t *sent;  /* that are in the capture: the same, or a broken copy */
    size_t len, done;
    bool framed; /* the request or reply is behind it */
    enum dw_mpa_kind kind;
    struct dw_mpa_stream stream;
};

static struct cutter cutter_of(const struct world *world, int side, const uint8_t *caller_bytes)
{
    return (struct cutter){.bytes = world->tap.from[side].bytes,
                           .sent = side ? world->tap.from[side].bytes : caller_bytes,
                           .kind = side ? DW_MPA_REPLY : DW_MPA_REQUEST,
                           .stream.markers = world->scenario->markers};
}

/* Bytes of the frame or FPDU that is next; 0 when it has not all come. */
static size_t next_unit(struct cutter *c)
{
    struct dw_mpa_frame frame;
    struct dw_mpa_fpdu fpdu;
    int n;

    if (!c->framed) {
        n = dw_mpa_frame_get(&frame, c->kind, c->bytes + c->done, c->len - c->done);
        must(n > 0 || n == -EAGAIN, "reading a start-up frame");
        c->framed = n > 0;
        return n > 0 ? (size_t)n : 0;
    }
    if (dw_mpa_fpdu_peek(&c->stream, &fpdu, c->bytes + c->done, c->len - c->done) ||
        fpdu.bytes > c->len - c->done)
        return 0;
    c->stream.at += fpdu.bytes;
    must(fpdu.bytes <= TCP_PCAP_SEGMENT_MAX_BYTES, "an FPDU in one segment");
    return fpdu.bytes;
}

static void write_segment(struct tcp_pcap *pcap, struct cutter *c, enum tcp_pcap_side side,
                          size_t len)
{
    tcp_pcap_segment(pcap, side, c->sent + c->done, len);
    c->done += len;
}

/* As the tap saw it: frames apart, then whatever came at once. */
static void write_runs(struct tcp_pcap *pcap, const struct world *world,
                       const uint8_t *caller_bytes, size_t run_count)
{
    struct cutter sides[2] = {cutter_of(world, 0, caller_bytes), cutter_of(world, 1, NULL)};

    tcp_pcap_connect(pcap, CALLER_PORT, world->tap.target_port);
    for (size_t i = 0; i < run_count; i++) {
        struct cutter *c = &sides[world->tap.runs[i].from];

        for (c->len += world->tap.runs[i].len; c->done < c->len;) {
            size_t n = c->framed ? c->len - c->done : next_unit(c);

            if (!n)
                break;
            n = n < TCP_PCAP_SEGMENT_MAX_BYTES ? n : TCP_PCAP_SEGMENT_MAX_BYTES;
            write_segment(pcap, c, world->tap.runs[i].from, n);
        }
    }
    tcp_pcap_disconnect(pcap);
}

/* Takes a message out of what tshark is to find. */
static void leave_out(struct ledger *ledger, const struct cutter *c, size_t bytes)
{
    struct dw_mpa_stream before = c->stream;
    struct dw_ddp_header ddp;
    struct dw_mpa_fpdu fpdu;
    uint8_t *copy = malloc(bytes);
    uint16_t cause;
    int header;

    must(copy != NULL, "copying an FPDU");
    memcpy(copy, c->bytes + c->done, bytes);
    before.at -= bytes;
    must(!dw_mpa_fpdu_get(&before, &fpdu, copy, bytes), "reading an FPDU");
    header = dw_ddp_get_stream(&ddp, fpdu.ulpdu, fpdu.ulpdu_bytes, &cause);
    must(header > 0, "reading a header");
    ledger->messages[ddp.opcode] -= ddp.last;
    ledger->bytes[ddp.opcode] -= fpdu.ulpdu_bytes - (size_t)header;
    ledger->left_out++;
    free(copy);
}

/*
 * With markers tshark 4.0 wants each FPDU in a segment of its own, as RFC 5044 5 does. It takes the
 * marker behind an FPDU that ends at a multiple of 512 for a part of it, and is lost then: such an
 * FPDU is left out, and the next one, which a marker leads as at the beginning of a stream, begins
 * another connection. Sides one after the other, for they get there at different times.
 */
static void write_fpdus(struct tcp_pcap *pcap, const struct world *world,
                        const uint8_t *caller_bytes, struct ledger *ledger)
{
    uint16_t port = CALLER_PORT;

    for (int side = 0; side < 2; side++) {
        struct cutter c = cutter_of(world, side, caller_bytes);
        bool connected = false;
        size_t n;

        c.len = world->tap.from[side].len;
        c.done = next_unit(&c);
        while ((n = next_unit(&c)) > 0) {
            if (!connected) {
                struct cutter frames[2] = {cutter_of(world, 0, caller_bytes),
                                           cutter_of(world, 1, NULL)};

                tcp_pcap_connect(pcap, port++, world->tap.target_port);
                for (int i = 0; i < 2; i++) {
                    frames[i].len = world->tap.from[i].len;
                    write_segment(pcap, &frames[i], (enum tcp_pcap_side)i,
                                  next_unit(&frames[i]));
                }
                connected = true;
            }
            if (c.stream.markers && c.stream.at % 512 == 0) {
                leave_out(ledger, &c, n);
                c.done += n;
                tcp_pcap_disconnect(pcap);
                connected = false;
                continue;
            }
            write_segment(pcap, &c, (enum tcp_pcap_side)side, n);
        }
        if (connected)
            tcp_pcap_disconnect(pcap);
        must(c.done == c.len, "reading all FPDUs");
    }
}

static void write_expectation(const char *path, const struct world *world,
                              const struct ledger *ledger)
{
    FILE *file = fopen(path, "w");

    must(file != NULL, "creating an expectation");
    fprintf(file, "revision %u\nmarkers %d\ncrc %d\ncause %u\nleft_out %u\n",
            world->scenario->revision, world->scenario->markers, world->scenario->crc,
            world->scenario->cause, ledger->left_out);
    for (int i = 0; i < OPCODES; i++)
        fprintf(file, "opcode %d %llu %llu %s\n", i, (unsigned long long)ledger->messages[i],
                (unsigned long long)ledger->bytes[i], opcode_names[i]);
    must(!fclose(file), "writing an expectation");
}

/* The first runs of the tap; what the caller said is replaced by a copy of it. */
static void write_capture(const char *dir, const char *prefix, const char *name,
                          const struct world *world, const uint8_t *caller_bytes, size_t run_count)
{
    struct ledger ledger = world->ledger;
    struct tcp_pcap pcap;
    char path[1024];

    snprintf(path, sizeof path, "%s/%s%s.pcap", dir, prefix, name);
    must(!tcp_pcap_create(&pcap, path), "creating a capture");
    if (world->scenario->markers)
        write_fpdus(&pcap, world, caller_bytes, &ledger);
    else
        write_runs(&pcap, world, caller_bytes, run_count);
    must(!tcp_pcap_close(&pcap), "writing a capture");
    snprintf(path, sizeof path, "%s/%s%s.expect", dir, prefix, name);
    write_expectation(path, world, &ledger);
}

/* ---- broken copies ------------------------------------------------------------------------ */

/* Where in the FPDU, counted from its length field. */
enum { LENGTH = 1, DDP = 2, RDMAP = 3, QN = 11, MSN = 15, MO = 19, PAYLOAD = 20, PAD = 37 };
enum what { BYTE, CRC_FIELD, CRC_ORDER, MARKER, MARKER_RESERVED, REQUEST };

#define SEND_17  7 /* FPDUs of the caller: the Sends of 17 and 100 bytes */
#define SEND_100 8

static const struct breakage {
    const char *name;
    bool markers;
    enum what what;
    unsigned fpdu; /* MARKER: the first one with a marker inside */
    size_t offset;
    uint8_t flip;
    bool crc_repaired; /* so that nothing but the fault is to be seen */
} breakages[] = {
    {"payload", false, BYTE, SEND_100, PAYLOAD + 50, 0x01, false},
    {"payload_with_markers", true, BYTE, SEND_100, PAYLOAD, 0x01, false},
    {"crc", false, CRC_FIELD, SEND_100, 3, 0x80, false},
    {"crc_order", false, CRC_ORDER, SEND_100, 0, 0, false},
    {"pad", false, BYTE, SEND_17, PAD, 0x01, true},
    {"length_short", false, BYTE, SEND_100, LENGTH, 0x04, false},
    {"length_long", false, BYTE, SEND_100, LENGTH, 0x08, false},
    {"length_huge", false, BYTE, SEND_100, LENGTH - 1, 0x40, false},
    {"length_with_pad", false, BYTE, SEND_17, LENGTH, 0x05, true},
    {"last_flag", false, BYTE, SEND_100, DDP, 0x40, true},
    {"tagged_flag", false, BYTE, SEND_100, DDP, 0x80, true},
    {"ddp_reserved", false, BYTE, SEND_100, DDP, 0x04, true},
    {"ddp_version", false, BYTE, SEND_100, DDP, 0x01, true},
    {"rdmap_version", false, BYTE, SEND_100, RDMAP, 0xc0, true},
    {"rdmap_reserved", false, BYTE, SEND_100, RDMAP, 0x10, true},
    {"opcode_unknown", false, BYTE, SEND_100, RDMAP, 0x0c, true},
    {"opcode_other", false, BYTE, SEND_100, RDMAP, 0x06, true},
    {"queue", false, BYTE, SEND_100, QN, 0x04, true},
    {"msn", false, BYTE, SEND_100, MSN, 0x40, true},
    {"mo", false, BYTE, SEND_100, MO, 0x04, true},
    {"marker", true, MARKER, 0, 3, 0x08, false},
    {"marker_crc_repaired", true, MARKER, 0, 3, 0x08, true},
    {"marker_high", true, MARKER, 0, 2, 0x80, true},
    {"marker_reserved", true, MARKER, 0, 1, 0x01, true},
    {"marker_leading", true, BYTE, 0, (size_t)-1, 0x04, true},
    {"request_key", false, REQUEST, 0, 5, 0x01, false},
    {"request_revision", false, REQUEST, 0, 17, 0x01, false},
    {"request_markers", false, REQUEST, 0, 16, 0x80, false},
};
#define BREAKAGES (sizeof breakages / sizeof *breakages)

/* The FPDU that the breakage wants: where it begins; its size; the stream before it. */
static size_t find_fpdu(const struct world *world, const struct breakage *breakage, size_t *bytes,
                        struct dw_mpa_stream *before)
{
    struct cutter c = {.bytes = world->tap.from[0].bytes,
                       .len = world->tap.from[0].len,
                       .stream.markers = world->scenario->markers};

    c.done = next_unit(&c);
    for (unsigned i = 0;; i++) {
        *before = c.stream;
        *bytes = next_unit(&c);
        must(*bytes > 0, "finding an FPDU to break");
        bool inside = before->at % 512 != 0 && before->at % 512 + *bytes > 512;
        if (breakage->what == MARKER ? inside : i == breakage->fpdu)
            return c.done;
        c.done += *bytes;
    }
}

static void repair_crc(uint8_t *fpdu, size_t bytes)
{
    uint32_t crc = dw_crc32c(0, fpdu, bytes - 4);

    for (unsigned i = 0; i < 4; i++)
        fpdu[bytes - 4 + i] = (uint8_t)(crc >> 8 * i);
}

static void break_fpdu(const struct world *world, const struct breakage *breakage, uint8_t *stream)
{
    struct dw_mpa_stream before;
    size_t bytes, begin = find_fpdu(world, breakage, &bytes, &before);
    size_t length_at = before.markers && before.at % 512 == 0 ? 4 : 0;
    uint8_t *fpdu = stream + begin, *crc = fpdu + bytes - 4;

    if (breakage->what == MARKER)
        fpdu[512 - before.at % 512 + breakage->offset] ^= breakage->flip;
    else if (breakage->what == CRC_FIELD)
        crc[breakage->offset] ^= breakage->flip;
    else if (breakage->what == CRC_ORDER)
        dw_put_be32(crc, dw_crc32c(0, fpdu, bytes - 4));
    else
        fpdu[length_at + breakage->offset] ^= breakage->flip;
    if (breakage->crc_repaired)
        repair_crc(fpdu, bytes);
}

static void write_broken(const char *dir, const struct world *world)
{
    size_t len = world->tap.from[0].len;
    uint8_t *copy = malloc(len);

    must(copy != NULL, "copying a stream");
    for (size_t i = 0; i < BREAKAGES; i++) {
        if (breakages[i].markers != world->scenario->markers)
            continue;
        memcpy(copy, world->tap.from[0].bytes, len);
        if (breakages[i].what == REQUEST)
            copy[breakages[i].offset] ^= breakages[i].flip;
        else
            break_fpdu(world, &breakages[i], copy);
        write_capture(dir, "broken-", breakages[i].name, world, copy, world->tap.run_count);
    }
    free(copy);
    if (!world->scenario->markers) {
        write_capture(dir, "broken-", "cut", world, world->tap.from[0].bytes,
                      world->tap.run_count - 1);
    }
}

/* ------------------------------------------------------------------------------------------- */

static void run_scenario(const char *dir, const struct scenario *scenario)
{
    static struct world world;

    world = (struct world){.scenario = scenario};
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
    write_capture(dir, "", scenario->name, &world, world.tap.from[0].bytes, world.tap.run_count);
    if (scenario->traffic == BRIEF && !scenario->cause)
        write_broken(dir, &world);
    diwarp_destroy_listener(world.listener);
    tap_close(&world.tap);
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
