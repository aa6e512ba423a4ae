/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver of resolver.h. One for the whole process, because names belong to the machine: it is
 * created with the first port and released with the last.
 *
 * A name is IDLE, WAITING for a thread, or BEING_ASKED by one, which then uses its text without the
 * lock: names are freed only when IDLE. Lookups wait in the list of their name, then in the list of
 * answers of their port. Both lists are under the resolver's lock, so a lookup can be cancelled in
 * either without waiting for a thread. The lock is never held during a lookup, an allocation or a
 * callback. A port's eventfd is written under it: that never blocks, and keeps the port open.
 *
 * A thread may hang in getaddrinfo when the process wants to end. So threads are detached, hold a
 * reference to the resolver, and whoever releases the last one frees it.
 */
#include "client/transport/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/transport/own_fault.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    RESOLVER_MAGIC = 0x7265736fu,
    PORT_MAGIC = 0x706f7274u,
    THREAD_IDLE_S = 10,
};

enum name_state { NAME_IDLE, NAME_WAITING, NAME_BEING_ASKED };

/* All of it under the resolver's lock, except for the text, which never changes. */
struct host_name {
    enum name_state state;
    struct handoff_lookups lookups; /* that wait for it */
    struct handoff_addresses addresses;
    enum handoff_fault own;
    int64_t until_ms; /* what is known of it holds until then */
    LIST_ENTRY(host_name) entry;
    TAILQ_ENTRY(host_name) queued; /* if WAITING */
    char text[];
};

LIST_HEAD(host_names, host_name);
TAILQ_HEAD(host_name_queue, host_name);

struct resolver {
    unsigned magic;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    /* under the lock */
    unsigned references; /* of ports and threads */
    unsigned ports;
    unsigned threads;   /* of these: */
    unsigned available; /* waiting for a name, or only just started */
    struct host_names names;
    struct host_name_queue queue;
};

struct handoff_resolver_port {
    struct base_watch watch;
    unsigned magic;
    struct base_poller *poller;
    struct resolver *resolver;
    int fd;                         /* an eventfd, readable when there are answers */
    struct handoff_lookups answers; /* under the resolver's lock */
};

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct resolver *shared; /* under shared_lock; NULL: there is no port */

/* ---- addresses ------------------------------------------------------------------------------ */

static void add_address(struct handoff_addresses *addresses, const void *address, size_t size)
{
    struct handoff_address *to = &addresses->list[addresses->count];
    if (addresses->count == HANDOFF_ADDRESSES_MAX || size > sizeof to->of)
        return;
    memcpy(&to->of, address, size);
    to->size = (socklen_t)size;
    addresses->count++;
}

/* The first from there on that has the family, or that has not. */
static const struct addrinfo *next_of_family(const struct addrinfo *from, int family, bool has)
{
    while (from && (from->ai_family == family) != has)
        from = from->ai_next;
    return from;
}

/* In the order found, but with the family changing at each step for as long as there are both. */
static void interleave(struct handoff_addresses *addresses, const struct addrinfo *found)
{
    const int first_family = found->ai_family;
    const struct addrinfo *lists[] = {next_of_family(found, first_family, true),
                                      next_of_family(found, first_family, false)};
    for (int turn = 0; lists[0] || lists[1]; turn = !turn) {
        const struct addrinfo **list = lists[turn] ? &lists[turn] : &lists[!turn];
        add_address(addresses, (*list)->ai_addr, (*list)->ai_addrlen);
        *list = next_of_family((*list)->ai_next, first_family, list == &lists[0]);
    }
}

static bool read_ipv6(const char *host, struct handoff_addresses *addresses)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    char text[INET6_ADDRSTRLEN];
    const size_t size = strcspn(host, "%");
    if (size >= sizeof text)
        return false;
    memcpy(text, host, size);
    text[size] = '\0';
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1)
        return false;
    if (host[size] == '%') {
        const char *zone = host + size + 1;
        v6.sin6_scope_id = if_nametoindex(zone);
        if (v6.sin6_scope_id == 0)
            v6.sin6_scope_id = (uint32_t)strtoul(zone, NULL, 10);
    }
    add_address(addresses, &v6, sizeof v6);
    return true;
}

