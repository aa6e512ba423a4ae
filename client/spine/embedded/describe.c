/* SPDX-License-Identifier: Apache-2.0 */
/* Memories as documents of the index, see describe.h. Pure; any thread. */
#include "client/spine/embedded/describe.h"

bool handoff_memory_describe(const struct handoff_memory *memory, unsigned flags,
                             struct words_document *document)
{
    words_document_begin(document);
    bool added = words_document_add(document, memory->content, HANDOFF_CONTENT_WEIGHT, flags);
    if (added && memory->summary.data)
        added = words_document_add(document, memory->summary, HANDOFF_SUMMARY_WEIGHT, flags);
    for (size_t i = 0; added && i < memory->tag_count; i++)
        added = words_document_add(document, memory->tags[i], HANDOFF_TAG_WEIGHT, flags);
    words_document_end(document);
    return added;
}

/* FNV-1a. Two names of one hash cost a boost that is not deserved, no more. */
uint32_t handoff_name_hash(struct base_span name)
{
    uint32_t hash = 0x811c9dc5;
    if (!name.data)
        return 0;
    for (size_t i = 0; i < name.size; i++)
        hash = (hash ^ (uint8_t)name.data[i]) * 0x01000193;
    return hash ? hash : 1;
}
