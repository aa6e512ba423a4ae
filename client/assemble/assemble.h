/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assemble.h - from a request to an envelope: validate, inherit, resolve, trim, encode.
 *
 * Each step is a row of a table in assemble.c and works on one struct, the assembly; the time each
 * took is in it afterwards. Persisting and everything later is the client's (client/client.c),
 * which is also the only caller.
 *
 * An assembly lives on one thread. Its texts are lent by the request's and the parent's documents
 * and by its arena, all of which go with handoff_assembly_free.
 */
#ifndef HANDOFF_ASSEMBLE_ASSEMBLE_H
#define HANDOFF_ASSEMBLE_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/assemble/plan.h"
#include "client/assemble/request.h"
#include "client/assemble/segment.h"
#include "client/envelope/digest.h"
#include "client/envelope/excerpt.h"
#include "client/envelope/read.h"
#include "client/envelope/trace.h"
#include "client/handoff.h"
#include "client/spine/spine.h"
#include "client/store/store.h"
#include "lib/base/arena.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/base/uuid.h"

/* What all assemblies share. Read-only once it is set up; any thread. */
struct handoff_assembler {
    const struct handoff_tokenizer *tokenizer;
    struct handoff_spine *spine;
    struct handoff_store *store;
    const struct base_clock *clock;
    const struct base_random *random;
    struct base_uuid_source *uuids;
    size_t memory_max_bytes; /* a memory with more goes by its summary */

    /* tokens of the lists' glue, counted once by handoff_assembler_prepare */
    uint32_t memories_none, memories_some, history_none, history_some;
};

enum handoff_code handoff_assembler_prepare(struct handoff_assembler *assembler,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* One memory of the request, as it will stand in the envelope. */
struct handoff_slot {
    struct handoff_segment_memory show;
    enum handoff_rank rank;
    enum handoff_importance importance;
    double relevance;              /* to the summary; 0 where it was not searched for */
    int64_t version;               /* of what was counted */
    bool content_stays;            /* too large or a conversation: only its summary may go */
    uint32_t known[HANDOFF_FORMS]; /* tokens of its segments; 0: not counted yet */
    bool learned[HANDOFF_FORMS];   /* the count is new, and the spine should keep it */
};

struct handoff_missing {
    struct base_span id;
    const char *reason;
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
    /* given; the texts are lent for the first run, the rest until the end */
    const struct handoff_assembler *with;
    struct handoff_loop *loop;    /* whose target looks things up; the stages do not use it */
    struct base_mailbox *mailbox; /* where the spine's answer is waited for */
    struct base_span body;
    struct base_span caller;                              /* absent: anybody */
    struct base_span given_traceparent, given_tracestate; /* absent, or not checked yet */
    int64_t hop_max; /* the configured one; inherit lowers it to the parent's */
    /* makes of a "next" who that is, and tells what is configured for the target: token_budget,
       dual. Where nobody is next, the error is in assembly->error. */
    enum handoff_code (*target)(struct handoff_assembly *assembly);
    void *context; /* the caller's */
    /* called on the mailbox's loop when handoff_assembly_run answered false */
    void (*finished)(struct handoff_assembly *assembly);

    /* the verdict */
    struct handoff_error error;
    int64_t stage_ns[HANDOFF_STAGES]; /* 0: not reached */

    struct base_arena arena;
    unsigned stage; /* enum handoff_stage, the one that runs */
    int64_t stage_began_ns;
    uint64_t token_budget;
    bool dual;

    /* validate */
    struct handoff_request request;

    /* inherit */
    struct handoff_envelope parent; /* doc NULL: the chain begins here */
    struct base_span task_id, intent, traceparent, tracestate;
    yyjson_val *constraints;     /* NULL: there are none */
    yyjson_doc *constraints_doc; /* that has them, where some were inherited */
    int64_t hop_count;
    yyjson_val **steps; /* the parent's, then the request's new ones */
    size_t nsteps;
    size_t history_dropped; /* older ones, beyond what one envelope may have */

    /* resolve: one slot or one entry of missing per memory that was requested */
    struct handoff_spine_resolve resolve;
    struct base_span *ids;      /* that were asked for */
    bool ranked;                /* relevance to the summary was asked for */
    bool resolved;              /* the spine has answered what was waited for */
    int64_t asked_ns, spine_ns; /* when it was asked, and how long it took in all */
    struct handoff_slot *slots; /* in rank order */
    size_t nslots;
    struct handoff_missing *missing;
    size_t nmissing;

    /* trim */
    uint64_t budget;
    struct base_buffer parts; /* head, steps and tail of the context; see segment.h */
    size_t head_size;         /* of the first of them */
    size_t *step_at;          /* where each step begins in parts, and behind the last the tail */
    struct handoff_trim_plan plan;

    /* encode */
    struct base_uuid id;
    char id_text[BASE_UUID_TEXT];
    int64_t created_ms;
    struct base_buffer out;
    unsigned char digest[BASE_SHA256_BYTES];
    struct handoff_excerpt excerpt;
    size_t memories_at, memories_size; /* the array, in out */
    size_t included;
};

/* Runs the stages. True: it is over, look at error. False: the spine is being waited for, and
 * `finished` will be called. Either way the assembly is to be freed when it is over. */
bool handoff_assembly_run(struct handoff_assembly *assembly);
void handoff_assembly_free(struct handoff_assembly *assembly);
/* The same but for its arena, which may have the assembly itself: that is the caller's now. */
struct base_arena handoff_assembly_end(struct handoff_assembly *assembly);

/* Whether the target was on the path already, or hands off to itself. */
bool handoff_assembly_is_cycle(const struct handoff_assembly *assembly);

/* "resolve" and so on; static. */
const char *handoff_stage_name(enum handoff_stage stage);

/* What a stage comes to. */
enum handoff_progress {
    HANDOFF_PROGRESS_NEXT,
    HANDOFF_PROGRESS_WAIT,   /* it will be called again */
    HANDOFF_PROGRESS_RERANK, /* back to resolve, this time for relevance too */
    HANDOFF_PROGRESS_FAILED,
};

/* The stages, each in its own file; failures are in assembly->error. */
enum handoff_progress handoff_stage_inherit(struct handoff_assembly *assembly);
enum handoff_progress handoff_stage_resolve(struct handoff_assembly *assembly);
enum handoff_progress handoff_stage_trim(struct handoff_assembly *assembly);
enum handoff_progress handoff_stage_encode(struct handoff_assembly *assembly);

#endif
