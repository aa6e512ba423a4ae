/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - the context cut into pieces whose token counts simply add up.
 *
 * Both encodings first split text into words, runs of punctuation and so on, from left to right,
 * and then merge bytes inside each of those pieces only. A piece that contains a letter ends where
 * its letters end, unless an apostrophe follows. So there is always a split behind the letters of a
 * key that is all lower-case letters, since a quote follows them:
 *
 *     ..."memories | ":[{"id | ":"ms-1","content":"...","tags | ":["x"]},{"id | ":"ms-2",...
 *
 * Where texts are cut at such places, tokens(whole) = the sum of tokens(parts), whatever stands in
 * them. Tests compare the sum with a count of the whole for thousands of contexts.
 *
 * A context is
 *
 *     head  {"task":{...},"memories
 *     list  ":[{"id   segment segment ... segment, or   ":[],"history   where it is empty
 *     list  ":[{"agent  segment ... segment, or   ":[],"constraints
 *     tail  ":{...},"expected_output":{...}}
 *
 * and a segment of a list is its object behind the first key, with what leads to the next object or
 * out of the list. A memory's segment is counted once per form and kept with the memory, so that
 * assembling does not count the same text again. What only its end decides (the next memory or the
 * end of the list) is a few bytes behind its last key and is counted apart.
 */
#ifndef HANDOFF_ASSEMBLE_SEGMENT_H
#define HANDOFF_ASSEMBLE_SEGMENT_H

#include <yyjson.h>

#include "client/assemble/plan.h"
#include "lib/base/buffer.h"

/* The glue of the lists. */
#define HANDOFF_SEGMENT_HEAD_END      ",\"memories"
#define HANDOFF_SEGMENT_MEMORIES_OPEN "\":[{\"id"
#define HANDOFF_SEGMENT_MEMORIES_NEXT ",{\"id"
#define HANDOFF_SEGMENT_MEMORIES_END  "],\"history"
#define HANDOFF_SEGMENT_MEMORIES_NONE "\":[],\"history"
#define HANDOFF_SEGMENT_HISTORY_OPEN  "\":[{\"agent"
#define HANDOFF_SEGMENT_HISTORY_NEXT  ",{\"agent"
#define HANDOFF_SEGMENT_HISTORY_END   "],\"constraints"
#define HANDOFF_SEGMENT_HISTORY_NONE  "\":[],\"constraints"

/* What an envelope shows of a memory. */
struct handoff_segment_memory {
    struct base_span id, content;
    struct base_span summary; /* absent: it has none */
    const char *priority;
    bool pinned;
    int64_t created_ms;
    struct base_span tags; /* a JSON array, compact */
};

/* Appends `":"ms-1",...}`: the object behind its first key. */
void handoff_segment_memory_write(struct base_buffer *out,
                                  const struct handoff_segment_memory *memory,
                                  enum handoff_form form);

/* Only what stands behind the letters of its last key: `":[...]}`. */
void handoff_segment_memory_end_write(struct base_buffer *out,
                                      const struct handoff_segment_memory *memory);

/* The members of a step that have a place of their own, in their order, and their names. */
enum {
    HANDOFF_STEP_AGENT,
    HANDOFF_STEP_ACTION,
    HANDOFF_STEP_DECISION,
    HANDOFF_STEP_REASON,
    HANDOFF_STEP_MEMORY_ID,
    HANDOFF_STEP_AT,
    HANDOFF_STEP_MEMBERS,
};
extern const struct base_span handoff_segment_step_names[HANDOFF_STEP_MEMBERS];

/* Fills in those that an object has, NULL for null and for those that it has not; answers how many
 * others it has. */
size_t handoff_segment_step_sort(yyjson_val *step, yyjson_val *members[HANDOFF_STEP_MEMBERS]);

/* Appends `":"researcher",...}` of a step of the history: the known members in their order, then
 * what else it has. */
void handoff_segment_step_write(struct base_buffer *out, yyjson_val *step);

#endif
