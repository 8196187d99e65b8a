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

struct mca_btl_diwarp_params mca_btl_diwarp_params;

static struct mca_btl_diwarp_params *const params = &mca_btl_diwarp_params;
#define AT(member) &mca_btl_diwarp_params.member

_Static_assert(sizeof(enum diwarp_switch) == sizeof(int), "the MCA stores an int there");

/* What the user chooses among. */
static const struct words {
    const char *all;
    mca_base_var_enum_value_t values[4];
} off_on = {"off and on", {{DIWARP_OFF, "off"}, {DIWARP_ON, "on"}}},
  off_on_auto = {"off, on and auto",
                 {{DIWARP_OFF, "off"}, {DIWARP_ON, "on"}, {DIWARP_AUTO, "auto"}}},
  transports = {"rd, rc and rc-srq",
                {{MCA_BTL_DIWARP_RD, "rd"},
                 {MCA_BTL_DIWARP_RC, "rc"},
                 {MCA_BTL_DIWARP_RC_SRQ, "rc-srq"}}},
  connects = {"on_demand and init",
              {{MCA_BTL_DIWARP_RC_ON_DEMAND, "on_demand"}, {MCA_BTL_DIWARP_RC_AT_INIT, "init"}}};

/* One of words, a number up to max, or any text. */
static const struct param {
    const char *name, *help;
    void *value;
    mca_base_var_info_lvl_t level;
    const struct words *words;
    unsigned min, max;
    bool zero; /* 0 is good too, outside of the range */
} table[] = {
    {"if_include",
     "Interfaces to use, comma-separated names or CIDR (\"eth0,10.1.0.0/16\"); excludes "
     "if_exclude. Default: all that are up",
     AT(if_include), OPAL_INFO_LVL_1, .words = NULL},
    {"if_exclude", "Interfaces not to use, comma-separated names or CIDR", AT(if_exclude),
     OPAL_INFO_LVL_1, .words = NULL},
    {"port_min",
     "First UDP port to try, for firewalls; 0: any free port. Each process on a host needs one of "
     "its own",
     AT(port_min), OPAL_INFO_LVL_2, .max = 65535},
    {"port_max", "Last UDP port to try; 0: port_min only", AT(port_max), OPAL_INFO_LVL_2,
     .max = 65535},
    {"rcvbuf",
     "Socket receive buffer to ask for, in bytes (limited by net.core.rmem_max); 0: the system's "
     "default",
     AT(device.rcvbuf_bytes), OPAL_INFO_LVL_3, .min = 4096, .max = INT_MAX / 2, .zero = true},
    {"sndbuf",
     "Socket send buffer to ask for, in bytes (limited by net.core.wmem_max); 0: the system's "
     "default",
     AT(device.sndbuf_bytes), OPAL_INFO_LVL_3, .min = 4096, .max = INT_MAX / 2, .zero = true},
    {"datagram_max",
     "Largest UDP payload in bytes; 0: by the MTU of the path and the peers' receive buffers",
     AT(device.datagram_max_bytes), OPAL_INFO_LVL_4, .min = 512, .max = 65507, .zero = true},
    {"ack_delay_us", "Longest wait, in microseconds, before an acknowledgement travels alone",
     AT(ack_delay_us), OPAL_INFO_LVL_5, .max = 1000000},
    {"rto_min_us", "Shortest retransmission time-out, in microseconds; the rest is measured",
     AT(rto_min_us), OPAL_INFO_LVL_5, .min = 10, .max = 10000000},
    {"queue_delay_us",
     "Longest time in microseconds that datagrams may wait in queues on their way to a peer, by "
     "round trips, before fewer are sent to it at a time; 0: only losses count",
     AT(queue_delay_us), OPAL_INFO_LVL_5, .max = 4000000},
    {"peer_timeout",
     "Seconds of silence, with data owed to a peer, after which it counts as gone and the job "
     "ends; 0: never. A process that computes for long without calling MPI is silent, too",
     AT(peer_timeout_s), OPAL_INFO_LVL_3, .max = 31536000},
    {"send_window", "Most unacknowledged datagrams per peer", AT(device.send_window_datagrams),
     OPAL_INFO_LVL_5, .min = 1, .max = 256},
    {"send_pool", "Most bytes of memory held by unacknowledged datagrams of all peers",
     AT(device.send_pool_bytes), OPAL_INFO_LVL_5, .min = 256u << 10, .max = UINT_MAX},
    {"record_window",
     "Most bytes of RDMA transfers under way to this process; 0: 1 MiB, or 4 MiB where ranks share "
     "cores or poll rarely. Never more than the receive buffer takes",
     AT(device.record_window_bytes), OPAL_INFO_LVL_5, .min = 4096, .max = UINT_MAX, .zero = true},
    {"blocking_polls", "Polls in a row that find nothing before progress sleeps, where it may",
     AT(blocking_polls), OPAL_INFO_LVL_5, .min = 1, .max = 1000000},
    {"finalize_timeout_ms",
     "Longest wait in MPI_Finalize, in milliseconds, for peers to acknowledge what was sent",
     AT(finalize_timeout_ms), OPAL_INFO_LVL_6, .max = 600000},
    {"rc_recv_buffers", "Receives posted for each connection, with btl_diwarp_transport rc",
     AT(rc_recv_buffers), OPAL_INFO_LVL_4, .min = 1, .max = 65536},
    {"rc_recv_bytes",
     "Bytes of each receive, with btl_diwarp_transport rc and rc-srq; must be the same in every "
     "process. The eager limit is 8 less",
     AT(rc_recv_bytes), OPAL_INFO_LVL_4, .min = 2 * MESSAGE_MIN_BYTES, .max = MESSAGE_MAX_BYTES},
    {"rc_srq_buffers", "Receives posted for all connections, with btl_diwarp_transport rc-srq",
     AT(rc_srq_buffers), OPAL_INFO_LVL_4, .min = 1, .max = 1u << 20},
    {"rc_mpa_revision", "MPA revision of the connections: 1, or 2 (RFC 6581)", AT(rc_mpa_revision),
     OPAL_INFO_LVL_6, .min = 1, .max = 2},
    {"transport",
     "rd: reliable datagrams over UDP; rc: iWARP over TCP, one connection per peer, each with "
     "receives of its own; rc-srq: connections that share their receives. rd must be chosen in "
     "every process, or in none",
     AT(transport), OPAL_INFO_LVL_2, .words = &transports},
    {"rc_connect",
     "When connections are made: on_demand: when there is something to send; init: in MPI_Init, "
     "with all processes that Open MPI adds there (mpi_add_procs_cutoff), with others when they "
     "are added",
     AT(rc_connect), OPAL_INFO_LVL_4, .words = &connects},
    {"gso", "UDP segmentation offload: many datagrams in one send call", AT(device.gso),
     OPAL_INFO_LVL_4, .words = &off_on_auto},
    {"gro", "UDP receive offload: many datagrams in one receive call", AT(device.gro),
     OPAL_INFO_LVL_4, .words = &off_on_auto},
    {"crc",
     "CRC32C over each datagram, over RC over each FPDU; off trusts the checksum of UDP or TCP and "
     "must be so in every process",
     AT(device.crc), OPAL_INFO_LVL_4, .words = &off_on},
    {"same_host",
     "Which ranks are reached over loopback, or an address that both have: off: none; auto: those "
     "in this network namespace; on: also those to which no other addresses lead",
     AT(device.same_host), OPAL_INFO_LVL_3, .words = &off_on_auto},
    {"connected",
     "Send to the busiest peers, at most 8, through connected sockets, which costs the kernel "
     "less; not used when port_min is set",
     AT(connected), OPAL_INFO_LVL_5, .words = &off_on},
    {"progress_thread",
     "A helper thread that sends, repeats, acknowledges and places data while the application "
     "makes no MPI calls; on: it also matches messages, which makes Open MPI take its locks; auto: "
     "it does so only in programs that asked for MPI_THREAD_MULTIPLE",
     AT(progress_thread), OPAL_INFO_LVL_4, .words = &off_on_auto},
    {"blocking",
     "Sleep in the kernel, for a millisecond at most, while nothing comes; auto: when there are "
     "more ranks than cores for them and no other BTL or thread needs to be looked after",
     AT(blocking), OPAL_INFO_LVL_4, .words = &off_on_auto},
    {"rc_markers", "Ask for MPA markers in what peers send over RC", AT(rc_markers),
     OPAL_INFO_LVL_6, .words = &off_on},
    {"rc_coalesce",
     "What is sent to a peer within 2 microseconds of the last, before the next poll, waits for "
     "that poll, and what answers messages until all are handled, so that messages share send "
     "calls",
     AT(rc_coalesce), OPAL_INFO_LVL_5, .words = &off_on},
    {"stats", "Print every counter, one a line, to stderr in MPI_Finalize", AT(stats),
     OPAL_INFO_LVL_3, .words = &off_on},
    {"memory_report",
     "Print how much memory diwarp holds, by kind, in one line a process to stderr in MPI_Finalize",
     AT(memory_report), OPAL_INFO_LVL_3, .words = &off_on},
};

