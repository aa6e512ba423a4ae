/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value: from a YAML node to a typed field, by the kind of its row. A refusal shows what was
 * seen and what the row allows.
 *
 * On the thread that loads the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exporter/config/config_internal.h"
#include "lib/base/check.h"
#include "lib/base/units.h"

/* ---- refusing ------------------------------------------------------------------------------ */

bool exporter_config_is_name(const char *text, size_t length)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    for (size_t i = 0; i < length; i++) {
        if (memchr(letters, text[i], sizeof(letters) - 1) == NULL) {
            return false;
        }
    }
    return length > 0 && length <= EXPORTER_NAME_MAX;
}

/* Appends to a text that is always ended; what does not fit is cut. */
static void append_to_error(struct exporter_error *text, const char *more)
{
    size_t used = strlen(text->text);

    (void)snprintf(text->text + used, sizeof(text->text) - used, "%s", more);
}

static void append_place(struct exporter_error *text, const struct config_place *place)
{
    struct base_quoted quoted;
    char name[EXPORTER_NAME_MAX + 1];

    if (place->above != NULL) {
        append_place(text, place->above);
        append_to_error(text, ".");
    }
    if (exporter_config_is_name(place->name, place->length)) {
        memcpy(name, place->name, place->length);
        name[place->length] = '\0';
        append_to_error(text, name);
    } else {
        append_to_error(text, base_quote(&quoted, place->name, place->length));
    }
}

bool exporter_config_refuse(const struct config_reader *reader, const yaml_node_t *node,
                            const struct config_place *place, const char *format, ...)
{
    struct exporter_error where = {""};
    struct exporter_error what;
    va_list arguments;

    if (place != NULL) {
        append_place(&where, place);
        append_to_error(&where, ": ");
    }
    va_start(arguments, format);
    (void)vsnprintf(what.text, sizeof(what.text), format, arguments);
    va_end(arguments);
    exporter_error_set(reader->error, "%s:%zu:%zu: %s%s", reader->file, node->start_mark.line + 1,
                       node->start_mark.column + 1, where.text, what.text);
    return false;
}

bool exporter_config_no_memory(const struct config_reader *reader)
{
    exporter_error_set(reader->error, "%s: out of memory", reader->file);
    return false;
}

