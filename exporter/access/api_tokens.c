/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and finding bearer tokens.
 *
 * A look-up compares the token's SHA-256 with every digest and never stops early. Together with the
 * hash this says nothing about how much of a guess was right, nor at which line the right one is.
 */
#include "exporter/access/api_tokens.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "exporter/config/config_internal.h"

enum { DIGEST_WORDS = 4, DIGEST_SIZE = 32, WORDS_LEAST = 2, WORDS_MOST = 5, BOUND_MOST = 16 };

struct digest {
    uint64_t words[DIGEST_WORDS];
};

_Static_assert(sizeof(struct digest) == DIGEST_SIZE, "a SHA-256 and nothing else");

struct entry {
    struct digest digest;
    struct exporter_token_owner owner;
    size_t line;
};

struct exporter_api_tokens {
    struct entry *entries;
    size_t count;
};

static bool make_digest(const char *token, size_t length, struct digest *digest)
{
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, token, length, digest) >= 0;
}

/* ---- finding -------------------------------------------------------------------------------- */

/* All ones where they are equal, else 0; without a branch that would take its time. */
static uint64_t equal_mask(const struct digest *a, const struct digest *b)
{
    uint64_t different = 0;
    for (size_t i = 0; i < DIGEST_WORDS; i++)
        different |= a->words[i] ^ b->words[i];
    return ((different | (0 - different)) >> 63) - 1;
}

/* NULL, or the entry. A digest is there once at most, so or-ing all masked places, counted from 1,
 * gives its own. */
static const struct entry *token_entry(const struct exporter_api_tokens *tokens,
                                       const struct digest *digest)
{
    uint64_t place = 0;
    for (size_t i = 0; i < tokens->count; i++)
        place |= (i + 1) & equal_mask(&tokens->entries[i].digest, digest);
    return place > 0 ? &tokens->entries[place - 1] : NULL;
}

const struct exporter_token_owner *
exporter_api_tokens_owner(const struct exporter_api_tokens *tokens, const char *token,
                          size_t length)
{
    struct digest digest;
    const struct entry *entry =
        make_digest(token, length, &digest) ? token_entry(tokens, &digest) : NULL;
    return entry != NULL ? &entry->owner : NULL;
}

bool exporter_api_tokens_are_exposed(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && (found.st_mode & S_IROTH) != 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* One load. */
struct reader {
    const char *file;
    size_t line;
    struct base_arena *arena;
    struct exporter_api_tokens *tokens;
    struct exporter_error *error;
};

struct word {
    const char *text;
    size_t length;
};

static bool refuse_tokens_line(const struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse_tokens_line(const struct reader *reader, const char *format, ...)
{
    struct exporter_error what;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what.text, sizeof what.text, format, arguments);
    va_end(arguments);
    exporter_error_set(reader->error, "%s:%zu: api.tokens_file: %s", reader->file, reader->line,
                       what.text);
    return false;
}

static bool no_memory(const struct reader *reader)
{
    exporter_error_set(reader->error, "%s: out of memory", reader->file);
    return false;
}

/* RFC 6750's b64token: what may follow "Bearer". */
static bool is_token(const struct word *word)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/";
    size_t end = word->length;
    while (end > 0 && word->text[end - 1] == '=')
        end--;
    for (size_t i = 0; i < end; i++) {
        if (memchr(letters, word->text[i], sizeof letters - 1) == NULL)
            return false;
    }
    return end > 0;
}

static bool is_operator(const struct word *name)
{
    return name->length == strlen(EXPORTER_OPERATOR) &&
           memcmp(name->text, EXPORTER_OPERATOR, name->length) == 0;
}

static bool check_token_name(const struct reader *reader, const struct word *name)
{
    if (is_operator(name))
        return true;
    if (name->text[0] == '@')
        return refuse_tokens_line(
            reader, "saw an unknown name with @ (not shown), allowed: " EXPORTER_OPERATOR);
    if (!exporter_config_is_name(name->text, name->length))
        return refuse_tokens_line(
            reader,
            "saw a name of %zu bytes (not shown), allowed: an agent's name of 1 "
            "to 128 letters, digits and ._-, or " EXPORTER_OPERATOR,
            name->length);
    if (handoff_name_is_reserved(name->text, name->length))
        return refuse_tokens_line(reader,
                                  "saw %.*s, allowed: a name other than other, next and broadcast",
                                  (int)name->length, name->text);
    return true;
}

