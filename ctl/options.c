/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a sub-command; see options.h. One thread. */
#include "ctl/options.h"

#include <stdio.h>
#include <string.h>

#include "ctl/input.h"

bool ctl_take_option(const struct ctl_option *options, size_t count, int argc, char *const argv[],
                     int *i)
{
    for (size_t o = 0; o < count; o++) {
        if (options[o].flag && strcmp(argv[*i], options[o].name) == 0) {
            *options[o].flag = true;
            return true;
        }
        const char *value = options[o].value ? ctl_option(options[o].name, argc, argv, i) : NULL;
        if (value && *i < argc) {
            *options[o].value = value;
            return true;
        }
        if (value)
            return false;
    }
    return false;
}

static int take_word(const struct ctl_command *command, const struct ctl_line *line, size_t *taken,
                     const char *word)
{
    if (word[0] == '-') {
        fprintf(stderr, "handoffctl %s: %s: unknown option, or its value is missing\n",
                command->name, word);
        return CTL_USAGE;
    }
    if (*taken == line->nwords) {
        fprintf(stderr, "handoffctl %s: unexpected argument \"%s\"\n", command->name, word);
        return CTL_USAGE;
    }
    line->words[(*taken)++] = word;
    return CTL_OK;
}

int ctl_take_line(const struct ctl_command *command, const struct ctl_line *line, int first,
                  int argc, char *const argv[])
{
    size_t taken = 0;
    int code = CTL_OK;
    for (int i = first; i < argc && code == CTL_OK; i++) {
        const char *word = argv[i]; /* a missing value moves i past the end */
        if (!ctl_api_option(line->api, argc, argv, &i) &&
            !ctl_take_option(line->options, line->noptions, argc, argv, &i))
            code = take_word(command, line, &taken, word);
    }
    return code;
}

int ctl_run_verb(const struct ctl_command *command, const struct ctl_verb *verbs, size_t count,
                 int argc, char *const argv[])
{
    char what[128] = "expected a verb:";
    for (size_t v = 0; v < count; v++) {
        if (argc > 1 && strcmp(argv[1], verbs[v].name) == 0)
            return verbs[v].run(command, argc - 1, argv + 1);
        size_t length = strlen(what);
        snprintf(what + length, sizeof(what) - length, "%s %s", v ? "," : "", verbs[v].name);
    }
    return ctl_usage_error(command, what);
}