#define PARAMS (sizeof table / sizeof table[0])

/* MCA_BASE_VAR_TYPE_BOOL does not know "on" and "off"; what it knows, this does, too. */
static int on_or_off(mca_base_var_enum_t *enumerator, const char *text, int *value)
{
    (void)enumerator;
    for (const mca_base_var_enum_value_t *word = off_on.values; word->string; word++) {
        if (strcasecmp(word->string, text) == 0) {
            *value = word->value;
            return OPAL_SUCCESS;
        }
    }
    return mca_base_var_enum_bool.value_from_string(&mca_base_var_enum_bool, text, value);
}

static void format_range(char *text, size_t len, const struct param *param)
{
    snprintf(text, len, "%s%u to %u", param->zero ? "0, or " : "", param->min, param->max);
}

/* With the range, for ompi_info. */
static int register_param(const struct param *param)
{
    mca_base_var_type_t type = MCA_BASE_VAR_TYPE_STRING;
    mca_base_var_enum_t *enumerator = NULL;
    const char *help = param->help;
    char range[64], text[512];
    if (param->words) {
        snprintf(text, sizeof text, "btl_diwarp_%s", param->name);
        type = MCA_BASE_VAR_TYPE_INT;
        if (mca_base_var_enum_create(text, param->words->values, &enumerator) != OPAL_SUCCESS)
            return OPAL_ERR_OUT_OF_RESOURCE;
        if (param->words == &off_on)
            enumerator->value_from_string = on_or_off;
    } else if (param->max > 0) {
        type = MCA_BASE_VAR_TYPE_UNSIGNED_INT;
        format_range(range, sizeof range, param);
        snprintf(text, sizeof text, "%s (%s)", help, range);
        help = text;
    }
    int rc = mca_base_var_register("opal", "btl", "diwarp", param->name, help, type, enumerator, 0,
                                   MCA_BASE_VAR_FLAG_DWG, param->level, MCA_BASE_VAR_SCOPE_READONLY,
                                   param->value);
    if (enumerator)
        OBJ_RELEASE(enumerator);
    if (rc == OPAL_ERR_VALUE_OUT_OF_BOUNDS)
        MCA_BTL_DIWARP_SAY("not used on %s: btl_diwarp_%s is none of %s",
                           opal_process_info.nodename, param->name, param->words->all);
    return rc;
}

