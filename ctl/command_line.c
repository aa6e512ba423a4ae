/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a command line; see command_line.h. Two passes: the first finds the command among the
 * words that are neither options nor their values, the second takes options by the command's own
 * table. One thread.
 */
#include "ctl/command_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/help.h"
#include "lib/base/check.h"
#include "lib/base/nearest.h"
#include "lib/base/units.h"

enum { NAME_ROOM = 128 };

/* ---- options ----------------------------------------------------------------------------------
 */

static const struct ctl_option *option_in(const struct ctl_option *options, const char *word,
                                          size_t length)
{
    for (; options && options->name; options++) {
        if (length == 2 && word[0] == '-' && options->letter && word[1] == options->letter)
            return options;
        if (length > 2 && strncmp(word, "--", 2) == 0 && strlen(options->name) == length - 2 &&
            memcmp(options->name, word + 2, length - 2) == 0)
            return options;
    }
    return NULL;
}

static const struct ctl_option *option_of(const struct ctl_command *command, const char *word,
                                          size_t length)
{
    const struct ctl_option *found = option_in(command->options, word, length);
    for (int i = 0; i < CTL_SHARED_COUNT && !found; i++)
        found = option_in(ctl_shared_options(command, (enum ctl_shared)i), word, length);
    return found;
}

/* All options of one name take a value, or none does: otherwise what follows one that stands before
 * the command could be either. */
static const struct ctl_option *option_of_any(const char *word, size_t length)
{
    const struct ctl_option *found = NULL;
    for (size_t i = 0; i < ctl_command_count; i++) {
        const struct ctl_option *option = option_of(&ctl_commands[i], word, length);
        BASE_CHECK(!found || !option || !found->argument == !option->argument);
        found = option ? option : found;
    }
    return found;
}

