/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the UDP LLP share. */
#ifndef DW_UDP_H
#define DW_UDP_H

#include <arpa/inet.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "common/llp/llp.h"

/* Destinations whose GSO refusal is remembered. */
#define DW_UDP_REFUSALS 16
/* Destinations with a connected socket of their own. */
#define DW_UDP_HOT 8
/* Destinations whose path is asked about at a time; others ask again. */
#define DW_UDP_MTU_QUESTIONS 8

union dw_udp_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Trains of segment_bytes or more to this host go datagram by datagram until trains_left is 0. */
struct dw_udp_refusal {
    struct dw_llp_addr to;
    uint32_t segment_bytes;
    uint32_t trains_left;
};

/* A destination that much is sent to. */
struct dw_udp_hot {
    struct dw_llp_addr to;
    int fd;             /* -1: not hot yet */
    uint32_t sends;     /* how many to it, less those to others of the same slot */
    uint32_t wait;      /* sends until it gets its socket; 0: it has, or cannot have it */
    uint32_t wait_next; /* after the next doubt */
    uint32_t carried;   /* sends through it */
};

struct dw_udp {
    struct dw_llp llp;
    uint8_t family;
    bool checksum;
    bool gro_allowed;           /* but not on yet */
    uint32_t before_bytes;      /* of the datagram just before; 0: none came right before */
    atomic_bool errors_waiting; /* a call failed with another datagram's error: see the queue */
    unsigned eio_in_row;        /* trains refused with EIO since the last one that went */
    unsigned refusal_count;
    struct dw_udp_refusal refusals[DW_UDP_REFUSALS];
    struct dw_udp_hot hot[DW_UDP_HOT]; /* by a hash of the address */
    bool hot_wanted;
    union dw_udp_sockaddr bound; /* any port */
    bool whole; /* the train that is being sent, see struct dw_llp_train */
    unsigned mtu_question_count;
    struct dw_llp_addr mtu_questions[DW_UDP_MTU_QUESTIONS];
};

/* ---- udp.c ---- */
extern const struct dw_llp_ops dw_udp_ops;

/* ---- udp_icmp.c ---- */
bool dw_udp_icmp(struct dw_llp *llp, struct dw_llp_icmp *icmp);
void dw_udp_query_path(struct dw_llp *llp, const struct dw_llp_addr *to, struct dw_llp_path *path);
/* A call of dw_udp_icmp() will tell the MTU of the path to `to`. */
void dw_udp_ask_mtu(struct dw_udp *udp, const struct dw_llp_addr *to);

/* ---- udp_options.c ---- */
int dw_udp_set_int(int fd, int level, int name, int value);
/* Asks for a buffer, beyond the system's limit where that is allowed. Returns what there is. */
uint32_t dw_udp_set_buffer(int fd, int name, int force_name, uint32_t bytes);
/* Options of every socket, the send-only ones included. */
int dw_udp_set_options(int fd, uint8_t family);
/* IP_PMTUDISC_WANT: a datagram above the path's MTU leaves in fragments, all others with DF.
 * IP_PMTUDISC_PROBE: all leave with DF, whatever the kernel believes of the path. */
int dw_udp_set_discovery(int fd, uint8_t family, int discovery);
/* Linux has no GSO on a socket without checksums; a train's checksum is the device's work then. */
void dw_udp_apply_checksum(const struct dw_udp *udp, int fd);

/* ---- udp_hot.c ---- */
void dw_udp_hot_init(struct dw_udp *udp, const struct dw_llp_attr *attr);
void dw_udp_hot_fini(struct dw_udp *udp);
/* The socket connected to `to`; -1: it has none. Counts the send. */
int dw_udp_hot_fd(struct dw_udp *udp, const struct dw_llp_addr *to);
/* Its own socket may not get through: back to the common one, for longer each time. */
void dw_udp_hot_doubt(struct dw_udp *udp, const struct dw_llp_addr *to);

/* An IPv6 socket reaches IPv4 as ::ffff:a.b.c.d. Returns 0 when the socket cannot reach `from`. */
static inline socklen_t dw_udp_sockaddr_set(uint8_t family, const struct dw_llp_addr *from,
                                            union dw_udp_sockaddr *to)
{
    if (family == AF_INET) {
        if (from->family != AF_INET) {
            return 0;
        }
        to->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(from->port)};
        memcpy(&to->v4.sin_addr, from->ip, 4);
        return sizeof(to->v4);
    }
    to->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
    if (from->family == AF_INET) {
        memset(to->v6.sin6_addr.s6_addr + 10, 0xff, 2);
        memcpy(to->v6.sin6_addr.s6_addr + 12, from->ip, 4);
    } else {
        memcpy(to->v6.sin6_addr.s6_addr, from->ip, 16);
    }
    return sizeof(to->v6);
}

#endif
