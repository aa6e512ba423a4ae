/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds credentials, see find.h. A credential is a long word: fifteen or more characters in a row
 * that are neither blanks nor most punctuation. Only a URL with a password may be shorter, and has
 * an "@", and the first line of a private key, which has dashes. So eight such bytes in a row, at a
 * multiple of eight, are part of every other credential, and the first look is for these: a few
 * comparisons for sixteen bytes at once. Prose rarely has them. The words that do are searched from
 * the beginning of each of their runs of letters and digits, where a prefix may stand; or a value,
 * if a name is before it.
 *
 * Each byte is read a bounded number of times, whatever the text: a run of one alphabet is measured
 * once, and what looks backwards has a limit.
 *
 * Pure, any thread.
 */
#include "client/secrets/find.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"

/* ---- characters ----------------------------------------------------------------------------- */

/* The alphabets of values, and the two more runs that a JWT has. */
enum run {
    UPPER,
    HEX,
    ALNUM,
    DASHED,
    DOTTED,
    BASE64,
    BASE64URL,
    PADDED64,
    TOKEN68,
    PERCENT,
    JWT_PART
};
_Static_assert(JWT_PART + 1 == HANDOFF_SECRET_RUNS, "find.h has room for all runs");

static bool is_letter(char c)
{
    return (unsigned char)((c | 0x20) - 'a') < 26;
}

