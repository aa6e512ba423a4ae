/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as values. The codes, their stable names and their classes come from handoff_codes.def and
 * nowhere else. Text that came from outside (field, seen) is copied and cut, and is valid UTF-8
 * whatever came in, because these strings end up in JSON answers. Any thread.
 */
#include "lib/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"

struct code_row {
    const char *name;
    enum handoff_class class;
    const char *meaning;
};

static const struct code_row rows[HANDOFF_CODE_COUNT] = {
#define CODE(name, text, class, meaning)                                                           \
    [HANDOFF_ERR_##name] = {text, HANDOFF_CLASS_##class, meaning},
#include "lib/base/handoff_codes.def"
#undef CODE
};

static const struct code_row *code_row_of(enum handoff_code code)
{
    return (unsigned)code < HANDOFF_CODE_COUNT ? &rows[code] : &rows[HANDOFF_ERR_INTERNAL];
}

const char *handoff_code_name(enum handoff_code code)
{
    return code_row_of(code)->name;
}

const char *handoff_code_meaning(enum handoff_code code)
{
    return code_row_of(code)->meaning;
}

enum handoff_class handoff_code_class(enum handoff_code code)
{
    return code_row_of(code)->class;
}

/* Ends a text where it is no UTF-8 any more: at half a character that a cut left, or at bytes from
   outside that never were any. */
static void end_at_utf8(char *text, size_t length)
{
    text[base_utf8_valid_length(text, length)] = '\0';
}

static void copy_cut(char *to, size_t size, const char *from)
{
    size_t length = from ? strnlen(from, size) : 0;
    if (length == size)
        length = size - 1;
    if (length > 0)
        memcpy(to, from, length);
    end_at_utf8(to, length);
}

static void print_cut(char *to, size_t size, const char *format, va_list arguments)
{
    int length = vsnprintf(to, size, format, arguments);
    if (length < 0)
        to[0] = '\0';
    else if ((size_t)length >= size)
        end_at_utf8(to, size - 1);
}

enum handoff_code handoff_error_clear(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_OK, "", NULL, NULL);
}

/* The fields are terminated one by one and not zeroed as a whole: this runs once per stored row. */
enum handoff_code handoff_error_set(struct handoff_error *error, enum handoff_code code,
                                    const char *message, const char *field, const char *seen)
{
    if (!error)
        return code;
    error->code = code;
    error->message = message;
    error->needed = 0;
    error->allowed[0] = '\0';
    copy_cut(error->field, sizeof error->field, field);
    copy_cut(error->seen, sizeof error->seen, seen);
    return code;
}

#define PRINT_INTO(member)                                                                         \
    do {                                                                                           \
        va_list arguments;                                                                         \
        if (!error)                                                                                \
            return;                                                                                \
        va_start(arguments, format);                                                               \
        print_cut(error->member, sizeof error->member, format, arguments);                         \
        va_end(arguments);                                                                         \
    } while (0)

void handoff_error_allow(struct handoff_error *error, const char *format, ...)
{
    PRINT_INTO(allowed);
}

void handoff_error_field(struct handoff_error *error, const char *format, ...)
{
    PRINT_INTO(field);
}

void handoff_error_seen(struct handoff_error *error, const char *format, ...)
{
    PRINT_INTO(seen);
}

enum handoff_code handoff_error_no_memory(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY, "out of memory; retry later", NULL,
                             NULL);
}

size_t handoff_error_text(const struct handoff_error *error, char *text, size_t size)
{
    int seen = error->seen[0] != '\0', allowed = error->allowed[0] != '\0';
    int field = error->field[0] != '\0';
    const char *message = error->message ? error->message : handoff_code_meaning(error->code);
    int length;
    if (!seen && !allowed && !field)
        length = snprintf(text, size, "%s", message);
    else
        length = snprintf(text, size, "%s (%s%s%s%s%s%s%s)", message, error->field,
                          field && (seen || allowed) ? ": " : "", seen ? "seen " : "", error->seen,
                          seen && allowed ? ", " : "", allowed ? "allowed " : "", error->allowed);
    if (length > 0 && size > 0 && (size_t)length >= size)
        end_at_utf8(text, size - 1);
    return length < 0 ? 0 : (size_t)length;
}
