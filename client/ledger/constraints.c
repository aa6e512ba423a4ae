/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of constraints.h. One walk both checks and writes. Pure, any thread. */
#include "client/ledger/constraints.h"

#include <string.h>

#include "client/ledger/same.h"
#include "client/ledger/set.h"
#include "lib/base/json.h"

/* The walk, and the path of where it is: "limits.max_cost". */
struct join_walk {
    struct base_buffer *out;
    struct base_buffer path;
    unsigned join;
    struct handoff_join_refusal *refusal;
};

static void join_objects(struct join_walk *walk, yyjson_val *inherited, yyjson_val *added);

/* ---- what tightening is -------------------------------------------------------------------- */

static bool name_begins(struct base_span name, const char *prefix)
{
    return name.size >= strlen(prefix) && memcmp(name.data, prefix, strlen(prefix)) == 0;
}

static bool number_is_tighter(struct base_span name, yyjson_val *inherited, yyjson_val *added)
{
    double from, to;
    if (!base_json_double(inherited, &from) || !base_json_double(added, &to))
        return false;
    /* A negative maximum often means unlimited. */
    return (name_begins(name, "max_") && to < from && (to >= 0 || from < 0)) ||
           (name_begins(name, "min_") && to > from);
}

bool handoff_deadline_is_earlier(yyjson_val *deadline, yyjson_val *other)
{
    int64_t one, two;
    return base_json_time(deadline, &one) && base_json_time(other, &two) && one < two;
}

static bool deadline_is_tighter(struct base_span name, yyjson_val *inherited, yyjson_val *added)
{
    return base_span_equal(name, base_span_text("deadline")) &&
           handoff_deadline_is_earlier(added, inherited);
}

static bool is_tighter(struct base_span name, yyjson_val *inherited, yyjson_val *added)
{
    return number_is_tighter(name, inherited, added) || deadline_is_tighter(name, inherited, added);
}

/* The names with a meaning, and first those that list demands. */
static const char *const known_names[] = {
    "do_not",     "must",    "must_not", "never",    "avoid",     "forbid",
    "forbidden",  "deny",    "denied",   "exclude",  "excluded",  "rules",
    "guardrails", "require", "required", "deadline", "max_tokens"};
enum { KNOWN_NAMES = sizeof known_names / sizeof *known_names, DEMAND_NAMES = KNOWN_NAMES - 2 };

bool handoff_lists_demands(struct base_span name)
{
    for (size_t i = 0; i < DEMAND_NAMES; i++) {
        if (base_span_equal(name, base_span_text(known_names[i])))
            return true;
    }
    return false;
}

/* ---- lists that are united --------------------------------------------------------------------
 */

struct demands {
    struct handoff_set set;
    yyjson_val **listed; /* by the numbers in the set */
    size_t count;
    yyjson_val *wanted;
};

static bool is_wanted(const void *context, size_t number)
{
    const struct demands *demands = context;
    return handoff_same_entry(demands->listed[number], demands->wanted);
}

static void add_demands(struct demands *demands, struct base_buffer *out, yyjson_val *list)
{
    size_t i, n;
    yyjson_val *demand;
    yyjson_arr_foreach(list, i, n, demand)
    {
        const uint64_t hash = handoff_hash_entry(demand);
        demands->wanted = demand;
        if (handoff_set_find(&demands->set, hash, is_wanted, demands) != HANDOFF_SET_NONE)
            continue;
        if (demands->count)
            base_buffer_byte(out, ',');
        base_json_write(out, demand);
        handoff_set_add(&demands->set, hash, demands->count);
        demands->listed[demands->count++] = demand;
    }
}

