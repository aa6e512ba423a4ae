/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Curl reports through one callback which sockets it wants watched, and through another when it
 * wants to be called next. Both use the loop's poller and timers. The thread of the loop.
 *
 * A socket that we opened stays in epoll when curl loses interest in it (its transfer ended, the
 * connection is kept): the next transfer asks for the same events, and nothing needs to change. An
 * event on it meanwhile means that the agent closed it; it is then removed, and curl notices by
 * itself. Sockets that curl opened for its own use are removed at once, because curl closes them
 * without telling us.
 */
#include "client/transport/curl_loop.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    CURL_MAGIC = 0x6375726cu,
    CONNECTIONS_KEPT = 16384, /* above any number in use, or curl closes warm ones under load */
};

/* A socket, found by its descriptor. Created once per descriptor and kept until the end. */
struct socket {
    struct base_watch watch;
    struct handoff_curl *curl;
    int fd;
    uint32_t events; /* as registered in epoll; 0: not registered */
    bool wanted;     /* curl is waiting for events */
    bool ours;       /* opened and closed through our callbacks */
};

struct handoff_curl {
    unsigned magic;
    CURLM *multi;
    struct base_poller *poller;
    struct base_timers *timers;
    const struct base_clock *clock;
    struct base_quota *quota;
    struct base_timer timer;
    struct socket **sockets; /* by descriptor */
    size_t nsockets;
};

/* ---- sockets -------------------------------------------------------------------------------- */

static void socket_ready(struct base_watch *watch, uint32_t events);

static bool grow_sockets(struct handoff_curl *curl, size_t fd)
{
    size_t count = curl->nsockets ? curl->nsockets : 64;
    while (count <= fd)
        count *= 2;
    struct socket **sockets = base_realloc(curl->sockets, count * sizeof sockets[0]);
    if (!sockets)
        return false;
    memset(sockets + curl->nsockets, 0, (count - curl->nsockets) * sizeof sockets[0]);
    curl->sockets = sockets;
    curl->nsockets = count;
    return true;
}

static struct socket *socket_of(struct handoff_curl *curl, int fd)
{
    BASE_CHECK(fd >= 0);
    if ((size_t)fd >= curl->nsockets && !grow_sockets(curl, (size_t)fd))
        return NULL;
    struct socket **place = &curl->sockets[fd];
    if (!*place && (*place = base_calloc(1, sizeof **place)) != NULL) {
        (*place)->watch.ready = socket_ready;
        (*place)->curl = curl;
        (*place)->fd = fd;
    }
    return *place;
}

static void forget_socket(struct socket *socket)
{
    if (socket->events)
        base_poller_forget(socket->curl->poller, socket->fd, &socket->watch);
    socket->events = 0;
}

static void watch_socket(struct socket *socket, uint32_t events)
{
    if (socket->events == events)
        return;
    int failed = base_poller_watch(socket->curl->poller, socket->fd, events, &socket->watch);
    /* the kernel is out of memory: the transfer times out and is retried */
    socket->events = failed ? 0 : events;
}

static void socket_ready(struct base_watch *watch, uint32_t events)
{
    struct socket *socket = (struct socket *)watch;
    if (!socket->wanted) {
        forget_socket(socket);
        return;
    }
    int bits = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
               (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;
    curl_multi_socket_action(socket->curl->multi, socket->fd, bits, &running);
}

/* Called by curl: which events it wants of a socket. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
    (void)easy, (void)unused;
    struct handoff_curl *curl = arg;
    BASE_CHECK_MAGIC(curl, CURL_MAGIC);
    struct socket *socket = socket_of(curl, fd);
    if (!socket) /* out of memory: the transfer times out. An error here would end all transfers */
        return 0;
    socket->wanted = what != CURL_POLL_REMOVE;
    if (socket->wanted)
        watch_socket(socket,
                     (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u));
    else if (!socket->ours)
        forget_socket(socket);
    else if (socket->events &
             EPOLLOUT) /* an idle connection is always writable: the loop would spin */
        watch_socket(socket, EPOLLIN);
    return 0;
}

/* So that curl, which knows no address of the host, can say where it is connected to. */
static void name_peer(struct curl_sockaddr *to, const struct handoff_address *address)
{
    to->family = address->of.any.sa_family;
    to->addrlen = address->size;
    memcpy(&to->addr, &address->of, address->size);
}

static int on_socket_options(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    (void)arg, (void)fd, (void)purpose;
    return CURL_SOCKOPT_ALREADY_CONNECTED;
}

/* Called by curl, which wants a new connection. */
static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)purpose;
    struct handoff_curl_job *job = arg;
    BASE_CHECK_MAGIC(job->curl, CURL_MAGIC);
    if (job->fd < 0) {
        job->wants_connection(job);
        return CURL_SOCKET_BAD;
    }
    struct socket *socket = socket_of(job->curl, job->fd);
    if (!socket)
        return CURL_SOCKET_BAD;
    const int fd = job->fd;
    job->fd = -1;
    name_peer(address, &job->address);
    socket->events = 0;
    socket->wanted = false;
    socket->ours = true;
    return fd;
}

