/* SPDX-License-Identifier: BSD-3-Clause */
/* MCA parameters: registration, ranges, and what they mean to the core. */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/mca/base/mca_base_var.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A message of 64 KiB, with the PML's header: as far as it is quicker than a rendezvous. */
#define EAGER_BYTES ((64u << 10) + 256u)
/* ob1 sends control messages of up to this size and never looks at a limit for them. */
#define MESSAGE_MIN_BYTES 512u
#define MESSAGE_MAX_BYTES (1u << 20)
/* An ibv_sge has a 32-bit length. */
#define RDMA_MAX_BYTES (1u << 30)

struct mca_btl_diwarp_params mca_btl_diwarp_params;

static struct mca_btl_diwarp_params *const params = &mca_btl_diwarp_params;
#define AT(member) &mca_btl_diwarp_params.member

struct uint_param {
    const char *name, *help;
    unsigned *value;
    mca_base_var_info_lvl_t level;
    unsigned min, max;
    bool zero; /* 0 is good too, outside of the range */
};

static const struct uint_param uint_params[] = {
    {"port_min",
     "First UDP port to try, for firewalls; 0: any free port. Each process on a host needs one of "
     "its own",
     AT(port_min), OPAL_INFO_LVL_2, 0, 65535, false},
    {"port_max", "Last UDP port to try; 0: port_min only", AT(port_max), OPAL_INFO_LVL_2, 0, 65535,
     false},
    {"rcvbuf",
     "Socket receive buffer to ask for, in bytes (limited by net.core.rmem_max); 0: the system's "
     "default",
     AT(device.rcvbuf_bytes), OPAL_INFO_LVL_3, 4096, INT_MAX / 2, true},
    {"sndbuf",
     "Socket send buffer to ask for, in bytes (limited by net.core.wmem_max); 0: the system's "
     "default",
     AT(device.sndbuf_bytes), OPAL_INFO_LVL_3, 4096, INT_MAX / 2, true},
    {"datagram_max",
     "Largest UDP payload in bytes; 0: by the MTU of the path and the peers' receive buffers",
     AT(device.datagram_max_bytes), OPAL_INFO_LVL_4, 512, 65507, true},
    {"ack_delay_us", "Longest wait, in microseconds, before an acknowledgement travels alone",
     AT(ack_delay_us), OPAL_INFO_LVL_5, 0, 1000000, false},
    {"rto_min_us", "Shortest retransmission time-out, in microseconds; the rest is measured",
     AT(rto_min_us), OPAL_INFO_LVL_5, 10, 10000000, false},
    {"queue_delay_us",
     "Longest time in microseconds that datagrams may wait in queues on their way to a peer, by "
     "round trips, before fewer are sent to it at a time; 0: only losses count",
     AT(queue_delay_us), OPAL_INFO_LVL_5, 0, 4000000, false},
    {"peer_timeout",
     "Seconds of silence, with data owed to a peer, after which it counts as gone and the job "
     "ends; 0: never. A process that computes for long without calling MPI is silent, too",
     AT(peer_timeout_s), OPAL_INFO_LVL_3, 0, 31536000, false},
    {"send_window", "Most unacknowledged datagrams per peer", AT(device.send_window_datagrams),
     OPAL_INFO_LVL_5, 1, 256, false},
    {"send_pool", "Most bytes of memory held by unacknowledged datagrams of all peers",
     AT(device.send_pool_bytes), OPAL_INFO_LVL_5, 256u << 10, UINT_MAX, false},
    {"record_window",
     "Most bytes of RDMA transfers under way to this process; 0: 1 MiB, or 4 MiB where ranks share "
     "cores or poll rarely. Never more than the receive buffer takes",
     AT(device.record_window_bytes), OPAL_INFO_LVL_5, 4096, UINT_MAX, true},
    {"blocking_polls", "Polls in a row that find nothing before progress sleeps, where it may",
     AT(blocking_polls), OPAL_INFO_LVL_5, 1, 1000000, false},
    {"finalize_timeout_ms",
     "Longest wait in MPI_Finalize, in milliseconds, for peers to acknowledge what was sent",
     AT(finalize_timeout_ms), OPAL_INFO_LVL_6, 0, 600000, false},
    {"rc_recv_buffers", "Receives posted for each connection, with btl_diwarp_transport rc",
     AT(rc_recv_buffers), OPAL_INFO_LVL_4, 1, 65536, false},
    {"rc_recv_bytes",
     "Bytes of each receive, with btl_diwarp_transport rc and rc-srq; must be the same in every "
     "process. The eager limit is 8 less",
     AT(rc_recv_bytes), OPAL_INFO_LVL_4, 2 * MESSAGE_MIN_BYTES, MESSAGE_MAX_BYTES, false},
    {"rc_srq_buffers", "Receives posted for all connections, with btl_diwarp_transport rc-srq",
     AT(rc_srq_buffers), OPAL_INFO_LVL_4, 1, 1u << 20, false},
    {"rc_mpa_revision", "MPA revision of the connections: 1, or 2 (RFC 6581)", AT(rc_mpa_revision),
     OPAL_INFO_LVL_6, 1, 2, false},
};

