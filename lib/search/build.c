/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a segment: from documents with their terms, or term by term (merge.c). Pure; any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"
#include "lib/search/postings.h"
#include "lib/search/segment.h"

/* About so many terms are in a bucket: one or two lines of the cache. */
enum { TERMS_IN_BUCKET = 8, BUCKET_BITS_MAX = 24 };

static size_t aligned(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

static size_t part(size_t *end, size_t count, size_t size)
{
    const size_t begin = aligned(*end);
    *end = begin + count * size;
    return begin;
}

struct search_layout search_segment_layout(const struct search_head *head)
{
    struct search_layout layout = {0};
    size_t end = sizeof *head;
    const size_t buckets = ((size_t)1 << head->bucket_bits) + 1;
    layout.keys = part(&end, head->documents, sizeof(int64_t));
    layout.sums = part(&end, head->documents / SEARCH_SUM_EVERY + 1, sizeof(uint64_t));
    layout.hashes = part(&end, head->terms, sizeof(uint64_t));
    layout.lists = part(&end, head->terms, sizeof(uint32_t));
    layout.buckets = part(&end, buckets, sizeof(uint32_t));
    layout.facts = part(&end, head->documents, sizeof(struct search_facts));
    layout.newest = part(&end, head->documents / SEARCH_SUM_EVERY + 1, sizeof(uint32_t));
    layout.highest = part(&end, head->documents / SEARCH_SUM_EVERY + 1, 1);
    layout.lengths = part(&end, head->documents, 1);
    layout.sketch_ends = part(&end, head->documents, sizeof(uint32_t));
    layout.sketches = part(&end, head->sketches_size, 1);
    layout.postings = part(&end, head->postings_size, 1);
    layout.size = aligned(end) + SEARCH_PADDING;
    return layout;
}

/* ---- its terms ---------------------------------------------------------------------------------
 */

void search_builder_term(struct search_builder *builder, uint64_t hash,
                         const struct search_posting *postings, size_t count)
{
    uint32_t list;
    BASE_CHECK(count > 0);
    base_buffer_append(&builder->hashes, &hash, sizeof hash);
    if (count == 1) {
        list = SEARCH_SINGLE | postings->count << SEARCH_SINGLE_SHIFT | postings->document;
    } else {
        const struct base_buffer *written = &builder->postings;
        list = (uint32_t)((written->size + 3) & ~(size_t)3);
        search_postings_append(&builder->postings, postings, count,
                               (const uint8_t *)builder->lengths.data);
        BASE_CHECK(written->failed || written->size < SEARCH_SINGLE);
    }
    base_buffer_append(&builder->lists, &list, sizeof list);
}

/* ---- its documents -----------------------------------------------------------------------------
 */

bool search_builder_begin(struct search_builder *builder, const struct search_document *documents,
                          size_t count)
{
    *builder = (struct search_builder){.documents = documents};
    BASE_CHECK(count <= SEARCH_DOCUMENTS_MAX);
    builder->head.documents = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        BASE_CHECK(documents[i].key > 0 && (i == 0 || documents[i].key > documents[i - 1].key));
        BASE_CHECK(documents[i].sketch.size <= SEARCH_SKETCH_MAX);
        builder->head.sketches_size += documents[i].sketch.size;
        base_buffer_byte(&builder->lengths, (char)search_length_code(documents[i].length));
    }
    return !builder->lengths.failed;
}

static uint32_t kept_seconds(int64_t ms)
{
    return ms <= 0 ? 0 : ms / 1000 > UINT32_MAX ? UINT32_MAX : (uint32_t)(ms / 1000);
}

static void write_sketches(const struct search_builder *builder, const struct search_layout *layout,
                           unsigned char *bytes)
{
    uint32_t *ends = (void *)(bytes + layout->sketch_ends), end = 0;
    for (uint32_t i = 0; i < builder->head.documents; i++) {
        const struct base_span sketch = builder->documents[i].sketch;
        if (sketch.size > 0)
            memcpy(bytes + layout->sketches + end, sketch.data, sketch.size);
        ends[i] = end += (uint32_t)sketch.size;
    }
}

