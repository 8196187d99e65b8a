/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of receives over RC, which are posted in advance and filled by the core.
 *
 * An RNIC pins the memory of receives when it is registered; so this memory is there from the
 * start, whether messages come or not.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include "opal/align.h"

#include <errno.h>
#include <sys/mman.h>

static uint64_t buffers_bytes;

/* Receives begin on cache lines, so that the PML's headers, behind ours, are aligned. */
static size_t stride_bytes(void)
{
    return OPAL_ALIGN(mca_btl_diwarp_params.rc_recv_bytes, 64, size_t);
}

int mca_btl_diwarp_rc_buffer_post(const struct mca_btl_diwarp_module *module, unsigned char *buffer,
                                  struct diwarp_rc_qp *qp)
{
    struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = mca_btl_diwarp_params.rc_recv_bytes};
    const struct ibv_recv_wr wr = {.wr_id = (uintptr_t)buffer | 1u, .sg_list = &sge, .num_sge = 1};

    return NULL != module->rc->srq ? diwarp_post_srq_recv(module->rc->srq, &wr)
                                   : diwarp_rc_post_recv(qp, &wr);
}

int mca_btl_diwarp_rc_buffers_make(const struct mca_btl_diwarp_module *module,
                                   unsigned char **buffers, unsigned count, struct diwarp_rc_qp *qp)
{
    void *made = mmap(NULL, count * stride_bytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    int rc = 0;

    if (MAP_FAILED == made) {
        return -ENOMEM;
    }
    *buffers = made;
    (void)__atomic_add_fetch(&buffers_bytes, count * stride_bytes(), __ATOMIC_RELAXED);
    for (unsigned i = 0; i < count && 0 == rc; i++) {
        rc = mca_btl_diwarp_rc_buffer_post(module, *buffers + i * stride_bytes(), qp);
    }
    return rc;
}

void mca_btl_diwarp_rc_buffers_free(unsigned char *buffers, unsigned count)
{
    if (NULL != buffers) {
        (void)munmap(buffers, count * stride_bytes());
        (void)__atomic_sub_fetch(&buffers_bytes, count * stride_bytes(), __ATOMIC_RELAXED);
    }
}

uint64_t mca_btl_diwarp_rc_buffers_bytes(void)
{
    return __atomic_load_n(&buffers_bytes, __ATOMIC_RELAXED);
}
