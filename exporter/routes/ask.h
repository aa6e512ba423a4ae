/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - who asks, and how, as the client takes it. Every call that assembles or sends begins
 * with this, so that none forgets whose request it is.
 *
 * On the loop of the request.
 */
#ifndef EXPORTER_ROUTES_ASK_H
#define EXPORTER_ROUTES_ASK_H

#include "client/handoff.h"
#include "exporter/http/http.h"
#include "exporter/http/prefer.h"

/* The body, the caller with what its token is bound to, and the headers. Lent like the body. What
 * `Prefer` says about waiting is left to the calls that wait. */
struct handoff_ask exporter_ask(struct exporter_request *request);

struct exporter_preferences exporter_preferences_of(struct exporter_request *request);

/* 202 for what is under way, else 200, with what was preferred and done. */
void exporter_respond_preferred(struct exporter_request *request,
                                const struct handoff_result *result);

/* Who decides, for this reason (NULL: none): the owner of the token, and what the request says of
 * the person in Handoff-Decided-By. Lent like the body. */
struct handoff_author exporter_author(struct exporter_request *request, const char *reason);

#endif
