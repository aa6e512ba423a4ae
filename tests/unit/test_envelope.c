/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an envelope, its seal, its older form and its brief, against documents that were written
 * by hand from the contract and sealed by another program (tests/golden).
 */
#include "tests/support/property.h"
#include "tests/support/unit.h"

#include <string.h>

#include "client/envelope/brief.h"
#include "client/envelope/digest.h"
#include "client/envelope/legacy.h"
#include "client/envelope/read.h"
#include "client/envelope/trace.h"
#include "tests/support/failing_memory.h"
#include "tests/support/files.h"

#define CHILD "tests/golden/envelope-child.json"

static void read_golden(const char *path, struct handoff_envelope *envelope)
{
    struct base_span text = files_read(path);
    assert_int_equal(handoff_envelope_read(text, envelope, NULL), HANDOFF_OK);
    files_free(text);
}

static void assert_text(struct base_span span, const char *text)
{
    assert_non_null(span.data);
    assert_string_equal(span.data, text);
}

static void test_what_is_read(void **state)
{
    (void)state;
    struct handoff_envelope envelope;
    read_golden(CHILD, &envelope);
    assert_text(envelope.id, "0190aaaa-0000-7000-8000-000000000002");
    assert_text(envelope.task_id, "payments-17");
    assert_text(envelope.source_agent, "analyst");
    assert_text(envelope.intent, "Make payments survive a flaky gateway.");
    assert_text(envelope.tracestate, "vendor=1");
    assert_int_equal(envelope.hop_count, 2);
    assert_int_equal(envelope.hop_max, 10);
    assert_int_equal(yyjson_arr_size(envelope.path), 1);
    assert_int_equal(yyjson_arr_size(envelope.memories), 2);
    assert_int_equal(yyjson_arr_size(envelope.history), 3);
    assert_int_equal(yyjson_obj_size(envelope.constraints), 4);
    handoff_envelope_free(&envelope);
    handoff_envelope_free(&envelope);
}

/* A copy in which the first `from` became `to`. */
static char *changed(struct base_span text, const char *from, const char *to)
{
    const char *at = strstr(text.data, from);
    char *copy = malloc(text.size + strlen(to) + 1);
    assert_non_null(at);
    memcpy(copy, text.data, (size_t)(at - text.data));
    strcpy(copy + (at - text.data), to);
    strcat(copy, at + strlen(from));
    return copy;
}

static enum handoff_code read_changed(const char *from, const char *to, struct handoff_error *error)
{
    struct base_span text = files_read(CHILD);
    struct handoff_envelope envelope;
    char *copy = changed(text, from, to);
    enum handoff_code code = handoff_envelope_read(base_span_text(copy), &envelope, error);
    if (code == HANDOFF_OK)
        handoff_envelope_free(&envelope);
    free(copy);
    files_free(text);
    return code;
}

static void test_unknown_fields_are_ignored(void **state)
{
    (void)state;
    struct handoff_error error;
    assert_int_equal(read_changed("\"envelope_version\":\"2.1\"",
                                  "\"future\":{\"a\":[1]},\"envelope_version\":\"2.7\"", &error),
                     HANDOFF_OK);
    assert_int_equal(read_changed("\"hop\":{", "\"hop\":{\"budget\":3,", &error), HANDOFF_OK);
    assert_int_equal(read_changed(",\"tracestate\":\"vendor=1\"", "", &error), HANDOFF_OK);
    assert_int_equal(read_changed("\"previous\":{", "\"gone\":{", &error), HANDOFF_OK);
}

