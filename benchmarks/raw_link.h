/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets of the raw benchmark: addresses, the control connection between its two processes, and
 * sending and receiving that spin and give up when the peer is silent. What fails ends the process
 * with a message.
 */
#ifndef RAW_LINK_H
#define RAW_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct raw_address {
    struct sockaddr_storage sa;
    socklen_t length;
};

/* Says what failed, with errno when it is not 0, and ends the process. */
void raw_die(const char *what) __attribute__((noreturn));

/* "127.0.0.1", "::1"; with a port "127.0.0.1:4000", "[::1]:4000". */
bool raw_parse_address(const char *text, bool with_port, struct raw_address *out);
void raw_set_port(struct raw_address *address, uint16_t port);
uint16_t raw_port(const struct raw_address *address);

/* The address of this end of a socket, and of the other. */
struct raw_address raw_local(int fd);
struct raw_address raw_remote(int fd);

/* Socket buffers of `socket_bytes`, 0 leaves them to the kernel. TCP has TCP_NODELAY throughout. */
int raw_listen(const struct raw_address *at, int socket_bytes);
int raw_accept(int listener, double seconds);
int raw_dial(const struct raw_address *to, int socket_bytes, double seconds);
int raw_udp(const struct raw_address *at, int socket_bytes);
void raw_connect(int fd, const struct raw_address *to);

/* What the receive buffer may hold, in the kernel's own accounting. */
size_t raw_receive_limit(int fd);

/* UDP segmentation on send, and coalescing on receive; false when the kernel has none. */
bool raw_set_gso(int fd, int segment);
bool raw_set_gro(int fd);

/* The control connection: blocking, within some seconds. */
void raw_tell(int fd, const void *message, size_t bytes);
void raw_hear(int fd, void *message, size_t bytes);

/* Spins until something is there, and returns how much. Reads at most `bytes`. */
size_t raw_spin_recv(int fd, void *data, size_t bytes);
/* Spins until all is sent. A datagram is sent as a whole. */
void raw_spin_send(int fd, const void *data, size_t bytes);

#endif
