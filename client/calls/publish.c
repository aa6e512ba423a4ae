/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes to a channel, on the loop's thread.
 *
 * A publishing is one struct from the call to its answer. A request is made into one for a
 * broadcast, looked for under its key, assembled within the budget of the channel, projected for
 * receivers that cannot take that (projections.h), and handed to delivery (deliver/publish.h); an
 * envelope that was assembled before is read instead, on a reader thread, and assembled anew only
 * for such receivers. The answer comes when the publication is durable, or when the last of its
 * deliveries has settled, or when the time for that is over.
 */
#include <stdlib.h>
#include <string.h>

#include "client/assemble/visibility.h"
#include "client/calls/channels.h"
#include "client/calls/projections.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/calls/send.h"
#include "client/calls/stored_envelope.h"
#include "client/calls/stored_publication.h"
#include "client/calls/submission.h"
#include "client/calls/warn.h"
#include "client/deliver/publish.h"
#include "client/deliver/watch.h"
#include "client/model/model.h"
#include "lib/base/canonical.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/members.h"
#include "lib/base/memory.h"

enum { PUBLISHING_MAGIC = 0x7075626e, PREPARED_ON_LOOP = 64 * 1024, PREPARED_IN_MS = 30 * 1000 };

/* Deliveries of which an answer tells without a look at the store: those of more are read by a
   reader thread, since writing them takes a loop a microsecond each. */
enum { TOLD_ON_LOOP = 100 };

struct publishing_receiver {
    struct handoff_waiter waiter;
    struct publishing *publishing;
    struct handoff_agent *agent;
    struct base_uuid id;
    enum handoff_reason parked_for;
    const struct handoff_projection *projection; /* NULL: it gets what the others get */
    struct handoff_live_view ended; /* as its waiter was told; NONE: it was not, or only the store
                                       knows all of it */
};

struct publishing {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct base_arena arena;
    struct handoff_channel channel;
    struct handoff_channel_ticket ticket; /* until it is durable */
    struct publishing_receiver *receivers;
    size_t nreceivers, room;
    bool named;         /* the receivers were: else they are the channel's */
    const char **names; /* of `room`, where they were named; some may be no agents (`unknown`) */
    struct handoff_error unknown; /* the channel or a receiver, as after a reload: only a repeat is
                                     answered */
    struct base_span body, caller, sender, source, key;
    uint8_t request_digest[BASE_SHA256_BYTES];

    struct base_work work;        /* of a long body */
    struct handoff_error problem; /* of preparing it */
    struct handoff_assembly *assembly;
    struct handoff_publication publication; /* of a request, once it was assembled */
    struct handoff_event assembled;         /* likewise, to be told */
    struct handoff_projections projections;
    struct handoff_stored_to_publish stored; /* of an envelope that was assembled before */

    /* of the publication */
    struct handoff_stored_publication made;
    int64_t seq; /* of the publication, once it is durable */
    char assembled_id[BASE_UUID_TEXT];
    bool waits, is_durable;
    size_t unsettled;
    struct base_op wait;

    /* of a repeat, and of the answer at the end of a wait: the reader's, then the loop's */
    struct handoff_store_read read;
    bool by_key; /* looks for the key; else reads the publication */
    struct handoff_error conflict;
    struct base_uuid id;
    struct handoff_text text;
    bool under_way, repeats;
    bool first_is_handoff; /* of a key that was used for something else: what `text` shows */
    struct handoff_error error;
    struct handoff_watch watch; /* of a delivery of the first publication, in a repeat */
};

static void end_publishing(struct publishing *publishing)
{
    publishing->loop->pending--;
    handoff_channels_leave(&publishing->loop->client->channels, &publishing->ticket);
    base_op_cancel(&publishing->wait);
    handoff_projections_stop(&publishing->projections);
    for (size_t i = 0; i < publishing->nreceivers; i++)
        handoff_waiter_withdraw(&publishing->receivers[i].waiter);
    if (publishing->assembly)
        handoff_client_end_assembly(&publishing->assembly);
    handoff_stored_to_publish_free(&publishing->stored);
    handoff_text_free(&publishing->text);
    base_arena_free(&publishing->arena);
    publishing->magic = 0;
    base_free(publishing);
}

static void fail_publishing(struct publishing *publishing, const struct handoff_error *error)
{
    handoff_answered *answered = publishing->answered;
    void *context = publishing->context;
    struct handoff_error copy = *error; /* the error may be in the assembly */
    char source[HANDOFF_NAME_MAX + 1];
    handoff_keep_source(source, publishing->source);
    end_publishing(publishing);
    handoff_give_rejection(answered, context, &copy, source);
}

/* The key was used for something else, which is shown. */
static void fail_with_first(struct publishing *publishing)
{
    char source[HANDOFF_NAME_MAX + 1];
    handoff_keep_source(source, publishing->source);
    const struct handoff_result result = {.error = publishing->error,
                                          .body = publishing->text.data,
                                          .size = publishing->text.size,
                                          .is_publication = !publishing->first_is_handoff,
                                          .source = source[0] ? source : NULL};
    publishing->answered(publishing->context, &result);
    end_publishing(publishing);
}

