/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as documents; see document.h. One thread. */
#include "ctl/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/show.h"
#include "ctl/text.h"

/* The ids of a list, or of one. */
static void put_names(yyjson_val *root)
{
    size_t i, count;
    yyjson_val *item, *items = yyjson_obj_get(root, "items");
    const char *id = ctl_text(root, "id");
    yyjson_arr_foreach(items, i, count, item)
    {
        put_names(item);
    }
    if (!*id && yyjson_obj_get(root, "handoff_id"))
        id = ctl_text(root, "handoff_id");
    if (!items)
        ctl_put_line("",
                     *id ? id : ctl_text(root, yyjson_obj_get(root, "name") ? "name" : "agent"));
}

static void show_parsed(const struct ctl_line *line, yyjson_val *root, ctl_shown *show)
{
    if (line->format == CTL_YAML)
        ctl_put_yaml(root);
    else if (line->format == CTL_NAME)
        put_names(root);
    else
        show(line, root);
}

int ctl_show(const struct ctl_line *line, const struct ctl_answer *answer, ctl_shown *show)
{
    if (answer->size == 0)
        return CTL_OK;
    if (line->format == CTL_JSON) {
        ctl_put_document(answer->body, answer->size, true);
        putchar('\n');
        return CTL_OK;
    }
    /* numbers stay as they were sent */
    yyjson_doc *doc = yyjson_read(answer->body, answer->size,
                                  line->format == CTL_YAML ? YYJSON_READ_NUMBER_AS_RAW : 0);
    if (!doc) {
        fputs("handoffctl: the answer is not JSON; does --api.url point to the agent API?\n",
              stderr);
        return CTL_FAILED;
    }
    show_parsed(line, yyjson_doc_get_root(doc), show);
    yyjson_doc_free(doc);
    return CTL_OK;
}

int ctl_show_built(const struct ctl_line *line, yyjson_mut_doc *doc, ctl_shown *show)
{
    struct ctl_answer answer = {0};
    answer.body = yyjson_mut_write(doc, 0, &answer.size);
    const int code = answer.body ? ctl_show(line, &answer, show) : CTL_FAILED;
    free(answer.body);
    return code;
}
