/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes: terms lie inside the text and in its order, positions never go back, there are no more
 * than two for a byte, the room they are read into changes nothing, and a query's words are found
 * in the same text. A document made of two halves has each term once, and is near to itself.
 */
#include "lib/words/document.h"
#include "lib/words/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct words_term *read_all(struct base_span text, unsigned flags, size_t room,
                                   size_t *count)
{
    struct words_reader reader;
    struct words_term *terms = malloc((2 * text.size + room) * sizeof *terms);
    size_t more;
    EXPECT(terms);
    *count = 0;
    words_begin(&reader, text, flags);
    while ((more = words_read(&reader, terms + *count, room)) > 0) {
        *count += more;
        EXPECT(*count <= 2 * text.size);
    }
    return terms;
}

static void check_terms(const struct words_term *terms, size_t count, size_t size)
{
    uint32_t position = 0, end = 0;
    for (size_t i = 0; i < count; i++) {
        EXPECT(terms[i].hash != 0);
        EXPECT(terms[i].begin < terms[i].end && terms[i].end <= size);
        if (terms[i].kind == WORDS_WHOLE)
            continue;
        EXPECT(terms[i].position >= position || terms[i].kind == WORDS_SINGLE);
        position = terms[i].position > position ? terms[i].position : position;
        EXPECT(terms[i].end >= end || terms[i].kind == WORDS_SINGLE);
        end = terms[i].end;
    }
}

static void check_room(struct base_span text, const struct words_term *terms, size_t count)
{
    size_t again_count;
    struct words_term *again = read_all(text, 0, WORDS_READ_MIN, &again_count);
    EXPECT(again_count == count);
    for (size_t i = 0; i < count; i++)
        EXPECT(again[i].hash == terms[i].hash && again[i].position == terms[i].position &&
               again[i].begin == terms[i].begin && again[i].end == terms[i].end);
    free(again);
}

/* A character that stands alone in a query need not be a term of a document where it does not. */
static void check_query(struct base_span text, const struct words_term *terms, size_t count)
{
    size_t wanted_count, at = 0;
    struct words_term *wanted = read_all(text, WORDS_QUERY, 64, &wanted_count);
    for (size_t i = 0; i < wanted_count; i++) {
        while (at < count && terms[at].hash != wanted[i].hash)
            at++;
        EXPECT(at < count);
    }
    free(wanted);
}

static int by_term_hash(const void *a, const void *b)
{
    const uint64_t left = ((const struct words_count *)a)->hash;
    const uint64_t right = ((const struct words_count *)b)->hash;
    return (left > right) - (left < right);
}

static void check_document(struct words_document *document, struct base_span text)
{
    const size_t half = text.size / 2;
    words_document_begin(document);
    EXPECT(words_document_add(document, base_span(text.data, half), 1, 0));
    EXPECT(words_document_add(document, base_span(text.data + half, text.size - half), 3, 0));
    words_document_end(document);
    if (document->count > 0)
        qsort(document->terms, document->count, sizeof *document->terms, by_term_hash);
    for (size_t i = 0; i < document->count; i++) {
        EXPECT(document->terms[i].count >= 1 && document->terms[i].count <= WORDS_COUNT_MAX);
        EXPECT(i == 0 || document->terms[i].hash > document->terms[i - 1].hash);
    }
    const struct words_sketch *sketch = &document->sketch;
    EXPECT(sketch->size <= WORDS_SKETCH_MAX);
    EXPECT(document->length == 0 ||
           words_sketch_is_near(sketch->bytes, sketch->size, sketch->bytes, sketch->size));
    words_document_clear(document);
}

static void check_order(struct base_span bytes, const struct words_term *terms, size_t count)
{
    struct words_order order;
    uint64_t hashes[80];
    uint8_t counts[WORDS_SKETCH_ORDERS];
    if (count > 80)
        count = 80;
    for (size_t i = 0; i < count; i++)
        hashes[i] = terms[i].hash;
    words_order_begin(&order, hashes, count);
    EXPECT(order.count <= WORDS_SKETCH_ORDERS);
    words_order_count(&order, (const uint8_t *)bytes.data, bytes.size, counts);
    (void)words_sketch_is_near((const uint8_t *)bytes.data, bytes.size / 2,
                               (const uint8_t *)bytes.data + bytes.size / 2, bytes.size / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct words_document document;
    const struct base_span text = base_span((const char *)data, size);
    size_t count;
    struct words_term *terms = read_all(text, 0, 64, &count);
    check_terms(terms, count, size);
    check_room(text, terms, count);
    check_query(text, terms, count);
    check_document(&document, text);
    check_order(text, terms, count);
    free(terms);
    return 0;
}
