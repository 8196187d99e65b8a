/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front, for a program that is linked with neither library and opens them itself. */
#define _GNU_SOURCE /* dlvsym */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define VERBS "libibverbs.so.1"
#define CM    "librdmacm.so.1"

static void *handle_of(const char *file)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    return handle;
}

/* Of that type. */
#define FIND(function, handle, name)               \
    __typeof__(function) *name##_;                 \
    do {                                           \
        void *const found_ = dlsym(handle, #name); \
        assert_non_null(found_);                   \
        memcpy(&name##_, &found_, sizeof found_);  \
    } while (0)

static void libibverbs__has_the_device(void **state)
{
    (void)state;
    void *handle = handle_of(VERBS);
    FIND(ibv_get_device_list, handle, ibv_get_device_list);
    FIND(ibv_get_device_name, handle, ibv_get_device_name);
    FIND(ibv_free_device_list, handle, ibv_free_device_list);
    FIND(ibv_close_device, handle, ibv_close_device);
    struct ibv_context *(*open_device)(struct ibv_device *);
    void *const found = dlvsym(handle, "ibv_open_device", "IBVERBS_1.1");
    memcpy(&open_device, &found, sizeof found);
    int count = 0;
    struct ibv_device **list = ibv_get_device_list_(&count);
    assert_non_null(list);
    assert_true(count > 0);
    assert_string_equal(ibv_get_device_name_(list[0]), "diwarp0");
    struct ibv_context *context = open_device(list[0]);
    assert_non_null(context);
    assert_int_equal(ibv_close_device_(context), 0);
    ibv_free_device_list_(list);
    assert_int_equal(dlclose(handle), 0);
}

/* What we leave to it is there, too. */
static void libibverbs__has_what_is_its_own(void **state)
{
    (void)state;
    void *handle = handle_of(VERBS);
    FIND(ibv_wc_status_str, handle, ibv_wc_status_str);
    assert_string_equal(ibv_wc_status_str_(IBV_WC_SUCCESS), "success");
    assert_int_equal(dlclose(handle), 0);
}

static void librdmacm__is_ours(void **state)
{
    (void)state;
    void *handle = handle_of(CM);
    FIND(rdma_create_event_channel, handle, rdma_create_event_channel);
    FIND(rdma_destroy_event_channel, handle, rdma_destroy_event_channel);
    struct rdma_event_channel *channel = rdma_create_event_channel_();
    assert_non_null(channel); /* the kernel has none */
    rdma_destroy_event_channel_(channel);
    assert_int_equal(dlclose(handle), 0);
}

static void others__are_themselves(void **state)
{
    (void)state;
    void *handle = handle_of("libm.so.6");
    assert_non_null(dlsym(handle, "cos"));
    assert_null(dlsym(handle, "ibv_get_device_list"));
    assert_int_equal(dlclose(handle), 0);
    assert_null(dlopen("libibverbs.so.99", RTLD_NOW));
    assert_non_null(strstr(dlerror(), "libibverbs.so.99"));
    handle = dlopen(NULL, RTLD_NOW);
    assert_non_null(handle);
    assert_int_equal(dlclose(handle), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libibverbs__has_the_device),
        cmocka_unit_test(libibverbs__has_what_is_its_own),
        cmocka_unit_test(librdmacm__is_ours),
        cmocka_unit_test(others__are_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
