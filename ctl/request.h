/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - the request of a handoff, as sub-commands read it from the command line: a JSON file,
 * options that set its fields, or both.
 */
#ifndef CTL_REQUEST_H
#define CTL_REQUEST_H

#include <yyjson.h>

#include "ctl/options.h"

/* Help text on the options, for `details` of commands. */
#define CTL_REQUEST_DETAILS                                                                        \
    "The request is the JSON object in FILE (- is stdin), with the fields that options set:\n"     \
    "  --from AGENT  --to AGENT  --summary TEXT  --task ID  --intent TEXT\n"                       \
    "  --memory ID (repeatable)  --recent N  --no-pins\n"                                          \
    "  --max-tokens N  --deadline TIME  --constraint NAME=VALUE (JSON, else text; repeatable)\n"   \
    "  --strategy priority|full|summary|lazy  --previous ID\n"                                     \
    "  --pattern direct|broadcast|choreographed  --channel NAME  --pipeline NAME (with --to "      \
    "next)\n"                                                                                      \
    "  --state JSON  --history JSON  --expect JSON\n"

struct ctl_request {
    struct ctl_api api;
    const struct ctl_option *options; /* the command's own options */
    size_t noptions;
    yyjson_mut_doc *body; /* set by ctl_request_read; yyjson_mut_doc_free it in every case */
};

/* Returns CTL_OK, or the exit code after reporting the reason. */
int ctl_request_read(const struct ctl_command *command, struct ctl_request *request, int argc,
                     char *const argv[]);

#endif
