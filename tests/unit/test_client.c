/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client as a host uses it: by handoff.h, and what it read by read.h. Opens in a fresh
 * directory, asks on a loop, waits for the answer.
 */
#include "tests/support/unit.h"

#include <poll.h>
#include <string.h>
#include <yyjson.h>

#include "client/calls/read.h"
#include "client/handoff.h"
#include "tests/support/temp_store.h"

struct asked {
    enum handoff_code code;
    char field[64], seen[160];
    int64_t needed;
    char *body;
    bool created;
    int answers;
};

struct seen {
    struct handoff_event last;
    int assembled, spine;
    atomic_int commits;
    char target[32];
    enum handoff_operation operation;
};

static struct {
    char *directory;
    struct handoff_client *client;
    struct handoff_loop *loop;
    struct asked asked;
    struct seen seen;
} fixture;

static void observe(void *observer, const struct handoff_event *event)
{
    struct seen *seen = observer;
    if (event->kind == HANDOFF_EVENT_COMMITTED) { /* on the writer's thread */
        atomic_fetch_add(&seen->commits, 1);
        return;
    }
    seen->last = *event;
    if (event->kind == HANDOFF_EVENT_SPINE) {
        seen->spine++;
        seen->operation = event->of.spine.operation;
    } else {
        seen->assembled++;
        snprintf(seen->target, sizeof(seen->target), "%s",
                 event->who.target_agent ? event->who.target_agent : "");
    }
}

static void answered(void *context, const struct handoff_result *result)
{
    struct asked *asked = context;
    asked->code = result->error.code;
    asked->needed = result->error.needed;
    asked->created = result->created;
    asked->answers++;
    snprintf(asked->field, sizeof(asked->field), "%s", result->error.field);
    snprintf(asked->seen, sizeof(asked->seen), "%s", result->error.seen);
    free(asked->body);
    asked->body = result->body ? strndup(result->body, result->size) : NULL;
}

static void wait_for_answer(void)
{
    while (fixture.asked.answers == 0 || handoff_loop_pending(fixture.loop) > 0) {
        struct pollfd readable = {.fd = handoff_loop_fd(fixture.loop), .events = POLLIN};
        assert_int_equal(poll(&readable, 1, 60000), 1);
        handoff_loop_run(fixture.loop);
    }
    assert_int_equal(fixture.asked.answers, 1);
    fixture.asked.answers = 0;
}

static int open_client(void **state)
{
    (void)state;
    struct handoff_error error = {0};
    memset(&fixture, 0, sizeof(fixture));
    fixture.directory = temp_directory();
    struct handoff_options options = {.storage_path = fixture.directory,
                                      .durability_none = true,
                                      .encoding = "estimate",
                                      .memory_max_bytes = 1000,
                                      .observe = observe,
                                      .observer = &fixture.seen};
    assert_int_equal(handoff_client_open(&fixture.client, &options, &error), HANDOFF_OK);
    assert_int_equal(handoff_loop_open(&fixture.loop, fixture.client, &error), HANDOFF_OK);
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    handoff_loop_close(&fixture.loop);
    handoff_client_close(&fixture.client);
    temp_remove(fixture.directory);
    free(fixture.asked.body);
    return 0;
}

static void assemble(const char *body)
{
    struct handoff_ask ask = {.body = body, .size = strlen(body)};
    handoff_envelope_assemble(fixture.loop, &ask, answered, &fixture.asked);
    wait_for_answer();
}

static void put(const char *id, const char *body)
{
    handoff_memory_put(fixture.loop, id, body, strlen(body), NULL, answered, &fixture.asked);
    wait_for_answer();
}

static char *text_at(const char *pointer)
{
    static char text[512];
    yyjson_doc *doc = yyjson_read(fixture.asked.body, strlen(fixture.asked.body), 0);
    const char *found = yyjson_get_str(yyjson_doc_ptr_get(doc, pointer));
    snprintf(text, sizeof(text), "%s", found ? found : "(none)");
    yyjson_doc_free(doc);
    return text;
}

static int64_t number_at(const char *pointer)
{
    yyjson_doc *doc = yyjson_read(fixture.asked.body, strlen(fixture.asked.body), 0);
    int64_t number = yyjson_get_sint(yyjson_doc_ptr_get(doc, pointer));
    yyjson_doc_free(doc);
    return number;
}

