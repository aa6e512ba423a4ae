/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status as JSON, with the names and units of the metrics; unknown values are null. Control
 * thread.
 */
#include "exporter/status/status_json.h"

#include <yyjson.h>

#include "exporter/version.h"
#include "lib/base/rfc3339.h"

static void add_time(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, int64_t at_ms)
{
    char text[BASE_RFC3339_SIZE];
    base_rfc3339_seconds(at_ms, text);
    yyjson_mut_obj_add_strcpy(doc, object, key, text);
}

/* Seconds; null where there is nothing that could have an age. */
static void add_age(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, int64_t age_ns)
{
    if (age_ns == 0)
        yyjson_mut_obj_add_null(doc, object, key);
    else
        yyjson_mut_obj_add_real(doc, object, key, (double)age_ns / 1e9);
}

static void add_text_or_null(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key,
                             const char *text)
{
    if (text == NULL || *text == '\0')
        yyjson_mut_obj_add_null(doc, object, key);
    else
        yyjson_mut_obj_add_str(doc, object, key, text);
}

static void add_daemon(yyjson_mut_doc *doc, yyjson_mut_val *root,
                       const struct exporter_status *status)
{
    const struct exporter_lifecycle_state *daemon = &status->daemon;
    yyjson_mut_obj_add_str(doc, root, "version", exporter_version());
    add_text_or_null(doc, root, "revision", daemon->revision);
    yyjson_mut_obj_add_str(doc, root, "state", daemon->draining ? "draining" : "serving");
    add_time(doc, root, "at", status->now_ms);
    add_time(doc, root, "started_at", daemon->started_ms);
    yyjson_mut_obj_add_sint(doc, root, "uptime_seconds", daemon->uptime_ms / 1000);
    yyjson_mut_val *config = yyjson_mut_obj_add_obj(doc, root, "configuration");
    add_time(doc, config, "in_force_since", daemon->config_ms);
    yyjson_mut_obj_add_bool(doc, config, "last_reload_successful", !daemon->config_refused);
    yyjson_mut_obj_add_bool(doc, root, "spine_up", status->client.spine_up);
    yyjson_mut_obj_add_bool(doc, root, "tokens_exact", status->client.exact_tokens);
    yyjson_mut_obj_add_sint(doc, root, "store_bytes", status->client.store_bytes);
}

static void add_findings(yyjson_mut_doc *doc, yyjson_mut_val *root,
                         const struct exporter_status *status)
{
    yyjson_mut_obj_add_str(doc, root, "standing", exporter_standing_name(status->standing));
    add_time(doc, root, "looking_since", status->since_ms);
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "findings");
    for (size_t i = 0; i < status->nfindings; i++) {
        yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
        const struct exporter_finding *finding = &status->findings[i];
        add_text_or_null(doc, object, "alert", finding->alert);
        yyjson_mut_obj_add_str(
            doc, object, "standing",
            exporter_standing_name(exporter_severity_standing(finding->severity)));
        yyjson_mut_obj_add_str(doc, object, "severity", exporter_severity_name(finding->severity));
        add_text_or_null(doc, object, "target_agent", finding->agent);
        yyjson_mut_obj_add_str(doc, object, "text", finding->text);
    }
}

/* What ended in the last hour, and how; a share or an age of nothing is null. */
static void add_last_hour(yyjson_mut_doc *doc, yyjson_mut_val *object,
                          const struct exporter_hour *hour)
{
    yyjson_mut_val *ended = yyjson_mut_obj_add_obj(doc, object, "handoffs_last_hour");
    for (int i = HANDOFF_OUTCOME_NONE + 1; i < HANDOFF_OUTCOME_COUNT; i++)
        yyjson_mut_obj_add_uint(doc, ended, handoff_outcome_name((enum handoff_outcome)i),
                                (uint64_t)hour->ended[i]);
    if (hour->requested > 0)
        yyjson_mut_obj_add_real(doc, object, "completeness_last_hour",
                                hour->included / hour->requested);
    else
        yyjson_mut_obj_add_null(doc, object, "completeness_last_hour");
}

static void add_latency(yyjson_mut_doc *doc, yyjson_mut_val *object,
                        const struct exporter_hour *hour)
{
    add_age(doc, object, "latency_p50_seconds", (int64_t)(hour->latency_50 * 1e9));
    add_age(doc, object, "latency_p99_seconds", (int64_t)(hour->latency_99 * 1e9));
}

