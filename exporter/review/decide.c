/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about one: replay, replay elsewhere, discard. After one, the browser is led back to the
 * handoff, so that reloading the page repeats nothing.
 *
 * Where somebody else decides about the same handoff at this moment, the client says so and does
 * not know yet who it is. Then the handoff is read until that is written, and the decision is
 * repeated: its error names who decided what.
 *
 * On the loop of the request.
 */
#include "exporter/review/decide.h"

#include <stdio.h>
#include <string.h>

#include "exporter/review/frame.h"
#include "lib/base/clock.h"

enum {
    LOOKING_MS = 5000, /* longer than a commit takes */
    LOOK_AGAIN_MS = 10,
};

static void show_decided(struct review_visit *visit)
{
    char path[96];
    snprintf(path, sizeof path, "/review/handoffs/%.36s",
             review_string(visit->answers[0].root, "id"));
    review_redirect(visit, path, NULL);
}

/* Only this conflict is about the id: all others name what is wrong with the handoff. */
static bool is_being_decided(const struct handoff_error *error)
{
    return error->code == HANDOFF_ERR_CONFLICT && strcmp(error->field, "id") == 0;
}

static void look_until_decided(struct review_visit *visit);

static void look_at_decided(struct review_visit *visit)
{
    review_forget_answers(visit);
    handoff_get(visit->loop, review_id(visit), NULL, review_answered, review_ask(visit));
    review_wait(visit, look_until_decided);
}

static void look_until_decided(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[0];
    const bool is_parked =
        strcmp(review_string(answer->root, "state"), handoff_state_name(HANDOFF_STATE_PARKED)) == 0;
    if (is_parked && base_monotonic_ms(&base_clock_system) < visit->look_until_ms) {
        review_pause(visit, LOOK_AGAIN_MS, look_at_decided);
        return;
    }
    review_forget_answers(visit);
    visit->decide(visit);
}

/* From the first time on, for a while. */
static bool may_look(struct review_visit *visit)
{
    const int64_t now_ms = base_monotonic_ms(&base_clock_system);
    if (visit->look_until_ms == 0)
        visit->look_until_ms = now_ms + LOOKING_MS;
    return now_ms < visit->look_until_ms;
}

void review_finish_decision(struct review_visit *visit)
{
    const struct handoff_error *error = &visit->answers[0].error;
    if (error->code == HANDOFF_OK) {
        show_decided(visit);
    } else if (is_being_decided(error) && may_look(visit)) {
        look_at_decided(visit);
    } else {
        review_fail(visit, error);
    }
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
    visit->decide = review_view_replay;
    handoff_replay(visit->loop, input.id, input.replay.target, &author, review_answered,
                   review_ask(visit));
    review_wait(visit, review_finish_decision);
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
    visit->decide = review_view_discard;
    handoff_discard(visit->loop, input.id, &author, review_answered, review_ask(visit));
    review_wait(visit, review_finish_decision);
}
