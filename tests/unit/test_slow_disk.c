/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that does not answer reads. A loop takes every question meanwhile, serves what needs no
 * disk, and answers the rest when the disk does.
 */
#include "tests/support/receiver.h"
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "client/calls/read.h"
#include "client/client.h"
#include "lib/base/serving.h"

/* ---- the disk: SQLite's own, but for reads by threads that do not write ----------------------
 */

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    const sqlite3_io_methods *real_methods; /* reading and writing are the same for all files */
    sqlite3_io_methods of_database, of_log;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool closed; /* lock */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};

static void set_closed(bool closed)
{
    pthread_mutex_lock(&disk.lock);
    disk.closed = closed;
    pthread_cond_broadcast(&disk.opened);
    pthread_mutex_unlock(&disk.lock);
}

static _Thread_local bool is_writer;

static int write_at_once(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    is_writer = true;
    return disk.real_methods->xWrite(file, from, size, at);
}

static int read_when_open(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.closed && !is_writer)
        pthread_cond_wait(&disk.opened, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
    return disk.real_methods->xRead(file, to, size, at);
}

static int open_file(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                     int *out)
{
    (void)vfs;
    int result = disk.real->xOpen(disk.real, name, file, flags, out);
    pthread_mutex_lock(&disk.lock);
    if (result == SQLITE_OK && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL))) {
        sqlite3_io_methods *methods = flags & SQLITE_OPEN_WAL ? &disk.of_log : &disk.of_database;
        if (!methods->xRead) {
            disk.real_methods = file->pMethods;
            *methods = *file->pMethods;
            methods->xRead = read_when_open;
            methods->xWrite = write_at_once;
        }
        file->pMethods = methods;
    }
    pthread_mutex_unlock(&disk.lock);
    return result;
}

static int install_disk(void **state)
{
    disk.real = sqlite3_vfs_find(NULL);
    disk.vfs = *disk.real;
    disk.vfs.zName = "slow";
    disk.vfs.xOpen = open_file;
    assert_int_equal(sqlite3_vfs_register(&disk.vfs, 1), SQLITE_OK);
    return receiver_start(state);
}

/* ---- a client on it ----------------------------------------------------------------------------
 */

enum { QUESTIONS = 10 };

static struct {
    char *directory, url[128];
    struct handoff_client *client;
    struct handoff_loop *loop;
    char id[37];
    unsigned tasks;                     /* that were begun */
    enum handoff_code codes[QUESTIONS]; /* of the questions */
    bool has_answer[QUESTIONS];
    int answers;
    enum handoff_code code; /* of the last other answer */
    bool answered;
} stage;

static int open_client(void **state)
{
    (void)state;
    memset(&stage, 0, sizeof stage);
    stage.directory = temp_directory();
    const struct handoff_options options = {.storage_path = stage.directory,
                                            .encoding = "estimate"};
    snprintf(stage.url, sizeof stage.url, "http://127.0.0.1:%d/ack", receiver.port);
    const struct handoff_agent_options agent = handoff_agent_defaults("coder", stage.url);
    const struct handoff_configuration configuration = {.agents = &agent, .nagents = 1};
    assert_int_equal(handoff_client_open(&stage.client, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_client_configure(stage.client, &configuration, NULL), HANDOFF_OK);
    assert_int_equal(handoff_loop_open(&stage.loop, stage.client, NULL), HANDOFF_OK);
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    set_closed(false);
    handoff_loop_close(&stage.loop);
    handoff_client_close(&stage.client);
    temp_remove(stage.directory);
    return 0;
}

static void answered(void *context, const struct handoff_result *result)
{
    (void)context;
    stage.answered = true;
    stage.code = result->error.code;
    const char *id = result->body ? strstr(result->body, "\"id\":\"") : NULL;
    if (id)
        snprintf(stage.id, sizeof stage.id, "%.36s", id + 6);
}

/* Of the task of the last handoff, which is known to the store, so that it is read. */
static void ask_to_send(const char *more, const char *key, const char *caller,
                        handoff_answered *answer, void *context)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"source_agent\":\"analyst\",\"target_agent\":\"coder\",\"task_id\":\"t-%u\","
             "\"task_summary\":\"s\"%s}",
             stage.tasks, more);
    const struct handoff_ask ask = {
        .body = body, .size = strlen(body), .caller = caller, .idempotency_key = key};
    handoff_send(stage.loop, &ask, answer, context);
}

