/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status for people: made on the server, without images or fonts, and complete without its
 * script, which only refreshes it (page.h).
 *
 * The first thing to be read is the verdict, in words; colour only repeats it. On a narrow screen
 * the rows of the table become cards, which is why its parts say their roles: a browser forgets
 * that a table is one when its display changes.
 *
 * Everything that is not a literal here goes through exporter_html_text.
 *
 * Control thread.
 */
#include "exporter/status/status_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/status/html.h"
#include "exporter/status/page.h"
#include "lib/base/rfc3339.h"
#include "lib/base/units.h"

/* ---- pieces --------------------------------------------------------------------------------- */

static void write_time_element(FILE *out, int64_t at_ms)
{
    char text[BASE_RFC3339_SIZE];
    base_rfc3339_seconds(at_ms, text);
    /* "2026-03-01T12:00:00Z", for people "2026-03-01 12:00:00 UTC" */
    fprintf(out, "<time datetime=\"%s\">%.10s %.8s UTC</time>", text, text,
            strlen(text) > 11 ? text + 11 : "");
}

static void write_age(FILE *out, int64_t age_ns)
{
    struct base_printed age;
    fputs(base_age_print(&age, age_ns / 1000000), out);
}

/* Text from outside, kept from turning around what stands beside it. */
static void write_foreign(FILE *out, const char *text)
{
    fputs("<bdi>", out);
    exporter_html_text(out, text);
    fputs("</bdi>", out);
}

/* ---- the head ------------------------------------------------------------------------------- */

enum { EXPORTER_DASHBOARD_URL_MAX = 2200 };

/* The address of a dashboard; false: it is not configured where they are. */
static bool dashboard_url(char *url, size_t size, const struct exporter_status *status,
                          const char *name)
{
    const char *base = status->daemon.dashboard_url;
    size_t length = base != NULL ? strlen(base) : 0;
    while (length > 0 && base[length - 1] == '/')
        length--;
    snprintf(url, size, "%.*s/d/handoff-%s", (int)length, base != NULL ? base : "", name);
    return base != NULL;
}

static void write_agent_dashboard(FILE *out, const struct exporter_status *status,
                                  const char *agent)
{
    char url[EXPORTER_DASHBOARD_URL_MAX];
    if (!dashboard_url(url, sizeof url, status, "agent"))
        return;
    fputs(" <a href=\"", out);
    exporter_html_text(out, url);
    fputs("?var-target_agent=", out);
    exporter_html_url_value(out, agent);
    fputs("\">dashboard</a>", out);
}

/* A link to the agent's row below. */
static void write_agent_link(FILE *out, const struct exporter_status *status, const char *agent)
{
    for (size_t i = 0; i < status->nagents; i++) {
        if (strcmp(status->agents[i].name, agent) != 0)
            continue;
        fprintf(out, " <a href=\"#agent-%zu\">", i);
        exporter_html_text(out, agent);
        fputs("</a>", out);
    }
}

/* What a tab shows: with several tabs open, it shows which one to look at. */
static const char *title_of(const struct exporter_status *status)
{
    static const char *const titles[] = {"Healthy", "Needs attention", "Failing"};
    return titles[status->standing];
}

static void write_head(FILE *out, const struct exporter_status *status, const char *telemetry_path)
{
    char overview[EXPORTER_DASHBOARD_URL_MAX];
    if (!dashboard_url(overview, sizeof overview, status, "overview"))
        overview[0] = '\0';
    const struct exporter_page_link links[] = {{telemetry_path, "Metrics"},
                                               {"/-/healthy", "Health"},
                                               {"/-/ready", "Readiness"},
                                               {"/runbooks", "Runbooks"},
                                               {"/?format=json", "This page as JSON"},
                                               {status->review_link, "Review"},
                                               {overview, "Dashboard"}};
    struct exporter_page_link shown[sizeof links / sizeof *links];
    size_t count = 0;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        if (links[i].path[0] != '\0')
            shown[count++] = links[i];
    }
    exporter_page_begin(out, title_of(status), shown, count);
}

