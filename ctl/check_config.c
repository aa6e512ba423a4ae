/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl check-config: validates configuration files with the daemon's reader, which prints the
   result. One thread. */
#include "ctl/command.h"

#include "exporter/config/config.h"

int ctl_check_config(const struct ctl_command *command, int argc, char *const argv[])
{
    int code = CTL_OK;

    if (argc < 2)
        return ctl_usage_error(command, "missing FILE");
    for (int i = 1; i < argc; i++) {
        if (exporter_config_check(argv[i], NULL) != 0)
            code = CTL_FAILED; /* the remaining files are still checked */
    }
    return code;
}
