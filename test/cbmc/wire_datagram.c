/* SPDX-License-Identifier: BSD-3-Clause */
/* LLP header, intro block, DDP header: any bytes of any length are read inside their buffer; what
 * is put is got back; what is got, and put again, is the bytes it was got from. */
#include <sys/socket.h>

#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "test/cbmc/any.h"

#define DATAGRAM_MAX_BYTES 80
#define SEGMENT_MAX_BYTES  24

void header_get(void);
void header_put_get(void);
void intro_get(void);
void ddp_get(void);
void ddp_put_get(void);

void header_get(void)
{
    const size_t len = any_length(DATAGRAM_MAX_BYTES);
    uint8_t again[DW_LLP_HEADER_BYTES];
    uint8_t *buf = any_bytes(len);
    struct dw_llp_header header;
    if (dw_llp_header_get(&header, buf, len))
        return;
    require(header.type < DW_LLP_TYPES && !(header.flags & ~DW_LLP_FLAGS), "domain");
    require(header.dst_qpn <= DW_QPN_MAX && header.src_qpn <= DW_QPN_MAX, "domain of QPNs");
    dw_llp_header_put(again, &header);
    require_same(again, buf, sizeof again);
}

void header_put_get(void)
{
    uint8_t buf[DW_LLP_HEADER_BYTES + DW_TAG_BYTES];
    struct dw_llp_header to = {
        .type = nondet_u8(),
        .flags = nondet_u8(),
        .credit_kib = nondet_u16(),
        .token = nondet_u64(),
        .number = nondet_u64(),
        .path = nondet_u8(),
        .dst_qpn = nondet_u32(),
        .src_qpn = nondet_u32(),
        .psn = nondet_u32(),
        .sack = nondet_u64(),
    };
    struct dw_llp_header from;
    given(to.type > DW_LLP_UD && to.type < DW_LLP_TYPES && !(to.flags & ~DW_LLP_FLAGS));
    given(!(to.flags & DW_LLP_GOES_ON) || to.flags & DW_LLP_INTRO);
    given(to.flags & DW_LLP_SEALED ? !(to.flags & DW_LLP_NO_CRC) : !(to.flags & DW_LLP_SOURCE_KEY));
    given(to.dst_qpn <= DW_QPN_MAX && to.src_qpn <= DW_QPN_MAX);
    dw_llp_header_put(buf, &to);
    require(!dw_llp_header_get(&from, buf, sizeof buf), "got");
    require(from.type == to.type && from.flags == to.flags && from.path == to.path, "same bytes");
    require(from.dst_qpn == to.dst_qpn && from.src_qpn == to.src_qpn, "same QPNs");
    require(from.token == to.token && from.number == to.number && from.psn == to.psn &&
                from.sack == to.sack && from.credit_kib == to.credit_kib,
            "same words");
}

void intro_get(void)
{
    const size_t len = any_length(DW_INTRO_BYTES + 4);
    uint8_t again[DW_INTRO_BYTES];
    uint8_t *buf = any_bytes(len);
    struct dw_intro intro;
    if (dw_intro_get(&intro, buf, len))
        return;
    require(intro.port && intro.mtu_bytes >= DW_MTU_MIN_BYTES, "domain");
    dw_intro_put(again, &intro);
    require_same(again, buf, sizeof again);
}

void ddp_get(void)
{
    const size_t len = any_length(SEGMENT_MAX_BYTES);
    uint8_t again[DW_DDP_UNTAGGED_BYTES];
    uint8_t *buf = any_bytes(len);
    struct dw_ddp_header header;
    uint16_t cause;
    const int bytes = dw_ddp_get(&header, buf, len);
    const int stream_bytes = dw_ddp_get_stream(&header, buf, len, &cause);
    require(bytes < 0 || (size_t)bytes <= len, "inside");
    require(stream_bytes < 0 || (size_t)stream_bytes <= len, "of a stream, inside");
    require((stream_bytes < 0) == (cause != 0), "an error has a cause");
    if (bytes < 0 || dw_ddp_get(&header, buf, len) < 0)
        return;
    require(dw_ddp_put(again, &header) == (size_t)bytes, "length");
    require_same(again, buf, (size_t)bytes);
}

void ddp_put_get(void)
{
    uint8_t buf[DW_DDP_UNTAGGED_BYTES];
    const struct dw_ddp_header to = {
        .tagged = true,
        .last = any_bool(),
        .opcode = DW_RDMAP_WRITE_RECORD,
        .stag = nondet_u32(),
        .to = nondet_u64(),
    };
    struct dw_ddp_header from;
    require(dw_ddp_put(buf, &to) == DW_DDP_TAGGED_BYTES, "length");
    require(dw_ddp_get(&from, buf, sizeof buf) == DW_DDP_TAGGED_BYTES, "got");
    require(from.tagged && from.last == to.last && from.opcode == to.opcode &&
                from.stag == to.stag && from.to == to.to,
            "same");
}
