/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the search index, damaged at will: the input is a list of places and bytes, which are
 * written over a sound file, or where it begins with a 0 the file itself. What differs from the
 * sound one in a single bit is not believed; what is the same is searched.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/search/search.h"

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { DOCUMENTS = 300, TERMS = 8, WORDS = 3 };

static struct base_buffer sound;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static struct search_document documents[DOCUMENTS];
    static struct search_term terms[DOCUMENTS][TERMS];

    (void)argc;
    (void)argv;
    for (uint64_t i = 0; i < DOCUMENTS; i++) {
        for (uint64_t term = 0; term < TERMS; term++)
            terms[i][term] = (struct search_term){(1 + term * (1 + i % (term * 20 + 1))) << 40,
                                                  (uint32_t)(1 + i % 9)};
        for (uint64_t term = 1; term < TERMS; term++)
            terms[i][term].hash += term;
        documents[i] = (struct search_document){.key = (int64_t)i + 1,
                                                .length = TERMS,
                                                .terms = terms[i],
                                                .term_count = TERMS,
                                                .sketch = base_span("sketch", 6)};
    }
    EXPECT(search_segment_build(documents, DOCUMENTS, 1, DOCUMENTS, WORDS, &sound));
    return 0;
}

static void search_all(struct search_index *index, bool believed)
{
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = UINT64_C(1) << 40, .weight = 1};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = &wanted, .term_count = 1, .k1 = 1.2F};
    struct search_result results[10];
    struct search_view *view = search_view_open(index);

    EXPECT(view);
    search_view_count(view, &query);
    EXPECT(query.cut == !believed);
    EXPECT(search_view_find(view, &query, results, 10) == (believed ? 10 : 0));
    search_view_close(&view);
}

static void open_file(const char *path, bool same)
{
    struct search_segment *segment = search_segment_open(path, WORDS, 0);
    EXPECT(segment || !same);
    if (!segment)
        return;
    struct search_index *index = search_index_open(WORDS);
    EXPECT(index && search_index_attach(index, segment));
    search_all(index, same);
    search_index_close(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_buffer bytes = {0};

    if (size > 0 && data[0] == 0)
        base_buffer_append(&bytes, data + 1, size - 1);
    else
        base_buffer_append(&bytes, sound.data, sound.size);
    for (size_t at = 1; size > 0 && data[0] != 0 && at + 5 <= size; at += 5) {
        uint32_t place;

        memcpy(&place, data + at, sizeof(place));
        bytes.data[place % bytes.size] = (char)data[at + 4];
    }
    EXPECT(!bytes.failed);
    const bool same = bytes.size == sound.size && memcmp(bytes.data, sound.data, sound.size) == 0;
    char path[] = "/tmp/fuzz_search.XXXXXX";
    const int file = mkstemp(path);
    EXPECT(file >= 0 && (bytes.size == 0 || write(file, bytes.data, bytes.size) > 0));
    open_file(path, same);
    close(file);
    unlink(path);
    base_buffer_free(&bytes);
    return 0;
}
