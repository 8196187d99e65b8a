/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths: who shares one, and the search for the longest datagram against a path of known width. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/path/path.h"

#define LIMIT_BYTES 8968u
#define BASE_BYTES  544u
#define WAIT_NS     1000000u
#define START_NS    5000000000ull

static const uint64_t key[2] = {1, 2};

struct search {
    struct dw_paths paths;
    struct dw_path *path;
    uint64_t now_ns;
    uint32_t id;
    uint32_t width_bytes; /* what passes */
    uint32_t says_bytes;  /* what a router says of what does not; 0: nothing */
    unsigned pairs;
};

static struct dw_llp_addr host_of(uint8_t last)
{
    return (struct dw_llp_addr){.family = AF_INET, .ip = {10, 0, 0, last}};
}

static void search_begin(struct search *s, uint32_t width_bytes)
{
    const struct dw_llp_addr host = host_of(1);
    *s = (struct search){.now_ns = START_NS, .width_bytes = width_bytes};
    dw_paths_init(&s->paths, key);
    s->path = dw_path_get(&s->paths, &host, 0, 0, LIMIT_BYTES);
    assert_non_null(s->path);
}

static void search_end(struct search *s)
{
    dw_path_put(&s->paths, s->path);
    dw_paths_fini(&s->paths);
}

/* One pair of probes, if the path asks for one: answered at once. */
static bool search_step(struct search *s)
{
    const uint32_t bytes = dw_path_probe_bytes(s->path, s->now_ns);
    if (!bytes)
        return false;
    assert_in_range(bytes, s->path->datagram_max_bytes + 1, LIMIT_BYTES);
    s->pairs++;
    dw_path_on_probe_sent(s->path, ++s->id, WAIT_NS, s->now_ns);
    if (bytes > s->width_bytes && s->says_bytes)
        assert_false(dw_path_on_told(s->path, s->says_bytes, s->now_ns));
    const bool passes = bytes <= s->width_bytes;
    assert_int_equal(dw_path_on_probe_reply(s->path, s->id, passes, s->now_ns), passes);
    return true;
}

static void search_all(struct search *s)
{
    while (search_step(s))
        assert_true(s->pairs < 100);
    assert_int_equal(s->path->state,
                     s->path->datagram_max_bytes == LIMIT_BYTES ? DW_PATH_WHOLE : DW_PATH_NARROW);
}

static void dw_path_get__shared_by_host_interface_and_limit(void **state)
{
    (void)state;
    struct dw_paths paths;
    dw_paths_init(&paths, key);
    struct dw_llp_addr one = host_of(1), two = host_of(2), six = {.family = AF_INET6, .ip = {10}};
    struct dw_path *path = dw_path_get(&paths, &one, 0, 0, LIMIT_BYTES);
    one.port = 40000;
    assert_ptr_equal(dw_path_get(&paths, &one, 0, 0, LIMIT_BYTES), path);
    assert_int_equal(path->users, 2);
    assert_int_equal(path->host.port, 0);
    struct dw_path *others[] = {
        dw_path_get(&paths, &one, 1, 0, LIMIT_BYTES),
        dw_path_get(&paths, &one, 0, 1, LIMIT_BYTES),
        dw_path_get(&paths, &one, 0, 0, LIMIT_BYTES - 8),
        dw_path_get(&paths, &two, 0, 0, LIMIT_BYTES),
        dw_path_get(&paths, &six, 0, 0, LIMIT_BYTES),
    };
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        assert_ptr_not_equal(others[i], path);
        assert_int_equal(others[i]->users, 1);
    }
    unsigned found = 0;
    for (struct dw_path *it = dw_paths_find(&paths, &one); it; it = it->next)
        found += it == path || it == others[0] || it == others[1];
    assert_int_equal(found, 3);
    assert_ptr_equal(dw_paths_find(&paths, &six), others[4]);
    dw_path_put(&paths, path);
    dw_path_put(&paths, path); /* the first of its bucket */
    assert_ptr_not_equal(dw_paths_find(&paths, &one), path);
    assert_non_null(dw_paths_find(&paths, &one)->next);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        dw_path_put(&paths, others[i]);
    assert_null(dw_paths_find(&paths, &one));
    dw_paths_fini(&paths);
}

