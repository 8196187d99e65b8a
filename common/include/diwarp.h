/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diwarp: a software RNIC that speaks datagram-iWARP (DDP/RDMAP over UDP). Objects and work
 * requests are libibverbs' own, held in containing structs for what verbs lack.
 *
 * Threads: a device opened with `threaded` lets any thread post, register and query at any time;
 * diwarp_poll_cq() is for one thread at a time per CQ. There is no hidden thread: the RNIC works
 * inside diwarp_poll_cq() and, for the first flight, inside posts. diwarp_helper.h has one that
 * runs it while the application does not.
 *
 * Errors: functions that return int give 0 (or a documented count) or a negative errno value.
 */
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define DIWARP_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define DIWARP_EXPORT __attribute__((visibility("default")))
#endif

/* A process, unique among all that may talk to each other (Open MPI: job id and rank). */
struct diwarp_name {
    uint32_t job, rank;
};

/* One local interface a QP can be reached through. */
struct diwarp_interface {
    char name[16];
    uint8_t family; /* AF_INET or AF_INET6 */
    uint8_t prefix_bits;
    bool loopback;
    uint32_t mtu_bytes;
    uint8_t ip[16]; /* network order; IPv4 in the first 4 bytes */
};

#define DIWARP_MAX_INTERFACES 8
#define DIWARP_MAX_FLOWS      8
/* Interfaces that other hosts have with the same address: never a way to reach them. */
#define DIWARP_IF_EXCLUDE_DEFAULT "docker0,virbr0,lxcbr0"

/* What keeps those out who can read and write on the network between two processes. */
enum diwarp_auth {
    DIWARP_AUTH_OFF = 0,     /* nothing */
    DIWARP_AUTH_GMAC = 1,    /* each datagram has a tag: nobody can forge or repeat one */
    DIWARP_AUTH_AES_GCM = 2, /* nor read what is in it */
};
#define DIWARP_SECRET_BYTES 16

/* Where a QP can be reached; goes to peers out of band (the modex). With `auth` it is a secret
 * among them. */
struct diwarp_address {
    struct diwarp_name name;
    uint64_t token;       /* random; a datagram that does not carry it is dropped */
    uint64_t host_id;     /* tells whether two processes share one loopback interface */
    uint32_t incarnation; /* random: differs each time a process of this name starts again; 0: not
                           * told, it is then that of the first datagram that comes from there */
    uint32_t qpn;         /* 24 bits: which datagram QP of the process; 0: of a listener (RC) */
    uint16_t port;        /* UDP, host order */
    uint8_t interface_count;
    uint8_t auth;                        /* enum diwarp_auth: the same for all */
    uint32_t auth_key_id;                /* tells key files apart; 0: none */
    uint8_t secret[DIWARP_SECRET_BYTES]; /* who knows it can speak for whoever speaks to it */
    struct diwarp_interface interfaces[DIWARP_MAX_INTERFACES];
};

/* Network form of an address. pack returns the bytes written, at most these, or -ENOSPC; unpack
 * -EPROTO when the bytes are no address (-EPROTONOSUPPORT: of another version). */
#define DIWARP_ADDRESS_MAX_BYTES 256
DIWARP_EXPORT int diwarp_address_pack(const struct diwarp_address *address, void *buf, size_t len);
DIWARP_EXPORT int diwarp_address_unpack(struct diwarp_address *address, const void *buf,
                                        size_t len);

/* ---- device ------------------------------------------------------------------------------- */

enum diwarp_switch { DIWARP_OFF = 0, DIWARP_ON = 1, DIWARP_AUTO = 2 };