static void write_review_link(FILE *out, const struct exporter_status *status, const char *path,
                              const char *words)
{
    fputs("<a href=\"", out);
    exporter_html_text(out, status->review_link);
    exporter_html_text(out, path);
    fprintf(out, "\">%s</a>", words);
}

/* Commands that work as they stand, so an agent is named: the worst that has something parked. */
static void write_what_to_do_with_parked(FILE *out, const struct exporter_status *status)
{
    size_t at = 0;
    while (at < status->nagents && status->agents[at].parked == 0)
        at++;
    if (at == status->nagents)
        return;
    fputs("<p>", out);
    if (status->review_link[0] != '\0') {
        fputs("Read and decide what is parked on the ", out);
        write_review_link(out, status, "", "review page");
        fputs(". ", out);
    }
    fputs("List parked handoffs with <code>handoffctl parked list</code>, and replay them once "
          "their agent has recovered: <code>handoffctl parked replay --target ",
          out);
    exporter_html_text(out, status->agents[at].name);
    fputs("</code>.</p>\n", out);
}

/* Its words, and the status that they leave out. */
static void write_error(FILE *out, const struct exporter_failure *failure)
{
    write_foreign(out, failure->words);
    if (failure->status >= 300)
        fprintf(out, " (%d)", failure->status);
}

/* Why the agent failed last, in the words of its attempt. */
static void write_last_error(FILE *out, const struct exporter_status *status, const char *agent)
{
    for (size_t i = 0; i < status->nfailures; i++) {
        const struct exporter_failure *failure = &status->failures[i];
        if (strcmp(failure->target, agent) != 0 || failure->words[0] == '\0')
            continue;
        fputs(" The last error: ", out);
        write_error(out, failure);
        return;
    }
}

/* Whether it is the first about its agent, which then says why. */
static bool is_first_about(const struct exporter_status *status,
                           const struct exporter_finding *finding)
{
    const struct exporter_finding *first = status->findings;
    while (first < finding && (first->agent == NULL || strcmp(first->agent, finding->agent) != 0))
        first++;
    return first == finding;
}

/* A sentence, and where to read on: what to do, and the agent it is about. */
static void write_finding(FILE *out, const struct exporter_status *status,
                          const struct exporter_finding *finding)
{
    fputs("<li>", out);
    exporter_html_text(out, finding->text);
    if (finding->agent != NULL && is_first_about(status, finding))
        write_last_error(out, status, finding->agent);
    if (finding->alert != NULL)
        fprintf(out, " <a href=\"/runbooks/%s\">%s</a>", finding->alert, finding->alert);
    if (finding->agent != NULL) {
        write_agent_link(out, status, finding->agent);
        write_agent_dashboard(out, status, finding->agent);
    }
    fputs("</li>\n", out);
}

/* Nothing found is worth no more than the time that was looked at. */
static void write_since(FILE *out, const struct exporter_status *status)
{
    fputs("<p>No alert would fire that looks at no more than the last hour. Looking since ", out);
    write_time_element(out, status->since_ms);
    fputs(".</p>\n", out);
}

static bool is_found_on_page(const struct exporter_status *status, const char *alert)
{
    for (size_t i = 0; i < status->nfindings; i++) {
        if (status->findings[i].alert != NULL && strcmp(status->findings[i].alert, alert) == 0)
            return true;
    }
    return false;
}

/* Of two views of the same, the more urgent one stands for both; as in alertmanager.yml. */
static bool is_seen_otherwise(const struct exporter_status *status, const char *alert)
{
    static const struct {
        const char *lesser, *urgent;
    } views[] = {
        {"HandoffFailureRateCritical", "HandoffErrorBudgetBurn"},
        {"HandoffCompletenessLow", "HandoffCompletenessCritical"},
        {"HandoffCompletenessLow", "HandoffSpineDown"},
        {"HandoffCompletenessCritical", "HandoffSpineDown"},
    };
    for (size_t i = 0; alert != NULL && i < sizeof views / sizeof *views; i++) {
        if (strcmp(views[i].lesser, alert) == 0 && is_found_on_page(status, views[i].urgent))
            return true;
    }
    return false;
}

