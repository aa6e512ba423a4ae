/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of constraints.h. What was joined so far is a tree, to which the next hop's constraints
 * are added in time that depends on theirs alone; it is written once, at the end. Only members that
 * several hops named are nodes of it, all others are values as they were supplied. Pure but for the
 * arena, any thread.
 */
#include "client/ledger/constraints.h"

#include <string.h>

#include "client/ledger/same.h"
#include "client/ledger/set.h"
#include "lib/base/json.h"
#include "lib/base/nearest.h"

/* A name, and what it has become. */
struct joined_member {
    yyjson_val *key, *value;       /* value: of the first hop, or the tightest */
    struct joined_object *members; /* of an object that several hops named, or with null members */
    struct demands *demands;       /* likewise, for a list of demands */
};

struct joined_object {
    struct joined_member *at;
    size_t count, room;
    struct handoff_set names;
    struct base_span wanted; /* the name that is looked for */
};

/* A list that is united: each demand once. */
struct demands {
    yyjson_val **at;
    size_t count, room;
    struct handoff_set set;
    yyjson_val *wanted;
};

struct handoff_joined {
    struct base_arena *arena;
    struct joined_object top;
    bool failed;
};

/* What adds one hop's, and the path of where it is: "limits.max_cost". */
struct join_walk {
    struct handoff_joined *joined;
    struct base_buffer path;
    unsigned join;
    struct handoff_join_refusal *refusal;
};

static void join_members(struct join_walk *walk, struct joined_object *object, yyjson_val *added);

/* ---- what tightening is -------------------------------------------------------------------- */

static bool name_begins(struct base_span name, const char *prefix)
{
    return name.size >= strlen(prefix) && memcmp(name.data, prefix, strlen(prefix)) == 0;
}

static bool number_is_tighter(struct base_span name, yyjson_val *inherited, yyjson_val *added)
{
    double from, to;
    int order;
    if (!base_json_compare_numbers(added, inherited, &order) ||
        !base_json_double(inherited, &from) || !base_json_double(added, &to))
        return false;
    /* A negative maximum often means unlimited, and -1 nearly always. */
    const bool may_be_unlimited = to < 0 && (from >= 0 || (to >= -1 && to <= -1));
    return (name_begins(name, "max_") && order < 0 && !may_be_unlimited) ||
           (name_begins(name, "min_") && order > 0);
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
enum {
    KNOWN_NAMES = sizeof known_names / sizeof *known_names,
    DEMAND_NAMES = KNOWN_NAMES - 2,
    MAX_TOKENS_NAME = KNOWN_NAMES - 1
};

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

enum { JOINED_LEAST = 8 }; /* members or demands that there is room for at first */

static bool is_wanted(const void *context, size_t number)
{
    const struct demands *demands = context;
    return handoff_same_entry(demands->at[number], demands->wanted);
}

/* Twice the room for what is known, and a set of that size. */
static bool grow(struct base_arena *arena, void **at, size_t size, size_t count, size_t *room,
                 struct handoff_set *set)
{
    *room = *room ? 2 * *room : JOINED_LEAST;
    void *grown = base_arena_resize(arena, *at, count * size, *room * size);
    if (!grown || !handoff_set_init(set, arena, *room))
        return false;
    *at = grown;
    return true;
}

static bool grow_demands(struct base_arena *arena, struct demands *demands)
{
    void *at = demands->at;
    if (!grow(arena, &at, sizeof *demands->at, demands->count, &demands->room, &demands->set))
        return false;
    demands->at = at;
    for (size_t i = 0; i < demands->count; i++)
        handoff_set_add(&demands->set, handoff_hash_entry(demands->at[i]), i);
    return true;
}

static void add_demands(struct handoff_joined *joined, struct demands *demands, yyjson_val *list)
{
    size_t i, n;
    yyjson_val *demand;
    yyjson_arr_foreach(list, i, n, demand)
    {
        const uint64_t hash = handoff_hash_entry(demand);
        if (demands->count == demands->room && !grow_demands(joined->arena, demands)) {
            joined->failed = true;
            return;
        }
        demands->wanted = demand;
        if (handoff_set_find(&demands->set, hash, is_wanted, demands) != HANDOFF_SET_NONE)
            continue;
        handoff_set_add(&demands->set, hash, demands->count);
        demands->at[demands->count++] = demand;
    }
}

static void unite_demands(struct join_walk *walk, struct joined_member *member, yyjson_val *added)
{
    struct handoff_joined *joined = walk->joined;
    if (!member->demands) {
        member->demands = base_arena_calloc(joined->arena, 1, sizeof *member->demands);
        if (!member->demands) {
            joined->failed = true;
            return;
        }
        add_demands(joined, member->demands, member->value);
    }
    add_demands(joined, member->demands, added);
}

/* ---- members ----------------------------------------------------------------------------------
 */

static bool is_wanted_member(const void *context, size_t number)
{
    const struct joined_object *object = context;
    return base_span_equal(base_json_span(object->at[number].key), object->wanted);
}

static struct joined_member *find_member(struct joined_object *object, struct base_span name)
{
    object->wanted = name;
    const size_t number = object->count ? handoff_set_find(&object->names, handoff_hash_text(name),
                                                           is_wanted_member, object)
                                        : HANDOFF_SET_NONE;
    return number == HANDOFF_SET_NONE ? NULL : &object->at[number];
}

static bool grow_object(struct base_arena *arena, struct joined_object *object)
{
    void *at = object->at;
    if (!grow(arena, &at, sizeof *object->at, object->count, &object->room, &object->names))
        return false;
    object->at = at;
    for (size_t i = 0; i < object->count; i++)
        handoff_set_add(&object->names, handoff_hash_text(base_json_span(object->at[i].key)), i);
    return true;
}

bool handoff_has_null_members(yyjson_val *constraints)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(constraints))
        return false;
    yyjson_obj_foreach(constraints, i, n, key, value)
    {
        if (yyjson_is_null(value) || handoff_has_null_members(value))
            return true;
    }
    return false;
}