static bool read_ipv4(const char *host, struct handoff_addresses *addresses)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    if (inet_aton(host, &v4.sin_addr) != 1)
        return false;
    add_address(addresses, &v4, sizeof v4);
    return true;
}

/* RFC 6761 6.3: these never go to a name server. */
static bool is_localhost(const char *host)
{
    static const char name[] = "localhost";
    const size_t size = strlen(host), tail = sizeof name - 1;
    return size >= tail && strcasecmp(host + size - tail, name) == 0 &&
           (size == tail || host[size - tail - 1] == '.');
}

/* True for a host that needs no lookup. */
static bool read_literal(const char *host, struct handoff_addresses *addresses)
{
    *addresses = (struct handoff_addresses){0};
    if (is_localhost(host))
        return read_ipv6("::1", addresses) && read_ipv4("127.0.0.1", addresses);
    return read_ipv6(host, addresses) || read_ipv4(host, addresses);
}

/* ---- names ---------------------------------------------------------------------------------- */

static int64_t resolver_now_ms(void)
{
    return base_monotonic_ms(&base_clock_system);
}

static struct host_name *find_name(struct resolver *resolver, const char *host)
{
    struct host_name *name = LIST_FIRST(&resolver->names);
    while (name && strcasecmp(name->text, host) != 0)
        name = LIST_NEXT(name, entry);
    return name;
}

/* Takes those out that nothing needs any more. */
static void take_expired(struct resolver *resolver, int64_t now_ms, struct host_names *expired)
{
    struct host_name *next;
    for (struct host_name *name = LIST_FIRST(&resolver->names); name; name = next) {
        next = LIST_NEXT(name, entry);
        if (name->state != NAME_IDLE || name->until_ms > now_ms)
            continue;
        LIST_REMOVE(name, entry);
        LIST_INSERT_HEAD(expired, name, entry);
    }
}

static void free_names(struct host_names *names)
{
    struct host_name *name;
    while ((name = LIST_FIRST(names)) != NULL) {
        LIST_REMOVE(name, entry);
        base_free(name);
    }
}

static struct host_name *new_name(const char *host)
{
    const size_t size = strlen(host) + 1;
    struct host_name *name = base_calloc(1, sizeof *name + size);
    if (!name)
        return NULL;
    memcpy(name->text, host, size);
    TAILQ_INIT(&name->lookups);
    return name;
}

/* ---- the life of the resolver --------------------------------------------------------------- */

static void free_resolver(struct resolver *resolver)
{
    free_names(&resolver->names);
    pthread_cond_destroy(&resolver->filled);
    pthread_mutex_destroy(&resolver->lock);
    resolver->magic = 0;
    base_free(resolver);
}

/* With the lock, which it releases. */
static void drop_reference(struct resolver *resolver)
{
    BASE_CHECK(resolver->references > 0);
    const bool last = --resolver->references == 0;
    pthread_mutex_unlock(&resolver->lock);
    if (last)
        free_resolver(resolver);
}

