/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Catching up, see catch_up.h. A step reads some publications on a reader thread, projects those
 * that the subscriber cannot take, then delivers them on the loop, then waits for the commit. Where
 * nothing is left, the subscriber is included in new publications, and when those that were being
 * made have ended, one more look finds what was published without it, also behind the position;
 * then the row says that it is current.
 *
 * On its loop's thread, but for the reading.
 */
#include "client/calls/catch_up.h"

#include <string.h>

#include "client/calls/projections.h"
#include "client/calls/stored_envelope.h"
#include "client/calls/stored_publication.h"
#include "client/client.h"
#include "client/deliver/publish.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    CATCH_UP_MAGIC = 0x63617463,
    CATCH_UP_STEP = 16,       /* publications: a commit of some milliseconds at the most */
    CATCH_UP_IN_FLIGHT = 256, /* on their way to the agent; beyond it the next step waits */
    CATCH_UP_LOOK_MS = 100,   /* whether there is room again */
    CATCH_UP_RETRY_MS = 1000, /* after a failure of the store, or while the agent is unknown */
};

/* What the subscriber gets of a publication that it cannot take as it is. */
struct catch_up_projection {
    struct handoff_assembly *assembly; /* lends it; NULL: none was made */
    struct handoff_projection made;
    bool exists;
};

struct handoff_catch_up {
    unsigned magic;
    TAILQ_ENTRY(handoff_catch_up) entry; /* lock */
    struct handoff_loop *loop;
    struct handoff_stored_subscription row; /* its texts are in `names` */
    uint64_t number;
    bool leaving; /* the loop ends, or the subscription was changed */
    struct base_timer timer;

    /* the last look: new publications include it, and those of up to that ticket did not */
    bool included, is_last;
    bool resumed; /* another process may have published something behind the position */
    uint64_t ticket;
    struct handoff_feed *held; /* what new ones deliver waits until its end; NULL: nothing does */

    /* a step: the reader's while `busy`, then the store's */
    bool busy;
    struct handoff_store_read read;
    struct handoff_error error;
    struct handoff_stored_missed missed[CATCH_UP_STEP];
    size_t nmissed;
    struct handoff_stored_to_publish stored[CATCH_UP_STEP];
    struct catch_up_projection projected[CATCH_UP_STEP];
    bool delivers[CATCH_UP_STEP]; /* a delivery of it is being written, and then told */
    size_t projecting;            /* the one whose projection is made, or was made last */
    bool projects;                /* the next one follows in another turn of the loop */
    struct handoff_projections projections;
    struct handoff_store_catch_up write;
    bool conflicts; /* with the row on disk */
    struct handoff_store_subscribe put;

    char names[];
};

/* ---- its end ----------------------------------------------------------------------------------
 */

static void release_feed(struct handoff_catch_up *catch_up)
{
    struct handoff_feed *feed = catch_up->held;
    catch_up->held = NULL;
    if (!feed)
        return;
    handoff_feed_release(feed);
    handoff_engine_call_up_held(feed);
    handoff_feeds_put(&catch_up->loop->client->channels.feeds, feed);
}

static void end_step(struct handoff_catch_up *catch_up)
{
    for (size_t i = 0; i < CATCH_UP_STEP; i++) {
        if (catch_up->projected[i].assembly)
            handoff_client_end_assembly(&catch_up->projected[i].assembly);
        catch_up->projected[i].exists = false;
        catch_up->delivers[i] = false;
    }
}

static void drop_catch_up(struct handoff_catch_up *catch_up)
{
    struct handoff_catch_ups *all = &catch_up->loop->client->catch_ups;
    BASE_CHECK(!catch_up->busy);
    release_feed(catch_up);
    base_timers_stop(catch_up->loop->lane->timers, &catch_up->timer);
    end_step(catch_up);
    for (size_t i = 0; i < CATCH_UP_STEP; i++)
        handoff_stored_to_publish_free(&catch_up->stored[i]);
    pthread_mutex_lock(&all->lock);
    TAILQ_REMOVE(&all->list, catch_up, entry);
    pthread_mutex_unlock(&all->lock);
    catch_up->magic = 0;
    base_free(catch_up);
}

static void continue_in(struct handoff_catch_up *catch_up, int64_t wait_ms)
{
    struct handoff_lane *lane = catch_up->loop->lane;
    if (catch_up->leaving || lane->closing || handoff_engine_is_draining(lane->engine))
        drop_catch_up(catch_up);
    else
        base_timers_start(lane->timers, &catch_up->timer, handoff_lane_now_ms(lane) + wait_ms);
}

