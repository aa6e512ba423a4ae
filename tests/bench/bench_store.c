/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store and the embedded spine.
 *
 * Commits: envelopes of 8 KiB, one at a time and with N at once from one loop, durable and not; the
 * group forms by itself. Beside it, as the floor, one write and fdatasync per envelope on the same
 * disk. Search: include_recent 20 for a task summary, at 10, 1,000 and 100,000 memories of 1 KiB;
 * words are drawn by Zipf's law, so that some are in nearly every memory and most in few. Growth is
 * the ratio to the smallest.
 *
 * usage: bench_store [DIRECTORY]     (a new one under $TMPDIR or /tmp; it should be on a real disk)
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

enum {
    ROUNDS = 5,
    ROUND_NS = 400000000,
    BODY = 8192,
    IN_FLIGHT_MAX = 512,
    WORDS = 20000,
    MEMORY_WORDS = 150, /* about 1 KiB */
    SEARCHES = 400,
};

#define MUST(condition) ((condition) ? (void)0 : die(#condition))

static void die(const char *what)
{
    fprintf(stderr, "bench_store: %s does not hold\n", what);
    exit(1);
}

static double now_ns(void)
{
    return (double)base_monotonic_ns(&base_clock_system);
}

/* CPU time of the process: a search runs on a reader thread, and waiting for a core is not its
 * cost. */
static double process_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_share(double *samples, int count, double share)
{
    qsort(samples, (size_t)count, sizeof *samples, compare);
    return samples[(int)((count - 1) * share)];
}

/* ---- commits --------------------------------------------------------------------------------- */

struct load {
    struct handoff_store *store;
    struct base_mailbox mailbox;
    struct base_uuid_source ids;
    double ends_ns;
    long done;
    int under_way;
};

struct one {
    struct handoff_store_put_envelope put;
    struct load *load;
};

static char body[BODY];

static void put_next(struct one *one)
{
    struct load *load = one->load;
    if (now_ns() >= load->ends_ns)
        return;
    one->put.id = base_uuid_make(&load->ids);
    one->put.task_id = base_span_text("task-1");
    one->put.body = base_span(body, sizeof body);
    one->put.created_ms = base_uuid_wall_ms(&one->put.id);
    load->under_way++;
    handoff_store_put_envelope(load->store, &one->put);
}

static void put_done(struct handoff_store_job *job)
{
    struct one *one = (struct one *)(void *)job;
    MUST(job->error.code == HANDOFF_OK);
    one->load->done++;
    one->load->under_way--;
    put_next(one);
}

/* Envelopes per second with so many at once. */
static double put_round(struct load *load, int at_once)
{
    static struct one ones[IN_FLIGHT_MAX];
    double begun = now_ns();
    load->ends_ns = begun + ROUND_NS;
    load->done = 0;
    for (int i = 0; i < at_once; i++) {
        ones[i].load = load;
        ones[i].put.job.mailbox = &load->mailbox;
        ones[i].put.job.done = put_done;
        put_next(&ones[i]);
    }
    while (load->under_way > 0)
        base_mailbox_wait(&load->mailbox, -1);
    return (double)load->done / (now_ns() - begun) * 1e9;
}

/* All that lies in the folder: a store makes as many files as it needs. */
static void remove_store(const char *directory)
{
    DIR *folder = opendir(directory);
    MUST(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0); /* refuses the folder itself and its parent */
    closedir(folder);
}

static void bench_puts(const char *directory, enum handoff_durability durability, int at_once)
{
    struct handoff_store_options options = {.path = directory, .durability = durability};
    struct load load = {0};
    struct handoff_store_stats before, after;
    double rates[ROUNDS];
    MUST(handoff_store_open(&load.store, &options, NULL) == HANDOFF_OK);
    MUST(base_mailbox_init(&load.mailbox, NULL) == HANDOFF_OK);
    base_uuid_source_init(&load.ids, NULL, NULL);
    put_round(&load, at_once); /* warms up */
    handoff_store_stats(load.store, &before);
    for (int i = 0; i < ROUNDS; i++)
        rates[i] = put_round(&load, at_once);
    handoff_store_stats(load.store, &after);
    printf(
        "put 8 KiB, durability %-4s  %4d at once  %9.0f/s  %6.1f in a commit  %3llu checkpoints\n",
        durability == HANDOFF_DURABILITY_FULL ? "full" : "none", at_once,
        at_share(rates, ROUNDS, 0.5),
        (double)(after.jobs - before.jobs) / (double)(after.commits - before.commits),
        (unsigned long long)(after.checkpoints - before.checkpoints));
    handoff_store_close(&load.store);
    base_mailbox_free(&load.mailbox);
    remove_store(directory);
}

static void bench_floor(const char *directory)
{
    char path[512];
    double rates[ROUNDS];
    snprintf(path, sizeof path, "%s/floor", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        long done = 0;
        double begun = now_ns(), ends = begun + ROUND_NS;
        for (; now_ns() < ends; done++)
            MUST(write(fd, body, sizeof body) == (ssize_t)sizeof body && fdatasync(fd) == 0);
        rates[i] = (double)done / (now_ns() - begun) * 1e9;
    }
    close(fd);
    printf("floor: write 8 KiB + fdatasync            %9.0f/s\n", at_share(rates, ROUNDS, 0.5));
    remove_store(directory);
}

