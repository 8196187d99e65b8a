/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of Open MPI 5.0's header of this name; see threads_pthreads_mutex.h. */
#pragma once

#include <pthread.h>

typedef pthread_key_t opal_tsd_key_t;

static inline int opal_tsd_get(opal_tsd_key_t key, void **value)
{
    *value = pthread_getspecific(key);
    return 0;
}