static struct resolver *new_resolver(void)
{
    struct resolver *resolver = base_calloc(1, sizeof *resolver);
    pthread_condattr_t monotonic;
    if (!resolver)
        return NULL;
    resolver->magic = RESOLVER_MAGIC;
    pthread_mutex_init(&resolver->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&resolver->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    LIST_INIT(&resolver->names);
    TAILQ_INIT(&resolver->queue);
    return resolver;
}

/* NULL: out of memory. */
static struct resolver *share_resolver(void)
{
    struct resolver *made = new_resolver();
    if (!made)
        return NULL;
    pthread_mutex_lock(&shared_lock);
    if (!shared) {
        shared = made;
        made = NULL;
    }
    struct resolver *resolver = shared;
    pthread_mutex_lock(&resolver->lock);
    resolver->references++;
    resolver->ports++;
    pthread_mutex_unlock(&resolver->lock);
    pthread_mutex_unlock(&shared_lock);
    if (made)
        free_resolver(made);
    return resolver;
}

static void leave_resolver(struct resolver *resolver)
{
    pthread_mutex_lock(&shared_lock);
    pthread_mutex_lock(&resolver->lock);
    BASE_CHECK(shared == resolver && resolver->ports > 0);
    if (--resolver->ports == 0)
        shared = NULL;
    pthread_mutex_unlock(&shared_lock);
    pthread_cond_broadcast(&resolver->filled); /* threads end with the last port */
    drop_reference(resolver);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* The resolver of libc often does not say that it could not open a file or a socket. */
static enum handoff_fault own_fault_of(int failure, int error)
{
    const enum handoff_fault own =
        failure == EAI_SYSTEM ? handoff_own_fault_of_errno(error) : HANDOFF_FAULT_NONE;
    if (failure == EAI_MEMORY)
        return HANDOFF_FAULT_MEMORY;
    return own != HANDOFF_FAULT_NONE ? own : handoff_own_fault_now();
}

static void ask_system(const char *host, struct handoff_addresses *addresses,
                       enum handoff_fault *own)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int failure = getaddrinfo(host, NULL, &hints, &found);
    *addresses = (struct handoff_addresses){0};
    *own = failure ? own_fault_of(failure, errno) : HANDOFF_FAULT_NONE;
    if (failure || !found)
        return;
    interleave(addresses, found);
    freeaddrinfo(found);
}

/* With the lock. */
static void hand_answer(struct handoff_lookup *lookup, const struct host_name *name)
{
    struct handoff_resolver_port *port = lookup->port;
    const uint64_t one = 1;
    TAILQ_REMOVE(lookup->in, lookup, entry);
    lookup->addresses = name->addresses;
    lookup->own = name->own;
    lookup->in = &port->answers;
    const bool first = TAILQ_EMPTY(&port->answers);
    TAILQ_INSERT_TAIL(&port->answers, lookup, entry);
    if (first) /* its counter cannot overflow: it is read before it is written again */
        BASE_CHECK(write(port->fd, &one, sizeof one) == sizeof one);
}

/* What we lacked may be there again at once. */
static int64_t remember_ms(const struct host_name *name)
{
    if (name->own != HANDOFF_FAULT_NONE)
        return 0;
    return name->addresses.count > 0 ? HANDOFF_RESOLVER_FOUND_MS : HANDOFF_RESOLVER_FAILED_MS;
}

/* With the lock. */
static void answer_name(struct host_name *name)
{
    struct handoff_lookup *lookup;
    name->state = NAME_IDLE;
    name->until_ms = resolver_now_ms() + remember_ms(name);
    while ((lookup = TAILQ_FIRST(&name->lookups)) != NULL)
        hand_answer(lookup, name);
}

/* With the lock, which it releases while it asks. */
static void ask_name(struct resolver *resolver, struct host_name *name)
{
    struct handoff_addresses addresses;
    enum handoff_fault own;
    TAILQ_REMOVE(&resolver->queue, name, queued);
    name->state = NAME_BEING_ASKED;
    resolver->available--;
    pthread_mutex_unlock(&resolver->lock);
    ask_system(name->text, &addresses, &own);
    pthread_mutex_lock(&resolver->lock);
    resolver->available++;
    name->addresses = addresses;
    name->own = own;
    answer_name(name);
}

/* With the lock, which it releases while it waits. False: none came. */
static bool await_name(struct resolver *resolver)
{
    struct timespec until;
    int failed = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += THREAD_IDLE_S;
    while (TAILQ_EMPTY(&resolver->queue) && resolver->ports > 0 && failed != ETIMEDOUT)
        failed = pthread_cond_timedwait(&resolver->filled, &resolver->lock, &until);
    return !TAILQ_EMPTY(&resolver->queue);
}

static void *resolver_main(void *argument)
{
    struct resolver *resolver = argument;
    BASE_CHECK_MAGIC(resolver, RESOLVER_MAGIC);
    pthread_mutex_lock(&resolver->lock);
    while (await_name(resolver))
        ask_name(resolver, TAILQ_FIRST(&resolver->queue));
    resolver->available--;
    resolver->threads--;
    drop_reference(resolver);
    return NULL;
}

/* Signals are the program's. */
static bool start_thread(struct resolver *resolver)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&thread, NULL, resolver_main, resolver) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    return started;
}