#define UINT_PARAMS (sizeof uint_params / sizeof uint_params[0])

static int register_var(const char *name, const char *help, mca_base_var_type_t type,
                        mca_base_var_enum_t *enumerator, mca_base_var_info_lvl_t level,
                        void *storage)
{
    return mca_base_var_register("opal", "btl", "diwarp", name, help, type, enumerator, 0,
                                 MCA_BASE_VAR_FLAG_DWG, level, MCA_BASE_VAR_SCOPE_READONLY,
                                 storage);
}

static void format_range(char *text, size_t len, const struct uint_param *param)
{
    snprintf(text, len, "%s%u to %u", param->zero ? "0, or " : "", param->min, param->max);
}

/* With the range, for ompi_info. */
static int register_uint(const struct uint_param *param)
{
    char range[64], help[512];
    format_range(range, sizeof range, param);
    snprintf(help, sizeof help, "%s (%s)", param->help, range);
    return register_var(param->name, help, MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, param->level,
                        param->value);
}

/* What is the core's to choose is left to it. */
static void set_defaults(void)
{
    *params = (struct mca_btl_diwarp_params){
        .finalize_timeout_ms = 500,
        .blocking_polls = 1000,
        .progress_thread = DIWARP_AUTO,
        .blocking = DIWARP_AUTO,
        .rc_recv_buffers = 95,
        .rc_recv_bytes = 8192,
        .rc_srq_buffers = 512,
        .rc_mpa_revision = 2,
        .rc_coalesce = DIWARP_ON,
    };
    diwarp_device_attr_init(&params->device);
    params->ack_delay_us = (unsigned)(params->device.ack_delay_ns / 1000);
    params->rto_min_us = (unsigned)(params->device.rto_min_ns / 1000);
    params->queue_delay_us = (unsigned)(params->device.queue_delay_ns / 1000);
    params->peer_timeout_s = (unsigned)(params->device.peer_timeout_ns / 1000000000);
    /* The MCA copies a string default when it registers the variable. */
    params->if_exclude = (char *)(uintptr_t)params->device.if_exclude;
}

/* What the user chooses among; an enum has the size of an int. */
struct enum_param {
    const char *name, *help;
    void *value;
    mca_base_var_info_lvl_t level;
    const mca_base_var_enum_value_t *values;
};

_Static_assert(sizeof(enum diwarp_switch) == sizeof(int), "the MCA stores an int there");

static const mca_base_var_enum_value_t off_on[] = {
    {DIWARP_OFF, "off"}, {DIWARP_ON, "on"}, {0, NULL}};
static const mca_base_var_enum_value_t off_on_auto[] = {
    {DIWARP_OFF, "off"}, {DIWARP_ON, "on"}, {DIWARP_AUTO, "auto"}, {0, NULL}};
static const mca_base_var_enum_value_t transports[] = {{MCA_BTL_DIWARP_RD, "rd"},
                                                       {MCA_BTL_DIWARP_RC, "rc"},
                                                       {MCA_BTL_DIWARP_RC_SRQ, "rc-srq"},
                                                       {0, NULL}};
static const mca_base_var_enum_value_t connects[] = {
    {MCA_BTL_DIWARP_RC_ON_DEMAND, "on_demand"}, {MCA_BTL_DIWARP_RC_AT_INIT, "init"}, {0, NULL}};

