/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls about handoffs, tasks, parked handoffs and agents: each asks the client, and
 * answers with its JSON.
 *
 * On the loop of the request; the client answers there too.
 */
#include "exporter/routes/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/calls/call.h"
#include "client/calls/preview.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"
#include "exporter/http/prefer.h"
#include "exporter/http/problem.h"
#include "exporter/routes/ask.h"
#include "lib/base/check.h"

static struct handoff_loop *handoffs_loop(const struct exporter_request *request, void *context)
{
    return exporter_client_host_loop(context, exporter_request_loop(request));
}

static void respond_json(struct exporter_request *request, unsigned status, const char *json,
                         size_t length)
{
    exporter_respond_bytes(request, status, "application/json", json, length);
}

/* A text the client gave away, or its error. */
static void respond_agents(struct exporter_request *request, enum handoff_code code,
                           struct handoff_text *text, const struct handoff_error *error)
{
    if (code != HANDOFF_OK) {
        exporter_respond_error(request, error);
        return;
    }
    respond_json(request, 200, text->data, text->size);
    handoff_text_free(text);
}

static void respond_handoff(struct exporter_request *request, const struct handoff_result *result)
{
    respond_json(request, 200, result->body, result->size);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Seconds of a preference as the client takes them: 0 seconds is an answer at once. */
static void take_preferences(struct exporter_request *request, struct handoff_ask *ask)
{
    const struct exporter_preferences preferences = exporter_preferences_of(request);
    ask->respond_async = preferences.respond_async || preferences.wait_s == 0;
    ask->wait_ms = preferences.wait_s > 0 ? preferences.wait_s * 1000 : 0;
}

static void cancel_sending(void *arg)
{
    handoff_send_cancel(arg);
}

void exporter_call_send_handoff(struct exporter_request *request, void *context)
{
    struct handoff_ask ask = exporter_ask(request);
    take_preferences(request, &ask);
    struct exporter_pending_call *pending =
        exporter_pending_call_start(request, exporter_respond_preferred);
    if (pending == NULL)
        return;
    struct handoff_sending *sending =
        handoff_send(handoffs_loop(request, context), &ask, exporter_pending_call_done, pending);
    if (sending != NULL)
        exporter_pending_call_on_cancel(pending, cancel_sending, sending);
}

void exporter_call_deliver_envelope(struct exporter_request *request, void *context)
{
    struct handoff_ask ask = exporter_ask(request);
    take_preferences(request, &ask);
    struct exporter_pending_call *pending =
        exporter_pending_call_start(request, exporter_respond_preferred);
    if (pending != NULL)
        handoff_envelope_deliver(handoffs_loop(request, context),
                                 exporter_request_input(request)->id, &ask,
                                 exporter_pending_call_done, pending);
}

/* ---- looking --------------------------------------------------------------------------------- */

void exporter_call_get_handoff(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_handoff);
    if (pending != NULL)
        handoff_get(handoffs_loop(request, context), exporter_request_input(request)->id,
                    exporter_request_caller(request), exporter_pending_call_done, pending);
}

void exporter_call_list_handoffs(struct exporter_request *request, void *context)
{
    struct handoff_find_query query = exporter_request_input(request)->find;
    query.caller = exporter_request_caller(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_handoff);
    if (pending != NULL)
        handoff_find(handoffs_loop(request, context), &query, exporter_pending_call_done, pending);
}

void exporter_call_list_attempts(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_handoff);
    if (pending != NULL)
        handoff_get_attempts(handoffs_loop(request, context), exporter_request_input(request)->id,
                             exporter_request_caller(request), exporter_pending_call_done, pending);
}

static void list(struct exporter_request *request, void *context, struct handoff_list_query *query)
{
    query->caller = exporter_request_caller(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_handoff);
    if (pending != NULL)
        handoff_list(handoffs_loop(request, context), query, exporter_pending_call_done, pending);
}

void exporter_call_get_task(struct exporter_request *request, void *context)
{
    struct handoff_list_query query = exporter_request_input(request)->list;
    query.task_id = exporter_request_input(request)->id;
    list(request, context, &query);
}

void exporter_call_complete_task(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_task_complete(handoffs_loop(request, context), exporter_request_input(request)->id,
                              exporter_request_caller(request), exporter_pending_call_done,
                              pending);
}