/* diwarp_device_attr_init() gives defaults for all of it. Strings are borrowed during the call. */
struct diwarp_device_attr {
    struct diwarp_name name;
    uint64_t token;              /* of its QPs and listeners, told with their addresses; its last
                                  * byte 0; 0: random ones */
    const char *if_include;      /* "eth0,10.1.0.0/16"; NULL or empty: all that are up */
    const char *if_exclude;      /* names or CIDR; ignored when if_include is set */
    uint16_t port_min, port_max; /* 0, 0: any free port; port_max 0: port_min only. Where
                                  * the range has too few, processes of a user share ports */
    uint32_t flows; /* 1..8, UDP source ports that large transfers to another host leave from, for
                     * networks that spread flows over links (ECMP) or limit each */
    uint32_t rcvbuf_bytes, sndbuf_bytes; /* asked of the socket; 0: the system's default */
    uint32_t datagram_max_bytes; /* of UDP payload; 0: by the path's MTU, peers' receive buffers */
    enum diwarp_switch gso, gro;
    enum diwarp_switch crc;    /* of each datagram; OFF: the UDP checksum. Both ends must agree */
    enum diwarp_auth auth;     /* instead of the CRC, of UD and RD; needs libcrypto */
    const char *auth_key_file; /* a further secret, of all processes, that only their user may read;
                                * NULL or empty: addresses alone tell the secrets */
    /* To which peers loopback and addresses that both have lead. AUTO: to those in our network
     * namespace (by /proc) and, where nothing else leads, to those whose interfaces have all our
     * hardware and IP addresses. ON: to all where nothing else leads, too. OFF: to none. */
    enum diwarp_switch same_host;
    bool threaded;
    uint64_t ack_delay_ns;    /* longest wait before a standalone acknowledgement */
    uint64_t rto_min_ns;      /* floor of the measured time-out, where nothing was lost lately */
    uint64_t peer_timeout_ns; /* silence, with data owed, after which a peer is gone; 0: never. If
                               * ICMP denies its port 1 to 2 s, on this host 500 ms */
    uint64_t queue_delay_ns; /* in queues on the way to a peer, before its window shrinks; 0: any */
    uint32_t send_window_datagrams; /* 1..256, unacknowledged datagrams per peer */
    uint32_t send_pool_bytes;       /* bound of the memory held by unacknowledged datagrams */
    uint32_t record_window_bytes;   /* most of records under way to us, and no more than SO_RCVBUF
                                     * takes; 0: 1 MiB, 4 MiB with shared_cores or rare polls */
    bool shared_cores;              /* this process and others take turns on its cores */
};

/* Why diwarp_open_device() or diwarp_create_qp() failed, for people. */
struct diwarp_diagnosis {
    char text[256];
};

DIWARP_EXPORT void diwarp_device_attr_init(struct diwarp_device_attr *attr);
struct diwarp_device;
/* -ENODEV: no interface passes the filters. -EINVAL: one is neither an interface of this host nor a
 * CIDR, or the key file is too short; -EACCES: others may read it; -ENOTSUP: no libcrypto. `why`,
 * which may be NULL, names it. */
DIWARP_EXPORT int diwarp_open_device(const struct diwarp_device_attr *attr,
                                     struct diwarp_device **device, struct diwarp_diagnosis *why);
/* Every QP, CQ and PD must have been destroyed. */
DIWARP_EXPORT void diwarp_close_device(struct diwarp_device *device);

struct diwarp_device_info {
    struct diwarp_interface interfaces[DIWARP_MAX_INTERFACES];
    unsigned interface_count;
    unsigned left_out_count; /* would do as well, but are more than DIWARP_MAX_INTERFACES */
    const char *crc_path;    /* "vpclmulqdq", "sse4.2", "portable", "off"; or how datagrams are
                              * authenticated: "gmac", "aes-gcm" */
    uint32_t rmem_max_bytes, wmem_max_bytes;
};
DIWARP_EXPORT void diwarp_query_device(const struct diwarp_device *device,
                                       struct diwarp_device_info *info);

/* ---- counters and memory ------------------------------------------------------------------ */

/* For the lists of X(name, unit, meaning), which feed structs, the dump, MPI_T and the manual. */
#define DIWARP_FIELD(name, unit, meaning) uint64_t name;

