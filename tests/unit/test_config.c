/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration reader. Every tests/golden/config/NAME.bad.yml is refused with exactly the
 * message in its first line ("# FILE:LINE:COL: ..."; FILE stands for its path, FOLDER for its
 * folder), so a new file is a new test. Good files are judged value by value here.
 */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "exporter/config/config.h"
#include "exporter/config/config_internal.h"

static struct exporter_config *load(const char *text)
{
    struct exporter_error error = {""};
    struct exporter_config *config =
        exporter_config_load_memory("test.yml", text, strlen(text), &error);

    if (config == NULL) {
        fail_msg("refused: %s", error.text);
    }
    return config;
}

static void assert_refused(const char *text, size_t length, const char *message)
{
    struct exporter_error error = {""};
    struct exporter_config *config = exporter_config_load_memory("test.yml", text, length, &error);

    assert_null(config);
    assert_string_equal(error.text, message);
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void golden_folder(char *folder, size_t size)
{
    const char *top = getenv("HANDOFF_SOURCE_DIR");

    (void)snprintf(folder, size, "%s/tests/golden/config", top != NULL ? top : ".");
}

/* The first line of a file, without "# ", with FILE and FOLDER filled in. */
static void expected_message(const char *folder, const char *path, char *message, size_t size)
{
    char line[1024];
    FILE *in = fopen(path, "r");
    size_t used = 0;

    assert_non_null(in);
    assert_non_null(fgets(line, sizeof(line), in));
    assert_int_equal(fclose(in), 0);
    line[strcspn(line, "\n")] = '\0';
    assert_memory_equal(line, "# FILE:", 7);
    for (const char *at = line + 2; *at != '\0';) {
        const char *put = NULL;
        if (strncmp(at, "FILE:", 5) == 0) {
            put = path;
            at += 4;
        } else if (strncmp(at, "FOLDER/", 7) == 0) {
            put = folder;
            at += 6;
        }
        if (put == NULL) {
            assert_true(used + 2 <= size);
            message[used++] = *at++;
            message[used] = '\0';
        } else {
            used += (size_t)snprintf(message + used, size - used, "%s", put);
            assert_true(used < size);
        }
    }
}

static bool is_bad_file(const char *name)
{
    static const char suffix[] = ".bad.yml";
    size_t length = strlen(name);

    return length > sizeof(suffix) && strcmp(name + length - sizeof(suffix) + 1, suffix) == 0;
}

/* Loads all bad files and shows every one that does not end as it says. */
static void test_bad_files(void **state)
{
    char folder[2048];
    char path[4096];
    char expected[8192];
    int seen = 0;
    int wrong = 0;
    DIR *listing;

    (void)state;
    golden_folder(folder, sizeof(folder));
    listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        struct exporter_error error = {"(taken as good)"};
        if (!is_bad_file(entry->d_name)) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        expected_message(folder, path, expected, sizeof(expected));
        struct exporter_config *config = exporter_config_load(path, &error);
        if (config != NULL || strcmp(error.text, expected) != 0) {
            print_error("%s\n  says  %s\n  wants %s\n", entry->d_name, error.text, expected);
            wrong++;
        }
        exporter_config_unref(&config);
        seen++;
    }
    closedir(listing);
    assert_int_equal(wrong, 0);
    assert_true(seen >= 100);
}

static void test_bad_bytes(void **state)
{
    (void)state;
    assert_refused("hops:\n  max: \xFF\n", 14,
                   "test.yml:2:8: not valid YAML: invalid leading UTF-8 octet");
    assert_refused("hops: {max: \0 10}", 17,
                   "test.yml:1:13: not valid YAML: control characters are not allowed");
    /* a \r alone ends a line in YAML, a zero byte does not */
    assert_refused("\x00", 1, "test.yml:1:1: not valid YAML: control characters are not allowed");
}

