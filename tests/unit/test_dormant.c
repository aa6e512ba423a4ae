/* SPDX-License-Identifier: Apache-2.0 */
/* What waits far back is a row in the store: whatever wakes it finds it in its place, as it was. */
/* wraps: base_mailbox_post */
#include "tests/support/delivery_stage.h"

#include <sqlite3.h>

#include "client/deliver/decide.h"
#include "client/deliver/delivery.h"
#include "client/deliver/dormant.h"
#include "client/deliver/publish.h"
#include "client/deliver/watch.h"
#include "client/protocol/pull/inbox.h"
#include "lib/base/memory.h"
#include "tests/support/failing_memory.h"

enum { MANY = 40, FEW = 3, LOOK_AGAIN_MS = 61000, HOUR_MS = 3600000 };

static int set_up_rows(void **state)
{
    (void)set_up(state);
    close_engine();
    stage.waiting_in_memory = 0;
    open_engine();
    return 0;
}

#define OF_ROWS(test) cmocka_unit_test_setup_teardown(test, set_up_rows, tear_down)

static void configure(void)
{
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
}

static void pulls(void)
{
    stage.options[0].url = NULL;
    configure();
}

/* ---- who waits --------------------------------------------------------------------------------
 */

static size_t count_dormant(void)
{
    struct handoff_dormant *dormant;
    size_t count = 0;
    TAILQ_FOREACH (dormant, &stage.lane->dormant, entry)
        count++;
    return count;
}

static void until_dormant(size_t count)
{
    while (count_dormant() < count)
        turn();
    assert_int_equal(count_dormant(), count);
}

static void send_for_later(struct sender *sender, int64_t deadline_in_ms)
{
    if (deadline_in_ms)
        send_within(sender, "coder", deadline_in_ms);
    else
        send_to(sender, "coder");
    while (!sender->accepted)
        turn();
    handoff_waiter_withdraw(&sender->waiter);
}

