/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the segments of segment.h. Pure, any thread. */
#include "client/assemble/segment.h"

#include "lib/base/json.h"
#include "lib/base/rfc3339.h"
#include "lib/base/utf8.h"
#include "lib/tokens/unicode.h"

static inline void write_member(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_name(out, key);
    base_json_write_string(out, text);
}

void handoff_segment_memory_end_write(struct base_buffer *out,
                                      const struct handoff_segment_memory *memory)
{
    base_buffer_text(out, "\":");
    base_buffer_append(out, memory->tags.data, memory->tags.size);
    base_buffer_byte(out, '}');
}

void handoff_segment_memory_write(struct base_buffer *out,
                                  const struct handoff_segment_memory *memory,
                                  enum handoff_form form)
{
    char created[BASE_RFC3339_SIZE];
    base_rfc3339_format(memory->created_ms, created);
    base_buffer_text(out, "\":");
    base_json_write_string(out, memory->id);
    if (form == HANDOFF_FORM_FULL)
        write_member(out, "content", memory->content);
    if (form == HANDOFF_FORM_SUMMARY)
        write_member(out, "summary", memory->summary);
    write_member(out, "priority", base_span_text(memory->priority));
    base_buffer_text(out, memory->pinned ? ",\"pinned\":true" : ",\"pinned\":false");
    write_member(out, "created_at", base_span_text(created));
    if (memory->stale)
        base_buffer_printf(out, ",\"stale\":true,\"age_seconds\":%lld", (long long)memory->age_s);
    base_buffer_text(out, ",\"tags");
    handoff_segment_memory_end_write(out, memory);
}

bool handoff_segment_tags(struct base_arena *arena, const struct handoff_memory *memory,
                          struct base_span *tags)
{
    struct base_buffer out = {0};
    *tags = base_span_text("[]");
    if (memory->tag_count == 0)
        return true;
    for (size_t i = 0; i < memory->tag_count; i++) {
        base_buffer_byte(&out, i ? ',' : '[');
        base_json_write_string(&out, memory->tags[i]);
    }
    base_buffer_byte(&out, ']');
    tags->data = out.failed ? NULL : base_arena_copy(arena, out.data, out.size);
    tags->size = out.size;
    base_buffer_free(&out);
    return tags->data != NULL;
}

const struct base_span handoff_segment_step_names[HANDOFF_STEP_MEMBERS] = {
#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
    [HANDOFF_STEP_AGENT] = NAME("agent"),         [HANDOFF_STEP_ACTION] = NAME("action"),
    [HANDOFF_STEP_DECISION] = NAME("decision"),   [HANDOFF_STEP_REASON] = NAME("reason"),
    [HANDOFF_STEP_MEMORY_ID] = NAME("memory_id"), [HANDOFF_STEP_AT] = NAME("at"),
#undef NAME
};

/* Its index, or HANDOFF_STEP_MEMBERS. */
static size_t place_of(yyjson_val *key)
{
    const struct base_span name = base_json_span(key);
    size_t i = 0;
    while (i < HANDOFF_STEP_MEMBERS && !base_span_equal(name, handoff_segment_step_names[i]))
        i++;
    return i;
}

size_t handoff_segment_step_sort(yyjson_val *step, yyjson_val *members[HANDOFF_STEP_MEMBERS])
{
    size_t i, n, others = 0;
    yyjson_val *key, *value;
    for (i = 0; i < HANDOFF_STEP_MEMBERS; i++)
        members[i] = NULL;
    yyjson_obj_foreach(step, i, n, key, value)
    {
        const size_t place = place_of(key);
        if (place == HANDOFF_STEP_MEMBERS)
            others++;
        else
            members[place] = yyjson_is_null(value) ? NULL : value;
    }
    return others;
}

static void write_others(struct base_buffer *out, yyjson_val *step)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(step, i, n, key, value)
    {
        if (place_of(key) < HANDOFF_STEP_MEMBERS)
            continue;
        base_json_write_key(out, base_json_span(key));
        base_json_write(out, value);
    }
}

