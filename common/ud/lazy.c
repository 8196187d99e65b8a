/* SPDX-License-Identifier: BSD-3-Clause */
/* Lazy Sends: each is a datagram, and those to one socket that are equally long leave as one train.
 * A shorter one ends it. */
#include <errno.h>

#include "common/base/slab.h"
#include "common/ud/ud.h"

static bool is_same_place(const struct dw_llp_addr *a, const struct dw_llp_addr *b)
{
    return dw_llp_same_host(a, b) && a->port == b->port && a->hops == b->hops &&
           a->interface == b->interface;
}

int dw_ud_lazy_flush(struct dw_ud_port *port)
{
    struct dw_ud_lazy *lazy = &port->lazy;
    if (!lazy->count)
        return 0;
    const struct iovec iov = {.iov_base = lazy->buf, .iov_len = lazy->bytes};
    struct dw_llp_train train = {
        .to = &lazy->to,
        .iov = &iov,
        .iov_count = 1,
        .segment_bytes = lazy->segment_bytes,
        .flow = lazy->flow,
        .whole = lazy->whole,
    };
    lazy->refused = dw_datagrams_send(&port->ahs.port->datagrams, &train) == -EAGAIN;
    if (lazy->refused)
        return -EAGAIN;
    lazy->count = lazy->bytes = 0; /* another error is of its destination: it is lost on the way */
    return 0;
}

/* What is there may be followed by so long a datagram. */
static bool takes(const struct dw_ud_lazy *lazy, const struct dw_ud_outgoing *out, uint32_t bytes)
{
    const struct dw_llp_addr to = dw_ah_addr(out->ah);
    return lazy->flow == dw_ah_path(out->ah)->flow && is_same_place(&lazy->to, &to) &&
           bytes <= lazy->segment_bytes;
}

static void begin(struct dw_ud_lazy *lazy, const struct dw_ud_outgoing *out, uint32_t bytes,
                  uint64_t now_ns)
{
    const struct dw_path *path = dw_ah_path(out->ah);
    lazy->to = dw_ah_addr(out->ah);
    lazy->flow = path->flow;
    lazy->segment_bytes = bytes;
    lazy->whole = dw_path_takes_whole(path, bytes, now_ns);
}

int dw_ud_lazy_add(struct dw_ud_outgoing *out, uint64_t now_ns)
{
    struct dw_ud_port *port = dw_ud_port_of(out->ud);
    struct dw_ud_lazy *lazy = &port->lazy;
    const uint32_t bytes = dw_ud_datagram_bytes(out, out->record.total);
    if (!lazy->buf && !(lazy->buf = dw_pages_map(DW_LLP_SLOT_BYTES)))
        return -ENOMEM;
    if (lazy->count && (lazy->full || !takes(lazy, out, bytes))) {
        const int rc = dw_ud_lazy_flush(port);
        if (rc)
            return rc;
    }
    if (!lazy->count)
        begin(lazy, out, bytes, now_ns);
    lazy->bytes += dw_ud_build(out, lazy->buf + lazy->bytes, out->record.total);
    lazy->count++;
    lazy->full =
        bytes < lazy->segment_bytes || lazy->count == dw_train_datagrams(lazy->segment_bytes);
    if (lazy->full)
        (void)dw_ud_lazy_flush(port);
    return 0;
}
