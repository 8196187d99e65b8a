/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BTL of Open MPI 4.1, 5.0 and 6.0 over diwarp: one component, one module; one reliable
 * datagram QP, or, with another transport, an RC QP per peer (btl_diwarp_rc.h). It maps BTL calls
 * to work requests of common/include/diwarp.h and completions to BTL callbacks, and knows nothing
 * of bytes on the wire, windows or retries.
 *
 * Threads: any thread may call the module's functions. Completions and receive callbacks run in one
 * thread at a time, the one that polls: in mca_btl_diwarp_progress(), from which others return at
 * once, or the helper, where the PML allows that (btl_diwarp_cores.c); but those of accesses to the
 * process's own memory, which run in the call (btl_diwarp_rdma.c).
 */
#pragma once

#include "btl_diwarp/btl_diwarp_openmpi.h"

#include "opal/class/opal_free_list.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"

#include "common/include/diwarp.h"
#include "common/include/diwarp_helper.h"
#include "common/include/diwarp_rc.h"

#include <pthread.h>
#include <sched.h>
#include <sys/queue.h>
#include <time.h>

/* The object of `type` whose `member` lies at `pointer`. */
#define MCA_BTL_DIWARP_OWNER(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Beyond so many, requests to an endpoint wait in btl_diwarp_work.c and not in the core, where each
 * takes 300 bytes; beyond as many more, one-sided callers are turned away. */
#define MCA_BTL_DIWARP_QUEUE_WRS 8192
/* Of one sleep, at most: so late may what comes without a sign be seen. Half of it takes twice as
 * many turns from other ranks on the core. */
#define MCA_BTL_DIWARP_SLEEP_NS 1000000
/* ob1's tag of "the RDMA you asked for is done" (MCA_PML_OB1_HDR_TYPE_FIN): part of the ABI between
 * ob1 processes, though not of the headers a BTL may include. */
#define MCA_BTL_DIWARP_TAG_FIN (MCA_BTL_TAG_PML + 9)
/* An ibv_sge has a 32-bit length. */
#define MCA_BTL_DIWARP_RDMA_MAX_BYTES (1u << 30)
/* Of what leads a Send's payload over RC: the tag, then zeros to align the PML's headers. */
#define MCA_BTL_DIWARP_HEADER_BYTES 8

/* A help text that begins with the local host. mpirun's relay of them loses one now and then, so
 * what stops diwarp from being used is also said in one line. */
#define MCA_BTL_DIWARP_HELP(topic, ...) \
    opal_show_help("help-mpi-btl-diwarp.txt", topic, true, opal_process_info.nodename, __VA_ARGS__)
#define MCA_BTL_DIWARP_SAY(format, ...) opal_output(0, "btl:diwarp: " format, __VA_ARGS__)
#define MCA_BTL_DIWARP_VERBOSE(level, format, ...)                                              \
    opal_output_verbose(level, opal_btl_base_framework.framework_output, "btl:diwarp: " format, \
                        __VA_ARGS__)

/* The adapter's own; the core has others. */
#define MCA_BTL_DIWARP_COUNTERS(X)                                                             \
    X(fin_msgs_on_wire, "messages", "FIN messages that the PML sent as messages of their own") \
    X(fin_in_release, "messages", "FIN messages carried inside record-complete")               \
    X(rx_unknown_tag, "messages", "dropped: a message with a tag nobody has registered")       \
    X(waiting_for_room, "requests", "work requests that waited for room in the send queue")    \
    X(failed_accesses, "requests", "puts, gets and atomics that failed: most are refused")     \
    X(helper_yields, "polls", "progress calls that gave the core to the helper amid its work") \
    X(rc_crossed, "connections", "both sides had called: our call gave way to the peer's")

struct mca_btl_diwarp_counters {
    MCA_BTL_DIWARP_COUNTERS(DIWARP_FIELD)
};

enum mca_btl_diwarp_transport_type {
    MCA_BTL_DIWARP_RD,     /* one reliable datagram QP */
    MCA_BTL_DIWARP_RC,     /* a connection per peer, with receives of its own */
    MCA_BTL_DIWARP_RC_SRQ, /* a connection per peer, with shared receives */
};

enum mca_btl_diwarp_rc_connect { MCA_BTL_DIWARP_RC_ON_DEMAND, MCA_BTL_DIWARP_RC_AT_INIT };

/* MCA parameters as the user gave them; btl_diwarp_params.c has meanings and ranges. */
extern struct mca_btl_diwarp_params {
    struct diwarp_device_attr device; /* what is the core's, but for these: */
    unsigned port_min, port_max;
    unsigned ack_delay_us, rto_min_us, queue_delay_us, peer_timeout_s;

    unsigned finalize_timeout_ms, blocking_polls;
    int progress_thread, blocking; /* enum diwarp_switch */
    int transport;                 /* enum mca_btl_diwarp_transport_type */
    int rc_connect;                /* enum mca_btl_diwarp_rc_connect */
    unsigned rc_recv_buffers, rc_recv_bytes, rc_srq_buffers, rc_mpa_revision;
    int rc_markers, rc_coalesce, stats, memory_report; /* DIWARP_OFF or DIWARP_ON */
} mca_btl_diwarp_params;