#define DIWARP_COUNTERS(X)                                                                       \
    X(tx_datagrams, "datagrams", "datagrams handed to the LLP")                                  \
    X(tx_bytes, "bytes", "UDP payload bytes handed to the LLP")                                  \
    X(tx_syscalls, "calls", "send calls")                                                        \
    X(tx_eagain, "calls", "send calls refused because the socket buffer was full")               \
    X(tx_send_msgs, "messages", "Send messages posted")                                          \
    X(tx_coalesced_msgs, "messages", "Send messages that shared an earlier message's datagram")  \
    X(tx_write_msgs, "messages", "RDMA writes posted")                                           \
    X(tx_read_msgs, "messages", "RDMA reads posted")                                             \
    X(tx_atomic_msgs, "messages", "atomic operations posted")                                    \
    X(tx_record_segments, "segments", "Write-Record segments sent, resent ones included")        \
    X(tx_record_bytes, "bytes", "Write-Record payload sent, resent bytes included")              \
    X(tx_resent_datagrams, "datagrams", "sequenced datagrams sent again")                        \
    X(tx_resent_record_bytes, "bytes", "Write-Record payload sent again")                        \
    X(tx_acks, "datagrams", "standalone acknowledgements sent")                                  \
    X(tx_probes, "datagrams", "probes sent to silent peers")                                     \
    X(tx_resets, "datagrams", "sources asked to prove where and which process they are")         \
    X(tx_record_status, "messages", "record status (credit, missing ranges) sent")               \
    X(tx_record_complete, "messages", "record-complete sent")                                    \
    X(rx_datagrams, "datagrams", "datagrams received")                                           \
    X(rx_bytes, "bytes", "UDP payload bytes received")                                           \
    X(rx_marked, "datagrams", "of those, marked by a queue on the way (ECN)")                    \
    X(rx_syscalls, "calls", "receive calls that found data")                                     \
    X(rx_empty_syscalls, "calls", "receive calls that found nothing")                            \
    X(rx_send_msgs, "messages", "Send messages delivered")                                       \
    X(rx_record_segments, "segments", "Write-Record segments placed")                            \
    X(rx_record_bytes, "bytes", "Write-Record payload placed for the first time")                \
    X(rx_records_complete, "records", "records whose validity map became full")                  \
    X(rx_records_partial, "records", "UD records handed over with holes")                        \
    X(rx_partial_msgs, "messages", "UD Sends given up with segments missing")                    \
    X(rx_dup_datagrams, "datagrams", "sequenced datagrams received again")                       \
    X(rx_dup_record_bytes, "bytes", "Write-Record payload received again")                       \
    X(drop_short, "datagrams", "dropped: shorter than its headers, or a length out of bounds")   \
    X(drop_version, "datagrams", "dropped: another wire version")                                \
    X(forwarded, "datagrams", "came for a process that shares the port, and were sent on")       \
    X(drop_token, "datagrams", "dropped: not this process's token (stranger, other job, scan)")  \
    X(drop_qpn, "segments", "dropped, of UD whole datagrams: no queue pair has that number")     \
    X(drop_qkey, "datagrams", "dropped: of UD, with another Q_Key than the queue pair has")      \
    X(drop_crc, "datagrams", "dropped: CRC32C wrong")                                            \
    X(drop_auth, "datagrams",                                                                    \
      "dropped: tag wrong, or sealed otherwise than here (btl_diwarp_auth)")                     \
    X(drop_replay, "datagrams", "dropped: sealed, but it has come before")                       \
    X(drop_source, "datagrams", "dropped: unknown source, or another incarnation of one")        \
    X(drop_window, "datagrams", "dropped: PSN beyond the receive window")                        \
    X(drop_header, "segments", "dropped: malformed DDP or RDMAP header")                         \
    X(drop_stag, "segments", "dropped: STag unknown, without the right, out of bounds or grant") \
    X(drop_no_buffer, "datagrams", "dropped: no receive buffer; the sender repeats it")          \
    X(drop_stale_record, "segments", "dropped: record unknown or already ended")                 \
    X(drop_truncated, "datagrams", "dropped: larger than the receive slot")                      \
    X(gso_fallbacks, "times", "GSO refused by the kernel for a destination")                     \
    X(tx_answers, "messages", "UD reads of others answered to the end")                          \
    X(drop_read, "segments", "dropped: UD reads of a source that has enough of them here")       \
    X(reads_expired, "operations", "UD reads that ended with bytes missing")                     \
    X(read_walks, "reads", "active UD reads whose time-out was looked at")                       \
    X(paths_narrowed, "times", "a path's MTU was said or found to be smaller")                   \
    X(ways_changed, "times", "peers of a host were found by another pair of interfaces")         \
    X(ways_left, "times", "of several ways that a peer's records came by one came to nothing")   \
    X(peers_active, "peers", "peers that hold protocol state now")                               \
    X(peers_gone, "peers", "peers declared gone")                                                \
    X(rdma_errors, "operations", "RDMA or atomic operations that ended in error")

