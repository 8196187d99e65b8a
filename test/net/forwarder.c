/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link between two TUN devices, each in a network namespace by name: what leaves by one arrives
 * at the other, by way of a bottleneck (bottleneck.h) for each direction. The devices are there
 * once "forwarder: ready" has been printed, until it is told to end (SIGTERM, SIGINT); then it
 * prints its counters, a line for each direction. Takes packets one by one, some hundred thousand a
 * second.
 */
#include "test/net/bottleneck.h"
#include "test/net/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* Read from one device before the other has its turn. */
#define BATCH_PACKETS 64
#define SECOND_NS     1000000000ull

static volatile sig_atomic_t ending;

static const char usage_text[] =
    "usage: forwarder [OPTION...] NETNS:DEVICE NETNS:DEVICE\n"
    "Both directions alike:\n"
    "  --rate MBIT          0.001 to 100000; without it nothing queues\n"
    "  --queue BYTES        1500 to 1000000000, default 250000\n"
    "  --burst BYTES        1500 to 100000000, default 64000: sent at once when it is late\n"
    "  --delay MS           0 to 10000, one way, default 0\n"
    "  --aqm codel|step     default: tail drop\n"
    "  --step BYTES         for step, 0 to 1000000000: what finds a longer queue is marked or\n"
    "                       dropped, default 30000\n"
    "  --target MS          for codel, 0.001 to 1000, default 5\n"
    "  --interval MS        for codel, 0.01 to 10000, default 100\n"
    "  --ecn                AQM marks ECN-capable packets where it would drop them\n"
    "  --loss P, --duplicate P, --reorder P, --corrupt P\n"
    "                       probabilities, 0 to 1, of each packet\n"
    "  --reorder-ms MS      0 to 1000: a reordered packet is so much later, default 1\n"
    "  --seed N             default 1\n";

static void usage(void)
{
    fputs(usage_text, stderr);
    exit(2);
}

