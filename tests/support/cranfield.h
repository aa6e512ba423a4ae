/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Cranfield collection, and how well a search answers its questions: nDCG of the first 10,
 * where a document counts whatever its grade, and recall of the first 20. With FTS5, for
 * comparison.
 *
 * It is not part of the project; where it is not found, its tests have nothing to judge by.
 */
#ifndef TESTS_SUPPORT_CRANFIELD_H
#define TESTS_SUPPORT_CRANFIELD_H

#include <ctype.h>
#include <math.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/span.h"

enum { CRANFIELD_MOST = 1500, CRANFIELD_WORDS = 40000 };

struct cranfield {
    struct base_span *documents, *queries;
    size_t document_count, query_count;
    bool (*relevant)[CRANFIELD_MOST]; /* by query and document, both from 1 */
    char *texts[2];
    struct base_span *vocabulary;
    size_t words;
    char shuffled[1024];
};

struct cranfield_score {
    double ndcg, recall;
};

static char *cranfield_read_file(const char *name)
{
    char path[512];
    const char *source = getenv("HANDOFF_SOURCE_DIR"); /* as the tests are started; or from there */
    (void)snprintf(path, sizeof path, "%s/../shared/data/cranfield/%s", source ? source : ".",
                   name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *text = calloc(1, 4 << 20);
    if (!text || fread(text, 1, (4 << 20) - 1, file) == 0)
        abort();
    (void)fclose(file);
    return text;
}

/* The part .W of each entry. */
static size_t cranfield_split(char *text, struct base_span *parts)
{
    size_t count = 0;
    for (char *at = strstr(text, "\n.W\n"); at; at = strstr(at, "\n.W\n")) {
        at += 3; /* a part may be empty */
        char *next = strstr(at, "\n.I ");
        parts[count++] = base_span(at, next ? (size_t)(next - at) : strlen(at));
        if (!next)
            break;
        at = next;
    }
    return count;
}

static int cranfield_by_word(const void *left, const void *right)
{
    const struct base_span *l = left, *r = right;
    const int order = memcmp(l->data, r->data, l->size < r->size ? l->size : r->size);
    return order ? order : (l->size > r->size) - (l->size < r->size);
}

/* Every word that occurs, once. */
static void cranfield_list_words(struct cranfield *cranfield)
{
    struct base_span *words = calloc(400000, sizeof *words);
    size_t count = 0, kept = 0;
    if (!words)
        abort();
    for (size_t i = 0; i < cranfield->document_count; i++) {
        const char *at = cranfield->documents[i].data, *end = at + cranfield->documents[i].size;
        while (at < end && count < 400000) {
            const char *begin = at;
            while (at < end && isalnum((unsigned char)*at))
                at++;
            if (at > begin)
                words[count++] = base_span(begin, (size_t)(at - begin));
            else
                at++;
        }
    }
    qsort(words, count, sizeof *words, cranfield_by_word);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || cranfield_by_word(&words[kept - 1], &words[i]) != 0)
            words[kept++] = words[i];
    cranfield->vocabulary = words;
    cranfield->words = kept;
}

static void cranfield_read_relevance(struct cranfield *cranfield, char *text)
{
    int query, zero, document, grade, taken;
    for (char *at = text;
         sscanf(at, "%d %d %d %d%n", &query, &zero, &document, &grade, &taken) == 4; at += taken)
        if (grade > 0 && query < CRANFIELD_MOST && document < CRANFIELD_MOST)
            cranfield->relevant[query][document] = true;
    free(text);
}

/* False: it is not there. */
static inline bool cranfield_open(struct cranfield *cranfield)
{
    char *relevance = cranfield_read_file("relevance.txt");
    if (!relevance)
        return false;
    cranfield->texts[0] = cranfield_read_file("documents.txt");
    cranfield->texts[1] = cranfield_read_file("queries.txt");
    cranfield->documents = calloc(CRANFIELD_MOST, sizeof *cranfield->documents);
    cranfield->queries = calloc(CRANFIELD_MOST, sizeof *cranfield->queries);
    cranfield->relevant = calloc(CRANFIELD_MOST, sizeof *cranfield->relevant);
    if (!cranfield->texts[0] || !cranfield->texts[1] || !cranfield->documents ||
        !cranfield->queries || !cranfield->relevant)
        abort();
    cranfield->document_count = cranfield_split(cranfield->texts[0], cranfield->documents);
    cranfield->query_count = cranfield_split(cranfield->texts[1], cranfield->queries);
    cranfield_read_relevance(cranfield, relevance);
    cranfield_list_words(cranfield);
    return true;
}

static inline void cranfield_close(struct cranfield *cranfield)
{
    free(cranfield->texts[0]);
    free(cranfield->texts[1]);
    free(cranfield->documents);
    free(cranfield->queries);
    free(cranfield->relevant);
    free(cranfield->vocabulary);
    memset(cranfield, 0, sizeof *cranfield);
}

