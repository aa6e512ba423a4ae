/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the model, all of them generated from handoff_model.def. Constant data and pure
 * functions, any thread.
 */
#include "client/model/model.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "lib/base/check.h"

/* ---- names ---------------------------------------------------------------------------------- */

static const char *const state_names[] = {[HANDOFF_STATE_NONE] = "",
#define HANDOFF_STATE(name, number, text, ...) [number] = (text),
#include "client/model/handoff_model.def"
                                          NULL};

static const char *const reason_names[] = {[HANDOFF_REASON_NONE] = "",
#define HANDOFF_REASON(name, text, ...) [HANDOFF_REASON_##name] = (text),
#include "client/model/handoff_model.def"
                                           NULL};

static const char *const obstacle_names[] = {[HANDOFF_OBSTACLE_NONE] = "",
#define HANDOFF_OBSTACLE(name, text, ...) [HANDOFF_OBSTACLE_##name] = (text),
#include "client/model/handoff_model.def"
                                             NULL};

const char *const handoff_outcome_names[] = {[HANDOFF_OUTCOME_NONE] = "",
#define HANDOFF_OUTCOME(name, text, ...) [HANDOFF_OUTCOME_##name] = (text),
#include "client/model/handoff_model.def"
                                             NULL};

const char *const handoff_result_names[] = {
#define HANDOFF_RESULT(name, number, text, ...) [number] = (text),
#include "client/model/handoff_model.def"
    NULL};

const char *const handoff_pattern_names[] = {
#define HANDOFF_PATTERN(name, number, text, ...) [number] = (text),
#include "client/model/handoff_model.def"
    NULL};

