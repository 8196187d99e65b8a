/* SPDX-License-Identifier: BSD-3-Clause */
/* System calls that misbehave on demand. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/llp/llp.h"
#include "test/unit/udp_kernel.h"

struct udp_kernel kernel;

static int send_error(const struct msghdr *msg)
{
    if (msg && msg->msg_control) {
        kernel.gso_calls++;
        return kernel.gso_error;
    }
    if (kernel.error_from > 0) {
        kernel.error_from--;
        return 0;
    }
    return kernel.error;
}

static bool is_too_large(const long *args)
{
    int discovery = -1;
    socklen_t len = sizeof(discovery);
    return kernel.too_large_bytes > 0 && args[2] >= kernel.too_large_bytes &&
           getsockopt((int)args[0], IPPROTO_IP, IP_MTU_DISCOVER, &discovery, &len) == 0 &&
           discovery == IP_PMTUDISC_DO;
}

static long real_syscall(long number, const long *args)
{
    static long (*real)(long, ...);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    }
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* The LLP's calls per message do not go through libc's wrappers. */
long syscall(long number, ...)
{
    long args[6];
    va_list list;
    va_start(list, number);
    for (unsigned i = 0; i < 6; i++) {
        args[i] = va_arg(list, long);
    }
    va_end(list);
    bool has_msg = number == SYS_sendmsg || number == SYS_recvmsg;
    struct msghdr *msg = has_msg ? (struct msghdr *)args[1] : NULL;
    int error = number == SYS_sendmsg || number == SYS_sendto ? send_error(msg) : 0;
    if (number == SYS_sendto && is_too_large(args)) {
        error = EMSGSIZE;
    }
    if (error) {
        errno = error;
        return -1;
    }
    long rc = real_syscall(number, args);
    long flags = number == SYS_recvmsg ? args[2] : number == SYS_recvfrom ? args[3] : 0;
    if (rc >= 0 && kernel.truncate && (flags & MSG_TRUNC)) {
        return DW_LLP_SLOT_BYTES + 1; /* the whole length, of which a slot has a part */
    }
    return rc;
}
