/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One test for each rule of ledger.h. Hops are written as their contributions; what the ledger says
 * is read as text: the values of a kind, one behind the other.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ledger/contribution.h"
#include "client/ledger/ledger.h"
#include "client/ledger/same.h"
#include "lib/base/json.h"

enum { HOPS_MAX = 16 };
#define AT_MS_OF(hop) (1769590800000 + (hop)*1000)
#define ENCODING      base_span_text("o200k_base")

static struct {
    struct base_arena arena;
    struct handoff_said said[HOPS_MAX];
    struct handoff_ledger ledger;
    struct handoff_error error;
    struct base_buffer text;
    const char *agents; /* "a\0b\0a\0c"; NULL: all are different */
    bool publishes;     /* each publishes instead of handing to the next */
} world;

static int set_up(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    base_arena_init(&world.arena, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    base_arena_free(&world.arena);
    base_buffer_free(&world.text);
    return 0;
}

static struct handoff_said said_as(int64_t hop, const char *source, const char *target,
                                   const char *text)
{
    struct handoff_said said;
    const struct handoff_contribution stored = {.id.bytes = {(unsigned char)hop},
                                                .hop = hop,
                                                .created_ms = AT_MS_OF(hop),
                                                .source = base_span_text(source),
                                                .target = base_span_text(target),
                                                .text = base_span_text(text)};
    assert_int_equal(handoff_contribution_read(&stored, ENCODING, &world.arena, &said, NULL, NULL),
                     HANDOFF_OK);
    return said;
}

/* Contributions of agents a, b, c ..., or those named, each handing to the next, up to NULL; the
 * last is the request. `parents` has those of each as digits: "0 01 2"; NULL: each continues the
 * one before. */
static enum handoff_code fold_chain(const char *parents, const char *const texts[])
{
    static const char alphabet[] = "a\0b\0c\0d\0e\0f\0g\0h";
    const char *names = world.agents ? world.agents : alphabet;
    static size_t places[HOPS_MAX][HOPS_MAX];
    size_t n = 0;
    for (; texts[n]; n++) {
        const char *target = world.publishes ? "broadcast" : names + 2 * n + 2;
        world.said[n] = said_as((int64_t)n + 1, names + 2 * n, target, texts[n]);
        world.said[n].parents = places[n];
        if (!parents && n > 0)
            places[n][world.said[n].nparents++] = n - 1;
        for (; parents && n > 0 && *parents >= '0'; parents++)
            places[n][world.said[n].nparents++] = (size_t)(*parents - '0');
        parents += parents && n > 0 && *parents;
    }
    world.said[n - 1].accepted = false;
    return handoff_ledger_fold(&world.ledger, &world.arena, world.said, n - 1, &world.said[n - 1],
                               &world.error);
}

static enum handoff_code fold(const char *const texts[])
{
    return fold_chain(NULL, texts);
}

#define FOLD_AS(parents, ...)                                                                      \
    do {                                                                                           \
        const char *const hops[] = {__VA_ARGS__, NULL};                                            \
        assert_int_equal(fold_chain(parents, hops), HANDOFF_OK);                                   \
    } while (0)

#define FOLD(...)                                                                                  \
    do {                                                                                           \
        const char *const hops[] = {__VA_ARGS__, NULL};                                            \
        assert_int_equal(fold(hops), HANDOFF_OK);                                                  \
    } while (0)

/* `1:"x" 2:"y"`: the hop and the value of each. */
static const char *listed(const struct handoff_items *items)
{
    base_buffer_clear(&world.text);
    base_buffer_text(&world.text, "");
    for (size_t i = 0; i < items->count; i++) {
        const struct handoff_item *item = &items->at[i];
        base_buffer_printf(&world.text, "%s%lld:", i ? " " : "", (long long)item->from->hop);
        if (item->name.data && item->name.data != yyjson_get_str(item->value))
            base_buffer_printf(&world.text, "%s=", item->name.data);
        base_json_write(&world.text, item->value);
    }
    return world.text.data;
}

#define STANDS(kind, text)                                                                         \
    assert_string_equal(listed(&world.ledger.items[HANDOFF_ITEM_##kind]), text)
#define PAST(kind, text) assert_string_equal(listed(&world.ledger.past[HANDOFF_ITEM_##kind]), text)

static void test_the_intent_is_the_first_and_unchanged(void **state)
{
    (void)state;
    FOLD("{\"intent\":\"the user's\",\"summary\":\"s\"}", "{\"intent\":\"mine\"}",
         "{\"intent\":\"the user's\"}");
    STANDS(INTENT, "1:\"the user's\"");
    PAST(INTENT, "2:\"mine\"");
    assert_true(base_span_equal(world.ledger.intent, base_span_text("the user's")));
    FOLD("{\"summary\":\"s\"}", "{\"intent\":\"mine\",\"summary\":\"t\"}");
    STANDS(INTENT, "1:\"s\"");
}

static const struct handoff_item *reference_to(const char *id)
{
    const struct handoff_items *items = &world.ledger.items[HANDOFF_ITEM_REFERENCE];
    for (size_t i = 0; i < items->count; i++) {
        if (yyjson_equals_str(items->at[i].value, id))
            return &items->at[i];
    }
    fail_msg("no reference to %s", id);
    return NULL;
}

static void test_a_reference_is_missing_since_the_hop_that_missed_it_first(void **state)
{
    (void)state;
    FOLD("{\"references\":[\"m-1\",\"m-2\"],\"missing\":[\"m-2\"]}", "{\"missing\":[\"m-1\"]}",
         "{}");
    assert_int_equal(reference_to("m-1")->missing_since, 2);
    assert_int_equal(reference_to("m-2")->missing_since, 1);
    FOLD("{\"references\":[\"m-1\"],\"missing\":[\"m-1\"]}", "{\"found\":[\"m-1\"]}",
         "{\"missing\":[\"m-1\"]}", "{\"references\":[\"m-1\"]}");
    assert_int_equal(reference_to("m-1")->missing_since, 3);
    FOLD("{\"references\":[\"m-1\"],\"missing\":[\"m-1\"]}", "{\"found\":[\"m-1\"]}", "{}");
    assert_int_equal(reference_to("m-1")->missing_since, 0);
}

/* Agents may send the same state with each handoff, also with empty lists. */
static void test_to_finish_the_same_again_is_no_progress(void **state)
{
    (void)state;
    static const char begins[] = "{\"state\":{\"remaining\":[\"x\",\"y\"]}}";
    static const char nothing[] = "{\"state\":{\"resolved\":[],\"done\":[]}}";
    static const char finishes_x[] = "{\"state\":{\"resolved\":[],\"done\":[\"x\"]}}";
    static const char finishes_y[] = "{\"state\":{\"done\":[\"y\"]}}";
    world.agents = "a\0b\0a\0b\0a\0b\0a";
    FOLD(begins, nothing, nothing, nothing, nothing);
    assert_int_equal(world.ledger.fruitless, 4);
    FOLD(begins, finishes_x, finishes_x, finishes_x, finishes_x);
    assert_int_equal(world.ledger.fruitless, 3);
    FOLD(begins, finishes_x, nothing, finishes_x, nothing);
    assert_int_equal(world.ledger.fruitless, 3);
    FOLD(begins, finishes_x, nothing, nothing, finishes_y);
    assert_int_equal(world.ledger.fruitless, 0);
}

/* Who gets a publication is known by the next one. */
static void test_agents_may_publish_back_and_forth(void **state)
{
    (void)state;
    static const char begins[] = "{\"state\":{\"remaining\":[\"x\"]}}";
    world.publishes = true;
    world.agents = "a\0b\0a\0b\0a\0";
    FOLD(begins, "{}", "{}", "{}", "{}");
    assert_int_equal(world.ledger.fruitless, 4);
    FOLD(begins, "{}", "{\"state\":{\"done\":[\"x\"]}}", "{}", "{}");
    assert_int_equal(world.ledger.fruitless, 2);
    world.agents = "a\0b\0a\0c\0a\0";
    FOLD(begins, "{}", "{}", "{}", "{}");
    assert_int_equal(world.ledger.fruitless, 2);
    world.agents = "a\0b\0c\0d\0e\0";
    FOLD(begins, "{}", "{}", "{}", "{}");
    assert_int_equal(world.ledger.fruitless, 1);
    world.agents = "a\0a\0a\0a\0a\0";
    FOLD(begins, "{}", "{}", "{}", "{}");
    assert_int_equal(world.ledger.fruitless, 1);
}

static void test_what_a_text_names_is_a_reference_once_it_was_found(void **state)
{
    (void)state;
    FOLD("{\"mentioned\":[\"m-1\",\"utf-8\"],\"found\":[\"m-1\"]}", "{\"mentioned\":[\"m-1\"]}");
    assert_false(reference_to("m-1")->mentioned);
    assert_true(reference_to("utf-8")->mentioned);
}

/* A step may name anything, and a text only what can be an id. */
static void test_what_no_memory_can_be_called(void **state)
{
    (void)state;
    static char long_id[HANDOFF_MEMORY_ID_MAX + 2];
    memset(long_id, '7', sizeof long_id - 1);
    memcpy(long_id, "m-", 2);
    FOLD(base_arena_printf(&world.arena,
                           "{\"steps\":[{\"agent\":\"a\",\"memory_id\":\"the note/1\"}],"
                           "\"mentioned\":[\"%s\"]}",
                           long_id));
    assert_non_null(reference_to("the note/1"));
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_REFERENCE].count, 1);
}

static const char *joined(void)
{
    base_buffer_clear(&world.text);
    base_json_write_object(&world.text, world.ledger.constraints);
    return world.text.data;
}

static void test_constraints_accumulate(void **state)
{
    (void)state;
    FOLD("{\"constraints\":{\"must_not\":[\"x\"],\"max_cost\":5,\"min_tests\":1,\"style\":"
         "\"plain\"}}",
         "{\"summary\":\"nothing named\"}",
         "{\"constraints\":{\"must_not\":[\"y\"],\"max_cost\":4,\"min_tests\":2}}",
         "{\"constraints\":{\"style\":\"plain\",\"new\":1}}");
    assert_string_equal(joined(), "{\"must_not\":[\"x\",\"y\"],\"max_cost\":4,\"min_tests\":2,"
                                  "\"style\":\"plain\",\"new\":1}");
    STANDS(CONSTRAINT, "1:must_not=[\"x\"] 1:style=\"plain\" 3:must_not=[\"y\"] 3:max_cost=4 "
                       "3:min_tests=2 4:new=1");
    PAST(CONSTRAINT, "1:max_cost=5 1:min_tests=1");
}

static void test_a_refused_constraint_names_the_value_its_hop_and_agent(void **state)
{
    (void)state;
    const char *const texts[] = {"{\"constraints\":{\"limits\":{\"max_cost\":5},\"style\":\"x\"}}",
                                 "{\"constraints\":{\"limits\":{\"max_cost\":3}}}",
                                 "{\"constraints\":{\"limits\":{\"max_cost\":4},\"style\":null}}",
                                 NULL};
    assert_int_equal(fold(texts), HANDOFF_ERR_CONSTRAINT_LOOSENED);
    assert_string_equal(world.error.field, "constraints");
    assert_string_equal(world.error.seen, "limits.max_cost, style");
    assert_string_equal(world.error.allowed, "limits.max_cost 3 of hop 2 (b), or tighter");
}

static void test_what_is_null_at_first_is_absent(void **state)
{
    (void)state;
    FOLD("{\"constraints\":{\"style\":null,\"limits\":{\"max_cost\":null,\"x\":1}}}");
    assert_string_equal(joined(), "{\"limits\":{\"x\":1}}");
    FOLD("{\"constraints\":{\"deadline\":null,\"style\":null}}",
         "{\"constraints\":{\"deadline\":\"2026-01-30T00:00:00Z\",\"style\":\"plain\"}}");
    assert_string_equal(joined(), "{\"deadline\":\"2026-01-30T00:00:00Z\",\"style\":\"plain\"}");
    STANDS(CONSTRAINT, "2:deadline=\"2026-01-30T00:00:00Z\" 2:style=\"plain\"");
}

static void test_a_deadline_comes_only_earlier(void **state)
{
    (void)state;
    const char *const texts[] = {"{\"constraints\":{\"deadline\":\"2030-01-01T00:00:00Z\"}}",
                                 "{\"constraints\":{\"deadline\":\"2030-01-01T00:00:01Z\"}}", NULL};
    FOLD("{\"constraints\":{\"deadline\":\"2030-01-01T00:00:00Z\"}}",
         "{\"constraints\":{\"deadline\":\"2029-01-01T00:00:00Z\"}}");
    assert_string_equal(joined(), "{\"deadline\":\"2029-01-01T00:00:00Z\"}");
    assert_int_equal(fold(texts), HANDOFF_ERR_CONSTRAINT_LOOSENED);
}

static void test_an_edit_may_have_a_later_deadline(void **state)
{
    (void)state;
    const char *const texts[] = {"{\"constraints\":{\"deadline\":\"2030-01-01T00:00:00Z\"}}",
                                 "{\"constraints\":{\"max_cost\":1,\"deadline\":"
                                 "\"2031-01-01T00:00:00Z\"},\"revises\":true}",
                                 "{\"constraints\":{\"max_cost\":1}}", NULL};
    FOLD(texts[0], texts[1]);
    assert_string_equal(joined(), "{\"deadline\":\"2031-01-01T00:00:00Z\",\"max_cost\":1}");
    FOLD(texts[0], texts[1], texts[2]);
    assert_string_equal(joined(), "{\"max_cost\":1,\"deadline\":\"2031-01-01T00:00:00Z\"}");
}

#define DEADLINE(year) "{\"deadline\":\"" #year "-01-01T00:00:00Z\"}"
#define NAMES(year)    "{\"constraints\":" DEADLINE(year) "}"
#define REVISES(year)  "{\"constraints\":" DEADLINE(year) ",\"revises\":true}"

static void test_a_later_deadline_of_an_edit_is_for_what_continues_it(void **state)
{
    (void)state;
    FOLD_AS("0 0 2", NAMES(2031), NAMES(2030), REVISES(2035), "{}");
    assert_string_equal(joined(), DEADLINE(2035));
    FOLD_AS("0 0 1", NAMES(2031), NAMES(2030), REVISES(2035), "{}");
    assert_string_equal(joined(), DEADLINE(2030));
    FOLD_AS("0 0 12", NAMES(2031), NAMES(2030), REVISES(2035), "{}");
    assert_string_equal(joined(), DEADLINE(2030));
    FOLD_AS("0 0 12", NAMES(2031), REVISES(2035), "{}", "{}");
    assert_string_equal(joined(), DEADLINE(2031));
    FOLD_AS("0 0 12", "{}", REVISES(2035), "{}", "{}");
    assert_string_equal(joined(), DEADLINE(2035));
    FOLD_AS("0 1 0 3", NAMES(2031), REVISES(2035), REVISES(2037), NAMES(2030), NAMES(2029));
    assert_string_equal(joined(), DEADLINE(2029));
    const char *const later[] = {NAMES(2031), NAMES(2030), REVISES(2035), NAMES(2032), NULL};
    assert_int_equal(fold_chain("0 0 12", later), HANDOFF_ERR_CONSTRAINT_LOOSENED);
    assert_string_equal(world.error.allowed,
                        "deadline \"2030-01-01T00:00:00Z\" of hop 2 (b), or tighter");
}

static void test_max_tokens_is_a_budget(void **state)
{
    (void)state;
    FOLD("{\"constraints\":{\"max_tokens\":500}}", "{}");
    assert_string_equal(joined(), "{\"max_tokens\":500}");
    FOLD("{\"constraints\":{\"max_tokens\":500}}", "{\"constraints\":{\"max_tokens\":900}}", "{}");
    assert_string_equal(joined(), "{\"max_tokens\":900}");
}

static void test_a_look_alike_of_an_inherited_constraint_is_refused(void **state)
{
    (void)state;
    const char *const texts[] = {"{\"constraints\":{\"cost_limit\":5}}",
                                 "{\"constraints\":{\"Cost-Limits\":9}}", NULL};
    assert_int_equal(fold(texts), HANDOFF_ERR_INVALID);
    assert_string_equal(world.error.field, "constraints.Cost-Limits");
    assert_string_equal(world.error.allowed, "cost_limit, or another name");
}

static void test_siblings_that_spell_a_constraint_differently_are_not_joined(void **state)
{
    (void)state;
    const char *const texts[] = {"{}", "{\"constraints\":{\"limits\":{\"cost\":1}}}",
                                 "{\"constraints\":{\"limits\":{\"Costs\":1}}}", "{}", NULL};
    assert_int_equal(fold_chain("0 0 12", texts), HANDOFF_ERR_CONSTRAINT_LOOSENED);
    assert_string_equal(world.error.seen, "limits.Costs");
    assert_string_equal(world.error.allowed, "limits.cost");
    /* what was accepted before stays so */
    FOLD_AS("0 0 12 3", texts[0], texts[1], texts[2], "{}", "{}");
    FOLD_AS("0 0 12 3 34", texts[0], texts[1], texts[2], "{}", "{}", "{}");
}

static void test_siblings_that_disagree_are_not_joined(void **state)
{
    (void)state;
    const char *const texts[] = {"{}", "{\"constraints\":{\"style\":\"x\"}}",
                                 "{\"constraints\":{\"style\":\"y\"}}", "{}", NULL};
    assert_int_equal(fold(texts), HANDOFF_ERR_CONSTRAINT_LOOSENED);
    assert_string_equal(world.error.allowed, "style \"x\" of hop 2 (b), or tighter");
}

static void test_earlier_summaries_become_steps(void **state)
{
    (void)state;
    FOLD("{\"summary\":\"plan\",\"steps\":[{\"agent\":\"a\",\"action\":\"one\"}]}",
         "{\"summary\":\"code \\\"it\\\"\"}",
         "{\"summary\":\"review\",\"steps\":[{\"agent\":\"c\",\"action\":\"two\"}]}");
    STANDS(SUMMARY, "3:\"review\"");
    PAST(SUMMARY, "1:\"plan\" 2:\"code \\\"it\\\"\"");
    STANDS(STEP, "1:{\"agent\":\"a\",\"action\":\"one\"} "
                 "1:{\"agent\":\"a\",\"action\":\"handed to b: plan\","
                 "\"at\":\"2026-01-28T09:00:01.000Z\"} "
                 "2:{\"agent\":\"b\",\"action\":\"handed to c: code \\\"it\\\"\","
                 "\"at\":\"2026-01-28T09:00:02.000Z\"} "
                 "3:{\"agent\":\"c\",\"action\":\"two\"}");
}

static void test_decisions_unresolved_and_remaining_grow(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"decisions\":[\"d1\"],\"unresolved\":[\"u1\"],\"remaining\":[\"r1\"]}}",
         "{\"state\":{\"decisions\":[\"d2\",{\"id\":7,\"text\":\"d3\"}]}}",
         "{\"state\":{\"unresolved\":[\"u2\"],\"remaining\":[]}}");
    STANDS(DECISION, "1:\"d1\" 2:\"d2\" 2:{\"id\":7,\"text\":\"d3\"}");
    STANDS(UNRESOLVED, "1:\"u1\" 3:\"u2\"");
    STANDS(REMAINING, "1:\"r1\"");
}

static void test_equal_entries_are_one(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"decisions\":[\"d1\",{\"a\":1,\"b\":[2]}]}}",
         "{\"state\":{\"decisions\":[\" d1\\n\",{\"b\":[2.0],\"a\":1},\"D1\"]}}",
         "{\"state\":{\"decisions\":[\"d1\",\"d2\",\"d2\"]}}");
    STANDS(DECISION, "1:\"d1\" 1:{\"a\":1,\"b\":[2]} 2:\"D1\" 3:\"d2\"");
    PAST(DECISION, "");
}