static void dw_path_get__many_hosts__each_found(void **state)
{
    (void)state;
    enum { HOSTS = 2000 };
    static struct dw_path *made[HOSTS];
    struct dw_paths paths;
    dw_paths_init(&paths, key);
    for (unsigned i = 0; i < HOSTS; i++) {
        struct dw_llp_addr host = {.family = AF_INET6, .ip = {0xfd, [8] = (uint8_t)(i >> 8)}};
        host.ip[15] = (uint8_t)i;
        made[i] = dw_path_get(&paths, &host, 0, 0, LIMIT_BYTES);
    }
    for (unsigned i = 0; i < HOSTS; i++) {
        const struct dw_llp_addr host = made[i]->host;
        assert_ptr_equal(dw_paths_find(&paths, &host), made[i]);
        assert_null(made[i]->next);
        dw_path_put(&paths, made[i]);
        assert_null(dw_paths_find(&paths, &host));
    }
    dw_paths_fini(&paths);
}

static void dw_path_on_told__a_lie__undone_by_one_probe(void **state)
{
    (void)state;
    struct search s;
    search_begin(&s, LIMIT_BYTES);
    assert_int_equal(dw_path_probe_bytes(s.path, s.now_ns), 0);
    assert_true(dw_path_on_told(s.path, 1368, s.now_ns));
    assert_int_equal(s.path->datagram_max_bytes, 1368);
    assert_int_equal(dw_path_deadline_ns(s.path), s.now_ns);
    search_all(&s);
    assert_int_equal(s.pairs, 1);
    assert_int_equal(s.path->datagram_max_bytes, LIMIT_BYTES);
    /* Our host believes it still. */
    assert_true(dw_path_takes_whole(s.path, LIMIT_BYTES, s.now_ns));
    assert_false(dw_path_takes_whole(s.path, 1368, s.now_ns));
    assert_false(dw_path_takes_whole(s.path, LIMIT_BYTES + 8, s.now_ns));
    s.now_ns += DW_PATH_RAISE_NS;
    assert_false(dw_path_takes_whole(s.path, LIMIT_BYTES, s.now_ns));
    assert_int_equal(dw_path_probe_bytes(s.path, s.now_ns), 0);
    search_end(&s);
}

static void dw_path_on_told__implausible__not_believed(void **state)
{
    (void)state;
    static const uint32_t bytes[] = {0, 1, BASE_BYTES - 8, LIMIT_BYTES, 65000, UINT32_MAX};
    struct search s;
    search_begin(&s, LIMIT_BYTES);
    for (unsigned i = 0; i < sizeof bytes / sizeof *bytes; i++)
        assert_false(dw_path_on_told(s.path, bytes[i], s.now_ns));
    assert_int_equal(s.path->datagram_max_bytes, LIMIT_BYTES);
    assert_int_equal(s.path->state, DW_PATH_WHOLE);
    assert_true(dw_path_on_told(s.path, BASE_BYTES, s.now_ns));
    search_end(&s);
}

/* The router is right: nothing longer is tried for ten minutes; then it is wide, or a little wider,
 * or as before. */
static void dw_path_on_told__the_truth__raised_after_ten_minutes(void **state)
{
    (void)state;
    static const uint32_t later[] = {LIMIT_BYTES, 4072, 1368};
    for (unsigned i = 0; i < 3; i++) {
        struct search s;
        search_begin(&s, 1368);
        s.says_bytes = 1368;
        assert_true(dw_path_on_told(s.path, 1368, s.now_ns));
        assert_int_equal(s.path->state, DW_PATH_SEARCHING);
        search_all(&s);
        assert_int_equal(s.pairs, 3);
        assert_int_equal(s.path->datagram_max_bytes, 1368);
        s.now_ns += DW_PATH_RAISE_NS - 1;
        assert_false(search_step(&s));
        s.now_ns++;
        s.width_bytes = s.says_bytes = later[i];
        search_all(&s);
        assert_int_equal(s.path->datagram_max_bytes, later[i]);
        search_end(&s);
    }
}

/* Found to a sixteenth, whatever the width, in few probes; and wide again later. */
static void dw_path_on_black_hole__searched_upwards(void **state)
{
    (void)state;
    for (uint32_t width = BASE_BYTES; width < LIMIT_BYTES; width += 8) {
        struct search s;
        search_begin(&s, width);
        assert_true(dw_path_on_black_hole(s.path, LIMIT_BYTES, s.now_ns));
        assert_int_equal(s.path->datagram_max_bytes, BASE_BYTES);
        search_all(&s);
        assert_true(s.pairs <= 30);
        assert_in_range(s.path->datagram_max_bytes, width - width / 16 - 8, width);
        /* What was sent before is stuck still. */
        assert_false(dw_path_on_black_hole(s.path, LIMIT_BYTES, s.now_ns));
        s.now_ns += DW_PATH_RAISE_NS;
        s.width_bytes = LIMIT_BYTES;
        search_all(&s);
        assert_int_equal(s.path->datagram_max_bytes, LIMIT_BYTES);
        search_end(&s);
    }
}

