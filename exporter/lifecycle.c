/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's life: start, serve, reload, drain, end.
 *
 * The main thread runs the control loop: signals, reloads, the drain, the watchdog. It may block on
 * a disk, so no request is ever served on it.
 *
 * Draining: first the API takes no new connections and no new handoffs, while probes still see
 * /-/ready say 503 and Prometheus still scrapes; when every request is answered and no attempt is
 * out the web listener closes too; then everything ends. Handoffs that wait for anything else are
 * durable and hold nothing up. --shutdown.timeout bounds the whole. A second signal ends the
 * process at once.
 */
#include "exporter/lifecycle.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "exporter/access/api_tokens.h"
#include "exporter/access/callers.h"
#include "exporter/client_host.h"
#include "exporter/config/config.h"
#include "exporter/config/web_config.h"
#include "exporter/http/descriptors.h"
#include "exporter/http/listeners.h"
#include "exporter/http/worker.h"
#include "exporter/log/log.h"
#include "exporter/routes/routes.h"
#include "exporter/status/rules.h"
#include "exporter/status/windows.h"
#include "exporter/systemd.h"
#include "exporter/version.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

enum {
    LIFECYCLE_MAGIC = 0x11fec7c1,
    DRAIN_LOOK_MS = 20,  /* how often the drain looks whether it is over */
    LOG_FLUSH_MS = 1000, /* how late a suppressed log line is accounted for */
};

enum phase { PHASE_SERVING, PHASE_DRAINING, PHASE_CLOSING };

struct watched_loop {
    struct base_mail mail;
    atomic_bool answered;
};

struct exporter_lifecycle {
    unsigned magic;
    const struct exporter_options *options;
    const char *revision;
    struct base_loop control;
    struct exporter_descriptors descriptors;
    struct exporter_config *config;
    struct collectors *collectors;
    struct exporter_web_config *web_config; /* NULL: none */
    struct exporter_callers *callers;
    struct exporter_client_host *client_host;
    struct exporter_listeners *listeners;
    struct exporter_routes_setup routes;
    struct base_watch signals;
    int signals_fd;
    struct base_timer log_flush;
    uint64_t log_suppressed; /* as far as it was counted */
    /* for the status page: the control thread's */
    int64_t started_ms, started_monotonic_ms, config_ms;
    bool config_refused;
    struct exporter_windows *windows;
    struct base_timer windows_step;
    /* draining: the control thread's */
    enum phase phase;
    struct base_timer drain_look;
    int64_t drain_until_ms;
    /* watchdog */
    struct base_timer watchdog;
    struct watched_loop *watched;
    /* any thread */
    atomic_bool serving;
    _Atomic(uint64_t) api_body_limit;
};

enum handoff_code exporter_lifecycle_ready(const struct exporter_lifecycle *lifecycle,
                                           struct exporter_error *why)
{
    struct handoff_stats stats;
    BASE_CHECK_MAGIC(lifecycle, LIFECYCLE_MAGIC);
    if (!atomic_load(&lifecycle->serving)) {
        exporter_error_set(why, "handoff-exporter is shutting down");
        return HANDOFF_ERR_SHUTTING_DOWN;
    }
    handoff_client_stats(exporter_client_host_client(lifecycle->client_host), &stats);
    if (stats.store_displaced == NULL && stats.store_failing != HANDOFF_OK)
        exporter_error_set(why,
                           "%s: nothing is accepted until a write succeeds, which is tried every "
                           "second",
                           handoff_code_meaning(stats.store_failing));
    if (stats.store_displaced == NULL)
        return stats.store_failing;
    exporter_error_set(why, "%s was deleted, moved or replaced; nothing is stored: %s",
                       stats.store_displaced, HANDOFF_STORE_DISPLACED_ADVICE);
    return HANDOFF_ERR_STORE_DISPLACED;
}

/* ---- status and log --------------------------------------------------------------------- */