static void test_resolved_and_done_take_out_what_is_over(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"unresolved\":[\"u1\",\"u2\",{\"id\":\"q3\",\"text\":\"u3\"},"
         "{\"id\":\"q4\",\"text\":\"u4\"}],\"remaining\":[\"u1\",\"r1\"],\"decisions\":[\"u1\"]}}",
         "{\"state\":{\"resolved\":[\" u1 "
         "\",\"q3\",{\"id\":\"q4\"},\"unknown\"],\"done\":[\"r1\"]}}",
         "{}");
    STANDS(UNRESOLVED, "1:\"u2\"");
    PAST(UNRESOLVED,
         "1:\"u1\" 1:{\"id\":\"q3\",\"text\":\"u3\"} 1:{\"id\":\"q4\",\"text\":\"u4\"}");
    STANDS(REMAINING, "1:\"u1\"");
    PAST(REMAINING, "1:\"r1\"");
    STANDS(DECISION, "1:\"u1\"");
    STANDS(STATE, "");
}

static void test_what_is_said_again_later_is_there_again(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"unresolved\":[\"u1\"]}}", "{\"state\":{\"resolved\":[\"u1\"]}}",
         "{\"state\":{\"unresolved\":[\"u1\"]}}");
    STANDS(UNRESOLVED, "3:\"u1\"");
    PAST(UNRESOLVED, "1:\"u1\"");
}

