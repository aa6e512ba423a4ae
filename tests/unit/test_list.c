/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of a context: what an entry is priced at is what it costs, whichever entries are kept and
 * whatever they begin and end with; compared with a count of the whole text.
 */
#include "tests/support/property.h"
#include "tests/support/unit.h"

#include <string.h>

#include "client/assemble/list.h"
#include "client/assemble/segment.h"
#include "lib/base/json.h"

static struct world {
    struct base_arena arena;
    struct handoff_counter counter;
    struct handoff_list_runs runs;
    struct base_buffer texts;
    struct handoff_list list;
    yyjson_doc *doc;
} world;

static const char *const encodings[] = {"o200k_base", "cl100k_base"};

static bool open_world(const char *encoding)
{
    world =
        (struct world){.counter.tokenizer = handoff_tokenizer_open_encoding(encoding, NULL, NULL)};
    if (!world.counter.tokenizer)
        return false;
    world.counter.scratch.arena = world.texts.arena = &world.arena;
    handoff_list_prepare(&world.runs, &world.counter);
    return true;
}

static void close_world(void)
{
    base_arena_free(&world.arena);
    handoff_tokenizer_close((struct handoff_tokenizer **)&world.counter.tokenizer);
}

static void make_list(const char *json, enum handoff_part part, enum handoff_list_end end)
{
    size_t i, n;
    yyjson_val *value;
    assert_int_equal(
        base_json_read_in(&world.arena, base_span_text(json), "list", &world.doc, NULL),
        HANDOFF_OK);
    yyjson_val *array = yyjson_doc_get_root(world.doc);
    struct handoff_item *items =
        base_arena_calloc(&world.arena, yyjson_arr_size(array) + 1, sizeof *items);
    yyjson_arr_foreach(array, i, n, value)
    {
        static const char *const names[] = {"progress", "x", "ключ", "!!", "9", "the note", "'s"};
        items[i].value = value;
        items[i].name = base_span_text(names[i % (sizeof names / sizeof *names)]);
    }
    world.texts = (struct base_buffer){.arena = &world.arena};
    world.counter.scratch = (struct base_buffer){.arena = &world.arena};
    world.list = (struct handoff_list){.items = {items, yyjson_arr_size(array)},
                                       .runs = &world.runs,
                                       .counter = &world.counter,
                                       .texts = &world.texts};
    assert_true(handoff_list_init(&world.list, part, end, &world.arena));
    if (part == HANDOFF_PART_STATE && end == HANDOFF_LIST_END_REMAINING)
        world.list.next_key = base_span_text("\"remaining");
}

static const char *key_of(enum handoff_part part)
{
    return part == HANDOFF_PART_STEPS ? "history" : handoff_part_name(part);
}

/* From the key of the list up to the letters of the next one: both are always cut there. */
static int64_t count_whole(enum handoff_part part)
{
    struct base_buffer text = {.arena = &world.arena};
    const char *key = key_of(part);
    base_buffer_text(&text, key);
    handoff_list_write(&text, &world.list);
    return (int64_t)handoff_cost_of_text(&world.counter, base_buffer_span(&text)) -
           handoff_cost_of_text(&world.counter, base_span_text(key));
}

/* Keeps every entry that `chosen` has a bit for, from the end, and compares after each. */
static void check_sums(const char *json, enum handoff_part part, enum handoff_list_end end,
                       uint64_t chosen)
{
    make_list(json, part, end);
    struct handoff_trim_list *trim = &world.list.trim;
    trim->clear(trim);
    int64_t sum = trim->empty;
    assert_int_equal(sum, count_whole(part));
    for (size_t i = trim->count; i > 0; i--) {
        const int64_t price = trim->price(trim, i - 1, HANDOFF_PRICE_TOO_HIGH - 1);
        if (price == HANDOFF_PRICE_TOO_HIGH || !(chosen >> (i % 64) & 1))
            continue;
        trim->keep(trim, i - 1);
        trim->kept++;
        sum += price;
        if (sum != count_whole(part))
            print_message("%s\n", json);
        assert_int_equal(sum, count_whole(part));
    }
    for (size_t i = 0; i < trim->count && trim->price_reason; i++) {
        const int64_t price = trim->price_reason(trim, i);
        if (price == HANDOFF_PRICE_TOO_HIGH)
            continue;
        trim->keep_reason(trim, i);
        sum += price;
        assert_int_equal(sum, count_whole(part));
    }
}