/* ---- search -----------------------------------------------------------------------------------
 */

static uint64_t random_state = 88172645463325252u;

static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

/* A word's number by Zipf's law: the share of number n is 1 / (n ln WORDS). */
static int word(void)
{
    return (int)pow(WORDS, uniform()) - 1;
}

static size_t text(char *to, size_t room, int words)
{
    size_t size = 0;
    for (int i = 0; i < words; i++)
        size += (size_t)snprintf(to + size, room - size, "word%d ", word());
    return size;
}

struct filling {
    struct handoff_spine_put put;
    char id[32], content[4096];
    int *left;
};

static void filled(struct handoff_spine_call *call)
{
    MUST(call->error.code == HANDOFF_OK);
    --*((struct filling *)(void *)call)->left;
}

/* Memories with the numbers from to to. */
static void fill(struct handoff_spine *spine, struct base_mailbox *mailbox, int from, int to)
{
    static struct filling fillings[256];
    for (int at = from; at < to;) {
        int left = 0;
        for (int i = 0; i < 256 && at < to; i++, at++) {
            struct filling *filling = &fillings[i];
            memset(&filling->put, 0, sizeof filling->put);
            filling->left = &left;
            filling->put.call.mailbox = mailbox;
            filling->put.call.done = filled;
            snprintf(filling->id, sizeof filling->id, "ms-%d", at);
            filling->put.memory.id = base_span_text(filling->id);
            filling->put.memory.content = base_span(
                filling->content, text(filling->content, sizeof filling->content, MEMORY_WORDS));
            filling->put.memory.importance = (enum handoff_importance)(at % 4);
            left++;
            MUST(handoff_spine_put(spine, &filling->put) == HANDOFF_SPINE_PENDING);
        }
        while (left > 0)
            base_mailbox_wait(mailbox, -1);
    }
}

static double search_once(struct handoff_spine *spine, struct base_arena *arena, int words)
{
    char query[1024];
    size_t size = text(query, sizeof query, words);
    struct handoff_spine_resolve resolve = {
        .arena = arena, .recent = 20, .pins = true, .query = base_span(query, size)};
    double begun = process_ns();
    MUST(resolve_now(spine, &resolve) == HANDOFF_OK && resolve.found_count > 0);
    double took = process_ns() - begun;
    base_arena_reset(arena);
    return took / 1e3;
}

static void bench_search(struct handoff_spine *spine, int memories, int words, double *smallest)
{
    struct base_arena arena = {0};
    double us[SEARCHES];
    for (int i = 0; i < 10; i++)
        search_once(spine, &arena, words);
    for (int i = 0; i < SEARCHES; i++)
        us[i] = search_once(spine, &arena, words);
    double median = at_share(us, SEARCHES, 0.5);
    if (*smallest == 0)
        *smallest = median;
    printf("search, %2d words, %6d memories  p50 %7.0f us  p99 %7.0f us  growth %5.1f\n", words,
           memories, median, at_share(us, SEARCHES, 0.99), median / *smallest);
    base_arena_free(&arena);
}

static void bench_spine(const char *directory)
{
    static const int sizes[] = {10, 1000, 100000};
    double few = 0, many = 0;
    struct handoff_store *store;
    struct handoff_spine *spine;
    struct base_mailbox mailbox;
    struct handoff_store_options options = {.path = directory,
                                            .durability = HANDOFF_DURABILITY_NONE};
    struct handoff_embedded_options embedded = {0};
    MUST(handoff_store_open(&store, &options, NULL) == HANDOFF_OK);
    MUST(handoff_embedded_spine_open(&spine, store, &embedded, NULL) == HANDOFF_OK);
    MUST(base_mailbox_init(&mailbox, NULL) == HANDOFF_OK);
    for (int i = 0, filled_up = 0; i < 3; filled_up = sizes[i++]) {
        double begun = now_ns();
        fill(spine, &mailbox, filled_up, sizes[i]);
        printf("put %d memories of 1 KiB: %.0f/s\n", sizes[i] - filled_up,
               (sizes[i] - filled_up) / (now_ns() - begun) * 1e9);
        bench_search(spine, sizes[i], 6, &few);
        bench_search(spine, sizes[i], 30, &many);
    }
    handoff_spine_close(&spine);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    remove_store(directory);
}

int main(int argc, char **argv)
{
    static const int at_once[] = {1, 16, 128, 512};
    char own[512];
    const char *base = getenv("TMPDIR");
    snprintf(own, sizeof own, "%s/bench-store-XXXXXX", base ? base : "/tmp");
    const char *directory = argc > 1 ? argv[1] : mkdtemp(own);
    MUST(directory != NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    memset(body, 'x', sizeof body);
    bench_floor(directory);
    for (int i = 0; i < 4; i++)
        bench_puts(directory, HANDOFF_DURABILITY_FULL, at_once[i]);
    for (int i = 0; i < 4; i++)
        bench_puts(directory, HANDOFF_DURABILITY_NONE, at_once[i]);
    bench_spine(directory);
    if (argc <= 1)
        rmdir(directory);
    return 0;
}
