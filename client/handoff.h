/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff.h - the embedded handoff client.
 *
 * The one public header of client/. A host program (our daemon, or any C program) assembles
 * envelopes, stores them, and delivers them to agents until they are acknowledged or parked for a
 * person. A whole program; build it with `cc hello.c $(pkg-config --cflags --libs handoff)`:
 *
 *     #include <handoff.h>
 *     #include <stdio.h>
 *
 *     static void answered(void *context, const struct handoff_result *result)
 *     {
 *         *(int *)context = result->error.code == HANDOFF_OK ? 0 : 1;
 *         printf("%.*s\n", (int)result->size, result->body ? result->body : "");
 *     }
 *
 *     int main(int argc, char **argv)
 *     {
 *         static const char body[] =
 *             "{\"source_agent\": \"analyst\", \"target_agent\": \"coder\","
 *             " \"task_summary\": \"Write the retry logic\"}";
 *         const char *url = argc > 1 ? argv[1] : "http://127.0.0.1:9001/handoffs";
 *         struct handoff_agent_options coder = handoff_agent_defaults("coder", url);
 *         struct handoff_configuration configuration = {.agents = &coder, .nagents = 1};
 *         struct handoff_options options = {.storage_path = "handoff-data"};
 *         struct handoff_ask ask = {.body = body, .size = sizeof body - 1};
 *         struct handoff_client *client;
 *         struct handoff_loop *loop;
 *         struct handoff_error error;
 *         int status = 1;
 *
 *         if (handoff_start(&client, &loop, &options, &configuration, &error) != HANDOFF_OK)
 *             return 1;
 *         handoff_send(loop, &ask, answered, &status);
 *         while (handoff_loop_pending(loop) > 0)
 *             handoff_loop_wait(loop, -1);
 *         handoff_finish(&client, &loop, 30000);
 *         return status;
 *     }
 *
 * What holds everywhere:
 *
 * - Errors are values. A function that can fail returns a code, and fills the struct handoff_error
 *   that it is given; that pointer may be NULL. What takes time answers through a callback, whose
 *   result carries the error. Nothing has to be released after an error.
 * - The library never prints and never exits. One exception, on purpose: an object that is used
 *   after it was closed, or a fault of ours, ends the process by abort() after one line on stderr
 *   that says where, because going on could lose handoffs.
 * - Threads. A client is used from any thread. A loop, and whatever takes one, belongs to one
 *   thread, which runs it, and callbacks are called there; for the observer see handoff_options.
 *   Callbacks may ask anything anew. They must not close the loop or the client.
 * - Memory. `const T *` is lent for the call and copied where it is kept. What is given to the
 *   caller says what releases it. Closing takes a `T **`, sets it to NULL, and takes NULL well.
 * - The store is on the disk, in a folder that one process has at a time. What was accepted is
 *   there, and a later client takes it up, whatever happened to this one.
 * - No call of ours changes signals. Ignore SIGPIPE if agents are reached over TLS. Do not fork
 *   with an open client and use it in the child.
 */
#ifndef HANDOFF_H
#define HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "handoff_error.h"
#include "handoff_model.h"
#include "handoff_tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, "MAJOR.MINOR.PATCH". The string is static. */
const char *handoff_version(void);

/* ---- agents -------------------------------------------------------------------------------- */

/* What counts as an acknowledgement of a delivery. */
enum handoff_ack_mode {
    HANDOFF_ACK_EXPLICIT, /* an answer that names the handoff's id */
    HANDOFF_ACK_STATUS    /* any 2xx but 202 */
};

/* The major versions of envelopes that an agent reads, or-ed. */
enum handoff_accepts { HANDOFF_ACCEPTS_1 = 1 << 0, HANDOFF_ACCEPTS_2 = 1 << 1 };

enum handoff_emit {
    HANDOFF_EMIT_SINGLE, /* the newest version that the agent reads */
    HANDOFF_EMIT_DUAL    /* one document that carries both forms */
};

/* What an agent is sent. */
enum handoff_format {
    HANDOFF_FORMAT_ENVELOPE, /* in a version that it reads */
    HANDOFF_FORMAT_MARKDOWN  /* the brief for a prompt, with the same headers */
};

/*
 * One agent that handoffs can be sent to. Begin with handoff_agent_defaults and change what is
 * different; a field that is left 0 is no default. All of it is copied by handoff_client_configure.
 */
struct handoff_agent_options {
    const char *name;
    const char *url; /* http or https; NULL: it pulls from its inbox */
    uint64_t token_budget;
    int64_t timeout_ms;     /* of one attempt, or of a lease of its inbox */
    int64_t ack_timeout_ms; /* of an acknowledgement that was announced with 202 */
    unsigned retries;       /* after the first attempt */
    enum handoff_ack_mode ack;
    const char *const *alternates; /* names, tried in this order when it cannot be reached */
    size_t nalternates;
    unsigned accepts; /* enum handoff_accepts */
    enum handoff_emit emit;
    enum handoff_format format;
    enum handoff_strategy strategy; /* where a request names none */
    const char *const *from;        /* names of those who may hand off to it; nfrom 0: everybody */
    size_t nfrom;
    bool ordered; /* one handoff of a task at a time, in the order of their acceptance */
    unsigned breaker_failures; /* exhausted handoffs in a row that open the circuit; 0: never */
    int64_t breaker_cooldown_ms;
    int64_t backoff_base_ms, backoff_max_ms;
    const char *ca_file, *cert_file, *key_file; /* NULL: the system's authorities, no certificate */
    const char *bearer_token;                   /* NULL: none. Never logged, never stored. */
};

/* An agent with the defaults of the configuration file (docs/configuration.md): pushed to at `url`,
   or, where that is NULL, pulling from its inbox. Points to both strings. Any thread; no failure.
 */
struct handoff_agent_options handoff_agent_defaults(const char *name, const char *url);

/* ---- the client ---------------------------------------------------------------------------- */

/*
 * A client owns a store, the embedded spine, a tokenizer and what was learnt about the agents. A
 * process opens one. A loop is where a thread asks it and is answered; a program of one thread
 * needs no more than handoff_start and handoff_finish, as in the example at the top.
 *
 * A host with threads, or with a loop of its own, does the same in steps:
 *
 *     handoff_client_open        the store is ours
 *     handoff_client_configure   whom one can hand off to; again whenever that changes
 *     handoff_loop_open          one for each thread
 *     handoff_client_resume      what earlier processes left goes on
 *     ... each thread: wait for handoff_loop_fd, at most handoff_loop_wait_ms; handoff_loop_run ...
 *     handoff_client_drain       nothing new from now on
 *     ... run on until handoff_client_in_flight is 0, or for as long as one likes; or, with
 *         handoff_client_wind_down, until handoff_client_attempting is 0 ...
 *     handoff_loop_stop          each of them; then run all until handoff_loop_pending is 0
 *     handoff_loop_close         each of them
 *     handoff_client_close
 *
 * No step of the end is needed for safety: what was accepted is in the store, and the next client
 * goes on with it. A drain only spares receivers attempts that are broken off and made again.
 */
struct handoff_client;
struct handoff_loop;
struct handoff_event;

enum handoff_spine_kind {
    HANDOFF_SPINE_KIND_HTTP, /* a server with its own interface */
    HANDOFF_SPINE_KIND_MCP,  /* the tools of a Model Context Protocol server */
};

enum handoff_spine_preset {
    HANDOFF_SPINE_PRESET_NONE,
    HANDOFF_SPINE_PRESET_MEMORY_SPINE, /* unverified, see docs/spines.md */
};

