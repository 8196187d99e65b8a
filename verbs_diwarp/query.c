/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/query.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

/* ---- who is where ---- */

uint64_t dv_gid_hash(const union ibv_gid *gid)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (unsigned i = 0; i < sizeof gid->raw; i++)
        hash = (hash ^ gid->raw[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint32_t word_of(const uint8_t bytes[4])
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return ntohl(word);
}

struct diwarp_name dv_name_of(const union ibv_gid *gid, uint32_t port)
{
    const uint32_t job =
        dv_is_ipv4(gid) ? word_of(gid->raw + 12) : (uint32_t)(dv_gid_hash(gid) >> 32);
    return (struct diwarp_name){.job = job, .rank = port};
}

/* Its last byte tells processes that share a port apart, which is not the case here. */
uint64_t dv_token_of(uint32_t port)
{
    return UINT64_C(0x6469776172000000) | port << 8; /* "diwar" */
}

uint32_t dv_random_qkey(void)
{
    uint32_t qkey = 0;
    (void)!getrandom(&qkey, sizeof qkey, 0);
    return qkey | 1u << 31;
}

static bool is_own(const struct dv_context *context, const union ibv_gid *gid)
{
    bool own = false;
    for (unsigned i = 0; i < context->address.interface_count; i++) {
        const union ibv_gid ours = dv_gid_of(&context->address.interfaces[i]);
        own |= dv_is_same_gid(&ours, gid);
    }
    return own;
}

uint16_t dv_lid(const struct dv_context *context)
{
    const union ibv_gid gid = dv_gid_of(&context->gids[0]);
    return dv_is_ipv4(&gid) ? (uint16_t)word_of(gid.raw + 12) : 0;
}

/* Its name tells that address. */
uint16_t dv_lid_of_source(const struct dv_context *context, struct diwarp_name name)
{
    return dv_lid(context) ? (uint16_t)name.job : 0;
}

/* Within our host, by all of that family that leads there. */
static void add_own_interfaces(const struct dv_context *context, uint8_t family,
                               struct diwarp_address *address)
{
    address->host_id = context->address.host_id;
    for (unsigned i = 0; i < context->address.interface_count; i++)
        if (context->address.interfaces[i].family == family)
            address->interfaces[address->interface_count++] = context->address.interfaces[i];
}

/* A prefix of IPv6 is mostly so long: it chooses among our addresses the one that we tell. */
#define IPV6_PREFIX_BITS 64

struct diwarp_address dv_address_of(const struct dv_context *context, const union ibv_gid *gid,
                                    uint32_t qpn)
{
    const uint32_t port = DV_PORT_FIRST + (qpn >> DV_INDEX_BITS);
    const bool v4 = dv_is_ipv4(gid);
    struct diwarp_address address = {
        .name = dv_name_of(gid, port),
        .token = dv_token_of(port),
        .qpn = qpn,
        .port = (uint16_t)port,
    };
    if (is_own(context, gid)) {
        add_own_interfaces(context, v4 ? AF_INET : AF_INET6, &address);
        return address;
    }
    address.interface_count = 1;
    address.interfaces[0] = (struct diwarp_interface){.family = v4 ? AF_INET : AF_INET6,
                                                      .prefix_bits = v4 ? 32 : IPV6_PREFIX_BITS,
                                                      .mtu_bytes = context->gids[0].mtu_bytes};
    memcpy(address.interfaces[0].ip, v4 ? gid->raw + 12 : gid->raw, v4 ? 4 : 16);
    return address;
}

int dv_gid_index(const struct dv_context *context, const union ibv_gid *gid)
{
    for (unsigned i = 0; i < context->gid_count; i++) {
        const union ibv_gid ours = dv_gid_of(&context->gids[i]);
        if (dv_is_same_gid(&ours, gid))
            return (int)i;
    }
    return -1;
}

unsigned dv_gid_index_towards(const struct dv_context *context, const union ibv_gid *gid)
{
    const uint8_t family = dv_is_ipv4(gid) ? AF_INET : AF_INET6;
    unsigned first = context->gid_count;
    for (unsigned i = 0; i < context->gid_count; i++) {
        const struct diwarp_interface *ours = &context->gids[i];
        if (ours->family == AF_INET6 && family == AF_INET6 &&
            !memcmp(ours->ip, gid->raw, IPV6_PREFIX_BITS / 8))
            return i;
        if (ours->family == family && first == context->gid_count)
            first = i;
    }
    return first < context->gid_count ? first : 0;
}

union ibv_gid dv_gid_of_source(const struct dv_context *context, struct diwarp_name name,
                               const uint8_t src_ip[16])
{
    static const uint8_t none[16];
    const uint32_t word = htonl(name.job);
    union ibv_gid gid;
    dv_put_gid(&gid, (const uint8_t *)&word);
    if (memcmp(src_ip, none, sizeof none) != 0)
        memcpy(&gid, src_ip, sizeof gid);
    if (!dv_is_ipv4(&gid) && is_own(context, &gid) && dv_gid_index(context, &gid) < 0)
        gid = dv_gid_of(&context->gids[dv_gid_index_towards(context, &gid)]); /* by ::1 */
    return gid;
}

/* ---- what programs ask ---- */

/* The same on every host: diwarp has no hardware to number. */
__be64 ibv_get_device_guid(struct ibv_device *device)
{
    static const uint8_t guid[8] = {0x02, 'd', 'i', 'w', 'a', 'r', 'p', 0};
    __be64 value;
    if (device != dv_device)
        return DV_REAL(ibv_get_device_guid)(device);
    memcpy(&value, guid, sizeof value);
    return value;
}

static const struct ibv_device_attr device_attr = {
    .fw_ver = "1",
    .vendor_id = 0x026469, /* as the GUID begins: of no company */
    .max_mr_size = UINT64_MAX,
    .page_size_cap = UINT64_MAX << 12,
    .max_qp = DV_INDEX_MASK + 1 - DV_INDEX_FIRST,
    .max_qp_wr = DV_MAX_WR,
    .max_sge = DV_MAX_SGE,
    .max_sge_rd = DV_MAX_SGE,
    .max_qp_rd_atom = (int)DV_RC_MAX_READS,
    .max_qp_init_rd_atom = (int)DV_RC_MAX_READS,
    .max_res_rd_atom = DV_INDEX_MASK * (int)DV_RC_MAX_READS,
    .max_srq = 1 << 16,
    .max_srq_wr = DV_MAX_WR,
    .max_srq_sge = DV_MAX_SGE,
    .max_cq = 1 << 16,
    .max_cqe = DV_MAX_CQE,
    .max_mr = 1 << 24,
    .max_mw = 1 << 24,
    .device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
    .max_pd = 1 << 16,
    .max_mcast_grp = DIWARP_MAX_GROUPS, /* those that both families carry count twice */
    .max_mcast_qp_attach = DV_INDEX_MASK,
    .max_total_mcast_qp_attach = DIWARP_MAX_GROUPS * (int)DV_INDEX_MASK,
    .max_ah = 1 << 24,
    .max_pkeys = 1,
    .phys_port_cnt = 1,
    /* IBV_ATOMIC_GLOB would be true, but UCX uses atomics of devices that say this one alone. */
    .atomic_cap = IBV_ATOMIC_HCA,
};

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_query_device)(context, attr);
    *attr = device_attr;
    /* The last context has the groups' number, which no queue pair gets. */
    attr->max_qp -= dv_context_of(context)->slot == DV_MCAST_QPN >> DV_INDEX_BITS;
    attr->node_guid = attr->sys_image_guid = ibv_get_device_guid(context->device);
    return 0;
}