static int64_t lifecycle_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void exporter_lifecycle_look(const struct exporter_lifecycle *lifecycle,
                             struct exporter_lifecycle_state *state)
{
    BASE_CHECK_MAGIC(lifecycle, LIFECYCLE_MAGIC);
    *state = (struct exporter_lifecycle_state){
        .revision = lifecycle->revision,
        .started_ms = lifecycle->started_ms,
        .uptime_ms = base_monotonic_ms(&base_clock_system) - lifecycle->started_monotonic_ms,
        .config_ms = lifecycle->config_ms,
        .config_refused = lifecycle->config_refused,
        .draining = lifecycle->phase != PHASE_SERVING,
        .dashboard_url = lifecycle->config->metrics.dashboard_url,
        .api_url = lifecycle->config->api.url,
        .api_address = exporter_listeners_api_address(lifecycle->listeners),
        .api_is_local = exporter_listeners_api_is_local(lifecycle->listeners),
    };
}

struct exporter_windows *exporter_lifecycle_windows(struct exporter_lifecycle *lifecycle)
{
    BASE_CHECK_MAGIC(lifecycle, LIFECYCLE_MAGIC);
    return lifecycle->windows;
}

void exporter_lifecycle_post(struct exporter_lifecycle *lifecycle, struct base_mail *mail)
{
    BASE_CHECK_MAGIC(lifecycle, LIFECYCLE_MAGIC);
    base_loop_post(&lifecycle->control, mail);
}

/* ---- configuration -------------------------------------------------------------------------- */

static struct exporter_config *load_config(const struct exporter_lifecycle *lifecycle,
                                           struct exporter_error *error)
{
    return exporter_config_load_option(lifecycle->options->config_file, "--config.file", error);
}

/* Hands a configuration to its users; they read it through atomics, so no loop stops. */
static void apply(struct exporter_lifecycle *lifecycle, struct exporter_config *config)
{
    exporter_config_unref(&lifecycle->config);
    lifecycle->config = config;
    lifecycle->config_ms = lifecycle_wall_ms();
    atomic_store(&lifecycle->api_body_limit, config->api.max_body_bytes);
    exporter_callers_apply(lifecycle->callers, config);
    exporter_routes_apply(&lifecycle->routes, config);
}

/* What a person may want to close. */
static void warn_of_openness(const struct exporter_lifecycle *lifecycle)
{
    const char *path = lifecycle->config->api.tokens_file;
    if (path == NULL && !exporter_listeners_api_is_local(lifecycle->listeners))
        log_warn("api_without_authentication",
                 LOG_STR("address", exporter_listeners_api_address(lifecycle->listeners)),
                 LOG_STR("advice", "set api.tokens_file, or --api.listen-address to loopback"));
    if (path != NULL && exporter_api_tokens_are_exposed(path))
        log_warn("tokens_file_world_readable", LOG_STR("path", path),
                 LOG_STR("advice", "chmod o-r: every user of this machine can read the tokens"));
}

static bool load_again(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    exporter_systemd_notify_reloading();
    struct exporter_config *config = load_config(lifecycle, error);
    if (config != NULL && !exporter_client_host_configure(lifecycle->client_host, config, error))
        exporter_config_unref(&config);
    if (config != NULL) {
        apply(lifecycle, config);
        log_info("config_reloaded");
        warn_of_openness(lifecycle);
    } else {
        log_error("config_reload_failed", LOG_STR("error", error->text));
    }
    lifecycle->config_refused = config == NULL;
    collectors_config_reloaded(lifecycle->collectors, config != NULL);
    exporter_systemd_notify("READY=1");
    return config != NULL;
}

static void finish_reload(struct base_mail *mail)
{
    struct exporter_reload *reload = BASE_CONTAINER_OF(mail, struct exporter_reload, mail);
    reload->done(reload);
}

static void run_reload(struct base_mail *mail)
{
    struct exporter_reload *reload = BASE_CONTAINER_OF(mail, struct exporter_reload, mail);
    reload->ok = load_again(reload->lifecycle, &reload->error);
    reload->mail.deliver = finish_reload;
    base_loop_post(reload->loop, &reload->mail);
}

