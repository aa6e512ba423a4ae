/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The man pages of both programs: handoffctl.1 from the table of commands, handoff-exporter.8 from
 * the daemon's options. The build runs `handoffctl __man` for each. One thread.
 */
#include <stdio.h>
#include <string.h>

#include "client/handoff.h"
#include "ctl/command_line.h"
#include "ctl/help.h"
#include "exporter/version.h"

/* Text as roff: hyphens and backslashes as themselves, and no line that begins with a request. */
static void put_roff(const char *text)
{
    bool at_start = true;
    for (; *text; text++) {
        if (at_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        at_start = *text == '\n';
    }
}

static void put_bold(const char *before, const char *text)
{
    fputs("\\fB", stdout);
    put_roff(before);
    put_roff(text);
    fputs("\\fR", stdout);
}

static void begin_page(const char *name, const char *section, const char *what)
{
    printf(".\\\" SPDX-License-Identifier: Apache-2.0\n.\\\" Written by handoffctl from its own "
           "tables.\n"
           ".TH %s %s \"\" \"handoff-exporter %s\"\n.SH NAME\n",
           name, section, exporter_version());
    put_roff(name);
    printf(" \\- %s\n", what);
}

/* ---- handoffctl.1 -----------------------------------------------------------------------------
 */

static void put_man_option(const struct ctl_option *option)
{
    fputs(".TP\n", stdout);
    if (option->letter)
        printf("\\fB\\-%c\\fR, ", option->letter);
    put_bold("--", option->name);
    if (option->argument) {
        fputs(" \\fI", stdout);
        put_roff(option->argument);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put_roff(option->help);
    if (option->choices) {
        fputs(" (", stdout);
        put_roff(option->choices);
        putchar(')');
    }
    putchar('\n');
}

static void put_man_options(const struct ctl_option *options)
{
    for (; options && options->name; options++)
        put_man_option(options);
}

static void put_man_examples(const struct ctl_command *command)
{
    if (!command->examples)
        return;
    fputs(".PP\nFor example:\n.PP\n.nf\n.RS\n", stdout);
    for (const char *const *example = command->examples; *example; example++) {
        put_roff(*example);
        putchar('\n');
    }
    fputs(".RE\n.fi\n", stdout);
}

static void put_man_command(const struct ctl_command *command)
{
    const struct ctl_operand *operand = command->operands;
    fputs(".SS ", stdout);
    put_bold("", command->name);
    for (; operand && operand->name; operand++)
        printf(operand->optional ? " [\\fI%s\\fR]%s" : " \\fI%s\\fR%s", operand->name,
               operand->many ? "..." : "");
    putchar('\n');
    put_roff(command->help);
    putchar('\n');
    if (command->details)
        put_roff(command->details);
    if (command->alias) {
        put_bold("handoffctl ", command->alias);
        fputs(" is the same.\n", stdout);
    }
    put_man_options(command->options);
    if (command->exits && *command->exits) {
        fputs(".PP\n", stdout);
        put_roff(command->exits);
    }
    put_man_examples(command);
}

static void put_shared_options(void)
{
    const struct ctl_command all = {.formats = true, .calls_api = true, .calls_web = true};
    fputs(".SH OPTIONS\nThey can be anywhere on the line. Commands that print an answer of the "
          "sidecar "
          "take \\fB\\-o\\fR and \\fB\\-\\-json\\fR; those that call the agent API take "
          "\\fB\\-\\-api.url\\fR and \\fB\\-\\-token\\-file\\fR; those that call the web listener, "
          "\\fB\\-\\-web.url\\fR.\n",
          stdout);
    for (int i = 0; i < CTL_SHARED_COUNT; i++)
        put_man_options(ctl_shared_options(&all, (enum ctl_shared)i));
}

static void put_ctl_page(void)
{
    const struct ctl_command any = {0};
    begin_page("handoffctl", "1",
               "look at handoffs between agents, decide about them, operate the sidecar");
    fputs(".SH SYNOPSIS\n\\fBhandoffctl\\fR \\fICOMMAND\\fR [\\fIOPERAND\\fR ...] [\\fIOPTION\\fR "
          "...]\n"
          ".SH DESCRIPTION\nhandoffctl is the operator's command line of "
          "\\fBhandoff\\-exporter\\fR(8).\n",
          stdout);
    for (size_t i = 0; i < ctl_command_count; i++) {
        if (ctl_commands[i].heading) {
            fputs(".SH ", stdout);
            put_roff(ctl_commands[i].heading);
            putchar('\n');
        }
        if (!ctl_commands[i].hidden)
            put_man_command(&ctl_commands[i]);
    }
    put_shared_options();
    fputs(".SH EXIT STATUS\n", stdout);
    put_roff(ctl_help_exits(&any));
    fputs(".SH ENVIRONMENT\n\\fBHANDOFF_API_URL\\fR, \\fBHANDOFF_WEB_URL\\fR, "
          "\\fBHANDOFF_TOKEN_FILE\\fR: "
          "in place of the options. \\fBNO_COLOR\\fR: no colours. \\fBVISUAL\\fR, \\fBEDITOR\\fR: "
          "the "
          "editor. \\fBUSER\\fR: who decided, in the record of decisions.\n"
          ".SH SEE ALSO\n\\fBhandoff\\-exporter\\fR(8)\n",
          stdout);
}

/* ---- handoff-exporter.8 -----------------------------------------------------------------------
 */

static void put_daemon_option(const char *name, const char *argument, const char *fallback,
                              const char *choices, const char *help)
{
    fputs(".TP\n", stdout);
    put_bold("--", name);
    if (argument) {
        fputs("=\\fI", stdout);
        put_roff(argument);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put_roff(help);
    if (choices) {
        fputs(" One of ", stdout);
        put_roff(choices);
        putchar('.');
    }
    if (fallback) {
        fputs(" Default: ", stdout);
        put_roff(fallback);
        putchar('.');
    }
    putchar('\n');
}

static void put_daemon_page(void)
{
    begin_page(
        "handoff-exporter", "8",
        "a sidecar that makes handoffs between LLM agents reliable and visible to Prometheus");
    fputs(".SH SYNOPSIS\n\\fBhandoff\\-exporter\\fR [\\fB\\-\\-\\fIOPTION\\fR=\\fIVALUE\\fR ...]\n"
          ".SH OPTIONS\n",
          stdout);
#define OPTION(field, kind, name, argument, fallback, least, most, choices, help)                  \
    put_daemon_option(name, argument, fallback, choices, help);
#include "exporter/options.def"
#undef OPTION
    fputs(".SH SIGNALS\nSIGHUP reloads the configuration file; SIGTERM and SIGINT drain and exit.\n"
          ".SH EXIT STATUS\n0 stopped normally, 1 failed; the last line on stderr says why.\n"
          ".SH SEE ALSO\n\\fBhandoffctl\\fR(1)\n",
          stdout);
}

int ctl_man(const struct ctl_line *line)
{
    if (strcmp(ctl_operand(line, 0), "handoffctl") == 0)
        put_ctl_page();
    else
        put_daemon_page();
    return CTL_OK;
}