static void fail_without_memory(struct publishing *publishing)
{
    struct handoff_error error;
    handoff_error_no_memory(&error);
    fail_publishing(publishing, &error);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void give_publication_text(struct publishing *publishing, bool created)
{
    const struct handoff_result result = {.body = publishing->text.data,
                                          .size = publishing->text.size,
                                          .created = created,
                                          .under_way = publishing->under_way};
    publishing->answered(publishing->context, &result);
    end_publishing(publishing);
}

static bool is_projected(const struct publishing_receiver *receiver)
{
    return receiver->projection && receiver->projection->code == HANDOFF_OK;
}

/* As it is right after the commit. */
static struct handoff_live_view view_as_made(const struct publishing_receiver *receiver)
{
    const bool parked = receiver->parked_for != HANDOFF_REASON_NONE;
    return (struct handoff_live_view){.state = parked ? HANDOFF_STATE_PARKED : HANDOFF_STATE_READY,
                                      .target = receiver->agent->name,
                                      .reason = receiver->parked_for,
                                      .settled_ms = parked ? receiver->publishing->made.at_ms : 0};
}

static void show_receiver(const struct publishing_receiver *receiver,
                          struct handoff_shown_delivery *shown)
{
    const bool has_ended = receiver->ended.state != HANDOFF_STATE_NONE;
    const struct handoff_live_view view = has_ended ? receiver->ended : view_as_made(receiver);
    *shown = (struct handoff_shown_delivery){
        .id = receiver->id,
        .receiver = base_span_text(receiver->agent->name),
        .target = base_span_text(view.target),
        .envelope = is_projected(receiver) ? receiver->id : receiver->publishing->made.id,
        .state = view.state,
        .reason = handoff_reason_name(view.reason),
        .attempts = view.attempts,
        .settled_ms = view.settled_ms};
}

static void answer_as_told(struct publishing *publishing)
{
    struct base_buffer out = {0};
    struct handoff_shown_delivery *shown =
        base_arena_calloc(&publishing->arena, publishing->nreceivers + 1, sizeof *shown);
    for (size_t i = 0; shown && i < publishing->nreceivers; i++) {
        show_receiver(&publishing->receivers[i], &shown[i]);
        publishing->under_way |= handoff_state_is_live(shown[i].state);
    }
    if (shown)
        handoff_publication_write(&out, &publishing->made, shown, publishing->nreceivers);
    struct handoff_error error;
    if (handoff_client_give(&out, &publishing->text, &error) == HANDOFF_OK)
        give_publication_text(publishing, true);
    else
        fail_publishing(publishing, &error);
}

static void read_published(struct publishing *publishing);

static void publishing_wait_is_over(struct base_op *op)
{
    struct publishing *publishing = BASE_CONTAINER_OF(op, struct publishing, wait);
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    if (atomic_load(&op->verdict) == BASE_OP_CANCELLED)
        return; /* it was answered */
    publishing->waits = false;
    if (publishing->watch.trips > 0)
        handoff_engine_recall(&publishing->watch);
    else if (publishing->is_durable && publishing->unsettled > 0)
        read_published(publishing);
}

/* Where the waiters know all that an answer tells. */
static void answer_when_settled(struct publishing *publishing)
{
    bool told = publishing->nreceivers <= TOLD_ON_LOOP;
    for (size_t i = 0; i < publishing->nreceivers && told; i++)
        told = publishing->receivers[i].ended.state != HANDOFF_STATE_NONE;
    if (told)
        answer_as_told(publishing);
    else
        read_published(publishing);
}

/* What could not be written is read later, and so are the words of who parked it by hand. */
static void keep_end(struct publishing_receiver *receiver, const struct handoff_status *status)
{
    if (status->error.code == HANDOFF_OK && status->reason != HANDOFF_REASON_OTHER)
        receiver->ended = (struct handoff_live_view){.state = status->state,
                                                     .target = status->target,
                                                     .reason = status->reason,
                                                     .attempts = status->attempts,
                                                     .settled_ms = status->settled_ms};
}

/* Tells one after the other; what has become of them is in the store then, or could not be written.
 */
static void delivery_settled(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct publishing_receiver *receiver =
        BASE_CONTAINER_OF(waiter, struct publishing_receiver, waiter);
    struct publishing *publishing = receiver->publishing;
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    keep_end(receiver, status);
    if (--publishing->unsettled == 0 && publishing->is_durable)
        answer_when_settled(publishing);
}

/* Two concurrent calls with one key, or for one envelope: the store took the other. False: it was
   neither. */
static bool finds_other_publication(struct publishing *publishing,
                                    const struct handoff_error *error)
{
    if (error->code != HANDOFF_ERR_CONFLICT || publishing->conflict.code != HANDOFF_OK)
        return false;
    publishing->conflict = *error;
    for (size_t i = 0; i < publishing->nreceivers; i++)
        handoff_waiter_withdraw(&publishing->receivers[i].waiter);
    publishing->unsettled = 0;
    if (publishing->key.size > 0) {
        publishing->by_key = true;
        read_published(publishing);
    } else if (publishing->stored.id_text) {
        handoff_stored_to_publish_read(&publishing->stored);
    } else {
        return false;
    }
    return true;
}

/* The texts of a projection were the assembly's, which has ended. */
static void tell_of_stored_receiver(struct publishing *publishing,
                                    const struct publishing_receiver *receiver,
                                    const struct handoff_event *shared)
{
    const struct handoff_agent *agent = receiver->agent;
    struct handoff_event event = *shared;
    if (is_projected(receiver)) {
        event.who.id = receiver->projection->id_text;
        event.of.assembled = receiver->projection->event.of.assembled;
    }
    event.who.target_agent = agent->name;
    event.of.assembled.cycle = handoff_stored_is_cycle_to(&publishing->stored.envelope,
                                                          base_span(agent->name, agent->name_size));
    handoff_client_tell(publishing->loop->client, &event);
}

/* Only once it is durable: until then the store may find that another call was first, for this
   envelope or with this key. */
static void tell_stored_published(struct publishing *publishing)
{
    struct handoff_event event;
    handoff_stored_event(&publishing->stored.envelope, publishing->stored.id_text, &event);
    for (size_t i = 0; i < publishing->nreceivers; i++)
        tell_of_stored_receiver(publishing, &publishing->receivers[i], &event);
}

/* A commit that failed may have been made after all; then its number is not known. */
static void note_earlier_number(struct publishing *publishing)
{
    handoff_channels_note_behind(&publishing->loop->client->channels,
                                 base_span_text(publishing->channel.name),
                                 publishing->seq > 0 ? publishing->seq : 1);
}

/* The deliveries were told before this, and some may have settled. */
static void was_published(void *context, const struct handoff_error *error)
{
    struct publishing *publishing = context;
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    if (finds_other_publication(publishing, error))
        return;
    if (publishing->stored.id_text)
        note_earlier_number(publishing);
    if (error->code != HANDOFF_OK) {
        fail_publishing(publishing, error);
        return;
    }
    publishing->is_durable = true;
    if (publishing->stored.id_text)
        tell_stored_published(publishing);
    handoff_channels_leave(&publishing->loop->client->channels, &publishing->ticket);
    if (!publishing->waits || publishing->nreceivers == 0)
        answer_as_told(publishing);
    else if (publishing->unsettled == 0)
        answer_when_settled(publishing);
}

/* ---- a repeat, and the end of a wait ---------------------------------------------------------
 */

static struct publishing *publishing_of_read(struct handoff_store_read *read)
{
    struct publishing *publishing = BASE_CONTAINER_OF(read, struct publishing, read);
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    return publishing;
}

static enum handoff_code find_first_of_key(struct publishing *publishing)
{
    uint8_t digest[BASE_SHA256_BYTES];
    struct handoff_error *error = &publishing->error;
    enum handoff_code code =
        handoff_store_find_key(publishing->loop->client->store, publishing->source, publishing->key,
                               &publishing->id, digest, error);
    if (code != HANDOFF_OK || memcmp(digest, publishing->request_digest, sizeof digest) == 0)
        return code;
    return handoff_error_set(error, HANDOFF_ERR_IDEMPOTENCY_CONFLICT,
                             "this key was used for a different request; use a new key",
                             "Idempotency-Key", publishing->key.data);
}

/* A publication, or a handoff; what cannot be read is not shown. */
static void read_first_of_other_request(struct publishing *publishing)
{
    struct handoff_client *client = publishing->loop->client;
    struct handoff_error error;
    char id[BASE_UUID_TEXT];
    bool under_way;
    if (handoff_read_publication(client, NULL, &publishing->id, NULL, &publishing->text, &under_way,
                                 &error) == HANDOFF_OK)
        return;
    base_uuid_format(&publishing->id, id);
    publishing->first_is_handoff = true;
    (void)!handoff_read_handoff(client, id, NULL, &publishing->text, &error);
}

static bool has_delivery(yyjson_val *deliveries, const char *receiver)
{
    size_t i, n;
    yyjson_val *delivery;
    yyjson_arr_foreach(deliveries, i, n, delivery)
    {
        if (yyjson_equals_str(yyjson_obj_get(delivery, "receiver"), receiver))
            return true;
    }
    return false;
}

/* A repeat for an envelope that was published may not name receivers that did not get it. */
static void check_published_to(struct publishing *publishing)
{
    yyjson_doc *doc = yyjson_read(publishing->text.data, publishing->text.size, 0);
    yyjson_val *deliveries = yyjson_obj_get(yyjson_doc_get_root(doc), "deliveries");
    if (!doc)
        handoff_error_no_memory(&publishing->error);
    for (size_t i = 0; doc && i < publishing->room; i++) {
        const char *name = publishing->names[i];
        if (!has_delivery(deliveries, name))
            handoff_error_set(&publishing->error, HANDOFF_ERR_CONFLICT,
                              "the envelope was published before, and not to this receiver; "
                              "assemble another one",
                              "receivers", name);
    }
    yyjson_doc_free(doc);
}

/* A key that is new, of an envelope that was published without it. */
static bool read_without_key(struct publishing *publishing)
{
    if (publishing->error.code != HANDOFF_ERR_NOT_FOUND || !publishing->stored.is_published)
        return false;
    handoff_error_clear(&publishing->error);
    publishing->id = publishing->stored.submission.id;
    publishing->by_key = false;
    return true;
}

/* On a reader thread, which owns the publishing until it was read. */
static void run_publishing_read(struct handoff_store_read *read)
{
    struct publishing *publishing = publishing_of_read(read);
    handoff_error_clear(&publishing->error);
    if (publishing->by_key && find_first_of_key(publishing) != HANDOFF_OK &&
        !read_without_key(publishing)) {
        if (publishing->error.code == HANDOFF_ERR_IDEMPOTENCY_CONFLICT)
            read_first_of_other_request(publishing);
        return;
    }
    if (handoff_read_publication(publishing->loop->client, NULL, &publishing->id, NULL,
                                 &publishing->text, &publishing->under_way,
                                 &publishing->error) == HANDOFF_OK &&
        publishing->repeats && publishing->named && !publishing->by_key)
        check_published_to(publishing);
}

static void first_delivery_ended(struct handoff_watch *watch)
{
    struct publishing *publishing = BASE_CONTAINER_OF(watch, struct publishing, watch);
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    handoff_text_free(&publishing->text);
    read_published(publishing);
}

/* Of the first delivery that is under way; then it is read again. False: there is none. */
static bool watch_a_delivery(struct publishing *publishing)
{
    yyjson_doc *doc = yyjson_read(publishing->text.data, publishing->text.size, 0);
    yyjson_val *deliveries = yyjson_obj_get(yyjson_doc_get_root(doc), "deliveries"), *delivery;
    size_t i, n;
    bool watches = false;
    yyjson_arr_foreach(deliveries, i, n, delivery)
    {
        struct base_span id = base_json_span(yyjson_obj_get(delivery, "handoff_id"));
        watches = watches || (yyjson_is_null(yyjson_obj_get(delivery, "settled_at")) && id.data &&
                              base_uuid_parse(id.data, id.size, &publishing->watch.id));
    }
    yyjson_doc_free(doc);
    publishing->watch.what = HANDOFF_WATCH_END;
    publishing->watch.told = first_delivery_ended;
    if (watches)
        handoff_engine_watch(publishing->loop->lane, &publishing->watch);
    return watches;
}

static void begin_publishing(struct publishing *publishing);

/* Once it is there, a subscriber that catches up finds it, and need not wait until this is over. */
static void publication_was_read(struct handoff_store_read *read)
{
    struct publishing *publishing = publishing_of_read(read);
    const bool unknown = publishing->by_key && publishing->error.code == HANDOFF_ERR_NOT_FOUND;
    publishing->repeats &= !unknown;
    if (!unknown)
        handoff_channels_leave(&publishing->loop->client->channels, &publishing->ticket);
    if (unknown && publishing->conflict.code != HANDOFF_OK)
        fail_publishing(publishing, &publishing->conflict);
    else if (unknown && publishing->unknown.code != HANDOFF_OK)
        fail_publishing(publishing, &publishing->unknown);
    else if (unknown)
        begin_publishing(publishing);
    else if (publishing->error.code != HANDOFF_OK)
        fail_with_first(publishing);
    else if (!(publishing->waits && publishing->under_way && publishing->unsettled == 0 &&
               publishing->repeats && watch_a_delivery(publishing)))
        give_publication_text(publishing, !publishing->repeats);
}

static void read_published(struct publishing *publishing)
{
    publishing->repeats |= publishing->by_key;
    publishing->read.mailbox = publishing->loop->lane->mailbox;
    publishing->read.run = run_publishing_read;
    publishing->read.done = publication_was_read;
    handoff_store_submit_read(publishing->loop->client->store, &publishing->read);
}

/* ---- handing over ---------------------------------------------------------------------------- */

static uint64_t budget_of(struct handoff_agent *agent)
{
    struct handoff_settings *settings = handoff_agent_settings(agent);
    const uint64_t budget = settings ? settings->options.token_budget : 0;
    handoff_settings_release(&settings);
    return budget;
}

/* 0: each of them takes any envelope. */
static uint64_t least_budget_of(const struct publishing *publishing)
{
    uint64_t least = 0;
    for (size_t i = 0; i < publishing->nreceivers; i++) {
        const uint64_t budget = budget_of(publishing->receivers[i].agent);
        least = budget > 0 && (least == 0 || budget < least) ? budget : least;
    }
    return least;
}

/* A budget that a reload has taken away with its agent is no obstacle. */
static bool can_take(const struct publishing_receiver *receiver, uint64_t tokens)
{
    const uint64_t budget = budget_of(receiver->agent);
    return budget == 0 || tokens <= budget;
}

/* A projection has the budget that was in force when the publication was assembled. */
static void judge_receivers(struct publishing *publishing, uint64_t tokens)
{
    for (size_t i = 0; i < publishing->nreceivers; i++) {
        struct publishing_receiver *receiver = &publishing->receivers[i];
        const bool fits = is_projected(receiver) || can_take(receiver, tokens);
        receiver->parked_for = fits ? HANDOFF_REASON_NONE : HANDOFF_REASON_BUDGET_TOO_SMALL;
        receiver->waiter = (struct handoff_waiter){.settled = delivery_settled};
    }
}

/* NULL: out of memory. The ids are made here, so they are later than the envelope's. */
static struct handoff_publication_receiver *list_receivers(struct publishing *publishing)
{
    struct handoff_publication_receiver *list =
        base_arena_calloc(&publishing->arena, publishing->nreceivers + 1, sizeof *list);
    for (size_t i = 0; list && i < publishing->nreceivers; i++) {
        struct publishing_receiver *receiver = &publishing->receivers[i];
        const struct handoff_submission *projection =
            is_projected(receiver) ? &receiver->projection->submission : NULL;
        receiver->id =
            projection ? projection->id : base_uuid_make(&publishing->loop->client->uuids);
        list[i] = (struct handoff_publication_receiver){
            .agent = receiver->agent,
            .id = receiver->id,
            .projection = projection,
            .parked_for = receiver->parked_for,
            .waiter = publishing->waits ? &receiver->waiter : NULL};
    }
    return list;
}

static bool keep_made(struct publishing *publishing, const struct handoff_submission *submission,
                      int64_t at_ms)
{
    struct base_arena *arena = &publishing->arena;
    const struct base_span task = submission->task_id, source = submission->source;
    const char *task_id = base_arena_copy(arena, task.data, task.size);
    const char *source_agent = base_arena_copy(arena, source.data, source.size);
    publishing->id = submission->id;
    publishing->made =
        (struct handoff_stored_publication){.id = submission->id,
                                            .channel = base_span_text(publishing->channel.name),
                                            .source = base_span(source_agent, source.size),
                                            .task_id = base_span(task_id, task.size),
                                            .at_ms = at_ms};
    return task_id && source_agent;
}

static enum handoff_code hand_over_publication(struct publishing *publishing,
                                               struct handoff_publication *publication,
                                               struct handoff_error *error)
{
    struct handoff_submission *submission = &publication->submission;
    judge_receivers(publishing, submission->tokens);
    publication->channel = base_span_text(publishing->channel.name);
    publication->receivers = list_receivers(publishing);
    publication->nreceivers = publishing->nreceivers;
    publication->named = publishing->named;
    publication->kept = publishing->channel.keeps;
    publication->published = was_published;
    publication->context = publishing;
    publication->seq = &publishing->seq;
    submission->idempotency_key = publishing->key;
    memcpy(submission->request_digest, publishing->request_digest,
           sizeof submission->request_digest);
    if (!publication->receivers || !keep_made(publishing, submission, publication->at_ms))
        return handoff_error_no_memory(error);
    enum handoff_code code = handoff_engine_publish(publishing->loop->lane, publication, error);
    publishing->unsettled = code == HANDOFF_OK && publishing->waits ? publishing->nreceivers : 0;
    return code;
}

/* ---- a request ------------------------------------------------------------------------------- */

static void tell_not_delivered(struct publishing *publishing, enum handoff_code code)
{
    struct handoff_event *event = &publishing->assembled;
    event->code = code;
    event->of.assembled.envelope_only = code == HANDOFF_OK;
    handoff_client_tell(publishing->loop->client, event);
}

static void tell_of_receiver(struct publishing *publishing,
                             const struct publishing_receiver *receiver)
{
    struct handoff_event *shared = &publishing->assembled;
    struct handoff_event event = is_projected(receiver) ? receiver->projection->event : *shared;
    event.who.pattern = HANDOFF_PATTERN_BROADCAST;
    event.who.target_agent = receiver->agent->name;
    const struct base_span name = base_span(receiver->agent->name, receiver->agent->name_size);
    event.of.assembled.cycle = handoff_assembly_is_cycle_to(publishing->assembly, name);
    event.of.assembled.ping_pong = handoff_assembly_is_ping_pong_with(publishing->assembly, name);
    handoff_client_tell(publishing->loop->client, &event);
    if (is_projected(receiver))
        return;
    shared->of.assembled.resolve_ns = shared->of.assembled.trim_ns = 0;
    shared->of.assembled.encode_ns = 0;
}

/* What every receiver gets is measured with the envelope of each. */
static void tell_published(struct publishing *publishing, enum handoff_code code)
{
    if (code != HANDOFF_OK || publishing->nreceivers == 0) {
        tell_not_delivered(publishing, code);
        return;
    }
    for (size_t i = 0; i < publishing->nreceivers; i++)
        tell_of_receiver(publishing, &publishing->receivers[i]);
}

/* The projections write over what the assembly says of this envelope. */
static enum handoff_code keep_assembled(struct publishing *publishing, struct handoff_error *error)
{
    struct handoff_assembly *assembly = publishing->assembly;
    struct handoff_publication *publication = &publishing->publication;
    *publication = (struct handoff_publication){
        .at_ms = assembly->created_ms, .passed_on = base_buffer_span(&assembly->passed_on)};
    handoff_submission_of(assembly, &publication->submission);
    publication->excerpt_lines =
        handoff_excerpt_copy(&assembly->excerpt, publication->submission.envelope,
                             assembly->plan.count, &publishing->arena);
    memcpy(publishing->assembled_id, assembly->id_text, sizeof publishing->assembled_id);
    publishing->assembled.who.id = publishing->assembled_id;
    return publication->excerpt_lines.data ? HANDOFF_OK : handoff_error_no_memory(error);
}

static void end_publishing_assembly(struct publishing *publishing,
                                    const struct handoff_error *failure)
{
    struct handoff_error error = *failure;
    struct handoff_assembly *assembly = publishing->assembly;
    handoff_client_tell_spine(publishing->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &assembly->resolve.call, assembly->spine_ns);
    if (error.code == HANDOFF_OK) {
        handoff_client_keep_tokens(publishing->loop, assembly);
        (void)!hand_over_publication(publishing, &publishing->publication, &error);
    }
    tell_published(publishing, error.code);
    if (error.code != HANDOFF_OK)
        fail_publishing(publishing, &error);
    else
        handoff_client_end_assembly(&publishing->assembly);
}

static void projections_were_made(struct handoff_projections *projections,
                                  const struct handoff_error *error)
{
    struct publishing *publishing = BASE_CONTAINER_OF(projections, struct publishing, projections);
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    end_publishing_assembly(publishing, error);
}

/* For the receivers that cannot take what was assembled. False: out of memory. */
static bool list_projections(struct publishing *publishing, uint64_t tokens,
                             void (*made)(struct handoff_projections *projections,
                                          const struct handoff_error *error))
{
    struct handoff_projection *list =
        base_arena_calloc(&publishing->arena, publishing->nreceivers + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < publishing->nreceivers; i++) {
        struct publishing_receiver *receiver = &publishing->receivers[i];
        if (can_take(receiver, tokens))
            continue;
        list[count].budget = budget_of(receiver->agent);
        receiver->projection = &list[count++];
    }
    publishing->projections =
        (struct handoff_projections){.assembly = count ? publishing->assembly : NULL,
                                     .list = list,
                                     .count = count,
                                     .made = made};
    return list != NULL;
}

static void publishing_assembled(struct handoff_assembly *assembly)
{
    struct publishing *publishing = assembly->context;
    struct handoff_error error = assembly->error;
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    handoff_client_describe(assembly, &publishing->assembled);
    publishing->assembled.who.pattern = HANDOFF_PATTERN_BROADCAST;
    if (error.code == HANDOFF_OK && keep_assembled(publishing, &error) == HANDOFF_OK &&
        !list_projections(publishing, publishing->publication.submission.tokens,
                          projections_were_made))
        handoff_error_no_memory(&error);
    if (error.code == HANDOFF_OK && publishing->projections.count > 0)
        handoff_projections_make(&publishing->projections);
    else
        end_publishing_assembly(publishing, &error);
}

/* The smallest budget that is at least half of the greatest: one small receiver does not cost all
   others what they have room for. */
static uint64_t budget_of_receivers(const struct publishing *publishing)
{
    uint64_t greatest = 0, least = 0;
    for (size_t i = 0; i < publishing->nreceivers; i++) {
        const uint64_t budget = budget_of(publishing->receivers[i].agent);
        greatest = budget > greatest ? budget : greatest;
    }
    for (size_t i = 0; i < publishing->nreceivers; i++) {
        const uint64_t budget = budget_of(publishing->receivers[i].agent);
        if (2 * budget >= greatest && budget > 0 && (least == 0 || budget < least))
            least = budget;
    }
    return least;
}

/* Any thread, as every target of an assembly. */
static enum handoff_code look_up_receivers(struct handoff_assembly *assembly)
{
    const struct publishing *publishing = assembly->context;
    struct handoff_client *client = assembly->loop->client;
    enum handoff_code code = HANDOFF_OK;
    uint64_t budget = publishing->channel.token_budget;
    if (budget == 0)
        budget = budget_of_receivers(publishing);
    assembly->token_budget = budget ? budget : atomic_load(&client->default_token_budget);
    for (size_t i = 0; i < publishing->nreceivers && code == HANDOFF_OK; i++) {
        struct handoff_settings *settings = handoff_agent_settings(publishing->receivers[i].agent);
        assembly->dual |= settings && settings->options.emit == HANDOFF_EMIT_DUAL;
        code =
            handoff_client_check_sender(settings, assembly->request.source_agent, &assembly->error);
        handoff_settings_release(&settings);
    }
    return code;
}

static void begin_publishing(struct publishing *publishing)
{
    if (publishing->stored.id_text)
        handoff_stored_to_publish_read(&publishing->stored);
    else if (handoff_assembly_run(publishing->assembly))
        publishing_assembled(publishing->assembly);
}

/* Who publishes to a channel that it receives from does not hand work to itself, unless it says so.
   Before the waiters are made, which do not move. */
static void leave_out_source(struct publishing *publishing)
{
    size_t kept = 0;
    for (size_t i = 0; i < publishing->nreceivers; i++) {
        const struct publishing_receiver receiver = publishing->receivers[i];
        if (publishing->named ||
            !base_span_equal(base_span_text(receiver.agent->name), publishing->source))
            publishing->receivers[kept++] = receiver;
    }
    publishing->nreceivers = kept;
}

/* A copy: what it is read from may go before the answer. false: out of memory. */
static bool keep_source(struct publishing *publishing, struct base_span source)
{
    const char *copy =
        base_arena_copy(&publishing->arena, source.data ? source.data : "", source.size);
    publishing->source = base_span(copy, copy ? source.size : 0);
    if (copy)
        leave_out_source(publishing);
    return copy != NULL;
}

/* ---- an envelope that was assembled before --------------------------------------------------- */

static void hand_over_stored_publication(struct publishing *publishing)
{
    const struct handoff_stored_to_publish *stored = &publishing->stored;
    struct handoff_error error = {0};
    struct handoff_publication publication = {.submission = stored->submission,
                                              .at_ms = stored->at_ms,
                                              .excerpt_lines = stored->excerpt_lines,
                                              .passed_on = base_buffer_span(&stored->passed_on)};
    if (hand_over_publication(publishing, &publication, &error) != HANDOFF_OK)
        fail_publishing(publishing, &error);
    else if (publishing->assembly)
        handoff_client_end_assembly(&publishing->assembly);
}

static void stored_projections_were_made(struct handoff_projections *projections,
                                         const struct handoff_error *error)
{
    struct publishing *publishing = BASE_CONTAINER_OF(projections, struct publishing, projections);
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    struct handoff_assembly *assembly = publishing->assembly;
    handoff_client_tell_spine(publishing->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &assembly->resolve.call, assembly->spine_ns);
    for (size_t i = 0; i < publishing->nreceivers && error->code != HANDOFF_OK; i++)
        publishing->receivers[i].projection = NULL;
    if (handoff_projections_may_succeed_later(error->code)) {
        fail_publishing(publishing, error);
        return;
    }
    hand_over_stored_publication(publishing);
}

/* Without the request, as of an older version, what it was made of is unknown. */
static void project_stored(struct publishing *publishing)
{
    const struct handoff_stored_to_publish *stored = &publishing->stored;
    if (stored->request.data &&
        !list_projections(publishing, stored->submission.tokens, stored_projections_were_made)) {
        fail_without_memory(publishing);
        return;
    }
    if (publishing->projections.count == 0) {
        hand_over_stored_publication(publishing);
        return;
    }
    publishing->assembly =
        handoff_projections_begin_anew(publishing->loop, stored->request, &stored->submission);
    publishing->projections.assembly = publishing->assembly;
    if (publishing->assembly)
        handoff_projections_make_anew(&publishing->projections);
    else
        fail_without_memory(publishing);
}

/* As an assembly tells that was stopped by it. */
static void tell_hop_limit_of_stored(const struct publishing *publishing)
{
    struct handoff_event event;
    handoff_stored_event(&publishing->stored.envelope, NULL, &event);
    event.code = HANDOFF_ERR_HOP_LIMIT;
    handoff_client_tell(publishing->loop->client, &event);
}

/* As the configuration says now, not when the envelope was assembled. */
static enum handoff_code check_senders_of_stored(struct publishing *publishing)
{
    struct handoff_stored_to_publish *stored = &publishing->stored;
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < publishing->nreceivers && code == HANDOFF_OK; i++) {
        struct handoff_settings *settings = handoff_agent_settings(publishing->receivers[i].agent);
        code = handoff_client_check_sender(settings, stored->submission.source, &stored->error);
        handoff_settings_release(&settings);
    }
    return code;
}