static void write_known_members(struct base_buffer *out, yyjson_val *step, unsigned left_out)
{
    yyjson_val *members[HANDOFF_STEP_MEMBERS];
    const size_t others = handoff_segment_step_sort(step, members);
    base_buffer_text(out, "{\"agent\":");
    base_json_write(out, members[HANDOFF_STEP_AGENT]);
    for (unsigned i = HANDOFF_STEP_ACTION; i < HANDOFF_STEP_MEMBERS; i++) {
        if (!members[i] || i == left_out)
            continue;
        base_json_write_key(out, handoff_segment_step_names[i]);
        base_json_write(out, members[i]);
    }
    if (others)
        write_others(out, step);
    base_buffer_byte(out, '}');
}

void handoff_segment_step_write(struct base_buffer *out, yyjson_val *step)
{
    write_known_members(out, step, HANDOFF_STEP_MEMBERS);
}

void handoff_segment_step_write_short(struct base_buffer *out, yyjson_val *step)
{
    write_known_members(out, step, HANDOFF_STEP_REASON);
}

bool handoff_segment_step_has_reason(yyjson_val *step)
{
    return yyjson_is_str(yyjson_obj_get(step, "reason")) &&
           yyjson_is_str(yyjson_obj_get(step, "decision"));
}

/* ---- where entries may be cut ---------------------------------------------------------------- */

static bool is_ascii_letter(unsigned char byte)
{
    return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

static bool is_ascii_digit(unsigned char byte)
{
    return byte >= '0' && byte <= '9';
}

/* ASCII, and neither letter, digit nor space; compact JSON has no other ASCII white space. */
static bool is_ascii_symbol(unsigned char byte)
{
    return byte > ' ' && byte < 0x7f && !is_ascii_letter(byte) && !is_ascii_digit(byte);
}

static bool is_letter_of_any_script(const char *at)
{
    unsigned width;
    if ((unsigned char)*at < 0x80)
        return is_ascii_letter((unsigned char)*at);
    const enum handoff_unicode_class class =
        handoff_unicode_class(base_utf8_read((const uint8_t *)at, &width));
    return class == HANDOFF_UNICODE_UPPER || class == HANDOFF_UNICODE_LOWER ||
           class == HANDOFF_UNICODE_LETTER;
}

/* The character that ends before a place. */
static const char *character_before(const char *text, const char *place)
{
    const char *at = place - 1;
    while (at > text && ((unsigned char)*at & 0xc0) == 0x80)
        at--;
    return at;
}

/* Whether there is always a split between two neighbours, and what is before it is split the same
 * without what follows: the last of several spaces depends on that. What follows the text is a
 * symbol. */
static bool always_splits(const char *text, const char *place, const char *end)
{
    const unsigned char after = place < end ? (unsigned char)*place : ',';
    const unsigned char before = (unsigned char)place[-1];
    if (after >= 0x80)
        return false;
    if (before < 0x80 && before != ' ' && is_ascii_digit(before) != is_ascii_digit(after))
        return true;
    return !is_ascii_letter(after) && after != '\'' &&
           is_letter_of_any_script(character_before(text, place));
}

/* The end of the lead, or NULL. */
static const char *first_split(const char *text, const char *end)
{
    const char *at = text;
    if (is_ascii_digit((unsigned char)*at))
        return at;
    while (at < end && is_ascii_symbol((unsigned char)*at))
        at++;
    if (at > text && at < end && at[-1] != '\'' && is_letter_of_any_script(at))
        return at;
    for (at += at == text; at <= end; at++) {
        if (always_splits(text, at, end))
            return at;
    }
    return NULL;
}

bool handoff_segment_cut(struct base_span entry, size_t *lead, size_t *trail)
{
    const char *text = entry.data, *end = text + entry.size;
    const char *first = first_split(text, end), *last = end;
    *lead = first ? (size_t)(first - text) : entry.size;
    *trail = 0;
    if (!first)
        return false;
    while (last > first && !always_splits(text, last, end))
        last--;
    *trail = (size_t)(end - last);
    return true;
}
