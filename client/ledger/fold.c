/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds what the hops of a chain have said into its ledger, by the rules of ledger.h.
 *
 * One walk over all items makes an entry of each; a set finds those that were said before; what
 * does not stand any more is only marked. At the end the entries are dealt out to the lists by
 * kind, so that each list is in the order of the walk. Pure but for the arena, any thread.
 */
#include "client/ledger/ledger.h"

#include <string.h>

#include "client/handoff.h"
#include "client/ledger/constraints.h"
#include "client/ledger/lineage.h"
#include "client/ledger/same.h"
#include "client/ledger/set.h"
#include "client/ledger/step_agents.h"
#include "client/model/model.h"
#include "lib/base/buffer.h"
#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

enum {
    REFERENCE_MAX = 256, /* bytes of what a step may name; nothing longer is meant as an id */
    LOOKS_EACH = 100,    /* for each entry that a branched chain can have, before searches give up:
                            about a thousand siblings that say the same are compared exactly */
};

/* Who has resolved an entry. Not all hops need know of it. */
struct fold_taken {
    size_t by; /* a place, as `place` */
    const struct fold_taken *next;
};

struct fold_entry {
    struct handoff_item item;
    enum handoff_item_kind kind;
    size_t place;                   /* of the hop that said it, among what is folded */
    size_t repeated_by;             /* place, plus 1, of the last hop that sent this step again */
    const struct fold_taken *taken; /* NULL: nobody has */
    bool past;                      /* something newer of its name, or asked for, is current */
    bool is_twin;                   /* an equal one of a sibling stands for it */
};

/* The walk. Only one thread has it. */
struct fold {
    struct handoff_ledger *ledger;
    struct base_arena *arena;
    struct fold_entry *entries;
    size_t count, room;
    size_t
        idle; /* of the entries, those that only say again what was finished, or that nothing was */
    struct handoff_set set; /* of entries that something may equal or name */
    struct handoff_lineage lineage;
    struct handoff_step_agents agents; /* of the steps so far */
    struct handoff_step_agents *known; /* by place; NULL: each hop knows all before it */
    size_t *fruitless;                 /* by place, as of the ledger */
    size_t place;                      /* of what is being folded */
    const struct handoff_said *at;     /* what is being folded */
    const struct handoff_hop *hop;     /* its hop, as the items name it */
    size_t looked_at;                  /* besides what the set and the lineage look at */
    bool own;                          /* it is the request's */
    bool failed;                       /* out of memory */
    yyjson_val *handed;            /* array: a step for the summary of each that was said before */
    struct handoff_joined *joined; /* constraints; NULL: at most one hop named some */
    bool has_joined;               /* and the ledger does not have them yet */
    bool was_revised;              /* an edit was among them, so only one deadline holds: */
    yyjson_val *deadline;
};

/* ---- entries ----------------------------------------------------------------------------------
 */

static struct fold_entry *add_entry(struct fold *fold, enum handoff_item_kind kind,
                                    yyjson_val *value)
{
    BASE_CHECK(fold->entries && fold->count < fold->room);
    struct fold_entry *entry = &fold->entries[fold->count++];
    *entry = (struct fold_entry){
        .item = {.from = fold->hop, .value = value}, .kind = kind, .place = fold->place};
    return entry;
}

/* What an entry is found by. */
struct wanted_entry {
    struct fold *fold;
    enum handoff_item_kind kind;
    yyjson_val *value;
    struct base_span name;
};

static uint64_t hash_kind(enum handoff_item_kind kind, uint64_t hash)
{
    return (hash ^ (uint64_t)kind) * 0x9e3779b97f4a7c15u;
}

/* Nothing finds it again, and the set forgets it. A hop that does not know who has resolved an
 * entry finds that entry as it was. */
static bool entry_is_gone(const void *context, size_t number)
{
    const struct fold *fold = context;
    const struct fold_entry *entry = &fold->entries[number];
    return entry->past || (entry->taken && handoff_lineage_is_line(&fold->lineage));
}

static bool knows(struct fold *fold, size_t place)
{
    return handoff_lineage_knows(&fold->lineage, fold->place, place);
}

/* Whether it is still open for the hop that is being folded. Where too many have resolved it to
 * find out, it is not: what the hop says about it again becomes a new entry, and is not lost. */
static bool stands_here(struct fold *fold, const struct fold_entry *entry)
{
    size_t looks = 0;
    if (!knows(fold, entry->place))
        return false;
    for (const struct fold_taken *taken = entry->taken; taken; taken = taken->next) {
        if (!handoff_set_look(&fold->set, &looks) || knows(fold, taken->by))
            return false;
    }
    return true;
}

static struct fold_entry *candidate(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    struct fold_entry *entry = &wanted->fold->entries[number];
    return entry->kind == wanted->kind ? entry : NULL;
}

static bool equals_known(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    const struct fold_entry *entry = candidate(context, number);
    return entry && stands_here(wanted->fold, entry) &&
           handoff_same_entry(entry->item.value, wanted->value);
}

/* No matter who said it. */
static bool equals_current(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    const struct fold_entry *entry = candidate(context, number);
    return entry && !entry->taken && handoff_same_entry(entry->item.value, wanted->value);
}

/* No matter who said it. */
static bool says_step(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    const struct fold_entry *entry = candidate(context, number);
    return entry && handoff_same_step(entry->item.value, wanted->value);
}

/* The hop knows itself, too. */
static bool says_step_here(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    return says_step(context, number) && knows(wanted->fold, wanted->fold->entries[number].place);
}

