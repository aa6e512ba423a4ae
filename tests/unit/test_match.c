/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is found for a query, and in which order, over the index but without a store.
 *
 * People's judgements are the measure: the Cranfield collection, 1,400 abstracts and 225 questions
 * (../shared/data/cranfield; without it, its tests are skipped). Alone, among memories of shuffled
 * words, and with random importance and times. And: the memory that says everything that is asked
 * comes before ten thousand newer ones that share two words each, in five kinds of language.
 */
#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/spine/embedded/describe.h"
#include "client/spine/embedded/match.h"
#include "lib/words/words.h"
#include "tests/support/cranfield.h"
#include "tests/support/questions.h"

enum { WANTED = 20 };

static const int64_t now_ms = INT64_C(1767225600000);

struct stage {
    struct search_index *index;
    struct words_document document;
    int64_t last;
    uint64_t random;
};

static struct stage stage;
static struct handoff_match match;
static struct base_arena arena;

static int begin(void **state)
{
    (void)state;
    memset(&stage, 0, sizeof stage);
    stage.random = 88172645463325252u;
    stage.index = search_index_open(words_version());
    assert_non_null(stage.index);
    return 0;
}

static int end(void **state)
{
    (void)state;
    search_index_close(&stage.index);
    words_document_clear(&stage.document);
    base_arena_free(&arena);
    return 0;
}

static uint64_t draw(uint64_t below)
{
    stage.random ^= stage.random << 13;
    stage.random ^= stage.random >> 7;
    stage.random ^= stage.random << 17;
    return (stage.random >> 11) % below;
}

static int64_t add(const struct handoff_memory *memory)
{
    struct words_document *document = &stage.document;
    assert_true(handoff_memory_describe(memory, 0, document));
    const struct search_document added = {
        .key = ++stage.last,
        .changed_ms = memory->updated_ms,
        .length = document->length,
        .level = (uint8_t)memory->importance,
        .task = handoff_name_hash(memory->task_id),
        .agent = handoff_name_hash(memory->agent),
        .terms = (const struct search_term *)(const void *)document->terms,
        .term_count = document->count,
        .sketch = base_span((const char *)document->sketch.bytes, document->sketch.size)};
    assert_true(search_index_add(stage.index, &added, 1));
    return stage.last;
}

static int64_t add_text(struct base_span content)
{
    const struct handoff_memory memory = {.content = content, .updated_ms = now_ms};
    return add(&memory);
}

static int64_t remember(const char *content)
{
    return add_text(base_span_text(content));
}

static void look_for(const struct handoff_match_query *query, size_t most)
{
    const struct search_range all = {1, INT64_MAX};
    struct search_view *view = search_view_open(stage.index);
    assert_non_null(view);
    base_arena_reset(&arena);
    if (handoff_match_begin(&match, query, view, &all, 1))
        assert_true(handoff_match_best(&match, most, &arena));
    search_view_close(&view);
}

static struct handoff_match_query query_of(const char *text)
{
    return (struct handoff_match_query){.text = base_span_text(text),
                                        .boosts =
                                            handoff_match_boosts(&handoff_search_boosts_default),
                                        .now_ms = now_ms};
}

static void search(const char *text)
{
    const struct handoff_match_query query = query_of(text);
    look_for(&query, WANTED);
}

/* ---- the Cranfield collection ---------------------------------------------------------------- */

static struct cranfield cranfield;

static int open_cranfield(void **state)
{
    begin(state);
    if (!cranfield.documents && !cranfield_open(&cranfield))
        return 0;
    return 0;
}

static bool is_there(void)
{
    return cranfield.documents != NULL;
}

