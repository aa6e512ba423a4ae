/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches of handoffs, see watch.h. Each function says whether it runs on the caller's lane or on
 * the one that has the handoff.
 */
#include "client/deliver/watch.h"

#include "client/deliver/delivery.h"
#include "client/deliver/dormant.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

enum { WATCH_MAGIC = 0x77617463 };

/* ---- on the caller's lane -------------------------------------------------------------------- */

static void end_trip(struct handoff_watch *watch)
{
    BASE_CHECK_MAGIC(watch, WATCH_MAGIC);
    BASE_CHECK(watch->trips > 0);
    if (--watch->trips > 0)
        return;
    watch->magic = 0;
    watch->told(watch);
}

static void watch_is_back(struct base_mail *mail)
{
    end_trip(BASE_CONTAINER_OF(mail, struct handoff_watch, mail));
}

static void recall_is_back(struct base_mail *mail)
{
    end_trip(BASE_CONTAINER_OF(mail, struct handoff_watch, recall));
}

/* ---- on the owning lane ---------------------------------------------------------------------- */

static void send_home(struct handoff_watch *watch, struct base_mail *mail,
                      void (*deliver)(struct base_mail *mail))
{
    mail->deliver = deliver;
    base_mailbox_post(watch->lane->mailbox, mail);
}

static void unlist(struct handoff_watch *watch)
{
    LIST_REMOVE(watch, entry);
    watch->listed = false;
    send_home(watch, &watch->mail, watch_is_back);
}

/* One that a decision has claimed and not yet entered rests, and its row says how. */
static bool is_watchable(const struct handoff_delivery *delivery, enum handoff_watch_for what)
{
    return delivery->state != HANDOFF_STATE_NONE &&
           (what == HANDOFF_WATCH_END || delivery->seq == 0);
}

static void watch_arrived(struct base_mail *mail)
{
    struct handoff_watch *watch = BASE_CONTAINER_OF(mail, struct handoff_watch, mail);
    BASE_CHECK_MAGIC(watch, WATCH_MAGIC);
    struct handoff_delivery *delivery = NULL;
    struct handoff_error error;
    enum handoff_lookup found = HANDOFF_LOOKUP_ABSENT;
    if (!watch->ended)
        found = handoff_lane_find(watch->owner, &watch->id, mail, &delivery, &error);
    if (found == HANDOFF_LOOKUP_LATER)
        return;
    if (found != HANDOFF_LOOKUP_FOUND || !is_watchable(delivery, watch->what)) {
        send_home(watch, mail, watch_is_back);
        return;
    }
    LIST_INSERT_HEAD(&delivery->watches, watch, entry);
    watch->listed = true;
}

static void recall_arrived(struct base_mail *mail)
{
    struct handoff_watch *watch = BASE_CONTAINER_OF(mail, struct handoff_watch, recall);
    BASE_CHECK_MAGIC(watch, WATCH_MAGIC);
    if (watch->listed)
        unlist(watch);
    watch->ended = true; /* the first mail may still wait until the handoff is loaded */
    send_home(watch, mail, recall_is_back);
}

void handoff_delivery_tell_watches(struct handoff_delivery *delivery, bool ended)
{
    struct handoff_watch *next;
    for (struct handoff_watch *watch = LIST_FIRST(&delivery->watches); watch; watch = next) {
        next = LIST_NEXT(watch, entry);
        if (ended || watch->what == HANDOFF_WATCH_ACCEPTED)
            unlist(watch);
    }
}

/* ---- beginning and recalling: on the caller's lane ------------------------------------------- */

void handoff_engine_watch(struct handoff_lane *lane, struct handoff_watch *watch)
{
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    watch->magic = WATCH_MAGIC;
    watch->lane = lane;
    watch->owner = handoff_live_lane(&lane->engine->live, &watch->id);
    watch->trips = 1;
    watch->recalled = watch->listed = watch->ended = false;
    if (watch->owner) {
        watch->mail.deliver = watch_arrived;
        base_mailbox_post(watch->owner->mailbox, &watch->mail);
    } else {
        send_home(watch, &watch->mail, watch_is_back);
    }
}

void handoff_engine_recall(struct handoff_watch *watch)
{
    BASE_CHECK_MAGIC(watch, WATCH_MAGIC);
    if (watch->recalled || !watch->owner)
        return;
    watch->recalled = true;
    watch->trips++;
    watch->recall.deliver = recall_arrived;
    base_mailbox_post(watch->owner->mailbox, &watch->recall);
}
