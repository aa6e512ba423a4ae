/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a memory may look like. Every refusal names the field, what was seen and what is allowed.
 * Pure; any thread.
 */
#include <yyjson.h>

#include "client/spine/spine.h"
#include "lib/base/error.h"
#include "lib/base/utf8.h"

const struct handoff_memory_limits handoff_memory_limits_default = {
    .content_bytes = (size_t)256 * 1024,
    .summary_bytes = (size_t)16 * 1024,
    .tags = 32,
    .tag_bytes = 64,
    .metadata_bytes = (size_t)16 * 1024,
    .metadata_depth = 8,
    .pins = 256, /* all of them go into every envelope */
    .ids = 1000,
    .recent = 1000,
    .page = 1000,
};

/* ---- validation ---------------------------------------------------------------------------- */

static bool is_id_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == ':' || byte == '-';
}

enum handoff_code handoff_memory_validate_id(struct base_span id, const char *field,
                                             struct handoff_error *error)
{
    size_t good = 0;
    while (good < id.size && is_id_byte(id.data[good]))
        good++;
    if (id.data && good == id.size && id.size >= 1 && id.size <= HANDOFF_MEMORY_ID_MAX)
        return HANDOFF_OK;
    enum handoff_code code =
        handoff_error_set(error, HANDOFF_ERR_INVALID, "not a valid memory id", field, NULL);
    handoff_error_allow(error, "1 to %d characters of A-Z a-z 0-9 . _ : -", HANDOFF_MEMORY_ID_MAX);
    if (good < id.size && good < HANDOFF_MEMORY_ID_MAX)
        handoff_error_seen(error, "byte 0x%02x at %zu", (unsigned)(unsigned char)id.data[good],
                           good);
    else
        handoff_error_seen(error, "%zu bytes", id.size);
    return code;
}

static enum handoff_code too_large(const char *field, size_t seen, size_t allowed, const char *unit,
                                   struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_TOO_LARGE, "a field of the memory is too large", field,
                      NULL);
    handoff_error_seen(error, "%zu %s", seen, unit);
    handoff_error_allow(error, "up to %zu %s", allowed, unit);
    return HANDOFF_ERR_TOO_LARGE;
}

static enum handoff_code check_text(struct base_span text, const char *field, size_t allowed,
                                    struct handoff_error *error)
{
    if (text.size > allowed)
        return too_large(field, text.size, allowed, "bytes", error);
    size_t bad_at = base_utf8_valid_length(text.data, text.size);
    if (bad_at == text.size)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "the text is not UTF-8", field, NULL);
    handoff_error_seen(error, "byte 0x%02x at %zu", (unsigned)(unsigned char)text.data[bad_at],
                       bad_at);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code check_tag(struct base_span tag, size_t allowed,
                                   struct handoff_error *error)
{
    enum handoff_code code = check_text(tag, "tags", allowed, error);
    if (code != HANDOFF_OK)
        return code;
    if (tag.size == 0)
        return handoff_error_set(error, HANDOFF_ERR_INVALID, "a tag is empty", "tags", "");
    for (size_t i = 0; i < tag.size; i++) {
        unsigned char byte = (unsigned char)tag.data[i];
        if (byte >= 0x20 && byte != 0x7F)
            continue;
        handoff_error_set(error, HANDOFF_ERR_INVALID, "a tag contains a control character", "tags",
                          NULL);
        handoff_error_seen(error, "byte 0x%02x at %zu", byte, i);
        return HANDOFF_ERR_INVALID;
    }
    return HANDOFF_OK;
}

static enum handoff_code check_tags(const struct handoff_memory *memory,
                                    const struct handoff_memory_limits *limits,
                                    struct handoff_error *error)
{
    if (memory->tag_count > limits->tags)
        return too_large("tags", memory->tag_count, limits->tags, "tags", error);
    for (size_t i = 0; i < memory->tag_count; i++) {
        enum handoff_code code = check_tag(memory->tags[i], limits->tag_bytes, error);
        if (code == HANDOFF_OK)
            continue;
        handoff_error_field(error, "tags[%zu]", i);
        return code;
    }
    return HANDOFF_OK;
}

/* Recursion ends at the limit, whatever the document does. */
static bool deeper_than(yyjson_val *value, size_t allowed)
{
    size_t index, count;
    yyjson_val *key, *child;
    if (!yyjson_is_ctn(value))
        return false;
    if (allowed == 0)
        return true;
    if (yyjson_is_arr(value)) {
        yyjson_arr_foreach(value, index, count, child)
        {
            if (deeper_than(child, allowed - 1))
                return true;
        }
        return false;
    }
    yyjson_obj_foreach(value, index, count, key, child)
    {
        if (deeper_than(child, allowed - 1))
            return true;
    }
    return false;
}

static enum handoff_code check_object(yyjson_val *root, const struct handoff_memory_limits *limits,
                                      struct handoff_error *error)
{
    if (!yyjson_is_obj(root)) {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "the metadata is not a JSON object",
                          "metadata", yyjson_get_type_desc(root));
        handoff_error_allow(error, "an object");
        return HANDOFF_ERR_INVALID;
    }
    if (!deeper_than(root, limits->metadata_depth))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_TOO_LARGE, "the metadata is nested too deeply", "metadata",
                      NULL);
    handoff_error_allow(error, "%zu levels", limits->metadata_depth);
    return HANDOFF_ERR_TOO_LARGE;
}

static enum handoff_code check_metadata(struct base_span metadata,
                                        const struct handoff_memory_limits *limits,
                                        struct handoff_error *error)
{
    yyjson_read_err failure;
    if (!metadata.data)
        return HANDOFF_OK;
    if (metadata.size > limits->metadata_bytes)
        return too_large("metadata", metadata.size, limits->metadata_bytes, "bytes", error);
    yyjson_doc *document = yyjson_read_opts((char *)(uintptr_t)metadata.data, metadata.size,
                                            YYJSON_READ_NOFLAG, NULL, &failure);
    if (!document && failure.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return handoff_error_no_memory(error);
    if (!document) {
        handoff_error_set(error, HANDOFF_ERR_INVALID_JSON, "the metadata is not JSON", "metadata",
                          NULL);
        handoff_error_seen(error, "%s at byte %zu", failure.msg, failure.pos);
        return HANDOFF_ERR_INVALID_JSON;
    }
    enum handoff_code code = check_object(yyjson_doc_get_root(document), limits, error);
    yyjson_doc_free(document);
    return code;
}

size_t handoff_memory_bytes(const struct handoff_memory *memory)
{
    size_t size = memory->content.size + memory->summary.size + memory->metadata.size;
    for (size_t i = 0; i < memory->tag_count; i++)
        size += memory->tags[i].size;
    return size;
}

enum handoff_code handoff_memory_validate(const struct handoff_memory *memory,
                                          const struct handoff_memory_limits *limits,
                                          struct handoff_error *error)
{
    enum handoff_code code = handoff_memory_validate_id(memory->id, "id", error);
    if (code == HANDOFF_OK && memory->content.size == 0)
        code =
            handoff_error_set(error, HANDOFF_ERR_INVALID, "a memory needs content", "content", "");
    if (code == HANDOFF_OK)
        code = check_text(memory->content, "content", limits->content_bytes, error);
    if (code == HANDOFF_OK && memory->summary.data)
        code = check_text(memory->summary, "summary", limits->summary_bytes, error);
    if (code == HANDOFF_OK)
        code = check_tags(memory, limits, error);
    if (code == HANDOFF_OK)
        code = check_metadata(memory->metadata, limits, error);
    return code;
}
