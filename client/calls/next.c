/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next request that an agent sent with its acknowledgement: assembled like any other, in the
 * name of that agent, and as a child of the handoff that it acknowledges
 * (client/deliver/hand_on.h).
 *
 * On the thread of the loop that has the acknowledged handoff; long requests on a worker.
 */
#include "client/calls/next.h"

#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "client/calls/submission.h"
#include "client/deliver/hand_on.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { NEXT_MAGIC = 0x6e657874 };

struct next {
    unsigned magic;
    struct handoff_loop *loop;
    struct handoff_hand_on *on;
    struct handoff_assembly *assembly;
    struct handoff_warnings warnings; /* for nobody */
    char *body;                       /* the request, which names its parent */
};

/* ---- the request ------------------------------------------------------------------------------
 */

/* Whether it says by itself what it continues. */
static bool names_parent(struct base_span request)
{
    yyjson_doc *doc = yyjson_read(request.data, request.size, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const bool names = yyjson_obj_get(root, "previous_id") || yyjson_obj_get(root, "new_chain");
    yyjson_doc_free(doc);
    return names;
}

/* The first member that it has, if any, begins here. */
static const char *first_member(struct base_span request)
{
    const char *at = request.data, *end = request.data + request.size;
    while (at < end && strchr(" \t\r\n", *at))
        at++;
    return at < end && *at == '{' ? at + 1 : NULL;
}

static bool is_empty_object(const char *member)
{
    return member[strspn(member, " \t\r\n")] == '}';
}

/* As it came, behind the id of the handoff that it continues. NULL: out of memory. */
static char *write_next(const struct handoff_hand_on *on)
{
    char id[BASE_UUID_TEXT], *text = NULL;
    const char *member = names_parent(on->request) ? NULL : first_member(on->request);
    base_uuid_format(&on->id, id);
    const size_t room = on->request.size + sizeof "{\"previous_id\":\"\"," + BASE_UUID_TEXT;
    text = base_malloc(room);
    if (text && member)
        snprintf(text, room, "{\"previous_id\":\"%s\"%s%s", id, is_empty_object(member) ? "" : ",",
                 member);
    else if (text)
        memcpy(text, on->request.data, on->request.size + 1);
    return text;
}

/* ---- assembling -------------------------------------------------------------------------------
 */

static void end_next(struct next *next)
{
    next->loop->pending--;
    if (next->assembly)
        handoff_client_end_assembly(&next->assembly);
    handoff_warnings_free(&next->warnings);
    base_free(next->body);
    next->magic = 0;
    base_free(next);
}

static void commit_next(struct handoff_hand_on *on)
{
    struct next *next = on->host;
    BASE_CHECK_MAGIC(next, NEXT_MAGIC);
    const struct handoff_assembly *assembly = next->assembly;
    struct handoff_submission submission;
    if (assembly->error.code == HANDOFF_OK) {
        handoff_submission_of(assembly, &submission);
        handoff_hand_on_commit(on, &submission, NULL);
    } else {
        handoff_hand_on_commit(on, NULL, &assembly->error);
    }
    end_next(next);
}

static void next_assembled(struct handoff_assembly *assembly)
{
    struct next *next = assembly->context;
    struct handoff_event event;
    BASE_CHECK_MAGIC(next, NEXT_MAGIC);
    handoff_client_tell_spine(next->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &assembly->resolve.call, assembly->spine_ns);
    if (assembly->error.code == HANDOFF_OK)
        handoff_client_keep_tokens(next->loop, assembly);
    handoff_client_describe(assembly, &event);
    handoff_client_tell(next->loop->client, &event);
    handoff_hand_on_assembled(next->on);
}

static void refuse_for_memory(struct handoff_hand_on *on)
{
    struct handoff_error error;
    handoff_error_no_memory(&error);
    handoff_hand_on_commit(on, NULL, &error);
}

static struct next *make_next(struct handoff_loop *loop, struct handoff_hand_on *on)
{
    struct next *next = base_calloc(1, sizeof *next);
    char *body = next ? write_next(on) : NULL;
    if (body) {
        const struct handoff_ask ask = {
            .body = body, .size = strlen(body), .caller = on->agent.data};
        *next = (struct next){.magic = NEXT_MAGIC, .loop = loop, .on = on, .body = body};
        next->assembly = handoff_client_begin_assembly(loop, &ask);
        if (next->assembly)
            return next;
    }
    base_free(body);
    base_free(next);
    return NULL;
}

/* The delivery's lane is its loop's. */
void handoff_client_hand_on(void *host, struct handoff_hand_on *on)
{
    struct handoff_loop *loop = on->lane->host;
    struct next *next = make_next(loop, on);
    (void)host;
    if (!next) {
        refuse_for_memory(on);
        return;
    }
    on->host = next;
    on->take = commit_next;
    loop->pending++;
    next->assembly->context = next;
    next->assembly->finished = next_assembled;
    next->assembly->warnings = &next->warnings;
    next->assembly->parks_at_limit = true;
    if (handoff_assembly_run(next->assembly))
        next_assembled(next->assembly);
}