static const char *scalar(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

bool exporter_config_is_null(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (node->data.scalar.length == 0 || strcmp(scalar(node), "~") == 0 ||
            strcmp(scalar(node), "null") == 0);
}

static const char *default_tag(const yaml_node_t *node)
{
    switch (node->type) {
    case YAML_SEQUENCE_NODE:
        return YAML_DEFAULT_SEQUENCE_TAG;
    case YAML_MAPPING_NODE:
        return YAML_DEFAULT_MAPPING_TAG;
    default:
        return YAML_DEFAULT_SCALAR_TAG;
    }
}

static const char *describe_node(const yaml_node_t *node, struct base_quoted *quoted)
{
    if (node->tag != NULL && strcmp((const char *)node->tag, default_tag(node)) != 0) {
        return "a YAML tag";
    }
    if (node->type == YAML_SEQUENCE_NODE) {
        return "a list";
    }
    if (node->type == YAML_MAPPING_NODE) {
        return "keys with values";
    }
    if (exporter_config_is_null(node)) {
        return "nothing";
    }
    return base_quote(quoted, scalar(node), node->data.scalar.length);
}

bool exporter_config_refuse_node(const struct config_reader *reader, const yaml_node_t *node,
                                 const struct config_place *place, const char *allowed)
{
    struct base_quoted quoted;

    return exporter_config_refuse(reader, node, place, "saw %s, allowed: %s",
                                  describe_node(node, &quoted), allowed);
}

/* "a|b|c" as "a, b or c". */
static void append_choices(struct exporter_error *text, const char *choices)
{
    char name[64];

    for (const char *at = choices;;) {
        size_t width = strcspn(at, "|");
        (void)snprintf(name, sizeof(name), "%.*s", (int)width, at);
        append_to_error(text, name);
        at += width;
        if (*at == '\0') {
            return;
        }
        at++;
        append_to_error(text, strchr(at, '|') != NULL ? ", " : " or ");
    }
}

static void describe_range(const struct config_row *row, const char *noun, const char *least,
                           const char *most, struct exporter_error *text)
{
    struct base_printed number;
    const char *example = row->fallback;

    if (example == NULL) {
        example = base_duration_print(&number, row->number != 0 ? row->number : row->least);
    }
    exporter_error_set(text, "a %s from %s to %s such as %s", noun, least, most, example);
}

static void describe_allowed(const struct config_row *row, struct exporter_error *text)
{
    struct base_printed least;
    struct base_printed most;

    exporter_error_set(text, "%s", "");
    switch (row->kind) {
    case CONFIG_NUMBER:
        exporter_error_set(text, "a whole number from %" PRIu64 " to %" PRIu64, row->least,
                           row->most);
        return;
    case CONFIG_DURATION:
        describe_range(row, "duration", base_duration_print(&least, row->least),
                       base_duration_print(&most, row->most), text);
        return;
    case CONFIG_SIZE:
        describe_range(row, "size", base_size_print(&least, row->least),
                       base_size_print(&most, row->most), text);
        return;
    case CONFIG_FLAG:
        exporter_error_set(text, "true or false");
        return;
    case CONFIG_CHOICES:
        exporter_error_set(text, "a list of ");
        append_choices(text, row->choices);
        return;
    case CONFIG_CHOICE:
        append_choices(text, row->choices);
        return;
    case CONFIG_URL:
        exporter_error_set(text,
                           "http://HOST[:PORT][/PATH] or https://..., of up to %" PRIu64
                           " bytes, without user, password and fragment",
                           row->most);
        return;
    case CONFIG_FILE:
        exporter_error_set(text, "the path of a readable file");
        return;
    case CONFIG_NAME:
        exporter_error_set(text,
                           "the name of an agent: 1 to %d letters, digits and ._-, and not "
                           "other, next or broadcast",
                           EXPORTER_NAME_MAX);
        return;
    case CONFIG_SENDERS:
        exporter_error_set(text, "a list of %" PRIu64 " to %" PRIu64 " names of agents, each once",
                           row->least, row->most);
        return;
    case CONFIG_NAMES:
    case CONFIG_AGENT_MAP:
    case CONFIG_PIPELINE_MAP:
    case CONFIG_CHANNEL_MAP:
    case CONFIG_SECTION:
        break;
    }
    BASE_CHECK(false); /* these describe themselves */
}

static bool refuse_value(const struct config_reader *reader, const struct config_row *row,
                         const yaml_node_t *node, const struct config_place *place)
{
    struct exporter_error allowed;

    describe_allowed(row, &allowed);
    return exporter_config_refuse_node(reader, node, place, allowed.text);
}

/* ---- text to value ------------------------------------------------------------------------- */

const char *exporter_config_text(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || exporter_config_is_null(node) ||
        strcmp((const char *)node->tag, YAML_DEFAULT_SCALAR_TAG) != 0 ||
        strlen(scalar(node)) != node->data.scalar.length) {
        return NULL;
    }
    return scalar(node);
}

static void store_number(const struct config_row *row, uint64_t number, void *field)
{
    if (row->size == sizeof(uint64_t)) {
        *(uint64_t *)field = number;
    } else {
        *(uint32_t *)field = (uint32_t)number;
    }
}

static bool set_number(const struct config_row *row, const char *text, void *field)
{
    uint64_t number;

    if (!base_number_parse(text, &number) || number < row->least || number > row->most) {
        return false;
    }
    store_number(row, number, field);
    return true;
}

static bool set_amount(const struct config_row *row, const char *text, void *field)
{
    bool (*parse)(const char *, uint64_t *) =
        row->kind == CONFIG_SIZE ? base_size_parse : base_duration_parse;
    uint64_t amount;

    if (!parse(text, &amount) || amount < row->least || amount > row->most) {
        return false;
    }
    *(uint64_t *)field = amount;
    return true;
}

static bool set_bool(const char *text, void *field)
{
    *(bool *)field = strcmp(text, "true") == 0;
    return *(bool *)field || strcmp(text, "false") == 0;
}

