/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels. */
#pragma once

#include "verbs_diwarp/front.h"

/* With the context's lock held: asks for an event of a CQ. */
void dv_channel_arm(struct dv_cq *cq, enum dv_arming arming);
/* Likewise: whether the completion is one that an event was asked for. */
bool dv_channel_wants(const struct dv_cq *cq, const struct dv_entry *entry);
/* Likewise: the event, once for each arming. */
void dv_channel_push(struct dv_cq *cq);
/* The CQ is about to be destroyed: waits, as libibverbs does, until each event that was taken has
 * been acknowledged, and drops the others. */
void dv_channel_leave(struct dv_cq *cq);
/* One off an eventfd(2) that counts like a semaphore. False: whoever reads it has it. */
bool dv_take_count(int fd);
/* Programs cancel threads that take events, even asynchronously: with adapters such a thread holds
 * nothing. So it may be cancelled while it waits, and nowhere else. Returns what was set before. */
int dv_cancel_disable(void);
void dv_cancel_restore(int was);
/* One off it, waiting for it unless it is non-blocking; may be cancelled, if dv_cancel_disable()
 * returned so in `was`. 0, or -1 with errno. */
int dv_wait_for_count(int fd, int was);
/* Likewise, after a count was taken whose event had gone: waits for the next. fd: of the object as
 * it is now. */
int dv_wait_again(int fd, int was);
/* Closes it, and leaves there what dv_wait_again() knows. */
void dv_close_count(int *fd);