static bool check_token(const struct reader *reader, const struct word *token)
{
    if (token->length < EXPORTER_TOKEN_MIN || token->length > EXPORTER_TOKEN_MAX)
        return refuse_tokens_line(reader, "saw a token of %zu bytes, allowed: %d to %d",
                                  token->length, EXPORTER_TOKEN_MIN, EXPORTER_TOKEN_MAX);
    if (!is_token(token))
        return refuse_tokens_line(
            reader, "saw a token with invalid characters (not shown), allowed: letters, "
                    "digits and -._~+/, and = at the end");
    return true;
}

/* ---- what a token is bound to -----------------------------------------------------------------
 */

enum { SCOPES, PUBLISH, RECEIVE, BINDINGS };

static const struct binding {
    const char *key, *entry, *entry_rule;
    size_t key_length, most_bytes, place; /* place: in struct exporter_token_owner */
    bool (*fits)(const char *text, size_t length);
    bool may_be_empty; /* then it is bound to nothing of the kind */
} bindings[BINDINGS] = {
#define BINDING(text, ...)                                                                         \
    {                                                                                              \
        .key = text, .key_length = sizeof(text) - 1, __VA_ARGS__                                   \
    }
#define CHANNELS(field)                                                                            \
    .entry = "channel", .entry_rule = "1 to 128 letters, digits and ._-",                          \
    .most_bytes = EXPORTER_BOUND_CHANNELS_MAX,                                                     \
    .place = offsetof(struct exporter_token_owner, field), .fits = exporter_config_is_name,        \
    .may_be_empty = true
    [SCOPES] = BINDING(
        "scopes=", .entry = "scope", .entry_rule = "1 to 128 characters of A-Z a-z 0-9 . _ : @ / -",
        .most_bytes = EXPORTER_SCOPES_MAX, .place = offsetof(struct exporter_token_owner, scopes),
        .fits = handoff_scope_is_valid),
    [PUBLISH] = BINDING("publish=", CHANNELS(publish)),
    [RECEIVE] = BINDING("receive=", CHANNELS(receive)),
#undef CHANNELS
#undef BINDING
};

/* NULL: the word is none. */
static const struct binding *binding_of(const struct word *word)
{
    for (size_t i = 0; i < BINDINGS; i++) {
        if (word->length >= bindings[i].key_length &&
            memcmp(word->text, bindings[i].key, bindings[i].key_length) == 0)
            return &bindings[i];
    }
    return NULL;
}

static const char **bound_value(const struct binding *binding, struct exporter_token_owner *owner)
{
    return (const char **)(void *)((char *)owner + binding->place);
}

static bool check_bound_to(const struct reader *reader, const struct binding *binding,
                           const char *text, size_t length)
{
    const char *end = text + length;
    size_t count = 0;
    for (; text <= end; count++) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const size_t size = (size_t)((comma != NULL ? comma : end) - text);
        if (!binding->fits(text, size))
            return refuse_tokens_line(reader, "saw a %s of %zu bytes (not shown), allowed: %s",
                                      binding->entry, size, binding->entry_rule);
        text += size + 1;
    }
    if (count > BOUND_MOST)
        return refuse_tokens_line(reader, "saw %zu %ss, allowed: %d", count, binding->entry,
                                  BOUND_MOST);
    return true;
}

static bool check_binding(const struct reader *reader, const struct word *name,
                          const struct word *word, const struct binding *binding)
{
    const size_t length = word->length - binding->key_length;
    if (is_operator(name))
        return refuse_tokens_line(
            reader, "saw %ss of " EXPORTER_OPERATOR ", allowed: %ss of an agent's token",
            binding->entry, binding->entry);
    if (length > binding->most_bytes)
        return refuse_tokens_line(reader, "saw %ss of %zu bytes, allowed: %zu", binding->entry,
                                  length, binding->most_bytes);
    return (length == 0 && binding->may_be_empty) ||
           check_bound_to(reader, binding, word->text + binding->key_length, length);
}

static bool read_binding(const struct reader *reader, const struct word *name,
                         const struct word *word, struct exporter_token_owner *owner)
{
    const struct binding *binding = binding_of(word);
    if (!check_binding(reader, name, word, binding))
        return false;
    const char **value = bound_value(binding, owner);
    if (*value != NULL)
        return refuse_tokens_line(reader, "saw %s twice, allowed: once in a line", binding->key);
    *value = base_arena_copy(reader->arena, word->text + binding->key_length,
                             word->length - binding->key_length);
    return *value != NULL || no_memory(reader);
}

