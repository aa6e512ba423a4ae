/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverted index against the plainest thing that does the same: a list of documents, all of
 * which are scored. Documents are added, removed and merged into files at random; whatever was done
 * before, the best ones are the same. And: damage to a file is found, and a lack of memory is
 * survived.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/base/memory.h"
#include "lib/search/segment.h"

enum { WORDS = 7, VOCABULARY = 300, DOCUMENTS = 12000, DOCUMENT_TERMS = 24, SCOPES = 4 };

/* ---- the model ----------------------------------------------------------------------------- */

struct model_document {
    struct search_document document;
    struct search_term terms[DOCUMENT_TERMS];
    char sketch[8];
    bool removed;
};

struct model {
    struct model_document *documents;
    size_t count;
    uint64_t random;
    char folder[64];
    unsigned files;
    struct search_index *index;
};

static uint64_t draw(struct model *model, uint64_t below)
{
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return model->random % below;
}

/* Few words are common, most are rare. */
static uint64_t draw_hash(struct model *model)
{
    const uint64_t bound = 1 + draw(model, VOCABULARY);
    const uint64_t word = draw(model, 1 + draw(model, bound));
    return (word + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static bool has_term(const struct model_document *made, uint64_t hash)
{
    for (size_t i = 0; i < made->document.term_count; i++)
        if (made->terms[i].hash == hash)
            return true;
    return false;
}

static struct model_document *make_document(struct model *model)
{
    struct model_document *made = &model->documents[model->count++];
    const int64_t scope = (int64_t)draw(model, SCOPES);
    const size_t wanted = draw(model, DOCUMENT_TERMS + 1);
    *made = (struct model_document){.removed = false};
    made->document =
        (struct search_document){.key = (scope << SEARCH_TIME_BITS) + (int64_t)model->count,
                                 .changed_ms = (int64_t)draw(model, 100000) * 1000,
                                 .level = (uint8_t)draw(model, SEARCH_LEVELS),
                                 .task = (uint32_t)draw(model, 5),
                                 .agent = (uint32_t)draw(model, 5),
                                 .terms = made->terms};
    for (size_t i = 0; i < wanted; i++) {
        const uint64_t hash = draw_hash(model);
        if (has_term(made, hash))
            continue;
        const uint32_t count = draw(model, 4) ? 1 : 1 + (uint32_t)draw(model, 200);
        made->terms[made->document.term_count++] = (struct search_term){hash, count};
        made->document.length += count;
    }
    const int size = snprintf(made->sketch, sizeof made->sketch, "%zu", model->count);
    made->document.sketch = base_span(made->sketch, (size_t)size);
    return made;
}

static bool is_in_ranges(const struct search_query *query, int64_t key)
{
    for (size_t i = 0; i < query->range_count; i++)
        if (key >= query->ranges[i].first && key <= query->ranges[i].last)
            return true;
    return false;
}

static double model_boost(const struct search_query *query, const struct search_document *document)
{
    double boost = 1 + (double)query->level[document->level];
    const double age = (double)(query->now_ms - document->changed_ms);
    boost += (double)query->recency * pow(0.5, (age > 0 ? age : 0) / (double)query->half_life_ms);
    if (query->task && document->task == query->task)
        boost += (double)query->same_task;
    for (size_t i = 0; i < query->agent_count; i++)
        if (document->agent && document->agent == query->agents[i])
            return boost + (double)query->agent;
    return boost;
}

/* By all terms, or by those that are not common. */
static double model_score(const struct search_query *query, const struct model_document *made,
                          bool all)
{
    const double length = search_kept_length(made->document.length);
    const double k1 = (double)query->k1, b = (double)query->b;
    const double usual = k1 * (1 - b + b * length / query->average_length);
    double sum = 0;
    for (size_t i = 0; i < query->term_count; i++) {
        for (size_t term = 0; (all || !query->terms[i].common) && term < made->document.term_count;
             term++) {
            double count = made->terms[term].count;
            if (count > SEARCH_COUNT_MAX)
                count = SEARCH_COUNT_MAX;
            if (made->terms[term].hash == query->terms[i].hash)
                sum += (double)query->terms[i].weight * count * (k1 + 1) / (count + usual);
        }
    }
    return sum * model_boost(query, &made->document);
}

static int descending(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left < right) - (left > right);
}

static size_t model_best(const struct model *model, const struct search_query *query,
                         double *scores)
{
    size_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct model_document *made = &model->documents[i];
        const double score = model_score(query, made, false);
        if (!made->removed && is_in_ranges(query, made->document.key) && score > 0)
            scores[count++] = score;
    }
    qsort(scores, count, sizeof *scores, descending);
    return count;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static void check_counts(const struct model *model, const struct search_query *query)
{
    int64_t kept = 0, all = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct model_document *made = &model->documents[i];
        all += is_in_ranges(query, made->document.key);
        kept += is_in_ranges(query, made->document.key) && !made->removed;
    }
    assert_in_range(query->documents, kept, all);
    for (size_t term = 0; term < query->term_count; term++) {
        int64_t with = 0, with_kept = 0;
        for (size_t i = 0; i < model->count; i++) {
            const struct model_document *made = &model->documents[i];
            if (is_in_ranges(query, made->document.key) &&
                has_term(made, query->terms[term].hash)) {
                with++;
                with_kept += !made->removed;
            }
        }
        assert_in_range(query->terms[term].documents, with_kept, with);
    }
}

