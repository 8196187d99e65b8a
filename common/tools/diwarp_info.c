/* SPDX-License-Identifier: BSD-3-Clause */
/* diwarp_info: what diwarp finds on this host, and what to change to make it faster. */
#include "common/include/diwarp.h"
#include "common/wire/llp_header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct findings {
    struct diwarp_device_info all;    /* without filters */
    struct diwarp_device_info chosen; /* those that pass the filters */
    struct diwarp_qp_info qp;
};

static void print_usage(FILE *out)
{
    fputs("usage: diwarp_info [--if-include LIST | --if-exclude LIST]\n"
          "Shows the interfaces, socket buffers and offloads that diwarp would use on this host.\n"
          "  --if-include LIST  only these interfaces: names or CIDR, comma-separated\n"
          "  --if-exclude LIST  all but these (default " DIWARP_IF_EXCLUDE_DEFAULT ")\n"
          "  --help             this text\n"
          "  --version          the version of diwarp and of its wire protocol\n",
          out);
}

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
    bool excluded = false;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'i') {
            attr->if_include = optarg;
        } else if (c == 'x') {
            attr->if_exclude = optarg;
            excluded = true;
        } else if (c == 'h') {
            print_usage(stdout);
            return 0;
        } else if (c == 'v') {
            print_version();
            return 0;
        } else {
            print_usage(stderr);
            return 2;
        }
    }
    if (optind < argc || (attr->if_include && excluded)) {
        print_usage(stderr);
        return 2;
    }
    return -1;
}

/* The kernel tells what a socket really gets only once there is one: that of a UD QP. */
static int find_socket_facts(struct diwarp_device *device, struct diwarp_qp_info *info,
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

static int find_all(const struct diwarp_device_attr *attr, struct findings *findings,
                    struct diwarp_diagnosis *why)
{
    struct diwarp_device_attr unfiltered = *attr;
    struct diwarp_device *device;
    unfiltered.if_include = unfiltered.if_exclude = NULL;
    int err = diwarp_open_device(&unfiltered, &device, why);
    if (err)
        return err;
    diwarp_query_device(device, &findings->all);
    diwarp_close_device(device);
    err = diwarp_open_device(attr, &device, why);
    if (err)
        return err;
    diwarp_query_device(device, &findings->chosen);
    err = find_socket_facts(device, &findings->qp, why);
    diwarp_close_device(device);
    return err;
}

static bool is_chosen(const struct diwarp_device_info *chosen,
                      const struct diwarp_interface *interface)
{
    for (unsigned i = 0; i < chosen->interface_count; i++) {
        const struct diwarp_interface *other = &chosen->interfaces[i];
        if (other->family == interface->family && strcmp(other->name, interface->name) == 0 &&
            memcmp(other->ip, interface->ip, interface->family == AF_INET ? 4 : 16) == 0)
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

/* Not all that are used need be among those that would be used without filters. */
static void print_interfaces(const struct diwarp_device_info *all,
                             const struct diwarp_device_info *chosen)
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
}

static void print_facts(const struct findings *findings)
{
    const struct diwarp_qp_info *qp = &findings->qp;
    printf("\nreceive buffer    %u bytes granted (net.core.rmem_max %u)\n", qp->rcvbuf_bytes,
           findings->chosen.rmem_max_bytes);
    printf("send buffer       %u bytes granted (net.core.wmem_max %u)\n", qp->sndbuf_bytes,
           findings->chosen.wmem_max_bytes);
    printf("UDP GSO           %s\n", qp->gso ? "yes" : "no");
    printf("UDP GRO           %s\n", qp->gro ? "yes" : "no");
    printf("CRC32C            %s\n", findings->chosen.crc_path);
}

/* Returns the number of hints given. */
static unsigned hint_limit(const char *name, uint32_t now, uint32_t wanted, const char *why)
{
    if (now >= wanted)
        return 0;
    printf("\n- %s is %u; %s.\n"
           "  now:      sudo sysctl -w %s=%u\n"
           "  for good: echo %s=%u | sudo tee -a /etc/sysctl.d/90-diwarp.conf\n",
           name, now, why, name, wanted, name, wanted);
    return 1;
}

static unsigned hint_if(bool wrong, const char *text)
{
    if (wrong)
        puts(text);
    return wrong;
}

static void print_hints(const struct findings *findings)
{
    const struct diwarp_device_info *chosen = &findings->chosen;
    bool out = false;
    for (unsigned i = 0; i < chosen->interface_count; i++)
        out |= !chosen->interfaces[i].loopback;
    fputs("\nwhat to change:", stdout);
    unsigned hints = hint_limit("net.core.rmem_max", chosen->rmem_max_bytes, 4u << 20,
                                "bursts from many peers need a larger receive buffer");
    hints += hint_limit("net.core.wmem_max", chosen->wmem_max_bytes, 1u << 20,
                        "large messages need a larger send buffer");
    hints += hint_if(!out, "\n- only loopback is used: other hosts cannot be reached.\n"
                           "  Bring an interface up, or change --if-include or --if-exclude.");
    hints += hint_if(!findings->qp.gso || !findings->qp.gro,
                     "\n- UDP GSO (Linux 4.18) or GRO (Linux 5.0) is not available: each datagram "
                     "costs a\n  system call. A newer kernel makes large messages several times "
                     "faster.");
    hints += hint_if(strcmp(chosen->crc_path, "portable") == 0,
                     "\n- this CPU has no CRC32C instructions: checksums limit the bandwidth. "
                     "Where the\n  network is trusted, --mca btl_diwarp_crc off (in every process) "
                     "spares them.");
    puts(hints > 0 ? "" : " nothing");
}

int main(int argc, char **argv)
{
    struct diwarp_device_attr attr;
    struct findings findings = {0};
    struct diwarp_diagnosis why = {""};
    diwarp_device_attr_init(&attr);
    attr.gro = DIWARP_ON; /* not only once it is of use: whether it is possible is asked */
    int status = parse_options(argc, argv, &attr);
    if (status >= 0)
        return status;
    print_version();
    status = find_all(&attr, &findings, &why);
    if (status) {
        fprintf(stderr, "diwarp_info: %s\n", why.text[0] ? why.text : strerror(-status));
        return 1;
    }
    print_interfaces(&findings.all, &findings.chosen);
    print_facts(&findings);
    print_hints(&findings);
    return 0;
}
