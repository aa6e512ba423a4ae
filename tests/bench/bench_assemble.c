/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to assemble an envelope, stage by stage: 20 memories of about 1 KB into 4,000
 * tokens, in a store of 10, 1,000 and 100,000 memories. "by id" asks for the 20 by name, "found"
 * has the spine find them for the summary; "fits" has budget enough for all, so that nobody has to
 * know which are more relevant. "first" counts the tokens of every memory, "kept" finds
 * the counts of an earlier envelope. Medians; there is no fsync here, what that costs is
 * the store's benchmark. The texts are made of few words, so that a search matches every memory:
 * its worst case.
 *
 *   bench_assemble [STORED...]
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "lib/base/memory.h"
#include "tests/support/property.h"
#include "tests/support/temp_store.h"

enum { MEMORIES = 20, ROUNDS = 201, STAGES = 5, BATCH = 200 };

static const char *const stage_names[STAGES] = {"resolve", "trim", "encode", "persist", "all"};

struct bench {
    struct handoff_client *client;
    struct handoff_loop *loop;
    struct handoff_event event; /* of the last assembly */
    size_t answers, failures;
    int64_t round[STAGES][ROUNDS];
    uint64_t tokens, bytes;
};

static struct bench bench;

static void observe(void *observer, const struct handoff_event *event)
{
    (void)observer;
    if (event->kind == HANDOFF_EVENT_ASSEMBLED)
        bench.event = *event;
}

static void answered(void *context, const struct handoff_result *result)
{
    (void)context;
    bench.answers++;
    bench.failures += result->error.code != HANDOFF_OK;
    bench.bytes = result->size;
}

static void wait_for(size_t answers)
{
    while (bench.answers < answers || handoff_loop_pending(bench.loop) > 0) {
        struct pollfd readable = {.fd = handoff_loop_fd(bench.loop), .events = POLLIN};
        poll(&readable, 1, -1);
        handoff_loop_run(bench.loop);
    }
}

/* ---- memories ------------------------------------------------------------------------------ */

static const char *const words[] = {
    "gateway", "payment", "retry",  "backoff", "timeout", "the",    "answers", "with", "after",
    "queue",   "client",  "server", "jitter",  "latency", "commit", "and",     "of",   "to",
    "rarely",  "always",  "error",  "status",  "header",  "token",  "budget",  "a",    "in"};

/* About a kilobyte of words; one memory in ten speaks of what the summary asks for. */
static void write_memory(struct base_buffer *out, struct property *property, size_t number)
{
    base_buffer_clear(out);
    base_buffer_text(out, "{\"content\":\"");
    if (number % 10 == 0)
        base_buffer_text(out, "Refund reconciliation: ");
    while (out->size < 1024)
        base_buffer_printf(out, "%s %u ",
                           words[property_below(property, sizeof(words) / sizeof(words[0]))],
                           property_below(property, 1000));
    base_buffer_text(out, "\",\"summary\":\"what was learnt about the gateway\",\"tags\":["
                          "\"payments\"]}");
}

static void fill(size_t stored)
{
    struct property property = {42};
    struct base_buffer body = {0};
    for (size_t i = 0; i < stored; i++) {
        char id[32];
        snprintf(id, sizeof(id), "ms-%zu", i);
        write_memory(&body, &property, i);
        handoff_memory_put(bench.loop, id, body.data, body.size, NULL, answered, NULL);
        if (i % BATCH == BATCH - 1)
            wait_for(0);
    }
    wait_for(0);
    base_buffer_free(&body);
}

