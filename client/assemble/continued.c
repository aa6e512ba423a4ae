/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a request continues, by the rules of continued.h: the ids, then the contributions of
 * all their ancestors in one read. On a reader thread of the store, which has the assembly until
 * it is done.
 */
#include "client/assemble/continued.h"

#include <stdlib.h>
#include <string.h>

#include "client/assemble/assemble.h"
#include "client/assemble/visibility.h"
#include "client/envelope/read.h"
#include "client/store/ledger.h"
#include "client/store/parties.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

/* The ids that are continued, and what the store has of their chain. */
struct continued_read {
    struct handoff_assembly *assembly;
    struct base_uuid *ids;
    size_t nids;
    struct handoff_contribution *list;
    size_t count;
    const struct handoff_contribution *replaced; /* by an edit, which this is; NULL: nothing */
    struct base_uuid first;                      /* of the task */
    bool branches; /* `ids` is the task's first envelope, of which only a part is inherited */
};

static bool names_envelope(const struct base_uuid *id)
{
    static const struct base_uuid nil;
    return memcmp(id, &nil, sizeof nil) != 0;
}

static bool replaces_another(const struct handoff_assembly *assembly)
{
    return names_envelope(&assembly->replaces);
}

/* It came with the acknowledgement of a handoff, and that is what it continues. */
static bool continues_answered(const struct handoff_assembly *assembly)
{
    return names_envelope(&assembly->answers) && !assembly->request.previous_id &&
           !assembly->request.new_chain;
}

/* Else by its task. */
static bool says_what_it_continues(const struct handoff_assembly *assembly)
{
    return replaces_another(assembly) || assembly->request.previous_id ||
           continues_answered(assembly);
}

bool handoff_continues(const struct handoff_assembly *assembly)
{
    const struct handoff_request *request = &assembly->request;
    return says_what_it_continues(assembly) ||
           (request->task_id.data &&
            handoff_store_may_know_task(assembly->with->store, request->task_id));
}

bool handoff_continues_by_task(const struct handoff_assembly *assembly)
{
    return !says_what_it_continues(assembly) && assembly->chain.nparents > 0;
}

/* ---- which ------------------------------------------------------------------------------------
 */

static enum handoff_code no_such_parent(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope with this id",
                             "previous_id", text);
}

static int compare_ids(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct base_uuid));
}

/* They are sorted. */
static bool is_among_ids(const struct continued_read *read, const struct base_uuid *id)
{
    return bsearch(id, read->ids, read->nids, sizeof *id, compare_ids) != NULL;
}

static bool was_named(const struct continued_read *read, const struct base_uuid *id)
{
    for (size_t i = 0; i < read->nids; i++) {
        if (compare_ids(&read->ids[i], id) == 0)
            return true;
    }
    return false;
}

static void add_previous(struct continued_read *read, yyjson_val *value)
{
    struct base_uuid id = {0};
    const bool valid = base_uuid_parse(yyjson_get_str(value), yyjson_get_len(value), &id);
    BASE_CHECK(valid); /* the request was checked */
    if (!was_named(read, &id))
        read->ids[read->nids++] = id;
}

static enum handoff_code take_previous(struct continued_read *read, yyjson_val *previous,
                                       struct handoff_error *error)
{
    const size_t most = yyjson_is_arr(previous) ? yyjson_arr_size(previous) : 1;
    size_t i, n;
    yyjson_val *value;
    read->ids = base_arena_calloc(&read->assembly->arena, most + 1, sizeof *read->ids);
    if (!read->ids)
        return handoff_error_no_memory(error);
    if (yyjson_is_str(previous))
        add_previous(read, previous);
    yyjson_arr_foreach(previous, i, n, value)
    {
        add_previous(read, value);
    }
    return HANDOFF_OK;
}

