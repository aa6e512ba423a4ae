/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A getaddrinfo that knows the names of a test, in place of the system's: how many addresses a name
 * has, and how long a name server takes, cannot be chosen otherwise. Everything else is real.
 *
 *     names_are("two.test", "::1", "127.0.0.1")      any number of addresses
 *     names_hold()                                   questions wait from now on ...
 *     names_release()                                ... and go on
 */
#ifndef TESTS_SUPPORT_NAMES_H
#define TESTS_SUPPORT_NAMES_H

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { NAMES_ADDRESSES = 20 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *name; /* every name that ends with it has these addresses */
    const char *addresses[NAMES_ADDRESSES + 1];
    bool held;
    unsigned asked, asking, most_asking; /* ever, now, at once */
} names = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void names_set(const char *name, const char *const *addresses)
{
    pthread_mutex_lock(&names.lock);
    names.name = name;
    names.asked = names.most_asking = 0;
    for (size_t i = 0; i <= NAMES_ADDRESSES; i++) {
        names.addresses[i] = addresses[i];
        if (!addresses[i])
            break;
    }
    pthread_mutex_unlock(&names.lock);
}

#define names_are(name, ...) names_set((name), (const char *const[]){__VA_ARGS__, NULL})

static inline void names_hold_if(bool held)
{
    pthread_mutex_lock(&names.lock);
    names.held = held;
    pthread_cond_broadcast(&names.changed);
    pthread_mutex_unlock(&names.lock);
}

#define names_hold()    names_hold_if(true)
#define names_release() names_hold_if(false)

static inline unsigned names_asked(void)
{
    pthread_mutex_lock(&names.lock);
    const unsigned asked = names.asked;
    pthread_mutex_unlock(&names.lock);
    return asked;
}

/* Until so many questions wait at once. */
static inline void names_await(unsigned asking)
{
    pthread_mutex_lock(&names.lock);
    while (names.asking < asking)
        pthread_cond_wait(&names.changed, &names.lock);
    pthread_mutex_unlock(&names.lock);
}

/* Under the lock. */
static bool names_know(const char *name)
{
    const size_t size = name ? strlen(name) : 0, tail = names.name ? strlen(names.name) : 0;
    return tail > 0 && size >= tail && strcmp(name + size - tail, names.name) == 0;
}

/* As the system's, for an address that is written as a number. */
static int names_real(const char *text, const struct addrinfo *hints, struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(text, NULL, hints, found);
}

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found)
{
    struct addrinfo **end = found;
    (void)service;
    *found = NULL;
    pthread_mutex_lock(&names.lock);
    const bool known = names_know(name);
    names.asked += known;
    names.asking += known;
    if (names.asking > names.most_asking)
        names.most_asking = names.asking;
    pthread_cond_broadcast(&names.changed);
    while (known && names.held)
        pthread_cond_wait(&names.changed, &names.lock);
    names.asking -= known;
    for (size_t i = 0; known && names.addresses[i]; i++) {
        if (names_real(names.addresses[i], hints, end) == 0)
            end = &(*end)->ai_next;
    }
    pthread_mutex_unlock(&names.lock);
    return *found ? 0 : EAI_NONAME;
}

#endif
