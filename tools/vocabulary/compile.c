/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary compiler; compile.h says what it makes. One thread, at build time.
 *
 * The steps: read all tokens; lay out the file from their number; fill the tables; with these
 * already usable, merge every token's bytes alone to learn the pair it is made of (vocabulary.h
 * says why there is one); checksum.
 */
#include "tools/vocabulary/compile.h"

#include "lib/base/sha256.h"
#include "lib/tokens/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#define NO_TOKEN HANDOFF_VOCABULARY_NO_TOKEN

/* What was read from the text, and the file built from it. */
struct compiler {
    uint8_t *blob;
    uint32_t *offsets; /* count + 1 */
    uint32_t count;
    uint8_t *file;
    struct handoff_vocabulary vocabulary; /* a view of the file */
    struct vocabulary_compile_error *error;
};

static bool fail_at_line(struct compiler *compiler, const char *message, size_t line)
{
    *compiler->error = (struct vocabulary_compile_error){.message = message, .line = line};
    return false;
}

/* --- reading ------------------------------------------------------------------------------- */

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes padded base64 and returns the number of bytes; 0 if it is malformed or empty. */
static size_t decode_base64(const char *text, size_t length, uint8_t *out)
{
    size_t padding = 0, written = 0;
    uint32_t bits = 0;

    if (length == 0 || length % 4 != 0)
        return 0;
    while (padding < 2 && text[length - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < length; i++) {
        int digit = i < length - padding ? base64_digit(text[i]) : 0;

        if (digit < 0)
            return 0;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 == 3) {
            out[written++] = (uint8_t)(bits >> 16);
            out[written++] = (uint8_t)(bits >> 8);
            out[written++] = (uint8_t)bits;
        }
    }
    return written - padding;
}

static bool is_number(const char *text, size_t length, uint32_t expected)
{
    uint32_t number = 0;

    if (length == 0 || length > 7)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = number * 10 + (uint32_t)(text[i] - '0');
    }
    return number == expected;
}

static bool parse_token_line(struct compiler *compiler, const char *line, size_t length)
{
    const char *space = memchr(line, ' ', length);
    uint32_t start = compiler->offsets[compiler->count];
    size_t bytes;

    if (!space)
        return fail_at_line(compiler, "expected a token and its rank", compiler->count + 1);
    if (!is_number(space + 1, length - (size_t)(space + 1 - line), compiler->count))
        return fail_at_line(compiler, "the rank is not the line number minus one",
                            compiler->count + 1);
    if (compiler->count == HANDOFF_VOCABULARY_MAX_TOKENS)
        return fail_at_line(compiler, "too many tokens", compiler->count + 1);
    bytes = decode_base64(line, (size_t)(space - line), compiler->blob + start);
    if (bytes == 0)
        return fail_at_line(compiler, "not base64", compiler->count + 1);
    compiler->count++;
    compiler->offsets[compiler->count] = start + (uint32_t)bytes;
    return true;
}

static bool parse_tokens(struct compiler *compiler, const char *text, size_t length)
{
    const char *end = text + length;

    if (length > UINT32_MAX)
        return fail_at_line(compiler, "too long", 0);
    /* Base64 is longer than what it encodes, and a line is at least one byte. */
    compiler->blob = malloc(length + 3);
    compiler->offsets = calloc(length + 2, sizeof(uint32_t));
    if (!compiler->blob || !compiler->offsets)
        return fail_at_line(compiler, "out of memory", 0);
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;

        if (!parse_token_line(compiler, text, (size_t)(stop - text)))
            return false;
        text = newline ? newline + 1 : end;
    }
    return compiler->count >= 256 || fail_at_line(compiler, "fewer than 256 tokens", 0);
}

static size_t token_length(const struct compiler *compiler, uint32_t token)
{
    return compiler->offsets[token + 1] - compiler->offsets[token];
}

static const uint8_t *token_bytes(const struct compiler *compiler, uint32_t token)
{
    return compiler->blob + compiler->offsets[token];
}

/* --- laying out ---------------------------------------------------------------------------- */

/* At most 60 % full: chains stay short, and the file small. */
static uint32_t slots_for(uint32_t entries)
{
    return entries / 3 * 5 + 8;
}

