/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The assembly as a whole: envelopes for thousands of random spines, requests and budgets, chains
 * of twelve hops, and the golden pair. What is checked is read back from the bytes, by a reader and
 * a token counter that know nothing of how they were made.
 */
#include "tests/support/property.h"
#include "tests/support/unit.h"

#include <string.h>

#include "client/assemble/assemble.h"
#include "client/calls/render.h"
#include "lib/base/json.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fake_spine.h"
#include "tests/support/files.h"
#include "tests/support/temp_store.h"

struct world {
    struct handoff_assembler assembler;
    struct handoff_tokenizer *tokenizer;
    struct handoff_tokenizer *exact[2]; /* NULL where it is not installed */
    struct handoff_store *store;
    struct base_manual_clock clock;
    struct base_uuid_source uuids;
    struct fake_spine spine;
    struct base_mailbox mailbox;
    char *directory;
    uint64_t token_budget;
    size_t first_block; /* of an assembly's arena; 0: as large as usual */
    bool dual;
    bool finished;
};

static struct world world;

static int open_world(void **state)
{
    (void)state;
    struct handoff_store_options options = {.durability = HANDOFF_DURABILITY_NONE};
    world.directory = temp_directory();
    options.path = world.directory;
    assert_int_equal(handoff_store_open(&world.store, &options, NULL), HANDOFF_OK);
    assert_int_equal(base_mailbox_init(&world.mailbox, NULL), HANDOFF_OK);
    world.exact[0] = handoff_tokenizer_open_encoding("o200k_base", NULL, NULL);
    world.exact[1] = handoff_tokenizer_open_encoding("cl100k_base", NULL, NULL);
    base_manual_clock_init(&world.clock, 1769592600250);
    base_uuid_source_init(&world.uuids, &world.clock.clock, NULL);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    handoff_tokenizer_close(&world.tokenizer);
    handoff_tokenizer_close(&world.exact[0]);
    handoff_tokenizer_close(&world.exact[1]);
    handoff_store_close(&world.store);
    base_mailbox_run(&world.mailbox);
    base_mailbox_free(&world.mailbox);
    temp_remove(world.directory);
    return 0;
}

/* False where the vocabulary is not installed. */
static bool use_encoding(const char *encoding)
{
    struct handoff_error why;
    handoff_tokenizer_close(&world.tokenizer);
    world.tokenizer = handoff_tokenizer_open_encoding(encoding, NULL, &why);
    if (!world.tokenizer) {
        print_message("%s is not installed: %s\n", encoding, why.message);
        return false;
    }
    world.assembler = (struct handoff_assembler){
        .tokenizer = world.tokenizer,
        .spine = &world.spine.spine,
        .store = world.store,
        .clock = &world.clock.clock,
        .random = &base_random_system,
        .uuids = &world.uuids,
        .memory_max_bytes = 64 * 1024,
    };
    world.token_budget = 8000;
    world.dual = false;
    assert_int_equal(handoff_assembler_prepare(&world.assembler, NULL), HANDOFF_OK);
    return true;
}

static const char *const encodings[] = {"o200k_base", "cl100k_base", "estimate"};

static enum handoff_code target_of_world(struct handoff_assembly *assembly)
{
    assembly->token_budget = world.token_budget;
    assembly->dual = world.dual;
    return HANDOFF_OK;
}

static void finish(struct handoff_assembly *assembly)
{
    (void)assembly;
    world.finished = true;
}

static enum handoff_code run_to_end(struct handoff_assembly *assembly)
{
    world.finished = false;
    assembly->finished = finish;
    if (handoff_assembly_run(assembly)) {
        assert_false(world.finished);
    } else {
        while (!world.finished)
            assert_int_equal(base_mailbox_wait(&world.mailbox, 5000), 1);
    }
    return assembly->error.code;
}

static enum handoff_code assemble(struct handoff_assembly *assembly, const char *body)
{
    *assembly = (struct handoff_assembly){.arena = {.block_size = world.first_block},
                                          .with = &world.assembler,
                                          .mailbox = &world.mailbox,
                                          .hop_max = 12,
                                          .body = base_span_text(body),
                                          .target = target_of_world};
    return run_to_end(assembly);
}

static void persist(struct handoff_assembly *assembly)
{
    struct handoff_store_put_envelope put = {.id = assembly->id,
                                             .task_id = assembly->task_id,
                                             .body = base_buffer_span(&assembly->out),
                                             .cut_at = HANDOFF_DIGEST_AT,
                                             .cut_size = HANDOFF_DIGEST_SIZE,
                                             .created_ms = assembly->created_ms,
                                             .contribution =
                                                 base_buffer_span(&assembly->contribution),
                                             .parents = assembly->chain.parent_ids,
                                             .nparents = assembly->chain.nparents,
                                             .hop = assembly->hop_count,
                                             .source = assembly->request.source_agent,
                                             .target = assembly->request.target_agent};
    memcpy(put.digest, assembly->digest, sizeof(put.digest));
    assert_int_equal(temp_put(world.store, &put), HANDOFF_OK);
}

static size_t count_tokens(const char *text, size_t size)
{
    size_t tokens;
    assert_int_equal(handoff_tokens_count(world.tokenizer, text, size, &tokens), HANDOFF_OK);
    return tokens;
}

static int64_t number_at(yyjson_val *root, const char *object, const char *name)
{
    int64_t number = -1;
    base_json_whole(yyjson_obj_get(yyjson_obj_get(root, object), name), &number);
    return number;
}

/* An answer that copies what it tells is the same as one that reads the envelope. */
static void check_answer(const struct handoff_assembly *assembly)
{
    struct base_buffer copied = {0}, read = {0};
    struct handoff_status status = {.label = {.source = assembly->request.source_agent,
                                              .task_id = assembly->task_id,
                                              .created_ms = assembly->created_ms},
                                    .envelope = base_buffer_span(&assembly->out),
                                    .state = HANDOFF_STATE_ACKNOWLEDGED,
                                    .target = "b",
                                    .words = ""};
    struct base_arena arena = {0};
    handoff_object_write(&read, &status);
    status.excerpt =
        handoff_excerpt_copy(&assembly->excerpt, status.envelope, assembly->plan.count, &arena);
    assert_non_null(status.excerpt.data);
    status.envelope = base_span("", 0);
    handoff_object_write(&copied, &status);
    assert_string_equal(copied.data, read.data);
    base_arena_free(&arena);
    base_buffer_free(&copied);
    base_buffer_free(&read);
}

static size_t omitted_at(yyjson_val *root, const char *name)
{
    int64_t number = 0;
    base_json_whole(yyjson_obj_get(yyjson_obj_get(root, "omitted"), name), &number);
    return (size_t)number;
}

/* `*recent` stands for what would have been found, which nobody requested. */
static size_t count_missing_requested(yyjson_val *root)
{
    size_t i, n, count = 0;
    yyjson_val *entry;
    yyjson_arr_foreach(yyjson_obj_get(root, "missing"), i, n, entry)
    {
        count += !yyjson_equals_str(yyjson_obj_get(entry, "id"), "*recent");
    }
    return count;
}