static const struct enum_param enum_params[] = {
    {"transport",
     "rd: reliable datagrams over UDP; rc: iWARP over TCP, one connection per peer, each with "
     "receives of its own; rc-srq: connections that share their receives. rd must be chosen in "
     "every process, or in none",
     AT(transport), OPAL_INFO_LVL_2, transports},
    {"rc_connect",
     "When connections are made: on_demand: when there is something to send; init: in MPI_Init, "
     "with all processes that Open MPI adds there (mpi_add_procs_cutoff), with others when they "
     "are added",
     AT(rc_connect), OPAL_INFO_LVL_4, connects},
    {"gso", "UDP segmentation offload: many datagrams in one send call", AT(device.gso),
     OPAL_INFO_LVL_4, off_on_auto},
    {"gro", "UDP receive offload: many datagrams in one receive call", AT(device.gro),
     OPAL_INFO_LVL_4, off_on_auto},
    {"crc",
     "CRC32C over each datagram, over RC over each FPDU; off trusts the checksum of UDP or TCP and "
     "must be so in every process",
     AT(device.crc), OPAL_INFO_LVL_4, off_on},
    {"same_host",
     "Which ranks are reached over loopback, or an address that both have: off: none; auto: those "
     "in this network namespace; on: also those to which no other addresses lead",
     AT(device.same_host), OPAL_INFO_LVL_3, off_on_auto},
    {"progress_thread",
     "A helper thread that sends, repeats, acknowledges and places data while the application "
     "makes no MPI calls; on: it also matches messages, which makes Open MPI take its locks; auto: "
     "it does so only in programs that asked for MPI_THREAD_MULTIPLE",
     AT(progress_thread), OPAL_INFO_LVL_4, off_on_auto},
    {"blocking",
     "Sleep in the kernel, for a millisecond at most, while nothing comes; auto: when there are "
     "more ranks than cores for them and no other BTL or thread needs to be looked after",
     AT(blocking), OPAL_INFO_LVL_4, off_on_auto},
    {"rc_markers", "Ask for MPA markers in what peers send over RC", AT(rc_markers),
     OPAL_INFO_LVL_6, off_on},
    {"rc_coalesce",
     "What is sent to a peer within 2 microseconds of the last, before the next poll, waits for "
     "that poll, and what answers messages until all are handled, so that messages share send "
     "calls",
     AT(rc_coalesce), OPAL_INFO_LVL_5, off_on},
    {"stats", "Print every counter, one a line, to stderr in MPI_Finalize", AT(stats),
     OPAL_INFO_LVL_3, off_on},
    {"memory_report",
     "Print how much memory diwarp holds, by kind, in one line a process to stderr in MPI_Finalize",
     AT(memory_report), OPAL_INFO_LVL_3, off_on},
};

#define ENUM_PARAMS (sizeof enum_params / sizeof enum_params[0])

static bool is_one_of(const char *const *words, const char *text)
{
    while (*words && strcasecmp(*words, text) != 0)
        words++;
    return *words;
}

/* MCA_BASE_VAR_TYPE_BOOL does not know "on" and "off"; what it knows, this does, too. */
static int on_or_off(mca_base_var_enum_t *enumerator, const char *text, int *value)
{
    static const char *const on[] = {"on", "true", "t", "enabled", "yes", "y", NULL};
    static const char *const off[] = {"off", "false", "f", "disabled", "no", "n", NULL};
    char *end;
    const long number = strtol(text, &end, 10);
    (void)enumerator;
    text += strspn(text, " \t\n\v\f\r");
    if (*end != '\0' && !is_one_of(on, text) && !is_one_of(off, text))
        return OPAL_ERR_VALUE_OUT_OF_BOUNDS;
    *value = (*end == '\0' ? number : is_one_of(on, text)) ? DIWARP_ON : DIWARP_OFF;
    return OPAL_SUCCESS;
}

