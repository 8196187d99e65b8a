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

_Static_assert(sizeof(enum diwarp_switch) == sizeof(int) && sizeof(enum diwarp_auth) == sizeof(int),
               "the MCA stores an int there");

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
  auths = {"off, gmac and aes-gcm",
           {{DIWARP_AUTH_OFF, "off"},
            {DIWARP_AUTH_GMAC, "gmac"},
            {DIWARP_AUTH_AES_GCM, "aes-gcm"}}},
  connects = {"on_demand and init",
              {{MCA_BTL_DIWARP_RC_ON_DEMAND, "on_demand"}, {MCA_BTL_DIWARP_RC_AT_INIT, "init"}}};

/* One of words, a number up to max, or any text. */
static const struct param {
    const char *name, *help;
    void *value;
    int level; /* from Open MPI's 1, for users, to 9, for its developers */
    const struct words *words;
    unsigned min, max;
    bool zero; /* 0 is good too, outside of the range */
} table[] = {
    {"if_include",
     "Interfaces to use: names or CIDR (eth0,10.1.0.0/16); default: all up but if_exclude",
     AT(device.if_include), 1, .max = 0},
    {"if_exclude", "Interfaces not to use: names or CIDR; not with if_include",
     AT(device.if_exclude), 1, .max = 0},
    {"port_min",
     "First UDP port to try, for firewalls; 0: any free. Ports are shared where there are too few",
     AT(port_min), 2, .max = 65535},
    {"port_max", "Last UDP port to try; 0: port_min only", AT(port_max), 2, .max = 65535},
    {"flows",
     "UDP source ports that a large message to another host is sent from at once, for networks "
     "that spread flows over links (ECMP) or limit each; the same in all processes",
     AT(device.flows), 3, .min = 1, .max = 8},
    {"rcvbuf", "Socket receive buffer in bytes, at most net.core.rmem_max; 0: the system's default",
     AT(device.rcvbuf_bytes), 3, .min = 4096, .max = INT_MAX / 2, .zero = true},
    {"sndbuf", "Socket send buffer in bytes, at most net.core.wmem_max; 0: the system's default",
     AT(device.sndbuf_bytes), 3, .min = 4096, .max = INT_MAX / 2, .zero = true},
    {"datagram_max", "Largest UDP payload in bytes; 0: by path MTU and peers' receive buffers",
     AT(device.datagram_max_bytes), 4, .min = 512, .max = 65507, .zero = true},
    {"ack_delay_us", "Longest wait, in microseconds, before an acknowledgement travels alone",
     AT(ack_delay_us), 5, .max = 1000000},
    {"rto_min_us",
     "Shortest retransmission time-out where nothing was lost lately, in microseconds; the rest is "
     "measured",
     AT(rto_min_us), 5, .min = 10, .max = 10000000},
    {"queue_delay_us",
     "Microseconds that datagrams may wait in queues to a peer before fewer are sent; 0: only "
     "losses count",
     AT(queue_delay_us), 5, .max = 4000000},
    {"peer_timeout",
     "Seconds of silence, with data owed to a peer, after which it counts as gone and the job "
     "ends; 0: never. A process that computes for long without calling MPI is silent, too",
     AT(peer_timeout_s), 3, .max = 31536000},
    {"send_window", "Most unacknowledged datagrams per peer", AT(device.send_window_datagrams), 5,
     .min = 1, .max = 256},
    {"send_pool", "Most bytes of memory held by unacknowledged datagrams of all peers",
     AT(device.send_pool_bytes), 5, .min = 256u << 10, .max = UINT_MAX},
    {"record_window",
     "Most bytes of RDMA under way to a rank, and no more than its receive buffer takes; 0: 1 MiB, "
     "or 4 MiB where ranks share cores or poll rarely",
     AT(device.record_window_bytes), 5, .min = 4096, .max = UINT_MAX, .zero = true},
    {"blocking_polls", "Polls in a row that find nothing before progress sleeps, where it may",
     AT(blocking_polls), 5, .min = 1, .max = 1000000},
    {"finalize_timeout_ms", "Longest wait in MPI_Finalize for acknowledgements, in milliseconds",
     AT(finalize_timeout_ms), 6, .max = 600000},
    {"rc_recv_buffers", "Receives posted for each connection, with btl_diwarp_transport rc",
     AT(rc_recv_buffers), 4, .min = 1, .max = 65536},
    {"rc_recv_bytes",
     "Bytes of each receive over RC, the same in all processes; the eager limit is 8 less",
     AT(rc_recv_bytes), 4, .min = 2 * MESSAGE_MIN_BYTES, .max = MESSAGE_MAX_BYTES},
    {"rc_srq_buffers", "Receives posted for all connections, with btl_diwarp_transport rc-srq",
     AT(rc_srq_buffers), 4, .min = 1, .max = 1u << 20},
    {"rc_mpa_revision", "MPA revision of the connections: 1, or 2 (RFC 6581)", AT(rc_mpa_revision),
     6, .min = 1, .max = 2},
    {"transport",
     "rd: reliable datagrams over UDP; rc: iWARP over TCP, per peer a connection with receives of "
     "its own; rc-srq: these share their receives. rd must be chosen in every process, or in none",
     AT(transport), 2, .words = &transports},
    {"rc_connect",
     "When connections are made: on_demand: when there is something to send; init: when Open MPI "
     "adds a process, in MPI_Init (mpi_add_procs_cutoff) or later",
     AT(rc_connect), 4, .words = &connects},
    {"gso", "UDP GSO: many datagrams in a send call", AT(device.gso), 4, .words = &off_on_auto},
    {"gro", "UDP GRO: many datagrams in a receive call", AT(device.gro), 4, .words = &off_on_auto},
    {"crc",
     "CRC32C over each datagram or FPDU (RC); off, in all processes: UDP's or TCP's checksum",
     AT(device.crc), 4, .words = &off_on},
    {"auth",
     "Whoever reads and writes on the network between the ranks is kept out by a tag in each "
     "datagram: gmac: nothing can be forged or sent again; aes-gcm: nor read. Over rd only, the "
     "same in all processes; needs libcrypto (OpenSSL 3)",
     AT(device.auth), 3, .words = &auths},
    {"auth_key_file",
     "With btl_diwarp_auth, a file of 16 random bytes or more, the same on all hosts, that nobody "
     "but its owner may use: without it, who listens when the job is launched learns the keys",
     AT(device.auth_key_file), 3, .max = 0},
    {"same_host",
     "Which ranks are reached over loopback, or an address that both have: off: none; auto: those "
     "in this network namespace; on: also those to which no other addresses lead",
     AT(device.same_host), 3, .words = &off_on_auto},
    {"progress_thread",
     "A helper thread that sends, repeats and places data while the application makes no MPI "
     "calls; "
     "on: matches messages, too, for which Open MPI takes locks; auto: so with MPI_THREAD_MULTIPLE",
     AT(progress_thread), 4, .words = &off_on_auto},
    {"blocking",
     "Sleep in the kernel, for a millisecond at most, while nothing comes; auto: when there are "
     "more ranks than cores for them, or other jobs take these away, and no other BTL or thread "
     "needs to be looked after",
     AT(blocking), 4, .words = &off_on_auto},
    {"rc_markers", "Ask for MPA markers in what peers send over RC", AT(rc_markers), 6,
     .words = &off_on},
    {"rc_coalesce",
     "What is sent to a peer within 2 microseconds of the last waits for the next poll, and what "
     "answers messages until all are handled, so that messages share send calls",
     AT(rc_coalesce), 5, .words = &off_on},
    {"stats", "Print every counter, one a line, to stderr in MPI_Finalize", AT(stats), 3,
     .words = &off_on},
    {"memory_report", "Print how much memory diwarp holds, by kind, to stderr in MPI_Finalize",
     AT(memory_report), 3, .words = &off_on},
};

