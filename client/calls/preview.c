/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what an edit of a parked or expired handoff would make of it: the request is written and
 * assembled as if it were sent, and nothing is stored, held or decided.
 *
 * A reader thread of the store reads the old handoff and writes the request; the loop, or a worker,
 * assembles it; a reader thread compares the two briefs.
 */
#include "client/calls/preview.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "client/calls/difference.h"
#include "client/calls/edit.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/calls/warn.h"
#include "client/client.h"
#include "client/deliver/decide.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum { PREVIEW_MAGIC = 0x70726576 };

struct preview {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct handoff_warnings *warnings;
    struct base_uuid id; /* of the handoff that is edited */
    struct base_arena arena;
    struct base_span body; /* the edit; a copy */
    struct handoff_assembly *assembly;

    /* the reader's, then the loop's */
    struct handoff_store_read read;
    struct base_span old;  /* its envelope */
    char *request, *today; /* with the edit and without; yyjson's */
    size_t request_size, today_size;
    struct base_buffer out;
    bool is_empty; /* nothing is edited: only what there is today is shown */
    struct handoff_error error;
};

static struct preview *preview_of(struct handoff_store_read *read)
{
    struct preview *preview = BASE_CONTAINER_OF(read, struct preview, read);
    BASE_CHECK_MAGIC(preview, PREVIEW_MAGIC);
    return preview;
}

static void answer_preview(struct preview *preview)
{
    struct handoff_result result = {
        .error = preview->error, .body = preview->out.data, .size = preview->out.size};
    if (result.error.code == HANDOFF_OK && preview->out.failed)
        handoff_error_no_memory(&result.error);
    if (result.error.code != HANDOFF_OK)
        result = (struct handoff_result){.error = result.error};
    preview->loop->pending--;
    preview->answered(preview->context, &result);
    if (preview->assembly)
        handoff_client_end_assembly(&preview->assembly);
    free(preview->request); /* yyjson's, as the next */
    free(preview->today);
    base_buffer_free(&preview->out);
    base_arena_free(&preview->arena);
    preview->magic = 0;
    base_free(preview);
}