static struct cranfield_score judge_all(void)
{
    struct cranfield_score sum = {0, 0};
    for (size_t i = 0; i < cranfield.query_count; i++) {
        struct handoff_match_query query = query_of("");
        size_t found[WANTED], count = 0;
        query.text = cranfield.queries[i];
        look_for(&query, WANTED);
        for (size_t at = 0; at < match.count; at++)
            found[count++] = (size_t)match.places[at].seq;
        cranfield_judge(&cranfield, i, found, count, &sum);
    }
    sum.ndcg /= (double)cranfield.query_count;
    sum.recall /= (double)cranfield.query_count;
    print_message("nDCG@10 %.4f, recall@20 %.4f\n", sum.ndcg, sum.recall);
    return sum;
}

static void add_documents(bool random)
{
    for (size_t i = 0; i < cranfield.document_count; i++) {
        struct handoff_memory memory = {.content = cranfield.documents[i], .updated_ms = now_ms};
        if (random) {
            memory.importance = (enum handoff_importance)draw(4);
            memory.updated_ms -= (int64_t)draw(INT64_C(60) * 24 * 3600 * 1000);
        }
        add(&memory);
    }
}

static void people_s_judgements_are_met(void **state)
{
    (void)state;
    if (!is_there())
        skip();
    add_documents(false);
    const struct cranfield_score score = judge_all();
    assert_true(score.ndcg >= 0.515);
    assert_true(score.recall >= 0.535);
}

static void random_importance_and_times_cost_little(void **state)
{
    (void)state;
    if (!is_there())
        skip();
    add_documents(true);
    const struct cranfield_score score = judge_all();
    assert_true(score.ndcg >= 0.48);
}

static void shuffled_words_beside_it_cost_no_more_than_fts5(void **state)
{
    (void)state;
    if (!is_there())
        skip();
    struct cranfield_fts5 *fts5 = cranfield_fts5_open(&cranfield);
    add_documents(false);
    for (int i = 0; i < 10000; i++) {
        struct base_span text = cranfield_shuffled(&cranfield, draw);
        cranfield_fts5_add(fts5, text);
        add_text(text);
    }
    const struct cranfield_score ours = judge_all();
    const struct cranfield_score theirs = cranfield_fts5_judge(fts5, &cranfield);
    cranfield_fts5_close(fts5);
    print_message("FTS5: nDCG@10 %.4f, recall@20 %.4f\n", theirs.ndcg, theirs.recall);
    assert_true(ours.ndcg >= theirs.ndcg - 0.01);
    assert_true(ours.recall >= theirs.recall - 0.01);
}

/* ---- the memory that says everything --------------------------------------------------------- */

/* Shares two words of the question, and has others as memories do. */
static void add_sharing(const struct question *question, size_t count, unsigned number)
{
    char text[512];
    const size_t first = draw(count), second = (first + 1 + draw(count - 1)) % count;
    (void)snprintf(text, sizeof text, "note %u about topic%u: %s or %s, seen by crew%u on day%u",
                   number, (unsigned)draw(5000), question->words[first], question->words[second],
                   (unsigned)draw(700), (unsigned)draw(900));
    remember(text);
}

static void expect_first(const struct question *question, size_t count, unsigned newer)
{
    char text[512];
    join_words(text, sizeof text, question, count);
    int64_t wanted = remember(text);
    for (unsigned i = 0; i < newer; i++)
        add_sharing(question, count, i);
    search(text);
    assert_true(match.count > 0);
    assert_int_equal(match.places[0].seq, wanted);
}

static void what_says_everything_is_first(size_t words, unsigned newer)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        expect_first(&questions[i], words, newer);
        end(NULL);
        begin(NULL);
    }
}

static void first_among_100_newer_with_4_words(void **state)
{
    (void)state;
    what_says_everything_is_first(4, 100);
}

static void first_among_100_newer_with_12_words(void **state)
{
    (void)state;
    what_says_everything_is_first(12, 100);
}

static void first_among_10000_newer_with_4_words(void **state)
{
    (void)state;
    what_says_everything_is_first(4, 10000);
}

static void first_among_10000_newer_with_12_words(void **state)
{
    (void)state;
    what_says_everything_is_first(12, 10000);
}

/* ---- boosts, the floor, near-duplicates ------------------------------------------------------ */

