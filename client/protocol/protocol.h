/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h - how a handoff reaches an agent: the seam between delivery and its protocols.
 *
 * A protocol is a folder with one struct handoff_protocol, named in one row of protocols.c. Its
 * functions run on the lane of the delivery that they are given. A protocol reads the delivery
 * (client/deliver/delivery.h) and keeps what it needs for it in the delivery's `space`, which
 * delivery never looks into. When an attempt ends, it calls handoff_delivery_attempt_ended with a
 * finding: what that means for the handoff is decided there, alike for all protocols. An attempt
 * that could not be made because we ran out of something ends by handoff_delivery_not_attempted
 * instead.
 */
#ifndef HANDOFF_PROTOCOL_PROTOCOL_H
#define HANDOFF_PROTOCOL_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/handoff.h"
#include "client/secrets/redact.h"
#include "lib/base/buffer.h"
#include "lib/base/loop.h"
#include "lib/base/quota.h"
#include "lib/base/span.h"

struct handoff_delivery;
struct handoff_offer;
struct handoff_transport;
struct handoff_poller_request;

enum {
    HANDOFF_PROTOCOL_SPACE = 384, /* of every delivery, waiting ones too; each protocol asserts
                                     that it fits */
    HANDOFF_SAID_SIZE = 200,      /* room for why an attempt failed, with its NUL */
    HANDOFF_PEER_SIZE = 72,       /* room for an address and port, with its NUL */
};

/* Headers that tell a receiver of the chain. */
enum handoff_chain_header {
    HANDOFF_CHAIN_TASK,
    HANDOFF_CHAIN_ROOT,
    HANDOFF_CHAIN_PREVIOUS,
    HANDOFF_CHAIN_HEADERS,
};

enum handoff_verdict {
    HANDOFF_VERDICT_ACKNOWLEDGED,
    HANDOFF_VERDICT_DEFERRED,
    HANDOFF_VERDICT_REFUSED,  /* this handoff, for good */
    HANDOFF_VERDICT_REJECTED, /* every handoff: the agent's address or our credentials are wrong */
    HANDOFF_VERDICT_RETRY,
};

/* What came of an attempt. */
struct handoff_finding {
    enum handoff_verdict verdict;
    enum handoff_attempt_result result;
    const char *reason; /* constant text for the log and the attempt's row; "" when acknowledged */
    /* the nack's own reason, or what its answer lacked; without credentials and cut to fit at a
       character, or "" */
    char said[HANDOFF_SAID_SIZE];
    /* how an answer with an error status begins, unless it is a nack; cut and without credentials
       as `said` is, or "" */
    char answer[HANDOFF_SAID_SIZE];
    handoff_secret_set secrets; /* that were in either */
    int64_t retry_after_ms;     /* for RETRY */
    char *next; /* ACKNOWLEDGED: the next request that came with it, JSON, lent; NULL: none */
    size_t next_size;
    struct base_buffer lacking; /* ACKNOWLEDGED: ids of memories that the agent lacks, one on each
                                   line; empty: none. Lent, as `next` is. */
    /* what we lacked to read the answer: it is then no finding, and nothing else is set */
    enum handoff_shortage shortage;

    /* what a request of ours observed; zero where there was none. Texts are lent for the call. */
    int status;          /* of HTTP; 0: no answer */
    int64_t duration_us; /* 0: since the attempt began */
    const char *peer;    /* address and port, or NULL */
    const char *fault;   /* what failed on the way, or NULL */
};

struct handoff_protocol {
    enum handoff_protocol_kind kind;

    /* The agent fetches its handoffs: begin offers one, handoff_delivery_taken says that the agent
       has it, and no circuit is asked before. Otherwise begin starts an attempt. */
    bool pulls;

    int64_t retry_after_max_ms; /* the longest wait that an agent may ask for; 0: it cannot */

    /* Does an agent with these options speak it? Any thread. */
    bool (*is_spoken)(const struct handoff_agent_options *options);

    /* Why an envelope made for another agent cannot go to this one, or NONE. Any thread. */
    enum handoff_obstacle (*obstacle)(const struct handoff_agent_options *options,
                                      struct base_span envelope);

    /* The delivery is READY and due, and its settings are in force. false: out of memory, and
       nothing has begun. An offer that was made already stays as it is. It limits the attempt to
       its settings' timeout_ms and to handoff_delivery_until_deadline. It never reports the end
       itself: an attempt that is over at once reports it from a timer in its space, or from
       handoff_protocol_lane_settle. */
    bool (*begin)(struct handoff_delivery *delivery);

    /* Withdraws the offer, or cancels the attempt without reporting its end. Harmless where neither
       is out. */
    void (*break_off)(struct handoff_delivery *delivery);

    /* An attempt that was taken did not reach the agent: it is broken off next, and will be begun
       again. NULL: nothing can be taken. */
    void (*give_back)(struct handoff_delivery *delivery);

    /* The time of an attempt that was taken is up: reports its end. NULL: the attempt reports its
       end itself. */
    void (*time_up)(struct handoff_delivery *delivery);

    /* Where it pulls; else NULL. Is it offered, or on its way from there to a poller? */
    bool (*is_offered)(const struct handoff_delivery *delivery);
    /* Is it offered, and are so many others before it? */
    bool (*is_behind)(struct handoff_delivery *delivery, unsigned count);
    /* The offer goes on without the delivery, in the same place. false: a poller has just taken it.
     */
    bool (*set_aside)(struct handoff_delivery *delivery, struct handoff_offer *to);
    /* The delivery is back, and has this protocol. One that a poller has taken meanwhile was the
       first: if the poller does not get it, it is offered there again. */
    void (*take_up)(struct handoff_delivery *delivery, struct handoff_offer *from);

    /* Frees what the space holds; nothing is out. */
    void (*clear)(struct handoff_delivery *delivery);
};

/* The protocol of an agent with these options: the first row that is spoken. Any thread. */
const struct handoff_protocol *handoff_protocol_of(const struct handoff_agent_options *options);

/* ---- what the protocols share on a lane ------------------------------------------------------ */

/* All of it belongs to the thread of the lane. */
struct handoff_protocol_lane {
    struct handoff_transport *transport;
    TAILQ_HEAD(handoff_open_list, handoff_poller_request) pollers; /* not told yet */
};

/* On failure, it can be closed as well. */
enum handoff_code handoff_protocol_lane_open(struct handoff_protocol_lane *lane,
                                             struct base_loop *loop, struct base_quota *quota,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;
/* No attempt may be outstanding, and no poller waiting. */
void handoff_protocol_lane_close(struct handoff_protocol_lane *lane);
/* Reports the attempts that have ended; once in each turn of the loop, after sockets and timers. */
void handoff_protocol_lane_settle(struct handoff_protocol_lane *lane);
/* Do pollers wait for a handoff, or for word that there is none? */
bool handoff_protocol_lane_has_pollers(const struct handoff_protocol_lane *lane);
/* Has them told soon that there is none. */
void handoff_protocol_lane_dismiss_pollers(struct handoff_protocol_lane *lane);

#endif
