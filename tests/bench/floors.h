/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_metrics and bench_prom have in common: the values and labels that are observed, the
 * floors (a bare relaxed atomic add, a plain hash look-up), and rounds that alternate between ours
 * and a floor, on one or two threads. Medians are compared, as ratios.
 */
#ifndef TESTS_BENCH_FLOORS_H
#define TESTS_BENCH_FLOORS_H

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS_DEFAULT = 9,
    ROUNDS_MAX = 101,
    CALLS = 2000000, /* of one round: 4 ms and more, far over the clock's grain */
    VALUES = 4096,
    THREADS_MAX = 2,
    LABEL_SETS = 256,
    LABELS = 3,
};

static int rounds = ROUNDS_DEFAULT;

#define MUST(condition) ((condition) ? (void)0 : die(#condition))

static void die(const char *what)
{
    fprintf(stderr, "%s: %s does not hold\n", program_invocation_short_name, what);
    exit(1);
}

/* CPU time of the thread: waiting for a cache line counts, waiting for a core does not. */
static double thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples, int n)
{
    qsort(samples, (size_t)n, sizeof *samples, compare);
    return samples[n / 2];
}

/* ---- what is observed ----------------------------------------------------------------------- */

static double values[VALUES];
static char label_text[LABEL_SETS][LABELS][32];
static const char *label_sets[LABEL_SETS][LABELS];

static void make_values(void)
{
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < VALUES; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        values[i] =
            exp2((double)(random % 2000) / 100 - 12); /* 2^-12 to 2^8, evenly by magnitude */
    }
}

static void make_labels(void)
{
    for (size_t i = 0; i < LABEL_SETS; i++) {
        snprintf(label_text[i][0], sizeof label_text[i][0], "agent-number-%zu", i);
        snprintf(label_text[i][1], sizeof label_text[i][1], "%s", i % 2 ? "direct" : "broadcast");
        snprintf(label_text[i][2], sizeof label_text[i][2], "acknowledged");
        for (size_t j = 0; j < LABELS; j++)
            label_sets[i][j] = label_text[i][j];
    }
}

/* ---- floors --------------------------------------------------------------------------------- */

struct bare {
    _Alignas(64) _Atomic(uint64_t) count;
    _Alignas(64) _Atomic(uint64_t) buckets[64];
};

static struct bare bares[THREADS_MAX];
static struct bare of_labels[LABEL_SETS]; /* each label set is counted apart, as it must be */

__attribute__((noinline)) static void bare_add(struct bare *bare)
{
    atomic_fetch_add_explicit(&bare->count, 1, memory_order_relaxed);
}

__attribute__((noinline)) static void bare_observe(struct bare *bare, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    atomic_fetch_add_explicit(&bare->buckets[((bits >> 52) - 1023 + 32) & 63], 1,
                              memory_order_relaxed);
}

/* A table that is only looked up: power of two, linear probing, FNV-1a in words of 8 bytes. */
struct plain_entry {
    uint64_t hash;
    const char *const *labels;
    struct bare *bare;
};
static struct plain_entry plain_table[LABEL_SETS * 4];

static uint64_t plain_hash(const char *const labels[LABELS])
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < LABELS; i++) {
        size_t length = strlen(labels[i]);
        const char *at = labels[i];
        for (; length >= 8; length -= 8, at += 8) {
            uint64_t word;
            memcpy(&word, at, sizeof word);
            hash = (hash ^ word) * 0x100000001b3u;
            hash ^= hash >> 32;
        }
        for (; length > 0; length--, at++)
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    }
    return hash ^ hash >> 29;
}

static struct plain_entry *plain_slot(uint64_t hash, const char *const labels[LABELS])
{
    for (size_t i = hash;; i++) {
        struct plain_entry *entry = &plain_table[i % (LABEL_SETS * 4)];
        if (entry->labels == NULL ||
            (entry->hash == hash && strcmp(entry->labels[0], labels[0]) == 0 &&
             strcmp(entry->labels[1], labels[1]) == 0 && strcmp(entry->labels[2], labels[2]) == 0))
            return entry;
    }
}