void exporter_lifecycle_reload(struct exporter_lifecycle *lifecycle, struct exporter_reload *reload)
{
    BASE_CHECK_MAGIC(lifecycle, LIFECYCLE_MAGIC);
    reload->lifecycle = lifecycle;
    reload->mail.deliver = run_reload;
    base_loop_post(&lifecycle->control, &reload->mail);
}

/* ---- draining ------------------------------------------------------------------------------- */

static void look_at_drain(struct base_timer *timer)
{
    struct exporter_lifecycle *lifecycle =
        BASE_CONTAINER_OF(timer, struct exporter_lifecycle, drain_look);
    const bool late = base_monotonic_ms(&base_clock_system) >= lifecycle->drain_until_ms;
    /* In this order: an attempt that began before its loop heard of the end is then counted. */
    const bool idle = exporter_listeners_is_quiet(lifecycle->listeners);
    const size_t attempts =
        handoff_client_attempting(exporter_client_host_client(lifecycle->client_host));
    const bool quiet = idle && attempts == 0;
    if (quiet && lifecycle->phase == PHASE_DRAINING) {
        lifecycle->phase = PHASE_CLOSING;
        exporter_listeners_quiesce(lifecycle->listeners, EXPORTER_SIDE_WEB);
    } else if (quiet || late) {
        if (!quiet)
            log_warn("drain_timed_out",
                     LOG_UINT("in_flight", exporter_listeners_in_flight(lifecycle->listeners)),
                     LOG_UINT("attempts", attempts));
        base_loop_stop(&lifecycle->control);
        return;
    }
    base_loop_start_timer(&lifecycle->control, &lifecycle->drain_look, DRAIN_LOOK_MS);
}

/* Logged once it is true: from then on nothing is accepted. */
static void drain(struct exporter_lifecycle *lifecycle)
{
    const unsigned in_flight = exporter_listeners_in_flight(lifecycle->listeners);
    handoff_client_wind_down(exporter_client_host_client(lifecycle->client_host));
    atomic_store(&lifecycle->serving, false);
    lifecycle->phase = PHASE_DRAINING;
    lifecycle->drain_until_ms =
        base_monotonic_ms(&base_clock_system) + (int64_t)lifecycle->options->shutdown_timeout_ms;
    log_info("draining", LOG_UINT("in_flight", in_flight),
             LOG_UINT("timeout_ms", lifecycle->options->shutdown_timeout_ms));
    exporter_systemd_notify("STOPPING=1");
    exporter_listeners_quiesce(lifecycle->listeners, EXPORTER_SIDE_API);
    base_loop_start_timer(&lifecycle->control, &lifecycle->drain_look, 0);
}

/* ---- signals -------------------------------------------------------------------------------- */

static void stop_or_exit(struct exporter_lifecycle *lifecycle, int signal)
{
    if (lifecycle->phase == PHASE_SERVING) {
        drain(lifecycle);
        return;
    }
    log_warn("forced_exit", LOG_INT("signal", signal));
    _exit(EXPORTER_EXIT_FAILED);
}

static void take_signals(struct base_watch *watch, uint32_t events)
{
    (void)events;
    struct exporter_lifecycle *lifecycle =
        BASE_CONTAINER_OF(watch, struct exporter_lifecycle, signals);
    struct signalfd_siginfo info;
    struct exporter_error error;
    while (read(lifecycle->signals_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP)
            load_again(lifecycle, &error);
        else
            stop_or_exit(lifecycle, (int)info.ssi_signo);
    }
}

/* Blocks the signals for this and every later thread, and has them come through a descriptor. */
static bool watch_signals(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* beyond `ulimit -f` a write fails, as on a full disk */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    lifecycle->signals.ready = take_signals;
    lifecycle->signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    const int failed = lifecycle->signals_fd < 0
                           ? errno
                           : base_poller_add(&lifecycle->control.poller, lifecycle->signals_fd,
                                             EPOLLIN, &lifecycle->signals);
    if (failed == 0)
        return true;
    exporter_error_set(error, "cannot watch for signals: %s", strerror(failed));
    return false;
}