static struct handoff_vocabulary_header make_header(const struct compiler *compiler,
                                                    const char *encoding, uint32_t pattern)
{
    struct handoff_vocabulary_header header = {
        .version = HANDOFF_VOCABULARY_VERSION,
        .byte_order = HANDOFF_VOCABULARY_BYTE_ORDER,
        .pattern = pattern,
        .token_count = compiler->count,
        .blob_size = compiler->offsets[compiler->count],
        .pair_slots = slots_for(compiler->count),
    };
    uint32_t longs = 0;

    for (uint32_t token = 0; token < compiler->count; token++)
        longs += token_length(compiler, token) > HANDOFF_VOCABULARY_SHORT_KEY;
    header.short_slots = slots_for(compiler->count - longs);
    header.long_slots = slots_for(longs);
    memcpy(header.magic, HANDOFF_VOCABULARY_FILE_MAGIC, sizeof(header.magic));
    strncpy(header.encoding, encoding, sizeof(header.encoding) - 1);
    header.file_size = handoff_vocabulary_layout(&header).total;
    return header;
}

/* The view is const, as everywhere else; only here do we own the memory behind it. */
static void *writable(const void *part)
{
    return (void *)(uintptr_t)part;
}

static bool lay_out(struct compiler *compiler, const char *encoding, uint32_t pattern)
{
    struct handoff_vocabulary_header header = make_header(compiler, encoding, pattern);
    struct handoff_vocabulary *vocabulary = &compiler->vocabulary;

    compiler->file = calloc(1, header.file_size);
    if (!compiler->file)
        return fail_at_line(compiler, "out of memory", 0);
    memcpy(compiler->file, &header, sizeof(header));
    handoff_vocabulary_attach(vocabulary, compiler->file);
    memset(writable(vocabulary->longs), 0xff, header.long_slots * sizeof(uint32_t));
    memset(writable(vocabulary->pairs), 0xff, header.pair_slots * sizeof(uint64_t));
    memcpy(writable(vocabulary->offsets), compiler->offsets,
           (compiler->count + 1) * sizeof(uint32_t));
    memcpy(writable(vocabulary->blob), compiler->blob, header.blob_size);
    return true;
}

/* --- filling the tables -------------------------------------------------------------------- */

static uint32_t find_token(const struct compiler *compiler, const uint8_t *bytes, size_t length)
{
    return handoff_vocabulary_find(&compiler->vocabulary, bytes, length, length);
}

static void insert_short_key(struct compiler *compiler, uint32_t token)
{
    const uint8_t *bytes = token_bytes(compiler, token);
    size_t length = token_length(compiler, token);
    struct handoff_vocabulary_short_slot *slots = writable(compiler->vocabulary.shorts);
    struct handoff_vocabulary_short_slot key = handoff_vocabulary_short_key(bytes, length, length);
    uint32_t count = compiler->vocabulary.header->short_slots;
    uint32_t slot = handoff_vocabulary_slot(handoff_vocabulary_mix(key.low, key.high), count);

    while (slots[slot].high != 0)
        slot = slot + 1 < count ? slot + 1 : 0;
    slots[slot] = key;
    slots[slot].high |= (uint64_t)token << HANDOFF_VOCABULARY_ID_SHIFT;
}

static void insert_long_key(struct compiler *compiler, uint32_t token)
{
    uint32_t *slots = writable(compiler->vocabulary.longs);
    uint32_t count = compiler->vocabulary.header->long_slots;
    uint32_t slot = handoff_vocabulary_slot(
        handoff_vocabulary_long_hash(token_bytes(compiler, token), token_length(compiler, token)),
        count);

    while (slots[slot] != NO_TOKEN)
        slot = slot + 1 < count ? slot + 1 : 0;
    slots[slot] = token;
}

static bool fill_key_tables(struct compiler *compiler)
{
    uint32_t *byte_ids = writable(compiler->vocabulary.byte_ids);

    for (uint32_t token = 0; token < compiler->count; token++) {
        size_t length = token_length(compiler, token);

        if (find_token(compiler, token_bytes(compiler, token), length) != NO_TOKEN)
            return fail_at_line(compiler, "duplicate token", token + 1);
        if (length > HANDOFF_VOCABULARY_SHORT_KEY)
            insert_long_key(compiler, token);
        else
            insert_short_key(compiler, token);
    }
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;

        byte_ids[i] = find_token(compiler, &byte, 1);
        if (byte_ids[i] == NO_TOKEN)
            return fail_at_line(compiler, "a single byte is not a token", 0);
    }
    return true;
}

