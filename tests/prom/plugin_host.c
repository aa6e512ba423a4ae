/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows no metrics. It loads the plugin of its first argument (plugin.c), uses it on
 * five threads, closes it while four of them live, ends these, and begins again; the fifth is the
 * main thread, which lives through all of it.
 */
#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 30, THREADS = 4, COUNTS = 1000 };

static pthread_barrier_t counted, closed;
static int (*count)(void);

static void must(int condition, const char *what)
{
    if (condition)
        return;
    const char *why = dlerror();
    fprintf(stderr, "%s: %s\n", what, why ? why : "");
    exit(1);
}

static void count_often(void)
{
    for (int i = 0; i < COUNTS; i++)
        must(count() == 0, "count");
}

static void *use_plugin(void *arg)
{
    count_often();
    pthread_barrier_wait(&counted);
    pthread_barrier_wait(&closed);
    return arg;
}

static int (*find(void *plugin, const char *name))(void)
{
    int (*function)(void);
    *(void **)&function = dlsym(plugin, name);
    must(function != NULL, name);
    return function;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    must(argc == 2, "usage: plugin_host PLUGIN");
    pthread_barrier_init(&counted, NULL, THREADS + 1);
    pthread_barrier_init(&closed, NULL, THREADS + 1);
    for (int round = 0; round < ROUNDS; round++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        must(plugin != NULL, "dlopen");
        count = find(plugin, "plugin_count");
        must(find(plugin, "plugin_start")() == 0, "start");
        for (int i = 0; i < THREADS; i++)
            must(pthread_create(&threads[i], NULL, use_plugin, NULL) == 0, "thread");
        count_often();
        pthread_barrier_wait(&counted);
        must(find(plugin, "plugin_stop")() == 0, "stop");
        must(dlclose(plugin) == 0, "dlclose");
        pthread_barrier_wait(&closed);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    puts("closed");
    return 0;
}