static bool set_choice(const struct config_row *row, const char *text, void *field)
{
    int index = base_choice_index(row->choices, text);

    if (index < 0) {
        return false;
    }
    *(unsigned *)field = (unsigned)index;
    return true;
}

static bool add_choice(const struct config_row *row, const char *text, void *field)
{
    int index = base_choice_index(row->choices, text);

    if (index < 0) {
        return false;
    }
    *(unsigned *)field |= 1u << index;
    return true;
}

/* Kinds whose value is one word; false where the text is none of them. */
static bool set_word(const struct config_row *row, const char *text, void *field)
{
    switch (row->kind) {
    case CONFIG_NUMBER:
        return set_number(row, text, field);
    case CONFIG_DURATION:
    case CONFIG_SIZE:
        return set_amount(row, text, field);
    case CONFIG_FLAG:
        return set_bool(text, field);
    case CONFIG_CHOICE:
        return set_choice(row, text, field);
    case CONFIG_CHOICES:
        return add_choice(row, text, field);
    default:
        BASE_CHECK(false);
        return false;
    }
}

void exporter_config_set_default(const struct config_row *row, void *target)
{
    void *field = (char *)target + row->offset;

    if (row->fallback != NULL) {
        BASE_CHECK(set_word(row, row->fallback, field));
    } else if (row->number != 0) {
        store_number(row, row->number, field);
    }
}

static bool read_word(const struct config_reader *reader, const struct config_row *row,
                      const yaml_node_t *node, const struct config_place *place, void *field)
{
    const char *text = exporter_config_text(node);
    bool wants_plain = row->kind == CONFIG_NUMBER || row->kind == CONFIG_FLAG;

    if (text != NULL && wants_plain && node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        struct exporter_error allowed;
        describe_allowed(row, &allowed);
        return exporter_config_refuse(reader, node, place, "saw quoted text, allowed: %s",
                                      allowed.text);
    }
    return (text != NULL && set_word(row, text, field)) || refuse_value(reader, row, node, place);
}

/* ---- URLs ---------------------------------------------------------------------------------- */

/* Length of the host at `text`, 0 where there is none. */
static size_t host_length(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    static const char address[] = "0123456789abcdefABCDEF:.";

    if (text[0] == '[') {
        size_t inside = strspn(text + 1, address);
        return inside > 0 && text[1 + inside] == ']' ? inside + 2 : 0;
    }
    return strspn(text, letters);
}

/* Moves past ":PORT", where there is one. */
static bool skip_port(const char **text)
{
    char digits[6] = "";
    size_t length;
    uint64_t port;

    if (**text != ':') {
        return true;
    }
    length = strspn(*text + 1, "0123456789");
    if (length >= sizeof(digits)) {
        return false;
    }
    memcpy(digits, *text + 1, length);
    *text += 1 + length;
    return base_number_parse(digits, &port) && port > 0 && port <= UINT16_MAX;
}

/* What may follow the authority: visible ASCII without the characters RFC 3986 leaves out and
 * without '#'; curl would take the rest as it is. */
static bool is_path_and_query(const char *text)
{
    if (*text != '\0' && *text != '/' && *text != '?') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~' || strchr("\"#<>\\^`{|}", *text) != NULL) {
            return false;
        }
    }
    return true;
}

/* "user@host" fails at the '@': it is not a letter of a host and begins no path. */
static bool is_url(const char *text)
{
    if (strncmp(text, "http://", 7) == 0) {
        text += 7;
    } else if (strncmp(text, "https://", 8) == 0) {
        text += 8;
    } else {
        return false;
    }
    size_t host = host_length(text);
    text += host;
    return host > 0 && host <= 255 && skip_port(&text) && is_path_and_query(text);
}

/* What is refused is shown, but not where it may hold a password. */
static bool refuse_url(const struct config_reader *reader, const struct config_row *row,
                       const yaml_node_t *node, const struct config_place *place)
{
    const char *text = exporter_config_text(node);
    struct exporter_error allowed;

    if (text == NULL || strchr(text, '@') == NULL) {
        return refuse_value(reader, row, node, place);
    }
    describe_allowed(row, &allowed);
    return exporter_config_refuse(
        reader, node, place, "saw a URL with a user name (not shown), allowed: %s", allowed.text);
}

