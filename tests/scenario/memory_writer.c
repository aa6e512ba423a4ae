/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts and removes memories until it is killed, and says what was answered; or checks that what was
 * said still holds of the search index.
 *
 *   memory_writer write DIRECTORY SEED FROM   prints for each call a line "? ID NUMBER" before it
 *                                             and "! ID NUMBER" after it; NUMBER is in the
 *                                             memory's text, and 0 where it is removed
 *   memory_writer check DIRECTORY             reads lines "ID NUMBER NUMBER": the search index and
 *                                             the rows must have the memory with one of them
 *
 * Exit code: 0, or 1 with the reason on stderr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/spine/embedded/describe.h"
#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/embedded_spine.h"
#include "client/store/store.h"
#include "lib/base/random.h"

enum { IDS = 3000 };

static struct handoff_store *store;
static struct handoff_spine *spine;
static struct base_mailbox mailbox;

#define MUST(condition) ((condition) ? (void)0 : die(#condition))

static void die(const char *what)
{
    fprintf(stderr, "memory_writer: %s does not hold\n", what);
    exit(1);
}

static void open_all(const char *directory)
{
    const struct handoff_store_options options = {.path = directory,
                                                  .durability = HANDOFF_DURABILITY_NONE};
    const struct handoff_embedded_options embedded = {0};
    struct handoff_error error;
    MUST(handoff_store_open(&store, &options, &error) == HANDOFF_OK);
    MUST(handoff_embedded_spine_open(&spine, store, &embedded, &error) == HANDOFF_OK);
    MUST(base_mailbox_init(&mailbox, &error) == HANDOFF_OK);
}

/* One write for each line: a line is in the pipe whole or not at all. */
static void say(char mark, long id, long number)
{
    char line[64];
    const int size = snprintf(line, sizeof line, "%c m%ld %ld\n", mark, id, number);
    if (write(STDOUT_FILENO, line, (size_t)size) != size)
        exit(1); /* nobody listens any more */
}

static bool answered;

static void note_answer(struct handoff_spine_call *call)
{
    (void)call;
    answered = true;
}

static void wait_for_answer(void)
{
    while (!answered)
        base_mailbox_wait(&mailbox, -1);
    answered = false;
}

static void put_number(long id, long number)
{
    static char name[32], content[128];
    struct handoff_spine_put put = {.call = {.mailbox = &mailbox, .done = note_answer}};
    snprintf(name, sizeof name, "m%ld", id);
    snprintf(content, sizeof content, "memory that word%ld is about, and about nothing else",
             number);
    put.memory =
        (struct handoff_memory){.id = base_span_text(name), .content = base_span_text(content)};
    MUST(handoff_spine_put(spine, &put) == HANDOFF_SPINE_PENDING);
    wait_for_answer();
    MUST(put.call.error.code == HANDOFF_OK);
}

static void remove_id(long id)
{
    static char name[32];
    struct handoff_spine_remove remove = {.call = {.mailbox = &mailbox, .done = note_answer}};
    snprintf(name, sizeof name, "m%ld", id);
    remove.id = base_span_text(name);
    MUST(handoff_spine_remove(spine, &remove) == HANDOFF_SPINE_PENDING);
    wait_for_answer();
    MUST(remove.call.error.code == HANDOFF_OK || remove.call.error.code == HANDOFF_ERR_NOT_FOUND);
}

static _Noreturn void write_until_killed(unsigned long seed, long number)
{
    for (;; number++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const long id = (long)((seed >> 33) % IDS);
        const long written = (seed >> 60) % 4 == 0 ? 0 : number;
        say('?', id, written);
        if (written > 0)
            put_number(id, written);
        else
            remove_id(id);
        say('!', id, written);
    }
}

/* ---- checking ------------------------------------------------------------------------------ */

static size_t find_number(long number, struct search_result *results, size_t most)
{
    char word[32];
    struct words_document words = {0};
    snprintf(word, sizeof word, "word%ld", number);
    const struct handoff_memory asked = {.content = base_span_text(word)};
    MUST(handoff_memory_describe(&asked, 0, &words));
    struct search_range all = {0, INT64_MAX};
    /* the last of its terms is the whole word */
    struct search_wanted wanted = {.hash = words.terms[words.count - 1].hash, .weight = 1};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = &wanted, .term_count = 1, .k1 = 1.2F};
    struct search_view *view =
        search_view_open(handoff_memory_index_search(handoff_embedded_of(spine)->index));
    search_view_count(view, &query);
    const size_t found = search_view_find(view, &query, results, most);
    MUST(!query.cut);
    search_view_close(&view);
    words_document_clear(&words);
    return found;
}

/* Whether this memory is found by its number, and nothing else is. */
static bool is_found(const char *id, long number)
{
    struct search_result results[2];
    if (number == 0)
        return false;
    const size_t found = find_number(number, results, 2);
    if (found == 0)
        return false;
    MUST(found == 1);
    struct handoff_db *db = handoff_store_reader(store, NULL);
    sqlite3_stmt *row = handoff_db_statement(db, "SELECT id FROM memories WHERE seq = ?1", NULL);
    sqlite3_bind_int64(row, 1, results[0].key);
    MUST(handoff_db_row(row));
    MUST(base_span_equal(handoff_db_column(row, 0), base_span_text(id)));
    MUST(handoff_db_end(db, row, NULL) == HANDOFF_OK);
    handoff_store_reader_done(store, db);
    return true;
}

/* What the opening had no time for, its thread reads; the test ends after 120 s. */
static void wait_until_complete(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (!handoff_memory_index_is_complete(handoff_embedded_of(spine)->index))
        nanosleep(&pause, NULL);
}

static int check_lines(void)
{
    char id[32], line[128];
    long one, other;
    wait_until_complete();
    while (fgets(line, sizeof line, stdin)) {
        MUST(sscanf(line, "%31s %ld %ld", id, &one, &other) == 3);
        const bool has = is_found(id, one), has_other = one != other && is_found(id, other);
        if ((one > 0 && other > 0 && has + has_other != 1) ||
            ((one == 0) != (other == 0) && has + has_other > 1)) {
            fprintf(stderr, "%s: found by %ld: %d, by %ld: %d\n", id, one, has, other, has_other);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    open_all(argv[2]);
    if (argc == 5)
        write_until_killed(strtoul(argv[3], NULL, 10), strtol(argv[4], NULL, 10));
    const int status = check_lines();
    handoff_spine_close(&spine);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    return status;
}
