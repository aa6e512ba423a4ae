/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl tokens: counts the tokens of a file.
 *
 * Without --encoding it counts in o200k_base, or estimates (and says so on stderr and in the JSON)
 * if that vocabulary is not installed. A missing vocabulary of an encoding that was named is an
 * error: the caller wants that count and no other. One thread.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/handoff.h"
#include "ctl/command_line.h"
#include "ctl/input.h"

static struct handoff_tokenizer *open_requested_tokenizer(const char *encoding)
{
    struct handoff_error error = {0};
    struct handoff_tokenizer *tokenizer = handoff_tokenizer_open_encoding(
        encoding ? encoding : HANDOFF_ENCODING_DEFAULT, NULL, &error);
    char why[512];

    if (tokenizer)
        return tokenizer;
    handoff_error_text(&error, why, sizeof(why));
    if (encoding) {
        fprintf(stderr, "handoffctl tokens: %s\n", why);
        return NULL;
    }
    fprintf(stderr, "handoffctl tokens: estimating, because %s\n", why);
    return handoff_tokenizer_estimate();
}

static int count_and_print(const struct handoff_tokenizer *tokenizer, const char *text,
                           size_t length, const struct ctl_line *line)
{
    size_t count = 0;
    enum handoff_code code = handoff_tokens_count(tokenizer, text, length, &count);

    if (code != HANDOFF_OK) {
        fprintf(stderr, "handoffctl tokens: %s: %s\n", ctl_operand(line, 0),
                handoff_code_meaning(code));
        return CTL_FAILED;
    }
    if (ctl_flag(line, "json")) { /* the names of encodings need no escaping */
        printf("{\"tokens\": %zu, \"encoding\": \"%s\"}\n", count,
               handoff_tokenizer_encoding(tokenizer));
    } else {
        printf("%zu\n", count);
    }
    return fflush(stdout) == 0 ? CTL_OK : CTL_FAILED;
}

int ctl_tokens(const struct ctl_line *line)
{
    struct handoff_tokenizer *tokenizer = open_requested_tokenizer(ctl_value(line, "encoding"));
    char *text = NULL;
    size_t length = 0;
    int status = CTL_FAILED;

    if (tokenizer)
        text = ctl_read_file(line, ctl_operand(line, 0), &length);
    if (text)
        status = count_and_print(tokenizer, text, length, line);
    free(text);
    handoff_tokenizer_close(&tokenizer);
    return status;
}
