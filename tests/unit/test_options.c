/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: every default, both ways to give a value, and the exact text of refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exporter/options.h"

enum { ARGUMENTS_MAX = 16 };

/* Parses NULL-terminated arguments. */
static bool parse(const char *const *arguments, struct exporter_options *options,
                  struct exporter_error *error)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char *)"handoff-exporter"};
    int argc = 1;

    for (; arguments[argc - 1] != NULL; argc++) {
        assert_true(argc <= ARGUMENTS_MAX);
        argv[argc] = (char *)arguments[argc - 1];
    }
    return exporter_options_parse(argc, argv, options, error);
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct exporter_options parse_good(const char *const *arguments)
{
    struct exporter_options options;
    struct exporter_error error = {""};

    if (!parse(arguments, &options, &error)) {
        fail_msg("refused: %s", error.text);
    }
    return options;
}

static int forget_state_directory(void **state)
{
    (void)state;
    return unsetenv("STATE_DIRECTORY");
}

static void test_defaults(void **state)
{
    struct exporter_options options = parse_good(ARGUMENTS(NULL));

    (void)state;
    assert_null(options.config_file);
    assert_false(options.config_check);
    assert_int_equal(options.web_listen_address.count, 1);
    assert_string_equal(options.web_listen_address.items[0].host, "");
    assert_int_equal(options.web_listen_address.items[0].port, 9780);
    assert_null(options.web_config_file);
    assert_string_equal(options.web_telemetry_path, "/metrics");
    assert_false(options.web_enable_lifecycle);
    assert_false(options.web_systemd_socket);
    assert_string_equal(options.api_listen_address.host, "127.0.0.1");
    assert_int_equal(options.api_listen_address.port, 8780);
    assert_string_equal(options.storage_path, "handoff-data");
    assert_int_equal(options.log_level, EXPORTER_LOG_INFO);
    assert_int_equal(options.log_format, EXPORTER_LOG_LOGFMT);
    assert_int_equal(options.shutdown_timeout_ms, 30000);
    assert_false(options.version);
    assert_false(options.help);
}

static void test_both_notations(void **state)
{
    struct exporter_options options = parse_good(ARGUMENTS(
        "--config.file=a=b.yml", "--config.check", "--web.config.file", "web.yml",
        "--web.telemetry-path", "/probe/metrics", "--web.systemd-socket", "--web.enable-lifecycle",
        "--api.listen-address=unix:/run/handoff.sock", "--storage.path", "--data",
        "--log.level=debug", "--log.format", "json", "--shutdown.timeout=1m30s"));

    (void)state;
    assert_string_equal(options.config_file, "a=b.yml");
    assert_true(options.config_check);
    assert_string_equal(options.web_config_file, "web.yml");
    assert_string_equal(options.web_telemetry_path, "/probe/metrics");
    assert_true(options.web_systemd_socket);
    assert_true(options.web_enable_lifecycle);
    assert_true(options.api_listen_address.is_unix);
    assert_string_equal(options.api_listen_address.path, "/run/handoff.sock");
    assert_string_equal(options.storage_path, "--data");
    assert_int_equal(options.log_level, EXPORTER_LOG_DEBUG);
    assert_int_equal(options.log_format, EXPORTER_LOG_JSON);
    assert_int_equal(options.shutdown_timeout_ms, 90000);
}

static void test_repeated_listeners_replace_the_default(void **state)
{
    struct exporter_options options = parse_good(
        ARGUMENTS("--web.listen-address=127.0.0.1:0", "--web.listen-address", "[::1]:9781"));

    (void)state;
    assert_int_equal(options.web_listen_address.count, 2);
    assert_string_equal(options.web_listen_address.items[0].host, "127.0.0.1");
    assert_int_equal(options.web_listen_address.items[0].port, 0);
    assert_string_equal(options.web_listen_address.items[1].host, "::1");
    assert_int_equal(options.web_listen_address.items[1].port, 9781);
}

static void test_help_ends_the_reading(void **state)
{
    (void)state;
    assert_true(parse_good(ARGUMENTS("--help", "--nonsense")).help);
    assert_true(parse_good(ARGUMENTS("-h")).help);
    assert_true(parse_good(ARGUMENTS("--version")).version);
}

static void test_state_directory(void **state)
{
    struct exporter_options options;
    struct exporter_error error;

    (void)state;
    setenv("STATE_DIRECTORY", "/var/lib/handoff-exporter", 1);
    assert_string_equal(parse_good(ARGUMENTS(NULL)).storage_path, "/var/lib/handoff-exporter");
    assert_string_equal(parse_good(ARGUMENTS("--storage.path=x")).storage_path, "x");
    setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b", 1);
    assert_false(parse(ARGUMENTS(NULL), &options, &error));
    assert_string_equal(error.text, "--storage.path: saw several directories in $STATE_DIRECTORY, "
                                    "allowed: one, or --storage.path=DIRECTORY");
    setenv("STATE_DIRECTORY", "", 1);
    assert_string_equal(parse_good(ARGUMENTS(NULL)).storage_path, "handoff-data");
}