/* --- learning the pairs -------------------------------------------------------------------- */

/* Merges the parts of a token, given by their ends, by looking bytes up, until two are left. False
 * if merging stops earlier: such a token is only ever found whole. */
static bool merge_to_two(const struct compiler *compiler, const uint8_t *bytes, uint32_t *ends,
                         size_t count)
{
    while (count > 2) {
        uint32_t lowest = NO_TOKEN;
        size_t at = 0;

        for (size_t i = 0; i + 1 < count; i++) {
            uint32_t start = i > 0 ? ends[i - 1] : 0;
            uint32_t rank = find_token(compiler, bytes + start, ends[i + 1] - start);

            if (rank < lowest) {
                lowest = rank;
                at = i;
            }
        }
        if (lowest == NO_TOKEN)
            return false;
        memmove(&ends[at], &ends[at + 1], (count - at - 1) * sizeof(ends[0]));
        count--;
    }
    return true;
}

static void insert_pair(struct compiler *compiler, uint32_t left, uint32_t right, uint32_t token)
{
    uint64_t *slots = writable(compiler->vocabulary.pairs);
    uint64_t key = (uint64_t)left << HANDOFF_VOCABULARY_ID_BITS | right;
    uint32_t count = compiler->vocabulary.header->pair_slots;
    uint32_t slot = handoff_vocabulary_slot(handoff_vocabulary_mix(key, 0), count);

    while (slots[slot] != HANDOFF_VOCABULARY_EMPTY_PAIR)
        slot = slot + 1 < count ? slot + 1 : 0;
    slots[slot] = key << HANDOFF_VOCABULARY_ID_BITS | token;
}

static bool fill_pair_table(struct compiler *compiler)
{
    uint32_t *ends = malloc(compiler->vocabulary.header->blob_size * sizeof(*ends));

    if (!ends)
        return fail_at_line(compiler, "out of memory", 0);
    for (uint32_t token = 0; token < compiler->count; token++) {
        const uint8_t *bytes = token_bytes(compiler, token);
        size_t length = token_length(compiler, token);

        for (size_t i = 0; i < length; i++)
            ends[i] = (uint32_t)i + 1;
        if (length > 1 && merge_to_two(compiler, bytes, ends, length))
            insert_pair(compiler, find_token(compiler, bytes, ends[0]),
                        find_token(compiler, bytes + ends[0], length - ends[0]), token);
    }
    free(ends);
    return true;
}

static void fill_byte_pairs(struct compiler *compiler)
{
    uint32_t *byte_pairs = writable(compiler->vocabulary.byte_pairs);
    const uint32_t *ids = compiler->vocabulary.byte_ids;

    for (uint32_t i = 0; i < 65536; i++)
        byte_pairs[i] = handoff_vocabulary_merge(&compiler->vocabulary, ids[i >> 8], ids[i & 255]);
}

static void seal(struct compiler *compiler, const char *text, size_t length)
{
    struct handoff_vocabulary_header *header = writable(compiler->vocabulary.header);

    base_sha256(text, length, header->source_digest);
    header->checksum = handoff_vocabulary_checksum(compiler->file, header->file_size);
}

void *vocabulary_compile(const char *text, size_t length, const char *encoding,
                         enum handoff_split_pattern pattern, size_t *file_size,
                         struct vocabulary_compile_error *error)
{
    struct compiler compiler = {.error = error};

    if (parse_tokens(&compiler, text, length) && lay_out(&compiler, encoding, pattern) &&
        fill_key_tables(&compiler) && fill_pair_table(&compiler)) {
        fill_byte_pairs(&compiler);
        seal(&compiler, text, length);
        *file_size = compiler.vocabulary.header->file_size;
    } else {
        free(compiler.file);
        compiler.file = NULL;
    }
    free(compiler.blob);
    free(compiler.offsets);
    return compiler.file;
}