static int64_t remember_with(const char *content, const char *agent, const char *task,
                             enum handoff_importance importance, int64_t age_ms)
{
    const struct handoff_memory memory = {.content = base_span_text(content),
                                          .agent = base_span_text(agent),
                                          .task_id = base_span_text(task),
                                          .importance = importance,
                                          .updated_ms = now_ms - age_ms};
    return add(&memory);
}

static void of_equal_texts_the_boosted_one_is_first(void **state)
{
    (void)state;
    static const char one[] = "deploy of the red service failed",
                      two[] = "deploy of the blue service failed";
    const int64_t month = INT64_C(30) * 24 * 3600 * 1000;
    const struct base_span chain[] = {base_span_text("planner")};
    int64_t important = remember_with(one, NULL, NULL, HANDOFF_IMPORTANCE_CRITICAL, month);
    remember_with(two, NULL, NULL, HANDOFF_IMPORTANCE_LOW, month);
    search("deploy failed");
    assert_int_equal(match.places[0].seq, important);
    int64_t recent = remember_with("deploy of the pink service failed", NULL, NULL,
                                   HANDOFF_IMPORTANCE_CRITICAL, 0);
    search("deploy failed");
    assert_int_equal(match.places[0].seq, recent);
    int64_t own = remember_with("deploy of the grey service failed", "planner", NULL,
                                HANDOFF_IMPORTANCE_CRITICAL, 0);
    struct handoff_match_query query = query_of("deploy failed");
    query.agents = chain;
    query.agent_count = 1;
    look_for(&query, WANTED);
    assert_int_equal(match.places[0].seq, own);
    int64_t of_task = remember_with("deploy of the teal service failed", NULL, "task-1",
                                    HANDOFF_IMPORTANCE_LOW, month);
    query.task = base_span_text("task-1");
    look_for(&query, WANTED);
    assert_int_equal(match.places[0].seq, of_task);
    int64_t of_intent = remember("deploy of the teal pipeline failed during migration");
    query = query_of("deploy failed");
    query.intent = base_span_text("finish the migration");
    look_for(&query, WANTED);
    assert_int_equal(match.places[0].seq, of_intent);
}

/* Of a longer chain, neither what is found nor what is measured by itself looks at the others. */
static void the_first_agents_of_the_chain_count(void **state)
{
    (void)state;
    char names[HANDOFF_MATCH_AGENTS + 1][16];
    struct base_span chain[HANDOFF_MATCH_AGENTS + 1];
    struct handoff_match_query query = query_of("rollback of the ledger");
    for (size_t i = 0; i <= HANDOFF_MATCH_AGENTS; i++) {
        (void)snprintf(names[i], sizeof names[i], "agent%zu", i);
        chain[i] = base_span_text(names[i]);
    }
    query.agents = chain;
    query.agent_count = HANDOFF_MATCH_AGENTS + 1;
    for (size_t i = HANDOFF_MATCH_AGENTS - 1; i <= HANDOFF_MATCH_AGENTS; i++) {
        struct handoff_match_fit fit;
        const struct handoff_memory memory = {.agent = chain[i], .updated_ms = now_ms};
        char text[64];
        (void)snprintf(text, sizeof text, "rollback%zu of the ledger", i);
        const int64_t seq =
            remember_with(text, names[i], NULL, HANDOFF_IMPORTANCE_LOW, INT64_C(3600) * 1000);
        look_for(&query, WANTED);
        handoff_match_fit(&match, &memory, false, &fit);
        assert_int_equal(match.places[0].seq == seq, i < HANDOFF_MATCH_AGENTS);
        assert_int_equal(fit.boost > 1.15F, i < HANDOFF_MATCH_AGENTS);
    }
}