/* ---- rounds -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(int64_t *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return (double)values[count / 2] / 1e3;
}

static void assemble(const char *request, size_t round)
{
    struct handoff_ask ask = {.body = request, .size = strlen(request)};
    int64_t began = base_monotonic_ns(&base_clock_system);
    bench.answers = 0;
    handoff_envelope_assemble(bench.loop, &ask, answered, NULL);
    while (bench.answers == 0) {
        struct pollfd readable = {.fd = handoff_loop_fd(bench.loop), .events = POLLIN};
        poll(&readable, 1, -1);
        handoff_loop_run(bench.loop);
    }
    const int64_t took[STAGES] = {
        bench.event.of.assembled.resolve_ns, bench.event.of.assembled.trim_ns,
        bench.event.of.assembled.encode_ns, bench.event.of.assembled.persist_ns,
        base_monotonic_ns(&base_clock_system) - began};
    for (int s = 0; s < STAGES; s++)
        bench.round[s][round] = took[s];
    bench.tokens = bench.event.of.assembled.tokens;
    wait_for(0);
}

static void print_row(size_t stored, const char *what, size_t rounds)
{
    printf("| %7zu | %-13s |", stored, what);
    for (int s = 0; s < STAGES; s++)
        printf(" %9.1f |", median_us(bench.round[s], rounds));
    printf(" %6llu | %7llu |\n", (unsigned long long)bench.tokens, (unsigned long long)bench.bytes);
}

static char *request_by_id(size_t from, unsigned budget)
{
    struct base_buffer out = {0};
    base_buffer_text(&out, "{\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":"
                           "\"Refund reconciliation for the gateway\",\"constraints\":{"
                           "\"max_tokens\":");
    base_buffer_printf(&out, "%u},\"memory_ids\":[", budget);
    for (size_t i = 0; i < MEMORIES; i++)
        base_buffer_printf(&out, "%s\"ms-%zu\"", i ? "," : "", from + i);
    base_buffer_text(&out, "]}");
    return out.data;
}

static void measure(size_t stored)
{
    static const char found[] =
        "{\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":\"Refund reconciliation "
        "for "
        "the gateway\",\"constraints\":{\"max_tokens\":4000},\"include_recent\":20}";
    size_t first_rounds = stored / MEMORIES;
    if (first_rounds > ROUNDS)
        first_rounds = ROUNDS;
    for (size_t round = 0; round < first_rounds; round++) {
        char *request = request_by_id(round * MEMORIES, 4000);
        assemble(request, round);
        base_free(request);
    }
    if (first_rounds)
        print_row(stored, "by id, first", first_rounds);
    static const struct {
        const char *what;
        unsigned budget;
    } rows[] = {{"by id, kept", 4000}, {"by id, fits", 16000}};
    for (size_t row = 0; row < 2; row++) {
        char *request = request_by_id(0, rows[row].budget);
        for (size_t round = 0; round < ROUNDS; round++)
            assemble(request, round);
        base_free(request);
        print_row(stored, rows[row].what, ROUNDS);
    }
    for (size_t round = 0; round < ROUNDS; round++)
        assemble(found, round);
    print_row(stored, "found, kept", ROUNDS);
}

static void run(size_t stored)
{
    struct handoff_error error;
    char *directory = temp_directory(), text[512];
    struct handoff_options options = {
        .storage_path = directory, .durability_none = true, .observe = observe};
    if (handoff_client_open(&bench.client, &options, &error) != HANDOFF_OK ||
        handoff_loop_open(&bench.loop, bench.client, &error) != HANDOFF_OK) {
        handoff_error_text(&error, text, sizeof(text));
        fprintf(stderr, "%s\n", text);
        exit(1);
    }
    if (handoff_client_tokenizer(bench.client, NULL) == handoff_tokenizer_estimate())
        printf("no vocabulary is installed: tokens are estimated\n");
    fill(stored);
    measure(stored);
    if (bench.failures) {
        fprintf(stderr, "%zu calls failed\n", bench.failures);
        exit(1);
    }
    handoff_loop_close(&bench.loop);
    handoff_client_close(&bench.client);
    temp_remove(directory);
}

int main(int argc, char *argv[])
{
    printf("Assembling %d memories of 1 KB into 4,000 tokens, microseconds, medians\n\n", MEMORIES);
    printf("|  stored | memories      |");
    for (int s = 0; s < STAGES; s++)
        printf(" %9s |", stage_names[s]);
    printf(" tokens |   bytes |\n|--------:|---------------|");
    for (int s = 0; s < STAGES; s++)
        printf("----------:|");
    printf("-------:|--------:|\n");
    if (argc < 2) {
        run(10);
        run(1000);
        run(100000);
    }
    for (int i = 1; i < argc; i++)
        run((size_t)strtoull(argv[i], NULL, 10));
    return 0;
}