const struct ctl_option *ctl_find_option(const struct ctl_command *command, const char *word,
                                         size_t length)
{
    return command ? option_of(command, word, length) : option_of_any(word, length);
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

/* Of the name: before "=", or the letter of a short one. */
static size_t length_of_name(const char *word)
{
    return word[1] == '-' ? strcspn(word, "=") : 2;
}

/* The value in the word itself: --name=VALUE, -oVALUE; NULL: none. */
static const char *value_in(const char *word)
{
    const char *rest = word + length_of_name(word);
    if (word[1] != '-')
        return *rest ? rest : NULL;
    return *rest == '=' ? rest + 1 : NULL;
}

/* ---- the command ------------------------------------------------------------------------------
 */

/* Where the words are that are neither options nor values of options: at most two are needed. */
struct words {
    int at[2];
    size_t count;
};

static struct words find_words(int argc, char *const argv[])
{
    struct words words = {{0, 0}, 0};
    for (int i = 1; i < argc && words.count < 2; i++) {
        if (strcmp(argv[i], "--") == 0)
            break;
        if (!is_option(argv[i])) {
            words.at[words.count++] = i;
            continue;
        }
        const struct ctl_option *option = ctl_find_option(NULL, argv[i], length_of_name(argv[i]));
        if (option && option->argument && !value_in(argv[i]))
            i++;
    }
    return words;
}

/* The command with the longest name; leaves in `words` those of its name. */
static const struct ctl_command *match_command(struct words *words, char *const argv[])
{
    char name[NAME_ROOM];
    const struct ctl_command *command = NULL;
    if (words->count == 2) {
        snprintf(name, sizeof name, "%s %s", argv[words->at[0]], argv[words->at[1]]);
        command = ctl_find_command(name);
    }
    if (!command && words->count > 0) {
        words->count = 1;
        command = ctl_find_command(argv[words->at[0]]);
    }
    return command;
}

static void offer_commands(struct base_nearest *nearest)
{
    for (size_t i = 0; i < ctl_command_count; i++) {
        const char *name = ctl_commands[i].name;
        if (!ctl_commands[i].hidden)
            base_nearest_offer(nearest, name, strlen(name));
        if (strchr(name, ' ')) /* the group alone, misspelt */
            base_nearest_offer(nearest, name, strcspn(name, " "));
    }
}

/* "prked list" as a whole, or its first word where the second is an operand. */
static int unknown_command(const char *first, const char *second)
{
    char whole[NAME_ROOM];
    const bool of_group = ctl_is_group(first);
    snprintf(whole, sizeof whole, "%s%s%s", first, of_group && second ? " " : "",
             of_group && second ? second : "");
    struct base_nearest nearest = base_nearest_begin(whole, strlen(whole));
    offer_commands(&nearest);
    if (nearest.best)
        fprintf(stderr, "handoffctl: unknown command \"%s\", did you mean %.*s?\n", whole,
                (int)nearest.best_length, nearest.best);
    else
        fprintf(stderr, "handoffctl: unknown command \"%s\", see handoffctl %s\n", whole,
                of_group ? first : "--help");
    return CTL_USAGE;
}

/* ---- errors -----------------------------------------------------------------------------------
 */

int ctl_usage_error(const struct ctl_line *line, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "handoffctl %s: ", line->command->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    ctl_help_usage(stderr, line->command);
    return CTL_USAGE;
}

static void offer_options(struct base_nearest *nearest, const struct ctl_option *options)
{
    for (; options && options->name; options++)
        base_nearest_offer(nearest, options->name, strlen(options->name));
}

static int unknown_option(const struct ctl_line *line, const char *word)
{
    const int length = (int)(word[1] == '-' ? length_of_name(word) : strlen(word));
    struct base_nearest nearest = base_nearest_begin(word + 2, length > 2 ? (size_t)length - 2 : 0);
    offer_options(&nearest, line->command->options);
    for (int i = 0; i < CTL_SHARED_COUNT; i++)
        offer_options(&nearest, ctl_shared_options(line->command, (enum ctl_shared)i));
    if (word[1] == '-' && nearest.best)
        fprintf(stderr, "handoffctl %s: unknown option %.*s, did you mean --%s?\n",
                line->command->name, length, word, nearest.best);
    else
        fprintf(stderr, "handoffctl %s: unknown option %.*s, see handoffctl %s --help\n",
                line->command->name, length, word, line->command->name);
    return CTL_USAGE;
}

static int bad_value(const struct ctl_line *line, const struct ctl_option *option,
                     const char *value)
{
    if (option->kind == CTL_WHOLE)
        return ctl_usage_error(line, "--%s: saw \"%s\", allowed: a whole number from %ld to %ld",
                               option->name, value, option->least, option->most);
    return ctl_usage_error(line, "--%s: saw \"%s\", allowed: %s", option->name, value,
                           option->choices);
}

/* ---- the second pass --------------------------------------------------------------------------
 */

static bool is_valid(const struct ctl_option *option, const char *value)
{
    uint64_t number;
    if (option->kind == CTL_CHOICE)
        return base_choice_index(option->choices, value) >= 0;
    if (option->kind == CTL_WHOLE)
        return base_number_parse(value, &number) && number >= (uint64_t)option->least &&
               number <= (uint64_t)option->most;
    return true;
}

/* A shared one may come from an alias, and be overridden. */
static bool repeats_in_vain(const struct ctl_line *line, const struct ctl_option *option)
{
    bool is_own = false;
    for (const struct ctl_option *own = line->command->options; own && own->name; own++)
        is_own |= own == option;
    for (size_t i = 0; is_own && option->argument && !option->repeatable && i < line->ngiven; i++) {
        if (line->given[i].option == option)
            return true;
    }
    return false;
}

static int take_option(struct ctl_line *line, int argc, char *const argv[], int *i)
{
    const char *word = argv[*i], *value = value_in(word);
    const size_t length = length_of_name(word);
    const struct ctl_option *option = ctl_find_option(line->command, word, length);
    if (!option)
        return unknown_option(line, word);
    if (!option->argument && value)
        return ctl_usage_error(line, "%.*s takes no value", (int)length, word);
    if (option->argument && !value) {
        if (*i + 1 == argc)
            return ctl_usage_error(line, "%s needs a value: %s %s", word, word, option->argument);
        value = argv[++*i];
    }
    if (value && !is_valid(option, value))
        return bad_value(line, option, value);
    if (repeats_in_vain(line, option))
        return ctl_usage_error(line, "--%s was given twice, allowed: once", option->name);
    line->given[line->ngiven++] = (struct ctl_given){option, value ? value : "", NULL};
    return CTL_OK;
}

static int too_many_operands(const struct ctl_line *line, const char *word)
{
    char name[NAME_ROOM];
    struct base_nearest nearest;
    snprintf(name, sizeof name, "%s %s", line->command->name, word);
    nearest = base_nearest_begin(name, strlen(name));
    for (size_t i = 0; ctl_is_group(line->command->name) && i < ctl_command_count; i++)
        base_nearest_offer(&nearest, ctl_commands[i].name, strlen(ctl_commands[i].name));
    if (nearest.best && strchr(nearest.best, ' '))
        return ctl_usage_error(line, "unexpected argument \"%s\", did you mean %s?", word,
                               nearest.best);
    return ctl_usage_error(line, "unexpected argument \"%s\"", word);
}

static int take_operand(struct ctl_line *line, const char *word)
{
    const struct ctl_operand *operands = line->command->operands;
    size_t most = 0;
    bool many = false;
    for (; operands && operands[most].name; most++)
        many = operands[most].many;
    if (line->noperands >= most && !many)
        return too_many_operands(line, word);
    line->operands[line->noperands++] = word;
    return CTL_OK;
}

static int take_words(struct ctl_line *line, const struct words *skipped, int argc,
                      char *const argv[])
{
    bool only_operands = false;
    int code = CTL_OK;
    for (int i = 1; i < argc && code == CTL_OK; i++) {
        if ((i == skipped->at[0] && skipped->count > 0) ||
            (i == skipped->at[1] && skipped->count > 1))
            continue;
        if (!only_operands && strcmp(argv[i], "--") == 0)
            only_operands = true;
        else if (!only_operands && is_option(argv[i]))
            code = take_option(line, argc, argv, &i);
        else
            code = take_operand(line, argv[i]);
    }
    return code;
}

static int check_operands(const struct ctl_line *line)
{
    const struct ctl_operand *operands = line->command->operands;
    for (size_t i = 0; operands && operands[i].name; i++) {
        if (!operands[i].optional && i >= line->noperands)
            return ctl_usage_error(line, "missing %s", operands[i].name);
        if (i < line->noperands && operands[i].kind == CTL_CHOICE &&
            base_choice_index(operands[i].choices, line->operands[i]) < 0)
            return ctl_usage_error(line, "%s: saw \"%s\", allowed: %s", operands[i].name,
                                   line->operands[i], operands[i].choices);
    }
    return CTL_OK;
}

/* Before a command is known, or where only a group was named: is help or the version asked for? */
static void find_general(struct ctl_line *line, int argc, char *const argv[])
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        line->help |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
        line->version |= !line->command && strcmp(argv[i], "--version") == 0;
    }
}