/* The key, where there is one, may be that of another request. */
static void answer_stored_repeat(struct publishing *publishing)
{
    if (!keep_source(publishing, publishing->stored.envelope.source_agent)) {
        fail_without_memory(publishing);
        return;
    }
    publishing->id = publishing->stored.submission.id;
    publishing->repeats = true;
    publishing->by_key = publishing->key.size > 0;
    read_published(publishing);
}

static void stored_was_read_to_publish(struct handoff_stored_to_publish *stored)
{
    struct publishing *publishing = BASE_CONTAINER_OF(stored, struct publishing, stored);
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    struct handoff_error *error = &stored->error;
    if (error->code == HANDOFF_OK && stored->is_published) {
        answer_stored_repeat(publishing);
        return;
    }
    if (publishing->unknown.code != HANDOFF_OK) {
        fail_publishing(publishing, &publishing->unknown);
        return;
    }
    if (error->code == HANDOFF_ERR_HOP_LIMIT)
        tell_hop_limit_of_stored(publishing);
    if (error->code == HANDOFF_OK && !keep_source(publishing, stored->submission.source))
        handoff_error_no_memory(error);
    if (error->code == HANDOFF_OK && check_senders_of_stored(publishing) == HANDOFF_OK)
        project_stored(publishing);
    else
        fail_publishing(publishing, error);
}

