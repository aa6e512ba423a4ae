/* SPDX-License-Identifier: Apache-2.0 */
/* See vocabulary_search.h. The distances between folders come from lib/CMakeLists.txt. */
#include "lib/tokens/vocabulary_search.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_there(const char *path, int length, size_t size)
{
    return length >= 0 && (size_t)length < size && access(path, R_OK) == 0;
}

/* A folder that is told from the one that a file is in. */
static int beside(const char *file, const char *way, const char *encoding, char *path, size_t size)
{
    const char *slash = strrchr(file, '/');
    if (slash == NULL)
        return -1;
    return snprintf(path, size, "%.*s/%s/%s.vocabulary", (int)(slash - file), file, way, encoding);
}

static int beside_program(const char *encoding, char *path, size_t size)
{
    static const char *const ways[] = {HANDOFF_VOCABULARY_FROM_BIN, HANDOFF_VOCABULARY_FROM_BUILD};
    char program[PATH_MAX];
    const ssize_t got = readlink("/proc/self/exe", program, sizeof(program) - 1);
    int length = -1;
    if (got <= 0)
        return -1;
    program[got] = '\0';
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        length = beside(program, ways[i], encoding, path, size);
        if (is_there(path, length, size))
            return length;
    }
    return -1;
}

/* The dynamic linker knows the file that this function is in; within the program itself that has no
 * name. */
static int beside_library(const char *encoding, char *path, size_t size)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1((void *)handoff_vocabulary_search, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        map == NULL || map->l_name[0] != '/')
        return -1;
    const int length = beside(map->l_name, HANDOFF_VOCABULARY_FROM_LIB, encoding, path, size);
    return is_there(path, length, size) ? length : -1;
}

int handoff_vocabulary_search(const char *encoding, char *path, size_t size)
{
    int length = beside_program(encoding, path, size);
    if (length < 0)
        length = beside_library(encoding, path, size);
    if (length < 0)
        length =
            snprintf(path, size, "%s/%s.vocabulary", HANDOFF_VOCABULARY_INSTALLED_DIR, encoding);
    return length;
}
