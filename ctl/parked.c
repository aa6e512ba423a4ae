/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl parked: what could not be delivered, and a person's decisions about it. A replay of
 * many goes through the list page by page, at a bounded rate, so that an agent that has just come
 * back is not buried under all that it missed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "ctl/options.h"
#include "ctl/show.h"

enum {
    RATE = 10, /* replays a second, where nothing else is asked for */
    RATE_MAX = 1000,
    PAGE = 100,
    BUSY_WAIT_MS = 1000, /* after a 429 */
    BUSY_TRIES = 60,
    CONFLICT = 409,
    BUSY = 429,
};

struct arguments {
    const struct ctl_command *command;
    struct ctl_api api;
    const char *id, *target, *reason, *to, *rate, *limit, *cursor;
    bool json;
};

static int take_arguments(struct arguments *arguments, bool takes_id, int argc, char *const argv[])
{
    const struct ctl_option options[] = {
        {"--target", &arguments->target, NULL}, {"--reason", &arguments->reason, NULL},
        {"--to", &arguments->to, NULL},         {"--rate", &arguments->rate, NULL},
        {"--limit", &arguments->limit, NULL},   {"--cursor", &arguments->cursor, NULL},
        {"--json", NULL, &arguments->json}};
    const struct ctl_line line = {.options = options,
                                  .noptions = sizeof(options) / sizeof(options[0]),
                                  .words = &arguments->id,
                                  .nwords = takes_id ? 1 : 0,
                                  .api = &arguments->api};
    return ctl_take_line(arguments->command, &line, 1, argc, argv);
}

static int need_id(const struct arguments *arguments)
{
    return arguments->id ? CTL_OK : ctl_usage_error(arguments->command, "which handoff?");
}

/* ---- list --------------------------------------------------------------------------------------
 */

static int get_list(const struct arguments *arguments, const char *limit, const char *cursor,
                    struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/parked", "", "");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "target", arguments->target) &&
        ctl_api_add_query(&path, "reason", arguments->reason) &&
        ctl_api_add_query(&path, "limit", limit) && ctl_api_add_query(&path, "cursor", cursor))
        code = ctl_api_call(arguments->command, &arguments->api, "GET", path, NULL, NULL, answer);
    free(path);
    return code;
}

static void show_list(yyjson_val *list)
{
    size_t i, count;
    yyjson_val *handoff, *items = yyjson_obj_get(list, "items");
    if (yyjson_arr_size(items) == 0) {
        puts("nothing is parked");
        return;
    }
    printf("%-36s  %-24s  %-20s %-13s %8s  %-20s %s\n", "ID", "PARKED", "TARGET", "REASON",
           "ATTEMPTS", "SOURCE", "TASK");
    yyjson_arr_foreach(items, i, count, handoff)
    {
        ctl_put(stdout, ctl_text(handoff, "id"), 36);
        fputs("  ", stdout);
        ctl_put(stdout, ctl_text(handoff, "settled_at"), 24);
        fputs("  ", stdout);
        ctl_put(stdout, ctl_text(handoff, "target_agent"), 20);
        putchar(' ');
        ctl_put(stdout, ctl_text(handoff, "reason"), 13);
        printf(" %8.0f  ", ctl_number(handoff, "attempts"));
        ctl_put(stdout, ctl_text(handoff, "source_agent"), 20);
        putchar(' ');
        ctl_put(stdout, ctl_text(handoff, "task_id"), 0);
        putchar('\n');
    }
    ctl_show_next(list);
}

static int run_list(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    struct ctl_answer answer = {0};
    int code = take_arguments(&arguments, false, argc, argv);
    if (code == CTL_OK)
        code = get_list(&arguments, arguments.limit, arguments.cursor, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments.json, show_list);
    ctl_answer_free(&answer);
    return code;
}

/* ---- show --------------------------------------------------------------------------------------
 */

static int get(const struct arguments *arguments, const char *suffix, struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/handoffs/", arguments->id, suffix);
    int code = CTL_FAILED;
    if (path)
        code = ctl_api_call(arguments->command, &arguments->api, "GET", path, NULL, NULL, answer);
    free(path);
    return code;
}

static int run_show(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    struct ctl_answer handoff = {0}, attempts = {0};
    int code = take_arguments(&arguments, true, argc, argv);
    if (code == CTL_OK)
        code = need_id(&arguments);
    if (code == CTL_OK)
        code = get(&arguments, "", &handoff);
    if (code == CTL_OK)
        code = get(&arguments, "/attempts", &attempts);
    if (code == CTL_OK && arguments.json) {
        printf("{\"handoff\":%s,\"attempts\":%s}\n", handoff.body, attempts.body);
    } else if (code == CTL_OK) {
        code = ctl_show(&handoff, false, ctl_show_handoff);
        putchar('\n');
    }
    if (code == CTL_OK && !arguments.json)
        code = ctl_show(&attempts, false, ctl_show_attempts);
    ctl_answer_free(&handoff);
    ctl_answer_free(&attempts);
    return code;
}

/* ---- replay ------------------------------------------------------------------------------------
 */

/* free() it; NULL: the name is not UTF-8 */
static char *replay_body(const struct arguments *arguments)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    if (arguments->to)
        yyjson_mut_obj_add_str(doc, root, "target_agent", arguments->to);
    char *body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    return body;
}

