/* SPDX-License-Identifier: BSD-3-Clause */
/* What a context is: attributes, GIDs, and who is behind a GID and a QPN. */
#pragma once

#include "verbs_diwarp/front.h"

/* FNV-1a: no secret. */
uint64_t dv_gid_hash(const union ibv_gid *gid);
/* The process that has the port on the host whose first GID that is, and its token: what verbs
 * programs tell each other is all that leads to it, so neither is a secret. */
struct diwarp_name dv_name_of(const union ibv_gid *gid, uint32_t port);
uint64_t dv_token_of(uint32_t port);
/* One that nobody sends by, for its highest bit stands for the sender's own. */
uint32_t dv_random_qkey(void);
/* Of the queue pair there. */
struct diwarp_address dv_address_of(const struct dv_context *context, const union ibv_gid *gid,
                                    uint32_t qpn);
/* The GID that such a process is seen by: src_ip as in diwarp_wc. */
union ibv_gid dv_gid_of_source(const struct dv_context *context, struct diwarp_name name,
                               const uint8_t src_ip[16]);
/* The last 16 bits of the IPv4 address that is the first GID, for programs that know InfiniBand
 * alone; 0: there is none. */
uint16_t dv_lid(const struct dv_context *context);
/* Of a process with that name, likewise. */
uint16_t dv_lid_of_source(const struct dv_context *context, struct diwarp_name name);
/* The index of our GID that is likeliest to be spoken to from there. */
unsigned dv_gid_index_towards(const struct dv_context *context, const union ibv_gid *gid);
/* -1: it is none of ours. */
int dv_gid_index(const struct dv_context *context, const union ibv_gid *gid);

int dv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                       struct ibv_device_attr_ex *attr, size_t bytes);
int dv_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
                  size_t bytes);
