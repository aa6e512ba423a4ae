/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two skew heaps. What leaves from the middle is put into the second one, and both roots are taken
 * away when they meet; so no handoff has to be found, and nothing of it is in memory but its time.
 *
 * Any thread. Entries are allocated before the agent's lock is taken and freed after it is
 * released.
 */
#include "client/agents/parked.h"

#include <pthread.h>

#include "client/agents/agents.h"
#include "lib/base/check.h"
#include "lib/base/memory.h"

struct handoff_parked_entry {
    int64_t settled_ms;
    struct handoff_parked_entry *left, *right;
};

static struct handoff_parked_entry *merge_heaps(struct handoff_parked_entry *a,
                                                struct handoff_parked_entry *b)
{
    struct handoff_parked_entry *root = NULL, **link = &root;
    while (a && b) {
        if (b->settled_ms < a->settled_ms) {
            struct handoff_parked_entry *older = b;
            b = a;
            a = older;
        }
        struct handoff_parked_entry *rest = a->right;
        *link = a;
        a->right = a->left;
        link = &a->left;
        a = rest;
    }
    *link = a ? a : b;
    return root;
}

/* Takes the root away and puts it on the list of those to be freed, which is linked by `left`. */
static void take_root(struct handoff_parked_entry **heap, struct handoff_parked_entry **freed)
{
    struct handoff_parked_entry *root = *heap;
    *heap = merge_heaps(root->left, root->right);
    root->left = *freed;
    *freed = root;
}

/* The root of `here` is then one that is parked. One that left without having been put here, for
   want of memory, is older than all that are. */
static void settle(struct handoff_parked *parked, struct handoff_parked_entry **freed)
{
    while (parked->gone &&
           (!parked->here || parked->gone->settled_ms <= parked->here->settled_ms)) {
        if (parked->here && parked->here->settled_ms == parked->gone->settled_ms)
            take_root(&parked->here, freed);
        take_root(&parked->gone, freed);
    }
}

static void free_list(struct handoff_parked_entry *freed)
{
    while (freed) {
        struct handoff_parked_entry *next = freed->left;
        base_free(freed);
        freed = next;
    }
}

static struct handoff_parked_entry *make_entry(int64_t settled_ms)
{
    struct handoff_parked_entry *made = base_calloc(1, sizeof *made);
    if (made)
        made->settled_ms = settled_ms;
    return made;
}

void handoff_parked_note(struct handoff_agent *agent, int64_t settled_ms)
{
    struct handoff_parked_entry *made = make_entry(settled_ms), *freed = NULL;
    struct handoff_parked *parked = &agent->parked;
    pthread_mutex_lock(&agent->lock);
    parked->count++;
    parked->here = merge_heaps(parked->here, made);
    settle(parked, &freed);
    pthread_mutex_unlock(&agent->lock);
    free_list(freed);
}

void handoff_parked_forget(struct handoff_agent *agent, int64_t settled_ms)
{
    struct handoff_parked_entry *made = make_entry(settled_ms), *freed = NULL;
    struct handoff_parked *parked = &agent->parked;
    pthread_mutex_lock(&agent->lock);
    BASE_CHECK(parked->count > 0);
    parked->count--;
    parked->gone = merge_heaps(parked->gone, made);
    settle(parked, &freed);
    while (parked->count == 0 && parked->here)
        take_root(&parked->here, &freed);
    pthread_mutex_unlock(&agent->lock);
    free_list(freed);
}

int64_t handoff_parked_oldest_ms(const struct handoff_parked *parked)
{
    return parked->here ? parked->here->settled_ms : 0;
}

void handoff_parked_clear(struct handoff_parked *parked)
{
    struct handoff_parked_entry *freed = NULL;
    while (parked->here)
        take_root(&parked->here, &freed);
    while (parked->gone)
        take_root(&parked->gone, &freed);
    free_list(freed);
    *parked = (struct handoff_parked){0};
}
