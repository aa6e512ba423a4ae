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
    if (*text == '\0')
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
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "findings");
    for (size_t i = 0; i < status->nfindings; i++) {
        yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
        const struct exporter_finding *finding = &status->findings[i];
        yyjson_mut_obj_add_str(doc, object, "standing", exporter_standing_name(finding->standing));
        yyjson_mut_obj_add_str(doc, object, "text", finding->text);
    }
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
        add_text_or_null(doc, object, "reason", failure->words);
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
    add_daemon(doc, root, status);
    yyjson_mut_obj_add_uint(doc, root, "in_flight", status->in_flight);
    yyjson_mut_obj_add_uint(doc, root, "parked", status->parked);
    add_agents(doc, root, status);
    add_failures(doc, root, status);
    char *json = yyjson_mut_write(doc, YYJSON_WRITE_PRETTY, length);
    yyjson_mut_doc_free(doc);
    return json;
}