/* ---- preparing a request --------------------------------------------------------------------- */

/* The publisher is who calls, else whom the request names, else whom the configuration does.
   false: out of memory. */
static bool keep_publisher(struct publishing *publishing, struct base_span named)
{
    struct base_span source = publishing->caller;
    if (!source.data)
        source = named.data ? named : publishing->sender;
    return keep_source(publishing, source);
}

/* What a request for a channel may say of its target, or nothing. */
static enum handoff_code check_member(yyjson_val *request, const char *name, const char *allowed,
                                      struct handoff_error *error)
{
    yyjson_val *value = yyjson_obj_get(request, name);
    if (!value || yyjson_is_null(value) || yyjson_equals_str(value, allowed))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "the path names the channel; leave out the field",
                      name, yyjson_get_str(value));
    handoff_error_allow(error, "%s", allowed);
    return HANDOFF_ERR_INVALID;
}

static void write_broadcast_target(struct base_buffer *out, const char *channel)
{
    base_json_write_name(out, "target_agent");
    base_json_write_string(out, base_span_text(handoff_reserved_name(HANDOFF_RESERVED_BROADCAST)));
    base_json_write_name(out, "channel");
    base_json_write_string(out, base_span_text(channel));
}

/* Most requests name no target: then it goes behind their bytes, which stay where they are, so that
   an error names the byte that the caller sent. */