void exporter_call_list_parked(struct exporter_request *request, void *context)
{
    struct handoff_parked_query query = exporter_request_input(request)->parked;
    query.caller = exporter_request_caller(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_handoff);
    if (pending != NULL)
        handoff_parked(handoffs_loop(request, context), &query, exporter_pending_call_done,
                       pending);
}

void exporter_call_group_parked(struct exporter_request *request, void *context)
{
    struct handoff_parked_query query = exporter_request_input(request)->parked;
    query.caller = exporter_request_caller(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_handoff);
    if (pending != NULL)
        handoff_parked_groups(handoffs_loop(request, context), &query, exporter_pending_call_done,
                              pending);
}

void exporter_call_check_parked(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_handoff);
    if (pending != NULL)
        handoff_prospect(handoffs_loop(request, context), input->id, input->prospect.target,
                         exporter_pending_call_done, pending);
}

/* ---- the receiver's later word ----------------------------------------------------------------
 */

static void answer_for(struct exporter_request *request, void *context,
                       enum handoff_answer_word word, const char *reason)
{
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_acknowledge(handoffs_loop(request, context), exporter_request_input(request)->id,
                            word, reason, exporter_request_caller(request),
                            exporter_pending_call_done, pending);
}

static void respond_no_memory(struct exporter_request *request)
{
    static const struct handoff_error no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                   .message = "out of memory (request)"};
    exporter_respond_error(request, &no_memory);
}

/* Lends the texts of the document; free() the list. false: out of memory, which was answered. */
static bool list_named_memories(struct exporter_request *request, yyjson_val *array,
                                const char ***list, struct handoff_memory_ids *memories)
{
    size_t i;
    size_t n;
    yyjson_val *id;
    *list = calloc(yyjson_arr_size(array) + 1, sizeof **list);
    *memories = (struct handoff_memory_ids){*list, yyjson_arr_size(array)};
    if (*list == NULL) {
        respond_no_memory(request);
        return false;
    }
    yyjson_arr_foreach(array, i, n, id)
    {
        (*list)[i] = yyjson_get_str(id);
    }
    return true;
}

/* `next` may be NULL. */
static void acknowledge_by_call(struct exporter_request *request, void *context,
                                const struct handoff_ask *next)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const char **list;
    struct handoff_memory_ids lacking;
    if (!list_named_memories(request, input->ack.missing, &list, &lacking))
        return;
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_acknowledge_lacking(handoffs_loop(request, context), input->id, &lacking, next,
                                    exporter_request_caller(request), exporter_pending_call_done,
                                    pending);
    free(list);
}

void exporter_call_ack_handoff(struct exporter_request *request, void *context)
{
    yyjson_val *next = exporter_request_input(request)->ack.next;
    struct handoff_ask ask = exporter_ask(request);
    ask.body = exporter_request_document(request, &ask.size);
    acknowledge_by_call(request, context, next != NULL && !yyjson_is_null(next) ? &ask : NULL);
}

void exporter_call_flag_gaps(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const char **list;
    struct handoff_memory_ids lacking;
    if (!list_named_memories(request, input->gaps.missing, &list, &lacking))
        return;
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_flag_gaps(handoffs_loop(request, context), input->id, &lacking,
                          exporter_request_caller(request), exporter_pending_call_done, pending);
    free(list);
}

void exporter_call_recover_memories(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const char **list;
    struct handoff_recovery_query query = {.missing = input->recovery.missing,
                                           .scopes = exporter_request_scopes(request)};
    if (!list_named_memories(request, input->recovery.ids, &list, &query.memories))
        return;
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_recover_memories(handoffs_loop(request, context), input->id, &query,
                                 exporter_request_caller(request), exporter_pending_call_done,
                                 pending);
    free(list);
}

void exporter_call_extend_handoff(struct exporter_request *request, void *context)
{
    answer_for(request, context, HANDOFF_ANSWER_EXTEND,
               exporter_request_input(request)->extend.progress);
}

void exporter_call_nack_handoff(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    answer_for(request, context, input->nack.retry ? HANDOFF_ANSWER_NACK : HANDOFF_ANSWER_REFUSE,
               input->nack.reason);
}