static void test_what_is_no_envelope(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *field;
    } rows[] = {
        {"\"envelope_version\":\"2.1\"", "\"envelope_version\":\"3.0\"", "envelope_version"},
        {"\"envelope_version\":\"2.1\"", "\"envelope_version\":2", "envelope_version"},
        {"\"task_id\":\"payments-17\"", "\"task_id\":17", "task_id"},
        {"\"task_id\":", "\"task\":", "task_id"},
        {"\"count\":2", "\"count\":0", "hop.count"},
        {"\"count\":2", "\"count\":\"2\"", "hop.count"},
        {"\"path\":[\"researcher\"]", "\"path\":[1]", "hop.path"},
        {"\"path\":[\"researcher\"]", "\"path\":\"researcher\"", "hop.path"},
        {"\"tracestate\":\"vendor=1\"", "\"tracestate\":null", "trace.tracestate"},
        {"\"intent\":", "\"goal\":", "context.task.intent"},
        {"\"state\":{", "\"state\":[],\"was\":{", "context.task.state"},
        {"\"memories\":[", "\"memories\":[\"ms\",", "context.memories"},
        {"\"history\":[", "\"history\":[null,", "context.history"},
        {"\"constraints\":{", "\"constraint\":{", "context.constraints"},
        {"\"context\":{", "\"contents\":{", "context"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct handoff_error error = {0};
        assert_int_equal(read_changed(rows[i].from, rows[i].to, &error), HANDOFF_ERR_INVALID);
        assert_string_equal(error.field, rows[i].field);
    }
}

static void test_reading_without_memory(void **state)
{
    (void)state;
    struct base_span text = files_read(CHILD);
    struct handoff_envelope envelope;
    enum handoff_code code;
    long n = 1;
    do {
        failing_memory_at(n++);
        code = handoff_envelope_read(text, &envelope, NULL);
        if (code == HANDOFF_OK)
            handoff_envelope_free(&envelope);
        else
            assert_int_equal(code, HANDOFF_ERR_OUT_OF_MEMORY);
    } while (atomic_load(&failing_memory_hit));
    failing_memory_at(0);
    assert_true(n > 2);
    files_free(text);
}

/* ---- the seal ------------------------------------------------------------------------------ */

static void test_every_changed_byte_breaks_the_seal(void **state)
{
    (void)state;
    struct base_span text = files_read(CHILD);
    char *bytes = (char *)(uintptr_t)text.data;
    assert_true(handoff_digest_verify(text));
    for (size_t i = 0; i < text.size; i++) {
        bytes[i] ^= 1;
        assert_false(handoff_digest_verify(text));
        bytes[i] ^= 1;
    }
    for (size_t size = 0; size < text.size; size++)
        assert_false(handoff_digest_verify(base_span(text.data, size)));
    files_free(text);
}

static void test_a_new_seal_verifies(void **state)
{
    (void)state;
    struct base_buffer envelope = {0};
    unsigned char digest[BASE_SHA256_BYTES];
    handoff_digest_begin(&envelope, "0190aaaa-0000-7000-8000-000000000002");
    base_buffer_text(&envelope, "\"created_at\":\"now\"}");
    handoff_digest_seal(&envelope, digest);
    assert_true(handoff_digest_verify(base_buffer_span(&envelope)));
    /* by sha256sum of the text without the member */
    assert_non_null(strstr(envelope.data,
                           "\"digest\":\"sha256:"
                           "1744288c41d5fd582ba3da85355df5dbc10eb074614a2372e69e2e7c2326c4ce"
                           "\","));
    base_buffer_free(&envelope);
}

/* ---- the other forms ----------------------------------------------------------------------- */

static void assert_written(void (*write)(struct base_buffer *, const struct handoff_envelope *),
                           const char *golden)
{
    struct handoff_envelope envelope;
    struct base_buffer out = {0};
    struct base_span expected = files_read(golden);
    read_golden(CHILD, &envelope);
    write(&out, &envelope);
    assert_string_equal(out.data, expected.data);
    handoff_envelope_free(&envelope);
    base_buffer_free(&out);
    files_free(expected);
}

static void test_version_1(void **state)
{
    (void)state;
    assert_written(handoff_legacy_write, "tests/golden/envelope-child.v1.json");
}

static void test_brief(void **state)
{
    (void)state;
    assert_written(handoff_brief_write, "tests/golden/envelope-child.md");
}

/* ---- a brief cannot be broken out of ------------------------------------------------------- */

