/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl memories import and export: all memories as JSON lines, the one that was stored last
 * first. Both note how far they are in a file beside, and go on from there when they are called
 * again: an export has the pages up to its cursor, an import the lines from its place to the end.
 *
 * A file is imported from its end to its beginning, so that the newest memory is stored last again.
 * Many are stored at once, out of order; what was stored twice is the same memory. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "ctl/many.h"
#include "ctl/progress.h"
#include "ctl/show.h"
#include "ctl/terminal.h"
#include "ctl/text.h"

enum {
    AT_ONCE = 32,      /* stored at the same time: they share commits */
    TRIES = 60,        /* of a memory that the sidecar cannot take now, a second apart */
    REPORTED_MAX = 20, /* refused lines that are shown */
    PLACE_TEXT_MAX = 4096,
};

static int report_file(const struct ctl_line *line, const char *path)
{
    fprintf(stderr, "handoffctl %s: %s: %s\n", line->command->name, path, strerror(errno));
    return CTL_FAILED;
}

static void pause_a_second(void)
{
    const struct timespec second = {.tv_sec = 1};
    nanosleep(&second, NULL);
}

/* ---- how far it is ----------------------------------------------------------------------------
 */

/* A file of three lines: the address of the API, what the file was, how far it is. */
struct place {
    char *path;
    char kept[PLACE_TEXT_MAX]; /* the third line, or "" */
    time_t noted;
};

/* Whatever cannot be read is no place: then it begins at the beginning. */
static bool read_kept_place(struct place *place, const char *file, const char *url,
                            const char *what)
{
    char first[PLACE_TEXT_MAX] = "", second[PLACE_TEXT_MAX] = "";
    if (asprintf(&place->path, "%s.position", file) < 0) {
        place->path = NULL;
        return false;
    }
    FILE *in = fopen(place->path, "r");
    if (in && fgets(first, sizeof first, in) && fgets(second, sizeof second, in) &&
        fgets(place->kept, sizeof place->kept, in)) {
        first[strcspn(first, "\n")] = second[strcspn(second, "\n")] = '\0';
        place->kept[strcspn(place->kept, "\n")] = '\0';
    }
    if (in)
        fclose(in);
    if (strcmp(first, url) != 0 || strcmp(second, what) != 0)
        place->kept[0] = '\0';
    return true;
}

/* Whole or not at all. Where that cannot be, the whole is done again. */
static void note_place(struct place *place, const char *url, const char *what, const char *kept)
{
    char *other;
    if (asprintf(&other, "%s.new", place->path) < 0)
        return;
    FILE *out = fopen(other, "w");
    const bool written = out && fprintf(out, "%s\n%s\n%s\n", url, what, kept) > 0;
    if (out && (fclose(out) != 0 || !written || rename(other, place->path) != 0))
        unlink(other);
    free(other);
    place->noted = time(NULL);
}

static void end_place(struct place *place, bool done)
{
    if (done && place->path)
        unlink(place->path);
    free(place->path);
    place->path = NULL;
}

/* ---- export -----------------------------------------------------------------------------------
 */

struct export
{
    const struct ctl_line *line;
    FILE *out;
    struct place *place; /* NULL: to stdout, which cannot be continued */
    char cursor[PLACE_TEXT_MAX];
    size_t count;
};

static void draw_exported(const struct export *export)
{
    if (!ctl_on_terminal(stderr))
        return;
    ctl_line_over(stderr);
    fprintf(stderr, "exported %zu", export->count);
    fflush(stderr);
}

static bool write_exported(struct export *export, yyjson_val *memory)
{
    size_t size;
    char *text = yyjson_val_write(memory, 0, &size);
    const bool written =
        text && fwrite(text, 1, size, export->out) == size && fputc('\n', export->out) != EOF;
    free(text);
    export->count += written;
    return written;
}

