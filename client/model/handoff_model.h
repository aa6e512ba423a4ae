/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff_model.h - the enums of handoff_model.def, and the names that the API has for them.
 *
 * Part of the public interface; handoff.h includes it. Names are static and never change once
 * released; each name function gives "" for a value that has no name, and may be called by any
 * thread.
 */
#ifndef HANDOFF_MODEL_H
#define HANDOFF_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a handoff is in its life. */
enum handoff_state {
    HANDOFF_STATE_NONE, /* not accepted yet */
#define HANDOFF_STATE(name, number, ...) HANDOFF_STATE_##name = (number),
#include "handoff_model.def"
};

/* Why it is not under way any more. */
enum handoff_reason {
    HANDOFF_REASON_NONE,
#define HANDOFF_REASON(name, ...) HANDOFF_REASON_##name,
#include "handoff_model.def"
};

/* Why an agent was passed over. */
enum handoff_obstacle {
    HANDOFF_OBSTACLE_NONE,
#define HANDOFF_OBSTACLE(name, ...) HANDOFF_OBSTACLE_##name,
#include "handoff_model.def"
};

/* How it ended for the first time. */
enum handoff_outcome {
    HANDOFF_OUTCOME_NONE, /* it has not */
#define HANDOFF_OUTCOME(name, ...) HANDOFF_OUTCOME_##name,
#include "handoff_model.def"
};

/* How one attempt ended. */
enum handoff_attempt_result {
#define HANDOFF_RESULT(name, number, ...) HANDOFF_RESULT_##name = (number),
#include "handoff_model.def"
};

/* Whom it is for. */
enum handoff_pattern {
#define HANDOFF_PATTERN(name, number, ...) HANDOFF_PATTERN_##name = (number),
#include "handoff_model.def"
};

/* What the breaker of an agent lets through. */
enum handoff_circuit {
#define HANDOFF_CIRCUIT(name, ...) HANDOFF_CIRCUIT_##name,
#include "handoff_model.def"
};

/* What a spine is asked. */
enum handoff_operation {
#define HANDOFF_OPERATION(name, ...) HANDOFF_OPERATION_##name,
#include "handoff_model.def"
};

/* How much a memory matters. */
enum handoff_importance {
#define HANDOFF_IMPORTANCE(name, number, ...) HANDOFF_IMPORTANCE_##name = (number),
#include "handoff_model.def"
};

/* How memories go into an envelope. */
enum handoff_strategy {
#define HANDOFF_STRATEGY(name, ...) HANDOFF_STRATEGY_##name,
#include "handoff_model.def"
};

/* Why an envelope lacks a memory that was asked for. */
enum handoff_absence {
    HANDOFF_ABSENCE_NONE,
#define HANDOFF_ABSENCE(name, ...) HANDOFF_ABSENCE_##name,
#include "handoff_model.def"
};

/* What a request adds to the ledger of its chain. */
enum handoff_item_kind {
#define HANDOFF_ITEM(name, ...) HANDOFF_ITEM_##name,
#include "handoff_model.def"
};

/* What of a context gives way to a token budget. */
enum handoff_part {
#define HANDOFF_PART(name, ...) HANDOFF_PART_##name,
#include "handoff_model.def"
};

/* What became of it. */
enum handoff_presence {
#define HANDOFF_PRESENCE(name, ...) HANDOFF_PRESENCE_##name,
#include "handoff_model.def"
};

/* What became of a memory that an envelope lacked. */
enum handoff_recovery {
#define HANDOFF_RECOVERY(name, ...) HANDOFF_RECOVERY_##name,
#include "handoff_model.def"
};

/* How handoffs reach an agent. */
enum handoff_protocol_kind {
#define HANDOFF_PROTOCOL(name, ...) HANDOFF_PROTOCOL_##name,
#include "handoff_model.def"
};

/* What was decided about a handoff. */
enum handoff_action {
#define HANDOFF_ACTION(name, number, ...) HANDOFF_ACTION_##name = (number),
#include "handoff_model.def"
};

/* What became of one handoff of a bulk job. */
enum handoff_fate {
#define HANDOFF_FATE(name, number, ...) HANDOFF_FATE_##name = (number),
#include "handoff_model.def"
};

/* Where a run that replays parked handoffs is. */
enum handoff_run_state {
#define HANDOFF_RUN(name, ...) HANDOFF_RUN_##name,
#include "handoff_model.def"
};

/* The names that no agent can have. */
enum handoff_reserved {
#define HANDOFF_RESERVED(name, ...) HANDOFF_RESERVED_##name,
#include "handoff_model.def"
};

