/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a search costs among many documents: the project's index, and SQLite's FTS5 over the same
 * words in the same run. Documents have 45 words, about 300 bytes, from a vocabulary in which the
 * n-th word is n times as rare as the first (Zipf), as in texts; queries have 20 such words and
 * find the 64 best of all, as the spine does. One thread; CPU time.
 *
 *     bench_search [DOCUMENTS] [fts]     default 100000; with FTS5 only where asked, as it is slow
 */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/search/search.h"

enum {
    VOCABULARY = 200000,
    WORDS = 45,
    QUERY = 20,
    TELLING = 7,
    MOST = 64,
    TASKS = 20000,
    AGENTS = 50,
    QUERIES = 400,
    AT_ONCE = 100
};

static uint64_t random_state = 88172645463325252U;
static double *shares; /* of the words up to each */

static uint64_t draw_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void make_vocabulary(void)
{
    double sum = 0;
    shares = malloc(VOCABULARY * sizeof *shares);
    for (int i = 0; i < VOCABULARY; i++)
        shares[i] = sum += 1.0 / (i + 1);
    for (int i = 0; i < VOCABULARY; i++)
        shares[i] /= sum;
}

static uint32_t draw_word(void)
{
    const double at = (double)(draw_number() >> 11) / 9007199254740992.0;
    uint32_t low = 0, high = VOCABULARY - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (shares[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t hash_of(uint32_t word)
{
    uint64_t hash = (word + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    return (hash ^ hash >> 32) * UINT64_C(0xC2B2AE3D27D4EB4F);
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long resident_kib(const char *which)
{
    char line[128];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, which, strlen(which)) == 0)
            kib = strtol(line + strlen(which) + 1, NULL, 10);
    if (status)
        fclose(status);
    return kib;
}

/* ---- ours --------------------------------------------------------------------------------------
 */

static size_t make_terms(struct search_term *terms, const uint32_t *words)
{
    size_t count = 0;
    for (int i = 0; i < WORDS; i++) {
        const uint64_t hash = hash_of(words[i]);
        size_t at = 0;
        while (at < count && terms[at].hash != hash)
            at++;
        if (at == count)
            terms[count++] = (struct search_term){hash, 0};
        terms[at].count++;
    }
    return count;
}

static void merge_all(struct search_index *index, const char *folder, double *spent)
{
    struct search_merge merge;
    static unsigned files;
    const double begun = cpu_seconds();
    while (search_merge_plan(index, false, &merge)) {
        struct base_buffer bytes = {0};
        char path[256];
        snprintf(path, sizeof path, "%s/%u", folder, ++files);
        if (!search_merge_build(&merge, &bytes) ||
            search_segment_write(path, base_buffer_span(&bytes), NULL) != 0)
            exit(1);
        base_buffer_free(&bytes);
        struct search_segment *segment = search_segment_open(path, 1, 0);
        unlink(path);
        if (!segment || !search_merge_finish(&merge, segment))
            exit(1);
        search_merge_end(&merge);
    }
    *spent += cpu_seconds() - begun;
}

static void add_documents(struct search_index *index, long documents, const char *folder)
{
    static uint32_t words[WORDS];
    static struct search_term terms[AT_ONCE][WORDS];
    struct search_document batch[AT_ONCE];
    double merging = 0, adding = 0;
    char sketch[WORDS] = {0};
    for (long done = 0; done < documents; done += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            for (int word = 0; word < WORDS; word++)
                words[word] = draw_word();
            batch[i] = (struct search_document){.key = done + i + 1,
                                                .length = WORDS,
                                                .task = 1 + (uint32_t)draw_number() % TASKS,
                                                .agent = 1 + (uint32_t)draw_number() % AGENTS,
                                                .sketch = base_span(sketch, sizeof sketch),
                                                .terms = terms[i],
                                                .term_count = make_terms(terms[i], words)};
        }
        const double begun = cpu_seconds();
        if (!search_index_add(index, batch, AT_ONCE))
            exit(1);
        adding += cpu_seconds() - begun;
        merge_all(index, folder, &merging);
    }
    printf("  adding %.2f us, merging %.2f us for each document\n",
           1e6 * adding / (double)documents, 1e6 * merging / (double)documents);
}

struct sizes {
    uint64_t bytes;
    unsigned segments;
};

static void count_segment_size(void *context, struct search_segment *segment)
{
    struct sizes *sizes = context;
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    sizes->bytes += facts.bytes;
    sizes->segments++;
}

static int by_weight(const void *left, const void *right)
{
    const struct search_wanted *l = left, *r = right;
    return (l->weight < r->weight) - (l->weight > r->weight);
}

/* So many of the weightiest words, that the others say no more than this share. */
static size_t count_saying(const struct search_query *query, float all, float share)
{
    float left = 0;
    size_t count = query->term_count;
    for (; count > 0; count--) {
        left += query->terms[count - 1].weight;
        if (left > all * share)
            break;
    }
    return count;
}

/* As match.c does: the last words are left out where they say next to nothing, and common where
   they say little, many documents have them, and enough words are left. */
static void choose_words(struct search_query *query)
{
    float all = 0;
    qsort(query->terms, query->term_count, sizeof *query->terms, by_weight);
    for (size_t i = 0; i < query->term_count; i++)
        all += query->terms[i].weight;
    const size_t telling = count_saying(query, all, 0.25F);
    for (size_t i = telling; telling >= TELLING && i < query->term_count; i++)
        query->terms[i].common = query->terms[i].documents > 1024;
    query->term_count = count_saying(query, all, 0.05F);
}

static double search_index_once(struct search_index *index, const uint32_t *words)
{
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted[QUERY];
    struct search_result results[MOST];
    const uint32_t agents[] = {1 + (uint32_t)draw_number() % AGENTS,
                               1 + (uint32_t)draw_number() % AGENTS};
    struct search_query query = {.ranges = &all,
                                 .range_count = 1,
                                 .terms = wanted,
                                 .k1 = 1.8F,
                                 .b = 0.75F,
                                 .level = {0, 0.05F, 0.1F, 0.15F},
                                 .recency = 0.1F,
                                 .same_task = 0.5F,
                                 .task = 1 + (uint32_t)draw_number() % TASKS,
                                 .agent = 0.1F,
                                 .agents = agents,
                                 .agent_count = 2,
                                 .half_life_ms = 604800000,
                                 .now_ms = 1};
    for (int i = 0; i < QUERY; i++) {
        bool known = false;
        for (size_t at = 0; at < query.term_count; at++)
            known = known || wanted[at].hash == hash_of(words[i]);
        if (!known)
            wanted[query.term_count++] = (struct search_wanted){.hash = hash_of(words[i])};
    }
    const double begun = cpu_seconds();
    struct search_view *view = search_view_open(index);
    search_view_count(view, &query);
    for (size_t i = 0; i < query.term_count; i++)
        wanted[i].weight = logf(1 + ((float)query.documents - (float)wanted[i].documents + 0.5F) /
                                        ((float)wanted[i].documents + 0.5F));
    choose_words(&query);
    (void)search_view_find(view, &query, results, MOST);
    search_view_close(&view);
    return cpu_seconds() - begun;
}

static int ascending(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void print_times(const char *what, double *seconds, int count)
{
    double sum = 0;
    qsort(seconds, (size_t)count, sizeof *seconds, ascending);
    for (int i = 0; i < count; i++)
        sum += seconds[i];
    printf("  %-12s mean %8.3f ms, median %8.3f ms, 99 %% %8.3f ms\n", what, 1e3 * sum / count,
           1e3 * seconds[count / 2], 1e3 * seconds[count * 99 / 100]);
}

static void bench_index(long documents, const char *folder)
{
    struct search_index *index = search_index_open(1);
    struct sizes sizes = {0};
    static double seconds[QUERIES];
    uint32_t words[QUERY];
    add_documents(index, documents, folder);
    search_index_visit(index, count_segment_size, &sizes);
    for (int i = 0; i < QUERIES; i++) {
        for (int word = 0; word < QUERY; word++)
            words[word] = draw_word();
        seconds[i] = search_index_once(index, words);
    }
    print_times("index", seconds, QUERIES);
    printf("  %.1f bytes for each document in %u segments; resident %ld MiB, at most %ld MiB\n",
           (double)sizes.bytes / (double)documents, sizes.segments, resident_kib("VmRSS:") / 1024,
           resident_kib("VmHWM:") / 1024);
    search_index_close(&index);
}

/* ---- FTS5 --------------------------------------------------------------------------------------
 */

static void exec(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s\n", sqlite3_errmsg(db));
        exit(1);
    }
}

static void write_words(char *text, const char *between, int count)
{
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        text += sprintf(text, "%sw%x", i ? between : "", draw_word());
}

static void bench_fts(long documents, const char *folder)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    char path[256], text[1024];
    enum { FEW = 20 };
    static double seconds[FEW];
    snprintf(path, sizeof path, "%s/fts.db", folder);
    sqlite3_open(path, &db);
    exec(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
             "CREATE VIRTUAL TABLE t USING fts5 (c, content = '', tokenize = unicode61); BEGIN");
    sqlite3_prepare_v2(db, "INSERT INTO t (rowid, c) VALUES (?1, ?2)", -1, &statement, NULL);
    double begun = cpu_seconds();
    for (long i = 1; i <= documents; i++) {
        write_words(text, " ", WORDS);
        sqlite3_bind_int64(statement, 1, i);
        sqlite3_bind_text(statement, 2, text, -1, SQLITE_STATIC);
        sqlite3_step(statement);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    exec(db, "COMMIT");
    printf("  FTS5: adding %.2f us for each document\n",
           1e6 * (cpu_seconds() - begun) / (double)documents);
    sqlite3_prepare_v2(db, "SELECT rowid FROM t WHERE t MATCH ?1 ORDER BY rank LIMIT 64", -1,
                       &statement, NULL);
    for (int i = 0; i < FEW; i++) {
        write_words(text, " OR ", QUERY);
        begun = cpu_seconds();
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
        while (sqlite3_step(statement) == SQLITE_ROW)
            ;
        sqlite3_reset(statement);
        seconds[i] = cpu_seconds() - begun;
    }
    sqlite3_finalize(statement);
    print_times("FTS5", seconds, FEW);
    sqlite3_close(db);
    unlink(path);
}

int main(int argc, char **argv)
{
    const long documents = argc > 1 ? strtol(argv[1], NULL, 10) : 100000;
    char folder[] = "/tmp/bench_search.XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    make_vocabulary();
    printf("%ld documents of %d words, queries of %d words, the best %d\n", documents, WORDS, QUERY,
           MOST);
    bench_index(documents, folder);
    if (argc > 2)
        bench_fts(documents, folder);
    free(shares);
    return rmdir(folder) != 0;
}
