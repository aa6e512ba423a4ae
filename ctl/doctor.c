/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl doctor: what an operator looks at first, in the order in which one thing explains the
 * next: the listeners, the token, the clock, then what the sidecar says of itself, then its agents.
 * Each check is one line; what needs attention has a second one that says what to do. One thread.
 */
#include <curl/curl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/text.h"
#include "exporter/config/config.h"

enum {
    CALL_TIMEOUT_MS = 5000,
    AGENT_TIMEOUT_MS = 2000,
    UNAUTHENTICATED = 401,
    FORBIDDEN = 403,
};
static const double skew_most_s = 2;        /* the header Date has whole seconds */
static const double disk_least = 0.1;       /* of its size that should be free */
static const double descriptors_most = 0.8; /* of the limit that may be open */

struct doctor {
    const struct ctl_line *line;
    yyjson_mut_doc *doc; /* {"ok", "checks": [{"check", "ok", "found", "advice"}]} */
    yyjson_mut_val *checks;
    char *metrics; /* NULL: they could not be read */
    bool well;
};

/* ---- findings ---------------------------------------------------------------------------------
 */

static void add_check(struct doctor *doctor, const char *check, const char *found,
                      const char *advice)
{
    yyjson_mut_val *one = yyjson_mut_arr_add_obj(doctor->doc, doctor->checks);
    yyjson_mut_obj_add_strcpy(doctor->doc, one, "check", check);
    yyjson_mut_obj_add_bool(doctor->doc, one, "ok", !advice);
    yyjson_mut_obj_add_strcpy(doctor->doc, one, "found", found);
    yyjson_mut_obj_add_val(doctor->doc, one, "advice",
                           advice ? yyjson_mut_strcpy(doctor->doc, advice)
                                  : yyjson_mut_null(doctor->doc));
    doctor->well &= !advice;
}

static __attribute__((format(printf, 3, 4))) void is_fine(struct doctor *doctor, const char *check,
                                                          const char *format, ...)
{
    char found[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found, sizeof found, format, arguments);
    va_end(arguments);
    add_check(doctor, check, found, NULL);
}

static __attribute__((format(printf, 4, 5))) void needs_attention(struct doctor *doctor,
                                                                  const char *check,
                                                                  const char *advice,
                                                                  const char *format, ...)
{
    char found[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found, sizeof found, format, arguments);
    va_end(arguments);
    add_check(doctor, check, found, advice);
}

/* ---- the listeners ----------------------------------------------------------------------------
 */

/* The exit code; not CTL_OK: no answer came. */
static int try_call(const struct doctor *doctor, bool web, const char *path,
                    struct ctl_answer *answer)
{
    const struct ctl_call call = {
        .method = "GET", .path = path, .web = web, .timeout_ms = CALL_TIMEOUT_MS, .quiet = true};
    return ctl_api_exchange(doctor->line, &call, answer);
}

static bool ask(const struct doctor *doctor, bool web, const char *path, struct ctl_answer *answer)
{
    return try_call(doctor, web, path, answer) == CTL_OK;
}

static void check_clock(struct doctor *doctor, const struct ctl_answer *answer)
{
    const time_t theirs = curl_getdate(answer->date, NULL);
    const double skew = difftime(theirs, time(NULL));
    if (theirs == -1)
        return;
    if (fabs(skew) <= skew_most_s)
        is_fine(doctor, "clock", "the sidecar's agrees with this machine's");
    else
        needs_attention(doctor, "clock",
                        "synchronize both clocks (chrony, systemd-timesyncd): deadlines are times",
                        "the sidecar's differs from this machine's by %.0f s", skew);
}

static void report_circuit(struct doctor *doctor, const char *name, const char *circuit)
{
    char advice[512];
    snprintf(advice, sizeof advice,
             "why: handoffctl parked list --target %s; when it is back: "
             "handoffctl agents reset %s",
             name, name);
    needs_attention(doctor, "circuit", advice, "that of %s is %s", name, circuit);
}