static enum handoff_code refuse_task(struct base_span task_id, bool known_caller,
                                     struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND,
                             known_caller
                                 ? "this task belongs to other agents: only the agent that started "
                                   "it and agents that were sent one of its handoffs may use it; "
                                   "choose another task_id or omit it"
                                 : "the source neither started this task nor was sent one of its "
                                   "handoffs; check source_agent, choose another task_id or omit "
                                   "it, or start a new chain with \"new_chain\": true",
                             "task_id", task_id.data);
}

/* The newest come first. The others are left for the agent's next request. */
static void take_newest(struct continued_read *read, const struct handoff_continued *continued)
{
    read->ids = continued->ids;
    read->nids = continued->nids;
    if (read->nids <= HANDOFF_PARENTS_MAX)
        return;
    read->assembly->chain.not_continued = read->nids - HANDOFF_PARENTS_MAX;
    read->nids = HANDOFF_PARENTS_MAX;
}

/* A request without previous_id. Where no token says who calls, the source does; then a new chain
 * shows it nothing. */
static enum handoff_code take_task(struct continued_read *read, struct handoff_error *error)
{
    const struct handoff_assembly *assembly = read->assembly;
    const struct handoff_request *request = &assembly->request;
    struct handoff_store *store = assembly->with->store;
    struct handoff_continued continued;
    enum handoff_code code = handoff_store_find_continued(
        store, request->task_id, request->source_agent, &read->assembly->arena, &continued, error);
    if (code != HANDOFF_OK || !continued.is_known)
        return code;
    bool may = continued.is_party || continued.began_it || continued.nids > 0 ||
               assembly->any_task || (request->new_chain && !assembly->caller.data);
    if (!may)
        code = handoff_visibility_began_task(store, &continued.first, request->source_agent, &may,
                                             error);
    if (code != HANDOFF_OK)
        return code;
    if (!may)
        return refuse_task(request->task_id, assembly->caller.data != NULL, error);
    if (request->new_chain)
        return HANDOFF_OK;
    read->branches = continued.nids == 0;
    take_newest(read, &continued);
    if (!read->branches)
        return HANDOFF_OK;
    read->first = continued.first;
    read->ids = &read->first;
    read->nids = 1;
    return HANDOFF_OK;
}

static void sort_ids(struct continued_read *read)
{
    if (read->nids > 1)
        qsort(read->ids, read->nids, sizeof *read->ids, compare_ids);
}

static enum handoff_code choose_continued(struct continued_read *read, struct handoff_error *error)
{
    if (replaces_another(read->assembly)) {
        read->ids = &read->assembly->replaces;
        read->nids = 1;
        return HANDOFF_OK;
    }
    if (read->assembly->request.previous_id)
        return take_previous(read, read->assembly->request.previous_id, error);
    if (continues_answered(read->assembly)) {
        read->ids = &read->assembly->answers;
        read->nids = 1;
        return HANDOFF_OK;
    }
    return take_task(read, error);
}

/* ---- what they said ---------------------------------------------------------------------------
 */

static struct base_span encoding_of(const struct handoff_assembly *assembly)
{
    return base_span_text(handoff_tokenizer_encoding(assembly->with->tokenizer));
}

static enum handoff_code name_chain_parent(struct base_arena *arena,
                                           const struct handoff_contribution *stored,
                                           struct handoff_parent *parent,
                                           struct handoff_error *error)
{
    char id[BASE_UUID_TEXT], hex[BASE_SHA256_HEX_SIZE];
    base_uuid_format(&stored->id, id);
    base_sha256_hex(stored->digest, hex);
    parent->uuid = stored->id;
    parent->id = base_span_text(base_arena_strdup(arena, id));
    parent->digest = base_span_text(base_arena_printf(arena, "sha256:%s", hex));
    return parent->id.data && parent->digest.data ? HANDOFF_OK : handoff_error_no_memory(error);
}

