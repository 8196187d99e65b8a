/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a tap heard of one RC connection, with what was posted on it: written as a capture
 * (NAME.pcap) and an expectation (NAME.expect) for test/net/rc_wire, and as copies with one thing
 * broken.
 */
#ifndef RC_RECORD_H
#define RC_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/ddp.h"
#include "test/net/tap.h"

#define RC_RECORD_OPCODES (DW_RDMAP_TERMINATE + 1)

struct rc_ledger {
    uint64_t messages[RC_RECORD_OPCODES], bytes[RC_RECORD_OPCODES];
    unsigned left_out; /* FPDUs that are not in the capture: see write_fpdus() */
};

struct rc_record {
    const char *name;
    bool markers, crc; /* in both directions */
    uint8_t revision;
    uint16_t cause; /* of the Terminate that ended it; 0: an orderly end */
    struct tap tap;
    struct rc_ledger ledger; /* what was posted */
};

/* Both end the program when something fails. Call them before the tap is closed. */
void rc_record_write(const struct rc_record *record, const char *dir);
/* broken-FAULT.pcap for each fault of a table, with the expectation of the whole. */
void rc_record_write_broken(const struct rc_record *record, const char *dir);

/* Says why and ends the program. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(bool truth, const char *what);

#endif