static bool is_decimal(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static bool is_alnum(char c)
{
    return is_letter(c) || is_decimal(c);
}

static bool is_one_of(char c, const char *characters)
{
    return c != '\0' && strchr(characters, c);
}

static bool belongs_to(enum run run, char c)
{
    switch (run) {
    case UPPER:
        return is_decimal(c) || (c >= 'A' && c <= 'Z');
    case HEX:
        return is_decimal(c) || (unsigned char)((c | 0x20) - 'a') < 6;
    case ALNUM:
        return is_alnum(c);
    case DASHED:
        return is_alnum(c) || c == '-';
    case DOTTED:
        return is_alnum(c) || is_one_of(c, "-_.");
    case BASE64:
        return is_alnum(c) || is_one_of(c, "+/=");
    case PADDED64:
        return is_alnum(c) || is_one_of(c, "-_=");
    case TOKEN68:
        return is_alnum(c) || is_one_of(c, "-_.~+/=");
    case PERCENT:
        return is_alnum(c) || is_one_of(c, "-_%+/=");
    default:
        return is_alnum(c) || c == '-' || c == '_';
    }
}

/* What words are made of here: everything that is visible and ASCII. */
static bool is_in_word(char c)
{
    return c > ' ' && c < 0x7f;
}

/* What may stand between a value and its name, right before the value. */
static bool is_separator(char c)
{
    return is_one_of(c, " \t\r\n=:\"'`>");
}

/* ---- the first look ------------------------------------------------------------------------- */

/* Sixteen bytes that gcc and clang compare at once, on every machine. */
typedef signed char bytes_16 __attribute__((vector_size(16)));
typedef int16_t pairs_16 __attribute__((vector_size(16)));
enum { BLOCK = sizeof(bytes_16), LONG_WORD = 15 };

/* The highest bit of each byte, the first byte's as the lowest. */
static inline uint64_t high_bits(bytes_16 bytes)
{
#ifdef __SSE2__
    typedef char chars_16 __attribute__((vector_size(16)));
    return (unsigned)__builtin_ia32_pmovmskb128((chars_16)bytes);
#else
    uint64_t bits = 0;
    for (unsigned i = 0; i < BLOCK; i++)
        bits |= (uint64_t)(bytes[i] < 0) << i;
    return bits;
#endif
}

static inline bytes_16 load_block(const char *text)
{
    bytes_16 bytes;
    memcpy(&bytes, text, sizeof bytes);
    return bytes;
}

/* A bit for each byte of a word: from '%' to '~'. Bytes beyond ASCII are negative. */
static inline uint64_t word_bits(bytes_16 bytes)
{
    return high_bits((bytes_16)(bytes > '$'));
}

/* The bytes that are an "@", and pairs of dashes; five in a row have such a pair. */
static inline bytes_16 marks(bytes_16 bytes)
{
    return (bytes_16)(bytes == '@') | (bytes_16)((pairs_16)bytes == 0x2d2d);
}

/* The bits at which LONG_WORD bits in a row begin; of these eight are a byte, which is a quicker
 * question. */
static inline uint64_t long_words(uint64_t bits)
{
    const uint64_t lowest = UINT64_C(0x0101010101010101), highest = lowest << 7;
    if (((~bits - lowest) & bits & highest) == 0)
        return 0;
    bits &= bits >> 1;
    bits &= bits >> 2;
    bits &= bits >> 4;
    return bits & bits >> 7;
}

/* The less than 32 bytes from `from` on, after the bits of the block before. A block at the end of
 * the text is looked at whole, so some bytes twice. */
static bool glance_at_rest(struct base_span text, size_t from, uint64_t bits, size_t *at)
{
    bytes_16 marked = {0};
    size_t i = from;
    if (i + BLOCK <= text.size) {
        const bytes_16 bytes = load_block(text.data + i);
        bits |= word_bits(bytes) << BLOCK;
        marked = marks(bytes);
        i += BLOCK;
    }
    if (i < text.size) {
        const bytes_16 bytes = load_block(text.data + text.size - BLOCK);
        bits |= word_bits(bytes) >> (BLOCK - (text.size - i)) << (BLOCK + (i - from));
        marked |= marks(bytes);
    }
    const uint64_t words = long_words(bits);
    *at = words && !high_bits(marked) ? from + (unsigned)__builtin_ctzll(words) - BLOCK : from;
    return words || high_bits(marked);
}

/* Whether the text may hold one, at or after `from`; then it is in a word at or after `at`, or in
 * the one that `at` is in. */
static bool glance_from(struct base_span text, size_t from, size_t *at)
{
    enum { STEP = 2 * BLOCK };
    uint64_t bits = 0; /* the lowest are those of the block before, where a word may begin */
    size_t i = from;
    for (; i + STEP <= text.size; i += STEP) {
        const bytes_16 one = load_block(text.data + i), two = load_block(text.data + i + BLOCK);
        bits |= word_bits(one) << BLOCK | word_bits(two) << STEP;
        const uint64_t words = long_words(bits);
        const bool marked = high_bits(marks(one) | marks(two));
        if (words || marked) {
            *at = marked ? i : i + (unsigned)__builtin_ctzll(words) - BLOCK;
            return true;
        }
        bits >>= STEP;
    }
    return i < text.size && glance_at_rest(text, i, bits, at);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Where the run ends that has or begins at `at`. */
static size_t run_end(struct handoff_secret_search *search, unsigned slot, enum run run, size_t at)
{
    struct handoff_secret_run *known = &search->runs[slot];
    if (at >= known->begin && at < known->end)
        return known->end;
    size_t end = at;
    while (end < search->text.size && belongs_to(run, search->text.data[end]))
        end++;
    *known = (struct handoff_secret_run){at, end};
    return end;
}

/* ---- how values look ------------------------------------------------------------------------ */

enum { LOOKED_AT = 48, DISTINCT = 8 }; /* a random value of 16 has fewer once in 10,000 */

/* What a value is made of, by its first characters. */
struct look {
    bool lower, upper, digits;
    unsigned distinct;
};

static struct look look_at(const char *value, size_t size)
{
    struct look look = {0};
    uint64_t seen[2] = {0};
    for (size_t i = 0; i < size && i < LOOKED_AT; i++) {
        const unsigned c = (unsigned char)value[i] & 0x7f;
        const uint64_t bit = UINT64_C(1) << (c & 63);
        look.distinct += !(seen[c >> 6] & bit);
        seen[c >> 6] |= bit;
        look.lower |= value[i] >= 'a' && value[i] <= 'z';
        look.upper |= value[i] >= 'A' && value[i] <= 'Z';
        look.digits |= is_decimal(value[i]);
    }
    return look;
}

static bool is_varied(const char *value, size_t size)
{
    return look_at(value, size).distinct >= DISTINCT;
}

/* No word, and no row of x. */
static bool is_mixed(const char *value, size_t size)
{
    const struct look look = look_at(value, size);
    return look.distinct >= DISTINCT && look.lower + look.upper + look.digits >= 2;
}

static bool is_all_kinds(const char *value, size_t size)
{
    const struct look look = look_at(value, size);
    return look.distinct >= DISTINCT && look.lower && look.upper && look.digits;
}

static bool has_digits(const char *value, size_t size)
{
    const struct look look = look_at(value, size);
    return look.distinct >= DISTINCT && look.digits;
}

/* The keys of AWS's documents end like this. */
static bool is_no_example(const char *value, size_t size)
{
    static const char example[] = "EXAMPLE";
    return is_varied(value, size) && !memmem(value, size, example, sizeof example - 1);
}

static bool is_in_two_parts(const char *value, size_t size)
{
    enum { ID_SIZE = 22 };
    return is_mixed(value, size) && value[ID_SIZE] == '.' &&
           !memchr(value + ID_SIZE + 1, '.', size - ID_SIZE - 1);
}

/* As in Ethernet, gzip and PNG. */
static uint32_t crc32_of(const char *text, size_t size)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)text[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* The last six characters are the checksum of those before, in base 62. */
static bool has_checksum(const char *value, size_t size)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { CHECKSUM_SIZE = 6, BASE = sizeof digits - 1 };
    uint32_t rest = crc32_of(value, size - CHECKSUM_SIZE);
    for (size_t i = 1; i <= CHECKSUM_SIZE; i++, rest /= BASE) {
        if (value[size - i] != digits[rest % BASE])
            return false;
    }
    return true;
}

/* ---- forms that have a function of their own ------------------------------------------------- */

static bool set_found(struct handoff_secret_found *found, size_t begin, size_t end)
{
    found->at = begin;
    found->size = end - begin;
    return true;
}

/* Whether 32 characters of base64 follow each other: the material of a key, and no prose. */
static bool has_material(const char *text, size_t size)
{
    enum { MATERIAL = 32 };
    size_t run = 0;
    for (size_t i = 0; i < size && run < MATERIAL; i++)
        run = belongs_to(BASE64, text[i]) ? run + 1 : 0;
    return run >= MATERIAL;
}

/* Where the first line of a private key ends, after its dashes; 0: it is none. */
static size_t header_end(struct base_span text, size_t at)
{
    static const char dashes[] = "-----", what[] = "PRIVATE KEY";
    enum { HEADER_MAX = 64, DASHES = sizeof dashes - 1 };
    size_t rest = text.size - at, size = rest < HEADER_MAX ? rest : HEADER_MAX;
    const char *begin = text.data + at + DASHES;
    const char *end = memmem(begin, size - DASHES, dashes, DASHES);
    if (!end || !memmem(begin, (size_t)(end - begin), what, sizeof what - 1))
        return 0;
    return (size_t)(end - text.data) + DASHES;
}

/* Up to its last line; without one, up to whatever has dashes next, or to the end of the text. */
static bool match_private_key(struct handoff_secret_search *search, size_t at,
                              struct handoff_secret_found *found)
{
    static const char dashes[] = "-----", last[] = "-----END ";
    const struct base_span text = search->text;
    const size_t begin = header_end(text, at);
    if (begin == 0)
        return false;
    const char *next = memmem(text.data + begin, text.size - begin, dashes, sizeof dashes - 1);
    size_t end = next ? (size_t)(next - text.data) : text.size;
    if (!has_material(text.data + begin, end - begin))
        return false;
    if (text.size - end >= sizeof last && memcmp(text.data + end, last, sizeof last - 1) == 0) {
        const size_t name = end + sizeof dashes - 1;
        next = memmem(text.data + name, text.size - name, dashes, sizeof dashes - 1);
        end = next ? (size_t)(next - text.data) + sizeof dashes - 1 : text.size;
    }
    return set_found(found, at, end);
}

static bool is_of_azure(char c)
{
    return belongs_to(DOTTED, c) || c == '~';
}

/* Three characters, a digit, "Q~", and some thirty more. */
static bool match_azure_secret(struct handoff_secret_search *search, size_t at,
                               struct handoff_secret_found *found)
{
    enum { BEFORE = 5, LEAST = 31, MOST = 34 };
    const struct base_span text = search->text;
    size_t end = at + 1;
    if (at < BEFORE || at - BEFORE < search->at || text.data[at - 1] != 'Q' ||
        !is_decimal(text.data[at - 2]))
        return false;
    for (size_t i = at - BEFORE; i < at; i++) {
        if (!is_of_azure(text.data[i]))
            return false;
    }
    while (end < text.size && end - at <= MOST + 1 && is_of_azure(text.data[end]))
        end++;
    const size_t size = end - at - 1;
    return size >= LEAST && size <= MOST && is_mixed(text.data + at + 1, size) &&
           set_found(found, at - BEFORE, end);
}

/* Header, payload and signature; the first two are JSON objects in base64. */
static bool match_jwt(struct handoff_secret_search *search, size_t at,
                      struct handoff_secret_found *found)
{
    enum { HEADER = 16, PAYLOAD = 12, SIGNATURE = 20 };
    static const char object[] = "eyJ";
    const struct base_span text = search->text;
    const size_t header = run_end(search, BASE64URL, BASE64URL, at);
    if (header - at < HEADER || text.size - header < PAYLOAD + SIGNATURE ||
        text.data[header] != '.' || memcmp(text.data + header + 1, object, sizeof object - 1) != 0)
        return false;
    const size_t payload = run_end(search, JWT_PART, BASE64URL, header + 1);
    if (payload - header < PAYLOAD || payload == text.size || text.data[payload] != '.')
        return false;
    size_t end = payload + 1;
    while (end < text.size && belongs_to(BASE64URL, text.data[end]))
        end++;
    return end - payload > SIGNATURE && set_found(found, at, end);
}

/* "$PASSWORD", "<password>", "***" and our own markers stand for one. */
static bool is_placeholder(const char *password, size_t size)
{
    return is_one_of(password[0], "$<{[(*%") &&
           (password[0] != '%' || size < 2 || !is_alnum(password[1]));
}

/* What is between the ":" of a user and the last "@" of a host. */
static bool match_url_password(struct handoff_secret_search *search, size_t at,
                               struct handoff_secret_found *found)
{
    enum { AUTHORITY_MAX = 1024, SLASHES = 3 };
    const struct base_span text = search->text;
    size_t begin = at + SLASHES, colon = 0, host = 0;
    for (size_t i = begin; i < text.size && i - begin < AUTHORITY_MAX; i++) {
        const char c = text.data[i];
        if (c == '/' || c == '"' || c == '\\' || !is_in_word(c))
            break;
        if (c == ':' && colon == 0)
            colon = i;
        else if (c == '@')
            host = i;
    }
    if (at == 0 || !is_alnum(text.data[at - 1]) || colon == 0 || host <= colon + 1 ||
        is_placeholder(text.data + colon + 1, host - colon - 1))
        return false;
    return set_found(found, colon + 1, host);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ANY SIZE_MAX

struct form {
    enum handoff_secret kind;
    enum { PREFIX_IS_PART, PREFIX_GOES_BEFORE, NAME_GOES_BEFORE, OWN_SHAPE } how;
    const char *text; /* the prefix or the name */
    size_t size;      /* its bytes */
    enum run run;
    size_t least, most;
    bool (*looks)(const char *value, size_t size);
    bool (*match)(struct handoff_secret_search *search, size_t at,
                  struct handoff_secret_found *found);
};

static const struct form forms[] = {
#define TOKEN(kind, prefix, run, least, most, looks)                                               \
    {HANDOFF_SECRET_##kind,                                                                        \
     PREFIX_IS_PART,                                                                               \
     prefix,                                                                                       \
     sizeof(prefix) - 1,                                                                           \
     run,                                                                                          \
     least,                                                                                        \
     most,                                                                                         \
     looks,                                                                                        \
     NULL},
#define VALUE(kind, prefix, run, least, most, looks)                                               \
    {HANDOFF_SECRET_##kind,                                                                        \
     PREFIX_GOES_BEFORE,                                                                           \
     prefix,                                                                                       \
     sizeof(prefix) - 1,                                                                           \
     run,                                                                                          \
     least,                                                                                        \
     most,                                                                                         \
     looks,                                                                                        \
     NULL},
#define NAMED(kind, name, run, least, most, looks)                                                 \
    {HANDOFF_SECRET_##kind,                                                                        \
     NAME_GOES_BEFORE,                                                                             \
     name,                                                                                         \
     sizeof(name) - 1,                                                                             \
     run,                                                                                          \
     least,                                                                                        \
     most,                                                                                         \
     looks,                                                                                        \
     NULL},
#define SHAPE(kind, prefix, match)                                                                 \
    {HANDOFF_SECRET_##kind, OWN_SHAPE, prefix, sizeof(prefix) - 1, ALNUM, 0, 0, NULL, match},
#include "client/secrets/forms.def"
};
enum { FORMS = sizeof forms / sizeof *forms };
_Static_assert(FORMS < UINT8_MAX, "an index of the table fits into a byte, and 0 means none");

/* Classes of characters, for the loop that reads most. */
enum { IN_WORD = 1, IN_RUN = 2, SEPARATES = 4, ESCAPES = 8 };

/* The rows by the first byte of their prefix, and those of names by the last byte of the name; in
 * the order of the table. 0: no more. Written once. */
static struct {
    uint8_t by_first[256], by_last[256], next[FORMS + 1];
    uint8_t classes[256];
} form_index;
static pthread_once_t indexed = PTHREAD_ONCE_INIT;

static uint8_t form_class_at(struct base_span text, size_t at)
{
    return form_index.classes[(unsigned char)text.data[at]];
}

static void index_forms(void)
{
    for (int c = 0; c < 256; c++)
        form_index.classes[c] =
            (uint8_t)((is_in_word((char)c) ? IN_WORD : 0) | (is_alnum((char)c) ? IN_RUN : 0) |
                      (is_separator((char)c) ? SEPARATES : 0) | (c == '\\' ? ESCAPES : 0));
    for (size_t i = FORMS; i > 0; i--) {
        const struct form *form = &forms[i - 1];
        uint8_t *list = form->how == NAME_GOES_BEFORE
                            ? &form_index.by_last[(unsigned char)form->text[form->size - 1]]
                            : &form_index.by_first[(unsigned char)form->text[0]];
        form_index.next[i] = *list;
        *list = (uint8_t)i;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Reads a text backwards, then what goes before it. */
struct backwards {
    struct base_span text, before;
    size_t at; /* in `text`, the byte behind */
};

/* The next letter or digit in lower case, past a few other characters; 0: there is none near. */
static char read_back(struct backwards *reader)
{
    enum { APART = 8 };
    for (int skipped = 0; skipped < APART; skipped++) {
        if (reader->at == 0) {
            if (!reader->before.size)
                return '\0';
            reader->text = reader->before;
            reader->at = reader->before.size;
            reader->before = (struct base_span){0};
        }
        const char c = reader->text.data[--reader->at];
        if (is_alnum(c))
            return is_letter(c) ? (char)(c | 0x20) : c;
    }
    return '\0';
}

static bool follows_name(struct backwards reader, const struct form *form)
{
    for (size_t i = form->size; i > 0; i--) {
        if (read_back(&reader) != form->text[i - 1])
            return false;
    }
    return true;
}

/* ---- searching ------------------------------------------------------------------------------- */

static bool match_run(struct handoff_secret_search *search, const struct form *form, size_t at,
                      size_t value, struct handoff_secret_found *found)
{
    const struct base_span text = search->text;
    size_t end = run_end(search, form->run, form->run, value);
    if (end < text.size && is_alnum(text.data[end]))
        return false;
    while (end > value && text.data[end - 1] == '.') /* of the sentence */
        end--;
    if (end - value < form->least || end - value > form->most ||
        !form->looks(text.data + value, end - value))
        return false;
    return set_found(found, form->how == PREFIX_IS_PART ? at : value, end);
}

static bool match_form(struct handoff_secret_search *search, const struct form *form, size_t at,
                       struct handoff_secret_found *found)
{
    const struct base_span text = search->text;
    found->kind = form->kind;
    if (text.size - at <= form->size || memcmp(text.data + at, form->text, form->size) != 0)
        return false;
    return form->match ? form->match(search, at, found)
                       : match_run(search, form, at, at + form->size, found);
}

static bool match_prefix(struct handoff_secret_search *search, size_t at,
                         struct handoff_secret_found *found)
{
    uint8_t i = form_index.by_first[(unsigned char)search->text.data[at]];
    for (; i != 0; i = form_index.next[i]) {
        if (match_form(search, &forms[i - 1], at, found))
            return true;
    }
    return false;
}

/* A value begins the text, or follows what may be between it and its name. */
static bool match_name(struct handoff_secret_search *search, size_t at,
                       struct handoff_secret_found *found)
{
    const struct backwards reader = {search->text, search->before, at};
    if (at > 0 && !(form_class_at(search->text, at - 1) & SEPARATES))
        return false;
    struct backwards peek = reader;
    uint8_t i = form_index.by_last[(unsigned char)read_back(&peek)];
    for (; i != 0; i = form_index.next[i]) {
        const struct form *form = &forms[i - 1];
        found->kind = form->kind;
        if (follows_name(reader, form) && match_run(search, form, at, at, found))
            return true;
    }
    return false;
}

/* The next place where a credential may begin: a run of letters and digits, or what is none. The
 * letter of an escape, as in JSON within JSON, is no part of a run. */
static size_t next_beginning(struct base_span text, size_t at)
{
    const uint8_t class = form_class_at(text, at++);
    if (class & ESCAPES)
        return at + (at < text.size && is_one_of(text.data[at], "nrt"));
    while (class & IN_RUN && at < text.size && form_class_at(text, at) & IN_RUN)
        at++;
    return at;
}

/* Up to the end of the word; search->at is then there, or behind what was found. */
static bool search_word(struct handoff_secret_search *search, size_t at,
                        struct handoff_secret_found *found)
{
    const struct base_span text = search->text;
    while (at < text.size && !is_in_word(text.data[at]))
        at++;
    for (; at < text.size && form_class_at(text, at) & IN_WORD; at = next_beginning(text, at)) {
        if (!match_prefix(search, at, found) && !match_name(search, at, found))
            continue;
        BASE_CHECK(found->at >= search->at && found->at + found->size <= text.size);
        search->at = found->at + found->size;
        return true;
    }
    search->at = at;
    return false;
}

bool handoff_secret_look(struct base_span text, size_t *at)
{
    return text.size >= HANDOFF_SECRET_SHORTEST && glance_from(text, 0, at);
}

void handoff_secret_begin(struct handoff_secret_search *search, struct base_span text,
                          struct base_span before, size_t at)
{
    *search = (struct handoff_secret_search){.text = text, .before = before, .suspect = at};
    pthread_once(&indexed, index_forms);
}

bool handoff_secret_next(struct handoff_secret_search *search, struct handoff_secret_found *found)
{
    size_t at = search->suspect;
    do {
        while (at > search->at && is_in_word(search->text.data[at - 1]))
            at--;
        if (search_word(search, at, found)) {
            search->suspect = search->at;
            return true;
        }
    } while (glance_from(search->text, search->at, &at));
    search->suspect = search->text.size;
    return false;
}
