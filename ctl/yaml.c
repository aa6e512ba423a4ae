/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON values as YAML. Strings are always in double quotes with the escapes that JSON and YAML
 * share, so that no reader takes one for a number, a date or a boolean; what YAML does not allow in
 * them, or would fold, is escaped. One thread.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/document.h"
#include "ctl/text.h"
#include "lib/base/utf8.h"

static void put_yaml_string(const char *text, size_t size)
{
    putchar('"');
    while (size > 0) {
        uint32_t character;
        const size_t length = base_utf8_next(text, size, &character);
        if (character == '"' || character == '\\')
            printf("\\%c", (char)character);
        else if (character == '\n')
            fputs("\\n", stdout);
        else if (ctl_is_unsafe(character))
            printf("\\u%04X", character >= BASE_UTF8_INVALID ? 0xFFFDu : character);
        else
            fwrite(text, 1, length, stdout);
        text += length;
        size -= length;
    }
    putchar('"');
}

/* A key of ours is left without quotes, unless YAML 1.1 takes it for a boolean or null. */
static bool is_plain_key(const char *key)
{
    static const char *const words[] = {"y",   "n",    "yes",   "no",  "on",
                                        "off", "true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(key, words[i]) == 0)
            return false;
    }
    return *key && strspn(key, "abcdefghijklmnopqrstuvwxyz_") == strlen(key);
}

/* YAML 1.1 knows an exponent only after a fraction and with a sign. */
static void put_yaml_number(const char *text)
{
    const char *exponent = strpbrk(text, "eE");
    if (!exponent) {
        fputs(text, stdout);
        return;
    }
    printf("%.*s%se%s%s", (int)(exponent - text), text,
           memchr(text, '.', (size_t)(exponent - text)) ? "" : ".0",
           strchr("+-", exponent[1]) ? "" : "+", exponent + 1);
}

static void put_yaml_scalar(yyjson_val *value)
{
    if (yyjson_is_str(value))
        put_yaml_string(yyjson_get_str(value), yyjson_get_len(value));
    else if (yyjson_is_raw(value))
        put_yaml_number(yyjson_get_raw(value));
    else if (yyjson_is_bool(value))
        fputs(yyjson_get_bool(value) ? "true" : "false", stdout);
    else if (yyjson_is_arr(value))
        fputs("[]", stdout);
    else if (yyjson_is_obj(value))
        fputs("{}", stdout);
    else
        fputs("null", stdout);
}

static void put_node(yyjson_val *value, int depth, bool in_line);

static void put_members(yyjson_val *object, int depth, bool in_line)
{
    size_t i, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, count, key, value)
    {
        printf("%*s", i == 0 && in_line ? 0 : 2 * depth, "");
        if (is_plain_key(yyjson_get_str(key)))
            fputs(yyjson_get_str(key), stdout);
        else
            put_yaml_string(yyjson_get_str(key), yyjson_get_len(key));
        putchar(':');
        put_node(value, depth + 1, false);
    }
}

static void put_elements(yyjson_val *array, int depth, bool in_line)
{
    size_t i, count;
    yyjson_val *value;
    yyjson_arr_foreach(array, i, count, value)
    {
        printf("%*s-", i == 0 && in_line ? 0 : 2 * depth, "");
        put_node(value, depth + 1, true);
    }
}

/* What follows "key:" or "-", with the line feed at its end. A container inside an array begins on
 * the line of its "-". */
static void put_node(yyjson_val *value, int depth, bool in_line)
{
    if (!yyjson_is_ctn(value) || unsafe_yyjson_get_len(value) == 0) {
        putchar(' ');
        put_yaml_scalar(value);
        putchar('\n');
        return;
    }
    putchar(in_line ? ' ' : '\n');
    if (yyjson_is_obj(value))
        put_members(value, depth, in_line);
    else
        put_elements(value, depth, in_line);
}

void ctl_put_yaml(yyjson_val *value)
{
    if (yyjson_is_obj(value) && yyjson_obj_size(value) > 0)
        put_members(value, 0, false);
    else if (yyjson_is_arr(value) && yyjson_arr_size(value) > 0)
        put_elements(value, 0, false);
    else {
        put_yaml_scalar(value);
        putchar('\n');
    }
}
