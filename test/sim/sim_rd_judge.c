/* SPDX-License-Identifier: BSD-3-Clause */
/* After all has come to rest: whether each operation did what it must, and nothing else happened.
 */
#include "test/sim/sim_rd.h"

#define FILL_LOCAL  0xdd
#define FILL_VICTIM 0xee

static bool guards_whole(const uint8_t *buf, size_t bytes, uint8_t fill)
{
    return sim_all_bytes(buf - SIM_RD_GUARD_BYTES, fill, SIM_RD_GUARD_BYTES) &&
           sim_all_bytes(buf + bytes, fill, SIM_RD_GUARD_BYTES);
}

#define op_check(rd, op, truth)                                                                    \
    do {                                                                                           \
        if (!(truth))                                                                              \
            sim_fail(&(rd)->world, "op %u (kind %d, fault %d, %u bytes, status %d): %s", (op)->id, \
                     (int)(op)->kind, (int)(op)->fault, (op)->bytes, (int)(op)->status, #truth);   \
    } while (0)

static void judge_read(struct sim_rd *rd, const struct sim_rd_op *op)
{
    /* A read that said nothing and was not refused has succeeded: it is not among the sinks. */
    bool right = op->fault == SIM_RD_RIGHT ||
                 (op->fault == SIM_RD_DEREGISTERED && op->ended && op->status == IBV_WC_SUCCESS);
    if (right)
        op_check(rd, op,
                 sim_pattern_matches(SIM_RD_READABLE_ID + op->target, op->remote_offset, op->buf,
                                     op->bytes));
    else if (op->fault != SIM_RD_DEREGISTERED)
        op_check(rd, op, sim_all_bytes(op->buf, FILL_LOCAL, op->bytes));
    /* A source that took its memory back before the release came is not told. */
    bool told = op->hold && right && op->release_bytes > 0;
    op_check(rd, op, op->released == told || (told && op->fault == SIM_RD_DEREGISTERED));
}

static void judge_write(struct sim_rd *rd, const struct sim_rd_op *op)
{
    const uint8_t *place = rd->hosts[op->target].writable + op->remote_offset;
    op_check(rd, op, op->delivered == (op->imm && (!op->ended || op->status == IBV_WC_SUCCESS)));
    if (op->fault == SIM_RD_DEREGISTERED) {
        op_check(rd, op, !memcmp(op->victim, op->snapshot, op->bytes));
        if ((op->imm || op->bytes > DW_INLINE_WRITE_BYTES) && op->ended &&
            op->status == IBV_WC_SUCCESS)
            op_check(rd, op, sim_pattern_matches(op->id, 0, op->victim, op->bytes));
        return;
    }
    if (op->fault == SIM_RD_RIGHT)
        op_check(rd, op, sim_pattern_matches(op->id, 0, place, op->bytes));
    else
        op_check(rd, op, sim_all_bytes(place, FILL_VICTIM, op->bytes));
    op_check(rd, op, sim_all_bytes(place + op->bytes, FILL_VICTIM, SIM_RD_GUARD_BYTES));
}

static bool status_right(const struct sim_rd_op *op)
{
    if (!op->ended || (op->fault == SIM_RD_RIGHT && op->status == IBV_WC_SUCCESS))
        return true;
    if (op->fault == SIM_RD_RIGHT)
        return false;
    if (op->status == IBV_WC_REM_ACCESS_ERR)
        return true;
    return op->fault == SIM_RD_DEREGISTERED &&
           (op->status == IBV_WC_SUCCESS || op->status == IBV_WC_REM_ABORT_ERR);
}

static void judge_op(struct sim_rd *rd, const struct sim_rd_op *op)
{
    op_check(rd, op, op->posted);
    op_check(rd, op, op->completions >= op->completions_min);
    op_check(rd, op, op->completions <= op->completions_max);
    op_check(rd, op, status_right(op));
    if (op->kind == SIM_RD_SEND)
        op_check(rd, op, op->delivered);
    else if (op->kind == SIM_RD_READ)
        judge_read(rd, op);
    else if (op->kind == SIM_RD_WRITE)
        judge_write(rd, op);
    if (op->buf)
        op_check(rd, op, guards_whole(op->buf, op->bytes, FILL_LOCAL));
    if (op->victim)
        op_check(rd, op, guards_whole(op->victim, op->bytes, FILL_VICTIM));
}

static uint64_t original_of(const struct sim_rd_op *op)
{
    uint64_t original;
    memcpy(&original, op->buf, sizeof original);
    return original;
}

static bool executed_on(const struct sim_rd_op *op, unsigned target, unsigned word)
{
    return (op->kind == SIM_RD_ADD || op->kind == SIM_RD_SWAP) && op->fault == SIM_RD_RIGHT &&
           op->target == target && op->remote_offset == word * sizeof(uint64_t) &&
           (op->kind == SIM_RD_ADD || original_of(op) == op->compare);
}

/* The values that the operations found must chain from 0 to what is there now, each used once. */
static void judge_word(struct sim_rd *rd, unsigned target, unsigned word)
{
    bool used[SIM_RD_MAX_OPS] = {false};
    uint64_t value = 0;
    unsigned left = 0;
    for (unsigned i = 0; i < rd->op_count; i++)
        left += executed_on(&rd->ops[i], target, word);
    for (bool found = true; found && left; left -= found) {
        found = false;
        for (unsigned i = 0; i < rd->op_count && !found; i++) {
            const struct sim_rd_op *op = &rd->ops[i];
            if (used[i] || !executed_on(op, target, word) || original_of(op) != value)
                continue;
            used[i] = found = true;
            value = op->kind == SIM_RD_ADD ? value + op->value : op->id;
        }
    }
    if (left || value != rd->hosts[target].words[word])
        sim_fail(&rd->world, "node %u: word %u holds %llu after a chain that ends at %llu", target,
                 word, (unsigned long long)rd->hosts[target].words[word],
                 (unsigned long long)value);
}

void sim_rd_check_done(struct sim_rd *rd, const struct sim_rd_op *op, const struct diwarp_wc *wc)
{
    const uint8_t *written = rd->hosts[op->target].writable + op->remote_offset;
    sim_check(&rd->world, wc->wc.byte_len == op->bytes);
    if (op->kind == SIM_RD_READ)
        sim_check(&rd->world, sim_pattern_matches(SIM_RD_READABLE_ID + op->target,
                                                  op->remote_offset, op->buf, op->bytes));
    if (op->kind == SIM_RD_WRITE && op->fault == SIM_RD_RIGHT)
        sim_check(&rd->world, sim_pattern_matches(op->id, 0, written, op->bytes));
}

void sim_rd_check_told(struct sim_rd *rd, struct sim_rd_op *op, const struct diwarp_wc *wc)
{
    op_check(rd, op, op->kind == SIM_RD_WRITE && op->imm && !op->delivered);
    op_check(rd, op, wc->wc.wc_flags == IBV_WC_WITH_IMM);
    op->delivered = true;
    sim_rd_check_done(rd, op, wc);
}

void sim_rd_check_fences(struct sim_rd *rd, const struct sim_rd_op *op)
{
    bool fenced = false;
    for (unsigned i = op->id; i-- > 0;) {
        const struct sim_rd_op *before = &rd->ops[i];
        if (before->kind != SIM_RD_SEND || before->node != op->node || before->target != op->target)
            continue;
        if (fenced && !before->delivered)
            sim_fail(&rd->world, "op %u has overtaken op %u, and a fence", op->id, before->id);
        fenced |= before->fence;
    }
}

void sim_rd_judge(struct sim_rd *rd)
{
    for (unsigned i = 0; i < rd->op_count; i++)
        judge_op(rd, &rd->ops[i]);
    for (unsigned n = 0; n < rd->config.node_count && !rd->world.failed; n++) {
        const struct sim_rd_host *host = &rd->hosts[n];
        if (!guards_whole(host->readable, SIM_RD_READABLE_BYTES, FILL_VICTIM) ||
            !sim_pattern_matches(SIM_RD_READABLE_ID + n, 0, host->readable,
                                 SIM_RD_READABLE_BYTES) ||
            !guards_whole(host->writable, host->writable_bytes, FILL_VICTIM))
            sim_fail(&rd->world, "node %u: memory written that no operation named", n);
        for (unsigned w = 0; w < SIM_RD_WORDS && !rd->world.failed; w++)
            judge_word(rd, n, w);
    }
}