/* One call; CTL_OK where there is an answer. */
static int post_replay(const struct arguments *arguments, const char *id, struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/parked/", id, "/replay"), *body = replay_body(arguments);
    const struct ctl_call call = {.method = "POST", .path = path, .body = body};
    int code = CTL_FAILED;
    if (path && body)
        code = ctl_api_exchange(arguments->command, &arguments->api, &call, answer);
    free(body);
    free(path);
    return code;
}

static int replay_one(const struct arguments *arguments)
{
    struct ctl_answer answer = {0};
    int code = post_replay(arguments, arguments->id, &answer);
    if (code == CTL_OK)
        code = ctl_api_judge(arguments->command, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments->json, ctl_show_handoff_line);
    ctl_answer_free(&answer);
    return code;
}

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

struct tally {
    size_t replayed, skipped;
};

/* One of many: waits where the agent has as much in flight as it may, passes over what somebody
 * else has decided about meanwhile. */
static int replay_of_many(const struct arguments *arguments, const char *id, struct tally *tally)
{
    struct ctl_answer answer = {0};
    int code = post_replay(arguments, id, &answer);
    for (int tries = 0; code == CTL_OK && answer.status == BUSY && tries < BUSY_TRIES; tries++) {
        ctl_answer_free(&answer);
        pause_ms(BUSY_WAIT_MS);
        code = post_replay(arguments, id, &answer);
    }
    if (code == CTL_OK && answer.status == CONFLICT) {
        ctl_api_judge(arguments->command, &answer);
        tally->skipped++;
    } else if (code == CTL_OK) {
        code = ctl_api_judge(arguments->command, &answer);
        tally->replayed += code == CTL_OK;
        if (code == CTL_OK && !arguments->json)
            code = ctl_show(&answer, false, ctl_show_handoff_line);
    }
    ctl_answer_free(&answer);
    return code;
}

static int replay_page(const struct arguments *arguments, yyjson_val *items, long pause,
                       struct tally *tally)
{
    size_t i, count;
    yyjson_val *handoff;
    int code = CTL_OK;
    yyjson_arr_foreach(items, i, count, handoff)
    {
        if (tally->replayed + tally->skipped > 0)
            pause_ms(pause);
        code = replay_of_many(arguments, ctl_text(handoff, "id"), tally);
        if (code != CTL_OK)
            break;
    }
    return code;
}

/* What parks again meanwhile keeps its place before the cursor, so this ends. */
static int replay_pages(const struct arguments *arguments, long pause, struct tally *tally)
{
    char limit[16], *cursor = NULL;
    int code = CTL_OK;
    bool more = true;
    snprintf(limit, sizeof(limit), "%d", PAGE);
    while (more && code == CTL_OK) {
        struct ctl_answer answer = {0};
        code = get_list(arguments, limit, cursor, &answer);
        yyjson_doc *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
        yyjson_val *list = yyjson_doc_get_root(doc);
        if (code == CTL_OK)
            code = replay_page(arguments, yyjson_obj_get(list, "items"), pause, tally);
        free(cursor);
        cursor = *ctl_text(list, "next") ? strdup(ctl_text(list, "next")) : NULL;
        more = cursor != NULL;
        yyjson_doc_free(doc);
        ctl_answer_free(&answer);
    }
    free(cursor);
    return code;
}

static int replay_many(const struct arguments *arguments)
{
    struct tally tally = {0};
    char *end = "";
    long rate = arguments->rate ? strtol(arguments->rate, &end, 10) : RATE;
    if (*end || rate < 1 || rate > RATE_MAX)
        return ctl_usage_error(arguments->command, "--rate is a whole number, 1 to 1000");
    int code = replay_pages(arguments, 1000 / rate, &tally);
    if (arguments->json)
        printf("{\"replayed\":%zu,\"skipped\":%zu}\n", tally.replayed, tally.skipped);
    else
        printf("%zu replayed, %zu skipped\n", tally.replayed, tally.skipped);
    return code;
}

static int run_replay(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_arguments(&arguments, true, argc, argv);
    if (code == CTL_OK && !arguments.id == !arguments.target)
        code =
            ctl_usage_error(command, "give the id of one, or --target AGENT for all of an agent");
    if (code != CTL_OK)
        return code;
    return arguments.id ? replay_one(&arguments) : replay_many(&arguments);
}

/* ---- discard -----------------------------------------------------------------------------------
 */

static int discard(const struct arguments *arguments)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/parked/", arguments->id, "");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "reason", arguments->reason))
        code =
            ctl_api_call(arguments->command, &arguments->api, "DELETE", path, NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments->json, ctl_show_handoff_line);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

static int run_discard(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_arguments(&arguments, true, argc, argv);
    if (code == CTL_OK)
        code = need_id(&arguments);
    if (code == CTL_OK && (!arguments.reason || !*arguments.reason))
        code = ctl_usage_error(command, "why? Give --reason TEXT, for whoever looks for it later");
    return code == CTL_OK ? discard(&arguments) : code;
}

int ctl_parked(const struct ctl_command *command, int argc, char *const argv[])
{
    static const struct ctl_verb verbs[] = {
        {"list", run_list}, {"show", run_show}, {"replay", run_replay}, {"discard", run_discard}};
    return ctl_run_verb(command, verbs, sizeof(verbs) / sizeof(verbs[0]), argc, argv);
}