/* What was found was not requested; what is there in any form is included. */
static void check_completeness(const struct handoff_assembly *assembly, yyjson_val *root)
{
    size_t included = 0, left_out = assembly->beyond;
    for (size_t i = 0; i < assembly->nslots; i++) {
        if (assembly->slots[i].rank == HANDOFF_RANK_FOUND)
            continue;
        if (assembly->plan.memories[i].form == HANDOFF_FORM_NONE)
            left_out++;
        else
            included++;
    }
    assert_int_equal(included, number_at(root, "completeness", "included"));
    assert_int_equal(left_out + assembly->unsought, omitted_at(root, "references"));
    assert_int_equal(included + left_out + count_missing_requested(root),
                     number_at(root, "completeness", "requested"));
}

/* Those that are no lists of the ledger. */
static size_t count_members(yyjson_val *state)
{
    size_t count = yyjson_obj_size(state);
    for (unsigned part = HANDOFF_PART_DECISIONS; part < HANDOFF_PART_STEPS; part++)
        count -= yyjson_obj_get(state, handoff_part_name(part)) != NULL;
    return count;
}

/* Every entry of the ledger is in the context or counted, and a path says where it is. */
static void check_omitted(const struct handoff_assembly *assembly,
                          const struct handoff_envelope *envelope)
{
    static const enum handoff_item_kind kinds[HANDOFF_LISTS] = {
        HANDOFF_ITEM_STATE, HANDOFF_ITEM_DECISION, HANDOFF_ITEM_UNRESOLVED, HANDOFF_ITEM_REMAINING,
        HANDOFF_ITEM_STEP};
    yyjson_val *root = yyjson_doc_get_root(envelope->doc);
    size_t omitted = omitted_at(root, "references") + omitted_at(root, "reasons");
    for (unsigned part = 0; part < HANDOFF_LISTS; part++) {
        yyjson_val *list = part == HANDOFF_PART_STEPS
                               ? envelope->history
                               : yyjson_obj_get(envelope->state, handoff_part_name(part));
        const size_t left_out = omitted_at(root, handoff_part_name(part));
        omitted += left_out;
        const size_t shown =
            part == HANDOFF_PART_STATE ? count_members(envelope->state) : yyjson_arr_size(list);
        assert_int_equal(shown + left_out, assembly->ledger.items[kinds[part]].count);
    }
    assert_int_equal(omitted > 0, yyjson_obj_get(root, "omitted") != NULL);
    if (omitted > 0) {
        char more[64];
        snprintf(more, sizeof(more), "/v1/envelopes/%s/ledger", assembly->id_text);
        assert_string_equal(yyjson_get_str(yyjson_obj_get(yyjson_obj_get(root, "omitted"), "more")),
                            more);
    }
}

/* An estimate is never less than the true count of either encoding. */
static void check_upper_bound(int64_t count, const struct base_buffer *context)
{
    for (int i = 0; i < 2; i++) {
        size_t tokens = 0;
        if (world.exact[i])
            assert_int_equal(
                handoff_tokens_count(world.exact[i], context->data, context->size, &tokens),
                HANDOFF_OK);
        assert_true(count >= (int64_t)tokens);
    }
}

/* Everything that holds for every envelope. */
static void check_envelope(const struct handoff_assembly *assembly)
{
    struct base_span text = base_buffer_span(&assembly->out);
    struct handoff_envelope envelope;
    struct base_buffer context = {0};
    assert_true(handoff_digest_verify(text));
    assert_int_equal(handoff_envelope_read(text, &envelope, NULL), HANDOFF_OK);
    yyjson_val *root = yyjson_doc_get_root(envelope.doc);
    base_json_write(&context, envelope.context);
    int64_t count = number_at(root, "tokens", "count");
    if (strcmp(handoff_tokenizer_encoding(world.tokenizer), "estimate") == 0)
        check_upper_bound(count, &context);
    else
        assert_int_equal(count, count_tokens(context.data, context.size));
    assert_true(count <= number_at(root, "tokens", "budget"));
    assert_int_equal(yyjson_arr_size(envelope.memories) +
                         yyjson_arr_size(yyjson_obj_get(envelope.context, "references")),
                     yyjson_arr_size(yyjson_obj_get(root, "memory_refs")));
    check_completeness(assembly, root);
    check_omitted(assembly, &envelope);
    check_answer(assembly);
    base_buffer_free(&context);
    handoff_envelope_free(&envelope);
}

/* ---- random texts, spines and requests ----------------------------------------------------- */

/* What tokenizers find difficult, at the ends of texts too. */
static void add_text(struct base_buffer *out, struct property *property, uint32_t most)
{
    static const char *const parts[] = {
        "the gateway ",
        "retry",
        " 503",
        "1234567",
        "\\n\\n",
        "  ",
        "\\t",
        "'s",
        "'ll",
        "'D",
        "\\\"",
        "\\\\",
        "},{",
        "],",
        "id",
        "\\u0001",
        "Größe",
        "日本語",
        "👩‍👩‍👧",
        "e\u0301",
        "\u2028",
        "\u00a0",
        "Ж",
        "...",
        "://",
        "/*",
        "CamelCase",
        "x=1;",
        "\\r\\n",
        "ǅ",
        "٣",
        "'",
    };
    uint32_t count = property_below(property, most);
    for (uint32_t i = 0; i < count; i++)
        base_buffer_text(out, parts[property_below(property, sizeof(parts) / sizeof(parts[0]))]);
}

/* The same as it is outside JSON. */
static char *plain_text(struct property *property, uint32_t most)
{
    struct base_buffer json = {0};
    yyjson_doc *doc;
    base_buffer_byte(&json, '"');
    base_buffer_byte(&json, 'x');
    add_text(&json, property, most);
    base_buffer_byte(&json, '"');
    assert_int_equal(base_json_read(base_buffer_span(&json), "t", &doc, NULL), HANDOFF_OK);
    char *text = strdup(yyjson_get_str(yyjson_doc_get_root(doc)));
    yyjson_doc_free(doc);
    base_buffer_free(&json);
    return text;
}

static struct {
    char *texts[4 * FAKE_MEMORIES_MAX];
    struct base_span tags[FAKE_MEMORIES_MAX][2];
    size_t count;
} owned;

static char *own(char *text)
{
    owned.texts[owned.count++] = text;
    return text;
}

static void free_owned(void)
{
    for (size_t i = 0; i < owned.count; i++)
        free(owned.texts[i]);
    owned.count = 0;
}

