/* SPDX-License-Identifier: Apache-2.0 */
/* clean_author.h - who decides, without credentials and cut to fit, as it may be recorded. */
#ifndef HANDOFF_CALLS_CLEAN_AUTHOR_H
#define HANDOFF_CALLS_CLEAN_AUTHOR_H

#include "client/calls/call.h"
#include "client/client.h"

enum {
    HANDOFF_AUTHOR_MARKERS = 256, /* room for some, where credentials were */
    HANDOFF_AUTHOR_BY_MAX = 128,  /* bytes of what the caller calls itself */
};

/* `author` points into the rest: it is never copied or moved. */
struct handoff_clean_author {
    struct handoff_author author;
    char who[HANDOFF_NAME_MAX + 1];
    char by[HANDOFF_AUTHOR_BY_MAX + 1];
    char job[BASE_UUID_TEXT];
    char reason[HANDOFF_REASON_MAX + HANDOFF_AUTHOR_MARKERS];
};

/* Copies what the author says, and reports credentials in it; NULL: the author is unknown. On any
   thread. */
void handoff_clean_author(const struct handoff_client *client, const struct handoff_author *from,
                          struct handoff_clean_author *to);

#endif