/* As Alertmanager does: a critical finding about an agent stands for the lesser ones about it. */
static bool is_muted(const struct exporter_status *status, const struct exporter_finding *finding)
{
    if (is_seen_otherwise(status, finding->alert))
        return true;
    if (finding->agent == NULL || finding->severity == EXPORTER_SEVERITY_CRITICAL)
        return false;
    for (size_t i = 0; i < status->nfindings; i++) {
        const struct exporter_finding *other = &status->findings[i];
        if (other->severity == EXPORTER_SEVERITY_CRITICAL && other->agent != NULL &&
            strcmp(other->agent, finding->agent) == 0)
            return true;
    }
    return false;
}

static void write_verdict(FILE *out, const struct exporter_status *status)
{
    fprintf(out, "<section class=\"verdict %s\">\n<h1>%s</h1>\n",
            exporter_standing_name(status->standing), title_of(status));
    if (status->nfindings == 0)
        write_since(out, status);
    else
        fputs("<ul>\n", out);
    for (size_t i = 0; i < status->nfindings; i++) {
        if (!is_muted(status, &status->findings[i]))
            write_finding(out, status, &status->findings[i]);
    }
    if (status->nfindings > 0)
        fputs("</ul>\n", out);
    write_what_to_do_with_parked(out, status);
    fputs("</section>\n", out);
}

static void write_figure(FILE *out, const char *name, uint64_t value, const char *age_name,
                         int64_t age_ns)
{
    fprintf(out, "<div><dt>%s</dt><dd>%" PRIu64 "</dd>", name, value);
    if (age_ns > 0) {
        fprintf(out, "<dd>%s ", age_name);
        write_age(out, age_ns);
        fputs("</dd>", out);
    }
    fputs("</div>\n", out);
}

static void write_percentage(FILE *out, double part, double whole)
{
    fprintf(out, "%.*f %%", part < whole && part > 0.99 * whole ? 1 : 0, 100 * part / whole);
}

static void write_completeness_figure(FILE *out, const struct exporter_hour *hour)
{
    if (hour->requested == 0)
        return;
    fputs("<div><dt>Completeness, last hour</dt><dd>", out);
    write_percentage(out, hour->included, hour->requested);
    fprintf(out, "</dd><dd>of %.0f memories</dd></div>\n", hour->requested);
}

static void write_figures(FILE *out, const struct exporter_status *status)
{
    const struct exporter_lifecycle_state *daemon = &status->daemon;
    fputs("<dl class=\"figures\">\n", out);
    write_figure(out, "In flight", status->in_flight, "oldest for", status->oldest_in_flight_ns);
    write_figure(out, "Parked", status->parked, "oldest for", status->oldest_parked_ns);
    write_figure(out, "Failed since start", status->failures_total, "", 0);
    write_completeness_figure(out, &status->hour);
    fputs("<div><dt>Uptime</dt><dd>", out);
    write_age(out, daemon->uptime_ms * 1000000);
    fputs("</dd></div>\n</dl>\n", out);
}

/* ---- agents --------------------------------------------------------------------------------- */

static void write_circuit(FILE *out, const struct handoff_agent_stats *agent)
{
    static const struct {
        const char *standing, *words;
    } circuits[HANDOFF_CIRCUIT_COUNT] = {
        [HANDOFF_CIRCUIT_CLOSED] = {"ok", "closed"},
        [HANDOFF_CIRCUIT_HALF_OPEN] = {"attention", "half open"},
        [HANDOFF_CIRCUIT_OPEN] = {"trouble", "open"},
    };
    fputs("<td role=\"cell\" data-label=\"Circuit\">", out);
    if (agent->configured)
        fprintf(out, "<span class=\"badge %s\">%s</span></td>\n", circuits[agent->circuit].standing,
                circuits[agent->circuit].words);
    else
        fputs("<span class=\"soft\">no longer configured</span></td>\n", out);
}

/* A number, and beside it how long the oldest of what it counts is there. */
static void write_count(FILE *out, const char *label, uint64_t count, int64_t oldest_ns)
{
    fprintf(out, "<td role=\"cell\" data-label=\"%s\"><span%s>%" PRIu64, label,
            count == 0 ? " class=\"soft\"" : "", count);
    if (oldest_ns > 0) {
        fputs("<small>oldest ", out);
        write_age(out, oldest_ns);
        fputs("</small>", out);
    }
    fputs("</span></td>\n", out);
}