static bool write_export_page(struct export *export, yyjson_val *page)
{
    size_t i, n;
    yyjson_val *memory;
    bool written = true;
    yyjson_arr_foreach(yyjson_obj_get(page, "items"), i, n, memory)
    {
        written = written && write_exported(export, memory);
    }
    snprintf(export->cursor, sizeof export->cursor, "%s", ctl_text(page, "next"));
    return written && fflush(export->out) == 0;
}

static void note_page(struct export *export)
{
    char kept[PLACE_TEXT_MAX + 64];
    if (!export->place || !export->cursor[0])
        return;
    snprintf(kept, sizeof kept, "%lld %zu %s", (long long)ftello(export->out), export->count,
             export->cursor);
    note_place(export->place, ctl_api_url(export->line), "export", kept);
}

static int export_page(struct export *export)
{
    struct ctl_answer answer = {0};
    char *path = strdup("/v1/memories?limit=1000");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "cursor", export->cursor[0] ? export->cursor : NULL))
        code = ctl_api_call(export->line, "GET", path, NULL, NULL, &answer);
    yyjson_doc *doc =
        code == CTL_OK ? yyjson_read(answer.body, answer.size, YYJSON_READ_NUMBER_AS_RAW) : NULL;
    if (code == CTL_OK && (!doc || !write_export_page(export, yyjson_doc_get_root(doc))))
        code = report_file(export->line, ctl_operand(export->line, 0));
    if (code == CTL_OK) {
        note_page(export);
        draw_exported(export);
    }
    yyjson_doc_free(doc);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

static int export_pages(struct export *export)
{
    int code;
    do
        code = export_page(export);
    while (code == CTL_OK && export->cursor[0]);
    if (export->count > 0)
        ctl_progress_end();
    return code;
}

/* Cuts what came after the place. false: it begins at the beginning. */
static bool continue_export(struct export *export)
{
    char *rest;
    const long long size = strtoll(export->place->kept, &rest, 10);
    export->count = (size_t)strtoull(rest, &rest, 10);
    if (size <= 0 || *rest != ' ')
        return false;
    snprintf(export->cursor, sizeof export->cursor, "%s", rest + 1);
    if (ftruncate(fileno(export->out), size) == 0 && fseeko(export->out, size, SEEK_SET) == 0)
        return true;
    export->cursor[0] = '\0';
    export->count = 0;
    return false;
}

static int export_to_file(struct export *export, const char *path)
{
    struct place place = {0};
    char *part;
    int code = CTL_FAILED;
    if (asprintf(&part, "%s.part", path) < 0)
        return CTL_FAILED;
    export->place = &place;
    const int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    export->out = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!export->out || !read_kept_place(&place, part, ctl_api_url(export->line), "export")) {
        code = report_file(export->line, part);
    } else if (continue_export(export) || ftruncate(fd, 0) == 0) {
        code = export_pages(export);
        if (code == CTL_OK && (fsync(fd) != 0 || rename(part, path) != 0))
            code = report_file(export->line, path);
    }
    if (export->out)
        fclose(export->out);
    end_place(&place, code == CTL_OK);
    export->place = NULL;
    free(part);
    return code;
}

int ctl_memories_export(const struct ctl_line *line)
{
    struct export export = {.line = line, .out = stdout};
    const char *path = ctl_operand(line, 0);
    if (!path || strcmp(path, "-") == 0)
        return export_pages(&export);
    if (access(path, F_OK) == 0) {
        fprintf(stderr, "handoffctl %s: %s exists already\n", line->command->name, path);
        return CTL_FAILED;
    }
    const int code = export_to_file(&export, path);
    if (code == CTL_OK)
        fprintf(stderr, "exported %zu memories\n", export.count);
    return code;
}

/* ---- import -----------------------------------------------------------------------------------
 */

/* A line of the file on its way. Lines leave in the order in which they are done; the place is that
   of the last one before which all are. */
struct import_line {
    size_t from, size;
    char *path, *body;
    struct ctl_call call;
    unsigned tries;
    bool open, done;
};