/* Text of `count` items between a head and a tail; the caller frees it. */
static char *repeat(const char *head, const char *item, size_t count, const char *tail)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    fputs(head, out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, item, i);
    }
    fputs(tail, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void assert_repeat_refused(const char *head, const char *item, size_t count,
                                  const char *tail, const char *message)
{
    char *text = repeat(head, item, count, tail);

    assert_refused(text, strlen(text), message);
    free(text);
}

static void test_limits(void **state)
{
    static char big[EXPORTER_CONFIG_FILE_MAX + 1];

    (void)state;
    assert_repeat_refused("agents:\n", " a%zu:\n", 1001, "",
                          "test.yml:2:2: agents: saw 1001 of them, allowed: up to 1000");
    assert_repeat_refused("agents: {a: }\npipelines:\n", " p%zu: [a]\n", 1001, "",
                          "test.yml:3:2: pipelines: saw 1001 of them, allowed: up to 1000");
    assert_repeat_refused("[", "&a%zu x,", 101, "]",
                          "test.yml:1:692: too many anchors, allowed: 100");
    assert_repeat_refused("[", "%zu,", 100000, "]",
                          "test.yml:1:588886: too many values, allowed: 100000");
    memset(big, '#', sizeof(big));
    assert_refused(big, sizeof(big), "test.yml: saw more than 1MiB, allowed: a file of up to 1MiB");
    struct exporter_error error;
    struct exporter_config *config =
        exporter_config_load_memory("test.yml", big, sizeof(big) - 1, &error);
    assert_non_null(config);
    exporter_config_unref(&config);
}

/* Each line means twice what the one before means; a reader that copied would need 2^60 nodes. */
static void test_aliases_do_not_multiply(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    assert_non_null(out);
    fputs("x0: &a0 [1]\n", out);
    for (int i = 1; i <= 60; i++) {
        fprintf(out, "x%d: &a%d [*a%d, *a%d]\n", i, i, i - 1, i - 1);
    }
    assert_int_equal(fclose(out), 0);
    assert_refused(
        text, size,
        "test.yml:1:1: x0: unknown key, allowed: agents, defaults, pipelines, channels, hops, "
        "secrets, tasks, spine, tokenizer, storage, api, metrics");
    free(text);
}

static void test_unreadable_files(void **state)
{
    struct exporter_error error;

    (void)state;
    assert_null(exporter_config_load("/nowhere/handoff.yml", &error));
    assert_string_equal(error.text, "/nowhere/handoff.yml: cannot be read: "
                                    "No such file or directory");
    assert_null(exporter_config_load("/", &error));
    assert_string_equal(error.text, "/: cannot be read: Is a directory");
}

/* ---- what is taken ------------------------------------------------------------------------- */

static void assert_agent_defaults(const struct exporter_agent *agent)
{
    assert_null(agent->options.url);
    assert_int_equal(agent->options.token_budget, 8000);
    assert_int_equal(agent->options.timeout_ms, 15000);
    assert_int_equal(agent->options.ack_timeout_ms, 300000);
    assert_int_equal(agent->options.retries, 3);
    assert_int_equal(agent->options.ack, HANDOFF_ACK_EXPLICIT);
    assert_int_equal(agent->options.nalternates, 0);
    assert_int_equal(agent->options.accepts, HANDOFF_ACCEPTS_2);
    assert_int_equal(agent->options.emit, HANDOFF_EMIT_SINGLE);
    assert_int_equal(agent->options.format, HANDOFF_FORMAT_ENVELOPE);
    assert_int_equal(agent->options.strategy, HANDOFF_STRATEGY_PRIORITY);
    assert_int_equal(agent->options.nfrom, 0);
    assert_false(agent->options.ordered);
    assert_int_equal(agent->options.breaker_failures, 3);
    assert_int_equal(agent->options.breaker_cooldown_ms, 60000);
    assert_int_equal(agent->options.backoff_base_ms, 1000);
    assert_int_equal(agent->options.backoff_max_ms, 30000);
    assert_null(agent->options.ca_file);
    assert_null(agent->options.cert_file);
    assert_null(agent->options.key_file);
    assert_null(agent->token_file);
}

static void assert_defaults(const struct exporter_config *config)
{
    assert_int_equal(config->nagents, 0);
    assert_int_equal(config->npipelines, 0);
    assert_int_equal(config->nchannels, 0);
    assert_int_equal(config->hops.max, 10);
    assert_true(config->hops.new_chain);
    assert_int_equal(config->secrets, HANDOFF_SECRET_POLICY_REDACT);
    assert_int_equal(config->tasks.stalled_after_ms, 0);
    assert_int_equal(config->spine.kind, EXPORTER_SPINE_EMBEDDED);
    assert_null(config->spine.url);
    assert_null(config->spine.operations);
    assert_int_equal(config->spine.timeout_ms, 2000);
    assert_int_equal(config->spine.connections, 16);
    assert_int_equal(config->spine.cache_bytes, 64 << 20);
    assert_int_equal(config->spine.write, EXPORTER_SPINE_WRITE_THROUGH);
    assert_int_equal(config->spine.search_timeout_ms, 50);
    assert_true(config->spine.stemming);
    assert_int_equal(config->spine.boosts.importance, 10);
    assert_int_equal(config->spine.boosts.recency, 10);
    assert_int_equal(config->spine.boosts.half_life_ms, 604800000);
    assert_int_equal(config->spine.boosts.task, 50);
    assert_int_equal(config->spine.boosts.agent, 10);
    assert_int_equal(config->tokenizer.encoding, 0);
    assert_int_equal(config->storage.durability, EXPORTER_DURABILITY_FULL);
    assert_int_equal(config->storage.retention.age_ms, UINT64_C(2592000000));
    assert_int_equal(config->storage.retention.size_bytes, 1073741824);
    assert_int_equal(config->storage.retention.index_size_bytes, 268435456);
    assert_int_equal(config->storage.retention.decisions_ms, UINT64_C(94608000000));
    assert_null(config->api.tokens_file);
    assert_null(config->api.source_agent);
    assert_null(config->api.url);
    assert_int_equal(config->api.max_body_bytes, 4194304);
    assert_int_equal(config->api.max_in_flight, 10000);
    assert_int_equal(config->api.max_in_flight_per_agent, 1000);
    assert_int_equal(config->metrics.max_series_per_family, 25000);
    assert_false(config->metrics.created);
    assert_int_equal(config->metrics.scrapes, 4);
    assert_null(config->metrics.dashboard_url);
    assert_null(exporter_config_agent(config, "coder"));
    assert_null(exporter_config_pipeline(config, "payments"));
}

/* Nothing, in all the ways a file can say it. */
static void test_nothing_means_defaults(void **state)
{
    static const char *const nothing[] = {
        "",
        "\n",
        "# only this\n",
        "---\n",
        "---\n...\n",
        "~",
        "null",
        "{}",
        "agents:\n",
        "agents: {}",
        "agents: ~\npipelines:\n",
        "defaults:",
        "\xEF\xBB\xBF",
        "hops:\nspine:\ntokenizer:\nstorage: {retention: }\napi:\n",
        "%YAML 1.1\n---\nmetrics: null\n"};
    struct exporter_error error;
    struct exporter_config *config;

    (void)state;
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
        config = load(nothing[i]);
        assert_defaults(config);
        exporter_config_unref(&config);
        assert_null(config);
    }
    config = exporter_config_load(NULL, &error);
    assert_non_null(config);
    assert_defaults(config);
    exporter_config_unref(&config);
    config = load("agents: {coder: }");
    assert_agent_defaults(exporter_config_agent(config, "coder"));
    exporter_config_unref(&config);
}