/* ---- envelopes ----------------------------------------------------------------------------- */

#define BASE "{\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":\"retry payments\""

static void test_assembled_stored_and_served(void **state)
{
    (void)state;
    char id[64];
    struct handoff_text text;
    put("ms-1", "{\"content\":\"the gateway retries payments\",\"tags\":[\"t\"]}");
    assemble(BASE ",\"memory_ids\":[\"ms-1\",\"ms-2\"]}");
    assert_int_equal(fixture.asked.code, HANDOFF_OK);
    assert_true(fixture.asked.created);
    assert_string_equal(text_at("/context/memories/0/content"), "the gateway retries payments");
    assert_string_equal(text_at("/missing/0/id"), "ms-2");
    snprintf(id, sizeof(id), "%s", text_at("/id"));
    assert_int_equal(
        handoff_read_envelope(fixture.client, id, NULL, HANDOFF_RENDER_STORED, &text, NULL),
        HANDOFF_OK);
    assert_string_equal(text.data, fixture.asked.body);
    handoff_text_free(&text);
    assert_int_equal(
        handoff_read_envelope(fixture.client, id, NULL, HANDOFF_RENDER_MARKDOWN, &text, NULL),
        HANDOFF_OK);
    assert_non_null(strstr(text.data, "## Your task\n\n```text\nretry payments\n```\n"));
    handoff_text_free(&text);
    assert_int_equal(
        handoff_read_envelope(fixture.client, id, NULL, HANDOFF_RENDER_VERSION_1, &text, NULL),
        HANDOFF_OK);
    assert_int_equal(strncmp(text.data, "{\"version\":1,\"from\":\"a\"", 23), 0);
    handoff_text_free(&text);
}

static void test_envelopes_that_are_not_there(void **state)
{
    (void)state;
    struct handoff_text text;
    const char *ids[] = {"", "nonsense", "0190aaaa-0000-7000-8000-000000000001"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            handoff_read_envelope(fixture.client, ids[i], NULL, HANDOFF_RENDER_STORED, &text, NULL),
            HANDOFF_ERR_NOT_FOUND);
}

static enum handoff_code see(const char *id, const char *caller)
{
    struct handoff_text text;
    enum handoff_code code =
        handoff_read_envelope(fixture.client, id, caller, HANDOFF_RENDER_STORED, &text, NULL);
    handoff_text_free(&text);
    return code;
}

static void test_an_envelope_is_its_parties_to_see(void **state)
{
    (void)state;
    char id[64];
    assemble(BASE "}"); /* from a to b */
    snprintf(id, sizeof(id), "%s", text_at("/id"));
    assert_int_equal(see(id, NULL), HANDOFF_OK);
    assert_int_equal(see(id, "a"), HANDOFF_OK);
    assert_int_equal(see(id, "b"), HANDOFF_OK);
    assert_int_equal(see(id, "c"), HANDOFF_ERR_NOT_FOUND);
}