static void check_found(const struct model *model, const struct search_query *query,
                        const struct search_result *results, size_t found, size_t most)
{
    double *scores = malloc((model->count + 1) * sizeof *scores);
    const size_t all = model_best(model, query, scores);
    assert_int_equal(found, all < most ? all : most);
    for (size_t i = 0; i < found; i++) {
        const size_t place = (size_t)search_time_of(results[i].key) - 1;
        const struct model_document *made = &model->documents[place];
        const double tolerance = 1e-4 * (double)results[0].score;
        assert_true(place < model->count && made->document.key == results[i].key);
        assert_false(made->removed);
        assert_true(is_in_ranges(query, results[i].key));
        assert_true(fabs(model_score(query, made, true) - (double)results[i].score) <= tolerance);
        assert_true(model_score(query, made, false) >= scores[found - 1] - tolerance);
        assert_true(scores[i] <= (double)results[i].score + tolerance);
        if (!query->terms[0].common)
            assert_true(fabs(scores[i] - (double)results[i].score) <= tolerance);
        assert_true(base_span_equal(results[i].sketch, made->document.sketch));
        assert_true(i == 0 || results[i].score <= results[i - 1].score);
    }
    free(scores);
}

static size_t draw_ranges(struct model *model, struct search_range *ranges)
{
    size_t count = 0;
    if (draw(model, 3) == 0) {
        ranges[0] = (struct search_range){0, INT64_MAX};
        return 1;
    }
    for (int64_t scope = 0; scope < SCOPES; scope++)
        if (draw(model, 2))
            ranges[count++] = (struct search_range){scope << SEARCH_TIME_BITS,
                                                    ((scope + 1) << SEARCH_TIME_BITS) - 1};
    return count;
}

static void search_once(struct model *model)
{
    struct search_result results[60];
    struct search_range ranges[SCOPES];
    struct search_wanted terms[SEARCH_TERMS_MAX] = {{0}};
    const uint32_t agents[] = {2, 3};
    const size_t most = 1 + draw(model, 60);
    struct search_query query = {.ranges = ranges,
                                 .terms = terms,
                                 .k1 = 0.5F + (float)draw(model, 20) / 10,
                                 .b = (float)draw(model, 11) / 10,
                                 .now_ms = 100000000,
                                 .half_life_ms = 7000000,
                                 .agents = agents};
    query.range_count = draw_ranges(model, ranges);
    for (uint64_t wanted = 1 + draw(model, 20); wanted > 0; wanted--) {
        const uint64_t hash = draw_hash(model);
        bool known = false;
        for (size_t i = 0; i < query.term_count; i++)
            known = known || terms[i].hash == hash;
        if (!known)
            terms[query.term_count++].hash = hash;
    }
    if (draw(model, 2)) {
        query.level[1] = 0.1F;
        query.level[3] = 0.3F;
        query.recency = 0.2F;
        query.same_task = 0.5F;
        query.task = (uint32_t)draw(model, 5);
        query.agent = 0.25F;
        query.agent_count = draw(model, 3);
    }
    struct search_view *view = search_view_open(model->index);
    search_view_count(view, &query);
    assert_false(query.cut);
    check_counts(model, &query);
    for (size_t i = 0; i < query.term_count; i++)
        terms[i].weight =
            terms[i].documents ? logf(1 + (float)query.documents / (float)terms[i].documents) : 0;
    if (draw(model, 3) == 0) /* the first ones, or all */
        for (size_t i = draw(model, query.term_count + 1); i > 0; i--)
            terms[i - 1].common = true;
    const size_t found = search_view_find(view, &query, results, most);
    assert_false(query.cut);
    check_found(model, &query, results, found, most);
    search_view_close(&view);
}

/* ---- what is done to the index --------------------------------------------------------------- */

static void add_some(struct model *model)
{
    struct search_document added[64];
    const size_t wanted = 1 + draw(model, draw(model, 2) ? 3 : 64);
    size_t count = 0;
    while (count < wanted && model->count < DOCUMENTS)
        added[count++] = make_document(model)->document;
    assert_true(search_index_add(model->index, added, count));
}

static void remove_some(struct model *model)
{
    for (uint64_t i = draw(model, 30); i > 0 && model->count > 0; i--) {
        struct model_document *made = &model->documents[draw(model, model->count)];
        search_index_remove(model->index, &made->document.key, 1);
        made->removed = true;
    }
}

static void make_path(struct model *model, char *path, size_t room)
{
    snprintf(path, room, "%s/%u", model->folder, ++model->files);
}

static void merge_one(struct model *model, bool all)
{
    struct search_merge merge;
    struct base_buffer bytes = {0};
    char path[128];
    if (!search_merge_plan(model->index, all, &merge))
        return;
    assert_true(search_merge_build(&merge, &bytes));
    make_path(model, path, sizeof path);
    assert_int_equal(search_segment_write(path, base_buffer_span(&bytes), NULL), 0);
    base_buffer_free(&bytes);
    remove_some(model); /* meanwhile */
    struct search_segment *segment = search_segment_open(path, WORDS, 0);
    assert_non_null(segment);
    assert_true(search_merge_finish(&merge, segment));
    search_merge_end(&merge);
    unlink(path);
}

