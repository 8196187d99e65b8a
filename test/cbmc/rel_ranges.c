/* SPDX-License-Identifier: BSD-3-Clause */
/* Range sets, from any set of a few ranges: sorted, disjoint and apart, with their bytes counted,
 * before and after each operation; what a byte says of itself is right. The record's window. */
#include <errno.h>

#include "common/rel/ranges.h"
#include "common/rel/record.h"
#include "common/rel/recordwin.h"
#include "test/cbmc/any.h"

#ifndef RANGES_MOST
#define RANGES_MOST 2
#endif

void *memmove(void *to, const void *from, size_t bytes);
void *realloc(void *of, size_t bytes);
void free(void *of);
void ranges_add(void);
void ranges_grow(void);
void ranges_take(void);
void ranges_missing(void);
void recordwin(void);
void record_source(void);

/* Offsets are about the beginning or the end of what 32 bits count. */
#ifndef SPACE
#define SPACE 16u
#endif

static bool is_near(uint32_t offset)
{
    return offset < SPACE || offset > UINT32_MAX - SPACE;
}

/* Of whole ranges: the tool's own gives false alarms where the length is not a constant. */
void *memmove(void *to, const void *from, size_t bytes)
{
    struct dw_range kept[RANGES_MOST + 1], *into = to;
    const struct dw_range *of = from;
    const size_t count = bytes / sizeof *of;
    require(bytes % sizeof *of == 0 && count <= RANGES_MOST + 1, "whole ranges");
    for (size_t i = 0; i < count; i++)
        kept[i] = of[i];
    for (size_t i = 0; i < count; i++)
        into[i] = kept[i];
    return to;
}

/* Memory for more ranges, or none. */
void *realloc(void *of, size_t bytes)
{
    static struct dw_range more[16];
    require(!of && bytes == sizeof more, "the first growth");
    return any_bool() ? more : NULL;
}

void free(void *of)
{
    (void)of;
}

static bool has(const struct dw_ranges *set, uint32_t at)
{
    bool found = false;
    for (uint32_t i = 0; i < set->count; i++)
        found |= set->list[i].start <= at && at < set->list[i].end;
    return found;
}

static bool is_set(const struct dw_ranges *set)
{
    uint64_t bytes = 0;
    bool good = set->count <= set->capacity;
    for (uint32_t i = 0; i < set->count; i++) {
        good &= set->list[i].start < set->list[i].end;
        good &= !i || set->list[i - 1].end < set->list[i].start;
        bytes += set->list[i].end - set->list[i].start;
    }
    return good && bytes == set->bytes;
}

/* Any, with room for one more. */
static void any_set(struct dw_ranges *set)
{
    static struct dw_range list[RANGES_MOST + 1];
    *set = (struct dw_ranges){.list = list, .capacity = RANGES_MOST + 1, .bytes = nondet_u64()};
    set->count = nondet_u32();
    given(set->count <= RANGES_MOST);
    for (unsigned i = 0; i < RANGES_MOST; i++) {
        list[i] = (struct dw_range){nondet_u32(), nondet_u32()};
        given(is_near(list[i].start) && is_near(list[i].end));
    }
    given(is_set(set));
}

void ranges_add(void)
{
    struct dw_ranges set;
    const uint32_t start = nondet_u32(), end = nondet_u32(), at = nondet_u32();
    any_set(&set);
    given(start < end && is_near(start) && is_near(end));
    const bool had = has(&set, at);
    const uint64_t before = set.bytes;
    const int64_t added = dw_ranges_add(&set, start, end);
    require(added >= 0 || added == -ENOMEM, "verdict");
    require(is_set(&set), "still a set");
    require(set.bytes == before + (added > 0 ? (uint64_t)added : 0), "new bytes");
    require(has(&set, at) == (had || (added >= 0 && start <= at && at < end)), "what it has");
    dw_ranges_fini(&set);
}

/* A full one grows, or stays as it is. */
void ranges_grow(void)
{
    struct dw_ranges set = {.list = set.in_place, .count = 2, .capacity = 2, .bytes = 2};
    const uint32_t at = nondet_u32();
    set.in_place[0] = (struct dw_range){10, 11};
    set.in_place[1] = (struct dw_range){20, 21};
    given(at < 30 && at != 9 && at != 10 && at != 11 && at < 19);
    const int64_t added = dw_ranges_add(&set, at, at + 1);
    require(added == 1 || added == -ENOMEM, "verdict");
    require(set.count == 2 + (added > 0) && is_set(&set), "still a set");
    require(has(&set, at) == (added > 0) && has(&set, 10) && has(&set, 20), "what it has");
    dw_ranges_fini(&set);
}

