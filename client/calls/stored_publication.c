/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an envelope that is to be published, see stored_publication.h. Reading runs on a reader
 * thread, all else on the loop's.
 */
#include "client/calls/stored_publication.h"

#include <stdlib.h>
#include <string.h>

#include "client/calls/edit.h"
#include "client/calls/projections.h"
#include "client/calls/read.h"
#include "client/calls/stored_envelope.h"
#include "client/ledger/contribution.h"
#include "client/model/model.h"
#include "client/store/channels.h"
#include "client/store/ledger.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

static struct handoff_stored_to_publish *to_publish_of(struct handoff_store_read *read)
{
    return BASE_CONTAINER_OF(read, struct handoff_stored_to_publish, read);
}

static void clear_to_publish(struct handoff_stored_to_publish *stored)
{
    free((void *)(uintptr_t)stored->request.data); /* yyjson's */
    stored->request = (struct base_span){0};
    handoff_envelope_free(&stored->envelope);
    handoff_text_free(&stored->text);
    base_buffer_free(&stored->excerpt);
    base_buffer_free(&stored->passed_on);
    base_arena_free(&stored->arena);
    base_arena_init(&stored->arena, 0);
    stored->envelope = (struct handoff_envelope){0};
    stored->is_published = false;
    handoff_error_clear(&stored->error);
}

/* ---- whether it may be published ------------------------------------------------------------- */

