/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests of the adapter: each endpoint's wait by themselves, and outlive its deletion. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "btl_diwarp/btl_diwarp_work.h"

#define WORKS 8

/* A request, and what became of it. */
struct request {
    struct mca_btl_diwarp_work work;
    unsigned posts; /* that were taken */
    unsigned ends;
    enum ibv_wc_status status;
    bool told;               /* whose it was */
    struct request *follows; /* posted by its callback */
};

static struct mca_btl_diwarp_module module;
static mca_btl_base_endpoint_t *endpoints[2];
static unsigned room[2]; /* of the send queue to each */
static int refusal = -ENOMEM;
static struct request requests[2][WORKS];

static unsigned index_of(const mca_btl_base_endpoint_t *endpoint)
{
    return endpoint == endpoints[1];
}

static int post(struct mca_btl_diwarp_module *to, struct mca_btl_diwarp_work *work)
{
    struct request *request = MCA_BTL_DIWARP_OWNER(work, struct request, work);

    assert_ptr_equal(to, &module);
    if (0 == room[index_of(work->endpoint)]) {
        return refusal;
    }
    room[index_of(work->endpoint)]--;
    request->posts++;
    return 0;
}

static void on_complete(struct mca_btl_diwarp_module *of, struct mca_btl_diwarp_work *work,
                        enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    struct request *request = MCA_BTL_DIWARP_OWNER(work, struct request, work);

    (void)wc;
    request->ends++;
    request->status = status;
    request->told = NULL != work->endpoint;
    if (NULL != request->follows) {
        assert_int_equal(mca_btl_diwarp_work_post(of, &request->follows->work), 0);
    }
}

static opal_proc_t proc;

static int set_up(void **state)
{
    (void)state;
    memset(&module, 0, sizeof(module));
    OBJ_CONSTRUCT(&module.lock, opal_mutex_t);
    TAILQ_INIT(&module.waiting);
    memset(requests, 0, sizeof(requests));
    refusal = -ENOMEM;
    for (unsigned e = 0; e < 2; e++) {
        endpoints[e] = calloc(1, sizeof(*endpoints[e]));
        endpoints[e]->proc = &proc;
        endpoints[e]->waiting = NULL;
        room[e] = 2;
        for (unsigned i = 0; i < WORKS; i++) {
            requests[e][i].work = (struct mca_btl_diwarp_work){
                .post = post, .on_complete = on_complete, .endpoint = endpoints[e]};
        }
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_false(mca_btl_diwarp_work_waits(&module));
    OBJ_DESTRUCT(&module.lock);
    free(endpoints[0]);
    free(endpoints[1]);
    return 0;
}

static void post_all(unsigned e, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(mca_btl_diwarp_work_post(&module, &requests[e][i].work), 0);
    }
}

static unsigned posted(unsigned e)
{
    unsigned n = 0;

    for (unsigned i = 0; i < WORKS; i++) {
        n += requests[e][i].posts;
    }
    return n;
}

/* Its end makes room, for what is tried again after each poll. */
static void end(unsigned e, unsigned i)
{
    assert_int_equal(requests[e][i].posts, 1);
    room[e]++;
    mca_btl_diwarp_work_end(&module, &requests[e][i].work, IBV_WC_SUCCESS, NULL);
    mca_btl_diwarp_work_post_next_waiting(&module);
    assert_int_equal(requests[e][i].ends, 1);
}

static void end_all(unsigned e, unsigned from)
{
    for (unsigned i = from; i < WORKS && requests[e][i].posts > 0; i++) {
        end(e, i);
    }
}

static void post__queue_full__waits_and_holds_up_no_other(void **state)
{
    (void)state;
    post_all(0, WORKS);
    assert_int_equal(posted(0), 2);
    assert_int_equal(module.counters.waiting_for_room, WORKS - 2);
    post_all(1, 2);
    assert_int_equal(posted(1), 2);
    end(1, 0); /* of another: makes no room */
    assert_int_equal(posted(0), 2);
    end(0, 0);
    assert_int_equal(requests[0][2].posts, 1); /* in order */
    assert_int_equal(posted(0), 3);
    end_all(0, 1);
    end(1, 1);
    assert_int_equal(posted(0), WORKS);
}

static void post__others_wait__goes_behind_them(void **state)
{
    (void)state;
    post_all(0, 3);
    room[0] = 1; /* somebody else's end was not told yet */
    assert_int_equal(mca_btl_diwarp_work_post(&module, &requests[0][3].work), 0);
    assert_int_equal(requests[0][3].posts, 0);
    end_all(0, 0);
    assert_int_equal(posted(0), 4);
}

static void end__its_callback_posts(void **state)
{
    (void)state;
    requests[0][0].follows = &requests[0][1];
    post_all(0, 1);
    end(0, 0);
    assert_int_equal(requests[0][1].posts, 1);
    end(0, 1);
}