static bool read_url(const struct config_reader *reader, const struct config_row *row,
                     const yaml_node_t *node, const struct config_place *place, void *field)
{
    const char *text = exporter_config_text(node);

    if (text == NULL || strlen(text) > row->most || !is_url(text)) {
        return refuse_url(reader, row, node, place);
    }
    *(const char **)field = base_arena_copy(reader->arena, text, strlen(text));
    return *(const char **)field != NULL || exporter_config_no_memory(reader);
}

/* ---- files --------------------------------------------------------------------------------- */

/* A path from the file's folder, unless it begins at the root. */
static char *resolve_path(const struct config_reader *reader, const char *path)
{
    const char *slash = strrchr(reader->file, '/');
    size_t folder = path[0] == '/' || slash == NULL ? 0 : (size_t)(slash - reader->file) + 1;
    size_t size = folder + strlen(path) + 1;
    char *resolved = base_arena_calloc(reader->arena, size, 1);

    if (resolved != NULL) {
        (void)snprintf(resolved, size, "%.*s%s", (int)folder, reader->file, path);
    }
    return resolved;
}

/* 0, or the errno value that says why the file cannot be read. O_NONBLOCK: a FIFO would wait. */
static int try_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    int code = 0;

    if (fd < 0) {
        return errno;
    }
    if (fstat(fd, &status) != 0) {
        code = errno;
    } else if (!S_ISREG(status.st_mode)) {
        code = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    }
    close(fd);
    return code;
}

