/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding vocabularies; vocabulary_search.h has the order. lib/CMakeLists.txt sets the paths
 * between folders. Any thread.
 */
#include "lib/tokens/vocabulary_search.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_readable(const char *path, int length, size_t size)
{
    return length >= 0 && (size_t)length < size && access(path, R_OK) == 0;
}

/* The path of the vocabulary in a folder given relative to a file's folder. */
static int path_relative_to(const char *file, const char *folder, const char *encoding, char *path,
                            size_t size)
{
    const char *slash = strrchr(file, '/');
    if (!slash)
        return -1;
    return snprintf(path, size, "%.*s/%s/%s.vocabulary", (int)(slash - file), file, folder,
                    encoding);
}

static int find_beside_program(const char *encoding, char *path, size_t size)
{
    static const char *const folders[] = {HANDOFF_VOCABULARY_FROM_BIN,
                                          HANDOFF_VOCABULARY_FROM_BUILD};
    char program[PATH_MAX];
    const ssize_t got = readlink("/proc/self/exe", program, sizeof(program) - 1);
    int length = -1;
    if (got <= 0)
        return -1;
    program[got] = '\0';
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        length = path_relative_to(program, folders[i], encoding, path, size);
        if (is_readable(path, length, size))
            return length;
    }
    return -1;
}

/* The dynamic linker knows which file this function was loaded from; the program itself has an
 * empty name. */
static int find_beside_library(const char *encoding, char *path, size_t size)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1((void *)handoff_vocabulary_search, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        !map || map->l_name[0] != '/')
        return -1;
    const int length =
        path_relative_to(map->l_name, HANDOFF_VOCABULARY_FROM_LIB, encoding, path, size);
    return is_readable(path, length, size) ? length : -1;
}

int handoff_vocabulary_search(const char *encoding, char *path, size_t size)
{
    int length = find_beside_program(encoding, path, size);
    if (length < 0)
        length = find_beside_library(encoding, path, size);
    if (length < 0)
        length =
            snprintf(path, size, "%s/%s.vocabulary", HANDOFF_VOCABULARY_INSTALLED_DIR, encoding);
    return length;
}
