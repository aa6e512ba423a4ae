/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl tokens: counts the tokens of a file.
 *
 * Without --encoding it counts in o200k_base, or estimates (and says so on stderr and in the JSON)
 * if that vocabulary is not installed. A missing vocabulary of an encoding that was named is an
 * error: the caller wants that count and no other. One thread.
 */
#include "ctl/command.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/handoff.h"
#include "ctl/input.h"

struct request {
    const char *encoding; /* NULL: not asked for */
    const char *path;
    bool json;
};

static bool parse_tokens_line(const struct ctl_command *command, int argc, char *const argv[],
                              struct request *request)
{
    static const struct option options[] = {{"encoding", required_argument, NULL, 'e'},
                                            {"json", no_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    int option;

    optind = 0; /* restart, as GNU getopt requires */
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == 'e') {
            request->encoding = optarg;
        } else if (option == 'j') {
            request->json = true;
        } else {
            (void)ctl_usage_error(command,
                                  option == ':' ? "--encoding needs a name" : "unknown option");
            return false;
        }
    }
    if (argc - optind != 1) {
        (void)ctl_usage_error(command, argc == optind ? "missing FILE" : "one file at a time");
        return false;
    }
    request->path = argv[optind];
    return true;
}

static struct handoff_tokenizer *open_requested_tokenizer(const struct request *request)
{
    struct handoff_error error = {0};
    struct handoff_tokenizer *tokenizer = handoff_tokenizer_open_encoding(
        request->encoding ? request->encoding : HANDOFF_ENCODING_DEFAULT, NULL, &error);
    char why[512];

    if (tokenizer)
        return tokenizer;
    handoff_error_text(&error, why, sizeof(why));
    if (request->encoding) {
        fprintf(stderr, "handoffctl tokens: %s\n", why);
        return NULL;
    }
    fprintf(stderr, "handoffctl tokens: estimating, because %s\n", why);
    return handoff_tokenizer_estimate();
}

static int count_and_print(const struct handoff_tokenizer *tokenizer, const char *text,
                           size_t length, const struct request *request)
{
    size_t count = 0;
    enum handoff_code code = handoff_tokens_count(tokenizer, text, length, &count);

    if (code != HANDOFF_OK) {
        fprintf(stderr, "handoffctl tokens: %s: %s\n", request->path, handoff_code_meaning(code));
        return CTL_FAILED;
    }
    if (request->json) { /* the names of encodings need no escaping */
        printf("{\"tokens\": %zu, \"encoding\": \"%s\"}\n", count,
               handoff_tokenizer_encoding(tokenizer));
    } else {
        printf("%zu\n", count);
    }
    return fflush(stdout) == 0 ? CTL_OK : CTL_FAILED;
}

int ctl_tokens(const struct ctl_command *command, int argc, char *const argv[])
{
    struct request request = {0};
    struct handoff_tokenizer *tokenizer;
    char *text = NULL;
    size_t length = 0;
    int status = CTL_FAILED;

    if (!parse_tokens_line(command, argc, argv, &request))
        return CTL_USAGE;
    tokenizer = open_requested_tokenizer(&request);
    if (tokenizer)
        text = ctl_read_file(command, request.path, &length);
    if (text)
        status = count_and_print(tokenizer, text, length, &request);
    free(text);
    handoff_tokenizer_close(&tokenizer);
    return status;
}