static bool sweep_feed(const struct handoff_catch_up *catch_up, enum handoff_sweep what)
{
    return handoff_channels_sweep(&catch_up->loop->client->channels, catch_up->row.channel,
                                  catch_up->row.receiver, catch_up->number, what);
}

/* ---- a step is written ------------------------------------------------------------------------
 */

/* Reports what a publication reports for each receiver. A ping-pong is over: it is not reported
   again. */
static void tell_delivered_late(const struct handoff_catch_up *catch_up, size_t at)
{
    const struct handoff_envelope *envelope = &catch_up->stored[at].envelope;
    const struct catch_up_projection *projected = &catch_up->projected[at];
    struct handoff_event event;
    char id[BASE_UUID_TEXT];
    base_uuid_format(&catch_up->missed[at].id, id);
    handoff_stored_event(envelope, id, &event);
    if (projected->exists)
        event = projected->made.event;
    event.who.pattern = HANDOFF_PATTERN_BROADCAST;
    event.who.target_agent = catch_up->row.receiver.data;
    event.of.assembled.cycle = handoff_stored_is_cycle_to(envelope, catch_up->row.receiver);
    event.of.assembled.ping_pong = false;
    handoff_client_tell(catch_up->loop->client, &event);
}

static void tell_step(struct handoff_catch_up *catch_up)
{
    for (size_t i = 0; i < CATCH_UP_STEP; i++) {
        if (catch_up->delivers[i])
            tell_delivered_late(catch_up, i);
    }
}

/* After a failure, which may be a change of the subscription, the timer looks whether it ends. */
static void step_was_written(struct handoff_store_job *job)
{
    struct handoff_catch_up *catch_up = BASE_CONTAINER_OF(job, struct handoff_catch_up, write.job);
    BASE_CHECK_MAGIC(catch_up, CATCH_UP_MAGIC);
    const enum handoff_code code = job->error.code;
    catch_up->busy = false;
    catch_up->loop->pending--;
    if (code == HANDOFF_OK && catch_up->write.ends)
        (void)sweep_feed(catch_up, HANDOFF_SWEEP_DONE);
    if (code == HANDOFF_OK) {
        tell_step(catch_up);
        catch_up->row.position = catch_up->write.to;
    }
    end_step(catch_up);
    catch_up->leaving |= code == HANDOFF_OK && catch_up->write.ends;
    catch_up->conflicts = code == HANDOFF_ERR_CONFLICT;
    continue_in(catch_up, code == HANDOFF_OK ? 0 : CATCH_UP_RETRY_MS);
}

/* With the deliveries in the unit. */
static void write_catch_up(struct handoff_catch_up *catch_up, struct handoff_store_unit *unit,
                           int64_t to, bool ends)
{
    struct handoff_lane *lane = catch_up->loop->lane;
    struct handoff_store *store = catch_up->loop->client->store;
    catch_up->write = (struct handoff_store_catch_up){
        .job = {.mailbox = lane->mailbox, .done = step_was_written, .unit = unit},
        .channel = catch_up->row.channel,
        .receiver = catch_up->row.receiver,
        .at_ms = catch_up->row.at_ms,
        .to = to,
        .ends = ends};
    catch_up->busy = true;
    catch_up->loop->pending++;
    handoff_store_catch_up(store, &catch_up->write);
    handoff_store_submit_unit(store, unit, &lane->writes);
}

/* ---- a row that is another one's --------------------------------------------------------------
 */

static void row_was_put(struct handoff_store_job *job)
{
    struct handoff_catch_up *catch_up = BASE_CONTAINER_OF(job, struct handoff_catch_up, put.job);
    BASE_CHECK_MAGIC(catch_up, CATCH_UP_MAGIC);
    const struct handoff_stored_subscription *row = &catch_up->row;
    struct handoff_channels *channels = &catch_up->loop->client->channels;
    const bool failed = job->error.code != HANDOFF_OK;
    catch_up->busy = false;
    catch_up->loop->pending--;
    catch_up->conflicts = failed;
    handoff_channels_give_up_change(channels, row->channel, row->receiver);
    if (!failed)
        handoff_channels_note_dropped(channels, row->channel, row->receiver, row->at_ms,
                                      catch_up->put.dropped);
    continue_in(catch_up, failed ? CATCH_UP_RETRY_MS : 0);
}