static const char *const circuit_names[] = {
#define HANDOFF_CIRCUIT(name, text, ...) [HANDOFF_CIRCUIT_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

static const char *const operation_names[] = {
#define HANDOFF_OPERATION(name, text, ...) [HANDOFF_OPERATION_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

const char *const handoff_importance_names[] = {
#define HANDOFF_IMPORTANCE(name, number, text) [number] = (text),
#include "client/model/handoff_model.def"
    NULL};

const char *const handoff_strategy_names[] = {
#define HANDOFF_STRATEGY(name, text, ...) [HANDOFF_STRATEGY_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

static const char *const absence_names[] = {[HANDOFF_ABSENCE_NONE] = "",
#define HANDOFF_ABSENCE(name, text, ...) [HANDOFF_ABSENCE_##name] = (text),
#include "client/model/handoff_model.def"
                                            NULL};

const char *const handoff_item_names[] = {
#define HANDOFF_ITEM(name, text, ...) [HANDOFF_ITEM_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

static const char *const part_names[] = {
#define HANDOFF_PART(name, text, ...) [HANDOFF_PART_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

static const char *const presence_names[] = {
#define HANDOFF_PRESENCE(name, text, ...) [HANDOFF_PRESENCE_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

static const char *const recovery_names[] = {
#define HANDOFF_RECOVERY(name, text, ...) [HANDOFF_RECOVERY_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

const char *const handoff_protocol_names[] = {
#define HANDOFF_PROTOCOL(name, text, ...) [HANDOFF_PROTOCOL_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

const char *const handoff_action_names[] = {
#define HANDOFF_ACTION(name, number, text, ...) [number] = (text),
#include "client/model/handoff_model.def"
    NULL};

const char *const handoff_fate_names[] = {
#define HANDOFF_FATE(name, number, text, ...) [number] = (text),
#include "client/model/handoff_model.def"
    NULL};

const char *const handoff_run_state_names[] = {
#define HANDOFF_RUN(name, text, ...) [HANDOFF_RUN_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

static const char *const reserved_names[] = {
#define HANDOFF_RESERVED(name, text, ...) [HANDOFF_RESERVED_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

static const char *const shortage_names[] = {[HANDOFF_SHORTAGE_NONE] = "",
#define HANDOFF_SHORTAGE(name, text, ...) [HANDOFF_SHORTAGE_##name] = (text),
#include "client/model/handoff_model.def"
                                             NULL};

static const char *const secret_names[] = {[HANDOFF_SECRET_NONE] = "",
#define HANDOFF_SECRET(name, text, ...) [HANDOFF_SECRET_##name] = (text),
#include "client/model/handoff_model.def"
                                           NULL};

static const char *const secret_place_names[] = {
#define HANDOFF_SECRET_PLACE(name, text, ...) [HANDOFF_SECRET_PLACE_##name] = (text),
#include "client/model/handoff_model.def"
    NULL};

/* The last entry of a list is its NULL. */
#define NAME_IN(names, number)                                                                     \
    ((size_t)(number) < sizeof(names) / sizeof *(names)-1 ? (names)[number] : "")

const char *handoff_state_name(enum handoff_state state)
{
    return NAME_IN(state_names, state);
}

const char *handoff_reason_name(enum handoff_reason reason)
{
    return NAME_IN(reason_names, reason);
}

const char *handoff_obstacle_name(enum handoff_obstacle obstacle)
{
    return NAME_IN(obstacle_names, obstacle);
}

const char *handoff_outcome_name(enum handoff_outcome outcome)
{
    return NAME_IN(handoff_outcome_names, outcome);
}

const char *handoff_result_name(enum handoff_attempt_result result)
{
    return NAME_IN(handoff_result_names, result);
}

const char *handoff_pattern_name(enum handoff_pattern pattern)
{
    return NAME_IN(handoff_pattern_names, pattern);
}

const char *handoff_circuit_name(enum handoff_circuit circuit)
{
    return NAME_IN(circuit_names, circuit);
}

const char *handoff_operation_name(enum handoff_operation operation)
{
    return NAME_IN(operation_names, operation);
}

const char *handoff_importance_name(enum handoff_importance importance)
{
    return NAME_IN(handoff_importance_names, importance);
}

const char *handoff_strategy_name(enum handoff_strategy strategy)
{
    return NAME_IN(handoff_strategy_names, strategy);
}

const char *handoff_absence_name(enum handoff_absence absence)
{
    return NAME_IN(absence_names, absence);
}

const char *handoff_item_name(enum handoff_item_kind kind)
{
    return NAME_IN(handoff_item_names, kind);
}

const char *handoff_part_name(enum handoff_part part)
{
    return NAME_IN(part_names, part);
}

const char *handoff_presence_name(enum handoff_presence presence)
{
    return NAME_IN(presence_names, presence);
}

const char *handoff_recovery_name(enum handoff_recovery recovery)
{
    return NAME_IN(recovery_names, recovery);
}

const char *handoff_protocol_name(enum handoff_protocol_kind protocol)
{
    return NAME_IN(handoff_protocol_names, protocol);
}

const char *handoff_action_name(enum handoff_action action)
{
    return NAME_IN(handoff_action_names, action);
}

const char *handoff_fate_name(enum handoff_fate fate)
{
    return NAME_IN(handoff_fate_names, fate);
}

const char *handoff_run_state_name(enum handoff_run_state state)
{
    return NAME_IN(handoff_run_state_names, state);
}

const char *handoff_reserved_name(enum handoff_reserved reserved)
{
    return NAME_IN(reserved_names, reserved);
}

const char *handoff_secret_name(enum handoff_secret secret)
{
    return NAME_IN(secret_names, secret);
}

const char *handoff_secret_place_name(enum handoff_secret_place place)
{
    return NAME_IN(secret_place_names, place);
}

bool handoff_name_is_reserved(const char *name, size_t size)
{
    return handoff_name_find(reserved_names, base_span(name, size)) >= 0;
}

const char *handoff_shortage_name(enum handoff_shortage shortage)
{
    return NAME_IN(shortage_names, shortage);
}

enum handoff_shortage handoff_shortage_of_errno(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
        return HANDOFF_SHORTAGE_DESCRIPTORS;
    case ENOMEM:
    case ENOBUFS:
        return HANDOFF_SHORTAGE_MEMORY;
    default:
        return HANDOFF_SHORTAGE_NONE;
    }
}

int handoff_name_find(const char *const *names, struct base_span name)
{
    for (int i = 0; names[i]; i++) {
        if (strlen(names[i]) == name.size &&
            (!name.size || !memcmp(names[i], name.data, name.size)))
            return i;
    }
    return -1;
}

/* ---- the life of a handoff ------------------------------------------------------------------ */

enum life { NOT_YET, LIVE, REST, OVER };

static const enum life lives[] = {
#define HANDOFF_STATE(name, number, text, kind, ...) [number] = kind,
#include "client/model/handoff_model.def"
};

static const struct {
    enum handoff_state from, to;
    const char *what;
} moves[] = {
#define HANDOFF_MOVE(from, to, what) {HANDOFF_STATE_##from, HANDOFF_STATE_##to, what},
#include "client/model/handoff_model.def"
};

static enum life life_of(enum handoff_state state)
{
    BASE_CHECK((size_t)state < sizeof lives / sizeof *lives && lives[state] != NOT_YET);
    return lives[state];
}

enum handoff_state handoff_state_of_name(const char *name)
{
    int number = name ? handoff_name_find(state_names, base_span_text(name)) : -1;
    return number > 0 ? (enum handoff_state)number : HANDOFF_STATE_NONE;
}

bool handoff_state_from_number(int number, enum handoff_state *state)
{
    if (number < 0 || (size_t)number >= sizeof lives / sizeof *lives || lives[number] == NOT_YET)
        return false;
    *state = (enum handoff_state)number;
    return true;
}

bool handoff_state_is_live(enum handoff_state state)
{
    return life_of(state) == LIVE;
}

bool handoff_state_is_over(enum handoff_state state)
{
    return life_of(state) == OVER;
}

const char *handoff_life_move(enum handoff_state from, enum handoff_state to)
{
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        if (moves[i].from == from && moves[i].to == to)
            return moves[i].what;
    }
    return NULL;
}

/* ---- reasons and obstacles ------------------------------------------------------------------- */

enum reason_kind { NO_REASON, PARKS, ENDS, WORDS };

static const struct {
    enum reason_kind kind;
    enum handoff_outcome outcome;
    const char *detail;
} reasons[HANDOFF_REASON_COUNT] = {
    [HANDOFF_REASON_NONE] = {NO_REASON, HANDOFF_OUTCOME_NONE, ""},
#define HANDOFF_REASON(name, text, kind, outcome, meaning)                                         \
    [HANDOFF_REASON_##name] = {kind, HANDOFF_OUTCOME_##outcome, meaning "; the handoff is parked"},
#include "client/model/handoff_model.def"
};

static const enum handoff_reason obstacle_reasons[HANDOFF_OBSTACLE_COUNT] = {
#define HANDOFF_OBSTACLE(name, text, reason, ...)                                                  \
    [HANDOFF_OBSTACLE_##name] = HANDOFF_REASON_##reason,
#include "client/model/handoff_model.def"
};

enum handoff_reason handoff_reason_from_name(struct base_span name)
{
    int number = handoff_name_find(reason_names, name);
    return number < 0 ? HANDOFF_REASON_OTHER : (enum handoff_reason)number;
}

bool handoff_reason_parks(enum handoff_reason reason)
{
    return (size_t)reason < HANDOFF_REASON_COUNT && reasons[reason].kind == PARKS;
}

const char *handoff_reason_detail(enum handoff_reason reason)
{
    BASE_CHECK((size_t)reason < HANDOFF_REASON_COUNT);
    return reasons[reason].detail;
}

enum handoff_outcome handoff_reason_outcome(enum handoff_reason reason)
{
    BASE_CHECK((size_t)reason < HANDOFF_REASON_COUNT && reasons[reason].kind != NO_REASON);
    return reasons[reason].outcome;
}

enum handoff_reason handoff_obstacle_reason(enum handoff_obstacle obstacle)
{
    BASE_CHECK((size_t)obstacle < HANDOFF_OBSTACLE_COUNT && obstacle != HANDOFF_OBSTACLE_NONE);
    return obstacle_reasons[obstacle];
}

/* ---- memories -------------------------------------------------------------------------------- */

bool handoff_importance_parse(struct base_span name, enum handoff_importance *importance)
{
    int number = handoff_name_find(handoff_importance_names, name);
    if (number >= 0)
        *importance = (enum handoff_importance)number;
    return number >= 0;
}
