/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl audit: the envelopes of a task, verified; from the store's files. One thread. */
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/command_line.h"
#include "ctl/show.h"
#include "ctl/text.h"

static void print_json_line(void *context, const char *json)
{
    (void)context;
    ctl_put_document(json, strlen(json), true);
    putchar('\n');
}

static bool is_removed_parent(yyjson_val *ids, const char *id)
{
    size_t i, n;
    yyjson_val *listed;
    yyjson_arr_foreach(ids, i, n, listed)
    {
        if (yyjson_equals_str(listed, id))
            return true;
    }
    return false;
}

static void print_parents_of(yyjson_val *envelope)
{
    yyjson_val *removed = yyjson_obj_get(envelope, "removed_parents");
    size_t i, n;
    yyjson_val *parent;
    yyjson_arr_foreach(yyjson_obj_get(envelope, "parents"), i, n, parent)
    {
        const char *id = ctl_text(parent, "id");
        fputs("  continues ", stdout);
        ctl_put(stdout, id, 0);
        puts(is_removed_parent(removed, id) ? "  which was removed by retention" : "");
    }
}

static void print_omitted(yyjson_val *omitted)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!omitted)
        return;
    fputs("  omitted:", stdout);
    yyjson_obj_foreach(omitted, i, n, key, value)
    {
        if (!yyjson_is_uint(value))
            continue;
        putchar(' ');
        ctl_put(stdout, yyjson_get_str(key), 0);
        printf(" %llu", (unsigned long long)yyjson_get_uint(value));
    }
    putchar('\n');
}

static void print_audited(void *context, const char *json)
{
    yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
    yyjson_val *root = yyjson_doc_get_root(doc), *hop = yyjson_obj_get(root, "hop");
    (void)context;
    printf("hop %lld  ", (long long)yyjson_get_sint(yyjson_obj_get(hop, "count")));
    ctl_put(stdout, ctl_text(root, "id"), 0);
    if (yyjson_is_true(yyjson_obj_get(root, "removed"))) {
        puts("  its body was removed by retention");
    } else {
        fputs("  ", stdout);
        ctl_put(stdout, ctl_text(root, "source_agent"), 0);
        ctl_put_line(" to ", ctl_text(root, "target_agent"));
    }
    print_parents_of(root);
    print_omitted(yyjson_obj_get(root, "omitted"));
    if (yyjson_is_str(yyjson_obj_get(root, "problem")))
        ctl_put_line("  problem: ", ctl_text(root, "problem"));
    yyjson_doc_free(doc);
}

int ctl_audit(const struct ctl_line *line)
{
    const bool json = ctl_flag(line, "json");
    const char *path = ctl_operand(line, 0), *task = ctl_operand(line, 1);
    struct handoff_store_report report;
    struct handoff_error error;
    char text[512];
    if (handoff_store_audit(path, task, json ? print_json_line : print_audited, NULL, &report,
                            &error) != HANDOFF_OK) {
        handoff_error_text(&error, text, sizeof text);
        fprintf(stderr, "handoffctl audit: %s\n", text);
        return CTL_FAILED;
    }
    if (report.envelopes == 0) {
        fprintf(stderr, "handoffctl audit: no envelopes for task %s\n", task);
        return CTL_NOT_FOUND;
    }
    if (!json)
        printf("%lld envelopes, %lld problems\n", (long long)report.envelopes,
               (long long)report.problems);
    return report.problems ? CTL_FAILED : CTL_OK;
}