/* ---- taking back ------------------------------------------------------------------------------
 */

void exporter_call_cancel_handoff(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const struct handoff_author author = exporter_author(request, input->take_back.reason);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_cancel(handoffs_loop(request, context), input->id, &author,
                       exporter_request_caller(request), exporter_pending_call_done, pending);
}

void exporter_call_park_handoff(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const struct handoff_author author = exporter_author(request, input->take_back.reason);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_park(handoffs_loop(request, context), input->id, &author,
                     exporter_request_caller(request), exporter_pending_call_done, pending);
}

/* One of the two ways to name what is parked. */
static bool names_one(struct exporter_request *request)
{
    static const struct exporter_problem neither = {.code = HANDOFF_ERR_INVALID,
                                                    .detail =
                                                        "give either a request or an envelope_id",
                                                    .field = "request",
                                                    .allowed = "request, or envelope_id"};
    const struct handoff_call_input *input = exporter_request_input(request);
    if ((input->park.request != NULL) != (input->park.envelope_id != NULL))
        return true;
    exporter_respond_problem(request, &neither);
    return false;
}

static void park_sent(struct exporter_request *request, void *context, struct handoff_ask *ask,
                      const char *envelope_id)
{
    struct handoff_loop *loop = handoffs_loop(request, context);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending == NULL)
        return;
    if (envelope_id != NULL) {
        handoff_envelope_deliver(loop, envelope_id, ask, exporter_pending_call_done, pending);
        return;
    }
    struct handoff_sending *sending = handoff_send(loop, ask, exporter_pending_call_done, pending);
    if (sending != NULL)
        exporter_pending_call_on_cancel(pending, cancel_sending, sending);
}

void exporter_call_park_request(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    if (!names_one(request))
        return;
    struct handoff_ask ask = exporter_ask(request);
    ask.body = exporter_request_document(request, &ask.size);
    ask.park_reason = input->park.reason;
    park_sent(request, context, &ask, input->park.envelope_id);
}

/* ---- decisions about parked ones --------------------------------------------------------------
 */

static void replay(struct exporter_request *request, void *context,
                   const struct handoff_author *author)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_replay(handoffs_loop(request, context), input->id, input->replay.target, author,
                       exporter_pending_call_done, pending);
}

static void replay_edited(struct exporter_request *request, void *context,
                          const struct handoff_author *author)
{
    size_t size;
    const char *body = exporter_request_body(request, &size);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_replay_edited(handoffs_loop(request, context), exporter_request_input(request)->id,
                              body, size, author, exporter_pending_call_done, pending);
}

void exporter_call_replay_handoff(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    struct handoff_author author = exporter_author(request, input->replay.reason);
    author.again = input->replay.again;
    if (input->replay.edit != NULL)
        replay_edited(request, context, &author);
    else
        replay(request, context, &author);
}

void exporter_call_preview_edit(struct exporter_request *request, void *context)
{
    size_t size;
    const char *body = exporter_request_body(request, &size);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_handoff);
    if (pending != NULL)
        handoff_preview_edit(handoffs_loop(request, context), exporter_request_input(request)->id,
                             body, size, exporter_pending_call_done, pending);
}

void exporter_call_discard_handoff(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const struct handoff_author author = exporter_author(request, input->discard.reason);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_handoff);
    if (pending != NULL)
        handoff_discard(handoffs_loop(request, context), input->id, &author,
                        exporter_pending_call_done, pending);
}

/* ---- agents -----------------------------------------------------------------------------------
 */

void exporter_call_list_agents(struct exporter_request *request, void *context)
{
    struct handoff_text text;
    struct handoff_error error;
    enum handoff_code code =
        handoff_list_agents(exporter_client_host_client(context), &text, &error);
    respond_agents(request, code, &text, &error);
}

static void respond_reset(struct exporter_request *request, const struct handoff_result *result)
{
    (void)result;
    exporter_respond(request, &(struct exporter_reply){.status = 204});
}

void exporter_call_reset_agent(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_reset);
    if (pending != NULL)
        handoff_reset_agent(handoffs_loop(request, context), exporter_request_input(request)->id,
                            exporter_pending_call_done, pending);
}