__attribute__((noinline)) static struct bare *plain_find(const char *const labels[LABELS])
{
    return plain_slot(plain_hash(labels), labels)->bare;
}

static void make_plain_table(void)
{
    for (size_t i = 0; i < LABEL_SETS; i++) {
        uint64_t hash = plain_hash(label_sets[i]);
        *plain_slot(hash, label_sets[i]) =
            (struct plain_entry){.hash = hash, .labels = label_sets[i], .bare = &of_labels[i]};
    }
}

/* ---- their loops: `who` is the thread's own series, or 0 for all ----------------------------- */

typedef void loop(size_t who, int calls);

static void loop_bare_counter(size_t who, int calls)
{
    for (int i = 0; i < calls; i++)
        bare_add(&bares[who]);
}

static void loop_bare_histogram(size_t who, int calls)
{
    for (int i = 0; i < calls; i++)
        bare_observe(&bares[who], values[i % VALUES]);
}

static void loop_bare_histogram_lookup(size_t who, int calls)
{
    (void)who;
    for (int i = 0; i < calls; i++)
        bare_observe(plain_find(label_sets[i % LABEL_SETS]), values[i % VALUES]);
}

struct task {
    loop *run;
    size_t who;
    pthread_barrier_t *barrier;
    double ns;
};

static void *run_task(void *arg)
{
    struct task *task = arg;
    task->run(task->who, 1000); /* takes the thread's slot, warms the caches */
    pthread_barrier_wait(task->barrier);
    double begin = thread_ns();
    task->run(task->who, CALLS);
    task->ns = (thread_ns() - begin) / CALLS;
    return NULL;
}

/* ns per call, of the slowest thread */
static double run_threads(loop *run, size_t threads, bool same)
{
    pthread_barrier_t barrier;
    pthread_t ids[THREADS_MAX];
    struct task tasks[THREADS_MAX];
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (size_t i = 0; i < threads; i++) {
        tasks[i] = (struct task){.run = run, .who = same ? 0 : i, .barrier = &barrier};
        MUST(pthread_create(&ids[i], NULL, run_task, &tasks[i]) == 0);
    }
    double slowest = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        slowest = tasks[i].ns > slowest ? tasks[i].ns : slowest;
    }
    pthread_barrier_destroy(&barrier);
    return slowest;
}

/* ---- the table ------------------------------------------------------------------------------ */

static void print_row(const char *what, double ours, double floor, double goal, const char *unit)
{
    double ratio = ours / floor;
    printf("%-50s %9.2f %9.2f %-3s %6.2f", what, ours, floor, unit, ratio);
    if (goal > 0)
        printf("   <= %.2f %s", goal, ratio <= goal ? "yes" : "NO");
    printf("\n");
}

/* The median of ours. */
static double compare_loops(const char *what, loop *ours, loop *floor, size_t threads, bool same,
                            double goal)
{
    double our_ns[ROUNDS_MAX], floor_ns[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++) {
        our_ns[i] = run_threads(ours, threads, same);
        floor_ns[i] = run_threads(floor, threads, same);
    }
    const double ours_ns = median(our_ns, rounds);
    print_row(what, ours_ns, median(floor_ns, rounds), goal, "ns");
    return ours_ns;
}

/* `[ROUNDS]` of the command line. */
static void begin_bench(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: %s [ROUNDS], 1 to %d\n", program_invocation_short_name, ROUNDS_MAX);
        exit(2);
    }
    make_values();
    make_labels();
    make_plain_table();
}

static void print_head(void)
{
    printf("medians of %d rounds, ours and the floor in turn\n\n", rounds);
    printf("%-50s %9s %9s %-3s %6s   %s\n", "", "ours", "floor", "", "ratio", "goal");
}

#endif
