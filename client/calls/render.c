/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON objects for handoffs, attempts and agents, see render.h. Pure: it writes to the caller's
 * buffer, on any thread.
 */
#include "client/calls/render.h"

#include <string.h>
#include <yyjson.h>

#include "client/assemble/request.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

static inline void render_text(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_name(out, key);
    base_json_write_string(out, text.data ? text : base_span("", 0));
}

static inline void render_number(struct base_buffer *out, const char *key, int64_t number)
{
    base_json_write_name(out, key);
    base_buffer_number(out, number);
}

/* null if the time is not set yet. */
static inline void render_time(struct base_buffer *out, const char *key, int64_t wall_ms)
{
    char text[BASE_RFC3339_SIZE];
    base_json_write_name(out, key);
    if (wall_ms == 0) {
        base_buffer_text(out, "null");
        return;
    }
    base_rfc3339_format(wall_ms, text);
    base_json_write_string(out, base_span_text(text));
}

static inline void write_value(struct base_buffer *out, const char *key, yyjson_val *value)
{
    base_json_write_name(out, key);
    if (value)
        base_json_write(out, value);
    else
        base_buffer_text(out, "null");
}

/* For a handoff whose row has no excerpt because another version wrote it. Numbers are kept as
   text, so they are written exactly as they were read. */
static void read_excerpt(struct base_buffer *out, struct base_span envelope)
{
    yyjson_doc *doc = yyjson_read(envelope.data, envelope.size, YYJSON_READ_NUMBER_AS_RAW);
    yyjson_val *root = yyjson_doc_get_root(doc);
    write_value(out, "envelope_version", yyjson_obj_get(root, "envelope_version"));
    write_value(out, "token_count", yyjson_obj_get(yyjson_obj_get(root, "tokens"), "count"));
    write_value(out, "memory_refs", yyjson_obj_get(root, "memory_refs"));
    write_value(out, "missing", yyjson_obj_get(root, "missing"));
    write_value(out, "completeness", yyjson_obj_get(root, "completeness"));
    yyjson_doc_free(doc);
}

enum { USUAL_SIZE = 640 }; /* of a handoff that lacks no memories */

static bool is_set(const struct base_uuid *id)
{
    static const struct base_uuid nil;
    return memcmp(id, &nil, sizeof nil) != 0;
}

/* null for nil. */
static void render_id(struct base_buffer *out, const char *key, const struct base_uuid *id)
{
    char text[BASE_UUID_TEXT];
    if (!is_set(id)) {
        write_value(out, key, NULL);
        return;
    }
    base_uuid_format(id, text);
    render_text(out, key, base_span_text(text));
}

/* What a list of handoffs is read for. */
static void write_gist(struct base_buffer *out, const struct handoff_status *status)
{
    render_id(out, "previous_id", &status->previous);
    if (status->summary.data)
        render_text(out, "summary", status->summary);
    render_text(out, "error", status->error_said);
    render_number(out, "replays", status->replays);
}

static void write_handoff(struct base_buffer *out, const struct handoff_status *status, bool listed)
{
    const struct handoff_label *label = &status->label;
    base_buffer_reserve(out, USUAL_SIZE);
    base_buffer_byte(out, '{');
    render_text(out, "id", base_span_text(label->id));
    render_text(out, "state", base_span_text(handoff_state_name(status->state)));
    render_text(out, "pattern", base_span_text(handoff_pattern_name(label->pattern)));
    render_text(out, "source_agent", label->source);
    render_text(out, "target_agent", base_span_text(status->target));
    render_text(out, "task_id", label->task_id);
    if (status->excerpt.data) {
        base_buffer_byte(out, ',');
        handoff_excerpt_write(out, status->excerpt);
    } else {
        read_excerpt(out, status->envelope);
    }
    render_number(out, "attempts", status->attempts);
    render_time(out, "created_at", status->label.created_ms);
    render_time(out, "settled_at", status->settled_ms);
    render_text(out, "reason", base_span_text(handoff_status_reason(status)));
    if (is_set(&status->replaced_by))
        render_id(out, "replaced_by", &status->replaced_by);
    if (listed)
        write_gist(out, status);
    if (status->progress.text.data) {
        render_text(out, "progress", status->progress.text);
        render_time(out, "progress_at", status->progress.at_ms);
    }
    if (status->gaps.data) {
        base_json_write_name(out, "gaps");
        base_buffer_append(out, status->gaps.data, status->gaps.size);
    }
    base_buffer_byte(out, '}');
}

