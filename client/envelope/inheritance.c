/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives an envelope's body: copied from its bytes, and read again. Pure, any thread. */
#include "client/envelope/inheritance.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/decimal.h"
#include "lib/base/json.h"

/* ---- copying ----------------------------------------------------------------------------------
 */

#define BEFORE_INTENT      ",\"intent\":"
#define BEFORE_CONSTRAINTS ",\"constraints\":"
#define BEFORE_STEPS       ",\"steps\":"

size_t handoff_inheritance_size(const struct handoff_inheritance *inheritance)
{
    const size_t size = sizeof("{" BEFORE_INTENT BEFORE_CONSTRAINTS BEFORE_STEPS "}") +
                        BASE_DECIMAL_SIZE + inheritance->origin_size + inheritance->intent_size +
                        inheritance->constraints_size;
    return inheritance->origin_size == 0 || size > HANDOFF_INHERITANCE_MAX ? 0 : size;
}

static char *append_part(char *to, const char *name, size_t name_size, const char *value,
                         size_t size)
{
    memcpy(to, name, name_size);
    memcpy(to + name_size, value, size);
    return to + name_size + size;
}

struct base_span handoff_inheritance_copy(const struct handoff_inheritance *inheritance,
                                          struct base_span envelope, struct base_arena *arena)
{
    const size_t room = handoff_inheritance_size(inheritance);
    char *text = room ? base_arena_alloc(arena, room) : NULL, *to = text;
    const char *from = envelope.data;
    if (!text)
        return base_span(NULL, 0);
    to = append_part(to, "{", 1, from + inheritance->origin_at, inheritance->origin_size);
    to = append_part(to, BEFORE_INTENT, sizeof BEFORE_INTENT - 1, from + inheritance->intent_at,
                     inheritance->intent_size);
    to = append_part(to, BEFORE_CONSTRAINTS, sizeof BEFORE_CONSTRAINTS - 1,
                     from + inheritance->constraints_at, inheritance->constraints_size);
    to = append_part(to, BEFORE_STEPS, sizeof BEFORE_STEPS - 1, "", 0);
    to += base_decimal(inheritance->steps, to);
    *to++ = '}';
    BASE_CHECK((size_t)(to - text) <= room);
    return base_span(text, (size_t)(to - text));
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool name_parent(const struct base_uuid *id, const uint8_t digest[BASE_SHA256_BYTES],
                        struct base_arena *arena, struct handoff_envelope *envelope)
{
    char text[BASE_UUID_TEXT], hex[BASE_SHA256_HEX_SIZE];
    base_uuid_format(id, text);
    base_sha256_hex(digest, hex);
    const char *id_text = base_arena_strdup(arena, text);
    const char *digest_text = base_arena_printf(arena, "sha256:%s", hex);
    envelope->id = base_span_text(id_text);
    envelope->digest = base_span_text(digest_text);
    return id_text && digest_text;
}

enum handoff_code handoff_inheritance_read(struct base_span text, const struct base_uuid *id,
                                           const uint8_t digest[BASE_SHA256_BYTES],
                                           struct base_arena *arena,
                                           struct handoff_envelope *envelope, size_t *steps,
                                           struct handoff_error *error)
{
    int64_t count = 0;
    enum handoff_code code = handoff_envelope_read_inheritance(arena, text, envelope, error);
    if (code != HANDOFF_OK)
        return code;
    base_json_whole(yyjson_obj_get(yyjson_doc_get_root(envelope->doc), "steps"), &count);
    *steps = count > 0 ? (size_t)count : 0;
    if (name_parent(id, digest, arena, envelope))
        return HANDOFF_OK;
    handoff_envelope_free(envelope);
    return handoff_error_no_memory(error);
}
