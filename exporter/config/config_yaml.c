/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From text to one YAML document, twice over the text: the first pass only counts, so that the
 * second one composes nothing without bounds.
 *
 * Why: libyaml composes any depth and any number of anchors, and compares each new anchor with all
 * others. An alias is not expanded, it points to the same node, so that "billion laughs" costs
 * nothing here; the depth of our walk is the depth of our table.
 *
 * On the thread that loads the file.
 */
#include <inttypes.h>
#include <string.h>

#include "exporter/config/config_internal.h"

enum {
    DEPTH_MAX = 16,     /* the table needs 4 */
    ANCHORS_MAX = 100,  /* each one is compared with all others */
    NODES_MAX = 100000, /* twice what 1,000 agents with every key set have */
};

/* Where in the text: line and column counted from 1. */
struct position {
    size_t line;
    size_t column;
};

static struct position position_of_mark(yaml_mark_t mark)
{
    return (struct position){mark.line + 1, mark.column + 1};
}

static struct position position_of_offset(const char *text, size_t length, size_t offset)
{
    struct position position = {1, 1};

    for (size_t i = 0; i < offset && i < length; i++) {
        position.column++;
        if (text[i] == '\n') {
            position.line++;
            position.column = 1;
        }
    }
    return position;
}

static bool refuse_at(const char *file, struct position at, const char *message,
                      struct exporter_error *error)
{
    exporter_error_set(error, "%s:%zu:%zu: %s", file, at.line, at.column, message);
    return false;
}

/* libyaml's own errors. The reader's have no mark, only an offset into the text. */
static bool refuse_syntax(const yaml_parser_t *parser, const char *file, const char *text,
                          size_t length, struct exporter_error *error)
{
    struct position at = position_of_mark(parser->problem_mark);
    struct exporter_error message;

    /* where libyaml's composer has no memory, it does not always say why it failed */
    if (parser->error == YAML_MEMORY_ERROR || parser->error == YAML_NO_ERROR) {
        exporter_error_set(error, "%s: out of memory", file);
        return false;
    }
    if (parser->error == YAML_READER_ERROR) {
        at = position_of_offset(text, length, parser->problem_offset);
    }
    exporter_error_set(&message, "not valid YAML: %s%s%s",
                       parser->context != NULL ? parser->context : "",
                       parser->context != NULL ? ", " : "",
                       parser->problem != NULL ? parser->problem : "unknown error");
    return refuse_at(file, at, message.text, error);
}

/* ---- the counting pass --------------------------------------------------------------------- */

struct count {
    size_t depth;
    size_t anchors;
    size_t nodes;
    size_t documents;
};

static void count_node(struct count *count, const yaml_char_t *anchor)
{
    count->nodes++;
    if (anchor != NULL) {
        count->anchors++;
    }
}

/* NULL where the event is within the limits, else what is wrong. */
static const char *count_event(struct count *count, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        count->documents++;
        break;
    case YAML_SCALAR_EVENT:
        count_node(count, event->data.scalar.anchor);
        break;
    case YAML_ALIAS_EVENT:
        count->nodes++;
        break;
    case YAML_SEQUENCE_START_EVENT:
        count_node(count, event->data.sequence_start.anchor);
        count->depth++;
        break;
    case YAML_MAPPING_START_EVENT:
        count_node(count, event->data.mapping_start.anchor);
        count->depth++;
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        count->depth--;
        break;
    default:
        break;
    }
    if (count->documents > 1) {
        return "saw a second document, allowed: one";
    }
    if (count->depth > DEPTH_MAX) {
        return "nested too deeply, allowed: 16 levels";
    }
    if (count->anchors > ANCHORS_MAX) {
        return "too many anchors, allowed: 100";
    }
    return count->nodes > NODES_MAX ? "too many values, allowed: 100000" : NULL;
}

static bool start_parser(yaml_parser_t *parser, const char *file, const char *text, size_t length,
                         struct exporter_error *error)
{
    if (yaml_parser_initialize(parser) == 0) {
        exporter_error_set(error, "%s: out of memory", file);
        return false;
    }
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(parser, (const unsigned char *)text, length);
    return true;
}

static bool within_limits(const char *file, const char *text, size_t length,
                          struct exporter_error *error)
{
    struct count count = {0};
    yaml_parser_t parser;
    bool ok;
    bool end = false;

    ok = start_parser(&parser, file, text, length, error);
    if (!ok) {
        return false;
    }
    while (ok && !end) {
        yaml_event_t event;
        if (yaml_parser_parse(&parser, &event) == 0) {
            ok = refuse_syntax(&parser, file, text, length, error);
            break;
        }
        const char *wrong = count_event(&count, &event);
        if (wrong != NULL) {
            ok = refuse_at(file, position_of_mark(event.start_mark), wrong, error);
        }
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return ok;
}

bool exporter_config_yaml(const char *file, const char *text, size_t length,
                          yaml_document_t *document, struct exporter_error *error)
{
    yaml_parser_t parser;
    bool ok;

    if (length > EXPORTER_CONFIG_FILE_MAX) {
        exporter_error_set(error, "%s: saw more than 1MiB, allowed: a file of up to 1MiB", file);
        return false;
    }
    if (!within_limits(file, text, length, error) ||
        !start_parser(&parser, file, text, length, error)) {
        return false;
    }
    ok = yaml_parser_load(&parser, document) != 0 ||
         refuse_syntax(&parser, file, text, length, error);
    yaml_parser_delete(&parser);
    return ok;
}