void handoff_object_write(struct base_buffer *out, const struct handoff_status *status)
{
    write_handoff(out, status, false);
}

void handoff_object_write_listed(struct base_buffer *out, const struct handoff_status *status)
{
    write_handoff(out, status, true);
}

static const char *result_of(const struct handoff_attempt *attempt)
{
    return attempt->passed_over ? "passed_over" : handoff_result_name(attempt->result);
}

void handoff_object_write_attempt(struct base_buffer *out, const struct handoff_attempt *attempt)
{
    base_buffer_byte(out, '{');
    if (attempt->passed_over)
        write_value(out, "attempt", NULL);
    else
        render_number(out, "attempt", attempt->number);
    render_time(out, "at", attempt->at_ms);
    base_json_write_name(out, "duration_seconds");
    base_buffer_printf(out, "%lld.%06lld", (long long)(attempt->duration_us / 1000000),
                       (long long)(attempt->duration_us % 1000000));
    render_text(out, "target_agent", attempt->target);
    render_text(out, "result", base_span_text(result_of(attempt)));
    render_number(out, "status", attempt->status);
    render_text(out, "error", attempt->error);
    render_text(out, "peer", attempt->peer);
    render_text(out, "answer", attempt->answer);
    base_buffer_byte(out, '}');
}

/* "a,b" as ["a","b"]. */
static void render_fields(struct base_buffer *out, const char *key, struct base_span fields)
{
    base_json_write_name(out, key);
    base_buffer_byte(out, '[');
    for (size_t at = 0, end; at < fields.size; at = end + 1) {
        const char *comma = memchr(fields.data + at, ',', fields.size - at);
        end = comma ? (size_t)(comma - fields.data) : fields.size;
        base_buffer_text(out, at > 0 ? "," : "");
        base_json_write_string(out, base_span(fields.data + at, end - at));
    }
    base_buffer_byte(out, ']');
}

void handoff_object_write_decision(struct base_buffer *out,
                                   const struct handoff_stored_decision *decision)
{
    base_buffer_byte(out, '{');
    render_number(out, "id", decision->number);
    render_time(out, "at", decision->at_ms);
    render_text(out, "action", base_span_text(handoff_action_name(decision->action)));
    render_text(out, "who", decision->who);
    render_text(out, "by", decision->by);
    render_text(out, "reason", decision->reason);
    render_id(out, "handoff_id", &decision->handoff);
    render_text(out, "task_id", decision->task_id);
    render_text(out, "source_agent", decision->source);
    render_text(out, "target_agent", decision->target);
    render_text(out, "to", decision->to);
    render_text(out, "cause", decision->cause);
    render_fields(out, "fields", decision->fields);
    render_id(out, "replacement_id", &decision->replacement);
    render_id(out, "job_id", &decision->job);
    base_buffer_byte(out, '}');
}

