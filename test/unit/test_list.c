/* SPDX-License-Identifier: BSD-3-Clause */
/* The intrusive list: order, and removal while walking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/list.h"

#define ITEMS 5

struct item {
    int before; /* so that the link is not at offset 0 */
    struct dw_list link;
};

static int number(struct dw_list *node)
{
    return dw_container(node, struct item, link)->before;
}

static void fill(struct dw_list *head, struct item items[ITEMS])
{
    dw_list_init(head);
    for (int i = 0; i < ITEMS; i++) {
        items[i].before = i;
        dw_list_append(head, &items[i].link);
    }
}

/* The numbers on the list as decimal digits, after a leading 1. */
static int digits(struct dw_list *head)
{
    int all = 1;

    assert_ptr_equal(head->next->prev, head);
    dw_list_foreach (it, head) {
        assert_ptr_equal(it->next->prev, it);
        all = all * 10 + number(it);
    }
    return all;
}

static void list_init__empty(void **state)
{
    (void)state;
    struct dw_list head;

    dw_list_init(&head);
    assert_true(dw_list_empty(&head));
    assert_false(dw_list_linked(&head));
    dw_list_foreach (it, &head) {
        fail_msg("%p on an empty list", (void *)it);
    }
}

static void list_append__keeps_order(void **state)
{
    (void)state;
    struct dw_list head;
    struct item items[ITEMS];

    fill(&head, items);
    assert_false(dw_list_empty(&head));
    assert_true(dw_list_linked(&items[0].link));
    assert_int_equal(digits(&head), 101234);
}

static void list_prepend__goes_first(void **state)
{
    (void)state;
    struct dw_list head;
    struct item items[ITEMS], more[2] = {{.before = 8}, {.before = 9}};

    fill(&head, items);
    dw_list_prepend(&head, &more[0].link);
    dw_list_prepend(&head, &more[1].link);
    assert_int_equal(digits(&head), 19801234);
}

static void list_remove__any_place(void **state)
{
    (void)state;
    static const struct {
        int which, left;
    } cases[] = {{0, 11234}, {2, 10134}, {ITEMS - 1, 10123}};
    struct dw_list head;
    struct item items[ITEMS];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fill(&head, items);
        dw_list_remove(&items[cases[i].which].link);
        assert_int_equal(digits(&head), cases[i].left);
        assert_false(dw_list_linked(&items[cases[i].which].link));
    }
}

static void list_remove__twice_is_harmless(void **state)
{
    (void)state;
    struct dw_list head;
    struct item items[ITEMS];

    fill(&head, items);
    dw_list_remove(&items[1].link);
    dw_list_remove(&items[1].link);
    assert_int_equal(digits(&head), 10234);
}

static void list_foreach__body_removes_and_moves(void **state)
{
    (void)state;
    struct dw_list head, odd;
    struct item items[ITEMS];

    fill(&head, items);
    dw_list_init(&odd);
    dw_list_foreach (it, &head) {
        if (number(it) % 2) {
            dw_list_remove(it);
            dw_list_append(&odd, it);
        }
    }
    assert_int_equal(digits(&head), 1024);
    assert_int_equal(digits(&odd), 113);
    dw_list_foreach (it, &head) {
        dw_list_remove(it);
    }
    assert_true(dw_list_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_init__empty),
        cmocka_unit_test(list_append__keeps_order),
        cmocka_unit_test(list_prepend__goes_first),
        cmocka_unit_test(list_remove__any_place),
        cmocka_unit_test(list_remove__twice_is_harmless),
        cmocka_unit_test(list_foreach__body_removes_and_moves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