static bool add_token(const struct reader *reader, const struct word *name,
                      const struct word *token, const struct exporter_token_owner *bound)
{
    struct exporter_api_tokens *tokens = reader->tokens;
    struct entry *entry = &tokens->entries[tokens->count];
    if (tokens->count == EXPORTER_TOKENS_MAX)
        return refuse_tokens_line(reader, "saw too many tokens, allowed: %d", EXPORTER_TOKENS_MAX);
    if (!make_digest(token->text, token->length, &entry->digest))
        return refuse_tokens_line(reader, "GnuTLS cannot compute a SHA-256 digest");
    const struct entry *twin = token_entry(tokens, &entry->digest);
    if (twin != NULL)
        return refuse_tokens_line(
            reader, "saw the token of line %zu again, allowed: each token once", twin->line);
    entry->line = reader->line;
    entry->owner = *bound;
    entry->owner.name = base_arena_copy(reader->arena, name->text, name->length);
    if (entry->owner.name == NULL)
        return no_memory(reader);
    tokens->count++;
    return true;
}

/* Splits at blanks, up to a comment; answers how many words there are, at most one too many. */
static size_t split(const char *line, size_t length, struct word words[WORDS_MOST + 1])
{
    size_t count = 0;
    const char *end = line + length;
    while (count <= WORDS_MOST) {
        while (line < end && (*line == ' ' || *line == '\t' || *line == '\r'))
            line++;
        if (line == end || *line == '#')
            break;
        words[count].text = line;
        while (line < end && *line != ' ' && *line != '\t' && *line != '\r')
            line++;
        words[count].length = (size_t)(line - words[count].text);
        count++;
    }
    return count;
}

/* Whether all words behind the token say what it is bound to. */
static bool are_bindings(const struct word words[WORDS_MOST + 1], size_t count)
{
    for (size_t i = WORDS_LEAST; i < count; i++) {
        if (i == WORDS_MOST || binding_of(&words[i]) == NULL)
            return false;
    }
    return count >= WORDS_LEAST;
}

static bool read_line(const struct reader *reader, const char *line, size_t length)
{
    struct word words[WORDS_MOST + 1];
    struct exporter_token_owner bound = {0};
    const size_t count = split(line, length, words);
    if (count == 0)
        return true;
    if (!are_bindings(words, count))
        return refuse_tokens_line(reader,
                                  "saw %s, allowed: NAME TOKEN [scopes=SCOPE,SCOPE] "
                                  "[publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]",
                                  count == 1 ? "one word" : "more than two words");
    bool good = check_token_name(reader, &words[0]) && check_token(reader, &words[1]);
    for (size_t i = WORDS_LEAST; i < count && good; i++)
        good = read_binding(reader, &words[0], &words[i], &bound);
    return good && add_token(reader, &words[0], &words[1], &bound);
}

static bool read_lines(struct reader *reader, const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop != NULL ? stop : end;
        reader->line++;
        if (!read_line(reader, text, (size_t)(stop - text)))
            return false;
        text = stop + (stop < end);
    }
    if (reader->tokens->count > 0)
        return true;
    /* no caller could be admitted: more likely a truncated file than intended */
    exporter_error_set(reader->error,
                       "%s: api.tokens_file: saw no tokens, allowed: one NAME TOKEN per line",
                       reader->file);
    return false;
}

static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

const struct exporter_api_tokens *exporter_api_tokens_read(const char *file, const char *text,
                                                           size_t length, struct base_arena *arena,
                                                           struct exporter_error *error)
{
    struct exporter_api_tokens *tokens = base_arena_calloc(arena, 1, sizeof *tokens);
    struct reader reader = {.file = file, .arena = arena, .tokens = tokens, .error = error};
    const size_t lines = count_lines(text, length);
    const size_t room = lines < EXPORTER_TOKENS_MAX ? lines : EXPORTER_TOKENS_MAX + 1;
    if (length > EXPORTER_CONFIG_FILE_MAX) {
        exporter_error_set(error, "%s: saw more than 1MiB, allowed: a file of up to 1MiB", file);
        return NULL;
    }
    if (tokens != NULL)
        tokens->entries = base_arena_calloc(arena, room, sizeof *tokens->entries);
    if (tokens == NULL || tokens->entries == NULL) {
        no_memory(&reader);
        return NULL;
    }
    return read_lines(&reader, text, length) ? tokens : NULL;
}

const struct exporter_api_tokens *
exporter_api_tokens_load(const char *path, struct base_arena *arena, struct exporter_error *error)
{
    size_t length;
    char *text = exporter_config_slurp(path, &length, error);
    if (text == NULL)
        return NULL;
    const struct exporter_api_tokens *tokens =
        exporter_api_tokens_read(path, text, length, arena, error);
    explicit_bzero(text, length);
    free(text);
    return tokens;
}