/* A change is on disk although its caller was told that it failed. The caller believes that the
   subscription is unchanged, so the old row is restored. */
static void put_row_again(struct handoff_catch_up *catch_up)
{
    struct handoff_channels *channels = &catch_up->loop->client->channels;
    enum handoff_subscription_state was;
    struct handoff_error error;
    bool configured;
    if (handoff_channels_begin_change(channels, catch_up->row.channel, catch_up->row.receiver,
                                      &configured, &was, &error) != HANDOFF_OK) {
        continue_in(catch_up, CATCH_UP_RETRY_MS); /* one is being stored: it may be that one's */
        return;
    }
    if (!sweep_feed(catch_up, HANDOFF_SWEEP_LOOK)) { /* it was, and has ended */
        handoff_channels_give_up_change(channels, catch_up->row.channel, catch_up->row.receiver);
        drop_catch_up(catch_up);
        return;
    }
    catch_up->put = (struct handoff_store_subscribe){
        .job = {.mailbox = catch_up->loop->lane->mailbox, .done = row_was_put},
        .row = catch_up->row,
        .restores = true};
    catch_up->put.row.dropped =
        handoff_channels_dropped(channels, catch_up->row.channel, catch_up->row.receiver);
    catch_up->busy = true;
    catch_up->loop->pending++;
    handoff_store_subscribe(catch_up->loop->client->store, &catch_up->put);
}

/* ---- deliveries -------------------------------------------------------------------------------
 */

static bool is_taken_from(struct handoff_agent *agent, struct base_span source)
{
    struct handoff_settings *settings = handoff_agent_settings(agent);
    const bool takes = settings && handoff_agent_takes_from(&settings->options, source);
    handoff_settings_release(&settings);
    return takes;
}

static uint64_t budget_of_subscriber(struct handoff_agent *agent)
{
    struct handoff_settings *settings = handoff_agent_settings(agent);
    const uint64_t budget = settings ? settings->options.token_budget : 0;
    handoff_settings_release(&settings);
    return budget;
}

static bool fits_subscriber(struct handoff_agent *agent,
                            const struct handoff_stored_to_publish *stored)
{
    const uint64_t budget = budget_of_subscriber(agent);
    return budget == 0 || stored->submission.tokens <= budget;
}

static struct handoff_late_delivery late_delivery(struct handoff_catch_up *catch_up,
                                                  struct handoff_agent *agent, size_t at)
{
    const struct handoff_stored_to_publish *stored = &catch_up->stored[at];
    const struct catch_up_projection *projected = &catch_up->projected[at];
    const struct handoff_submission *instead =
        projected->exists ? &projected->made.submission : NULL;
    const bool fits = instead || fits_subscriber(agent, stored);
    return (struct handoff_late_delivery){
        .submission = &stored->submission,
        .excerpt_lines = stored->excerpt_lines,
        .passed_on = base_buffer_span(&stored->passed_on),
        .channel = catch_up->row.channel,
        .at_ms = stored->at_ms,
        .receiver = {.agent = agent,
                     .id = instead ? instead->id : base_uuid_make(&catch_up->loop->client->uuids),
                     .projection = instead,
                     .parked_for = fits ? HANDOFF_REASON_NONE : HANDOFF_REASON_BUDGET_TOO_SMALL}};
}

/* One that cannot be read is passed over, as is one from an agent that it takes nothing from. */
static void deliver_step(struct handoff_catch_up *catch_up, struct handoff_agent *agent)
{
    struct handoff_late_delivery list[CATCH_UP_STEP];
    struct handoff_store_unit unit = {0};
    struct handoff_error error;
    size_t count = 0;
    for (size_t i = 0; i < catch_up->nmissed; i++) {
        const struct handoff_stored_to_publish *stored = &catch_up->stored[i];
        catch_up->delivers[i] =
            stored->error.code == HANDOFF_OK && is_taken_from(agent, stored->submission.source);
        if (catch_up->delivers[i])
            list[count++] = late_delivery(catch_up, agent, i);
    }
    const enum handoff_code code =
        handoff_engine_deliver_late(catch_up->loop->lane, list, count, &unit, &error);
    if (code == HANDOFF_OK) {
        write_catch_up(catch_up, &unit, catch_up->missed[catch_up->nmissed - 1].seq, false);
    } else {
        end_step(catch_up);
        continue_in(catch_up, CATCH_UP_RETRY_MS);
    }
}