static enum handoff_code refuse_other_task(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    handoff_error_set(error, HANDOFF_ERR_INVALID, "the previous envelopes are of several tasks",
                      "previous_id", text);
    handoff_error_allow(error, "envelopes of one task");
    return HANDOFF_ERR_INVALID;
}

/* Where the way of what is being read goes; NULL: it is no more than an ancestor. */
static struct handoff_parent *role_of(const struct continued_read *read,
                                      const struct handoff_contribution *stored)
{
    struct handoff_continued_chain *chain = &read->assembly->chain;
    if (stored == read->replaced)
        return chain->replaced;
    return is_among_ids(read, &stored->id) ? &chain->parents[chain->nparents] : NULL;
}

static enum handoff_code take_continued(struct continued_read *read,
                                        const struct handoff_contribution *stored,
                                        struct handoff_parent *parent, struct handoff_error *error)
{
    struct handoff_continued_chain *chain = &read->assembly->chain;
    if (chain->task_id.data && !base_span_equal(chain->task_id, stored->task_id))
        return refuse_other_task(&stored->id, error);
    chain->task_id = stored->task_id;
    chain->nparents += parent != chain->replaced;
    return name_chain_parent(&read->assembly->arena, stored, parent, error);
}

/* The ancestors come oldest first; those that are continued are parents as well. */
static enum handoff_code take_ancestor(struct continued_read *read, size_t index,
                                       struct handoff_error *error)
{
    struct handoff_continued_chain *chain = &read->assembly->chain;
    const struct handoff_contribution *stored = &read->list[index];
    struct handoff_said *said = &chain->said[chain->nsaid++];
    struct handoff_parent *parent = role_of(read, stored);
    enum handoff_code code =
        handoff_contribution_read(stored, encoding_of(read->assembly), &read->assembly->arena, said,
                                  parent ? &parent->way : NULL, error);
    chain->size += stored->text.size + stored->body.size + stored->inheritance.size;
    if (code != HANDOFF_OK || !parent)
        return code;
    parent->hop = said->hop;
    if (!read->replaced || stored == read->replaced)
        chain->places[chain->nplaces++] = index;
    return take_continued(read, stored, parent, error);
}

/* What is replaced comes last, and has no children among them. */
static enum handoff_code take_ancestors(struct continued_read *read, struct handoff_error *error)
{
    struct handoff_continued_chain *chain = &read->assembly->chain;
    struct base_arena *arena = &read->assembly->arena;
    enum handoff_code code = HANDOFF_OK;
    chain->said = base_arena_alloc(arena, (read->count + 1) * sizeof *chain->said);
    chain->parents = base_arena_calloc(arena, read->nids + 1, sizeof *chain->parents);
    chain->places = base_arena_calloc(arena, read->nids + 1, sizeof *chain->places);
    if (!chain->said || !chain->parents || !chain->places)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < read->count && code == HANDOFF_OK; i++)
        code = take_ancestor(read, i, error);
    if (code == HANDOFF_OK)
        code = handoff_contributions_link(read->list, read->count, arena, chain->said, error);
    if (code == HANDOFF_OK && read->replaced)
        handoff_said_reduce(&chain->said[read->count - 1], false);
    return code;
}

/* An edit was committed before it was chosen, or since. */
static enum handoff_code check_current(const struct continued_read *read,
                                       struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    for (size_t i = 0; i < read->count; i++) {
        const struct handoff_contribution *stored = &read->list[i];
        if (!stored->replaced || !is_among_ids(read, &stored->id))
            continue;
        base_uuid_format(&stored->id, text);
        handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                          "an operator has replaced this envelope by an edited one; continue that "
                          "one",
                          "previous_id", text);
        base_uuid_format(&stored->replaced_by, text);
        handoff_error_allow(error, "%s", text);
        return HANDOFF_ERR_CONFLICT;
    }
    return HANDOFF_OK;
}