struct import {
    const struct ctl_line *line;
    const char *text;
    size_t size;
    size_t at;    /* all behind it was begun */
    size_t place; /* ... and all behind that is done */
    size_t done, refused;
    struct ctl_many *many;
    struct place kept;
    char what[64]; /* which file it is */
    struct ctl_progress progress;
    struct import_line *lines; /* a ring of AT_ONCE, in the order of the file */
    unsigned first, count;
    bool again; /* some have to be tried once more */
};

static void refuse_line(struct import *import, const struct import_line *of, const char *why)
{
    if (++import->refused <= REPORTED_MAX) {
        fprintf(stderr, "handoffctl %s: byte %zu: ", import->line->command->name, of->from);
        ctl_put(stderr, why, 0);
        fputc('\n', stderr);
    }
}

static void note_import(struct import *import)
{
    char kept[32];
    snprintf(kept, sizeof kept, "%zu", import->place);
    note_place(&import->kept, ctl_api_url(import->line), import->what, kept);
}

static void leave_done_lines(struct import *import)
{
    const size_t place = import->place;
    while (import->count > 0 && import->lines[import->first].done) {
        struct import_line *line = &import->lines[import->first];
        import->place = line->from;
        free(line->path);
        free(line->body);
        *line = (struct import_line){0};
        import->first = (import->first + 1) % AT_ONCE;
        import->count--;
    }
    if (import->place < place && time(NULL) != import->kept.noted) {
        note_import(import);
        ctl_progress_draw(&import->progress, import->size - import->place, import->size);
    }
}

/* The line that ends before `at`. false: there is none. */
static bool find_line(const struct import *import, size_t at, size_t *from, size_t *size)
{
    while (at > 0 && (import->text[at - 1] == '\n' || import->text[at - 1] == '\r'))
        at--;
    const char *newline = at > 0 ? memrchr(import->text, '\n', at) : NULL;
    *from = newline ? (size_t)(newline - import->text) + 1 : 0;
    *size = at - *from;
    return at > 0;
}

static bool begin_line(struct import *import, struct import_line *line)
{
    line->call = (struct ctl_call){.method = "PUT", .path = line->path, .body = line->body};
    line->open = ctl_many_add(import->many, &line->call, line);
    return line->open;
}

/* The path of the memory; NULL: the line has none. */
static char *path_of_line(const struct import_line *line)
{
    yyjson_doc *doc = yyjson_read(line->body, line->size, YYJSON_READ_NUMBER_AS_RAW);
    const char *id = ctl_text(yyjson_doc_get_root(doc), "id");
    char *path = *id ? ctl_api_path("/v1/memories/", id, "") : NULL;
    yyjson_doc_free(doc);
    return path;
}

static bool take_import_line(struct import *import)
{
    struct import_line *line = &import->lines[(import->first + import->count) % AT_ONCE];
    if (!find_line(import, import->at, &line->from, &line->size)) {
        import->at = 0;
        return true;
    }
    import->at = line->from;
    import->count++;
    line->body = strndup(import->text + line->from, line->size);
    if (!line->body)
        return false;
    line->path = path_of_line(line);
    if (line->path)
        return begin_line(import, line);
    refuse_line(import, line, "not a memory: a JSON object with an id and content is needed");
    line->done = true;
    return true;
}

static bool is_for_later(int code, const struct ctl_answer *answer)
{
    return code != CTL_OK || answer->status == 429 || answer->status == 503;
}

/* CTL_OK, unless it is hopeless. */
static int end_line(struct import *import, struct import_line *line, int code,
                    const struct ctl_answer *answer, const char *why)
{
    line->open = false;
    if (is_for_later(code, answer)) {
        import->again = true;
        if (++line->tries < TRIES)
            return CTL_OK;
        if (code == CTL_OK)
            return ctl_api_check_answer(import->line, answer);
        fprintf(stderr, "handoffctl %s: %s: %s\n", import->line->command->name,
                ctl_api_url(import->line), why);
        return CTL_UNREACHABLE;
    }
    line->done = true;
    if (answer->status == 401 || answer->status == 501)
        return ctl_api_check_answer(import->line, answer); /* so are all */
    if (answer->status / 100 != 2) {
        yyjson_doc *doc = answer->body ? yyjson_read(answer->body, answer->size, 0) : NULL;
        refuse_line(import, line, ctl_text(yyjson_doc_get_root(doc), "detail"));
        yyjson_doc_free(doc);
    } else {
        import->done++;
    }
    return CTL_OK;
}