#define PARAMS (sizeof table / sizeof table[0])

/* MCA_BASE_VAR_TYPE_BOOL does not know "on" and "off"; what it knows, this does, too. */
static int on_or_off(mca_base_var_enum_t *enumerator, const char *text, int *value)
{
    (void)enumerator;
    if (strcasecmp(text, "on") == 0)
        text = "1";
    else if (strcasecmp(text, "off") == 0)
        text = "0";
    return mca_base_var_enum_bool.value_from_string(&mca_base_var_enum_bool, text, value);
}

static void format_range(char *text, size_t len, bool zero, size_t min, size_t max)
{
    snprintf(text, len, "%s%zu to %zu", zero ? "0, or " : "", min, max);
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
        format_range(range, sizeof range, param->zero, param->min, param->max);
        snprintf(text, sizeof text, "%s (%s)", help, range);
        help = text;
    }
    int rc = mca_base_var_register("opal", "btl", "diwarp", param->name, help, type, enumerator, 0,
                                   MCA_BASE_VAR_FLAG_DWG,
                                   (mca_base_var_info_lvl_t)(OPAL_INFO_LVL_1 + param->level - 1),
                                   MCA_BASE_VAR_SCOPE_READONLY, param->value);
    if (enumerator)
        OBJ_RELEASE(enumerator);
    if (rc == OPAL_ERR_VALUE_OUT_OF_BOUNDS)
        MCA_BTL_DIWARP_SAY("not used on %s: btl_diwarp_%s is none of %s",
                           opal_process_info.nodename, param->name, param->words->all);
    return rc;
}

