/* SPDX-License-Identifier: Apache-2.0 */
/*
 * full_text.h - the words of a scope in the full-text index.
 *
 * FTS5 keeps one list of places for each word and searches it from an end, so a word that a million
 * memories of others have would cost each search in a small scope. So each scope has words of its
 * own: in the index, the words of scope 17 begin with "17z". What is shared has its words as they
 * are.
 *
 * On the thread that uses the connection.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_FULL_TEXT_H
#define HANDOFF_SPINE_EMBEDDED_FULL_TEXT_H

#include "client/store/sqlite/database.h"
#include "lib/base/buffer.h"

/* The index's own interface. NULL, with the error set, without it. */
fts5_api *handoff_full_text_api(struct handoff_db *db, struct handoff_error *error);

/* Makes the SQL function handoff_scope_words(scope, text), which the triggers of memories call
   (step 12 of the schema). */
enum handoff_code handoff_full_text_register(struct handoff_db *db, fts5_api *api,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Appends the words of a text as a scope has them, a blank between. False: out of memory. */
bool handoff_full_text_words(fts5_api *api, int64_t scope, struct base_span text,
                             struct base_buffer *buffer);

#endif
