/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what is written from the table of calls, as JSON: print_calls openapi | bodies. "bodies"
 * is an object with the schema of the body of each call that has one.
 */
#include <stdio.h>
#include <string.h>

#include "client/calls/schema.h"
#include "exporter/routes/openapi.h"
#include "lib/base/json.h"

static void write_bodies(struct base_buffer *out)
{
    base_buffer_byte(out, '{');
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        struct handoff_schema schema = {.out = out};
        if (!handoff_call_has_body(&handoff_calls[i]))
            continue;
        base_json_write_name(out, handoff_calls[i].name);
        handoff_schema_write_body(&schema, &handoff_calls[i]);
    }
    base_buffer_byte(out, '}');
}

int main(int argc, char *argv[])
{
    struct base_buffer out = {0};
    if (argc == 2 && strcmp(argv[1], "openapi") == 0)
        exporter_openapi_write(&out);
    else if (argc == 2 && strcmp(argv[1], "bodies") == 0)
        write_bodies(&out);
    else
        return fprintf(stderr, "usage: print_calls openapi | bodies\n"), 2;
    if (!out.failed)
        puts(out.data);
    base_buffer_free(&out);
    return 0;
}