static void set_up_model(struct model *model, uint64_t seed)
{
    *model = (struct model){.random = seed};
    snprintf(model->folder, sizeof model->folder, "/tmp/test_search.XXXXXX");
    assert_non_null(mkdtemp(model->folder));
    model->documents = calloc(DOCUMENTS, sizeof *model->documents);
    model->index = search_index_open(WORDS);
    assert_true(model->documents && model->index);
}

static void tear_down_model(struct model *model)
{
    search_index_close(&model->index);
    free(model->documents);
    assert_int_equal(rmdir(model->folder), 0);
}

static void test_as_a_scan_of_all_documents(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct model model;
        set_up_model(&model, seed * UINT64_C(0x2545F4914F6CDD1D));
        while (model.count < DOCUMENTS) {
            for (int i = 0; i < 6; i++)
                add_some(&model);
            remove_some(&model);
            if (draw(&model, 4) == 0)
                merge_one(&model, draw(&model, 4) == 0);
            if (draw(&model, 4) == 0)
                search_once(&model);
        }
        for (int i = 0; i < 30; i++) {
            merge_one(&model, true);
            search_once(&model);
        }
        tear_down_model(&model);
    }
}

/* Documents of one term, one after the other in one segment; the one in question is a bit longer.
 */
struct boosted {
    uint32_t task, agent; /* of the one in question */
    uint64_t hash;        /* of its second term */
    const uint32_t *agents;
    size_t agent_count;
};

static void expect_boosted_one_first(const struct boosted *boosted)
{
    enum { ALL = 3000, IN_QUESTION = 2500 };
    static struct search_document documents[ALL];
    const struct search_term terms[] = {{42, 1}, {boosted->hash, 3}};
    struct search_index *index = search_index_open(WORDS);
    for (int64_t i = 0; i < ALL; i++)
        documents[i] = (struct search_document){
            .key = i + 1, .length = 30, .agent = 999, .terms = terms, .term_count = 1};
    documents[IN_QUESTION].length = 31;
    documents[IN_QUESTION].task = boosted->task;
    documents[IN_QUESTION].agent = boosted->agent;
    documents[IN_QUESTION].term_count = 2;
    assert_true(search_index_add(index, documents, ALL));
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = 42, .weight = 1};
    struct search_query query = {.ranges = &all,
                                 .range_count = 1,
                                 .terms = &wanted,
                                 .term_count = 1,
                                 .k1 = 1.2F,
                                 .b = 0.75F,
                                 .same_task = 0.1F,
                                 .task = 7,
                                 .agent = 0.1F,
                                 .agents = boosted->agents,
                                 .agent_count = boosted->agent_count};
    struct search_result result;
    struct search_view *view = search_view_open(index);
    search_view_count(view, &query);
    assert_int_equal(search_view_find(view, &query, &result, 1), 1);
    assert_int_equal(result.key, IN_QUESTION + 1);
    search_view_close(&view);
    search_index_close(&index);
}

static void test_a_boost_is_seen_in_any_window(void **state)
{
    (void)state;
    uint32_t agents[40];
    for (uint32_t i = 0; i < 40; i++)
        agents[i] = i + 1;
    expect_boosted_one_first(&(struct boosted){.task = 7, .hash = 43});
    expect_boosted_one_first(
        &(struct boosted){.agent = 3, .hash = 43, .agents = agents, .agent_count = 4});
    expect_boosted_one_first(
        &(struct boosted){.agent = 40, .hash = 43, .agents = agents, .agent_count = 40});
}

/* Who writes a memory chooses its words. */
static void test_a_word_may_have_the_hash_of_a_name(void **state)
{
    (void)state;
    const uint32_t agents[] = {3};
    expect_boosted_one_first(
        &(struct boosted){.task = 7, .hash = search_name_term(SEARCH_TASK, 7)});
    expect_boosted_one_first(&(struct boosted){
        .agent = 3, .hash = search_name_term(SEARCH_AGENT, 3), .agents = agents, .agent_count = 1});
}

static void test_of_equal_ones_the_newer(void **state)
{
    (void)state;
    enum { EQUAL = 1000, MOST = 7 };
    const struct search_term term = {42, 1};
    struct search_index *index = search_index_open(WORDS);
    for (int64_t i = 1; i <= EQUAL; i++) {
        const struct search_document document = {
            .key = ((i % 3) << SEARCH_TIME_BITS) + i, .length = 3, .terms = &term, .term_count = 1};
        assert_true(search_index_add(index, &document, 1));
    }
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = 42, .weight = 1};
    struct search_query query = {.ranges = &all,
                                 .range_count = 1,
                                 .terms = &wanted,
                                 .term_count = 1,
                                 .k1 = 1.2F,
                                 .b = 0.75F};
    struct search_result results[MOST];
    struct search_view *view = search_view_open(index);
    search_view_count(view, &query);
    assert_int_equal(query.documents, EQUAL);
    assert_int_equal(wanted.documents, EQUAL);
    assert_int_equal(search_view_find(view, &query, results, MOST), MOST);
    for (int64_t i = 0; i < MOST; i++)
        assert_int_equal(search_time_of(results[i].key), EQUAL - i);
    search_view_close(&view);
    search_index_close(&index);
}