/* ---- the clock's duties --------------------------------------------------------------------- */

static void count_suppressed(struct exporter_lifecycle *lifecycle)
{
    struct exporter_log_stats stats;
    uint64_t total = 0;
    exporter_log_stats(&stats);
    for (int level = 0; level < EXPORTER_LOG_LEVELS; level++)
        total += stats.suppressed[level];
    collectors_log_suppressed(lifecycle->collectors, total - lifecycle->log_suppressed);
    lifecycle->log_suppressed = total;
}

static void flush_log(struct base_timer *timer)
{
    struct exporter_lifecycle *lifecycle =
        BASE_CONTAINER_OF(timer, struct exporter_lifecycle, log_flush);
    exporter_log_flush();
    count_suppressed(lifecycle);
    base_loop_start_timer(&lifecycle->control, &lifecycle->log_flush, LOG_FLUSH_MS);
}

/* Steps of windows are as old as they say, whenever the loop came to take them. */
static void step_windows(struct base_timer *timer)
{
    struct exporter_lifecycle *lifecycle =
        BASE_CONTAINER_OF(timer, struct exporter_lifecycle, windows_step);
    exporter_windows_record(lifecycle->windows, base_monotonic_ms(&base_clock_system));
    exporter_rules_remember(lifecycle->windows);
    base_loop_start_timer(&lifecycle->control, &lifecycle->windows_step, EXPORTER_HISTORY_STEP_MS);
}

static void answer_watchdog(struct base_mail *mail)
{
    struct watched_loop *watched = BASE_CONTAINER_OF(mail, struct watched_loop, mail);
    atomic_store(&watched->answered, true);
}

/* systemd's watchdog is notified only if every loop has turned since the last time. */
static void watchdog(struct base_timer *timer)
{
    struct exporter_lifecycle *lifecycle =
        BASE_CONTAINER_OF(timer, struct exporter_lifecycle, watchdog);
    const size_t count = exporter_listeners_loop_count(lifecycle->listeners);
    bool all = true;
    for (size_t i = 0; i < count; i++)
        all = all && atomic_load(&lifecycle->watched[i].answered);
    if (all) {
        exporter_systemd_notify("WATCHDOG=1");
        for (size_t i = 0; i < count; i++) {
            struct watched_loop *watched = &lifecycle->watched[i];
            atomic_store(&watched->answered, false);
            watched->mail.deliver = answer_watchdog;
            base_loop_post(exporter_listeners_loop(lifecycle->listeners, i), &watched->mail);
        }
    }
    base_loop_start_timer(&lifecycle->control, &lifecycle->watchdog,
                          exporter_systemd_watchdog_ms());
}

static bool start_timers(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    lifecycle->log_flush = (struct base_timer){.fire = flush_log};
    lifecycle->drain_look = (struct base_timer){.fire = look_at_drain};
    lifecycle->watchdog = (struct base_timer){.fire = watchdog};
    lifecycle->windows_step = (struct base_timer){.fire = step_windows};
    base_loop_start_timer(&lifecycle->control, &lifecycle->log_flush, LOG_FLUSH_MS);
    base_loop_start_timer(&lifecycle->control, &lifecycle->windows_step, 0);
    if (exporter_systemd_watchdog_ms() == 0)
        return true;
    const size_t count = exporter_listeners_loop_count(lifecycle->listeners);
    lifecycle->watched = calloc(count, sizeof *lifecycle->watched);
    if (lifecycle->watched == NULL) {
        exporter_error_set(error, "out of memory (watchdog)");
        return false;
    }
    for (size_t i = 0; i < count; i++)
        atomic_store(&lifecycle->watched[i].answered, true);
    base_loop_start_timer(&lifecycle->control, &lifecycle->watchdog, 0);
    return true;
}

