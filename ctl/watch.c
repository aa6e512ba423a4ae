/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl watch: each handoff that is new, or has another state than when it was last seen, is
 * one line. It polls the list, so it survives a restart of the sidecar. One thread.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/follow.h"
#include "ctl/handoff_id.h"
#include "ctl/show.h"
#include "ctl/text.h"
#include "lib/base/check.h"
#include "lib/base/rfc3339.h"

enum { INTERVAL_MS = 2000, HOUR_MS = 3600000 };

/* A handoff as it was seen last; in a tree, by id. */
struct seen {
    char id[40];
    char state[256]; /* with its reason and number of attempts */
};

struct watch {
    const struct ctl_line *line;
    char since[BASE_RFC3339_SIZE];
    void *seen; /* a tree of tsearch(3) */
    bool lost;  /* the last round did not reach the sidecar, which was reported */
};

static int compare_seen(const void *a, const void *b)
{
    const struct seen *one = a, *other = b;
    return strcmp(one->id, other->id);
}

/* Whether it differs from what was seen last; remembers it. */
static bool has_changed(struct watch *watch, yyjson_val *handoff)
{
    struct seen *now = calloc(1, sizeof *now);
    BASE_CHECK(now);
    snprintf(now->id, sizeof now->id, "%s", ctl_text(handoff, "id"));
    snprintf(now->state, sizeof now->state, "%s %s %.0f", ctl_text(handoff, "state"),
             ctl_text(handoff, "reason"), ctl_number(handoff, "attempts"));
    struct seen **found = tsearch(now, &watch->seen, compare_seen);
    BASE_CHECK(found);
    if (*found == now)
        return true;
    const bool differs = strcmp((*found)->state, now->state) != 0;
    memcpy((*found)->state, now->state, sizeof now->state);
    free(now);
    return differs;
}

static void print_news(const struct ctl_line *line, yyjson_val *handoff)
{
    struct tm local;
    const time_t now = time(NULL);
    char clock[16];
    localtime_r(&now, &local);
    strftime(clock, sizeof clock, "%H:%M:%S", &local);
    printf("%s  ", clock);
    ctl_show_handoff_line(line, handoff);
}

static int show_news(const struct ctl_line *line, yyjson_val *handoff)
{
    struct ctl_answer one = {0};
    one.body = yyjson_val_write(handoff, 0, &one.size);
    const int code = one.body ? ctl_show(line, &one, print_news) : CTL_FAILED;
    free(one.body);
    return code;
}

/* ---- one round --------------------------------------------------------------------------------
 */

static char *path_of_page(const struct watch *watch, const char *cursor)
{
    static const char *const filters[] = {"state", "source", "target", "task", NULL};
    const char *since = ctl_value(watch->line, "since");
    char *path = strdup("/v1/handoffs");
    if (ctl_api_add_options(&path, watch->line, filters) &&
        ctl_api_add_query(&path, "since", since ? since : watch->since) &&
        ctl_api_add_query(&path, "limit", "1000"))
        ctl_api_add_query(&path, "cursor", cursor);
    return path;
}

static int get_page(const struct watch *watch, const char *cursor, yyjson_doc **doc)
{
    struct ctl_answer answer = {0};
    char *path = path_of_page(watch, cursor);
    const struct ctl_call call = {.method = "GET", .path = path, .quiet = watch->lost};
    int code = path ? ctl_api_exchange(watch->line, &call, &answer) : CTL_FAILED;
    if (code == CTL_OK)
        code = ctl_api_check_answer(watch->line, &answer);
    *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    ctl_answer_free(&answer);
    free(path);
    return code == CTL_OK && !*doc ? CTL_FAILED : code;
}

static int show_page(struct watch *watch, yyjson_val *list)
{
    size_t i, count;
    yyjson_val *handoff;
    int code = CTL_OK;
    yyjson_arr_foreach(yyjson_obj_get(list, "items"), i, count, handoff)
    {
        if (code == CTL_OK && has_changed(watch, handoff))
            code = show_news(watch->line, handoff);
    }
    return code;
}

static int look_once(struct watch *watch)
{
    char *cursor = NULL;
    int code = CTL_OK;
    do {
        yyjson_doc *doc;
        code = get_page(watch, cursor, &doc);
        yyjson_val *list = yyjson_doc_get_root(doc);
        if (code == CTL_OK)
            code = show_page(watch, list);
        free(cursor);
        cursor = *ctl_text(list, "next") ? strdup(ctl_text(list, "next")) : NULL;
        yyjson_doc_free(doc);
    } while (code == CTL_OK && cursor);
    free(cursor);
    watch->lost = code == CTL_UNREACHABLE;
    return code;
}

/* ---- the command ------------------------------------------------------------------------------
 */

static int watch_all(const struct ctl_line *line)
{
    struct watch watch = {.line = line};
    struct timespec now, pause;
    const long interval_ms = ctl_whole(line, "interval", INTERVAL_MS);
    int code;
    clock_gettime(CLOCK_REALTIME, &now);
    base_rfc3339_format((int64_t)now.tv_sec * 1000 - HOUR_MS, watch.since);
    pause = (struct timespec){interval_ms / 1000, interval_ms % 1000 * 1000000};
    for (;;) {
        code = look_once(&watch);
        if ((code != CTL_OK && code != CTL_UNREACHABLE) || fflush(stdout) != 0)
            break;
        nanosleep(&pause, NULL);
    }
    tdestroy(watch.seen, free);
    return code;
}

static int watch_one(const struct ctl_line *line)
{
    int code;
    char *id = ctl_whole_id(line, ctl_operand(line, 0), &code);
    if (id)
        code = ctl_follow(line, id);
    free(id);
    return code;
}

int ctl_watch(const struct ctl_line *line)
{
    return ctl_operand(line, 0) ? watch_one(line) : watch_all(line);
}
