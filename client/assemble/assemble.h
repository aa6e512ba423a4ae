/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assemble.h - from a request to an envelope: validate, inherit, resolve, trim, encode.
 *
 * Each step is a row of a table in assemble.c and works on one struct, the assembly; the time each
 * took is in it afterwards. Persisting and everything later belongs to the calls (client/calls),
 * which run assemblies.
 *
 * An assembly belongs to one thread at a time: to its loop, or, while it computes what would keep
 * the loop from serving others, to a worker (assemble.c). Its texts are lent by the request's and
 * the parent's documents and by its arena, which handoff_assembly_free frees.
 */
#ifndef HANDOFF_ASSEMBLE_ASSEMBLE_H
#define HANDOFF_ASSEMBLE_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/assemble/continued.h"
#include "client/assemble/list.h"
#include "client/assemble/plan.h"
#include "client/assemble/request.h"
#include "client/assemble/segment.h"
#include "client/envelope/digest.h"
#include "client/envelope/excerpt.h"
#include "client/envelope/read.h"
#include "client/envelope/trace.h"
#include "client/handoff.h"
#include "client/ledger/ledger.h"
#include "client/secrets/redact.h"
#include "client/spine/spine.h"
#include "client/store/store.h"
#include "lib/base/arena.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/base/uuid.h"
#include "lib/base/workers.h"

/* What all assemblies share. Read-only once it is set up; any thread. */
struct handoff_assembler {
    const struct handoff_tokenizer *tokenizer;
    struct handoff_spine *spine;
    struct handoff_store *store;
    const struct base_clock *clock;
    const struct base_random *random;
    struct base_uuid_source *uuids;
    struct base_workers *workers; /* NULL: everything is assembled on the loops */
    size_t memory_max_bytes;      /* a larger memory is represented by its summary */

    /* tokens of the text around lists, counted once by handoff_assembler_prepare */
    uint32_t memories_none, memories_some, ids_some, ids_next;
    struct handoff_list_runs runs;
    bool counts_puts; /* memories can be counted when they are put: costs.h */
};