static struct search_facts facts_of(const struct search_document *document)
{
    return (struct search_facts){.seconds = kept_seconds(document->changed_ms),
                                 .task = document->task,
                                 .agent = document->agent,
                                 .level = document->level < SEARCH_LEVELS ? document->level
                                                                          : SEARCH_LEVELS - 1};
}

static void write_boost_facts(const struct search_builder *builder,
                              const struct search_layout *layout, unsigned char *bytes)
{
    struct search_facts *facts = (void *)(bytes + layout->facts);
    uint32_t *newest = (void *)(bytes + layout->newest);
    unsigned char *highest = bytes + layout->highest;
    for (uint32_t i = 0; i < builder->head.documents; i++) {
        const uint32_t some = i / SEARCH_SUM_EVERY;
        facts[i] = facts_of(&builder->documents[i]);
        if (facts[i].seconds > newest[some])
            newest[some] = facts[i].seconds;
        if (facts[i].level > highest[some])
            highest[some] = (unsigned char)facts[i].level;
    }
}

static void write_documents(const struct search_builder *builder,
                            const struct search_layout *layout, unsigned char *bytes)
{
    int64_t *keys = (void *)(bytes + layout->keys);
    uint64_t *sums = (void *)(bytes + layout->sums), sum = 0;
    for (uint32_t i = 0; i < builder->head.documents; i++) {
        const uint8_t length = (uint8_t)builder->lengths.data[i];
        if (i % SEARCH_SUM_EVERY == 0)
            sums[i / SEARCH_SUM_EVERY] = sum;
        sum += search_length_of(length);
        keys[i] = builder->documents[i].key;
        bytes[layout->lengths + i] = length;
    }
    if (builder->head.documents % SEARCH_SUM_EVERY == 0)
        sums[builder->head.documents / SEARCH_SUM_EVERY] = sum;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static uint32_t choose_bucket_bits(uint32_t terms)
{
    uint32_t bits = 0;
    while (bits < BUCKET_BITS_MAX && (uint64_t)TERMS_IN_BUCKET << bits < terms)
        bits++;
    return bits;
}

static void write_buckets(const struct search_head *head, const uint64_t *hashes, uint32_t *buckets)
{
    const size_t count = (size_t)1 << head->bucket_bits;
    uint32_t term = 0;
    for (size_t i = 0; i < count; i++) {
        while (term < head->terms && head->bucket_bits > 0 &&
               hashes[term] >> (64 - head->bucket_bits) < i)
            term++;
        buckets[i] = term;
    }
    buckets[count] = head->terms;
}

static void copy_part(unsigned char *to, const struct base_buffer *from)
{
    if (from->size > 0)
        memcpy(to, from->data, from->size);
}

static void write_segment(struct search_builder *builder, const struct search_layout *layout,
                          unsigned char *bytes)
{
    struct search_head *head = &builder->head;
    memset(bytes, 0, layout->size);
    write_documents(builder, layout, bytes);
    write_boost_facts(builder, layout, bytes);
    write_sketches(builder, layout, bytes);
    copy_part(bytes + layout->hashes, &builder->hashes);
    copy_part(bytes + layout->lists, &builder->lists);
    write_buckets(head, (const uint64_t *)(const void *)(bytes + layout->hashes),
                  (uint32_t *)(void *)(bytes + layout->buckets));
    copy_part(bytes + layout->postings, &builder->postings);
    head->checksum = search_checksum(bytes + sizeof *head, layout->size - sizeof *head);
    head->head_checksum = search_checksum(head, sizeof *head);
    memcpy(bytes, head, sizeof *head);
}

static void free_builder(struct search_builder *builder)
{
    base_buffer_free(&builder->hashes);
    base_buffer_free(&builder->lists);
    base_buffer_free(&builder->postings);
    base_buffer_free(&builder->lengths);
}

bool search_builder_end(struct search_builder *builder, struct base_buffer *bytes)
{
    struct search_head *head = &builder->head;
    memcpy(head->name, "HSEARCH", sizeof head->name);
    head->format = SEARCH_FORMAT;
    head->terms = (uint32_t)(builder->hashes.size / sizeof(uint64_t));
    head->bucket_bits = choose_bucket_bits(head->terms);
    head->postings_size = builder->postings.size;
    const struct search_layout layout = search_segment_layout(head);
    head->size = layout.size;
    bool whole = !builder->hashes.failed && !builder->lists.failed && !builder->postings.failed &&
                 !builder->lengths.failed;
    BASE_CHECK(head->sketches_size <= UINT32_MAX);
    BASE_CHECK(bytes->size == 0); /* its parts are aligned */
    char *room = whole ? base_buffer_reserve(bytes, layout.size) : NULL;
    if (room) {
        write_segment(builder, &layout, (unsigned char *)room);
        base_buffer_grow(bytes, layout.size);
    }
    free_builder(builder);
    return room != NULL;
}

/* ---- from documents
 * ------------------------------------------------------------------------------
 */

struct occurrence {
    uint64_t hash;
    struct search_posting posting;
};

static int by_hash_and_document(const void *a, const void *b)
{
    const struct occurrence *left = a, *right = b;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return (left->posting.document > right->posting.document) -
           (left->posting.document < right->posting.document);
}

static size_t most_occurrences(const struct search_document *documents, size_t count)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        most += documents[i].term_count + 2;
    return most;
}

