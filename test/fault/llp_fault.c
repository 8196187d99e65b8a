/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault-injecting LLP, and the diwarp_open_device() of test builds, which wraps UDP with it
 * when the environment asks for that.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/llp/socket.h"
#include "common/open.h"
#include "test/fault/llp_fault.h"
#include "test/net/clock.h"
#include "test/unit/random.h"

#define DEFAULT_DELAY_NS UINT64_C(1000000)
/* Datagrams held at once; beyond it they pass unhindered. */
#define HELD_MAX 64
/* A reordered datagram lets 1..REORDER_MAX later ones pass. */
#define REORDER_MAX 8
/* `passes` of a delayed datagram: only time releases it. */
#define NEVER UINT32_MAX

struct held {
    uint8_t *bytes;
    uint32_t len;
    struct dw_llp_addr to;
    uint32_t passes; /* datagrams that still have to overtake it */
    bool whole;      /* this and the next as of struct dw_llp_train */
    uint8_t flow;
    uint64_t due_ns; /* released then at the latest */
};

struct fault {
    struct dw_llp llp;
    struct dw_llp *inner;
    struct dw_fault_plan plan;
    struct dw_fault_counts counts;
    uint64_t (*now_ns)(void);
    uint64_t random_state;
    pthread_mutex_t lock; /* everything below, and inner's send */
    unsigned held_count;
    struct held held[HELD_MAX]; /* in the order of their sending */
    uint8_t flat[65536];        /* the datagram at hand */
    bool whole;                 /* it is of such a train, as is the flow */
    uint8_t flow;
};

/* ---- plan --------------------------------------------------------------------------------- */

static bool parse_probability(const char *text, double *value)
{
    char *end;
    if (text[strspn(text, "0123456789.eE-")] != '\0') {
        return false;
    }
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= 0.0 && *value <= 1.0;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *value)
{
    char *end;
    if (*text == '\0' || text[strspn(text, "0123456789")] != '\0') {
        return false;
    }
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *value <= max;
}

/* One entry: "exact", "report" or "key=value". */
static bool parse_entry(char *entry, struct dw_fault_plan *plan)
{
    const struct {
        const char *key;
        double *value;
    } probabilities[] = {{"drop", &plan->drop},
                         {"dup", &plan->dup},
                         {"reorder", &plan->reorder},
                         {"corrupt", &plan->corrupt},
                         {"delay", &plan->delay}};
    char *value = strchr(entry, '=');
    if (!value) {
        bool *flag = strcmp(entry, "exact") == 0    ? &plan->exact
                     : strcmp(entry, "report") == 0 ? &plan->report
                                                    : NULL;
        return flag && (*flag = true);
    }
    *value++ = '\0';
    for (size_t i = 0; i < sizeof(probabilities) / sizeof(probabilities[0]); i++) {
        if (strcmp(entry, probabilities[i].key) == 0) {
            return parse_probability(value, probabilities[i].value);
        }
    }
    if (strcmp(entry, "delay_us") == 0) {
        bool ok = parse_number(value, UINT64_C(10000000), &plan->delay_ns);
        plan->delay_ns *= 1000;
        return ok;
    }
    return strcmp(entry, "seed") == 0 && parse_number(value, UINT64_MAX, &plan->seed);
}

int dw_fault_parse(const char *text, struct dw_fault_plan *plan, struct diwarp_diagnosis *why)
{
    *plan = (struct dw_fault_plan){.delay_ns = DEFAULT_DELAY_NS, .seed = 1};
    for (const char *at = text;; at++) {
        char entry[64], copy[64];
        size_t len = strcspn(at, ",");
        size_t kept = len < sizeof(entry) ? len : sizeof(entry) - 1;
        memcpy(entry, at, kept);
        entry[kept] = '\0';
        memcpy(copy, entry, sizeof(copy));
        if (kept < len || !parse_entry(entry, plan)) {
            dw_explain(why,
                       DW_FAULT_VARIABLE
                       ": cannot read '%s'; it is a list of drop=P, dup=P, "
                       "reorder=P, corrupt=P, delay=P (0..1), delay_us=N, seed=N, "
                       "exact, report",
                       copy);
            return -EINVAL;
        }
        at += len;
        if (*at == '\0') {
            return 0;
        }
    }
}

/* ---- chance ------------------------------------------------------------------------------- */

/* Draws always, so that the faults of one kind do not depend on the others' probabilities. */
static bool strikes(struct fault *fault, double probability)
{
    return (double)(random_next(&fault->random_state) >> 11) * 0x1.0p-53 < probability;
}

/* ---- send --------------------------------------------------------------------------------- */

static int inner_send(struct fault *fault, const struct dw_llp_addr *to, void *bytes, uint32_t len,
                      bool whole, uint8_t flow)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = len};
    struct dw_llp_train one = {.to = to,
                               .iov = &iov,
                               .iov_count = 1,
                               .total_bytes = len,
                               .segment_bytes = len,
                               .flow = flow,
                               .whole = whole};
    return fault->inner->ops->send(fault->inner, &one);
}

