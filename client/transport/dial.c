/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialling through curl; dial.h says what for. The thread of the loop.
 *
 * Curl keeps a connection that it was only asked to make for as long as its handle lives. We
 * duplicate the descriptor of the socket and free the handle: curl closes its own descriptor,
 * which sends nothing while ours is open, and some 10 KB are freed.
 */
#include "client/transport/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"

enum { DIAL_MAGIC = 0x6469616cu, PEER_MAX = 72 };

struct handoff_dial {
    struct handoff_curl_job job;
    unsigned magic;
    struct handoff_curl *curl;
    void (*done)(void *arg, const struct handoff_dialled *dialled);
    void *arg;
    int64_t timeout_ms;
};

static void free_dial(struct handoff_dial *dial)
{
    curl_easy_cleanup(dial->job.easy);
    dial->magic = 0;
    base_free(dial);
}

static void write_peer_address(CURL *easy, char peer[PEER_MAX])
{
    const char *address = NULL;
    long port = 0;
    curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &address);
    curl_easy_getinfo(easy, CURLINFO_PRIMARY_PORT, &port);
    if (address && *address)
        snprintf(peer, PEER_MAX, strchr(address, ':') ? "[%s]:%ld" : "%s:%ld", address, port);
}

static int take_socket(CURL *easy)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    return fd == CURL_SOCKET_BAD ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void dial_ended(struct handoff_curl_job *job, CURLcode code)
{
    struct handoff_dial *dial = (struct handoff_dial *)job;
    BASE_CHECK_MAGIC(dial, DIAL_MAGIC);
    char peer[PEER_MAX] = "";
    struct handoff_dialled dialled = {.fd = -1, .peer = peer};
    write_peer_address(job->easy, peer);
    if (code == CURLE_OK && (dialled.fd = take_socket(job->easy)) < 0)
        dialled.failure =
            (struct handoff_failure){.fault = HANDOFF_FAULT_CONNECTION, .detail = strerror(errno)};
    else if (code != CURLE_OK)
        dialled.failure = handoff_curl_failure(job, code, dial->timeout_ms, dial->timeout_ms);
    handoff_curl_stop(dial->curl, job);
    dial->done(dial->arg, &dialled);
    free_dial(dial);
}

static bool set_up_dial(struct handoff_dial *dial, const char *url, int64_t timeout_ms)
{
    CURL *easy = dial->job.easy;
    return handoff_curl_prepare(dial->curl, &dial->job) &&
           curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)timeout_ms) == CURLE_OK;
}

struct handoff_dial *handoff_dial_start(struct handoff_curl *curl, const char *url,
                                        int64_t timeout_ms,
                                        void (*done)(void *arg, const struct handoff_dialled *),
                                        void *arg)
{
    struct handoff_dial *dial = base_calloc(1, sizeof *dial);
    if (!dial)
        return NULL;
    dial->magic = DIAL_MAGIC;
    dial->job.ended = dial_ended;
    dial->curl = curl;
    dial->done = done;
    dial->arg = arg;
    dial->timeout_ms = timeout_ms;
    dial->job.easy = curl_easy_init();
    if (dial->job.easy && set_up_dial(dial, url, timeout_ms) &&
        handoff_curl_start(curl, &dial->job))
        return dial;
    free_dial(dial);
    return NULL;
}

void handoff_dial_cancel(struct handoff_dial **dial)
{
    struct handoff_dial *dying = *dial;
    if (!dying)
        return;
    *dial = NULL;
    BASE_CHECK_MAGIC(dying, DIAL_MAGIC);
    handoff_curl_stop(dying->curl, &dying->job);
    free_dial(dying);
}