static enum handoff_code refuse_pattern(struct handoff_stored_to_publish *stored)
{
    handoff_error_set(&stored->error, HANDOFF_ERR_INVALID,
                      "the envelope was assembled for one agent; deliver it, or assemble one with "
                      "target_agent \"broadcast\"",
                      "envelope_id", stored->id_text);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code refuse_other_channel(struct handoff_stored_to_publish *stored,
                                              enum handoff_code code, const char *message,
                                              struct base_span channel)
{
    handoff_error_set(&stored->error, code, message, "channel", stored->channel);
    handoff_error_allow(&stored->error, "%.*s", (int)(channel.size < 64 ? channel.size : 64),
                        channel.data);
    return code;
}

static enum handoff_code check_document(struct handoff_stored_to_publish *stored)
{
    const struct handoff_envelope *envelope = &stored->envelope;
    yyjson_val *root = yyjson_doc_get_root(envelope->doc);
    struct base_span channel = base_json_span(yyjson_obj_get(root, "channel"));
    if (handoff_stored_pattern(envelope) != HANDOFF_PATTERN_BROADCAST)
        return refuse_pattern(stored);
    if (stored->caller && !base_span_equal(base_span_text(stored->caller), envelope->source_agent))
        return handoff_error_set(&stored->error, HANDOFF_ERR_FORBIDDEN,
                                 "only the agent that assembled the envelope may publish it",
                                 "envelope_id", stored->id_text);
    if (channel.data && !base_span_equal(channel, base_span_text(stored->channel)))
        return refuse_other_channel(stored, HANDOFF_ERR_INVALID,
                                    "the envelope was assembled for another channel", channel);
    return HANDOFF_OK;
}

/* The limit may be lower than when it was assembled, or published. */
static enum handoff_code check_hops_of_stored(struct handoff_stored_to_publish *stored)
{
    const int64_t count = stored->envelope.hop_count;
    const int64_t max = atomic_load(&stored->loop->client->hops_max);
    return count <= max ? HANDOFF_OK : handoff_refuse_hops(count, max, &stored->error);
}

/* Once to one channel: a repeat is answered with what came of it. */
static enum handoff_code look_for_publication(struct handoff_stored_to_publish *stored,
                                              const struct base_uuid *id)
{
    struct handoff_stored_publication first;
    enum handoff_code code = handoff_store_get_publication(stored->loop->client->store, id,
                                                           &stored->arena, &first, &stored->error);
    if (code == HANDOFF_ERR_NOT_FOUND)
        return handoff_error_clear(&stored->error);
    if (code != HANDOFF_OK)
        return code;
    if (!base_span_equal(first.channel, base_span_text(stored->channel)))
        return refuse_other_channel(stored, HANDOFF_ERR_CONFLICT,
                                    "the envelope was published to another channel; assemble one "
                                    "for each channel",
                                    first.channel);
    stored->is_published = true;
    return HANDOFF_OK;
}

/* ---- what its deliveries need ---------------------------------------------------------------- */

static enum handoff_code write_passed_on(struct handoff_stored_to_publish *stored,
                                         const struct handoff_contribution *own)
{
    struct handoff_said said;
    struct handoff_way way;
    size_t i, n;
    yyjson_val *name;
    enum handoff_code code = handoff_contribution_read(own, base_span(NULL, 0), &stored->arena,
                                                       &said, &way, &stored->error);
    if (code != HANDOFF_OK)
        return code;
    struct base_span *scopes =
        base_arena_calloc(&stored->arena, yyjson_arr_size(way.scope) + 1, sizeof *scopes);
    if (!scopes)
        return handoff_error_no_memory(&stored->error);
    way.nscopes = 0;
    yyjson_arr_foreach(way.scope, i, n, name)
    {
        scopes[way.nscopes++] = base_json_span(name);
    }
    way.scopes = scopes;
    handoff_contribution_pass_on(&stored->passed_on, &way);
    return stored->passed_on.failed ? handoff_error_no_memory(&stored->error) : HANDOFF_OK;
}

static enum handoff_code read_passed_on(struct handoff_stored_to_publish *stored,
                                        const struct base_uuid *id)
{
    struct handoff_contribution *list;
    size_t count;
    enum handoff_code code = handoff_store_get_ledger(
        stored->loop->client->store, id, 1, &stored->arena, &list, &count, &stored->error);
    for (size_t i = 0; i < count && code == HANDOFF_OK; i++) {
        if (memcmp(&list[i].id, id, sizeof *id) == 0)
            return write_passed_on(stored, &list[i]);
    }
    return code;
}

/* A delivery is later than its envelope, also where the clock was set back. */
static void set_time(struct handoff_stored_to_publish *stored)
{
    const int64_t now_ms = base_wall_ms(stored->loop->client->assembler.clock);
    const int64_t created_ms = stored->submission.created_ms;
    stored->at_ms = now_ms > created_ms ? now_ms : created_ms + 1;
}

/* Some receiver needs a projection. Where its request cannot be written, there is none, unless that
   may succeed later. */
static enum handoff_code write_request_of_stored(struct handoff_stored_to_publish *stored,
                                                 struct base_span envelope)
{
    const struct handoff_submission *submission = &stored->submission;
    struct base_span contribution;
    char *request;
    size_t size;
    if (stored->least_budget == 0 || submission->tokens <= stored->least_budget)
        return HANDOFF_OK;
    enum handoff_code code =
        handoff_edit_contribution(stored->loop->client->store, &submission->id, &stored->arena,
                                  &contribution, &stored->error);
    if (code == HANDOFF_OK)
        code = handoff_edit_request(envelope, contribution, base_span_text("{\"edit\":{}}"),
                                    handoff_reserved_name(HANDOFF_RESERVED_BROADCAST), &request,
                                    &size, &stored->error);
    if (code == HANDOFF_OK)
        stored->request = base_span(request, size);
    return handoff_projections_may_succeed_later(code) ? code : handoff_error_clear(&stored->error);
}

static enum handoff_code fill_submission(struct handoff_stored_to_publish *stored,
                                         const struct base_uuid *id)
{
    struct handoff_stored_envelope row;
    enum handoff_code code = handoff_store_get_envelope(stored->loop->client->store, id,
                                                        &stored->arena, &row, &stored->error);
    if (code != HANDOFF_OK)
        return code;
    handoff_stored_excerpt_write(&stored->excerpt, &stored->envelope);
    if (stored->excerpt.failed)
        return handoff_error_no_memory(&stored->error);
    handoff_stored_submission(&stored->envelope, row.body, base_buffer_span(&stored->excerpt),
                              &stored->submission);
    stored->excerpt_lines = stored->submission.excerpt_lines;
    stored->submission.id = *id;
    memcpy(stored->submission.digest, row.digest, sizeof row.digest);
    set_time(stored);
    code = write_request_of_stored(stored, row.body);
    return code == HANDOFF_OK ? read_passed_on(stored, id) : code;
}

static enum handoff_code read_to_publish(struct handoff_stored_to_publish *stored)
{
    struct handoff_client *client = stored->loop->client;
    struct handoff_error *error = &stored->error;
    struct base_uuid id = {0};
    enum handoff_code code = handoff_read_envelope(client, stored->id_text, stored->caller,
                                                   HANDOFF_RENDER_STORED, &stored->text, error);
    if (code == HANDOFF_ERR_NOT_FOUND)
        handoff_error_set(error, code, "no envelope has this id", "envelope_id", stored->id_text);
    if (code == HANDOFF_OK)
        code = handoff_envelope_read(base_span(stored->text.data, stored->text.size),
                                     &stored->envelope, error);
    if (code == HANDOFF_OK)
        code = handoff_read_id(stored->id_text, &id, error);
    if (code == HANDOFF_OK)
        code = check_document(stored);
    if (code == HANDOFF_OK)
        code = look_for_publication(stored, &id);
    stored->submission.id = id;
    if (code != HANDOFF_OK || stored->is_published)
        return code;
    code = check_hops_of_stored(stored);
    return code == HANDOFF_OK ? fill_submission(stored, &id) : code;
}

enum handoff_code handoff_stored_to_publish_load(struct handoff_stored_to_publish *stored,
                                                 const struct base_uuid *id)
{
    char text[BASE_UUID_TEXT];
    clear_to_publish(stored);
    base_uuid_format(id, text);
    enum handoff_code code = handoff_read_envelope(
        stored->loop->client, text, NULL, HANDOFF_RENDER_STORED, &stored->text, &stored->error);
    if (code == HANDOFF_OK)
        code = handoff_envelope_read(base_span(stored->text.data, stored->text.size),
                                     &stored->envelope, &stored->error);
    return code == HANDOFF_OK ? fill_submission(stored, id) : code;
}

static void run_to_publish(struct handoff_store_read *read)
{
    struct handoff_stored_to_publish *stored = to_publish_of(read);
    clear_to_publish(stored);
    stored->error.code = read_to_publish(stored);
}

static void to_publish_was_read(struct handoff_store_read *read)
{
    struct handoff_stored_to_publish *stored = to_publish_of(read);
    stored->was_read(stored);
}

void handoff_stored_to_publish_read(struct handoff_stored_to_publish *stored)
{
    stored->read.mailbox = stored->loop->lane->mailbox;
    stored->read.run = run_to_publish;
    stored->read.done = to_publish_was_read;
    handoff_store_submit_read(stored->loop->client->store, &stored->read);
}

void handoff_stored_to_publish_free(struct handoff_stored_to_publish *stored)
{
    if (!stored->loop)
        return;
    clear_to_publish(stored);
    base_arena_free(&stored->arena);
}