/* What we ran out of ourselves. */
enum handoff_shortage {
    HANDOFF_SHORTAGE_NONE,
#define HANDOFF_SHORTAGE(name, ...) HANDOFF_SHORTAGE_##name,
#include "handoff_model.def"
};

/* The credentials that are recognized in text. */
enum handoff_secret {
    HANDOFF_SECRET_NONE,
#define HANDOFF_SECRET(name, ...) HANDOFF_SECRET_##name,
#include "handoff_model.def"
};

/* Where a credential was found. */
enum handoff_secret_place {
#define HANDOFF_SECRET_PLACE(name, ...) HANDOFF_SECRET_PLACE_##name,
#include "handoff_model.def"
};

/* What is done about it. */
enum handoff_secret_policy {
#define HANDOFF_SECRET_POLICY(name, ...) HANDOFF_SECRET_POLICY_##name,
#include "handoff_model.def"
};

/* For arrays that are indexed by the enum; where it has a NONE, that counts too. Each row adds 1.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
enum {
    HANDOFF_REASON_COUNT = 1
#define HANDOFF_REASON(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_OBSTACLE_COUNT = 1
#define HANDOFF_OBSTACLE(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_OUTCOME_COUNT = 1
#define HANDOFF_OUTCOME(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_RESULT_COUNT = 0
#define HANDOFF_RESULT(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_PATTERN_COUNT = 0
#define HANDOFF_PATTERN(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_CIRCUIT_COUNT = 0
#define HANDOFF_CIRCUIT(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_OPERATION_COUNT = 0
#define HANDOFF_OPERATION(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_ITEM_COUNT = 0
#define HANDOFF_ITEM(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_PART_COUNT = 0
#define HANDOFF_PART(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_PRESENCE_COUNT = 0
#define HANDOFF_PRESENCE(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_RECOVERY_COUNT = 0
#define HANDOFF_RECOVERY(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_ACTION_COUNT = 0
#define HANDOFF_ACTION(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_FATE_COUNT = 0
#define HANDOFF_FATE(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_SHORTAGE_COUNT = 1
#define HANDOFF_SHORTAGE(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_SECRET_COUNT = 1
#define HANDOFF_SECRET(...) +1
#include "handoff_model.def"
    ,
    HANDOFF_SECRET_PLACE_COUNT = 0
#define HANDOFF_SECRET_PLACE(...) +1
#include "handoff_model.def"
};
/* NOLINTEND(bugprone-macro-parentheses) */

const char *handoff_state_name(enum handoff_state state);
const char *handoff_reason_name(enum handoff_reason reason);
const char *handoff_obstacle_name(enum handoff_obstacle obstacle);
const char *handoff_outcome_name(enum handoff_outcome outcome);
const char *handoff_result_name(enum handoff_attempt_result result);
const char *handoff_pattern_name(enum handoff_pattern pattern);
const char *handoff_circuit_name(enum handoff_circuit circuit);
const char *handoff_operation_name(enum handoff_operation operation);
const char *handoff_importance_name(enum handoff_importance importance);
const char *handoff_strategy_name(enum handoff_strategy strategy);
const char *handoff_absence_name(enum handoff_absence absence);
const char *handoff_item_name(enum handoff_item_kind kind);
const char *handoff_part_name(enum handoff_part part);
const char *handoff_presence_name(enum handoff_presence presence);
const char *handoff_recovery_name(enum handoff_recovery recovery);
const char *handoff_protocol_name(enum handoff_protocol_kind protocol);
const char *handoff_action_name(enum handoff_action action);
const char *handoff_fate_name(enum handoff_fate fate);
const char *handoff_run_state_name(enum handoff_run_state state);
const char *handoff_reserved_name(enum handoff_reserved reserved);
const char *handoff_secret_name(enum handoff_secret secret);
const char *handoff_secret_place_name(enum handoff_secret_place place);

/* Is it one of the names that no agent can have? */
bool handoff_name_is_reserved(const char *name, size_t size);
const char *handoff_shortage_name(enum handoff_shortage shortage);

/* What a system call ran out of that failed with this errno, for whatever it was called; NONE: it
 * failed for another reason. EADDRNOTAVAIL is not here: of a connect it can mean either. */
enum handoff_shortage handoff_shortage_of_errno(int error);

/* The state of this name; HANDOFF_STATE_NONE where none has it, or `name` is NULL. */
enum handoff_state handoff_state_of_name(const char *name);
/* It is being worked on, and a restart resumes it. */
bool handoff_state_is_live(enum handoff_state state);
/* Nothing changes it any more. */
bool handoff_state_is_over(enum handoff_state state);

/* Whether handoffs are parked for it. */
bool handoff_reason_parks(enum handoff_reason reason);

#ifdef __cplusplus
}
#endif

#endif