static void test_a_view_does_not_change(void **state)
{
    (void)state;
    const struct search_term term = {42, 1};
    struct search_document document = {.key = 1, .length = 1, .terms = &term, .term_count = 1};
    struct search_index *index = search_index_open(WORDS);
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = 42, .weight = 1};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = &wanted, .term_count = 1, .k1 = 1.2F};
    struct search_result results[4];
    assert_true(search_index_add(index, &document, 1));
    struct search_view *view = search_view_open(index);
    document.key = 2;
    assert_true(search_index_add(index, &document, 1));
    search_view_count(view, &query);
    assert_int_equal(search_view_find(view, &query, results, 4), 1);
    search_view_close(&view);
    view = search_view_open(index);
    search_view_count(view, &query);
    assert_int_equal(search_view_find(view, &query, results, 4), 2);
    search_view_close(&view);
    search_index_close(&index);
}

/* Few, but as large as many are: worth a file, and not merged again and again in memory. */
static bool is_behind(struct search_view *view)
{
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = 42, .weight = 1};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = &wanted, .term_count = 1, .k1 = 1.2F};
    struct search_result results[4];
    search_view_count(view, &query);
    search_view_find(view, &query, results, 4);
    return query.behind;
}

static void replace_marked(struct search_index *index, int64_t old, int64_t new)
{
    const struct search_term term = {42, 1};
    const struct search_document document = {
        .key = new, .length = 1, .terms = &term, .term_count = 1};
    assert_true(search_index_change(index, &document, 1, &old, 1));
}

/* What is replaced leaves all views at once, and its replacement is in the next one. */
static void test_a_view_knows_that_it_is_behind(void **state)
{
    (void)state;
    struct search_index *index = search_index_open(WORDS);
    replace_marked(index, 0, 1);
    struct search_view *view = search_view_open(index);
    assert_false(is_behind(view));
    replace_marked(index, 1, 2);
    assert_true(is_behind(view));
    search_view_close(&view);
    view = search_view_open(index);
    assert_false(is_behind(view));
    for (int64_t i = 3; i < 3000; i++) /* more than are noted */
        replace_marked(index, i - 1, i);
    assert_true(is_behind(view));
    search_view_close(&view);
    view = search_view_open(index);
    assert_false(is_behind(view));
    search_view_close(&view);
    search_index_close(&index);
}

static void test_long_documents_count_as_several(void **state)
{
    (void)state;
    enum { LONG = 20000, SOME = 20 };
    static struct search_term terms[LONG];
    struct search_index *index = search_index_open(WORDS);
    struct search_merge merge;
    for (int64_t i = 1; i <= SOME; i++) {
        assert_false(search_merge_plan(index, false, &merge));
        for (uint64_t term = 0; term < LONG; term++)
            terms[term] = (struct search_term){(term + 1) * (uint64_t)i << 20, 1};
        const struct search_document document = {
            .key = i, .length = LONG, .terms = terms, .term_count = LONG};
        assert_true(search_index_add(index, &document, 1));
        if (search_merge_plan(index, false, &merge)) {
            search_merge_end(&merge);
            search_index_close(&index);
            return;
        }
    }
    fail_msg("%d documents of %d terms are not worth a file", SOME, LONG);
}

/* ---- files ----------------------------------------------------------------------------------- */

static size_t make_file(struct model *model, char *path, size_t room)
{
    struct search_merge merge;
    struct base_buffer bytes = {0};
    for (int i = 0; i < 20; i++)
        add_some(model);
    assert_true(search_merge_plan(model->index, true, &merge));
    assert_true(search_merge_build(&merge, &bytes));
    search_merge_end(&merge);
    make_path(model, path, room);
    assert_int_equal(search_segment_write(path, base_buffer_span(&bytes), NULL), 0);
    const size_t size = bytes.size;
    base_buffer_free(&bytes);
    return size;
}

static bool is_believed(const char *path, uint32_t words)
{
    struct search_segment *segment = search_segment_open(path, words, 0);
    const bool believed = segment && search_segment_check(segment, NULL);
    if (!segment)
        assert_int_equal(errno, EBADMSG);
    search_segment_close(&segment);
    return believed;
}

static void test_damage_is_found(void **state)
{
    (void)state;
    struct model model;
    char path[128];
    set_up_model(&model, 99);
    const size_t size = make_file(&model, path, sizeof path);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(is_believed(path, WORDS));
    assert_false(is_believed(path, WORDS + 1));
    for (size_t at = 0; at < size; at += at < 200 ? 1 : 1 + draw(&model, 97)) {
        unsigned char was, is;
        assert_int_equal(pread(file, &was, 1, (off_t)at), 1);
        is = was ^ (unsigned char)(1 + draw(&model, 255));
        assert_int_equal(pwrite(file, &is, 1, (off_t)at), 1);
        assert_false(is_believed(path, WORDS));
        assert_int_equal(pwrite(file, &was, 1, (off_t)at), 1);
    }
    assert_true(is_believed(path, WORDS));
    assert_int_equal(ftruncate(file, (off_t)size - 1), 0);
    assert_false(is_believed(path, WORDS));
    assert_int_equal(ftruncate(file, 0), 0);
    assert_false(is_believed(path, WORDS));
    close(file);
    unlink(path);
    tear_down_model(&model);
}

