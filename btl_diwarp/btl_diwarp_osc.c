/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Defaults of osc/rdma, Open MPI's one-sided component over BTLs, that diwarp changes unless the
 * user has set them. MPI_Init starts the BTLs, then registers osc's variables, then starts
 * osc/rdma, which allots its buffers by them: diwarp has them registered earlier, as
 * MPI_T_init_thread() would, and sets the defaults before osc/rdma looks.
 *
 * network_max_amo, the elements up to which an accumulate becomes one fetch-and-add each: 0 in Open
 * MPI 4.1.1 to 4.1.4, whose MPI_Get_accumulate with a derived type, even of one element, unpacks
 * its result from behind the buffer of the fetched values (gacc_amo); a BTL cannot tell it from
 * MPI_Fetch_and_op. Compare-and-swap and osc/rdma's own locks do not depend on it.
 *
 * priority: Open MPI 4.1 takes osc/rdma, by 101, before osc/sm, by 100, which maps what
 * MPI_Win_allocate makes for the processes of a host. Open MPI 5.0 has osc/rdma behind osc/sm.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include "ompi/mca/osc/base/base.h"
#include "opal/mca/base/mca_base_framework.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal.h"

#include <stdio.h>
#include <string.h>

/* buffer_size: osc/rdma accumulates by an eighth of it at a time, and waits for each to be read
 * before the next. 1 MiB takes 7 times as long with 32 KiB, as Open MPI has it; 4 MiB take a third
 * more with half of this, a tenth less with twice. Atomics go through the buffer from end to end,
 * so a window that has seen 131,072 of them holds this much memory. */
#define BUFFER_BYTES (1u << 20)

static bool osc_registered; /* and counted as a user of the framework */

/* Where the user has set nothing. Returns what holds; 0: osc/rdma is not there. */
static unsigned long set_default(const char *name, unsigned long value)
{
    const mca_base_var_t *var;
    if (mca_base_var_get(mca_base_var_find("ompi", "osc", "rdma", name), &var) != OPAL_SUCCESS)
        return 0;
    const bool is_long = var->mbv_type == MCA_BASE_VAR_TYPE_UNSIGNED_LONG;
    if (var->mbv_source != MCA_BASE_VAR_SOURCE_DEFAULT)
        return is_long ? var->mbv_storage->ulval : var->mbv_storage->uintval;
    if (is_long)
        var->mbv_storage->ulval = value;
    else
        var->mbv_storage->uintval = (unsigned)value;
    return value;
}

void mca_btl_diwarp_osc_init(void)
{
    int release;
    osc_registered = mca_base_framework_register(&ompi_osc_base_framework,
                                                 MCA_BASE_REGISTER_DEFAULT) == OPAL_SUCCESS;
    (void)set_default("buffer_size", BUFFER_BYTES);
    if (strncmp(opal_version_string, "4.1.", 4) == 0)
        (void)set_default("priority", 99);
    if (sscanf(opal_version_string, "4.1.%d", &release) != 1 || release < 1 || release > 4)
        return;
    const unsigned long amo = set_default("network_max_amo", 0);
    if (amo && !OPAL_PROC_MY_NAME.vpid)
        MCA_BTL_DIWARP_SAY("osc_rdma_network_max_amo is %lu: with this Open MPI, "
                           "MPI_Get_accumulate then gives wrong data for derived types of 8-byte "
                           "integers; 0 is safe",
                           amo);
}

void mca_btl_diwarp_osc_fini(void)
{
    if (osc_registered)
        (void)mca_base_framework_close(&ompi_osc_base_framework);
    osc_registered = false;
}