struct diwarp_counters {
    DIWARP_COUNTERS(DIWARP_FIELD)
};

/* What is held now. total_bytes is the sum of those before it, all user memory; the kernel's
 * follows. */
#define DIWARP_MEMORY(X)                                                                        \
    X(base_bytes, "bytes", "device, PD, CQ with its ring, datagram QPs, LLP")                   \
    X(receive_bytes, "bytes", "receive arena and stage; posted receives (UD, SRQ)")             \
    X(assembly_bytes, "bytes", "messages of several datagrams that are being put together")     \
    X(send_pool_bytes, "bytes", "datagrams: open, unacknowledged, free; FPDUs (RC)")            \
    X(work_bytes, "bytes", "work requests: waiting, unacknowledged, free")                      \
    X(peer_bytes, "bytes", "active peers and their timers; RC QPs")                             \
    X(address_bytes, "bytes", "known addresses and the map to find them by")                    \
    X(record_bytes, "bytes", "records under way, with their maps")                              \
    X(region_bytes, "bytes", "memory regions and the map to find them by")                      \
    X(total_bytes, "bytes", "all of the above")                                                 \
    X(mapped_bytes, "bytes", "of these, pages taken from the system itself, as far as touched") \
    X(peers, "peers", "active peers, RC QPs")                                                   \
    X(addresses, "handles", "address handles")                                                  \
    X(sockets, "sockets", "sockets of the LLP")                                                 \
    X(socket_queue_bytes, "bytes", "kernel memory: what is queued in the sockets or reserved")  \
    X(socket_limit_bytes, "bytes", "how much the kernel may queue: SO_RCVBUF and SO_SNDBUF")    \
    X(socket_slab_bytes, "bytes", "kernel memory: the sockets themselves, inode, file, epoll item")

struct diwarp_memory {
    DIWARP_MEMORY(DIWARP_FIELD)
};

/* ---- protection domain, memory regions, completion queue ---------------------------------- */

/* stag serves as lkey and rkey. Read-only for the application. */
struct diwarp_mr {
    struct diwarp_pd *pd;
    void *addr;
    size_t length;
    uint32_t stag; /* random, never 0 */
    int access;    /* IBV_ACCESS_* */
    uint64_t iova; /* what requests, our own and those of peers, call addr */
};

DIWARP_EXPORT struct diwarp_pd *diwarp_alloc_pd(struct diwarp_device *device);
DIWARP_EXPORT void diwarp_dealloc_pd(struct diwarp_pd *pd);
/* No memory is pinned. NULL with errno on error. */
DIWARP_EXPORT struct diwarp_mr *diwarp_reg_mr(struct diwarp_pd *pd, void *addr, size_t length,
                                              int access);
/* Likewise; sge.addr of local requests and remote addresses of peers begin at `iova` instead of at
 * `addr`: iova + i is the byte at addr + i. 0: they are offsets. NULL with errno: EINVAL, too,
 * where iova + length wraps, or IBV_ACCESS_REMOTE_ATOMIC is set and iova is not aligned to 8 bytes
 * as addr is. */
DIWARP_EXPORT struct diwarp_mr *diwarp_reg_mr_iova(struct diwarp_pd *pd, void *addr, size_t length,
                                                   uint64_t iova, int access);
/* RD and UD: the STag serves this peer alone, until bound to another, so that it is of no use to
 * one that learns of it. No effect over RC, nor on requests of the application's own. */
DIWARP_EXPORT void diwarp_bind_mr(struct diwarp_mr *mr, struct diwarp_name peer);
/* Another PD of the device, other memory, other rights, under the same STag, whose windows have
 * been deregistered; as diwarp_dereg_mr(), and then as diwarp_reg_mr_iova(). -EINVAL, -ENOMEM,
 * -EEXIST (the other PD has that STag already): it is as before. */
DIWARP_EXPORT int diwarp_rereg_mr(struct diwarp_mr *mr, struct diwarp_pd *pd, void *addr,
                                  size_t length, uint64_t iova, int access);
