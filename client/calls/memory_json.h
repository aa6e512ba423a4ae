/* SPDX-License-Identifier: Apache-2.0 */
/* memory_json.h - memories as the API shows and takes them. */
#ifndef HANDOFF_CALLS_MEMORY_JSON_H
#define HANDOFF_CALLS_MEMORY_JSON_H

#include "client/secrets/redact.h"
#include <yyjson.h>

#include "client/model/field.h"
#include "client/spine/spine.h"
#include "lib/base/arena.h"
#include "lib/base/buffer.h"

/* Appends the memory as a compact object. */
void handoff_memory_json_write(struct base_buffer *out, const struct handoff_memory *memory);

/* Likewise; with why it was found, if it was searched for. */
void handoff_memory_json_write_found(struct base_buffer *out,
                                     const struct handoff_found_memory *found, bool with_match);

/* What the body of a memory may have. */
extern const struct handoff_fields handoff_memory_fields;

/* Fills the memory and the pin of a put, whose id is set, from a body. Texts are lent by *doc,
 * which is the caller's to free even on failure, and by the arena. A content of more than
 * `most_bytes` needs a summary. Credentials are replaced or refused, as `secrets` says. */
enum handoff_code handoff_memory_json_read(struct base_span text, size_t most_bytes,
                                           struct base_arena *arena, yyjson_doc **doc,
                                           struct handoff_secrets *secrets,
                                           struct handoff_spine_put *put,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