/* How the handoffs of the last hour ended: the acknowledged ones, and every other end by name. */
static void write_ends(FILE *out, const struct exporter_hour *hour)
{
    fprintf(out, "<td role=\"cell\" data-label=\"Last hour\"><span>%.0f",
            hour->ended[HANDOFF_OUTCOME_ACKNOWLEDGED]);
    for (int i = HANDOFF_OUTCOME_NONE + 1; i < HANDOFF_OUTCOME_COUNT; i++) {
        if (i != HANDOFF_OUTCOME_ACKNOWLEDGED && hour->ended[i] > 0)
            fprintf(out, "<small>%.0f %s</small>", hour->ended[i],
                    handoff_outcome_name((enum handoff_outcome)i));
    }
    fputs("</span></td>\n", out);
}

/* Most agents acknowledge in milliseconds, which an age in seconds would show as 0. */
static void write_short_time(FILE *out, double seconds)
{
    if (seconds >= 1)
        write_age(out, (int64_t)(seconds * 1e9));
    else
        fprintf(out, "%.*f ms", seconds < 0.01 ? 1 : 0, seconds * 1e3);
}

static void write_latency(FILE *out, const struct handoff_agent_stats *agent,
                          const struct exporter_hour *hour)
{
    fputs("<td role=\"cell\" data-label=\"Latency\"><span>", out);
    if (hour->latency_99 > 0) {
        write_short_time(out, hour->latency_50);
        fputs("<small>p99 ", out);
        write_short_time(out, hour->latency_99);
        fputs(" of ", out);
        write_age(out, agent->timeout_ms * 1000000);
        fputs("</small>", out);
    }
    fputs("</span></td>\n", out);
}

static void write_completeness_cell(FILE *out, const struct exporter_hour *hour)
{
    fputs("<td role=\"cell\" data-label=\"Completeness\"><span>", out);
    if (hour->requested > 0)
        write_percentage(out, hour->included, hour->requested);
    fputs("</span></td>\n", out);
}

static void write_agent(FILE *out, const struct exporter_status *status, size_t place)
{
    const struct handoff_agent_stats *agent = &status->agents[place];
    const struct exporter_hour *hour = &status->hours[place];
    fprintf(out, "<tr role=\"row\" id=\"agent-%zu\"><th role=\"rowheader\" scope=\"row\">", place);
    exporter_html_text(out, agent->name);
    write_agent_dashboard(out, status, agent->name);
    fputs("</th>\n", out);
    write_circuit(out, agent);
    write_count(out, "Failures in a row", agent->consecutive_failures, 0);
    write_count(out, "In flight", agent->in_flight, agent->oldest_in_flight_ns);
    write_count(out, "Parked", agent->parked, agent->oldest_parked_ns);
    write_ends(out, hour);
    write_latency(out, agent, hour);
    write_completeness_cell(out, hour);
    fputs("</tr>\n", out);
}

static void write_agents(FILE *out, const struct exporter_status *status)
{
    static const char *const columns[] = {"Agent",     "Circuit",     "Failures in a row",
                                          "In flight", "Parked",      "Last hour",
                                          "Latency",   "Completeness"};
    fputs("<h2 id=\"agents\">Agents</h2>\n", out);
    if (status->nagents == 0) {
        fputs("<p class=\"none\">No agents are configured. Add them under <code>agents</code> "
              "in the configuration file.</p>\n",
              out);
        return;
    }
    fputs("<table class=\"list\" role=\"table\" aria-labelledby=\"agents\">\n"
          "<thead role=\"rowgroup\"><tr role=\"row\">",
          out);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        fprintf(out, "<th role=\"columnheader\" scope=\"col\">%s</th>", columns[i]);
    fputs("</tr></thead>\n<tbody role=\"rowgroup\">\n", out);
    for (size_t i = 0; i < status->nagents; i++)
        write_agent(out, status, i);
    fputs("</tbody>\n</table>\n", out);
}