static void insert_broadcast(struct base_buffer *out, bool is_empty, struct base_span text,
                             const char *channel)
{
    const char *brace = memrchr(text.data, '}', text.size);
    if (is_empty)
        base_buffer_byte(out, '{');
    else
        base_buffer_append(out, text.data, (size_t)(brace - text.data));
    write_broadcast_target(out, channel);
    base_buffer_byte(out, '}');
}

static void write_broadcast(struct base_buffer *out, yyjson_val *request, const char *channel)
{
    size_t i, n;
    yyjson_val *key, *value;
    base_buffer_byte(out, '{');
    write_broadcast_target(out, channel);
    yyjson_obj_foreach(request, i, n, key, value)
    {
        if (yyjson_equals_str(key, "target_agent") || yyjson_equals_str(key, "channel"))
            continue;
        base_buffer_byte(out, ',');
        base_json_write(out, key);
        base_buffer_byte(out, ':');
        base_json_write(out, value);
    }
    base_buffer_byte(out, '}');
}

/* Its key covers the request, the channel and the receivers that were named. false: no memory. */
static bool identify_publication(struct publishing *publishing, yyjson_val *request)
{
    struct base_buffer canonical = {0};
    base_json_canonical_request(&canonical, request);
    base_buffer_printf(&canonical, "\n%s", publishing->channel.name);
    for (size_t i = 0; publishing->named && i < publishing->room; i++)
        base_buffer_printf(&canonical, "\n%s", publishing->names[i]);
    const bool failed = canonical.failed;
    if (!failed)
        base_sha256(canonical.data, canonical.size, publishing->request_digest);
    base_buffer_free(&canonical);
    return !failed;
}