/* Regions are paged as all memory is. There are none of all memory: peers could name what is not
 * there. */
static const struct ibv_odp_caps odp_caps = {
    .general_caps = IBV_ODP_SUPPORT,
    .per_transport_caps = {
        .rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                       IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV,
        .uc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                       IBV_ODP_SUPPORT_SRQ_RECV,
        .ud_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
    }};

int dv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                       struct ibv_device_attr_ex *attr, size_t bytes)
{
    struct ibv_device_attr_ex all = {.odp_caps = odp_caps,
                                     .phys_port_cnt_ex = 1,
                                     .completion_timestamp_mask = UINT64_MAX,
                                     .hca_core_clock = DV_CLOCK_KHZ,
                                     .max_dm_size = DV_DM_BYTES};
    if (input && input->comp_mask)
        return EINVAL;
    (void)ibv_query_device(context, &all.orig_attr);
    memset(attr, 0, bytes);
    memcpy(attr, &all, bytes < sizeof all ? bytes : sizeof all);
    return 0;
}

static int query_port(const struct dv_context *context, uint8_t port_num,
                      struct ibv_port_attr *attr)
{
    if (port_num != 1)
        return EINVAL;
    *attr = (struct ibv_port_attr){
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = IBV_MTU_4096,
        .gid_tbl_len = (int)context->gid_count,
        .port_cap_flags = IBV_PORT_CM_SUP,
        .max_msg_sz = 1u << 30,
        .pkey_tbl_len = 1,
        .lid = dv_lid(context),
        .max_vl_num = 1,
        .active_width = 2, /* 4 lanes */
        .active_speed = 4, /* of 10 Gb/s */
        .phys_state = 5,   /* up */
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };
    return 0;
}