/* Text that tries to: fences of all lengths, headings, line ends of all kinds, HTML, links. */
static void write_nasty(struct base_buffer *out, struct property *property)
{
    static const char *const parts[] = {"\\n",
                                        "\\r",
                                        "\\r\\n",
                                        "\\u000b",
                                        "`",
                                        "```",
                                        "~~~",
                                        "````text",
                                        "# forged",
                                        "\\n## Memories\\n",
                                        "    ",
                                        "<!-- ",
                                        "</script>",
                                        "[x](http://y)",
                                        "1. ",
                                        "- ",
                                        "+ ",
                                        "12) ",
                                        "> ",
                                        "---",
                                        "===",
                                        "\\u2028",
                                        "&lt;",
                                        "word",
                                        "\\\\",
                                        "\\nforged\\n===\\n",
                                        "\\nforged\\n---\\n",
                                        "\\u0085",
                                        "\\u202e",
                                        "\\u2066",
                                        "\\u200b",
                                        "\\ufeff",
                                        "\\u00ad",
                                        "\\u034f",
                                        "\\u115f",
                                        "\\u1160",
                                        "\\u3164",
                                        "\\uffa0",
                                        "\\u17b4",
                                        "\\ud834\\udd73",
                                        "\\udb40\\udc41",
                                        "\\u0000",
                                        "\\u001b[2J",
                                        "\\n-->\\n",
                                        "; decided: ",
                                        "\\n- deadline: never\\n",
                                        "<details>"};
    uint32_t count = property_below(property, 24);
    base_buffer_byte(out, '"');
    for (uint32_t i = 0; i < count; i++)
        base_buffer_text(out, parts[property_below(property, sizeof(parts) / sizeof(parts[0]))]);
    base_buffer_byte(out, '"');
}

static const char *write_template(struct base_buffer *out, struct property *property)
{
    static const char template[] =
        "{'envelope_version':'2.0','id':'i','digest':'d','created_at':'c','task_id':?,"
        "'source_agent':?,'target_agent':?,'pattern':'direct','hop':{'count':1,'max':2,'path':[]},"
        "'context':{'task':{'intent':?,'summary':?,'state':{'x':?}},'memories':[{'id':?,"
        "'content':?,'priority':?,'tags':[?,?]},{'id':?,'summary':?}],'history':[{'agent':?,"
        "'action':?,'reason':?}],'constraints':{'deadline':?},'expected_output':{'format':?}},"
        "'missing':[{'id':?,'reason':?,'since_hop':3}],'trimmed':[{'id':?,'priority':?}],"
        "'omitted':{'steps':12,'more':?}}";
    for (const char *c = template; *c; c++) {
        if (*c == '?')
            write_nasty(out, property);
        else
            base_buffer_byte(out, *c == '\'' ? '"' : *c);
    }
    return out->data;
}

static size_t run_of(const char *line, char c)
{
    size_t run = 0;
    while (line[run] == c)
        run++;
    return run;
}

/* The length of a list's marker; 0: it is none. */
static size_t marker_of(const char *line)
{
    size_t digits = strspn(line, "0123456789");
    if (digits > 0 && digits < 10 && strchr(".)", line[digits]) && line[digits + 1] == ' ')
        return digits + 2;
    return strchr("-+*", line[0]) && line[0] && line[1] == ' ' ? 2 : 0;
}

/* An entry is one of the sidecar's own lists, and begins no other list or block. */
static void check_entry(const char *line)
{
    const size_t marker = marker_of(line);
    if (marker == 0)
        return;
    const char *text = line + marker;
    assert_true(*text != ' ');
    assert_int_equal(marker_of(text), 0);
}

/* What CommonMark makes of a brief: the headings outside fenced blocks, and whether one is open at
 * the end. Lines end at \n, \r\n and \r. */
static void outline(char *text, struct base_buffer *headings, bool *open)
{
    size_t fence = 0;
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\r\n");
        bool last = line[length] == '\0';
        line[length] = '\0';
        size_t indent = run_of(line, ' ');
        size_t ticks = indent < 4 ? run_of(line + indent, '`') : 0;
        if (fence) {
            if (ticks >= fence &&
                strspn(line + indent + ticks, " \t") == strlen(line + indent + ticks))
                fence = 0;
        } else if (ticks >= 3 && !strchr(line + indent + ticks, '`')) {
            fence = ticks;
        } else if (indent < 4 && line[indent] == '#') {
            base_buffer_printf(headings, "%.*s\n", (int)run_of(line + indent, '#'), line + indent);
        } else {
            assert_int_not_equal(line[indent], '~');
            assert_int_not_equal(line[indent], '<');
            assert_int_not_equal(line[indent], '=');
            const char *link = strstr(line, "](");
            assert_true(!link || link[-1] == '\\');
            assert_true(indent < 4);
            check_entry(line);
        }
        if (last)
            break;
        line += length + 1;
    }
    *open = fence != 0;
}