static void check_circuits(struct doctor *doctor, const struct ctl_answer *answer)
{
    const char *closed = handoff_circuit_name(HANDOFF_CIRCUIT_CLOSED);
    yyjson_doc *doc = yyjson_read(answer->body, answer->size, 0);
    yyjson_val *agent, *items = yyjson_obj_get(yyjson_doc_get_root(doc), "items");
    size_t i, count, broken = 0;
    yyjson_arr_foreach(items, i, count, agent)
    {
        const char *circuit = ctl_text(agent, "circuit"), *name = ctl_text(agent, "name");
        if (strcmp(circuit, closed) == 0)
            continue;
        broken++;
        report_circuit(doctor, name, circuit);
    }
    if (broken == 0)
        is_fine(doctor, "circuit", "closed for all of %zu agents", yyjson_arr_size(items));
    yyjson_doc_free(doc);
}

static void check_own_token(struct doctor *doctor, const struct ctl_answer *answer)
{
    const char *file = ctl_token_file(doctor->line);
    if (answer->status == UNAUTHENTICATED)
        needs_attention(doctor, "token",
                        "name a file with a token of api.tokens_file: --token-file FILE or "
                        "$HANDOFF_TOKEN_FILE",
                        file ? "the one in %s is not accepted" : "the agent API asks for one",
                        file);
    else if (answer->status / 100 == 2)
        is_fine(doctor, "token", file ? "the one in %s is accepted" : "none is needed", file);
}

/* Only an operator may list jobs. */
static void check_operator(struct doctor *doctor)
{
    struct ctl_answer answer;
    if (ask(doctor, false, "/v1/jobs", &answer) && answer.status == FORBIDDEN)
        needs_attention(doctor, "token", "use the token of @operator to replay and discard",
                        "it is an agent's, not the operator's");
    ctl_answer_free(&answer);
}

static void report_no_answer(struct doctor *doctor, int code, const char *url)
{
    if (code == CTL_UNREACHABLE)
        needs_attention(doctor, "agent API",
                        "start the sidecar (systemctl status handoff-exporter), or give its "
                        "address with --api.url",
                        "%s does not answer", url);
    else
        needs_attention(doctor, "token",
                        "put the token into that file, or name another one: --token-file FILE or "
                        "$HANDOFF_TOKEN_FILE",
                        "no token in %s", ctl_token_file(doctor->line));
}

static void check_api_answer(struct doctor *doctor, const char *url,
                             const struct ctl_answer *answer)
{
    if (answer->status / 100 == 2 || answer->status == UNAUTHENTICATED)
        is_fine(doctor, "agent API", "%s answers", url);
    else
        needs_attention(doctor, "agent API",
                        "404: that is another listener; give the agent API's address with "
                        "--api.url",
                        "%s/v1/agents answers status %ld", url, answer->status);
    check_own_token(doctor, answer);
    check_clock(doctor, answer);
}

static void check_api(struct doctor *doctor)
{
    struct ctl_answer answer;
    const char *url = ctl_api_url(doctor->line);
    const int code = try_call(doctor, false, "/v1/agents", &answer);
    if (code == CTL_OK)
        check_api_answer(doctor, url, &answer);
    else
        report_no_answer(doctor, code, url);
    if (answer.status / 100 == 2) {
        check_operator(doctor);
        check_circuits(doctor, &answer);
    }
    ctl_answer_free(&answer);
}

/* The text of an error answer is the sidecar's own explanation. */
static void check_ready(struct doctor *doctor)
{
    struct ctl_answer answer;
    if (ask(doctor, true, "/-/ready", &answer) && answer.status / 100 == 2)
        is_fine(doctor, "readiness", "it takes handoffs");
    else if (answer.status != 0) {
        yyjson_doc *doc = answer.body ? yyjson_read(answer.body, answer.size, 0) : NULL;
        needs_attention(
            doctor, "readiness", "see its log (journalctl -u handoff-exporter) and its status page",
            "status %ld: %s", answer.status, ctl_text(yyjson_doc_get_root(doc), "detail"));
        yyjson_doc_free(doc);
    }
    ctl_answer_free(&answer);
}