int dv_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
                  size_t bytes)
{
    struct ibv_port_attr all;
    const int rc = query_port(dv_context_of(context), port_num, &all);
    if (rc)
        return rc;
    memset(attr, 0, bytes);
    memcpy(attr, &all, bytes < sizeof all ? bytes : sizeof all);
    return 0;
}

/* For programs built before the structure grew. */
#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                   struct _compat_ibv_port_attr *attr)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_query_port)(context, port_num, attr);
    return dv_query_port(context, port_num, (struct ibv_port_attr *)(void *)attr,
                         offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* Not in the headers of rdma-core 56 (Debian 13). */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_query_port_speed)(context, port_num, port_speed);
    if (port_num != 1)
        return EINVAL;
    *port_speed = 400; /* of 100 Mb/s: as query_port() says */
    return 0;
}

int ibv_query_gid(struct ibv_context *ibv_context, uint8_t port_num, int index, union ibv_gid *gid)
{
    if (!dv_is_ours(ibv_context))
        return DV_REAL(ibv_query_gid)(ibv_context, port_num, index, gid);
    const struct dv_context *context = dv_context_of(ibv_context);
    if (port_num != 1 || index < 0 || (unsigned)index >= context->gid_count) {
        errno = EINVAL;
        return -1;
    }
    *gid = dv_gid_of(&context->gids[index]);
    return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
    if (!dv_is_ours(context))
        return DV_REAL(_ibv_query_gid_ex)(context, port_num, index, entry, flags, bytes);
    struct ibv_gid_entry all = {
        .gid_index = index, .port_num = port_num, .gid_type = IBV_GID_TYPE_ROCE_V2};
    if (flags || port_num != 1 || index > INT32_MAX)
        return EINVAL;
    if (ibv_query_gid(context, 1, (int)index, &all.gid))
        return ENODATA;
    memset(entry, 0, bytes);
    memcpy(entry, &all, bytes < sizeof all ? bytes : sizeof all);
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                             uint32_t flags, size_t bytes)
{
    if (!dv_is_ours(context))
        return DV_REAL(_ibv_query_gid_table)(context, entries, max, flags, bytes);
    const unsigned count = dv_context_of(context)->gid_count;
    if (flags || max < count)
        return -EINVAL;
    for (unsigned i = 0; i < count; i++)
        (void)_ibv_query_gid_ex(
            context, 1, i, (struct ibv_gid_entry *)(void *)((char *)entries + i * bytes), 0, bytes);
    return (ssize_t)count;
}

/* Of libibverbs' own header: 0 is InfiniBand and RoCE version 1, 1 is version 2. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
                       int *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
    union ibv_gid gid;
    if (!dv_is_ours(context))
        return DV_REAL(ibv_query_gid_type)(context, port_num, index, type);
    *type = 1;
    return index > INT32_MAX ? -1 : ibv_query_gid(context, port_num, (int)index, &gid);
}

/* The default partition, which all are members of. */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_query_pkey)(context, port_num, index, pkey);
    if (port_num != 1 || index) {
        errno = EINVAL;
        return -1;
    }
    *pkey = 0xffff;
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_get_pkey_index)(context, port_num, pkey);
    return port_num == 1 && pkey == 0xffff ? 0 : -1;
}
