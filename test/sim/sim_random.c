/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the random scenarios over a range of seeds: that of each scenario, that of DW_SIM_SEEDS
 * (FIRST+COUNT), or the one asked for. A failing seed is printed with the command that replays it;
 * a replay does exactly the same again. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/sim/sim_rd.h"
#include "test/sim/sim_ud.h"

static const struct scenario {
    const char *name;
    unsigned seeds;
    bool (*run)(uint64_t seed, char *failure, size_t failure_bytes);
} scenarios[] = {
    {"rd", 1500, sim_rd_run},
    {"rdauth", 500, sim_rd_auth_run},
    {"ud", 1500, sim_ud_run},
    {"udauth", 200, sim_ud_auth_run},
};

static char replay[256]; /* of the seed that runs */

/* An assertion of the core, or a sanitizer with abort_on_error=1. */
static void on_abort(int signal_number)
{
    (void)signal_number;
    if (write(STDERR_FILENO, replay, strlen(replay)) < 0)
        _exit(2);
}

static unsigned run_seeds(const char *program, const struct scenario *scenario, uint64_t first,
                          uint64_t count, bool verbose, unsigned *passed)
{
    unsigned failed = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        char failure[320];
        snprintf(replay, sizeof replay, "replay: %s --scenario %s --first %llu --seeds 1\n",
                 program, scenario->name, (unsigned long long)seed);
        if (verbose)
            printf("%s %llu\n", scenario->name, (unsigned long long)seed);
        fflush(stdout);
        if (scenario->run(seed, failure, sizeof failure)) {
            ++*passed;
            continue;
        }
        failed++;
        printf("%s, seed %llu: %s\n%s", scenario->name, (unsigned long long)seed, failure, replay);
    }
    return failed;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--scenario NAME] [--first SEED] [--seeds COUNT] [--verbose]\n"
            "DW_SIM_SEEDS=FIRST+COUNT stands for --first and --seeds\n"
            "scenarios:",
            program);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        fprintf(stderr, " %s", scenarios[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"scenario", required_argument, NULL, 'n'},
                                            {"first", required_argument, NULL, 'f'},
                                            {"seeds", required_argument, NULL, 's'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    const char *name = NULL;
    uint64_t first = 1, seeds = 0;
    bool verbose = false, known = false;
    const char *range = getenv("DW_SIM_SEEDS");
    if (range && *range && sscanf(range, "%" SCNu64 "+%" SCNu64, &first, &seeds) != 2)
        return usage(argv[0]);
    unsigned passed = 0, failed = 0;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'n')
            name = optarg;
        else if (c == 'f')
            first = strtoull(optarg, NULL, 0);
        else if (c == 's')
            seeds = strtoull(optarg, NULL, 0);
        else if (c == 'v')
            verbose = true;
        else
            return usage(argv[0]);
    }
    signal(SIGABRT, on_abort);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (name && strcmp(name, scenarios[i].name) != 0)
            continue;
        known = true;
        failed += run_seeds(argv[0], &scenarios[i], first, seeds ? seeds : scenarios[i].seeds,
                            verbose, &passed);
    }
    if (!known)
        return usage(argv[0]);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