static void test_sections(void **state)
{
    struct exporter_config *config =
        load("hops: {max: 64, new_chain: false}\n"
             "secrets: allow\n"
             "tasks: {stalled_after: 90m}\n"
             "spine: {kind: embedded, cache: 1GiB, write: local, search_timeout: 200ms, stemming: "
             "false,\n"
             "        boosts: {importance: 0, recency: 1000, half_life: 1h, task: 7, agent: 8}}\n"
             "tokenizer: {encoding: cl100k_base}\n"
             "storage: {durability: none, retention: {age: 1d12h, size: 16384GiB,"
             " index_size: 1MiB, decisions: 365d}}\n"
             "api: {source_agent: analyst.1, url: 'http://sidecar.example:8780/', max_body: 64MiB, "
             "max_in_flight: 1, "
             "max_in_flight_per_agent: 1000000}\n"
             "metrics: {max_series_per_family: 10, created: true, scrapes: 64,"
             " dashboard_url: 'https://grafana.example/sub'}\n");

    (void)state;
    assert_int_equal(config->hops.max, 64);
    assert_false(config->hops.new_chain);
    assert_int_equal(config->secrets, HANDOFF_SECRET_POLICY_ALLOW);
    assert_int_equal(config->tasks.stalled_after_ms, 5400000);
    assert_int_equal(config->spine.search_timeout_ms, 200);
    assert_int_equal(config->spine.cache_bytes, 1 << 30);
    assert_int_equal(config->spine.write, EXPORTER_SPINE_WRITE_LOCAL);
    assert_false(config->spine.stemming);
    assert_int_equal(config->spine.boosts.importance, 0);
    assert_int_equal(config->spine.boosts.recency, 1000);
    assert_int_equal(config->spine.boosts.half_life_ms, 3600000);
    assert_int_equal(config->spine.boosts.task, 7);
    assert_int_equal(config->spine.boosts.agent, 8);
    assert_int_equal(config->tokenizer.encoding, 1);
    assert_int_equal(config->storage.durability, EXPORTER_DURABILITY_NONE);
    assert_int_equal(config->storage.retention.age_ms, 129600000);
    assert_int_equal(config->storage.retention.size_bytes, UINT64_C(1) << 44);
    assert_int_equal(config->storage.retention.index_size_bytes, 1048576);
    assert_int_equal(config->storage.retention.decisions_ms, UINT64_C(31536000000));
    assert_string_equal(config->api.source_agent, "analyst.1");
    assert_string_equal(config->api.url, "http://sidecar.example:8780/");
    assert_int_equal(config->api.max_body_bytes, 67108864);
    assert_int_equal(config->api.max_in_flight, 1);
    assert_int_equal(config->api.max_in_flight_per_agent, 1000000);
    assert_int_equal(config->metrics.max_series_per_family, 10);
    assert_true(config->metrics.created);
    assert_int_equal(config->metrics.scrapes, 64);
    assert_string_equal(config->metrics.dashboard_url, "https://grafana.example/sub");
    exporter_config_unref(&config);
}

