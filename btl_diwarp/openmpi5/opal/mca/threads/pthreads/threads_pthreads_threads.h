/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of Open MPI 5.0's header of this name; see threads_pthreads_mutex.h. */
#pragma once

#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}
