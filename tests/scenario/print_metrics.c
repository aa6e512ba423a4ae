/* SPDX-License-Identifier: Apache-2.0 */
/* Prints metrics.def: as a Markdown table, or with the argument "json" with all that it says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "collectors/collectors.h"

static const char *type_of(const struct metric_desc *row)
{
    switch (row->type) {
    case METRIC_COUNTER:
        return "counter";
    case METRIC_GAUGE:
        return "gauge";
    case METRIC_HISTOGRAM:
        return row->native.low < row->native.high ? "histogram, classic and native" : "histogram";
    }
    return "";
}

/* Without the mark of an open label. */
static const char *label_of(const struct metric_desc *row, size_t i)
{
    return row->labels[i] + (row->labels[i][0] == '*');
}

static void print_table(const struct metric_desc *rows, size_t count)
{
    printf("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        printf("| `%s` | %s | ", rows[i].name, type_of(&rows[i]));
        for (size_t l = 0; rows[i].labels[l] != NULL; l++)
            printf("%s`%s`", l > 0 ? ", " : "", label_of(&rows[i], l));
        printf(" | %s |\n", rows[i].help);
    }
}

static yyjson_mut_val *row_as_json(yyjson_mut_doc *doc, const struct metric_desc *row)
{
    yyjson_mut_val *object = yyjson_mut_obj(doc);
    yyjson_mut_obj_add_str(doc, object, "name", row->name);
    yyjson_mut_obj_add_str(doc, object, "type", type_of(row));
    yyjson_mut_obj_add_str(doc, object, "help", row->help);
    yyjson_mut_obj_add_bool(doc, object, "exemplars", (row->flags & METRIC_EXEMPLARS) != 0);
    yyjson_mut_val *labels = yyjson_mut_obj_add_arr(doc, object, "labels");
    yyjson_mut_val *open = yyjson_mut_obj_add_arr(doc, object, "open");
    for (size_t l = 0; row->labels[l] != NULL; l++) {
        yyjson_mut_arr_add_str(doc, labels, label_of(row, l));
        if (row->labels[l][0] == '*')
            yyjson_mut_arr_add_str(doc, open, label_of(row, l));
    }
    yyjson_mut_val *bounds = yyjson_mut_obj_add_arr(doc, object, "bounds");
    for (size_t b = 0; b < row->nbounds; b++)
        yyjson_mut_arr_add_real(doc, bounds, row->bounds[b]);
    yyjson_mut_obj_add_int(doc, object, "schema", row->native.schema);
    return object;
}

static int print_json(const struct metric_desc *rows, size_t count)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    for (size_t i = 0; i < count; i++)
        yyjson_mut_arr_add_val(list, row_as_json(doc, &rows[i]));
    yyjson_mut_doc_set_root(doc, list);
    char *text = yyjson_mut_write(doc, YYJSON_WRITE_PRETTY, NULL);
    if (text != NULL)
        puts(text);
    int status = text != NULL ? 0 : 1;
    free(text);
    yyjson_mut_doc_free(doc);
    return status;
}

int main(int argc, char **argv)
{
    size_t count;
    const struct metric_desc *rows = collectors_metrics(&count);
    if (argc > 1 && strcmp(argv[1], "json") == 0)
        return print_json(rows, count);
    print_table(rows, count);
    return 0;
}
