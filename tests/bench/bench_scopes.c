/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the memories of other scopes cost: a scope of 1,000 memories, which are the oldest, beside
 * 0, 10,000, 100,000 and 1,000,000 newer ones that have the same words, in 100 other scopes. Each
 * kind of read takes CPU time; growth is the ratio to the one beside none. Below, the same search
 * for who sees the others' scopes as well.
 *
 * usage: bench_scopes [OTHERS]     (the most; 1,000,000 take two minutes and 600 MB in $TMPDIR or
 * /tmp)
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/spine/embedded/embedded_spine.h"
#include "client/store/store.h"
#include "tests/support/resolve_now.h"

enum { OWN = 1000, SCOPES = 100, WORDS = 5000, MEMORY_WORDS = 12, ROUNDS = 300, AT_ONCE = 512 };

#define MUST(condition) ((condition) ? (void)0 : die(#condition))

static void die(const char *what)
{
    fprintf(stderr, "bench_scopes: %s does not hold\n", what);
    exit(1);
}

/* Of the process: a read runs on a reader thread, and waiting for a core is not its cost. */
static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static struct handoff_spine *spine;
static struct base_mailbox mailbox;
static uint64_t random_state = 88172645463325252u;

/* The share of word number n is 1 / (n ln WORDS), by Zipf's law. */
static int draw_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)pow(WORDS, (double)(random_state >> 11) / 9007199254740992.0) - 1;
}

static struct base_span draw_text(char *to, size_t room, int words)
{
    size_t size = 0;
    for (int i = 0; i < words; i++)
        size += (size_t)snprintf(to + size, room - size, "word%d ", draw_word());
    return base_span(to, size);
}

/* ---- filling --------------------------------------------------------------------------------- */

struct filling {
    struct handoff_spine_put put;
    char id[32], scope[32], content[512];
};

static int under_way;

static void was_filled(struct handoff_spine_call *call)
{
    MUST(call->error.code == HANDOFF_OK);
    under_way--;
}

static void put_memory(struct filling *filling, int number)
{
    *filling = (struct filling){
        .put = {.call = {.mailbox = &mailbox, .done = was_filled}, .scopes = {.all = true}}};
    snprintf(filling->id, sizeof filling->id, "m-%d", number);
    if (number < OWN)
        snprintf(filling->scope, sizeof filling->scope, "own");
    else
        snprintf(filling->scope, sizeof filling->scope, "other-%d", number % SCOPES);
    filling->put.memory.id = base_span_text(filling->id);
    filling->put.memory.content =
        draw_text(filling->content, sizeof filling->content, MEMORY_WORDS);
    filling->put.scope = base_span_text(filling->scope);
    filling->put.pin = number % OWN < 10 && number < 100 * OWN ? HANDOFF_PIN_YES : HANDOFF_PIN_KEEP;
    under_way++;
    MUST(handoff_spine_put(spine, &filling->put) == HANDOFF_SPINE_PENDING);
}

