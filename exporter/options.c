/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line. Each row of options.def becomes a struct option_row; parsing walks argv once
 * and hands each value to the reader of the row's kind. Defaults go through the same readers, so
 * that a default outside its own bounds cannot exist.
 *
 * Main thread, before any other starts.
 */
#include "exporter/options.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/version.h"
#include "lib/base/check.h"
#include "lib/base/nearest.h"
#include "lib/base/units.h"

enum option_kind { FLAG, PATH, URL_PATH, TCP_LIST, ADDRESS, CHOICE, DURATION };

struct option_row {
    const char *name;
    const char *argument;
    const char *fallback;
    const char *choices;
    const char *help;
    uint64_t least;
    uint64_t most;
    size_t offset; /* of the field in struct exporter_options */
    enum option_kind kind;
};

static const struct option_row rows[] = {
#define OPTION(field, kind, name, argument, fallback, least, most, choices, help)                  \
    {                                                                                              \
        name, argument, fallback, choices,                                                         \
        help, least,    most,     offsetof(struct exporter_options, field),                        \
        kind},
#include "exporter/options.def"
#undef OPTION
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

_Static_assert(sizeof(enum exporter_log_level) == sizeof(unsigned) &&
                   sizeof(enum exporter_log_format) == sizeof(unsigned),
               "a CHOICE is stored as unsigned");

/* ---- values -------------------------------------------------------------------------------- */

static bool refuse_option_value(const struct option_row *row, const char *value,
                                const char *allowed, struct exporter_error *error)
{
    struct base_quoted quoted;

    exporter_error_set(error, "--%s: saw %s, allowed: %s", row->name,
                       base_quote(&quoted, value, strlen(value)), allowed);
    return false;
}

static bool read_path(const struct option_row *row, const char *value, void *field,
                      struct exporter_error *error)
{
    size_t length = strlen(value);

    if (length < row->least || length > row->most) {
        return refuse_option_value(row, value, "a path of 1 to 4095 bytes", error);
    }
    *(const char **)field = value;
    return true;
}

/* The unreserved characters of RFC 3986 and '/': what needs no escaping in a request line and is
 * never taken for a query. */
static bool is_url_path(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";

    return text[0] == '/' && strspn(text, letters) == strlen(text) && strstr(text, "//") == NULL;
}

static bool read_url_path(const struct option_row *row, const char *value, void *field,
                          struct exporter_error *error)
{
    size_t length = strlen(value);

    if (length < row->least || length > row->most || !is_url_path(value)) {
        return refuse_option_value(row, value,
                                   "a path such as /metrics, 2 to 255 characters long, made up of "
                                   "letters, digits and -._~/",
                                   error);
    }
    if (strncmp(value, "/-/", 3) == 0) {
        return refuse_option_value(
            row, value, "a path outside /-/, which is reserved for health checks and reloads",
            error);
    }
    *(const char **)field = value;
    return true;
}

static bool read_tcp_list(const struct option_row *row, const char *value, void *field,
                          struct exporter_error *error)
{
    struct exporter_addresses *list = field;
    struct exporter_address address;

    if (!exporter_address_parse(value, &address) || address.is_unix) {
        return refuse_option_value(row, value,
                                   "HOST:PORT such as 127.0.0.1:9780, :9780 or [::1]:9780", error);
    }
    if (list->count == EXPORTER_WEB_LISTEN_MAX) {
        return refuse_option_value(row, value, "at most 8 addresses", error);
    }
    list->items[list->count++] = address;
    return true;
}

static bool read_address(const struct option_row *row, const char *value, void *field,
                         struct exporter_error *error)
{
    if (!exporter_address_parse(value, field)) {
        return refuse_option_value(
            row, value,
            "HOST:PORT such as 127.0.0.1:8780, or unix:PATH with a path of 1 to 107 bytes", error);
    }
    return true;
}

static bool read_choice(const struct option_row *row, const char *value, void *field,
                        struct exporter_error *error)
{
    int index = base_choice_index(row->choices, value);

    if (index < 0) {
        return refuse_option_value(row, value, row->choices, error);
    }
    *(unsigned *)field = (unsigned)index;
    return true;
}

static bool read_duration(const struct option_row *row, const char *value, void *field,
                          struct exporter_error *error)
{
    struct base_printed least;
    struct base_printed most;
    struct exporter_error allowed;
    uint64_t ms;

    if (!base_duration_parse(value, &ms) || ms < row->least || ms > row->most) {
        exporter_error_set(&allowed, "a duration from %s to %s such as %s",
                           base_duration_print(&least, row->least),
                           base_duration_print(&most, row->most), row->fallback);
        return refuse_option_value(row, value, allowed.text, error);
    }
    *(uint64_t *)field = ms;
    return true;
}

static bool read_value(const struct option_row *row, const char *value,
                       struct exporter_options *options, struct exporter_error *error)
{
    void *field = (char *)options + row->offset;

    switch (row->kind) {
    case FLAG:
        *(bool *)field = true;
        return true;
    case PATH:
        return read_path(row, value, field, error);
    case URL_PATH:
        return read_url_path(row, value, field, error);
    case TCP_LIST:
        return read_tcp_list(row, value, field, error);
    case ADDRESS:
        return read_address(row, value, field, error);
    case CHOICE:
        return read_choice(row, value, field, error);
    case DURATION:
        return read_duration(row, value, field, error);
    }
    BASE_CHECK(false); /* a kind without a reader */
    return false;
}

/* ---- names --------------------------------------------------------------------------------- */

static const struct option_row *find_row(const char *name, size_t length)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool refuse_unknown_option(const char *argument, size_t length, struct exporter_error *error)
{
    struct base_nearest nearest = base_nearest_begin(argument + 2, length - 2);
    struct base_quoted quoted;

    for (size_t i = 0; i < ROWS; i++) {
        base_nearest_offer(&nearest, rows[i].name, strlen(rows[i].name));
    }
    base_quote(&quoted, argument, length);
    if (nearest.best != NULL) {
        exporter_error_set(error, "unknown option %s, did you mean --%s?", quoted.text,
                           nearest.best);
    } else {
        exporter_error_set(error, "unknown option %s, see --help", quoted.text);
    }
    return false;
}

/* ---- the command line ---------------------------------------------------------------------- */

/* A walk over argv. `given` remembers which rows were seen, since a second value for an option
 * that takes one would silently undo the first. */
struct walk {
    int argc;
    char *const *argv;
    int at;
    bool given[ROWS];
};

static bool read_option(struct walk *walk, const struct option_row *row, const char *value,
                        struct exporter_options *options, struct exporter_error *error)
{
    if (row->kind == FLAG && value != NULL) {
        return refuse_option_value(row, value, "the option without a value", error);
    }
    if (row->kind != FLAG && value == NULL) {
        if (walk->at == walk->argc) {
            exporter_error_set(error, "--%s: saw no value, allowed: --%s=%s", row->name, row->name,
                               row->argument);
            return false;
        }
        value = walk->argv[walk->at++];
    }
    if (walk->given[row - rows] && row->kind != TCP_LIST) {
        exporter_error_set(error, "--%s: given twice, allowed: once", row->name);
        return false;
    }
    walk->given[row - rows] = true;
    return read_value(row, value, options, error);
}

static bool read_argument(struct walk *walk, const char *argument, struct exporter_options *options,
                          struct exporter_error *error)
{
    struct base_quoted quoted;

    if (strcmp(argument, "-h") == 0) {
        argument = "--help";
    }
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
        exporter_error_set(error, "unexpected argument %s, allowed: options such as --%s=%s",
                           base_quote(&quoted, argument, strlen(argument)), rows[0].name,
                           rows[0].argument);
        return false;
    }
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] == '=' ? argument + length + 1 : NULL;
    const struct option_row *row = length < 2 ? NULL : find_row(argument + 2, length - 2);
    if (row == NULL) {
        return refuse_unknown_option(argument, length, error);
    }
    return read_option(walk, row, value, options, error);
}