/* The request for a broadcast. */
static enum handoff_code write_prepared(struct publishing *publishing, yyjson_val *request,
                                        struct handoff_error *error)
{
    struct base_buffer body = {.arena = &publishing->arena};
    if (yyjson_obj_get(request, "target_agent") || yyjson_obj_get(request, "channel"))
        write_broadcast(&body, request, publishing->channel.name);
    else
        insert_broadcast(&body, yyjson_obj_size(request) == 0, publishing->body,
                         publishing->channel.name);
    publishing->body = base_buffer_span(&body);
    const bool identified = publishing->key.size == 0 || identify_publication(publishing, request);
    return body.failed || !identified ? handoff_error_no_memory(error) : HANDOFF_OK;
}

/* Most requests have neither a key nor a target, and need not be read twice. True: it is prepared,
   or has failed. */
static bool prepare_plain_request(struct publishing *publishing)
{
    static const char *const names[] = {"source_agent", "target_agent", "channel"};
    struct base_span values[3];
    size_t members;
    if (publishing->key.size > 0 ||
        !base_json_find_members(publishing->body, names, values, 3, &members) || values[1].data ||
        values[2].data)
        return false;
    struct base_span source = base_json_plain_string(values[0]);
    if (values[0].data && !source.data)
        return false;
    struct base_buffer body = {.arena = &publishing->arena};
    insert_broadcast(&body, members == 0, publishing->body, publishing->channel.name);
    publishing->body = base_buffer_span(&body);
    if (!keep_publisher(publishing, source) || body.failed)
        handoff_error_no_memory(&publishing->problem);
    return true;
}

