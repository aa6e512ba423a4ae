/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves /metrics as the daemon does, with metrics whose values the test decides. It reads one
 * command a line from stdin, label values percent-encoded, and ends at the end of stdin:
 *
 *     add TARGET N [TRACE HANDOFF]          probe_handoffs_total{target_agent=TARGET}
 *     set OF VALUE                          probe_load{of=OF}
 *     observe TARGET VALUE [TRACE HANDOFF]  probe_duration_seconds{target_agent=TARGET}
 *     hop VALUE                             probe_hops, without a native side
 *     serve                                 opens a port and prints its address
 *     busy                                  a thread observes on probe_busy_seconds and makes and
 *                                           ends series of probe_busy_total, until the end
 *
 * TRACE and HANDOFF are the exemplar's trace_id and handoff_id.
 */
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exporter/http/listener.h"
#include "exporter/http/server.h"
#include "exporter/http/worker.h"
#include "exporter/routes/metrics.h"

enum {
    FIELDS_MAX = 5,        /* of a command */
    BUSY_VALUES = 24,      /* different powers of two that the busy thread observes */
    BUSY_ROUND = 1000,     /* observations between two new series */
    BUSY_SERIES = 200,     /* that live at once */
    BUSY_NAP_NS = 1000000, /* after each round: the test is about races, not about load */
};

static const double duration_bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
static const double hop_bounds[] = {0, 1, 2.5, 10, 1000000, 1000001};

static const struct metric_desc descs[] = {
    {.name = "probe_handoffs_total",
     .type = METRIC_COUNTER,
     .help = "Help with \"quotes\", \\ and\nlines.",
     .labels = {"*target_agent"},
     .flags = METRIC_EXEMPLARS},
    {.name = "probe_load", .type = METRIC_GAUGE, .help = "Load.", .labels = {"of"}},
    {.name = "probe_duration_seconds",
     .type = METRIC_HISTOGRAM,
     .unit = "seconds",
     .help = "Duration.",
     .labels = {"target_agent"},
     .bounds = duration_bounds,
     .nbounds = sizeof duration_bounds / sizeof *duration_bounds,
     .native = {3, -20, 10},
     .flags = METRIC_EXEMPLARS},
    {.name = "probe_hops",
     .type = METRIC_HISTOGRAM,
     .help = "Hops.",
     .bounds = hop_bounds,
     .nbounds = sizeof hop_bounds / sizeof *hop_bounds},
    {.name = "probe_busy_seconds",
     .type = METRIC_HISTOGRAM,
     .unit = "seconds",
     .help = "What is observed while scrapes run.",
     .bounds = duration_bounds,
     .nbounds = sizeof duration_bounds / sizeof *duration_bounds,
     .native = {3, -20, 10},
     .flags = METRIC_EXEMPLARS},
    {.name = "probe_busy_total",
     .type = METRIC_COUNTER,
     .help = "What appears and disappears while scrapes run.",
     .labels = {"name"}},
};

enum { HANDOFFS, LOAD, DURATION, HOPS, BUSY_SECONDS, BUSY, NFAMILIES };

static struct metric_family *families[NFAMILIES];
static struct collectors *collectors;
static struct exporter_metrics_page page;
static struct exporter_route route = {"GET", "/metrics", exporter_route_metrics, &page,
                                      0,     NULL,       HANDOFF_FOR_ALL,        false};
static const struct exporter_routes routes = {&route, 1};
static struct exporter_listener listener;
static struct exporter_worker worker;
static struct exporter_server *server;
static pthread_t busy_thread;
static bool busy_started;
static atomic_bool busy_over;

_Noreturn static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "metrics_server: %s: %s\n", what, why);
    exit(2);
}

static void open_registry(void)
{
    struct metric_error error = {0};
    collectors = collectors_new(
        &(struct collectors_options){.version = "0", .threads = 4, .max_series = 1000});
    if (collectors == NULL)
        give_up("collectors_new", "no memory");
    for (size_t i = 0; i < NFAMILIES; i++) {
        families[i] = metric_register(collectors_registry(collectors), &descs[i], &error);
        if (families[i] == NULL)
            give_up(descs[i].name, error.message);
    }
    page.collectors = collectors;
    exporter_slots_init(&page.slots);
    atomic_store(&page.scrapes_max, 16);
}

/* ---- serving -------------------------------------------------------------------------------- */

static void serve(void)
{
    struct exporter_error error;
    struct exporter_address address;
    static struct exporter_room room = {.places.most = 64, .most = 64};
    struct exporter_server_options options = {
        .listener = "web",
        .routes = &routes,
        .limits = {.room = &room,
                   .header_bytes = 32 << 10,
                   .read_ms = 10000,
                   .idle_ms = 60000,
                   .write_ms = 60000},
    };
    exporter_address_parse("127.0.0.1:0", &address);
    if (!exporter_listener_open(&listener, &address, 1, "web", "address", &error) ||
        !exporter_worker_prepare(&worker, "web", &error))
        give_up("serve", error.text);
    options.loop = &worker.loop;
    const int fd = listener.fds[0];
    listener.fds[0] = -1;
    server = exporter_server_start(fd, &options, &error);
    if (server == NULL || !exporter_worker_start(&worker, &error))
        give_up("serve", error.text);
    printf("%s\n", listener.name);
    fflush(stdout);
}

