/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - one call of the API as libcurl makes it; for api.c and many.c. One thread. */
#ifndef CTL_TRANSFER_H
#define CTL_TRANSFER_H

#include <curl/curl.h>

#include "ctl/api.h"

/* With the token. CTL_OK, or the exit code after stderr said why; free them with
   curl_slist_free_all. */
int ctl_transfer_headers(const struct ctl_line *line, const struct ctl_call *call,
                         struct curl_slist **headers);

/* Sets everything but what is only known when it ends. What the call points to is lent until then.
   The URL, which is the caller's to free after the transfer; NULL: no memory. */
char *ctl_transfer_set_up(CURL *curl, const struct ctl_line *line, const struct ctl_call *call,
                          struct curl_slist *headers, struct ctl_answer *answer);

/* Reads what came besides the body, of a transfer that succeeded. */
void ctl_transfer_read(CURL *curl, struct ctl_answer *answer);

#endif