/* What is no JSON, or no object, is left as it is, and refused by its assembly. Any thread. */
static void prepare_request(struct publishing *publishing)
{
    yyjson_doc *doc;
    struct handoff_error *error = &publishing->problem;
    if (prepare_plain_request(publishing))
        return;
    enum handoff_code code =
        base_json_read_in(&publishing->arena, publishing->body, "body", &doc, error);
    if (code != HANDOFF_OK && code != HANDOFF_ERR_OUT_OF_MEMORY)
        handoff_error_clear(error);
    if (code != HANDOFF_OK)
        return;
    yyjson_val *request = yyjson_doc_get_root(doc);
    if (!yyjson_is_obj(request))
        return;
    if (keep_publisher(publishing, base_json_span(yyjson_obj_get(request, "source_agent"))))
        code = check_member(request, "target_agent",
                            handoff_reserved_name(HANDOFF_RESERVED_BROADCAST), error);
    else
        code = handoff_error_no_memory(error);
    if (code == HANDOFF_OK)
        code = check_member(request, "channel", publishing->channel.name, error);
    if (code == HANDOFF_OK)
        (void)!write_prepared(publishing, request, error); /* the error says it */
}

static void prepare_on_worker(struct base_work *work)
{
    prepare_request(BASE_CONTAINER_OF(work, struct publishing, work));
}

/* ---- from the call to the preparing ----------------------------------------------------------
 */

static void was_prepared(struct publishing *publishing)
{
    if (publishing->problem.code != HANDOFF_OK) {
        fail_publishing(publishing, &publishing->problem);
        return;
    }
    publishing->assembly->body = publishing->body;
    publishing->by_key = publishing->key.size > 0;
    if (publishing->by_key)
        read_published(publishing);
    else
        begin_publishing(publishing);
}

static void was_prepared_on_worker(struct base_op *op)
{
    struct publishing *publishing = BASE_CONTAINER_OF(op, struct publishing, work.op);
    BASE_CHECK_MAGIC(publishing, PUBLISHING_MAGIC);
    const enum base_op_verdict verdict = atomic_load(&op->verdict);
    if (verdict == BASE_OP_CANCELLED)
        handoff_error_set(&publishing->problem, HANDOFF_ERR_CANCELLED,
                          handoff_code_meaning(HANDOFF_ERR_CANCELLED), NULL, NULL);
    else if (verdict != BASE_OP_DONE)
        (void)!handoff_refuse_long_request(&publishing->problem);
    was_prepared(publishing);
}

static void prepare_publishing(struct publishing *publishing)
{
    struct handoff_loop *loop = publishing->loop;
    publishing->work.bytes = publishing->body.size;
    if (publishing->body.size <= PREPARED_ON_LOOP) {
        prepare_request(publishing);
        was_prepared(publishing);
    } else if (!base_workers_submit(loop->client->workers, &publishing->work, loop->lane->loop,
                                    PREPARED_IN_MS, prepare_on_worker, was_prepared_on_worker)) {
        (void)!handoff_refuse_long_request(&publishing->problem);
        fail_publishing(publishing, &publishing->problem);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

static int compare_receivers(const void *one, const void *other)
{
    const struct handoff_agent *const *a = one, *const *b = other;
    return (*a > *b) - (*a < *b);
}

/* A thousand may be named: sorted, since comparing each with each would hold the loop. */
static enum handoff_code refuse_named_twice(const struct publishing *publishing,
                                            struct handoff_error *error)
{
    const size_t count = publishing->nreceivers;
    const struct handoff_agent **sorted = base_calloc(count + 1, sizeof(void *)), *twice = NULL;
    if (!sorted)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < count; i++)
        sorted[i] = publishing->receivers[i].agent;
    qsort(sorted, count, sizeof(void *), compare_receivers);
    for (size_t i = 1; i < count; i++)
        twice = sorted[i] == sorted[i - 1] ? sorted[i] : twice;
    base_free(sorted);
    return twice ? handoff_error_set(error, HANDOFF_ERR_INVALID, "each receiver is named once",
                                     "receivers", twice->name)
                 : HANDOFF_OK;
}

static enum handoff_code add_receiver(struct publishing *publishing, const char *name,
                                      struct handoff_error *error)
{
    struct handoff_agents *agents = publishing->loop->client->agents;
    struct handoff_agent *agent = handoff_agents_find(agents, base_span_text(name));
    if (!agent)
        return handoff_agents_refuse_unknown(agents, base_span_text(name), "receivers", error);
    BASE_CHECK(publishing->nreceivers < publishing->room);
    publishing->receivers[publishing->nreceivers++] =
        (struct publishing_receiver){.publishing = publishing, .agent = agent};
    return HANDOFF_OK;
}

static enum handoff_code refuse_no_receiver(struct handoff_error *error)
{
    const enum handoff_code code = HANDOFF_ERR_INVALID;
    handoff_error_set(error, code, "no receiver is named", "receivers", NULL);
    handoff_error_allow(error, "at least one agent; without the field, the channel's receivers");
    return code;
}

static enum handoff_code add_named(struct publishing *publishing,
                                   const struct handoff_publish_options *options,
                                   struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    if (publishing->room == 0)
        return refuse_no_receiver(error);
    for (size_t i = 0; i < publishing->room && code == HANDOFF_OK; i++)
        code = add_receiver(publishing, options->receivers[i], error);
    return code == HANDOFF_OK ? refuse_named_twice(publishing, error) : code;
}

/* Without those that come to it by themselves, and subscribers that a reload has taken away. */
static enum handoff_code add_all(struct publishing *publishing, struct handoff_error *error)
{
    struct handoff_agents *agents = publishing->loop->client->agents;
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < publishing->room && code == HANDOFF_OK; i++) {
        const struct handoff_channel_receiver *receiver = &publishing->channel.receivers[i];
        const bool known = handoff_agents_find(agents, base_span_text(receiver->name)) != NULL;
        if (!receiver->catching_up && (known || receiver->configured))
            code = add_receiver(publishing, receiver->name, error);
    }
    return code;
}

/* false: out of memory. */
static bool keep_names(struct publishing *publishing, const struct handoff_publish_options *options)
{
    struct base_arena *arena = &publishing->arena;
    const size_t count = options->receivers ? options->nreceivers : 0;
    publishing->named = options->receivers != NULL;
    publishing->room = count;
    publishing->names = base_arena_calloc(arena, count + 1, sizeof *publishing->names);
    for (size_t i = 0; publishing->names && i < count; i++) {
        publishing->names[i] = base_arena_strdup(arena, options->receivers[i]);
        if (!publishing->names[i])
            return false;
    }
    return publishing->names != NULL;
}

