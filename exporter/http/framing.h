/* SPDX-License-Identifier: Apache-2.0 */
/*
 * framing.h - whether the headers of a request leave no doubt where it ends, and who it is for.
 *
 * A proxy in front of us that finds another end than we do passes on, inside of one client's
 * request, a second one that nobody has checked (request smuggling). So what RFC 9112 forbids is
 * not repaired: the request is refused, and its connection ends with the answer.
 */
#ifndef EXPORTER_HTTP_FRAMING_H
#define EXPORTER_HTTP_FRAMING_H

#include <stdbool.h>

struct exporter_request;

/* false: the request's refusal says what is wrong. `version` is "HTTP/1.1" or "HTTP/1.0". */
bool exporter_framing_check(struct exporter_request *request, const char *version);

#endif
