/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes text that arrives in frames, for test_tokens.py to compare with tests/oracle/oracle.mjs.
 *
 * Request: u32 encoding (0 o200k_base, 1 cl100k_base), u32 length, that many bytes of text.
 * Answer: u32 count, u32 estimate, count u32 ids; all in the machine's byte order.
 * handoff_tokens_count() has to tell the same as encoding; if not, the program ends with status 1.
 */
#include "lib/tokens/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

static struct handoff_tokenizer *open_or_die(const char *encoding)
{
    struct handoff_error error;
    struct handoff_tokenizer *tokenizer = handoff_tokenizer_open_encoding(encoding, NULL, &error);

    if (!tokenizer) {
        fprintf(stderr, "token_frames: %s: %s\n", encoding, error.message);
        exit(2);
    }
    return tokenizer;
}

static bool answer(const struct handoff_tokenizer *tokenizer, const char *text, uint32_t length)
{
    /* Text that is no valid UTF-8 may have more tokens than bytes. */
    size_t room = 3 * (size_t)length + 1, count = 0, counted = 0;
    uint32_t *ids = malloc(room * sizeof(*ids));
    uint32_t head[2];
    bool done = false;

    if (ids && handoff_tokens_encode(tokenizer, text, length, ids, room, &count) == HANDOFF_OK &&
        handoff_tokens_count(tokenizer, text, length, &counted) == HANDOFF_OK && count == counted) {
        head[0] = (uint32_t)count;
        head[1] = (uint32_t)handoff_tokens_estimate(text, length);
        done = fwrite(head, sizeof(head), 1, stdout) == 1 &&
               fwrite(ids, sizeof(*ids), count, stdout) == count && fflush(stdout) == 0;
    }
    free(ids);
    return done;
}

int main(void)
{
    struct handoff_tokenizer *tokenizers[] = {open_or_die("o200k_base"),
                                              open_or_die("cl100k_base")};
    uint32_t head[2];
    int status = 0;

    while (status == 0 && fread(head, sizeof(head), 1, stdin) == 1) {
        char *text = malloc(head[1] > 0 ? head[1] : 1);

        if (!text || head[0] > 1 || fread(text, 1, head[1], stdin) != head[1] ||
            !answer(tokenizers[head[0]], text, head[1]))
            status = 1;
        free(text);
    }
    handoff_tokenizer_close(&tokenizers[0]);
    handoff_tokenizer_close(&tokenizers[1]);
    return status;
}
