/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search index beside the memories' rows: what was put is found and what was removed is not,
 * as soon as the call is done, after the store was closed, and after files of the index were lost
 * or damaged.
 */
#include "tests/support/unit.h"
#include "tests/support/wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/spine/embedded/describe.h"
#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/index_internal.h"
#include "client/store/sqlite/database.h"
#include "client/store/sqlite/store_internal.h"
#include "lib/search/segment.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/temp_spine.h"

static char *directory;
static struct temp_spine temp;

/* What the disk has left; -1: as it is. */
static int64_t room_left = -1;

/* The linker takes this one. */
int statvfs(const char *file, struct statvfs *buf)
{
    struct statfs found;
    if (statfs(file, &found) != 0)
        return -1;
    *buf = (struct statvfs){.f_frsize = 1, .f_blocks = INT64_MAX, .f_bavail = INT64_MAX};
    if (room_left >= 0)
        buf->f_bavail = (fsblkcnt_t)room_left;
    return 0;
}

static struct handoff_memory_index *the_index(void)
{
    return handoff_embedded_of(temp.spine)->index;
}

static void settle(void)
{
    assert_int_equal(handoff_memory_index_settle(the_index(), NULL, NULL, NULL), HANDOFF_OK);
}

/* The index's thread checks the files when it starts; a test that does its work itself comes
 * after that. */
static void let_the_thread_rest(void)
{
    settle();
}

static void open_again(void)
{
    temp_spine_open_at(&temp, directory);
}

static void put_numbered(int number, const char *word)
{
    char id[32], content[64];
    snprintf(id, sizeof id, "m%d", number);
    snprintf(content, sizeof content, "%s number%d", word, number);
    assert_int_equal(temp_remember(&temp, id, content, HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
}

static void remove_numbered(int number)
{
    char id[32];
    snprintf(id, sizeof id, "m%d", number);
    struct handoff_spine_remove remove = {.id = base_span_text(id)};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_remove, &remove), HANDOFF_OK);
}

/* How many memories have a word, and for how many of them there is a row. */
static size_t find_word(const char *word, size_t *rows)
{
    struct words_document words = {0};
    const struct handoff_memory asked = {.content = base_span_text(word)};
    assert_true(handoff_memory_describe(&asked, 0, &words));
    struct search_range all = {0, INT64_MAX};
    struct search_wanted wanted = {.hash = words.terms[0].hash, .weight = 1};
    struct search_query query = {
        .ranges = &all, .range_count = 1, .terms = &wanted, .term_count = 1, .k1 = 1.2F};
    static struct search_result results[20000];
    struct search_view *view = search_view_open(handoff_memory_index_search(the_index()));
    search_view_count(view, &query);
    assert_false(query.cut);
    const size_t found = search_view_find(view, &query, results, 20000);
    search_view_close(&view);
    words_document_clear(&words);
    struct handoff_db *db = handoff_store_reader(temp.store, NULL);
    sqlite3_stmt *row =
        handoff_db_statement(db, "SELECT count(*) FROM memories WHERE seq = ?1", NULL);
    *rows = 0;
    for (size_t i = 0; i < found; i++) {
        sqlite3_bind_int64(row, 1, results[i].key);
        assert_true(handoff_db_row(row));
        *rows += (size_t)sqlite3_column_int(row, 0);
        assert_int_equal(handoff_db_end(db, row, NULL), HANDOFF_OK);
    }
    handoff_store_reader_done(temp.store, db);
    return found;
}

static void assert_found(const char *word, size_t count)
{
    size_t rows;
    assert_true(handoff_memory_index_is_complete(the_index()));
    assert_int_equal(find_word(word, &rows), count);
    assert_int_equal(rows, count);
}

static unsigned for_each_file(void (*what)(const char *path))
{
    unsigned count = 0;
    DIR *folder = opendir(directory);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[512];
        if (!strstr(entry->d_name, "-search-"))
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        count++;
        if (what)
            what(path);
    }
    closedir(folder);
    return count;
}

/* While it is closed. */
static void change_store(const char *statements)
{
    struct handoff_db db = {0};
    struct handoff_error error;
    char path[512];
    snprintf(path, sizeof path, "%s/handoff.db", directory);
    assert_int_equal(handoff_db_open(&db, path, HANDOFF_DB_WRITE, NULL, &error), HANDOFF_OK);
    assert_int_equal(handoff_db_exec(&db, statements, &error), HANDOFF_OK);
    handoff_db_close(&db);
}