static bool is_known_step(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    return wanted->fold->entries[number].item.from != wanted->fold->hop &&
           says_step_here(context, number);
}

/* A request may have taken a step twice, so each one that is sent again is one that was said. */
static bool repeats_step(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    const struct fold_entry *entry = candidate(context, number);
    return entry && entry->repeated_by != wanted->fold->place + 1 && is_known_step(context, number);
}

static bool has_name(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    const struct fold_entry *entry = candidate(context, number);
    return entry && base_span_equal(entry->item.name, wanted->name);
}

/* Whether the constraint is there already. */
static bool is_constraint(const void *context, size_t number)
{
    const struct wanted_entry *wanted = context;
    const struct fold_entry *entry = candidate(context, number);
    return entry && base_span_equal(entry->item.name, wanted->name) &&
           base_json_equal(entry->item.value, wanted->value);
}

/* Texts and numbers can be ids; NULL: it is none. */
static yyjson_val *usable_id(yyjson_val *id)
{
    const bool is_text = yyjson_is_str(id) && handoff_trim_text(base_json_span(id)).size > 0;
    return is_text || yyjson_is_raw(id) ? id : NULL;
}

/* That an agent gave to an entry. */
static yyjson_val *id_of(yyjson_val *value)
{
    return yyjson_is_obj(value) ? usable_id(yyjson_obj_get(value, "id")) : NULL;
}

static struct fold_entry *find_said(struct fold *fold, enum handoff_item_kind kind, uint64_t hash,
                                    bool (*is_it)(const void *, size_t), yyjson_val *value,
                                    struct base_span name)
{
    const struct wanted_entry wanted = {fold, kind, value, name};
    const size_t number = handoff_set_find(&fold->set, hash_kind(kind, hash), is_it, &wanted);
    return number == HANDOFF_SET_NONE ? NULL : &fold->entries[number];
}

static void remember_entry(struct fold *fold, const struct fold_entry *entry, uint64_t hash)
{
    handoff_set_add(&fold->set, hash_kind(entry->kind, hash), (size_t)(entry - fold->entries));
}

/* ---- what is folded ---------------------------------------------------------------------------
 */

/* How many tokens an earlier hop counted; 0: it did not. */
static uint32_t counted_tokens(yyjson_val *counts, size_t index)
{
    int64_t tokens = 0;
    return base_json_whole(yyjson_arr_get(counts, index), &tokens) && tokens > 0 &&
                   tokens <= UINT32_MAX
               ? (uint32_t)tokens
               : 0;
}

static void fold_intent(struct fold *fold)
{
    yyjson_val *intent = fold->at->intent;
    const bool first = !fold->ledger->intent.data;
    if (!intent && first)
        intent = fold->at->summary;
    if (!intent)
        return;
    const struct base_span text = base_json_span(intent);
    if (!first && base_span_equal(text, fold->ledger->intent))
        return;
    add_entry(fold, HANDOFF_ITEM_INTENT, intent)->past = !first;
    if (first)
        fold->ledger->intent = text;
}

/* The newest of each name is current. */
static void fold_named(struct fold *fold, enum handoff_item_kind kind, yyjson_val *key,
                       yyjson_val *value)
{
    const struct base_span name = base_json_span(key);
    const uint64_t hash = handoff_hash_text(name);
    struct fold_entry *older = find_said(fold, kind, hash, has_name, NULL, name);
    if (older && base_json_equal(older->item.value, value))
        return;
    if (older)
        older->past = true;
    struct fold_entry *entry = add_entry(fold, kind, value);
    entry->item.name = name;
    remember_entry(fold, entry, hash);
}

/* It is past once all of it gave way to what is tighter, wherever that was named. It is found by
 * its name and its value nevertheless: many hops may add to one list of demands. */
static void fold_constraint(struct fold *fold, yyjson_val *key, yyjson_val *value)
{
    const struct base_span name = base_json_span(key);
    const uint64_t hash = handoff_hash_more(handoff_hash_text(name), handoff_hash_entry(value));
    if (find_said(fold, HANDOFF_ITEM_CONSTRAINT, hash, is_constraint, value, name))
        return;
    struct fold_entry *entry = add_entry(fold, HANDOFF_ITEM_CONSTRAINT, value);
    entry->item.name = name;
    remember_entry(fold, entry, hash);
}

static void fold_constraints(struct fold *fold)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!fold->at->constraints)
        return;
    yyjson_obj_foreach(fold->at->constraints, i, n, key, value)
    {
        if (yyjson_equals_str(key, "max_tokens"))
            fold_named(fold, HANDOFF_ITEM_CONSTRAINT, key, value);
        else
            fold_constraint(fold, key, value);
    }
}

/* ---- the state --------------------------------------------------------------------------------
 */

static const struct state_list {
    const char *name;
    enum handoff_item_kind kind;
    bool ends; /* it takes out what it lists; else it adds that */
} state_lists[] = {
    {"decisions", HANDOFF_ITEM_DECISION, false},  {"unresolved", HANDOFF_ITEM_UNRESOLVED, false},
    {"remaining", HANDOFF_ITEM_REMAINING, false}, {"resolved", HANDOFF_ITEM_UNRESOLVED, true},
    {"done", HANDOFF_ITEM_REMAINING, true},
};
enum { STATE_LISTS = sizeof state_lists / sizeof *state_lists };