/* The newest first. */
static int compare_parents(const void *left, const void *right)
{
    const struct handoff_parent *a = left, *b = right;
    if (a->hop.at_ms != b->hop.at_ms)
        return a->hop.at_ms > b->hop.at_ms ? -1 : 1;
    return compare_ids(&b->uuid, &a->uuid);
}

static enum handoff_code check_visible(const struct handoff_assembly *assembly,
                                       struct handoff_error *error)
{
    const struct handoff_continued_chain *chain = &assembly->chain;
    const struct base_span agent = assembly->caller;
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; agent.data && i < chain->nparents && code == HANDOFF_OK; i++) {
        const struct handoff_parent *parent = &chain->parents[i];
        bool sees =
            base_span_equal(agent, parent->hop.agent) || base_span_equal(agent, parent->hop.target);
        if (!sees)
            code =
                handoff_store_is_party(assembly->with->store, &parent->uuid, agent, &sees, error);
        if (code == HANDOFF_OK && !sees)
            code = no_such_parent(&parent->uuid, error);
    }
    return code;
}

/* ---- what is special --------------------------------------------------------------------------
 */

/* Of the envelope that began the task, the intent and the constraints. */
static void keep_beginning(struct handoff_continued_chain *chain)
{
    for (size_t i = 0; i < chain->nsaid; i++)
        handoff_said_reduce(&chain->said[i], i == 0);
    chain->branches = true;
    chain->nparents = 0;
    chain->task_id = base_span(NULL, 0);
}

/* The envelope that an older version's continues, as it says itself. Absent, or damaged: false. */
static bool read_older_parent(struct base_arena *arena, const struct handoff_contribution *old,
                              struct base_uuid *id)
{
    struct handoff_envelope envelope;
    if (!old->body.data ||
        handoff_envelope_read_in(arena, old->body, &envelope, NULL) != HANDOFF_OK)
        return false;
    yyjson_val *previous = yyjson_obj_get(yyjson_doc_get_root(envelope.doc), "previous");
    yyjson_val *text = yyjson_obj_get(previous, "id");
    return yyjson_is_str(text) && base_uuid_parse(yyjson_get_str(text), yyjson_get_len(text), id);
}

/* An older version kept no lineage: what its envelope continues is read now, if it is there. */
static enum handoff_code find_older_parent(struct continued_read *read, struct handoff_error *error)
{
    struct base_arena *arena = &read->assembly->arena;
    struct handoff_contribution old = read->list[read->count - 1], *list;
    struct base_uuid *parent = base_arena_calloc(arena, 1, sizeof *parent);
    size_t count;
    if (!parent)
        return handoff_error_no_memory(error);
    if (!read_older_parent(arena, &old, parent))
        return HANDOFF_OK;
    enum handoff_code code = handoff_store_get_ledger(read->assembly->with->store, parent, 1, arena,
                                                      &list, &count, error);
    if (code == HANDOFF_ERR_NOT_FOUND)
        return handoff_error_clear(error);
    if (code != HANDOFF_OK)
        return code;
    old.parents = parent;
    old.nparents = 1;
    read->list = base_arena_calloc(arena, count + 1, sizeof *read->list);
    if (!read->list)
        return handoff_error_no_memory(error);
    memcpy(read->list, list, count * sizeof *list);
    read->list[count] = old;
    read->count = count + 1;
    return HANDOFF_OK;
}

/* The edit has the parents of what it replaces, even where those were replaced as well. */
static enum handoff_code take_parents_of_replaced(struct continued_read *read,
                                                  struct handoff_error *error)
{
    struct handoff_continued_chain *chain = &read->assembly->chain;
    BASE_CHECK(read->count > 0 && is_among_ids(read, &read->list[read->count - 1].id));
    if (!read->list[read->count - 1].text.data) {
        enum handoff_code code = find_older_parent(read, error);
        if (code != HANDOFF_OK)
            return code;
    }
    chain->replaced = base_arena_calloc(&read->assembly->arena, 1, sizeof *chain->replaced);
    if (!chain->replaced)
        return handoff_error_no_memory(error);
    read->replaced = &read->list[read->count - 1];
    read->ids = read->replaced->parents;
    read->nids = read->replaced->nparents;
    sort_ids(read);
    return HANDOFF_OK;
}

