/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the way of a replay; see prospect.h. One thread. */
#include "ctl/prospect.h"

#include <stdlib.h>
#include <yyjson.h>

#include "ctl/api.h"
#include "ctl/show.h"
#include "ctl/text.h"

static void put_obstacles_of(FILE *out, yyjson_val *prospect)
{
    size_t i, count;
    yyjson_val *one;
    yyjson_arr_foreach(yyjson_obj_get(prospect, "obstacles"), i, count, one)
    {
        fputs("cannot be delivered now: ", out);
        ctl_put(out, ctl_text(prospect, "id"), 0);
        fputs(": ", out);
        ctl_put(out, ctl_text(one, "code"), 0);
        fputs(": ", out);
        ctl_put(out, ctl_text(one, "detail"), 0);
        fputc('\n', out);
    }
}

static void put_prospect_note(FILE *out, yyjson_val *prospect)
{
    if (!*ctl_text(prospect, "note"))
        return;
    ctl_put(out, ctl_text(prospect, "id"), 0);
    fputs(": ", out);
    ctl_put(out, ctl_text(prospect, "note"), 0);
    fputc('\n', out);
}

int ctl_put_obstacles(const struct ctl_line *line, FILE *out, const char *id, const char *to)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/parked/", id, "/check");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "target", to))
        code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
    yyjson_doc *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    put_obstacles_of(out, yyjson_doc_get_root(doc));
    put_prospect_note(out, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    ctl_answer_free(&answer);
    free(path);
    return code;
}