#define OPEN     "{\"state\":{\"unresolved\":[\"q\"]}}"
#define RESOLVED "{\"state\":{\"resolved\":[\"q\"]}}"

static void test_a_hop_resolves_only_what_it_knows(void **state)
{
    (void)state;
    FOLD_AS("0 0 12", "{}", OPEN, RESOLVED, "{}");
    STANDS(UNRESOLVED, "2:\"q\"");
    FOLD_AS("0 0 12", "{}", RESOLVED, OPEN, "{}");
    STANDS(UNRESOLVED, "3:\"q\"");
    FOLD_AS("0 0 12", "{}", "{\"state\":{\"unresolved\":[{\"id\":\"q\",\"text\":\"t\"}]}}",
            RESOLVED, "{}");
    STANDS(UNRESOLVED, "2:{\"id\":\"q\",\"text\":\"t\"}");
    FOLD_AS("0 0 12", OPEN, "{}", RESOLVED, "{}");
    STANDS(UNRESOLVED, "");
    PAST(UNRESOLVED, "1:\"q\"");
    FOLD_AS("0 0 12 3", "{}", OPEN, RESOLVED, "{}", RESOLVED);
    STANDS(UNRESOLVED, "");
}

/* One entry, whichever of the siblings comes first. */
static void test_who_repeats_an_entry_does_not_keep_it_from_being_resolved(void **state)
{
    (void)state;
    FOLD_AS("0 0 12", OPEN, OPEN, RESOLVED, "{}");
    STANDS(UNRESOLVED, "");
    FOLD_AS("0 0 12", OPEN, RESOLVED, OPEN, "{}");
    STANDS(UNRESOLVED, "");
    FOLD_AS("0 1 12", OPEN, RESOLVED, OPEN, "{}");
    STANDS(UNRESOLVED, "3:\"q\"");
}