static void test_a_damaged_segment_is_not_searched_and_is_replaced(void **state)
{
    (void)state;
    const struct search_term term = {42, 1};
    struct search_document documents[2] = {
        {.key = 1, .length = 1, .terms = &term, .term_count = 1},
        {.key = 2, .length = 1, .terms = &term, .term_count = 1}};
    char path[] = "/tmp/test_search.file.XXXXXX";
    struct base_buffer bytes = {0};
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = 42, .weight = 1};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = &wanted, .term_count = 1, .k1 = 1.2F};
    struct search_result results[4];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_true(search_segment_build(documents, 2, 1, 2, WORDS, &bytes));
    assert_int_equal(search_segment_write(path, base_buffer_span(&bytes), NULL), 0);
    assert_int_equal(pwrite(file, "x", 1, (off_t)bytes.size - 60), 1);
    struct search_index *index = search_index_open(WORDS);
    struct search_segment *segment = search_segment_open(path, WORDS, 0);
    assert_true(search_index_attach(index, segment));

    struct search_view *view = search_view_open(index);
    search_view_count(view, &query);
    assert_true(query.cut && query.damaged);
    assert_int_equal(search_view_find(view, &query, results, 4), 0);
    assert_true(query.cut && query.damaged);
    search_view_close(&view);

    struct search_merge merge;
    assert_false(search_merge_plan(index, true, &merge));
    search_index_drop(index, segment);
    assert_false(search_index_is_whole(index));
    search_merge_begin(index, &merge);
    search_index_remove(index, &documents[0].key, 1); /* after the documents were looked for */
    assert_int_equal(search_segment_write(path, base_buffer_span(&bytes), NULL), 0);
    struct search_segment *anew = search_segment_open(path, WORDS, 0);
    assert_true(search_merge_finish(&merge, anew));
    search_merge_end(&merge);
    view = search_view_open(index);
    search_view_count(view, &query);
    assert_int_equal(search_view_find(view, &query, results, 4), 1);
    assert_int_equal(results[0].key, 2);
    assert_false(query.cut);
    search_view_close(&view);
    search_index_close(&index);
    base_buffer_free(&bytes);
    close(file);
    unlink(path);
}

static void test_removed_ones_are_kept_as_bits(void **state)
{
    (void)state;
    struct model model;
    char path[128];
    uint8_t bits[512], again[512];
    set_up_model(&model, 7);
    make_file(&model, path, sizeof path);
    struct search_segment *first = search_segment_open(path, WORDS, 0);
    struct search_segment *second = search_segment_open(path, WORDS, 0);
    const size_t size = search_segment_removed_size(first);
    assert_in_range(size, 1, sizeof bits);
    for (size_t i = 0; i < model.count; i += 3)
        assert_true(search_segment_remove(first, model.documents[i].document.key));
    assert_false(search_segment_remove(first, 1 + (int64_t)model.count));
    search_segment_save_removed(first, bits);
    assert_false(search_segment_load_removed(second, base_span((char *)bits, size + 1)));
    assert_true(search_segment_load_removed(second, base_span((char *)bits, size)));
    search_segment_save_removed(second, again);
    assert_memory_equal(bits, again, size);
    struct search_segment_facts facts;
    search_segment_read_facts(second, &facts);
    assert_int_equal(facts.documents, model.count);
    assert_int_equal(facts.removed, (model.count + 2) / 3);
    search_segment_close(&first);
    search_segment_close(&second);
    unlink(path);
    tear_down_model(&model);
}

static void search_and_merge(struct model *model, struct search_segment *segment)
{
    struct search_result results[20];
    struct search_range all = {0, INT64_MAX};
    struct search_wanted terms[20] = {{0}};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = terms, .term_count = 20, .k1 = 1.2F};
    struct search_index *index = search_index_open(WORDS);
    struct search_merge merge = {.index = index, .inputs = {segment}, .count = 1};
    struct base_buffer bytes = {0};
    for (size_t i = 0; i < query.term_count; i++)
        terms[i] = (struct search_wanted){.hash = draw_hash(model), .weight = 1};
    assert_true(search_index_attach(index, segment));
    struct search_view *view = search_view_open(index);
    search_view_count(view, &query);
    search_view_find(view, &query, results, 20);
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    assert_int_equal(query.damaged, facts.damaged); /* also where it was noticed meanwhile */
    search_view_close(&view);
    search_merge_build(&merge, &bytes);
    base_buffer_free(&bytes);
    search_index_close(&index);
}

