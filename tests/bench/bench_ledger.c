/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a long chain costs: the twelfth hop of a task with 2,000 items, beside a second hop whose
 * envelope shows the same; 4,000 and 16,000 tokens; medians, in turns. Nothing that an earlier hop
 * counted is counted again, so both should count alike.
 *
 * First what an assembly computes from what the store gave: reading contributions, folding the
 * ledger, trimming and encoding. Then the whole of it, from the request to the sealed envelope,
 * with the read of the chain on a thread of the store.
 *
 * Last what grows with a chain, at n and 2n: twice the work should take about twice the time.
 *
 *   bench_ledger
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/assemble/assemble.h"
#include "client/ledger/contribution.h"
#include "lib/base/json.h"
#include "tests/support/fake_spine.h"
#include "tests/support/property.h"
#include "tests/support/temp_store.h"

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

/* `more`: further members, with commas before them. */
static char *request_of_hop(int hop, int entries, const char *more)
{
    struct property property = {(uint64_t)hop};
    struct base_buffer out = {0};
    base_buffer_printf(&out,
                       "{\"source_agent\":\"agent-%d\",\"target_agent\":\"agent-%d\","
                       "\"task_summary\":\"Do what hop %d asks for\"%s,\"state\":{\"progress\":%d",
                       hop, hop + 1, hop, more, hop);
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
    base_buffer_text(&out, "{\"source_agent\":\"a\",\"target_agent\":\"agent-12\",\"task_summary\":"
                           "\"s\",\"state\":");
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
    char *last = request_of_hop(HOPS + 1, 16, "");
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

/* ---- the whole of it -------------------------------------------------------------------------
 */

static struct whole {
    struct handoff_store *store;
    struct base_mailbox mailbox;
    struct fake_spine spine;
    uint64_t budget;
    bool finished;
} whole;

static enum handoff_code set_target(struct handoff_assembly *assembly)
{
    assembly->token_budget = whole.budget;
    return HANDOFF_OK;
}

static void note_finished(struct handoff_assembly *assembly)
{
    (void)assembly;
    whole.finished = true;
}

/* The assembly is the caller's to free. */
static int64_t assemble_whole(struct handoff_assembly *assembly, const char *body, uint64_t budget)
{
    *assembly = (struct handoff_assembly){.with = &assembler,
                                          .mailbox = &whole.mailbox,
                                          .hop_max = HOPS + 1,
                                          .body = base_span_text(body),
                                          .target = set_target,
                                          .finished = note_finished};
    whole.budget = budget;
    whole.finished = false;
    const int64_t began = base_monotonic_ns(&base_clock_system);
    whole.finished = handoff_assembly_run(assembly);
    while (!whole.finished)
        base_mailbox_wait(&whole.mailbox, -1);
    const int64_t took = base_monotonic_ns(&base_clock_system) - began;
    if (assembly->error.code != HANDOFF_OK)
        die(assembly->error.message);
    return took;
}

static void store_whole(struct handoff_assembly *assembly)
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
    memcpy(put.digest, assembly->digest, sizeof put.digest);
    if (temp_put(whole.store, &put) != HANDOFF_OK)
        die(put.job.error.message);
}

/* Hops 1 to 11, each stored; the members by which hop 12 continues them. */
static const char *store_chain(void)
{
    static char more[64];
    struct handoff_assembly assembly;
    more[0] = '\0';
    for (int hop = 1; hop <= HOPS; hop++) {
        char *body = request_of_hop(hop, ENTRIES, more);
        assemble_whole(&assembly, body, HANDOFF_BUDGET_MAX);
        store_whole(&assembly);
        snprintf(more, sizeof more, ",\"previous_id\":\"%s\"", assembly.id_text);
        handoff_assembly_free(&assembly);
        free(body);
    }
    return more;
}

/* A hop 2 that shows what hop 12 does. */
static char *store_short_chain(const char *last, uint64_t budget)
{
    struct handoff_assembly assembly, first;
    char more[64];
    assemble_whole(&assembly, last, budget);
    char *body = request_that_says(&assembly);
    assemble_whole(&first, body, HANDOFF_BUDGET_MAX);
    store_whole(&first);
    snprintf(more, sizeof more, ",\"previous_id\":\"%s\"", first.id_text);
    handoff_assembly_free(&assembly);
    handoff_assembly_free(&first);
    return request_of_hop(HOPS + 1, 16, more);
}

static void compare_whole(const char *last, uint64_t budget)
{
    static int64_t times[2][ROUNDS];
    struct handoff_assembly assembly;
    size_t held[2] = {0};
    const char *bodies[2] = {store_short_chain(last, budget), last};
    for (int round = 0; round < ROUNDS; round++) {
        for (int which = 0; which < 2; which++) {
            times[which][round] =
                assemble_whole(&assembly, bodies[which], which ? budget : budget + 1000);
            held[which] = assembly.arena.held / 1024;
            handoff_assembly_free(&assembly);
        }
    }
    const double hop_2 = median_us(times[0]), hop_12 = median_us(times[1]);
    printf("| %6llu | whole         | %9.1f | %9.1f | %5.2f |\n", (unsigned long long)budget, hop_2,
           hop_12, hop_12 / hop_2);
    printf("| %6llu | its KiB       | %9zu | %9zu | %5.2f |\n", (unsigned long long)budget, held[0],
           held[1], (double)held[1] / (double)held[0]);
}