/* A memory window: another STag, which must be hard to guess, for the `length` bytes of a region
 * that its requests call `iova`, and those of the window, too, unless IBV_ACCESS_ZERO_BASED is set:
 * then they are offsets within the window. Remote rights alone, no more than the region's local
 * ones allow. It ends by diwarp_dereg_mr(), before its region does; what a peer invalidates has no
 * access left. only: the context of the RC QPs that may
 * use it (diwarp_rc.h); NULL: all QPs of the PD. NULL with errno: EINVAL; EEXIST: the STag is
 * taken. */
DIWARP_EXPORT struct diwarp_mr *diwarp_open_window(const struct diwarp_mr *mr, uint32_t stag,
                                                   uint64_t iova, size_t length, int access,
                                                   const void *only);
/* The STag is dead when this returns: what peers still need it for ends in error there. What own
 * requests name must stay registered until they complete: keys are checked at the post only, but
 * those of receives over UD again at each datagram, which end with IBV_WC_LOC_PROT_ERR. */
DIWARP_EXPORT void diwarp_dereg_mr(struct diwarp_mr *mr);

/* Opcodes that libibverbs lacks, in wc.opcode. */
enum diwarp_wc_opcode {
    /* Target of a UD Write-Record: `record` is handed over, full or partial. */
    DIWARP_WC_RECORD = 0x1000,
    /* Source of an RDMA read: the reader is done; data/byte_len is its release. */
    DIWARP_WC_RELEASE,
    /* A peer is gone: `src` names it, wc.status is IBV_WC_RETRY_EXC_ERR, wc.vendor_err is one of
     * diwarp_gone. What was under way with it completes next. */
    DIWARP_WC_PEER_GONE,
    /* Of another host's process that a request waits for nothing has been heard for 1.5 s, nor
     * ever: `src` and wc.vendor_err as above; nothing ends. See diwarp_explain_peer(). */
    DIWARP_WC_PEER_SILENT,
};

enum diwarp_gone {
    DIWARP_GONE_SILENT,      /* for diwarp_device_attr.peer_timeout_ns */
    DIWARP_GONE_UNREACHABLE, /* its host answers that no process has its port (ICMP) */
    DIWARP_GONE_PROHIBITED,  /* a firewall answers that nothing is let through to it (ICMP) */
    DIWARP_GONE_NO_ROOM,     /* for one more answer to it: it takes none */
    DIWARP_GONE_TOO_LARGE,   /* what is sent to it, of wc.byte_len bytes, vanishes; less does not */
    DIWARP_GONE_NOT_SENT,    /* our own host refuses to send to it; wc.byte_len is the errno */
    DIWARP_GONE_RESTARTED,   /* another process has its name now; posts go to that one */
    DIWARP_GONE_GIVEN_UP,    /* by diwarp_give_up_ah() */
};

/* In wc.wc_flags of receives: the sender asked for an event (IBV_SEND_SOLICITED). */
enum { DIWARP_WC_SOLICITED = 1 << 17 };

/* wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.imm_data (with IBV_WC_WITH_IMM in wc.wc_flags)
 * and wc.invalidated_rkey (IBV_WC_WITH_INV) mean what they mean in verbs; imm_data is in host
 * order. wc.qp_num is the number of a datagram QP of ours, wc.src_qp that of the QP of `src` that a
 * receive or a release comes from. */
struct diwarp_wc {
    struct ibv_wc wc;
    struct diwarp_name src; /* receives, records, releases, gone peers */
    uint8_t src_ip[16];     /* receives of UD: IPv6, as the sender told last
                             * (diwarp_qp_attr.introduces); else zeros */
    uint64_t group;         /* receives and records: token of the group that it was sent to;
                             * 0: to the QP alone */
    const void *data;       /* RD receives, releases: valid until the CQ's next poll, or the end
                             * of its last QP */
    struct diwarp_record *record; /* DIWARP_WC_RECORD: owned by the application */
    uint64_t read_id;             /* IBV_WC_RDMA_READ posted with DIWARP_SEND_HOLD: see release */
    struct diwarp_rc_qp *rc_qp;   /* of an RC QP (diwarp_rc.h): which; else NULL */
    struct diwarp_connect_request *request; /* DIWARP_WC_CONNECT_REQUEST: to be answered */
};

DIWARP_EXPORT struct diwarp_cq *diwarp_create_cq(struct diwarp_device *device, unsigned cqe);
DIWARP_EXPORT void diwarp_destroy_cq(struct diwarp_cq *cq);