static void test_what_siblings_have_both_said_stands_until_both_are_resolved(void **state)
{
    (void)state;
    FOLD_AS("0 0 12", "{}", OPEN, OPEN, "{}");
    STANDS(UNRESOLVED, "2:\"q\"");
    FOLD_AS("0 0 1 23", "{}", OPEN, OPEN, RESOLVED, "{}");
    STANDS(UNRESOLVED, "3:\"q\"");
    PAST(UNRESOLVED, "2:\"q\"");
    FOLD_AS("0 0 2 13", "{}", OPEN, OPEN, RESOLVED, "{}");
    STANDS(UNRESOLVED, "2:\"q\"");
    FOLD_AS("0 0 12 3", "{}", OPEN, OPEN, "{}", RESOLVED);
    STANDS(UNRESOLVED, "");
    PAST(UNRESOLVED, "2:\"q\" 3:\"q\"");
}

static void test_white_space_of_all_scripts_counts_for_nothing_at_the_ends(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"decisions\":[\"a\",\"b \\u00a0c\",\"\u200b\"]}}",
         "{\"state\":{\"decisions\":[\"\\u3000a\\u2028\\t\",\"\u00a0b "
         "\u00a0c\u2003\",\"\u200b\\u0085\"]}}",
         "{\"state\":{\"decisions\":[\"\\u3000\",\" \",\"\",\"é\",\"é \"]}}");
    STANDS(DECISION, "1:\"a\" 1:\"b \u00a0c\" 1:\"\u200b\" 3:\"\u3000\" 3:\"é\"");
}

static void test_ids_of_entries_are_texts_or_numbers(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"unresolved\":[{\"id\":7},{\"id\":8.0},{\"id\":\" q9 \"},{\"id\":\"\"},"
         "{\"id\":\" \",\"n\":1},{\"id\":null},{\"id\":[1]},{\"id\":true}]}}",
         "{\"state\":{\"resolved\":[7,{\"id\":8},\"q9\",\"\",{\"id\":\"\",\"n\":2},null,[1],true,"
         "{\"id\":null,\"n\":3}]}}");
    STANDS(UNRESOLVED, "1:{\"id\":\"\"} 1:{\"id\":\" \",\"n\":1} 1:{\"id\":null} 1:{\"id\":[1]} "
                       "1:{\"id\":true}");
}

static void test_what_is_over_is_told_to_the_next_hop(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"unresolved\":[\"u1\"]}}", "{\"state\":{\"resolved\":[\"u1\"]}}");
    STANDS(STATE, "2:resolved=[\"u1\"]");
    FOLD("{\"state\":{\"unresolved\":[\"u1\"]}}", "{\"state\":{\"resolved\":[\"u1\"]}}", "{}");
    STANDS(STATE, "");
    PAST(STATE, "2:resolved=[\"u1\"]");
}

static void test_members_that_are_no_lists_of_ours_are_carried(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"done\":true,\"resolved\":\"no list\"}}", "{}");
    STANDS(STATE, "1:done=true 1:resolved=\"no list\"");
}

static void test_the_newest_progress_is_shown(void **state)
{
    (void)state;
    FOLD("{\"state\":{\"progress\":\"10 %\",\"branch\":\"main\",\"mood\":1}}",
         "{\"state\":{\"progress\":\"50 %\",\"mood\":1}}", "{\"summary\":\"s\"}");
    STANDS(STATE, "1:branch=\"main\" 1:mood=1 2:progress=\"50 %\"");
    PAST(STATE, "1:progress=\"10 %\"");
}