static void damage(const char *path)
{
    char byte;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    const off_t at = lseek(file, 0, SEEK_END) / 2;
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte = (char)(byte ^ 1);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static void lose(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void assert_store_sound(void)
{
    struct handoff_store_report report;
    struct handoff_error error;
    assert_int_equal(handoff_store_check(directory, &report, &error), HANDOFF_OK);
    assert_string_equal(report.problem, "");
}

static void assert_check_finds(const char *problem)
{
    struct handoff_store_report report;
    struct handoff_error error;
    assert_int_equal(handoff_store_check(directory, &report, &error), HANDOFF_OK);
    if (!strstr(report.problem, problem))
        fail_msg("seen: %s", report.problem);
}

static int set_up(void **state)
{
    (void)state;
    directory = temp_directory();
    open_again();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    temp_spine_end_at(&temp);
    assert_store_sound();
    temp_remove(directory);
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_as_soon_as_it_is_answered(void **state)
{
    (void)state;
    put_numbered(1, "bucket");
    assert_found("bucket", 1);
    put_numbered(1, "token"); /* in its place */
    assert_found("bucket", 0);
    assert_found("token", 1);
    remove_numbered(1);
    assert_found("token", 0);
}

static void test_after_the_store_was_closed(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        put_numbered(i, "bucket");
    remove_numbered(7);
    temp_spine_end_at(&temp);
    open_again();
    assert_found("bucket", 49);
    settle();
    assert_int_equal(for_each_file(NULL), 1);
    remove_numbered(8);
    put_numbered(9, "token");
    put_numbered(50, "bucket");
    assert_found("bucket", 48);
    temp_spine_end_at(&temp);
    assert_store_sound();
    open_again();
    assert_found("bucket", 48);
    assert_found("token", 1);
    settle();
    assert_found("bucket", 48);
}

static void put_many(int from, int to)
{
    for (int i = from; i < to; i++)
        put_numbered(i, "bucket");
    settle();
}

static void test_a_file_that_is_lost_or_damaged_is_made_anew(void **state)
{
    (void)state;
    void (*const harm[])(const char *path) = {damage, lose};
    put_many(0, 100);
    put_many(100, 200);
    remove_numbered(150);
    assert_int_equal(for_each_file(NULL), 2);
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        temp_spine_end_at(&temp);
        for_each_file(harm[i]);
        assert_check_finds("a file of the search index is missing or damaged");
        open_again();
        settle();
        assert_found("bucket", 199);
        temp_spine_end_at(&temp);
        assert_store_sound();
        open_again();
        assert_found("bucket", 199);
    }
}

static void write_as_before(const char *path)
{
    struct search_head head;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(file, &head, sizeof head, 0), sizeof head);
    head.format--;
    head.head_checksum = 0;
    head.head_checksum = search_checksum(&head, sizeof head);
    assert_int_equal(pwrite(file, &head, sizeof head, 0), sizeof head);
    close(file);
}

/* That is no damage, and the daemon makes it anew by itself. */
static void test_a_file_of_another_format_is_made_anew(void **state)
{
    (void)state;
    put_many(0, 100);
    temp_spine_end_at(&temp);
    for_each_file(write_as_before);
    assert_check_finds("");
    open_again();
    settle();
    assert_found("bucket", 100);
    temp_spine_end_at(&temp);
    assert_store_sound();
    open_again();
}

static void test_a_file_that_nobody_names_is_removed(void **state)
{
    (void)state;
    char path[512];
    put_many(0, 10);
    temp_spine_end_at(&temp);
    snprintf(path, sizeof path, "%s/handoff.db-search-77", directory);
    assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    open_again();
    assert_int_equal(access(path, F_OK), -1);
    assert_found("bucket", 10);
}

/* What the table says was removed, and the rows, must agree. */
static void test_the_check_compares_it_with_the_rows(void **state)
{
    struct handoff_db db = {0};
    struct handoff_error error;
    char path[512];
    (void)state;
    put_many(0, 10);
    remove_numbered(3);
    temp_spine_end_at(&temp);
    assert_check_finds("");
    snprintf(path, sizeof path, "%s/handoff.db", directory);
    assert_int_equal(handoff_db_open(&db, path, HANDOFF_DB_WRITE, NULL, &error), HANDOFF_OK);
    assert_int_equal(handoff_db_exec(&db, "DELETE FROM memories_gone", &error), HANDOFF_OK);
    assert_check_finds("the search index does not have the memories that there are");
    assert_int_equal(handoff_db_exec(&db, "DELETE FROM search_segments", &error), HANDOFF_OK);
    handoff_db_close(&db);
    open_again();
    assert_found("bucket", 9);
}

static int64_t last_done, last_all;

static void note_progress(void *context, int64_t done, int64_t all)
{
    assert_ptr_equal(context, &temp);
    assert_true(done >= last_done && done <= all);
    last_done = done;
    last_all = all;
}

/* Only while nobody else has the store open. */
static void test_reindexing(void **state)
{
    struct handoff_error error;
    (void)state;
    put_many(0, 100);
    remove_numbered(5);
    assert_int_equal(handoff_store_reindex(directory, NULL, NULL, &error),
                     HANDOFF_ERR_STORE_LOCKED);
    temp_spine_end_at(&temp);
    for_each_file(damage);
    assert_int_equal(handoff_store_reindex(directory, note_progress, &temp, &error), HANDOFF_OK);
    assert_int_equal(last_done, 99);
    assert_int_equal(last_all, 99);
    assert_store_sound();
    assert_int_equal(for_each_file(NULL), 1);
    open_again();
    assert_found("bucket", 99);
}

static void open_without_stems(void)
{
    const struct handoff_store_options store = {.path = directory};
    struct handoff_embedded_options options = {.no_stemming = true};
    struct handoff_error error;
    memset(&temp, 0, sizeof temp);
    base_manual_clock_init(&temp.clock, INT64_C(1767225600000));
    options.clock = &temp.clock.clock;
    assert_int_equal(handoff_store_open(&temp.store, &store, &error), HANDOFF_OK);
    assert_int_equal(handoff_embedded_spine_open(&temp.spine, temp.store, &options, &error),
                     HANDOFF_OK);
    assert_int_equal(base_mailbox_init(&temp.mailbox, &error), HANDOFF_OK);
}

/* Else the daemon would have to make it once more. */
static void test_reindexing_keeps_words_as_they_are_written(void **state)
{
    struct handoff_error error;
    (void)state;
    temp_spine_end_at(&temp);
    open_without_stems();
    put_many(0, 10);
    temp_spine_end_at(&temp);
    assert_int_equal(handoff_store_reindex(directory, NULL, NULL, &error), HANDOFF_OK);
    open_without_stems();
    assert_found("bucket", 10);
    assert_int_equal(atomic_load(&the_index()->indexed), 0);
}

static void forget_segment(void *context, struct search_segment *segment)
{
    search_index_drop(context, segment);
}

/* Each retry would leave one more. */
static void test_a_file_that_was_written_in_vain_is_removed(void **state)
{
    struct handoff_memory_index *index = the_index();
    enum handoff_code code = HANDOFF_ERR_OUT_OF_MEMORY;
    size_t count = 0;
    (void)state;
    let_the_thread_rest();
    put_numbered(1, "bucket");
    assert_null(handoff_index_write_file(index, base_span_text("no segment"), &temp.error));
    assert_int_equal(for_each_file(NULL), 0);
    search_index_visit(index->search, forget_segment, index->search);
    for (long n = 1; code != HANDOFF_OK; n++) {
        assert_int_equal(for_each_file(NULL), 0);
        failing_memory_at(n);
        code = handoff_index_fill_file(index, 100, &count, NULL);
        failing_memory_at(0);
    }
    assert_int_equal(count, 1);
    assert_int_equal(for_each_file(NULL), 1);
    settle();
    assert_found("bucket", 1);
}

static uint32_t read_documents;

static void note_documents(void *context, struct search_segment *segment)
{
    struct search_segment_facts facts;
    (void)context;
    search_segment_read_facts(segment, &facts);
    read_documents = facts.documents;
}

/* They would need as much memory as there are. */
static void test_fewer_long_memories_are_read_at_once(void **state)
{
    (void)state;
    enum { LONG = 60000, MEMORIES = 90, MOST = 1000 };
    static char content[LONG + 64];
    struct handoff_memory_index *index = the_index();
    size_t count = 0;
    for (int i = 0; i < MEMORIES; i++) {
        char id[32];
        int size = snprintf(content, sizeof content, "bucket");
        for (int word = 0; size < LONG; word++)
            size += snprintf(content + size, sizeof content - (size_t)size, " %c%xq", 'a' + i % 26,
                             word);
        snprintf(id, sizeof id, "long%d", i);
        assert_int_equal(temp_remember(&temp, id, content, HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    }
    settle();
    search_index_visit(index->search, forget_segment, index->search);
    assert_int_equal(handoff_index_fill_file(index, MOST, &count, NULL), HANDOFF_OK);
    assert_int_equal(count, MOST);
    search_index_visit(index->search, note_documents, NULL);
    assert_in_range(read_documents, 2, MEMORIES - 1);
    while (count > 0)
        assert_int_equal(handoff_index_fill_file(index, MOST, &count, NULL), HANDOFF_OK);
    assert_found("bucket", MEMORIES);
}

/* As an operator does who moves a directory away and another one in its place. */
static void test_the_files_of_another_store_stay(void **state)
{
    char moved[512], path[512];
    (void)state;
    put_many(0, 10);
    snprintf(moved, sizeof moved, "%s-moved", directory);
    snprintf(path, sizeof path, "%s/handoff.db-search-77", directory);
    assert_int_equal(rename(directory, moved), 0);
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    while (!handoff_store_displaced_file(temp.store))
        (void)temp_remember(&temp, "late", "bucket", HANDOFF_IMPORTANCE_LOW);
    handoff_index_remove_files(the_index());
    assert_int_equal(access(path, F_OK), 0);
    temp_spine_end_at(&temp);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(rename(moved, directory), 0);
    open_again();
}

/* A part of the disk that cannot be read must not keep the daemon from its handoffs. */
static void test_a_memory_that_cannot_be_read_is_indexed_later(void **state)
{
    (void)state;
    enum { BEFORE_THE_MEMORIES = 40, MEMORIES = 500 };
    bool failed = true, opened = false;
    for (int i = 0; i < MEMORIES; i++)
        put_numbered(i, "bucket");
    for (long n = 1; failed && n < BEFORE_THE_MEMORIES; n++) {
        const struct handoff_embedded_options options = {.clock = &temp.clock.clock};
        const struct handoff_store_options store = {.path = directory, .vfs = "fault"};
        struct handoff_error error;
        handoff_spine_close(&temp.spine);
        handoff_store_close(&temp.store);
        assert_int_equal(handoff_store_open(&temp.store, &store, &error), HANDOFF_OK);
        fault_at(FAULT_READ, n, true, SQLITE_IOERR_READ);
        opened =
            handoff_embedded_spine_open(&temp.spine, temp.store, &options, &error) == HANDOFF_OK;
        failed = atomic_load(&fault.failures) > 0;
        if (opened && failed)
            break;
        fault_lift();
        if (!opened)
            assert_int_equal(handoff_embedded_spine_open(&temp.spine, temp.store, &options, &error),
                             HANDOFF_OK);
    }
    assert_true(opened && failed);
    assert_false(handoff_memory_index_is_complete(the_index()));
    fault_lift();
    while (handoff_memory_index_settle(the_index(), NULL, NULL, NULL) != HANDOFF_OK)
        ;
    assert_found("bucket", MEMORIES);
}

static void test_what_was_rolled_back_is_not_found(void **state)
{
    (void)state;
    put_numbered(1, "bucket");
    struct handoff_spine_put put = {
        .memory = {.id = base_span_text("m1"), .content = base_span_text("token")},
        .caller = base_span_text("somebody"),
    };
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_put, &put), HANDOFF_ERR_FORBIDDEN);
    assert_found("token", 0);
    assert_found("bucket", 1);
}

static rlim_t limit_files(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

static int64_t number_of(const char *statement)
{
    int64_t number;
    struct handoff_error error;
    struct handoff_db *db = handoff_store_reader(temp.store, &error);
    assert_int_equal(handoff_db_number(db, statement, &number, &error), HANDOFF_OK);
    handoff_store_reader_done(temp.store, db);
    return number;
}

static void test_what_could_not_be_recorded_is_recorded_later(void **state)
{
    (void)state;
    put_many(0, 10);
    remove_numbered(3);
    const rlim_t before = limit_files(3);
    const enum handoff_code code = handoff_memory_index_settle(the_index(), NULL, NULL, NULL);
    limit_files(before);
    assert_int_equal(code, HANDOFF_ERR_OUT_OF_MEMORY);
    settle();
    assert_int_equal(number_of("SELECT sum(removed_count) FROM search_segments"), 1);
    assert_int_equal(number_of("SELECT count(*) FROM memories_gone"), 0);
}

static unsigned times_short;

static void count_shortage(void *observer, enum handoff_shortage resource, const char *hindered)
{
    (void)observer;
    assert_int_equal(resource, HANDOFF_SHORTAGE_DISK);
    assert_string_equal(hindered, "updating the search index of the memories");
    times_short++;
}

/* What it takes would be missing for handoffs, and it would take it again and again. */
static void test_what_the_disk_has_left_is_for_handoffs(void **state)
{
    (void)state;
    enum { TIMES = 3 };
    const int64_t mebibyte = 1 << 20;
    struct handoff_store_options store = {.path = directory, .on_shortage = count_shortage};
    temp_spine_end_at(&temp);
    temp_spine_open_store(&temp, &store, (struct handoff_memory_limits){0});
    room_left = 64 * mebibyte;
    times_short = 0;
    put_numbered(1, "bucket");
    for (unsigned i = 0; i < TIMES; i++)
        assert_int_equal(handoff_memory_index_settle(the_index(), NULL, NULL, NULL),
                         HANDOFF_ERR_STORE_FULL);
    assert_int_equal(for_each_file(NULL), 0);
    assert_int_equal(times_short, TIMES);
    assert_int_equal(the_index()->wait_s, 1 << TIMES); /* less and less often */
    assert_found("bucket", 1);
    room_left = 65 * mebibyte;
    settle();
    assert_int_equal(times_short, TIMES);
    assert_int_equal(for_each_file(NULL), 1);
    assert_int_equal(the_index()->wait_s, 0);
    room_left = -1;
}

/* As much as a job may take: handoffs wait for it. */
static void test_removed_ones_are_recorded_a_few_at_a_time(void **state)
{
    (void)state;
    struct handoff_store_stats before, after;
    put_many(0, 1000);
    for (int i = 0; i < 600; i++)
        remove_numbered(i);
    handoff_store_stats(temp.store, &before);
    settle();
    handoff_store_stats(temp.store, &after);
    assert_int_equal(number_of("SELECT count(*) FROM memories_gone"), 0);
    assert_in_range(after.jobs - before.jobs, 600 / 256 + 1, 10);
    temp_spine_end_at(&temp);
    assert_store_sound();
    open_again();
    assert_found("bucket", 400);
}

/* Swaps the first page of a table with what is given. */
static void swap_page(const char *table, unsigned char *page, size_t size)
{
    char path[512], find[128];
    struct handoff_db db = {0};
    struct handoff_error error;
    unsigned char was[65536];
    int64_t root, page_size;
    snprintf(path, sizeof path, "%s/handoff.db", directory);
    snprintf(find, sizeof find, "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", table);
    assert_int_equal(handoff_db_open(&db, path, HANDOFF_DB_READ, NULL, &error), HANDOFF_OK);
    assert_int_equal(handoff_db_number(&db, find, &root, &error), HANDOFF_OK);
    assert_int_equal(handoff_db_number(&db, "PRAGMA page_size", &page_size, &error), HANDOFF_OK);
    handoff_db_close(&db);
    assert_true(root > 1 && (size_t)page_size <= size);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    const off_t at = (root - 1) * page_size;
    assert_int_equal(pread(file, was, (size_t)page_size, at), page_size);
    assert_int_equal(pwrite(file, page, (size_t)page_size, at), page_size);
    memcpy(page, was, (size_t)page_size);
    close(file);
}

static void test_a_table_that_cannot_be_read_is_done_without(void **state)
{
    (void)state;
    static const char *const tables[] = {"search_segments", "memories_gone"};
    static unsigned char page[65536];
    put_many(0, 100);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        remove_numbered((int)i);
        temp_spine_end_at(&temp);
        memset(page, 0xff, sizeof page);
        swap_page(tables[i], page, sizeof page);
        open_again();
        WAIT_UNTIL(handoff_memory_index_is_complete(the_index()), "the index has all memories");
        assert_found("bucket", 99 - i);
        temp_spine_end_at(&temp);
        swap_page(tables[i], page, sizeof page);
        open_again();
        settle();
        assert_found("bucket", 99 - i);
    }
}

/* Whoever damages a row, or writes one: what it says is compared with its file. */
static void test_rows_that_cannot_be_are_done_without(void **state)
{
    (void)state;
    static const char *const harm[] = {
        "UPDATE search_segments SET first = last + 1",
        "UPDATE search_segments SET first = -9223372036854775807 - 1",
        "UPDATE search_segments SET last = 9223372036854775807",
        "UPDATE search_segments SET checksum = 'no number'",
        "UPDATE search_segments SET removed = x'ff'",
        "UPDATE search_segments SET number = -number",
        "UPDATE search_segments SET number = 9223372036854775807"
        " WHERE number = (SELECT max(number) FROM search_segments)",
        "INSERT INTO memories_gone (seq) VALUES (-9223372036854775807 - 1), (0),"
        " (9223372036854775807)",
    };
    put_many(0, 100);
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        temp_spine_end_at(&temp);
        change_store(harm[i]);
        open_again();
        settle();
        assert_found("bucket", 100);
        put_numbered((int)(1000 + i), "bottle"); /* files are still numbered apart */
        settle();
        assert_found("bottle", i + 1);
    }
}

