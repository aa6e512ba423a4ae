/* SPDX-License-Identifier: Apache-2.0 */
/* The records of those who follow an inbox, see streams.h. Any thread. */
#include "client/protocol/pull/streams.h"

#include <string.h>

#include "client/protocol/pull/inbox.h"
#include "lib/base/check.h"
#include "lib/base/memory.h"

static bool is_same_id(const struct base_uuid *a, const struct base_uuid *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- events, under the lock ------------------------------------------------------------------ */

/* The oldest that is over makes room; there is one, as not half of them can be leased. */
static void drop_oldest_over(struct handoff_stream *stream)
{
    size_t at = 0;
    while (stream->events[at].state != HANDOFF_STREAM_OVER)
        at++;
    BASE_CHECK(at < stream->count);
    stream->count--;
    memmove(&stream->events[at], &stream->events[at + 1],
            (stream->count - at) * sizeof stream->events[0]);
}

void handoff_stream_add(struct handoff_stream *stream, const struct base_uuid *id, uint32_t attempt)
{
    BASE_CHECK(!handoff_stream_is_full(stream));
    if (stream->count == HANDOFF_STREAM_EVENTS)
        drop_oldest_over(stream);
    stream->events[stream->count++] = (struct handoff_stream_event){
        .id = *id, .attempt = attempt, .state = HANDOFF_STREAM_LEASED};
    stream->leased++;
}

static struct handoff_stream_event *find_leased(struct handoff_stream *stream,
                                                const struct base_uuid *id)
{
    size_t at = stream->count;
    while (at > 0) {
        struct handoff_stream_event *event = &stream->events[--at];
        if (event->state != HANDOFF_STREAM_OVER && is_same_id(&event->id, id))
            return event;
    }
    return NULL;
}

/* How many events there are up to the one that is named; false: it is none of these. */
static bool count_up_to(const struct handoff_stream *stream, const struct base_uuid *last,
                        size_t *count)
{
    *count = stream->count;
    while (*count > 0 && !is_same_id(&stream->events[*count - 1].id, last))
        --*count;
    return *count > 0 || is_same_id(&stream->id, last);
}

/* Only one may return a lease: a second return would take the next one away, which can have the
   same number. */
static bool begin_return(struct handoff_stream *stream, struct handoff_stream_event *event)
{
    if (event->state != HANDOFF_STREAM_LEASED)
        return false;
    event->state = HANDOFF_STREAM_RETURNING;
    stream->returning++;
    return true;
}

static void lose_from(struct handoff_stream *stream, size_t at, struct handoff_stream_lost *lost)
{
    for (; at < stream->count; at++) {
        if (begin_return(stream, &stream->events[at]))
            lost->events[lost->count++] = stream->events[at];
    }
}

/* ---- records --------------------------------------------------------------------------------- */

static struct handoff_stream *find_stream(struct handoff_inbox *inbox, const struct base_uuid *last,
                                          size_t *count)
{
    struct handoff_stream *stream = LIST_FIRST(&inbox->streams);
    while (stream && !count_up_to(stream, last, count))
        stream = LIST_NEXT(stream, entry);
    return stream;
}

/* Its request, which has to be told; NULL: it finds out when it asks for the next one. */
static struct handoff_poller_request *oust(struct handoff_stream_holder *holder)
{
    struct handoff_poller_request *request = holder->waiting;
    if (request)
        handoff_inbox_remove_request(request);
    holder->stream = NULL;
    return request;
}

static void hold(struct handoff_inbox *inbox, struct handoff_stream *stream,
                 struct handoff_stream_holder *holder)
{
    inbox->followers += stream->holder == NULL;
    stream->holder = holder;
    holder->stream = stream;
}

void handoff_stream_open(struct handoff_inbox *inbox, struct handoff_stream_holder *holder,
                         struct handoff_stream *made, const struct base_uuid *last,
                         struct handoff_stream_lost *lost)
{
    struct handoff_poller_request *ousted = NULL;
    size_t count;
    lost->count = 0;
    pthread_mutex_lock(&inbox->lock);
    struct handoff_stream *found = last ? find_stream(inbox, last, &count) : NULL;
    if (found) {
        ousted = found->holder ? oust(found->holder) : NULL;
        found->most = made->most;
        lose_from(found, count, lost);
        hold(inbox, found, holder);
    } else {
        made->inbox = inbox;
        LIST_INSERT_HEAD(&inbox->streams, made, entry);
        hold(inbox, made, holder);
    }
    pthread_mutex_unlock(&inbox->lock);
    if (ousted)
        handoff_inbox_tell(ousted);
    if (found)
        base_free(made);
}

static bool is_done_with(const struct handoff_stream *stream)
{
    return !stream->holder && stream->leased == 0;
}

/* Under the lock: whether the record is to be freed. */
static bool leave(struct handoff_inbox *inbox, struct handoff_stream *stream)
{
    stream->holder = NULL;
    handoff_inbox_note_leaving(inbox);
    if (!is_done_with(stream))
        return false;
    LIST_REMOVE(stream, entry);
    return true;
}

void handoff_stream_close(struct handoff_inbox *inbox, struct handoff_stream_holder *holder,
                          unsigned unsent, struct handoff_stream_lost *lost)
{
    bool done = false;
    lost->count = 0;
    pthread_mutex_lock(&inbox->lock);
    struct handoff_stream *stream = holder->stream;
    holder->stream = NULL;
    if (stream) {
        lose_from(stream, stream->count - (unsent < stream->count ? unsent : stream->count), lost);
        done = leave(inbox, stream);
    }
    pthread_mutex_unlock(&inbox->lock);
    if (done)
        base_free(stream);
}

bool handoff_stream_is_held(struct handoff_inbox *inbox, const struct handoff_stream_holder *holder)
{
    pthread_mutex_lock(&inbox->lock);
    const bool held = holder->stream != NULL;
    pthread_mutex_unlock(&inbox->lock);
    return held;
}

void handoff_stream_over(struct handoff_stream *stream, const struct base_uuid *id)
{
    struct handoff_inbox *inbox = stream->inbox;
    struct handoff_poller_request *request = NULL;
    pthread_mutex_lock(&inbox->lock);
    struct handoff_stream_event *event = find_leased(stream, id);
    BASE_CHECK(event && stream->leased > 0);
    stream->returning -= event->state == HANDOFF_STREAM_RETURNING;
    event->state = HANDOFF_STREAM_OVER;
    stream->leased--;
    if (stream->holder && !handoff_stream_is_full(stream))
        request = handoff_inbox_take_blocked(stream->holder);
    const bool done = is_done_with(stream);
    if (done)
        LIST_REMOVE(stream, entry);
    pthread_mutex_unlock(&inbox->lock);
    if (request)
        handoff_inbox_look_again(request);
    if (done)
        base_free(stream);
}
