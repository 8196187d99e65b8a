/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sources of a UD QP, and which of their datagrams are too late: whatever a source sends bears
 * a higher number than all before, for ever, so that no silence makes an old datagram look new.
 */
#include <stdlib.h>

#include "common/base/siphash.h"
#include "common/ud/ud.h"

/* The silence of one that may be forgotten for another. */
#define SILENT_NS 10000000000u
/* A datagram whose number is so far behind the newest is too late. Each MSN and each record takes a
 * number at least: between two that are not too late their 31 bits say which is older. */
#define NUMBERS_LATE ((int64_t)DW_UD_NUMBERS_ANEW / 2)

/* Nobody can choose a name, an incarnation and a QPN that have the key of others. */
static uint64_t key_of(const struct dw_ud_qp *ud, const struct dw_llp_header *header)
{
    const uint64_t *random_key = ud->qp.port->device->random_key;
    const struct diwarp_name name = {.job = header->job, .rank = header->rank};
    const uint64_t process = (uint64_t)header->src_qpn << 32 | header->incarnation;
    return dw_siphash(random_key, dw_name_key(name) ^ dw_siphash(random_key, process));
}

static void on_heard(struct dw_ud_qp *ud, struct dw_ud_source *source, uint64_t now_ns)
{
    source->heard_ns = now_ns;
    dw_list_remove(&source->link);
    dw_list_append(&ud->sources, &source->link);
}

static struct dw_ud_gone *gone_of(const struct dw_ud_qp *ud, uint64_t key)
{
    return &ud->gone[key % DW_UD_SOURCES_MAX];
}

/* Room for one more: the one that has been silent for longest goes, if that is long enough. */
static bool make_room(struct dw_ud_qp *ud, uint64_t now_ns)
{
    if (ud->source_by_key.count < DW_UD_SOURCES_MAX)
        return true;
    if (!ud->gone)
        ud->gone = calloc(DW_UD_SOURCES_MAX, sizeof *ud->gone);
    struct dw_ud_source *source = dw_container(ud->sources.next, struct dw_ud_source, link);
    while ((source->held[DW_UD_SEND] || source->held[DW_UD_RECORD]) &&
           now_ns - source->heard_ns > SILENT_NS) {
        on_heard(ud, source, now_ns);
        source = dw_container(ud->sources.next, struct dw_ud_source, link);
    }
    if (!ud->gone || now_ns - source->heard_ns <= SILENT_NS)
        return false;
    *gone_of(ud, source->key) = (struct dw_ud_gone){source->key, source->newest};
    dw_map_remove(&ud->source_by_key, source->key);
    dw_list_remove(&source->link);
    free(source);
    return true;
}

/* NULL: it is too late, or there is no room; counted. */
static struct dw_ud_source *add_source(struct dw_ud_qp *ud, const struct dw_llp_header *header,
                                       uint64_t key, uint64_t now_ns)
{
    /* Before another is forgotten for it, whose number may have the same place. */
    const bool known = ud->gone && gone_of(ud, key)->key == key;
    const uint64_t newest = known ? gone_of(ud, key)->newest : 0;
    if (known && (int64_t)(header->number - newest) <= 0) {
        dw_ud_counters(ud)->rx_dup_datagrams++;
        return NULL;
    }
    struct dw_ud_source *source = make_room(ud, now_ns) ? calloc(1, sizeof *source) : NULL;
    if (!source || dw_map_put(&ud->source_by_key, key, source)) {
        dw_ud_counters(ud)->drop_source++;
        free(source);
        return NULL;
    }
    source->key = key;
    source->name = (struct diwarp_name){.job = header->job, .rank = header->rank};
    source->qpn = header->src_qpn;
    source->newest = header->number;
    source->late = known ? newest : header->number - (uint64_t)NUMBERS_LATE;
    dw_list_init(&source->link);
    on_heard(ud, source, now_ns);
    return source;
}

/* False: it is too late. */
static bool take_number(struct dw_ud_source *source, uint64_t number)
{
    const int64_t ahead = (int64_t)(number - source->newest);
    if ((int64_t)(number - source->late) <= 0)
        return false;
    if (ahead >= (int64_t)DW_UD_NUMBERS_ANEW) /* all that was met is too late */
        source->begun[DW_UD_SEND].any = source->begun[DW_UD_RECORD].any = false;
    if (ahead > 0)
        source->newest = number;
    if ((int64_t)(source->newest - source->late) > NUMBERS_LATE)
        source->late = source->newest - (uint64_t)NUMBERS_LATE;
    return true;
}

struct dw_ud_source *dw_ud_source_of(struct dw_ud_qp *ud, const struct dw_llp_header *header,
                                     uint64_t now_ns)
{
    const uint64_t key = key_of(ud, header);
    struct dw_ud_source *source = dw_map_get(&ud->source_by_key, key);
    if (!source)
        source = add_source(ud, header, key, now_ns);
    if (!source)
        return NULL;
    if (!take_number(source, header->number)) {
        dw_ud_counters(ud)->rx_dup_datagrams++;
        return NULL;
    }
    on_heard(ud, source, now_ns);
    return source;
}
