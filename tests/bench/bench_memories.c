/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of many memories, from end to end: for each of five languages one that says all that is
 * asked, older than all others, which share two words with each question; how long the spine takes
 * to open such a store, and where the one that says everything stands.
 *
 * usage: bench_memories [MEMORIES]   default 1000000: two minutes and 700 MB in $TMPDIR or /tmp. It
 *                                    fails where another memory stands first.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/embedded_spine.h"
#include "client/store/store.h"
#include "tests/support/questions.h"
#include "tests/support/resolve_now.h"

enum { AT_ONCE = 512, OPENINGS = 5, ROUNDS = 20, SEARCHES = ROUNDS * QUESTIONS };

#define MUST(condition) ((condition) ? (void)0 : die(#condition))

static void die(const char *what)
{
    fprintf(stderr, "bench_memories: %s does not hold\n", what);
    exit(1);
}

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static char folder[256], store_path[300];
static struct handoff_store *store;
static struct handoff_spine *spine;
static struct base_mailbox mailbox;
static uint64_t random_state = 88172645463325252u;

static size_t draw(size_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % below);
}

/* ---- the store ------------------------------------------------------------------------------- */

/* Returns how long the spine took. */
static double open_all(void)
{
    const struct handoff_store_options options = {.path = store_path,
                                                  .durability = HANDOFF_DURABILITY_NONE};
    const struct handoff_embedded_options embedded = {.search_timeout_ms = 10000};
    struct handoff_error error;
    MUST(handoff_store_open(&store, &options, &error) == HANDOFF_OK);
    const double begun = seconds_of(CLOCK_MONOTONIC);
    MUST(handoff_embedded_spine_open(&spine, store, &embedded, &error) == HANDOFF_OK);
    return seconds_of(CLOCK_MONOTONIC) - begun;
}

static double close_all(void)
{
    const double begun = seconds_of(CLOCK_MONOTONIC);
    handoff_spine_close(&spine);
    const double took = seconds_of(CLOCK_MONOTONIC) - begun;
    handoff_store_close(&store);
    return took;
}

/* ---- filling --------------------------------------------------------------------------------- */

struct filling {
    struct handoff_spine_put put;
    struct base_arena arena;
    char id[32], content[1024];
};

static int under_way;

static void was_filled(struct handoff_spine_call *call)
{
    MUST(call->error.code == HANDOFF_OK);
    under_way--;
}

static void put_memory(struct filling *filling, const char *id)
{
    filling->put = (struct handoff_spine_put){.call = {.mailbox = &mailbox, .done = was_filled}};
    snprintf(filling->id, sizeof filling->id, "%s", id);
    filling->put.memory.id = base_span_text(filling->id);
    filling->put.memory.content = base_span_text(filling->content);
    base_arena_reset(&filling->arena);
    handoff_spine_prepare_put(spine, &filling->put, &filling->arena);
    under_way++;
    MUST(handoff_spine_put(spine, &filling->put) == HANDOFF_SPINE_PENDING);
}

static void wait_for_all(void)
{
    while (under_way > 0)
        base_mailbox_wait(&mailbox, -1);
}

static void put_all_that_is_asked(struct filling *filling)
{
    char id[32];
    for (size_t i = 0; i < QUESTIONS; i++) {
        join_words(filling->content, sizeof filling->content, &questions[i], 12);
        snprintf(id, sizeof id, "wanted%zu", i);
        put_memory(filling, id);
        wait_for_all();
    }
}

/* Two words of each question, and others as memories do. */
static void write_sharing(char *text, size_t room, long number)
{
    size_t size =
        (size_t)snprintf(text, room, "note %ld about topic%zu, seen by crew%zu on day%zu:", number,
                         draw(5000), draw(700), draw(900));
    for (size_t i = 0; i < QUESTIONS; i++) {
        const size_t first = draw(12), second = (first + 1 + draw(11)) % 12;
        size += (size_t)snprintf(text + size, room - size, " %s or %s,", questions[i].words[first],
                                 questions[i].words[second]);
    }
}

static void fill(long memories)
{
    static struct filling fillings[AT_ONCE];
    char id[32];
    const double begun = seconds_of(CLOCK_MONOTONIC);
    put_all_that_is_asked(&fillings[0]);
    for (long done = 0; done < memories;) {
        for (int i = 0; i < AT_ONCE && done < memories; i++) {
            write_sharing(fillings[i].content, sizeof fillings[i].content, done);
            snprintf(id, sizeof id, "m%ld", done++);
            put_memory(&fillings[i], id);
        }
        wait_for_all();
    }
    for (int i = 0; i < AT_ONCE; i++)
        base_arena_free(&fillings[i].arena);
    printf("  put        %8.0f/s\n", (double)memories / (seconds_of(CLOCK_MONOTONIC) - begun));
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool is_first(size_t which, size_t words, struct base_arena *arena)
{
    char text[512], id[32];
    join_words(text, sizeof text, &questions[which], words);
    snprintf(id, sizeof id, "wanted%zu", which);
    struct handoff_spine_resolve call = {
        .arena = arena, .query = base_span_text(text), .recent = 20};
    MUST(resolve_now(spine, &call) == HANDOFF_OK && !call.incomplete);
    return call.found_count > 0 && base_span_equal(call.found[0].memory.id, base_span_text(id));
}

static void ask(size_t words)
{
    struct base_arena arena = {0};
    size_t first = 0;
    const double begun = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < QUESTIONS; i++) {
            first += is_first(i, words, &arena);
            base_arena_reset(&arena);
        }
    const double spent = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begun;
    base_arena_free(&arena);
    printf("  %2zu words   first in %zu of %d searches, %.2f ms of CPU each\n", words, first,
           SEARCHES, 1e3 * spent / SEARCHES);
    MUST(first == SEARCHES);
}

static int ascending(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void reopen(void)
{
    double opened[OPENINGS], closed[OPENINGS];
    for (int i = 0; i < OPENINGS; i++) {
        closed[i] = close_all();
        opened[i] = open_all();
    }
    qsort(opened, OPENINGS, sizeof *opened, ascending);
    qsort(closed, OPENINGS, sizeof *closed, ascending);
    printf("  opening    %8.1f ms (the spine; median of %d)\n", 1e3 * opened[OPENINGS / 2],
           OPENINGS);
    printf("  closing    %8.1f ms (the longest %.1f)\n", 1e3 * closed[OPENINGS / 2],
           1e3 * closed[OPENINGS - 1]);
}

int main(int argc, char **argv)
{
    const long memories = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
    const char *place = getenv("TMPDIR");
    struct handoff_error error;
    char remove_all[400];
    MUST(memories > 0);
    snprintf(folder, sizeof folder, "%s/bench_memories.XXXXXX", place ? place : "/tmp");
    MUST(mkdtemp(folder));
    snprintf(store_path, sizeof store_path, "%s/store", folder);
    MUST(base_mailbox_init(&mailbox, &error) == HANDOFF_OK);
    printf("%ld memories that share two words with each of %d questions\n", memories, QUESTIONS);
    open_all();
    fill(memories);
    reopen();
    MUST(handoff_memory_index_settle(handoff_embedded_of(spine)->index, NULL, NULL, &error) ==
         HANDOFF_OK);
    ask(4);
    ask(12);
    reopen();
    close_all();
    base_mailbox_free(&mailbox);
    snprintf(remove_all, sizeof remove_all, "rm -r '%s'", folder);
    MUST(system(remove_all) == 0); /* NOLINT(cert-env33-c) */
    return 0;
}