/* ---- projections ------------------------------------------------------------------------------
 */

/* One that cannot be made leaves its delivery parked; the others go. After a fault that passes, the
   step is read again. */
static void catch_up_projected(struct handoff_projections *projections,
                               const struct handoff_error *error)
{
    struct handoff_catch_up *catch_up =
        BASE_CONTAINER_OF(projections, struct handoff_catch_up, projections);
    BASE_CHECK_MAGIC(catch_up, CATCH_UP_MAGIC);
    struct catch_up_projection *projected = &catch_up->projected[catch_up->projecting];
    handoff_client_tell_spine(catch_up->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &projected->assembly->resolve.call, projected->assembly->spine_ns);
    projected->exists = error->code == HANDOFF_OK && projected->made.code == HANDOFF_OK;
    catch_up->busy = false;
    catch_up->loop->pending--;
    catch_up->projects = !handoff_projections_may_succeed_later(error->code);
    if (catch_up->projects) {
        continue_in(catch_up, 0);
    } else {
        end_step(catch_up);
        continue_in(catch_up, CATCH_UP_RETRY_MS);
    }
}

/* False: out of memory. */
static bool begin_projection(struct handoff_catch_up *catch_up, struct handoff_agent *agent,
                             size_t at)
{
    struct catch_up_projection *projected = &catch_up->projected[at];
    const struct handoff_stored_to_publish *stored = &catch_up->stored[at];
    projected->assembly =
        handoff_projections_begin_anew(catch_up->loop, stored->request, &stored->submission);
    if (!projected->assembly)
        return false;
    projected->made = (struct handoff_projection){.budget = budget_of_subscriber(agent)};
    catch_up->projecting = at;
    catch_up->projections = (struct handoff_projections){.assembly = projected->assembly,
                                                         .list = &projected->made,
                                                         .count = 1,
                                                         .made = catch_up_projected};
    catch_up->busy = true;
    catch_up->loop->pending++;
    handoff_projections_make_anew(&catch_up->projections);
    return true;
}