static enum ctl_format format_of(const struct ctl_line *line)
{
    enum ctl_format format = CTL_TABLE;
    for (size_t i = 0; i < line->ngiven && line->command->formats; i++) {
        const struct ctl_option *option = line->given[i].option;
        if (!option)
            continue;
        if (option->letter == 'o')
            format = (enum ctl_format)base_choice_index(option->choices, line->given[i].value);
        else if (strcmp(option->name, "json") == 0)
            format = CTL_JSON;
    }
    return format;
}

static int parse_for_command(struct ctl_line *line, const struct words *words, int argc,
                             char *const argv[])
{
    int code = take_words(line, words, argc, argv);
    if (code == CTL_OK)
        code = check_operands(line);
    line->format = format_of(line);
    return code;
}

int ctl_line_parse(struct ctl_line *line, int argc, char *const argv[])
{
    struct words words = find_words(argc, argv);
    const char *second = words.count > 1 ? argv[words.at[1]] : NULL;
    *line = (struct ctl_line){0};
    line->command = match_command(&words, argv);
    find_general(line, argc, argv);
    if (line->command && !line->help) {
        line->operands = calloc((size_t)argc, sizeof *line->operands);
        line->given = calloc((size_t)argc, sizeof *line->given);
        BASE_CHECK(line->operands && line->given);
        return parse_for_command(line, &words, argc, argv);
    }
    if (words.count == 0 || line->command)
        return CTL_OK;
    const char *first = argv[words.at[0]];
    if (!ctl_is_group(first) || (second && !line->help))
        return unknown_command(first, second);
    line->group = first;
    return CTL_OK;
}

void ctl_line_free(struct ctl_line *line)
{
    for (size_t i = 0; i < line->ngiven; i++)
        free(line->given[i].whole);
    free(line->operands);
    free(line->given);
    *line = (struct ctl_line){0};
}

/* ---- what was given ---------------------------------------------------------------------------
 */

const char *ctl_operand(const struct ctl_line *line, size_t i)
{
    return i < line->noperands ? line->operands[i] : NULL;
}

static bool has_option(const struct ctl_command *command, const char *name)
{
    char word[NAME_ROOM];
    snprintf(word, sizeof word, "--%s", name);
    return option_of(command, word, strlen(word)) != NULL;
}

const char *ctl_value(const struct ctl_line *line, const char *option)
{
    const char *value = NULL;
    BASE_CHECK(has_option(line->command, option));
    for (size_t i = 0; i < line->ngiven; i++) {
        if (strcmp(line->given[i].option->name, option) == 0)
            value = line->given[i].value;
    }
    return value;
}

bool ctl_flag(const struct ctl_line *line, const char *option)
{
    return ctl_value(line, option) != NULL;
}

long ctl_whole(const struct ctl_line *line, const char *option, long fallback)
{
    const char *value = ctl_value(line, option);
    return value ? strtol(value, NULL, 10) : fallback;
}
