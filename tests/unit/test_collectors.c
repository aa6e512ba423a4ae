/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own metrics: the table as a whole, each event, and the values of process_*. */
#include "tests/unit/metric_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collectors/collectors.h"

static struct collectors *make(void)
{
    struct collectors *collectors = collectors_new(&(struct collectors_options){
        .version = "1.2.3", .revision = "abc", .threads = 2, .max_series = 100});
    assert_non_null(collectors);
    /* a metric of agents is shown when there is an agent */
    assert_true(
        collectors_configure(collectors, &(struct handoff_agent_options){.name = "coder"}, 1));
    static const struct collectors_call call = {"send_handoff", NULL};
    collectors_count_calls(collectors, &call, 1);
    return collectors;
}

static double value(struct collectors *collectors, const char *head)
{
    return scraped(collectors_registry(collectors), head);
}

static void test_every_row_is_shown(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    struct metric_buffer out = scrape_all(collectors_registry(collectors), METRIC_TEXT);
    size_t count;
    const struct metric_desc *rows = collectors_metrics(&count);
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++) {
        char line[512];
        if (strncmp(rows[i].name, "handoff_inbox_", 14) == 0)
            continue; /* shown when a client has an agent that pulls: test_agent_signals.py */
        if (strncmp(rows[i].name, "handoff_channel_", 16) == 0)
            continue; /* shown when a channel has a receiver: test_channels.py */
        snprintf(line, sizeof line, "# HELP %s %s", rows[i].name, rows[i].help);
        assert_has_line(out.data, line);
    }
    metric_buffer_free(&out);
    collectors_free(&collectors);
    assert_null(collectors);
    collectors_free(&collectors);
}

static int promtool(const char *scrape)
{
    FILE *pipe = popen("promtool check metrics >/dev/null 2>&1", "w");
    assert_non_null(pipe);
    fputs(scrape, pipe);
    return pclose(pipe);
}

static void test_promtool_has_nothing_to_say(void **state)
{
    (void)state;
    if (system("command -v promtool >/dev/null") != 0) {
        print_message("SKIPPED: promtool is not installed (Debian package: prometheus)\n");
        skip();
    }
    struct collectors *collectors = make();
    struct metric_buffer out = scrape_all(collectors_registry(collectors), METRIC_TEXT);
    assert_int_equal(promtool(out.data), 0);
    assert_int_not_equal(promtool("no_help 1\n"), 0); /* it would have said something */
    metric_buffer_free(&out);
    collectors_free(&collectors);
}

static void test_build_info(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    assert_true(value(collectors, "handoff_exporter_build_info{version=\"1.2.3\",revision=\"abc\","
                                  "compiler=\"" __VERSION__ "\"}") == 1);
    collectors_free(&collectors);
    collectors = collectors_new(&(struct collectors_options){.version = "1.2.3", .max_series = 9});
    assert_true(value(collectors,
                      "handoff_exporter_build_info{version=\"1.2.3\",revision=\"unknown\","
                      "compiler=\"" __VERSION__ "\"}") == 1);
    collectors_free(&collectors);
}

static void test_scrapes(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    assert_true(value(collectors, "handoff_exporter_scrapes_total{code=\"503\"}") == 0);
    collectors_scrape_started(collectors);
    collectors_scrape_started(collectors);
    assert_true(value(collectors, "handoff_exporter_scrapes_in_flight") == 2);
    collectors_scrape_done(collectors, 200, 0.25);
    collectors_scrape_done(collectors, 405, 0.5);
    assert_true(value(collectors, "handoff_exporter_scrapes_in_flight") == 0);
    assert_true(value(collectors, "handoff_exporter_scrapes_total{code=\"200\"}") == 1);
    assert_true(value(collectors, "handoff_exporter_scrapes_total{code=\"405\"}") == 1);
    assert_true(value(collectors, "handoff_exporter_scrape_duration_seconds_sum") == 0.75);
    assert_true(value(collectors, "handoff_exporter_scrape_duration_seconds_bucket{le=\"0.25\"}") ==
                1);
    collectors_free(&collectors);
}

static void test_reloads(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    static const char successful[] = "handoff_exporter_config_last_reload_successful";
    static const char when[] = "handoff_exporter_config_last_reload_success_timestamp_seconds";
    double before = (double)time(NULL);
    collectors_config_reloaded(collectors, true);
    double at = value(collectors, when);
    assert_true(value(collectors, successful) == 1);
    assert_true(at >= before && at <= (double)time(NULL) + 2);
    collectors_config_reloaded(collectors, false);
    assert_true(value(collectors, successful) == 0);
    assert_true(value(collectors, when) == at);
    collectors_free(&collectors);
}

static void test_suppressed_and_dropped(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    collectors_log_suppressed(collectors, 41);
    collectors_log_suppressed(collectors, 1);
    assert_true(value(collectors, "handoff_exporter_log_suppressed_total") == 42);
    struct metric_family *family = must_register(
        collectors_registry(collectors),
        &(struct metric_desc){.name = "g", .type = METRIC_GAUGE, .help = "h", .labels = {"*a"}});
    for (int i = 0; i < 103; i++) {
        char label[16];
        snprintf(label, sizeof label, "%d", i);
        metric_resolve(family, VALUES(label));
    }
    assert_true(value(collectors, "handoff_exporter_series_dropped_total") == 3);
    collectors_free(&collectors);
}

