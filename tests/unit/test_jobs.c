/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk jobs, where the clock says odd things about when handoffs were parked. */
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/handoff.h"

static struct {
    char *directory;
    struct handoff_client *client;
    struct handoff_loop *loop;
} stage;

static void open_client(void)
{
    const struct handoff_options options = {.storage_path = stage.directory,
                                            .encoding = "estimate"};
    const struct handoff_agent_options agent = handoff_agent_defaults("reviewer", NULL);
    const struct handoff_configuration configuration = {.agents = &agent, .nagents = 1};
    assert_int_equal(handoff_start(&stage.client, &stage.loop, &options, &configuration, NULL),
                     HANDOFF_OK);
}

static void close_client(void)
{
    handoff_loop_close(&stage.loop);
    handoff_client_close(&stage.client);
}

static int set_up(void **state)
{
    (void)state;
    stage.directory = temp_directory();
    open_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_client();
    temp_remove(stage.directory);
    return 0;
}

static void keep_id(void *context, const struct handoff_result *result)
{
    char *id = context;
    assert_int_equal(result->error.code, HANDOFF_OK);
    const char *at = strstr(result->body, "\"id\":\"");
    assert_non_null(at);
    snprintf(id, 37, "%s", at + sizeof "\"id\":\"" - 1);
}

static void note_answer(void *context, const struct handoff_result *result)
{
    assert_int_equal(result->error.code, HANDOFF_OK);
    ++*(unsigned *)context;
}

/* One that its agent refused. */
static void park(void)
{
    static const char body[] = "{\"source_agent\":\"analyst\",\"target_agent\":\"reviewer\","
                               "\"task_id\":\"t\",\"task_summary\":\"s\"}";
    const struct handoff_ask ask = {.body = body, .size = sizeof body - 1, .respond_async = true};
    char id[37] = "";
    unsigned answers = 0;
    handoff_send(stage.loop, &ask, keep_id, id);
    while (!*id)
        handoff_loop_wait(stage.loop, 1000);
    handoff_acknowledge(stage.loop, id, HANDOFF_ANSWER_REFUSE, NULL, NULL, note_answer, &answers);
    while (!answers || handoff_client_in_flight(stage.client) > 0)
        handoff_loop_wait(stage.loop, 1000);
}

/* Behind everybody's back, as if the clock had been ahead when they were parked. */
static void park_later_by(int64_t ms)
{
    char path[256], sql[128];
    sqlite3 *database;
    close_client();
    snprintf(path, sizeof path, "%s/handoff.db", stage.directory);
    snprintf(sql, sizeof sql, "UPDATE handoffs SET settled_at = settled_at + %lld", (long long)ms);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(database), 2);
    sqlite3_close(database);
    open_client();
}

static void keep_job(void *context, const struct handoff_result *result)
{
    char **job = context;
    assert_int_equal(result->error.code, HANDOFF_OK);
    assert_null(*job);
    *job = strndup(result->body, result->size);
    assert_non_null(*job);
}

/* The job once it is over, to be freed. */
static char *replay_all(void)
{
    const struct handoff_job_query query = {.action = "replay", .rate = 1000};
    char *job = NULL, id[37];
    handoff_job_begin(stage.loop, &query, keep_job, &job);
    while (!job)
        handoff_loop_wait(stage.loop, 1000);
    snprintf(id, sizeof id, "%s", strstr(job, "\"id\":\"") + sizeof "\"id\":\"" - 1);
    while (strstr(job, "\"running\"")) {
        free(job);
        job = NULL;
        handoff_job_get(stage.loop, id, keep_job, &job);
        while (!job) /* no answer may come after the last question */
            handoff_loop_wait(stage.loop, 1000);
    }
    return job;
}

static void test_those_parked_before_the_clock_was_set_back_are_replayed(void **state)
{
    (void)state;
    park();
    park();
    park_later_by(INT64_C(3600000));
    char *job = replay_all();
    if (!strstr(job, "\"state\":\"done\"") || !strstr(job, "\"succeeded\":2,"))
        fail_msg("%s", job);
    free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_those_parked_before_the_clock_was_set_back_are_replayed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