/* No control but the line feed, and nothing that hides or turns text. */
static void check_nothing_is_hidden(const struct base_buffer *brief)
{
    static const char *const hidden[] = {
        "\xc2\x85", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\xf3\xa0\x81\x81", "\u00ad",
        "\u034f",   "\u115f", "\u1160", "\u3164", "\uffa0", "\u17b4", "\U0001d173"};
    assert_int_equal(strlen(brief->data), brief->size);
    for (size_t i = 0; i < brief->size; i++)
        assert_true((unsigned char)brief->data[i] >= ' ' || brief->data[i] == '\n');
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        assert_null(strstr(brief->data, hidden[i]));
}

static void test_every_form_says_what_it_lacks(void **state)
{
    (void)state;
    static const char text[] =
        "{\"envelope_version\":\"2.1\",\"id\":\"i\",\"digest\":\"d\",\"created_at\":\"c\","
        "\"task_id\":\"t\",\"source_agent\":\"a\",\"target_agent\":\"b\",\"pattern\":\"direct\","
        "\"hop\":{\"count\":3,\"max\":9,\"path\":[]},\"context\":{\"task\":{\"intent\":\"i\","
        "\"summary\":\"s\",\"state\":{}},\"memories\":[],\"history\":[],\"constraints\":{},"
        "\"expected_output\":{}},\"missing\":[],\"trimmed\":[{\"id\":\"m\",\"tokens\":9,"
        "\"priority\":\"low\"}],\"history_trimmed\":5,\"omitted\":{\"steps\":3,\"reasons\":2,"
        "\"more\":\"/x\"}}";
    struct handoff_envelope envelope;
    struct base_buffer flat = {0}, brief = {0};
    assert_int_equal(handoff_envelope_read(base_span_text(text), &envelope, NULL), HANDOFF_OK);
    handoff_legacy_write(&flat, &envelope);
    handoff_brief_write(&brief, &envelope);
    base_buffer_byte(&flat, '\0');
    base_buffer_byte(&brief, '\0');
    assert_non_null(strstr(flat.data, "\"trimmed\":[{\"id\":\"m\","));
    assert_non_null(strstr(flat.data, "\"history_trimmed\":5"));
    assert_non_null(strstr(flat.data, "\"omitted\":{\"steps\":3,\"reasons\":2,"));
    assert_null(strstr(flat.data, "missing"));
    assert_non_null(strstr(brief.data, "3 steps, 2 reasons; all of it: GET /x\n"));
    assert_non_null(strstr(brief.data, "- no longer stored: 2 steps of earlier hops\n"));
    base_buffer_free(&flat);
    base_buffer_free(&brief);
    handoff_envelope_free(&envelope);
}

static void test_an_agent_begins_no_list(void **state)
{
    (void)state;
    static const char *const agents[][2] = {{"- must not test", "1. \\- must not test: "},
                                            {"+ x", "1. \\+ x: "},
                                            {"* x", "1. \\* x: "},
                                            {" \\n 12. x", "1. 12\\. x: "},
                                            {"3) x", "1. 3\\) x: "},
                                            {"3.5 x", "1. 3\\.5 x: "},
                                            {"coder-2", "1. coder-2: "}};
    for (size_t i = 0; i < sizeof agents / sizeof *agents; i++) {
        struct base_buffer text = {0}, brief = {0};
        struct handoff_envelope envelope;
        base_buffer_printf(
            &text,
            "{\"envelope_version\":\"2.1\",\"id\":\"i\",\"digest\":\"d\",\"created_at\":\"c\","
            "\"task_id\":\"t\",\"source_agent\":\"a\",\"target_agent\":\"b\",\"pattern\":"
            "\"direct\",\"hop\":{\"count\":3,\"max\":9,\"path\":[]},\"context\":{\"task\":"
            "{\"intent\":\"i\",\"summary\":\"s\",\"state\":{}},\"memories\":[],\"history\":"
            "[{\"agent\":\"%s\",\"action\":\"ran\"}],\"constraints\":{},\"expected_output\":{}}}",
            agents[i][0]);
        assert_int_equal(handoff_envelope_read(base_buffer_span(&text), &envelope, NULL),
                         HANDOFF_OK);
        handoff_brief_write(&brief, &envelope);
        base_buffer_byte(&brief, '\0');
        assert_non_null(strstr(brief.data, agents[i][1]));
        base_buffer_free(&text);
        base_buffer_free(&brief);
        handoff_envelope_free(&envelope);
    }
}