/* Faults of prometheus-client-c: CPU time as a truncated gauge, start time as ticks since boot. */
static void test_cpu_time_is_a_counter_in_seconds(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    double last = value(collectors, "process_cpu_seconds_total");
    double now = last;
    for (volatile int spin = 0; now <= last; spin = spin + 1)
        now = value(collectors, "process_cpu_seconds_total");
    assert_true(now - last < 1); /* it grew by a fraction, so it is not truncated */
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double used = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    assert_true(now > used - 1 && now < used + 1);
    struct metric_buffer out = scrape_all(collectors_registry(collectors), METRIC_TEXT);
    assert_has_line(out.data, "# TYPE process_cpu_seconds_total counter");
    metric_buffer_free(&out);
    collectors_free(&collectors);
}

static void test_start_time_is_since_1970(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    double start = value(collectors, "process_start_time_seconds");
    double now = (double)time(NULL);
    assert_true(start <= now + 1 && start > now - 600);
    assert_true(value(collectors, "process_start_time_seconds") == start);
    collectors_free(&collectors);
}

static void test_descriptors_are_counted(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    double before = value(collectors, "process_open_fds");
    int opened[300]; /* more than one getdents64 buffer holds */
    for (int i = 0; i < 300; i++) {
        opened[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(opened[i] >= 0);
    }
    assert_true(value(collectors, "process_open_fds") == before + 300);
    for (int i = 0; i < 300; i++)
        close(opened[i]);
    assert_true(value(collectors, "process_open_fds") == before);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    assert_true(value(collectors, "process_max_fds") == (double)limit.rlim_cur);
    collectors_free(&collectors);
}

static void *wait_for_byte(void *arg)
{
    char byte;
    return read(*(int *)arg, &byte, 1) == 1 ? arg : NULL;
}

static void test_memory_and_threads(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    double resident = value(collectors, "process_resident_memory_bytes");
    double virtual = value(collectors, "process_virtual_memory_bytes");
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    assert_true(resident > 500e3 && resident <= (double)usage.ru_maxrss * 1024 * 1.5);
    assert_true(virtual >= resident);
    assert_true(value(collectors, "process_virtual_memory_max_bytes") > 0);

    /* a first thread stays, because a sanitizer starts one of its own beside it */
    int ends[2];
    pthread_t threads[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&threads[0], NULL, wait_for_byte, &ends[0]), 0);
    double before = value(collectors, "process_threads");
    assert_true(before >= 2);
    assert_int_equal(pthread_create(&threads[1], NULL, wait_for_byte, &ends[0]), 0);
    assert_true(value(collectors, "process_threads") == before + 1);
    assert_int_equal(write(ends[1], "xx", 2), 2);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    close(ends[0]);
    close(ends[1]);
    collectors_free(&collectors);
}

static void test_network_bytes(void **state)
{
    (void)state;
    struct collectors *collectors = make();
    FILE *file = fopen("/proc/self/net/netstat", "r");
    if (file == NULL) {
        print_message("SKIPPED: no /proc/self/net/netstat here\n");
        skip();
    }
    /* the file read another way: by columns of the second IpExt line */
    static char names[8192], line[8192];
    double received = -1;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "IpExt: In", 9) == 0) {
            strcpy(names, line);
        } else if (strncmp(line, "IpExt:", 6) == 0) {
            char *save_name, *save_value;
            char *name = strtok_r(names, " \n", &save_name);
            char *number = strtok_r(line, " \n", &save_value);
            for (; name && number; name = strtok_r(NULL, " \n", &save_name),
                                   number = strtok_r(NULL, " \n", &save_value)) {
                if (strcmp(name, "InOctets") == 0)
                    received = strtod(number, NULL);
            }
        }
    }
    fclose(file);
    double shown = value(collectors, "process_network_receive_bytes_total");
    assert_true(received >= 0 && shown >= received && shown < received + 1e9);
    assert_true(value(collectors, "process_network_transmit_bytes_total") >= 0);
    collectors_free(&collectors);
}

static void test_answers_are_counted_by_call_and_code(void **state)
{
    (void)state;
    static const enum handoff_code codes[] = {HANDOFF_ERR_BUDGET_TOO_SMALL, HANDOFF_OK};
    static const struct collectors_call calls[] = {{"send_handoff", codes}, {"none", NULL}};
    struct collectors *collectors = make();
    collectors_count_calls(collectors, calls, 2);
#define ANSWERS(call, code)                                                                        \
    value(collectors, "handoff_api_requests_total{call=\"" call "\",code=\"" code "\"}")
    assert_true(ANSWERS("send_handoff", "budget_too_small") == 0);
    collectors_answered(collectors, 0, HANDOFF_ERR_BUDGET_TOO_SMALL);
    collectors_answered(collectors, 0, HANDOFF_OK);
    collectors_answered(collectors, 1, HANDOFF_ERR_STORE_FULL);
    collectors_answered(collectors, 1, HANDOFF_ERR_STORE_FULL);
    assert_true(ANSWERS("send_handoff", "budget_too_small") == 1);
    assert_true(ANSWERS("send_handoff", "ok") == 1);
    assert_true(ANSWERS("none", "store_full") == 2);
    collectors_free(&collectors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_shown),
        cmocka_unit_test(test_answers_are_counted_by_call_and_code),
        cmocka_unit_test(test_promtool_has_nothing_to_say),
        cmocka_unit_test(test_build_info),
        cmocka_unit_test(test_scrapes),
        cmocka_unit_test(test_reloads),
        cmocka_unit_test(test_suppressed_and_dropped),
        cmocka_unit_test(test_cpu_time_is_a_counter_in_seconds),
        cmocka_unit_test(test_start_time_is_since_1970),
        cmocka_unit_test(test_descriptors_are_counted),
        cmocka_unit_test(test_memory_and_threads),
        cmocka_unit_test(test_network_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