static bool read_file_path(const struct config_reader *reader, const struct config_row *row,
                           const yaml_node_t *node, const struct config_place *place, void *field)
{
    const char *text = exporter_config_text(node);
    struct base_quoted quoted;
    char reason[128];

    if (text == NULL || strlen(text) < row->least || strlen(text) > row->most) {
        return refuse_value(reader, row, node, place);
    }
    const char *path = resolve_path(reader, text);
    if (path == NULL) {
        return exporter_config_no_memory(reader);
    }
    int code = try_file(path);
    if (code != 0) {
        return exporter_config_refuse(
            reader, node, place, "saw %s (%s), allowed: the path of a readable file",
            base_quote(&quoted, path, strlen(path)), strerror_r(code, reason, sizeof(reason)));
    }
    *(const char **)field = path;
    return true;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Of an agent that need not be configured: one that only sends is not. */
static bool read_any_name(const struct config_reader *reader, const struct config_row *row,
                          const yaml_node_t *node, const struct config_place *place, void *field)
{
    const char *text = exporter_config_text(node);
    const size_t length = text == NULL ? 0 : strlen(text);

    if (!exporter_config_is_name(text, length) || handoff_name_is_reserved(text, length)) {
        return refuse_value(reader, row, node, place);
    }
    *(const char **)field = base_arena_copy(reader->arena, text, length);
    return *(const char **)field != NULL || exporter_config_no_memory(reader);
}

/* ---- lists --------------------------------------------------------------------------------- */

static size_t list_length(const yaml_node_t *node)
{
    return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

static bool is_list(const yaml_node_t *node, uint64_t least, uint64_t most)
{
    return node->type == YAML_SEQUENCE_NODE &&
           strcmp((const char *)node->tag, YAML_DEFAULT_SEQUENCE_TAG) == 0 &&
           list_length(node) >= least && list_length(node) <= most;
}

static const yaml_node_t *list_item(const struct config_reader *reader, const yaml_node_t *node,
                                    size_t index)
{
    return yaml_document_get_node(reader->document, node->data.sequence.items.start[index]);
}

static bool read_choices(const struct config_reader *reader, const struct config_row *row,
                         const yaml_node_t *node, const struct config_place *place, void *field)
{
    if (!is_list(node, row->least, row->most)) {
        return refuse_value(reader, row, node, place);
    }
    *(unsigned *)field = 0;
    for (size_t i = 0; i < list_length(node); i++) {
        const yaml_node_t *item = list_item(reader, node, i);
        unsigned before = *(unsigned *)field;
        if (!read_word(reader, row, item, place, field)) {
            return false;
        }
        if (*(unsigned *)field == before) {
            return exporter_config_refuse(reader, item, place, "given twice, allowed: once");
        }
    }
    return true;
}

static const char *known_agent(const struct config_reader *reader, const char *name)
{
    for (size_t i = 0; i < reader->nagents; i++) {
        if (strcmp(reader->agents[i].options.name, name) == 0) {
            return reader->agents[i].options.name;
        }
    }
    return NULL;
}

/* Answers the agent's own name string, or NULL where the item is refused. */
static const char *read_name(const struct config_reader *reader, const yaml_node_t *item,
                             const struct config_place *place, const char *const *before,
                             size_t nbefore)
{
    const char *text = exporter_config_text(item);
    const char *name = text == NULL ? NULL : known_agent(reader, text);

    if (name == NULL) {
        (void)exporter_config_refuse_node(reader, item, place, "the name of an agent under agents");
        return NULL;
    }
    if (reader->current != NULL && reader->current->options.name == name) {
        (void)exporter_config_refuse_node(reader, item, place, "an agent other than itself");
        return NULL;
    }
    for (size_t i = 0; i < nbefore; i++) {
        if (before[i] == name) {
            (void)exporter_config_refuse_node(reader, item, place, "each agent once");
            return NULL;
        }
    }
    return name;
}

bool exporter_config_read_names(struct config_reader *reader, const yaml_node_t *node,
                                const struct config_place *place, uint64_t least, uint64_t most,
                                struct exporter_names *names)
{
    struct exporter_error allowed;

    if (!is_list(node, least, most)) {
        exporter_error_set(&allowed, "a list of %" PRIu64 " to %" PRIu64 " names of agents", least,
                           most);
        return exporter_config_refuse_node(reader, node, place, allowed.text);
    }
    size_t count = list_length(node);
    const char **items = base_arena_calloc(reader->arena, count, sizeof(*items));
    if (items == NULL) {
        return exporter_config_no_memory(reader);
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = read_name(reader, list_item(reader, node, i), place, items, i);
        if (items[i] == NULL) {
            return false;
        }
    }
    *names = (struct exporter_names){items, count};
    return true;
}

static bool is_among(const char *name, const char *const *names, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < count;
}

/* Agents that only send are not configured, so any names will do. */
static bool read_senders(const struct config_reader *reader, const struct config_row *row,
                         const yaml_node_t *node, const struct config_place *place, void *field)
{
    if (!is_list(node, row->least, row->most)) {
        return refuse_value(reader, row, node, place);
    }
    const size_t count = list_length(node);
    const char **items = base_arena_calloc(reader->arena, count, sizeof(*items));
    if (items == NULL) {
        return exporter_config_no_memory(reader);
    }
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *item = list_item(reader, node, i);
        if (!read_any_name(reader, row, item, place, &items[i])) {
            return false;
        }
        if (is_among(items[i], items, i)) {
            return refuse_value(reader, row, item, place);
        }
    }
    *(struct exporter_names *)field = (struct exporter_names){items, count};
    return true;
}

bool exporter_config_read_value(struct config_reader *reader, const struct config_row *row,
                                const yaml_node_t *node, const struct config_place *place,
                                void *target)
{
    void *field = (char *)target + row->offset;

    switch (row->kind) {
    case CONFIG_URL:
        return read_url(reader, row, node, place, field);
    case CONFIG_FILE:
        return read_file_path(reader, row, node, place, field);
    case CONFIG_NAME:
        return read_any_name(reader, row, node, place, field);
    case CONFIG_SENDERS:
        return read_senders(reader, row, node, place, field);
    case CONFIG_CHOICES:
        return read_choices(reader, row, node, place, field);
    case CONFIG_NAMES:
        return exporter_config_read_names(reader, node, place, row->least, row->most, field);
    default:
        return read_word(reader, row, node, place, field);
    }
}