static enum handoff_code order_parents(struct handoff_assembly *assembly,
                                       struct handoff_error *error)
{
    struct handoff_continued_chain *chain = &assembly->chain;
    if (chain->nparents > 1)
        qsort(chain->parents, chain->nparents, sizeof *chain->parents, compare_parents);
    chain->parent_ids =
        base_arena_calloc(&assembly->arena, chain->nparents + 1, sizeof *chain->parent_ids);
    if (!chain->parent_ids)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < chain->nparents; i++)
        chain->parent_ids[i] = chain->parents[i].uuid;
    return HANDOFF_OK;
}

static enum handoff_code read_chosen(struct continued_read *read, struct handoff_error *error)
{
    enum handoff_code code =
        handoff_store_get_ledger(read->assembly->with->store, read->ids, read->nids,
                                 &read->assembly->arena, &read->list, &read->count, error);
    return code == HANDOFF_OK && !read->branches ? check_current(read, error) : code;
}

/* Between choosing and reading, an edit may replace what was chosen, or retention remove it. That
 * is no fault of a request which named none, so it chooses again. */
static enum handoff_code choose_and_read(struct continued_read *read, struct handoff_error *error)
{
    enum { TRIES = 5 };
    const struct continued_read fresh = *read;
    enum handoff_code code = HANDOFF_OK;
    for (int i = 0; i < TRIES; i++) {
        *read = fresh;
        code = choose_continued(read, error);
        if (code != HANDOFF_OK || read->nids == 0)
            return code;
        sort_ids(read);
        code = read_chosen(read, error);
        const bool was_overtaken = code == HANDOFF_ERR_CONFLICT || code == HANDOFF_ERR_NOT_FOUND;
        if (!was_overtaken || says_what_it_continues(read->assembly))
            return code;
        handoff_error_clear(error);
    }
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                             "the envelopes of this task are being replaced; retry", "task_id",
                             NULL);
}

static enum handoff_code read_what_continues(struct continued_read *read,
                                             struct handoff_error *error)
{
    struct handoff_assembly *assembly = read->assembly;
    enum handoff_code code = choose_and_read(read, error);
    if (code != HANDOFF_OK || read->nids == 0)
        return code;
    if (replaces_another(assembly))
        code = take_parents_of_replaced(read, error);
    if (code == HANDOFF_OK)
        code = take_ancestors(read, error);
    if (code == HANDOFF_OK && assembly->request.previous_id)
        code = check_visible(assembly, error);
    if (code != HANDOFF_OK)
        return code;
    if (read->branches)
        keep_beginning(&assembly->chain);
    return order_parents(assembly, error);
}

/* What is wrong with an envelope says that it exists. */
static enum handoff_code hide_foreign(struct continued_read *read, enum handoff_code found,
                                      struct handoff_error *error)
{
    struct handoff_error ignored;
    for (size_t i = 0; i < read->nids; i++) {
        bool sees;
        if (handoff_store_is_party(read->assembly->with->store, &read->ids[i],
                                   read->assembly->caller, &sees, &ignored) == HANDOFF_OK &&
            !sees)
            return no_such_parent(&read->ids[i], error);
    }
    return found;
}

enum handoff_code handoff_read_continued(struct handoff_assembly *assembly,
                                         struct handoff_error *error)
{
    struct continued_read read = {.assembly = assembly};
    enum handoff_code code = read_what_continues(&read, error);
    const bool named = assembly->request.previous_id && assembly->caller.data;
    return code != HANDOFF_OK && named ? hide_foreign(&read, code, error) : code;
}
