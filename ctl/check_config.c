/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl check-config: is this configuration file good? */
#include "ctl/command.h"

#include "exporter/config/config.h"

int ctl_check_config(const struct ctl_command *command, int argc, char *const argv[])
{
    int code = CTL_OK;

    if (argc < 2)
        return ctl_usage_error(command, "which file?");
    for (int i = 1; i < argc; i++) {
        if (exporter_config_check(argv[i], NULL) != 0)
            code = CTL_FAILED; /* the others are looked at all the same */
    }
    return code;
}
