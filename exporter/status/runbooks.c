/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runbooks, see runbooks.h. CMake writes their texts to generated/runbooks.h, and a row for
 * each to generated/runbooks.def.
 *
 * Pure; any thread.
 */
#include "exporter/status/runbooks.h"

#include <stdio.h>
#include <string.h>

#include "exporter/status/markdown.h"
#include "exporter/status/page.h"
#include "generated/runbooks.h"
#include "lib/base/nearest.h"

static const struct {
    const char *name, *text;
} runbooks[] = {
#define RUNBOOK(name) {#name, runbook_##name},
#include "generated/runbooks.def"
#undef RUNBOOK
};

enum { RUNBOOK_COUNT = sizeof runbooks / sizeof *runbooks };

static size_t name_length(const char *name)
{
    const size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".md") == 0 ? length - 3 : length;
}

size_t exporter_runbook_find(const char *name, const char **nearest)
{
    const size_t length = name_length(name);
    struct base_nearest near = base_nearest_begin(name, length);
    *nearest = NULL;
    for (size_t i = 0; i < RUNBOOK_COUNT; i++) {
        const size_t own = strlen(runbooks[i].name);
        if (own == length && memcmp(runbooks[i].name, name, length) == 0)
            return i;
        base_nearest_offer(&near, runbooks[i].name, own);
    }
    *nearest = near.best;
    return (size_t)-1;
}

char *exporter_runbook_page(size_t place, size_t *length)
{
    static const struct exporter_page_link links[] = {{"/", "Status"}, {"/runbooks", "Runbooks"}};
    char *bytes = NULL;
    FILE *out = open_memstream(&bytes, length);
    if (out == NULL)
        return NULL;
    exporter_page_begin(out, runbooks[place].name, links, sizeof links / sizeof *links);
    fputs("<article class=\"runbook\">\n", out);
    exporter_markdown_html(out, runbooks[place].text, "/runbooks/");
    fputs("</article>\n</main>\n</body>\n</html>\n", out);
    return exporter_page_end(out, &bytes);
}
