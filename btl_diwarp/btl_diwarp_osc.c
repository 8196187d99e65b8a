/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Defaults of osc/rdma, Open MPI's one-sided component over BTLs, that diwarp changes. What the
 * user has set stays. MPI_Init starts the BTLs, then registers osc's variables, then starts
 * osc/rdma, which allots its buffers by them: diwarp has them registered earlier, as
 * MPI_T_init_thread() would, and sets the defaults before osc/rdma looks.
 *
 * network_max_amo, the elements up to which an accumulate becomes one fetch-and-add each: 0 in Open
 * MPI 4.1.1 to 4.1.4. There MPI_Get_accumulate with a derived type unpacks its result from behind
 * the buffer in which the fetched values lie (gacc_amo), even of one element, and a BTL cannot tell
 * it from MPI_Fetch_and_op. Compare-and-swap and osc/rdma's own locks do not depend on it.
 *
 * buffer_size: osc/rdma accumulates by an eighth of it at a time, and waits for each to be read
 * before the next. A piece of 128 KiB takes longer to transfer than to ask for; of 4 KiB, as Open
 * MPI has it, 1 MiB takes 7 times as long. Half of it makes 4 MiB take a third more, twice as much
 * a tenth less. Atomics fill the buffer from end to end before they begin again, so a window that
 * has seen 131,072 of them holds 1 MiB of memory.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include "ompi/mca/osc/base/base.h"
#include "opal/mca/base/mca_base_framework.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal.h"

#include <stdio.h>

#define BUFFER_BYTES (1u << 20)

static bool osc_registered; /* and counted as a user of the framework */

static bool get_accumulate_is_wrong(void)
{
    int release;
    return sscanf(opal_version_string, "4.1.%d", &release) == 1 && release >= 1 && release <= 4;
}

/* Where the user has set nothing. Returns what holds; 0: osc/rdma is not there. */
static unsigned long set_default(const char *name, unsigned long value)
{
    const mca_base_var_t *var;
    if (mca_base_var_get(mca_base_var_find("ompi", "osc", "rdma", name), &var) != OPAL_SUCCESS)
        return 0;
    if (var->mbv_source != MCA_BASE_VAR_SOURCE_DEFAULT) {
        value = var->mbv_type == MCA_BASE_VAR_TYPE_UNSIGNED_LONG ? var->mbv_storage->ulval
                                                                 : var->mbv_storage->uintval;
    } else if (var->mbv_type == MCA_BASE_VAR_TYPE_UNSIGNED_LONG) {
        var->mbv_storage->ulval = value;
    } else {
        var->mbv_storage->uintval = (unsigned)value;
    }
    return value;
}

void mca_btl_diwarp_osc_init(void)
{
    osc_registered = mca_base_framework_register(&ompi_osc_base_framework,
                                                 MCA_BASE_REGISTER_DEFAULT) == OPAL_SUCCESS;
    (void)set_default("buffer_size", BUFFER_BYTES);
    if (!get_accumulate_is_wrong())
        return;
    const unsigned long amo = set_default("network_max_amo", 0);
    if (amo && !OPAL_PROC_MY_NAME.vpid) {
        MCA_BTL_DIWARP_SAY("osc_rdma_network_max_amo is %lu: with this Open MPI, "
                           "MPI_Get_accumulate then gives wrong data for derived types of 8-byte "
                           "integers; 0 is safe",
                           amo);
    }
}

void mca_btl_diwarp_osc_fini(void)
{
    if (osc_registered) {
        (void)mca_base_framework_close(&ompi_osc_base_framework);
        osc_registered = false;
    }
}