static void add_agents(yyjson_mut_doc *doc, yyjson_mut_val *root,
                       const struct exporter_status *status)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "agents");
    for (size_t i = 0; i < status->nagents; i++) {
        yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
        const struct handoff_agent_stats *agent = &status->agents[i];
        yyjson_mut_obj_add_str(doc, object, "name", agent->name);
        yyjson_mut_obj_add_bool(doc, object, "configured", agent->configured);
        yyjson_mut_obj_add_str(doc, object, "circuit", handoff_circuit_name(agent->circuit));
        yyjson_mut_obj_add_uint(doc, object, "consecutive_failures", agent->consecutive_failures);
        yyjson_mut_obj_add_uint(doc, object, "in_flight", agent->in_flight);
        add_age(doc, object, "oldest_in_flight_seconds", agent->oldest_in_flight_ns);
        yyjson_mut_obj_add_uint(doc, object, "parked", agent->parked);
        add_age(doc, object, "oldest_parked_seconds", agent->oldest_parked_ns);
        add_last_hour(doc, object, &status->hours[i]);
        add_latency(doc, object, &status->hours[i]);
    }
}

static void add_feeds(yyjson_mut_doc *doc, yyjson_mut_val *root,
                      const struct exporter_status *status)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "channels");
    for (size_t i = 0; i < status->nfeeds; i++) {
        yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
        const struct handoff_feed_stats *feed = &status->feeds[i];
        yyjson_mut_obj_add_str(doc, object, "channel", feed->channel);
        yyjson_mut_obj_add_str(doc, object, "receiver", feed->receiver);
        yyjson_mut_obj_add_bool(doc, object, "subscribed", feed->subscribed);
        yyjson_mut_obj_add_uint(doc, object, "pending", feed->pending);
        add_age(doc, object, "oldest_pending_seconds", feed->oldest_pending_ns);
        yyjson_mut_obj_add_uint(doc, object, "dropped", feed->dropped);
    }
}

static void add_failures(yyjson_mut_doc *doc, yyjson_mut_val *root,
                         const struct exporter_status *status)
{
    yyjson_mut_obj_add_uint(doc, root, "failures_total", status->failures_total);
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "failures");
    for (size_t i = 0; i < status->nfailures; i++) {
        yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
        const struct exporter_failure *failure = &status->failures[i];
        add_time(doc, object, "at", failure->at_ms);
        yyjson_mut_obj_add_uint(doc, object, "times", failure->times);
        yyjson_mut_obj_add_str(doc, object, "outcome", exporter_failure_name(failure));
        add_text_or_null(doc, object, "source_agent", failure->source);
        add_text_or_null(doc, object, "target_agent", failure->target);
        add_text_or_null(doc, object, "id", failure->id);
        yyjson_mut_obj_add_uint(doc, object, "attempts", failure->attempts);
        if (failure->status != 0)
            yyjson_mut_obj_add_int(doc, object, "status", failure->status);
        else
            yyjson_mut_obj_add_null(doc, object, "status");
        add_text_or_null(doc, object, "reason", failure->words);
    }
}

static void add_rejections(yyjson_mut_doc *doc, yyjson_mut_val *root,
                           const struct exporter_status *status)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "rejected_requests");
    for (size_t i = 0; i < status->nrejections; i++) {
        yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
        const struct exporter_rejection *rejection = &status->rejections[i];
        add_time(doc, object, "at", rejection->at_ms);
        yyjson_mut_obj_add_uint(doc, object, "times", rejection->times);
        yyjson_mut_obj_add_str(doc, object, "call", rejection->call);
        yyjson_mut_obj_add_str(doc, object, "code", handoff_code_name(rejection->code));
        add_text_or_null(doc, object, "field", rejection->field);
        add_text_or_null(doc, object, "caller", rejection->caller);
        add_text_or_null(doc, object, "source_agent", rejection->source);
        add_text_or_null(doc, object, "address", rejection->address);
        add_text_or_null(doc, object, "user_agent", rejection->program);
    }
}

char *exporter_status_json(const struct exporter_status *status, size_t *length)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    if (doc == NULL)
        return NULL;
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    add_findings(doc, root, status);
    add_text_or_null(doc, root, "review_url", status->review_link);
    add_daemon(doc, root, status);
    yyjson_mut_obj_add_uint(doc, root, "in_flight", status->in_flight);
    yyjson_mut_obj_add_uint(doc, root, "parked", status->parked);
    add_last_hour(doc, root, &status->hour);
    add_agents(doc, root, status);
    add_feeds(doc, root, status);
    add_failures(doc, root, status);
    add_rejections(doc, root, status);
    char *json = yyjson_mut_write(doc, YYJSON_WRITE_PRETTY, length);
    yyjson_mut_doc_free(doc);
    return json;
}