/* A child carries the constraints and the history of its parent. */
static void test_only_a_party_may_continue_an_envelope(void **state)
{
    (void)state;
    char id[64], body[320];
    static const struct {
        const char *caller, *source;
        enum handoff_code code;
    } cases[] = {{"c", "", HANDOFF_ERR_NOT_FOUND},
                 {"b", "", HANDOFF_OK},
                 {"a", "", HANDOFF_OK},
                 {NULL, ",\"source_agent\":\"c\"", HANDOFF_OK}};
    assemble(BASE "}"); /* from a to b */
    snprintf(id, sizeof(id), "%s", text_at("/id"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(body, sizeof(body),
                 "{\"target_agent\":\"d\",\"task_summary\":\"s\",\"previous_id\":\"%s\"%s}", id,
                 cases[i].source);
        struct handoff_ask ask = {.body = body, .size = strlen(body), .caller = cases[i].caller};
        handoff_envelope_assemble(fixture.loop, &ask, answered, &fixture.asked);
        wait_for_answer();
        assert_int_equal(fixture.asked.code, cases[i].code);
        if (cases[i].code != HANDOFF_OK)
            assert_string_equal(fixture.asked.field, "previous_id");
    }
}

static void test_configured_agents(void **state)
{
    (void)state;
    struct handoff_agent_options agents[] = {handoff_agent_defaults("b", NULL),
                                             handoff_agent_defaults("old", NULL)};
    agents[0].token_budget = 300;
    agents[1].token_budget = 900;
    agents[1].accepts = HANDOFF_ACCEPTS_1 | HANDOFF_ACCEPTS_2;
    agents[1].emit = HANDOFF_EMIT_DUAL;
    struct handoff_configuration configuration = {
        .agents = agents, .nagents = 2, .default_token_budget = 500, .hops_max = 1};
    assert_int_equal(handoff_client_configure(fixture.client, &configuration, NULL), HANDOFF_OK);
    assemble(BASE "}");
    assert_int_equal(number_at("/tokens/budget"), 300);
    assert_int_equal(number_at("/hop/max"), 1);
    assemble(BASE ",\"constraints\":{\"max_tokens\":200}}");
    assert_int_equal(number_at("/tokens/budget"), 200);
    assemble("{\"source_agent\":\"a\",\"target_agent\":\"nobody\",\"task_summary\":\"s\"}");
    assert_int_equal(number_at("/tokens/budget"), 500);
    assemble("{\"source_agent\":\"a\",\"target_agent\":\"old\",\"task_summary\":\"s\"}");
    assert_int_equal(number_at("/version"), 1);
    char child[256];
    snprintf(child, sizeof(child), BASE ",\"previous_id\":\"%s\"}", text_at("/id"));
    assemble(child);
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_HOP_LIMIT);
}

/* What comes back names the agent; all that is configured for it counts. */
static void test_the_next_agent_of_a_pipeline(void **state)
{
    (void)state;
#define NEXT(source)                                                                               \
    "{\"source_agent\":\"" source "\",\"target_agent\":\"next\",\"task_summary\":\"s\","           \
    "\"pattern\":\"choreographed\"}"
    static const char *const names[] = {"a", "b"};
    struct handoff_agent_options agents[] = {handoff_agent_defaults("a", NULL),
                                             handoff_agent_defaults("b", NULL)};
    agents[1].token_budget = 300;
    const struct handoff_pipeline_options pipeline = {"ab", names, 2};
    struct handoff_configuration configuration = {
        .agents = agents, .nagents = 2, .pipelines = &pipeline, .npipelines = 1};
    assemble(NEXT("a"));
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_INVALID);
    assert_int_equal(handoff_client_configure(fixture.client, &configuration, NULL), HANDOFF_OK);
    assemble(NEXT("a"));
    assert_int_equal(fixture.asked.code, HANDOFF_OK);
    assert_string_equal(text_at("/target_agent"), "b");
    assert_string_equal(text_at("/pattern"), "choreographed");
    assert_int_equal(number_at("/tokens/budget"), 300);
    assert_string_equal(fixture.seen.target, "b");
    assemble(NEXT("b"));
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_NO_NEXT_AGENT);
    assert_string_equal(fixture.asked.field, "source_agent");
}

static void test_refusals_name_their_field(void **state)
{
    (void)state;
    assemble(BASE ",\"constraints\":{\"max_tokens\":10}}");
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_BUDGET_TOO_SMALL);
    assert_string_equal(fixture.asked.field, "constraints.max_tokens");
    assert_true(fixture.asked.needed > 10);
    assert_null(fixture.asked.body);
    assemble(BASE ",\"memory_ids\":[\"fine\",\"not fine\"]}");
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_INVALID);
    assert_string_equal(fixture.asked.field, "memory_ids[1]");
}

static void test_the_spine_finds_what_matters(void **state)
{
    (void)state;
    put("cats", "{\"content\":\"cats sleep all day\"}");
    put("pay", "{\"content\":\"payments are retried three times\"}");
    put("pinned", "{\"content\":\"never log card numbers\",\"pinned\":true}");
    assemble(BASE ",\"include_recent\":1}");
    assert_string_equal(text_at("/memory_refs/0"), "pinned");
    assert_string_equal(text_at("/memory_refs/1"), "pay");
    assert_int_equal(number_at("/completeness/requested"), 1);
}