/* Bytes of the longest Send, PML's headers included. */
static size_t message_max(void)
{
    return params->transport == MCA_BTL_DIWARP_RD
               ? MESSAGE_MAX_BYTES
               : params->rc_recv_bytes - MCA_BTL_DIWARP_HEADER_BYTES;
}

/*
 * What ob1 and the BML make of these:
 * - eager_limit, max_send_size: over RD one UDP datagram where the MTU allows; over RC what fits
 *   into one posted receive.
 * - rndv_eager_limit: what travels unasked ahead of a non-contiguous message.
 * - min_rdma_pipeline_size: a larger contiguous message would be put in pieces and end with a FIN;
 *   SIZE_MAX leaves all of them to btl_get. Then the pipeline lengths never matter, but over RC,
 *   where ob1 asks for a put instead: it puts all, for a pipeline_send_length of 0.
 * - bandwidth: the BML weighs every RDMA-capable BTL that reaches a peer, and ob1 gives up RDMA
 *   when those it may use weigh less than half. diwarp reaches this process itself, too (osc/rdma
 *   asks for it), so it must weigh no more than btl/self, which says 100.
 * - local registration thresholds: the core reads and writes unregistered local memory.
 * Others are 0.
 */
static void set_module_defaults(mca_btl_base_module_t *btl)
{
    const bool rd = params->transport == MCA_BTL_DIWARP_RD;
    const size_t most = message_max();
    btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT;
    btl->btl_eager_limit = rd ? EAGER_BYTES : most;
    btl->btl_rndv_eager_limit = most < 4u << 10 ? most : 4u << 10;
    btl->btl_max_send_size = rd ? 63u << 10 : most;
    btl->btl_rdma_pipeline_frag_size = MCA_BTL_DIWARP_RDMA_MAX_BYTES;
    btl->btl_min_rdma_pipeline_size = SIZE_MAX;
    btl->btl_get_limit = btl->btl_put_limit = MCA_BTL_DIWARP_RDMA_MAX_BYTES;
    btl->btl_get_local_registration_threshold = SIZE_MAX;
    btl->btl_put_local_registration_threshold = SIZE_MAX;
    btl->btl_registration_handle_size = sizeof(mca_btl_base_registration_handle_t);
    btl->btl_bandwidth = 100;
    btl->btl_latency = 5;
    btl->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA |
                     MCA_BTL_FLAGS_ATOMIC_FOPS | MCA_BTL_DIWARP_RDMA_FLAGS;
    btl->btl_atomic_flags =
        MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP | MCA_BTL_ATOMIC_SUPPORTS_GLOB;
}

