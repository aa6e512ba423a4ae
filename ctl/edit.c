/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl parked edit: the fields of a parked handoff in an editor, as JSON with today's values.
 * Only members that were changed are sent, so what a later hop added to the chain stays as it is.
 * A file that cannot be sent is kept, so that no work in it is lost. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/handoff_id.h"
#include "ctl/show.h"
#include "ctl/text.h"

struct edit {
    const struct ctl_line *line;
    const char *id;
    char path[256];     /* of the file in the editor; "": there is none yet */
    yyjson_doc *before; /* the fields, as they are today */
    yyjson_doc *after;
    yyjson_mut_doc *changed; /* {"target_agent"?, "edit": {the members that differ}} */
};

/* ---- the fields today -------------------------------------------------------------------------
 */

/* Frees the body. */
static int post_edit(const struct edit *edit, const char *call, char *body,
                     struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/parked/", edit->id, call);
    const int code =
        path && body ? ctl_api_call(edit->line, "POST", path, NULL, body, answer) : CTL_FAILED;
    free(body);
    free(path);
    return code;
}

/* An edit of nothing answers with what can be edited. */
static int fetch_fields(struct edit *edit)
{
    struct ctl_answer answer = {0};
    int code = post_edit(edit, "/preview", strdup("{\"edit\":{}}"), &answer);
    yyjson_doc *preview =
        code == CTL_OK ? yyjson_read(answer.body, answer.size, YYJSON_READ_NUMBER_AS_RAW) : NULL;
    yyjson_val *fields = yyjson_obj_get(yyjson_doc_get_root(preview), "fields");
    yyjson_mut_doc *copy = fields ? yyjson_mut_doc_new(NULL) : NULL;
    if (copy) {
        yyjson_mut_doc_set_root(copy, yyjson_val_mut_copy(copy, fields));
        edit->before = yyjson_mut_doc_imut_copy(copy, NULL);
    }
    yyjson_mut_doc_free(copy);
    yyjson_doc_free(preview);
    ctl_answer_free(&answer);
    return code == CTL_OK && !edit->before ? CTL_FAILED : code;
}

/* ---- the editor -------------------------------------------------------------------------------
 */

static int fail_to_edit(const struct edit *edit, const char *what, const char *why)
{
    fprintf(stderr, "handoffctl %s: %s: %s\n", edit->line->command->name, what, why);
    return CTL_FAILED;
}

static int write_fields(struct edit *edit)
{
    const char *folder = getenv("TMPDIR");
    snprintf(edit->path, sizeof edit->path, "%s/handoff-XXXXXX.json",
             folder && *folder ? folder : "/tmp");
    const int fd = mkstemps(edit->path, 5);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        const int why = errno;
        if (fd >= 0)
            close(fd);
        return fail_to_edit(edit, edit->path, strerror(why));
    }
    char *text = yyjson_write(edit->before, YYJSON_WRITE_PRETTY_TWO_SPACES, NULL);
    const bool written = text && fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    free(text);
    if (fclose(file) != 0 || !written)
        return fail_to_edit(edit, edit->path, strerror(errno));
    return CTL_OK;
}

static const char *editor_name(void)
{
    const char *names[] = {getenv("VISUAL"), getenv("EDITOR"), "vi"};
    size_t i = 0;
    while (!names[i] || !*names[i])
        i++;
    return names[i];
}

/* Through a shell, since the variable may have options: EDITOR='code --wait'. */
static int run_editor(const struct edit *edit)
{
    char *command;
    int status = -1;
    if (asprintf(&command, "%s \"$1\"", editor_name()) < 0)
        return CTL_FAILED;
    const pid_t child = fork();
    if (child == 0) {
        execlp("sh", "sh", "-c", command, "sh", edit->path, (char *)NULL);
        _exit(127);
    }
    free(command);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return CTL_OK;
    return fail_to_edit(edit, editor_name(), "the editor failed; nothing was sent");
}

static int read_fields(struct edit *edit)
{
    yyjson_read_err why;
    char where[64];
    edit->after = yyjson_read_file(edit->path, YYJSON_READ_NUMBER_AS_RAW, NULL, &why);
    if (yyjson_is_obj(yyjson_doc_get_root(edit->after)))
        return CTL_OK;
    if (edit->after)
        snprintf(where, sizeof where, "not a JSON object");
    else
        snprintf(where, sizeof where, "%s at byte %zu", why.msg, why.pos);
    return fail_to_edit(edit, edit->path, where);
}

/* ---- the difference ---------------------------------------------------------------------------
 */

static void put_side(char mark, enum ctl_tone tone, const char *name, yyjson_val *value)
{
    char *text = value ? yyjson_val_write(value, 0, NULL) : NULL;
    char *clean = text ? ctl_clean(text) : NULL;
    ctl_tone_begin(stderr, tone);
    fprintf(stderr, "%c ", mark);
    ctl_put(stderr, name, 0);
    fprintf(stderr, ": %s", clean ? clean : "(none)");
    ctl_tone_end(stderr, tone);
    fputc('\n', stderr);
    free(clean);
    free(text);
}

/* A member that was taken out is null: no more than that can an edit say. */
static void add_change(struct edit *edit, yyjson_mut_val *changes, const char *name,
                       yyjson_val *before, yyjson_val *after)
{
    if (before && after && yyjson_equals(before, after))
        return;
    put_side('-', CTL_BAD, name, before);
    put_side('+', CTL_GOOD, name, after);
    yyjson_mut_obj_add_val(
        edit->changed, changes, yyjson_mut_get_str(yyjson_mut_strcpy(edit->changed, name)),
        after ? yyjson_val_mut_copy(edit->changed, after) : yyjson_mut_null(edit->changed));
}

