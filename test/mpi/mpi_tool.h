/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_T in a few lines: reading control variables, and sets of performance variables by prefix.
 */
#ifndef DIWARP_TEST_MPI_TOOL_H
#define DIWARP_TEST_MPI_TOOL_H

#include "test/mpi/mpi_test.h"

#define MT_MAX_PVARS 128

static inline void mt_tool_init(void)
{
    int level;

    MT_CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level) == MPI_SUCCESS, "MPI_T_init_thread");
}

/* ---- control variables -------------------------------------------------------------------- */

/* -1 when there is none of this name; *type is its MPI type. */
static inline int mt_cvar_find(const char *wanted, MPI_Datatype *type)
{
    int count = 0;

    MPI_T_cvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char name[256];
        int name_len = sizeof(name), desc_len = 0, verbosity, bind, scope;
        MPI_T_enum values;

        if (MPI_T_cvar_get_info(i, name, &name_len, &verbosity, type, &values, NULL, &desc_len,
                                &bind, &scope) == MPI_SUCCESS &&
            !strcmp(name, wanted))
            return i;
    }
    return -1;
}

/* The bytes of the variable, at most len; false when there is none. */
static inline bool mt_cvar_read(int index, void *value, size_t len)
{
    char raw[32768] = {0}; /* strings report room for 2048 or more */
    MPI_T_cvar_handle handle;
    int count = 0;
    bool ok;

    if (index < 0 || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return false;
    ok = (size_t)count <= sizeof(raw) / 8 && MPI_T_cvar_read(handle, raw) == MPI_SUCCESS;
    MPI_T_cvar_handle_free(&handle);
    memcpy(value, raw, len < sizeof(raw) ? len : sizeof(raw));
    return ok;
}

static inline bool mt_cvar_string(const char *name, char *value, size_t len)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int index = mt_cvar_find(name, &type);

    memset(value, 0, len);
    if (type != MPI_CHAR || !mt_cvar_read(index, value, len - 1))
        return false;
    return true;
}

/* 0 when there is no such number. */
static inline size_t mt_cvar_number(const char *name)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int index = mt_cvar_find(name, &type);
    uint64_t wide = 0;
    unsigned narrow = 0;

    if (type == MPI_UNSIGNED_LONG || type == MPI_UNSIGNED_LONG_LONG)
        return mt_cvar_read(index, &wide, sizeof(wide)) ? (size_t)wide : 0;
    if (type == MPI_UNSIGNED || type == MPI_INT)
        return mt_cvar_read(index, &narrow, sizeof(narrow)) ? narrow : 0;
    return 0;
}

/* ---- performance variables ---------------------------------------------------------------- */

struct mt_pvar {
    char name[128];
    MPI_T_pvar_handle handle;
    MPI_Datatype type;
};

struct mt_pvar_set {
    MPI_T_pvar_session session;
    struct mt_pvar vars[MT_MAX_PVARS];
    int count;
};

static inline void mt_pvar_set_add(struct mt_pvar_set *set, int index, const char *prefix)
{
    struct mt_pvar *var = &set->vars[set->count];
    int name_len = sizeof(var->name), desc_len = 0;
    int verbosity, class, bind, readonly, continuous, atomic, count = 0;
    MPI_T_enum values;

    if (MPI_T_pvar_get_info(index, var->name, &name_len, &verbosity, &class, &var->type, &values,
                            NULL, &desc_len, &bind, &readonly, &continuous,
                            &atomic) != MPI_SUCCESS ||
        strncmp(var->name, prefix, strlen(prefix)) != 0)
        return;
    MT_CHECK(bind == MPI_T_BIND_NO_OBJECT, "pvar %s is bound to an object", var->name);
    MT_CHECK(set->count + 1 < MT_MAX_PVARS, "more than %d pvars", MT_MAX_PVARS);
    MT_CHECK(MPI_T_pvar_handle_alloc(set->session, index, NULL, &var->handle, &count) ==
                 MPI_SUCCESS,
             "no handle for pvar %s", var->name);
    MT_CHECK(count == 1, "pvar %s has %d elements", var->name, count);
    if (!continuous)
        MT_CHECK(MPI_T_pvar_start(set->session, var->handle) == MPI_SUCCESS,
                 "pvar %s does not start", var->name);
    set->count++;
}

/* Opens every pvar whose name begins with prefix. Open MPI counts from here on. */
static inline void mt_pvar_set_init(struct mt_pvar_set *set, const char *prefix)
{
    int total = 0;

    set->count = 0;
    MT_CHECK(MPI_T_pvar_session_create(&set->session) == MPI_SUCCESS, "no pvar session");
    MPI_T_pvar_get_num(&total);
    for (int i = 0; i < total; i++)
        mt_pvar_set_add(set, i, prefix);
}

static inline void mt_pvar_set_fini(struct mt_pvar_set *set)
{
    for (int i = 0; i < set->count; i++)
        MPI_T_pvar_handle_free(set->session, &set->vars[i].handle);
    MPI_T_pvar_session_free(&set->session);
}

static inline uint64_t mt_pvar_read(struct mt_pvar_set *set, const struct mt_pvar *var)
{
    union {
        unsigned narrow;
        uint64_t wide;
        unsigned char room[64];
    } value = {.wide = 0};

    MT_CHECK(MPI_T_pvar_read(set->session, var->handle, &value) == MPI_SUCCESS,
             "pvar %s cannot be read", var->name);
    if (var->type == MPI_UNSIGNED)
        return value.narrow;
    MT_CHECK(var->type == MPI_UNSIGNED_LONG || var->type == MPI_UNSIGNED_LONG_LONG,
             "pvar %s has an unexpected type", var->name);
    return value.wide;
}

/* NULL: no such variable in the set. */
static inline const struct mt_pvar *mt_pvar_find(const struct mt_pvar_set *set, const char *name)
{
    for (int i = 0; i < set->count; i++) {
        if (!strcmp(set->vars[i].name, name))
            return &set->vars[i];
    }
    return NULL;
}

static inline uint64_t mt_pvar_value(struct mt_pvar_set *set, const char *name)
{
    const struct mt_pvar *var = mt_pvar_find(set, name);

    MT_CHECK(var, "no such pvar: %s", name);
    return mt_pvar_read(set, var);
}

#endif