/* False: no room. */
static bool hold(struct fault *fault, const struct dw_llp_addr *to, uint32_t len, uint32_t passes)
{
    uint8_t *bytes = fault->held_count < HELD_MAX ? malloc(len) : NULL;
    if (!bytes) {
        return false;
    }
    memcpy(bytes, fault->flat, len);
    fault->held[fault->held_count++] =
        (struct held){.bytes = bytes,
                      .len = len,
                      .to = *to,
                      .passes = passes,
                      .whole = fault->whole,
                      .flow = fault->flow,
                      .due_ns = fault->now_ns() + fault->plan.delay_ns};
    return true;
}

/* Sends what was overtaken often enough or is due; all, when the socket closes. What the socket
 * has no room for stays. */
static void release(struct fault *fault, bool all)
{
    uint64_t now = fault->held_count > 0 ? fault->now_ns() : 0;
    unsigned kept = 0;
    for (unsigned i = 0; i < fault->held_count; i++) {
        struct held held = fault->held[i];
        bool ready = all || held.passes == 0 || held.due_ns <= now;
        if (!ready ||
            inner_send(fault, &held.to, held.bytes, held.len, held.whole, held.flow) == -EAGAIN) {
            fault->held[kept++] = held;
            continue;
        }
        free(held.bytes);
    }
    fault->held_count = kept;
}

static void count_pass(struct fault *fault)
{
    for (unsigned i = 0; i < fault->held_count; i++) {
        if (fault->held[i].passes != NEVER && fault->held[i].passes > 0) {
            fault->held[i].passes--;
        }
    }
}

/* The datagram in fault->flat meets its fate. */
static int send_datagram(struct fault *fault, const struct dw_llp_addr *to, uint32_t len)
{
    const struct dw_fault_plan *plan = &fault->plan;
    struct dw_fault_counts *counts = &fault->counts;
    bool drop = strikes(fault, plan->drop);
    bool dup = strikes(fault, plan->dup);
    bool reorder = strikes(fault, plan->reorder);
    bool corrupt = strikes(fault, plan->corrupt);
    bool delay = strikes(fault, plan->delay);
    uint64_t detail = random_next(&fault->random_state);

    counts->datagrams++;
    if (drop) {
        counts->dropped++;
        return 0;
    }
    if (corrupt && len > 0) {
        fault->flat[detail / 8 % len] ^= (uint8_t)(1u << detail % 8);
        counts->corrupted++;
    }
    if (delay && hold(fault, to, len, NEVER)) {
        counts->delayed++;
    } else if (reorder && hold(fault, to, len, 1 + (uint32_t)(detail >> 48) % REORDER_MAX)) {
        counts->reordered++;
    } else {
        int rc = inner_send(fault, to, fault->flat, len, fault->whole, fault->flow);
        if (rc < 0) {
            return rc;
        }
        count_pass(fault);
    }
    if (dup) {
        counts->duplicated++;
        inner_send(fault, to, fault->flat, len, fault->whole, fault->flow);
    }
    return 0;
}

struct gather {
    const struct iovec *iov;
    size_t used;
};

static void gather_next(struct gather *gather, uint8_t *to, size_t bytes)
{
    while (bytes > 0) {
        size_t left = gather->iov->iov_len - gather->used;
        size_t take = left < bytes ? left : bytes;
        memcpy(to, (const uint8_t *)gather->iov->iov_base + gather->used, take);
        to += take;
        bytes -= take;
        gather->used += take;
        if (take == left) {
            gather->iov++;
            gather->used = 0;
        }
    }
}

static int fault_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    struct fault *fault = (struct fault *)llp;
    struct gather gather = {.iov = train->iov};
    uint32_t sent = 0;
    int rc = 0;

    pthread_mutex_lock(&fault->lock);
    fault->whole = train->whole;
    fault->flow = train->flow;
    do {
        uint32_t left = train->total_bytes - sent;
        uint32_t len = left < train->segment_bytes ? left : train->segment_bytes;
        gather_next(&gather, fault->flat, len);
        rc = send_datagram(fault, train->to, len);
        if (rc < 0) {
            break;
        }
        sent += len;
    } while (sent < train->total_bytes);
    release(fault, false);
    llp->gso = fault->inner->gso;
    pthread_mutex_unlock(&fault->lock);
    return sent == 0 ? rc : 0;
}

/* ---- the rest ----------------------------------------------------------------------------- */

static int fault_recv(struct dw_llp *llp, uint8_t *buf, uint32_t *segment_bytes)
{
    struct fault *fault = (struct fault *)llp;
    if (pthread_mutex_trylock(&fault->lock) == 0) {
        release(fault, false);
        pthread_mutex_unlock(&fault->lock);
    }
    return fault->inner->ops->recv(fault->inner, buf, segment_bytes);
}

