/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memories as documents of the index, gathered so that one more allocates nothing once the buffers
 * are large enough. The thread: index_internal.h.
 */
#include <string.h>

#include "client/spine/embedded/describe.h"
#include "client/spine/embedded/index_internal.h"
#include "client/spine/embedded/place.h"

_Static_assert((int)HANDOFF_RECENCY_BITS == (int)SEARCH_TIME_BITS, "a key is a seq");
_Static_assert((int)HANDOFF_IMPORTANCE_CRITICAL == SEARCH_LEVELS - 1, "a level is an importance");
_Static_assert((int)WORDS_SKETCH_MAX <= (int)SEARCH_SKETCH_MAX, "a sketch is kept whole");
_Static_assert(sizeof(struct search_term) == sizeof(struct words_count) &&
                   offsetof(struct search_term, count) == offsetof(struct words_count, count),
               "terms are copied as they are");

void handoff_index_batch_begin(struct handoff_index_batch *batch)
{
    base_buffer_clear(&batch->documents);
    base_buffer_clear(&batch->terms);
    base_buffer_clear(&batch->sketches);
}

bool handoff_index_batch_add(struct handoff_index_batch *batch, const struct handoff_memory *memory)
{
    return handoff_memory_describe(memory, batch->flags, &batch->words) &&
           handoff_index_batch_add_described(batch, memory, &batch->words);
}

bool handoff_index_batch_add_described(struct handoff_index_batch *batch,
                                       const struct handoff_memory *memory,
                                       const struct words_document *words)
{
    const struct search_document document = {.key = memory->version,
                                             .changed_ms = memory->updated_ms,
                                             .length = words->length,
                                             .level = (uint8_t)memory->importance,
                                             .task = handoff_name_hash(memory->task_id),
                                             .agent = handoff_name_hash(memory->agent),
                                             .term_count = words->count,
                                             .sketch = {NULL, words->sketch.size}};
    base_buffer_append(&batch->terms, words->terms, words->count * sizeof *words->terms);
    base_buffer_append(&batch->sketches, words->sketch.bytes, words->sketch.size);
    base_buffer_append(&batch->documents, &document, sizeof document);
    return !batch->terms.failed && !batch->sketches.failed && !batch->documents.failed;
}

struct search_document *handoff_index_batch_end(struct handoff_index_batch *batch, size_t *count)
{
    struct search_document *documents = (void *)batch->documents.data;
    const struct search_term *terms = (const void *)batch->terms.data;
    const char *sketch = batch->sketches.data;
    *count = batch->documents.size / sizeof *documents;
    for (size_t i = 0; i < *count; i++) {
        documents[i].terms = terms;
        documents[i].sketch.data = sketch;
        terms += documents[i].term_count;
        sketch += documents[i].sketch.size;
    }
    return documents;
}

void handoff_index_batch_free(struct handoff_index_batch *batch)
{
    base_buffer_free(&batch->documents);
    base_buffer_free(&batch->terms);
    base_buffer_free(&batch->sketches);
    words_document_clear(&batch->words);
}