/* The second envelope counts nothing anew and comes to the same number; an update is noticed. */
static void test_token_counts_are_kept(void **state)
{
    (void)state;
    put("m", "{\"content\":\"some content\"}");
    assemble(BASE ",\"memory_ids\":[\"m\"]}");
    int64_t first = number_at("/tokens/count");
    assemble(BASE ",\"memory_ids\":[\"m\"]}");
    assert_int_equal(number_at("/tokens/count"), first);
    put("m", "{\"content\":\"some content that is rather longer than before\"}");
    assemble(BASE ",\"memory_ids\":[\"m\"]}");
    assert_true(number_at("/tokens/count") > first);
    handoff_memory_pin(fixture.loop, "m", true, NULL, answered, &fixture.asked);
    wait_for_answer();
    assemble(BASE ",\"memory_ids\":[\"m\"]}");
    size_t counted;
    yyjson_doc *doc = yyjson_read(fixture.asked.body, strlen(fixture.asked.body), 0);
    size_t size;
    char *context = yyjson_val_write(yyjson_doc_ptr_get(doc, "/context"), 0, &size);
    assert_int_equal(handoff_tokens_count(handoff_client_tokenizer(fixture.client, NULL), context,
                                          size, &counted),
                     HANDOFF_OK);
    assert_int_equal(number_at("/tokens/count"), counted);
    free(context);
    yyjson_doc_free(doc);
}

static void test_events(void **state)
{
    (void)state;
    struct handoff_stats stats;
    put("m", "{\"content\":\"c\"}");
    assert_int_equal(fixture.seen.operation, HANDOFF_OPERATION_PUT);
    assemble(BASE ",\"memory_ids\":[\"m\",\"n\"]}");
    const struct handoff_event *event = &fixture.seen.last;
    assert_int_equal(event->kind, HANDOFF_EVENT_ASSEMBLED);
    assert_int_equal(fixture.seen.assembled, 1);
    assert_int_equal(fixture.seen.operation, HANDOFF_OPERATION_RESOLVE);
    assert_string_equal(fixture.seen.target, "b");
    const struct handoff_assembled *assembled = &event->of.assembled;
    assert_int_equal(assembled->memories.requested, 2);
    assert_int_equal(assembled->memories.included, 1);
    assert_int_equal(assembled->memories.missing, 1);
    assert_int_equal(assembled->memories.trimmed, 0);
    assert_int_equal(assembled->hop_count, 1);
    assert_int_equal(assembled->tokens, number_at("/tokens/count"));
    assert_true(assembled->resolve_ns > 0 && assembled->trim_ns > 0 && assembled->encode_ns > 0);
    assert_true(assembled->persist_ns > 0);
    assert_true(atomic_load(&fixture.seen.commits) >= 2);
    assemble("{");
    assert_int_equal(fixture.seen.assembled, 2);
    assert_int_equal(fixture.seen.last.code, HANDOFF_ERR_INVALID_JSON);
    assert_string_equal(fixture.seen.target, "");
    handoff_client_stats(fixture.client, &stats);
    assert_true(stats.store_bytes > 0);
    assert_true(stats.spine_up);
    assert_false(stats.exact_tokens);
}

/* ---- memories ------------------------------------------------------------------------------ */

