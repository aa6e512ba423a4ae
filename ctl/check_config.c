/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl check-config: validates configuration files with the daemon's reader, which prints the
   result. One thread. */
#include "ctl/command_line.h"
#include "exporter/config/config.h"

int ctl_check_config(const struct ctl_line *line)
{
    int code = CTL_OK;
    for (size_t i = 0; i < line->noperands; i++) {
        if (exporter_config_check(line->operands[i], NULL) != 0)
            code = CTL_FAILED; /* the remaining files are still checked */
    }
    return code;
}