/* An agent's own key wins over `defaults`, which win over the table, wherever they stand. */
static void test_precedence(void **state)
{
    struct exporter_config *config = load("agents:\n"
                                          "  coder:\n"
                                          "    url: https://[::1]:9001/hand?off=1\n"
                                          "    timeout: 1m30s\n"
                                          "    accepts: [1, \"2\"]\n"
                                          "    breaker: {cooldown: 5s}\n"
                                          "    emit: dual\n"
                                          "  reviewer: {url: \"http://reviewer.example\"}\n"
                                          "defaults:\n"
                                          "  timeout: 20s\n"
                                          "  retries: 0\n"
                                          "  ack: status\n"
                                          "  ack_timeout: 1h\n"
                                          "  token_budget: 4000\n"
                                          "  breaker: {failures: 7}\n"
                                          "  backoff: {base: 1ms, max: 1ms}\n");
    const struct exporter_agent *coder = exporter_config_agent(config, "coder");
    const struct exporter_agent *reviewer = exporter_config_agent(config, "reviewer");

    (void)state;
    assert_string_equal(coder->options.name, "coder");
    assert_string_equal(coder->options.url, "https://[::1]:9001/hand?off=1");
    assert_int_equal(coder->options.timeout_ms, 90000);
    assert_int_equal(coder->options.accepts, HANDOFF_ACCEPTS_1 | HANDOFF_ACCEPTS_2);
    assert_int_equal(coder->options.breaker_cooldown_ms, 5000);
    assert_int_equal(coder->options.breaker_failures, 7);
    assert_int_equal(coder->options.emit, HANDOFF_EMIT_DUAL);
    assert_int_equal(coder->options.retries, 0);
    assert_string_equal(reviewer->options.url, "http://reviewer.example");
    assert_int_equal(reviewer->options.timeout_ms, 20000);
    assert_int_equal(reviewer->options.ack, HANDOFF_ACK_STATUS);
    assert_int_equal(reviewer->options.ack_timeout_ms, 3600000);
    assert_int_equal(reviewer->options.token_budget, 4000);
    assert_int_equal(reviewer->options.breaker_cooldown_ms, 60000);
    assert_int_equal(reviewer->options.backoff_base_ms, 1);
    assert_int_equal(reviewer->options.backoff_max_ms, 1);
    assert_int_equal(reviewer->options.accepts, HANDOFF_ACCEPTS_2);
    exporter_config_unref(&config);
}

static void assert_names(const struct exporter_names *names, const char *joined)
{
    char text[256] = "";

    for (size_t i = 0; i < names->count; i++) {
        strcat(text, names->items[i]);
        strcat(text, " ");
    }
    assert_string_equal(text, joined);
}

static void assert_alternates(const struct exporter_agent *agent, const char *joined)
{
    const struct exporter_names names = {agent->options.alternates, agent->options.nalternates};
    assert_names(&names, joined);
}