struct mca_btl_diwarp_module;
struct mca_btl_diwarp_work; /* btl_diwarp_work.h */

/* A known peer; small, for each process has one. All but proc and ah under the module's lock. */
typedef struct mca_btl_base_endpoint_t {
    opal_proc_t *proc;    /* borrowed: the BML holds it until del_procs; NULL: nobody is told of the
                           * end of what is under way */
    struct diwarp_ah *ah; /* RD */
    struct mca_btl_diwarp_work *waiting; /* the newest, whose next is the oldest; NULL: none */
    LIST_HEAD(, mca_btl_diwarp_work) posted;
    unsigned waiting_count, posted_count;
    bool fence_waits;    /* one with a fence is among what waits, or was */
    uint64_t unnumbered; /* bit i: ob1's last message of a communicator whose number has these
                          * lowest bits had the number 0; by any thread */
} mca_btl_base_endpoint_t;

/* What differs between transports. */
struct mca_btl_diwarp_transport {
    /* Sets module->address. 0 or negative errno; *what names the step that failed. */
    int (*open)(struct mca_btl_diwarp_module *module, const char **what,
                struct diwarp_diagnosis *why);
    /* Gives peers what they wait for, then everything back; harmless when nothing is open. */
    void (*close)(struct mca_btl_diwarp_module *module);
    /* 0 or negative errno; -ENETUNREACH: no interface leads to the address. */
    int (*endpoint_create)(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                           const struct diwarp_address *address,
                           mca_btl_base_endpoint_t **endpoint);
    /* With the module's lock `polling`, as the next two. */
    void (*endpoint_destroy)(struct mca_btl_diwarp_module *module,
                             mca_btl_base_endpoint_t *endpoint);
    void (*on_completions)(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc,
                           int count);
    /* Open MPI has found its process to be lost: no memory is written or read for it any more.
     * NULL: regions that are deregistered are enough for that. 0 or -ENOMEM. */
    int (*endpoint_give_up)(mca_btl_base_endpoint_t *endpoint);
    /* While nothing comes, in the application's thread; NULL: there is nothing to do then. */
    void (*on_nothing)(struct mca_btl_diwarp_module *module);
    /* A request waits for a connection to the endpoint. RC; over RD no post returns -ENOTCONN. */
    void (*connect)(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint);
    /* Under the module's lock. As diwarp_post_send(); -ENOMEM: to be tried again when there is
     * room, -ENOTCONN: when there is a connection. */
    int (*post_send)(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint,
                     const struct diwarp_send_wr *wr);
};

extern const struct mca_btl_diwarp_transport mca_btl_diwarp_transport_rd,
    mca_btl_diwarp_transport_rc;

/* What is kept for use: send descriptors by the payload they have room for, and others. */
enum mca_btl_diwarp_list {
    MCA_BTL_DIWARP_FRAG_SMALL,  /* control messages */
    MCA_BTL_DIWARP_FRAG_MEDIUM, /* what would waste most of a large one */
    MCA_BTL_DIWARP_FRAG_LARGE,
    MCA_BTL_DIWARP_RDMAS, /* struct mca_btl_diwarp_rdma */
    MCA_BTL_DIWARP_LISTS
};

/* A message that the helper received, and an application's thread is to deliver. */
struct mca_btl_diwarp_held {
    STAILQ_ENTRY(mca_btl_diwarp_held) next;
    struct diwarp_name from;
    uint32_t tag;
    size_t len;
    _Alignas(max_align_t) unsigned char data[];
};

/* One poll may bring 31 more. */
#define MCA_BTL_DIWARP_HELD_MOST 32

/* Of the core that progress polls on, when it was looked at last. */
struct mca_btl_diwarp_core_use {
    pthread_t thread;            /* that looked */
    uint64_t wall_ns, cpu_ns;    /* the time, and what the thread has had of it */
    long preemptions;            /* of the thread */
    uint64_t contended_until_ns; /* 0: it is not, as far as is known */
};

struct mca_btl_diwarp_module {
    mca_btl_base_module_t super;