/* ---- start and end -------------------------------------------------------------------------- */

static void share_descriptors(struct exporter_lifecycle *lifecycle)
{
    lifecycle->descriptors =
        exporter_descriptors_share(exporter_descriptors_raise(), exporter_listeners_threads());
    if (lifecycle->descriptors.is_short)
        log_info("few_descriptors", LOG_UINT("limit", lifecycle->descriptors.limit),
                 LOG_UINT("api_connections", lifecycle->descriptors.api),
                 LOG_UINT("web_connections", lifecycle->descriptors.web),
                 LOG_UINT("delivery_connections", lifecycle->descriptors.deliveries),
                 LOG_STR("advice", "raise the service's LimitNOFILE (ulimit -n)"));
}

/* Of a listener, on its loop's thread. */
static void note_shortage(void *arg, int error, const char *listener)
{
    struct exporter_lifecycle *lifecycle = arg;
    const bool is_web = strcmp(listener, "web") == 0;
    exporter_client_host_ran_short(lifecycle->client_host, handoff_shortage_of_errno(error),
                                   is_web ? "accepting connections on the web listener"
                                          : "accepting connections on the API listener");
}

static bool start_control(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    return exporter_loop_prepare(&lifecycle->control, "control", error) &&
           watch_signals(lifecycle, error);
}

static bool open_web_config(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    const char *path = lifecycle->options->web_config_file;
    if (path != NULL)
        lifecycle->web_config = exporter_web_config_open(path, error);
    return path == NULL || lifecycle->web_config != NULL;
}

/* At a scrape, on the web loop; the loops outlive their listeners. */
static double longest_turn_of(void *host, enum collectors_loop which)
{
    const struct exporter_lifecycle *lifecycle = host;
    struct exporter_listeners *listeners = lifecycle->listeners;
    int64_t longest_ns = 0;
    if (which == COLLECTORS_LOOP_CONTROL)
        longest_ns = base_loop_longest_turn_ns(&lifecycle->control);
    if (which == COLLECTORS_LOOP_WEB)
        longest_ns = base_loop_longest_turn_ns(exporter_listeners_loop(listeners, 0));
    const size_t count =
        which == COLLECTORS_LOOP_API ? exporter_listeners_loop_count(listeners) : 0;
    for (size_t i = 1; i < count; i++) {
        const int64_t turn_ns = base_loop_longest_turn_ns(exporter_listeners_loop(listeners, i));
        longest_ns = turn_ns > longest_ns ? turn_ns : longest_ns;
    }
    return (double)longest_ns / 1e9;
}

static bool start_listeners(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    const struct exporter_listeners_setup setup = {
        .options = lifecycle->options,
        .web_routes = &lifecycle->routes.web,
        .api_routes = &lifecycle->routes.api,
        .api_body_limit = &lifecycle->api_body_limit,
        .api_callers = lifecycle->callers,
        .web_config = lifecycle->web_config,
        .web_connections = lifecycle->descriptors.web,
        .api_connections = lifecycle->descriptors.api,
        .descriptors_are_short = lifecycle->descriptors.is_short,
        .on_api_answer = exporter_routes_answered,
        .on_api_answer_arg = &lifecycle->routes,
        .on_shortage = note_shortage,
        .on_shortage_arg = lifecycle,
    };
    lifecycle->listeners = exporter_listeners_open(&setup, error);
    if (lifecycle->listeners == NULL ||
        !exporter_client_host_attach(lifecycle->client_host, lifecycle->listeners, error) ||
        !exporter_client_host_resume(lifecycle->client_host, error))
        return false;
    collectors_watch_loops(lifecycle->collectors, longest_turn_of, lifecycle);
    atomic_store(&lifecycle->serving, true);
    return exporter_listeners_start(lifecycle->listeners, error);
}

