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
 * If texts are cut at such places, tokens(whole) = the sum of tokens(parts), whatever they contain.
 * Tests compare the sum with a count of the whole for thousands of contexts.
 *
 * A context is
 *
 *     head  {"task":{...,"state
 *     list  ":{"progress":"half","decisions     the other members, up to the first list or the end
 *     list  ":["an entry","another"],"unresolved
 *     list  ":[...],"remaining
 *     list  ":[...]}},"memories
 *     list  ":[{"id   segment ... segment, or   ":[],"history   where it is empty
 *     ids   references":["ms-1","ms-2"],"   before history
 *     list  ":[{"agent":...},{"agent":...}],"constraints
 *     tail  ":{...},"expected_output":{...}}
 *
 * Lists of the state and ids that are empty are left out with their keys.
 *
 * The entries of the other lists are any JSON, and no key leads to the next one. But nearly every
 * entry has a place near its beginning and another near its end where there is always a split,
 * whatever its neighbours are:
 *
 *     - between a letter of any script and an ASCII character, but for a letter or apostrophe
 *     - before a run of ASCII digits, behind an ASCII symbol or letter
 *     - behind such a run, before any other ASCII character
 *     - before a letter, where all between it and the beginning of the entry are ASCII symbols: the
 *       comma or bracket in front of the entry belongs to the same run, so the run has more than
 *       one character, and a letter takes at most one symbol, from the beginning of a piece
 *
 * What lies before the first such place is its lead, what lies after the last its trail: of
 * "retry", the quotes. Both are short. So a list is the sum of its entries between lead and trail,
 * which are counted once and stored, and of the runs where a trail, a comma and a lead meet
 * (list.h). An entry without such a place, such as "!!" or "🙂", has only a lead, and extends the
 * run.
 *
 * A memory's segment is its object after the first key, with the text that leads to the next
 * object or ends the list. It is counted once per form and the count stored with the memory, so
 * assembling does not count the same text again. The part that depends on what follows (the next
 * memory or the end of the list) is a few bytes after its last key and is counted separately.
 */
#ifndef HANDOFF_ASSEMBLE_SEGMENT_H
#define HANDOFF_ASSEMBLE_SEGMENT_H

#include <stdbool.h>
#include <yyjson.h>

#include "client/assemble/plan.h"
#include "client/spine/spine.h"
#include "lib/base/arena.h"
#include "lib/base/buffer.h"

/* The text between the segments of a list. */
#define HANDOFF_SEGMENT_HEAD_OPEN     "{\"task\":{\"intent\":"
#define HANDOFF_SEGMENT_STATE_END     "}},\"memories"
#define HANDOFF_SEGMENT_MEMORIES_OPEN "\":[{\"id"
#define HANDOFF_SEGMENT_MEMORIES_NEXT ",{\"id"
#define HANDOFF_SEGMENT_HISTORY_KEY   "history"
#define HANDOFF_SEGMENT_MEMORIES_END  "],\"" HANDOFF_SEGMENT_HISTORY_KEY
#define HANDOFF_SEGMENT_MEMORIES_NONE "\":[],\"" HANDOFF_SEGMENT_HISTORY_KEY
#define HANDOFF_SEGMENT_IDS_KEY       "references"
#define HANDOFF_SEGMENT_IDS_OPEN      "\":[\""
#define HANDOFF_SEGMENT_IDS_NEXT      "\",\""
#define HANDOFF_SEGMENT_IDS_END       "\"],\""
#define HANDOFF_SEGMENT_TAIL_OPEN     "\":"

/* How long the lead and the trail of an entry are. False: it has only a lead. The text is compact
 * JSON of one value. */
bool handoff_segment_cut(struct base_span entry, size_t *lead, size_t *trail);

/* What an envelope shows of a memory. */
struct handoff_segment_memory {
    struct base_span id, content;
    struct base_span summary; /* absent: none */
    const char *priority;
    bool pinned;
    int64_t created_ms;
    bool stale;            /* it is a last known copy, */
    int64_t age_s;         /* ... and so old */
    struct base_span tags; /* a JSON array, compact */
};

/* The tags of a memory as they are shown, in the arena. False: out of memory. */
bool handoff_segment_tags(struct base_arena *arena, const struct handoff_memory *memory,
                          struct base_span *tags);

/* Appends `":"ms-1",...}`: the object after its first key. Not of an id alone. */
void handoff_segment_memory_write(struct base_buffer *out,
                                  const struct handoff_segment_memory *memory,
                                  enum handoff_form form);

/* Only the part after the letters of its last key: `":[...]}`. */
void handoff_segment_memory_end_write(struct base_buffer *out,
                                      const struct handoff_segment_memory *memory);

/* The known members of a step, in their order, and their names. */
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

/* Fills in the known members, NULL for null and for missing ones; returns the number of other
 * members. */
size_t handoff_segment_step_sort(yyjson_val *step, yyjson_val *members[HANDOFF_STEP_MEMBERS]);

/* Appends a step of the history: the known members in their order, then all others. */
void handoff_segment_step_write(struct base_buffer *out, yyjson_val *step);

/* Whether it has a reason for a decision, which is the first to go; and the step without it. */
bool handoff_segment_step_has_reason(yyjson_val *step);
void handoff_segment_step_write_short(struct base_buffer *out, yyjson_val *step);

#endif