static void boosts_do_not_outweigh_twice_the_relevance(void **state)
{
    (void)state;
    int64_t wanted = remember_with("rollback of the payment gateway", NULL, NULL,
                                   HANDOFF_IMPORTANCE_LOW, INT64_C(400) * 24 * 3600 * 1000);
    for (int i = 0; i < 50; i++)
        remember_with("rollback went well", NULL, NULL, HANDOFF_IMPORTANCE_CRITICAL, 0);
    search("rollback payment gateway");
    assert_int_equal(match.places[0].seq, wanted);
}

static void what_is_hardly_relevant_is_left_out(void **state)
{
    (void)state;
    int64_t wanted = remember("the payment gateway retries three times");
    for (int i = 0; i < 40; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "the weather on day%d was the usual", i);
        remember(text);
    }
    search("why does the payment gateway retry");
    assert_int_equal(match.count, 1);
    assert_int_equal(match.places[0].seq, wanted);
    search("the");
    assert_true(match.count > 0);
    search("zebra");
    assert_int_equal(match.count, 0);
    search("");
    assert_int_equal(match.count, 0);
}

static void nearly_the_same_take_one_place(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++)
        remember("The bank retries a payment three times before it gives up.");
    int64_t other = remember("A payment that the bank rejected is retried by hand.");
    search("bank payment retry");
    assert_int_equal(match.count, 2);
    const size_t same = match.places[0].seq == other ? 1 : 0;
    assert_int_equal(match.places[same].similar, 29);
    assert_int_equal(match.places[1 - same].similar, 0);
}

/* However many copies are better than the next memory. */
static void copies_do_not_crowd_out_what_else_fits(void **state)
{
    (void)state;
    enum { COPIES = 700, OTHERS = 30 };
    for (int i = 0; i < OTHERS; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "Payment %d was rejected, and crew%d asked the bank why.",
                       i, i % 7);
        remember(text);
    }
    for (int i = 0; i < COPIES; i++)
        remember("The bank retries a payment three times.");
    for (int i = 0; i < 2000; i++)
        remember("Nothing of the kind happened on that day.");
    search("bank payment retry");
    assert_int_equal(match.count, WANTED);
    assert_int_equal(match.places[0].similar, COPIES - 1);
    for (size_t i = 1; i < match.count; i++)
        assert_true(match.places[i].seq <= OTHERS);
    assert_false(match.cut);
}

static void memories_that_differ_in_a_number_are_both_given(void **state)
{
    (void)state;
    int64_t seqs[3];
    for (int i = 0; i < 3; i++) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "The limit of requests for each client of the payment gateway is now at most"
                       " %d in each minute.",
                       100 * (i + 1));
        seqs[i] = remember(text);
    }
    search("limit of the payment gateway");
    assert_int_equal(match.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(match.places[i].seq, seqs[2 - i]);
        assert_int_equal(match.places[i].similar, 0);
    }
}