enum handoff_code handoff_assembler_prepare(struct handoff_assembler *assembler,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* One memory of the request, as it will appear in the envelope. */
struct handoff_slot {
    struct handoff_segment_memory show;
    enum handoff_rank rank;
    bool of_task; /* it was found, and put for the task of the request */
    handoff_age age;
    enum handoff_importance importance;
    double relevance;                         /* to the summary; 0 if it was not searched for */
    const struct handoff_found_memory *match; /* by include_recent; NULL: it was not among them */
    int64_t version;                          /* of the memory that was counted */
    bool content_stays;            /* too large or a conversation: only its summary may be sent */
    uint32_t known[HANDOFF_FORMS]; /* tokens of its segments; 0: not counted yet */
    bool learned[HANDOFF_FORMS];   /* the count is new, and the spine should store it */
};

struct handoff_missing {
    struct base_span id;
    enum handoff_absence reason;
    int64_t since_hop;  /* since when it is missing; 0: it is no reference */
    const char *detail; /* what happened to the spine; NULL: it answered */
};

/* An id that this hop or an earlier one refers to. */
struct handoff_reference {
    struct base_span id;
    const struct handoff_item *item;
    bool asked; /* by this hop */
    bool named; /* in its memory_ids */
};

enum handoff_stage {
    HANDOFF_STAGE_VALIDATE,
    HANDOFF_STAGE_INHERIT,
    HANDOFF_STAGE_RESOLVE,
    HANDOFF_STAGE_TRIM,
    HANDOFF_STAGE_ENCODE,
    HANDOFF_STAGES,
};

struct handoff_assembly {
    /* set by the caller; the texts are lent for the first run, the rest until the end */
    const struct handoff_assembler *with;
    struct handoff_loop *loop;    /* for `target`; the stages do not use it */
    struct base_loop *base;       /* its thread; NULL: nothing goes to a worker */
    struct base_mailbox *mailbox; /* receives the answers of the spine and the store */
    struct base_span body;
    struct base_span caller; /* absent: any caller */
    struct base_span sender; /* then; absent: any sender */
    const char *bound;       /* the caller's scopes, separated by commas; NULL: not bound */
    struct base_span given_traceparent, given_tracestate; /* absent, or not yet checked */
    struct handoff_warnings *warnings; /* of the answer; they outlive the assembly */
    int64_t hop_max;                   /* the configured limit; inherit lowers it to the parents' */
    bool publishes;                    /* the envelope is for a channel: `passed_on` is made, too */
    bool parks_at_limit;       /* the envelope is made beyond that limit, too: it will be parked */
    bool lenient;              /* unknown fields are ignored, with a warning */
    bool any_task;             /* the source need not be a party to its task */
    bool forbids_new_chain;    /* the configuration does */
    bool begins_shared;        /* where it begins a chain, it sees only shared memories */
    struct base_uuid replaces; /* the envelope in whose place it steps; nil: none */
    struct base_uuid answers;  /* continued where the request does not say what; nil: none */
    struct handoff_parent projects; /* the publication's envelope, in whose place it is sent;
                                       absent id: none */
    /* replaces the target "next" by an agent and sets the configured token_budget and dual of the
     * target. Any thread. On failure the error is in assembly->error. */
    enum handoff_code (*target)(struct handoff_assembly *assembly);
    void *context; /* for the caller */
    /* called on the mailbox's loop if handoff_assembly_run returned false */
    void (*finished)(struct handoff_assembly *assembly);

    /* the verdict */
    struct handoff_error error;
    int64_t stage_ns[HANDOFF_STAGES]; /* 0: not reached */

    /* how it is run: assemble.c */
    struct base_work work;
    TAILQ_ENTRY(handoff_assembly) entry; /* in the list of its loop */
    bool kept;                           /* the texts of the host were copied */
    int overtaken;                       /* restarts because an edit was committed first */
    bool over;                           /* every stage was run, or one failed */
    enum handoff_code cancelled;         /* OK: it is wanted; else why it is not */
    bool (*ask)(struct handoff_assembly *assembly); /* what the current stage waits for */
    size_t size;                                    /* bytes that are to be copied or more */
    size_t uncounted;                               /* of these, those that are to be counted */

    struct base_arena arena;
    int64_t stage_began_ns;
    unsigned stage; /* enum handoff_stage, the current one */
    bool dual;
    enum handoff_strategy usual_strategy; /* of the target, where the request names none */
    uint64_t token_budget;

    /* validate */
    struct handoff_request request;
    struct handoff_secrets secrets; /* its policy is the caller's to set */

    /* inherit */
    struct handoff_store_read chain_read;
    struct handoff_continued_chain chain;
    struct handoff_ledger ledger;
    yyjson_val *mentioned;  /* ids in summary and intent; NULL: none */
    uint64_t unsought;      /* others that these name, which are not looked for */
    struct base_span *path; /* the sources of the hops before, oldest first */
    size_t npath;
    struct base_span task_id, intent, traceparent, tracestate;
    yyjson_val *constraints;      /* the ledger's; NULL: none */
    struct handoff_scopes scopes; /* whose memories it sees */
    int64_t hop_count;
    bool over_limit;        /* it is beyond the limit */
    bool chain_is_read;     /* also if that failed */
    size_t history_dropped; /* steps of the parent, where retention removed its body */

    /* resolve: one slot or one missing entry per requested memory */
    struct handoff_spine_resolve resolve;
    struct handoff_reference *references; /* sorted by id */
    size_t nreferences;
    struct base_span *ids; /* theirs, but for those that no memory can have */
    size_t nids;
    size_t beyond;              /* of more than may be asked for at once: those that were not */
    bool ranked;                /* relevance to the summary was requested */
    bool search_failed;         /* so one missing entry is for the search itself: *recent */
    bool resolved;              /* the awaited answer of the spine has arrived */
    int64_t asked_ns, spine_ns; /* when it was asked, and its total time */
    struct handoff_slot *slots; /* in rank order */
    size_t nslots;
    struct handoff_missing *missing;
    size_t nmissing;

    /* trim */
    uint64_t budget;
    struct base_buffer parts; /* head and tail of the context, then entries of lists: segment.h */
    size_t head_size, tail_size;
    struct handoff_list lists[HANDOFF_LISTS]; /* those that are in the plan */
    struct handoff_trim_plan plan;

    /* encode */
    struct base_uuid id;
    char id_text[BASE_UUID_TEXT];
    int64_t created_ms;
    struct base_buffer out;
    unsigned char digest[BASE_SHA256_BYTES];
    struct handoff_excerpt excerpt;
    struct base_buffer contribution;       /* what the store keeps for later hops */
    struct base_buffer passed_on;          /* what each delivery of it adds to that */
    char *own_envelope, *own_contribution; /* of a long request: copies for delivery to take, made
                                              on the worker; NULL: taken, or there are none */
    size_t memories_at, memories_size;     /* the array, in out */
    struct handoff_memory_counts memories; /* of what was requested */
    struct handoff_item_counts items;
};

/* Runs the stages. True: done, check error. False: waiting for a worker, the spine or the store,
 * and `finished` will be called. Either way the caller frees the assembly at the end. On its loop.
 */
bool handoff_assembly_run(struct handoff_assembly *assembly);
/* One that is over plans and encodes once more, with the same ledger and memories, within another
 * budget. What it made before stays in its arena, and own_envelope and its like are freed. As
 * handoff_assembly_run. */
bool handoff_assembly_run_again(struct handoff_assembly *assembly, uint64_t token_budget);
/* It is not wanted any more: it fails with this code before this returns, or soon after. On its
 * loop. */
void handoff_assembly_cancel(struct handoff_assembly *assembly, enum handoff_code why);
/* Copies the texts that the host lent for one call, for a first run after that call has returned.
 * False: out of memory. */
bool handoff_assembly_keep_texts(struct handoff_assembly *assembly);
void handoff_assembly_free(struct handoff_assembly *assembly);
/* The same, but returns the arena, which may contain the assembly itself: the caller frees it. */
struct base_arena handoff_assembly_end(struct handoff_assembly *assembly);

/* Who hands off, where that is known without the request; absent: it is not. */
struct base_span handoff_assembly_sender(const struct handoff_assembly *assembly);

/* Why another agent than its only sender cannot use a sidecar. */
#define HANDOFF_ONE_SENDER                                                                         \
    "this sidecar hands off for one agent (api.source_agent); others need a token"

/* As many long requests wait for the workers as may. */
enum handoff_code handoff_refuse_long_request(struct handoff_error *error);
/* hop_limit, always; `count` 0: it is not known. */
enum handoff_code handoff_refuse_hops(int64_t count, int64_t most, struct handoff_error *error);

/* Whether the target is already on the path, or hands off to itself. */
bool handoff_assembly_is_cycle(const struct handoff_assembly *assembly);
/* The same for one of several that it is for. */
bool handoff_assembly_is_cycle_to(const struct handoff_assembly *assembly, struct base_span target);
bool handoff_assembly_is_ping_pong(const struct handoff_assembly *assembly);
/* The same for one of several that it is for: the task came from that one. */
bool handoff_assembly_is_ping_pong_with(const struct handoff_assembly *assembly,
                                        struct base_span target);

/* "resolve" and so on; static. */
const char *handoff_stage_name(enum handoff_stage stage);

/* The result of a stage. */
enum handoff_progress {
    HANDOFF_PROGRESS_NEXT,
    HANDOFF_PROGRESS_ASK,    /* call assembly->ask on the loop; then the stage is called again */
    HANDOFF_PROGRESS_RERANK, /* back to resolve, now with relevance */
    HANDOFF_PROGRESS_FAILED,
};

/* The stages, each in its own file; failures are in assembly->error. They run on the loop or on a
 * worker. What they wait for, they leave to `ask`, which runs on the loop: it returns true if the
 * answer comes later, by mail that ends in handoff_assembly_go_on, and false if it is there. */
void handoff_assembly_go_on(struct handoff_assembly *assembly);
enum handoff_progress handoff_stage_inherit(struct handoff_assembly *assembly);
enum handoff_progress handoff_stage_resolve(struct handoff_assembly *assembly);
enum handoff_progress handoff_stage_trim(struct handoff_assembly *assembly);
enum handoff_progress handoff_stage_encode(struct handoff_assembly *assembly);

/* What is referred to by this id; NULL: nothing refers to it. */
const struct handoff_reference *handoff_assembly_reference(const struct handoff_assembly *assembly,
                                                           struct base_span id);

/* What the request itself said. */
struct handoff_said handoff_assembly_said(const struct handoff_assembly *assembly);
/* Writes the contribution; the last thing of an assembly. False: out of memory. */
bool handoff_assembly_contribute(struct handoff_assembly *assembly);

#endif