/* An older one was read anew, into memory. What is damaged would be planned again and again. */
static void test_a_damaged_file_after_what_is_in_memory_is_not_merged(void **state)
{
    (void)state;
    const struct search_document older = {.key = 1, .length = 1}, newer = {.key = 2, .length = 1};
    struct search_merge merge;
    struct base_buffer bytes = {0};
    char path[] = "/tmp/test_search.file.XXXXXX";
    const int file = mkstemp(path);
    struct search_index *index = search_index_open(WORDS);
    assert_true(search_segment_build(&newer, 1, 2, 2, WORDS, &bytes));
    assert_int_equal(search_segment_write(path, base_buffer_span(&bytes), NULL), 0);
    assert_int_equal(pwrite(file, "x", 1, (off_t)bytes.size - 1), 1);
    struct search_segment *damaged = search_segment_open(path, WORDS, 0);
    assert_non_null(damaged);
    assert_false(search_segment_check(damaged, NULL));
    assert_true(search_index_attach(index, damaged));
    assert_true(search_index_add(index, &older, 1));

    assert_true(search_merge_plan(index, true, &merge));
    assert_int_equal(merge.count, 1);
    assert_ptr_not_equal(merge.inputs[0], damaged);
    search_merge_end(&merge);
    search_index_close(&index);
    base_buffer_free(&bytes);
    close(file);
    unlink(path);
}

/* By a disk that fails, or by whoever writes there. What is found is wrong, and nothing worse; what
   cannot be is noticed. */
static void test_bytes_that_change_after_the_check(void **state)
{
    (void)state;
    enum { CHANGES = 3000, RUN = 8 };
    struct model model;
    char path[128];
    unsigned noticed = 0;
    set_up_model(&model, 77);
    const size_t size = make_file(&model, path, sizeof path);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    for (int i = 0; i < CHANGES; i++) {
        unsigned char was[RUN], is[RUN];
        const off_t at = (off_t)draw(&model, size - RUN);
        struct search_segment_facts facts;
        struct search_segment *segment = search_segment_open(path, WORDS, 0);
        assert_true(search_segment_check(segment, NULL));
        search_segment_hold(segment);
        assert_int_equal(pread(file, was, RUN, at), RUN);
        for (size_t byte = 0; byte < RUN; byte++)
            is[byte] = (unsigned char)draw(&model, 256);
        assert_int_equal(pwrite(file, is, RUN, at), RUN);
        search_and_merge(&model, segment);
        search_segment_read_facts(segment, &facts);
        noticed += facts.damaged;
        search_segment_close(&segment);
        assert_int_equal(pwrite(file, was, RUN, at), RUN);
    }
    assert_true(noticed > 0);
    close(file);
    unlink(path);
    tear_down_model(&model);
}

/* Or by whoever truncates it: what is missing cannot be read at all. */
static void test_a_file_that_is_truncated_after_the_check(void **state)
{
    (void)state;
    struct model model;
    struct search_segment_facts facts;
    char path[128];
    set_up_model(&model, 78);
    make_file(&model, path, sizeof path);
    struct search_segment *segment = search_segment_open(path, WORDS, 0);
    assert_true(search_segment_check(segment, NULL));
    search_segment_hold(segment);
    assert_int_equal(truncate(path, 0), 0);
    search_and_merge(&model, segment);
    search_segment_read_facts(segment, &facts);
    assert_true(facts.damaged);
    assert_false(search_segment_check(segment, NULL));
    search_segment_close(&segment);
    unlink(path);
    tear_down_model(&model);
}

/* Whoever removes does not look into the file, which may be worse than damaged: gone. */
static void test_removing_needs_no_file(void **state)
{
    (void)state;
    struct model model;
    char path[128];
    uint8_t bits[512];
    set_up_model(&model, 8);
    make_file(&model, path, sizeof path);
    struct search_segment *segment = search_segment_open(path, WORDS, 0);
    assert_int_equal(truncate(path, 0), 0);
    const size_t size = search_segment_removed_size(segment);
    memset(bits, 0, sizeof bits);
    bits[0] = 1;
    assert_true(search_segment_load_removed(segment, base_span((char *)bits, size)));
    for (size_t i = 0; i < model.count; i++) {
        const int64_t key = model.documents[i].document.key;
        assert_true(search_segment_has(segment, key));
        assert_true(search_segment_remove(segment, key));
        assert_true(search_segment_has_removed(segment, key));
    }
    assert_false(search_segment_check(segment, NULL));
    search_segment_close(&segment);
    unlink(path);
    tear_down_model(&model);
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* A large spine has hundreds of files. */
static void test_a_file_that_was_checked_needs_no_descriptor(void **state)
{
    (void)state;
    struct model model;
    char path[128];
    set_up_model(&model, 12);
    make_file(&model, path, sizeof path);
    const unsigned before = count_descriptors();
    struct search_segment *unchecked = search_segment_open(path, WORDS, 0);
    search_segment_close(&unchecked);
    assert_int_equal(count_descriptors(), before);
    struct search_segment *segment = search_segment_open(path, WORDS, 0);
    assert_true(search_segment_check(segment, NULL));
    assert_int_equal(count_descriptors(), before);
    assert_true(search_segment_check(segment, NULL));
    search_segment_close(&segment);
    assert_int_equal(count_descriptors(), before);
    unlink(path);
    tear_down_model(&model);
}

/* A daemon that ends does not wait for a merge of a hundred megabytes. */
static void test_what_takes_long_can_be_stopped(void **state)
{
    (void)state;
    struct model model;
    struct search_merge merge;
    struct base_buffer bytes = {0};
    char path[128];
    const atomic_bool stop = true;
    set_up_model(&model, 13);
    make_file(&model, path, sizeof path);
    struct search_segment *segment = search_segment_open(path, WORDS, 0);
    assert_true(search_segment_check(segment, &stop)); /* it is not known to be damaged */
    assert_true(search_segment_check(segment, NULL));
    search_segment_close(&segment);
    unlink(path);
    assert_true(search_merge_plan(model.index, true, &merge));
    merge.stop = &stop;
    assert_false(search_merge_build(&merge, &bytes));
    search_merge_end(&merge);
    assert_int_equal(search_segment_write(path, base_span_text("text"), &stop), ECANCELED);
    assert_int_equal(access(path, F_OK), -1);
    search_once(&model);
    tear_down_model(&model);
}

/* ---- several threads ------------------------------------------------------------------------- */

enum { STAYING = 100, PASSING = 3000, LASTING = 20 };

struct shared {
    struct model model; /* the writer's, but for its index and folder */
    atomic_bool over;
};

static void add_marked(struct search_index *index, int64_t number, uint64_t hash)
{
    const struct search_term terms[] = {{hash, 1}, {1000 + (uint64_t)number % 50, 2}};
    const struct search_document document = {
        .key = number, .length = 3, .terms = terms, .term_count = 2};
    assert_true(search_index_add(index, &document, 1));
}

static size_t count_marked(struct search_index *index, uint64_t hash)
{
    static _Thread_local struct search_result results[2 * STAYING];
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = hash, .weight = 1};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = &wanted, .term_count = 1, .k1 = 1.2F};
    struct search_view *view = search_view_open(index);
    search_view_count(view, &query);
    const size_t found = search_view_find(view, &query, results, 2 * STAYING);
    search_view_close(&view);
    return found;
}