static void fill(int from, int to)
{
    static struct filling fillings[AT_ONCE];
    while (from < to) {
        for (int i = 0; i < AT_ONCE && from < to; i++)
            put_memory(&fillings[i], from++);
        while (under_way > 0)
            base_mailbox_wait(&mailbox, -1);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static const struct base_span own = {"own", 3};

static void resolve(struct base_arena *arena, struct handoff_spine_resolve *call)
{
    call->arena = arena;
    MUST(resolve_now(spine, call) == HANDOFF_OK && call->found_count > 0);
}

static void find_by_id(struct base_arena *arena, struct handoff_scopes scopes)
{
    struct base_span ids[] = {base_span_text("m-0"), base_span_text("m-500"),
                              base_span_text("m-999"), base_span_text("m-1001")};
    struct handoff_spine_resolve call = {.scopes = scopes, .ids = ids, .id_count = 4};
    resolve(arena, &call);
    MUST(call.found_count == 3);
}

static void find_pinned(struct base_arena *arena, struct handoff_scopes scopes)
{
    struct handoff_spine_resolve call = {.scopes = scopes, .pins = true};
    resolve(arena, &call);
    MUST(call.found_count == 10);
}

static void find_newest(struct base_arena *arena, struct handoff_scopes scopes)
{
    struct handoff_spine_resolve call = {.scopes = scopes, .recent = 20};
    resolve(arena, &call);
}

static void search(struct base_arena *arena, struct handoff_scopes scopes)
{
    char query[512];
    struct handoff_spine_resolve call = {
        .scopes = scopes, .recent = 20, .query = draw_text(query, sizeof query, 12)};
    resolve(arena, &call);
}

static bool listed;

static void was_listed(struct handoff_spine_call *call)
{
    MUST(call->error.code == HANDOFF_OK);
    listed = true;
}

static void list(struct base_arena *arena, struct handoff_scopes scopes)
{
    struct handoff_spine_list call = {.call = {.mailbox = &mailbox, .done = was_listed},
                                      .arena = arena,
                                      .scopes = scopes,
                                      .limit = 50};
    listed = handoff_spine_list(spine, &call) == HANDOFF_SPINE_DONE;
    while (!listed)
        base_mailbox_wait(&mailbox, -1);
    MUST(call.count == 50);
}

static struct reading {
    const char *name;
    void (*run)(struct base_arena *arena, struct handoff_scopes scopes);
    double alone; /* what it took beside none */
} readings[] = {
    {"3 by id", find_by_id, 0},        {"10 pinned", find_pinned, 0},
    {"the newest 20", find_newest, 0}, {"search, 12 words", search, 0},
    {"page of 50", list, 0},
};

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median_us(const struct reading *reading, struct handoff_scopes scopes)
{
    static double us[ROUNDS];
    struct base_arena arena = {0};
    for (int i = 0; i < ROUNDS; i++) {
        const double begun = cpu_us();
        reading->run(&arena, scopes);
        us[i] = cpu_us() - begun;
        base_arena_reset(&arena);
    }
    base_arena_free(&arena);
    qsort(us, ROUNDS, sizeof *us, compare);
    return us[ROUNDS / 2];
}

static void measure(int others)
{
    const struct handoff_scopes scopes = {.names = &own, .count = 1};
    median_us(&readings[3], scopes); /* what was written last may still be moved about */
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        struct reading *reading = &readings[i];
        const double once = median_us(reading, scopes), again = median_us(reading, scopes);
        const double us = once < again ? once : again;
        reading->alone = others == 0 ? us : reading->alone;
        printf("%-17s beside %7d others  p50 %7.1f us  growth %5.2f\n", reading->name, others, us,
               us / reading->alone);
    }
}

static void measure_the_others(int others)
{
    const struct base_span names[] = {base_span_text("other-1"), base_span_text("other-2"), own};
    const struct handoff_scopes scopes = {.names = names, .count = 3};
    printf("search, 12 words  in 3 scopes, %d memories  p50 %7.1f us\n", OWN + others / SCOPES * 2,
           median_us(&readings[3], scopes));
}

static void remove_store(const char *directory)
{
    DIR *folder = opendir(directory);
    MUST(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0); /* refuses the folder itself and its parent */
    closedir(folder);
    rmdir(directory);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 10000, 100000, 1000000};
    const int most = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000000;
    char directory[512];
    const char *base = getenv("TMPDIR");
    struct handoff_store *store;
    struct handoff_embedded_options embedded = {0};
    snprintf(directory, sizeof directory, "%s/bench-scopes-XXXXXX", base ? base : "/tmp");
    MUST(mkdtemp(directory));
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct handoff_store_options options = {.path = directory,
                                            .durability = HANDOFF_DURABILITY_NONE};
    MUST(handoff_store_open(&store, &options, NULL) == HANDOFF_OK);
    MUST(handoff_embedded_spine_open(&spine, store, &embedded, NULL) == HANDOFF_OK);
    MUST(base_mailbox_init(&mailbox, NULL) == HANDOFF_OK);
    for (int i = 0, there = 0; i < 4 && sizes[i] <= most; i++) {
        const double begun = cpu_us();
        fill(there, OWN + sizes[i]);
        printf("put %d memories: %.1f us each\n", OWN + sizes[i] - there,
               (cpu_us() - begun) / (OWN + sizes[i] - there));
        there = OWN + sizes[i];
        measure(sizes[i]);
        if (sizes[i] > 0)
            measure_the_others(sizes[i]);
    }
    handoff_spine_close(&spine);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    remove_store(directory);
    return 0;
}