/* A text of 30 to 80 words that occur in the collection. Valid until the next one. */
static inline struct base_span cranfield_shuffled(struct cranfield *cranfield,
                                                  uint64_t (*draw)(uint64_t below))
{
    size_t size = 0;
    for (uint64_t left = 30 + draw(51); left > 0; left--) {
        const struct base_span word = cranfield->vocabulary[draw(cranfield->words)];
        if (size + word.size + 1 > sizeof cranfield->shuffled)
            break;
        memcpy(cranfield->shuffled + size, word.data, word.size);
        size += word.size;
        cranfield->shuffled[size++] = ' ';
    }
    return base_span(cranfield->shuffled, size);
}

/* Adds what the documents found for a query, numbered from 1 with the best one first, are worth. */
static inline void cranfield_judge(const struct cranfield *cranfield, size_t query,
                                   const size_t *found, size_t count, struct cranfield_score *sum)
{
    const bool *relevant = cranfield->relevant[query + 1];
    double gain = 0, ideal = 0, hits = 0, all = 0;
    for (size_t i = 1; i < CRANFIELD_MOST; i++)
        if (relevant[i] && all++ < 10)
            ideal += 1 / log2(all + 1);
    for (size_t i = 0; i < count && i < 20; i++) {
        if (found[i] >= CRANFIELD_MOST || !relevant[found[i]])
            continue;
        hits++;
        gain += i < 10 ? 1 / log2((double)i + 2) : 0;
    }
    sum->ndcg += all > 0 ? gain / ideal : 0;
    sum->recall += all > 0 ? hits / all : 0;
}

/* ---- FTS5 ------------------------------------------------------------------------------------ */

struct cranfield_fts5 {
    sqlite3 *db;
    sqlite3_stmt *insert, *select;
};

static inline void cranfield_fts5_add(struct cranfield_fts5 *fts5, struct base_span text)
{
    sqlite3_bind_text(fts5->insert, 1, text.data, (int)text.size, SQLITE_TRANSIENT);
    if (sqlite3_step(fts5->insert) != SQLITE_DONE)
        abort();
    sqlite3_reset(fts5->insert);
}

static inline struct cranfield_fts5 *cranfield_fts5_open(const struct cranfield *cranfield)
{
    struct cranfield_fts5 *fts5 = calloc(1, sizeof *fts5);
    if (!fts5 || sqlite3_open(":memory:", &fts5->db) != SQLITE_OK ||
        sqlite3_exec(
            fts5->db,
            "CREATE VIRTUAL TABLE text USING fts5(x, tokenize = 'porter unicode61'); BEGIN", NULL,
            NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(fts5->db, "INSERT INTO text VALUES (?1)", -1, &fts5->insert, NULL) !=
            SQLITE_OK ||
        sqlite3_prepare_v2(fts5->db,
                           "SELECT rowid FROM text WHERE text MATCH ?1 ORDER BY rank LIMIT 20", -1,
                           &fts5->select, NULL) != SQLITE_OK)
        abort();
    for (size_t i = 0; i < cranfield->document_count; i++)
        cranfield_fts5_add(fts5, cranfield->documents[i]);
    return fts5;
}

/* Its words, each quoted, joined by OR. */
static void cranfield_fts5_expression(struct base_span query, char *text, size_t room)
{
    size_t size = 0;
    for (size_t at = 0; at < query.size && size + 80 < room;) {
        const size_t begin = at;
        while (at < query.size && isalnum((unsigned char)query.data[at]))
            at++;
        if (at > begin && at - begin < 64)
            size += (size_t)snprintf(text + size, room - size, "%s\"%.*s\"", size > 0 ? " OR " : "",
                                     (int)(at - begin), query.data + begin);
        else
            at++;
    }
}

static inline struct cranfield_score cranfield_fts5_judge(struct cranfield_fts5 *fts5,
                                                          const struct cranfield *cranfield)
{
    struct cranfield_score sum = {0, 0};
    for (size_t i = 0; i < cranfield->query_count; i++) {
        char expression[4096];
        size_t found[20], count = 0;
        cranfield_fts5_expression(cranfield->queries[i], expression, sizeof expression);
        sqlite3_bind_text(fts5->select, 1, expression, -1, SQLITE_TRANSIENT);
        while (count < 20 && sqlite3_step(fts5->select) == SQLITE_ROW)
            found[count++] = (size_t)sqlite3_column_int64(fts5->select, 0);
        sqlite3_reset(fts5->select);
        cranfield_judge(cranfield, i, found, count, &sum);
    }
    sum.ndcg /= (double)cranfield->query_count;
    sum.recall /= (double)cranfield->query_count;
    return sum;
}

static inline void cranfield_fts5_close(struct cranfield_fts5 *fts5)
{
    sqlite3_finalize(fts5->insert);
    sqlite3_finalize(fts5->select);
    sqlite3_close(fts5->db);
    free(fts5);
}

#endif