/* What stays is found all the time, and of what comes and goes not more than there is. */
static void *search_all_the_time(void *argument)
{
    struct shared *shared = argument;
    size_t wrong = 0;
    while (!atomic_load(&shared->over)) {
        wrong += count_marked(shared->model.index, 42) != STAYING;
        wrong += count_marked(shared->model.index, 43) > LASTING + 1;
    }
    return (void *)(uintptr_t)wrong;
}

static void *merge_all_the_time(void *argument)
{
    struct shared *shared = argument;
    struct model own = {.index = shared->model.index, .random = 1};
    strcpy(own.folder, shared->model.folder);
    while (!atomic_load(&shared->over))
        merge_one(&own, true); /* it removes nothing: its model has no documents */
    return NULL;
}

static void test_searches_and_merges_beside_the_writer(void **state)
{
    (void)state;
    struct shared shared = {.over = false};
    pthread_t threads[3];
    set_up_model(&shared.model, 1);
    struct search_index *index = shared.model.index;
    for (int64_t i = 1; i <= STAYING; i++)
        add_marked(index, i, 42);
    assert_int_equal(pthread_create(&threads[0], NULL, search_all_the_time, &shared), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, search_all_the_time, &shared), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, merge_all_the_time, &shared), 0);
    for (int64_t i = STAYING + 1; i <= STAYING + PASSING; i++) {
        const int64_t gone = i - LASTING;
        add_marked(index, i, 43);
        if (gone > STAYING)
            search_index_remove(index, &gone, 1);
    }
    atomic_store(&shared.over, true);
    for (int i = 0; i < 3; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(count_marked(index, 43), LASTING);
    tear_down_model(&shared.model);
}

/* ---- no memory, no time ------------------------------------------------------------------------
 */

static long allocations_left;

static void *resize_or_fail(void *pointer, size_t size)
{
    return allocations_left-- > 0 ? realloc(pointer, size) : NULL;
}

static const struct base_allocator failing = {resize_or_fail, free};
static const struct base_allocator usual = {realloc, free};

static void note_cover(void *context, struct search_segment *segment)
{
    struct search_range *asked = context; /* a time, and how many segments cover it */
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    asked->last += facts.first <= asked->first && facts.last >= asked->first;
}

static int64_t segments_over(struct search_index *index, int64_t time)
{
    struct search_range asked = {time, 0};
    search_index_visit(index, note_cover, &asked);
    return asked.last;
}

static void add_in_vain(struct search_index *index, int64_t number)
{
    const struct search_document document = {.key = number, .length = 1};
    allocations_left = 0;
    base_allocator_set(&failing);
    const bool added = search_index_add(index, &document, 1);
    base_allocator_set(&usual);
    assert_false(added);
}

static void merge_until_done(struct model *model)
{
    struct search_merge merge;
    while (search_merge_plan(model->index, true, &merge)) {
        search_merge_end(&merge);
        merge_one(model, true);
    }
}

/* As many files as are merged into one. */
static void add_rest_of_a_tier(struct model *model)
{
    for (int64_t i = 21; i < 30; i++) {
        add_marked(model->index, i, 42);
        merge_until_done(model);
    }
}

static void count_one(void *context, struct search_segment *segment)
{
    size_t *count = context;
    (void)segment;
    ++*count;
}

