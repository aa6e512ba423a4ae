/* SPDX-License-Identifier: Apache-2.0 */
/* Calls at the same time, see many.h. */
#include "ctl/many.h"

#include <stdio.h>
#include <stdlib.h>

#include "ctl/transfer.h"

struct many_call {
    CURL *curl; /* NULL: free */
    char *url;
    void *tag;
    struct ctl_answer answer;
};

struct ctl_many {
    const struct ctl_line *line;
    CURLM *multi;
    struct curl_slist *headers; /* the same for all, from the first call */
    unsigned at_once, open;
    struct many_call calls[];
};

struct ctl_many *ctl_many_begin(const struct ctl_line *line, unsigned at_once)
{
    struct ctl_many *many = calloc(1, sizeof *many + at_once * sizeof many->calls[0]);
    CURLM *multi = curl_multi_init();
    if (!many || !multi) {
        fprintf(stderr, "handoffctl %s: out of memory\n", line->command->name);
        curl_multi_cleanup(multi);
        free(many);
        return NULL;
    }
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)at_once);
    many->line = line;
    many->multi = multi;
    many->at_once = at_once;
    return many;
}

static void end_many_call(struct ctl_many *many, struct many_call *call)
{
    curl_multi_remove_handle(many->multi, call->curl);
    curl_easy_cleanup(call->curl);
    free(call->url);
    *call = (struct many_call){0};
    many->open--;
}

void ctl_many_end(struct ctl_many *many)
{
    if (!many)
        return;
    for (unsigned i = 0; i < many->at_once; i++) {
        ctl_answer_free(&many->calls[i].answer);
        if (many->calls[i].curl)
            end_many_call(many, &many->calls[i]);
    }
    curl_slist_free_all(many->headers);
    curl_multi_cleanup(many->multi);
    free(many);
}

bool ctl_many_has_room(const struct ctl_many *many)
{
    return many->open < many->at_once;
}

unsigned ctl_many_open(const struct ctl_many *many)
{
    return many->open;
}

static struct many_call *find_room(struct ctl_many *many)
{
    unsigned i = 0;
    while (many->calls[i].curl)
        i++;
    return &many->calls[i];
}

bool ctl_many_add(struct ctl_many *many, const struct ctl_call *what, void *tag)
{
    struct many_call *call = find_room(many);
    if (!many->headers && ctl_transfer_headers(many->line, what, &many->headers) != CTL_OK)
        return false;
    call->curl = curl_easy_init();
    if (!call->curl)
        return false;
    many->open++;
    call->tag = tag;
    call->url = ctl_transfer_set_up(call->curl, many->line, what, many->headers, &call->answer);
    curl_easy_setopt(call->curl, CURLOPT_PRIVATE, (char *)call);
    if (call->url && curl_multi_add_handle(many->multi, call->curl) == CURLM_OK)
        return true;
    end_many_call(many, call);
    return false;
}

static CURLMsg *wait_for_end_of_one(struct ctl_many *many)
{
    CURLMsg *message;
    int running, left;
    for (;;) {
        curl_multi_perform(many->multi, &running);
        while ((message = curl_multi_info_read(many->multi, &left))) {
            if (message->msg == CURLMSG_DONE)
                return message;
        }
        curl_multi_poll(many->multi, NULL, 0, 1000, NULL);
    }
}

int ctl_many_next(struct ctl_many *many, void **tag, struct ctl_answer *answer, const char **why)
{
    struct many_call *call;
    CURLMsg *message = wait_for_end_of_one(many);
    const CURLcode result = message->data.result; /* gone with the handle */
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)(void *)&call);
    if (result == CURLE_OK)
        ctl_transfer_read(call->curl, &call->answer);
    *tag = call->tag;
    *answer = call->answer;
    *why = curl_easy_strerror(result);
    end_many_call(many, call);
    return result == CURLE_OK ? CTL_OK : CTL_UNREACHABLE;
}
