/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sub-commands; see input.h. One thread. */
#include "ctl/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL with errno set. */
static char *read_stream(FILE *file, size_t *size)
{
    size_t capacity = 1 << 16, length = 0;
    char *text = malloc(capacity + 1);
    while (text) {
        length += fread(text + length, 1, capacity - length, file);
        if (length < capacity)
            break;
        capacity *= 2;
        char *larger = realloc(text, capacity + 1);
        if (!larger)
            free(text);
        text = larger;
    }
    if (!text || ferror(file)) {
        free(text);
        return NULL;
    }
    text[length] = '\0';
    *size = length;
    return text;
}

char *ctl_read_file(const struct ctl_line *line, const char *path, size_t *size)
{
    int is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    char *text = file ? read_stream(file, size) : NULL;
    if (!text)
        fprintf(stderr, "handoffctl %s: %s: %s\n", line->command->name, path, strerror(errno));
    if (file && !is_stdin)
        fclose(file);
    return text;
}