static size_t count_segments(struct search_index *index)
{
    size_t count = 0;
    search_index_visit(index, count_one, &count);
    return count;
}

/* What a segment covers is not read again, so none may cover what was not read. */
static void test_what_was_lost_is_not_merged_over(void **state)
{
    (void)state;
    struct model model;
    set_up_model(&model, 1);
    add_marked(model.index, 1, 42);
    assert_true(search_index_is_whole(model.index));
    add_in_vain(model.index, 2);
    assert_false(search_index_is_whole(model.index));
    for (int64_t i = 3; i < 20; i++)
        add_marked(model.index, i, 42);
    assert_int_equal(segments_over(model.index, 2), 0);
    assert_int_equal(segments_over(model.index, 1), 1);
    merge_until_done(&model);
    search_index_recover(model.index, 1); /* too early */
    merge_until_done(&model);
    assert_int_equal(segments_over(model.index, 2), 0);
    search_index_recover(model.index, 19);
    assert_true(search_index_is_whole(model.index));
    add_marked(model.index, 20, 42);
    merge_until_done(&model);
    add_rest_of_a_tier(&model);
    assert_int_equal(segments_over(model.index, 2), 1);
    tear_down_model(&model);
}

/* An index that is made anew has thousands of files before it is whole. */
static void test_what_has_no_time_in_between_is_merged_while_some_is_missing(void **state)
{
    (void)state;
    struct model model;
    set_up_model(&model, 1);
    search_index_lose(model.index, 1000);
    for (int64_t i = 1001; i < 1100; i++) {
        add_marked(model.index, i, 42);
        merge_until_done(&model);
    }
    assert_false(search_index_is_whole(model.index));
    assert_in_range(count_segments(model.index), 1, 20);
    assert_int_equal(count_marked(model.index, 42), 99);
    tear_down_model(&model);
}

/* Each allocation fails once; what was there before is found all the same. */
static void test_without_memory_nothing_changes(void **state)
{
    (void)state;
    struct model model;
    set_up_model(&model, 1234);
    add_some(&model);
    for (long fails = 0;; fails++) {
        struct search_document added;
        const size_t before = model.count;
        added = make_document(&model)->document;
        allocations_left = fails;
        base_allocator_set(&failing);
        const bool done = search_index_add(model.index, &added, 1);
        const bool all = allocations_left >= 0;
        base_allocator_set(&usual);
        if (!done)
            model.count = before;
        search_once(&model);
        if (all)
            break;
    }
    search_index_recover(model.index, INT64_MAX); /* what was not added counts as read */
    for (long fails = 0;; fails++) {
        struct search_merge merge;
        struct base_buffer bytes = {0};
        assert_true(search_merge_plan(model.index, true, &merge));
        allocations_left = fails;
        base_allocator_set(&failing);
        const bool done = search_merge_build(&merge, &bytes);
        base_allocator_set(&usual);
        base_buffer_free(&bytes);
        search_merge_end(&merge);
        search_once(&model);
        if (done)
            break;
    }
    tear_down_model(&model);
}

static void test_a_deadline_cuts_and_says_so(void **state)
{
    (void)state;
    struct model model;
    set_up_model(&model, 5);
    while (model.count < 6000)
        add_some(&model);
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = UINT64_C(0x9E3779B97F4A7C15), .weight = 1};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = &wanted, .term_count = 1, .k1 = 1.2F};
    struct search_result results[8];
    struct search_view *view = search_view_open(model.index);
    search_view_count(view, &query);
    query.deadline_ns = 1;
    (void)search_view_find(view, &query, results, 8);
    assert_true(query.cut);
    query.deadline_ns = INT64_MAX;
    assert_int_equal(search_view_find(view, &query, results, 8), 8);
    assert_false(query.cut);
    search_view_close(&view);
    tear_down_model(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_a_scan_of_all_documents),
        cmocka_unit_test(test_a_boost_is_seen_in_any_window),
        cmocka_unit_test(test_a_word_may_have_the_hash_of_a_name),
        cmocka_unit_test(test_of_equal_ones_the_newer),
        cmocka_unit_test(test_a_view_does_not_change),
        cmocka_unit_test(test_a_view_knows_that_it_is_behind),
        cmocka_unit_test(test_long_documents_count_as_several),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_a_damaged_segment_is_not_searched_and_is_replaced),
        cmocka_unit_test(test_removed_ones_are_kept_as_bits),
        cmocka_unit_test(test_a_damaged_file_after_what_is_in_memory_is_not_merged),
        cmocka_unit_test(test_bytes_that_change_after_the_check),
        cmocka_unit_test(test_a_file_that_is_truncated_after_the_check),
        cmocka_unit_test(test_removing_needs_no_file),
        cmocka_unit_test(test_a_file_that_was_checked_needs_no_descriptor),
        cmocka_unit_test(test_what_takes_long_can_be_stopped),
        cmocka_unit_test(test_searches_and_merges_beside_the_writer),
        cmocka_unit_test(test_what_was_lost_is_not_merged_over),
        cmocka_unit_test(test_what_has_no_time_in_between_is_merged_while_some_is_missing),
        cmocka_unit_test(test_without_memory_nothing_changes),
        cmocka_unit_test(test_a_deadline_cuts_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