int mca_btl_diwarp_params_register(struct mca_btl_diwarp_module *module)
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
    diwarp_device_attr_init(&params->device); /* what is the core's to choose is left to it */
    params->ack_delay_us = (unsigned)(params->device.ack_delay_ns / 1000);
    params->rto_min_us = (unsigned)(params->device.rto_min_ns / 1000);
    params->queue_delay_us = (unsigned)(params->device.queue_delay_ns / 1000);
    params->peer_timeout_s = (unsigned)(params->device.peer_timeout_ns / 1000000000);
    for (size_t i = 0; i < PARAMS; i++) {
        int rc = register_param(&table[i]);
        if (rc < 0)
            return rc;
    }
    set_module_defaults(&module->super);
    return mca_btl_base_param_register(&module->super.btl_component->btl_version, &module->super);
}

static bool show_bad(const char *name, size_t value, const char *allowed)
{
    MCA_BTL_DIWARP_HELP("bad parameter", name, value, allowed);
    MCA_BTL_DIWARP_SAY("not used: btl_diwarp_%s is %zu, allowed is %s", name, value, allowed);
    return false;
}

/* False: told the user. */
static bool in_range(const char *name, size_t value, bool zero, size_t min, size_t max)
{
    char allowed[64];
    if ((zero && !value) || (value >= min && value <= max))
        return true;
    format_range(allowed, sizeof allowed, zero, min, max);
    return show_bad(name, value, allowed);
}

/* The upper layer splits by whatever limit it finds, but for what osc/rdma accumulates: its
 * buffer's eighth, 4 KiB by Open MPI's default. */
static size_t within_limits(size_t bytes)
{
    if (bytes < 4u << 10)
        return 4u << 10;
    return bytes < MCA_BTL_DIWARP_RDMA_MAX_BYTES ? bytes : MCA_BTL_DIWARP_RDMA_MAX_BYTES;
}

bool mca_btl_diwarp_params_check(struct mca_btl_diwarp_module *module)
{
    mca_btl_base_module_t *btl = &module->super;
    if (mca_base_var_check_exclusive("opal", "btl", "diwarp", "if_include", "btl", "diwarp",
                                     "if_exclude") != OPAL_SUCCESS) {
        MCA_BTL_DIWARP_SAY("not used on %s: btl_diwarp_if_include and btl_diwarp_if_exclude are "
                           "both set; set one",
                           opal_process_info.nodename);
        return false;
    }
    for (const struct param *param = table; param < table + PARAMS; param++)
        if (param->max > 0 && !in_range(param->name, *(const unsigned *)param->value, param->zero,
                                        param->min, param->max))
            return false;
    if (params->port_max > 0 && (!params->port_min || params->port_max < params->port_min))
        return show_bad("port_max", params->port_max,
                        "0, or at least port_min, which is then not 0");
    if (params->device.auth != DIWARP_AUTH_OFF && params->transport != MCA_BTL_DIWARP_RD) {
        MCA_BTL_DIWARP_SAY("not used on %s: btl_diwarp_auth is for btl_diwarp_transport rd only",
                           opal_process_info.nodename);
        return false;
    }
    btl->btl_get_limit = within_limits(btl->btl_get_limit);
    btl->btl_put_limit = within_limits(btl->btl_put_limit);
    return in_range("eager_limit", btl->btl_eager_limit, false, MESSAGE_MIN_BYTES, message_max()) &&
           in_range("max_send_size", btl->btl_max_send_size, false, MESSAGE_MIN_BYTES,
                    message_max());
}

struct diwarp_device_attr mca_btl_diwarp_params_device(void)
{
    struct diwarp_device_attr attr = params->device;
    attr.name = (struct diwarp_name){.job = OPAL_PROC_MY_NAME.jobid, OPAL_PROC_MY_NAME.vpid};
    attr.port_min = (uint16_t)params->port_min;
    attr.port_max = (uint16_t)params->port_max;
    attr.ack_delay_ns = params->ack_delay_us * 1000ull;
    attr.rto_min_ns = params->rto_min_us * 1000ull;
    attr.queue_delay_ns = params->queue_delay_us * 1000ull;
    attr.peer_timeout_ns = params->peer_timeout_s * 1000000000ull;
    return attr;
}

uint32_t mca_btl_diwarp_longest_send(const struct mca_btl_diwarp_module *module)
{
    const size_t eager = module->super.btl_eager_limit, max = module->super.btl_max_send_size;
    return (uint32_t)(eager > max ? eager : max);
}