static void words_that_fit_are_told_the_telling_ones_first(void **state)
{
    (void)state;
    struct handoff_match_fit fit;
    const struct base_span tags[] = {base_span_text("payments")};
    const struct handoff_memory memory = {.content = base_span_text("The gateways retry"),
                                          .updated_ms = now_ms,
                                          .tags = tags,
                                          .tag_count = 1};
    add(&memory);
    for (int i = 0; i < 20; i++)
        remember("the gateway was slow");
    const struct search_range all = {1, INT64_MAX};
    struct search_view *view = search_view_open(stage.index);
    const struct handoff_match_query query = query_of("the Payment gateway failed");
    assert_true(handoff_match_begin(&match, &query, view, &all, 1));
    handoff_match_fit(&match, &memory, true, &fit);
    search_view_close(&view);
    static const char *const expected[] = {"Payment", "the", "gateway"};
    assert_int_equal(fit.word_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(base_span_equal(fit.words[i], base_span_text(expected[i])) || i > 0);
    assert_true(fit.relevance > 0);
    assert_true(fabsf(fit.boost - 1.1F) < 1e-6F);
}

/* It is what the index says, too. */
static void how_one_fits_is_what_the_search_says(void **state)
{
    (void)state;
    struct handoff_match_fit fit;
    const struct handoff_memory memory = {.content = base_span_text("slow gateway"),
                                          .importance = HANDOFF_IMPORTANCE_CRITICAL,
                                          .updated_ms = now_ms};
    const int64_t seq = add(&memory);
    for (int i = 0; i < 20; i++)
        remember("the fast database");
    const struct search_range all = {1, INT64_MAX};
    struct search_view *view = search_view_open(stage.index);
    const struct handoff_match_query query = query_of("gateway");
    assert_true(handoff_match_begin(&match, &query, view, &all, 1));
    assert_true(handoff_match_best(&match, 5, &arena));
    assert_int_equal(match.count, 1);
    assert_int_equal(match.places[0].seq, seq);
    handoff_match_fit(&match, &memory, true, &fit);
    assert_true(fabsf(fit.relevance - match.places[0].relevance) < 0.001F * fit.relevance);
    assert_true(fabsf(fit.relevance * fit.boost - match.places[0].score) < 0.001F * fit.relevance);
    search_view_close(&view);
}

static void a_query_of_many_words_is_one_of_the_telling_ones(void **state)
{
    (void)state;
    static char text[40000];
    size_t size = 0;
    for (int i = 0; i < 3000; i++)
        size += (size_t)sprintf(text + size, "word%d ", i % 900);
    int64_t wanted = remember("mercury is quicksilver");
    for (int i = 0; i < 300; i++) {
        char filler[64];
        (void)snprintf(filler, sizeof filler, "word%d and the rest", i % 30);
        remember(filler);
    }
    memcpy(text, "quicksilver mercury    ", 24 - 1);
    search(text);
    assert_true(match.count > 0);
    assert_int_equal(match.places[0].seq, wanted);
}

/* ---- common words
 * ------------------------------------------------------------------------------ */

enum { MANY = 1400 };

/* Twenty words, of which the last ones are these. */
static int64_t remember_beside(const char *words)
{
    char text[512];
    size_t size = 0;
    for (int i = 0; i < 18; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "plain%d ", (int)draw(900));
    (void)snprintf(text + size, sizeof text - size, "%s", words);
    return remember(text);
}

static void remember_many_beside(int count, const char *words)
{
    for (int i = 0; i < count; i++)
        remember_beside(words);
}

/* It is one of many that have the telling word, and the only one that has the other too. */
static void a_common_word_counts_in_a_short_query(void **state)
{
    (void)state;
    const int64_t two = remember_beside("timeout error");
    const int64_t three = remember_beside("payment gateway error");
    remember_many_beside(MANY, "error");
    remember_many_beside(100, "timeout");
    remember_many_beside(100, "payment gateway");
    remember_many_beside(MANY, "weather");
    search("timeout error");
    assert_true(match.count > 0);
    assert_int_equal(match.places[0].seq, two);
    search("payment gateway error");
    assert_true(match.count > 0);
    assert_int_equal(match.places[0].seq, three);
}

/* The other word says enough of the query to be above the floor, and is common. */
static void a_misspelt_word_does_not_hide_what_the_others_find(void **state)
{
    (void)state;
    remember_beside("kubernets");
    remember_many_beside(1100, "error");
    remember_many_beside(11000, "weather");
    search("error kubernets");
    assert_int_equal(match.count, WANTED);
}

/* Nine that one memory has, and twelve that many have. */
static void many_misspelt_words_hide_nothing_either(void **state)
{
    (void)state;
    static const char misspelt[] =
        "kubernets deploied servce faild erorr gatway chekcs timout agian";
    static const char common[] =
        "deploy of service failed error while gateway checks timeout again before morning";
    char text[256];
    remember_beside(misspelt);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(text, sizeof text, "%s plain%d", common, i);
        remember(text);
    }
    remember_many_beside(4 * MANY, "weather");
    (void)snprintf(text, sizeof text, "%s %s", misspelt, common);
    search(text);
    assert_true(match.terms[match.sought - 1].common);
    assert_int_equal(match.count, WANTED);
}