static bool start_metrics(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    const struct collectors_options options = {
        .version = exporter_version(),
        .revision = lifecycle->revision,
        .threads = (unsigned)exporter_listeners_threads(),
        .max_series = lifecycle->config->metrics.max_series_per_family,
    };
    lifecycle->collectors = collectors_new(&options);
    if (lifecycle->collectors == NULL) {
        exporter_error_set(error, "out of memory (metrics)");
        return false;
    }
    collectors_config_reloaded(lifecycle->collectors, true);
    return true;
}

static bool start_client(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    lifecycle->client_host =
        exporter_client_host_open(lifecycle->options, lifecycle->config,
                                  lifecycle->descriptors.deliveries, lifecycle->collectors, error);
    if (lifecycle->client_host == NULL)
        return false;
    exporter_routes_init(&lifecycle->routes, lifecycle, lifecycle->options, lifecycle->collectors,
                         lifecycle->client_host, lifecycle->callers);
    lifecycle->windows = exporter_windows_new(lifecycle->collectors,
                                              exporter_client_host_client(lifecycle->client_host));
    if (lifecycle->windows == NULL)
        exporter_error_set(error, "out of memory (windows of the status page)");
    return lifecycle->windows != NULL;
}

static bool start_lifecycle(struct exporter_lifecycle *lifecycle, struct exporter_error *error)
{
    share_descriptors(lifecycle);
    lifecycle->callers = exporter_callers_new();
    if (lifecycle->callers == NULL) {
        exporter_error_set(error, "out of memory (callers)");
        return false;
    }
    struct exporter_config *config = load_config(lifecycle, error);
    if (config == NULL)
        return false;
    apply(lifecycle, config);
    /* The signals are blocked before the client makes its threads, which inherit that. */
    return start_metrics(lifecycle, error) && start_control(lifecycle, error) &&
           open_web_config(lifecycle, error) && start_client(lifecycle, error) &&
           start_listeners(lifecycle, error) && start_timers(lifecycle, error);
}

/* The threads end first; then what they and we still told each other is settled. */
static void end_lifecycle(struct exporter_lifecycle *lifecycle)
{
    if (lifecycle->listeners != NULL)
        exporter_listeners_join(lifecycle->listeners);
    if (lifecycle->web_config != NULL)
        exporter_web_config_stop(lifecycle->web_config);
    base_loop_settle(&lifecycle->control);
    if (lifecycle->client_host != NULL)
        exporter_client_host_detach(lifecycle->client_host);
    exporter_listeners_free(&lifecycle->listeners);
    exporter_web_config_free(&lifecycle->web_config);
    exporter_callers_free(&lifecycle->callers);
    exporter_windows_free(&lifecycle->windows);
    exporter_client_host_close(&lifecycle->client_host);
    if (lifecycle->signals_fd >= 0)
        close(lifecycle->signals_fd);
    base_loop_free(&lifecycle->control);
    collectors_free(&lifecycle->collectors);
    exporter_config_unref(&lifecycle->config);
    free(lifecycle->watched);
}

int exporter_run(const struct exporter_options *options, const char *revision)
{
    struct exporter_lifecycle lifecycle = {.magic = LIFECYCLE_MAGIC,
                                           .options = options,
                                           .revision = revision,
                                           .signals_fd = -1,
                                           .started_ms = lifecycle_wall_ms(),
                                           .started_monotonic_ms =
                                               base_monotonic_ms(&base_clock_system)};
    struct exporter_error error;
    int code = EXPORTER_EXIT_OK;
    log_info("starting", LOG_STR("version", exporter_version()));
    if (start_lifecycle(&lifecycle, &error)) {
        warn_of_openness(&lifecycle);
        exporter_systemd_notify("READY=1");
        log_info("ready");
        base_loop_run(&lifecycle.control);
    } else {
        log_error("start_failed", LOG_STR("error", error.text));
        code = EXPORTER_EXIT_FAILED;
    }
    end_lifecycle(&lifecycle);
    if (code == EXPORTER_EXIT_OK)
        log_info("stopped");
    exporter_log_flush();
    return code;
}