static void test_the_history_is_complete_and_repeats_nothing(void **state)
{
    (void)state;
    FOLD("{\"steps\":[{\"agent\":\"a\",\"action\":\"try\"},{\"agent\":\"a\",\"action\":\"try\"},"
         "{\"agent\":\"a\",\"action\":\"choose\",\"reason\":\"long\"}]}",
         "{\"steps\":[{\"action\":\"try\",\"agent\":\"a\"},"
         "{\"agent\":\"a\",\"action\":\"choose\"},{\"agent\":\"b\",\"action\":\"two\"}]}",
         "{\"steps\":[{\"agent\":\"a\",\"action\":\"choose\",\"reason\":\"other\"}]}");
    STANDS(STEP, "1:{\"agent\":\"a\",\"action\":\"try\"} 1:{\"agent\":\"a\",\"action\":\"try\"} "
                 "1:{\"agent\":\"a\",\"action\":\"choose\",\"reason\":\"long\"} "
                 "2:{\"agent\":\"b\",\"action\":\"two\"} "
                 "3:{\"agent\":\"a\",\"action\":\"choose\",\"reason\":\"other\"}");
}

#define RAN    "{\"agent\":\"a\",\"action\":\"ran the tests\"}"
#define RAN_AT "{\"agent\":\"a\",\"action\":\"ran\",\"at\":\"2026-01-01T00:00:00Z\"}"
#define FIXED  "{\"agent\":\"b\",\"action\":\"fixed\"}"

static void test_what_an_agent_does_again_is_a_step_again(void **state)
{
    (void)state;
    world.agents = "a\0b\0a\0c";
    FOLD("{\"steps\":[" RAN "]}", "{\"steps\":[" FIXED "]}", "{\"steps\":[" RAN "]}");
    STANDS(STEP, "1:" RAN " 2:" FIXED " 3:" RAN);
    FOLD("{\"steps\":[" RAN "]}", "{\"steps\":[" FIXED "]}", "{\"steps\":[" RAN "," FIXED "]}");
    STANDS(STEP, "1:" RAN " 2:" FIXED);
    FOLD("{\"steps\":[" RAN "]}", "{\"steps\":[" FIXED "]}",
         "{\"steps\":[" RAN "," FIXED "," RAN "]}");
    STANDS(STEP, "1:" RAN " 2:" FIXED " 3:" RAN);
    FOLD("{\"steps\":[" RAN_AT "]}", "{\"steps\":[" FIXED "]}", "{\"steps\":[" RAN_AT "]}");
    STANDS(STEP, "1:" RAN_AT " 2:" FIXED);
    world.agents = "a\0a\0a\0c\0d";
    FOLD("{\"steps\":[" RAN "]}", "{\"steps\":[" RAN "," RAN_AT "]}", "{\"steps\":[" RAN "]}");
    STANDS(STEP, "1:" RAN " 2:" RAN_AT);
    world.agents = "a\0b\0b\0c\0d";
    FOLD_AS("0 0 12", "{}", "{\"steps\":[" FIXED "]}", "{\"steps\":[" FIXED "]}", "{}");
    STANDS(STEP, "2:" FIXED " 3:" FIXED);
}

#define AT   "\"at\":\"2026-01-01T00:00:00Z\""
#define WHY  "{\"agent\":\"a\",\"action\":\"chose\",\"reason\":\"long\"," AT "}"
#define BARE "{\"agent\":\"a\",\"action\":\"chose\"," AT "}"

/* Agent, time and text are the same: no one did it twice. */
static void test_a_step_of_one_time_is_one_step(void **state)
{
    (void)state;
    FOLD("{\"steps\":[" RAN_AT "," RAN_AT "]}");
    STANDS(STEP, "1:" RAN_AT);
    FOLD("{}", "{\"steps\":[" RAN_AT "," FIXED "," RAN_AT "]}");
    STANDS(STEP, "2:" RAN_AT " 2:" FIXED);
    FOLD("{\"steps\":[" WHY "," BARE "]}");
    STANDS(STEP, "1:" WHY);
    FOLD("{\"steps\":[" BARE "," WHY "]}");
    STANDS(STEP, "1:" BARE " 1:" WHY);
}

static void test_a_step_of_one_time_that_siblings_have_both_sent_is_one_step(void **state)
{
    (void)state;
    FOLD_AS("0 0 12", "{}", "{\"steps\":[" RAN_AT "]}", "{\"steps\":[" RAN_AT "]}", "{}");
    STANDS(STEP, "2:" RAN_AT);
    FOLD_AS("0 0 12", "{}", "{\"steps\":[" WHY "]}", "{\"steps\":[" BARE "]}", "{}");
    STANDS(STEP, "2:" WHY);
    FOLD_AS("0 0 12", "{}", "{\"steps\":[" BARE "]}", "{\"steps\":[" WHY "]}", "{}");
    STANDS(STEP, "2:" BARE " 3:" WHY);
    FOLD_AS("0 0 12", "{}", "{\"steps\":[" RAN_AT "]}", "{\"steps\":[" RAN_AT "]}",
            "{\"steps\":[" RAN_AT "]}");
    STANDS(STEP, "2:" RAN_AT);
    FOLD_AS("0 0 1 23", "{}", "{}", "{\"steps\":[" RAN_AT "]}", "{\"steps\":[" RAN_AT "]}", "{}");
    STANDS(STEP, "3:" RAN_AT);
}

static void test_a_constraint_is_past_once_nothing_of_it_holds(void **state)
{
    (void)state;
    FOLD("{\"constraints\":{\"limits\":{\"max_cost\":5}}}",
         "{\"constraints\":{\"limits\":{\"max_time\":3}}}", "{}");
    STANDS(CONSTRAINT, "1:limits={\"max_cost\":5} 2:limits={\"max_time\":3}");
    PAST(CONSTRAINT, "");
    FOLD("{\"constraints\":{\"limits\":{\"max_cost\":5,\"must\":[1]}}}",
         "{\"constraints\":{\"limits\":{\"max_cost\":4,\"must\":[2]}}}",
         "{\"constraints\":{\"limits\":{\"max_cost\":3}}}");
    STANDS(CONSTRAINT, "1:limits={\"max_cost\":5,\"must\":[1]} "
                       "2:limits={\"max_cost\":4,\"must\":[2]} 3:limits={\"max_cost\":3}");
    FOLD("{\"constraints\":{\"limits\":{\"max_cost\":5}}}",
         "{\"constraints\":{\"limits\":{\"max_cost\":4}}}", "{}");
    STANDS(CONSTRAINT, "2:limits={\"max_cost\":4}");
    PAST(CONSTRAINT, "1:limits={\"max_cost\":5}");
    FOLD_AS("0 0 12", "{}", "{\"constraints\":{\"max_cost\":3}}",
            "{\"constraints\":{\"max_cost\":5}}", "{\"constraints\":{\"max_cost\":3}}");
    STANDS(CONSTRAINT, "2:max_cost=3");
    PAST(CONSTRAINT, "3:max_cost=5");
    FOLD("{\"constraints\":{\"max_tokens\":900}}", "{\"constraints\":{\"max_tokens\":500}}",
         "{\"constraints\":{\"max_tokens\":900}}");
    STANDS(CONSTRAINT, "3:max_tokens=900");
    PAST(CONSTRAINT, "1:max_tokens=900 2:max_tokens=500");
}

