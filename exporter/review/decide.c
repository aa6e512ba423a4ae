/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about one: replay, replay elsewhere, discard. After one, the browser is led back to the
 * handoff, so that reloading the page repeats nothing.
 *
 * On the loop of the request.
 */
#include <stdio.h>
#include <string.h>

#include "exporter/review/frame.h"
#include "exporter/review/visit.h"

static void show_decided(struct review_visit *visit)
{
    char path[96];
    snprintf(path, sizeof path, "/review/handoffs/%.36s",
             review_string(visit->answers[0].root, "id"));
    review_redirect(visit, path, NULL);
}

static void finish_decision(struct review_visit *visit)
{
    const struct handoff_error *error = &visit->answers[0].error;
    if (error->code == HANDOFF_OK)
        show_decided(visit);
    else
        review_fail(visit, error);
}

void review_view_replay(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    if (review_read_input(visit, &handoff_calls[HANDOFF_CALL_replay_handoff], &input, &error) !=
        HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    struct handoff_author author = review_author(visit, input.replay.reason);
    author.again = input.replay.again;
    handoff_replay(visit->loop, input.id, input.replay.target, &author, review_answered,
                   review_ask(visit));
    review_wait(visit, finish_decision);
}

void review_view_discard(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    if (review_read_input(visit, &handoff_calls[HANDOFF_CALL_discard_handoff], &input, &error) !=
        HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    const struct handoff_author author = review_author(visit, input.discard.reason);
    handoff_discard(visit->loop, input.id, &author, review_answered, review_ask(visit));
    review_wait(visit, finish_decision);
}
