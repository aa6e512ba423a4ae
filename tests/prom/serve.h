/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of this folder share: they print their port, obey lines of stdin, and end with
 * it. */
#ifndef TESTS_PROM_SERVE_H
#define TESTS_PROM_SERVE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prom.h"
#include "promhttp.h"

#define MUST(condition) ((condition) ? (void)0 : give_up(#condition, __LINE__))

static inline void give_up(const char *what, int line)
{
    fprintf(stderr, "line %d: %s does not hold: %s\n", line, what, prom_last_error());
    exit(1);
}

static inline void print_port(struct MHD_Daemon *daemon)
{
    MUST(daemon != NULL);
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    MUST(info != NULL);
    printf("%u\n", (unsigned)info->port);
    fflush(stdout);
}

/* Obeys lines until the end of stdin; each is answered with one. */
static inline void obey(void (*command)(char *line))
{
    char line[200];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        command(line);
        puts("done");
        fflush(stdout);
    }
}

#endif