static void make_spine(struct property *property)
{
    static char ids[FAKE_MEMORIES_MAX][12];
    fake_spine_init(&world.spine);
    uint32_t count = property_below(property, 30);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(ids[i], sizeof(ids[i]), i % 9 == 8 ? "m%u-" : "m%u", i); /* - : not a plain id */
        char *summary = property_chance(property, 60) ? own(plain_text(property, 10)) : NULL;
        struct handoff_found_memory *found =
            fake_add(&world.spine, ids[i], own(plain_text(property, 120)), summary);
        found->memory.importance = (enum handoff_importance)property_below(property, 4);
        found->memory.pinned = property_chance(property, 15);
        found->relevance = (double)property_below(property, 100) / 100;
        if (property_chance(property, 5))
            found->memory.metadata = base_span_text("{\"kind\":\"conversation\"}");
        for (size_t t = 0; t < 2 && property_chance(property, 50); t++) {
            owned.tags[i][t] = base_span_text(own(plain_text(property, 4)));
            found->memory.tags = owned.tags[i];
            found->memory.tag_count = t + 1;
        }
    }
    world.spine.later = property_chance(property, 20);
    world.spine.failure = property_chance(property, 5) ? HANDOFF_ERR_STORE_IO : HANDOFF_OK;
}

static void add_quoted(struct base_buffer *out, struct property *property, const char *key,
                       uint32_t most)
{
    base_buffer_printf(out, "\"%s\":\"x", key);
    add_text(out, property, most);
    base_buffer_text(out, "\"");
}

static void add_steps(struct base_buffer *out, struct property *property)
{
    uint32_t count = property_below(property, 6);
    base_buffer_text(out, ",\"execution_history\":[");
    for (uint32_t i = 0; i < count; i++) {
        base_buffer_text(out, i ? ",{" : "{");
        add_quoted(out, property, "agent", 2);
        base_buffer_byte(out, ',');
        add_quoted(out, property, "action", 12);
        static const char *const names[] = {"decision", "reason", "extra"};
        for (int name = 0; name < 3; name++) {
            if (!property_chance(property, 40))
                continue;
            base_buffer_byte(out, ',');
            add_quoted(out, property, names[name], 8);
        }
        base_buffer_byte(out, '}');
    }
    base_buffer_byte(out, ']');
}

/* An entry of a list: any JSON, and some of nothing but symbols. */
static void add_entry(struct base_buffer *out, struct property *property)
{
    static const char *const others[] = {"true",   "null",        "-1.50e3",  "[]",
                                         "{}",     "12",          "\"\"",     "[[1]]",
                                         "\"!!\"", "\"\\u0301\"", "\"🙂\"", "\"'s\""};
    const uint32_t kind = property_below(property, 10);
    if (kind == 0) {
        base_buffer_text(out, others[property_below(property, sizeof(others) / sizeof(others[0]))]);
    } else if (kind < 3) {
        base_buffer_byte(out, '{');
        add_quoted(out, property, "id", 6);
        base_buffer_byte(out, '}');
    } else {
        base_buffer_text(out, kind < 6 ? "\"" : "\"entry ");
        add_text(out, property, 12);
        base_buffer_text(out, property_chance(property, 50) ? "\"" : " end\"");
    }
}

static void add_state(struct base_buffer *out, struct property *property)
{
    static const char *const names[] = {"decisions", "unresolved", "remaining"};
    base_buffer_text(out, ",\"state\":{");
    if (property_chance(property, 50))
        add_quoted(out, property, "progress", 4);
    for (int i = 0; i < 3; i++) {
        if (property_chance(property, 40))
            continue;
        base_json_write_key(out, base_span_text(names[i]));
        base_buffer_byte(out, '[');
        for (uint32_t n = property_below(property, 8); n > 0; n--) {
            add_entry(out, property);
            base_buffer_text(out, n > 1 ? "," : "");
        }
        base_buffer_byte(out, ']');
    }
    base_buffer_byte(out, '}');
}

static const char *make_request(struct base_buffer *out, struct property *property,
                                const char *previous)
{
    static const char *const strategies[] = {"priority", "priority", "full", "summary", "lazy"};
    base_buffer_clear(out);
    base_buffer_text(out, "{\"source_agent\":\"a\",\"target_agent\":\"b\",");
    add_quoted(out, property, "task_summary", 20);
    base_buffer_byte(out, ',');
    add_quoted(out, property, "intent", 12);
    add_steps(out, property);
    if (property_chance(property, 80))
        add_state(out, property);
    base_buffer_printf(out, ",\"strategy\":\"%s\",\"include_recent\":%u",
                       strategies[property_below(property, 5)], property_below(property, 20));
    if (property_chance(property, 30))
        base_buffer_text(out, ",\"include_pins\":false");
    base_buffer_text(out, ",\"memory_ids\":[\"m0\"");
    for (uint32_t i = property_below(property, 12); i > 0; i--)
        base_buffer_printf(out, property_chance(property, 30) ? ",\"m%u-\"" : ",\"m%u\"",
                           property_below(property, 40));
    base_buffer_text(out, "],\"constraints\":{");
    add_quoted(out, property, "style", 4);
    if (property_chance(property, 90) && !previous)
        base_buffer_printf(out, ",\"max_tokens\":%u", 60 + property_below(property, 4000));
    base_buffer_text(out, "},\"expected_output\":{");
    add_quoted(out, property, "format", 4);
    base_buffer_byte(out, '}');
    if (previous)
        base_buffer_printf(out, ",\"previous_id\":\"%s\"", previous);
    base_buffer_byte(out, '}');
    assert_false(out->failed);
    return out->data;
}

/* Where nothing was omitted, every pinned memory is there. */
static void check_pins(const struct handoff_assembly *assembly)
{
    if (assembly->items.of[HANDOFF_PART_REFERENCES][HANDOFF_PRESENCE_OMITTED] > 0)
        return;
    for (size_t i = 0; i < assembly->nslots; i++) {
        if (assembly->slots[i].rank == HANDOFF_RANK_PINNED)
            assert_int_not_equal(assembly->plan.memories[i].form, HANDOFF_FORM_NONE);
    }
}

/* Assembles the same with the budget, which also stands in the constraints if one did. */
static enum handoff_code assemble_within(struct handoff_assembly *again, const char *body,
                                         int64_t budget)
{
    char *other = NULL;
    const char *at = strstr(body, "\"max_tokens\":");
    uint64_t before = world.token_budget;
    world.token_budget = (uint64_t)budget;
    if (at) /* the last of the constraints */
        assert_true(asprintf(&other, "%.*s\"max_tokens\":%lld%s", (int)(at - body), body,
                             (long long)budget, at + strcspn(at, "}")) > 0);
    enum handoff_code code = assemble(again, other ? other : body);
    if (code == HANDOFF_OK)
        check_envelope(again);
    world.token_budget = before;
    free(other);
    return code;
}

/* The budget that a refusal names is one that works, and there is no smaller one. */
static void check_needed(const struct handoff_assembly *refused, const char *body)
{
    struct handoff_assembly again;
    int64_t needed = refused->error.needed;
    assert_true(needed > (int64_t)refused->budget);
    assert_int_equal(assemble_within(&again, body, needed), HANDOFF_OK);
    handoff_assembly_free(&again);
    assert_int_equal(assemble_within(&again, body, needed - 1), HANDOFF_ERR_BUDGET_TOO_SMALL);
    handoff_assembly_free(&again);
}

enum { ROUNDS = 1500 };

