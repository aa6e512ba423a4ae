/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as values. The codes, their stable names and their classes come from handoff_codes.def and
 * nowhere else. Text that came from outside (field, seen) is copied and cut; a cut never leaves
 * half a UTF-8 character behind, because these strings end up in JSON answers.
 */
#include "client/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct code_row {
    const char *name;
    enum handoff_class class;
    const char *meaning;
};

static const struct code_row rows[HANDOFF_CODE_COUNT] = {
#define CODE(name, text, class, meaning)                                                           \
    [HANDOFF_ERR_##name] = {text, HANDOFF_CLASS_##class, meaning},
#include "client/handoff_codes.def"
#undef CODE
};

static const struct code_row *row_of(enum handoff_code code)
{
    return (unsigned)code < HANDOFF_CODE_COUNT ? &rows[code] : &rows[HANDOFF_ERR_INTERNAL];
}

const char *handoff_code_name(enum handoff_code code)
{
    return row_of(code)->name;
}

const char *handoff_code_meaning(enum handoff_code code)
{
    return row_of(code)->meaning;
}

enum handoff_class handoff_code_class(enum handoff_code code)
{
    return row_of(code)->class;
}

/* Drops an incomplete UTF-8 character from the end of a text that was cut. */
static void trim_half_character(char *text, size_t length)
{
    size_t start = length;
    while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xC0u) == 0x80u)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t need = lead >= 0xF0u ? 4 : lead >= 0xE0u ? 3 : lead >= 0xC0u ? 2 : 1;
    if (length - (start - 1) < need)
        text[start - 1] = '\0';
}

static void copy_cut(char *to, size_t size, const char *from)
{
    size_t length = from ? strnlen(from, size) : 0;
    int cut = length == size;
    length = cut ? size - 1 : length;
    if (length > 0)
        memcpy(to, from, length);
    to[length] = '\0';
    if (cut)
        trim_half_character(to, length);
}

static void print_cut(char *to, size_t size, const char *format, va_list arguments)
{
    int length = vsnprintf(to, size, format, arguments);
    if (length < 0)
        to[0] = '\0';
    else if ((size_t)length >= size)
        trim_half_character(to, size - 1);
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
    return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY, "no memory; try again later", NULL,
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
        trim_half_character(text, size - 1);
    return length < 0 ? 0 : (size_t)length;
}