/* With the lock. Counts a thread that is to be started, if the queue needs one. */
static bool reserve_thread(struct resolver *resolver)
{
    size_t waiting = 0;
    struct host_name *name;
    TAILQ_FOREACH (name, &resolver->queue, queued) {
        waiting++;
    }
    if (waiting <= resolver->available || resolver->threads == HANDOFF_RESOLVER_THREADS)
        return false;
    resolver->threads++;
    resolver->available++;
    resolver->references++;
    return true;
}

/* Without a single thread, nothing would ever answer. */
static void fail_queue(struct resolver *resolver)
{
    struct host_name *name;
    pthread_mutex_lock(&resolver->lock);
    resolver->available--;
    resolver->threads--;
    while (resolver->threads == 0 && (name = TAILQ_FIRST(&resolver->queue)) != NULL) {
        TAILQ_REMOVE(&resolver->queue, name, queued);
        name->addresses.count = 0;
        name->own = HANDOFF_FAULT_THREADS;
        answer_name(name);
    }
    drop_reference(resolver);
}

/* ---- lookups -------------------------------------------------------------------------------- */

/* With the lock. */
static void queue_lookup(struct resolver *resolver, struct host_name *name,
                         struct handoff_lookup *lookup)
{
    lookup->in = &name->lookups;
    TAILQ_INSERT_TAIL(&name->lookups, lookup, entry);
    if (name->state != NAME_IDLE)
        return;
    name->state = NAME_WAITING;
    TAILQ_INSERT_TAIL(&resolver->queue, name, queued);
}

/* With the lock. True: it is known. */
static bool look_up(struct resolver *resolver, struct host_name *name, int64_t now_ms,
                    struct handoff_lookup *lookup)
{
    if (name->state != NAME_IDLE || name->until_ms <= now_ms) {
        queue_lookup(resolver, name, lookup);
        return false;
    }
    lookup->addresses = name->addresses;
    lookup->own = name->own;
    return true;
}

static bool fail_lookup(struct handoff_lookup *lookup, enum handoff_fault own)
{
    lookup->addresses.count = 0;
    lookup->own = own;
    return true;
}

bool handoff_lookup_start(struct handoff_resolver_port *port, struct handoff_lookup *lookup,
                          const char *host)
{
    BASE_CHECK_MAGIC(port, PORT_MAGIC);
    BASE_CHECK(!lookup->in);
    struct resolver *resolver = port->resolver;
    struct host_names unused = LIST_HEAD_INITIALIZER(unused);
    const int64_t now_ms = resolver_now_ms();
    lookup->port = port;
    lookup->own = HANDOFF_FAULT_NONE;
    if (read_literal(host, &lookup->addresses))
        return true;
    struct host_name *made = new_name(host);
    if (!made)
        return fail_lookup(lookup, HANDOFF_FAULT_MEMORY);
    pthread_mutex_lock(&resolver->lock);
    struct host_name *name = find_name(resolver, host);
    if (name)
        LIST_INSERT_HEAD(&unused, made, entry);
    else
        LIST_INSERT_HEAD(&resolver->names, name = made, entry);
    const bool known = look_up(resolver, name, now_ms, lookup);
    take_expired(resolver, now_ms, &unused);
    const bool starts = !known && reserve_thread(resolver);
    if (!known)
        pthread_cond_signal(&resolver->filled);
    pthread_mutex_unlock(&resolver->lock);
    free_names(&unused);
    if (starts && !start_thread(resolver))
        fail_queue(resolver);
    return known;
}