static void remember_some_of(const char *const *words, size_t count, unsigned percent)
{
    char text[512] = "";
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        if (draw(100) < (i < 6 ? 45 : percent))
            size += (size_t)snprintf(text + size, sizeof text - size, "%s ", words[i]);
    remember_beside(text);
}

/* So that its pages have each memory once. */
static void a_longer_list_begins_as_a_shorter_one(void **state)
{
    (void)state;
    static const char *const words[] = {
        "error",   "deploy", "status", "check",   "result",  "value",   "timeout", "gateway",
        "invoice", "ledger", "refund", "webhook", "cluster", "replica", "quorum",  "shard"};
    static const char all[] = "error deploy status check result value timeout gateway invoice"
                              " ledger refund webhook cluster replica quorum shard";
    enum { SHORT = 60, LONG = 400 };
    const struct handoff_match_query query = query_of(all);
    int64_t before[SHORT];
    for (int i = 0; i < 2 * MANY; i++)
        remember_some_of(words, sizeof words / sizeof *words, 10);
    look_for(&query, 20);
    assert_true(match.terms[match.sought - 1].common);
    assert_int_equal(match.count, 20);
    for (size_t i = 0; i < 20; i++)
        before[i] = match.places[i].seq;
    look_for(&query, SHORT);
    assert_int_equal(match.count, SHORT);
    for (size_t i = 0; i < SHORT; i++) {
        assert_true(i >= 20 || match.places[i].seq == before[i]);
        before[i] = match.places[i].seq;
    }
    look_for(&query, LONG);
    assert_int_equal(match.count, LONG);
    for (size_t i = 0; i < SHORT; i++)
        assert_int_equal(match.places[i].seq, before[i]);
}

/* ---- as a look at all of them
 * ------------------------------------------------------------------------------ */

/* Words that most, many, some and few memories have. */
static const struct {
    const char *text;
    unsigned percent;
} pool[] = {{"error", 95},   {"deploy", 90}, {"status", 80},  {"service", 70}, {"check", 60},
            {"request", 50}, {"value", 40},  {"timeout", 25}, {"gateway", 15}, {"invoice", 8},
            {"ledger", 4},   {"refund", 2},  {"webhook", 1},  {"quorum", 1}};

enum { POOL = sizeof pool / sizeof *pool, COLLECTION = 4000, QUERIES = 60, QUERY_WORDS = 4 };

static uint16_t queries[QUERIES]; /* sets of words of the pool; the i-th is all of memory i + 1 */

/* What is known of the collection without an index, by seq. */
static uint16_t made[COLLECTION + 1];
static double with_word[POOL];

static void write_pool_words(uint16_t words, char *text, size_t room)
{
    size_t size = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < POOL; i++)
        if (words >> i & 1)
            size += (size_t)snprintf(text + size, room - size, "%s ", pool[i].text);
}

/* All are of one length: what a longer one lacks in words would not count. */
static void remember_pool_words(uint16_t words)
{
    const unsigned plain = POOL + 4 - (unsigned)__builtin_popcount(words);
    char text[1024];
    size_t size = 0;
    for (unsigned i = 0; i < plain; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "plain%d ", (int)draw(5000));
    write_pool_words(words, text + size, sizeof text - size);
    const int64_t seq = remember(text);
    made[seq] = words;
    for (unsigned i = 0; i < POOL; i++)
        with_word[i] += words >> i & 1;
}

static void draw_queries(void)
{
    for (int i = 0; i < QUERIES; i++) {
        const int count = 2 + (int)draw(QUERY_WORDS - 1);
        for (queries[i] = 0; __builtin_popcount(queries[i]) < count;)
            queries[i] |= (uint16_t)(1u << draw(POOL));
    }
}

