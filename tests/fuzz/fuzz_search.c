/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the search index, damaged at will: the input is a list of places and bytes, which are
 * written over a sound file, or where it begins with a 0 the file itself. What differs from the
 * sound one in a single bit is not believed; what is the same is searched. Where it begins with a
 * 1, the bytes change after the file was checked: then it is searched and merged, and may say
 * anything, but neither reads nor writes what is not its own.
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
                                                .level = (uint8_t)(i % SEARCH_LEVELS),
                                                .task = (uint32_t)(1 + i % 7),
                                                .agent = (uint32_t)(1 + i % 3),
                                                .terms = terms[i],
                                                .term_count = TERMS,
                                                .sketch = base_span("sketch", 6)};
    }
    EXPECT(search_segment_build(documents, DOCUMENTS, 1, DOCUMENTS, WORDS, &sound));
    return 0;
}

static size_t find_best(struct search_view *view, bool *cut)
{
    static const uint32_t agents[] = {2};
    struct search_range some[] = {{0, 200}, {201, INT64_MAX}};
    struct search_wanted wanted[] = {
        {.hash = UINT64_C(1) << 40, .weight = 1},
        {.hash = (UINT64_C(2) << 40) + 1, .weight = 2},
        {.hash = (UINT64_C(6) << 40) + 5, .common = true, .weight = 1}};
    struct search_query query = {.ranges = some,
                                 .range_count = 2,
                                 .terms = wanted,
                                 .term_count = 3,
                                 .k1 = 1.2F,
                                 .level = {0, 0.1F, 0.2F, 0.3F},
                                 .same_task = 0.5F,
                                 .task = 3,
                                 .agent = 0.1F,
                                 .agents = agents,
                                 .agent_count = 1};
    struct search_result results[10];
    search_view_count(view, &query);
    *cut = query.cut;
    const size_t found = search_view_find(view, &query, results, 10);
    for (size_t i = 0; i < found; i++)
        EXPECT(results[i].sketch.size <= SEARCH_SKETCH_MAX);
    return found;
}

static void search_all(struct search_index *index, bool believed)
{
    bool cut;
    struct search_view *view = search_view_open(index);
    EXPECT(view);
    EXPECT(find_best(view, &cut) == (believed ? 10 : 0));
    EXPECT(cut == !believed);
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

/* ---- after the check --------------------------------------------------------------------------
 */

/* As a merge does that was planned before. */
static void merge_alone(struct search_index *index, struct search_segment *segment)
{
    const struct search_merge merge = {
        .index = index, .inputs = {segment}, .count = 1, .first = 1, .last = DOCUMENTS};
    struct base_buffer bytes = {0};
    (void)search_merge_build(&merge, &bytes);
    base_buffer_free(&bytes);
}

static void change_bytes(int file, const uint8_t *data, size_t size)
{
    for (size_t at = 1; at + 5 <= size; at += 5) {
        uint32_t place;
        memcpy(&place, data + at, sizeof place);
        EXPECT(pwrite(file, data + at + 4, 1, (off_t)(place % sound.size)) == 1);
    }
}

static void search_changed(const uint8_t *data, size_t size)
{
    bool cut;
    char path[] = "/tmp/fuzz_search.XXXXXX";
    const int file = mkstemp(path);
    EXPECT(file >= 0 && write(file, sound.data, sound.size) == (ssize_t)sound.size);
    struct search_segment *segment = search_segment_open(path, WORDS, 0);
    struct search_index *index = search_index_open(WORDS);
    EXPECT(segment && index && search_segment_check(segment, NULL));
    EXPECT(search_index_attach(index, segment));
    change_bytes(file, data, size);
    struct search_view *view = search_view_open(index);
    EXPECT(find_best(view, &cut) <= 10);
    search_view_close(&view);
    merge_alone(index, segment);
    search_index_close(&index);
    close(file);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_buffer bytes = {0};

    if (size > 0 && data[0] == 1) {
        search_changed(data, size);
        return 0;
    }

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