static void test_memories_are_put_and_read(void **state)
{
    (void)state;
    put("ms-1",
        "{\"content\":\"c\",\"summary\":\"s\",\"importance\":\"high\",\"tags\":[\"a\",\"b\"],"
        "\"metadata\":{\"n\":1.50},\"pinned\":true}");
    assert_int_equal(fixture.asked.code, HANDOFF_OK);
    assert_true(fixture.asked.created);
    char *stored = strdup(fixture.asked.body);
    assert_non_null(
        strstr(stored, "{\"id\":\"ms-1\",\"content\":\"c\",\"summary\":\"s\",\"importance\":"
                       "\"high\",\"tags\":[\"a\",\"b\"],\"metadata\":{\"n\":1.50},\"pinned\":"
                       "true,\"agent\":null,\"scope\":\"\",\"task_id\":null,\"created_at\":\"2"));
    handoff_memory_get(fixture.loop, "ms-1", NULL, answered, &fixture.asked);
    wait_for_answer();
    assert_string_equal(fixture.asked.body, stored);
    put("ms-1", stored); /* what was answered may be sent back */
    assert_int_equal(fixture.asked.code, HANDOFF_OK);
    assert_false(fixture.asked.created);
    handoff_memory_pin(fixture.loop, "ms-1", false, NULL, answered, &fixture.asked);
    wait_for_answer();
    assert_non_null(strstr(fixture.asked.body, "\"pinned\":false"));
    handoff_memory_delete(fixture.loop, "ms-1", NULL, answered, &fixture.asked);
    wait_for_answer();
    assert_int_equal(fixture.asked.code, HANDOFF_OK);
    assert_null(fixture.asked.body);
    handoff_memory_get(fixture.loop, "ms-1", NULL, answered, &fixture.asked);
    wait_for_answer();
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_NOT_FOUND);
    handoff_memory_delete(fixture.loop, "ms-1", NULL, answered, &fixture.asked);
    wait_for_answer();
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_NOT_FOUND);
    handoff_memory_pin(fixture.loop, "ms-1", true, NULL, answered, &fixture.asked);
    wait_for_answer();
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_NOT_FOUND);
    free(stored);
}

