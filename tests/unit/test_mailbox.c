/* SPDX-License-Identifier: Apache-2.0 */
/* Mail arrives once, in order per sender, on the thread that runs the box, and wakes its poll. */
#include "tests/support/unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/mailbox.h"

enum { SENDERS = 3, LETTERS = 20000 };

struct letter {
    struct base_mail mail;
    int sender, number;
};

static struct letter letters[SENDERS][LETTERS];
static int expected[SENDERS];
static pthread_t reader;

static void take(struct base_mail *mail)
{
    struct letter *letter = (struct letter *)mail;
    assert_true(pthread_equal(reader, pthread_self()));
    assert_int_equal(letter->number, expected[letter->sender]++);
}

static bool readable(const struct base_mailbox *mailbox)
{
    struct pollfd poller = {.fd = base_mailbox_fd(mailbox), .events = POLLIN};
    return poll(&poller, 1, 0) == 1;
}

static void post(struct base_mailbox *mailbox, int sender, int number)
{
    letters[sender][number] = (struct letter){{NULL, take}, sender, number};
    base_mailbox_post(mailbox, &letters[sender][number].mail);
}

static void test_the_rest_waits_in_order_for_the_next_run(void **state)
{
    struct base_mailbox mailbox;
    (void)state;
    reader = pthread_self();
    memset(expected, 0, sizeof expected);
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    for (int i = 0; i < 5; i++)
        post(&mailbox, 0, i);
    assert_int_equal(base_mailbox_run_some(&mailbox, 2), 2);
    assert_int_equal(expected[0], 2);
    assert_true(readable(&mailbox));
    for (int i = 5; i < 7; i++)
        post(&mailbox, 0, i);
    assert_int_equal(base_mailbox_run_some(&mailbox, 4), 4);
    assert_int_equal(expected[0], 6);
    assert_true(readable(&mailbox));
    assert_int_equal(base_mailbox_run_some(&mailbox, 4), 1);
    assert_false(readable(&mailbox));
    post(&mailbox, 0, 7);
    post(&mailbox, 0, 8);
    assert_int_equal(base_mailbox_run_some(&mailbox, 1), 1);
    assert_int_equal(base_mailbox_run(&mailbox), 1);
    assert_false(readable(&mailbox));
    base_mailbox_free(&mailbox);
}

static void test_readable_exactly_while_there_is_mail(void **state)
{
    struct base_mailbox mailbox;
    (void)state;
    reader = pthread_self();
    memset(expected, 0, sizeof expected);
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    assert_false(readable(&mailbox));
    assert_int_equal(base_mailbox_run(&mailbox), 0);
    for (int i = 0; i < 3; i++)
        post(&mailbox, 0, i);
    assert_true(readable(&mailbox));
    assert_int_equal(base_mailbox_run(&mailbox), 3);
    assert_false(readable(&mailbox));
    assert_int_equal(base_mailbox_wait(&mailbox, 0), 0);
    base_mailbox_free(&mailbox);
    base_mailbox_free(&mailbox);
}

struct sender {
    pthread_t thread;
    struct base_mailbox *mailbox;
    int number;
};

static void *send_all(void *argument)
{
    struct sender *sender = argument;
    for (int i = 0; i < LETTERS; i++)
        post(sender->mailbox, sender->number, i);
    return NULL;
}

static void test_many_senders(void **state)
{
    struct base_mailbox mailbox;
    struct sender senders[SENDERS];
    size_t delivered = 0;
    (void)state;
    reader = pthread_self();
    memset(expected, 0, sizeof expected);
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.mailbox = &mailbox, .number = i};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]), 0);
    }
    while (delivered <
           SENDERS * LETTERS) /* a lost wake-up hangs here until the test's time limit */
        delivered += base_mailbox_wait(&mailbox, -1);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
        assert_int_equal(expected[i], LETTERS);
    }
    assert_int_equal(base_mailbox_run(&mailbox), 0);
    base_mailbox_free(&mailbox);
}

/* A mail posted from within deliver waits for the next run, so one loop turn cannot last for ever.
 */
static struct base_mailbox *again_box;
static int again_count;

static void post_again(struct base_mail *mail)
{
    if (++again_count < 3)
        base_mailbox_post(again_box, mail);
}

static void test_mail_posted_while_delivering_waits(void **state)
{
    struct base_mailbox mailbox;
    struct base_mail mail = {NULL, post_again};
    (void)state;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    again_box = &mailbox;
    base_mailbox_post(&mailbox, &mail);
    for (int i = 1; i <= 3; i++) {
        assert_true(readable(&mailbox));
        assert_int_equal(base_mailbox_run(&mailbox), 1);
        assert_int_equal(again_count, i);
    }
    assert_false(readable(&mailbox));
    base_mailbox_free(&mailbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readable_exactly_while_there_is_mail),
        cmocka_unit_test(test_the_rest_waits_in_order_for_the_next_run),
        cmocka_unit_test(test_many_senders),
        cmocka_unit_test(test_mail_posted_while_delivering_waits),
    };
    return RUN_TESTS(tests);
}
