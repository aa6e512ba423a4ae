/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - the daemon's command line, as Prometheus exporters have it: --a.b-c=VALUE or
 * --a.b-c VALUE. The options are declared once, in options.def; parsing, --help and the table in
 * the documentation come from there.
 *
 * Nothing is allocated: strings point into argv, the environment or constants.
 */
#ifndef EXPORTER_OPTIONS_H
#define EXPORTER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "exporter/config/address.h"
#include "exporter/error.h"
#include "exporter/log/log.h"

enum {
    EXPORTER_WEB_LISTEN_MAX = 8, /* one per family and interface is plenty */
};

/* Exit codes of the daemon, as the other exporters have them. */
enum {
    EXPORTER_EXIT_OK = 0, /* drained after SIGTERM or SIGINT; --help; a check that passed */
    EXPORTER_EXIT_FAILED =
        1, /* a wrong option, a bad configuration, a listener that cannot start */
};

struct exporter_addresses {
    size_t count;
    struct exporter_address items[EXPORTER_WEB_LISTEN_MAX];
};

struct exporter_options {
    const char *config_file; /* NULL: no file, every value at its default */
    bool config_check;
    struct exporter_addresses web_listen_address; /* never unix: */
    const char *web_config_file;                  /* NULL: no TLS and no passwords */
    const char *web_telemetry_path;               /* begins with '/' */
    uint64_t web_read_timeout_ms;
    bool web_enable_lifecycle;
    bool web_systemd_socket;
    struct exporter_address api_listen_address;
    const char *storage_path;
    enum exporter_log_level log_level;
    enum exporter_log_format log_format;
    uint64_t shutdown_timeout_ms;
    bool version;
    bool help; /* what follows it on the command line was not looked at */
};

/* Fills `options`, defaults included. false: the error names the option, what was seen and what is
 * allowed. `options` then holds nothing of use. */
bool exporter_options_parse(int argc, char *const argv[], struct exporter_options *options,
                            struct exporter_error *error);

void exporter_options_print_help(FILE *out);
void exporter_options_print_version(FILE *out);

#endif