static struct occurrence *gather_occurrences(const struct search_document *documents, size_t count,
                                             size_t *total)
{
    struct occurrence *all = base_malloc((most_occurrences(documents, count) + 1) * sizeof *all);
    *total = 0;
    for (uint32_t i = 0; all && i < count; i++) {
        const struct search_document *document = &documents[i];
        for (size_t term = 0; term < document->term_count; term++) {
            const uint32_t times = document->terms[term].count;
            BASE_CHECK(times > 0);
            all[(*total)++] =
                (struct occurrence){document->terms[term].hash,
                                    {i, times < SEARCH_COUNT_MAX ? times : SEARCH_COUNT_MAX}};
        }
        if (document->task != 0)
            all[(*total)++] =
                (struct occurrence){search_name_term(SEARCH_TASK, document->task), {i, 1}};
        if (document->agent != 0)
            all[(*total)++] =
                (struct occurrence){search_name_term(SEARCH_AGENT, document->agent), {i, 1}};
    }
    return all;
}

/* Who chooses the words may choose one whose hash is that of a name: then it counts once. */
static void add_terms(struct search_builder *builder, const struct occurrence *all, size_t total,
                      struct search_posting *postings)
{
    for (size_t i = 0, next; i < total; i = next) {
        size_t count = 0;
        for (next = i; next < total && all[next].hash == all[i].hash; next++)
            if (count == 0 || postings[count - 1].document != all[next].posting.document)
                postings[count++] = all[next].posting;
        search_builder_term(builder, all[i].hash, postings, count);
    }
}

bool search_segment_build(const struct search_document *documents, size_t count, int64_t first,
                          int64_t last, uint32_t words, struct base_buffer *bytes)
{
    struct search_builder builder;
    size_t total;
    struct occurrence *all = gather_occurrences(documents, count, &total);
    struct search_posting *postings = base_malloc((count + 1) * sizeof *postings);
    bool whole = search_builder_begin(&builder, documents, count) && all && postings;
    builder.head.first = first;
    builder.head.last = last;
    builder.head.words = words;
    if (whole) {
        qsort(all, total, sizeof *all, by_hash_and_document);
        add_terms(&builder, all, total, postings);
    }
    base_free(all);
    base_free(postings);
    if (whole)
        return search_builder_end(&builder, bytes);
    free_builder(&builder);
    return false;
}