static void truncate_file(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}

static size_t resolve_word(const char *word, bool *incomplete)
{
    struct base_arena arena;
    base_arena_init(&arena, 4096);
    struct handoff_spine_resolve resolve = {
        .arena = &arena, .query = base_span_text(word), .recent = 1000};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    *incomplete = resolve.incomplete;
    const size_t found = resolve.found_count;
    base_arena_free(&arena);
    return found;
}

/* No commit and no start has to come first. */
static void test_a_search_that_meets_damage_has_it_mended(void **state)
{
    (void)state;
    bool incomplete;
    put_many(0, 3);
    resolve_word("bucket", &incomplete);
    assert_false(incomplete);
    for_each_file(truncate_file);
    resolve_word("bucket", &incomplete);
    assert_true(incomplete);
    while (incomplete)
        resolve_word("bucket", &incomplete);
    assert_found("bucket", 3);
}

/* What is read is not believed to be all. */
static void test_closing_does_not_wait_until_all_is_read(void **state)
{
    (void)state;
    struct handoff_memory_index *index = the_index();
    size_t count;
    let_the_thread_rest();
    put_many(0, 10);
    search_index_visit(index->search, forget_segment, index->search);
    atomic_store(&index->stopping, true);
    assert_int_equal(handoff_index_fill_file(index, 100, &count, NULL), HANDOFF_ERR_CANCELLED);
    assert_false(handoff_memory_index_is_complete(index));
    atomic_store(&index->stopping, false);
    settle();
    assert_found("bucket", 10);
}