static void test_references_are_inherited_from_the_hop_that_first_named_them(void **state)
{
    (void)state;
    FOLD("{\"references\":[\"ms-1\",\"ms-2\"],\"mentioned\":[\"ms-9\",\"ms-1\"]}",
         "{\"references\":[\"ms-2\",\"ms-3\"],\"steps\":[{\"agent\":\"b\",\"action\":\"x\","
         "\"memory_id\":\"ms-4\"}]}",
         "{\"references\":[\"ms-9\"]}");
    STANDS(REFERENCE, "1:\"ms-1\" 1:\"ms-2\" 2:\"ms-3\" 2:\"ms-4\" 3:\"ms-9\"");
    for (size_t i = 0; i < 5; i++)
        assert_false(world.ledger.items[HANDOFF_ITEM_REFERENCE].at[i].mentioned);
    FOLD("{\"mentioned\":[\"ms-9\"]}", "{}");
    assert_true(world.ledger.items[HANDOFF_ITEM_REFERENCE].at[0].mentioned);
}

static void test_expected_output_is_this_hops(void **state)
{
    (void)state;
    FOLD("{\"expected_output\":{\"format\":\"md\"}}", "{\"expected_output\":{\"format\":\"c\"}}");
    STANDS(EXPECTED_OUTPUT, "2:{\"format\":\"c\"}");
    PAST(EXPECTED_OUTPUT, "1:{\"format\":\"md\"}");
    FOLD("{\"expected_output\":{\"format\":\"md\"}}", "{}");
    STANDS(EXPECTED_OUTPUT, "");
}

/* ---- contributions --------------------------------------------------------------------------- */

static void test_a_contribution_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const char request[] =
        "{\"intent\":\"i\",\"summary\":\"s\",\"constraints\":{\"max_cost\":1.10},"
        "\"expected_output\":{\"format\":\"md\"},\"state\":{\"decisions\":[\"d\",\"d\",\"e\"],"
        "\"progress\":null},\"steps\":[{\"agent\":\"a\",\"action\":\"x\"}],"
        "\"references\":[\"ms-1\"],\"mentioned\":[\"ms-2\"]";
    static const struct base_span path[] = {{"a", 1}, {"b", 1}};
    const struct handoff_way way = {.hop_max = 7,
                                    .path = path,
                                    .npath = 2,
                                    .traceparent = {"00-1", 4},
                                    .tracestate = {"v=1", 3}};
    static const struct base_span lost = {"m-3", 3}, there = {"m-4", 3};
    const struct handoff_looked_up looked_up = {&lost, 1, &there, 1};
    struct handoff_way read;
    struct handoff_said said, again;
    struct base_buffer text = {.arena = &world.arena};
    yyjson_doc *options;
    said = said_as(3, "a", "b", base_arena_printf(&world.arena, "%s}", request));
    assert_int_equal(handoff_ledger_fold(&world.ledger, &world.arena, NULL, 0, &said, NULL),
                     HANDOFF_OK);
    world.ledger.items[HANDOFF_ITEM_DECISION].at[0].tokens = 11;
    world.ledger.items[HANDOFF_ITEM_DECISION].at[1].tokens = 12;
    world.ledger.items[HANDOFF_ITEM_STEP].at[0].tokens = 13;
    assert_int_equal(base_json_read_in(&world.arena,
                                       base_span_text("{\"include_recent\":5,\"pipeline\":null,"
                                                      "\"target_agent\":\"b\"}"),
                                       "options", &options, NULL),
                     HANDOFF_OK);
    handoff_contribution_write(&text, &said, &world.ledger, &way, &looked_up,
                               yyjson_doc_get_root(options), ENCODING);
    const char *expected = base_arena_printf(
        &world.arena,
        "%s,\"missing\":[\"m-3\"],\"found\":[\"m-4\"],\"hop\":{\"max\":7,\"path\":[\"a\",\"b\"]},"
        "\"trace\":{\"traceparent\":\"00-1\","
        "\"tracestate\":\"v=1\"},\"options\":{\"include_recent\":5},\"tokens\":{\"encoding\":"
        "\"o200k_base\",\"decisions\":[11,0,12],\"steps\":[13]}}",
        request);
    assert_string_equal(text.data, expected);
    const struct handoff_contribution stored = {
        .hop = 3, .source = {"a", 1}, .target = {"b", 1}, .text = base_buffer_span(&text)};
    assert_int_equal(
        handoff_contribution_read(&stored, ENCODING, &world.arena, &again, &read, NULL),
        HANDOFF_OK);
    assert_int_equal(read.hop_max, 7);
    assert_int_equal(read.npath, 2);
    assert_true(base_span_equal(read.path[1], path[1]));
    assert_true(base_span_equal(read.tracestate, way.tracestate));
    FOLD(text.data, "{\"state\":{\"decisions\":[\"f\"]}}");
    const struct handoff_items *decisions = &world.ledger.items[HANDOFF_ITEM_DECISION];
    assert_int_equal(decisions->at[0].tokens, 11);
    assert_int_equal(decisions->at[1].tokens, 12);
    assert_int_equal(decisions->at[2].tokens, 0);
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_STEP].at[0].tokens, 13);
    assert_int_equal(handoff_contribution_read(&stored, base_span_text("cl100k_base"), &world.arena,
                                               &again, NULL, NULL),
                     HANDOFF_OK);
    assert_null(again.tokens);
}

static void test_an_empty_contribution_is_short(void **state)
{
    (void)state;
    const struct handoff_way way = {.hop_max = 1};
    const struct handoff_looked_up looked_up = {0};
    struct base_buffer text = {.arena = &world.arena};
    FOLD("{\"summary\":\"s\",\"state\":{},\"steps\":[],\"references\":[]}");
    handoff_contribution_write(&text, &world.said[0], &world.ledger, &way, &looked_up, NULL,
                               ENCODING);
    assert_string_equal(text.data, "{\"summary\":\"s\",\"hop\":{\"max\":1,\"path\":[]},\"tokens\":{"
                                   "\"encoding\":\"o200k_base\"}}");
}

static void test_a_damaged_contribution_is_told(void **state)
{
    (void)state;
    struct handoff_said said;
    struct handoff_error error;
    const struct handoff_contribution damaged = {.hop = 1, .text = base_span_text("{\"summary")};
    assert_int_equal(
        handoff_contribution_read(&damaged, ENCODING, &world.arena, &said, NULL, &error),
        HANDOFF_ERR_STORE_CORRUPT);
    const struct handoff_contribution gone = {.hop = 0};
    assert_int_equal(handoff_contribution_read(&gone, ENCODING, &world.arena, &said, NULL, &error),
                     HANDOFF_ERR_ENVELOPE_REMOVED);
    assert_string_equal(error.field, "previous_id");
}

