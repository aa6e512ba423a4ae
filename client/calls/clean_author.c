/* SPDX-License-Identifier: Apache-2.0 */
/* Who decides, see clean_author.h. On the thread of the call. */
#include "client/calls/clean_author.h"

#include <stdio.h>

void handoff_clean_author(const struct handoff_client *client, const struct handoff_author *from,
                          struct handoff_clean_author *to)
{
    static const struct handoff_author nobody;
    const struct handoff_author *author = from ? from : &nobody;
    to->author = (struct handoff_author){
        .who = to->who, .by = to->by, .job = to->job, .reason = to->reason, .again = author->again};
    snprintf(to->who, sizeof to->who, "%s", author->who ? author->who : "");
    snprintf(to->job, sizeof to->job, "%s", author->job ? author->job : "");
    handoff_client_copy_reason(client, to->by, sizeof to->by, author->by);
    handoff_client_copy_reason(client, to->reason, sizeof to->reason, author->reason);
}