static void random_envelopes(const char *encoding)
{
    struct property property = property_begin(encoding);
    struct base_buffer request = {0};
    size_t refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct handoff_assembly assembly;
        make_spine(&property);
        const char *body = make_request(&request, &property, NULL);
        enum handoff_code code = assemble(&assembly, body);
        if (code == HANDOFF_ERR_BUDGET_TOO_SMALL) {
            refused++;
            check_needed(&assembly, body);
        } else {
            assert_int_equal(code, HANDOFF_OK);
            check_envelope(&assembly);
            check_pins(&assembly);
        }
        handoff_assembly_free(&assembly);
        free_owned();
    }
    assert_true(refused > 0 && refused < ROUNDS / 2);
    base_buffer_free(&request);
}

static void test_random_envelopes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++) {
        if (use_encoding(encodings[i]))
            random_envelopes(encodings[i]);
    }
}

/* ---- chains -------------------------------------------------------------------------------- */

static void assert_chained(const struct handoff_assembly *child,
                           const struct handoff_envelope *first, const char *parent_id, int hop)
{
    struct handoff_envelope envelope;
    assert_int_equal(handoff_envelope_read(base_buffer_span(&child->out), &envelope, NULL),
                     HANDOFF_OK);
    yyjson_val *previous = yyjson_obj_get(yyjson_doc_get_root(envelope.doc), "previous");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(previous, "id")), parent_id);
    assert_true(base_span_equal(base_json_span(yyjson_obj_get(previous, "digest")),
                                child->chain.parents[0].digest));
    assert_true(base_span_equal(envelope.intent, first->intent));
    assert_true(base_span_equal(envelope.task_id, first->task_id));
    assert_true(base_span_equal(envelope.traceparent, first->traceparent));
    assert_true(base_json_equal(envelope.constraints, first->constraints));
    assert_int_equal(envelope.hop_count, hop);
    assert_int_equal(yyjson_arr_size(envelope.path), hop - 1);
    handoff_envelope_free(&envelope);
}

/* The style is the request's own and random, so a child repeats the parent's by leaving it out. */
static const char *child_request(struct base_buffer *out, struct property *property,
                                 const char *previous)
{
    make_request(out, property, previous);
    char *begin = strstr(out->data, "\"constraints\":{"), *end = strstr(begin, "},\"expected");
    memmove(begin + 15, end, strlen(end) + 1);
    return out->data;
}

static void chain_of_twelve(struct property *property)
{
    struct base_buffer request = {0};
    struct handoff_assembly assembly;
    struct handoff_envelope first;
    char parent_id[BASE_UUID_TEXT];
    world.token_budget = 1000000;
    make_spine(property);
    char *head = strdup(make_request(&request, property, NULL));
    char *limit = strstr(head, ",\"max_tokens\"");
    if (limit)
        memmove(limit, strchr(limit, '}'), strlen(strchr(limit, '}')) + 1);
    assert_int_equal(assemble(&assembly, head), HANDOFF_OK);
    assert_int_equal(handoff_envelope_read(base_buffer_span(&assembly.out), &first, NULL),
                     HANDOFF_OK);
    for (int hop = 2;; hop++) {
        persist(&assembly);
        strcpy(parent_id, assembly.id_text);
        handoff_assembly_free(&assembly);
        enum handoff_code code = assemble(&assembly, child_request(&request, property, parent_id));
        if (hop == 13) {
            assert_int_equal(code, HANDOFF_ERR_HOP_LIMIT);
            break;
        }
        assert_int_equal(code, HANDOFF_OK);
        check_envelope(&assembly);
        assert_chained(&assembly, &first, parent_id, hop);
    }
    handoff_assembly_free(&assembly);
    handoff_envelope_free(&first);
    base_buffer_free(&request);
    free_owned();
    free(head);
}

static void test_chains_of_twelve_hops(void **state)
{
    (void)state;
    struct property property = property_begin("chains");
    if (!use_encoding("o200k_base"))
        use_encoding("estimate");
    for (int round = 0; round < 40; round++)
        chain_of_twelve(&property);
}

#define BASE "{\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":\"s\""

static void test_what_a_chain_refuses(void **state)
{
    (void)state;
    struct handoff_assembly parent, child;
    char body[512];
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    assert_int_equal(assemble(&parent, BASE ",\"task_id\":\"t\",\"constraints\":{\"max_cost\":5,"
                                            "\"style\":\"plain\"}}"),
                     HANDOFF_OK);
    persist(&parent);
    snprintf(body, sizeof(body),
             BASE ",\"previous_id\":\"%s\",\"constraints\":{\"max_cost\":6,"
                  "\"style\":null}}",
             parent.id_text);
    assert_int_equal(assemble(&child, body), HANDOFF_ERR_CONSTRAINT_LOOSENED);
    assert_string_equal(child.error.seen, "max_cost, style");
    assert_string_equal(child.error.allowed, "max_cost 5 of hop 1 (a), or tighter");
    handoff_assembly_free(&child);
    snprintf(body, sizeof(body), BASE ",\"previous_id\":\"%s\",\"task_id\":\"other\"}",
             parent.id_text);
    assert_int_equal(assemble(&child, body), HANDOFF_ERR_INVALID);
    assert_string_equal(child.error.field, "task_id");
    handoff_assembly_free(&child);
    assert_int_equal(
        assemble(&child, BASE ",\"previous_id\":\"0190aaaa-0000-7000-8000-0000000000ff\"}"),
        HANDOFF_ERR_NOT_FOUND);
    assert_string_equal(child.error.field, "previous_id");
    handoff_assembly_free(&child);
    snprintf(body, sizeof(body),
             BASE ",\"previous_id\":\"%s\",\"constraints\":{\"max_tokens\":300,"
                  "\"extra\":1}}",
             parent.id_text);
    assert_int_equal(assemble(&child, body), HANDOFF_OK);
    assert_int_equal(child.budget, 300);
    assert_true(handoff_assembly_is_cycle(&child) == false);
    handoff_assembly_free(&child);
    handoff_assembly_free(&parent);
}

static void test_repeated_history_is_not_added_twice(void **state)
{
    (void)state;
    struct handoff_assembly parent, child;
    char body[512];
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    assert_int_equal(assemble(&parent, BASE ",\"execution_history\":[{\"agent\":\"x\",\"action\":"
                                            "\"one\"}]}"),
                     HANDOFF_OK);
    persist(&parent);
    snprintf(body, sizeof(body),
             BASE
             ",\"previous_id\":\"%s\",\"execution_history\":[{\"action\":\"one\",\"agent\":\"x\"},"
             "{\"agent\":\"a\",\"action\":\"two\"}]}",
             parent.id_text);
    assert_int_equal(assemble(&child, body), HANDOFF_OK);
    assert_int_equal(child.plan.lists[HANDOFF_PART_STEPS]->kept,
                     3); /* the parent's summary is one as well */
    handoff_assembly_free(&child);
    handoff_assembly_free(&parent);
}

/* ---- the golden pair ----------------------------------------------------------------------- */

