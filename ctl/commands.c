/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands, from commands.def, and lookups in it. Constant data; one thread. */
#include "ctl/command.h"

#include <limits.h>
#include <string.h>

#include "client/handoff.h"

#define OPERANDS(...)                                                                              \
    .operands = (const struct ctl_operand[])                                                       \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define OPTIONS(...)                                                                               \
    .options = (const struct ctl_option[])                                                         \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define EXAMPLES(...)                                                                              \
    .examples = (const char *const[])                                                              \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

const struct ctl_command ctl_commands[] = {
#define COMMAND(function, title, ...) {.name = (title), .run = (function), __VA_ARGS__},
#include "ctl/commands.def"
#undef COMMAND
};

const size_t ctl_command_count = sizeof ctl_commands / sizeof *ctl_commands;

static const struct ctl_option output_options[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FORMAT",
     .kind = CTL_CHOICE,
     .choices = "table|wide|json|yaml|name",
     .help =
         "table fits the terminal, or 100 columns; wide has more columns; name prints ids only"},
    {.name = "json", .help = "the same as -o json"},
    {0}};

static const struct ctl_option api_options[] = {
    {.name = "api.url",
     .argument = "URL",
     .help = "the agent API: http://127.0.0.1:8780, or unix:PATH; also $HANDOFF_API_URL"},
    {.name = "token-file",
     .argument = "FILE",
     .kind = CTL_FILE,
     .help = "file with the bearer token to send; also $HANDOFF_TOKEN_FILE"},
    {0}};

static const struct ctl_option web_options[] = {
    {.name = "web.url",
     .argument = "URL",
     .help = "the web listener: http://127.0.0.1:9780; also $HANDOFF_WEB_URL"},
    {0}};

static const struct ctl_option general_options[] = {
    {.name = "help", .letter = 'h', .help = "describe the command"}, {0}};

const struct ctl_option *ctl_shared_options(const struct ctl_command *command,
                                            enum ctl_shared which)
{
    switch (which) {
    case CTL_SHARED_OUTPUT:
        return command->formats ? output_options : NULL;
    case CTL_SHARED_API:
        return command->calls_api ? api_options : NULL;
    case CTL_SHARED_WEB:
        return command->calls_web ? web_options : NULL;
    case CTL_SHARED_ALL:
        return general_options;
    }
    return NULL;
}

const struct ctl_command *ctl_find_command(const char *name)
{
    for (size_t i = 0; i < ctl_command_count; i++) {
        const struct ctl_command *command = &ctl_commands[i];
        if (strcmp(command->name, name) == 0 ||
            (command->alias && strcmp(command->alias, name) == 0))
            return command;
    }
    return NULL;
}

bool ctl_is_group(const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i < ctl_command_count; i++) {
        if (strncmp(ctl_commands[i].name, word, length) == 0 && ctl_commands[i].name[length] == ' ')
            return true;
    }
    return false;
}