/* Of a redirect its plain name: what was asked for is a replay, to another agent. */
void handoff_object_write_job(struct base_buffer *out, const struct handoff_stored_job *job)
{
    static const struct base_uuid none;
    const int64_t open = job->of[HANDOFF_FATE_OPEN], succeeded = job->of[HANDOFF_FATE_SUCCEEDED],
                  skipped = job->of[HANDOFF_FATE_SKIPPED], failed = job->of[HANDOFF_FATE_FAILED];
    base_buffer_byte(out, '{');
    render_id(out, "id", &job->id);
    render_text(out, "action", base_span_text(handoff_action_name(job->action)));
    render_text(out, "state", base_span_text(handoff_run_state_name(job->state)));
    render_text(out, "to", job->to);
    render_text(out, "reason", job->reason);
    render_text(out, "who", job->who);
    render_text(out, "by", job->by);
    render_number(out, "rate", job->rate);
    render_number(out, "total", open + succeeded + skipped + failed);
    render_number(out, "done", succeeded + skipped + failed);
    render_number(out, "succeeded", succeeded);
    render_number(out, "skipped", skipped);
    render_number(out, "failed", failed);
    render_id(out, "canary_id", job->had_canary ? &job->first : &none);
    render_time(out, "started_at", job->began_ms);
    render_time(out, "ended_at", job->ended_ms);
    base_buffer_byte(out, '}');
}

void handoff_object_write_job_item(struct base_buffer *out,
                                   const struct handoff_stored_job_item *item)
{
    base_buffer_byte(out, '{');
    render_id(out, "handoff_id", &item->handoff);
    render_text(out, "result", base_span_text(handoff_fate_name(item->fate)));
    render_text(out, "code", item->code);
    render_text(out, "detail", item->detail);
    base_buffer_byte(out, '}');
}

void handoff_object_write_task(struct base_buffer *out, struct base_span task_id,
                               const struct handoff_stored_task *task)
{
    base_buffer_byte(out, '{');
    render_text(out, "task_id", task_id);
    render_time(out, "completed_at", task->completed_ms);
    if (task->completed_ms)
        render_number(out, "handoffs", task->handoffs);
    else
        write_value(out, "handoffs", NULL);
    base_buffer_byte(out, '}');
}

void handoff_object_write_refusals(struct base_buffer *out,
                                   const struct handoff_stored_refusal *list, size_t count)
{
    char id[BASE_UUID_TEXT];
    base_buffer_text(out, ",\"next_refused\":[");
    for (size_t i = 0; i < count; i++) {
        base_uuid_format(&list[i].id, id);
        base_buffer_text(out, i == 0 ? "{" : ",{");
        render_text(out, "id", base_span_text(id));
        render_time(out, "at", list[i].at_ms);
        render_text(out, "code", list[i].code);
        render_text(out, "detail", list[i].detail);
        if (list[i].request.size > 0)
            render_text(out, "request", list[i].request);
        base_buffer_byte(out, '}');
    }
    base_buffer_byte(out, ']');
}

void handoff_object_write_agent(struct base_buffer *out, struct handoff_agent *agent,
                                int64_t now_ms)
{
    pthread_mutex_lock(&agent->lock);
    struct handoff_breaker breaker = agent->breaker;
    unsigned in_flight = agent->in_flight;
    pthread_mutex_unlock(&agent->lock);
    struct handoff_settings *settings = handoff_agent_settings(agent);
    int64_t wait_ms;
    handoff_breaker_is_open(&breaker, now_ms, &wait_ms);
    base_buffer_byte(out, '{');
    render_text(out, "name", base_span(agent->name, agent->name_size));
    base_buffer_printf(out, ",\"configured\":%s", settings ? "true" : "false");
    if (settings)
        render_text(out, "delivery",
                    base_span_text(handoff_protocol_name(settings->protocol->kind)));
    else
        write_value(out, "delivery", NULL);
    render_text(out, "circuit",
                base_span_text(handoff_circuit_name(handoff_breaker_shown(&breaker, now_ms))));
    render_number(out, "consecutive_failures", breaker.consecutive_failures);
    render_number(out, "retry_after_seconds", (wait_ms + 999) / 1000);
    render_number(out, "in_flight", in_flight);
    base_buffer_byte(out, '}');
    handoff_settings_release(&settings);
}