static const struct state_list *list_named(yyjson_val *key)
{
    for (size_t i = 0; i < STATE_LISTS; i++) {
        if (yyjson_equals_str(key, state_lists[i].name))
            return &state_lists[i];
    }
    return NULL;
}

static bool is_in_state_list(enum handoff_item_kind kind)
{
    return kind == HANDOFF_ITEM_DECISION || kind == HANDOFF_ITEM_UNRESOLVED ||
           kind == HANDOFF_ITEM_REMAINING;
}

static void add_to_list(struct fold *fold, const struct state_list *list, yyjson_val *values)
{
    const struct base_span no_name = {0};
    yyjson_val *counts = yyjson_obj_get(fold->at->tokens, list->name);
    size_t i, n;
    yyjson_val *value;
    yyjson_arr_foreach(values, i, n, value)
    {
        const uint64_t hash = handoff_hash_entry(value);
        if (find_said(fold, list->kind, hash, equals_known, value, no_name))
            continue;
        struct fold_entry *entry = add_entry(fold, list->kind, value);
        entry->item.tokens = counted_tokens(counts, i);
        remember_entry(fold, entry, hash);
        if (id_of(value))
            remember_entry(fold, entry, handoff_hash_entry(id_of(value)));
    }
}

/* What a request resolves. */
struct fold_taking {
    struct fold *fold;
    enum handoff_item_kind kind;
    yyjson_val *value;
    yyjson_val *id; /* NULL: it has none */
    bool failed;    /* out of memory */
};

static bool takes(const struct fold_taking *taking, const struct fold_entry *entry)
{
    yyjson_val *id = id_of(entry->item.value);
    return entry->kind == taking->kind &&
           (handoff_same_entry(entry->item.value, taking->value) ||
            (id && taking->id && handoff_same_entry(id, taking->id)));
}

static void take_entry(void *context, size_t number)
{
    struct fold_taking *taking = context;
    struct fold *fold = taking->fold;
    struct fold_entry *entry = &fold->entries[number];
    if (!stands_here(fold, entry) || !takes(taking, entry))
        return;
    struct fold_taken *taken = base_arena_alloc(fold->arena, sizeof *taken);
    taking->failed |= !taken;
    if (!taken)
        return;
    *taken = (struct fold_taken){.by = fold->place, .next = entry->taken};
    entry->taken = taken;
}

/* What the hop did not know stays, even where it is equal. */
static void take_from_list(struct fold *fold, const struct state_list *list, yyjson_val *values)
{
    size_t i, n;
    yyjson_val *value;
    yyjson_arr_foreach(values, i, n, value)
    {
        struct fold_taking taking = {.fold = fold,
                                     .kind = list->kind,
                                     .value = value,
                                     .id = yyjson_is_obj(value) ? id_of(value) : usable_id(value)};
        const uint64_t hash = handoff_hash_entry(value);
        handoff_set_each(&fold->set, hash_kind(list->kind, hash), take_entry, &taking);
        if (taking.id && taking.id != value)
            handoff_set_each(&fold->set, hash_kind(list->kind, handoff_hash_entry(taking.id)),
                             take_entry, &taking);
        fold->failed |= taking.failed;
    }
}

/* What was finished is not remembered among the entries, so it is compared with the last hops', as
 * many as make a ping-pong: agents may send the same state with each handoff, with empty lists. */
static bool finishes_nothing_new(const struct fold *fold, yyjson_val *key, yyjson_val *values)
{
    const struct handoff_said *said = fold->at;
    size_t before = fold->place;
    if (yyjson_arr_size(values) == 0)
        return true;
    for (int i = 0; i < HANDOFF_PING_PONG_HOPS; i++) {
        if (said->nparents != 1 || said->parents[0] >= before)
            return false;
        before = said->parents[0];
        said = &fold->lineage.said[before];
        yyjson_val *earlier =
            yyjson_obj_getn(said->state, yyjson_get_str(key), yyjson_get_len(key));
        if (earlier && base_json_equal(earlier, values))
            return true;
    }
    return false;
}

/* What was finished is told to the next hop only. */
static void fold_other_member(struct fold *fold, yyjson_val *key, yyjson_val *value,
                              const struct state_list *list)
{
    const size_t count = fold->count;
    if (!list || fold->own) {
        fold_named(fold, HANDOFF_ITEM_STATE, key, value);
    } else {
        struct fold_entry *entry = add_entry(fold, HANDOFF_ITEM_STATE, value);
        entry->item.name = base_json_span(key);
        entry->past = true;
    }
    if (list && finishes_nothing_new(fold, key, value))
        fold->idle += fold->count - count;
}

static void fold_state(struct fold *fold)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!fold->at->state)
        return;
    yyjson_obj_foreach(fold->at->state, i, n, key, value)
    {
        const struct state_list *list = list_named(key);
        if (list && !list->ends && yyjson_is_arr(value))
            add_to_list(fold, list, value);
        else if (!list || list->ends)
            fold_other_member(fold, key, value, list && yyjson_is_arr(value) ? list : NULL);
    }
    for (i = 0; i < STATE_LISTS; i++) {
        value = yyjson_obj_get(fold->at->state, state_lists[i].name);
        if (state_lists[i].ends && yyjson_is_arr(value))
            take_from_list(fold, &state_lists[i], value);
    }
}

/* ---- references and steps ----------------------------------------------------------------------
 */

/* What a step names may be no possible id: then it is missing. A text has only possible ones. */
static bool can_be_reference(yyjson_val *id, bool mentioned)
{
    const struct base_span text = base_json_span(id);
    return text.size > 0 && text.size <= (mentioned ? HANDOFF_MEMORY_ID_MAX : REFERENCE_MAX);
}