static void test_lists(void **state)
{
    struct exporter_config *config =
        load("defaults: {alternates: [human, b]}\n"
             "agents: {b: , a: , human: , C.d_e-1: {alternates: [a]}, none: {alternates: []}}\n"
             "pipelines: {z: [human, a, b], one: [a], A-1: [C.d_e-1]}\n");

    (void)state;
    assert_int_equal(config->nagents, 5);
    assert_string_equal(config->agents[0].options.name, "C.d_e-1");
    assert_string_equal(config->agents[4].options.name, "none");
    assert_alternates(exporter_config_agent(config, "a"), "human b ");
    assert_alternates(exporter_config_agent(config, "b"), "human ");
    assert_alternates(exporter_config_agent(config, "human"), "b ");
    assert_alternates(exporter_config_agent(config, "C.d_e-1"), "a ");
    assert_alternates(exporter_config_agent(config, "none"), "");
    assert_int_equal(config->npipelines, 3);
    assert_names(&exporter_config_pipeline(config, "z")->agents, "human a b ");
    assert_names(&exporter_config_pipeline(config, "one")->agents, "a ");
    assert_names(&exporter_config_pipeline(config, "A-1")->agents, "C.d_e-1 ");
    assert_null(exporter_config_pipeline(config, "a"));
    exporter_config_unref(&config);
}

static void test_channels(void **state)
{
    struct exporter_config *config =
        load("agents: {a: , b: , c: }\n"
             "channels: {z: {receivers: [c, a]}, empty: , m: {receivers: [b], token_budget: 900, "
             "retention: 7d, retention_size: 2MiB}}\n");

    (void)state;
    assert_int_equal(config->nchannels, 3);
    assert_int_equal(exporter_config_channel(config, "z")->retention_ms, 0);
    assert_int_equal(exporter_config_channel(config, "z")->retention_bytes, 256 << 20);
    assert_int_equal(exporter_config_channel(config, "m")->retention_ms, 7 * 86400000);
    assert_int_equal(exporter_config_channel(config, "m")->retention_bytes, 2 << 20);
    assert_names(&exporter_config_channel(config, "z")->receivers, "c a ");
    assert_int_equal(exporter_config_channel(config, "z")->token_budget, 0);
    assert_names(&exporter_config_channel(config, "empty")->receivers, "");
    assert_int_equal(exporter_config_channel(config, "m")->token_budget, 900);
    assert_null(exporter_config_channel(config, "a"));
    exporter_config_unref(&config);
}

static void test_aliases(void **state)
{
    struct exporter_config *config =
        load("agents:\n  a: &same {retries: 9, url: &u \"http://h/\"}\n  b: *same\n"
             "  c: {url: *u}\n");

    (void)state;
    assert_int_equal(exporter_config_agent(config, "b")->options.retries, 9);
    assert_string_equal(exporter_config_agent(config, "b")->options.url, "http://h/");
    assert_string_equal(exporter_config_agent(config, "c")->options.url, "http://h/");
    assert_string_equal(exporter_config_agent(config, "b")->options.name, "b");
    exporter_config_unref(&config);
}

/* Longest name, most alternates, most steps, most agents: the bounds themselves are allowed. */
static void test_upper_bounds(void **state)
{
    char *name = repeat("agents: {", "a", 128, ": }");
    char *agents = repeat("agents:\n", " a%zu: {}\n", 1000, "");
    char *steps = repeat(agents, "", 0, "pipelines: {p: [");
    char *pipeline = repeat(steps, "a%zu, ", 64, "]}\ndefaults: {alternates: [");
    char *whole = repeat(pipeline, "a%zu, ", 16, "]}\n");
    struct exporter_config *config = load(name);

    (void)state;
    assert_int_equal(strlen(config->agents[0].options.name), 128);
    exporter_config_unref(&config);
    config = load(whole);
    assert_int_equal(config->nagents, 1000);
    assert_int_equal(exporter_config_pipeline(config, "p")->agents.count, 64);
    assert_int_equal(exporter_config_agent(config, "a999")->options.nalternates, 16);
    assert_int_equal(exporter_config_agent(config, "a3")->options.nalternates, 15);
    exporter_config_unref(&config);
    free(name);
    free(agents);
    free(steps);
    free(pipeline);
    free(whole);
}

/* Paths are taken from the folder of the file, and absolute ones as they are. */
static void test_file_paths(void **state)
{
    char folder[2048];
    char expected[4096];
    char name[4096];
    char text[4096];
    struct exporter_error error = {""};

    (void)state;
    golden_folder(folder, sizeof(folder));
    (void)snprintf(name, sizeof(name), "%s/made-up.yml", folder);
    (void)snprintf(expected, sizeof(expected), "%s/%s", folder, "tokens");
    (void)snprintf(text, sizeof(text),
                   "api: {tokens_file: tokens}\n"
                   "defaults: {token_file: /proc/self/status}\n"
                   "agents: {a: {tls: {ca_file: tokens}}}\n");
    struct exporter_config *config = exporter_config_load_memory(name, text, strlen(text), &error);
    assert_string_equal(error.text, "");
    assert_string_equal(config->api.tokens_file, expected);
    assert_non_null(config->api.tokens);
    assert_string_equal(config->agents[0].options.ca_file, expected);
    assert_string_equal(config->agents[0].token_file, "/proc/self/status");
    exporter_config_unref(&config);
}