static int fault_icmp(struct dw_llp *llp, struct dw_llp_addr *to)
{
    struct fault *fault = (struct fault *)llp;
    pthread_mutex_lock(&fault->lock);
    int told = fault->inner->ops->icmp(fault->inner, to);
    pthread_mutex_unlock(&fault->lock);
    return told;
}

static uint64_t fault_share(struct dw_llp *llp, uint64_t key, unsigned key_at)
{
    struct dw_llp *inner = ((const struct fault *)llp)->inner;
    llp->forwarded_fd = -1;
    if (inner->ops->share) {
        key = inner->ops->share(inner, key, key_at);
        llp->forwarded_fd = inner->forwarded_fd;
    }
    return key;
}

static bool fault_forward(struct dw_llp *llp, uint64_t key, const uint8_t *buf, uint32_t bytes)
{
    struct dw_llp *inner = ((const struct fault *)llp)->inner;
    return inner->ops->forward && inner->ops->forward(inner, key, buf, bytes);
}

/* What it damages does not stay in memory. */
static uint32_t fault_path_mtu_bytes(struct dw_llp *llp, const struct dw_llp_addr *to)
{
    struct dw_llp *inner = ((const struct fault *)llp)->inner;
    return inner->ops->path_mtu_bytes ? inner->ops->path_mtu_bytes(inner, to) : 0;
}

static void report(const struct fault *fault)
{
    const struct dw_fault_counts *counts = &fault->counts;
    fprintf(stderr,
            "diwarp faults: port %u seed %llu: %llu datagrams, %llu dropped, %llu duplicated, "
            "%llu reordered, %llu corrupted, %llu delayed\n",
            (unsigned)fault->llp.port, (unsigned long long)fault->plan.seed,
            (unsigned long long)counts->datagrams, (unsigned long long)counts->dropped,
            (unsigned long long)counts->duplicated, (unsigned long long)counts->reordered,
            (unsigned long long)counts->corrupted, (unsigned long long)counts->delayed);
}

static void fault_close(struct dw_llp *llp)
{
    struct fault *fault = (struct fault *)llp;
    release(fault, true);
    for (unsigned i = 0; i < fault->held_count; i++) {
        free(fault->held[i].bytes);
    }
    if (fault->plan.report) {
        report(fault);
    }
    fault->inner->ops->close(fault->inner);
    pthread_mutex_destroy(&fault->lock);
    free(fault);
}

static void fault_add_memory(const struct dw_llp *llp, struct diwarp_memory *memory)
{
    const struct dw_llp *inner = ((const struct fault *)llp)->inner;
    inner->ops->add_memory(inner, memory);
}

static const struct dw_llp_ops fault_ops = {
    .send = fault_send,
    .recv = fault_recv,
    .share = fault_share,
    .forward = fault_forward,
    .icmp = fault_icmp,
    .path_mtu_bytes = fault_path_mtu_bytes,
    .close = fault_close,
    .add_memory = fault_add_memory,
};

int dw_fault_wrap(struct dw_llp *inner, const struct dw_fault_plan *plan, uint64_t (*now_ns)(void),
                  struct dw_llp **llp)
{
    struct fault *fault = calloc(1, sizeof(*fault));
    if (!fault) {
        return -ENOMEM;
    }
    if (pthread_mutex_init(&fault->lock, NULL) != 0) {
        free(fault);
        return -ENOMEM;
    }
    fault->llp = *inner;
    fault->llp.ops = &fault_ops;
    fault->llp.told = true;
    fault->inner = inner;
    fault->plan = *plan;
    fault->now_ns = now_ns ? now_ns : clock_ns;
    fault->random_state = plan->seed;
    if (!plan->exact) {
        fault->random_state ^= (uint64_t)getpid() << 32;
    }
    *llp = &fault->llp;
    return 0;
}

const struct dw_fault_counts *dw_fault_query_counts(const struct dw_llp *llp)
{
    return &((const struct fault *)llp)->counts;
}

int dw_fault_open(void *arg, const struct diwarp_device_attr *attr, const struct dw_llp_addr *at,
                  struct diwarp_counters *counters, struct dw_llp **llp,
                  struct diwarp_diagnosis *why)
{
    const char *text = getenv(DW_FAULT_VARIABLE);
    struct dw_fault_plan plan;
    struct dw_llp *inner;

    if (!text || *text == '\0') {
        return dw_udp_open(arg, attr, at, counters, llp, why);
    }
    int rc = dw_fault_parse(text, &plan, why);
    if (rc == 0) {
        rc = dw_udp_open(arg, attr, at, counters, &inner, why);
    }
    if (rc) {
        return rc;
    }
    rc = dw_fault_wrap(inner, &plan, NULL, llp);
    if (rc) {
        dw_explain(why, "out of memory");
        inner->ops->close(inner);
    }
    return rc;
}

int diwarp_open_device(const struct diwarp_device_attr *attr, struct diwarp_device **device,
                       struct diwarp_diagnosis *why)
{
    const struct dw_env env = {.open_llp = dw_fault_open};
    return dw_device_open(attr, &env, device, why);
}