/* ---- by examples ---------------------------------------------------------------------------- */

static void test_entries_of_every_kind(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "[\"one\",\"two\"]",
        "[\"one.\",\"(two)\",\"'three'\"]",
        "[\" one \",\"  two  \",\"\\tthree\\n\"]",
        "[\"1\",\"22\",\"333\",\"4444\"]",
        "[1,22,-333,4.5e6,true,false,null]",
        "[\"\",\"\",\"\"]",
        "[[],{},[[]],\"!!\"]",
        "[{\"id\":\"a\"},{\"b\":[1,2]},[\"c\",{\"d\":null}]]",
        "[\"🙂\",\"🙂 one\",\"two 🙂\",\"👩‍👩‍👧\"]",
        "[\"日本語\",\"日本語。\",\"ไทย\",\"é\",\"e\\u0301\",\"\\u0301e\"]",
        "[\"'s\",\"one's\",\"it'\",\"'Re one\"]",
        "[\"\\\\\",\"\\\"quoted\\\"\",\"/*\",\"*/\",\"//\",\"a/\"]",
        "[\"\\u0001\",\"\\u2028\",\"\\u00a0one\\u00a0\",\"ǅ\",\"٣\",\"x٣\"]",
        "[\"  12\",\"12  \",\"one  12\",\"12  one\",\"...  12...\"]",
        "[\"a\",\"],\\\"unresolved\",\"},{\",\"\\\"]\"]",
    };
    for (size_t e = 0; e < 2; e++) {
        if (!open_world(encodings[e]))
            skip();
        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
            for (uint64_t chosen = 0; chosen < 256; chosen++)
                check_sums(lists[i], HANDOFF_PART_DECISIONS,
                           (enum handoff_list_end)(chosen % HANDOFF_LIST_END_HISTORY), chosen);
        }
        close_world();
    }
}

/* ---- by chance ------------------------------------------------------------------------------ */

/* What tokenizers find difficult, at the ends of texts too. */
static void add_hostile_text(struct base_buffer *out, struct property *property)
{
    static const char *const parts[] = {"the gateway ",
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
                                        "\u0301",
                                        "\u2028",
                                        "\u00a0",
                                        "Ж",
                                        "...",
                                        "://",
                                        "/*",
                                        "x=1;",
                                        "\\r\\n",
                                        "ǅ",
                                        "٣",
                                        "'",
                                        "!",
                                        "\u017f",
                                        "\u200b",
                                        "ไม่",
                                        "🙂",
                                        "RE",
                                        "ll"};
    base_buffer_byte(out, '"');
    for (uint32_t n = property_below(property, 7); n > 0; n--)
        base_buffer_text(out, parts[property_below(property, sizeof parts / sizeof *parts)]);
    base_buffer_byte(out, '"');
}

static void add_hostile_entry(struct base_buffer *out, struct property *property)
{
    static const char *const others[] = {"true", "null", "-1.50e3", "[]", "{}", "12", "[[1]]"};
    switch (property_below(property, 8)) {
    case 0:
        base_buffer_text(out, others[property_below(property, sizeof others / sizeof *others)]);
        break;
    case 1:
        base_buffer_text(out, "{\"id\":");
        add_hostile_text(out, property);
        base_buffer_byte(out, '}');
        break;
    case 2:
        base_buffer_byte(out, '[');
        add_hostile_text(out, property);
        base_buffer_byte(out, ']');
        break;
    default:
        add_hostile_text(out, property);
    }
}

static void add_hostile_step(struct base_buffer *out, struct property *property)
{
    static const char *const names[] = {"action", "decision", "reason", "memory_id", "note"};
    base_buffer_text(out, "{\"agent\":");
    add_hostile_text(out, property);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (i > 0 && property_chance(property, 40))
            continue;
        base_json_write_key(out, base_span_text(names[i]));
        add_hostile_text(out, property);
    }
    base_buffer_byte(out, '}');
}

