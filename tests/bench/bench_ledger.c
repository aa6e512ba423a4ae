/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a long chain costs: the twelfth hop of a task with 2,000 items, beside a second hop whose
 * envelope shows the same. Timed is all that an assembly computes from what the store gave: reading
 * contributions, folding the ledger, trimming and encoding; 4,000 and 16,000 tokens; medians, in
 * turns. Nothing that an earlier hop counted is counted again, so both should count alike.
 *
 *   bench_ledger
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/assemble/assemble.h"
#include "client/ledger/contribution.h"
#include "lib/base/json.h"
#include "tests/support/property.h"

enum { HOPS = 11, ENTRIES = 182, ROUNDS = 401, TIMES = 4 };

static const char *const time_names[TIMES] = {"read", "fold", "trim + encode", "all"};

static struct handoff_assembler assembler;
static struct base_uuid_source uuids;

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void add_words(struct base_buffer *out, struct property *property, uint32_t count)
{
    static const char *const words[] = {"the",     "gateway", "retries", "a",
                                        "payment", "after",   "three",   "bursts",
                                        "because", "timeout", "is",      "short"};
    for (uint32_t i = 0; i < count; i++)
        base_buffer_printf(out, "%s%s", i ? " " : "",
                           words[property_below(property, sizeof words / sizeof *words)]);
}

static void add_list(struct base_buffer *out, struct property *property, const char *name, int hop,
                     int count)
{
    base_buffer_printf(out, ",\"%s\":[", name);
    for (int i = 0; i < count; i++) {
        base_buffer_printf(out, "%s\"%s %d of hop %d: ", i ? "," : "", name, i, hop);
        add_words(out, property, 6 + property_below(property, 14));
        base_buffer_text(out, "\"");
    }
    base_buffer_text(out, "]");
}

static void add_step_list(struct base_buffer *out, struct property *property, int hop, int count)
{
    base_buffer_text(out, ",\"execution_history\":[");
    for (int i = 0; i < count; i++) {
        base_buffer_printf(out, "%s{\"agent\":\"agent-%d\",\"action\":\"step %d: ", i ? "," : "",
                           hop, i);
        add_words(out, property, 4 + property_below(property, 16));
        base_buffer_text(out, "\",\"decision\":\"");
        add_words(out, property, 3);
        base_buffer_text(out, i % 3 ? "\"}" : "\",\"reason\":\"it was too slow\"}");
    }
    base_buffer_text(out, "]");
}

static char *request_of_hop(int hop, int entries)
{
    struct property property = {(uint64_t)hop};
    struct base_buffer out = {0};
    base_buffer_printf(&out,
                       "{\"source_agent\":\"agent-%d\",\"target_agent\":\"agent-%d\","
                       "\"task_summary\":\"Do what hop %d asks for\",\"state\":{\"progress\":%d",
                       hop, hop + 1, hop, hop);
    add_list(&out, &property, "decisions", hop, entries / 4);
    add_list(&out, &property, "remaining", hop, entries / 8);
    add_list(&out, &property, "unresolved", hop, entries / 60);
    base_buffer_text(&out, "}");
    add_step_list(&out, &property, hop, entries - entries / 4 - entries / 8 - entries / 60);
    base_buffer_text(&out, "}");
    return out.data;
}

/* ---- one assembly without a store or a spine --------------------------------------------------
 */

struct chain {
    struct handoff_contribution *stored;
    size_t count;
};

static struct handoff_said said_by(const struct handoff_request *request, int64_t hop)
{
    yyjson_val *root = yyjson_doc_get_root(request->doc);
    return (struct handoff_said){
        .hop = {.hop = hop, .agent = request->source_agent, .target = request->target_agent},
        .summary = yyjson_obj_get(root, "task_summary"),
        .constraints = request->constraints,
        .state = request->state,
        .steps = request->execution_history};
}

/* The assembly is the caller's to free. */
static void assemble_chain(struct handoff_assembly *assembly, const struct chain *chain,
                           const char *body, uint64_t budget, int64_t took[TIMES])
{
    const struct base_span encoding =
        base_span_text(handoff_tokenizer_encoding(assembler.tokenizer));
    *assembly = (struct handoff_assembly){.with = &assembler, .token_budget = budget};
    assembly->body = base_span_text(body);
    if (handoff_request_read(&assembly->arena, assembly->body, base_span(NULL, 0), NULL, NULL,
                             false, &assembly->request, &assembly->error) != HANDOFF_OK)
        die(assembly->error.message);
    assembly->request.strategy = HANDOFF_STRATEGY_PRIORITY;
    struct handoff_said *said = base_arena_calloc(&assembly->arena, chain->count + 1, sizeof *said);
    const int64_t began = base_monotonic_ns(&base_clock_system);
    for (size_t i = 0; i < chain->count; i++) {
        if (handoff_contribution_read(&chain->stored[i], encoding, &assembly->arena, &said[i], NULL,
                                      &assembly->error) != HANDOFF_OK)
            die(assembly->error.message);
    }
    if (handoff_contributions_link(chain->stored, chain->count, &assembly->arena, said,
                                   &assembly->error) != HANDOFF_OK)
        die(assembly->error.message);
    const int64_t read = base_monotonic_ns(&base_clock_system);
    const struct handoff_said own = said_by(&assembly->request, (int64_t)chain->count + 1);
    if (handoff_ledger_fold(&assembly->ledger, &assembly->arena, said, chain->count, &own,
                            &assembly->error) != HANDOFF_OK)
        die(assembly->error.message);
    const int64_t folded = base_monotonic_ns(&base_clock_system);
    assembly->intent = assembly->ledger.intent;
    assembly->constraints = assembly->ledger.constraints;
    assembly->task_id = base_span_text("task");
    assembly->hop_count = assembly->hop_max = (int64_t)chain->count + 1;
    assembly->traceparent =
        base_span_text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    if (handoff_stage_trim(assembly) == HANDOFF_PROGRESS_FAILED ||
        handoff_stage_encode(assembly) == HANDOFF_PROGRESS_FAILED)
        die(assembly->error.message);
    const int64_t ended = base_monotonic_ns(&base_clock_system);
    took[0] = read - began;
    took[1] = folded - read;
    took[2] = ended - folded;
    took[3] = ended - began;
}