/* Runs the RNIC for every QP of the CQ, then hands out at most n completions. Never blocks: one
 * run, or after an absence of 50 us and more as many as take as long, up to a millisecond, a
 * completion, or nothing to do. -ENOMEM: a completion is lost; only destruction is left. */
DIWARP_EXPORT int diwarp_poll_cq(struct diwarp_cq *cq, unsigned n, struct diwarp_wc *wc);
/* Runs the RNIC: what completes waits for the next poll. A helper thread that calls this excludes
 * poll calls and the use of what they handed out. Returns how many receive calls found data. */
DIWARP_EXPORT int diwarp_run_cq(struct diwarp_cq *cq);
/* Whether the last run received something, completions or not, or has more to send that may go: who
 * shares a core should poll again before it gives way. Takes no lock. */
DIWARP_EXPORT bool diwarp_cq_busy(const struct diwarp_cq *cq);
/* As diwarp_poll_cq(), but sleeps until something completes or timeout_ns has passed. */
DIWARP_EXPORT int diwarp_wait_cq(struct diwarp_cq *cq, unsigned n, struct diwarp_wc *wc,
                                 uint64_t timeout_ns);
/* Of the CQ, of all its QPs, and of the PD. Walks all there is. Without malloc's own overhead. */
DIWARP_EXPORT void diwarp_query_memory(const struct diwarp_cq *cq, const struct diwarp_pd *pd,
                                       struct diwarp_memory *memory);

/* ---- queue pairs -------------------------------------------------------------------------- */

enum diwarp_qp_type {
    DIWARP_QPT_UD, /* at most once; completion when handed to the LLP */
    DIWARP_QPT_RD, /* exactly once, unordered, all peers; completion when acknowledged */
};

#define DIWARP_MAX_READS 65536

struct diwarp_qp_attr {
    enum diwarp_qp_type type;
    struct diwarp_cq *cq;
    uint32_t max_send_wr;     /* RD: bound, for each peer and 8,192 at most, of requests not ended
                               * (Sends: not copied); then posts to that peer give -ENOMEM */
    uint32_t max_recv_wr;     /* UD: bound of posted receives, and of records; of either a source
                               * holds no more, amid its messages, than it leaves to others */
    uint32_t max_msg_bytes;   /* of a Send; longer ones are lost (drop_header): the same for all */
    uint64_t record_time_ns;  /* UD: a partial record is handed over this long after it began */
    uint32_t max_reads;       /* UD: bound of active reads, at most DIWARP_MAX_READS; then posts of
                               * further ones give -ENOMEM until one has completed */
    uint32_t max_answers;     /* UD: bound of reads by others that are being answered; of these a
                               * source has no more than it leaves to others, the rest is lost */
    uint64_t read_time_ns;    /* UD: see diwarp_set_read_time() */
    uint32_t qpn;             /* 24 bits; 0: one that the device has not given out for long */
    uint32_t qkey;            /* UD: see diwarp_set_qkey() */
    struct diwarp_srq *srq;   /* UD: receives come from here (diwarp_rc.h); max_recv_wr bounds
                               * records alone. NULL: posted to the QP */
    uint32_t recv_lead_bytes; /* UD: of the memory of a receive, before the message; as it is */
    bool block_self;          /* UD: what it sends to a group does not come to it */
    bool introduces; /* UD: what it sends by IPv6 tells its address (wc.src_ip there), in 32
                      * bytes of each datagram, and its token */
};

struct diwarp_qp;
struct diwarp_ah;
DIWARP_EXPORT void diwarp_qp_attr_init(struct diwarp_qp_attr *attr);
/* All of a device share a UDP socket; the first opens it. -EADDRINUSE: no free port in the range.
 * -EEXIST: another one has that number. `why` may be NULL. */
DIWARP_EXPORT int diwarp_create_qp(struct diwarp_pd *pd, const struct diwarp_qp_attr *attr,
                                   struct diwarp_qp **qp, struct diwarp_diagnosis *why);
/* UD: what others must know to send to it. A Send that bears another Q_Key is dropped; wr.ud.
 * remote_qkey of a Send is that of its destination, or, where its highest bit is set, stands for
 * the sender's own (InfiniBand 10.2.5), as a Write-Record has it. */
