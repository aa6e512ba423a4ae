/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl store: checks a store, backs it up while the daemon runs, and rebuilds its search
   index while none does. One thread. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/handoff.h"
#include "ctl/command_line.h"

static int print_store_error(const struct handoff_error *error)
{
    char text[512];
    handoff_error_text(error, text, sizeof text);
    fprintf(stderr, "handoffctl store: %s\n", text);
    return CTL_FAILED;
}

int ctl_store_check(const struct ctl_line *line)
{
    const char *path = ctl_operand(line, 0);
    struct handoff_store_report report;
    struct handoff_error error;
    enum handoff_code code = handoff_store_check(path, &report, &error);
    if (code == HANDOFF_OK)
        code = handoff_store_check_ledgers(path, &report, &error);
    if (code != HANDOFF_OK)
        return print_store_error(&error);
    printf("%s: schema %d, %lld envelopes, %lld memories, %lld bytes: ", path, report.version,
           (long long)report.envelopes, (long long)report.memories, (long long)report.bytes);
    if (report.problems == 0) {
        puts("sound");
        return CTL_OK;
    }
    printf("%lld problems\n", (long long)report.problems);
    fprintf(stderr, "handoffctl store: first problem: %s\n", report.problem);
    return CTL_FAILED;
}

int ctl_store_backup(const struct ctl_line *line)
{
    const char *path = ctl_operand(line, 0), *destination = ctl_operand(line, 1);
    struct handoff_error error;
    if (handoff_store_backup(path, destination, &error) != HANDOFF_OK)
        return print_store_error(&error);
    printf("%s: written\n", destination);
    return CTL_OK;
}

/* Only where somebody looks. */
static void draw_bar(void *context, int64_t done, int64_t all)
{
    static const char full[] = "########################################";
    const int width = (int)sizeof full - 1;
    (void)context;
    const int filled = all > 0 ? (int)(done * width / all) : width;
    fprintf(stderr, "\r[%.*s%*s] %lld of %lld memories", filled, full, width - filled, "",
            (long long)done, (long long)all);
    fflush(stderr);
}

int ctl_store_reindex(const struct ctl_line *line)
{
    const char *path = ctl_operand(line, 0);
    const bool watched = isatty(STDERR_FILENO) == 1;
    struct handoff_error error;
    enum handoff_code code = handoff_store_reindex(path, watched ? draw_bar : NULL, NULL, &error);
    if (watched)
        fputc('\n', stderr);
    if (code != HANDOFF_OK)
        return print_store_error(&error);
    printf("%s: search index rebuilt\n", path);
    return CTL_OK;
}