/* Replaces what is new in every envelope: its own id and digest, and those of its parent. */
static void mask(char *text)
{
    static const char *const marks[] = {"0190aaaa-0000-7000-8000-00000000000", "sha256:"};
    static const size_t lengths[] = {36, 71};
    for (char *at = text; (at = strstr(at, "\"id\":\"")) && at[14] == '-' && at[29] == '-'; at += 6)
        memset(at + 6, '#', lengths[0]);
    for (char *at = text; (at = strstr(at, marks[1])); at += lengths[1])
        memset(at, '#', lengths[1]);
}

static void assert_golden(const struct handoff_assembly *assembly, const char *path)
{
    struct base_span golden = files_read(path);
    char *made = strndup(assembly->out.data, assembly->out.size);
    mask((char *)(uintptr_t)golden.data);
    mask(made);
    assert_string_equal(made, golden.data);
    free(made);
    files_free(golden);
}

static char *words(size_t count)
{
    char *text = malloc(5 * count + 1);
    for (size_t i = 0; i < count; i++)
        memcpy(text + 5 * i, "word ", 6);
    return text;
}

static void test_golden(void **state)
{
    (void)state;
    static const struct base_span tags[] = {{"gateway", 7}, {"failure-modes", 13}};
    static const struct base_span found_by[] = {{"gateway", 7}, {"retry", 5}, {"logic", 5}};
    struct handoff_assembly first, child;
    if (!use_encoding("o200k_base")) {
        skip();
        return;
    }
    char *long_low = words(5079), *long_high = words(4000);
    fake_spine_init(&world.spine);
    base_manual_clock_init(&world.clock, 1769590800000);
    struct handoff_assembly given = {
        .given_traceparent =
            base_span_text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")};
    const char *request =
        "{\"source_agent\":\"researcher\",\"target_agent\":\"analyst\",\"task_id\":\"payments-17\","
        "\"intent\":\"Make payments survive a flaky gateway.\",\"task_summary\":\"Find out how the "
        "gateway fails.\",\"include_pins\":false,\"execution_history\":[{\"agent\":\"researcher\","
        "\"action\":\"gathered API docs\",\"memory_id\":\"ms-4821\"}],\"constraints\":{"
        "\"max_tokens\":8000,\"security\":\"no plaintext credentials\"}}";
    first = (struct handoff_assembly){.with = &world.assembler,
                                      .mailbox = &world.mailbox,
                                      .body = base_span_text(request),
                                      .hop_max = 10,
                                      .given_traceparent = given.given_traceparent,
                                      .target = target_of_world};
    assert_int_equal(run_to_end(&first), HANDOFF_OK);
    assert_golden(&first, "tests/golden/envelope-first.json");
    persist(&first);

    struct handoff_found_memory *pinned =
        fake_add(&world.spine, "ms-4824",
                 "Timeouts come in bursts;\nthe gateway answers 503 with \"Retry-After\".", NULL);
    pinned->memory.pinned = true;
    pinned->memory.importance = HANDOFF_IMPORTANCE_CRITICAL;
    pinned->memory.created_ms = 1769500800000;
    pinned->score = 1;
    pinned->words = &found_by[0];
    pinned->word_count = 1;
    pinned->memory.tags = tags;
    pinned->memory.tag_count = 2;
    struct handoff_found_memory *high =
        fake_add(&world.spine, "ms-4825", long_high,
                 "Exponential backoff with jitter, 3 retries – never for captures.");
    high->memory.importance = HANDOFF_IMPORTANCE_HIGH;
    high->memory.created_ms = 1769505300500;
    high->score = 0.7526;
    high->words = &found_by[1];
    high->word_count = 2;
    high->similar = 3;
    fake_add(&world.spine, "ms-4821", long_low, NULL)->memory.importance = HANDOFF_IMPORTANCE_LOW;
    base_manual_clock_advance(&world.clock, 1800250);
    char body[2048];
    snprintf(
        body, sizeof(body),
        "{\"source_agent\":\"analyst\",\"target_agent\":\"code-generator\",\"pattern\":"
        "\"choreographed\",\"previous_id\":\"%s\",\"task_summary\":\"Implement the retry logic for "
        "the payment gateway based on the analysis in memories ms-4821 through ms-4825.\","
        "\"state\":{\"progress\":\"analysis done\",\"decisions\":[\"retry idempotent calls only\"],"
        "\"unresolved\":[\"who alerts?\"],\"remaining\":[\"code\",\"tests\"]},\"memory_ids\":["
        "\"ms-4825\",\"ms-4822\",\"ms-4821\",\"ms-4825\"],\"include_recent\":2,\"execution_"
        "history\":[{\"agent\":"
        "\"analyst\",\"action\":\"recommended retry strategy\",\"decision\":\"backoff with "
        "jitter\","
        "\"reason\":\"bursts\",\"memory_id\":\"ms-4825\",\"at\":\"2026-01-28T09:20:00Z\"}],"
        "\"constraints\":{\"language\":\"python\",\"max_tokens\":4000,\"do_not\":[\"log card "
        "numbers\"]},\"expected_output\":{\"format\":\"patch\",\"length\":\"under 300 lines\","
        "\"criteria\":[\"tests pass\"]}}",
        first.id_text);
    child = (struct handoff_assembly){.with = &world.assembler,
                                      .mailbox = &world.mailbox,
                                      .body = base_span_text(body),
                                      .hop_max = 10,
                                      .given_traceparent = given.given_traceparent,
                                      .given_tracestate = base_span_text("vendor=1"),
                                      .target = target_of_world};
    assert_int_equal(run_to_end(&child), HANDOFF_OK);
    assert_golden(&child, "tests/golden/envelope-child.json");
    assert_false(handoff_assembly_is_cycle(&child));
    handoff_assembly_free(&first);
    handoff_assembly_free(&child);
    free(long_low);
    free(long_high);
}

/* ---- details ------------------------------------------------------------------------------- */

static yyjson_doc *assembled(const char *body)
{
    struct handoff_assembly assembly;
    yyjson_doc *doc;
    assert_int_equal(assemble(&assembly, body), HANDOFF_OK);
    check_envelope(&assembly);
    assert_int_equal(base_json_read(base_buffer_span(&assembly.out), "e", &doc, NULL), HANDOFF_OK);
    handoff_assembly_free(&assembly);
    return doc;
}

static const char *text_at(yyjson_doc *doc, const char *pointer)
{
    return yyjson_get_str(yyjson_doc_ptr_get(doc, pointer));
}

static void test_a_spine_that_is_away(void **state)
{
    (void)state;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    world.spine.failure = HANDOFF_ERR_STORE_IO;
    yyjson_doc *doc =
        assembled(BASE ",\"memory_ids\":[\"m2\",\"m1\",\"m2\"],\"include_recent\":5}");
    assert_string_equal(text_at(doc, "/missing/0/id"), "m1");
    assert_string_equal(text_at(doc, "/missing/1/id"), "m2");
    assert_string_equal(text_at(doc, "/missing/2/id"), "*pinned");
    assert_string_equal(text_at(doc, "/missing/3/id"), "*recent");
    assert_string_equal(text_at(doc, "/missing/3/reason"), "spine_unavailable");
    assert_int_equal(number_at(yyjson_doc_get_root(doc), "completeness", "requested"), 3);
    yyjson_doc_free(doc);
}

/* What it found is there. */
static void test_a_search_that_was_cut(void **state)
{
    (void)state;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    fake_add(&world.spine, "m1", "found in time", NULL);
    world.spine.cut = true;
    yyjson_doc *doc = assembled(BASE ",\"include_recent\":5}");
    assert_string_equal(text_at(doc, "/missing/0/id"), "*recent");
    assert_string_equal(text_at(doc, "/missing/0/reason"), "search_incomplete");
    assert_string_equal(text_at(doc, "/memory_refs/0"), "m1");
    assert_int_equal(number_at(yyjson_doc_get_root(doc), "completeness", "requested"), 0);
    yyjson_doc_free(doc);
}

/* Whether a word is an id of a memory is not known while the spine is away. */
static void test_what_a_text_names_is_missing_while_the_spine_is_away(void **state)
{
    (void)state;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    world.spine.failure = HANDOFF_ERR_STORE_IO;
    yyjson_doc *doc = assembled("{\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":"
                                "\"Use ms-1 through ms-2\",\"include_pins\":false}");
    assert_string_equal(text_at(doc, "/missing/0/id"), "ms-1");
    assert_string_equal(text_at(doc, "/missing/1/id"), "ms-2");
    assert_string_equal(text_at(doc, "/missing/1/reason"), "spine_unavailable");
    assert_int_equal(number_at(yyjson_doc_get_root(doc), "completeness", "requested"), 2);
    yyjson_doc_free(doc);
}

static void test_what_no_memory_can_be_called_is_missing(void **state)
{
    (void)state;
    use_encoding("estimate");
    for (int away = 0; away < 2; away++) {
        fake_spine_init(&world.spine);
        fake_add(&world.spine, "m-1", "content", NULL);
        world.spine.failure = away ? HANDOFF_ERR_STORE_IO : HANDOFF_OK;
        yyjson_doc *doc = assembled(
            BASE ",\"include_pins\":false,\"memory_ids\":[\"m-1\"],\"execution_history\":"
                 "[{\"agent\":\"a\",\"action\":\"wrote\",\"memory_id\":\"the note/1\"}]}");
        yyjson_val *missing = yyjson_obj_get(yyjson_doc_get_root(doc), "missing");
        assert_int_equal(yyjson_arr_size(missing), away ? 2 : 1);
        yyjson_val *last = yyjson_arr_get_last(missing);
        assert_string_equal(yyjson_get_str(yyjson_obj_get(last, "id")), "the note/1");
        assert_string_equal(yyjson_get_str(yyjson_obj_get(last, "reason")), "not_found");
        yyjson_doc_free(doc);
    }
}

/* ---- more references than may be asked for at once ------------------------------------------- */

static void add_numbered_ids(struct base_buffer *out, const char *prefix, int count)
{
    for (int i = 1; i <= count; i++)
        base_buffer_printf(out, "%s\"%s-%d\"", i > 1 ? "," : "", prefix, i);
}

static size_t count_asked(const struct handoff_assembly *assembly, const char *prefix)
{
    size_t count = 0;
    for (size_t i = 0; i < assembly->nids; i++)
        count += strncmp(assembly->ids[i].data, prefix, strlen(prefix)) == 0;
    return count;
}

static void test_of_too_many_references_the_newest_are_looked_up(void **state)
{
    (void)state;
    struct handoff_assembly first, second;
    struct base_buffer body = {0};
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    world.token_budget = 100000;
    base_buffer_text(&body, BASE ",\"memory_ids\":[");
    add_numbered_ids(&body, "old", 900);
    base_buffer_text(&body, "]}");
    assert_int_equal(assemble(&first, body.data), HANDOFF_OK);
    persist(&first);
    base_buffer_clear(&body);
    base_buffer_printf(&body, BASE ",\"previous_id\":\"%s\",\"memory_ids\":[", first.id_text);
    add_numbered_ids(&body, "new", 500);
    base_buffer_text(&body, "]}");
    assert_int_equal(assemble(&second, body.data), HANDOFF_OK);
    assert_int_equal(count_asked(&second, "new-"), 500);
    assert_int_equal(count_asked(&second, "old-"), 500);
    assert_int_equal(second.beyond, 400);
    check_envelope(&second);
    handoff_assembly_free(&first);
    handoff_assembly_free(&second);
    base_buffer_free(&body);
}

static void test_what_stands_in_texts_displaces_nothing_that_was_asked_for(void **state)
{
    (void)state;
    struct handoff_assembly assembly;
    struct base_buffer body = {0};
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    world.token_budget = 100000;
    base_buffer_text(&body, "{\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":"
                            "\"Look at said-1 through said-950\",\"memory_ids\":[");
    add_numbered_ids(&body, "asked", 700);
    base_buffer_text(&body, "],\"execution_history\":[{\"agent\":\"a\",\"action\":\"x\","
                            "\"memory_id\":\"step-1\"}]}");
    assert_int_equal(assemble(&assembly, body.data), HANDOFF_OK);
    assert_int_equal(count_asked(&assembly, "asked-"), 700);
    assert_int_equal(count_asked(&assembly, "step-"), 1);
    assert_int_equal(count_asked(&assembly, "said-"), 299);
    assert_int_equal(assembly.beyond, 651); /* counted: nobody knows whether they exist */
    check_envelope(&assembly);
    handoff_assembly_free(&assembly);
    base_buffer_free(&body);
}

static void test_a_long_range_displaces_no_memory_that_the_text_names(void **state)
{
    (void)state;
    struct handoff_assembly assembly;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    fake_add(&world.spine, "doc-7", "content", NULL);
    world.token_budget = 100000;
    assert_int_equal(assemble(&assembly, "{\"source_agent\":\"a\",\"target_agent\":\"b\","
                                         "\"task_summary\":\"Read ms-1 to ms-999999 and doc-7\","
                                         "\"memory_ids\":[\"m-1\"]}"),
                     HANDOFF_OK);
    assert_int_equal(count_asked(&assembly, "doc-7"), 1);
    assert_int_equal(assembly.unsought, 999000);
    check_envelope(&assembly); /* requested: doc-7, m-1 and what was left out of those looked for */
    handoff_assembly_free(&assembly);
}

static void test_what_may_not_go_in_full(void **state)
{
    (void)state;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    world.assembler.memory_max_bytes = 20;
    struct base_span log = base_span_text("{\"raw_log\":true}");
    fake_add(&world.spine, "large", "this is more than twenty bytes", NULL);
    fake_add(&world.spine, "told", "this is more than twenty bytes", "in short");
    fake_add(&world.spine, "log", "user: hi", NULL)->memory.metadata = log;
    fake_add(&world.spine, "logged", "user: hi", "they met")->memory.metadata = log;
    fake_add(&world.spine, "fine", "short", "also short")->memory.metadata =
        base_span_text("{\"about\":\"conversation\"}");
    const char *ids = ",\"memory_ids\":[\"large\",\"told\",\"log\",\"logged\",\"fine\"]";
    const char *strategies[] = {"priority", "full"};
    for (int i = 0; i < 2; i++) {
        char body[256];
        snprintf(body, sizeof(body), BASE "%s,\"strategy\":\"%s\"}", ids, strategies[i]);
        yyjson_doc *doc = assembled(body);
        if (i == 0) { /* by their ids */
            assert_null(text_at(doc, "/missing/0/reason"));
            assert_string_equal(text_at(doc, "/context/references/0"), "log");
            assert_string_equal(text_at(doc, "/context/references/1"), "large");
        } else { /* nothing goes by its id alone */
            assert_string_equal(text_at(doc, "/missing/0/reason"), "too_large");
            assert_string_equal(text_at(doc, "/missing/1/reason"), "conversation_log");
        }
        assert_string_equal(text_at(doc, "/context/memories/2/summary"), "in short");
        assert_string_equal(text_at(doc, "/context/memories/0/id"), "fine");
        assert_string_equal(text_at(doc, "/context/memories/0/content"), "short");
        assert_null(text_at(doc, "/context/memories/0/summary"));
        assert_string_equal(text_at(doc, "/context/memories/1/summary"), "they met");
        assert_null(text_at(doc, "/context/memories/1/content"));
        yyjson_doc_free(doc);
    }
    yyjson_doc *doc = assembled(BASE ",\"memory_ids\":[\"large\"],\"strategy\":\"lazy\"}");
    assert_string_equal(text_at(doc, "/context/memories/0/id"), "large");
    assert_null(text_at(doc, "/context/memories/0/content"));
    yyjson_doc_free(doc);
}

static void test_rank_order(void **state)
{
    (void)state;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    fake_add(&world.spine, "found-low", "c", NULL)->memory.importance = HANDOFF_IMPORTANCE_LOW;
    fake_add(&world.spine, "found-critical", "c", NULL)->memory.importance =
        HANDOFF_IMPORTANCE_CRITICAL;
    fake_add(&world.spine, "asked-less", "c", NULL)->relevance = 0.2;
    fake_add(&world.spine, "asked-more", "c", NULL)->relevance = 0.9;
    fake_add(&world.spine, "asked-old", "c", NULL)->memory.created_ms = 5;
    fake_add(&world.spine, "asked-new", "c", NULL)->memory.created_ms = 6;
    fake_add(&world.spine, "asked-high", "c", NULL)->memory.importance = HANDOFF_IMPORTANCE_HIGH;
    struct handoff_found_memory *pinned = fake_add(&world.spine, "pinned-low", "c", NULL);
    pinned->memory.importance = HANDOFF_IMPORTANCE_LOW;
    pinned->memory.pinned = true;
    yyjson_doc *doc =
        assembled(BASE ",\"include_recent\":9,\"memory_ids\":[\"asked-old\","
                       "\"asked-less\",\"asked-high\",\"asked-new\",\"asked-more\"]}");
    static const char *const order[] = {"pinned-low", "asked-high", "asked-more",     "asked-less",
                                        "asked-new",  "asked-old",  "found-critical", "found-low"};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        char pointer[32];
        snprintf(pointer, sizeof(pointer), "/memory_refs/%zu", i);
        assert_string_equal(text_at(doc, pointer), order[i]);
    }
    yyjson_doc_free(doc);
}