static struct fold_entry *find_reference_to(struct fold *fold, struct base_span name)
{
    return find_said(fold, HANDOFF_ITEM_REFERENCE, handoff_hash_text(name), has_name, NULL, name);
}

/* An id that was asked for is more than one that was mentioned. */
static void fold_reference(struct fold *fold, yyjson_val *id, bool mentioned)
{
    if (!can_be_reference(id, mentioned))
        return;
    const struct base_span name = base_json_span(id);
    struct fold_entry *older = find_reference_to(fold, name);
    if (older && (mentioned || !older->item.mentioned))
        return;
    if (older)
        older->past = true;
    struct fold_entry *entry = add_entry(fold, HANDOFF_ITEM_REFERENCE, id);
    entry->item.name = name;
    entry->item.mentioned = mentioned;
    remember_entry(fold, entry, handoff_hash_text(name));
}

/* What was found once is an id, wherever it stands. */
static void fold_found(struct fold *fold)
{
    size_t i, n;
    yyjson_val *id;
    yyjson_arr_foreach(fold->at->found, i, n, id)
    {
        struct fold_entry *entry = find_reference_to(fold, base_json_span(id));
        if (!entry)
            continue;
        entry->item.mentioned = false;
        entry->item.missing_since = 0;
    }
}

static void fold_missing(struct fold *fold)
{
    size_t i, n;
    yyjson_val *id;
    yyjson_arr_foreach(fold->at->missing, i, n, id)
    {
        struct fold_entry *entry = find_reference_to(fold, base_json_span(id));
        if (entry && !entry->item.missing_since)
            entry->item.missing_since = fold->hop->hop;
    }
}

static void fold_references(struct fold *fold)
{
    size_t i, n;
    yyjson_val *value;
    yyjson_arr_foreach(fold->at->references, i, n, value)
    {
        fold_reference(fold, value, false);
    }
    yyjson_arr_foreach(fold->at->steps, i, n, value)
    {
        fold_reference(fold, yyjson_obj_get(value, "memory_id"), false);
    }
    yyjson_arr_foreach(fold->at->mentioned, i, n, value)
    {
        fold_reference(fold, value, true);
    }
    fold_found(fold);
    fold_missing(fold);
}

static struct base_span agent_of_step(yyjson_val *step)
{
    return base_json_span(yyjson_obj_get(step, "agent"));
}

static struct fold_entry *add_step(struct fold *fold, yyjson_val *step, uint32_t tokens)
{
    struct fold_entry *entry = add_entry(fold, HANDOFF_ITEM_STEP, step);
    entry->item.tokens = tokens;
    handoff_step_agents_add(&fold->agents, agent_of_step(step));
    if (fold->known)
        handoff_step_agents_add(&fold->known[fold->place], agent_of_step(step));
    return entry;
}

static bool is_by_source(const struct fold *fold, yyjson_val *step)
{
    return base_span_equal(agent_of_step(step), fold->hop->agent);
}

static bool knows_all(const struct fold *fold)
{
    return handoff_lineage_knows_all(&fold->lineage, fold->place);
}

/* What its parents know. Before a hop's own steps are added. */
static void learn_step_agents(struct fold *fold)
{
    if (!fold->known)
        return;
    struct handoff_step_agents *known = &fold->known[fold->place];
    if (knows_all(fold))
        *known = fold->agents;
    for (size_t i = 0; i < fold->at->nparents && !knows_all(fold); i++)
        handoff_step_agents_join(known, &fold->known[fold->at->parents[i]]);
    fold->looked_at += fold->at->nparents;
}

/* Before a hop's own steps are added. */
static bool knows_others_steps(const struct fold *fold)
{
    return handoff_step_agents_has_other(
        knows_all(fold) ? &fold->agents : &fold->known[fold->place], fold->hop->agent);
}

static bool sends_others_steps(struct fold *fold)
{
    const struct base_span no_name = {0};
    size_t i, n;
    yyjson_val *step;
    yyjson_arr_foreach(fold->at->steps, i, n, step)
    {
        if (!is_by_source(fold, step) && find_said(fold, HANDOFF_ITEM_STEP, handoff_hash_step(step),
                                                   is_known_step, step, no_name))
            return true;
    }
    return false;
}

/* Whether its own steps may be sent again. Who sends a history again sends others' steps as well,
 * if there are any. */
static bool sends_history(struct fold *fold)
{
    return yyjson_arr_size(fold->at->steps) > 0 &&
           (sends_others_steps(fold) || !knows_others_steps(fold));
}

static bool says_when(yyjson_val *step)
{
    return yyjson_obj_get(step, "at") != NULL;
}

/* An agent may do the same once more, but not at the same time. So a step that says when it was is
 * one with any other of that time; else the source's own is a new one, unless it comes with others'
 * steps that are sent again. NULL: it is new. */
static struct fold_entry *find_repeated(struct fold *fold, yyjson_val *step, uint64_t hash,
                                        bool sends_history)
{
    const struct base_span no_name = {0};
    if (says_when(step))
        return find_said(fold, HANDOFF_ITEM_STEP, hash, says_step_here, step, no_name);
    if (fold->place == 0 || (!sends_history && is_by_source(fold, step)))
        return NULL;
    return find_said(fold, HANDOFF_ITEM_STEP, hash, repeats_step, step, no_name);
}

/* A request that continues nothing is not compared with others, and nobody's steps are compared
 * with those of the last: only with its own of the same time. */