/* Memories behind a server (docs/spines.md). Strings are copied. */
struct handoff_spine_options {
    enum handoff_spine_kind kind;
    enum handoff_spine_preset preset; /* the URL and the table, where these are NULL */
    const char *url;   /* of the server; paths of the table follow it, tools are asked for there */
    const char *table; /* JSON: how it is asked; NULL, with kind http: as a handoff-exporter is */
    const char *bearer_token;                   /* NULL: none. Never logged, never stored. */
    const char *ca_file, *cert_file, *key_file; /* NULL: the system's authorities, no certificate */
    int64_t timeout_ms;                         /* of a call, whatever the server does; 0: 2,000 */
    unsigned connections;                       /* requests at once; 0: 16 */
    uint64_t cache_bytes; /* of last known copies, which serve when it does not; 0: none are kept */
    bool write_local; /* memories are stored in the store, and found beside those of the server */
};

/* invalid_request: no URL or no table, or the table, with the place in it ("operations.get.path").
 */
enum handoff_code handoff_spine_options_check(const struct handoff_spine_options *options,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Zeroes are defaults, except for storage_path. Strings are copied. */
struct handoff_options {
    const char *storage_path; /* a directory, for this process alone; made if it is not there */
    bool durability_none;     /* commits survive the process but not the machine */
    int64_t retention_age_ms; /* finished handoffs older than this are removed; 0: never */
    int64_t retention_bytes;  /* of their envelopes: beyond it the oldest go, and the rest of their
                                 handoffs stays; 0: never */
    int64_t retention_index_bytes;  /* of that rest, with keys: beyond it the oldest handoffs go;
                                       0: never */
    int64_t retention_decisions_ms; /* what was decided longer ago is forgotten; 0: never */
    int64_t task_stalled_after_ms;  /* tasks that wait longer have stalled, see handoff_stats; 0: it
                                       is not watched which wait */
    int64_t search_timeout_ms;      /* a search of the memories that takes longer gives what it has;
                                       0: 50 */
    const struct handoff_spine_options *spine; /* NULL: memories are in the store */
    bool no_stemming;           /* words of memories are found as they are written only */
    const char *encoding;       /* of tokens; NULL: "o200k_base" */
    const char *vocabulary_dir; /* NULL: as handoff_tokenizer_open_encoding has it */
    unsigned connections_max;   /* to agents, at once; beyond it deliveries wait. 0: any
                                   number */
    uint64_t memory_max_bytes;  /* a larger memory goes by its summary; 0: 64 KiB */
    /* Told of everything that happens, on whatever thread it happens: commits on the store's, also
       while the client is opened, all else on the one that is in a call of ours. It must be quick,
       must not block, and must not call back into the client. No call comes after
       handoff_client_close. May be NULL. */
    void (*observe)(void *observer, const struct handoff_event *event);
    void *observer; /* handed on as it is */
};

/* Opens the store, and makes it if it is not there. Any thread; until it returns, no other thread
   may use the client. On failure *client is NULL: invalid_request (no storage_path), store_locked,
   store_full, store_read_only, store_newer and the other codes of the store, unknown_encoding,
   out_of_memory. A missing vocabulary is not a failure: counts are then estimated, see
   handoff_client_tokenizer. */
enum handoff_code handoff_client_open(struct handoff_client **client,
                                      const struct handoff_options *options,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Commits what was begun and closes the store. All loops are closed before, and no other thread is
   in a call. Sets *client to NULL; NULL is fine. */
void handoff_client_close(struct handoff_client **client);

/* Agents in the order of their work: the one after the source is what target_agent "next" stands
   for. */
struct handoff_pipeline_options {
    const char *name;
    const char *const *agents; /* none twice */
    size_t nagents;
};

/* Agents that an envelope can be published to at once. */
struct handoff_channel_options {
    const char *name;
    const char *const *receivers; /* none twice */
    size_t nreceivers;
    uint64_t token_budget;   /* of its envelopes; 0: the smallest of its receivers' that is at least
                                half of the largest */
    int64_t retention_ms;    /* it keeps a publication for so long once all deliveries are over, for
                                later subscribers; 0: the store's retention decides */
    int64_t retention_bytes; /* of these: beyond it the oldest go */
};

/* By how many percent a memory scores higher in a search than by its words alone. */
struct handoff_search_boosts {
    uint32_t importance; /* a critical one; a high one by two thirds of it, a medium one by one */
    uint32_t recency;    /* one that was just changed; by half of it after each half-life */
    uint32_t task;       /* one that was stored for the task that asks */
    uint32_t agent;      /* one that an agent of the chain stored */
    int64_t half_life_ms;
};

/* What may change while the client runs. */
struct handoff_configuration {
    const struct handoff_agent_options *agents;
    size_t nagents;
    uint64_t default_token_budget;      /* of targets that are not among the agents; 0: 8,000 */
    uint32_t hops_max;                  /* 0: 10 */
    bool forbid_new_chain;              /* a request with new_chain is forbidden */
    enum handoff_secret_policy secrets; /* credentials in requests and memories */
    unsigned max_in_flight;             /* handoffs under way at once; 0: any number */
    unsigned max_in_flight_per_agent;
    const struct handoff_pipeline_options *pipelines;
    size_t npipelines;
    const struct handoff_channel_options *channels;
    size_t nchannels;
    const struct handoff_search_boosts *boosts; /* NULL: 10, 10, 50 and 10 percent, and 7 days */
};

/* Puts a configuration in force, instead of the one before: all of it or, on failure, nothing. What
   it points to is copied. Breakers and handoffs on their way stay as they are; one that is due for
   an agent that is no longer named goes to another alternate, or is parked as unknown_agent. Any
   thread. invalid_request: an agent without a name or a time, or named twice; out_of_memory. */
enum handoff_code handoff_client_configure(struct handoff_client *client,
                                           const struct handoff_configuration *configuration,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

/* What counts tokens: exactly, or "estimate" with the reason in `error` (may be NULL). It belongs
   to the client. Any thread. */
const struct handoff_tokenizer *handoff_client_tokenizer(const struct handoff_client *client,
                                                         struct handoff_error *error);

/* ---- loops --------------------------------------------------------------------------------- */

/* Opens a loop for one thread; its functions, and the answers, run on that thread only. It may be
   opened and closed by another, which then hands it over. out_of_memory, also for want of
   descriptors; *loop is then NULL. */
enum handoff_code handoff_loop_open(struct handoff_loop **loop, struct handoff_client *client,
                                    struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Breaks off what it delivers, which is in the store and goes on with the next client; who waits
   for it is answered shutting_down. Calls to a remote spine end without their answers. Where there
   are several loops, stop all of them, run all of them until none has an answer pending, and only
   then close: they may wait for each other. */
void handoff_loop_stop(struct handoff_loop *loop);
/* Stops it, gives the answers that are still to come, and releases it. Not from a callback. Sets
 *loop to NULL; NULL is fine. */
void handoff_loop_close(struct handoff_loop **loop);

/* A descriptor for poll or epoll: readable when handoff_loop_run has something to do. It belongs to
   the loop and stays the same. */
int handoff_loop_fd(const struct handoff_loop *loop);
/* How long until it has something to do although the descriptor is silent: a retry that is due, a
   lease that runs out. -1 for ever. Changes with every run. */
int64_t handoff_loop_wait_ms(const struct handoff_loop *loop);
/* Does what there is to do, delivers, and gives the answers that are there; never waits. */
void handoff_loop_run(struct handoff_loop *loop);
/* For a program that has no loop of its own: sleeps until there is something to do, at most
   at_most_ms (-1: for ever) or until a signal, and runs. */
void handoff_loop_wait(struct handoff_loop *loop, int64_t at_most_ms);
/* How many answers are still to come. Handoffs under way whose senders were answered are not among
   them; those are handoff_client_in_flight. */
size_t handoff_loop_pending(const struct handoff_loop *loop);

/* For a program of one thread: opens, configures, opens the loop and resumes. On failure all is
   closed again, and both pointers are NULL; the codes are those of the four steps. */
enum handoff_code handoff_start(struct handoff_client **client, struct handoff_loop **loop,
                                const struct handoff_options *options,
                                const struct handoff_configuration *configuration,
                                struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Drains, runs until nothing is under way or at_most_ms have passed, and closes both. Returns how
   many were still under way; the next start takes them up. What was asked and is not accepted yet
   is answered shutting_down: run until handoff_loop_pending is 0 first, if that matters. A handoff
   that an agent has not pulled yet is under way. */
size_t handoff_finish(struct handoff_client **client, struct handoff_loop **loop,
                      int64_t at_most_ms);

/* ---- asking and answering ------------------------------------------------------------------ */

/* An answer. Everything in it is lent for the call. */
struct handoff_result {
    struct handoff_error error; /* code HANDOFF_OK: it was done */
    const char *body;           /* JSON, or NULL */
    size_t size;
    bool created;         /* it was not there before */
    bool under_way;       /* of a handoff: it has not ended, as a repeat of its sending may find */
    bool is_publication;  /* with an error: what `body` shows; else it is a handoff */
    const char *warnings; /* JSON, [{"field", "detail"}], such as what was ignored of a lenient
                             request; NULL: none */
    const char *source;   /* with an error: the agent in whose name was asked, as far as it was
                             read; NULL: it is not known */
};

/* Called exactly once for each question, on the loop, possibly before the call that asked returns.
   `context` is the asker's. What was lent to the question is no longer needed when the call that
   asked has returned. */
typedef void handoff_answered(void *context, const struct handoff_result *answer);

/* Text that is given to the caller, who releases it with handoff_text_free. Where a call fails it
   is empty, and there is nothing to release. */
struct handoff_text {
    char *data; /* NUL-terminated */
    size_t size;
};

/* Releases and empties it; an empty one is fine. */
void handoff_text_free(struct handoff_text *text);

/* ---- envelopes ----------------------------------------------------------------------------- */

struct handoff_ask {
    const char *body; /* the request, JSON; lent for the call */
    size_t size;
    /* Who asks, where that is known for sure; NULL: anybody. A caller hands off in its own name,
       which source_agent then may leave out, and continues only what it is a party to. */
    const char *caller;
    /* The only agent that hands off here, where no caller is known; source_agent may be left out
       then. NULL: each request names its own. Unlike a caller it may continue everything. */
    const char *sender;
    /* The scopes that it is bound to, separated by commas: it asks for memories only within these.
       NULL: it is not bound to scopes. */
    const char *scopes;
    bool any_task;           /* it may name a task that its source is no party to: an operator */
    const char *traceparent; /* W3C headers of the request; NULL: none. Bad ones are ignored. */
    const char *tracestate;
    bool lenient; /* fields that this version does not know are ignored, and the answer lists them;
                     else they are rejected */

    /* for handoff_send and handoff_envelope_deliver only */
    const char *park_reason;     /* park it at once, with this reason; NULL: deliver it */
    const char *idempotency_key; /* of the sender's choice; NULL: none */
    bool respond_async;          /* answer as soon as it is durable */
    int64_t wait_ms;             /* answer by then at the latest, but not before it is durable; 0:
                                    when it has ended, however long that takes */
};

/* The media type of an envelope, and of each form of it. */
#define HANDOFF_ENVELOPE_TYPE   "application/vnd.handoff.envelope+json"
#define HANDOFF_ENVELOPE_TYPE_1 HANDOFF_ENVELOPE_TYPE "; version=1"
#define HANDOFF_ENVELOPE_TYPE_2 HANDOFF_ENVELOPE_TYPE "; version=2.0"

/* Of the brief. */
#define HANDOFF_BRIEF_TYPE "text/markdown; charset=utf-8"

/* Assembles an envelope and stores it; delivers nothing. The answer's body is the envelope, which
   is then on the disk. */
void handoff_envelope_assemble(struct handoff_loop *loop, const struct handoff_ask *ask,
                               handoff_answered *answered, void *context);

enum handoff_rendering {
    HANDOFF_RENDER_STORED,    /* byte for byte as it was assembled */
    HANDOFF_RENDER_VERSION_1, /* the flat form for agents that read nothing newer */
    HANDOFF_RENDER_MARKDOWN,  /* a brief for a prompt */
};

/*
 * Who looks. What is read of handoffs and envelopes takes a `caller`: the name of an agent, who
 * then sees only what it is a party to (as the source, or as an agent that it was sent to); all
 * else is not_found, as if it were not there. NULL sees everything.
 */

/* The answer's body is the envelope. not_found, envelope_removed when retention has removed it and
   the rest of its handoff stays, or store_corrupt when a byte of it has changed. */
void handoff_envelope_get(struct handoff_loop *loop, const char *id, const char *caller,
                          enum handoff_rendering rendering, handoff_answered *answered,
                          void *context);

/* What the hops of an envelope's chain have said: all items of its ledger, also finished ones and
   those that it had no room for, oldest first. */
struct handoff_ledger_query {
    int kind;           /* an enum handoff_item_kind and 1; 0: all */
    const char *cursor; /* where an earlier page ended; NULL: from the beginning */
    int64_t limit;      /* 1 to 1,000; 0: 50 */
};

/* {"items": [...], "next": "cursor" or null}. A caller that is no party to the envelope gets
   not_found. Further errors: invalid_cursor, envelope_removed (an older version's). */
void handoff_ledger_get(struct handoff_loop *loop, const char *id, const char *caller,
                        const struct handoff_ledger_query *query, handoff_answered *answered,
                        void *context);

/* Another form of an envelope that one has. */
enum handoff_code handoff_envelope_render(const char *envelope, size_t size,
                                          enum handoff_rendering rendering,
                                          struct handoff_text *text,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* ---- handoffs ------------------------------------------------------------------------------ */

/*
 * Assembles, stores and delivers. The answer comes when the handoff is acknowledged, parked or
 * expired; or, with respond_async, when it is durable; or, with wait_ms, when that time is over.
 * Its body is the handoff as a JSON object, also where the error says how it ended: exhausted,
 * refused, expired, discarded. Without a body nothing was stored. The same idempotency key with the
 * same request answers with the first handoff as it stands now, and with wait_ms waits for its end
 * too; with another request, idempotency_conflict, whose body is the first handoff. Requests are
 * the same if their JSON is, but for the order of members, white space, the spelling of numbers and
 * strings, and members that are null. With a park_reason it is stored parked, which is no error
 * then.
 *
 * A long request is assembled on a worker thread, and the loop goes on meanwhile. Where too many of
 * them wait already, the answer is too_many_in_flight. What is returned serves handoff_send_cancel
 * until the answer; NULL: it was given already.
 */
struct handoff_sending;
struct handoff_sending *handoff_send(struct handoff_loop *loop, const struct handoff_ask *ask,
                                     handoff_answered *answered, void *context);
/*
 * Delivers an envelope that handoff_envelope_assemble stored: no new hop, the same bytes under the
 * same id. The answers are those of handoff_send. A repeat, with a key or without one, answers with
 * the first handoff. Of the ask, neither the body nor the trace is used. A caller delivers its own
 * envelopes; others are forbidden, or not_found where it is no party to them.
 */
void handoff_envelope_deliver(struct handoff_loop *loop, const char *id,
                              const struct handoff_ask *ask, handoff_answered *answered,
                              void *context);

/* ---- channels ------------------------------------------------------------------------------ */

struct handoff_publish_options {
    const char *channel;
    const char *envelope_id;      /* publishes one that was assembled for a broadcast, instead of a
                                     request; NULL: the ask's body is the request */
    const char *const *receivers; /* configured agents, each once; NULL: the channel's */
    size_t nreceivers;
};

/*
 * Publishes an envelope to a channel: one envelope, and for each receiver a handoff of its own. All
 * of it is stored in one commit. From then on no receiver waits for another.
 *
 * The request is that of handoff_send without target_agent, assembled within the budget of the
 * channel; a receiver whose budget is smaller than what came of it gets its handoff parked. Where
 * the receivers are the channel's, its source is not one of them. The answer's body is the
 * publication with its deliveries, as soon as it is durable; or, with wait_ms, when no delivery is
 * under way any more, or that time is over. A repeat with the same key answers with the first
 * publication; so does an envelope that is published to the same channel once more. Errors, with
 * nothing stored: unknown_channel, unknown_agent, forbidden (an agent's `from`), conflict, those of
 * handoff_envelope_assemble and, of the key, of handoff_send.
 */
void handoff_publish(struct handoff_loop *loop, const struct handoff_publish_options *options,
                     const struct handoff_ask *ask, handoff_answered *answered, void *context);

/*
 * Makes an agent a receiver of a channel, which may be one that is in no configuration, and lets it
 * leave; an agent itself only, an operator (no caller) any. Both are durable when they are
 * answered, and win against the configuration until they are changed. `from`: "now" or NULL, "all",
 * or a time of RFC 3339: what was published since then, and is retained, is delivered first, in
 * order. The answer's body is the subscription. unknown_agent, forbidden, invalid_request;
 * conflict: another change is being stored; not_found: who leaves is no receiver.
 */
void handoff_subscribe(struct handoff_loop *loop, const char *channel, const char *agent,
                       const char *from, const char *caller, handoff_answered *answered,
                       void *context);
void handoff_unsubscribe(struct handoff_loop *loop, const char *channel, const char *agent,
                         const char *caller, handoff_answered *answered, void *context);

/* {"items": [channel], "next": null}; a channel; a page of its publications, newest first; a
   publication. unknown_channel, not_found, invalid_cursor. */
void handoff_channels_list(struct handoff_loop *loop, const char *caller,
                           handoff_answered *answered, void *context);
void handoff_channel_get(struct handoff_loop *loop, const char *channel, const char *caller,
                         handoff_answered *answered, void *context);
void handoff_publications_list(struct handoff_loop *loop, const char *channel, const char *caller,
                               const char *cursor, int64_t limit, handoff_answered *answered,
                               void *context);
void handoff_publication_get(struct handoff_loop *loop, const char *channel, const char *id,
                             const char *caller, handoff_answered *answered, void *context);

/* The sender left. A long request that is still being assembled is dropped, with the answer
   `cancelled`, before this returns or soon after; all else goes on as it was. On the loop's thread.
 */
void handoff_send_cancel(struct handoff_sending *sending);

/* Takes up what earlier processes left, spread over the loops, which do not run yet: attempts that
   were out are made again, deadlines and circuits hold. Once in the life of a client, after it was
   configured. A store's codes, out_of_memory: close the client then, nothing is lost. */
enum handoff_code handoff_client_resume(struct handoff_client *client, struct handoff_loop **loops,
                                        size_t count,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Takes nothing new from now on (shutting_down); what is under way goes on, as long as the loops
   are run. It cannot be taken back. Any thread. */
void handoff_client_drain(struct handoff_client *client);
/* Drains, and begins no attempt any more: attempts that are out end, who waits for one of those is
   answered, and who waits for any other handoff gets shutting_down with it. What is left (in an
   inbox, in backoff, waiting for its acknowledgement) is stored and goes on with the next client.
   Each loop learns of it with its next run; when all have run and handoff_client_attempting is 0,
   a close breaks nothing off. Any thread. */
void handoff_client_wind_down(struct handoff_client *client);
/* Handoffs under way: accepted and neither ended nor parked, also those that wait for a retry, for
   an agent to pull them or for their acknowledgement. Any thread. */
size_t handoff_client_in_flight(const struct handoff_client *client);
/* Of these, those with an attempt out over HTTP, which a close would break off. Any thread. */
size_t handoff_client_attempting(const struct handoff_client *client);

enum handoff_answer_word {
    HANDOFF_ANSWER_ACK,    /* it is done, or safe with the agent; counts late as well */
    HANDOFF_ANSWER_NACK,   /* not now: it is tried again */
    HANDOFF_ANSWER_REFUSE, /* never: it is parked */
    HANDOFF_ANSWER_EXTEND, /* another ack_timeout_ms from now; the reason is its progress */
};

/* The receiver's later word on a handoff. `caller` is the agent that speaks, NULL: anybody;
   `reason` of a nack, or the progress of an extension, may be NULL; progress is stored with the
   handoff, the newest instead of any before. The answer's body is the handoff. not_found (also for
   a caller who is no party to it), forbidden (for one who does not have it), conflict. */
void handoff_acknowledge(struct handoff_loop *loop, const char *id, enum handoff_answer_word word,
                         const char *reason, const char *caller, handoff_answered *answered,
                         void *context);

/* Acknowledges, and hands on in the same commit: the body is a request as for handoff_send, which
   continues this handoff in the name of the agent that has it. The acknowledgement counts whatever
   the request says; the error is then why there is no successor, and the request is kept with the
   task. With out_of_memory, too_many_in_flight, shutting_down or a store error nothing was stored,
   and the agent that holds the handoff may repeat the call. Of a handoff that was acknowledged
   before, nothing more is handed on. Of the ask, the body, the caller and its scopes are used. */
void handoff_hand_on(struct handoff_loop *loop, const char *id, const struct handoff_ask *ask,
                     handoff_answered *answered, void *context);

/* Ids of memories, as the envelope has them in `missing`. */
struct handoff_memory_ids {
    const char *const *ids;
    size_t count; /* at most 1,000 */
};

/* Acknowledges, like the two above (`next` NULL: nothing is handed on), and says which memories the
   agent lacked: that is stored with the handoff and shown to its sender. Repeats change nothing.
   invalid_request: what is no id. */
void handoff_acknowledge_lacking(struct handoff_loop *loop, const char *id,
                                 const struct handoff_memory_ids *lacking,
                                 const struct handoff_ask *next, const char *caller,
                                 handoff_answered *answered, void *context);
/* Says the same without an acknowledgement, before it or after it. */
void handoff_flag_gaps(struct handoff_loop *loop, const char *id,
                       const struct handoff_memory_ids *lacking, const char *caller,
                       handoff_answered *answered, void *context);

/* What a receiver asks for. */
struct handoff_recovery_query {
    struct handoff_memory_ids memories;
    bool missing; /* also what the envelope lists as missing, and what was flagged */
    /* The scopes that the caller is bound to, separated by commas; NULL: to none. It gets memories
       of these, and those that the envelope names. */
    const char *scopes;
};

/* Fetches memories from the spine for the agent that has the handoff, within the scopes of its
   request. What was missing and is found is noted with the handoff. The answer's body is {"found":
   [memories], "missing": [{"id", "reason"}]}. not_found (also for a caller who is no party to it),
   forbidden (for one who does not have it), envelope_removed (`missing`, and retention removed the
   list). */
void handoff_recover_memories(struct handoff_loop *loop, const char *id,
                              const struct handoff_recovery_query *query, const char *caller,
                              handoff_answered *answered, void *context);

/* Who decides about a handoff, and why; recorded with the decision. Each may be NULL. */
struct handoff_author {
    const char *who;    /* the caller as the host knows it */
    const char *by;     /* what the caller calls itself */
    const char *reason; /* why */
    const char *job;    /* UUID of the bulk job that it belongs to */
    bool again;         /* also if the handoff was replayed so often that this asks for a second
                           word */
};

/* Takes back what is not acknowledged: it is discarded, also if it is parked. Parks what is not
   acknowledged, for an operator to decide about. Both break off an attempt that is out, and both
   are for its sender; `caller` NULL: anybody. The author's reason is recorded with the handoff,
   too; of a cancel it may be NULL. A repeat changes nothing. The answer's body is the handoff.
   not_found (also for a caller who is no party to it), forbidden (for one who did not send it),
   conflict (it has ended otherwise). */
void handoff_cancel(struct handoff_loop *loop, const char *id, const struct handoff_author *author,
                    const char *caller, handoff_answered *answered, void *context);
void handoff_park(struct handoff_loop *loop, const char *id, const struct handoff_author *author,
                  const char *caller, handoff_answered *answered, void *context);

/* The answer's body is a handoff; or {"items": its attempts, and between them who was passed over}.
   not_found. */
void handoff_get(struct handoff_loop *loop, const char *id, const char *caller,
                 handoff_answered *answered, void *context);
void handoff_get_attempts(struct handoff_loop *loop, const char *id, const char *caller,
                          handoff_answered *answered, void *context);

struct handoff_list_query {
    const char *task_id; /* each NULL: any */
    const char *target;
    const char *reason;
    const char *caller; /* only what it is a party to */
    const char *cursor; /* where an earlier page ended; NULL: from the beginning */
    int64_t limit;      /* at most so many; 0: 50 */
};

/* {"items": [handoffs], "next": "cursor" or null}, in the order of their acceptance; with a task_id
   also "task": {"task_id", "completed_at", "handoffs"}, as handoff_task_complete answers it.
   invalid_request, invalid_cursor. */
void handoff_list(struct handoff_loop *loop, const struct handoff_list_query *query,
                  handoff_answered *answered, void *context);

/* Each NULL: any. */
struct handoff_parked_query {
    const char *target, *source, *task;
    const char *reason, *error; /* why it was parked; why its last attempt failed */
    const char *query;          /* words, which all have to be in what a list shows */
    const char *since, *until;  /* RFC 3339: parked from then on; before then */
    const char *order;          /* "oldest", which is usual, or "newest": those first */
    const char *caller;         /* only what it is a party to */
    const char *cursor;         /* where an earlier page ended; NULL: from the beginning */
    int64_t limit;              /* at most so many; 0: 50 */
};

/* {"items": [handoffs], "next": "cursor" or null}: what is parked, in the order of acceptance.
   invalid_request, invalid_cursor, unknown_agent. */
void handoff_parked(struct handoff_loop *loop, const struct handoff_parked_query *query,
                    handoff_answered *answered, void *context);
/* {"items": [{"target_agent", "reason", "error", "count", "oldest_at", "newest_at", "example_id"}],
   "next", "total"}: the same by cause, the most frequent first. */
void handoff_parked_groups(struct handoff_loop *loop, const struct handoff_parked_query *query,
                           handoff_answered *answered, void *context);
/* {"id", "target_agent", "deliverable", "obstacles": [{"code", "detail"}]}: whether a replay would
   reach the agent now; target NULL: the one it was parked for. not_found. */
void handoff_prospect(struct handoff_loop *loop, const char *id, const char *target,
                      handoff_answered *answered, void *context);

/* Each NULL: any. */
struct handoff_find_query {
    const char *state; /* its name */
    const char *source, *target, *task_id;
    const char *since;  /* RFC 3339: made then or later */
    const char *order;  /* newest or oldest; NULL: oldest */
    bool incomplete;    /* only those whose envelopes lack requested memories */
    bool open;          /* only the last of each task that waits, see oldest_open_task_ns */
    const char *caller; /* only what it is a party to */
    const char *cursor; /* where an earlier page ended; NULL: from the beginning */
    int64_t limit;      /* at most so many; 0: 50 */
};

/* {"items": [handoffs], "next": "cursor" or null}, in the order of their making. A page may hold
   fewer than `limit` and have a next one. invalid_request, invalid_cursor. */
void handoff_find(struct handoff_loop *loop, const struct handoff_find_query *query,
                  handoff_answered *answered, void *context);

/* Sends a parked handoff again, to the same agent or (target not NULL) another; the answer comes
   when it is ready to go. Discards one, with a reason. The answer's body is the handoff. */
void handoff_replay(struct handoff_loop *loop, const char *id, const char *target,
                    const struct handoff_author *author, handoff_answered *answered, void *context);
void handoff_discard(struct handoff_loop *loop, const char *id, const struct handoff_author *author,
                     handoff_answered *answered, void *context);

/* What was decided. Each NULL: any. */
struct handoff_decision_query {
    const char *handoff, *job; /* UUIDs */
    const char *task, *who, *by, *target;
    const char *action;        /* its name */
    const char *since, *until; /* RFC 3339: from then on; before then */
    const char *order;         /* "newest", which is usual, or "oldest": those first */
    const char *cursor;        /* where an earlier page ended; NULL: from the beginning */
    int64_t limit;             /* at most so many; 0: 50 */
    bool lines; /* answer with one object on each line, and the cursor in none of them */
};

/* {"items": [decisions], "next": "cursor" or null}. invalid_request, invalid_cursor. */
void handoff_decisions(struct handoff_loop *loop, const struct handoff_decision_query *query,
                       handoff_answered *answered, void *context);

/*
 * The task is over. The answer's body is {"task_id", "completed_at", "handoffs": how many it took};
 * the same for a repeat, which changes nothing (created is then false). Handoffs that the task has
 * after its end are delivered as ever, and not counted among these. `caller` is the agent that says
 * so, NULL: anybody. not_found: it has no handoffs, or none that the caller is a party to.
 */
void handoff_task_complete(struct handoff_loop *loop, const char *task_id, const char *caller,
                           handoff_answered *answered, void *context);

/*
 * Takes what an agent tells of handoffs that it made by itself: one observation as a JSON object,
 * or
 * {"items": [up to 1,000]}; docs/observations.md has the fields. Each goes to the observer as
 * HANDOFF_EVENT_OBSERVED, and nowhere else. The text is {"accepted", "repeated", "rejected":
 * [{"index", "code", "field", "detail", "seen", "allowed"}]}; in a batch a bad one is among the
 * rejected, alone it is the error. Of the ask, body and caller count. Any thread; never waits.
 */
enum handoff_code handoff_observe(struct handoff_client *client, const struct handoff_ask *ask,
                                  struct handoff_text *text,
                                  struct handoff_error *error) HANDOFF_MUST_CHECK;

/*
 * Makes a new handoff of a parked or an expired one: the body is {"edit": {...}, "target_agent":
 * ...}, where the edit has fields of a request that take the place of the old ones. The new
 * envelope has the parents and the hop of the old one, and names it in `replaces`. Constraints can
 * be tightened and not loosened, but a deadline may be later. One commit stores the new one and
 * discards the old one with the reason "replaced by <id>"; what has expired stays so. The answer's
 * body is the new one. Where it is refused, the old one stays as it is.
 */
void handoff_replay_edited(struct handoff_loop *loop, const char *id, const char *body, size_t size,
                           const struct handoff_author *author, handoff_answered *answered,
                           void *context);

/*
 * A bulk job: one decision about many parked handoffs, those that the filter finds when it begins.
 * It is stored before the first of them is decided, goes on over a restart, and remembers what
 * became of each. Jobs answer with
 *
 *     {"id", "action", "state", "to", "reason", "who", "by", "rate", "total", "done", "succeeded",
 *      "skipped", "failed", "canary_id", "started_at", "ended_at"}
 */
struct handoff_job_query {
    const char *action; /* "replay" or "discard" */
    struct handoff_parked_query filter;
    const char *to;               /* of a replay: another agent; NULL: each to its own */
    struct handoff_author author; /* a discard needs a reason */
    int64_t limit;                /* at most so many; 0: 100,000 */
    int64_t rate;                 /* a second; 0: 10 */
    bool canary;                  /* waits after the first one until it is told to go on */
    bool dry_run;                 /* begins nothing: {"count", "deliverable", "obstacles": [{"code",
                                     "count"}], "items": [some handoffs]} */
};

/* invalid_request, unknown_agent, shutting_down. */
void handoff_job_begin(struct handoff_loop *loop, const struct handoff_job_query *query,
                       handoff_answered *answered, void *context);
/* not_found. */
void handoff_job_get(struct handoff_loop *loop, const char *id, handoff_answered *answered,
                     void *context);
/* {"items": [jobs], "next": null}, the newest first; the last thousand that ended are remembered.
 */
void handoff_job_list(struct handoff_loop *loop, handoff_answered *answered, void *context);

struct handoff_job_items_query {
    const char *result; /* only these: "open", "succeeded", "skipped" or "failed"; NULL: all */
    const char *cursor;
    int64_t limit;
};

/* {"items": [{"handoff_id", "result", "code", "detail"}], "next"}. not_found, invalid_request,
   invalid_cursor. */
void handoff_job_items(struct handoff_loop *loop, const char *id,
                       const struct handoff_job_items_query *query, handoff_answered *answered,
                       void *context);
/* Stops soon; what is decided stays so. Harmless for one that has ended. not_found. */
void handoff_job_stop(struct handoff_loop *loop, const char *id, handoff_answered *answered,
                      void *context);
/* Goes on after its canary. not_found, conflict (it does not wait). */
void handoff_job_continue(struct handoff_loop *loop, const char *id, handoff_answered *answered,
                          void *context);

/* ---- agents at work ------------------------------------------------------------------------ */

/* {"items": [{"name", "circuit", ...}], "next": null}. Any thread. */
enum handoff_code handoff_list_agents(struct handoff_client *client, struct handoff_text *text,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Closes a breaker by hand; the answer has no body. unknown_agent. */
void handoff_reset_agent(struct handoff_loop *loop, const char *name, handoff_answered *answered,
                         void *context);

/*
 * Pulling, for agents without a url. A handoff that was pulled is leased for the agent's
 * ack_timeout_ms; it is answered with handoff_acknowledge, and a lease that runs out is an attempt
 * that failed. Each handoff goes to one puller, the oldest first.
 */
struct handoff_puller;
struct handoff_pulled {
    struct handoff_error error; /* unknown_agent, out_of_memory; else OK */
    const char *envelope;       /* NULL: there was none in time */
    size_t size;
    enum handoff_rendering rendering; /* of the envelope: as the agent reads it */
    char id[37];
    /* of its chain, as a header has them: percent-encoded where they are not ASCII. NULL: none */
    const char *task_id, *root_id, *previous_id;
    unsigned attempt;
    int64_t lease_ms; /* until when it wants an answer */
};
/* Pulls one handoff for the agent `name`, waiting for it at most wait_ms. `pulled` is called
   exactly once, on the loop, possibly before the call returns; it may answer for the handoff at
   once. It tells whether somebody takes the handoff: one that nobody takes is offered again at
   once, as if it had never been pulled. What is returned serves handoff_pull_withdraw until then;
   NULL: `pulled` was called already, with an error. */
struct handoff_puller *handoff_pull(struct handoff_loop *loop, const char *name, int64_t wait_ms,
                                    bool (*pulled)(void *context, const struct handoff_pulled *got),
                                    void *context);
/* The puller went away: `pulled` is called soon, maybe with a handoff that was on its way. */
void handoff_pull_withdraw(struct handoff_puller *pull);

/* Follows an inbox: one handoff after the other, as long as the follower holds fewer leases than it
   may. A lease is held until the handoff is acknowledged, declined or taken back, or it runs out.
 */
struct handoff_follower;
enum { HANDOFF_FOLLOW_LEASES_MAX = 32 };
struct handoff_follow_options {
    const char *agent;
    unsigned leases;        /* 1 to HANDOFF_FOLLOW_LEASES_MAX */
    const char *last_event; /* the last handoff that a client has which follows again, or the id
                               before the first; what it was given after that is offered again at
                               once. NULL, or one that is not known: what it may have been given
                               stays leased. */
};
/* A handoff that was asked for. Returns whether it was taken, as `pulled` does; if not, the
   follower is gone. Without an envelope it is gone too: the agent no longer pulls (error), another
   client follows in its place, or the loop ends. */
typedef bool handoff_given(void *context, const struct handoff_pulled *got);
/* `given` is called on the loop, and never within a call. `first_id` is what a client has as its
   last event before the first handoff; "": it knows that already. NULL: unknown_agent, invalid,
   out_of_memory. */
struct handoff_follower *handoff_follow(struct handoff_loop *loop,
                                        const struct handoff_follow_options *options,
                                        handoff_given *given, void *context, char first_id[37],
                                        struct handoff_error *error);
/* Asks for one handoff; not while one is asked for. */
void handoff_follow_next(struct handoff_follower *follower);
/* The client went away, and `given` is not called any more. `lost`: so many of the handoffs that it
   was given last did not reach it, and are offered again at once. Not within `given`. */
void handoff_follow_end(struct handoff_follower *follower, unsigned lost);

/* ---- memories ------------------------------------------------------------------------------ */

enum { HANDOFF_MEMORY_ID_MAX = 128 }; /* bytes of an id, of A-Z a-z 0-9 . _ : - */

/*
 * A memory belongs to the agent that put it, and is in a scope, such as `user:alice`, or shared.
 * Who asks, where that is known; what is not, is NULL, and so is a caller of which nothing is
 * known.
 */
struct handoff_memory_caller {
    /* An agent may change only its own memories; others are forbidden. NULL: an operator, or an
       unauthenticated caller, who may change every memory. */
    const char *agent;
    /* The scopes that it is bound to, separated by commas: it stores and changes memories only in
       these, and sees these and the shared ones; another memory is not_found. NULL: it is not bound
       to scopes, and sees all. */
    const char *scopes;
};

/* Whether this may be the name of a scope. Pure. */
bool handoff_scope_is_valid(const char *name, size_t size);

/* Stores a memory: JSON with content, and optionally summary, importance (low, medium, high,
   critical), tags, metadata, pinned, agent, scope, task_id. The answer's body is the memory. */
void handoff_memory_put(struct handoff_loop *loop, const char *id, const char *body, size_t size,
                        const struct handoff_memory_caller *caller, handoff_answered *answered,
                        void *context);
/* A pinned memory is in every envelope that sees its scope. The answer's body is the memory. */
void handoff_memory_pin(struct handoff_loop *loop, const char *id, bool pinned,
                        const struct handoff_memory_caller *caller, handoff_answered *answered,
                        void *context);
void handoff_memory_delete(struct handoff_loop *loop, const char *id,
                           const struct handoff_memory_caller *caller, handoff_answered *answered,
                           void *context);

void handoff_memory_get(struct handoff_loop *loop, const char *id,
                        const struct handoff_memory_caller *caller, handoff_answered *answered,
                        void *context);

struct handoff_memory_query {
    struct handoff_memory_caller caller;
    /* What is looked into beside the shared memories: names of scopes, separated by commas; "":
       only the shared ones. NULL: the scopes of the caller; of one that is not bound, all memories
       where they are listed, the shared ones where the most relevant are. */
    const char *scope;
    const char *query; /* the most relevant to this text first; NULL: see recent */
    int64_t recent;    /* that many of the best; 0: 20 where there is a query, else a page of all */
    const char *cursor; /* of all: where an earlier page ended; NULL: from the beginning */
    int64_t limit;      /* at most so many; 0: 50 */
    bool pinned;        /* of all: only the pinned ones */
};

/* The answer's body is {"items": [...], "next": "cursor" or null}. */
void handoff_memory_list(struct handoff_loop *loop, const struct handoff_memory_query *query,
                         handoff_answered *answered, void *context);

/* ---- events -------------------------------------------------------------------------------- */

enum handoff_event_kind {
    HANDOFF_EVENT_ASSEMBLED,       /* an envelope was assembled for the store, or that failed; or
                                      one that was stored before is to be delivered */
    HANDOFF_EVENT_COMMITTED,       /* the store committed a group, or that failed */
    HANDOFF_EVENT_SPINE,           /* the spine was asked */
    HANDOFF_EVENT_SPINE_CACHE,     /* last known copies of its memories were looked at */
    HANDOFF_EVENT_MOVED,           /* a handoff went from one state to another */
    HANDOFF_EVENT_REJECTED,        /* a handoff was not accepted, because the circuit is open */
    HANDOFF_EVENT_CIRCUIT,         /* the breaker of who.target_agent changed */
    HANDOFF_EVENT_TASK_COMPLETED,  /* who.task_id is over, for the first time */
    HANDOFF_EVENT_OBSERVED,        /* an agent reported a handoff that it made itself */
    HANDOFF_EVENT_SHORTAGE,        /* we ran out of something, and will try again */
    HANDOFF_EVENT_SECRETS,         /* credentials were found in what somebody sent */
    HANDOFF_EVENT_STORE_UPGRADING, /* the store of an older version is changed, which may take a
                                      while */
    HANDOFF_EVENT_DECIDED,         /* somebody decided about a handoff */
    HANDOFF_EVENT_RECOVERY,        /* the receiver of a handoff fetched memories that its envelope
                                      lacks, or flagged them */
    HANDOFF_EVENT_STORE_DISPLACED, /* the store is not where it was; once, nothing is stored again
                                    */
};

/* Which handoff an event is about. Texts are NULL, or trace_id "", where that is not known, or the
   event is about none. */
struct handoff_who {
    const char *id, *task_id;
    const char *source_agent;
    const char *target_agent; /* of a move: the agent that has it now */
    /* of a move of a publication's delivery: its channel, and the receiver that it was published
       to; else NULL */
    const char *channel, *receiver;
    enum handoff_pattern pattern;
    char trace_id[33]; /* 32 digits */
};

/* What became of the memories that were asked for. */
struct handoff_memory_counts {
    size_t requested, included, missing, trimmed;
};

/* What became of all that gives way to a token budget. */
struct handoff_item_counts {
    size_t of[HANDOFF_PART_COUNT][HANDOFF_PRESENCE_COUNT];
};

/* From so many hops on, two agents that hand a task back and forth without adding an item to its
   ledger make no progress: one question and its answer, which only stand in summaries, are two. */
enum { HANDOFF_PING_PONG_HOPS = 4 };

struct handoff_assembled {
    int64_t resolve_ns, trim_ns, encode_ns;
    int64_t persist_ns; /* 0: not reached, as with the others; or a move follows that has it */
    uint64_t tokens, budget;
    struct handoff_memory_counts memories;
    struct handoff_item_counts items;
    int64_t hop_count;
    bool cycle;         /* the target was on the path already */
    bool ping_pong;     /* it and hops before it went back and forth between two agents, and none of
                           them added anything (HANDOFF_PING_PONG_HOPS) */
    bool envelope_only; /* nothing is to be delivered: it is not counted in the handoff metrics */
};

struct handoff_committed {
    int64_t duration_ns;
    unsigned jobs; /* in the group */
    bool turned;   /* it failed and the one before had not, or the reverse */
    bool probe;    /* nobody's: it was to see whether the store still fails */
};

/* What to do about it, in the words of every place that says so. */
#define HANDOFF_STORE_DISPLACED_ADVICE                                                             \
    "stop the daemon, put the store back where it was or restore a backup, and start it again"

struct handoff_store_displaced_event {
    const char *path; /* of the file that was deleted, moved or replaced */
};

struct handoff_store_upgrading_event {
    int from, to;  /* versions of the schema */
    int64_t bytes; /* in use */
};

struct handoff_ran_short {
    enum handoff_shortage resource;
    const char *hindered; /* what could not be done, in words of ours: "connecting to an agent" */
};

struct handoff_secrets_found {
    enum handoff_secret kind;
    enum handoff_secret_place place;
    unsigned count;
};

/* Texts from outside, "" for none: escape them wherever they are shown. */
struct handoff_decided {
    enum handoff_action action;
    const char *author, *by; /* whose token it was, and what the caller calls itself */
    const char *reason;
};

/* Each memory of a handoff counts once when it is flagged, and once when it was fetched. */
struct handoff_recovered {
    size_t of[HANDOFF_RECOVERY_COUNT];
};

struct handoff_spine_cache_used {
    size_t used;       /* copies that served */
    size_t lacking;    /* ids without a copy */
    int64_t oldest_ns; /* how long ago the spine had the oldest of these copies */
};

struct handoff_spine_asked {
    enum handoff_operation operation;
    bool failed;     /* it could not answer; else it did, if only with a refusal */
    bool cut;        /* a search's time was over, and it gave what it had found */
    const char *why; /* it failed; else NULL */
    int64_t duration_ns;
};

struct handoff_moved {
    enum handoff_state from; /* NONE: it was just accepted, or found at the start */
    enum handoff_state to;
    bool resumed;                 /* found at the start */
    bool replaced;                /* discarded, because an edited one took its place */
    enum handoff_outcome outcome; /* NONE: it has not ended */
    enum handoff_reason reason;   /* why it was parked */
    int64_t elapsed_ns;           /* since it was accepted */
    unsigned attempts;            /* so far */
    unsigned replays;             /* so far; this one, where it is one */

    bool attempted; /* an attempt ended with this move; then also: */
    enum handoff_attempt_result result;
    const char *attempt_target;
    int64_t attempt_ns;
    int status; /* what the agent answered to its last attempt; 0: nothing */
    /* Why its last attempt failed, in the words of the agent, of curl or of ours; "": it did not.
       Text from outside: escape it wherever it is shown. */
    const char *said;
};

struct handoff_circuit_changed {
    enum handoff_circuit circuit;
    bool opened; /* just now, for the first time or after a probe */
    bool closed; /* just now */
    unsigned consecutive_failures;
};

struct handoff_task_completed {
    uint64_t handoffs; /* that it took */
};

enum handoff_told {
    HANDOFF_TOLD_LATENCY = 1 << 0, /* elapsed_ns */
    HANDOFF_TOLD_RATIO = 1 << 1,   /* ratio */
    HANDOFF_TOLD_REFS = 1 << 2,    /* memories */
    HANDOFF_TOLD_TOKENS = 1 << 3,  /* tokens */
    HANDOFF_TOLD_HOPS = 1 << 4,    /* hop_count */
};

/* Of the fields that have a bit in `told`, those whose bit is set. */
struct handoff_observed {
    bool repeated; /* it was told before, and counts nothing */
    enum handoff_outcome outcome;
    unsigned told; /* enum handoff_told, or-ed */
    int64_t elapsed_ns;
    double ratio; /* completeness */
    struct handoff_memory_counts memories;
    uint64_t tokens, budget; /* budget 0: not told */
    int64_t hop_count;
    bool cycle;
    uint64_t attempts[HANDOFF_RESULT_COUNT]; /* by result */
};

/* Something that happened. Lent for the call. `of` has the fields of the kind; a rejection has
   none, and an observation that was rejected neither those nor `who`. */
struct handoff_event {
    enum handoff_event_kind kind;
    enum handoff_code code; /* HANDOFF_OK, or why it failed */
    struct handoff_who who;
    union {
        struct handoff_assembled assembled;
        struct handoff_committed committed;
        struct handoff_store_displaced_event displaced;
        struct handoff_store_upgrading_event upgrading;
        struct handoff_ran_short shortage;
        struct handoff_secrets_found secrets;
        struct handoff_decided decided;
        struct handoff_recovered recovery;
        struct handoff_spine_asked spine;
        struct handoff_spine_cache_used spine_cache;
        struct handoff_moved moved;
        struct handoff_circuit_changed circuit;
        struct handoff_task_completed task_completed;
        struct handoff_observed observed;
    } of;
};

/* ---- numbers ------------------------------------------------------------------------------- */

/* What is kept of finished handoffs, as it was a moment ago, and what retention removed since the
   client was opened. */
struct handoff_retention_stats {
    int64_t body_bytes;  /* of their envelopes: retention_bytes limits them */
    int64_t index_bytes; /* of the rest: retention_index_bytes limits it */
    /* since the oldest finished that still has its envelope, has a key, can be continued by a
       child; 0: there is none */
    int64_t oldest_body_ns, oldest_key_ns, oldest_chain_ns;
    uint64_t bodies_removed;         /* for size, alone */
    uint64_t chains_removed_by_age;  /* whole handoffs, with their keys */
    uint64_t chains_removed_by_size; /* likewise, though younger than the age */
    uint64_t orphans,
        orphans_bytes; /* files of envelopes that nothing named, removed at the start */
};

struct handoff_stats {
    int64_t store_bytes;                 /* in use in the database, as it was a moment ago */
    int64_t disk_free_bytes, disk_bytes; /* of the store's file system, likewise; 0: not known */
    const char *store_displaced; /* path of a file of the store that was deleted, moved or replaced,
                                    so that nothing is stored any more; NULL: all is in its place */
    enum handoff_code store_failing; /* why its last write failed; HANDOFF_OK: it did not */
    bool spine_up;             /* false: five requests in a row failed, or it never answered */
    int64_t spine_cache_bytes; /* of last known copies of a remote spine's memories */
    const char *spine_lacks;   /* operations that the spine has not, "search, pinned"; NULL:
                                  none */
    const char *spine_advice;  /* what is done instead; NULL likewise */
    bool spine_complete;       /* searches look at all memories: no index is being rebuilt */
    bool exact_tokens;         /* a vocabulary is in use */
    /* Of tasks that are not completed and of which nothing is in flight or parked: since the last
       acknowledgement of the one that has waited longest; 0: there is none, or it is not watched */
    int64_t oldest_open_task_ns;
    int64_t task_stalled_after_ms; /* from the options */
    struct handoff_retention_stats retention;
};

/* Any thread; reads memory only. */
void handoff_client_stats(struct handoff_client *client, struct handoff_stats *stats);

/* How it stands with one agent. */
struct handoff_agent_stats {
    const char *name;
    bool configured; /* false: it was once, and may still have handoffs */
    enum handoff_circuit
        circuit; /* as a handoff would find it now: half open from the cooldown's end */
    unsigned consecutive_failures; /* of our own handoffs, or of observed ones if those are more */
    unsigned in_flight;            /* ready, with it, or waiting for its acknowledgement */
    int64_t oldest_in_flight_ns;   /* since that one was accepted; 0: there is none */
    uint64_t parked;
    int64_t oldest_parked_ns;      /* since that one was parked; 0: there is none */
    unsigned consecutive_refusals; /* since it last acknowledged */
    int64_t
        timeout_ms;   /* an attempt's; of an agent that pulls, its ack_timeout. 0: not configured */
    bool pulls;       /* it has an inbox: */
    uint64_t waiting; /* handoffs that it could take */
    int64_t polled_ms; /* Unix time of its last poll; before the first, since when it is known */
};

/* Calls `visit` for every agent, by name. Any thread; one visit at a time; reads memory only.
   `visit` may not visit. */
void handoff_client_visit_agents(struct handoff_client *client,
                                 void (*visit)(void *context,
                                               const struct handoff_agent_stats *agent),
                                 void *context);

/* What waits for one receiver of a channel. */
struct handoff_feed_stats {
    const char *channel, *receiver;
    bool subscribed;           /* false: it is no receiver of the channel, or not any more */
    uint64_t pending;          /* deliveries that are on their way: not settled, and not parked */
    int64_t oldest_pending_ns; /* since that one was published, or replayed; 0: there is none */
    uint64_t dropped;          /* publications that retention took before the subscriber, which was
                                  catching up, had come to them; since it subscribed */
};

/* Calls `visit` for every receiver that a channel has or once had, in no order; otherwise as
   handoff_client_visit_agents. */
void handoff_client_visit_feeds(struct handoff_client *client,
                                void (*visit)(void *context, const struct handoff_feed_stats *feed),
                                void *context);

/* ---- looking after a store ------------------------------------------------------------------ */

/* What a check found. */
struct handoff_store_report {
    int version;       /* of the schema */
    int64_t envelopes; /* each was read and compared with its digest */
    int64_t memories;  /* each is in the search index, as far as its files go */
    int64_t bytes;     /* in use */
    int64_t problems;  /* 0: sound */
    char problem[200]; /* the first one, or "" */
};

/*
 * Reads the whole store and says whether it is sound: the database's structure, every envelope's
 * digest, the search index. Changes nothing and may run beside the daemon. The path is the
 * folder that storage.path names, or the database file in it. HANDOFF_OK means that the check was
 * done, whatever it found; a store too damaged to be read is store_corrupt.
 */
enum handoff_code handoff_store_check(const char *path, struct handoff_store_report *report,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;

/*
 * Makes the search index of the memories anew from their rows. The path is the folder that
 * storage.path names; no daemon may use it (store_locked). `progress` is called now and then with
 * how many of all memories were read; NULL: it is not.
 */
enum handoff_code handoff_store_reindex(const char *path,
                                        void (*progress)(void *context, int64_t done, int64_t all),
                                        void *context,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/*
 * Folds the ledger of each envelope again and compares it with what the envelope says: its parents
 * and their digests, its hop, its constraints and intent, and its decisions, open questions and
 * remaining work, shown or omitted. Adds the problems to a report that handoff_store_check has
 * filled; otherwise the same holds as for that. Holds one envelope and its ledger in memory.
 */
enum handoff_code handoff_store_check_ledgers(const char *path, struct handoff_store_report *report,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/*
 * The same for the envelopes of one task, oldest first. `visit` is given each as a JSON object:
 * {"id", "digest", "created_at", "source_agent", "target_agent", "hop", "parents", "omitted", from
 * "digest" on as the envelope has them; "contributions": of how many its ledger is folded;
 * "removed_parents": the ids of those parents whose envelopes retention removed (what they
 * contributed is still there); "removed": retention took its body; "problem": the first of this
 * envelope, or null}. The report counts envelopes and problems.
 */
enum handoff_code handoff_store_audit(const char *path, const char *task_id,
                                      void (*visit)(void *context, const char *json), void *context,
                                      struct handoff_store_report *report,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;

/*
 * Copies the store, as it is at one moment, into one new file; may run beside the daemon, which
 * goes on writing. The copy is checked and on the disk before it gets its name. To restore it, stop
 * the daemon, empty the folder that storage.path names, and copy the file there as handoff.db. A
 * destination that is there already is refused: exists.
 */
enum handoff_code handoff_store_backup(const char *path, const char *destination,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
