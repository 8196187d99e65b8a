/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/starving_ends.h"

struct end a, b;
uint8_t remote[RECORD_BYTES];
unsigned posted;

/* ---- opening and closing: each step may fail ---- */

static int run_nothing(void *arg)
{
    (void)arg;
    return -EBUSY;
}

int open_end(struct end *end, uint32_t rank)
{
    struct diwarp_device_attr attr = loopback_attr(rank);
    struct diwarp_diagnosis why = {.text = ""};

    attr.threaded = true;
    attr.datagram_max_bytes = 1472;
    attr.peer_timeout_ns = TIMEOUT_NS;
    int rc = diwarp_open_device(&attr, &end->device, &why);
    if (rc) {
        assert_true(why.text[0]);
        return rc;
    }
    end->pd = diwarp_alloc_pd(end->device);
    end->cq = diwarp_create_cq(end->device, 16);
    if (!end->pd || !end->cq)
        return -ENOMEM;
    end->mr = diwarp_reg_mr(end->pd, remote, sizeof remote,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    const struct diwarp_helper_attr helper_attr = {
        .cq = end->cq, .run = run_nothing, .look_ns = 1000 * MS};
    return end->mr ? diwarp_start_helper(&helper_attr, &end->helper) : -ENOMEM;
}

void close_end(struct end *end)
{
    if (end->helper)
        diwarp_stop_helper(end->helper);
    if (end->qp)
        diwarp_destroy_qp(end->qp);
    if (end->rc_qp)
        diwarp_destroy_rc_qp(end->rc_qp);
    if (end->listener)
        diwarp_destroy_listener(end->listener);
    if (end->ah)
        diwarp_destroy_ah(end->ah);
    if (end->mr)
        diwarp_dereg_mr(end->mr);
    if (end->cq)
        diwarp_destroy_cq(end->cq);
    if (end->pd)
        diwarp_dealloc_pd(end->pd);
    if (end->device)
        diwarp_close_device(end->device);
}

/* ---- running ---- */

static void take(struct end *end, const struct diwarp_wc *wc)
{
    const bool ok = wc->wc.status == IBV_WC_SUCCESS;
    switch ((int)wc->wc.opcode) {
    case IBV_WC_RECV:
        end->recvs++;
        break;
    case DIWARP_WC_RECORD:
        end->recvs++;
        diwarp_release_record(wc->record);
        break;
    case DIWARP_WC_RELEASE:
        break;
    case DIWARP_WC_PEER_GONE:
        end->gone++;
        break;
    case DIWARP_WC_CONNECT_REQUEST:
        end->request = wc->request;
        end->requests++;
        break;
    case DIWARP_WC_CONNECTED:
        end->connects++;
        break;
    case DIWARP_WC_DISCONNECTED:
        end->disconnects++;
        break;
    default:
        end->done++;
        end->failed += !ok;
        if (wc->wc.wr_id == DIWARP_SEND_HOLD) {
            const int rc = diwarp_post_release(end->qp, wc->read_id, "bye", 3);
            assert_true(!rc || failing.refused);
            assert_true(!rc || rc == -ENOMEM || (rc == -EINVAL && !ok));
        }
    }
}

void poll_end(struct end *end)
{
    struct diwarp_wc wcs[8];
    const int n = end->cq && !end->lost ? diwarp_poll_cq(end->cq, 8, wcs) : 0;

    assert_true(n >= 0 || (n == -ENOMEM && failing.refused));
    end->lost |= n < 0;
    for (int i = 0; i < n; i++)
        take(end, &wcs[i]);
}

bool is_over(void)
{
    return a.gone || b.gone || a.lost || b.lost || a.disconnects || b.disconnects;
}

bool again(int rc, unsigned *tries)
{
    if (rc != -ENOMEM || is_over() || ++*tries > 3)
        return false;
    assert_non_null(failing.refused);
    poll_end(&a);
    poll_end(&b);
    return true;
}
bool succeeded(int rc, const char *what)
{
    const bool gone = failing.refused && (rc == -EHOSTUNREACH || rc == -ENOTCONN);
    if (rc && !gone && !(failing.forever && failing.refused))
        fail_msg("call %u (%s) refused: %s: %d", failing.at,
                 failing.refused ? failing.refused : "none", what, rc);
    return !rc;
}