static bool is_compared(const struct fold *fold, yyjson_val *step)
{
    return fold->place > 0 || !fold->own || says_when(step);
}

static void fold_step(struct fold *fold, yyjson_val *step, bool again, uint32_t tokens)
{
    if (!is_compared(fold, step)) {
        add_step(fold, step, tokens);
        return;
    }
    const uint64_t hash = handoff_hash_step(step);
    struct fold_entry *earlier = find_repeated(fold, step, hash, again);
    if (earlier)
        earlier->repeated_by = fold->place + 1;
    else
        remember_entry(fold, add_step(fold, step, tokens), hash);
}

static void fold_steps(struct fold *fold)
{
    yyjson_val *counts = yyjson_obj_get(fold->at->tokens, "steps");
    const bool again = fold->place > 0 && sends_history(fold);
    size_t i, n;
    yyjson_val *step;
    yyjson_arr_foreach(fold->at->steps, i, n, step)
    {
        fold_step(fold, step, again, counted_tokens(counts, i));
    }
    fold->ledger->steps_lost += fold->at->steps_lost;
}

/* ---- summaries and outputs --------------------------------------------------------------------
 */

static void write_handed(struct base_buffer *out, const struct handoff_said *said)
{
    char at[BASE_RFC3339_SIZE];
    base_rfc3339_format(said->hop.at_ms, at);
    base_buffer_text(out, out->size > 1 ? ",{" : "{");
    base_json_write_name(out, "agent");
    base_json_write_string(out, said->hop.agent);
    base_json_write_name(out, "action");
    struct base_buffer action = {.arena = out->arena};
    base_buffer_text(&action, "handed to ");
    base_buffer_append(&action, said->hop.target.data, said->hop.target.size);
    base_buffer_text(&action, ": ");
    base_buffer_append(&action, yyjson_get_str(said->summary), yyjson_get_len(said->summary));
    out->failed |= action.failed;
    base_json_write_string(out, base_buffer_span(&action));
    base_json_write_name(out, "at");
    base_json_write_string(out, base_span_text(at));
    base_buffer_byte(out, '}');
}

/* The summaries of earlier hops become steps. */
static enum handoff_code write_all_handed(struct fold *fold, const struct handoff_said *said,
                                          size_t nsaid, struct handoff_error *error)
{
    struct base_buffer text = {.arena = fold->arena};
    yyjson_doc *doc;
    if (nsaid == 0)
        return HANDOFF_OK;
    base_buffer_byte(&text, '[');
    for (size_t i = 0; i < nsaid; i++) {
        if (said[i].summary)
            write_handed(&text, &said[i]);
    }
    base_buffer_byte(&text, ']');
    if (text.failed)
        return handoff_error_no_memory(error);
    enum handoff_code code =
        base_json_read_in(fold->arena, base_buffer_span(&text), "ledger", &doc, error);
    if (code == HANDOFF_OK)
        fold->handed = yyjson_arr_get_first(yyjson_doc_get_root(doc));
    return code;
}

static void fold_summary(struct fold *fold)
{
    if (!fold->at->summary)
        return;
    add_entry(fold, HANDOFF_ITEM_SUMMARY, fold->at->summary)->past = !fold->own;
    if (fold->own)
        return;
    remember_entry(fold, add_step(fold, fold->handed, 0), handoff_hash_step(fold->handed));
    fold->handed = unsafe_yyjson_get_next(fold->handed);
}

static void fold_output(struct fold *fold)
{
    if (fold->at->expected_output)
        add_entry(fold, HANDOFF_ITEM_EXPECTED_OUTPUT, fold->at->expected_output)->past = !fold->own;
}

static bool is_publication(const struct handoff_hop *hop)
{
    return base_span_equal(hop->target,
                           base_span_text(handoff_reserved_name(HANDOFF_RESERVED_BROADCAST)));
}

/* A publication does not say who gets it: an agent that continues it was one of them. */
static bool went_to(const struct handoff_hop *hop, struct base_span agent)
{
    return is_publication(hop) ? !base_span_equal(hop->agent, agent)
                               : base_span_equal(hop->target, agent);
}

/* Where a publication goes is known by the hop after it. Until then it goes back, unless a third
   agent was before the sender. */
static bool returns_to_sender(const struct fold *fold, size_t parent)
{
    const struct handoff_said *said = fold->lineage.said, *before = &said[parent];
    const struct handoff_hop *hop = fold->hop;
    if (!went_to(&before->hop, hop->agent))
        return false;
    if (!is_publication(hop))
        return base_span_equal(hop->target, before->hop.agent);
    return before->nparents == 0 ||
           (before->nparents == 1 &&
            base_span_equal(said[before->parents[0]].hop.agent, hop->agent));
}

/* A summary is no progress: each request has one, and agents word it anew. */
static size_t count_fruitless(const struct fold *fold, size_t added)
{
    const struct handoff_said *said = fold->at;
    if (added > 0)
        return 0;
    const size_t parent = said->nparents == 1 ? said->parents[0] : fold->place;
    return parent < fold->place && returns_to_sender(fold, parent) ? 1 + fold->fruitless[parent]
                                                                   : 1;
}

static void fold_said(struct fold *fold, const struct handoff_said *said, size_t place,
                      const struct handoff_hop *hop)
{
    fold->at = said;
    fold->place = place;
    fold->hop = hop;
    learn_step_agents(fold);
    fold_intent(fold);
    const size_t before = fold->count - fold->idle;
    fold_constraints(fold);
    fold_state(fold);
    fold_references(fold);
    fold_steps(fold);
    fold->fruitless[place] = count_fruitless(fold, fold->count - fold->idle - before);
    fold_summary(fold);
    fold_output(fold);
}

