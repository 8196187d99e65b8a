/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that libibverbs allocates, and regions by a list of attributes (rdma-core 58 and later,
 * whose headers need not be there). */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs_diwarp/front.h"

struct ibv_buf;
struct ibv_mr_init_attr;

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);

/* What a struct ibv_buf of ours is. No field of libibverbs' own, whatever they are, points to
 * `mark`. */
struct buf {
    const char *mark;
    const struct ibv_pd *pd;
    uint8_t *addr;
    size_t bytes;
};

static const char mark;

/* NULL: it is libibverbs'. */
static struct buf *buf_of(struct ibv_buf *ibv_buf)
{
    struct buf *buf = (struct buf *)(void *)ibv_buf;
    return buf->mark == &mark ? buf : NULL;
}

/* struct ibv_mr_init_attr, and the bits of its comp_mask. */
struct region_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    void *dmah;
    struct ibv_buf *buf;
};
enum { HAS_IOVA = 1 << 0, HAS_ADDR = 1 << 1, HAS_BUF = 1 << 5 };

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **out)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_alloc_buf)(pd, size, out);
    struct buf *buf = malloc(sizeof *buf);
    void *addr = NULL;
    if (!buf || posix_memalign(&addr, (size_t)sysconf(_SC_PAGESIZE), size ? size : 1)) {
        free(buf);
        return dv_fail(ENOMEM);
    }
    *buf = (struct buf){.mark = &mark, .pd = pd, .addr = addr, .bytes = size};
    *out = (struct ibv_buf *)(void *)buf;
    return addr;
}

void ibv_free_buf(struct ibv_buf *ibv_buf)
{
    struct buf *buf = buf_of(ibv_buf);
    if (!buf) {
        DV_REAL(ibv_free_buf)(ibv_buf);
        return;
    }
    free(buf->addr);
    free(buf);
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
    if (!buf_of(buf))
        return DV_REAL(ibv_export_buf_dmabuf_fd)(buf);
    errno = ENODATA;
    return -1;
}

static bool is_within(struct ibv_buf *ibv_buf, const struct ibv_pd *pd, const void *addr,
                      size_t length)
{
    const struct buf *buf = buf_of(ibv_buf);
    if (!buf || buf->pd != pd)
        return false;
    const uintptr_t offset = (uintptr_t)addr - (uintptr_t)buf->addr;
    return offset <= buf->bytes && length <= buf->bytes - offset;
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *ibv_attr)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_reg_mr_ex)(pd, ibv_attr);
    const struct region_attr *attr = (const struct region_attr *)(void *)ibv_attr;
    if (attr->comp_mask & ~(uint64_t)(HAS_IOVA | HAS_ADDR | HAS_BUF)) /* of devices, of GPUs */
        return dv_fail(EOPNOTSUPP);
    if (!(attr->comp_mask & HAS_ADDR) ||
        (attr->comp_mask & HAS_BUF && !is_within(attr->buf, pd, attr->addr, attr->length)))
        return dv_fail(EINVAL);
    return ibv_reg_mr_iova2(pd, attr->addr, attr->length,
                            attr->comp_mask & HAS_IOVA ? attr->iova : (uintptr_t)attr->addr,
                            (unsigned)attr->access);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_reg_buf_mr)(pd, buf, addr, length, access);
    if (!is_within(buf, pd, addr, length))
        return dv_fail(EINVAL);
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}