/* Relevance is asked for only when something has to give way, and then decides. */
static void test_relevance_is_asked_for_when_it_matters(void **state)
{
    (void)state;
    struct handoff_assembly assembly;
    const char *body =
        BASE ",\"memory_ids\":[\"less\",\"more\"],\"constraints\":{\"max_tokens\":%d}}";
    char request[256];
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    fake_add(&world.spine, "less", "the same content of both", NULL)->relevance = 0.1;
    fake_add(&world.spine, "more", "the same content of both", NULL)->relevance = 0.9;
    for (int later = 0; later < 2; later++) {
        world.spine.later = later;
        snprintf(request, sizeof(request), body, 5000);
        assert_int_equal(assemble(&assembly, request), HANDOFF_OK);
        assert_int_equal(world.spine.asked, 1);
        assert_null(world.spine.last_query.data);
        uint64_t all = assembly.plan.count;
        handoff_assembly_free(&assembly);
        snprintf(request, sizeof(request), body, (int)all - 4);
        world.spine.asked = 0;
        assert_int_equal(assemble(&assembly, request), HANDOFF_OK);
        assert_int_equal(world.spine.asked, 2);
        assert_string_equal(world.spine.last_query.data, "s");
        assert_true(base_span_equal(assembly.slots[0].show.id, base_span_text("more")));
        assert_int_equal(assembly.plan.memories[0].form, HANDOFF_FORM_FULL);
        assert_int_equal(assembly.plan.memories[1].form, HANDOFF_FORM_ID);
        check_envelope(&assembly);
        handoff_assembly_free(&assembly);
        world.spine.asked = 0;
    }
}