static void test_refusals(void **state)
{
    static const struct {
        const char *arguments[4];
        const char *message;
    } bad[] = {
        {{"--web.listen-adress=:1"},
         "unknown option \"--web.listen-adress\", did you mean --web.listen-address?"},
        {{"--nonsense"}, "unknown option \"--nonsense\", see --help"},
        {{"--=x"}, "unknown option \"--\", see --help"},
        {{"-config.file=x"},
         "unexpected argument \"-config.file=x\", allowed: options such as --config.file=FILE"},
        {{"file\n.yml"},
         "unexpected argument \"file\\x0A.yml\", allowed: options such as --config.file=FILE"},
        {{"--"}, "unexpected argument \"--\", allowed: options such as --config.file=FILE"},
        {{""}, "unexpected argument \"\", allowed: options such as --config.file=FILE"},
        {{"--config.file"}, "--config.file: saw no value, allowed: --config.file=FILE"},
        {{"--config.file="}, "--config.file: saw \"\", allowed: a path of 1 to 4095 bytes"},
        {{"--config.check=yes"},
         "--config.check: saw \"yes\", allowed: the option without a value"},
        {{"--log.level=info", "--log.level=debug"}, "--log.level: given twice, allowed: once"},
        {{"--log.level=INFO"}, "--log.level: saw \"INFO\", allowed: debug|info|warn|error"},
        {{"--log.level=info|warn"},
         "--log.level: saw \"info|warn\", allowed: debug|info|warn|error"},
        {{"--log.format", ""}, "--log.format: saw \"\", allowed: logfmt|json"},
        {{"--shutdown.timeout=30"},
         "--shutdown.timeout: saw \"30\", allowed: a duration from 0s to 1h such as 30s"},
        {{"--shutdown.timeout=3601s"},
         "--shutdown.timeout: saw \"3601s\", allowed: a duration from 0s to 1h such as 30s"},
        {{"--web.listen-address=:99999"},
         "--web.listen-address: saw \":99999\", allowed: HOST:PORT such as 127.0.0.1:9780, :9780 "
         "or [::1]:9780"},
        {{"--web.listen-address=unix:/run/x"},
         "--web.listen-address: saw \"unix:/run/x\", allowed: HOST:PORT such as 127.0.0.1:9780, "
         ":9780 or [::1]:9780"},
        {{"--api.listen-address=8780"},
         "--api.listen-address: saw \"8780\", allowed: HOST:PORT such as 127.0.0.1:8780, or "
         "unix:PATH with a path of 1 to 107 bytes"},
        {{"--web.telemetry-path=metrics"},
         "--web.telemetry-path: saw \"metrics\", allowed: a path such as /metrics, 2 to 255 "
         "characters long, made up of letters, digits and -._~/"},
        {{"--web.telemetry-path=/a?b"},
         "--web.telemetry-path: saw \"/a?b\", allowed: a path such as /metrics, 2 to 255 "
         "characters long, made up of letters, digits and -._~/"},
        {{"--web.telemetry-path=/-/ready"},
         "--web.telemetry-path: saw \"/-/ready\", allowed: a path outside /-/, which is reserved "
         "for health checks and reloads"},
        {{"--web.telemetry-path=/-/"},
         "--web.telemetry-path: saw \"/-/\", allowed: a path outside /-/, which is reserved for "
         "health "
         "checks and reloads"},
        {{"--web.telemetry-path=/"},
         "--web.telemetry-path: saw \"/\", allowed: a path such as /metrics, 2 to 255 characters "
         "long, made up of letters, digits and -._~/"},
    };
    struct exporter_options options;
    struct exporter_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (parse(bad[i].arguments, &options, &error)) {
            fail_msg("taken: %s", bad[i].arguments[0]);
        }
        assert_string_equal(error.text, bad[i].message);
    }
}

static void test_too_many_listeners(void **state)
{
    const char *arguments[EXPORTER_WEB_LISTEN_MAX + 2] = {NULL};
    struct exporter_options options;
    struct exporter_error error;

    (void)state;
    for (int i = 0; i < EXPORTER_WEB_LISTEN_MAX; i++) {
        arguments[i] = "--web.listen-address=:0";
    }
    assert_true(parse(arguments, &options, &error));
    arguments[EXPORTER_WEB_LISTEN_MAX] = "--web.listen-address=:1";
    assert_false(parse(arguments, &options, &error));
    assert_string_equal(error.text,
                        "--web.listen-address: saw \":1\", allowed: at most 8 addresses");
}

/* The help names every option, at a width that a terminal shows. */
static void test_help_lists_every_option(void **state)
{
    static const char *const names[] = {
#define OPTION(field, kind, name, argument, fallback, least, most, choices, help) "--" name,
#include "exporter/options.def"
#undef OPTION
    };
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    assert_non_null(out);
    exporter_options_print_help(out);
    exporter_options_print_version(out);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_non_null(strstr(text, names[i]));
    }
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_in_range(strcspn(line, "\n"), 0, 90);
    }
    assert_non_null(strstr(text, "handoff-exporter, version "));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_both_notations),
        cmocka_unit_test(test_repeated_listeners_replace_the_default),
        cmocka_unit_test(test_help_ends_the_reading),
        cmocka_unit_test_setup_teardown(test_state_directory, NULL, forget_state_directory),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_too_many_listeners),
        cmocka_unit_test(test_help_lists_every_option),
    };
    unsetenv("STATE_DIRECTORY");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