/* Those that were named, or the channel's. */
static enum handoff_code add_receivers(struct publishing *publishing,
                                       const struct handoff_publish_options *options,
                                       struct handoff_error *error)
{
    publishing->room = publishing->named ? options->nreceivers : publishing->channel.nreceivers;
    publishing->receivers =
        base_arena_calloc(&publishing->arena, publishing->room + 1, sizeof *publishing->receivers);
    if (!publishing->receivers)
        return handoff_error_no_memory(error);
    return publishing->named ? add_named(publishing, options, error) : add_all(publishing, error);
}

static bool keep_span(struct publishing *publishing, const char *text, size_t size,
                      struct base_span *to)
{
    *to = base_span(NULL, 0);
    if (!text)
        return true;
    *to = base_span(base_arena_copy(&publishing->arena, text, size), size);
    return to->data != NULL;
}

static bool keep_ask(struct publishing *publishing, const struct handoff_publish_options *options,
                     const struct handoff_ask *ask)
{
    const char *key = ask->idempotency_key, *id = options->envelope_id;
    struct base_span id_text;
    bool kept = keep_span(publishing, ask->body, ask->size, &publishing->body) &&
                keep_span(publishing, key, key ? strlen(key) : 0, &publishing->key) &&
                keep_span(publishing, ask->caller, ask->caller ? strlen(ask->caller) : 0,
                          &publishing->caller) &&
                keep_span(publishing, ask->sender, ask->sender ? strlen(ask->sender) : 0,
                          &publishing->sender) &&
                keep_span(publishing, id, id ? strlen(id) : 0, &id_text);
    if (kept && id)
        publishing->stored = (struct handoff_stored_to_publish){
            .loop = publishing->loop,
            .id_text = id_text.data,
            .channel = publishing->channel.name,
            .caller = publishing->caller.data ? publishing->caller.data : publishing->sender.data,
            .least_budget = least_budget_of(publishing),
            .was_read = stored_was_read_to_publish};
    return kept;
}

/* Its key covers the envelope, the channel and the receivers. */
static void identify_envelope(struct publishing *publishing)
{
    struct base_sha256 hash;
    const char *id = publishing->stored.id_text, *channel = publishing->channel.name;
    base_sha256_start(&hash);
    base_sha256_add(&hash, "publish", sizeof "publish");
    base_sha256_add(&hash, id, strlen(id) + 1);
    base_sha256_add(&hash, channel, strlen(channel) + 1);
    for (size_t i = 0; publishing->named && i < publishing->room; i++)
        base_sha256_add(&hash, publishing->names[i], strlen(publishing->names[i]) + 1);
    base_sha256_finish(&hash, publishing->request_digest);
}

static void bound_publishing(struct publishing *publishing, const struct handoff_ask *ask)
{
    static const struct base_op_kind kind = {.name = "wait", .give_up = base_op_end};
    publishing->waits = ask->wait_ms > 0;
    if (publishing->waits)
        base_op_begin(&publishing->wait, &kind, publishing->loop->lane->loop, ask->wait_ms,
                      publishing_wait_is_over);
}

/* What a reload has removed is no obstacle to a repeat, which changes nothing. */
static enum handoff_code pass_to_repeat(struct publishing *publishing, bool may_be_repeat,
                                        enum handoff_code code, struct handoff_error *error)
{
    const bool unknown = code == HANDOFF_ERR_UNKNOWN_CHANNEL || code == HANDOFF_ERR_UNKNOWN_AGENT;
    if (!unknown || !may_be_repeat)
        return code;
    publishing->unknown = *error;
    return handoff_error_clear(error);
}

static enum handoff_code take_up_publishing(struct publishing *publishing,
                                            const struct handoff_publish_options *options,
                                            const struct handoff_ask *ask,
                                            struct handoff_error *error)
{
    struct handoff_client *client = publishing->loop->client;
    const char *name = base_arena_strdup(&publishing->arena, options->channel);
    if (!name || !keep_names(publishing, options))
        return handoff_error_no_memory(error);
    handoff_channels_enter(&client->channels, &publishing->ticket, name);
    publishing->channel.name = name;
    enum handoff_code code =
        handoff_channels_find(&client->channels, base_span_text(options->channel),
                              &publishing->arena, &publishing->channel, error);
    if (code == HANDOFF_OK)
        code = add_receivers(publishing, options, error);
    code = pass_to_repeat(publishing, ask->idempotency_key || options->envelope_id, code, error);
    if (code == HANDOFF_OK && ask->idempotency_key)
        code = handoff_check_key(client, ask->idempotency_key, error);
    if (code == HANDOFF_OK && !keep_ask(publishing, options, ask))
        code = handoff_error_no_memory(error);
    return code;
}

static bool make_assembly(struct publishing *publishing, const struct handoff_ask *ask,
                          struct handoff_warnings *warnings)
{
    struct handoff_assembly *assembly = handoff_client_begin_assembly(publishing->loop, ask);
    publishing->assembly = assembly;
    if (!assembly)
        return false;
    assembly->context = publishing;
    assembly->finished = publishing_assembled;
    assembly->publishes = true;
    assembly->target = look_up_receivers;
    assembly->warnings = warnings;
    return handoff_assembly_keep_texts(assembly);
}

static void begin_with_receivers(struct publishing *publishing, const struct handoff_ask *ask,
                                 struct handoff_warnings *warnings)
{
    bound_publishing(publishing, ask);
    if (publishing->stored.id_text) {
        identify_envelope(publishing);
        begin_publishing(publishing);
    } else if (make_assembly(publishing, ask, warnings)) {
        prepare_publishing(publishing);
    } else {
        fail_without_memory(publishing);
    }
}

void handoff_publish(struct handoff_loop *loop, const struct handoff_publish_options *options,
                     const struct handoff_ask *ask, handoff_answered *answered, void *context)
{
    struct handoff_error error;
    struct handoff_warnings *warnings = handoff_warn_in_answer(&answered, &context);
    struct publishing *publishing = warnings ? base_calloc(1, sizeof *publishing) : NULL;
    if (!publishing) {
        handoff_give_no_memory(answered, context);
        return;
    }
    publishing->magic = PUBLISHING_MAGIC;
    publishing->loop = loop;
    publishing->answered = answered;
    publishing->context = context;
    base_arena_init(&publishing->arena, 0);
    loop->pending++;
    if (take_up_publishing(publishing, options, ask, &error) == HANDOFF_OK)
        begin_with_receivers(publishing, ask, warnings);
    else
        fail_publishing(publishing, &error);
}