static int register_enum(const struct enum_param *param)
{
    mca_base_var_enum_t *enumerator = NULL;
    char type[64];
    int rc;
    snprintf(type, sizeof type, "btl_diwarp_%s", param->name);
    rc = mca_base_var_enum_create(type, param->values, &enumerator);
    if (rc != OPAL_SUCCESS)
        return rc;
    if (off_on == param->values)
        enumerator->value_from_string = on_or_off;
    rc = register_var(param->name, param->help, MCA_BASE_VAR_TYPE_INT, enumerator, param->level,
                      param->value);
    OBJ_RELEASE(enumerator);
    if (rc == OPAL_ERR_VALUE_OUT_OF_BOUNDS) {
        char words[64] = "";
        for (const mca_base_var_enum_value_t *value = param->values; value->string; value++) {
            const char *before = value == param->values ? "" : !value[1].string ? " and " : ", ";
            strcat(strcat(words, before), value->string);
        }
        MCA_BTL_DIWARP_SAY("not used on %s: btl_diwarp_%s is none of %s",
                           opal_process_info.nodename, param->name, words);
    }
    return rc;
}

/*
 * What ob1 and the BML make of these:
 * - bandwidth: the BML weighs every RDMA-capable BTL that reaches a peer, and ob1 gives up RDMA
 * when those it may use weigh less than half. diwarp reaches this process itself, too (osc/rdma
 * asks for it), so it must weigh no more than btl/self, which says 100.
 * - min_rdma_pipeline_size: a larger contiguous message would be put in pieces and end with a FIN;
 *   SIZE_MAX leaves all of them to btl_get. Then the pipeline lengths never matter.
 * - rndv_eager_limit: what travels unasked ahead of a non-contiguous message.
 * - max_send_size: one UDP datagram where the MTU allows.
 * - local registration thresholds: the core reads and writes unregistered local memory.
 */
static void set_module_defaults(mca_btl_base_module_t *btl)
{
    btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT;
    btl->btl_eager_limit = EAGER_BYTES;
    btl->btl_rndv_eager_limit = 4u << 10;
    btl->btl_max_send_size = 63u << 10;
    btl->btl_rdma_pipeline_send_length = 0;
    btl->btl_rdma_pipeline_frag_size = RDMA_MAX_BYTES;
    btl->btl_min_rdma_pipeline_size = SIZE_MAX;
    btl->btl_get_limit = RDMA_MAX_BYTES;
    btl->btl_put_limit = RDMA_MAX_BYTES;
    btl->btl_get_alignment = 0;
    btl->btl_put_alignment = 0;
    btl->btl_get_local_registration_threshold = SIZE_MAX;
    btl->btl_put_local_registration_threshold = SIZE_MAX;
    btl->btl_registration_handle_size = sizeof(mca_btl_base_registration_handle_t);
    btl->btl_bandwidth = 100;
    btl->btl_latency = 5;
    btl->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA |
                     MCA_BTL_FLAGS_ATOMIC_FOPS;
    btl->btl_atomic_flags =
        MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP | MCA_BTL_ATOMIC_SUPPORTS_GLOB;
}

/*
 * Over RC a message fits into one posted receive, and there are no RDMA reads: ob1 then asks for a
 * put, and a FIN follows it. pipeline_send_length would send the first part of a large message by
 * copy; 0 puts all of it.
 */
static void set_rc_module_defaults(mca_btl_base_module_t *btl)
{
    const size_t message_bytes = params->rc_recv_bytes - MCA_BTL_DIWARP_HEADER_BYTES;
    btl->btl_eager_limit = message_bytes;
    btl->btl_max_send_size = message_bytes;
    if (btl->btl_rndv_eager_limit > message_bytes)
        btl->btl_rndv_eager_limit = message_bytes;
    btl->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT;
    btl->btl_atomic_flags = 0;
}

int mca_btl_diwarp_params_register(struct mca_btl_diwarp_module *module)
{
    int rc;
    set_defaults();
    rc = register_var("if_include",
                      "Interfaces to use, comma-separated names or CIDR (\"eth0,10.1.0.0/16\"); "
                      "excludes if_exclude. Default: all that are up",
                      MCA_BASE_VAR_TYPE_STRING, NULL, OPAL_INFO_LVL_1, &params->if_include);
    if (rc >= 0) {
        rc = register_var("if_exclude", "Interfaces not to use, comma-separated names or CIDR",
                          MCA_BASE_VAR_TYPE_STRING, NULL, OPAL_INFO_LVL_1, &params->if_exclude);
    }
    for (size_t i = 0; i < UINT_PARAMS && rc >= 0; i++)
        rc = register_uint(&uint_params[i]);
    for (size_t i = 0; i < ENUM_PARAMS && rc >= 0; i++)
        rc = register_enum(&enum_params[i]);
    if (rc < 0)
        return rc;
    set_module_defaults(&module->super);
    if (params->transport != MCA_BTL_DIWARP_RD)
        set_rc_module_defaults(&module->super);
    return mca_btl_base_param_register(&module->super.btl_component->btl_version, &module->super);
}