static int on_close_socket(void *arg, curl_socket_t fd)
{
    struct handoff_curl *curl = arg;
    BASE_CHECK_MAGIC(curl, CURL_MAGIC);
    struct socket *socket = socket_of(curl, fd);
    if (socket) {
        forget_socket(socket);
        socket->wanted = socket->ours = false;
    }
    const int failed = close(fd);
    base_quota_give_back(curl->quota);
    return failed;
}

/* ---- time-outs ------------------------------------------------------------------------------ */

/* Called by curl: when it wants to be called next. */
static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct handoff_curl *curl = arg;
    BASE_CHECK_MAGIC(curl, CURL_MAGIC);
    if (timeout_ms < 0) {
        base_timers_stop(curl->timers, &curl->timer);
        return 0;
    }
    int64_t now_ms = base_monotonic_ns(curl->clock) / 1000000;
    base_timers_start(curl->timers, &curl->timer, now_ms + timeout_ms);
    return 0;
}

static void timer_fired(struct base_timer *timer)
{
    struct handoff_curl *curl = BASE_CONTAINER_OF(timer, struct handoff_curl, timer);
    BASE_CHECK_MAGIC(curl, CURL_MAGIC);
    int running;
    curl_multi_socket_action(curl->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

bool handoff_curl_prepare(struct handoff_curl *curl, struct handoff_curl_job *job)
{
    BASE_CHECK_MAGIC(curl, CURL_MAGIC);
    CURL *easy = job->easy;
    bool failed = false;
    job->curl = curl;
    job->fd = -1;
#define SET(option, value) failed |= curl_easy_setopt(easy, option, value) != CURLE_OK
    SET(CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    SET(CURLOPT_OPENSOCKETDATA, job);
    SET(CURLOPT_SOCKOPTFUNCTION, on_socket_options);
    SET(CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
    SET(CURLOPT_CLOSESOCKETDATA, curl);
    SET(CURLOPT_ERRORBUFFER, job->error);
    SET(CURLOPT_PRIVATE, job);
#undef SET
    return !failed;
}

bool handoff_curl_start(struct handoff_curl *curl, struct handoff_curl_job *job)
{
    BASE_CHECK_MAGIC(curl, CURL_MAGIC);
    job->error[0] = '\0';
    return curl_multi_add_handle(curl->multi, job->easy) == CURLM_OK;
}

void handoff_curl_stop(struct handoff_curl *curl, struct handoff_curl_job *job)
{
    BASE_CHECK_MAGIC(curl, CURL_MAGIC);
    curl_multi_remove_handle(curl->multi, job->easy);
}

void handoff_curl_settle(struct handoff_curl *curl)
{
    BASE_CHECK_MAGIC(curl, CURL_MAGIC);
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(curl->multi, &left)) != NULL;) {
        if (message->msg != CURLMSG_DONE)
            continue;
        void *private = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        struct handoff_curl_job *job = private;
        BASE_CHECK(job);
        job->ended(job, message->data.result);
    }
}

/* ---- making and freeing --------------------------------------------------------------------- */

/* Idle ones must not be in the way of new ones, so they have half of the quota at most. */
static long connections_kept(const struct base_quota *quota)
{
    const unsigned half = quota->most / 2;
    return half > 0 && half < CONNECTIONS_KEPT ? (long)half : CONNECTIONS_KEPT;
}

enum handoff_code handoff_curl_new(struct handoff_curl **curl, struct base_poller *poller,
                                   struct base_timers *timers, const struct base_clock *clock,
                                   struct base_quota *quota, struct handoff_error *error)
{
    struct handoff_curl *made = base_calloc(1, sizeof *made);
    CURLM *multi = made ? curl_multi_init() : NULL;
    if (!multi) {
        base_free(made);
        return handoff_error_no_memory(error);
    }
    made->magic = CURL_MAGIC;
    made->multi = multi;
    made->poller = poller;
    made->timers = timers;
    made->clock = clock;
    made->quota = quota;
    made->timer.fire = timer_fired;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, made);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, made);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections_kept(quota));
    *curl = made;
    return HANDOFF_OK;
}

void handoff_curl_free(struct handoff_curl **curl)
{
    struct handoff_curl *dying = *curl;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, CURL_MAGIC);
    *curl = NULL;
    curl_multi_cleanup(dying->multi); /* closes the kept connections through on_close */
    base_timers_stop(dying->timers, &dying->timer);
    for (size_t i = 0; i < dying->nsockets; i++)
        base_free(dying->sockets[i]);
    base_free(dying->sockets);
    dying->magic = 0;
    base_free(dying);
}
