/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the agent API over libcurl; see api.h. One thread, one call at a time. */
#include "ctl/api.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/show.h"
#include "ctl/text.h"
#include "ctl/transfer.h"

static const char default_api_url[] = "http://127.0.0.1:8780";
static const char default_web_url[] = "http://127.0.0.1:9780";

/* What needs no percent-encoding, and what the name of a user may have. */
static const char name_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

enum {
    CONNECT_TIMEOUT_MS = 5000,
    TOTAL_TIMEOUT_MS = 120000, /* an answer may wait for a slow receiver */
    TOKEN_MAX = 4096,
};

/* ---- one transfer --------------------------------------------------------------------------- */

static size_t collect_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct ctl_answer *answer = arg;
    size_t more = size * count;
    char *body = realloc(answer->body, answer->size + more + 1);
    if (!body)
        return 0;
    answer->body = body;
    memcpy(body + answer->size, bytes, more);
    answer->size += more;
    body[answer->size] = '\0';
    return more;
}

static struct curl_slist *with_header(struct curl_slist *headers, const char *name,
                                      const char *value)
{
    char *line;
    if (!value || asprintf(&line, "%s: %s", name, value) < 0)
        return headers;
    struct curl_slist *longer = curl_slist_append(headers, line);
    free(line);
    return longer ? longer : headers;
}

/* "Bearer <first word of the file>"; free() it. NULL on failure, which is reported on stderr. */
static char *read_bearer_token(const struct ctl_line *line, const char *path)
{
    char token[TOKEN_MAX] = "", *value = NULL;
    FILE *file = fopen(path, "re");
    bool read = file && fgets(token, sizeof(token), file);
    if (file)
        fclose(file);
    token[strcspn(token, " \t\r\n")] = '\0';
    if (!read || !*token)
        fprintf(stderr, "handoffctl %s: no token in %s (--token-file)\n", line->command->name,
                path);
    else if (asprintf(&value, "Bearer %s", token) < 0)
        value = NULL;
    return value;
}

/* The URL for curl; a unix socket goes into its own option. */
static char *set_target(CURL *curl, const char *base, const char *path)
{
    char *url;
    if (strncmp(base, "unix:", 5) == 0) {
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, base + 5);
        base = "http://localhost";
    }
    size_t length = strlen(base);
    while (length > 0 && base[length - 1] == '/')
        length--;
    if (asprintf(&url, "%.*s%s", (int)length, base, path) < 0)
        return NULL;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    return url;
}

static const char *address_of(const char *given, const char *variable, const char *fallback)
{
    const char *found = given ? given : getenv(variable);
    return found && *found ? found : fallback;
}

const char *ctl_api_url(const struct ctl_line *line)
{
    return address_of(ctl_value(line, "api.url"), "HANDOFF_API_URL", default_api_url);
}

const char *ctl_web_url(const struct ctl_line *line)
{
    return address_of(ctl_value(line, "web.url"), "HANDOFF_WEB_URL", default_web_url);
}

const char *ctl_token_file(const struct ctl_line *line)
{
    return address_of(ctl_value(line, "token-file"), "HANDOFF_TOKEN_FILE", NULL);
}

static const char *url_of_call(const struct ctl_line *line, const struct ctl_call *call)
{
    return call->web ? ctl_web_url(line) : ctl_api_url(line);
}

static const char *header_value(CURL *curl, const char *name)
{
    struct curl_header *header;
    return curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value
                                                                                   : "";
}

void ctl_transfer_read(CURL *curl, struct ctl_answer *answer)
{
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
    snprintf(answer->handoff_id, sizeof(answer->handoff_id), "%s",
             header_value(curl, "Handoff-Id"));
    snprintf(answer->date, sizeof(answer->date), "%s", header_value(curl, "Date"));
    answer->attempt = strtol(header_value(curl, "Handoff-Attempt"), NULL, 10);
    answer->lease_s = strtol(header_value(curl, "Handoff-Lease-Seconds"), NULL, 10);
}

