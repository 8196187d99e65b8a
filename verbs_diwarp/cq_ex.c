/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cq_ex.h"

#include <errno.h>
#include <time.h>

#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/poll.h"

#define TIMESTAMPS \
    (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static uint64_t wall_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int dv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    (void)context;
    if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
        return EINVAL;
    /* All of it in tv_nsec, as providers give the ticks of their clocks. */
    if (values->comp_mask)
        values->raw_clock = (struct timespec){.tv_nsec = (long)dv_clock_ns()};
    return 0;
}

static struct dv_cq *of_ex(struct ibv_cq_ex *ex)
{
    return (struct dv_cq *)ex;
}

/* ---- polling ---- */

static int next_poll(struct ibv_cq_ex *ex)
{
    const int rc = dv_take_entry(of_ex(ex));
    if (!rc) {
        ex->wr_id = of_ex(ex)->current.wc.wr_id;
        ex->status = of_ex(ex)->current.wc.status;
    }
    return rc;
}

static void end_poll(struct ibv_cq_ex *ex)
{
    if (!of_ex(ex)->single_threaded)
        pthread_mutex_unlock(&of_ex(ex)->polling);
}

/* Where it finds nothing, no ibv_end_poll() follows. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    if (attr->comp_mask || dv_is_gone(of_ex(ex)->cq.context))
        return EINVAL;
    if (!of_ex(ex)->single_threaded)
        pthread_mutex_lock(&of_ex(ex)->polling);
    const int rc = next_poll(ex);
    if (rc)
        end_poll(ex);
    return rc;
}

/* ---- what the completion says ---- */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
    return of_ex(ex)->current.wc.opcode;
}

#define READ(name, type, field)                   \
    static type read_##name(struct ibv_cq_ex *ex) \
    {                                             \
        return of_ex(ex)->current.wc.field;       \
    }

READ(vendor_err, uint32_t, vendor_err)
READ(byte_len, uint32_t, byte_len)
READ(imm_data, __be32, imm_data)
READ(qp_num, uint32_t, qp_num)
READ(src_qp, uint32_t, src_qp)
READ(wc_flags, unsigned, wc_flags)
READ(slid, uint32_t, slid)
READ(sl, uint8_t, sl)
READ(dlid_path_bits, uint8_t, dlid_path_bits)

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
    return of_ex(ex)->current.at_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
    return wall_ns() - (dv_clock_ns() - of_ex(ex)->current.at_ns);
}

/* Fields that were not asked for have no reader, as with hardware. */
static void set_readers(struct ibv_cq_ex *ex, uint64_t wanted)
{
    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_wc_flags = read_wc_flags;
    if (wanted & IBV_WC_EX_WITH_BYTE_LEN)
        ex->read_byte_len = read_byte_len;
    if (wanted & IBV_WC_EX_WITH_IMM)
        ex->read_imm_data = read_imm_data;
    if (wanted & IBV_WC_EX_WITH_QP_NUM)
        ex->read_qp_num = read_qp_num;
    if (wanted & IBV_WC_EX_WITH_SRC_QP)
        ex->read_src_qp = read_src_qp;
    if (wanted & IBV_WC_EX_WITH_SLID)
        ex->read_slid = read_slid;
    if (wanted & IBV_WC_EX_WITH_SL)
        ex->read_sl = read_sl;
    if (wanted & IBV_WC_EX_WITH_DLID_PATH_BITS)
        ex->read_dlid_path_bits = read_dlid_path_bits;
    if (wanted & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
        ex->read_completion_ts = read_completion_ts;
    if (wanted & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
        ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

/* ---- making ---- */

/* 0 or a positive errno. */
static int check(const struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
    const uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    if (attr->comp_mask & ~masks ||
        attr->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | TIMESTAMPS) ||
        (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~flags))
        return EOPNOTSUPP;
    if (attr->cqe > DV_MAX_CQE || attr->comp_vector > INT32_MAX)
        return EINVAL;
    if (!(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD))
        return 0;
    const struct dv_pd *domain = (const struct dv_pd *)attr->parent_domain;
    return domain && domain->pd.context == context && domain->parent ? 0 : EINVAL;
}

struct ibv_cq_ex *dv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    const int rc = check(context, attr);
    if (rc)
        return dv_fail(rc);
    struct ibv_cq *made = ibv_create_cq(context, (int)attr->cqe, attr->cq_context, attr->channel,
                                        (int)attr->comp_vector);
    if (!made)
        return NULL;
    struct dv_cq *cq = dv_cq_of(made);
    const uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
    pthread_mutex_init(&cq->polling, NULL);
    cq->is_extended = true;
    cq->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    cq->ignores_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    cq->stamps = attr->wc_flags & TIMESTAMPS;
    set_readers(&cq->ex, attr->wc_flags);
    if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
        cq->domain = (struct dv_pd *)attr->parent_domain;
        dv_lock(dv_context_of(context));
        cq->domain->users++;
        dv_unlock(dv_context_of(context));
    }
    return &cq->ex;
}
