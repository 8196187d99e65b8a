/* SPDX-License-Identifier: BSD-3-Clause */
/* Local network interfaces: which there are, which the user wants, which pair reaches a peer. */
#pragma once

#include "common/include/diwarp.h"

/* Of one host; what ranks below these is not seen. */
#define DW_INTERFACES_LISTED 256

/* Lists the interfaces that are up and pass the filters (a comma-separated list of names or CIDR;
 * include wins over exclude): loopback ones, then by how likely they lead to a peer. Returns the
 * count; -ENODEV: none passes; -EINVAL: an entry is neither the name of an interface of this host
 * nor a CIDR, `why` names it and what there is. An unknown name in `exclude` is no error. */
int dw_interface_list(const char *include, const char *exclude,
                      struct diwarp_interface list[DW_INTERFACES_LISTED],
                      struct diwarp_diagnosis *why);

/* Tells whether two processes share a loopback interface. These bits of it are equal where all
 * interfaces but loopback have the same hardware and IP addresses; the others, in one network
 * namespace of one boot. */
uint64_t dw_host_id(void);
#define DW_HOST_ID_LOOKS UINT64_C(0xffff)

struct dw_interface_pair {
    uint8_t here, there; /* indexes of interfaces */
};

/* The pairs to go from `local` to `peer`, one for each of the peer's interfaces that one of ours
 * may reach, best first: loopback, and that alone, on the same host; then same subnet, then any two
 * of one family that are no loopback. Between hosts no address that both have counts. Returns the
 * count; -ENETUNREACH: none. `same_host` as in struct diwarp_device_attr. */
int dw_interface_pairs(const struct diwarp_address *local, const struct diwarp_address *peer,
                       enum diwarp_switch same_host,
                       struct dw_interface_pair pairs[DIWARP_MAX_INTERFACES]);

/* Whether one of the interfaces has that address. */
bool dw_interfaces_have(const struct diwarp_interface *list, unsigned count, uint8_t family,
                        const uint8_t *ip);

/* The kernel's index; 0: there is none of that name any more. */
uint32_t dw_interface_index(const struct diwarp_interface *interface);
