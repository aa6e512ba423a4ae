/* SPDX-License-Identifier: Apache-2.0 */
/* read.h - a handoff as the store and memory know it. Any thread; reads the disk. */
#ifndef HANDOFF_CALLS_READ_H
#define HANDOFF_CALLS_READ_H

#include "client/client.h"

/* not_found where the text is no id. */
enum handoff_code handoff_read_id(const char *text, struct base_uuid *id,
                                  struct handoff_error *error);

/* The news live in the arena. */
enum handoff_code handoff_read_news(struct handoff_client *client, const struct base_uuid *id,
                                    struct base_arena *arena, struct handoff_news *news,
                                    struct handoff_error *error);

/* Puts in what memory knows better than the row. */
void handoff_read_overlay(struct handoff_news *news, const struct handoff_live_view *view);

#endif
