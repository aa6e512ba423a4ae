/* SPDX-License-Identifier: Apache-2.0 */
/* Stores what receivers lack, see gaps.h. On the lane's thread. */
#include "client/deliver/gaps.h"

#include <string.h>

#include "client/deliver/delivery.h"
#include "client/model/gaps.h"
#include "client/store/gaps.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { KEEPING_MAGIC = 0x67617073 };

/* Gaps on their way to the store. */
struct keeping_gaps {
    unsigned magic;
    struct handoff_lane *lane;
    handoff_gaps_kept *kept;
    void *context;
    struct handoff_store_gaps store;
    char texts[]; /* of what is stored */
};

/* ---- telling --------------------------------------------------------------------------------- */

static void observe_gaps(const struct keeping_gaps *keeping)
{
    const struct handoff_engine_options *options = &keeping->lane->engine->options;
    char id[BASE_UUID_TEXT];
    base_uuid_format(&keeping->store.id, id);
    struct handoff_event event = {.kind = HANDOFF_EVENT_RECOVERY,
                                  .who = {.id = id, .target_agent = keeping->store.target}};
    event.of.recovery.of[HANDOFF_RECOVERY_MISSING] = keeping->store.flagged;
    event.of.recovery.of[HANDOFF_RECOVERY_RECOVERED] = keeping->store.recovered;
    if (options->observe && keeping->store.flagged + keeping->store.recovered > 0)
        options->observe(options->observer, &event);
}

static void gaps_were_kept(struct handoff_store_job *job)
{
    struct keeping_gaps *keeping = BASE_CONTAINER_OF(job, struct keeping_gaps, store.job);
    BASE_CHECK_MAGIC(keeping, KEEPING_MAGIC);
    keeping->lane->awaited--;
    if (job->error.code == HANDOFF_OK)
        observe_gaps(keeping);
    if (keeping->kept)
        keeping->kept(keeping->context, &job->error);
    keeping->magic = 0;
    base_free(keeping);
}

/* ---- storing --------------------------------------------------------------------------------- */

static struct base_span keep_gap_text(char **room, struct base_span text)
{
    struct base_span copy = text;
    if (text.size > 0)
        memcpy(*room, text.data, text.size);
    if (text.data)
        copy.data = *room;
    *room += text.size;
    return copy;
}

static enum handoff_code keep_gaps_of(struct handoff_lane *lane, const struct base_uuid *id,
                                      const struct handoff_gaps_change *change,
                                      handoff_gaps_kept *kept, void *context,
                                      struct handoff_error *error)
{
    const struct base_span lacking = change->lacking, found = change->found, agent = change->agent;
    struct keeping_gaps *keeping =
        base_malloc(sizeof *keeping + lacking.size + found.size + agent.size + 1);
    if (!keeping)
        return handoff_error_no_memory(error);
    char *room = keeping->texts;
    *keeping = (struct keeping_gaps){
        .magic = KEEPING_MAGIC, .lane = lane, .kept = kept, .context = context};
    keeping->store = (struct handoff_store_gaps){
        .job = {.mailbox = lane->mailbox, .batch = &lane->writes, .done = gaps_were_kept},
        .id = *id,
        .lacking = keep_gap_text(&room, lacking),
        .found = keep_gap_text(&room, found),
        .agent = keep_gap_text(&room, agent),
        .at_ms = change->at_ms};
    lane->awaited++;
    handoff_store_keep_gaps(lane->engine->options.store, &keeping->store);
    return HANDOFF_OK;
}

enum handoff_code handoff_lane_keep_gaps(struct handoff_lane *lane, const struct base_uuid *id,
                                         struct base_span lacking, struct base_span found,
                                         struct base_span agent, handoff_gaps_kept *kept,
                                         void *context, struct handoff_error *error)
{
    const struct handoff_gaps_change change = {.lacking = lacking,
                                               .found = found,
                                               .agent = agent,
                                               .at_ms = base_wall_ms(lane->engine->options.clock)};
    return keep_gaps_of(lane, id, &change, kept, context, error);
}

/* ---- of a delivery --------------------------------------------------------------------------- */

/* One reading of the clock for the memory and the store: the sender may be told from either. */
static struct handoff_gaps_change gaps_now(const struct handoff_delivery *delivery,
                                           struct base_span lacking)
{
    return (struct handoff_gaps_change){
        .kept = base_span(delivery->gaps.data, delivery->gaps.size),
        .lacking = lacking,
        .found = base_span(NULL, 0),
        .agent = base_span(delivery->agent->name, delivery->agent->name_size),
        .at_ms = handoff_delivery_wall_ms(delivery)};
}

static void note_gaps(struct handoff_delivery *delivery, struct handoff_gaps_change *change)
{
    struct base_buffer text = {0};
    if (handoff_gaps_change(change, &text, NULL) == HANDOFF_OK) {
        base_buffer_free(&delivery->gaps);
        delivery->gaps = text;
    } else {
        base_buffer_free(&text);
    }
}

void handoff_delivery_note_gaps(struct handoff_delivery *delivery, struct base_span lacking)
{
    struct handoff_gaps_change change = gaps_now(delivery, lacking);
    if (lacking.size > 0)
        note_gaps(delivery, &change);
}

bool handoff_delivery_take_gaps(struct handoff_delivery *delivery, struct base_span lacking)
{
    struct handoff_gaps_change change = gaps_now(delivery, lacking);
    if (lacking.size == 0)
        return true;
    note_gaps(delivery, &change);
    return keep_gaps_of(delivery->lane, &delivery->id, &change, NULL, NULL, NULL) == HANDOFF_OK;
}
