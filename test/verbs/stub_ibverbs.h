/* SPDX-License-Identifier: BSD-3-Clause */
/* What test_front_foreign asks of the libibverbs that test/verbs/stub_ibverbs.c is. */
#pragma once

/* The name of the function that was called last, since this was asked; "nothing" where none was. */
const char *stub_last_call(void);