static void unite_demands(struct base_buffer *out, yyjson_val *inherited, yyjson_val *added)
{
    const size_t most = yyjson_arr_size(inherited) + yyjson_arr_size(added);
    struct base_arena arena;
    struct demands demands = {0};
    base_arena_init(&arena, 0);
    demands.listed = base_arena_calloc(&arena, most + 1, sizeof *demands.listed);
    if (demands.listed && handoff_set_init(&demands.set, &arena, most)) {
        base_buffer_byte(out, '[');
        add_demands(&demands, out, inherited);
        add_demands(&demands, out, added);
        base_buffer_byte(out, ']');
    } else {
        out->failed = true;
    }
    base_arena_free(&arena);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static void note_refused(struct join_walk *walk, yyjson_val *inherited)
{
    struct handoff_join_refusal *refusal = walk->refusal;
    if (refusal->count++) {
        base_buffer_text(&refusal->names, ", ");
    } else {
        refusal->inherited = inherited;
        base_buffer_append(&refusal->first, walk->path.data, walk->path.size);
    }
    base_buffer_append(&refusal->names, walk->path.data, walk->path.size);
}

/* A budget, or the deadline of an edit: at the top only, and not null. */
static bool may_be_any(const struct join_walk *walk, yyjson_val *added)
{
    const struct base_span path = base_buffer_span(&walk->path);
    return !yyjson_is_null(added) && (base_span_equal(path, base_span_text("max_tokens")) ||
                                      ((walk->join & HANDOFF_JOIN_ANY_DEADLINE) &&
                                       base_span_equal(path, base_span_text("deadline"))));
}

static void join_value(struct join_walk *walk, struct base_span name, yyjson_val *inherited,
                       yyjson_val *added)
{
    if (!added || base_json_equal(inherited, added)) {
        base_json_write(walk->out, inherited);
    } else if (yyjson_is_obj(inherited) && yyjson_is_obj(added)) {
        join_objects(walk, inherited, added);
    } else if (handoff_lists_demands(name) && yyjson_is_arr(inherited) && yyjson_is_arr(added)) {
        unite_demands(walk->out, inherited, added);
    } else if (is_tighter(name, inherited, added) || may_be_any(walk, added)) {
        base_json_write(walk->out, added);
    } else {
        if (!(walk->join & HANDOFF_JOIN_SIBLING) || !is_tighter(name, added, inherited))
            note_refused(walk, inherited);
        base_json_write(walk->out, inherited);
    }
}

static void join_member(struct join_walk *walk, yyjson_val *key, yyjson_val *inherited,
                        yyjson_val *added)
{
    size_t before = walk->path.size;
    if (before)
        base_buffer_byte(&walk->path, '.');
    base_buffer_append(&walk->path, yyjson_get_str(key), yyjson_get_len(key));
    base_json_write_key(walk->out, base_json_span(key));
    join_value(walk, base_json_span(key), inherited, added);
    if (!walk->path.failed)
        walk->path.size = before;
}

static yyjson_val *same_member(yyjson_val *object, yyjson_val *key)
{
    return yyjson_obj_getn(object, yyjson_get_str(key), yyjson_get_len(key));
}

static bool is_left_out(const struct join_walk *walk, yyjson_val *key)
{
    return (walk->join & HANDOFF_JOIN_NO_DEADLINE) && walk->path.size == 0 &&
           yyjson_equals_str(key, "deadline");
}

static void join_inherited(struct join_walk *walk, yyjson_val *inherited, yyjson_val *added)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(inherited, i, n, key, value)
    {
        join_member(walk, key, value, is_left_out(walk, key) ? NULL : same_member(added, key));
    }
}

static void add_new(struct join_walk *walk, yyjson_val *inherited, yyjson_val *added)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(added, i, n, key, value)
    {
        if (same_member(inherited, key) || is_left_out(walk, key))
            continue;
        base_json_write_key(walk->out, base_json_span(key));
        base_json_write(walk->out, value);
    }
}

/* Either may be NULL, which yyjson's loops over objects do not accept. */
static void join_objects(struct join_walk *walk, yyjson_val *inherited, yyjson_val *added)
{
    base_buffer_byte(walk->out, '{');
    if (inherited)
        join_inherited(walk, inherited, added);
    if (added)
        add_new(walk, inherited, added);
    base_buffer_byte(walk->out, '}');
}