/* The writer would tell an index that is gone. */
static void test_closing_needs_no_descriptor(void **state)
{
    (void)state;
    const rlim_t before = limit_files(3);
    handoff_spine_close(&temp.spine);
    limit_files(before);
    assert_null(temp.store->writer.follower);
}

/* More than the opening reads. */
static void put_rows(int count)
{
    char rows[512];
    snprintf(rows, sizeof rows,
             "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT %d)"
             " INSERT INTO memories (seq, id, importance, pinned, created_at, updated_at, tags,"
             " content) SELECT n, 'm' || n, 1, 0, 1, 1, '', 'bucket' FROM number;"
             " UPDATE memory_clock SET last = %d",
             count, count);
    change_store(rows);
}

static void test_it_is_complete_when_all_is_found(void **state)
{
    enum { ROWS = 20000 };
    size_t rows;
    (void)state;
    temp_spine_end_at(&temp);
    put_rows(ROWS);
    open_again();
    WAIT_UNTIL(handoff_memory_index_is_complete(the_index()), "the index has all memories");
    assert_int_equal(find_word("bucket", &rows), ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_as_soon_as_it_is_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_after_the_store_was_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_lost_or_damaged_is_made_anew, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_of_another_format_is_made_anew, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_nobody_names_is_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_check_compares_it_with_the_rows, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_reindexing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reindexing_keeps_words_as_they_are_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_was_written_in_vain_is_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_fewer_long_memories_are_read_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_files_of_another_store_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_memory_that_cannot_be_read_is_indexed_later, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_it_is_complete_when_all_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_could_not_be_recorded_is_recorded_later, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_closing_needs_no_descriptor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_the_disk_has_left_is_for_handoffs, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_removed_ones_are_recorded_a_few_at_a_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_table_that_cannot_be_read_is_done_without, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_rows_that_cannot_be_are_done_without, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_search_that_meets_damage_has_it_mended, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_closing_does_not_wait_until_all_is_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_rolled_back_is_not_found, set_up, tear_down),
    };
    failing_memory_install();
    fault_vfs_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
