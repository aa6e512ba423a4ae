/* SPDX-License-Identifier: Apache-2.0 */
/* An exemplar as both versions of OpenMetrics write it: ` # {a="b"} value timestamp`. The thread
 * that scrapes. */
#include "lib/metrics/lines.h"

/* `a="b",c="d"` */
static char *write_exemplar_pairs(char *out, const struct metric_exemplar_copy *copy)
{
    const char *text = copy->text;
    for (size_t pair = 0; pair < copy->pairs; pair++) {
        size_t length = strlen(text);
        if (pair > 0)
            *out++ = ',';
        out = metric_line_copy(out, text, length);
        text += length + 1;
        *out++ = '=';
        *out++ = '"';
        length = strlen(text);
        out = metric_escape(out, text, length, METRIC_QUOTED);
        text += length + 1;
        *out++ = '"';
    }
    return out;
}

char *metric_line_exemplar(char *out, const struct metric_exemplar_slot *slot)
{
    struct metric_exemplar_copy copy;
    if (!metric_exemplar_load(slot, &copy))
        return out;
    out = metric_line_copy(out, " # {", 4);
    out = write_exemplar_pairs(out, &copy);
    out = metric_line_copy(out, "} ", 2);
    out = metric_number_value(out, copy.value);
    *out++ = ' ';
    return metric_number_seconds(out, copy.at_ms);
}
