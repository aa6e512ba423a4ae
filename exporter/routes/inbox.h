/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.h - what the two ways of reading an inbox share. On the loop of the request. */
#ifndef EXPORTER_ROUTES_INBOX_H
#define EXPORTER_ROUTES_INBOX_H

#include "client/handoff.h"
#include "exporter/http/http.h"

/* What a poll is told in headers, and a stream beside the envelope. */
struct exporter_inbox_headers {
    const char *content_type;
    struct exporter_header rows[6];
    size_t count;
    char attempt[16], lease[24];
};

/* Lends the texts of `got`. */
void exporter_inbox_write_headers(struct exporter_inbox_headers *headers,
                                  const struct handoff_pulled *got);

/* Answers with a stream of events; the context is the client host. */
void exporter_inbox_follow(struct exporter_request *request, void *context);

#endif