static void check_web(struct doctor *doctor)
{
    struct ctl_answer answer;
    const char *url = ctl_web_url(doctor->line);
    const bool answered = ask(doctor, true, "/metrics", &answer);
    if (!answered)
        needs_attention(doctor, "web listener",
                        "give its address with --web.url; Prometheus needs it as well",
                        "%s does not answer", url);
    else if (answer.status / 100 != 2)
        needs_attention(doctor, "web listener",
                        "401: it asks for a password; 404: that is another listener, or "
                        "--web.telemetry-path was changed",
                        "%s/metrics answers status %ld", url, answer.status);
    else
        is_fine(doctor, "web listener", "%s answers", url);
    if (answered && answer.status / 100 == 2) {
        doctor->metrics = answer.body;
        answer.body = NULL;
    }
    ctl_answer_free(&answer);
    if (answered)
        check_ready(doctor);
}

/* ---- what the sidecar says of itself ----------------------------------------------------------
 */

/* The value of a metric without labels; NAN: it is not there. */
static double metric_value(const struct doctor *doctor, const char *name)
{
    const size_t length = strlen(name);
    const char *at = doctor->metrics;
    while (at && *at) {
        if (strncmp(at, name, length) == 0 && at[length] == ' ')
            return strtod(at + length + 1, NULL);
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return NAN;
}

/* A gauge that is 1 where all is well, or, `inverted`, 0. */
static void check_gauge(struct doctor *doctor, const char *name, bool inverted, const char *check,
                        const char *fine, const char *found, const char *advice)
{
    const double value = metric_value(doctor, name);
    if (isnan(value))
        return;
    if ((value > 0) != inverted)
        is_fine(doctor, check, "%s", fine);
    else
        needs_attention(doctor, check, advice, "%s", found);
}

static void check_disk(struct doctor *doctor)
{
    const double free_bytes = metric_value(doctor, "handoff_store_disk_free_bytes"),
                 size = metric_value(doctor, "handoff_store_disk_size_bytes");
    if (isnan(free_bytes) || isnan(size) || size <= 0)
        return;
    if (free_bytes / size >= disk_least)
        is_fine(doctor, "disk", "%.0f %% of the store's is free", 100 * free_bytes / size);
    else
        needs_attention(doctor, "disk",
                        "make room, or keep less: storage.retention.age and storage.retention.size",
                        "only %.1f %% of the store's is free", 100 * free_bytes / size);
}

static void check_descriptors(struct doctor *doctor)
{
    const double open = metric_value(doctor, "process_open_fds"),
                 most = metric_value(doctor, "process_max_fds");
    if (isnan(open) || isnan(most) || most <= 0)
        return;
    if (open / most <= descriptors_most)
        is_fine(doctor, "descriptors", "%.0f of %.0f are open", open, most);
    else
        needs_attention(doctor, "descriptors",
                        "raise LimitNOFILE of the service, or find who keeps connections open",
                        "%.0f of %.0f are open", open, most);
}

static void check_shortages(struct doctor *doctor)
{
    static const char *const resources[] = {"descriptors", "memory", "threads", "ports", "disk"};
    bool any = false;
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
        char name[128];
        snprintf(name, sizeof name, "handoff_exporter_resource_shortages_total{resource=\"%s\"}",
                 resources[i]);
        const double times = metric_value(doctor, name);
        if (!(times > 0))
            continue;
        any = true;
        needs_attention(doctor, "shortages", "see the runbook HandoffExporterOutOfResources",
                        "%s: %.0f since it started", resources[i], times);
    }
    if (!any && doctor->metrics)
        is_fine(doctor, "shortages", "none since it started");
}

