/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages of sendmsg() and recvmsg(), for UDP. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* Room for UDP_SEGMENT or UDP_GRO, and a type of service. */
#define DW_CONTROL_BYTES (2 * CMSG_SPACE(sizeof(int)))

/* In the type of service: ECN-capable, and Congestion Experienced (RFC 3168). */
#define DW_ECN_MASK 3
#define DW_ECT0     2
#define DW_ECN_CE   3

/* Appends one; msg_control has DW_CONTROL_BYTES, zeros behind msg_controllen. */
static inline void dw_control_add(struct msghdr *msg, int level, int type, const void *value,
                                  size_t bytes)
{
    struct cmsghdr *cmsg = (void *)((char *)msg->msg_control + msg->msg_controllen);
    cmsg->cmsg_level = level;
    cmsg->cmsg_type = type;
    cmsg->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(cmsg), value, bytes);
    msg->msg_controllen += CMSG_SPACE(bytes);
}

static inline void dw_control_add_tos(struct msghdr *msg, uint8_t family, int tos)
{
    const bool v6 = family == AF_INET6;
    dw_control_add(msg, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TCLASS : IP_TOS, &tos,
                   sizeof tos);
}

/* Of IPv4 it comes as a byte, of IPv6 as an int. */
static inline bool dw_control_is_tos(const struct cmsghdr *cmsg)
{
    return (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS) ||
           (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_TCLASS);
}

/* The int, or the byte, that it has; 0: neither. */
static inline int dw_control_int(const struct cmsghdr *cmsg)
{
    int value = 0;
    if (cmsg->cmsg_len == CMSG_LEN(sizeof value))
        memcpy(&value, CMSG_DATA(cmsg), sizeof value);
    else if (cmsg->cmsg_len == CMSG_LEN(1))
        value = *CMSG_DATA(cmsg);
    return value;
}
