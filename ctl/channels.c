/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl channels: who is behind, publishing, and subscriptions. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/request.h"
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
        ctl_table_put_number(table, ctl_number(receiver, "dropped"));
    }
}

/* A channel, or a list of them; those that nobody receives have no row. */
static void show_channels(const struct ctl_line *line, yyjson_val *root)
{
    static const struct ctl_column columns[] = {
        {"CHANNEL", CTL_SHRINKS, 12}, {"RECEIVER", CTL_SHRINKS, 12},
        {"SUBSCRIBED", 0, 0},         {"PENDING", CTL_RIGHT, 0},
        {"OLDEST", CTL_RIGHT, 0},     {"PARKED", CTL_RIGHT, 0},
        {"DROPPED", CTL_RIGHT, 0},    {NULL, 0, 0}};
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

/* ---- publishing ------------------------------------------------------------------------------ */

static bool has_failed_delivery(yyjson_val *root)
{
    size_t i, count;
    yyjson_val *delivery;
    yyjson_arr_foreach(yyjson_obj_get(root, "deliveries"), i, count, delivery)
    {
        yyjson_val *state = yyjson_obj_get(delivery, "state");
        if (yyjson_equals_str(state, "parked") || yyjson_equals_str(state, "expired"))
            return true;
    }
    return false;
}

static void show_published(const struct ctl_line *line, yyjson_val *root)
{
    static const struct ctl_column columns[] = {
        {"HANDOFF", 0, 0},          {"RECEIVER", CTL_SHRINKS, 12}, {"STATE", 0, 0},
        {"ATTEMPTS", CTL_RIGHT, 0}, {"REASON", CTL_SHRINKS, 12},   {NULL, 0, 0}};
    size_t i, count;
    yyjson_val *delivery;
    struct ctl_table *table = ctl_table_begin(line, columns);
    yyjson_arr_foreach(yyjson_obj_get(root, "deliveries"), i, count, delivery)
    {
        ctl_table_put(table, ctl_text(delivery, "handoff_id"));
        ctl_table_put(table, ctl_text(delivery, "receiver"));
        ctl_table_put(table, ctl_text(delivery, "state"));
        ctl_table_put_number(table, ctl_number(delivery, "attempts"));
        ctl_table_put(table, ctl_text(delivery, "reason"));
    }
    ctl_put(stdout, ctl_text(root, "id"), 0);
    fputs(" is published to ", stdout);
    ctl_put(stdout, ctl_text(root, "channel"), 0);
    putchar('\n');
    ctl_table_end(table);
}

static void add_named_receivers(const struct ctl_line *line, yyjson_mut_doc *doc)
{
    yyjson_mut_val *list = NULL;
    for (size_t i = 0; i < line->ngiven; i++) {
        if (strcmp(line->given[i].option->name, "receiver") != 0)
            continue;
        if (!list)
            list = yyjson_mut_obj_add_arr(doc, yyjson_mut_doc_get_root(doc), "receivers");
        yyjson_mut_arr_add_str(doc, list, line->given[i].value);
    }
}

/* CTL_OK, or the exit code after reporting the reason; the caller frees *body. */
static int publish_body(const struct ctl_line *line, char **body)
{
    const char *file = ctl_operand(line, 1), *envelope = ctl_value(line, "envelope");
    char *request = NULL;
    int code = CTL_OK;
    if (!envelope || ctl_request_is_given(line, file))
        code = ctl_request_body(line, file, &request);
    if (code != CTL_OK)
        return code;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(doc, yyjson_mut_obj(doc));
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
    if (request)
        yyjson_mut_obj_add(root, yyjson_mut_str(doc, "request"), yyjson_mut_raw(doc, request));
    if (envelope)
        yyjson_mut_obj_add_str(doc, root, "envelope_id", envelope);
    add_named_receivers(line, doc);
    *body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    free(request);
    return *body ? CTL_OK : ctl_usage_error(line, "a value is not UTF-8");
}

static int show_publication(const struct ctl_line *line, const struct ctl_answer *answer)
{
    int code = ctl_api_check_answer(line, answer);
    if (code == CTL_OK)
        code = ctl_show(line, answer, show_published);
    yyjson_doc *doc = answer->body ? yyjson_read(answer->body, answer->size, 0) : NULL;
    if (code == CTL_OK && has_failed_delivery(yyjson_doc_get_root(doc)))
        code = CTL_FAILED;
    yyjson_doc_free(doc);
    return code;
}

int ctl_channels_publish(const struct ctl_line *line)
{
    struct ctl_answer answer = {0};
    char prefer[32] = "", *body = NULL;
    char *path = ctl_api_path("/v1/channels/", ctl_operand(line, 0), "/publish");
    const long wait_s = ctl_whole(line, "wait", 0);
    snprintf(prefer, sizeof prefer, "wait=%ld", wait_s);
    int code = publish_body(line, &body);
    const struct ctl_call call = {.method = "POST",
                                  .path = path,
                                  .body = body,
                                  .prefer = wait_s > 0 ? prefer : NULL,
                                  .idempotency_key = ctl_value(line, "idempotency-key")};
    if (code == CTL_OK)
        code = ctl_api_exchange(line, &call, &answer);
    if (code == CTL_OK)
        code = show_publication(line, &answer);
    ctl_answer_free(&answer);
    free(body);
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