/* With the lock. A name that waits for a thread, and that nothing waits for, need not be asked. */
static void leave_queue(struct resolver *resolver, struct handoff_lookups *lookups)
{
    struct host_name *name = BASE_CONTAINER_OF(lookups, struct host_name, lookups);
    if (!TAILQ_EMPTY(lookups) || name->state != NAME_WAITING)
        return;
    TAILQ_REMOVE(&resolver->queue, name, queued);
    name->state = NAME_IDLE;
}

void handoff_lookup_cancel(struct handoff_lookup *lookup)
{
    struct handoff_resolver_port *port = lookup->port;
    if (!port)
        return;
    BASE_CHECK_MAGIC(port, PORT_MAGIC);
    pthread_mutex_lock(&port->resolver->lock);
    struct handoff_lookups *in = lookup->in;
    if (in)
        TAILQ_REMOVE(in, lookup, entry);
    if (in && in != &port->answers)
        leave_queue(port->resolver, in);
    lookup->in = NULL;
    pthread_mutex_unlock(&port->resolver->lock);
}

/* ---- ports ---------------------------------------------------------------------------------- */

static struct handoff_lookup *take_answer(struct handoff_resolver_port *port)
{
    pthread_mutex_lock(&port->resolver->lock);
    struct handoff_lookup *lookup = TAILQ_FIRST(&port->answers);
    if (lookup) {
        TAILQ_REMOVE(&port->answers, lookup, entry);
        lookup->in = NULL;
    }
    pthread_mutex_unlock(&port->resolver->lock);
    return lookup;
}

static void port_ready(struct base_watch *watch, uint32_t events)
{
    struct handoff_resolver_port *port = (struct handoff_resolver_port *)watch;
    uint64_t count;
    struct handoff_lookup *lookup;
    (void)events;
    BASE_CHECK_MAGIC(port, PORT_MAGIC);
    (void)!read(port->fd, &count, sizeof count);
    while ((lookup = take_answer(port)) != NULL)
        lookup->done(lookup);
}

static enum handoff_code open_port(struct handoff_resolver_port *port, struct handoff_error *error)
{
    port->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (port->fd < 0)
        return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                                 "no file descriptor for the resolver; raise the open-file "
                                 "limit",
                                 "eventfd", strerror(errno));
    const int failed = base_poller_add(port->poller, port->fd, EPOLLIN, &port->watch);
    if (failed != 0)
        return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                                 "the resolver cannot be watched; raise the limit of epoll watches",
                                 "epoll_ctl", strerror(failed));
    port->resolver = share_resolver();
    return port->resolver ? HANDOFF_OK : handoff_error_no_memory(error);
}

enum handoff_code handoff_resolver_port_open(struct handoff_resolver_port **port,
                                             struct base_poller *poller,
                                             struct handoff_error *error)
{
    struct handoff_resolver_port *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = PORT_MAGIC;
    made->watch.ready = port_ready;
    made->poller = poller;
    TAILQ_INIT(&made->answers);
    const enum handoff_code code = open_port(made, error);
    if (code == HANDOFF_OK)
        *port = made;
    else
        handoff_resolver_port_close(&made);
    return code;
}

void handoff_resolver_port_close(struct handoff_resolver_port **port)
{
    struct handoff_resolver_port *dying = *port;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, PORT_MAGIC);
    *port = NULL;
    BASE_CHECK(TAILQ_EMPTY(&dying->answers));
    if (dying->resolver)
        leave_resolver(dying->resolver);
    if (dying->fd >= 0) {
        base_poller_forget(dying->poller, dying->fd, &dying->watch);
        close(dying->fd);
    }
    dying->magic = 0;
    base_free(dying);
}