static bool show_bad(const char *name, size_t value, const char *allowed)
{
    MCA_BTL_DIWARP_HELP("bad parameter", name, value, allowed);
    MCA_BTL_DIWARP_SAY("not used: btl_diwarp_%s is %zu, allowed is %s", name, value, allowed);
    return false;
}

static bool check_uint(const struct uint_param *param)
{
    char allowed[64];
    if ((param->zero && !*param->value) ||
        (*param->value >= param->min && *param->value <= param->max))
        return true;
    format_range(allowed, sizeof allowed, param);
    return show_bad(param->name, *param->value, allowed);
}

/* Harmless: the upper layer splits by whatever limit it finds. Open MPI takes 0 for no limit.
 * osc/rdma does not split what it accumulates by, its buffer's eighth: 4 KiB by Open MPI's default.
 */
static void clamp_limit(const char *name, size_t *limit)
{
    const size_t asked = *limit, least = asked > 0 ? 4u << 10 : 0;
    *limit = asked > RDMA_MAX_BYTES ? RDMA_MAX_BYTES : asked < least ? least : asked;
    if (*limit != asked) {
        MCA_BTL_DIWARP_VERBOSE(1, "btl_diwarp_%s of %zu is not a transfer's; using %zu", name,
                               asked, *limit);
    }
}

static bool check_module(mca_btl_base_module_t *btl)
{
    const size_t most = params->transport == MCA_BTL_DIWARP_RD
                            ? MESSAGE_MAX_BYTES
                            : params->rc_recv_bytes - MCA_BTL_DIWARP_HEADER_BYTES;
    char allowed[64];
    snprintf(allowed, sizeof allowed, "%u to %zu", MESSAGE_MIN_BYTES, most);
    if (btl->btl_eager_limit < MESSAGE_MIN_BYTES || btl->btl_eager_limit > most)
        return show_bad("eager_limit", btl->btl_eager_limit, allowed);
    if (btl->btl_max_send_size < MESSAGE_MIN_BYTES || btl->btl_max_send_size > most)
        return show_bad("max_send_size", btl->btl_max_send_size, allowed);
    clamp_limit("get_limit", &btl->btl_get_limit);
    clamp_limit("put_limit", &btl->btl_put_limit);
    return true;
}

bool mca_btl_diwarp_params_check(struct mca_btl_diwarp_module *module)
{
    char allowed[64];
    for (size_t i = 0; i < UINT_PARAMS; i++)
        if (!check_uint(&uint_params[i]))
            return false;
    if (params->port_max > 0 && params->port_max < params->port_min) {
        snprintf(allowed, sizeof allowed, "0, or at least port_min (%u)", params->port_min);
        return show_bad("port_max", params->port_max, allowed);
    }
    if (params->port_max > 0 && !params->port_min)
        return show_bad("port_max", params->port_max, "0 unless port_min is set, too");
    return check_module(&module->super);
}

void mca_btl_diwarp_params_get(struct diwarp_device_attr *attr)
{
    const bool include = params->if_include && params->if_include[0] != '\0';
    *attr = params->device;
    attr->if_include = include ? params->if_include : NULL;
    attr->if_exclude = include ? NULL : params->if_exclude;
    attr->port_min = (uint16_t)params->port_min;
    attr->port_max = (uint16_t)params->port_max;
    attr->ack_delay_ns = params->ack_delay_us * 1000ull;
    attr->rto_min_ns = params->rto_min_us * 1000ull;
    attr->queue_delay_ns = params->queue_delay_us * 1000ull;
    attr->peer_timeout_ns = params->peer_timeout_s * 1000000000ull;
}

uint32_t mca_btl_diwarp_longest_send(const struct mca_btl_diwarp_module *module)
{
    const size_t eager = module->super.btl_eager_limit, max = module->super.btl_max_send_size;
    return (uint32_t)(eager > max ? eager : max);
}