/* NULL: out of memory. */
static struct joined_object *make_members(struct handoff_joined *joined, yyjson_val *value);

/* What is null is absent: no rule would let a later hop name it. */
static void link_member(struct handoff_joined *joined, struct joined_object *object,
                        yyjson_val *key, yyjson_val *value)
{
    if (yyjson_is_null(value))
        return;
    if (object->count == object->room && !grow_object(joined->arena, object)) {
        joined->failed = true;
        return;
    }
    handoff_set_add(&object->names, handoff_hash_text(base_json_span(key)), object->count);
    object->at[object->count++] = (struct joined_member){
        .key = key,
        .value = value,
        .members = handoff_has_null_members(value) ? make_members(joined, value) : NULL};
}

static struct joined_object *make_members(struct handoff_joined *joined, yyjson_val *value)
{
    size_t i, n;
    yyjson_val *key, *member;
    struct joined_object *members = base_arena_calloc(joined->arena, 1, sizeof *members);
    if (!members) {
        joined->failed = true;
        return NULL;
    }
    yyjson_obj_foreach(value, i, n, key, member)
    {
        link_member(joined, members, key, member);
    }
    return members;
}

static void join_object(struct join_walk *walk, struct joined_member *member, yyjson_val *added)
{
    if (!member->members)
        member->members = make_members(walk->joined, member->value);
    if (member->members)
        join_members(walk, member->members, added);
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

/* What was joined already is compared by its parts. */
static bool repeats_member(const struct joined_member *member, yyjson_val *added)
{
    return !member->members && !member->demands && base_json_equal(member->value, added);
}

static void join_value(struct join_walk *walk, struct joined_member *member, yyjson_val *added)
{
    const struct base_span name = base_json_span(member->key);
    if (repeats_member(member, added))
        return;
    if (yyjson_is_obj(member->value) && yyjson_is_obj(added))
        join_object(walk, member, added);
    else if (handoff_lists_demands(name) && yyjson_is_arr(member->value) && yyjson_is_arr(added))
        unite_demands(walk, member, added);
    else if (is_tighter(name, member->value, added) || may_be_any(walk, added))
        *member = (struct joined_member){.key = member->key, .value = added};
    else if (!(walk->join & HANDOFF_JOIN_SIBLING) || !is_tighter(name, added, member->value))
        note_refused(walk, member->value);
}

static void join_member(struct join_walk *walk, struct joined_member *member, yyjson_val *added)
{
    const struct base_span name = base_json_span(member->key);
    const size_t before = walk->path.size;
    if (before)
        base_buffer_byte(&walk->path, '.');
    base_buffer_append(&walk->path, name.data, name.size);
    join_value(walk, member, added);
    if (!walk->path.failed)
        walk->path.size = before;
}

static bool is_left_out(const struct join_walk *walk, yyjson_val *key)
{
    return (walk->join & HANDOFF_JOIN_NO_DEADLINE) && walk->path.size == 0 &&
           yyjson_equals_str(key, "deadline");
}

static void join_members(struct join_walk *walk, struct joined_object *object, yyjson_val *added)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(added, i, n, key, value)
    {
        if (is_left_out(walk, key))
            continue;
        struct joined_member *member = find_member(object, base_json_span(key));
        if (member)
            join_member(walk, member, value);
        else
            link_member(walk->joined, object, key, value);
    }
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static void write_demands(struct base_buffer *out, const struct demands *demands)
{
    base_buffer_byte(out, '[');
    for (size_t i = 0; i < demands->count; i++) {
        if (i)
            base_buffer_byte(out, ',');
        base_json_write(out, demands->at[i]);
    }
    base_buffer_byte(out, ']');
}

static void write_joined_object(struct base_buffer *out, const struct joined_object *object)
{
    base_buffer_byte(out, '{');
    for (size_t i = 0; i < object->count; i++) {
        const struct joined_member *member = &object->at[i];
        base_json_write_key(out, base_json_span(member->key));
        if (member->members)
            write_joined_object(out, member->members);
        else if (member->demands)
            write_demands(out, member->demands);
        else
            base_json_write(out, member->value);
    }
    base_buffer_byte(out, '}');
}

struct handoff_joined *handoff_joined_begin(struct base_arena *arena)
{
    struct handoff_joined *joined = base_arena_calloc(arena, 1, sizeof *joined);
    if (joined)
        joined->arena = arena;
    return joined;
}

bool handoff_joined_add(struct handoff_joined *joined, yyjson_val *constraints, unsigned join,
                        struct handoff_join_refusal *refusal)
{
    struct join_walk walk = {
        .joined = joined, .path.arena = joined->arena, .join = join, .refusal = refusal};
    *refusal =
        (struct handoff_join_refusal){.names.arena = joined->arena, .first.arena = joined->arena};
    if (yyjson_is_obj(constraints))
        join_members(&walk, &joined->top, constraints);
    joined->failed |= walk.path.failed || refusal->names.failed || refusal->first.failed;
    return !joined->failed;
}

void handoff_joined_write(struct base_buffer *out, const struct handoff_joined *joined)
{
    write_joined_object(out, &joined->top);
}

static yyjson_val *same_member(yyjson_val *object, yyjson_val *key)
{
    return yyjson_obj_getn(object, yyjson_get_str(key), yyjson_get_len(key));
}

static bool some_member_holds(yyjson_val *object, yyjson_val *joined)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        if (handoff_constraint_holds(base_json_span(key), value, same_member(joined, key)))
            return true;
    }
    return false;
}