static void check_random_list(struct property *property)
{
    const enum handoff_part part = (enum handoff_part)property_below(property, HANDOFF_LISTS);
    const bool steps = part == HANDOFF_PART_STEPS;
    const enum handoff_list_end members_end =
        property_chance(property, 50) ? HANDOFF_LIST_END_MEMBERS : HANDOFF_LIST_END_REMAINING;
    struct base_buffer json = {.arena = &world.arena};
    base_buffer_byte(&json, '[');
    for (uint32_t n = property_below(property, 12); n > 0; n--) {
        (steps ? add_hostile_step : add_hostile_entry)(&json, property);
        base_buffer_text(&json, n > 1 ? "," : "");
    }
    base_buffer_text(&json, "]");
    check_sums(json.data, part,
               steps ? HANDOFF_LIST_END_HISTORY
               : part == HANDOFF_PART_STATE
                   ? members_end
                   : (enum handoff_list_end)property_below(property, HANDOFF_LIST_END_HISTORY),
               property_next(property) | property_next(property));
}

static void test_random_lists(void **state)
{
    (void)state;
    struct property property = property_begin("lists");
    for (size_t e = 0; e < 2; e++) {
        if (!open_world(encodings[e]))
            skip();
        for (int round = 0; round < 4000; round++) {
            check_random_list(&property);
            if (round % 64 == 0)
                base_arena_free(&world.arena);
        }
        close_world();
    }
}

/* Counts that an earlier hop stored: nothing is counted, and a wrong one would show. */
static void test_stored_counts_are_used(void **state)
{
    (void)state;
    if (!open_world("o200k_base"))
        skip();
    make_list("[\"counted before\",\"not counted\"]", HANDOFF_PART_REMAINING,
              HANDOFF_LIST_END_STATE);
    struct handoff_trim_list *trim = &world.list.trim;
    trim->clear(trim);
    const int64_t price = trim->price(trim, 0, 1000);
    const uint32_t tokens = world.list.items.at[0].tokens;
    assert_true(tokens > 0);
    make_list("[\"counted before\",\"not counted\"]", HANDOFF_PART_REMAINING,
              HANDOFF_LIST_END_STATE);
    world.list.items.at[0].tokens = tokens + 7;
    trim->clear(trim);
    assert_int_equal(trim->price(trim, 0, 1000), price + 7);
    assert_int_equal(world.texts.size, 0); /* the text was not even written */
    assert_int_equal(trim->price(trim, 0, tokens + 5), HANDOFF_PRICE_TOO_HIGH);
    close_world();
}

/* A list of nothing but symbols is one run. */
static void keep_all_of(const char *entry, int count, int64_t *sum)
{
    struct base_buffer json = {.arena = &world.arena};
    base_buffer_byte(&json, '[');
    for (int i = 0; i < count; i++)
        base_buffer_printf(&json, "%s%s", i ? "," : "", entry);
    base_buffer_text(&json, "]");
    make_list(json.data, HANDOFF_PART_UNRESOLVED, HANDOFF_LIST_END_STATE);
    struct handoff_trim_list *trim = &world.list.trim;
    trim->clear(trim);
    *sum = trim->empty;
    for (size_t i = trim->count; i > 0; i--) {
        *sum += trim->price(trim, i - 1, 100000);
        trim->keep(trim, i - 1);
    }
}

static void test_a_run_without_end_loses_no_entry_and_is_exact_in_the_end(void **state)
{
    (void)state;
    static const char *const entries[] = {"\"!\"", "\"🙂\"", "\"?!\",\"two words\",\"\""};
    if (!open_world("o200k_base"))
        skip();
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        int64_t sum;
        keep_all_of(entries[i], 2000, &sum);
        sum += world.list.trim.settle(&world.list.trim);
        assert_int_equal(sum, count_whole(HANDOFF_PART_UNRESOLVED));
    }
    close_world();
}

/* What is counted and copied grows with the list, not with its square. */
static void test_a_run_without_end_is_not_copied_for_each_entry(void **state)
{
    (void)state;
    size_t held[2];
    for (int twice = 0; twice < 2; twice++) {
        int64_t sum;
        if (!open_world("o200k_base"))
            skip();
        keep_all_of("\"🙂🙂🙂🙂🙂🙂🙂🙂\"", 20000 << twice, &sum);
        held[twice] = world.arena.held;
        close_world();
    }
    assert_true(held[1] < held[0] * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_of_every_kind),
        cmocka_unit_test(test_random_lists),
        cmocka_unit_test(test_stored_counts_are_used),
        cmocka_unit_test(test_a_run_without_end_loses_no_entry_and_is_exact_in_the_end),
        cmocka_unit_test(test_a_run_without_end_is_not_copied_for_each_entry),
    };
    return RUN_TESTS(tests);
}
