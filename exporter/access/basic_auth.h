/* SPDX-License-Identifier: Apache-2.0 */
/*
 * basic_auth.h - user names and passwords, checked against bcrypt hashes off the loop.
 *
 * bcrypt costs tens of milliseconds on purpose. So checks run on a dedicated thread, one after
 * the other, and their results are remembered.
 */
#ifndef EXPORTER_ACCESS_BASIC_AUTH_H
#define EXPORTER_ACCESS_BASIC_AUTH_H

#include <stdbool.h>

#include "exporter/config/web_settings.h"
#include "exporter/error.h"
#include "exporter/http/http.h"

struct exporter_basic_auth;

struct exporter_basic_auth *exporter_basic_auth_new(struct exporter_error *error);
void exporter_basic_auth_stop(struct exporter_basic_auth *auth);
void exporter_basic_auth_free(struct exporter_basic_auth **auth);

enum exporter_auth_result { EXPORTER_AUTH_GOOD, EXPORTER_AUTH_BAD, EXPORTER_AUTH_BUSY };

/* Judges the Authorization header of a request. `done` is called exactly once, on the request's
 * loop, unless the request is cancelled: within this call where the answer is known, later (the
 * request is deferred then) where a hash has to be made. */
void exporter_basic_auth_check(struct exporter_basic_auth *auth,
                               const struct exporter_web_settings *settings,
                               struct exporter_request *request,
                               void (*done)(struct exporter_request *request,
                                            enum exporter_auth_result result));

/* For tests: "Basic dXNlcjpwYXNz" into user and password. false: not such a header. */
bool exporter_basic_auth_parse(const char *header, char *buffer, size_t size, const char **user,
                               const char **password);

#endif
