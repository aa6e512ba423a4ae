/* SPDX-License-Identifier: Apache-2.0 */
/* life.h - the states of a handoff and the moves between them, from life.def. */
#ifndef HANDOFF_MODEL_LIFE_H
#define HANDOFF_MODEL_LIFE_H

#include <stdbool.h>
#include <stddef.h>

enum handoff_state {
#define STATE(name, text, number, kind) HANDOFF_STATE_##name = (number),
#define MOVE(from, to, what)
#include "client/model/life.def"
#undef STATE
#undef MOVE
};

/* "ready" and so on; static. */
const char *handoff_state_name(enum handoff_state state);
/* false where no state has this name, or this number (of a row that a newer version wrote). */
bool handoff_state_from_name(const char *name, size_t size, enum handoff_state *state);
bool handoff_state_from_number(int number, enum handoff_state *state);

/* Somebody works on it, and a restart resumes it. */
bool handoff_state_is_live(enum handoff_state state);
/* Nothing changes it any more. */
bool handoff_state_is_over(enum handoff_state state);

/* What happened when a handoff went from one to the other; NULL where it cannot. */
const char *handoff_life_move(enum handoff_state from, enum handoff_state to);

#endif
