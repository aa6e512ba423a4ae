/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into a store until it is killed, and says on stdout what was acknowledged, after it was.
 *
 *   store_writer write DIRECTORY SEED   prints "open", then for each acknowledged write a line:
 *                                       "e UUID" an envelope, "m ID NUMBER" a memory with that
 * number store_writer check DIRECTORY        reads such lines on stdin; every one must still be
 * true
 *
 * Exit code: 0, or 1 with the reason on stderr.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/spine/embedded/embedded_spine.h"
#include "client/store/store.h"
#include "tests/support/resolve_now.h"
#include "tests/support/temp_store.h"

enum { ENVELOPES = 24, MEMORIES = 8, MEMORY_IDS = 40, LINE = 64 };

static struct handoff_store *store;
static struct handoff_spine *spine;
static struct base_mailbox mailbox;
static struct base_uuid_source ids;
static unsigned seed;
static long number;

static void fail(const char *what, const struct handoff_error *error)
{
    char text[512] = "";
    if (error) {
        handoff_error_text(error, text, sizeof text);
    }
    fprintf(stderr, "%s: %s\n", what, text);
    exit(1);
}

/* One write for each line: a line is in the pipe whole or not at all. */
static void say(const char *line)
{
    size_t size = strlen(line);
    if (write(STDOUT_FILENO, line, size) != (ssize_t)size) {
        exit(1); /* nobody listens any more */
    }
}

static void open_store(const char *directory)
{
    struct handoff_error error;
    struct handoff_embedded_options embedded = {0};
    struct handoff_store_options options = {.path = directory,
                                            .checkpoint_pages = 60, /* many, to be killed in one */
                                            .retention_every_ms = 1};
    if (handoff_store_open(&store, &options, &error) != HANDOFF_OK) {
        fail("open", &error);
    }
    if (handoff_embedded_spine_open(&spine, store, &embedded, &error) != HANDOFF_OK ||
        base_mailbox_init(&mailbox, &error) != HANDOFF_OK) {
        fail("begin", &error);
    }
    base_uuid_source_init(&ids, NULL, NULL);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_envelope(struct handoff_store_put_envelope *put);

static void envelope_put(struct handoff_store_job *job)
{
    struct handoff_store_put_envelope *put = (struct handoff_store_put_envelope *)(void *)job;
    char uuid[BASE_UUID_TEXT], line[LINE];
    if (job->error.code != HANDOFF_OK) {
        fail("envelope", &job->error);
    }
    base_uuid_format(&put->id, uuid);
    snprintf(line, sizeof line, "e %s\n", uuid);
    say(line);
    temp_envelope_free(put);
    put_envelope(put);
}

static void put_envelope(struct handoff_store_put_envelope *put)
{
    temp_envelope(put, &ids, "task", (size_t)(rand_r(&seed) % 12000));
    put->job.mailbox = &mailbox;
    put->job.done = envelope_put;
    handoff_store_put_envelope(store, put);
}

struct memory {
    struct handoff_spine_put put;
    char id[16], content[64];
    long number;
    int which;
};

static void put_memory(struct memory *memory);

static void memory_put(struct handoff_spine_call *call)
{
    struct memory *memory = (struct memory *)(void *)call;
    char line[LINE];
    if (call->error.code != HANDOFF_OK) {
        fail("memory", &call->error);
    }
    snprintf(line, sizeof line, "m %s %ld\n", memory->id, memory->number);
    say(line);
    put_memory(memory);
}

/* Each puts ids of its own, so that their numbers are acknowledged in order. */
static void put_memory(struct memory *memory)
{
    int id = memory->which + MEMORIES * (rand_r(&seed) % (MEMORY_IDS / MEMORIES));
    memset(&memory->put, 0, sizeof memory->put);
    memory->number = ++number;
    snprintf(memory->id, sizeof memory->id, "ms-%d", id);
    snprintf(memory->content, sizeof memory->content, "%ld is the number", memory->number);
    memory->put.call.mailbox = &mailbox;
    memory->put.call.done = memory_put;
    memory->put.memory.id = base_span_text(memory->id);
    memory->put.memory.content = base_span_text(memory->content);
    if (handoff_spine_put(spine, &memory->put) == HANDOFF_SPINE_DONE) {
        fail("memory", &memory->put.call.error);
    }
}

/* A later run goes on where the one before was killed. */
static void write_for_ever(void)
{
    static struct handoff_store_put_envelope envelopes[ENVELOPES];
    static struct memory memories[MEMORIES];
    number = (long)base_wall_ms(&base_clock_system) * 1000;
    say("open\n");
    for (int i = 0; i < ENVELOPES; i++) {
        put_envelope(&envelopes[i]);
    }
    for (int i = 0; i < MEMORIES; i++) {
        memories[i].which = i;
        put_memory(&memories[i]);
    }
    for (;;) {
        base_mailbox_wait(&mailbox, -1);
    }
}

/* ---- checking ----------------------------------------------------------------------------------
 */

static void check_envelope(const char *text)
{
    struct base_uuid id;
    struct handoff_error error;
    struct base_arena arena = {0};
    struct handoff_stored_envelope found;
    if (!base_uuid_parse(text, strlen(text), &id)) {
        fail(text, NULL);
    }
    if (handoff_store_get_envelope(store, &id, &arena, &found, &error) != HANDOFF_OK) {
        fail("an acknowledged envelope", &error);
    }
    base_arena_free(&arena);
}

/* The number that was acknowledged last, or a later one whose acknowledgement did not get out. */
static void check_memory(const char *id, long expected)
{
    struct base_arena arena = {0};
    struct base_span wanted = base_span_text(id);
    struct handoff_spine_resolve resolve = {.arena = &arena, .ids = &wanted, .id_count = 1};
    if (resolve_now(spine, &resolve) != HANDOFF_OK) {
        fail("resolve", &resolve.call.error);
    }
    if (resolve.found_count != 1 ||
        strtol(resolve.found[0].memory.content.data, NULL, 10) < expected) {
        fail(id, NULL);
    }
    base_arena_free(&arena);
}

static void check_lines(void)
{
    char line[LINE], id[LINE];
    long expected;
    long checked = 0;
    for (; fgets(line, sizeof line, stdin); checked++) {
        if (sscanf(line, "e %63s", id) == 1) {
            check_envelope(id);
        } else if (sscanf(line, "m %63s %ld", id, &expected) == 2) {
            check_memory(id, expected);
        } else {
            fail(line, NULL);
        }
    }
    printf("%ld\n", checked);
    handoff_spine_close(&spine);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
}

int main(int argc, char *argv[])
{
    if (argc == 4 && strcmp(argv[1], "write") == 0) {
        seed = (unsigned)strtoul(argv[3], NULL, 10);
        open_store(argv[2]);
        write_for_ever();
    }
    if (argc != 3 || strcmp(argv[1], "check") != 0) {
        fail("usage", NULL);
    }
    open_store(argv[2]);
    check_lines();
    return 0;
}