/* ---- size -------------------------------------------------------------------------------------
 */

/* Thousands of entries, each repeated by the next hop, half of them resolved by the last. */
/* Two blocks whose changes cancel each other out in a hash that multiplies by a known number. Of n
   such pairs 2^n texts with one hash can be made, and each is compared with all of the others. */
static void test_texts_with_one_hash_cannot_be_computed(void **state)
{
    char one[16] = "0123456789abcde", other[16];
    (void)state;
    memcpy(other, one, sizeof one);
    other[7] = (char)(other[7] ^ 0x80);
    other[11] = (char)(other[11] ^ 0x80);
    other[15] = (char)(other[15] ^ 0x80);
    assert_true(handoff_hash_text(base_span(one, sizeof one)) ==
                handoff_hash_text(base_span(one, sizeof one)));
    assert_true(handoff_hash_text(base_span(one, sizeof one)) !=
                handoff_hash_text(base_span(other, sizeof other)));
}

static void test_thousands_of_items(void **state)
{
    (void)state;
    enum { ENTRIES = 20000 };
    struct base_buffer list = {.arena = &world.arena};
    for (int i = 0; i < ENTRIES; i++)
        base_buffer_printf(&list, "%s{\"id\":\"q%d\",\"n\":%d}", i ? "," : "[", i, i % 7);
    base_buffer_byte(&list, ']');
    const char *open =
        base_arena_printf(&world.arena, "{\"state\":{\"unresolved\":%s}}", list.data);
    base_buffer_clear(&list);
    for (int i = 0; i < ENTRIES; i += 2)
        base_buffer_printf(&list, "%s\"q%d\"", i ? "," : "[", i);
    base_buffer_byte(&list, ']');
    const char *over = base_arena_printf(&world.arena, "{\"state\":{\"resolved\":%s}}", list.data);
    FOLD(open, open, open, over);
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_UNRESOLVED].count, ENTRIES / 2);
    assert_int_equal(world.ledger.past[HANDOFF_ITEM_UNRESOLVED].count, ENTRIES / 2);
}

/* What folding looks at where so many branches that know only the first hop each send a step. */
static size_t look_at_branches(size_t count)
{
    static const size_t first[] = {0};
    struct handoff_said *said = base_arena_calloc(&world.arena, count + 2, sizeof *said);
    size_t *parents = base_arena_calloc(&world.arena, count, sizeof *parents);
    said[0] = said_as(1, "a", "b", "{\"state\":{\"decisions\":[\"d\"]}}");
    for (size_t i = 1; i <= count; i++) {
        const char *text =
            base_arena_printf(&world.arena,
                              "{\"steps\":[{\"agent\":\"b\",\"action\":\"did %zu\"}],"
                              "\"state\":{\"remaining\":[\"do %zu\"]}}",
                              i, i);
        said[i] = said_as(2, "b", "a", text);
        said[i].parents = first;
        said[i].nparents = 1;
        parents[i - 1] = i;
    }
    said[count + 1] = said_as(3, "a", "c", "{}");
    said[count + 1].parents = parents;
    said[count + 1].nparents = count;
    assert_int_equal(handoff_ledger_fold(&world.ledger, &world.arena, said, count + 1,
                                         &said[count + 1], &world.error),
                     HANDOFF_OK);
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_STEP].count, count);
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_REMAINING].count, count);
    return world.ledger.looked_at;
}

static void test_twice_the_branches_are_twice_the_work(void **state)
{
    const size_t branches = 2000;
    (void)state;
    const size_t once = look_at_branches(branches), twice = look_at_branches(2 * branches);
    assert_true(once >= branches);
    assert_true(twice <= 2 * once + 100);
    assert_true(once <= 10 * branches);
}

/* So many siblings each say the same, resolve what their parent asked, and take a step of another
   agent; a child of each resolves what that one has asked. Then one hop continues all. */
static size_t look_at_equal_siblings(size_t count)
{
    static const size_t first[] = {0};
    static const char said_by_each[] =
        "{\"state\":{\"decisions\":[\"d\"],\"unresolved\":[\"mine?\"],\"resolved\":[\"yours?\"]},"
        "\"steps\":[{\"agent\":\"tool\",\"action\":\"ran\"}]}";
    struct handoff_said *said = base_arena_calloc(&world.arena, 2 * count + 2, sizeof *said);
    size_t *parents = base_arena_calloc(&world.arena, 2 * count, sizeof *parents);
    said[0] = said_as(1, "a", "b",
                      "{\"state\":{\"unresolved\":[\"yours?\"]},"
                      "\"steps\":[{\"agent\":\"x\",\"action\":\"began\"}]}");
    for (size_t i = 0; i < count; i++) {
        said[1 + i] = said_as(2, "b", "c", said_by_each);
        said[1 + i].parents = first;
        said[1 + count + i] = said_as(3, "c", "a", "{\"state\":{\"resolved\":[\"mine?\"]}}");
        parents[i] = 1 + i;
        said[1 + count + i].parents = &parents[i];
        parents[count + i] = 1 + count + i;
        said[1 + i].nparents = said[1 + count + i].nparents = 1;
    }
    struct handoff_said *own = &said[1 + 2 * count];
    *own = said_as(4, "a", "c", "{}");
    own->parents = &parents[count];
    own->nparents = count;
    assert_int_equal(
        handoff_ledger_fold(&world.ledger, &world.arena, said, 1 + 2 * count, own, &world.error),
        HANDOFF_OK);
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_DECISION].count, 1);
    assert_true(world.ledger.items[HANDOFF_ITEM_STEP].count >= 1 + count);
    assert_in_range(world.ledger.items[HANDOFF_ITEM_UNRESOLVED].count, 0, 1);
    return world.ledger.looked_at;
}

static void test_hundreds_of_siblings_that_say_the_same_are_compared_exactly(void **state)
{
    (void)state;
    look_at_equal_siblings(400);
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_UNRESOLVED].count, 0);
    assert_int_equal(world.ledger.past[HANDOFF_ITEM_UNRESOLVED].count, 401);
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_STEP].count, 401);
}

static void test_twice_the_siblings_that_say_the_same_are_twice_the_work(void **state)
{
    const size_t siblings = 3000;
    (void)state;
    const size_t once = look_at_equal_siblings(siblings),
                 twice = look_at_equal_siblings(2 * siblings);
    assert_true(once >= siblings);
    assert_true(10 * twice <= 21 * once);
    assert_true(once <= 5000 * siblings);
}

