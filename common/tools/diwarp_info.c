/* SPDX-License-Identifier: BSD-3-Clause */
/* diwarp_info: what diwarp finds on this host, and what to change to make it faster. */
#include "common/include/diwarp.h"
#include "common/wire/llp_header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: diwarp_info [--if-include LIST | --if-exclude LIST]\n"
    "Shows the interfaces, socket buffers and offloads that diwarp would use on this host.\n"
    "  --if-include LIST  only these interfaces: names or CIDR, comma-separated\n"
    "  --if-exclude LIST  all but these (default " DIWARP_IF_EXCLUDE_DEFAULT ")\n"
    "  --help             this text\n"
    "  --version          the version of diwarp and of its wire protocol\n";

static void print_version(void)
{
    printf("diwarp %s, wire version %d\n", DIWARP_VERSION, DW_WIRE_VERSION);
}

/* Returns -1 to go on, otherwise the exit status. */
static int parse_options(int argc, char **argv, struct diwarp_device_attr *attr)
{
    static const struct option known[] = {
        {"if-include", required_argument, NULL, 'i'},
        {"if-exclude", required_argument, NULL, 'x'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    bool wrong = false, excluded = false;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == 'v') {
            print_version();
            return 0;
        }
        wrong |= c == '?';
        excluded |= c == 'x';
        if (c == 'i')
            attr->if_include = optarg;
        else
            attr->if_exclude = optarg;
    }
    if (!wrong && optind == argc && !(attr->if_include && excluded))
        return -1;
    fputs(usage, stderr);
    return 2;
}

/* The kernel tells what a socket really gets only once there is one: that of a UD QP. */
static int query_socket(struct diwarp_device *device, struct diwarp_qp_info *info,
                        struct diwarp_diagnosis *why)
{
    struct diwarp_cq *cq = diwarp_create_cq(device, 1);
    struct diwarp_pd *pd = diwarp_alloc_pd(device);
    struct diwarp_qp_attr attr;
    struct diwarp_qp *qp;
    diwarp_qp_attr_init(&attr);
    attr.type = DIWARP_QPT_UD;
    attr.cq = cq;
    int err = cq && pd ? diwarp_create_qp(pd, &attr, &qp, why) : -ENOMEM;
    if (!err) {
        diwarp_query_qp(qp, info);
        diwarp_destroy_qp(qp);
    }
    if (pd)
        diwarp_dealloc_pd(pd);
    if (cq)
        diwarp_destroy_cq(cq);
    return err;
}

/* Of a device that is opened for that; qp may be NULL. */
static int query(const struct diwarp_device_attr *attr, struct diwarp_device_info *info,
                 struct diwarp_qp_info *qp, struct diwarp_diagnosis *why)
{
    struct diwarp_device *device;
    int err = diwarp_open_device(attr, &device, why);
    if (err)
        return err;
    diwarp_query_device(device, info);
    if (qp)
        err = query_socket(device, qp, why);
    diwarp_close_device(device);
    return err;
}

static bool is_chosen(const struct diwarp_device_info *chosen,
                      const struct diwarp_interface *interface)
{
    for (unsigned i = 0; i < chosen->interface_count; i++) {
        const struct diwarp_interface *other = &chosen->interfaces[i];
        if (strcmp(other->name, interface->name) == 0 && other->family == interface->family &&
            memcmp(other->ip, interface->ip, sizeof other->ip) == 0)
            return true;
    }
    return false;
}

static void print_interface(const struct diwarp_interface *interface, const char *used)
{
    char ip[INET6_ADDRSTRLEN] = "?", address[INET6_ADDRSTRLEN + 8];
    inet_ntop(interface->family, interface->ip, ip, sizeof ip);
    snprintf(address, sizeof address, "%s/%u", ip, interface->prefix_bits);
    printf("%-16s  %-41s  %6u  %s\n", interface->name, address, interface->mtu_bytes, used);
}

