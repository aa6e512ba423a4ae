/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publication to a thousand receivers: made in turns, so that the loop serves others in between,
 * and one commit all the same.
 */
#include "tests/support/delivery_stage.h"

#include "client/deliver/delivery.h"
#include "client/deliver/publish.h"
#include "lib/base/memory.h"
#include "tests/support/failing_memory.h"

enum {
    RECEIVERS = 999,
    TWO_TURNS = 150,
    MADE_IN_TURN_MAX = 200,
    PROJECTED_EVERY = 64, /* of the receivers, one gets an envelope that is not the shared one */
    PROJECTIONS_MAX = RECEIVERS / PROJECTED_EVERY + 1,
};

static struct {
    struct sender envelope, projections[PROJECTIONS_MAX];
    size_t nprojections;
    struct handoff_publication_receiver receivers[RECEIVERS];
    struct handoff_waiter waiters[RECEIVERS];
    unsigned published, settled;
    struct handoff_error error;
} news;

static void was_published(void *context, const struct handoff_error *error)
{
    (void)context;
    news.published++;
    news.error = *error;
}

static void was_settled(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    (void)waiter;
    news.settled += status->error.code == HANDOFF_OK;
}

/* The stage has no room for the events of a thousand. */
static void turn_unseen(void)
{
    stage.nevents = 0;
    turn();
}

static void project(struct handoff_publication_receiver *small)
{
    struct sender *own = &news.projections[news.nprojections++];
    prepare(own, "coder", 0);
    small->id = own->submission.id;
    small->projection = &own->submission;
}

static void free_envelopes(void)
{
    temp_envelope_free(&news.envelope.envelope);
    for (size_t i = 0; i < news.nprojections; i++)
        temp_envelope_free(&news.projections[i].envelope);
}

/* All are parked, so that nothing is sent: what is looked at is how they come into the store. */
static enum handoff_code publish(size_t count)
{
    struct handoff_agent *agent = handoff_agents_find(stage.agents, base_span_text("coder"));
    memset(&news, 0, sizeof news);
    prepare(&news.envelope, "coder", 0);
    for (size_t i = 0; i < count; i++) {
        news.waiters[i].settled = was_settled;
        news.receivers[i] =
            (struct handoff_publication_receiver){.agent = agent,
                                                  .id = base_uuid_make(&stage.ids),
                                                  .parked_for = HANDOFF_REASON_BUDGET_TOO_SMALL,
                                                  .waiter = &news.waiters[i]};
        if (i % PROJECTED_EVERY == 1)
            project(&news.receivers[i]);
    }
    struct handoff_publication publication = {.submission = news.envelope.submission,
                                              .excerpt_lines = base_span_text(""),
                                              .passed_on = base_span_text("{}"),
                                              .channel = base_span_text("news"),
                                              .at_ms = news.envelope.submission.created_ms,
                                              .receivers = news.receivers,
                                              .nreceivers = count,
                                              .published = was_published};
    publication.submission.contribution = base_span_text("{}");
    enum handoff_code code = handoff_engine_publish(stage.lane, &publication, NULL);
    free_envelopes();
    memset(news.receivers, 0, sizeof news.receivers); /* the engine has its own copy */
    return code;
}

static size_t count_rows(size_t *projected)
{
    struct handoff_store_filter filter = {.states = UINT32_MAX, .limit = 2 * RECEIVERS};
    struct base_arena arena;
    struct handoff_stored *list;
    size_t count;
    base_arena_init(&arena, 0);
    assert_int_equal(handoff_store_list(stage.store, &filter, &arena, &list, &count, NULL),
                     HANDOFF_OK);
    *projected = 0;
    for (size_t i = 0; i < count; i++)
        *projected += list[i].projected;
    base_arena_free(&arena);
    return count;
}

static size_t count_stored(void)
{
    size_t projected;
    return count_rows(&projected);
}

static size_t count_projected(void)
{
    size_t projected;
    count_rows(&projected);
    return projected;
}

/* Other mail of the lane comes between. */
struct passer_by {
    struct base_mail mail;
    unsigned passed;
};

static void pass_by(struct base_mail *mail)
{
    struct passer_by *passer = (struct passer_by *)mail;
    passer->passed++;
    if (TAILQ_EMPTY(&stage.lane->deliveries))
        base_mailbox_post(stage.lane->mailbox, mail);
}

static void test_others_are_served_while_many_deliveries_are_made(void **state)
{
    (void)state;
    struct passer_by passer = {.mail.deliver = pass_by};
    base_mailbox_post(stage.lane->mailbox, &passer.mail);
    assert_int_equal(publish(RECEIVERS), HANDOFF_OK);
    while (!news.published)
        turn_unseen();
    assert_int_equal(news.error.code, HANDOFF_OK);
    assert_true(passer.passed >= RECEIVERS / MADE_IN_TURN_MAX);
    while (news.settled < RECEIVERS)
        turn_unseen();
    assert_int_equal(count_stored(), RECEIVERS);
    assert_int_equal(count_projected(), news.nprojections);
}

static void test_few_deliveries_begin_at_once(void **state)
{
    (void)state;
    assert_int_equal(publish(3), HANDOFF_OK);
    assert_false(TAILQ_EMPTY(&stage.lane->deliveries));
    while (news.settled < 3 || !news.published)
        turn();
    assert_int_equal(count_stored(), 3);
    assert_int_equal(count_projected(), 1);
}

static void test_a_lane_that_stops_ends_what_it_began_to_publish(void **state)
{
    (void)state;
    assert_int_equal(publish(TWO_TURNS), HANDOFF_OK);
    assert_true(TAILQ_EMPTY(&stage.lane->deliveries));
    handoff_lane_stop(stage.lane);
    assert_int_equal(news.published, 1);
    assert_int_equal(news.error.code, HANDOFF_OK);
    assert_int_equal(count_stored(), TWO_TURNS);
}

/* Whichever allocation fails, in whichever turn: all are stored, or none, and the publisher is told
   which. */
static bool publish_without(long nth)
{
    const size_t before = count_stored();
    failing_memory_at(nth);
    const enum handoff_code code = publish(TWO_TURNS);
    while (code == HANDOFF_OK && !news.published)
        turn_unseen();
    const bool reached = atomic_load(&failing_memory_hit);
    failing_memory_at(0);
    const bool published = code == HANDOFF_OK && news.error.code == HANDOFF_OK;
    while (published && news.settled < TWO_TURNS)
        turn_unseen();
    assert_int_equal(count_stored(), before + (published ? TWO_TURNS : 0));
    assert_true(published || reached);
    return reached;
}

static void test_out_of_memory_publishes_all_or_nothing(void **state)
{
    (void)state;
    long nth = 1;
    while (publish_without(nth))
        nth += nth < 30 ? 1 : 37;
    assert_true(nth > TWO_TURNS); /* each delivery takes memory */
}

int main(void)
{
    failing_memory_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_others_are_served_while_many_deliveries_are_made,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few_deliveries_begin_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lane_that_stops_ends_what_it_began_to_publish,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_out_of_memory_publishes_all_or_nothing, set_up,
                                        tear_down),
    };
    return RUN_TESTS(tests);
}