/* ---- room and lists ---------------------------------------------------------------------------
 */

static size_t most_of_state(yyjson_val *state)
{
    size_t i, n, most = yyjson_obj_size(state);
    yyjson_val *key, *value;
    if (!state)
        return 0;
    yyjson_obj_foreach(state, i, n, key, value)
    {
        most += yyjson_arr_size(value);
    }
    return most;
}

static size_t most_entries(const struct handoff_said *said)
{
    enum { ONCE = 4 }; /* intent, summary and its step, expected output */
    return ONCE + yyjson_obj_size(said->constraints) + most_of_state(said->state) +
           2 * yyjson_arr_size(said->steps) + yyjson_arr_size(said->references) +
           yyjson_arr_size(said->mentioned);
}

static enum handoff_code make_entries(struct fold *fold, const struct handoff_said *said,
                                      size_t nsaid, const struct handoff_said *own,
                                      struct handoff_error *error)
{
    fold->room = most_entries(own);
    for (size_t i = 0; i < nsaid; i++)
        fold->room += most_entries(&said[i]);
    fold->entries = base_arena_alloc(fold->arena, fold->room * sizeof *fold->entries);
    fold->fruitless = base_arena_calloc(fold->arena, nsaid + 1, sizeof *fold->fruitless);
    /* An entry with an id is found by that as well. */
    if (!fold->entries || !fold->fruitless ||
        !handoff_set_init(&fold->set, fold->arena, 2 * fold->room))
        return handoff_error_no_memory(error);
    if (!handoff_lineage_init(&fold->lineage, fold->arena, said, nsaid))
        return handoff_error_no_memory(error);
    fold->set.is_gone = entry_is_gone;
    fold->set.owner = fold;
    if (handoff_lineage_is_line(&fold->lineage))
        return HANDOFF_OK;
    fold->set.budget = LOOKS_EACH * fold->room;
    fold->known = base_arena_calloc(fold->arena, nsaid + 1, sizeof *fold->known);
    return fold->known ? HANDOFF_OK : handoff_error_no_memory(error);
}

/* The joined constraints by their names: of many, each is looked for. Empty where nothing was
 * joined, as all constraints are of one hop then, and hold. */
struct joined_members {
    struct handoff_set set;
    yyjson_val **keys; /* by the numbers in the set */
};

static bool index_joined(struct joined_members *members, const struct fold *fold)
{
    yyjson_val *joined = fold->joined ? fold->ledger->constraints : NULL;
    const size_t most = yyjson_obj_size(joined);
    size_t i, n;
    yyjson_val *key, *value;
    *members = (struct joined_members){0};
    if (!joined)
        return true;
    members->keys = base_arena_alloc(fold->arena, (most + 1) * sizeof(yyjson_val *));
    if (!members->keys || !handoff_set_init(&members->set, fold->arena, most))
        return false;
    yyjson_obj_foreach(joined, i, n, key, value)
    {
        members->keys[i] = key;
        handoff_set_add(&members->set, handoff_hash_text(base_json_span(key)), i);
    }
    return true;
}

struct wanted_member {
    const struct joined_members *members;
    struct base_span name;
};

static bool is_joined_member(const void *context, size_t number)
{
    const struct wanted_member *wanted = context;
    return base_span_equal(base_json_span(wanted->members->keys[number]), wanted->name);
}

static bool constraint_holds(struct joined_members *members, const struct handoff_item *item)
{
    const struct wanted_member wanted = {members, item->name};
    if (!members->keys)
        return true;
    const size_t number =
        handoff_set_find(&members->set, handoff_hash_text(item->name), is_joined_member, &wanted);
    return number != HANDOFF_SET_NONE &&
           handoff_constraint_holds(item->name, item->value,
                                    unsafe_yyjson_get_next(members->keys[number]));
}

/* The first that says the same, which may be this one. NULL: the search gave up. */
static const struct fold_entry *find_first_saying(struct fold *fold, const struct fold_entry *entry)
{
    const struct base_span no_name = {0};
    yyjson_val *value = entry->item.value;
    if (is_in_state_list(entry->kind))
        return find_said(fold, entry->kind, handoff_hash_entry(value), equals_current, value,
                         no_name);
    if (entry->kind == HANDOFF_ITEM_STEP && says_when(value))
        return find_said(fold, entry->kind, handoff_hash_step(value), says_step, value, no_name);
    return entry;
}

/* Siblings may have said the same, each without the other's knowledge. One of it is shown. */
static bool is_twin(struct fold *fold, const struct fold_entry *entry)
{
    if (handoff_lineage_is_line(&fold->lineage))
        return false;
    const struct fold_entry *first = find_first_saying(fold, entry);
    return first && first != entry;
}

/* What only the end shows: all that was said is known. */
static void settle_entries(struct fold *fold, struct joined_members *members)
{
    for (size_t i = 0; i < fold->count; i++) {
        struct fold_entry *entry = &fold->entries[i];
        entry->past |= entry->taken != NULL;
        if (entry->kind == HANDOFF_ITEM_CONSTRAINT)
            entry->past |= !constraint_holds(members, &entry->item);
        else if (!entry->past)
            entry->is_twin = is_twin(fold, entry);
    }
}