/* What is the core's to choose is left to it. */
static void set_defaults(void)
{
    *params = (struct mca_btl_diwarp_params){
        .connected = DIWARP_ON,
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
    btl->btl_rdma_pipeline_frag_size = MCA_BTL_DIWARP_RDMA_MAX_BYTES;
    btl->btl_min_rdma_pipeline_size = SIZE_MAX;
    btl->btl_get_limit = MCA_BTL_DIWARP_RDMA_MAX_BYTES;
    btl->btl_put_limit = MCA_BTL_DIWARP_RDMA_MAX_BYTES;
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
}

int mca_btl_diwarp_params_register(struct mca_btl_diwarp_module *module)
{
    set_defaults();
    for (size_t i = 0; i < PARAMS; i++) {
        int rc = register_param(&table[i]);
        if (rc < 0)
            return rc;
    }
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

static bool check_number(const struct param *param)
{
    const unsigned value = *(const unsigned *)param->value;
    char allowed[64];
    if ((param->zero && !value) || (value >= param->min && value <= param->max))
        return true;
    format_range(allowed, sizeof allowed, param);
    return show_bad(param->name, value, allowed);
}

/* The upper layer splits by whatever limit it finds, but for what osc/rdma accumulates: its
 * buffer's eighth, 4 KiB by Open MPI's default. */
static size_t within_limits(size_t bytes)
{
    return bytes > MCA_BTL_DIWARP_RDMA_MAX_BYTES ? MCA_BTL_DIWARP_RDMA_MAX_BYTES
           : bytes < 4u << 10                    ? 4u << 10
                                                 : bytes;
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
    btl->btl_get_limit = within_limits(btl->btl_get_limit);
    btl->btl_put_limit = within_limits(btl->btl_put_limit);
    return true;
}

bool mca_btl_diwarp_params_check(struct mca_btl_diwarp_module *module)
{
    char allowed[64];
    if (mca_base_var_check_exclusive("opal", "btl", "diwarp", "if_include", "btl", "diwarp",
                                     "if_exclude") != OPAL_SUCCESS) {
        MCA_BTL_DIWARP_SAY("not used on %s: btl_diwarp_if_include and btl_diwarp_if_exclude are "
                           "both set; set one",
                           opal_process_info.nodename);
        return false;
    }
    for (size_t i = 0; i < PARAMS; i++)
        if (table[i].max > 0 && !check_number(&table[i]))
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
    attr->connected = params->connected;
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
