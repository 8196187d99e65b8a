/* SPDX-License-Identifier: BSD-3-Clause */
/* The device: configuration, interfaces, and the environment that all else takes from here, so that
 * the same code runs on sockets and under the simulator. */
#pragma once

#include <pthread.h>
#include <time.h>

#include "common/base/crypto.h"
#include "common/base/list.h"
#include "common/llp/stream.h"

/* What a device takes from outside. dw_device_open(): a NULL function or 0 means the real thing. */
struct dw_env {
    uint64_t (*now_ns)(void *arg); /* monotonic */
    /* As dw_udp_open() and dw_tcp_open(). */
    int (*open_llp)(void *arg, const struct diwarp_device_attr *attr, const struct dw_llp_addr *at,
                    struct diwarp_counters *counters, struct dw_llp **llp,
                    struct diwarp_diagnosis *why);
    int (*open_streams)(void *arg, uint64_t silence_ns, struct dw_streams **streams);
    void *arg;
    uint64_t seed;         /* of tokens, STags and ids; 0: from the kernel */
    uint32_t first_serial; /* of what RD and UD number; not 0 only to test wraps, at both ends */
    uint64_t rest_ns;      /* a peer idle for so long is put to rest; 0: the default */
    uint64_t forget_ns;    /* a stranger at rest for so long is forgotten; 0: the default */
    const struct diwarp_interface *interfaces; /* instead of this host's */
    unsigned interface_count;
};

struct dw_service; /* service.h */
struct dw_port;    /* qp.h */

struct diwarp_device {
    struct diwarp_device_attr attr;
    const struct dw_service *const *services; /* by enum diwarp_qp_type; NULL ends them */
    struct dw_env env;
    struct diwarp_interface interfaces[DIWARP_MAX_INTERFACES];
    unsigned interface_count;
    unsigned left_out_count; /* interfaces, as in struct diwarp_device_info */
    uint64_t host_id;
    uint64_t random_key[2];          /* from the kernel, or the seed of env */
    uint8_t file_key[DW_HMAC_BYTES]; /* of attr.auth_key_file; all 0: none */
    uint32_t file_key_id;
    uint64_t random_count;   /* numbers drawn; atomic, not all who draw have the lock */
    struct dw_list runners;  /* struct dw_runner: what polls run */
    struct dw_port *port;    /* NULL: no datagram QP */
    uint64_t pushed;         /* completions, since it was opened */
    uint64_t recvs_posted;   /* over RC */
    uint64_t served;         /* data and answers sent, data placed, acknowledgements that were asked
                              * for: what peers wait for */
    uint32_t held;           /* completions that point to memory of a runner's, of all CQs */
    pthread_mutex_t lock;    /* dw_lock() */
    struct dw_list sleepers; /* struct dw_sleeper (cq.h); none while it is not threaded */
};

struct dw_runner;

/* What runs inside the polls of a device's CQs: its port, and the RC side of each CQ. Every
 * function runs with the device's lock held. */
struct dw_runner_ops {
    /* One run; returns how many receive calls brought something. */
    int (*run)(struct dw_runner *runner, uint64_t now_ns);
    /* RC only: sends what was posted to leave with the next poll. */
    void (*flush)(struct dw_runner *runner);
    /* When it is to run next at the latest; DW_NEVER: when something comes or is posted. */
    uint64_t (*next_deadline_ns)(const struct dw_runner *runner);
    /* Adds what it holds. */
    void (*add_memory)(const struct dw_runner *runner, struct diwarp_memory *memory);
    /* RC only: its CQ goes. */
    void (*destroy)(struct dw_runner *runner);
};

/* Owners embed it. */
struct dw_runner {
    const struct dw_runner_ops *ops;
    struct dw_list link; /* in diwarp_device.runners */
    int fds[2];          /* readable when something comes; -1: none, or none that can be polled */
    bool more;           /* the last run sent something, and more may go at once */
};

/* diwarp_open_device() with an environment, which may be NULL, and the services that there are. */
int dw_device_create(const struct diwarp_device_attr *attr, const struct dw_env *env,
                     const struct dw_service *const *services, struct diwarp_device **device,
                     struct diwarp_diagnosis *why);

/* Where its sockets are bound: one interface, there only. Several: to any, of IPv6 where there is
 * one, which takes IPv4, too; the token keeps strangers out. */
struct dw_llp_addr dw_device_listens_at(const struct diwarp_device *device);

uint64_t dw_device_now_ns(const struct diwarp_device *device);

/* Next of the device's random numbers; never 0. Nobody can tell one from others. */
uint64_t dw_device_random(struct diwarp_device *device);

/* One lock for all that a device owns, taken by the public functions only. */
static inline void dw_lock(struct diwarp_device *device)
{
    if (device->attr.threaded)
        pthread_mutex_lock(&device->lock);
}

/* Wakes those for whom something is due that was not when they fell asleep. */
void dw_wake_sleepers(struct diwarp_device *device);

static inline void dw_unlock(struct diwarp_device *device)
{
    if (!device->attr.threaded)
        return;
    if (!dw_list_empty(&device->sleepers))
        dw_wake_sleepers(device);
    pthread_mutex_unlock(&device->lock);
}

/* Lets others in, amid a long walk. Who locks again at once would be first: they have to wake up.
 */
static inline void dw_lock_pause(struct diwarp_device *device)
{
    const struct timespec shortest = {.tv_nsec = 1};
    dw_unlock(device);
    if (device->attr.threaded)
        nanosleep(&shortest, NULL);
    dw_lock(device);
}