static void test_a_brief_cannot_be_broken_out_of(void **state)
{
    (void)state;
    struct property property = property_begin("brief");
    for (int round = 0; round < 3000; round++) {
        struct base_buffer text = {0}, brief = {0}, headings = {0};
        struct handoff_envelope envelope;
        bool open;
        write_template(&text, &property);
        assert_int_equal(handoff_envelope_read(base_buffer_span(&text), &envelope, NULL),
                         HANDOFF_OK);
        handoff_brief_write(&brief, &envelope);
        assert_false(brief.failed);
        check_nothing_is_hidden(&brief);
        outline(brief.data, &headings, &open);
        assert_false(open);
        assert_string_equal(headings.data, "#\n##\n##\n##\n##\n##\n##\n##\n###\n###\n##\n");
        handoff_envelope_free(&envelope);
        base_buffer_free(&text);
        base_buffer_free(&brief);
        base_buffer_free(&headings);
    }
}

/* What is inside the lists is the writer's business; a brief shows what it can read of it. */
static void test_a_brief_of_odd_members(void **state)
{
    (void)state;
    static const char *const odd[] = {"[1,2,3]", "{\"a\":1}", "null", "7", "true"};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct base_span text = files_read(CHILD);
        struct base_buffer brief = {0}, legacy = {0};
        struct handoff_envelope envelope;
        char step[64], memory[64];
        snprintf(step, sizeof(step), "\"agent\":%s,\"was\":\"analyst\"", odd[i]);
        snprintf(memory, sizeof(memory), "\"id\":%s,\"priority\":%s,\"content\"", odd[i], odd[i]);
        char *once = changed(text, "\"agent\":\"analyst\"", step);
        char *twice = changed(base_span_text(once), "\"id\":\"ms-4824\",\"content\"", memory);
        assert_int_equal(handoff_envelope_read(base_span_text(twice), &envelope, NULL), HANDOFF_OK);
        handoff_brief_write(&brief, &envelope);
        handoff_legacy_write(&legacy, &envelope);
        assert_non_null(strstr(brief.data, "Timeouts come in bursts"));
        assert_false(brief.failed || legacy.failed);
        handoff_envelope_free(&envelope);
        base_buffer_free(&brief);
        base_buffer_free(&legacy);
        free(once);
        free(twice);
        files_free(text);
    }
}

/* ---- traces -------------------------------------------------------------------------------- */

static void test_traceparent(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } rows[] = {
        {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true},
        {"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", true},
        {"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
        {"00-00000000000000000000000000000000-b7ad6b7169203331-01", false},
        {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
        {"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
        {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", false},
        {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", false},
        {"00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01", false},
        {"0000000000000000000000000000000000000000000000000000000", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(handoff_traceparent_is_valid(base_span_text(rows[i].text)), rows[i].valid);
    for (int i = 0; i < 100; i++) {
        char made[HANDOFF_TRACEPARENT_SIZE];
        handoff_traceparent_make(&base_random_system, made);
        assert_true(handoff_traceparent_is_valid(base_span_text(made)));
    }
    assert_true(handoff_tracestate_is_valid(base_span_text("a=1,b=2")));
    assert_false(handoff_tracestate_is_valid(base_span_text("")));
    assert_false(handoff_tracestate_is_valid(base_span_text("a=\n")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_unknown_fields_are_ignored),
        cmocka_unit_test(test_what_is_no_envelope),
        cmocka_unit_test(test_reading_without_memory),
        cmocka_unit_test(test_every_changed_byte_breaks_the_seal),
        cmocka_unit_test(test_a_new_seal_verifies),
        cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_brief),
        cmocka_unit_test(test_every_form_says_what_it_lacks),
        cmocka_unit_test(test_a_brief_cannot_be_broken_out_of),
        cmocka_unit_test(test_an_agent_begins_no_list),
        cmocka_unit_test(test_a_brief_of_odd_members),
        cmocka_unit_test(test_traceparent),
    };
    return RUN_TESTS(tests);
}
