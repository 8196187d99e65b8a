/* SPDX-License-Identifier: BSD-3-Clause */
/* The turns of the benchmarks, taken by real processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "benchmarks/turns.h"

#define SEATS   3
#define SAMPLES 5
/* To start, to get ready, of each sample, to end. */
#define TURNS (SAMPLES + 3)

/* Who had which turn, by processes that share it. */
struct log {
    uint32_t count;
    uint32_t seats[SEATS * TURNS];
};

struct ring {
    char path[64];
    struct log *log;
};

static void set_seat(const struct ring *ring, uint32_t seat)
{
    char text[96];
    (void)snprintf(text, sizeof text, "%s:%u:%u", ring->path, seat, SEATS);
    assert_int_equal(setenv(TURNS_VARIABLE, text, 1), 0);
}

static int set_up(void **state)
{
    static struct ring ring;
    const uint32_t none = 0;

    strcpy(ring.path, "/tmp/diwarp-test-turns-XXXXXX");
    int fd = mkstemp(ring.path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &none, sizeof none), sizeof none);
    close(fd);
    ring.log =
        mmap(NULL, sizeof *ring.log, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ring.log != MAP_FAILED);
    *state = &ring;
    return 0;
}

static int tear_down(void **state)
{
    const struct ring *ring = *state;
    unlink(ring->path);
    munmap(ring->log, sizeof *ring->log);
    return unsetenv(TURNS_VARIABLE);
}

static int status_of(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A process of a seat; it leads, and logs each of its turns, or is led. */
static pid_t start(const struct ring *ring, uint32_t seat, bool leads, bool passes)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child)
        return child;
    struct turns turns;
    set_seat(ring, seat);
    turns_open(&turns, leads);
    if (leads)
        ring->log->seats[ring->log->count++] = seat;
    turns_end(&turns);
    if (passes)
        turns_pass(&turns, SAMPLES);
    for (int i = 0; !passes && i < TURNS - 1; i++) {
        turns_begin(&turns);
        if (leads)
            ring->log->seats[ring->log->count++] = seat;
        turns_end(&turns);
    }
    _exit(turns_samples(&turns) == 2 ? 0 : 1);
}

static uint32_t turns_over(const struct ring *ring)
{
    uint32_t over = 0;
    FILE *file = fopen(ring->path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(&over, sizeof over, 1, file), 1);
    fclose(file);
    return over;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void turns__come_round(void **state)
{
    const struct ring *ring = *state;
    pid_t children[SEATS + 1];

    for (uint32_t i = 0; i < SEATS; i++)
        children[i] = start(ring, SEATS - 1 - i, true, false);
    children[SEATS] = start(ring, 1, false, false);
    for (int i = 0; i <= SEATS; i++)
        assert_int_equal(status_of(children[i]), 0);
    assert_int_equal(ring->log->count, SEATS * TURNS);
    for (uint32_t i = 0; i < SEATS * TURNS; i++)
        assert_int_equal(ring->log->seats[i], i % SEATS);
}

static void turns__of_who_cannot_measure_pass(void **state)
{
    const struct ring *ring = *state;
    pid_t children[SEATS];

    for (uint32_t i = 0; i < SEATS; i++)
        children[i] = start(ring, i, true, i == 1);
    for (int i = 0; i < SEATS; i++)
        assert_int_equal(status_of(children[i]), 0);
    assert_int_equal(turns_over(ring), SEATS * TURNS);
}

static void turns__of_one_alone_are_always_its_own(void **state)
{
    struct turns turns;

    (void)state;
    assert_int_equal(unsetenv(TURNS_VARIABLE), 0);
    turns_open(&turns, true);
    turns_end(&turns);
    turns_pass(&turns, SAMPLES);
    assert_false(turns_taken(&turns));
    assert_int_equal(turns_samples(&turns), 1);
}

static void turns__refuse_what_is_no_seat(void **state)
{
    const struct ring *ring = *state;
    const char *wrong[] = {"", "x", "%s", "%s:0", "%s:2:2", "%s:0:2x", "/no/such/file:0:2"};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            char text[128];
            struct turns turns;
            bool at_path = !strncmp(wrong[i], "%s", 2);
            (void)snprintf(text, sizeof text, "%s%s", at_path ? ring->path : "",
                           at_path ? wrong[i] + 2 : wrong[i]);
            (void)setenv(TURNS_VARIABLE, text, 1);
            (void)!freopen("/dev/null", "w", stderr);
            turns_open(&turns, true);
            _exit(0);
        }
        assert_int_equal(status_of(child), 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(turns__come_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(turns__of_who_cannot_measure_pass, set_up, tear_down),
        cmocka_unit_test(turns__of_one_alone_are_always_its_own),
        cmocka_unit_test_setup_teardown(turns__refuse_what_is_no_seat, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