/* One after the other, from a place on; then all of the step are delivered. */
static void project_rest(struct handoff_catch_up *catch_up, size_t from)
{
    struct handoff_agent *agent =
        handoff_agents_find(catch_up->loop->client->agents, catch_up->row.receiver);
    catch_up->projects = false;
    while (from < catch_up->nmissed && agent &&
           (catch_up->stored[from].error.code != HANDOFF_OK ||
            !catch_up->stored[from].request.data ||
            fits_subscriber(agent, &catch_up->stored[from])))
        from++;
    if (agent && from == catch_up->nmissed) {
        deliver_step(catch_up, agent);
    } else if (!agent || !begin_projection(catch_up, agent, from)) {
        end_step(catch_up);
        continue_in(catch_up, CATCH_UP_RETRY_MS);
    }
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Only in memory: after a restart it is made anew. */
static void begin_last_look(struct handoff_catch_up *catch_up)
{
    struct handoff_channels *channels = &catch_up->loop->client->channels;
    catch_up->held =
        handoff_feeds_get(&channels->feeds, catch_up->row.channel, catch_up->row.receiver);
    if (!catch_up->held)
        return; /* out of memory: it comes to the end again */
    handoff_feed_hold(catch_up->held);
    catch_up->leaving = !sweep_feed(catch_up, HANDOFF_SWEEP_INCLUDE);
    catch_up->included = true;
    catch_up->ticket = handoff_channels_last_ticket(channels);
}

/* A publication has the number of its envelope, which may have been assembled long before: it can
   appear behind the position. All that were being made have ended, so no more of them come. */
static void go_back_for_last_look(struct handoff_catch_up *catch_up)
{
    const int64_t behind = handoff_channels_behind(&catch_up->loop->client->channels,
                                                   catch_up->row.channel, catch_up->row.receiver);
    if (catch_up->resumed)
        catch_up->row.position = 0;
    else if (behind > 0 && behind <= catch_up->row.position)
        catch_up->row.position = behind - 1;
}

/* Nothing is left, as far as the look could see. */
static void came_to_the_end(struct handoff_catch_up *catch_up)
{
    struct handoff_store_unit unit = {0};
    if (catch_up->is_last) {
        write_catch_up(catch_up, &unit, catch_up->row.position, true);
        return;
    }
    if (!catch_up->included)
        begin_last_look(catch_up);
    continue_in(catch_up, catch_up->included ? 0 : CATCH_UP_RETRY_MS);
}

static bool has_failed(const struct handoff_catch_up *catch_up)
{
    for (size_t i = 0; i < catch_up->nmissed; i++) {
        const enum handoff_code code = catch_up->stored[i].error.code;
        if (code != HANDOFF_OK && code != HANDOFF_ERR_NOT_FOUND &&
            code != HANDOFF_ERR_ENVELOPE_REMOVED && code != HANDOFF_ERR_STORE_CORRUPT)
            return true;
    }
    return catch_up->error.code != HANDOFF_OK;
}

static void missed_were_read(struct handoff_store_read *read)
{
    struct handoff_catch_up *catch_up = BASE_CONTAINER_OF(read, struct handoff_catch_up, read);
    BASE_CHECK_MAGIC(catch_up, CATCH_UP_MAGIC);
    struct handoff_agents *agents = catch_up->loop->client->agents;
    struct handoff_agent *agent = handoff_agents_find(agents, catch_up->row.receiver);
    catch_up->busy = false;
    catch_up->loop->pending--;
    catch_up->leaving |= !sweep_feed(catch_up, HANDOFF_SWEEP_LOOK);
    if (catch_up->leaving || !agent || has_failed(catch_up))
        continue_in(catch_up, CATCH_UP_RETRY_MS);
    else if (catch_up->nmissed > 0)
        project_rest(catch_up, 0);
    else
        came_to_the_end(catch_up);
}

/* On a reader thread. */
static void read_missed_step(struct handoff_store_read *read)
{
    struct handoff_catch_up *catch_up = BASE_CONTAINER_OF(read, struct handoff_catch_up, read);
    struct handoff_store *store = catch_up->loop->client->store;
    handoff_error_clear(&catch_up->error);
    catch_up->error.code =
        handoff_store_list_missed(store, &catch_up->row, CATCH_UP_STEP, catch_up->missed,
                                  &catch_up->nmissed, &catch_up->error);
    if (catch_up->error.code != HANDOFF_OK)
        return;
    for (size_t i = 0; i < catch_up->nmissed; i++)
        (void)!handoff_stored_to_publish_load(&catch_up->stored[i], &catch_up->missed[i].id);
}

static void look_for_missed(struct handoff_catch_up *catch_up, struct handoff_agent *agent)
{
    const uint64_t budget = budget_of_subscriber(agent);
    for (size_t i = 0; i < CATCH_UP_STEP; i++)
        catch_up->stored[i].least_budget = budget;
    const bool was_last = catch_up->is_last;
    catch_up->is_last =
        catch_up->included && handoff_channels_have_left(&catch_up->loop->client->channels,
                                                         catch_up->row.channel, catch_up->ticket);
    if (catch_up->is_last && !was_last)
        go_back_for_last_look(catch_up);
    catch_up->read = (struct handoff_store_read){.mailbox = catch_up->loop->lane->mailbox,
                                                 .run = read_missed_step,
                                                 .done = missed_were_read};
    catch_up->busy = true;
    catch_up->loop->pending++;
    handoff_store_submit_read(catch_up->loop->client->store, &catch_up->read);
}

static bool takes_more(struct handoff_agent *agent)
{
    pthread_mutex_lock(&agent->lock);
    const bool room = agent->in_flight < CATCH_UP_IN_FLIGHT;
    pthread_mutex_unlock(&agent->lock);
    return room;
}

/* The last look finds few, and is waited for. */
static bool may_read_missed(struct handoff_catch_up *catch_up, struct handoff_agent *agent)
{
    struct handoff_channels *channels = &catch_up->loop->client->channels;
    return catch_up->included
               ? handoff_channels_have_left(channels, catch_up->row.channel, catch_up->ticket)
               : takes_more(agent);
}

static void catch_up_timer_fired(struct base_timer *timer)
{
    struct handoff_catch_up *catch_up = BASE_CONTAINER_OF(timer, struct handoff_catch_up, timer);
    BASE_CHECK_MAGIC(catch_up, CATCH_UP_MAGIC);
    struct handoff_client *client = catch_up->loop->client;
    struct handoff_agent *agent = handoff_agents_find(client->agents, catch_up->row.receiver);
    if (!sweep_feed(catch_up, HANDOFF_SWEEP_LOOK))
        drop_catch_up(catch_up); /* it was changed */
    else if (catch_up->conflicts)
        put_row_again(catch_up);
    else if (catch_up->projects)
        project_rest(catch_up, catch_up->projecting + 1);
    else if (!agent)
        continue_in(catch_up, CATCH_UP_RETRY_MS);
    else if (!may_read_missed(catch_up, agent))
        continue_in(catch_up, CATCH_UP_LOOK_MS);
    else
        look_for_missed(catch_up, agent);
}

/* ---- its beginning ----------------------------------------------------------------------------
 */

static struct base_span keep_feed_name(char *to, struct base_span name)
{
    memcpy(to, name.data, name.size);
    to[name.size] = '\0';
    return base_span(to, name.size);
}

bool handoff_catch_up_begin(struct handoff_loop *loop,
                            const struct handoff_stored_subscription *row, uint64_t number)
{
    struct handoff_catch_ups *all = &loop->client->catch_ups;
    struct handoff_catch_up *made =
        base_calloc(1, sizeof *made + row->channel.size + row->receiver.size + 2);
    if (!made)
        return false;
    made->magic = CATCH_UP_MAGIC;
    made->loop = loop;
    made->row = *row;
    made->number = number;
    made->resumed = row->position > 0;
    made->row.channel = keep_feed_name(made->names, row->channel);
    made->row.receiver = keep_feed_name(made->names + row->channel.size + 1, row->receiver);
    made->timer.fire = catch_up_timer_fired;
    for (size_t i = 0; i < CATCH_UP_STEP; i++)
        made->stored[i].loop = loop;
    pthread_mutex_lock(&all->lock);
    TAILQ_INSERT_TAIL(&all->list, made, entry);
    pthread_mutex_unlock(&all->lock);
    continue_in(made, 0);
    return true;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

void handoff_catch_ups_init(struct handoff_catch_ups *all)
{
    pthread_mutex_init(&all->lock, NULL);
    TAILQ_INIT(&all->list);
}

void handoff_catch_ups_free(struct handoff_catch_ups *all)
{
    BASE_CHECK(TAILQ_EMPTY(&all->list));
    pthread_mutex_destroy(&all->lock);
}

struct resuming_subscriptions {
    struct handoff_loop *loop;
    struct handoff_error *error;
    enum handoff_code code;
};

static void resume_subscription(void *arg, const struct handoff_stored_subscription *row)
{
    struct resuming_subscriptions *resuming = arg;
    struct handoff_channels *channels = &resuming->loop->client->channels;
    enum handoff_subscription_state was;
    bool configured;
    if (resuming->code != HANDOFF_OK)
        return;
    resuming->code = handoff_channels_begin_change(channels, row->channel, row->receiver,
                                                   &configured, &was, resuming->error);
    if (resuming->code != HANDOFF_OK)
        return;
    (void)handoff_channels_time_of_change(channels, row->at_ms);
    const uint64_t number =
        handoff_channels_end_change(channels, row->channel, row->receiver, row->state, row->at_ms);
    handoff_channels_note_dropped(channels, row->channel, row->receiver, row->at_ms, row->dropped);
    if (row->state == HANDOFF_SUBSCRIPTION_CATCHING_UP &&
        !handoff_catch_up_begin(resuming->loop, row, number))
        resuming->code = handoff_error_no_memory(resuming->error);
}

enum handoff_code handoff_subscriptions_resume(struct handoff_loop *loop,
                                               struct handoff_error *error)
{
    struct resuming_subscriptions resuming = {.loop = loop, .error = error};
    enum handoff_code code = handoff_store_visit_subscriptions(
        loop->client->store, resume_subscription, &resuming, error);
    return code == HANDOFF_OK ? resuming.code : code;
}

static struct handoff_catch_up *catch_up_on(struct handoff_catch_ups *all,
                                            const struct handoff_loop *loop)
{
    struct handoff_catch_up *catch_up;
    pthread_mutex_lock(&all->lock);
    TAILQ_FOREACH (catch_up, &all->list, entry) {
        if (catch_up->loop == loop && !catch_up->leaving)
            break;
    }
    pthread_mutex_unlock(&all->lock);
    return catch_up;
}

void handoff_catch_ups_end(struct handoff_loop *loop)
{
    struct handoff_catch_up *catch_up;
    while ((catch_up = catch_up_on(&loop->client->catch_ups, loop))) {
        catch_up->leaving = true;
        base_timers_stop(loop->lane->timers, &catch_up->timer);
        if (!catch_up->busy)
            drop_catch_up(catch_up);
    }
}
