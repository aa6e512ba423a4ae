/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status for people: made on the server, without scripts, images or fonts (page.h).
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

/* What a tab shows: with several tabs open, it shows which one to look at. */
static const char *title_of(const struct exporter_status *status)
{
    static const char *const titles[] = {"Healthy", "Needs attention", "Failing"};
    return titles[status->standing];
}

static void write_head(FILE *out, const struct exporter_status *status, const char *telemetry_path)
{
    const struct exporter_page_link links[] = {{telemetry_path, "Metrics"},
                                               {"/-/healthy", "Health"},
                                               {"/-/ready", "Readiness"},
                                               {"/runbooks", "Runbooks"},
                                               {"/?format=json", "This page as JSON"}};
    exporter_page_begin(out, title_of(status), links, sizeof links / sizeof *links);
}

/* Commands that work as they stand, so an agent is named: the worst that has something parked. */
static void write_what_to_do_with_parked(FILE *out, const struct exporter_status *status)
{
    size_t at = 0;
    while (at < status->nagents && status->agents[at].parked == 0)
        at++;
    if (at == status->nagents)
        return;
    fputs("<p>List parked handoffs with <code>handoffctl parked list</code>, and replay them once "
          "their agent has recovered: <code>handoffctl parked replay --target ",
          out);
    exporter_html_text(out, status->agents[at].name);
    fputs("</code>.</p>\n", out);
}

static void write_verdict(FILE *out, const struct exporter_status *status)
{
    fprintf(out, "<section class=\"verdict %s\">\n<h1>%s</h1>\n",
            exporter_standing_name(status->standing), title_of(status));
    if (status->nfindings == 0)
        fputs("<p>Every circuit is closed, nothing is parked, and the spine answers.</p>\n", out);
    else
        fputs("<ul>\n", out);
    for (size_t i = 0; i < status->nfindings; i++) {
        fputs("<li>", out);
        exporter_html_text(out, status->findings[i].text);
        fputs("</li>\n", out);
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

static void write_figures(FILE *out, const struct exporter_status *status)
{
    const struct exporter_lifecycle_state *daemon = &status->daemon;
    fputs("<dl class=\"figures\">\n", out);
    write_figure(out, "In flight", status->in_flight, "oldest for", status->oldest_in_flight_ns);
    write_figure(out, "Parked", status->parked, "oldest for", status->oldest_parked_ns);
    write_figure(out, "Failed since start", status->failures_total, "", 0);
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

static void write_agent(FILE *out, const struct handoff_agent_stats *agent)
{
    fputs("<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">", out);
    exporter_html_text(out, agent->name);
    fputs("</th>\n", out);
    write_circuit(out, agent);
    write_count(out, "Failures in a row", agent->consecutive_failures, 0);
    write_count(out, "In flight", agent->in_flight, agent->oldest_in_flight_ns);
    write_count(out, "Parked", agent->parked, agent->oldest_parked_ns);
    fputs("</tr>\n", out);
}

static void write_agents(FILE *out, const struct exporter_status *status)
{
    static const char *const columns[] = {"Agent", "Circuit", "Failures in a row", "In flight",
                                          "Parked"};
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
        write_agent(out, &status->agents[i]);
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

static void write_failure(FILE *out, const struct exporter_failure *failure)
{
    fputs("<li>", out);
    write_parties(out, failure);
    fprintf(out, "<span class=\"badge trouble\">%s</span>", outcome_words(failure->outcome));
    if (failure->times > 1)
        fprintf(out, " %" PRIu64 " times", failure->times);
    if (failure->words[0] != '\0') {
        fputs("\n<p>", out);
        write_foreign(out, failure->words);
        fputs("</p>", out);
    }
    fputs("\n<p class=\"soft\">", out);
    write_time_element(out, failure->at_ms);
    if (failure->attempts > 0)
        fprintf(out, ", %u attempt%s", failure->attempts, failure->attempts > 1 ? "s" : "");
    if (failure->id[0] != '\0') {
        fputs(", <code>", out);
        exporter_html_text(out, failure->id);
        fputs("</code>", out);
    }
    fputs("</p></li>\n", out);
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
        write_failure(out, &status->failures[i]);
    fputs("</ol>\n", out);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void write_foot(FILE *out, const struct exporter_status *status)
{
    fputs("</main>\n<footer>\n<p>As of ", out);
    write_time_element(out, status->now_ms);
    fputs("; reload the page to refresh. Started ", out);
    write_time_element(out, status->daemon.started_ms);
    fputs(", configuration of ", out);
    write_time_element(out, status->daemon.config_ms);
    if (status->daemon.revision[0] != '\0') {
        fputs(", revision <code>", out);
        exporter_html_text(out, status->daemon.revision);
        fputs("</code>", out);
    }
    fputs(".</p>\n<p>What to do: <code>handoffctl --help</code>, and the "
          "<a href=\"/runbooks\">runbooks</a>.</p>\n</footer>\n</body>\n</html>\n",
          out);
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
    write_failures(out, status);
    write_foot(out, status);
    return exporter_page_end(out, &bytes);
}