static struct handoff_items *list_for_entry(struct handoff_ledger *ledger,
                                            const struct fold_entry *entry)
{
    return entry->past ? &ledger->past[entry->kind] : &ledger->items[entry->kind];
}

/* All lists lie in one array, one behind the other. */
static enum handoff_code deal_out(struct fold *fold, struct handoff_error *error)
{
    struct handoff_ledger *ledger = fold->ledger;
    struct handoff_item *next = base_arena_alloc(fold->arena, (fold->count + 1) * sizeof *next);
    struct joined_members members;
    if (!next || !index_joined(&members, fold))
        return handoff_error_no_memory(error);
    settle_entries(fold, &members);
    ledger->looked_at =
        fold->set.looked_at + members.set.looked_at + fold->lineage.looked_at + fold->looked_at;
    for (size_t i = 0; i < fold->count; i++)
        list_for_entry(ledger, &fold->entries[i])->count += !fold->entries[i].is_twin;
    for (size_t kind = 0; kind < HANDOFF_ITEM_COUNT; kind++) {
        ledger->items[kind].at = next;
        ledger->past[kind].at = next += ledger->items[kind].count;
        next += ledger->past[kind].count;
        ledger->items[kind].count = ledger->past[kind].count = 0;
    }
    for (size_t i = 0; i < fold->count; i++) {
        struct handoff_items *list = list_for_entry(ledger, &fold->entries[i]);
        if (!fold->entries[i].is_twin)
            list->at[list->count++] = fold->entries[i].item;
    }
    return HANDOFF_OK;
}

/* ---- constraints ------------------------------------------------------------------------------
 */

/* Which hop has set this value. */
static const struct handoff_hop *who_named(const struct handoff_said *said, size_t nsaid,
                                           struct base_span path, yyjson_val *value)
{
    const struct handoff_hop *newest = NULL;
    for (size_t i = 0; i < nsaid; i++) {
        yyjson_val *named = handoff_constraint_at(said[i].constraints, path);
        if (named && base_json_equal(named, value))
            return &said[i].hop;
        if (named)
            newest = &said[i].hop;
    }
    return newest;
}

static void tell_inherited(const struct handoff_said *said, size_t nsaid,
                           const struct handoff_join_refusal *refusal, struct handoff_error *error)
{
    const struct base_span path = base_buffer_span(&refusal->first);
    const struct handoff_hop *hop = who_named(said, nsaid, path, refusal->inherited);
    struct base_buffer value = {0};
    base_json_write(&value, refusal->inherited);
    handoff_error_allow(error, "%s %.40s of hop %lld (%.*s), or tighter", path.data,
                        value.data ? value.data : "", hop ? (long long)hop->hop : 0,
                        hop ? (int)hop->agent.size : 0, hop ? hop->agent.data : "");
    base_buffer_free(&value);
}

static enum handoff_code refuse_join(const struct handoff_said *said, size_t nsaid, unsigned join,
                                     const struct handoff_join_refusal *refusal,
                                     struct handoff_error *error)
{
    handoff_error_set(
        error, HANDOFF_ERR_CONSTRAINT_LOOSENED,
        join & HANDOFF_JOIN_SIBLING
            ? "the envelopes that this request continues have different values of a constraint, "
              "and neither is tighter; continue one of them (previous_id)"
            : "inherited constraints may be tightened, not changed or loosened",
        "constraints", refusal->names.data);
    if (error)
        tell_inherited(said, nsaid, refusal, error);
    return HANDOFF_ERR_CONSTRAINT_LOOSENED;
}

/* What only one hop named is not copied. */
static bool begin_joining(struct fold *fold)
{
    struct handoff_join_refusal none;
    if (fold->joined)
        return true;
    fold->joined = handoff_joined_begin(fold->arena);
    return fold->joined &&
           handoff_joined_add(fold->joined, fold->ledger->constraints, HANDOFF_JOIN_SIBLING, &none);
}

/* One more hop's. */
static enum handoff_code join_hop(struct fold *fold, const struct handoff_said *said, size_t nsaid,
                                  yyjson_val *added, unsigned join, struct handoff_error *error)
{
    struct handoff_ledger *ledger = fold->ledger;
    struct handoff_join_refusal refusal;
    if (!added)
        return HANDOFF_OK;
    if (!ledger->constraints && !fold->joined && !(join & HANDOFF_JOIN_NO_DEADLINE) &&
        !handoff_has_null_members(added)) {
        ledger->constraints = added;
        return HANDOFF_OK;
    }
    if (!begin_joining(fold) || !handoff_joined_add(fold->joined, added, join, &refusal))
        return handoff_error_no_memory(error);
    fold->has_joined = true;
    return refusal.count ? refuse_join(said, nsaid, join, &refusal, error) : HANDOFF_OK;
}

/* What was joined since it was written last. */
static enum handoff_code write_joined(struct fold *fold, struct handoff_error *error)
{
    struct base_buffer out = {.arena = fold->arena};
    yyjson_doc *doc;
    if (!fold->has_joined)
        return HANDOFF_OK;
    fold->has_joined = false;
    handoff_joined_write(&out, fold->joined);
    if (out.failed)
        return handoff_error_no_memory(error);
    enum handoff_code code =
        base_json_read_in(fold->arena, base_buffer_span(&out), "constraints", &doc, error);
    if (code == HANDOFF_OK)
        fold->ledger->constraints = yyjson_doc_get_root(doc);
    return code;
}

/* A deadline that an edit made later holds for what continues the edit, and of siblings the earlier
 * one holds. So where there was an edit, what is inherited is not the earliest of all ancestors'.
 * NULL: there is none. */
