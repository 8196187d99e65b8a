/* SPDX-License-Identifier: BSD-3-Clause */
/* What Open MPI 4.1 and later ones name differently, or keep in different headers: here for 4.1. It
 * is included as btl_diwarp_openmpi.h, which configure links to the header of the version it found.
 */
#pragma once

#include "opal_config.h"

#include "opal/mca/pmix/pmix.h"
#include "opal/threads/mutex.h"

#define MCA_BTL_DIWARP_EXPORT       OPAL_MODULE_DECLSPEC
#define MCA_BTL_DIWARP_MODEX_GLOBAL OPAL_PMIX_GLOBAL
/* Of btl_flags, those that only later versions know. */
#define MCA_BTL_DIWARP_RDMA_FLAGS 0u
/* Whether a program that uses no threads may ask for them later. */
#define MCA_BTL_DIWARP_THREADS_LATER false
/* 4.1 has no fault tolerance: a process that is lost ends the job. */
#define mca_btl_diwarp_job_goes_on()                   false
#define mca_btl_diwarp_known_lost(proc)                ((void)(proc), false)
#define mca_btl_diwarp_in_communicator(name)           ((void)(name), true)
#define mca_btl_diwarp_more_lost(module)               false
#define mca_btl_diwarp_end_lost(module)                ((void)0)
#define mca_btl_diwarp_of_pml(module, proc, cbcontext) ((void)(module), (void)(proc), false)
