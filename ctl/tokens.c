/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl tokens: how many tokens a file has.
 *
 * Without --encoding it counts in o200k_base, and estimates (and says so on stderr and in the JSON)
 * where that vocabulary is not installed. An encoding that was asked for by name and is not there
 * is a failure: who names one wants its numbers and no others.
 */
#include "ctl/command.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/handoff.h"

struct request {
    const char *encoding; /* NULL: not asked for */
    const char *path;
    bool json;
};

struct text {
    char *bytes;
    size_t length;
};

static bool parse(const struct ctl_command *command, int argc, char *const argv[],
                  struct request *request)
{
    static const struct option options[] = {{"encoding", required_argument, NULL, 'e'},
                                            {"json", no_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    int option;

    optind = 0; /* start anew, GNU's way */
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
        (void)ctl_usage_error(command, argc == optind ? "which file?" : "one file at a time");
        return false;
    }
    request->path = argv[optind];
    return true;
}

static bool grow(struct text *text, size_t *room)
{
    size_t more = *room ? 2 * *room : (size_t)64 << 10;
    char *bytes = realloc(text->bytes, more);

    if (bytes == NULL) {
        return false;
    }
    text->bytes = bytes;
    *room = more;
    return true;
}

static bool read_all(FILE *file, struct text *text)
{
    size_t room = 0, got;

    do {
        if (text->length == room && !grow(text, &room)) {
            return false;
        }
        got = fread(text->bytes + text->length, 1, room - text->length, file);
        text->length += got;
    } while (got > 0);
    return ferror(file) == 0;
}

static bool read_text(const char *path, struct text *text)
{
    bool from_stdin = strcmp(path, "-") == 0;
    FILE *file = from_stdin ? stdin : fopen(path, "rb");
    bool done = file != NULL && read_all(file, text);

    if (!done) {
        fprintf(stderr, "handoffctl tokens: %s: %s\n", path, strerror(errno));
    }
    if (file != NULL && !from_stdin) {
        (void)fclose(file);
    }
    return done;
}

static struct handoff_tokenizer *open_tokenizer(const struct request *request)
{
    struct handoff_error error = {0};
    struct handoff_tokenizer *tokenizer = handoff_tokenizer_open_encoding(
        request->encoding ? request->encoding : "o200k_base", NULL, &error);
    char why[512];

    if (tokenizer != NULL) {
        return tokenizer;
    }
    handoff_error_text(&error, why, sizeof(why));
    if (request->encoding != NULL) {
        fprintf(stderr, "handoffctl tokens: %s\n", why);
        return NULL;
    }
    fprintf(stderr, "handoffctl tokens: estimating, because %s\n", why);
    return handoff_tokenizer_estimate();
}

static int count_and_print(const struct handoff_tokenizer *tokenizer, const struct text *text,
                           const struct request *request)
{
    size_t count = 0;
    enum handoff_code code = handoff_tokens_count(tokenizer, text->bytes, text->length, &count);

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
    struct text text = {0};
    struct handoff_tokenizer *tokenizer;
    int status = CTL_FAILED;

    if (!parse(command, argc, argv, &request)) {
        return CTL_USAGE;
    }
    tokenizer = open_tokenizer(&request);
    if (tokenizer != NULL && read_text(request.path, &text)) {
        status = count_and_print(tokenizer, &text, &request);
    }
    free(text.bytes);
    handoff_tokenizer_close(&tokenizer);
    return status;
}
