/* SPDX-License-Identifier: Apache-2.0 */
/* The help of handoffctl; see help.h. One thread. */
#include "ctl/help.h"

#include <string.h>

#include "client/handoff.h"
#include "ctl/command_line.h"
#include "exporter/version.h"

enum {
    WIDTH = 80,
    OVERVIEW_INDENT = 34, /* of what a command does, in the overview */
    OPTION_INDENT = 29,   /* of what an option does */
};

static const char exits_of_calls[] =
    "Exit code: 0 done, 1 rejected or failed, 2 usage error, 3 the sidecar cannot be reached, 4 "
    "not found.\n";

const char *ctl_help_exits(const struct ctl_command *command)
{
    return command->exits ? command->exits : exits_of_calls;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

/* Fills lines of WIDTH from `column` on, with `indent` in front of each further one. */
static void put_wrapped(FILE *out, const char *text, size_t indent, size_t column)
{
    bool first = true;
    while (*text) {
        const size_t word = strcspn(text, " \n");
        if (!first && column + 1 + word > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, word, out);
        column += word;
        text += word;
        text += strspn(text, " \n");
        first = false;
    }
    fputc('\n', out);
}

/* What a thing is, beside its name or, if that is too long, on the next line. */
static void put_beside(FILE *out, int column, int indent, const char *text)
{
    if (column + 1 > indent) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", indent - column, "");
    put_wrapped(out, text, (size_t)indent, (size_t)indent);
}

/* ---- commands ---------------------------------------------------------------------------------
 */

static int print_operands(FILE *out, const struct ctl_command *command)
{
    int written = 0;
    const struct ctl_operand *operand = command->operands;
    for (; operand && operand->name; operand++)
        written += fprintf(out, operand->optional ? " [%s%s]" : " %s%s", operand->name,
                           operand->many ? "..." : "");
    return written;
}

void ctl_help_synopsis(FILE *out, const struct ctl_command *command)
{
    print_operands(out, command);
    if (command->options || command->calls_api || command->calls_web)
        fputs(" [OPTION ...]", out);
}

void ctl_help_usage(FILE *out, const struct ctl_command *command)
{
    fprintf(out, "usage: handoffctl %s", command->name);
    ctl_help_synopsis(out, command);
    fputc('\n', out);
}

static void print_summary(FILE *out, const struct ctl_command *command)
{
    int column = fprintf(out, "  %s", command->name);
    column += print_operands(out, command);
    put_beside(out, column, OVERVIEW_INDENT, command->help);
}

void ctl_help_overview(FILE *out)
{
    fputs("usage: handoffctl COMMAND [OPERAND ...] [OPTION ...]\n", out);
    for (size_t i = 0; i < ctl_command_count; i++) {
        if (ctl_commands[i].heading)
            fprintf(out, "\n%s:\n", ctl_commands[i].heading);
        if (!ctl_commands[i].hidden)
            print_summary(out, &ctl_commands[i]);
    }
    fputs("\nhandoffctl COMMAND --help describes a command, handoffctl --version prints the "
          "version.\n",
          out);
}

void ctl_help_group(FILE *out, const char *group)
{
    const size_t length = strlen(group);
    fprintf(out, "usage: handoffctl %s COMMAND [OPERAND ...] [OPTION ...]\n\n", group);
    for (size_t i = 0; i < ctl_command_count; i++) {
        const char *name = ctl_commands[i].name;
        if (strncmp(name, group, length) == 0 && (name[length] == ' ' || name[length] == '\0'))
            print_summary(out, &ctl_commands[i]);
    }
    fprintf(out, "\nhandoffctl %s COMMAND --help describes one.\n", group);
}

/* ---- options ----------------------------------------------------------------------------------
 */

/* What a value can be, where the help does not say it. */
static void print_choices(const struct ctl_option *option, char *text, size_t size)
{
    size_t length = 0;
    if (option->kind == CTL_CHOICE || option->kind == CTL_WORD)
        snprintf(text, size, "%s; %s", option->choices, option->help);
    else if (option->kind == CTL_STATE) {
        length = (size_t)snprintf(text, size, "%s: ", option->help);
#define HANDOFF_STATE(name, number, word, ...)                                                     \
    length += (size_t)snprintf(text + length, size - length, "%s|", word);
#include "client/model/handoff_model.def"
        text[length - 1] = '\0';
    } else
        snprintf(text, size, "%s%s", option->help, option->repeatable ? "; repeatable" : "");
}

static void print_option(FILE *out, const struct ctl_option *option)
{
    char text[512];
    int column = option->letter ? fprintf(out, "  -%c, --%s", option->letter, option->name)
                                : fprintf(out, "      --%s", option->name);
    if (option->argument)
        column += fprintf(out, " %s", option->argument);
    print_choices(option, text, sizeof text);
    put_beside(out, column, OPTION_INDENT, text);
}

static void print_options(FILE *out, const char *heading, const struct ctl_option *options)
{
    if (options && heading)
        fprintf(out, "\n%s:\n", heading);
    for (; options && options->name; options++)
        print_option(out, options);
}

static void print_examples(FILE *out, const char *const *examples)
{
    if (!examples)
        return;
    fprintf(out, "\nExample%s:\n", examples[1] ? "s" : "");
    for (; *examples; examples++)
        fprintf(out, "  %s\n", *examples);
}

void ctl_help_command(FILE *out, const struct ctl_command *command)
{
    const struct ctl_option *output = ctl_shared_options(command, CTL_SHARED_OUTPUT);
    ctl_help_usage(out, command);
    fprintf(out, "\n%s\n", command->help);
    if (command->details)
        put_wrapped(out, command->details, 0, 0);
    if (command->alias)
        fprintf(out, "handoffctl %s is the same.\n", command->alias);
    print_options(out, "Options", command->options);
    print_options(out, command->options ? NULL : "Options", output);
    print_options(out, "The sidecar", ctl_shared_options(command, CTL_SHARED_API));
    print_options(out, command->calls_api ? NULL : "The sidecar",
                  ctl_shared_options(command, CTL_SHARED_WEB));
    if (*ctl_help_exits(command)) {
        fputc('\n', out);
        put_wrapped(out, ctl_help_exits(command), 0, 0);
    }
    print_examples(out, command->examples);
}

/* ---- the commands about this program ----------------------------------------------------------
 */

int ctl_help(const struct ctl_line *line)
{
    char name[128];
    if (line->noperands == 0) {
        ctl_help_overview(stdout);
        return CTL_OK;
    }
    const char *second = ctl_operand(line, 1);
    snprintf(name, sizeof name, "%s%s%s", line->operands[0], second ? " " : "",
             second ? second : "");
    const struct ctl_command *command = ctl_find_command(name);
    if (command)
        ctl_help_command(stdout, command);
    if (!second && ctl_is_group(name)) {
        fputs(command ? "\n" : "", stdout);
        ctl_help_group(stdout, name);
    } else if (!command) {
        fprintf(stderr, "handoffctl: unknown command \"%s\", see handoffctl help\n", name);
        return CTL_USAGE;
    }
    return CTL_OK;
}

int ctl_version(const struct ctl_line *line)
{
    (void)line;
    printf("handoffctl, version %s\n", exporter_version());
    return CTL_OK;
}