    /* What each call and poll looks at. */
    const struct mca_btl_diwarp_transport *transport;
    struct diwarp_cq *cq;         /* NULL before init and after finalize */
    struct diwarp_qp *qp;         /* NULL over RC */
    struct mca_btl_diwarp_rc *rc; /* NULL over RD (btl_diwarp_rc.h) */
    opal_atomic_lock_t polling;   /* by whom polls and calls back, or runs the RNIC: received data
                                   * lives until the next poll, so none is within a callback */
    bool blocking;                /* progress sleeps when nothing comes */
    bool may_block;               /* it may, where the core is contended */
    bool alone;                   /* no other BTL is there that may be waited for */
    bool kept_out;                /* progress found the helper at work, and wants to poll */
    unsigned long polls;          /* progress calls */
    pthread_t caller;             /* who polls, while it runs callbacks; else 0 */
    struct mca_btl_diwarp_ending_read *ending; /* its, while the callback of a get runs */
    unsigned empty_polls;                      /* in a row */
    uint64_t empty_since_ns;                   /* the first of them */
    unsigned vain_looks; /* in a row, since something was posted; by any thread */
    uint64_t looked_ns;  /* the last, once looks are rare */
    struct mca_btl_diwarp_core_use core_use;

    opal_mutex_t lock;                         /* of what is under way, and of RC's endpoints */
    TAILQ_HEAD(, mca_btl_diwarp_work) waiting; /* the oldest that waits for each endpoint */
    struct mca_btl_diwarp_counters counters;
    opal_free_list_t lists[MCA_BTL_DIWARP_LISTS];

    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_address address; /* ours, for peers */
    char peers[512];               /* of rank 0, as text for mca_btl_diwarp_show_job */

    bool threaded;                /* the program asked for threads */
    unsigned cores;               /* that this process may run on; 0: unknown */
    uint32_t cores_id;            /* stands for the set of them, where that is known */
    unsigned mates;               /* ranks added that run on the same */
    unsigned turns;               /* ranks for each core, rounded up; 1: nobody waits */
    unsigned endpoints;           /* none left: the PML is about to go */
    struct diwarp_helper *helper; /* NULL: it was not started */
    bool helper_calls_back;       /* the PML is protected against a second thread */
    bool helper_polls;            /* the lock `polling` is the helper's */
    int helper_cpu;               /* where it runs the RNIC; -1: it does not */

    void *lost; /* Open MPI's group of lost processes, as of the last poll; kept, for another one
                 * could get its address */
    bool has_other_jobs; /* processes of such were added, and this job goes on without a lost one */
    uint64_t ask_ns;     /* when those are next asked whether they are still there */
    STAILQ_HEAD(, mca_btl_diwarp_held) held; /* the oldest first */
    unsigned held_count; /* with MCA_BTL_DIWARP_HELD_MOST the helper polls no more */

    mca_btl_base_module_error_cb_fn_t error_cb;
    bool silent_told;  /* a peer was never heard, and the user knows */
    bool gone_told;    /* a peer is gone: one line is enough where that ends the job */
    bool failure_told; /* of an access */
};

/* Something was posted, which leaves with a poll, or came. */
static inline void mca_btl_diwarp_look_soon(struct mca_btl_diwarp_module *module)
{
    if (__atomic_load_n(&module->vain_looks, __ATOMIC_RELAXED))
        __atomic_store_n(&module->vain_looks, 0, __ATOMIC_RELAXED);
}

static inline uint64_t mca_btl_diwarp_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Locks module->polling as soon as nobody else polls; not within a callback. */
static inline void mca_btl_diwarp_polling_wait(struct mca_btl_diwarp_module *module)
{
    while (opal_atomic_trylock(&module->polling))
        sched_yield();
}

/* True in the thread, and while, it runs callbacks: no other finds its name in `caller`. */
static inline bool mca_btl_diwarp_in_progress(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->caller, __ATOMIC_RELAXED) == pthread_self();
}

/* With the lock `polling` (btl_diwarp_progress.c); returns how many completions there were. */
int mca_btl_diwarp_poll_and_call_back(struct mca_btl_diwarp_module *module);
int mca_btl_diwarp_progress(struct mca_btl_diwarp_module *module);
/* Polls once, without sleeping; nothing within a callback or while another thread polls. */
void mca_btl_diwarp_look(struct mca_btl_diwarp_module *module);
/* Frees the messages that nobody took before MPI_Finalize. */
void mca_btl_diwarp_drop_held(struct mca_btl_diwarp_module *module);
/* A message for whoever registered its tag; what the helper brings may wait in module->held. Tag
 * and data are a peer's and not to be trusted. endpoint: whose it is; NULL over RD, which looks it
 * up by `from` where somebody asks (btl_diwarp_openmpi4.c, ...5.c). */
void mca_btl_diwarp_deliver(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint,
                            const struct diwarp_name *from, uint32_t tag, void *data, size_t len);

