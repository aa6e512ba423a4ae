/* SPDX-License-Identifier: Apache-2.0 */
/* What a start finds in the store: also what was damaged there meanwhile. */
#include "tests/support/delivery_stage.h"

#include <sqlite3.h>

#include "client/deliver/decide.h"

enum { MANY = 3, DAMAGED = 1 };

/* Behind everybody's back, as a failing disk does. */
static void change_envelope(const struct sender *sender, const char *assignment)
{
    char path[256], sql[256];
    sqlite3 *database;
    sqlite3_stmt *update;
    snprintf(path, sizeof path, "%s/handoff.db", stage.directory);
    snprintf(sql, sizeof sql, "UPDATE envelopes SET %s WHERE id = ?1", assignment);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &update, NULL), SQLITE_OK);
    sqlite3_bind_blob(update, 1, sender->submission.id.bytes, 16, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(update), SQLITE_DONE);
    assert_int_equal(sqlite3_changes(database), 1);
    sqlite3_finalize(update);
    sqlite3_close(database);
}

static void accept_all(struct sender senders[MANY])
{
    behave(0, "silent");
    for (int i = 0; i < MANY; i++)
        send_to(&senders[i], "coder");
    for (int i = 0; i < MANY; i++)
        while (!senders[i].accepted)
            turn();
}

static enum handoff_code decide(struct sender *sender, enum handoff_decision decision)
{
    sender->settled = 0;
    handoff_engine_decide(stage.lane, &sender->submission.id, decision, base_span(NULL, 0),
                          &(struct handoff_author){.reason = "damaged"}, &sender->waiter);
    return until_decided(sender);
}

/* A byte of the body; the digest; all of it gone; a body that agrees with its digest and is no
 * JSON.
 */
static const char *const damages[] = {
    "body = CAST(replace(CAST(body AS TEXT), 'xxxx', 'xxyx') AS BLOB)",
    "digest = zeroblob(32)",
    "body = zeroblob(0)",
    ("body = x'7b', cut_at = 0, cut_size = 0,"
     " digest = x'021fb596db81e6d02bf3d2586ee3981fe519f275c0ac9ca76bbcf2ebb4097d96'"),
};

static void test_a_damaged_envelope_is_parked_and_the_others_go_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        static struct sender senders[MANY];
        accept_all(senders);
        close_engine();
        change_envelope(&senders[DAMAGED], damages[i]);
        stage.nevents = 0;
        behave(0, "ack");
        open_engine();
        for (int k = 0; k < MANY; k++) {
            struct row row = stored(&senders[k], k == DAMAGED ? HANDOFF_STATE_PARKED
                                                              : HANDOFF_STATE_ACKNOWLEDGED);
            assert_string_equal(row.reason, k == DAMAGED ? "store_corrupt" : "");
            assert_int_equal(row.attempts, k == DAMAGED ? 0 : 1);
        }
        while (handoff_live_state(handoff_engine_live(stage.engine),
                                  &senders[DAMAGED].submission.id) != 0)
            turn();
        assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
        assert_int_equal(count_moves(HANDOFF_STATE_PARKED), 1);
        assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXHAUSTED), 1);
        /* what cannot be read cannot be sent, but it can be done with */
        assert_int_equal(decide(&senders[DAMAGED], HANDOFF_DECISION_REPLAY),
                         HANDOFF_ERR_STORE_CORRUPT);
        assert_int_equal(decide(&senders[DAMAGED], HANDOFF_DECISION_DISCARD), HANDOFF_OK);
        until_settled(&senders[DAMAGED]);
        assert_int_equal(senders[DAMAGED].status.state, HANDOFF_STATE_DISCARDED);
        assert_int_equal(senders[DAMAGED].status.error.code, HANDOFF_OK);
        stored(&senders[DAMAGED], HANDOFF_STATE_DISCARDED);
    }
}

/* The agent that had a damaged one when the process ended may have done the work. */
static void test_a_damaged_one_can_still_be_acknowledged(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    close_engine();
    change_envelope(&sender, damages[0]);
    open_engine();
    stored(&sender, HANDOFF_STATE_PARKED);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
}

/* The agent takes one at a time and holds the newer one, since the older was parked meanwhile:
   after a start it is not sent that one as well. */
static void test_what_an_agent_holds_keeps_the_turn(void **state)
{
    (void)state;
    static struct sender older, newer;
    close_engine();
    stage.options[0].ordered = true;
    open_engine();
    behave(0, "nack");
    send_and_wait(&older, "coder");
    stored(&older, HANDOFF_STATE_PARKED);
    while (handoff_live_state(handoff_engine_live(stage.engine), &older.submission.id) != 0)
        turn();
    behave(0, "202,ack");
    send_to(&newer, "coder");
    stored(&newer, HANDOFF_STATE_AWAITING_ACK);
    assert_int_equal(decide(&older, HANDOFF_DECISION_REPLAY), HANDOFF_OK);
    stored(&older, HANDOFF_STATE_READY);
    restart();
    assert_int_equal(count_moves(HANDOFF_STATE_IN_FLIGHT), 0); /* a start sends at once */
    assert_int_equal(say(&newer, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&older, HANDOFF_STATE_ACKNOWLEDGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(test_a_damaged_envelope_is_parked_and_the_others_go_on),
        STAGED(test_a_damaged_one_can_still_be_acknowledged),
        STAGED(test_what_an_agent_holds_keeps_the_turn),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