static void compare_whole_assemblies(void)
{
    char *directory = temp_directory();
    const struct handoff_store_options options = {.path = directory,
                                                  .durability = HANDOFF_DURABILITY_NONE};
    struct handoff_error error;
    if (handoff_store_open(&whole.store, &options, &error) != HANDOFF_OK ||
        base_mailbox_init(&whole.mailbox, &error) != HANDOFF_OK)
        die(error.message);
    fake_spine_init(&whole.spine);
    assembler.store = whole.store;
    assembler.spine = &whole.spine.spine;
    char *last = request_of_hop(HOPS + 1, 16, store_chain());
    compare_whole(last, 4000);
    compare_whole(last, 16000);
    free(last);
    handoff_store_close(&whole.store);
    base_mailbox_run(&whole.mailbox);
    base_mailbox_free(&whole.mailbox);
    temp_remove(directory);
}

/* ---- what grows ------------------------------------------------------------------------------
 */

enum { GROWTH_N = 1000, GROWTH_ROUNDS = 21 };

/* One entry for each, all with one id, which the request ends. */
static void entries_of_one_id(struct base_buffer *out, int hop)
{
    base_buffer_printf(
        out, "{\"state\":{\"unresolved\":[{\"id\":\"q\",\"text\":\"question %d\"}]}}", hop);
}

static void demands_and_names(struct base_buffer *out, int hop)
{
    base_buffer_printf(out, "{\"constraints\":{\"must_not\":[\"do %d\"],\"rule-%d\":true}}", hop,
                       hop);
}

static void state_and_steps(struct base_buffer *out, int hop)
{
    base_buffer_printf(
        out,
        "{\"summary\":\"s\",\"state\":{\"progress\":%d,\"decisions\":[\"decision %d\"]},"
        "\"steps\":[{\"agent\":\"a\",\"action\":\"did %d\",\"memory_id\":\"m-%d\"}]}",
        hop, hop, hop, hop);
}

static void step_of_one_agent(struct base_buffer *out, int hop)
{
    base_buffer_printf(out, "{\"steps\":[{\"agent\":\"a\",\"action\":\"did %d\"}]}", hop);
}

static int64_t fold_many(int count, void (*write)(struct base_buffer *, int), const char *last)
{
    struct base_arena arena = {0};
    struct handoff_said *said = base_arena_calloc(&arena, (size_t)count + 1, sizeof *said);
    struct handoff_contribution stored = {.source = {"a", 1}, .target = {"b", 1}};
    struct handoff_ledger ledger;
    struct handoff_error error;
    for (int i = 0; i <= count; i++) {
        struct base_buffer text = {.arena = &arena};
        if (i < count)
            write(&text, i);
        stored.hop = i + 1;
        stored.text = i < count ? base_buffer_span(&text) : base_span_text(last);
        if (handoff_contribution_read(&stored, base_span(NULL, 0), &arena, &said[i], NULL,
                                      &error) != HANDOFF_OK)
            die(error.message);
    }
    const int64_t began = base_monotonic_ns(&base_clock_system);
    if (handoff_ledger_fold(&ledger, &arena, said, (size_t)count, &said[count], &error) !=
        HANDOFF_OK)
        die(error.message);
    const int64_t took = base_monotonic_ns(&base_clock_system) - began;
    base_arena_free(&arena);
    return took;
}

static void compare_growth(const char *name, void (*write)(struct base_buffer *, int),
                           const char *last)
{
    int64_t best[2] = {INT64_MAX, INT64_MAX};
    for (int round = 0; round < GROWTH_ROUNDS; round++) {
        for (int twice = 0; twice < 2; twice++) {
            const int64_t took = fold_many(GROWTH_N << twice, write, last);
            if (took < best[twice])
                best[twice] = took;
        }
    }
    printf("| %-31s | %9.1f | %9.1f | %5.2f |\n", name, (double)best[0] / 1e3,
           (double)best[1] / 1e3, (double)best[1] / (double)best[0]);
}

static void compare_all_growth(void)
{
    printf("\nFolding n and 2n hops, microseconds, best\n\n");
    printf("| each hop adds                   |    %6d |    %6d | ratio |\n", GROWTH_N,
           2 * GROWTH_N);
    printf("|---------------------------------|----------:|----------:|------:|\n");
    compare_growth("a question of one id, all ended", entries_of_one_id,
                   "{\"state\":{\"resolved\":[\"q\"]}}");
    compare_growth("a demand and a constraint", demands_and_names, "{}");
    compare_growth("a decision, progress and a step", state_and_steps, "{}");
    compare_growth("a step that no other hop knows", step_of_one_agent, "{}");
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
        .random = &base_random_system,
        .uuids = &uuids};
    if (!assembler.tokenizer)
        die(error.message);
    if (handoff_assembler_prepare(&assembler, &error) != HANDOFF_OK)
        die(error.message);
    for (int hop = 1; hop <= HOPS; hop++)
        add_hop(&chain, request_of_hop(hop, ENTRIES, ""));
    printf("A ledger of %d items, microseconds, medians\n\n", HOPS * ENTRIES);
    printf("| tokens | stage         |     hop 2 |    hop 12 | ratio |\n");
    printf("|-------:|---------------|----------:|----------:|------:|\n");
    compare_hops(&chain, 4000);
    compare_hops(&chain, 16000);
    compare_whole_assemblies();
    compare_all_growth();
    handoff_tokenizer_close((struct handoff_tokenizer **)&assembler.tokenizer);
    return 0;
}