static void check_itself(struct doctor *doctor)
{
    check_gauge(doctor, "handoff_tokenizer_exact", false, "vocabulary",
                "installed; tokens are exact", "none is installed, so tokens are estimated",
                "run scripts/npm-install and install again, or set HANDOFF_VOCABULARY_DIR");
    check_gauge(doctor, "handoff_exporter_config_last_reload_successful", false, "configuration",
                "in force as last read", "the last reload was rejected",
                "handoffctl check-config FILE says why; then handoffctl reload");
    check_gauge(doctor, "handoff_spine_up", false, "memories", "the spine answers",
                "the spine does not answer", "see the runbook HandoffSpineDown");
    check_gauge(doctor, "handoff_store_displaced", true, "store", "in its place",
                "its file was moved or replaced while the sidecar runs",
                "put it back, or restart the sidecar; handoffctl store check verifies it");
    check_disk(doctor);
    check_descriptors(doctor);
    check_shortages(doctor);
}

/* ---- the agents' ports ------------------------------------------------------------------------
 */

static void check_agent_port(struct doctor *doctor, const struct exporter_agent *agent)
{
    const char *url = agent->options.url, *name = agent->options.name;
    CURL *curl = url ? curl_easy_init() : NULL;
    if (!curl)
        return; /* it pulls */
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)AGENT_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    const CURLcode result = curl_easy_perform(curl);
    if (result == CURLE_OK)
        is_fine(doctor, "agent", "%s: %s takes connections", name, url);
    else
        needs_attention(doctor, "agent", "start the agent, or correct its url and reload",
                        "%s: %s: %s", name, url, curl_easy_strerror(result));
    curl_easy_cleanup(curl);
}

static void check_agents(struct doctor *doctor)
{
    const char *path = ctl_value(doctor->line, "config.file");
    struct exporter_error error;
    struct exporter_config *config = path ? exporter_config_load(path, &error) : NULL;
    if (path && !config)
        needs_attention(doctor, "configuration file", "correct it, then handoffctl reload", "%s",
                        error.text);
    for (size_t i = 0; config && i < config->nagents; i++)
        check_agent_port(doctor, &config->agents[i]);
    exporter_config_unref(&config);
}

/* ---- the command ------------------------------------------------------------------------------
 */

static void show_findings(const struct ctl_line *line, yyjson_val *root)
{
    size_t i, count;
    yyjson_val *one;
    (void)line;
    yyjson_arr_foreach(yyjson_obj_get(root, "checks"), i, count, one)
    {
        const bool ok = yyjson_is_true(yyjson_obj_get(one, "ok"));
        const enum ctl_tone tone = ok ? CTL_GOOD : CTL_BAD;
        ctl_tone_begin(stdout, tone);
        fputs(ok ? "ok    " : "check ", stdout);
        ctl_tone_end(stdout, tone);
        ctl_put(stdout, ctl_text(one, "check"), 20);
        ctl_put_line("", ctl_text(one, "found"));
        if (!ok)
            ctl_put_line("                          do: ", ctl_text(one, "advice"));
    }
}

int ctl_doctor(const struct ctl_line *line)
{
    struct doctor doctor = {.line = line, .doc = yyjson_mut_doc_new(NULL), .well = true};
    yyjson_mut_val *root = yyjson_mut_obj(doctor.doc);
    yyjson_mut_doc_set_root(doctor.doc, root);
    doctor.checks = yyjson_mut_arr(doctor.doc);
    check_api(&doctor);
    check_web(&doctor);
    check_itself(&doctor);
    check_agents(&doctor);
    yyjson_mut_obj_add_bool(doctor.doc, root, "ok", doctor.well);
    yyjson_mut_obj_add_val(doctor.doc, root, "checks", doctor.checks);
    int code = ctl_show_built(line, doctor.doc, show_findings);
    if (code == CTL_OK && !doctor.well)
        code = CTL_FAILED;
    yyjson_mut_doc_free(doctor.doc);
    free(doctor.metrics);
    return code;
}
