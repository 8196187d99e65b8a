/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes of one host that share a UDP port, of a range that has too few (SO_REUSEPORT). Their
 * sockets are numbered in the order in which they were bound, and the kernel gives each datagram to
 * the one whose number is the lowest byte of the key that the datagram bears. When a process ends,
 * the last one takes its number: who gets what is meant for another one sends it on, through a Unix
 * socket whose name is the port and the key.
 */
#pragma once

#include "common/llp/llp.h"

struct dw_siblings {
    int fd;         /* -1: the port is not shared */
    uint16_t port;  /* whose */
    bool seen;      /* there are some: one has sent something on, or was sent something */
    uint8_t passed; /* reads left out */
};

/* Binds a UDP socket to a port of a range, as dw_take_port() does: to one that nobody has, or else
 * to one that processes of this user have. */
int dw_siblings_bind(int fd, const struct dw_llp_addr *at, uint16_t port_min, uint16_t port_max,
                     uint32_t rank);

void dw_siblings_init(struct dw_siblings *siblings);
/* key: whoever has it in a datagram, big-endian at that offset, means this process; its lowest byte
 * becomes the socket's number. 0, or negative errno: there are no siblings then. */
int dw_siblings_open(struct dw_siblings *siblings, int udp_fd, uint64_t *key, unsigned key_at);
void dw_siblings_close(struct dw_siblings *siblings);

/* Sends a datagram on; false: no process of this port has that key. One that reads too slowly loses
 * it, as if its own socket were full. */
bool dw_siblings_forward(struct dw_siblings *siblings, uint64_t key, const uint8_t *buf,
                         uint32_t bytes);
/* Whether what was sent on to us has its turn before what comes to the own socket. */
bool dw_siblings_due(struct dw_siblings *siblings);
/* The bytes of one that was sent on to us; -1: there is none. */
int dw_siblings_recv(struct dw_siblings *siblings, uint8_t *buf, uint32_t bytes);
void dw_siblings_add_memory(const struct dw_siblings *siblings, struct diwarp_memory *memory);
