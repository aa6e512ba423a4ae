/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - what the client itself needs of the model beside handoff_model.h: reading names and
 * numbers back, the moves that are allowed, and names as lists for tables of fields.
 *
 * Any thread.
 */
#ifndef HANDOFF_MODEL_MODEL_H
#define HANDOFF_MODEL_MODEL_H

#include "client/model/handoff_model.h"
#include "lib/base/span.h"

/* Names by number, up to NULL. */
extern const char *const handoff_outcome_names[]; /* the one of NONE is "" */
extern const char *const handoff_result_names[];
extern const char *const handoff_pattern_names[];
extern const char *const handoff_importance_names[];
extern const char *const handoff_strategy_names[];
extern const char *const handoff_item_names[];
extern const char *const handoff_protocol_names[];
extern const char *const handoff_action_names[];
extern const char *const handoff_fate_names[];
extern const char *const handoff_run_state_names[];

/* The number of a name among such a list; -1 where it is not there. */
int handoff_name_find(const char *const *names, struct base_span name);

/* false where no state has this number: a newer version wrote it. */
bool handoff_state_from_number(int number, enum handoff_state *state);
/* What happened when a handoff went from one to the other; NULL where it cannot. */
const char *handoff_life_move(enum handoff_state from, enum handoff_state to);

/* NONE for an empty or absent one, OTHER for one that is not the name of a reason. */
enum handoff_reason handoff_reason_from_name(struct base_span name);
/* For a sender: what the reason means, and that the handoff is parked; "" for NONE. */
const char *handoff_reason_detail(enum handoff_reason reason);
/* How a handoff ended that was parked for it, or expired. */
enum handoff_outcome handoff_reason_outcome(enum handoff_reason reason);
/* For what a handoff is parked where the agent was the last to try. */
enum handoff_reason handoff_obstacle_reason(enum handoff_obstacle obstacle);

bool handoff_importance_parse(struct base_span name, enum handoff_importance *importance);

#endif