static int wait_for_line(struct import *import)
{
    struct ctl_answer answer;
    const char *why;
    void *tag;
    const int ended = ctl_many_next(import->many, &tag, &answer, &why);
    const int code = end_line(import, tag, ended, &answer, why);
    ctl_answer_free(&answer);
    return code;
}

static int try_lines_again(struct import *import)
{
    pause_a_second();
    import->again = false;
    for (unsigned i = 0; i < import->count; i++) {
        struct import_line *line = &import->lines[(import->first + i) % AT_ONCE];
        if (!line->done && !line->open && !begin_line(import, line))
            return CTL_FAILED;
    }
    return CTL_OK;
}

static int import_lines(struct import *import)
{
    int code = CTL_OK;
    while (code == CTL_OK && (import->at > 0 || import->count > 0)) {
        if (import->at > 0 && import->count < AT_ONCE && !import->again)
            code = take_import_line(import) ? CTL_OK : CTL_FAILED;
        else if (ctl_many_open(import->many) > 0)
            code = wait_for_line(import);
        else if (import->again)
            code = try_lines_again(import);
        leave_done_lines(import);
    }
    return code;
}

static void begin_place(struct import *import, const char *path, const struct stat *found)
{
    snprintf(import->what, sizeof import->what, "%lld %lld", (long long)found->st_size,
             (long long)found->st_mtime);
    import->at = import->size;
    if (read_kept_place(&import->kept, path, ctl_api_url(import->line), import->what) &&
        import->kept.kept[0]) {
        const unsigned long long place = strtoull(import->kept.kept, NULL, 10);
        import->at = place <= import->size ? (size_t)place : import->size;
    }
    import->place = import->at;
    if (import->at < import->size)
        fprintf(stderr, "continuing where the last import ended\n");
}

static int end_import(struct import *import, int code)
{
    const bool whole = code == CTL_OK;
    if (!whole && import->place < import->size)
        note_import(import);
    if (import->size > 0)
        ctl_progress_end();
    end_place(&import->kept, whole);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        free(import->lines[i].path);
        free(import->lines[i].body);
    }
    free(import->lines);
    fprintf(stderr, "imported %zu memories", import->done);
    if (import->refused > 0)
        fprintf(stderr, "; %zu lines were refused", import->refused);
    fputs(whole ? "\n" : "; call it again to go on\n", stderr);
    return whole && import->refused > 0 ? CTL_FAILED : code;
}

static int import_text(struct import *import, const char *path, const struct stat *found)
{
    import->lines = calloc(AT_ONCE, sizeof *import->lines);
    import->many = import->lines ? ctl_many_begin(import->line, AT_ONCE) : NULL;
    if (!import->many) {
        free(import->lines);
        return CTL_FAILED;
    }
    begin_place(import, path, found);
    import->progress =
        ctl_progress_begin("imported bytes", import->size - import->place, import->size);
    int code = import_lines(import);
    ctl_many_end(import->many);
    return end_import(import, code);
}

int ctl_memories_import(const struct ctl_line *line)
{
    const char *path = ctl_operand(line, 0);
    struct stat found;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &found) != 0)
        return report_file(line, path);
    struct import import = {.line = line, .size = (size_t)found.st_size};
    void *map = import.size > 0 ? mmap(NULL, import.size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (map == MAP_FAILED)
        return report_file(line, path);
    import.text = map;
    const int code = import_text(&import, path, &found);
    if (map)
        munmap(map, import.size);
    return code;
}
