/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.h - a sender, from the call to its answer: what a request (send.c) and a stored envelope
 * (deliver.c) share. On the loop's thread, but for what a reader or a worker is lent.
 */
#ifndef HANDOFF_CALLS_SEND_H
#define HANDOFF_CALLS_SEND_H

#include "client/calls/call.h"
#include "client/client.h"
#include "client/deliver/watch.h"

enum { HANDOFF_SENDING_MAGIC = 0x73656e64 };

struct handoff_stored_sending;

struct handoff_sending {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    /* hands over the envelope, once it is known that no handoff has the key */
    void (*begin)(struct handoff_sending *sending);
    bool respond_async; /* do not wait for the end, or no longer */
    bool accepted;
    struct base_op wait;                       /* for the end, where that is bounded */
    struct handoff_watch watch;                /* of the first handoff, in a repeat */
    char key[HANDOFF_IDEMPOTENCY_KEY_MAX + 1]; /* "": no key */
    char source[HANDOFF_NAME_MAX + 1];
    uint8_t request_digest[BASE_SHA256_BYTES]; /* of its canonical JSON */
    enum handoff_code identified;              /* out_of_memory: there is no digest */
    char *park_reason;                         /* NULL: it is delivered */
    int64_t hop, hop_max;                      /* of what was handed over; 0: not known */
    struct handoff_waiter waiter;
    struct handoff_waiter *held;                    /* of what it replaces; NULL: nothing */
    const struct handoff_stored_decision *decision; /* by which it does; lent until the answer */
    struct handoff_assembly *assembly;     /* NULL: not of a request, or no longer needed */
    struct handoff_stored_sending *stored; /* NULL: of a request */
    struct base_work work;                 /* of a long body with a key */
    struct handoff_sending **under_way;    /* within the call: NULL once answered */
};

/* NULL: out of memory. The caller sets `begin` and what is sent. */
struct handoff_sending *handoff_sending_new(struct handoff_loop *loop,
                                            const struct handoff_ask *ask,
                                            handoff_answered *answered, void *context);
/* Sends what an operator made of the handoff `id`, which is held (decide.h) until this is answered:
   it is discarded in the commit that stores the new one and the decision, or stays as it is. */
void handoff_send_instead(struct handoff_loop *loop, const struct handoff_ask *ask,
                          const struct base_uuid *id, struct handoff_waiter *held,
                          const struct handoff_stored_decision *decision,
                          handoff_answered *answered, void *context);
/* Parked by hand, if that was asked for. */
void handoff_sending_park(const struct handoff_sending *sending,
                          struct handoff_submission *submission);
/* Answers, and ends it. */
void handoff_sending_fail(struct handoff_sending *sending, const struct handoff_error *error);
/* Copies the key of the ask. False: the request was answered, since the key is bad. */
bool handoff_sending_take_key(struct handoff_sending *sending, const struct handoff_ask *ask);
/* Checks a key: invalid_request, secret_in_request. Reports the credentials it finds. */
enum handoff_code handoff_check_key(struct handoff_client *client, const char *key,
                                    struct handoff_error *error);
/* Looks for the handoff under the key, and goes on with `begin`, or answers. */
void handoff_sending_begin_with_key(struct handoff_sending *sending);
/* A repeat: answers with the first handoff, or waits for its end if the sender does. */
void handoff_sending_repeat(struct handoff_sending *sending, const struct base_uuid *id,
                            const struct handoff_status *status);

/* deliver.c: reads the stored envelope and its handoff again, as another call was there first */
void handoff_stored_read_again(struct handoff_sending *sending);
/* NULL is fine. */
void handoff_stored_free(struct handoff_stored_sending **stored);

#endif