/* Where so many hops each add a demand to one list, and a constraint. */
static size_t look_at_demands(size_t count)
{
    struct handoff_said *said = base_arena_calloc(&world.arena, count + 1, sizeof *said);
    size_t *parents = base_arena_calloc(&world.arena, count + 1, sizeof *parents);
    for (size_t i = 0; i <= count; i++) {
        const char *text = base_arena_printf(
            &world.arena, "{\"constraints\":{\"must_not\":[\"do %zu\"],\"rule-%zu\":true}}", i, i);
        said[i] = said_as((int64_t)i + 1, "a", "b", text);
        parents[i] = i - (i > 0);
        said[i].parents = &parents[i];
        said[i].nparents = i > 0;
    }
    said[count].accepted = false;
    assert_int_equal(
        handoff_ledger_fold(&world.ledger, &world.arena, said, count, &said[count], &world.error),
        HANDOFF_OK);
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_CONSTRAINT].count, 2 * (count + 1));
    return world.ledger.looked_at;
}

static void test_twice_the_demands_are_twice_the_work(void **state)
{
    const size_t hops = 500;
    (void)state;
    const size_t once = look_at_demands(hops), twice = look_at_demands(2 * hops);
    assert_true(once >= hops);
    assert_true(twice <= 2 * once + 100);
    assert_true(once <= 10 * hops);
}

/* A hop whose ancestors have sent steps of several agents, of one, of itself alone, or none. */
static void test_who_sends_a_history_again_sends_others_steps_too(void **state)
{
#define STEP(agent) "{\"agent\":\"" agent "\",\"action\":\"did\"}"
    (void)state;
    /* b has seen a's step, and sends only its own again: it has done that once more */
    FOLD("{\"steps\":[" STEP("a") "," STEP("b") "]}", "{\"steps\":[" STEP("b") "]}");
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_STEP].count, 3);
    /* with a's step it is the history */
    FOLD("{\"steps\":[" STEP("a") "," STEP("b") "]}", "{\"steps\":[" STEP("a") "," STEP("b") "]}");
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_STEP].count, 2);
    /* b has seen its own alone: that is the whole history */
    FOLD("{\"steps\":[" STEP("b") "]}", "{\"steps\":[" STEP("b") "]}");
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_STEP].count, 1);
    /* a branch does not know what its sibling has sent; what joins both knows it */
    world.agents = "a\0b\0b\0b\0c\0d";
    FOLD_AS("0 0 2 13", "{}", "{\"steps\":[" STEP("x") "," STEP("b") "]}",
            "{\"steps\":[" STEP("b") "]}", "{\"steps\":[" STEP("b") "]}", "{}");
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_STEP].count, 3);
    FOLD_AS("0 0 12 3", "{}", "{\"steps\":[" STEP("x") "," STEP("b") "]}",
            "{\"steps\":[" STEP("b") "]}", "{\"steps\":[" STEP("b") "]}", "{}");
    assert_int_equal(world.ledger.items[HANDOFF_ITEM_STEP].count, 4);
    world.agents = NULL;
#undef STEP
}

static void test_the_same_gives_the_same(void **state)
{
    (void)state;
    const char *texts[] = {"{\"state\":{\"decisions\":[\"d1\",\"d2\"]},\"summary\":\"s\"}",
                           "{\"state\":{\"decisions\":[\"d2\",\"d3\"],\"progress\":1}}",
                           "{\"constraints\":{\"must\":[\"x\"]}}", NULL};
    assert_int_equal(fold(texts), HANDOFF_OK);
    const char *once =
        base_arena_strdup(&world.arena, listed(&world.ledger.items[HANDOFF_ITEM_DECISION]));
    assert_int_equal(fold(texts), HANDOFF_OK);
    STANDS(DECISION, once);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_intent_is_the_first_and_unchanged),
        TEST(test_a_reference_is_missing_since_the_hop_that_missed_it_first),
        TEST(test_to_finish_the_same_again_is_no_progress),
        TEST(test_agents_may_publish_back_and_forth),
        TEST(test_what_a_text_names_is_a_reference_once_it_was_found),
        TEST(test_what_no_memory_can_be_called),
        TEST(test_constraints_accumulate),
        TEST(test_a_refused_constraint_names_the_value_its_hop_and_agent),
        TEST(test_what_is_null_at_first_is_absent),
        TEST(test_a_deadline_comes_only_earlier),
        TEST(test_an_edit_may_have_a_later_deadline),
        TEST(test_a_later_deadline_of_an_edit_is_for_what_continues_it),
        TEST(test_max_tokens_is_a_budget),
        TEST(test_a_look_alike_of_an_inherited_constraint_is_refused),
        TEST(test_siblings_that_spell_a_constraint_differently_are_not_joined),
        TEST(test_siblings_that_disagree_are_not_joined),
        TEST(test_earlier_summaries_become_steps),
        TEST(test_decisions_unresolved_and_remaining_grow),
        TEST(test_equal_entries_are_one),
        TEST(test_resolved_and_done_take_out_what_is_over),
        TEST(test_what_is_said_again_later_is_there_again),
        TEST(test_a_hop_resolves_only_what_it_knows),
        TEST(test_who_repeats_an_entry_does_not_keep_it_from_being_resolved),
        TEST(test_what_siblings_have_both_said_stands_until_both_are_resolved),
        TEST(test_white_space_of_all_scripts_counts_for_nothing_at_the_ends),
        TEST(test_ids_of_entries_are_texts_or_numbers),
        TEST(test_what_is_over_is_told_to_the_next_hop),
        TEST(test_members_that_are_no_lists_of_ours_are_carried),
        TEST(test_the_newest_progress_is_shown),
        TEST(test_the_history_is_complete_and_repeats_nothing),
        TEST(test_what_an_agent_does_again_is_a_step_again),
        TEST(test_a_step_of_one_time_is_one_step),
        TEST(test_a_step_of_one_time_that_siblings_have_both_sent_is_one_step),
        TEST(test_a_constraint_is_past_once_nothing_of_it_holds),
        TEST(test_references_are_inherited_from_the_hop_that_first_named_them),
        TEST(test_expected_output_is_this_hops),
        TEST(test_a_contribution_is_read_as_it_was_written),
        TEST(test_an_empty_contribution_is_short),
        TEST(test_a_damaged_contribution_is_told),
        TEST(test_texts_with_one_hash_cannot_be_computed),
        TEST(test_thousands_of_items),
        TEST(test_twice_the_branches_are_twice_the_work),
        TEST(test_hundreds_of_siblings_that_say_the_same_are_compared_exactly),
        TEST(test_twice_the_siblings_that_say_the_same_are_twice_the_work),
        TEST(test_twice_the_demands_are_twice_the_work),
        TEST(test_who_sends_a_history_again_sends_others_steps_too),
        TEST(test_the_same_gives_the_same),
    };
    return RUN_TESTS(tests);
}