/* Which has no query's words all. */
static uint16_t draw_words(void)
{
    uint16_t words = 0;
    for (unsigned i = 0; i < POOL; i++)
        words |= (uint16_t)((unsigned)(draw(100) < pool[i].percent) << i);
    for (int i = 0; i < QUERIES; i++)
        while ((words & queries[i]) == queries[i])
            words &= (uint16_t) ~(1u << draw(POOL));
    return words;
}

/* BM25, where all lengths are the same and each word occurs once. */
static double relevance_of(int64_t seq, uint16_t query)
{
    double score = 0;
    for (unsigned i = 0; i < POOL; i++)
        if (query & made[seq] & 1u << i)
            score += log(1 + (COLLECTION - with_word[i] + 0.5) / (with_word[i] + 0.5));
    return score;
}

/* Whether a look at all memories finds it among so many best ones. */
static bool is_among_best(int64_t wanted, uint16_t query, unsigned most)
{
    const double score = relevance_of(wanted, query);
    unsigned better = 0;
    for (int64_t seq = 1; seq <= COLLECTION; seq++)
        better += relevance_of(seq, query) > score;
    return better < most;
}

static bool is_found(int64_t wanted)
{
    for (size_t i = 0; i < match.count; i++)
        if (match.places[i].seq == wanted)
            return true;
    return false;
}

/* It is older than all that have some of the words. The index may leave out words that say next to
   nothing. */
static void what_has_all_words_is_found_however_common_they_are(void **state)
{
    char text[256];
    unsigned tried = 0;
    (void)state;
    memset(with_word, 0, sizeof with_word);
    draw_queries();
    for (int i = 0; i < COLLECTION; i++)
        remember_pool_words(i < QUERIES ? queries[i] : draw_words());
    for (int i = 0; i < QUERIES; i++) {
        if (!is_among_best(i + 1, queries[i], WANTED / 4))
            continue;
        write_pool_words(queries[i], text, sizeof text);
        search(text);
        if (!is_found(i + 1))
            fail_msg("what has all of \"%s\" is not found", text);
        tried++;
    }
    assert_true(tried > QUERIES / 4);
}

#define WITH_STAGE(test)     cmocka_unit_test_setup_teardown(test, begin, end)
#define WITH_CRANFIELD(test) cmocka_unit_test_setup_teardown(test, open_cranfield, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CRANFIELD(people_s_judgements_are_met),
        WITH_CRANFIELD(random_importance_and_times_cost_little),
        WITH_CRANFIELD(shuffled_words_beside_it_cost_no_more_than_fts5),
        WITH_STAGE(first_among_100_newer_with_4_words),
        WITH_STAGE(first_among_100_newer_with_12_words),
        WITH_STAGE(first_among_10000_newer_with_4_words),
        WITH_STAGE(first_among_10000_newer_with_12_words),
        WITH_STAGE(of_equal_texts_the_boosted_one_is_first),
        WITH_STAGE(the_first_agents_of_the_chain_count),
        WITH_STAGE(boosts_do_not_outweigh_twice_the_relevance),
        WITH_STAGE(what_is_hardly_relevant_is_left_out),
        WITH_STAGE(a_common_word_counts_in_a_short_query),
        WITH_STAGE(a_misspelt_word_does_not_hide_what_the_others_find),
        WITH_STAGE(many_misspelt_words_hide_nothing_either),
        WITH_STAGE(a_longer_list_begins_as_a_shorter_one),
        WITH_STAGE(what_has_all_words_is_found_however_common_they_are),
        WITH_STAGE(nearly_the_same_take_one_place),
        WITH_STAGE(copies_do_not_crowd_out_what_else_fits),
        WITH_STAGE(memories_that_differ_in_a_number_are_both_given),
        WITH_STAGE(words_that_fit_are_told_the_telling_ones_first),
        WITH_STAGE(how_one_fits_is_what_the_search_says),
        WITH_STAGE(a_query_of_many_words_is_one_of_the_telling_ones),
    };
    const int failed = RUN_TESTS(tests);
    cranfield_close(&cranfield);
    return failed;
}
