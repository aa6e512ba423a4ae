/* SPDX-License-Identifier: Apache-2.0 */
/* Prints config.def as the Markdown tables of docs/configuration.md: print_config root | agent |
 * channel. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "exporter/config/config.h"
#include "lib/base/units.h"

enum kind {
    NUMBER,
    DURATION,
    SIZE,
    FLAG,
    CHOICE,
    CHOICES,
    URL,
    FILE_PATH,
    NAME,
    NAMES,
    SENDERS,
    AGENT_MAP,
    PIPELINE_MAP,
    CHANNEL_MAP,
    SECTION,
};

struct row {
    const char *scope;
    const char *path;
    enum kind kind;
    const char *fallback; /* NULL: the number; 0: none */
    uint64_t number;
    uint64_t least;
    uint64_t most;
    const char *choices;
    const char *help;
};

#define FILE FILE_PATH
static const struct row rows[] = {
#define CONFIG(scope, field, path, kind, fallback, least, most, choices, help)                     \
    {#scope, path, kind, fallback, 0, least, most, choices, help},
#define HANDOFF_AGENT_KEY(scope, field, path, kind, number, floor, least, most, choices, help)     \
    {#scope, path, kind, NULL, number, least, most, choices, help},
#include "exporter/config/config.def"
#undef CONFIG
};
#undef FILE

static void print_choices(const char *choices)
{
    for (const char *at = choices;; at++) {
        size_t width = strcspn(at, "|");
        printf("%s`%.*s`", at > choices ? ", " : "", (int)width, at);
        at += width;
        if (*at == '\0') {
            return;
        }
    }
}

static void print_allowed(const struct row *row)
{
    struct base_printed least;
    struct base_printed most;

    switch (row->kind) {
    case NUMBER:
        printf("%" PRIu64 " to %" PRIu64, row->least, row->most);
        break;
    case DURATION:
        printf("%s to %s", base_duration_print(&least, row->least),
               base_duration_print(&most, row->most));
        break;
    case SIZE:
        printf("%s to %s", base_size_print(&least, row->least), base_size_print(&most, row->most));
        break;
    case FLAG:
        printf("`true`, `false`");
        break;
    case CHOICES:
        printf("list of ");
        print_choices(row->choices);
        break;
    case CHOICE:
        print_choices(row->choices);
        break;
    case URL:
        printf("http or https URL");
        break;
    case FILE_PATH:
        printf("readable file");
        break;
    case NAME:
        printf("name of an agent");
        break;
    case NAMES:
        printf("list of up to %" PRIu64 " agents", row->most);
        break;
    case SENDERS:
        printf("list of %" PRIu64 " to %" PRIu64 " names of agents", row->least, row->most);
        break;
    case AGENT_MAP:
    case CHANNEL_MAP:
        printf("up to %" PRIu64 " names, each with keys", row->most);
        break;
    case PIPELINE_MAP:
        printf("up to %d names, each with a list of %" PRIu64 " to %" PRIu64 " agents",
               EXPORTER_PIPELINES_MAX, row->least, row->most);
        break;
    case SECTION:
        printf("keys");
        break;
    }
}

/* The choices whose bits are set, or the one at a position. */
static void print_chosen(const struct row *row)
{
    unsigned position = 0;
    for (const char *at = row->choices;; at++, position++) {
        size_t width = strcspn(at, "|");
        if (row->kind == CHOICES && (row->number >> position & 1)) {
            printf(" | `[\"%.*s\"]`", (int)width, at);
        } else if (row->kind == CHOICE && row->number == position) {
            printf(" | `%.*s`", (int)width, at);
        }
        at += width;
        if (*at == '\0') {
            return;
        }
    }
}

/* A default that the file could not set means that the key is absent. */
static void print_number(const struct row *row)
{
    struct base_printed printed;

    if (row->kind == DURATION && row->number < row->least) {
        printf(" | ");
    } else if (row->kind == CHOICE || row->kind == CHOICES) {
        print_chosen(row);
    } else if (row->kind == NUMBER) {
        printf(" | `%" PRIu64 "`", row->number);
    } else if (row->kind == FLAG) {
        printf(" | `%s`", row->number ? "true" : "false");
    } else if (row->kind == DURATION) {
        printf(" | `%s`", base_duration_print(&printed, row->number));
    } else {
        printf(" | ");
    }
}

static void print_row(const struct row *row)
{
    printf("| `%s` | ", row->path);
    print_allowed(row);
    if (row->fallback == NULL) {
        print_number(row);
    } else if (row->kind == CHOICES) {
        printf(" | `[\"%s\"]`", row->fallback);
    } else {
        printf(" | `%s`", row->fallback);
    }
    printf(" | %s |\n", row->help);
}

/* Which of the tables a row is in. */
static const char *table_of(const struct row *row)
{
    return strcmp(row->scope, "ROOT") == 0      ? "root"
           : strcmp(row->scope, "CHANNEL") == 0 ? "channel"
                                                : "agent";
}

int main(int argc, char *argv[])
{
    unsigned printed = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: print_config root | agent | channel\n");
        return 2;
    }
    printf("| key | allowed | default | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(table_of(&rows[i]), argv[1]) == 0) {
            print_row(&rows[i]);
            printed++;
        }
    }
    return printed > 0 ? 0 : 2;
}