static void test_memories_that_are_refused(void **state)
{
    (void)state;
    char large[1200] = "{\"content\":\"";
    size_t begin = strlen(large);
    memset(large + begin, 'x', 1001);
    strcpy(large + begin + 1001, "\"}");
    const struct {
        const char *id, *body, *code, *field;
    } rows[] = {
        {"m", "", "invalid_json", "body"},
        {"m", "[]", "invalid_request", "body"},
        {"m", "{}", "invalid_request", "content"},
        {"m", "{\"content\":\"\"}", "invalid_request", "content"},
        {"m", "{\"content\":1}", "invalid_request", "content"},
        {"m", "{\"content\":\"c\",\"content\":\"d\"}", "invalid_request", "content"},
        {"m", "{\"content\":\"c\",\"sumary\":\"s\"}", "invalid_request", "sumary"},
        {"m", "{\"content\":\"c\",\"summary\":[]}", "invalid_request", "summary"},
        {"m", "{\"content\":\"c\",\"importance\":\"urgent\"}", "invalid_request", "importance"},
        {"m", "{\"content\":\"c\",\"importance\":3}", "invalid_request", "importance"},
        {"m", "{\"content\":\"c\",\"tags\":\"t\"}", "invalid_request", "tags"},
        {"m", "{\"content\":\"c\",\"tags\":[1]}", "invalid_request", "tags[0]"},
        {"m", "{\"content\":\"c\",\"tags\":[\"\"]}", "invalid_request", "tags[0]"},
        {"m", "{\"content\":\"c\",\"metadata\":[]}", "invalid_request", "metadata"},
        {"m", "{\"content\":\"c\",\"pinned\":1}", "invalid_request", "pinned"},
        {"m", "{\"content\":\"c\",\"id\":\"n\"}", "invalid_request", "id"},
        {"a b", "{\"content\":\"c\"}", "invalid_request", "id"},
        {"m", "{\"content\":\"c\",\"metadata\":{\"kind\":\"conversation\"}}", "raw_log", "summary"},
        {"m", large, "too_large", "content"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put(rows[i].id, rows[i].body);
        assert_string_equal(handoff_code_name(fixture.asked.code), rows[i].code);
        assert_string_equal(fixture.asked.field, rows[i].field);
    }
    put("m", "{\"content\":\"c\",\"summary\":\"s\",\"metadata\":{\"kind\":\"conversation\"}}");
    assert_int_equal(fixture.asked.code, HANDOFF_OK);
}

static void list(const struct handoff_memory_query *query)
{
    handoff_memory_list(fixture.loop, query, answered, &fixture.asked);
    wait_for_answer();
}

static void test_memories_are_listed_by_page(void **state)
{
    (void)state;
    char id[16], cursor[512] = "";
    int seen = 0;
    for (int i = 0; i < 7; i++) {
        snprintf(id, sizeof(id), "m%d", i);
        put(id, i == 3 ? "{\"content\":\"c\",\"pinned\":true}" : "{\"content\":\"c\"}");
    }
    do {
        struct handoff_memory_query query = {.limit = 3, .cursor = *cursor ? cursor : NULL};
        list(&query);
        assert_int_equal(fixture.asked.code, HANDOFF_OK);
        yyjson_doc *doc = yyjson_read(fixture.asked.body, strlen(fixture.asked.body), 0);
        seen += (int)yyjson_arr_size(yyjson_doc_ptr_get(doc, "/items"));
        yyjson_doc_free(doc);
        snprintf(cursor, sizeof(cursor), "%s", text_at("/next"));
    } while (strcmp(cursor, "(none)") != 0);
    assert_int_equal(seen, 7);
    list(&(struct handoff_memory_query){.pinned = true});
    assert_string_equal(text_at("/items/0/id"), "m3");
    assert_string_equal(text_at("/items/1/id"), "(none)");
    list(&(struct handoff_memory_query){.cursor = "made up"});
    assert_int_equal(fixture.asked.code, HANDOFF_ERR_INVALID_CURSOR);
    list(&(struct handoff_memory_query){.limit = 100000});
    assert_string_equal(fixture.asked.field, "limit");
}

static void test_memories_are_found_by_relevance(void **state)
{
    (void)state;
    put("cats", "{\"content\":\"cats sleep all day\"}");
    put("pay", "{\"content\":\"payments are retried\"}");
    list(&(struct handoff_memory_query){.query = "retried payments", .recent = 1});
    assert_string_equal(text_at("/items/0/id"), "pay");
    assert_string_equal(text_at("/items/1/id"), "(none)");
    list(&(struct handoff_memory_query){.recent = 5});
    assert_string_not_equal(text_at("/items/1/id"), "(none)");
    assert_string_equal(text_at("/items/2/id"), "(none)");
}

/* ---- opening ------------------------------------------------------------------------------- */

static void test_what_keeps_a_client_from_opening(void **state)
{
    (void)state;
    struct handoff_client *second;
    struct handoff_error error;
    struct handoff_options options = {.storage_path = fixture.directory};
    assert_int_equal(handoff_client_open(&second, &options, &error), HANDOFF_ERR_STORE_LOCKED);
    assert_null(second);
    options.storage_path = "/proc/nowhere";
    assert_int_not_equal(handoff_client_open(&second, &options, &error), HANDOFF_OK);
    assert_string_equal(error.field, "storage.path");
    options.encoding = "p50k_base";
    assert_int_equal(handoff_client_open(&second, &options, &error), HANDOFF_ERR_UNKNOWN_ENCODING);
}

static void test_a_missing_vocabulary_is_told(void **state)
{
    (void)state;
    struct handoff_client *second;
    struct handoff_error error;
    char *directory = temp_directory();
    struct handoff_options options = {.storage_path = directory, .vocabulary_dir = directory};
    assert_int_equal(handoff_client_open(&second, &options, &error), HANDOFF_OK);
    assert_string_equal(handoff_tokenizer_encoding(handoff_client_tokenizer(second, &error)),
                        "estimate");
    assert_int_equal(error.code, HANDOFF_ERR_VOCABULARY_MISSING);
    handoff_client_close(&second);
    handoff_client_close(&second);
    temp_remove(directory);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_client, close_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_assembled_stored_and_served),
        TEST(test_envelopes_that_are_not_there),
        TEST(test_an_envelope_is_its_parties_to_see),
        TEST(test_only_a_party_may_continue_an_envelope),
        TEST(test_configured_agents),
        TEST(test_the_next_agent_of_a_pipeline),
        TEST(test_refusals_name_their_field),
        TEST(test_the_spine_finds_what_matters),
        TEST(test_token_counts_are_kept),
        TEST(test_events),
        TEST(test_memories_are_put_and_read),
        TEST(test_memories_that_are_refused),
        TEST(test_memories_are_listed_by_page),
        TEST(test_memories_are_found_by_relevance),
        TEST(test_what_keeps_a_client_from_opening),
        TEST(test_a_missing_vocabulary_is_told),
    };
    return RUN_TESTS(tests);
}