static void fail(const char *what)
{
    fprintf(stderr, "forwarder: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---- options ---- */

static enum bottleneck_aqm aqm_named(const char *name)
{
    if (strcmp(name, "codel") == 0)
        return BOTTLENECK_CODEL;
    if (strcmp(name, "step") == 0)
        return BOTTLENECK_STEP;
    fprintf(stderr, "forwarder: --aqm %s: neither codel nor step\n", name);
    exit(2);
}

enum {
    RATE,
    QUEUE,
    BURST,
    DELAY,
    STEP,
    TARGET,
    INTERVAL,
    LOSS,
    DUPLICATE,
    REORDER,
    CORRUPT,
    REORDER_MS,
    SEED,
    NUMBERS,
    AQM,
    ECN
};

static const struct {
    const char *name;
    double least, most, preset;
} numbers[NUMBERS] = {
    [RATE] = {"rate", 0.001, 1e5, 0},          [QUEUE] = {"queue", 1500, 1e9, 250000},
    [BURST] = {"burst", 1500, 1e8, 64000},     [DELAY] = {"delay", 0, 1e4, 0},
    [STEP] = {"step", 0, 1e9, 30000},          [TARGET] = {"target", 0.001, 1e3, 5},
    [INTERVAL] = {"interval", 0.01, 1e4, 100}, [LOSS] = {"loss", 0, 1, 0},
    [DUPLICATE] = {"duplicate", 0, 1, 0},      [REORDER] = {"reorder", 0, 1, 0},
    [CORRUPT] = {"corrupt", 0, 1, 0},          [REORDER_MS] = {"reorder-ms", 0, 1e3, 1},
    [SEED] = {"seed", 0, 0x1p53, 1},
};

static double number(int which, const char *text)
{
    char *end;
    const double value = strtod(text, &end), least = numbers[which].least;
    if (end != text && *end == '\0' && value >= least && value <= numbers[which].most)
        return value;
    fprintf(stderr, "forwarder: --%s %s: not in %g to %g\n", numbers[which].name, text, least,
            numbers[which].most);
    exit(2);
}

static void options_from(int argc, char **argv, struct bottleneck_options *options)
{
    struct option longs[NUMBERS + 3] = {[NUMBERS] = {"aqm", required_argument, NULL, AQM},
                                        {"ecn", no_argument, NULL, ECN}};
    double values[NUMBERS];
    int chosen;
    for (int i = 0; i < NUMBERS; i++) {
        longs[i] = (struct option){numbers[i].name, required_argument, NULL, i};
        values[i] = numbers[i].preset;
    }
    while ((chosen = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (chosen == ECN)
            options->ecn = true;
        else if (chosen == AQM)
            options->aqm = aqm_named(optarg);
        else if (chosen < NUMBERS)
            values[chosen] = number(chosen, optarg);
        else
            usage();
    }
    options->rate_bps = values[RATE] * 1e6;
    options->queue_bytes = (uint32_t)values[QUEUE];
    options->burst_bytes = (uint32_t)values[BURST];
    options->delay_ns = (uint64_t)(values[DELAY] * 1e6);
    options->step_bytes = (uint32_t)values[STEP];
    options->codel_target_ns = (uint64_t)(values[TARGET] * 1e6);
    options->codel_interval_ns = (uint64_t)(values[INTERVAL] * 1e6);
    options->loss = values[LOSS];
    options->duplicate = values[DUPLICATE];
    options->reorder = values[REORDER];
    options->corrupt = values[CORRUPT];
    options->reorder_ns = (uint64_t)(values[REORDER_MS] * 1e6);
    options->seed = (uint64_t)values[SEED];
}

/* ---- devices ---- */

/* place: NETNS:DEVICE. The process is in that namespace for as long as this takes: whoever ends the
 * processes of a host is not to end this one. */
static int open_device(const char *place)
{
    const char *const colon = strchr(place, ':');
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    if (!colon || strlen(colon + 1) >= sizeof request.ifr_name) {
        fprintf(stderr, "forwarder: '%s' is not NETNS:DEVICE\n", place);
        exit(2);
    }
    snprintf(path, sizeof path, "/run/netns/%.*s", (int)(colon - place), place);
    strcpy(request.ifr_name, colon + 1);
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0 || space < 0 || setns(space, CLONE_NEWNET) < 0)
        fail(path);
    const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0 || ioctl(device, TUNSETIFF, &request) < 0)
        fail(place);
    if (setns(home, CLONE_NEWNET) < 0)
        fail("own network namespace");
    close(home);
    close(space);
    return device;
}

static void receive(int device, struct bottleneck *link)
{
    uint8_t data[BOTTLENECK_BYTES_MAX];
    for (int i = 0; i < BATCH_PACKETS; i++) {
        const ssize_t bytes = read(device, data, sizeof data);
        if (bytes <= 0)
            return;
        bottleneck_put(link, data, (uint32_t)bytes, clock_ns());
    }
}

/* A device that is down takes nothing; its kernel counts that. */
static void deliver(int device, struct bottleneck *link)
{
    struct bottleneck_packet *packet;
    while ((packet = bottleneck_take(link, clock_ns()))) {
        if (write(device, packet->data, packet->bytes) < 0 && errno != EIO && errno != EINVAL)
            fail("write");
        free(packet);
    }
}

static struct timespec wait_until(uint64_t deadline_ns)
{
    const uint64_t now_ns = clock_ns();
    uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    wait_ns = wait_ns < SECOND_NS ? wait_ns : SECOND_NS;
    return (struct timespec){.tv_sec = (time_t)(wait_ns / SECOND_NS),
                             .tv_nsec = (long)(wait_ns % SECOND_NS)};
}

/* links[0] leads from devices[0] to devices[1]. The signals come in only while it waits. */
static void forward(const int devices[2], struct bottleneck links[2], const sigset_t *waiting)
{
    struct pollfd fds[2] = {{.fd = devices[0], .events = POLLIN},
                            {.fd = devices[1], .events = POLLIN}};
    while (!ending) {
        const uint64_t a = bottleneck_deadline_ns(&links[0]);
        const uint64_t b = bottleneck_deadline_ns(&links[1]);
        const struct timespec wait = wait_until(a < b ? a : b);
        if (ppoll(fds, 2, &wait, waiting) < 0 && errno != EINTR)
            fail("poll");
        for (int i = 0; i < 2; i++) {
            receive(devices[i], &links[i]);
            deliver(devices[1 - i], &links[i]);
        }
    }
}

static void print_counters(const char *from, const struct bottleneck_counters *counters)
{
    printf("forwarder: from %s", from);
#define X(name) printf(" " #name "=%llu", (unsigned long long)counters->name);
    BOTTLENECK_COUNTERS(X)
#undef X
    printf("\n");
}

static void on_signal(int number)
{
    (void)number;
    ending = 1;
}

static void take_signals(sigset_t *waiting)
{
    const struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, waiting);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* A link is no slower because the hosts compute; and waits of less than the usual 50 us are kept.
 * Without the right to the former it does what it can. */
static void keep_pace(void)
{
    (void)sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1});
    prctl(PR_SET_TIMERSLACK, 1ul);
}

int main(int argc, char **argv)
{
    struct bottleneck_options options = {0};
    struct bottleneck links[2];
    sigset_t waiting;
    int devices[2];

    options_from(argc, argv, &options);
    if (argc - optind != 2)
        usage();
    take_signals(&waiting);
    keep_pace();
    for (int i = 0; i < 2; i++) {
        devices[i] = open_device(argv[optind + i]);
        bottleneck_init(&links[i], &options);
        options.seed++;
    }
    printf("forwarder: ready\n");
    fflush(stdout);
    forward(devices, links, &waiting);
    for (int i = 0; i < 2; i++) {
        print_counters(argv[optind + i], &links[i].counters);
        bottleneck_fini(&links[i]);
    }
    return 0;
}