/* systemd names the folders of StateDirectory=, with a colon between several. */
static bool default_storage_path(const struct option_row *row, struct exporter_options *options,
                                 struct exporter_error *error)
{
    const char *state = getenv("STATE_DIRECTORY");

    if (state == NULL || state[0] == '\0') {
        return read_value(row, row->fallback, options, error);
    }
    if (strchr(state, ':') != NULL) {
        exporter_error_set(error, "--storage.path: saw several directories in $STATE_DIRECTORY, "
                                  "allowed: one, or --storage.path=DIRECTORY");
        return false;
    }
    return read_value(row, state, options, error);
}

static bool read_default_value(const struct walk *walk, struct exporter_options *options,
                               struct exporter_error *error)
{
    for (size_t i = 0; i < ROWS; i++) {
        bool ok = true;
        if (walk->given[i] || rows[i].fallback == NULL) {
            continue;
        }
        if (rows[i].offset == offsetof(struct exporter_options, storage_path)) {
            ok = default_storage_path(&rows[i], options, error);
        } else {
            ok = read_value(&rows[i], rows[i].fallback, options, error);
        }
        if (!ok) {
            return false;
        }
    }
    return true;
}

bool exporter_options_parse(int argc, char *const argv[], struct exporter_options *options,
                            struct exporter_error *error)
{
    struct walk walk = {.argc = argc, .argv = argv, .at = 1};

    memset(options, 0, sizeof(*options));
    while (walk.at < argc && !options->help) {
        if (!read_argument(&walk, argv[walk.at++], options, error)) {
            return false;
        }
    }
    return read_default_value(&walk, options, error);
}

/* ---- what is printed ----------------------------------------------------------------------- */

enum { HELP_INDENT = 6, HELP_WIDTH = 78 };

/* Words of `text`, in lines of HELP_WIDTH. */
static void print_wrapped(FILE *out, const char *text)
{
    size_t column = HELP_INDENT;

    fprintf(out, "%*s", HELP_INDENT, "");
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > HELP_INDENT && column + 1 + word > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, word, out);
        column += word;
        text += word + strspn(text + word, " ");
    }
    fputc('\n', out);
}

static void print_row(FILE *out, const struct option_row *row)
{
    fprintf(out, "  --%s", row->name);
    if (row->kind != FLAG) {
        fprintf(out, "=%s", row->choices != NULL ? row->choices : row->argument);
    }
    if (row->fallback != NULL) {
        fprintf(out, "  (default: %s)", row->fallback);
    }
    fputc('\n', out);
    print_wrapped(out, row->help);
}

void exporter_options_print_help(FILE *out)
{
    fputs("usage: handoff-exporter [--OPTION=VALUE ...]\n\n"
          "Makes handoffs between LLM agents reliable and visible to Prometheus.\n\n",
          out);
    for (size_t i = 0; i < ROWS; i++) {
        print_row(out, &rows[i]);
    }
    fputs("\nSIGHUP reloads the configuration file; SIGTERM and SIGINT drain and exit.\n"
          "Exit code: 0 stopped normally, 1 failed; the last line on stderr says why.\n",
          out);
}

void exporter_options_print_version(FILE *out)
{
    fprintf(out, "handoff-exporter, version %s\n", exporter_version());
}
