/* SPDX-License-Identifier: Apache-2.0 */
/* Removes files of bodies that no row names, see body_orphans.h. On the thread that opens the
 * store.
 */
#include "client/store/sqlite/body_orphans.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/store/sqlite/bodies.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

#define BODIES "-bodies-"

/* The number of a file of bodies, if it has such a name. */
static bool file_number(const char *name, const char *database, int64_t *number)
{
    const size_t size = strlen(database);
    struct handoff_body_place place;
    char text[HANDOFF_BODY_PLACE_TEXT];
    if (strncmp(name, database, size) != 0 || strncmp(name + size, BODIES, strlen(BODIES)) != 0)
        return false;
    const char *digits = name + size + strlen(BODIES);
    int length = snprintf(text, sizeof text, "%s:0:0", digits);
    if (*digits == '0' || length >= (int)sizeof text ||
        !handoff_body_place_parse(base_span(text, (size_t)length), &place))
        return false;
    *number = place.file;
    return true;
}

/* Where it cannot be told, it is named. */
static bool row_names_file(struct handoff_db *db, int64_t number)
{
    sqlite3_stmt *find = handoff_db_statement(db, "SELECT 1 FROM body_files WHERE file = ?1", NULL);
    if (!find)
        return true;
    sqlite3_bind_int64(find, 1, number);
    bool named = handoff_db_row(find);
    return handoff_db_end(db, find, NULL) != HANDOFF_OK || named;
}

static void remove_orphan(struct handoff_db *db, int folder, const char *name, int64_t number,
                          struct handoff_body_orphans *removed)
{
    struct stat found;
    if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(found.st_mode) ||
        handoff_body_file_remove(db, number) != SQLITE_OK)
        return;
    removed->files++;
    removed->bytes += (uint64_t)found.st_size;
}

/* Their names, since the folder changes while they are removed. */
static int keep_body_files(const struct dirent *entry)
{
    return strstr(entry->d_name, BODIES) != NULL;
}

static void look_through(struct handoff_db *db, const char *folder, const char *database,
                         struct handoff_body_orphans *removed)
{
    struct dirent **names;
    int64_t number;
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return;
    int count = scandir(folder, &names, keep_body_files, alphasort);
    for (int i = 0; i < count; i++) {
        struct dirent *entry = names[i];
        if (file_number(entry->d_name, database, &number) && !row_names_file(db, number))
            remove_orphan(db, at, entry->d_name, number, removed);
        free(entry); /* the C library's */
    }
    if (count >= 0)
        free((void *)names);
    close(at);
}

enum handoff_code handoff_body_orphans_remove(struct handoff_db *db,
                                              struct handoff_body_orphans *removed,
                                              struct handoff_error *error)
{
    *removed = (struct handoff_body_orphans){0};
    char *path = base_strdup(sqlite3_db_filename(db->sqlite, "main")); /* absolute */
    if (!path)
        return handoff_error_no_memory(error);
    char *name = strrchr(path, '/');
    if (name) {
        *name++ = '\0';
        look_through(db, *path ? path : "/", name, removed);
    }
    base_free(path);
    return HANDOFF_OK;
}
