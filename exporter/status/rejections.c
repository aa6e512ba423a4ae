/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last rejected requests, see rejections.h.
 *
 * A caller that is wrong is wrong all the time, so what is alike is one entry that counts and moves
 * to the front. Which agent sent it, the client says if it read the request; else it is read from
 * a body of up to 64 KiB, which takes tens of microseconds. A longer one was probably sent by the
 * same program as others.
 *
 * Any thread: a lock protects the entries.
 */
#include "exporter/status/rejections.h"

#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "client/secrets/redact.h"
#include "exporter/log/log.h"
#include "exporter/status/thresholds.h"

enum { BODY_READ_MAX = 64 << 10, LOGGED_EVERY_MS = 60000 };

void exporter_rejections_init(struct exporter_rejections *rejections)
{
    *rejections = (struct exporter_rejections){0};
    pthread_mutex_init(&rejections->lock, NULL);
}

/* ---- what is kept of a request -------------------------------------------------------------- */

static bool is_rejection(enum handoff_code code)
{
    static const enum handoff_code others[] = {RULE_REQUESTS_FAILING_OTHERS};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (code == others[i])
            return false;
    }
    return code != HANDOFF_OK;
}

/* A caller may put anything there: a credential becomes a marker, what cannot be printed a question
 * mark. */
static void keep_printable(char *to, size_t size, const char *from)
{
    to[0] = '\0';
    if (from != NULL)
        handoff_secrets_cut(to, size, from, strlen(from));
    for (char *at = to; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

static void keep_named_source(char *to, size_t size, const struct exporter_rejected *rejected)
{
    keep_printable(to, size, rejected->source);
    if (rejected->source != NULL || rejected->body == NULL || rejected->size == 0 ||
        rejected->size > BODY_READ_MAX)
        return;
    yyjson_doc *doc = yyjson_read(rejected->body, rejected->size, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *request = yyjson_obj_get(root, "request"); /* what is to be parked or published */
    keep_printable(
        to, size, yyjson_get_str(yyjson_obj_get(request != NULL ? request : root, "source_agent")));
    yyjson_doc_free(doc);
}

static void describe_rejected(struct exporter_rejection *entry,
                              const struct exporter_rejected *rejected)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *entry =
        (struct exporter_rejection){.at_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
                                    .times = 1,
                                    .call = rejected->call,
                                    .code = rejected->code};
    keep_printable(entry->field, sizeof entry->field, rejected->field);
    keep_printable(entry->caller, sizeof entry->caller, rejected->caller);
    keep_printable(entry->address, sizeof entry->address, rejected->address);
    keep_printable(entry->program, sizeof entry->program, rejected->program);
    keep_named_source(entry->source, sizeof entry->source, rejected);
}

/* ---- the ring ------------------------------------------------------------------------------- */

static bool is_same_rejection(const struct exporter_rejection *a,
                              const struct exporter_rejection *b)
{
    return a->call == b->call && a->code == b->code && strcmp(a->field, b->field) == 0 &&
           strcmp(a->caller, b->caller) == 0 && strcmp(a->source, b->source) == 0 &&
           strcmp(a->address, b->address) == 0 && strcmp(a->program, b->program) == 0;
}

/* Whether it is to be logged. */
static bool put_rejection_first(struct exporter_rejections *rejections,
                                struct exporter_rejection *entry)
{
    int64_t logged_ms = 0;
    size_t at = 0;
    while (at < rejections->count && !is_same_rejection(&rejections->entries[at], entry))
        at++;
    if (at < rejections->count) {
        entry->times += rejections->entries[at].times;
        logged_ms = rejections->logged_ms[at];
    } else if (rejections->count < EXPORTER_REJECTIONS_KEPT) {
        rejections->count++;
    } else {
        at--; /* the oldest goes */
    }
    const bool is_due = logged_ms == 0 || entry->at_ms - logged_ms >= LOGGED_EVERY_MS;
    memmove(rejections->entries + 1, rejections->entries, at * sizeof rejections->entries[0]);
    memmove(rejections->logged_ms + 1, rejections->logged_ms, at * sizeof rejections->logged_ms[0]);
    rejections->entries[0] = *entry;
    rejections->logged_ms[0] = is_due ? entry->at_ms : logged_ms;
    return is_due;
}

void exporter_rejections_note(struct exporter_rejections *rejections,
                              const struct exporter_rejected *rejected)
{
    struct exporter_rejection entry;
    if (!is_rejection(rejected->code))
        return;
    describe_rejected(&entry, rejected);
    pthread_mutex_lock(&rejections->lock);
    const bool is_due = put_rejection_first(rejections, &entry);
    pthread_mutex_unlock(&rejections->lock);
    if (is_due)
        log_info("request_rejected", LOG_STR("call", entry.call),
                 LOG_STR("code", handoff_code_name(entry.code)), LOG_STR("field", entry.field),
                 LOG_STR("caller", entry.caller), LOG_STR("source", entry.source),
                 LOG_STR("address", entry.address), LOG_STR("program", entry.program),
                 LOG_UINT("times", entry.times));
}

size_t exporter_rejections_read(struct exporter_rejections *rejections,
                                struct exporter_rejection entries[EXPORTER_REJECTIONS_KEPT])
{
    pthread_mutex_lock(&rejections->lock);
    const size_t count = rejections->count;
    memcpy(entries, rejections->entries, count * sizeof entries[0]);
    pthread_mutex_unlock(&rejections->lock);
    return count;
}