/* all: without filters; not all that are chosen need be among them. */
static void print_facts(const struct diwarp_device_info *all,
                        const struct diwarp_device_info *chosen, const struct diwarp_qp_info *qp)
{
    puts("\ninterface         address                                       MTU  used");
    for (unsigned i = 0; i < chosen->interface_count; i++)
        print_interface(&chosen->interfaces[i],
                        chosen->interfaces[i].loopback ? "yes, within this host" : "yes");
    for (unsigned i = 0; i < all->interface_count; i++)
        if (!is_chosen(chosen, &all->interfaces[i]))
            print_interface(&all->interfaces[i], "no: excluded");
    if (chosen->left_out_count > 0)
        printf("%u more are left out: no more than %u can be used, --if-include says which\n",
               chosen->left_out_count, chosen->interface_count);
    printf("\nreceive buffer    %u bytes granted (net.core.rmem_max %u)\n"
           "send buffer       %u bytes granted (net.core.wmem_max %u)\n"
           "UDP GSO           %s\n"
           "UDP GRO           %s\n"
           "CRC32C            %s\n",
           qp->rcvbuf_bytes, chosen->rmem_max_bytes, qp->sndbuf_bytes, chosen->wmem_max_bytes,
           qp->gso ? "yes" : "no", qp->gro ? "yes" : "no", chosen->crc_path);
}

static unsigned hints; /* given */

static void hint_if(bool wrong, const char *text)
{
    if (wrong)
        puts(text);
    hints += wrong;
}

static void hint_limit(const char *name, uint32_t now, uint32_t wanted, const char *why)
{
    char text[512];
    snprintf(text, sizeof text,
             "\n- %s is %u; %s.\n"
             "  now:      sudo sysctl -w %s=%u\n"
             "  for good: echo %s=%u | sudo tee -a /etc/sysctl.d/90-diwarp.conf",
             name, now, why, name, wanted, name, wanted);
    hint_if(now < wanted, text);
}

static void print_hints(const struct diwarp_device_info *chosen, const struct diwarp_qp_info *qp)
{
    bool out = false;
    for (unsigned i = 0; i < chosen->interface_count; i++)
        out |= !chosen->interfaces[i].loopback;
    fputs("\nwhat to change:", stdout);
    hint_limit("net.core.rmem_max", chosen->rmem_max_bytes, 4u << 20,
               "bursts from many peers need a larger receive buffer");
    hint_limit("net.core.wmem_max", chosen->wmem_max_bytes, 1u << 20,
               "large messages need a larger send buffer");
    hint_if(!out, "\n- only loopback is used: other hosts cannot be reached.\n"
                  "  Bring an interface up, or change --if-include or --if-exclude.");
    hint_if(!qp->gso || !qp->gro,
            "\n- UDP GSO (Linux 4.18) or GRO (Linux 5.0) is not available: each datagram costs a\n"
            "  system call. A newer kernel makes large messages several times faster.");
    hint_if(strcmp(chosen->crc_path, "portable") == 0,
            "\n- this CPU has no CRC32C instructions: checksums limit the bandwidth. Where the\n"
            "  network is trusted, --mca btl_diwarp_crc off (in every process) spares them.");
    puts(hints > 0 ? "" : " nothing");
}

int main(int argc, char **argv)
{
    struct diwarp_device_attr attr, unfiltered;
    struct diwarp_device_info all, chosen;
    struct diwarp_qp_info qp;
    struct diwarp_diagnosis why = {""};
    diwarp_device_attr_init(&attr);
    attr.gro = DIWARP_ON; /* not only once it is of use: whether it is possible is asked */
    int status = parse_options(argc, argv, &attr);
    if (status >= 0)
        return status;
    print_version();
    unfiltered = attr;
    unfiltered.if_include = unfiltered.if_exclude = NULL;
    status = query(&unfiltered, &all, NULL, &why);
    if (!status)
        status = query(&attr, &chosen, &qp, &why);
    if (status) {
        fprintf(stderr, "diwarp_info: %s\n", why.text[0] ? why.text : strerror(-status));
        return 1;
    }
    print_facts(&all, &chosen, &qp);
    print_hints(&chosen, &qp);
    return 0;
}