void handoff_join_constraints(struct base_buffer *out, yyjson_val *inherited, yyjson_val *added,
                              unsigned join, struct handoff_join_refusal *refusal)
{
    struct join_walk walk = {
        .out = out, .path.arena = out->arena, .join = join, .refusal = refusal};
    *refusal = (struct handoff_join_refusal){.names.arena = out->arena, .first.arena = out->arena};
    join_objects(&walk, inherited, added);
    out->failed |= walk.path.failed || refusal->names.failed || refusal->first.failed;
    base_buffer_free(&walk.path);
}

void handoff_join_refusal_free(struct handoff_join_refusal *refusal)
{
    base_buffer_free(&refusal->names);
    base_buffer_free(&refusal->first);
}

/* Keys may have dots of their own, so each member is tried with what follows it. */
yyjson_val *handoff_constraint_at(yyjson_val *constraints, struct base_span path)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(constraints))
        return NULL;
    yyjson_obj_foreach(constraints, i, n, key, value)
    {
        const struct base_span name = base_json_span(key);
        if (base_span_equal(name, path))
            return value;
        if (name.size >= path.size || path.data[name.size] != '.' ||
            memcmp(name.data, path.data, name.size) != 0)
            continue;
        yyjson_val *inside = handoff_constraint_at(
            value, base_span(path.data + name.size + 1, path.size - name.size - 1));
        if (inside)
            return inside;
    }
    return NULL;
}

/* ---- spelling ---------------------------------------------------------------------------------
 */

/* The next character that counts, in lower case; 0: the end, before which a plural s does not
 * count. */
static int next_letter(struct base_span name, size_t *at)
{
    while (*at < name.size && (name.data[*at] == '_' || name.data[*at] == '-'))
        ++*at;
    if (*at == name.size)
        return 0;
    int letter = (unsigned char)name.data[(*at)++];
    if (letter >= 'A' && letter <= 'Z')
        letter += 'a' - 'A';
    return letter == 's' && *at == name.size && name.size > 1 ? 0 : letter;
}

static bool looks_like(struct base_span name, struct base_span known)
{
    size_t i = 0, k = 0;
    int letter;
    do {
        letter = next_letter(name, &i);
        if (letter != next_letter(known, &k))
            return false;
    } while (letter);
    return !base_span_equal(name, known);
}

static enum handoff_code refuse_spelling(struct base_span name, struct base_span known,
                                         struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID,
                      "this constraint differs from another only in its spelling, and would not be "
                      "treated as that one",
                      NULL, name.data);
    handoff_error_field(error, "constraints.%s", name.data);
    handoff_error_allow(error, "%s, or another name", known.data);
    return HANDOFF_ERR_INVALID;
}

static bool is_like_known(struct base_span name, struct base_span *known)
{
    for (size_t i = 0; i < KNOWN_NAMES; i++) {
        *known = base_span_text(known_names[i]);
        if (looks_like(name, *known))
            return true;
    }
    return false;
}

static bool is_like_inherited(struct base_span name, yyjson_val *inherited, struct base_span *known)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(inherited))
        return false;
    yyjson_obj_foreach(inherited, i, n, key, value)
    {
        *known = base_json_span(key);
        if (looks_like(name, *known))
            return true;
    }
    return false;
}

/* Known names have their meaning at the top only. */
static enum handoff_code check_spelling(yyjson_val *constraints, yyjson_val *inherited, bool top,
                                        struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *key, *value;
    struct base_span known;
    enum handoff_code code = HANDOFF_OK;
    yyjson_obj_foreach(constraints, i, n, key, value)
    {
        const struct base_span name = base_json_span(key);
        yyjson_val *twin = yyjson_is_obj(inherited) ? same_member(inherited, key) : NULL;
        if (!twin &&
            ((top && is_like_known(name, &known)) || is_like_inherited(name, inherited, &known)))
            return refuse_spelling(name, known, error);
        if (yyjson_is_obj(value))
            code = check_spelling(value, twin, false, error);
        if (code != HANDOFF_OK)
            return code;
    }
    return code;
}

enum handoff_code handoff_check_spelling(yyjson_val *constraints, yyjson_val *inherited,
                                         struct handoff_error *error)
{
    return yyjson_is_obj(constraints) ? check_spelling(constraints, inherited, true, error)
                                      : HANDOFF_OK;
}
