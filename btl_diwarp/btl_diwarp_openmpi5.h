/* SPDX-License-Identifier: BSD-3-Clause */
/* What Open MPI 4.1 and later ones name differently, or keep in different headers: here for 5.0 and
 * 6.0. It is included as btl_diwarp_openmpi.h, which configure links to the header of the version
 * it found. */
#pragma once

#include "opal_config.h"

#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/mutex.h"
#include "opal/util/proc.h"

#define MCA_BTL_DIWARP_EXPORT       OPAL_DECLSPEC
#define MCA_BTL_DIWARP_MODEX_GLOBAL PMIX_GLOBAL
/* Puts complete when the data lies in the peer's memory: else osc/rdma takes active messages. */
#define MCA_BTL_DIWARP_RDMA_FLAGS MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
/* Whether a program that uses no threads may ask for them later: in a further session. */
#define MCA_BTL_DIWARP_THREADS_LATER true

struct mca_btl_diwarp_module;
/* Whether the job goes on without a peer that is gone: mpirun --with-ft ulfm. */
bool mca_btl_diwarp_job_goes_on(void);
/* Whether Open MPI knows already that the process is lost. */
bool mca_btl_diwarp_known_lost(const opal_proc_t *proc);
/* Whether it is in a communicator of ours. */
bool mca_btl_diwarp_in_communicator(opal_process_name_t name);
/* Whether it has found processes to be lost since mca_btl_diwarp_end_lost(). */
bool mca_btl_diwarp_more_lost(const struct mca_btl_diwarp_module *module);
/* In an application's thread, before the RNIC runs, with the lock `polling`: ends what is under way
 * with processes that Open MPI has found to be lost since. ob1 has ended their requests, whose
 * memory the application may have freed. */
void mca_btl_diwarp_end_lost(struct mca_btl_diwarp_module *module);
/* Where the job goes on: whether ob1 gave this context, the BML's entry for us and proc. */
bool mca_btl_diwarp_of_pml(struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                           const void *cbcontext);
