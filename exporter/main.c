/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff-exporter: the daemon's entry point. Reads the command line, then runs the daemon or says
 * why it cannot. Main thread.
 */
#include <stdio.h>
#include <unistd.h>

#include "exporter/config/config.h"
#include "exporter/lifecycle.h"
#include "exporter/log/log.h"
#include "exporter/options.h"
#include "revision.h" /* made by the build */

static void set_up_log(const struct exporter_options *options)
{
    const struct exporter_log_setup setup = {
        .fd = STDERR_FILENO, .level = options->log_level, .format = options->log_format};
    exporter_log_setup(&setup);
}

int main(int argc, char *argv[])
{
    struct exporter_options options;
    struct exporter_error error;
    if (!exporter_options_parse(argc, argv, &options, &error)) {
        fprintf(stderr, "handoff-exporter: %s\n", error.text);
        return EXPORTER_EXIT_FAILED;
    }
    if (options.help) {
        exporter_options_print_help(stdout);
        return EXPORTER_EXIT_OK;
    }
    if (options.version) {
        exporter_options_print_version(stdout);
        return EXPORTER_EXIT_OK;
    }
    if (options.config_check)
        return exporter_config_check(options.config_file, "--config.file");
    set_up_log(&options);
    return exporter_run(&options, HANDOFF_REVISION);
}
