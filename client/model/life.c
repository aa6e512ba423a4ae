/* SPDX-License-Identifier: Apache-2.0 */
#include "client/model/life.h"

#include <string.h>

#include "lib/base/check.h"

enum kind { LIVE, REST, OVER };

static const struct {
    const char *name;
    enum handoff_state state;
    enum kind kind;
} states[] = {
#define STATE(name, text, number, kind) {text, HANDOFF_STATE_##name, kind},
#define MOVE(from, to, what)
#include "client/model/life.def"
#undef STATE
#undef MOVE
};

static const struct {
    enum handoff_state from, to;
    const char *what;
} moves[] = {
#define STATE(name, text, number, kind)
#define MOVE(from, to, what) {HANDOFF_STATE_##from, HANDOFF_STATE_##to, what},
#include "client/model/life.def"
#undef STATE
#undef MOVE
};

enum { STATES = sizeof states / sizeof *states, MOVES = sizeof moves / sizeof *moves };

static size_t row_of(enum handoff_state state)
{
    size_t i = 0;
    while (i < STATES && states[i].state != state)
        i++;
    BASE_CHECK(i < STATES);
    return i;
}

const char *handoff_state_name(enum handoff_state state)
{
    return states[row_of(state)].name;
}

bool handoff_state_from_name(const char *name, size_t size, enum handoff_state *state)
{
    for (size_t i = 0; i < STATES; i++) {
        if (strlen(states[i].name) == size && memcmp(states[i].name, name, size) == 0) {
            *state = states[i].state;
            return true;
        }
    }
    return false;
}

bool handoff_state_from_number(int number, enum handoff_state *state)
{
    for (size_t i = 0; i < STATES; i++) {
        if ((int)states[i].state == number) {
            *state = states[i].state;
            return true;
        }
    }
    return false;
}

bool handoff_state_is_live(enum handoff_state state)
{
    return states[row_of(state)].kind == LIVE;
}

bool handoff_state_is_over(enum handoff_state state)
{
    return states[row_of(state)].kind == OVER;
}

const char *handoff_life_move(enum handoff_state from, enum handoff_state to)
{
    for (size_t i = 0; i < MOVES; i++) {
        if (moves[i].from == from && moves[i].to == to)
            return moves[i].what;
    }
    return NULL;
}