/* The example that ./scripts/run starts with. */
static void test_example(void **state)
{
    const char *top = getenv("HANDOFF_SOURCE_DIR");
    struct exporter_error error = {""};
    char path[2048];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/examples/handoff-exporter.yml", top != NULL ? top : ".");
    struct exporter_config *config = exporter_config_load(path, &error);
    assert_string_equal(error.text, "");
    assert_true(config->nagents >= 2);
    exporter_config_unref(&config);
}

/* ---- sharing ------------------------------------------------------------------------------- */

static void *share(void *argument)
{
    for (int i = 0; i < 10000; i++) {
        struct exporter_config *mine = exporter_config_ref(argument);
        if (exporter_config_agent(mine, "coder") == NULL) {
            return NULL;
        }
        exporter_config_unref(&mine);
    }
    struct exporter_config *last = argument;
    exporter_config_unref(&last);
    return argument;
}

static void test_references(void **state)
{
    struct exporter_config *config = load("agents: {coder: }");
    struct exporter_config *none = NULL;
    pthread_t threads[2];
    void *result;

    (void)state;
    exporter_config_unref(&none);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, share, exporter_config_ref(config)), 0);
    }
    exporter_config_unref(&config); /* a thread frees it: the address sanitizer judges */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
}

/* ---- no memory ----------------------------------------------------------------------------- */

/* Allocations left before one fails; negative: none fails. Both ways to the heap are counted: our
 * own calls, which the linker sends here (see "wraps" below), and libyaml's, which it makes through
 * functions that a program may put its own in place of. */
static long allocations_left = -1;

static bool may_allocate(void)
{
    return allocations_left < 0 || allocations_left-- > 0;
}

/* wraps: malloc calloc */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *yaml_malloc(size_t size);
void *yaml_realloc(void *pointer, size_t size);
yaml_char_t *yaml_strdup(const yaml_char_t *text);

void *__wrap_malloc(size_t size)
{
    return may_allocate() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return may_allocate() ? __real_calloc(count, size) : NULL;
}

void *yaml_malloc(size_t size)
{
    return may_allocate() ? __real_malloc(size > 0 ? size : 1) : NULL;
}

void *yaml_realloc(void *pointer, size_t size)
{
    return may_allocate() ? realloc(pointer, size > 0 ? size : 1) : NULL;
}

yaml_char_t *yaml_strdup(const yaml_char_t *text)
{
    return text != NULL && may_allocate() ? (yaml_char_t *)strdup((const char *)text) : NULL;
}

/* libyaml 0.2.5 loses the pairs of a mapping when it has no memory for the node itself. Only this
 * program looks away; the fuzz target would see a document that we forgot. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:yaml_parser_load\n";
}

/* Fails every allocation of a load, one after the other, until a load needs none more. */
static void test_every_allocation_may_fail(void **state)
{
    char *text = repeat("defaults: {alternates: [a0, a1], timeout: &t 1s, token_file: "
                        "/proc/self/status}\nagents:\n",
                        " a%zu: {url: \"http://127.0.0.1:1/\", timeout: *t}\n", 40,
                        "pipelines: {p: [a0, a1], q: [a2]}\n"
                        "channels: {r: {receivers: [a0]}, s: }\n");
    struct exporter_config *config = NULL;
    long n = 0;

    (void)state;
    for (; config == NULL; n++) {
        struct exporter_error error = {""};
        allocations_left = n;
        config = exporter_config_load_memory("test.yml", text, strlen(text), &error);
        allocations_left = -1;
        assert_true(n < 100000);
        if (config == NULL) {
            assert_string_equal(error.text, "test.yml: out of memory");
        }
    }
    assert_int_equal(config->nagents, 40);
    assert_true(n > 100); /* libyaml's were counted too */
    exporter_config_unref(&config);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_bad_bytes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_aliases_do_not_multiply),
        cmocka_unit_test(test_unreadable_files),
        cmocka_unit_test(test_nothing_means_defaults),
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_upper_bounds),
        cmocka_unit_test(test_file_paths),
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