static yyjson_val *deadline_from(yyjson_val *const *deadlines, const struct handoff_said *said)
{
    yyjson_val *own = yyjson_obj_get(said->constraints, "deadline"), *earliest = NULL;
    if (yyjson_is_null(own))
        own = NULL;
    if (own && said->revises)
        return own;
    for (size_t i = 0; i < said->nparents; i++) {
        yyjson_val *theirs = deadlines[said->parents[i]];
        if (!earliest || handoff_deadline_is_earlier(theirs, earliest))
            earliest = theirs;
    }
    return !earliest || handoff_deadline_is_earlier(own, earliest) ? own : earliest;
}

/* What `own` inherits, or, where it was accepted, has. */
static enum handoff_code find_deadline(struct fold *fold, const struct handoff_said *said,
                                       size_t nsaid, const struct handoff_said *own,
                                       struct handoff_error *error)
{
    const struct handoff_said inherits = {.parents = own->parents, .nparents = own->nparents};
    yyjson_val **deadlines = base_arena_calloc(fold->arena, nsaid + 1, sizeof *deadlines);
    if (!deadlines)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < nsaid; i++) {
        fold->was_revised |= said[i].revises;
        deadlines[i] = deadline_from(deadlines, &said[i]);
    }
    fold->was_revised |= own->accepted && own->revises;
    fold->deadline = deadline_from(deadlines, own->accepted ? own : &inherits);
    return HANDOFF_OK;
}

static unsigned how_to_join(const struct fold *fold, const struct handoff_said *said)
{
    if (!said->accepted)
        return HANDOFF_JOIN_CHILD | (said->revises ? HANDOFF_JOIN_ANY_DEADLINE : 0);
    const bool other =
        fold->was_revised && yyjson_obj_get(said->constraints, "deadline") != fold->deadline;
    return HANDOFF_JOIN_SIBLING | (other ? HANDOFF_JOIN_NO_DEADLINE : 0);
}

/* Whether what the hop at a place knows has this constraint. */
static bool knows_constraint(struct fold *fold, size_t place, const struct base_buffer *path)
{
    for (size_t i = 0; i <= place; i++) {
        if (handoff_constraint_at(fold->lineage.said[i].constraints, base_buffer_span(path)) &&
            handoff_lineage_knows(&fold->lineage, place, i))
            return true;
    }
    return false;
}

/* Two that a hop had before were accepted together, by another version. */
static bool are_of_siblings(void *context, const struct handoff_look_alikes *pair)
{
    struct fold *fold = context;
    for (size_t i = 0; i < fold->lineage.count; i++) {
        if (knows_constraint(fold, i, &pair->one) && knows_constraint(fold, i, &pair->other))
            return false;
    }
    return true;
}

/* Each was checked against what it inherited, but not against its siblings. */
static enum handoff_code check_siblings(struct fold *fold, struct handoff_error *error)
{
    struct handoff_look_alikes pair;
    if (!handoff_find_look_alikes(fold->arena, fold->ledger->constraints, are_of_siblings, fold,
                                  &pair))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_CONSTRAINT_LOOSENED,
                      "the envelopes that this request continues spell a constraint differently, "
                      "and it would not be treated as one; continue one of them (previous_id)",
                      "constraints", pair.other.data);
    handoff_error_allow(error, "%s", pair.one.data);
    return HANDOFF_ERR_CONSTRAINT_LOOSENED;
}

static enum handoff_code join_all(struct fold *fold, const struct handoff_said *said, size_t nsaid,
                                  const struct handoff_said *own, struct handoff_error *error)
{
    enum handoff_code code = find_deadline(fold, said, nsaid, own, error);
    for (size_t i = 0; i < nsaid && code == HANDOFF_OK; i++)
        code = join_hop(fold, said, nsaid, said[i].constraints, how_to_join(fold, &said[i]), error);
    if (code == HANDOFF_OK)
        code = write_joined(fold, error);
    if (code == HANDOFF_OK && !own->accepted && own->nparents > 1)
        code = check_siblings(fold, error);
    if (code == HANDOFF_OK && !own->accepted)
        code =
            handoff_check_spelling(fold->arena, own->constraints, fold->ledger->constraints, error);
    if (code == HANDOFF_OK)
        code = join_hop(fold, said, nsaid, own->constraints, how_to_join(fold, own), error);
    return code == HANDOFF_OK ? write_joined(fold, error) : code;
}

enum handoff_code handoff_ledger_fold(struct handoff_ledger *ledger, struct base_arena *arena,
                                      const struct handoff_said *said, size_t nsaid,
                                      const struct handoff_said *own, struct handoff_error *error)
{
    struct fold fold = {.ledger = ledger, .arena = arena};
    *ledger = (struct handoff_ledger){.own = own->hop};
    enum handoff_code code = make_entries(&fold, said, nsaid, own, error);
    if (code == HANDOFF_OK)
        code = write_all_handed(&fold, said, nsaid, error);
    if (code == HANDOFF_OK)
        code = join_all(&fold, said, nsaid, own, error);
    if (code != HANDOFF_OK)
        return code;
    for (size_t i = 0; i < nsaid; i++)
        fold_said(&fold, &said[i], i, &said[i].hop);
    fold.own = true;
    fold_said(&fold, own, nsaid, &ledger->own);
    ledger->fruitless = fold.fruitless[nsaid];
    return fold.failed ? handoff_error_no_memory(error) : deal_out(&fold, error);
}