static void dw_path_on_black_hole__of_the_least__nothing_is_shorter(void **state)
{
    (void)state;
    struct search s;
    search_begin(&s, BASE_BYTES);
    assert_true(dw_path_on_told(s.path, BASE_BYTES, s.now_ns));
    assert_false(dw_path_on_black_hole(s.path, BASE_BYTES, s.now_ns));
    search_end(&s);
}

/* Two of three losses, again and again, are chance; an answer to none is silence. */
static void dw_path_on_probe_reply__chance__still_found(void **state)
{
    (void)state;
    struct search s;
    search_begin(&s, LIMIT_BYTES);
    assert_true(dw_path_on_told(s.path, 1368, s.now_ns));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(dw_path_probe_bytes(s.path, s.now_ns), LIMIT_BYTES);
        dw_path_on_probe_sent(s.path, ++s.id, WAIT_NS, s.now_ns);
        assert_int_equal(dw_path_probe_bytes(s.path, s.now_ns), 0);
        assert_false(dw_path_on_probe_reply(s.path, s.id - 1, true, s.now_ns)); /* of another */
        assert_false(dw_path_on_probe_reply(s.path, s.id, false, s.now_ns));
        assert_false(dw_path_on_probe_reply(s.path, s.id, false, s.now_ns)); /* a second time */
        assert_int_equal(s.path->failures, i + 1);
    }
    search_all(&s);
    assert_int_equal(s.path->datagram_max_bytes, LIMIT_BYTES);
    search_end(&s);
}

static void dw_path_on_probe_sent__unanswered__ever_slower(void **state)
{
    (void)state;
    struct search s;
    search_begin(&s, LIMIT_BYTES);
    assert_true(dw_path_on_told(s.path, 1368, s.now_ns));
    uint64_t waited_ns = 0;
    while (dw_path_deadline_ns(s.path) != UINT64_MAX) {
        assert_true(s.pairs++ < 10);
        s.now_ns = dw_path_deadline_ns(s.path);
        assert_int_equal(dw_path_probe_bytes(s.path, s.now_ns), LIMIT_BYTES);
        dw_path_on_probe_sent(s.path, ++s.id, WAIT_NS, s.now_ns);
        assert_true(s.path->due_ns - s.now_ns > waited_ns);
        waited_ns = s.path->due_ns - s.now_ns;
    }
    /* With what is sent later, it goes on. */
    s.now_ns = s.path->due_ns;
    search_all(&s);
    assert_int_equal(s.path->datagram_max_bytes, LIMIT_BYTES);
    search_end(&s);
}

static void dw_path_expire__nobody_to_probe__after_ten_minutes(void **state)
{
    (void)state;
    struct search s;
    search_begin(&s, LIMIT_BYTES);
    assert_true(dw_path_on_told(s.path, 1368, s.now_ns));
    dw_path_expire(s.path, s.now_ns + DW_PATH_RAISE_NS - 1);
    assert_int_equal(s.path->datagram_max_bytes, 1368);
    struct dw_list peer;
    dw_list_append(&s.path->awake, &peer);
    dw_path_expire(s.path, s.now_ns + DW_PATH_RAISE_NS);
    assert_int_equal(s.path->datagram_max_bytes, 1368);
    dw_list_remove(&peer);
    dw_path_expire(s.path, s.now_ns + DW_PATH_RAISE_NS);
    assert_int_equal(s.path->datagram_max_bytes, LIMIT_BYTES);
    assert_int_equal(s.path->state, DW_PATH_WHOLE);
    assert_int_equal(dw_path_probe_bytes(s.path, s.now_ns + 2 * DW_PATH_RAISE_NS), 0);
    search_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dw_path_get__shared_by_host_interface_and_limit),
        cmocka_unit_test(dw_path_get__many_hosts__each_found),
        cmocka_unit_test(dw_path_on_told__a_lie__undone_by_one_probe),
        cmocka_unit_test(dw_path_on_told__implausible__not_believed),
        cmocka_unit_test(dw_path_on_told__the_truth__raised_after_ten_minutes),
        cmocka_unit_test(dw_path_on_black_hole__searched_upwards),
        cmocka_unit_test(dw_path_on_black_hole__of_the_least__nothing_is_shorter),
        cmocka_unit_test(dw_path_on_probe_reply__chance__still_found),
        cmocka_unit_test(dw_path_on_probe_sent__unanswered__ever_slower),
        cmocka_unit_test(dw_path_expire__nobody_to_probe__after_ten_minutes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
