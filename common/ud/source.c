/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources of a UD QP, and which of their datagrams are too late: whatever a source sends bears
 * a higher number than all before, for ever, so that no silence makes an old datagram look new. */
#include <stdlib.h>
#include <string.h>

#include "common/base/siphash.h"
#include "common/ud/ud.h"

/* The silence of one that may be forgotten for another. */
#define SILENT_NS 10000000000u
/* A datagram whose number is so far behind the newest is too late. Each MSN and each record takes a
 * number at least: between two that are not too late their 31 bits say which is older. */
#define NUMBERS_LATE ((int64_t)DW_UD_NUMBERS_ANEW / 2)

static uint64_t group_of(const struct dw_llp_header *header)
{
    return header->dst_qpn == DW_QPN_GROUP ? header->token : 0;
}

/* Nobody can choose a name, an incarnation and a QPN that have the key of others. What is sent to a
 * group is numbered apart. */
static uint64_t key_of(const struct dw_ud_qp *ud, const struct dw_llp_header *header)
{
    const uint64_t *random_key = ud->qp.port->device->random_key;
    const struct diwarp_name name = {.job = header->job, .rank = header->rank};
    const uint64_t process = (uint64_t)header->src_qpn << 32 | header->incarnation;
    const uint64_t whole = dw_siphash(random_key, process) ^ group_of(header);
    return dw_siphash(random_key, dw_name_key(name) ^ dw_siphash(random_key, whole));
}

static bool is_of(const struct dw_ud_source *source, const struct dw_llp_header *header)
{
    return source->name.job == header->job && source->name.rank == header->rank &&
           source->incarnation == header->incarnation && source->qpn == header->src_qpn &&
           source->group == group_of(header);
}

/* Mostly of the one that was heard last, which spares its hashes. */
static uint64_t find_key(const struct dw_ud_qp *ud, const struct dw_llp_header *header)
{
    if (dw_list_empty(&ud->sources))
        return key_of(ud, header);
    const struct dw_ud_source *last = dw_container(ud->sources.prev, struct dw_ud_source, link);
    return is_of(last, header) ? last->key : key_of(ud, header);
}

void dw_ud_source_destroy(struct dw_ud_qp *ud, struct dw_ud_source *source)
{
    if (source->asker)
        dw_ud_asker_destroy(source->asker);
    dw_map_remove(&ud->source_by_key, source->key);
    dw_list_remove(&source->link);
    free(source);
}

static bool holds_any(const struct dw_ud_source *source)
{
    bool any = false;
    for (unsigned kind = 0; kind < DW_UD_KINDS; kind++)
        any |= source->held[kind] != 0;
    return any;
}

static void on_heard(struct dw_ud_qp *ud, struct dw_ud_source *source, uint64_t now_ns)
{
    source->heard_ns = now_ns;
    dw_list_remove(&source->link);
    dw_list_append(&ud->sources, &source->link);
}

/* Room for one more: the one that has been silent for longest goes, if that is long enough. */
static bool make_room(struct dw_ud_qp *ud, uint64_t now_ns)
{
    if (ud->source_by_key.count < DW_UD_SOURCES_MAX)
        return true;
    if (!ud->gone)
        ud->gone = calloc(DW_UD_SOURCES_MAX, sizeof *ud->gone);
    dw_foreach (source, struct dw_ud_source, link, &ud->sources) {
        if (!ud->gone || now_ns - source->heard_ns <= SILENT_NS)
            break;
        if (holds_any(source)) {
            on_heard(ud, source, now_ns);
            continue;
        }
        ud->gone[source->key % DW_UD_SOURCES_MAX] =
            (struct dw_ud_gone){source->key, source->newest};
        dw_ud_source_destroy(ud, source);
        return true;
    }
    return false;
}

/* NULL: there is no room. */
static struct dw_ud_source *add_source(struct dw_ud_qp *ud, const struct dw_llp_header *header,
                                       uint64_t key, uint64_t late, uint64_t now_ns)
{
    struct dw_ud_source *source = make_room(ud, now_ns) ? calloc(1, sizeof *source) : NULL;
    if (!source || dw_map_put(&ud->source_by_key, key, source)) {
        free(source);
        return NULL;
    }
    source->key = key;
    source->name = (struct diwarp_name){.job = header->job, .rank = header->rank};
    source->incarnation = header->incarnation;
    source->qpn = header->src_qpn;
    source->group = group_of(header);
    source->newest = header->number;
    source->late = late;
    dw_list_init(&source->link);
    return source;
}

/* The highest number of a source, known or not, that is too late. */
static uint64_t late_of(const struct dw_ud_qp *ud, const struct dw_ud_source *source, uint64_t key,
                        uint64_t number)
{
    const struct dw_ud_gone *gone = ud->gone ? &ud->gone[key % DW_UD_SOURCES_MAX] : NULL;
    return source                     ? source->late
           : gone && gone->key == key ? gone->newest
                                      : number - (uint64_t)NUMBERS_LATE;
}

struct dw_ud_source *dw_ud_source_of(struct dw_ud_qp *ud, const struct dw_llp_header *header,
                                     uint64_t now_ns)
{
    const uint64_t key = find_key(ud, header), number = header->number;
    struct dw_ud_source *source = dw_map_get(&ud->source_by_key, key);
    /* Before another is forgotten for it, whose number may have the same place. */
    const uint64_t late = late_of(ud, source, key, number);
    if ((int64_t)(number - late) <= 0) {
        dw_ud_counters(ud)->rx_dup_datagrams++;
        return NULL;
    }
    if (!source)
        source = add_source(ud, header, key, late, now_ns);
    if (!source) {
        dw_ud_counters(ud)->drop_source++;
        return NULL;
    }
    const int64_t ahead = (int64_t)(number - source->newest);
    if (ahead >= (int64_t)DW_UD_NUMBERS_ANEW) { /* all that was met is too late */
        memset(source->begun, 0, sizeof source->begun);
        if (source->held[DW_UD_SEND] || source->held[DW_UD_RECORD])
            dw_ud_records_expire(ud, source);
    }
    if (ahead > 0)
        source->newest = number;
    if ((int64_t)(source->newest - source->late) > NUMBERS_LATE)
        source->late = source->newest - (uint64_t)NUMBERS_LATE;
    on_heard(ud, source, now_ns);
    return source;
}