static void test_dual(void **state)
{
    (void)state;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    fake_add(&world.spine, "m", "content", NULL);
    world.dual = true;
    yyjson_doc *doc = assembled(BASE ",\"memory_ids\":[\"m\"],\"constraints\":{\"a\":1.0}}");
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_true(base_json_equal(yyjson_obj_get(root, "memories"),
                                yyjson_doc_ptr_get(doc, "/context/memories")));
    assert_true(base_json_equal(yyjson_obj_get(root, "constraints"),
                                yyjson_doc_ptr_get(doc, "/context/constraints")));
    assert_string_equal(text_at(doc, "/from"), "a");
    assert_string_equal(text_at(doc, "/to"), "b");
    assert_string_equal(text_at(doc, "/task"), "s");
    yyjson_doc_free(doc);
}

static void test_ratio(void **state)
{
    (void)state;
    static const struct {
        unsigned there, asked;
        const char *ratio;
    } rows[] = {{0, 0, "\"ratio\":1}"},      {0, 1, "\"ratio\":0}"},
                {1, 2, "\"ratio\":0.5}"},    {1, 3, "\"ratio\":0.3333}"},
                {2, 3, "\"ratio\":0.6667}"}, {19, 20, "\"ratio\":0.95}"},
                {20, 20, "\"ratio\":1}"}};
    use_encoding("estimate");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static char ids[32][12];
        struct base_buffer body = {0};
        struct handoff_assembly assembly;
        fake_spine_init(&world.spine);
        base_buffer_text(&body, BASE ",\"memory_ids\":[");
        for (unsigned m = 0; m < rows[i].asked; m++) {
            snprintf(ids[m], sizeof(ids[m]), "m%u", m);
            if (m < rows[i].there)
                fake_add(&world.spine, ids[m], "c", NULL);
            base_buffer_printf(&body, "%s\"m%u\"", m ? "," : "", m);
        }
        base_buffer_text(&body, "]}");
        assert_int_equal(assemble(&assembly, body.data), HANDOFF_OK);
        assert_non_null(strstr(assembly.out.data, rows[i].ratio));
        handoff_assembly_free(&assembly);
        base_buffer_free(&body);
    }
}

