/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - the calls of the agent API, as data.
 *
 * Each call is one row of calls.def: who may make it, what it changes, its input fields, its
 * answers and errors, a line of documentation and an example. The daemon's routes are bound to the
 * rows (exporter/routes/routes.c), and the fields are checked before a handler runs. The reference
 * in docs/api.md, the OpenAPI document, the JSON Schemas of requests and the access table in
 * docs/security.md are written from the rows.
 *
 * A row speaks of HTTP in one place, `rest`: another binding takes the same inputs as one flat
 * object, and has the same answers.
 *
 * Constant data; any thread.
 */
#ifndef HANDOFF_CALLS_CALL_H
#define HANDOFF_CALLS_CALL_H

#include "client/handoff.h"
#include "client/model/field.h"

/* Who may make a call, where callers are told apart. The first is what a row gets that says
 * nothing. What each caller may see of an answer is decided where the rows are read. */
enum handoff_call_access {
    HANDOFF_FOR_OPERATOR,
    HANDOFF_FOR_NAMED, /* also the agent that the path names */
    HANDOFF_FOR_ALL,
};

enum handoff_call_effect {
    HANDOFF_READS,    /* it changes nothing */
    HANDOFF_SETS,     /* repeating it changes nothing more */
    HANDOFF_ADDS,     /* repeating it does it again */
    HANDOFF_DESTROYS, /* what it removes cannot be had back */
};

/* What comes with a call over HTTP. */
enum handoff_call_body {
    HANDOFF_NO_BODY,
    HANDOFF_BODY_EMPTY,         /* nothing, or an object without fields */
    HANDOFF_BODY_OF_WORDS,      /* a few fields: up to 4 KiB, checked like the query */
    HANDOFF_BODY_WITH_DOCUMENT, /* fields too, of which one may be as large as a request */
    HANDOFF_DOCUMENT,           /* the call reads and judges it: `document` */
};

struct handoff_call_answer {
    unsigned status;                    /* of HTTP; 0 ends the list */
    const struct handoff_fields *shape; /* NULL: nothing is answered */
    const char *doc;
};

struct handoff_call {
    const char *name; /* "send_handoff": of a tool, and of the operation in OpenAPI */
    enum handoff_call_access access;
    enum handoff_call_effect effect;
    enum handoff_call_body body;
    bool batch;     /* a document, or {"items": [documents]} */
    bool assembles; /* the document may be long, and is read by an assembly */
    struct {
        const char *method, *path; /* a {segment} of the path takes any value */
    } rest;
    const char *summary;    /* "Hand off work and wait for the outcome" */
    const char *doc;        /* more sentences, or NULL */
    const char *agent_may;  /* what an agent may do that is not the operator */
    const char *answer_doc; /* of the headers of an answer, or NULL */
    struct handoff_fields input;
    const struct handoff_fields *document;
    const struct handoff_call_answer *answers;
    const enum handoff_code *codes; /* beside those of every call; ends with HANDOFF_OK */
    const char *example;            /* of the body, as JSON; NULL: none is sent */
};

/* What the inputs of a call are read into. Which member a call fills is seen in its row; text is
 * lent until the handler returns. */
struct handoff_call_input {
    const char *id; /* what the path names: a handoff, a task, an agent, a memory, a job */
    const char *channel;
    union {
        struct handoff_list_query list;
        struct handoff_find_query find;
        struct handoff_decision_query decisions;
        struct handoff_parked_query parked;
        struct handoff_job_items_query job_items;
        struct {
            const char *action, *to, *reason;
            struct handoff_parked_query filter;
            int64_t limit, rate;
            bool canary, dry_run;
        } job;
        struct {
            const char *target;
        } prospect;
        struct handoff_memory_query memories;
        struct handoff_ledger_query ledger;
        struct {
            const char *reason;
            bool retry;
        } nack;
        struct {
            const char *id; /* the same as the path's, as in the answer to a push */
            yyjson_val *next, *missing;
        } ack;
        struct {
            yyjson_val *missing;
        } gaps;
        struct {
            yyjson_val *ids;
            bool missing;
        } recovery;
        struct {
            const char *progress;
        } extend;
        struct {
            const char *target, *reason;
            yyjson_val *edit;
            bool again;
        } replay;
        struct {
            const char *reason, *envelope_id;
            yyjson_val *request;
        } park;
        struct {
            const char *envelope_id;
            yyjson_val *request, *receivers;
        } publish;
        struct {
            const char *from;
        } subscribe;
        struct {
            const char *reason;
        } discard, take_back;
        struct {
            int64_t wait_ms, leases;
        } pull;
    };
};

/* One for each row, in their order; the last is how many there are. */
enum {
#define CALL(name, ...) HANDOFF_CALL_##name,
#include "client/calls/calls.def"
#undef CALL
    HANDOFF_CALLS
};

enum {
    HANDOFF_PAGE_MAX = 1000,           /* of a list */
    HANDOFF_RECEIVERS_MAX = 1000,      /* of a publication */
    HANDOFF_REASON_MAX = 4096,         /* bytes of a reason that a person gives */
    HANDOFF_PROGRESS_MAX = 1024,       /* bytes of what an agent tells of its work */
    HANDOFF_CURSOR_MAX = 256,          /* bytes */
    HANDOFF_QUERY_MAX = 4096,          /* bytes of a search: three times that fits into a URL */
    HANDOFF_WAIT_MAX_MS = 60000,       /* longer polls die in proxies and NAT tables */
    HANDOFF_RATE_MAX = 1000,           /* replays a second: more cannot be watched */
    HANDOFF_SEGMENT_MAX = 1024,        /* bytes of a name in a path */
    HANDOFF_IDEMPOTENCY_KEY_MAX = 256, /* bytes */
};

extern const struct handoff_call handoff_calls[HANDOFF_CALLS];

/* ---- answers --------------------------------------------------------------------------------- */

extern const struct handoff_fields handoff_shape_handoff, handoff_shape_handoffs,
    handoff_shape_attempts, handoff_shape_ledger, handoff_shape_task, handoff_shape_task_end,
    handoff_shape_agents, handoff_shape_parked_groups, handoff_shape_prospect,
    handoff_shape_edit_preview, handoff_shape_decisions, handoff_shape_job, handoff_shape_jobs,
    handoff_shape_job_items, handoff_shape_forecast, handoff_shape_memory, handoff_shape_memories,
    handoff_shape_observed, handoff_shape_channel, handoff_shape_channels,
    handoff_shape_subscription, handoff_shape_publication, handoff_shape_publications,
    handoff_shape_recovered, handoff_shape_problem, handoff_shape_openapi;
/* Documents with schemas of their own (docs/schema), in the forms that Accept asks for; and as an
 * inbox gives them. */
extern const struct handoff_fields handoff_shape_envelope, handoff_shape_pulled;

#endif