DIWARP_EXPORT void diwarp_set_qkey(struct diwarp_qp *qp, uint32_t qkey);
/* RD: it takes so many further Sends, or writes with immediate data, 0 included, and from the first
 * call on no others: until then any. More may come with the last of them, in the same datagram, and
 * count, too. What is sent beyond them is not lost: its source is told to wait, with all that it
 * has to send to this process, and goes on once there is room again. Negative: so many fewer, where
 * others share what receives them. */
DIWARP_EXPORT void diwarp_add_recv_room(struct diwarp_qp *qp, int32_t sends);
/* UD: sets attr.record_time_ns, for records that begin from now on. */
DIWARP_EXPORT void diwarp_set_record_time(struct diwarp_qp *qp, uint64_t record_time_ns);
/* Sets attr.shared_cores of the device. From any thread. */
DIWARP_EXPORT void diwarp_qp_share_cores(struct diwarp_qp *qp);
/* Drops all that is queued (see diwarp_drain_qp()) and its completions; with the device's last
 * datagram QP goes what completions point to. While others live, peers are told: what they ask of
 * this one ends in error (IBV_WC_REM_ABORT_ERR), Sends to it are dropped. */
DIWARP_EXPORT void diwarp_destroy_qp(struct diwarp_qp *qp);
/* Sends owed acknowledgements and waits, at most timeout_ns, until nothing posted is unacknowledged
 * (else -ETIMEDOUT). Meanwhile receives are not delivered, all completions of the CQ dropped. */
DIWARP_EXPORT int diwarp_drain_qp(struct diwarp_qp *qp, uint64_t timeout_ns);

struct diwarp_qp_info {
    uint32_t rcvbuf_bytes, sndbuf_bytes; /* what the kernel granted, truesize included */
    bool gso, gro;             /* in use; GRO may come into use later where it was left to AUTO */
    uint32_t max_inline_bytes; /* largest write without a record */
    int send_fd;               /* writable when what a post was refused for (-EAGAIN) may go */
};
DIWARP_EXPORT void diwarp_query_qp(const struct diwarp_qp *qp, struct diwarp_qp_info *info);
/* Readable when the RNIC has work for the datagram QPs of the device, whose it is, while there are
 * any; for poll(2) only. Where the port is shared (attr.port_min) or there are groups the first
 * call makes it, and each datagram costs a little more from then on. Where it is not shared,
 * another one once any QP of the device has been attached to a group. Negative errno. */
DIWARP_EXPORT int diwarp_qp_fd(struct diwarp_qp *qp);
DIWARP_EXPORT void diwarp_query_address(const struct diwarp_qp *qp, struct diwarp_address *address);
/* A pointer into the QP, valid until it is destroyed; values only grow, but for gauges. */
DIWARP_EXPORT const struct diwarp_counters *diwarp_query_counters(const struct diwarp_qp *qp);

/* Chooses the pair of interfaces to reach `address`: same host by loopback, then same subnet, then
 * same family. -ENETUNREACH: there is none. -EINVAL: its MTU is below the least, 576, or it is not
 * of a datagram QP. -EPROTO: it authenticates otherwise, or with another key file. Costs nothing on
 * the wire; protocol state is taken at the first send, and given back when both have owed each
 * other nothing for 20 ms. Over RD all handles of one name share it, the way first spoken over, and
 * the incarnation told last: with an earlier one all ends in error. For any QP of the service and
 * device; destroyed by its owner, before its QP or after. */
DIWARP_EXPORT int diwarp_create_ah(struct diwarp_qp *qp, const struct diwarp_address *address,
                                   struct diwarp_ah **ah);
DIWARP_EXPORT void diwarp_destroy_ah(struct diwarp_ah *ah);
/* RD: the application takes the process for gone, whatever it answers. Before this returns all that
 * is under way with it ends in error, on each QP of the port; nothing that it sends is placed or
 * delivered any more, and none of its or our memory is read for it. DIWARP_WC_PEER_GONE tells of
 * it, too. 0; -ENOMEM; -EINVAL: not of RD. */
DIWARP_EXPORT int diwarp_give_up_ah(struct diwarp_ah *ah);
/* RD: the pairs of addresses that lead to a process, as "10.0.0.1 to 10.0.0.2:40001", with commas
 * between, the one in use first, cut to len; for messages. -ENOENT: it has no handle. */