/* For want of memory. */
static void post__refused_with_nothing_under_way__tried_again(void **state)
{
    (void)state;
    room[0] = 0;
    post_all(0, 2);
    assert_true(mca_btl_diwarp_work_waits(&module));
    mca_btl_diwarp_work_post_next_waiting(&module);
    assert_int_equal(posted(0), 0);
    room[0] = 1;
    mca_btl_diwarp_work_post_next_waiting(&module);
    assert_int_equal(posted(0), 1);
    end_all(0, 0);
}

static void post__what_waited_cannot_be_sent__ends_in_error(void **state)
{
    (void)state;
    post_all(0, 4);
    refusal = -EHOSTUNREACH;
    room[0] = 0;
    mca_btl_diwarp_work_end(&module, &requests[0][0].work, IBV_WC_RETRY_EXC_ERR, NULL);
    mca_btl_diwarp_work_post_next_waiting(&module);
    for (unsigned i = 2; i < 4; i++) {
        assert_int_equal(requests[0][i].ends, 1);
        assert_int_equal(requests[0][i].status, IBV_WC_RETRY_EXC_ERR);
        assert_true(requests[0][i].told);
    }
    end(0, 1);
}

/* What is under way still names the endpoint when that is gone. */
static void endpoint__deleted__nobody_is_told_of_what_is_under_way(void **state)
{
    (void)state;
    post_all(0, 4);
    mca_btl_diwarp_work_forget(&module, endpoints[0]);
    free(endpoints[0]);
    endpoints[0] = NULL;
    for (unsigned i = 2; i < 4; i++) {
        assert_int_equal(requests[0][i].ends, 1);
        assert_false(requests[0][i].told);
    }
    assert_int_equal(requests[0][0].ends, 0);
    for (unsigned i = 0; i < 2; i++) {
        mca_btl_diwarp_work_end(&module, &requests[0][i].work, IBV_WC_SUCCESS, NULL);
        assert_int_equal(requests[0][i].ends, 1);
        assert_false(requests[0][i].told);
    }
}

static void delete_first(struct mca_btl_diwarp_module *of, struct mca_btl_diwarp_work *work,
                         enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    on_complete(of, work, status, wc);
    mca_btl_diwarp_work_forget(of, endpoints[0]);
    free(endpoints[0]);
    endpoints[0] = NULL;
}

/* Of several that end together, the first one's callback deletes the endpoint. */
static void end__its_callback_deletes_the_endpoint__others_untold(void **state)
{
    (void)state;
    room[0] = 0;
    requests[0][0].work.on_complete = delete_first;
    post_all(0, 3);
    refusal = -EHOSTUNREACH;
    mca_btl_diwarp_work_post_next_waiting(&module);
    assert_true(requests[0][0].told);
    assert_int_equal(requests[0][0].status, IBV_WC_RETRY_EXC_ERR);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(requests[0][i].ends, 1);
        assert_false(requests[0][i].told);
    }
}

static void part(struct mca_btl_diwarp_module *of, struct mca_btl_diwarp_work *work,
                 enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    on_complete(of, work, status, wc);
    endpoints[0]->proc = NULL;
}

/* The same over RC, where a deleted endpoint stays. */
static void end_waiting__its_callback_deletes_the_endpoint__others_untold(void **state)
{
    (void)state;
    room[0] = 0;
    requests[0][0].work.on_complete = part;
    post_all(0, 3);
    mca_btl_diwarp_work_end_waiting(&module, endpoints[0], IBV_WC_RETRY_EXC_ERR);
    assert_true(requests[0][0].told);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(requests[0][i].ends, 1);
        assert_false(requests[0][i].told);
    }
}

/* A caller that is told "done" does not poll: who sends on has to wait after so many. */
static void buffered__more_than_may_be__not_done_for_its_caller(void **state)
{
    enum { MANY = 600 };
    static struct request many[MANY];
    unsigned done = 0;

    (void)state;
    memset(many, 0, sizeof(many));
    room[0] = MANY;
    for (unsigned i = 0; i < MANY; i++) {
        many[i].work = (struct mca_btl_diwarp_work){
            .post = post, .on_complete = on_complete, .endpoint = endpoints[0], .buffered = true};
        done += 2 == mca_btl_diwarp_work_post(&module, &many[i].work);
    }
    assert_int_equal(done, 512);
    for (unsigned i = 0; i < MANY; i++) {
        mca_btl_diwarp_work_end(&module, &many[i].work, IBV_WC_SUCCESS, NULL);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(post__queue_full__waits_and_holds_up_no_other),
        TEST(post__others_wait__goes_behind_them),
        TEST(end__its_callback_posts),
        TEST(post__refused_with_nothing_under_way__tried_again),
        TEST(post__what_waited_cannot_be_sent__ends_in_error),
        TEST(endpoint__deleted__nobody_is_told_of_what_is_under_way),
        TEST(end__its_callback_deletes_the_endpoint__others_untold),
        TEST(end_waiting__its_callback_deletes_the_endpoint__others_untold),
        TEST(buffered__more_than_may_be__not_done_for_its_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