/* ---- channels ------------------------------------------------------------------------------- */

static void write_feed(FILE *out, const struct handoff_feed_stats *feed)
{
    fputs("<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">", out);
    exporter_html_text(out, feed->receiver);
    fputs("</th>\n<td role=\"cell\" data-label=\"Channel\"><span>", out);
    exporter_html_text(out, feed->channel);
    if (!feed->subscribed)
        fputs("<small>not subscribed</small>", out);
    if (feed->dropped > 0)
        fprintf(out, "<small>retention removed %llu before it had come to them</small>",
                (unsigned long long)feed->dropped);
    fputs("</span></td>\n", out);
    write_count(out, "Pending", feed->pending, feed->oldest_pending_ns);
    fputs("</tr>\n", out);
}

/* Nothing where there are no channels: most sidecars have none. */
static void write_feeds(FILE *out, const struct exporter_status *status)
{
    if (status->nfeeds == 0)
        return;
    fputs("<h2 id=\"channels\">Channels</h2>\n"
          "<table class=\"list\" role=\"table\" aria-labelledby=\"channels\">\n"
          "<thead role=\"rowgroup\"><tr role=\"row\">"
          "<th role=\"columnheader\" scope=\"col\">Receiver</th>"
          "<th role=\"columnheader\" scope=\"col\">Channel</th>"
          "<th role=\"columnheader\" scope=\"col\">Pending</th>"
          "</tr></thead>\n<tbody role=\"rowgroup\">\n",
          out);
    for (size_t i = 0; i < status->nfeeds; i++)
        write_feed(out, &status->feeds[i]);
    fputs("</tbody>\n</table>\n", out);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* The meaning of an outcome for first-time readers. */
static const char *outcome_words(enum handoff_outcome outcome)
{
    static const char *const words[HANDOFF_OUTCOME_COUNT] = {
        [HANDOFF_OUTCOME_NONE] = "could not be stored",
        [HANDOFF_OUTCOME_EXHAUSTED] = "gave up after the last attempt",
        [HANDOFF_OUTCOME_REFUSED] = "refused by the agent",
        [HANDOFF_OUTCOME_REJECTED] = "wrong address or credentials",
        [HANDOFF_OUTCOME_EXPIRED] = "deadline exceeded",
        [HANDOFF_OUTCOME_CIRCUIT_OPEN] = "not sent: circuit open",
        [HANDOFF_OUTCOME_HOP_LIMIT] = "hop limit reached",
    };
    return words[outcome] != NULL ? words[outcome] : handoff_outcome_name(outcome);
}

static void write_parties(FILE *out, const struct exporter_failure *failure)
{
    if (failure->source[0] != '\0') {
        write_foreign(out, failure->source);
        fputs(" to ", out);
    }
    if (failure->target[0] != '\0') {
        fputs("<strong>", out);
        write_foreign(out, failure->target);
        fputs("</strong> ", out);
    }
}

/* Its task is named by callers and shown to those who may use the API, there and by `status`. */
static void write_failure_command(FILE *out, const char *command, const char *id)
{
    fprintf(out, ", <code>handoffctl %s ", command);
    exporter_html_text(out, id);
    fputs("</code>", out);
}

/* For readers who reach the review page, its view of the handoff; `place`: of its task there. */
static void write_handoff_link(FILE *out, const struct exporter_status *status, const char *id,
                               const char *place, const char *words)
{
    char path[sizeof "/handoffs/" + sizeof((struct exporter_failure *)NULL)->id + 8];
    if (status->review_link[0] == '\0')
        return;
    snprintf(path, sizeof path, "/handoffs/%s%s", id, place);
    fputs(", ", out);
    write_review_link(out, status, path, words);
}

static void write_failure_links(FILE *out, const struct exporter_status *status, const char *id)
{
    write_handoff_link(out, status, id, "", "handoff");
    write_handoff_link(out, status, id, "#task", "task");
    write_failure_command(out, "attempts", id);
    write_failure_command(out, "status", id);
}

static void write_failure(FILE *out, const struct exporter_status *status,
                          const struct exporter_failure *failure)
{
    fputs("<li>", out);
    write_parties(out, failure);
    fprintf(out, "<span class=\"badge trouble\">%s</span>", outcome_words(failure->outcome));
    if (failure->times > 1)
        fprintf(out, " %" PRIu64 " times", failure->times);
    if (failure->words[0] != '\0') {
        fputs("\n<p>", out);
        write_error(out, failure);
        fputs("</p>", out);
    }
    fputs("\n<p class=\"soft\">", out);
    write_time_element(out, failure->at_ms);
    if (failure->attempts > 0)
        fprintf(out, ", %u attempt%s", failure->attempts, failure->attempts > 1 ? "s" : "");
    if (failure->id[0] != '\0')
        write_failure_links(out, status, failure->id);
    fputs("</p></li>\n", out);
}

/* ---- rejected requests ---------------------------------------------------------------------- */

static void write_rejection_sender(FILE *out, const struct exporter_rejection *rejection)
{
    const struct {
        const char *before, *text;
    } parts[] = {{", token of ", rejection->caller},
                 {", source_agent ", rejection->source},
                 {", from ", rejection->address},
                 {", ", rejection->program}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].text[0] == '\0')
            continue;
        fputs(parts[i].before, out);
        write_foreign(out, parts[i].text);
    }
}

