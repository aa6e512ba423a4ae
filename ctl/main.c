/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl: the operator's command line. Parses the line and runs its command. One thread. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/command_line.h"
#include "ctl/handoff_id.h"
#include "ctl/help.h"

static int run_without_command(const struct ctl_line *line)
{
    FILE *out = line->help ? stdout : stderr;
    if (line->version)
        return ctl_version(line);
    if (line->group) {
        if (!line->help)
            fprintf(stderr, "handoffctl %s: missing COMMAND\n", line->group);
        ctl_help_group(out, line->group);
    } else {
        ctl_help_overview(out);
    }
    return line->help ? CTL_OK : CTL_USAGE;
}

static int run_line(struct ctl_line *line)
{
    if (!line->command)
        return run_without_command(line);
    if (line->help) {
        ctl_help_command(stdout, line->command);
        return CTL_OK;
    }
    const int code = ctl_whole_ids_of_options(line);
    return code == CTL_OK ? line->command->run(line) : code;
}

/* A full disk is a failure, even if the command succeeded: its output is incomplete. */
static int flush_output(int code)
{
    const int why = fflush(stdout) != 0 ? errno : 0;
    if (why == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "handoffctl: cannot write output: %s\n", strerror(why != 0 ? why : EIO));
    return code == CTL_OK ? CTL_FAILED : code;
}

int main(int argc, char *argv[])
{
    struct ctl_line line;
    int code = ctl_line_parse(&line, argc, argv);
    if (code == CTL_OK)
        code = run_line(&line);
    ctl_line_free(&line);
    return flush_output(code);
}