DIWARP_EXPORT int diwarp_explain_peer(struct diwarp_qp *qp, struct diwarp_name name, char *buf,
                                      size_t len);
/* "10.0.0.2:40001", for messages. */
DIWARP_EXPORT void diwarp_format_ah(const struct diwarp_ah *ah, char *buf, size_t len);

/* send_flags beyond IBV_SEND_*. BUFFERED: done when copied: a post that returns 1 is complete and
 * gives no completion. HOLD, of a read: the application ends it with diwarp_post_release(). LAZY:
 * more is posted at once; leaves with the next post without it, poll or diwarp_rc_flush(), if not
 * before. Over RC; and over UD a Send that one datagram has room for: the next post may be told
 * -EAGAIN for it, or that destination's errors be lost. Over RC never done at once. */
enum { DIWARP_SEND_BUFFERED = 1 << 16, DIWARP_SEND_HOLD = 1 << 17, DIWARP_SEND_LAZY = 1 << 18 };
/* QKEY, of a Write-Record or read over UD: wr.imm_data is the Q_Key of the destination, which is
 * the sender's own otherwise. */
enum { DIWARP_SEND_QKEY = 1 << 19 };

/* Elements that a Send over RD may have; its writes and reads have one. */
#define DIWARP_RD_SEND_SGES 4

/* As in ibv_send_wr SEND, SEND_WITH_IMM, RDMA_WRITE (on UD a Write-Record), RDMA_READ and, RD only,
 * SEND_WITH_INV, RDMA_WRITE_WITH_IMM, ATOMIC_CMP_AND_SWP and ATOMIC_FETCH_AND_ADD; one work
 * request, not a list. Immediate data is in host order. SEND_WITH_INV ends the rights of all peers
 * to a region there; without any it comes without IBV_WC_WITH_INV. A write with immediate data has
 * at most one element; a message follows that takes a receive, and whose end is the request's. */
struct diwarp_send_wr {
    struct ibv_send_wr wr;
    struct diwarp_ah *ah;
};

/* RD: 0, or 1 as DIWARP_SEND_BUFFERED says. IBV_SEND_INLINE: copied now, or -EAGAIN, or -EMSGSIZE
 * where only a post without it takes so long a message, or a write with immediate data. -ENOMEM:
 * the send queue to this peer is full; the end of a request to it makes room. -EHOSTUNREACH: the
 * peer is gone. -EINVAL: malformed, or IBV_SEND_FENCE on what is no Send; -EMSGSIZE: too long;
 * -EACCES: a local key without the right. Unsignaled requests complete only if they fail; Sends
 * already copied do not even then, for DIWARP_WC_PEER_GONE says it. Messages may overtake each
 * other: a Send with IBV_SEND_FENCE, and what is posted behind it while its QP is there, comes
 * after all Sends posted to the peer before. A Send has succeeded when the peer's process has it,
 * with or without the QP that it is for. The memory of sg_list must stay until the completion,
 * unless INLINE or BUFFERED. */
DIWARP_EXPORT int diwarp_post_send(struct diwarp_qp *qp, const struct diwarp_send_wr *wr);
/* UD: RD delivers in place. Up to 32 elements, as in Sends of UD. */
DIWARP_EXPORT int diwarp_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr);

/* Room for a Send of len bytes in the open datagram of a peer, to be written to before the commit,
 * with no other call on the QP between: both are one critical section. NULL: post it instead. */
DIWARP_EXPORT void *diwarp_send_reserve(struct diwarp_qp *qp, struct diwarp_ah *ah, size_t len);
DIWARP_EXPORT void diwarp_send_commit(struct diwarp_qp *qp, struct diwarp_ah *ah, uint32_t imm);

#define DIWARP_RELEASE_MAX_BYTES 128
/* Ends a read posted with DIWARP_SEND_HOLD and carries so many bytes at most to the source inside
 * record-complete, which without bytes leaves with the next post to the peer, or run of the RNIC.
 * Must follow every such completion, even one in error. -EMSGSIZE; -EINVAL: there
 * is nobody to take the bytes, or (-ENOMEM) no longer: see DIWARP_WC_PEER_GONE. */
DIWARP_EXPORT int diwarp_post_release(struct diwarp_qp *qp, uint64_t read_id, const void *data,
                                      size_t len);
