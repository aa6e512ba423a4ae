/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting tokens in o200k_base: 16 KB of code, prose, JSON and Chinese against tiktoken's wasm,
 * round by round in the same minute, medians of the rounds, in processor time on both sides, so
 * that a busy machine does not decide; then what a megabyte that nothing cuts
 * costs, how long opening takes, and where scanning short pieces stops being faster than the heap.
 *
 *   bench_tokens        needs node and scripts/npm-install --tests; without them, ours alone
 */
#include "lib/tokens/merge.h"
#include "lib/tokens/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES ((size_t)16 << 10)
#define MEGABYTE   ((size_t)1 << 20)
#define ROUNDS     9
#define REPEATS    50

struct text {
    const char *name;
    const char *sources[3]; /* files of the repository, joined and repeated up to the size */
    char *bytes;
    char path[64];
    size_t count, rival_count;
    double ours[ROUNDS], rival[ROUNDS]; /* ns per count */
};

static struct text texts[] = {
    {.name = "code", .sources = {"lib/tokens/vocabulary.c", "lib/tokens/merge.c"}},
    {.name = "prose", .sources = {"docs/decisions.md", "CONTRIBUTING.md", "LICENSE"}},
    {.name = "json",
     .sources = {"tests/fuzz/corpus/tokens/json", "docs/schema/envelope-2.1.schema.json"}},
    {.name = "chinese", .sources = {"tests/fuzz/corpus/tokens/cjk"}},
};
#define TEXTS (sizeof(texts) / sizeof(texts[0]))

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), compare);
    return values[ROUNDS / 2];
}

/* Whole characters only, so that both sides see the same text. */
static size_t whole_characters(const char *bytes, size_t length)
{
    while (length > 0 && ((unsigned char)bytes[length] & 0xc0) == 0x80)
        length--;
    return length;
}

static size_t append_file(struct text *text, const char *source, const char *root, size_t length)
{
    char path[512];
    FILE *file;
    size_t got = 0;

    snprintf(path, sizeof(path), "%s/%s", root, source);
    file = fopen(path, "rb");
    if (file) {
        got = fread(text->bytes + length, 1, TEXT_BYTES + 1 - length, file);
        fclose(file);
    }
    return length + got;
}

static bool make_text(struct text *text, const char *root)
{
    size_t length = 0, before = 1;
    FILE *file;

    text->bytes = calloc(1, TEXT_BYTES + 2);
    while (text->bytes && length <= TEXT_BYTES && length != before) {
        before = length;
        for (size_t i = 0; i < 3 && text->sources[i] && length <= TEXT_BYTES; i++)
            length = append_file(text, text->sources[i], root, length);
    }
    if (length <= TEXT_BYTES)
        return false;
    text->bytes[whole_characters(text->bytes, TEXT_BYTES)] = '\0';
    snprintf(text->path, sizeof(text->path), "/tmp/bench-tokens-%s-%ld", text->name,
             (long)getpid());
    file = fopen(text->path, "wb");
    return file && fputs(text->bytes, file) >= 0 && fclose(file) == 0;
}

static double time_count(const struct handoff_tokenizer *tokenizer, const char *bytes,
                         size_t length, int repeats, size_t *count)
{
    double start = now_ns();

    for (int i = 0; i < repeats; i++)
        if (handoff_tokens_count(tokenizer, bytes, length, count) != HANDOFF_OK)
            return 0;
    return (now_ns() - start) / repeats;
}

/* --- the rival ----------------------------------------------------------------------------- */

struct rival {
    pid_t process;
    FILE *to, *from;
};

