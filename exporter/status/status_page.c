/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status for people: made on the server, without scripts, images or fonts, under a policy that
 * would load none. The policy names the style by its digest, so that text which found a way to be
 * markup could not even bring its own style.
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

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/status/html.h"
#include "exporter/version.h"
#include "lib/base/check.h"
#include "lib/base/rfc3339.h"
#include "lib/base/units.h"

/* Contrasts are at least 4.5 : 1 in both schemes; a test holds that. */
static const char style[] =
    ":root{color-scheme:light dark;--paper:#f7f7f5;--card:#fff;--ink:#1d2327;--soft:#5a6570;"
    "--line:#dfe2e0;--ok:#1b6e3c;--ok-bg:#e6f3ea;--attention:#7d5200;--attention-bg:#fbf0d9;"
    "--trouble:#a81f1f;--trouble-bg:#fbe7e5;--link:#1a5a96}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#15181b;--card:#1d2226;--ink:#e6e8ea;"
    "--soft:#a0abb5;--line:#31383e;--ok:#7fd19b;--ok-bg:#17301f;--attention:#f0c36a;"
    "--attention-bg:#33280f;--trouble:#ff9c92;--trouble-bg:#3a1a18;--link:#8fc4f5}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}\n"
    "header,main,footer{max-width:62rem;margin:0 auto;padding:0 1.25rem}\n"
    "header{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;align-items:baseline;"
    "justify-content:space-between;padding-top:1.5rem}\n"
    "header p{margin:0;font-weight:600}header p span{font-weight:400;color:var(--soft)}\n"
    "nav ul{display:flex;flex-wrap:wrap;gap:0 .35rem;margin:0;padding:0;list-style:none}\n"
    "a{color:var(--link);text-underline-offset:.2em}\n"
    "nav a{display:inline-block;padding:.5rem .4rem}\n"
    "a:focus-visible{outline:.15rem solid;outline-offset:.1rem}\n"
    ".verdict{margin:1rem 0 1.5rem;padding:1.1rem 1.4rem 1.2rem;border-radius:.75rem;"
    "background:var(--tint);border-left:.35rem solid var(--hue)}\n"
    "h1{margin:0;font-size:1.55rem;line-height:1.3;color:var(--hue)}\n"
    ".verdict ul{margin:.5rem 0 0;padding-left:1.1rem}.verdict p{margin:.4rem 0 0}\n"
    ".ok{--hue:var(--ok);--tint:var(--ok-bg)}"
    ".attention{--hue:var(--attention);--tint:var(--attention-bg)}"
    ".trouble{--hue:var(--trouble);--tint:var(--trouble-bg)}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;"
    "margin:0 0 2rem}\n"
    ".figures div,.list,.none{background:var(--card);border:1px solid var(--line);"
    "border-radius:.75rem}\n"
    ".figures div{padding:.75rem 1rem;display:flex;flex-direction:column}\n"
    ".figures dt{color:var(--soft);font-size:.9rem}"
    ".figures dd{margin:0;font-size:1.5rem;font-variant-numeric:tabular-nums}"
    ".figures dd+dd{font-size:.9rem;color:var(--soft)}\n"
    "h2{font-size:1.1rem;margin:2rem 0 .6rem}\n"
    ".none{margin:0;padding:.9rem 1rem;color:var(--soft)}\n"
    ".list{width:100%;border-collapse:separate;border-spacing:0;margin:0;padding:0;"
    "list-style:none}\n"
    "th,td{padding:.6rem 1rem;text-align:right;font-variant-numeric:tabular-nums}\n"
    "th:first-child,th:nth-child(2),td:nth-child(2){text-align:left}\n"
    "thead th{font-weight:400;font-size:.9rem;color:var(--soft)}\n"
    "tbody th{font-weight:600;overflow-wrap:anywhere}\n"
    "tbody tr>*,.list li{border-top:1px solid var(--line)}.list li:first-child{border:0}\n"
    ".badge{display:inline-block;padding:.05rem .6rem;border-radius:1rem;white-space:nowrap;"
    "background:var(--tint);color:var(--hue);font-size:.9rem;font-weight:600}\n"
    ".soft,small{color:var(--soft)}td small{display:block}\n"
    ".list li{padding:.75rem 1rem;overflow-wrap:anywhere}.list li p{margin:.2rem 0 0}\n"
    ".list li .soft{font-size:.9rem}\n"
    "code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}\n"
    "footer{margin-top:2.5rem;padding-bottom:2.5rem;color:var(--soft);font-size:.9rem}\n"
    "@media(max-width:44rem){thead{position:absolute;width:1px;height:1px;overflow:hidden;"
    "clip-path:inset(50%)}table,tbody,tr,tbody th,td{display:block}"
    "tbody tr{padding:.75rem 1rem;border-top:1px solid var(--line)}"
    "tbody tr:first-child{border:0}"
    "tbody tr>*{padding:.1rem 0;border:0;text-align:left}"
    "td{display:flex;justify-content:space-between;gap:1rem}"
    "td::before{content:attr(data-label);color:var(--soft)}td span{text-align:right}}\n";

void exporter_status_page_policy(char policy[EXPORTER_PAGE_POLICY_SIZE])
{
    unsigned char digest[32];
    gnutls_datum_t text;
    const gnutls_datum_t raw = {digest, sizeof digest};
    const int code = gnutls_hash_fast(GNUTLS_DIG_SHA256, style, sizeof style - 1, digest);
    BASE_CHECK(code == 0);
    if (gnutls_base64_encode2(&raw, &text) != 0)
        text = (gnutls_datum_t){NULL, 0}; /* no memory: the page goes without its style */
    const int written = snprintf(policy, EXPORTER_PAGE_POLICY_SIZE,
                                 "default-src 'none'; style-src 'sha256-%.*s'; base-uri 'none'; "
                                 "form-action 'none'; frame-ancestors 'none'",
                                 (int)text.size, text.data != NULL ? (const char *)text.data : "");
    BASE_CHECK(written > 0 && written < EXPORTER_PAGE_POLICY_SIZE);
    gnutls_free(text.data);
}

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

static void write_link(FILE *out, const char *path, const char *name)
{
    fputs("<li><a href=\"", out);
    exporter_html_text(out, path);
    fprintf(out, "\">%s</a></li>\n", name);
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
    fprintf(out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<title>%s - handoff-exporter</title>\n<style>%s</style>\n</head>\n<body>\n"
            "<header>\n<p>handoff-exporter <span>%s</span></p>\n<nav aria-label=\"Pages\"><ul>\n",
            title_of(status), style, exporter_version());
    write_link(out, telemetry_path, "Metrics");
    write_link(out, "/-/healthy", "Health");
    write_link(out, "/-/ready", "Readiness");
    write_link(out, "/?format=json", "This page as JSON");
    fputs("</ul></nav>\n</header>\n<main>\n", out);
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
    fputs(".</p>\n<p>What to do: <code>handoffctl --help</code>, and the runbooks in "
          "<code>docs/runbooks</code>.</p>\n</footer>\n</body>\n</html>\n",
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
    const bool whole = ferror(out) == 0;
    if (fclose(out) != 0 || !whole) {
        free(bytes);
        return NULL;
    }
    return bytes;
}