/* What the request contributes, with its counts, as the store keeps it. */
static struct base_span contribution_of(struct handoff_assembly *assembly)
{
    struct base_buffer out = {0};
    const struct handoff_said own = said_by(&assembly->request, assembly->hop_count);
    const struct handoff_way way = {.hop_max = 12, .traceparent = assembly->traceparent};
    const struct handoff_looked_up looked_up = {0};
    handoff_contribution_write(&out, &own, &assembly->ledger, &way, &looked_up, NULL,
                               base_span_text(handoff_tokenizer_encoding(assembler.tokenizer)));
    return base_buffer_span(&out);
}

static void add_hop(struct chain *chain, const char *body)
{
    struct handoff_assembly assembly;
    int64_t took[TIMES];
    assemble_chain(&assembly, chain, body, HANDOFF_BUDGET_MAX, took);
    chain->stored[chain->count] = (struct handoff_contribution){
        .id = assembly.id,
        .hop = assembly.hop_count,
        .created_ms = assembly.created_ms,
        .source = base_span_text("a"),
        .target = base_span_text("b"),
        .parents = chain->count ? &chain->stored[chain->count - 1].id : NULL,
        .nparents = chain->count > 0,
        .text = contribution_of(&assembly)};
    chain->count++;
    handoff_assembly_free(&assembly);
}

/* ---- both ------------------------------------------------------------------------------------ */

/* A first hop that said exactly what the last envelope of the chain shows. */
static char *request_that_says(const struct handoff_assembly *assembly)
{
    struct handoff_envelope envelope;
    struct base_buffer out = {0};
    if (handoff_envelope_read(base_buffer_span(&assembly->out), &envelope, NULL) != HANDOFF_OK)
        die("the envelope cannot be read");
    base_buffer_text(&out, "{\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":\"s\","
                           "\"state\":");
    base_json_write(&out, envelope.state);
    base_buffer_text(&out, ",\"execution_history\":");
    base_json_write(&out, envelope.history);
    base_buffer_text(&out, "}");
    handoff_envelope_free(&envelope);
    return out.data;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(int64_t *values)
{
    qsort(values, ROUNDS, sizeof *values, compare_times);
    return (double)values[ROUNDS / 2] / 1e3;
}

static void compare_hops(const struct chain *chain, uint64_t budget)
{
    static int64_t times[2][TIMES][ROUNDS];
    struct handoff_contribution first;
    struct chain two = {.stored = &first};
    char *last = request_of_hop(HOPS + 1, 16);
    struct handoff_assembly assembly;
    int64_t took[TIMES];
    size_t bytes[2] = {0};
    assemble_chain(&assembly, chain, last, budget, took);
    add_hop(&two, request_that_says(&assembly));
    handoff_assembly_free(&assembly);
    for (int round = 0; round < ROUNDS; round++) {
        for (int which = 0; which < 2; which++) {
            assemble_chain(&assembly, which ? chain : &two, last, which ? budget : budget + 1000,
                           took);
            for (int t = 0; t < TIMES; t++)
                times[which][t][round] = took[t];
            bytes[which] = assembly.out.size;
            handoff_assembly_free(&assembly);
        }
    }
    for (int t = 0; t < TIMES; t++) {
        const double hop_2 = median_us(times[0][t]), hop_12 = median_us(times[1][t]);
        printf("| %6llu | %-13s | %9.1f | %9.1f | %5.2f |\n", (unsigned long long)budget,
               time_names[t], hop_2, hop_12, hop_12 / hop_2);
    }
    printf("| %6llu | bytes         | %9zu | %9zu | %5.2f |\n", (unsigned long long)budget,
           bytes[0], bytes[1], (double)bytes[1] / (double)bytes[0]);
}

int main(void)
{
    struct handoff_contribution stored[HOPS];
    struct chain chain = {.stored = stored};
    struct handoff_error error;
    base_uuid_source_init(&uuids, &base_clock_system, NULL);
    assembler = (struct handoff_assembler){
        .tokenizer = handoff_tokenizer_open_encoding(HANDOFF_ENCODING_DEFAULT, NULL, &error),
        .clock = &base_clock_system,
        .uuids = &uuids};
    if (!assembler.tokenizer)
        die(error.message);
    if (handoff_assembler_prepare(&assembler, &error) != HANDOFF_OK)
        die(error.message);
    for (int hop = 1; hop <= HOPS; hop++)
        add_hop(&chain, request_of_hop(hop, ENTRIES));
    printf("A ledger of %d items, microseconds, medians\n\n", HOPS * ENTRIES);
    printf("| tokens | stage         |     hop 2 |    hop 12 | ratio |\n");
    printf("|-------:|---------------|----------:|----------:|------:|\n");
    compare_hops(&chain, 4000);
    compare_hops(&chain, 16000);
    handoff_tokenizer_close((struct handoff_tokenizer **)&assembler.tokenizer);
    return 0;
}