static void send_all(struct sender senders[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        send_for_later(&senders[i], 0);
    until_dormant(count);
    assert_true(TAILQ_EMPTY(&stage.lane->deliveries));
}

static struct handoff_agent *coder(void)
{
    return handoff_agents_find(stage.agents, base_span_text("coder"));
}

/* ---- pollers ----------------------------------------------------------------------------------
 */

struct poller {
    struct handoff_poller_request request; /* first */
    unsigned told;
};

static void on_poll_told(struct handoff_poller_request *request)
{
    ((struct poller *)request)->told++;
}

static void begin_poll(struct poller *poller)
{
    *poller =
        (struct poller){.request = {.lane = stage.lane, .agent = coder(), .told = on_poll_told}};
    handoff_inbox_poll(&poller->request, HOUR_MS);
}

static void assert_got(struct poller *poller, const struct sender *sender)
{
    while (!poller->told)
        turn();
    assert_non_null(poller->request.envelope);
    assert_memory_equal(poller->request.id.bytes, sender->submission.id.bytes, 16);
    base_free(poller->request.envelope);
}

static void pull_and_acknowledge(const struct sender *sender)
{
    struct poller poller;
    begin_poll(&poller);
    assert_got(&poller, sender);
    assert_int_equal(say(sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(stored(sender, HANDOFF_STATE_ACKNOWLEDGED).nrecorded, 1);
}

static void test_they_are_pulled_in_order(void **state)
{
    (void)state;
    static struct sender senders[MANY];
    size_t waiting;
    int64_t polled_ms;
    pulls();
    send_all(senders, MANY);
    handoff_inbox_stats(&coder()->inbox, &waiting, &polled_ms);
    assert_int_equal(waiting, MANY);
    assert_int_equal(handoff_engine_in_flight(stage.engine), MANY);
    for (int i = 0; i < MANY; i++) {
        assert_true(a_lane_has_it(&senders[i].submission.id));
        pull_and_acknowledge(&senders[i]);
    }
    assert_int_equal(count_moves(HANDOFF_STATE_ACKNOWLEDGED), MANY);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
}

/* More pollers than are loaded at once. */
static void test_many_pollers_get_each_one(void **state)
{
    (void)state;
    static struct sender senders[MANY];
    static struct poller pollers[MANY];
    pulls();
    send_all(senders, MANY);
    for (int i = 0; i < MANY; i++)
        begin_poll(&pollers[i]);
    for (int i = 0; i < MANY; i++)
        assert_got(&pollers[i], &senders[i]);
    assert_int_equal(count_moves(HANDOFF_STATE_IN_FLIGHT), MANY);
}

/* A poller that leaves while its handoff is loaded does not take it: it is still the first. */
static void test_a_poller_that_left_costs_no_place(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    struct poller gone;
    pulls();
    send_all(senders, FEW);
    begin_poll(&gone);
    handoff_inbox_withdraw(&gone.request);
    while (!gone.told)
        turn();
    assert_null(gone.request.envelope);
    for (int i = 0; i < FEW; i++)
        pull_and_acknowledge(&senders[i]);
}

/* ---- a window, and those who wait --------------------------------------------------------------
 */

static void test_some_stay_in_memory(void **state)
{
    (void)state;
    static struct sender senders[MANY];
    pulls();
    stage.waiting_in_memory = MANY - FEW;
    restart();
    for (int i = 0; i < MANY; i++)
        send_for_later(&senders[i], 0);
    until_dormant(FEW);
    for (int i = 0; i < MANY; i++)
        pull_and_acknowledge(&senders[i]);
}

static bool head_is_dormant(void)
{
    struct handoff_inbox *inbox = &coder()->inbox;
    pthread_mutex_lock(&inbox->lock);
    const struct handoff_offer *head = TAILQ_FIRST(&inbox->offers);
    const bool dormant = head && head->dormant;
    pthread_mutex_unlock(&inbox->lock);
    return dormant;
}

static void until_loaded(void)
{
    do {
        turn();
    } while (!TAILQ_EMPTY(&stage.lane->to_load) || stage.lane->awaited > 0);
}

/* After the first that a poller waits for, those that it takes next are there when it comes. */
static void test_the_next_are_loaded_ahead(void **state)
{
    (void)state;
    enum { WINDOW = 8 };
    static struct sender senders[MANY];
    unsigned waited = 0;
    pulls();
    stage.waiting_in_memory = WINDOW;
    restart();
    for (int i = 0; i < MANY; i++)
        send_for_later(&senders[i], 0);
    until_dormant(MANY - WINDOW);
    for (int i = 0; i < MANY; i++) {
        waited += head_is_dormant();
        pull_and_acknowledge(&senders[i]);
        until_loaded();
        size_t live = 0;
        struct handoff_delivery *delivery;
        TAILQ_FOREACH (delivery, &stage.lane->deliveries, entry)
            live++;
        assert_in_range(live, 0, WINDOW);
    }
    assert_int_equal(waited, 1);
}

/* Those that left from the middle make the next ones look further back than they are. */
static void test_a_gap_in_the_line_is_passed(void **state)
{
    (void)state;
    static struct sender senders[MANY];
    pulls();
    stage.waiting_in_memory = 8;
    restart();
    for (int i = 0; i < MANY; i++)
        send_for_later(&senders[i], 0);
    for (int i = 4; i < MANY - 4; i++)
        assert_int_equal(say(&senders[i], HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    for (int i = 0; i < MANY; i++) {
        if (i < 4 || i >= MANY - 4)
            pull_and_acknowledge(&senders[i]);
    }
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
}

static void test_a_sender_that_waits_is_told(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    send_to(&sender, "coder");
    while (!sender.accepted)
        turn();
    turn();
    assert_int_equal(count_dormant(), 0);
    begin_poll(&poller);
    assert_got(&poller, &sender);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    until_settled(&sender);
}

/* Looks into no row: that takes memory. */
static void on_taken_back(struct handoff_reply *reply)
{
    ((struct speaker *)reply)->told++;
}

static void begin_to_take_back(struct speaker *speaker, const struct sender *about,
                               enum handoff_word word)
{
    *speaker = (struct speaker){.reply = {.lane = stage.lane,
                                          .told = on_taken_back,
                                          .id = about->submission.id,
                                          .word = word,
                                          .words = "",
                                          .agent = base_span_text("analyst")}};
    handoff_engine_reply(stage.engine, &speaker->reply);
}

static enum handoff_code take_back(const struct sender *about, enum handoff_word word)
{
    struct speaker speaker;
    begin_to_take_back(&speaker, about, word);
    return until_replied(&speaker);
}

/* ---- what is said about it ------------------------------------------------------------------- */

static void test_it_can_be_cancelled_and_acknowledged(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    send_all(senders, FEW);
    assert_int_equal(take_back(&senders[0], HANDOFF_WORD_CANCEL), HANDOFF_OK);
    assert_int_equal(say(&senders[1], HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&senders[0], HANDOFF_STATE_DISCARDED);
    stored(&senders[1], HANDOFF_STATE_ACKNOWLEDGED);
    pull_and_acknowledge(&senders[2]);
}

static void test_it_can_be_parked_and_replayed(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    send_all(senders, FEW);
    assert_int_equal(take_back(&senders[0], HANDOFF_WORD_PARK), HANDOFF_OK);
    stored(&senders[0], HANDOFF_STATE_PARKED);
    while (a_lane_has_it(&senders[0].submission.id))
        turn();
    handoff_engine_decide(stage.lane, &senders[0].submission.id, HANDOFF_DECISION_REPLAY,
                          base_span(NULL, 0), NULL, &senders[0].waiter);
    assert_int_equal(until_decided(&senders[0]), HANDOFF_OK);
    stored(&senders[0], HANDOFF_STATE_READY);
    handoff_waiter_withdraw(&senders[0].waiter);
    until_dormant(FEW);
    pull_and_acknowledge(&senders[1]);
    pull_and_acknowledge(&senders[2]);
    pull_and_acknowledge(&senders[0]);
}

/* It is loaded, keeps its place, and is a row again. */
static void test_what_changes_nothing_leaves_it_where_it_was(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    send_all(senders, FEW);
    assert_int_equal(say(&senders[1], HANDOFF_WORD_EXTEND, "coder"), HANDOFF_ERR_CONFLICT);
    assert_int_equal(say(&senders[1], HANDOFF_WORD_NACK_RETRY, "coder"), HANDOFF_OK);
    assert_int_equal(say(&senders[1], HANDOFF_WORD_ACK, "reviewer"), HANDOFF_ERR_NOT_FOUND);
    until_dormant(FEW);
    for (int i = 0; i < FEW; i++)
        pull_and_acknowledge(&senders[i]);
}

/* ---- the clock --------------------------------------------------------------------------------
 */

static void test_it_expires_on_time(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    for (int i = 0; i < FEW; i++)
        send_for_later(&senders[i], (i + 1) * (int64_t)HOUR_MS);
    until_dormant(FEW);
    set_wall_by(-5 * (int64_t)HOUR_MS); /* waits are measured on the monotonic clock */
    let_pass(HOUR_MS);
    stored(&senders[0], HANDOFF_STATE_EXPIRED);
    until_dormant(FEW - 1);
    let_pass(2 * (int64_t)HOUR_MS);
    stored(&senders[1], HANDOFF_STATE_EXPIRED);
    stored(&senders[2], HANDOFF_STATE_EXPIRED);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXPIRED), FEW);
}

static void test_it_is_parked_when_its_agent_is_gone(void **state)
{
    (void)state;
    static struct sender sender;
    pulls();
    send_all(&sender, 1);
    stage.options[0].name = "somebody-else";
    configure();
    let_pass(LOOK_AGAIN_MS);
    assert_string_equal(stored(&sender, HANDOFF_STATE_PARKED).reason, "unknown_agent");
}

static void test_it_is_sent_when_its_agent_has_a_url(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    send_all(senders, FEW);
    behave(0, "ack");
    let_pass(LOOK_AGAIN_MS);
    for (int i = 0; i < FEW; i++)
        stored(&senders[i], HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_it_stays_where_it_is_while_nothing_changes(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    send_all(senders, FEW);
    let_pass(LOOK_AGAIN_MS);
    turn();
    turn();
    assert_int_equal(count_dormant(), FEW);
    for (int i = 0; i < FEW; i++)
        pull_and_acknowledge(&senders[i]);
}

/* ---- in order ----------------------------------------------------------------------------------
 */

static void order_them(void)
{
    stage.options[0].ordered = true;
    configure();
}

static void test_those_of_a_task_follow_each_other(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    order_them();
    behave(0, "202");
    for (int i = 0; i < FEW; i++)
        send_for_later(&senders[i], 0);
    until_dormant(FEW - 1);
    for (int i = 0; i < FEW; i++) {
        stored(&senders[i], HANDOFF_STATE_AWAITING_ACK);
        assert_int_equal(count_moves(HANDOFF_STATE_AWAITING_ACK), i + 1);
        assert_int_equal(say(&senders[i], HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    }
    stored(&senders[FEW - 1], HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_one_is_in_the_inbox_at_a_time(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    struct poller second;
    order_them();
    pulls();
    send_all(senders, FEW);
    pull_and_acknowledge(&senders[0]);
    begin_poll(&second);
    assert_got(&second, &senders[1]);
    struct poller third;
    begin_poll(&third);
    turn();
    turn();
    assert_int_equal(third.told, 0);
    assert_int_equal(say(&senders[1], HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_got(&third, &senders[2]);
}

static void test_they_are_let_go_when_order_is_turned_off(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    order_them();
    behave(0, "202");
    for (int i = 0; i < FEW; i++)
        send_for_later(&senders[i], 0);
    until_dormant(FEW - 1);
    stage.options[0].ordered = false;
    configure();
    let_pass(LOOK_AGAIN_MS);
    for (int i = 1; i < FEW; i++)
        stored(&senders[i], HANDOFF_STATE_AWAITING_ACK);
}

/* ---- held feeds --------------------------------------------------------------------------------
 */

static atomic_uint mails_posted;

void __real_base_mailbox_post(struct base_mailbox *mailbox, struct base_mail *mail);
void __wrap_base_mailbox_post(struct base_mailbox *mailbox, struct base_mail *mail);

void __wrap_base_mailbox_post(struct base_mailbox *mailbox, struct base_mail *mail)
{
    atomic_fetch_add(&mails_posted, 1);
    __real_base_mailbox_post(mailbox, mail);
}

static struct handoff_feeds feeds;

static int set_up_feeds(void **state)
{
    (void)set_up(state);
    close_engine();
    handoff_feeds_init(&feeds);
    stage.feeds = &feeds;
    stage.waiting_in_memory = 0;
    open_engine();
    return 0;
}

static int tear_down_feeds(void **state)
{
    (void)tear_down(state);
    handoff_feeds_free(&feeds);
    return 0;
}

static void on_published(void *context, const struct handoff_error *error)
{
    assert_int_equal(error->code, HANDOFF_OK);
    ++*(unsigned *)context;
}

/* Deliveries of one feed, in this order. */
static void publish_to_coder(struct sender senders[], size_t count)
{
    static struct handoff_publication_receiver receivers[MANY];
    static struct sender envelope;
    unsigned published = 0;
    prepare(&envelope, "coder", 0);
    for (size_t i = 0; i < count; i++) {
        senders[i].submission.id = base_uuid_make(&stage.ids);
        receivers[i] =
            (struct handoff_publication_receiver){.agent = coder(), .id = senders[i].submission.id};
    }
    const struct handoff_publication publication = {.submission = envelope.submission,
                                                    .excerpt_lines = base_span_text(""),
                                                    .passed_on = base_span_text("{}"),
                                                    .channel = base_span_text("news"),
                                                    .at_ms = envelope.submission.created_ms,
                                                    .receivers = receivers,
                                                    .nreceivers = count,
                                                    .published = on_published,
                                                    .context = &published};
    assert_int_equal(handoff_engine_publish(stage.lane, &publication, NULL), HANDOFF_OK);
    temp_envelope_free(&envelope.envelope);
    while (!published)
        turn();
}

static size_t count_offers(void)
{
    size_t waiting;
    int64_t polled_ms;
    handoff_inbox_stats(&coder()->inbox, &waiting, &polled_ms);
    return waiting;
}

/* Each calls up the next when it passes, and only then: what they cost does not grow with those
   that have passed. */
static void test_a_feed_that_is_let_go_calls_each_up_once(void **state)
{
    (void)state;
    static struct sender senders[MANY];
    pulls();
    struct handoff_feed *feed =
        handoff_feeds_get(&feeds, base_span_text("news"), base_span_text("coder"));
    handoff_feed_hold(feed);
    publish_to_coder(senders, MANY);
    until_dormant(MANY);
    assert_int_equal(count_offers(), 0);
    atomic_store(&mails_posted, 0);
    handoff_feed_release(feed);
    handoff_engine_call_up_held(feed);
    while (count_offers() < MANY)
        turn();
    until_dormant(MANY);
    assert_in_range(atomic_load(&mails_posted), MANY, 3 * MANY); /* it and its row, some twice */
    for (int i = 0; i < MANY; i++)
        pull_and_acknowledge(&senders[i]);
    handoff_feeds_put(&feeds, feed);
}

/* A subscriber that left and is back: what it was offered before is older than what it missed. */
static void test_what_was_offered_does_not_wait_for_its_feed(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    publish_to_coder(senders, FEW);
    until_dormant(FEW);
    struct handoff_feed *feed =
        handoff_feeds_get(&feeds, base_span_text("news"), base_span_text("coder"));
    handoff_feed_hold(feed);
    for (int i = 0; i < FEW; i++)
        assert_int_not_equal(say(&senders[i], HANDOFF_WORD_CANCEL, "reviewer"), HANDOFF_OK);
    until_dormant(FEW);
    assert_int_equal(count_offers(), FEW);
    for (int i = 0; i < FEW; i++)
        pull_and_acknowledge(&senders[i]);
    handoff_feed_release(feed);
    handoff_feeds_put(&feeds, feed);
}

#define OF_A_FEED(test) cmocka_unit_test_setup_teardown(test, set_up_feeds, tear_down_feeds)

/* ---- starts and stops --------------------------------------------------------------------------
 */

static void test_a_start_does_not_load_them(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    send_all(senders, FEW);
    restart();
    assert_int_equal(count_dormant(), FEW - 1); /* behind the first */
    assert_int_equal(handoff_engine_in_flight(stage.engine), FEW);
    assert_int_equal(stage.nevents, FEW); /* each is reported as resumed */
    for (int i = 0; i < FEW; i++)
        pull_and_acknowledge(&senders[i]);
}

static void test_a_start_keeps_the_order(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    order_them();
    pulls();
    send_all(senders, FEW);
    restart();
    for (int i = 0; i < FEW; i++)
        pull_and_acknowledge(&senders[i]);
}

static void test_a_stop_answers_who_waits_for_a_load(void **state)
{
    (void)state;
    static struct sender senders[MANY];
    static struct speaker speakers[MANY];
    pulls();
    send_all(senders, MANY);
    for (int i = 0; i < MANY; i++)
        begin_to_take_back(&speakers[i], &senders[i], HANDOFF_WORD_CANCEL);
    base_mailbox_run(stage.lane->mailbox);
    handoff_lane_stop(stage.lane);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(until_replied(&speakers[i]), HANDOFF_ERR_SHUTTING_DOWN);
}

/* ---- watches ------------------------------------------------------------------------------------
 */

struct watcher {
    struct handoff_watch watch; /* first */
    unsigned told;
};

static void on_watch_told(struct handoff_watch *watch)
{
    ((struct watcher *)watch)->told++;
}

static void watch_end(struct watcher *watcher, const struct sender *sender)
{
    *watcher = (struct watcher){
        .watch = {.id = sender->submission.id, .what = HANDOFF_WATCH_END, .told = on_watch_told}};
    handoff_engine_watch(stage.lane, &watcher->watch);
}

static void test_a_watch_is_told_of_its_end(void **state)
{
    (void)state;
    static struct sender sender;
    struct watcher watcher;
    pulls();
    send_all(&sender, 1);
    watch_end(&watcher, &sender);
    pull_and_acknowledge(&sender);
    while (!watcher.told)
        turn();
}

/* The recall overtakes the watch, which waits for the load. */
static void test_a_watch_can_be_recalled_while_it_is_loaded(void **state)
{
    (void)state;
    static struct sender sender;
    struct watcher watcher;
    pulls();
    send_all(&sender, 1);
    watch_end(&watcher, &sender);
    handoff_engine_recall(&watcher.watch);
    while (!watcher.told)
        turn();
    pull_and_acknowledge(&sender);
}

/* ---- failures -----------------------------------------------------------------------------------
 */

static void change_envelope(const struct sender *sender, const char *sql)
{
    char path[256];
    sqlite3 *database;
    sqlite3_stmt *update;
    snprintf(path, sizeof path, "%s/handoff.db", stage.directory);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &update, NULL), SQLITE_OK);
    sqlite3_bind_blob(update, 1, sender->submission.id.bytes, 16, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(update), SQLITE_DONE);
    sqlite3_finalize(update);
    sqlite3_close(database);
}

static void test_a_damaged_one_is_parked_and_the_poller_gets_the_next(void **state)
{
    (void)state;
    static struct sender senders[FEW];
    pulls();
    send_all(senders, FEW);
    change_envelope(&senders[0], "UPDATE envelopes SET digest = zeroblob(32) WHERE id = ?1");
    pull_and_acknowledge(&senders[1]);
    assert_string_equal(stored(&senders[0], HANDOFF_STATE_PARKED).reason, "store_corrupt");
    pull_and_acknowledge(&senders[2]);
}

/* It is asked for again after a second, though its time is up, and expires when it can be read. */
static void test_one_that_cannot_be_read_is_read_again(void **state)
{
    (void)state;
    static struct sender sender;
    pulls();
    send_for_later(&sender, HOUR_MS);
    until_dormant(1);
    change_envelope(&sender, "UPDATE envelopes SET id = zeroblob(16) WHERE id = ?1");
    assert_int_equal(take_back(&sender, HANDOFF_WORD_CANCEL), HANDOFF_ERR_NOT_FOUND);
    let_pass(HOUR_MS);
    for (int i = 0; i < FEW; i++) {
        while (stage.lane->awaited == 0)
            turn();
        while (stage.lane->awaited > 0)
            turn();
        assert_int_equal(count_dormant(), 1);
        assert_in_range(base_loop_wait_ms(stage.lane->loop), 500, 1000);
        let_pass(1000);
    }
    while (stage.lane->awaited == 0)
        turn();
    while (stage.lane->awaited > 0)
        turn();
    change_envelope(&sender, "UPDATE envelopes SET id = ?1 WHERE id = zeroblob(16)");
    let_pass(1000);
    stored(&sender, HANDOFF_STATE_EXPIRED);
}

/* Whichever allocation fails: who asked is told, and it is delivered once. */
static bool cancel_without(long nth)
{
    static struct sender sender;
    sender = (struct sender){0};
    send_for_later(&sender, 0);
    until_dormant(1);
    failing_memory_at(nth);
    const enum handoff_code code = take_back(&sender, HANDOFF_WORD_CANCEL);
    const bool reached = atomic_load(&failing_memory_hit);
    failing_memory_at(0);
    assert_true(code == HANDOFF_OK || (reached && code == HANDOFF_ERR_OUT_OF_MEMORY));
    if (code != HANDOFF_OK) {
        let_pass(LOOK_AGAIN_MS);
        assert_int_equal(take_back(&sender, HANDOFF_WORD_CANCEL), HANDOFF_OK);
    }
    stored(&sender, HANDOFF_STATE_DISCARDED);
    while (handoff_engine_in_flight(stage.engine) > 0 || a_lane_has_it(&sender.submission.id))
        turn();
    stage.nevents = 0;
    return reached;
}

static void test_out_of_memory_is_told(void **state)
{
    (void)state;
    pulls();
    for (long nth = 1; cancel_without(nth); nth++) {
    }
}

static bool pull_without(long nth)
{
    static struct sender sender;
    struct poller poller;
    send_to(&sender, "coder");
    while (!sender.accepted)
        turn();
    failing_memory_at(nth);
    handoff_waiter_withdraw(&sender.waiter);
    turn();
    begin_poll(&poller);
    while (!poller.told) {
        turn();
        let_pass(LOOK_MS);
    }
    const bool reached = atomic_load(&failing_memory_hit);
    failing_memory_at(0);
    assert_got(&poller, &sender);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    while (handoff_engine_in_flight(stage.engine) > 0)
        turn();
    stage.nevents = 0;
    return reached;
}

static void test_out_of_memory_loses_nothing(void **state)
{
    (void)state;
    pulls();
    for (long nth = 1; pull_without(nth); nth++) {
    }
}

static int start(void **state)
{
    failing_memory_install();
    return receiver_start(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF_ROWS(test_they_are_pulled_in_order),
        OF_ROWS(test_many_pollers_get_each_one),
        OF_ROWS(test_a_poller_that_left_costs_no_place),
        OF_ROWS(test_some_stay_in_memory),
        OF_ROWS(test_the_next_are_loaded_ahead),
        OF_ROWS(test_a_gap_in_the_line_is_passed),
        OF_ROWS(test_a_sender_that_waits_is_told),
        OF_ROWS(test_it_can_be_cancelled_and_acknowledged),
        OF_ROWS(test_it_can_be_parked_and_replayed),
        OF_ROWS(test_what_changes_nothing_leaves_it_where_it_was),
        OF_ROWS(test_it_expires_on_time),
        OF_ROWS(test_it_is_parked_when_its_agent_is_gone),
        OF_ROWS(test_it_is_sent_when_its_agent_has_a_url),
        OF_ROWS(test_it_stays_where_it_is_while_nothing_changes),
        OF_ROWS(test_those_of_a_task_follow_each_other),
        OF_ROWS(test_one_is_in_the_inbox_at_a_time),
        OF_ROWS(test_they_are_let_go_when_order_is_turned_off),
        OF_A_FEED(test_a_feed_that_is_let_go_calls_each_up_once),
        OF_A_FEED(test_what_was_offered_does_not_wait_for_its_feed),
        OF_ROWS(test_a_start_does_not_load_them),
        OF_ROWS(test_a_start_keeps_the_order),
        OF_ROWS(test_a_stop_answers_who_waits_for_a_load),
        OF_ROWS(test_a_watch_is_told_of_its_end),
        OF_ROWS(test_a_watch_can_be_recalled_while_it_is_loaded),
        OF_ROWS(test_a_damaged_one_is_parked_and_the_poller_gets_the_next),
        OF_ROWS(test_one_that_cannot_be_read_is_read_again),
        OF_ROWS(test_out_of_memory_is_told),
        OF_ROWS(test_out_of_memory_loses_nothing),
    };
    return cmocka_run_group_tests(tests, start, receiver_stop);
}
