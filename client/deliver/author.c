/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who decided about a delivery, see author.h. The note joins the records that the next write of the
 * delivery takes along (persist.c), so it is stored with the change, or with a later one if that
 * write fails. Runs on the lane of the delivery.
 */
#include "client/deliver/author.h"

#include <string.h>

static bool keep_said(struct handoff_delivery *delivery, const char *from, const char **to)
{
    *to = base_arena_strdup(&delivery->arena, from ? from : "");
    return *to != NULL;
}

bool handoff_delivery_keep_author(struct handoff_delivery *delivery,
                                  const struct handoff_author *from, struct handoff_author *to)
{
    static const struct handoff_author nobody;
    const struct handoff_author *author = from ? from : &nobody;
    to->again = author->again;
    return keep_said(delivery, author->who, &to->who) && keep_said(delivery, author->by, &to->by) &&
           keep_said(delivery, author->reason, &to->reason) &&
           keep_said(delivery, author->job, &to->job);
}

static struct base_span said(const char *text)
{
    return base_span_text(text ? text : "");
}

void handoff_decision_say(struct handoff_stored_decision *row, const struct handoff_author *author)
{
    row->who = said(author->who);
    row->by = said(author->by);
    row->reason = said(author->reason);
    if (!author->job || !base_uuid_parse(author->job, strlen(author->job), &row->job))
        row->job = (struct base_uuid){0};
}

void handoff_delivery_note_decision(struct handoff_delivery *delivery,
                                    struct handoff_decision_note *note,
                                    const struct handoff_author *author, enum handoff_action action)
{
    struct handoff_stored_decision *row = &note->row;
    row->handoff = delivery->id;
    row->at_ms = handoff_delivery_wall_ms(delivery);
    row->action = action;
    row->task_id = delivery->task_id;
    row->source = delivery->source;
    handoff_decision_say(row, author);
    note->record.decision = row;
    handoff_delivery_append_record(delivery, &note->record);
    handoff_delivery_observe_decision(delivery, row);
}