static void read_for_preview(struct preview *preview, void (*run)(struct handoff_store_read *),
                             void (*done)(struct handoff_store_read *))
{
    preview->read.mailbox = preview->loop->lane->mailbox;
    preview->read.run = run;
    preview->read.done = done;
    handoff_store_submit_read(preview->loop->client->store, &preview->read);
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void write_today(struct base_buffer *out, yyjson_val *today, yyjson_val *envelope)
{
    yyjson_val *context = yyjson_obj_get(envelope, "context");
    base_buffer_byte(out, '{');
    for (size_t i = 0; i < handoff_edit_fields.count; i++) {
        const struct handoff_field *field = &handoff_edit_fields.rows[i];
        yyjson_val *value = yyjson_obj_get(today, field->name);
        if (!value && strcmp(field->name, "constraints") == 0)
            value = yyjson_obj_get(context, field->name); /* they accumulate */
        if (field->fixed)
            continue;
        base_json_write_name(out, field->name);
        if (value)
            base_json_write(out, value);
        else
            base_buffer_text(out, "null");
    }
    base_buffer_byte(out, '}');
}

/* Each envelope has its own id, which is no difference of what it says. */
static struct base_span without_id(struct handoff_text *brief)
{
    static const char label[] = "- handoff: ";
    char *at = brief->data ? strstr(brief->data, label) : NULL;
    char *end = at ? strchr(at, '\n') : NULL;
    if (end) {
        memmove(at, end + 1, strlen(end + 1) + 1);
        brief->size = strlen(brief->data);
    }
    return base_span(brief->data ? brief->data : "", brief->size);
}

static void write_difference(struct preview *preview)
{
    struct handoff_text before, after = {0};
    struct base_span made = base_buffer_span(&preview->assembly->out);
    enum handoff_code code = handoff_envelope_render(
        preview->old.data, preview->old.size, HANDOFF_RENDER_MARKDOWN, &before, &preview->error);
    if (code == HANDOFF_OK)
        code = handoff_envelope_render(made.data, made.size, HANDOFF_RENDER_MARKDOWN, &after,
                                       &preview->error);
    base_json_write_name(&preview->out, "difference");
    if (code == HANDOFF_OK)
        handoff_difference_write(&preview->out, without_id(&before), without_id(&after));
    handoff_text_free(&before);
    handoff_text_free(&after);
}

/* As it is, where nothing is edited: then it need not be deliverable. */
static void write_unedited_head(struct preview *preview, yyjson_val *envelope)
{
    struct base_buffer *out = &preview->out;
    yyjson_val *tokens = yyjson_obj_get(envelope, "tokens");
    char id[BASE_UUID_TEXT];
    base_uuid_format(&preview->id, id);
    base_buffer_byte(out, '{');
    base_json_write_name(out, "id");
    base_json_write_string(out, base_span_text(id));
    base_json_write_name(out, "target_agent");
    base_json_write_string(out, base_json_span(yyjson_obj_get(envelope, "target_agent")));
    base_json_write_name(out, "token_count");
    base_json_write(out, yyjson_obj_get(tokens, "count"));
    base_json_write_name(out, "token_budget");
    base_json_write(out, yyjson_obj_get(tokens, "budget"));
    base_json_write_name(out, "token_count_before");
    base_json_write(out, yyjson_obj_get(tokens, "count"));
}

static void write_preview_head(struct preview *preview, yyjson_val *envelope)
{
    const struct handoff_assembly *assembly = preview->assembly;
    struct base_buffer *out = &preview->out;
    char id[BASE_UUID_TEXT];
    base_uuid_format(&preview->id, id);
    base_buffer_byte(out, '{');
    base_json_write_name(out, "id");
    base_json_write_string(out, base_span_text(id));
    base_json_write_name(out, "target_agent");
    base_json_write_string(out, assembly->request.target_agent);
    base_buffer_printf(out, ",\"token_count\":%llu,\"token_budget\":%llu,\"token_count_before\":",
                       (unsigned long long)assembly->plan.count,
                       (unsigned long long)assembly->budget);
    base_json_write(out, yyjson_obj_get(yyjson_obj_get(envelope, "tokens"), "count"));
}

/* On a reader thread, which owns the preview until it was compared. */
static void compare_briefs(struct handoff_store_read *read)
{
    struct preview *preview = preview_of(read);
    yyjson_doc *today = NULL, *envelope = NULL;
    enum handoff_code code = base_json_read(base_span(preview->today, preview->today_size),
                                            "request", &today, &preview->error);
    if (code == HANDOFF_OK)
        code = base_json_read(preview->old, "envelope", &envelope, &preview->error);
    if (code == HANDOFF_OK) {
        handoff_error_clear(&preview->error);
        if (preview->assembly)
            write_preview_head(preview, yyjson_doc_get_root(envelope));
        else
            write_unedited_head(preview, yyjson_doc_get_root(envelope));
        base_json_write_name(&preview->out, "fields");
        write_today(&preview->out, yyjson_doc_get_root(today), yyjson_doc_get_root(envelope));
        if (preview->assembly)
            write_difference(preview);
        else
            base_buffer_text(&preview->out, ",\"difference\":[]");
        base_buffer_byte(&preview->out, '}');
    }
    yyjson_doc_free(today);
    yyjson_doc_free(envelope);
}

static void briefs_compared(struct handoff_store_read *read)
{
    answer_preview(preview_of(read));
}

/* ---- assembling ----------------------------------------------------------------------------- */

static void preview_assembled(struct handoff_assembly *assembly)
{
    struct preview *preview = assembly->context;
    BASE_CHECK_MAGIC(preview, PREVIEW_MAGIC);
    handoff_client_tell_spine(preview->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &assembly->resolve.call, assembly->spine_ns);
    preview->error = assembly->error;
    if (assembly->error.code == HANDOFF_OK)
        read_for_preview(preview, compare_briefs, briefs_compared);
    else
        answer_preview(preview);
}

static void old_was_read(struct handoff_store_read *read)
{
    struct preview *preview = preview_of(read);
    const struct handoff_ask ask = {.body = preview->request, .size = preview->request_size};
    if (preview->error.code == HANDOFF_OK && preview->is_empty) {
        read_for_preview(preview, compare_briefs, briefs_compared);
        return;
    }
    if (preview->error.code == HANDOFF_OK)
        preview->assembly = handoff_client_begin_assembly(preview->loop, &ask);
    if (!preview->assembly) {
        if (preview->error.code == HANDOFF_OK)
            handoff_error_no_memory(&preview->error);
        answer_preview(preview);
        return;
    }
    preview->assembly->warnings = preview->warnings;
    preview->assembly->replaces = preview->id;
    preview->assembly->parks_at_limit = true;
    preview->assembly->context = preview;
    preview->assembly->finished = preview_assembled;
    if (handoff_assembly_run(preview->assembly))
        preview_assembled(preview->assembly);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The agent that the body names, if any, is to be known. */
static enum handoff_code read_preview_body(struct preview *preview)
{
    struct handoff_agents *agents = preview->loop->client->agents;
    yyjson_doc *doc;
    enum handoff_code code = base_json_read(preview->body, "body", &doc, &preview->error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(doc);
    const struct base_span name = base_json_span(yyjson_obj_get(root, "target_agent"));
    preview->is_empty = !name.data && yyjson_obj_size(yyjson_obj_get(root, "edit")) == 0;
    if (name.data && !handoff_agents_find(agents, name))
        code = handoff_agents_refuse_unknown(agents, name, "target_agent", &preview->error);
    yyjson_doc_free(doc);
    return code;
}

static enum handoff_code write_requests(struct preview *preview, const char *target,
                                        struct base_span contribution)
{
    enum handoff_code code =
        handoff_edit_request(preview->old, contribution, preview->body, target, &preview->request,
                             &preview->request_size, &preview->error);
    if (code == HANDOFF_OK)
        code = handoff_edit_request(preview->old, contribution, base_span_text("{\"edit\":{}}"),
                                    target, &preview->today, &preview->today_size, &preview->error);
    return code;
}

/* On a reader thread, which owns the preview until old_was_read. */
static void read_for_edit(struct handoff_store_read *read)
{
    struct preview *preview = preview_of(read);
    struct handoff_store *store = preview->loop->client->store;
    struct handoff_stored stored;
    struct handoff_stored_envelope envelope;
    struct base_span contribution;
    enum handoff_code code =
        handoff_store_get_handoff(store, &preview->id, &preview->arena, &stored, &preview->error);
    if (code == HANDOFF_OK)
        code = handoff_check_can_be_edited(store, &stored, &preview->error);
    if (code == HANDOFF_OK)
        code = read_preview_body(preview);
    if (code == HANDOFF_OK)
        code = handoff_store_get_envelope(store, &preview->id, &preview->arena, &envelope,
                                          &preview->error);
    if (code == HANDOFF_OK)
        code = handoff_edit_contribution(store, &preview->id, &preview->arena, &contribution,
                                         &preview->error);
    if (code == HANDOFF_OK) {
        preview->old = envelope.body;
        code = write_requests(preview, stored.standing.target.data, contribution);
    }
    preview->error.code = code;
}

void handoff_preview_edit(struct handoff_loop *loop, const char *id, const char *body, size_t size,
                          handoff_answered *answered, void *context)
{
    struct handoff_warnings *warnings = handoff_warn_in_answer(&answered, &context);
    struct preview *preview = warnings ? base_calloc(1, sizeof *preview) : NULL;
    if (!preview) {
        handoff_give_no_memory(answered, context);
        return;
    }
    *preview = (struct preview){.magic = PREVIEW_MAGIC,
                                .loop = loop,
                                .answered = answered,
                                .context = context,
                                .warnings = warnings};
    base_arena_init(&preview->arena, 0);
    loop->pending++;
    preview->body = base_span(base_arena_copy(&preview->arena, body, size), size);
    if (!preview->body.data)
        handoff_error_no_memory(&preview->error);
    else
        (void)!handoff_read_id(id, &preview->id, &preview->error);
    if (!preview->body.data || preview->error.code != HANDOFF_OK)
        answer_preview(preview);
    else
        read_for_preview(preview, read_for_edit, old_was_read);
}