/* {"target_agent"?, "edit": {...}} */
static yyjson_mut_val *begin_changes(struct edit *edit)
{
    edit->changed = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(edit->changed);
    yyjson_mut_doc_set_root(edit->changed, root);
    if (ctl_value(edit->line, "to"))
        yyjson_mut_obj_add_str(edit->changed, root, "target_agent", ctl_value(edit->line, "to"));
    return yyjson_mut_obj_add_obj(edit->changed, root, "edit");
}

/* Answers how many members differ. */
static size_t collect_changes(struct edit *edit)
{
    size_t i, count;
    yyjson_val *key, *value, *before = yyjson_doc_get_root(edit->before),
                             *after = yyjson_doc_get_root(edit->after);
    yyjson_mut_val *changes = begin_changes(edit);
    yyjson_obj_foreach(after, i, count, key, value)
    {
        add_change(edit, changes, yyjson_get_str(key), yyjson_obj_get(before, yyjson_get_str(key)),
                   value);
    }
    yyjson_obj_foreach(before, i, count, key, value)
    {
        if (!yyjson_obj_get(after, yyjson_get_str(key)))
            add_change(edit, changes, yyjson_get_str(key), value, NULL);
    }
    return yyjson_mut_obj_size(changes);
}

/* ---- the preview ------------------------------------------------------------------------------
 */

static void put_brief_line(yyjson_val *line)
{
    const char *change = ctl_text(line, "change");
    const bool added = strcmp(change, "added") == 0, removed = strcmp(change, "removed") == 0;
    const enum ctl_tone tone = added ? CTL_GOOD : removed ? CTL_BAD : CTL_PLAIN;
    ctl_tone_begin(stderr, tone);
    fprintf(stderr, "%c ", added ? '+' : removed ? '-' : ' ');
    ctl_put(stderr, ctl_text(line, "line"), 0);
    ctl_tone_end(stderr, tone);
    fputc('\n', stderr);
}

static void put_preview_of_edit(yyjson_val *preview)
{
    size_t i, count;
    yyjson_val *line;
    fputs("\nthe brief:\n", stderr);
    yyjson_arr_foreach(yyjson_obj_get(preview, "difference"), i, count, line)
    {
        put_brief_line(line);
    }
    fprintf(stderr, "%.0f tokens of %.0f, before it was %.0f; to ",
            ctl_number(preview, "token_count"), ctl_number(preview, "token_budget"),
            ctl_number(preview, "token_count_before"));
    ctl_put(stderr, ctl_text(preview, "target_agent"), 0);
    fputc('\n', stderr);
}

/* Assembles it without sending it: what is refused is refused before anyone is asked. */
static int preview_changes(const struct edit *edit)
{
    struct ctl_answer answer = {0};
    int code = post_edit(edit, "/preview", yyjson_mut_write(edit->changed, 0, NULL), &answer);
    yyjson_doc *preview = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    if (preview)
        put_preview_of_edit(yyjson_doc_get_root(preview));
    yyjson_doc_free(preview);
    ctl_answer_free(&answer);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------
 */

static bool may_send(const struct edit *edit)
{
    char answer[8] = "";
    if (ctl_flag(edit->line, "yes"))
        return true;
    fputs("Send it? [y/N] ", stderr);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int send_changes(const struct edit *edit)
{
    struct ctl_answer answer = {0};
    const char *why = ctl_value(edit->line, "why");
    yyjson_mut_val *root = yyjson_mut_doc_get_root(edit->changed);
    if (why)
        yyjson_mut_obj_add_str(edit->changed, root, "reason", why);
    int code = post_edit(edit, "/replay", yyjson_mut_write(edit->changed, 0, NULL), &answer);
    if (code == CTL_OK)
        code = ctl_show(edit->line, &answer, ctl_show_handoff_line);
    ctl_answer_free(&answer);
    return code;
}

static int preview_and_send(const struct edit *edit)
{
    const int code = preview_changes(edit);
    if (code != CTL_OK)
        return code;
    return may_send(edit) ? send_changes(edit) : CTL_FAILED;
}

/* Once there is something in the editor that is not sent, the file is kept. */
static int edit_and_send(struct edit *edit)
{
    int code = write_fields(edit);
    bool is_kept = false;
    if (code == CTL_OK)
        code = run_editor(edit);
    if (code == CTL_OK) {
        code = read_fields(edit);
        is_kept = code != CTL_OK;
    }
    if (code == CTL_OK && collect_changes(edit) == 0) {
        fputs("nothing was changed, so nothing was sent\n", stderr);
    } else if (code == CTL_OK) {
        code = preview_and_send(edit);
        is_kept = code != CTL_OK;
    }
    if (is_kept)
        fprintf(stderr,
                "what you wrote is in %s; handoffctl parked replay ID --edit FILE sends it\n",
                edit->path);
    else
        unlink(edit->path);
    return code;
}

int ctl_parked_edit(const struct ctl_line *line)
{
    int code;
    char *id = ctl_whole_id(line, ctl_operand(line, 0), &code);
    struct edit edit = {.line = line, .id = id};
    if (id)
        code = fetch_fields(&edit);
    if (code == CTL_OK)
        code = edit_and_send(&edit);
    yyjson_doc_free(edit.before);
    yyjson_doc_free(edit.after);
    yyjson_mut_doc_free(edit.changed);
    free(id);
    return code;
}
