/* SPDX-License-Identifier: Apache-2.0 */
/* Walks from a hop to its ancestors; see lineage.h. One thread. */
#include "client/ledger/lineage.h"

#include "lib/base/check.h"

static bool continues(const struct handoff_said *said, size_t place)
{
    for (size_t i = 0; i < said->nparents; i++) {
        if (said->parents[i] == place)
            return true;
    }
    return false;
}

bool handoff_lineage_init(struct handoff_lineage *lineage, struct base_arena *arena,
                          const struct handoff_said *said, size_t count)
{
    *lineage = (struct handoff_lineage){.said = said, .count = count, .line = count > 0};
    while (lineage->line < count && continues(&said[lineage->line], lineage->line - 1))
        lineage->line++;
    if (handoff_lineage_is_line(lineage))
        return true;
    lineage->known_to = base_arena_calloc(arena, count, sizeof *lineage->known_to);
    lineage->next = base_arena_alloc(arena, count * sizeof *lineage->next);
    return lineage->known_to && lineage->next;
}

bool handoff_lineage_is_line(const struct handoff_lineage *lineage)
{
    return lineage->line == lineage->count;
}

/* Each is visited once, so there is room for all. */
static size_t note_parents(struct handoff_lineage *lineage, size_t of, size_t place, size_t waiting)
{
    const struct handoff_said *said = &lineage->said[of];
    lineage->looked_at += said->nparents;
    for (size_t i = 0; i < said->nparents; i++) {
        const size_t parent = said->parents[i];
        BASE_CHECK(parent < of);
        if (lineage->known_to[parent] == place)
            continue;
        lineage->known_to[parent] = place;
        lineage->next[waiting++] = parent;
    }
    return waiting;
}

static void note_ancestors(struct handoff_lineage *lineage, size_t place)
{
    lineage->known_to[place] = place;
    size_t waiting = note_parents(lineage, place, place, 0);
    while (waiting > 0) {
        waiting--;
        waiting = note_parents(lineage, lineage->next[waiting], place, waiting);
    }
}

bool handoff_lineage_knows_all(const struct handoff_lineage *lineage, size_t place)
{
    return place == lineage->count || place < lineage->line;
}

/* Place 0 is in the line, so that 0 in known_to is nobody. */
bool handoff_lineage_knows(struct handoff_lineage *lineage, size_t place, size_t other)
{
    BASE_CHECK(other <= place && place <= lineage->count);
    if (place == other || handoff_lineage_knows_all(lineage, place))
        return true;
    if (lineage->known_to[place] != place)
        note_ancestors(lineage, place);
    return lineage->known_to[other] == place;
}
