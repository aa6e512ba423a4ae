/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - the request of a handoff, as sub-commands take it from their command line: a JSON
 * file, options that set its fields, or both.
 */
#ifndef CTL_REQUEST_H
#define CTL_REQUEST_H

#include <yyjson.h>

#include "ctl/options.h"

/* Help text on the options, for `details` of commands. */
#define CTL_REQUEST_DETAILS                                                                        \
    "The request is the JSON object in FILE (- is stdin), with what the options set:\n"            \
    "  --from AGENT  --to AGENT  --summary TEXT  --task ID  --intent TEXT\n"                       \
    "  --memory ID (again for more)  --recent N  --no-pins\n"                                      \
    "  --max-tokens N  --deadline TIME  --constraint NAME=VALUE (JSON, else text; again for "      \
    "more)\n"                                                                                      \
    "  --strategy priority|full|summary|lazy  --previous ID\n"                                     \
    "  --pattern direct|broadcast|choreographed  --channel NAME  --pipeline NAME (with --to "      \
    "next)\n"                                                                                      \
    "  --state JSON  --history JSON  --expect JSON\n"

struct ctl_request {
    struct ctl_api api;
    const struct ctl_option *options; /* the command's own, taken beside those above */
    size_t noptions;
    yyjson_mut_doc *body; /* filled; yyjson_mut_doc_free it in every case */
};

/* Answers CTL_OK, or the exit code with the reason said. */
int ctl_request_read(const struct ctl_command *command, struct ctl_request *request, int argc,
                     char *const argv[]);

#endif
