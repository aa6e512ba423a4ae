/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a receiver is told of the chain that a handoff belongs to: its task, the envelope with which
 * the chain began, and the one before it. As whole headers, made once and sent with every attempt.
 * On the lane of the delivery, or on the reader thread that loads it.
 */
#include <string.h>

#include "client/deliver/delivery.h"

#define TASK_HEADER     "Handoff-Task-Id: "
#define ROOT_HEADER     "Handoff-Root-Id: "
#define PREVIOUS_HEADER "Handoff-Previous-Id: "

static bool is_nil_id(const struct base_uuid *id)
{
    static const struct base_uuid nil;
    return memcmp(id, &nil, sizeof nil) == 0;
}

static const char *write_id_header(struct base_arena *arena, const char *name,
                                   const struct base_uuid *id)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return base_arena_printf(arena, "%s%s", name, text);
}

/* A header is ASCII; everything else in a name is percent-encoded, and the percent sign. */
static bool goes_into_header(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '%';
}

static const char *write_task_header(struct base_arena *arena, struct base_span task_id)
{
    static const char digits[] = "0123456789ABCDEF";
    const size_t size = sizeof TASK_HEADER - 1;
    char *text = base_arena_alloc(arena, size + 3 * task_id.size + 1), *to = text;
    if (!text)
        return NULL;
    to = (char *)memcpy(to, TASK_HEADER, size) + size;
    for (size_t i = 0; i < task_id.size; i++) {
        const unsigned char c = (unsigned char)task_id.data[i];
        if (goes_into_header(c)) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    *to = '\0';
    return text;
}

void handoff_delivery_name_chain(struct handoff_delivery *delivery, const struct base_uuid *root,
                                 const struct base_uuid *previous)
{
    struct base_arena *arena = &delivery->arena;
    delivery->chain_headers[HANDOFF_CHAIN_TASK] = write_task_header(arena, delivery->task_id);
    delivery->chain_headers[HANDOFF_CHAIN_ROOT] =
        write_id_header(arena, ROOT_HEADER, is_nil_id(root) ? &delivery->id : root);
    if (!is_nil_id(previous))
        delivery->chain_headers[HANDOFF_CHAIN_PREVIOUS] =
            write_id_header(arena, PREVIOUS_HEADER, previous);
}