/* Parameters (btl_diwarp_params.c), those of the module (eager_limit and such) included. */
int mca_btl_diwarp_params_register(struct mca_btl_diwarp_module *module);
/* Checks ranges and fits the module's limits to what the core can do. False: told the user why. */
bool mca_btl_diwarp_params_check(struct mca_btl_diwarp_module *module);
/* The core's attributes, by the parameters; all but `threaded`. */
struct diwarp_device_attr mca_btl_diwarp_params_device(void);
/* Bytes that the QP sends and takes over RD. */
uint32_t mca_btl_diwarp_longest_send(const struct mca_btl_diwarp_module *module);

/* Defaults of osc/rdma (btl_diwarp_osc.c). init: within btl_init, later is too late. */
void mca_btl_diwarp_osc_init(void);
void mca_btl_diwarp_osc_fini(void);

/* Looks on which cores we may run, before any peer is known, and starts the helper where the user
 * wants it (btl_diwarp_cores.c). multiple: the program asked for MPI_THREAD_MULTIPLE. 0, -EAGAIN.
 */
int mca_btl_diwarp_cores_init(struct mca_btl_diwarp_module *module, bool multiple);
/* Processes were added: counts those on our cores, and sets what depends on that. */
void mca_btl_diwarp_cores_on_procs(struct mca_btl_diwarp_module *module, opal_proc_t **procs,
                                   size_t nprocs);

/* Peers (btl_diwarp_peer.c). */
int mca_btl_diwarp_modex_send(const struct mca_btl_diwarp_module *module);
/* What a process has put there under the component's name; the caller frees it. 0; -ENOENT: it did
 * not; -ESHUTDOWN: it has ended, and the job goes on without it. */
int mca_btl_diwarp_modex_recv(const mca_base_component_t *component, const opal_proc_t *proc,
                              unsigned char **bytes, size_t *len);
/* The address of a process; of ourselves without the modex, which need not know us. 0; -ESHUTDOWN:
 * it has ended, and the address is ours under its name: a handle to it is to be given up at once
 * (over RC a call fails likewise); else the peer does not use diwarp, or another wire version or
 * transport, of which the user has been told. */
int mca_btl_diwarp_peer_address(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                                struct diwarp_address *address);
/* cores_id of that process, or 0. */
uint32_t mca_btl_diwarp_modex_cores_id(const struct mca_btl_diwarp_module *module,
                                       const opal_proc_t *proc);
/* Our address and how it was opened, for who asks Open MPI to be verbose. */
void mca_btl_diwarp_show_opened(const struct mca_btl_diwarp_module *module, const char *how);
/* Rank 0 tells verbose users at the end which transport the job used, and the peers noted. */
void mca_btl_diwarp_show_job(const struct mca_btl_diwarp_module *module, const char *transport);
void mca_btl_diwarp_peer_note(struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                              const struct diwarp_address *address);
struct diwarp_name mca_btl_diwarp_peer_name(const mca_btl_base_endpoint_t *endpoint);
/* "unknown" where Open MPI does not know either. */
const char *mca_btl_diwarp_peer_host(const struct diwarp_name *name);
/* Tells the user that no interface leads to a peer. */
void mca_btl_diwarp_peer_show_unreachable(const struct mca_btl_diwarp_module *module,
                                          const opal_proc_t *proc,
                                          const struct diwarp_address *peer);
/* Tells the PML, which ends the job, or goes on without proc (NULL: of none); info is printed. */
void mca_btl_diwarp_fail(struct mca_btl_diwarp_module *module, opal_proc_t *proc, char *info);
/* Tells the user and the PML; where that ends the job, of the first peer only. topic: the help
 * text; why: how it was lost; NULL: it was silent for as long as it may be. */
void mca_btl_diwarp_peer_on_gone(struct mca_btl_diwarp_module *module,
                                 const struct diwarp_name *name, const char *topic,
                                 const char *why);
/* An OPAL code for a request's end. If the peer is gone, and that ends the job, tells of it. */
int mca_btl_diwarp_peer_status(struct mca_btl_diwarp_module *module,
                               const mca_btl_base_endpoint_t *endpoint, enum ibv_wc_status status);

/* What peers need of a registration, sent as raw bytes: the part of a struct diwarp_mr that begins
 * with its STag. osc/rdma lays its state out behind handles, so the size is a multiple of 8. */
struct mca_btl_base_registration_handle_t {
    uint32_t stag, reserved;
};

/* Counters and memory (btl_diwarp_pvars.c), of this module. */
int mca_btl_diwarp_pvars_register(const struct mca_btl_diwarp_module *module);
/* One line per counter through opal_output. */
void mca_btl_diwarp_counters_dump(const struct mca_btl_diwarp_module *module);
/* Where the user wants it: notes what there is, while most peers are known; prints that line. */
void mca_btl_diwarp_memory_note(const struct mca_btl_diwarp_module *module);
void mca_btl_diwarp_memory_report(const struct mca_btl_diwarp_module *module);