static void stop_serving(void)
{
    exporter_worker_join(&worker);
    exporter_server_stop(&server);
    base_loop_settle(&worker.loop);
    exporter_worker_free(&worker);
    exporter_listener_close(&listener);
}

/* ---- the busy thread ------------------------------------------------------------------------ */

static const char *busy_name(char name[32], uint64_t number)
{
    snprintf(name, 32, "n%llu", (unsigned long long)number);
    return name;
}

static void change_series(uint64_t round)
{
    char name[32];
    metric_add(metric_resolve(families[BUSY], (const char *[]){busy_name(name, round)}), 1);
    if (round >= BUSY_SERIES)
        metric_retire(collectors_registry(collectors), "name",
                      busy_name(name, round - BUSY_SERIES));
}

static void *keep_busy(void *arg)
{
    struct metric_series *series = metric_resolve(families[BUSY_SECONDS], NULL);
    for (uint64_t round = 0; !atomic_load(&busy_over); round++) {
        for (int i = 0; i < BUSY_ROUND; i++)
            metric_observe(series, ldexp(1, i % BUSY_VALUES - 18));
        char name[32];
        const struct metric_exemplar exemplar = {1, (const char *[]){"trace_id"},
                                                 (const char *[]){busy_name(name, round)}};
        metric_observe_exemplar(series, ldexp(1, (int)(round % BUSY_VALUES) - 18), &exemplar);
        change_series(round);
        nanosleep(&(struct timespec){.tv_nsec = BUSY_NAP_NS}, NULL);
    }
    return arg;
}

static void start_busy(void)
{
    if (pthread_create(&busy_thread, NULL, keep_busy, NULL) != 0)
        give_up("busy", "no thread");
    busy_started = true;
}

static void stop_busy(void)
{
    atomic_store(&busy_over, true);
    if (busy_started)
        pthread_join(busy_thread, NULL);
}

/* ---- commands ------------------------------------------------------------------------------- */

static struct metric_series *series_of(size_t family, const char *label)
{
    return metric_resolve(families[family], (const char *[]){label});
}

static void run(char *fields[FIELDS_MAX], size_t count)
{
    const char *verb = fields[0];
    const double value = count > 2 ? strtod(fields[2], NULL) : 0;
    const struct metric_exemplar exemplar = {count == FIELDS_MAX ? 2 : 0,
                                             (const char *[]){"trace_id", "handoff_id"},
                                             (const char *const *)&fields[3]};
    if (strcmp(verb, "add") == 0 && count == 3)
        metric_add(series_of(HANDOFFS, fields[1]), (uint64_t)value);
    else if (strcmp(verb, "add") == 0 && count == 5)
        metric_add_exemplar(series_of(HANDOFFS, fields[1]), (uint64_t)value, &exemplar);
    else if (strcmp(verb, "set") == 0 && count == 3)
        metric_gauge_set(series_of(LOAD, fields[1]), value);
    else if (strcmp(verb, "observe") == 0 && count == 3)
        metric_observe(series_of(DURATION, fields[1]), value);
    else if (strcmp(verb, "observe") == 0 && count == 5)
        metric_observe_exemplar(series_of(DURATION, fields[1]), value, &exemplar);
    else if (strcmp(verb, "hop") == 0 && count == 2)
        metric_observe(metric_resolve(families[HOPS], NULL), strtod(fields[1], NULL));
    else if (strcmp(verb, "serve") == 0 && count == 1)
        serve();
    else if (strcmp(verb, "busy") == 0 && count == 1)
        start_busy();
    else
        give_up(verb, "no such command");
}

static int hex_of(char digit)
{
    const char *digits = "0123456789abcdef";
    const char *found = digit ? strchr(digits, tolower((unsigned char)digit)) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* In place. Any bytes: what is no UTF-8 is what a hostile label has, so the router's will not do.
 */
static bool decode(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int high = hex_of(in[1]), low = high < 0 ? -1 : hex_of(in[2]);
        if (low < 0)
            return false;
        *out++ = (char)(high * 16 + low);
        in += 2;
    }
    *out = '\0';
    return true;
}

static void run_line(char *line)
{
    char *fields[FIELDS_MAX] = {NULL};
    size_t count = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *field; (field = strsep(&line, " ")) != NULL;) {
        if (count == FIELDS_MAX || !decode(field))
            give_up(field, "too many fields, or not percent-encoded");
        fields[count++] = field;
    }
    run(fields, count);
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    signal(SIGPIPE, SIG_IGN); /* scrapers may leave */
    open_registry();
    while (getline(&line, &size, stdin) > 0)
        run_line(line);
    free(line);
    stop_busy();
    if (server != NULL)
        stop_serving();
    collectors_free(&collectors);
    return 0;
}
