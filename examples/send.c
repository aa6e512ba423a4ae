/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sending agent that embeds the client: no sidecar, and its store is a directory.
 *
 *     cc send.c $(pkg-config --cflags --libs handoff) -o send
 *     ./send http://127.0.0.1:9001/handoffs
 */
#include <handoff.h>
#include <stdio.h>

/* Called for every event, on the loop's thread or the store's: must return quickly. */
static void observed(void *observer, const struct handoff_event *event)
{
    if (event->kind == HANDOFF_EVENT_MOVED)
        fprintf(observer, "%s: %s -> %s at %s\n", event->who.id,
                event->of.moved.from ? handoff_state_name(event->of.moved.from) : "new",
                handoff_state_name(event->of.moved.to), event->who.target_agent);
}

static int report(const struct handoff_error *error)
{
    char text[512];
    handoff_error_text(error, text, sizeof text);
    fprintf(stderr, "%s: %s\n", handoff_code_name(error->code), text);
    return 1;
}

static void answered(void *context, const struct handoff_result *result)
{
    int *status = context;
    *status = result->error.code == HANDOFF_OK ? 0 : report(&result->error);
    if (result->body) /* NULL: nothing was stored; a parked handoff has a body too */
        printf("%.*s\n", (int)result->size, result->body);
}

int main(int argc, char **argv)
{
    static const char body[] = "{\"source_agent\": \"researcher\", \"target_agent\": \"analyst\","
                               " \"task_summary\": \"Compare the retry policies\"}";
    const struct handoff_ask ask = {.body = body, .size = sizeof body - 1};
    const struct handoff_agent_options analyst =
        handoff_agent_defaults("analyst", argc > 1 ? argv[1] : "http://127.0.0.1:9001/handoffs");
    const struct handoff_configuration configuration = {.agents = &analyst, .nagents = 1};
    const struct handoff_options options = {
        .storage_path = "handoff-data", .observe = observed, .observer = stderr};
    struct handoff_client *client;
    struct handoff_loop *loop;
    struct handoff_error error;
    int status = 1;

    if (handoff_start(&client, &loop, &options, &configuration, &error) != HANDOFF_OK)
        return report(&error);
    handoff_send(loop, &ask, answered, &status);
    while (handoff_loop_pending(loop) > 0)
        handoff_loop_wait(loop, -1);
    handoff_finish(&client, &loop, 30000);
    return status;
}
