/* SPDX-License-Identifier: BSD-3-Clause */
/* What the verbs benchmark measures, of a fake end whose messages are datagrams between two
 * processes and are lost as a test says: figures are right, and every measure ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "benchmarks/verbs_measure.h"

#define SECONDS 0.02

/* ---- the fake end -------------------------------------------------------------------------- */

/* Loses each `loses`th message that it sends, 0: none, and no mark unless it loses all. */
struct fake {
    struct verbs_end end;
    int fd;
    unsigned loses, posted;
};

struct fake_message {
    uint32_t mark, bytes;
};

static int fake_post(struct verbs_end *end, uint32_t bytes, size_t at, uint32_t mark)
{
    struct fake *fake = (struct fake *)end;
    const struct fake_message message = {mark, bytes};
    (void)at;
    const bool lost =
        mark ? fake->loses == 1 : fake->loses && (fake->posted + 1) % fake->loses == 0;
    if (!mark && end->plan->verb == VERBS_READ) { /* half of it comes */
        fake->posted++;
        *(lost ? &end->counts.partial : &end->counts.sent) += 1;
        end->counts.valid_bytes += lost ? bytes / 2 : 0;
        return 0;
    }
    if (!lost && send(fake->fd, &message, sizeof message, MSG_DONTWAIT) != sizeof message)
        return -11; /* EAGAIN */
    fake->posted += !mark;
    end->counts.sent += !mark;
    return 0;
}

static bool fake_poll(struct verbs_end *end)
{
    const struct fake *fake = (struct fake *)end;
    struct fake_message message;
    if (recv(fake->fd, &message, sizeof message, MSG_DONTWAIT) != sizeof message)
        return false;
    if (message.mark) {
        end->counts.mark = message.mark;
        return true;
    }
    end->counts.received++;
    end->counts.valid_bytes += message.bytes;
    end->counts.last_bytes += message.bytes;
    return true;
}

static const struct verbs_ops fake_ops = {.api = "fake", .post = fake_post, .poll = fake_poll};

/* ---- two processes ------------------------------------------------------------------------- */

static void open_session(struct verbs_session *s, struct fake *fake, const struct verbs_plan *plan,
                         int control, int fd, unsigned loses)
{
    *fake = (struct fake){.end = {.plan = plan,
                                  .from = calloc(1, VERBS_MEMORY_BYTES),
                                  .to = calloc(1, VERBS_MEMORY_BYTES)},
                          .fd = fd,
                          .loses = loses};
    assert_true(fake->end.from && fake->end.to);
    *s = (struct verbs_session){
        .ops = &fake_ops, .end = &fake->end, .plan = plan, .control = control};
}

/* The line that a measure of so many bytes prints; both ends lose each `loses`th message. */
static void run_measure(void (*measure)(struct verbs_session *, uint32_t, double),
                        enum verbs_service service, enum verbs_verb verb, unsigned loses,
                        char *line, int size)
{
    static const struct verbs_message bye = {.word = VERBS_BYE};
    const struct verbs_plan plan = {.service = service, .verb = verb, .bytes_max = 64};
    int control[2], way[2], status = 0;
    struct verbs_session s;
    struct fake fake;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, control), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, way), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        open_session(&s, &fake, &plan, control[1], way[1], loses);
        verbs_serve(&s);
        _exit(0);
    }
    open_session(&s, &fake, &plan, control[0], way[0], loses);
    FILE *kept = tmpfile();
    assert_non_null(kept);
    fflush(stdout);
    const int out = dup(STDOUT_FILENO);
    dup2(fileno(kept), STDOUT_FILENO);
    measure(&s, 64, SECONDS);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    assert_int_equal(send(control[0], &bye, sizeof bye, 0), sizeof bye);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rewind(kept);
    line[0] = 0;
    (void)!fgets(line, size, kept);
    fclose(kept);
    for (int i = 0; i < 2; i++) {
        close(control[i]);
        close(way[i]);
    }
    free(fake.end.from);
    free(fake.end.to);
}

static double value_of(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void stream__counts_what_came(void **state)
{
    static const struct {
        enum verbs_service service;
        unsigned loses;
        double lost_percent;
    } cases[] = {{VERBS_UD, 0, 0}, {VERBS_RC, 0, 0}, {VERBS_UD, 4, 25}, {VERBS_UD, 1, 100}};
    char line[512];
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_measure(verbs_stream, cases[i].service, VERBS_SEND, cases[i].loses, line, sizeof line);
        const double lost = value_of(line, " lost_percent="), posted = value_of(line, " posted=");
        assert_true(posted >= 1);
        assert_true(lost <= cases[i].lost_percent && lost > cases[i].lost_percent - 400 / posted);
        assert_int_equal(value_of(line, " MBps=") > 0, lost < 100);
    }
}

static void stream__of_reads__counts_expired_ones(void **state)
{
    char line[512];
    (void)state;
    run_measure(verbs_stream, VERBS_UD, VERBS_READ, 4, line, sizeof line);
    const double posted = value_of(line, " posted="), partial = value_of(line, " partial=");
    assert_true(partial >= 1 && value_of(line, " whole=") + partial == posted);
    assert_true(value_of(line, " valid_MBps=") > value_of(line, " MBps="));
}

static void trips__of_those_that_came_back(void **state)
{
    char line[512];
    (void)state;
    run_measure(verbs_trips, VERBS_UD, VERBS_SEND, 0, line, sizeof line);
    assert_true(value_of(line, " us=") > 0 && value_of(line, " trips=") >= 1);
    assert_true(value_of(line, " lost=") == 0);
    run_measure(verbs_trips, VERBS_UD, VERBS_SEND, 1, line, sizeof line);
    assert_non_null(strstr(line, " why=no message came whole"));
}

static void figures__of_counts(void **state)
{
    (void)state;
    assert_true(verbs_lost_percent(4, 3) == 25 && verbs_lost_percent(0, 0) == 0);
    assert_true(verbs_lost_percent(3, 4) == 0);
    assert_true(verbs_rate(2000000, 2) == 1 && verbs_rate(1, 0) == 0 && verbs_rate(1, -1) == 0);
    assert_int_equal(verbs_window(1), VERBS_WINDOW);
    assert_int_equal(verbs_window(VERBS_WINDOW_BYTES / 4), 4);
    assert_int_equal(verbs_window(VERBS_BYTES_MAX), 2);
    for (uint32_t bytes = 1; bytes <= VERBS_BYTES_MAX; bytes = 3 * bytes + 1)
        for (uint64_t number = 0; number < 1000; number++)
            assert_true(verbs_place(number, bytes) + bytes <= VERBS_MEMORY_BYTES);
    assert_int_equal(verbs_place(4, VERBS_BYTES_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__counts_what_came),
        cmocka_unit_test(stream__of_reads__counts_expired_ones),
        cmocka_unit_test(trips__of_those_that_came_back),
        cmocka_unit_test(figures__of_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