static void write_rejection(FILE *out, const struct exporter_rejection *rejection)
{
    fprintf(out, "<li><strong>%s</strong> <span class=\"badge attention\">%s</span>",
            rejection->call, handoff_code_name(rejection->code));
    if (rejection->times > 1)
        fprintf(out, " %" PRIu64 " times", rejection->times);
    if (rejection->field[0] != '\0') {
        fputs("\n<p>field ", out);
        write_foreign(out, rejection->field);
        fputs("</p>", out);
    }
    fputs("\n<p class=\"soft\">", out);
    write_time_element(out, rejection->at_ms);
    write_rejection_sender(out, rejection);
    fputs("</p></li>\n", out);
}

static void write_rejections(FILE *out, const struct exporter_status *status)
{
    if (status->nrejections == 0)
        return;
    fputs("<h2>Recently rejected requests</h2>\n<ol class=\"list\" role=\"list\">\n", out);
    for (size_t i = 0; i < status->nrejections; i++)
        write_rejection(out, &status->rejections[i]);
    fputs("</ol>\n", out);
}

static void write_failures(FILE *out, const struct exporter_status *status)
{
    fputs("<h2>Recent failures</h2>\n", out);
    if (status->nfailures == 0) {
        fputs("<p class=\"none\">None since start.</p>\n", out);
        return;
    }
    fputs("<ol class=\"list\" role=\"list\">\n", out);
    for (size_t i = 0; i < status->nfailures; i++)
        write_failure(out, status, &status->failures[i]);
    fputs("</ol>\n", out);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void write_foot(FILE *out, const struct exporter_status *status)
{
    fputs("</main>\n<footer>\n<p>As of ", out);
    write_time_element(out, status->now_ms);
    fputs("<noscript>; reload the page to refresh</noscript>. Started ", out);
    write_time_element(out, status->daemon.started_ms);
    fputs(", configuration of ", out);
    write_time_element(out, status->daemon.config_ms);
    if (status->daemon.revision[0] != '\0') {
        fputs(", revision <code>", out);
        exporter_html_text(out, status->daemon.revision);
        fputs("</code>", out);
    }
    fputs(".</p>\n<p>What to do: <code>handoffctl --help</code>, and the "
          "<a href=\"/runbooks\">runbooks</a>.</p>\n</footer>\n",
          out);
    exporter_page_refresh(out);
    fputs("</body>\n</html>\n", out);
}

char *exporter_status_page(const struct exporter_status *status, const char *telemetry_path,
                           size_t *length)
{
    char *bytes = NULL;
    FILE *out = open_memstream(&bytes, length);
    if (out == NULL)
        return NULL;
    write_head(out, status, telemetry_path);
    write_verdict(out, status);
    write_figures(out, status);
    write_agents(out, status);
    write_feeds(out, status);
    write_failures(out, status);
    write_rejections(out, status);
    write_foot(out, status);
    return exporter_page_end(out, &bytes);
}