void ranges_take(void)
{
    struct dw_ranges set;
    struct dw_range taken;
    const uint32_t most = nondet_u32(), at = nondet_u32();
    any_set(&set);
    given(most > 0);
    const bool had = has(&set, at), any = set.count;
    require(dw_ranges_take(&set, most, &taken) == any, "empty or not");
    require(is_set(&set), "still a set");
    require(!any || (taken.start < taken.end && taken.end - taken.start <= most), "taken");
    require(had == (has(&set, at) || (any && taken.start <= at && at < taken.end)), "no other");
}

void ranges_missing(void)
{
    struct dw_ranges set;
    struct dw_range holes[RANGES_MOST + 1];
    const uint32_t from = nondet_u32(), to = nondet_u32(), at = nondet_u32();
    bool in_hole = false;
    any_set(&set);
    given(from <= at && at < to);
    const unsigned n = dw_ranges_missing(&set, from, to, holes, RANGES_MOST + 1);
    require(n <= RANGES_MOST + 1, "how many");
    for (unsigned i = 0; i < n; i++) {
        require(holes[i].start < holes[i].end, "not empty");
        require(holes[i].start >= from && holes[i].end <= to, "inside");
        require(!i || holes[i - 1].end <= holes[i].start, "rising");
        in_hole |= holes[i].start <= at && at < holes[i].end;
    }
    require(in_hole == !has(&set, at), "each byte is there or in a hole");
}

/* A STATUS of any bytes, then what is sent next: inside the record and the grant. */
void record_source(void)
{
    struct dw_record_source source = {
        .total = nondet_u32(), .sent = nondet_u32(), .granted = nondet_u32()};
    static struct dw_range list[RANGES_MOST + 1];
    source.again.list = list;
    source.again.capacity = RANGES_MOST + 1;
    const struct dw_range missing = {nondet_u32(), nondet_u32()};
    struct dw_range range;
    bool again;
    given(source.sent <= source.granted && source.granted <= source.total);
    const uint32_t granted = source.granted, most = nondet_u32();
    given(most > 0);
    (void)dw_record_source_on_status(&source, (struct dw_record_by){0}, nondet_u32(), &missing,
                                     any_bool());
    require(source.granted >= granted && source.granted <= source.total, "a grant only grows");
    if (dw_record_source_next(&source, 0, most, &range, &again))
        require(range.start < range.end && range.end <= source.granted &&
                    range.end - range.start <= most,
                "inside the grant");
    require(source.sent <= source.granted, "no more than was granted");
}

void recordwin(void)
{
    struct dw_recordwin win = {.datagrams = nondet_u16() & DW_RECORDWIN_MOST,
                               .seen = nondet_u16() & DW_RECORDWIN_MOST,
                               .lost = nondet_u16() & 1023,
                               .least = nondet_u16() & 1023,
                               .base = nondet_u16() & 1023,
                               .period = nondet_u8() & 7,
                               .cut = any_bool(),
                               .used = any_bool(),
                               .cut_now = any_bool(),
                               .queue = any_bool(),
                               .overflowed = any_bool()};
    const uint32_t payload = nondet_u16();
    const uint32_t now = dw_recordwin_datagrams(&win, payload ? payload : 1);
    given(payload >= 400 && (!win.datagrams || win.datagrams >= DW_RECORDWIN_LEAST));
    /* As it is left by what is judged each time that a window of them has come. */
    given(win.seen < now);
    const unsigned datagrams = nondet_u16();
    given(datagrams <= now);
    dw_recordwin_on_answer(&win, nondet_u64(), nondet_u64());
    if (any_bool())
        dw_recordwin_on_marked(&win, payload);
    if (any_bool())
        dw_recordwin_on_came(&win, datagrams, payload);
    else
        dw_recordwin_on_lost(&win, datagrams, payload);
    const uint32_t next = dw_recordwin_datagrams(&win, payload);
    const uint32_t part = dw_recordwin_part_datagrams(&win, payload);
    require(next >= DW_RECORDWIN_LEAST && next <= DW_RECORDWIN_MOST, "bounds");
    require(part > 0 && part <= next / 4, "the least grant");
    require(win.seen < next, "judged in time");
}