static void send_one(void)
{
    stage.answered = false;
    stage.tasks++; /* a new task has nothing to read */
    ask_to_send("", NULL, NULL, answered, NULL);
    while (!stage.answered)
        handoff_loop_wait(stage.loop, 1000);
    assert_int_equal(stage.code, HANDOFF_OK);
}

static void question_answered(void *context, const struct handoff_result *result)
{
    const size_t question = (size_t)(uintptr_t)context;
    assert_false(stage.has_answer[question]);
    stage.has_answer[question] = true;
    stage.codes[question] = result->error.code;
    stage.answers++;
}

static void *next_question(void)
{
    static uintptr_t question;
    return (void *)(question++ % QUESTIONS);
}

/* Everything that is looked up for somebody. */
static void ask_everything(void)
{
    static const char nowhere[] = "0190aaaa-0000-7000-8000-000000000001";
    const struct handoff_list_query task = {.task_id = "t-1"};
    const struct handoff_parked_query parked = {0};
    const struct handoff_memory_query memories = {0};
    char child[80];
    snprintf(child, sizeof child, ",\"previous_id\":\"%s\"", stage.id);
    handoff_get(stage.loop, stage.id, "coder", question_answered, next_question());
    handoff_get_attempts(stage.loop, stage.id, NULL, question_answered, next_question());
    handoff_parked(stage.loop, &parked, question_answered, next_question());
    handoff_list(stage.loop, &task, question_answered, next_question());
    handoff_envelope_get(stage.loop, stage.id, "coder", HANDOFF_RENDER_MARKDOWN, question_answered,
                         next_question());
    handoff_memory_get(stage.loop, "m", NULL, question_answered, next_question());
    handoff_memory_list(stage.loop, &memories, question_answered, next_question());
    ask_to_send("", "a key", "analyst", question_answered, next_question());
    ask_to_send(child, NULL, "analyst", question_answered, next_question());
    handoff_replay(stage.loop, nowhere, NULL, NULL, question_answered, next_question());
}

static void count_agent(void *context, const struct handoff_agent_stats *agent)
{
    (void)agent;
    ++*(int *)context;
}

static void memory_was_put(void *context, const struct handoff_result *result)
{
    assert_int_equal(result->error.code, HANDOFF_OK);
    *(bool *)context = true;
}

static void put_memory(void)
{
    static const char memory[] = "{\"content\":\"tabs\"}";
    bool put = false;
    handoff_memory_put(stage.loop, "tabs", memory, sizeof memory - 1, NULL, memory_was_put, &put);
    while (!put)
        handoff_loop_wait(stage.loop, 1000);
}

static void test_others_are_served_meanwhile(void **state)
{
    static const enum handoff_code expected[QUESTIONS] = {
        [5] = HANDOFF_ERR_NOT_FOUND, [9] = HANDOFF_ERR_NOT_FOUND};
    (void)state;
    struct handoff_stats stats;
    int agents = 0;
    send_one();   /* from here on it is known that nothing is pinned */
    put_memory(); /* and that something is stored: else nothing is looked for */
    base_thread_serves();
    set_closed(true);
    ask_everything();
    for (int i = 0; i < 10; i++)
        send_one();
    handoff_client_visit_agents(stage.client, count_agent, &agents);
    handoff_client_stats(stage.client, &stats);
    assert_int_equal(agents, 1);
    assert_true(stats.store_bytes > 0);
    assert_int_equal(stage.answers, 0);
    set_closed(false);
    while (stage.answers < QUESTIONS)
        handoff_loop_wait(stage.loop, 1000);
    assert_memory_equal(stage.codes, expected, sizeof expected);
}

/* What comes while the loop ends is waited for, and answered. */
static void test_a_loop_that_closes_answers_them(void **state)
{
    (void)state;
    send_one();
    ask_everything();
    handoff_loop_stop(stage.loop);
    handoff_loop_close(&stage.loop);
    assert_int_equal(stage.answers, QUESTIONS);
}

static void test_a_thread_that_serves_may_not_read(void **state)
{
    (void)state;
    struct handoff_text text;
    int status = 0;
    send_one();
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        base_thread_serves();
        _exit(handoff_read_handoff(stage.client, stage.id, NULL, &text, NULL) == HANDOFF_OK);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

#define OPENED(test) cmocka_unit_test_setup_teardown(test, open_client, close_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPENED(test_a_thread_that_serves_may_not_read),
        OPENED(test_a_loop_that_closes_answers_them),
        OPENED(test_others_are_served_meanwhile), /* marks the thread for good */
    };
    return cmocka_run_group_tests(tests, install_disk, receiver_stop);
}
