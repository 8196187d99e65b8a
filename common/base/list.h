/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked list; the head is a node of the ring. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dw_list {
    struct dw_list *next, *prev;
};

#define dw_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Safe against removal of `it` itself inside the body. */
#define dw_list_foreach(it, head)                                                \
    for (struct dw_list *it = (head)->next, *it##_next = it->next; it != (head); \
         it = it##_next, it##_next = it->next)

/* Likewise, by the structures that embed the nodes. */
#define dw_foreach(it, type, member, head)                              \
    for (type *it = dw_container((head)->next, type, member),           \
              *it##_next = dw_container(it->member.next, type, member); \
         &it->member != (head);                                         \
         it = it##_next, it##_next = dw_container(it->member.next, type, member))

static inline void dw_list_init(struct dw_list *head)
{
    head->next = head->prev = head;
}

static inline bool dw_list_empty(const struct dw_list *head)
{
    return head->next == head;
}

static inline void dw_list_append(struct dw_list *head, struct dw_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void dw_list_prepend(struct dw_list *head, struct dw_list *node)
{
    dw_list_append(head->next, node);
}

/* Leaves the node alone in its own ring, so that a second remove is harmless. */
static inline void dw_list_remove(struct dw_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    dw_list_init(node);
}

/* What its members hold, of so many bytes each. */
static inline uint64_t dw_list_bytes(const struct dw_list *head, uint64_t member_bytes)
{
    uint64_t bytes = 0;
    dw_list_foreach (it, head)
        bytes += member_bytes;
    return bytes;
}

static inline bool dw_list_linked(const struct dw_list *node)
{
    return node->next != node;
}