bool handoff_constraint_holds(struct base_span name, yyjson_val *value, yyjson_val *joined)
{
    if (!joined || base_json_equal(value, joined))
        return joined;
    if (yyjson_is_obj(value) && yyjson_is_obj(joined))
        return some_member_holds(value, joined);
    return yyjson_is_arr(value) && yyjson_is_arr(joined) && handoff_lists_demands(name);
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

static size_t skip_joints(struct base_span name, size_t at)
{
    while (at < name.size && (name.data[at] == '_' || name.data[at] == '-'))
        at++;
    return at;
}

/* The next character that counts, in lower case; 0: the end, before which a plural s does not
 * count. */
static int next_letter(struct base_span name, size_t *at)
{
    const size_t place = skip_joints(name, *at);
    if (place == name.size)
        return 0;
    int letter = (unsigned char)name.data[place];
    if (letter >= 'A' && letter <= 'Z')
        letter += 'a' - 'A';
    *at = skip_joints(name, place + 1);
    return letter == 's' && *at == name.size && skip_joints(name, 0) < place ? 0 : letter;
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

static bool is_known_name(struct base_span name)
{
    for (size_t i = 0; i < KNOWN_NAMES; i++) {
        if (base_span_equal(name, base_span_text(known_names[i])))
            return true;
    }
    return false;
}

/* Inside an object, any name may have to do with tokens. */
static bool is_like_known(struct base_span name, bool top, struct base_span *known)
{
    for (size_t i = 0; i < KNOWN_NAMES; i++) {
        *known = base_span_text(known_names[i]);
        if ((looks_like(name, *known) ||
             base_is_slip(name.data, name.size, known->data, known->size)) &&
            (top || i != MAX_TOKENS_NAME))
            return true;
    }
    return false;
}

/* The keys of one object, and of the one that it is joined to. */
struct spellings {
    struct handoff_set set;
    struct base_span *at;
    size_t count;
    struct base_span wanted;
};

static uint64_t hash_spelling(struct base_span name)
{
    uint64_t hash = 0x2545f4914f6cdd1du;
    size_t at = 0;
    for (int letter; (letter = next_letter(name, &at)) != 0;)
        hash = handoff_hash_more(hash, (uint64_t)letter);
    return hash;
}

static bool is_look_alike(const void *context, size_t number)
{
    const struct spellings *spellings = context;
    return looks_like(spellings->wanted, spellings->at[number]);
}

/* hash: hash_spelling of the name. NULL: there is none. */
static const struct base_span *find_look_alike(struct spellings *spellings, struct base_span name,
                                               uint64_t hash)
{
    spellings->wanted = name;
    const size_t number = handoff_set_find(&spellings->set, hash, is_look_alike, spellings);
    return number == HANDOFF_SET_NONE ? NULL : &spellings->at[number];
}

static void add_spelling(struct spellings *spellings, struct base_span name, uint64_t hash)
{
    handoff_set_add(&spellings->set, hash, spellings->count);
    spellings->at[spellings->count++] = name;
}

/* With the keys of `inherited`, and room for those of `own`. */
static bool list_spellings(struct spellings *spellings, struct base_arena *arena,
                           yyjson_val *inherited, yyjson_val *own)
{
    const size_t most = yyjson_obj_size(inherited) + yyjson_obj_size(own);
    size_t i, n;
    yyjson_val *key, *value;
    *spellings =
        (struct spellings){.at = base_arena_alloc(arena, (most + 1) * sizeof(struct base_span))};
    if (!spellings->at || !handoff_set_init(&spellings->set, arena, most))
        return false;
    if (!yyjson_is_obj(inherited))
        return true;
    yyjson_obj_foreach(inherited, i, n, key, value)
    {
        add_spelling(spellings, base_json_span(key), hash_spelling(base_json_span(key)));
    }
    return true;
}

/* A key is all right if it is inherited just so, whatever else is; or if it is a known one. */
static enum handoff_code check_one_key(struct spellings *spellings, struct base_span name, bool top,
                                       struct handoff_error *error)
{
    struct base_span known;
    const uint64_t hash = hash_spelling(name);
    const struct base_span *other = find_look_alike(spellings, name, hash);
    add_spelling(spellings, name, hash);
    if (is_known_name(name))
        return HANDOFF_OK;
    if (other)
        return refuse_spelling(name, *other, error);
    return is_like_known(name, top, &known) ? refuse_spelling(name, known, error) : HANDOFF_OK;
}

static enum handoff_code check_spelling(struct base_arena *arena, yyjson_val *constraints,
                                        yyjson_val *inherited, bool top,
                                        struct handoff_error *error)
{
    struct spellings spellings;
    size_t i, n;
    yyjson_val *key, *value;
    enum handoff_code code = HANDOFF_OK;
    if (!list_spellings(&spellings, arena, inherited, constraints))
        return handoff_error_no_memory(error);
    yyjson_obj_foreach(constraints, i, n, key, value)
    {
        const struct base_span name = base_json_span(key);
        yyjson_val *twin = yyjson_is_obj(inherited) ? same_member(inherited, key) : NULL;
        if (!twin)
            code = check_one_key(&spellings, name, top, error);
        if (code == HANDOFF_OK && yyjson_is_obj(value))
            code = check_spelling(arena, value, twin, false, error);
        if (code != HANDOFF_OK)
            return code;
    }
    return code;
}

enum handoff_code handoff_check_spelling(struct base_arena *arena, yyjson_val *constraints,
                                         yyjson_val *inherited, struct handoff_error *error)
{
    return yyjson_is_obj(constraints) ? check_spelling(arena, constraints, inherited, true, error)
                                      : HANDOFF_OK;
}

/* ---- look-alikes of several hops --------------------------------------------------------------
 */

struct look_alike_walk {
    struct base_arena *arena;
    struct base_buffer path; /* of the object that is looked at */
    bool (*counts)(void *context, const struct handoff_look_alikes *);
    void *context;
    struct handoff_look_alikes *found;
};

static void write_key_path(struct base_buffer *out, const struct base_buffer *path,
                           struct base_span name)
{
    base_buffer_clear(out);
    base_buffer_append(out, path->data, path->size);
    if (path->size)
        base_buffer_byte(out, '.');
    base_buffer_append(out, name.data, name.size);
}

static bool is_wanted_pair(struct look_alike_walk *walk, struct base_span one,
                           struct base_span other)
{
    write_key_path(&walk->found->one, &walk->path, one);
    write_key_path(&walk->found->other, &walk->path, other);
    return !walk->found->one.failed && !walk->found->other.failed &&
           walk->counts(walk->context, walk->found);
}

static bool find_pair(struct look_alike_walk *walk, yyjson_val *object);

static bool find_pair_inside(struct look_alike_walk *walk, yyjson_val *key, yyjson_val *value)
{
    const size_t before = walk->path.size;
    if (!yyjson_is_obj(value))
        return false;
    if (before)
        base_buffer_byte(&walk->path, '.');
    base_buffer_append(&walk->path, yyjson_get_str(key), yyjson_get_len(key));
    const bool found = !walk->path.failed && find_pair(walk, value);
    walk->path.size = before;
    return found;
}

static bool find_pair(struct look_alike_walk *walk, yyjson_val *object)
{
    struct spellings spellings;
    size_t i, n;
    yyjson_val *key, *value;
    if (!list_spellings(&spellings, walk->arena, NULL, object))
        return false;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        const struct base_span name = base_json_span(key);
        const uint64_t hash = hash_spelling(name);
        const struct base_span *other = find_look_alike(&spellings, name, hash);
        if (other ? is_wanted_pair(walk, *other, name) : find_pair_inside(walk, key, value))
            return true;
        add_spelling(&spellings, name, hash);
    }
    return false;
}

bool handoff_find_look_alikes(struct base_arena *arena, yyjson_val *constraints,
                              bool (*counts)(void *context, const struct handoff_look_alikes *),
                              void *context, struct handoff_look_alikes *found)
{
    struct look_alike_walk walk = {
        .arena = arena, .path.arena = arena, .counts = counts, .context = context, .found = found};
    *found = (struct handoff_look_alikes){.one.arena = arena, .other.arena = arena};
    return yyjson_is_obj(constraints) && find_pair(&walk, constraints);
}