static bool start_rival(struct rival *rival, const char *root)
{
    char script[512];
    int in[2], out[2];

    snprintf(script, sizeof(script), "%s/tests/oracle/bench.mjs", root);
    if (pipe(in) != 0 || pipe(out) != 0 || (rival->process = fork()) < 0)
        return false;
    if (rival->process == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execlp("node", "node", script, texts[0].path, texts[1].path, texts[2].path, texts[3].path,
               (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    rival->to = fdopen(in[1], "w");
    rival->from = fdopen(out[0], "r");
    return rival->to && rival->from;
}

static bool rival_round(struct rival *rival, int round)
{
    if (fputs("go\n", rival->to) < 0 || fflush(rival->to) != 0)
        return false;
    for (size_t i = 0; i < TEXTS; i++)
        if (fscanf(rival->from, "%zu %lf", &texts[i].rival_count, &texts[i].rival[round]) != 2)
            return false;
    return true;
}

static void stop_rival(struct rival *rival)
{
    fclose(rival->to);
    fclose(rival->from);
    waitpid(rival->process, NULL, 0);
}

/* --- the tables ---------------------------------------------------------------------------- */

static void print_texts(bool with_rival)
{
    printf("%-10s %8s %12s %10s %14s %8s\n", "16 KB of", "tokens", "ours us", "MB/s", "tiktoken us",
           "ratio");
    for (size_t i = 0; i < TEXTS; i++) {
        double ours = median(texts[i].ours), rival = with_rival ? median(texts[i].rival) : 0;

        printf("%-10s %8zu %12.1f %10.1f", texts[i].name, texts[i].count, ours / 1e3,
               (double)strlen(texts[i].bytes) / ours * 1e3);
        if (with_rival)
            printf(" %14.1f %8.1f%s", rival / 1e3, rival / ours,
                   texts[i].count == texts[i].rival_count ? "" : "  COUNTS DIFFER");
        printf("\n");
    }
}

static bool bench_texts(const struct handoff_tokenizer *tokenizer, const char *root)
{
    struct rival rival = {0};
    bool with_rival = true, same = true;

    for (size_t i = 0; i < TEXTS; i++)
        if (!make_text(&texts[i], root))
            return false;
    with_rival = start_rival(&rival, root);
    for (int round = 0; round < ROUNDS; round++) {
        with_rival = with_rival && rival_round(&rival, round);
        for (size_t i = 0; i < TEXTS; i++)
            texts[i].ours[round] = time_count(tokenizer, texts[i].bytes, strlen(texts[i].bytes),
                                              REPEATS, &texts[i].count);
    }
    stop_rival(&rival);
    print_texts(with_rival);
    for (size_t i = 0; i < TEXTS; i++) {
        same = same && (!with_rival || texts[i].count == texts[i].rival_count);
        unlink(texts[i].path);
        free(texts[i].bytes);
    }
    return same;
}

/* The rival is left out: it needs 15 s for a tenth of this, and breaks at a third. */
static void bench_megabytes(const struct handoff_tokenizer *tokenizer)
{
    static const struct {
        const char *name, *alphabet;
    } runs[] = {{"letters", "abcdefghijklmnopqrstuvwxyz"},
                {"one letter", "a"},
                {"symbols", "!$%&()*+,-.;<=>?@"},
                {"spaces", " "}};
    char *bytes = malloc(MEGABYTE);
    size_t count = 0;

    printf("\n%-22s %8s %12s\n", "1 MB that nothing cuts", "tokens", "ms");
    for (size_t i = 0; bytes && i < sizeof(runs) / sizeof(runs[0]); i++) {
        unsigned random = 1;
        size_t letters = strlen(runs[i].alphabet);

        for (size_t b = 0; b < MEGABYTE; b++) {
            random = random * 1103515245u + 12345u;
            bytes[b] = runs[i].alphabet[(random >> 16) % letters];
        }
        double ns = time_count(tokenizer, bytes, MEGABYTE, 1, &count);
        printf("%-22s %8zu %12.1f\n", runs[i].name, count, ns / 1e6);
    }
    free(bytes);
}

/* Each piece is another, as in life: one that comes again and again would teach the processor its
 * branches. The time per byte must not jump where the method changes. */
static void bench_piece_lengths(const struct handoff_tokenizer *tokenizer)
{
    static const size_t lengths[] = {8,   16,   32,   48,    64,      65,
                                     128, 1024, 1025, 65536, 1 << 20, 1 << 22};
    static char bytes[1 << 22];
    unsigned random = 7;
    size_t count = 0;

    for (size_t i = 0; i < sizeof(bytes); i++) {
        random = random * 1103515245u + 12345u;
        bytes[i] = (char)('a' + (random >> 16) % 26);
    }
    printf("\n%-22s %8s %12s\n", "one piece of bytes", "tokens", "ns per byte");
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t tokens = 0, pieces = sizeof(bytes) / lengths[i];
        double start = now_ns(), ns;

        for (size_t piece = 0; piece < pieces; piece++)
            if (handoff_tokens_count(tokenizer, bytes + piece * lengths[i], lengths[i], &count) ==
                HANDOFF_OK)
                tokens += count;
        ns = now_ns() - start;
        printf("%-22zu %8.1f %12.1f\n", lengths[i], (double)tokens / (double)pieces,
               ns / (double)(pieces * lengths[i]));
    }
}

int main(void)
{
    const char *root = getenv("HANDOFF_SOURCE_DIR");
    struct handoff_error error;
    double start = now_ns();
    struct handoff_tokenizer *tokenizer =
        handoff_tokenizer_open_encoding("o200k_base", NULL, &error);
    double opened = now_ns();
    bool done;

    if (!tokenizer) {
        fprintf(stderr, "bench_tokens: %s (%s)\n", error.message, error.field);
        return 1;
    }
    done = bench_texts(tokenizer, root ? root : ".");
    bench_megabytes(tokenizer);
    bench_piece_lengths(tokenizer);
    printf("\nopening and checking the vocabulary: %.1f ms\n", (opened - start) / 1e6);
    handoff_tokenizer_close(&tokenizer);
    return done ? 0 : 1;
}
