/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl channels: the channels who is behind, and subscriptions. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/table.h"
#include "ctl/text.h"

/* ---- looking ----------------------------------------------------------------------------------
 */

static const char *subscription_of(yyjson_val *receiver)
{
    if (!yyjson_is_true(yyjson_obj_get(receiver, "subscribed")))
        return "no";
    if (yyjson_is_true(yyjson_obj_get(receiver, "catching_up")))
        return "catching up";
    return yyjson_is_true(yyjson_obj_get(receiver, "configured")) ? "configured" : "yes";
}

static void put_receivers(struct ctl_table *table, yyjson_val *channel)
{
    size_t i, count;
    yyjson_val *receiver;
    yyjson_arr_foreach(yyjson_obj_get(channel, "receivers"), i, count, receiver)
    {
        ctl_table_put(table, ctl_text(channel, "name"));
        ctl_table_put(table, ctl_text(receiver, "agent"));
        ctl_table_put(table, subscription_of(receiver));
        ctl_table_put_number(table, ctl_number(receiver, "pending"));
        ctl_table_put_age(table, ctl_text(receiver, "oldest_pending_at"));
        ctl_table_put_number(table, ctl_number(receiver, "parked"));
    }
}

/* A channel, or a list of them; those that nobody receives have no row. */
static void show_channels(const struct ctl_line *line, yyjson_val *root)
{
    static const struct ctl_column columns[] = {{"CHANNEL", CTL_SHRINKS, 12},
                                                {"RECEIVER", CTL_SHRINKS, 12},
                                                {"SUBSCRIBED", 0, 0},
                                                {"PENDING", CTL_RIGHT, 0},
                                                {"OLDEST", CTL_RIGHT, 0},
                                                {"PARKED", CTL_RIGHT, 0},
                                                {NULL, 0, 0}};
    size_t i, count;
    yyjson_val *channel, *items = yyjson_obj_get(root, "items");
    struct ctl_table *table = ctl_table_begin(line, columns);
    if (!items)
        put_receivers(table, root);
    yyjson_arr_foreach(items, i, count, channel)
    {
        put_receivers(table, channel);
    }
    ctl_table_end(table);
}

static int call_channel(const struct ctl_line *line, const char *method, const char *path,
                        const char *body, ctl_shown *show)
{
    struct ctl_answer answer = {0};
    int code = ctl_api_call(line, method, path, NULL, body, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, show);
    ctl_answer_free(&answer);
    return code;
}

int ctl_channels_list(const struct ctl_line *line)
{
    return call_channel(line, "GET", "/v1/channels", NULL, show_channels);
}

int ctl_channels_show(const struct ctl_line *line)
{
    char *path = ctl_api_path("/v1/channels/", ctl_operand(line, 0), "");
    const int code = call_channel(line, "GET", path, NULL, show_channels);
    free(path);
    return code;
}

/* ---- subscriptions ----------------------------------------------------------------------------
 */

static void show_subscription(const struct ctl_line *line, yyjson_val *root)
{
    (void)line;
    ctl_put(stdout, ctl_text(root, "agent"), 0);
    fputs(!yyjson_is_true(yyjson_obj_get(root, "subscribed"))   ? " has left "
          : yyjson_is_true(yyjson_obj_get(root, "catching_up")) ? " is catching up with "
                                                                : " receives ",
          stdout);
    ctl_put(stdout, ctl_text(root, "channel"), 0);
    putchar('\n');
}

/* /v1/channels/CHANNEL/receivers/AGENT; free() it. NULL: no memory. */
static char *receiver_path(const struct ctl_line *line)
{
    char *channel = ctl_api_path("/v1/channels/", ctl_operand(line, 0), "/receivers/");
    char *path = channel ? ctl_api_path(channel, ctl_operand(line, 1), "") : NULL;
    free(channel);
    return path;
}

int ctl_channels_subscribe(const struct ctl_line *line)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    const char *from = ctl_value(line, "from");
    yyjson_mut_doc_set_root(doc, root);
    if (from)
        yyjson_mut_obj_add_str(doc, root, "from", from);
    char *path = receiver_path(line), *body = yyjson_mut_write(doc, 0, NULL);
    const int code = body ? call_channel(line, "PUT", path, body, show_subscription)
                          : ctl_usage_error(line, "--from is not UTF-8");
    yyjson_mut_doc_free(doc);
    free(body);
    free(path);
    return code;
}

int ctl_channels_unsubscribe(const struct ctl_line *line)
{
    char *path = receiver_path(line);
    const int code = call_channel(line, "DELETE", path, NULL, show_subscription);
    free(path);
    return code;
}