char *ctl_transfer_set_up(CURL *curl, const struct ctl_line *line, const struct ctl_call *call,
                          struct curl_slist *headers, struct ctl_answer *answer)
{
    const char *body = call->body;
    char *url = set_target(curl, url_of_call(line, call), call->path);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     call->timeout_ms ? call->timeout_ms : (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                     call->timeout_ms ? call->timeout_ms : (long)TOTAL_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* the sidecar runs on this machine */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    if (body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    }
    return url;
}

static CURLcode perform_transfer(const struct ctl_line *line, const struct ctl_call *call,
                                 struct curl_slist *headers, struct ctl_answer *answer)
{
    CURL *curl = curl_easy_init();
    if (!curl)
        return CURLE_OUT_OF_MEMORY;
    char *url = ctl_transfer_set_up(curl, line, call, headers, answer);
    CURLcode result = url ? curl_easy_perform(curl) : CURLE_OUT_OF_MEMORY;
    if (result == CURLE_OK)
        ctl_transfer_read(curl, answer);
    curl_easy_cleanup(curl);
    free(url);
    return result;
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* One line: "budget_too_small: detail", with what is allowed if the detail does not say it. Parts
 * of it are untrusted text. */
static void put_problem(const struct ctl_line *line, yyjson_val *problem)
{
    const char *detail = ctl_text(problem, "detail"), *allowed = ctl_text(problem, "allowed");
    fprintf(stderr, "handoffctl %s: ", line->command->name);
    ctl_put(stderr, ctl_text(problem, "code"), 0);
    fputs(": ", stderr);
    ctl_put(stderr, detail, 0);
    if (*allowed && !strstr(detail, allowed)) {
        fputs(" (", stderr);
        ctl_put(stderr, ctl_text(problem, "field"), 0);
        fputs(": allowed ", stderr);
        ctl_put(stderr, allowed, 0);
        fputc(')', stderr);
    }
    fputc('\n', stderr);
}

int ctl_api_check_answer(const struct ctl_line *line, const struct ctl_answer *answer)
{
    if (answer->status / 100 == 2)
        return CTL_OK;
    yyjson_doc *doc = answer->body ? yyjson_read(answer->body, answer->size, 0) : NULL;
    yyjson_val *problem = yyjson_doc_get_root(doc);
    if (*ctl_text(problem, "code"))
        put_problem(line, problem);
    else
        fprintf(stderr, "handoffctl %s: unexpected status %ld\n", line->command->name,
                answer->status);
    yyjson_doc_free(doc);
    return answer->status == 404 ? CTL_NOT_FOUND : CTL_FAILED;
}

/* Who decides, for the record of decisions: the token says on whose behalf, this says who it was.
 */
static const char *user_name(const struct ctl_call *call)
{
    const char *name = getenv("USER");
    if (strcmp(call->method, "GET") == 0 || call->web || !name)
        return NULL;
    return *name && strspn(name, name_letters) == strlen(name) ? name : NULL;
}

static struct curl_slist *make_headers(const struct ctl_call *call, const char *token)
{
    struct curl_slist *headers = NULL;
    headers = with_header(headers, "Authorization", token);
    headers = with_header(headers, "Accept", call->accept);
    headers = with_header(headers, "Content-Type", call->body ? "application/json" : NULL);
    headers = with_header(headers, "Expect", call->body ? "" : NULL);
    headers = with_header(headers, "Prefer", call->prefer);
    headers = with_header(headers, "Handoff-Decided-By", user_name(call));
    return with_header(headers, "Idempotency-Key", call->idempotency_key);
}

static void report_unreachable(const struct ctl_line *line, const struct ctl_call *call,
                               CURLcode result)
{
    if (!call->quiet)
        fprintf(stderr, "handoffctl %s: %s: %s (--%s)\n", line->command->name,
                url_of_call(line, call), curl_easy_strerror(result),
                call->web ? "web.url" : "api.url");
}

int ctl_transfer_headers(const struct ctl_line *line, const struct ctl_call *call,
                         struct curl_slist **headers)
{
    char *token = NULL;
    if (!call->web && ctl_token_file(line)) {
        token = read_bearer_token(line, ctl_token_file(line));
        if (!token)
            return CTL_FAILED;
    }
    *headers = make_headers(call, token);
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
    return CTL_OK;
}

int ctl_api_exchange(const struct ctl_line *line, const struct ctl_call *call,
                     struct ctl_answer *answer)
{
    struct curl_slist *headers = NULL;
    *answer = (struct ctl_answer){0};
    const int code = ctl_transfer_headers(line, call, &headers);
    if (code != CTL_OK)
        return code;
    CURLcode result = perform_transfer(line, call, headers, answer);
    curl_slist_free_all(headers);
    if (result == CURLE_OK)
        return CTL_OK;
    report_unreachable(line, call, result);
    return CTL_UNREACHABLE;
}

int ctl_api_call(const struct ctl_line *line, const char *method, const char *path,
                 const char *accept, const char *body, struct ctl_answer *answer)
{
    const struct ctl_call call = {.method = method, .path = path, .accept = accept, .body = body};
    if (!path)
        return CTL_FAILED;
    int code = ctl_api_exchange(line, &call, answer);
    return code == CTL_OK ? ctl_api_check_answer(line, answer) : code;
}

void ctl_answer_free(struct ctl_answer *answer)
{
    free(answer->body);
    *answer = (struct ctl_answer){0};
}

char *ctl_api_escape(const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *escaped = malloc(3 * strlen(text) + 1), *to = escaped;
    for (; escaped && *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (strchr(name_letters, c)) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    if (escaped)
        *to = '\0';
    return escaped;
}

char *ctl_api_path(const char *before, const char *segment, const char *after)
{
    char *path, *escaped = ctl_api_escape(segment);
    if (!escaped || asprintf(&path, "%s%s%s", before, escaped, after) < 0)
        path = NULL;
    free(escaped);
    return path;
}

bool ctl_api_add_query(char **path, const char *name, const char *value)
{
    char *longer, *escaped;
    if (!value || !*path)
        return *path != NULL;
    escaped = ctl_api_escape(value);
    char mark = strchr(*path, '?') ? '&' : '?';
    if (!escaped || asprintf(&longer, "%s%c%s=%s", *path, mark, name, escaped) < 0)
        longer = NULL;
    free(escaped);
    free(*path);
    *path = longer;
    return longer != NULL;
}

bool ctl_api_add_options(char **path, const struct ctl_line *line, const char *const *names)
{
    for (; *names; names++) {
        if (!ctl_api_add_query(path, *names, ctl_value(line, *names)))
            return false;
    }
    return *path != NULL;
}