/* ---- within another budget -------------------------------------------------------------------
 */

static enum handoff_code run_again_within(struct handoff_assembly *assembly, uint64_t budget)
{
    world.finished = false;
    if (!handoff_assembly_run_again(assembly, budget)) {
        while (!world.finished)
            assert_int_equal(base_mailbox_wait(&world.mailbox, 5000), 1);
    }
    return assembly->error.code;
}

/* From the context to the end: all that depends on the budget. */
static const char *behind_origin(const struct handoff_assembly *assembly)
{
    return strstr(assembly->out.data, "\"context\":");
}

static void check_same(const struct handoff_assembly *again, const struct handoff_assembly *anew)
{
    assert_int_equal(again->error.code, anew->error.code);
    assert_int_equal(again->error.needed, anew->error.needed);
    if (anew->error.code != HANDOFF_OK)
        return;
    assert_int_equal(again->plan.count, anew->plan.count);
    assert_memory_equal(&again->items, &anew->items, sizeof again->items);
    assert_memory_equal(&again->memories, &anew->memories, sizeof again->memories);
    const char *omitted = strstr(behind_origin(anew), "\"omitted\"");
    const size_t size = omitted ? (size_t)(omitted - behind_origin(anew)) : again->memories_size;
    assert_memory_equal(behind_origin(again), behind_origin(anew), size);
}

/* Whatever it was before, also too small. */
static void test_again_within_another_budget_is_as_anew(void **state)
{
    (void)state;
    static const uint64_t budgets[] = {400, 8000, 150, 1, 300, 20, 8000};
    char body[4096];
    struct handoff_assembly again, anew;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    fake_add(&world.spine, "m", "some content that takes its place", "a summary");
    int used =
        snprintf(body, sizeof body, "%s", BASE ",\"memory_ids\":[\"m\"],\"execution_history\":[");
    for (int i = 0; i < 30; i++)
        used += snprintf(body + used, sizeof body - (size_t)used,
                         "%s{\"agent\":\"a\",\"action\":\"read chapter %d\"}", i ? "," : "", i);
    snprintf(body + used, sizeof body - (size_t)used, "]}");
    assert_int_equal(assemble(&again, body), HANDOFF_OK);
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        const uint64_t before = world.token_budget;
        world.token_budget = budgets[i];
        (void)!assemble(&anew, body);
        (void)!run_again_within(&again, budgets[i]);
        if (again.error.code == HANDOFF_OK)
            check_envelope(&again);
        check_same(&again, &anew);
        world.token_budget = before;
        handoff_assembly_free(&anew);
    }
    handoff_assembly_free(&again);
}

/* Kept counts are used and give the same result; a wrong one would show. */
static void test_kept_counts(void **state)
{
    (void)state;
    const char *body = BASE ",\"memory_ids\":[\"m\"]}";
    struct handoff_assembly assembly;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    struct handoff_found_memory *found = fake_add(&world.spine, "m", "some content", "some");
    assert_int_equal(assemble(&assembly, body), HANDOFF_OK);
    uint64_t count = assembly.plan.count;
    assert_true(assembly.slots[0].learned[HANDOFF_FORM_FULL]);
    assert_true(assembly.slots[0].learned[HANDOFF_FORM_SUMMARY]);
    assert_false(assembly.slots[0].learned[HANDOFF_FORM_REFERENCE]);
    found->tokens[HANDOFF_RENDERING_FULL] = assembly.slots[0].known[HANDOFF_FORM_FULL];
    found->tokens[HANDOFF_RENDERING_SUMMARY] = assembly.slots[0].known[HANDOFF_FORM_SUMMARY];
    handoff_assembly_free(&assembly);
    assert_int_equal(assemble(&assembly, body), HANDOFF_OK);
    assert_int_equal(assembly.plan.count, count);
    assert_false(assembly.slots[0].learned[HANDOFF_FORM_FULL]);
    handoff_assembly_free(&assembly);
    found->tokens[HANDOFF_RENDERING_FULL] += 7;
    assert_int_equal(assemble(&assembly, body), HANDOFF_OK);
    assert_int_equal(assembly.plan.count, count + 7);
    handoff_assembly_free(&assembly);
}

/* One assembly for each allocation that can fail. The arena begins with a block of one byte, so
 * that every stage has to ask for another. */
static long assemble_without_memory(const char *body, struct handoff_assembly *assembly)
{
    enum handoff_code code;
    long n = 1;
    for (;; n++) {
        failing_memory_at(n);
        code = assemble(assembly, body);
        if (!atomic_load(&failing_memory_hit))
            break;
        assert_true(code == HANDOFF_OK || code == HANDOFF_ERR_OUT_OF_MEMORY);
        if (code == HANDOFF_OK)
            assert_true(handoff_digest_verify(base_buffer_span(&assembly->out)));
        handoff_assembly_free(assembly);
    }
    failing_memory_at(0);
    assert_int_equal(code, HANDOFF_OK);
    return n;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct handoff_assembly assembly;
    char *child;
    use_encoding("estimate");
    fake_spine_init(&world.spine);
    fake_add(&world.spine, "m", "content", "summary")->memory.metadata =
        base_span_text("{\"raw_log\":false}");
    world.dual = true;
    world.first_block = 1;
    assert_true(assemble_without_memory(
                    BASE ",\"memory_ids\":[\"x\",\"m\"],\"execution_history\":[{"
                         "\"agent\":\"a\",\"action\":\"b\"}],\"constraints\":{\"a\":1}}",
                    &assembly) > 10);
    persist(&assembly);
    assert_true(asprintf(&child,
                         BASE ",\"previous_id\":\"%s\",\"constraints\":{\"b\":1},"
                              "\"execution_history\":[{\"agent\":\"c\",\"action\":\"d\"}]}",
                         assembly.id_text) > 0);
    handoff_assembly_free(&assembly);
    assert_true(assemble_without_memory(child, &assembly) > 10);
    handoff_assembly_free(&assembly);
    free(child);
    world.first_block = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_envelopes),
        cmocka_unit_test(test_chains_of_twelve_hops),
        cmocka_unit_test(test_what_a_chain_refuses),
        cmocka_unit_test(test_repeated_history_is_not_added_twice),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_a_spine_that_is_away),
        cmocka_unit_test(test_a_search_that_was_cut),
        cmocka_unit_test(test_what_a_text_names_is_missing_while_the_spine_is_away),
        cmocka_unit_test(test_what_no_memory_can_be_called_is_missing),
        cmocka_unit_test(test_of_too_many_references_the_newest_are_looked_up),
        cmocka_unit_test(test_what_stands_in_texts_displaces_nothing_that_was_asked_for),
        cmocka_unit_test(test_a_long_range_displaces_no_memory_that_the_text_names),
        cmocka_unit_test(test_what_may_not_go_in_full),
        cmocka_unit_test(test_rank_order),
        cmocka_unit_test(test_relevance_is_asked_for_when_it_matters),
        cmocka_unit_test(test_dual),
        cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_again_within_another_budget_is_as_anew),
        cmocka_unit_test(test_kept_counts),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
