/* SPDX-License-Identifier: Apache-2.0 */
/* The origins of origin.h. The thread of the loop: origins are the transport's, unlocked. */
#include "client/transport/origin.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"

static const char scheme[] = "http://";
enum { SCHEME = sizeof scheme - 1 };

/* How much of a URL names the origin. */
static size_t origin_size(const char *url)
{
    return SCHEME + strcspn(url + SCHEME, "/?#");
}

/* FNV-1a: origins are short and come from the configuration. */
static struct handoff_origin_bucket *origin_bucket(struct handoff_origins *origins, const char *url,
                                                   size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = SCHEME; i < size; i++)
        hash = (hash ^ (unsigned char)url[i]) * 16777619u;
    return &origins->buckets[hash % HANDOFF_ORIGIN_BUCKETS];
}

/* A space would end the request target, dots in the path must be resolved, and other alphabets
 * translated: those are left to curl. */
static bool is_usual(const char *url)
{
    const char *at = url;
    if (strncasecmp(url, scheme, SCHEME) != 0 || strstr(url + SCHEME, "/.") != NULL)
        return false;
    while (*at > ' ' && *at <= '~')
        at++;
    return *at == '\0';
}

/* ---- the head of a request ------------------------------------------------------------------ */

/* NULL: the URL has no such part, or memory ran out. */
static char *url_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    return curl_url_get(url, part, &text, 0) == CURLUE_OK ? text : NULL;
}

static bool has_url_part(CURLU *url, CURLUPart part)
{
    char *text = url_part(url, part);
    curl_free(text);
    return text != NULL;
}

/* Brackets belong to the URL, not to the address in them. */
static char *copy_host(const char *host)
{
    const bool bracketed = host[0] == '[';
    char *copy = base_strdup(host + bracketed);
    if (copy && bracketed)
        copy[strcspn(copy, "]")] = '\0';
    return copy;
}

static bool keep_host(struct handoff_origin *origin, CURLU *url)
{
    char *host = url_part(url, CURLUPART_HOST), *port = url_part(url, CURLUPART_PORT);
    origin->host = host ? copy_host(host) : NULL;
    origin->port = (uint16_t)(port ? strtoul(port, NULL, 10) : 80);
    curl_free(host);
    curl_free(port);
    return origin->host != NULL;
}

static bool write_host(struct base_buffer *head, CURLU *url)
{
    char *host = url_part(url, CURLUPART_HOST), *port = url_part(url, CURLUPART_PORT);
    bool is_default = !port || strcmp(port, "80") == 0, good = host;
    base_buffer_printf(head, "Host: %s%s%s\r\n", host ? host : "", is_default ? "" : ":",
                       is_default ? "" : port);
    curl_free(host);
    curl_free(port);
    return good;
}

/* A user name would have to be sent, and an address zone must not appear in a header: both are rare
 * and left to curl. */
static bool read_origin(struct handoff_origin *origin, const char *text)
{
    struct base_buffer *head = &origin->head;
    CURLU *url = curl_url();
    bool good = url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
                !has_url_part(url, CURLUPART_USER) && !has_url_part(url, CURLUPART_PASSWORD) &&
                !has_url_part(url, CURLUPART_ZONEID) && keep_host(origin, url) &&
                write_host(head, url);
    curl_url_cleanup(url);
    base_buffer_text(head, "User-Agent: handoff-exporter/" HANDOFF_VERSION "\r\n");
    return good && !head->failed;
}

void handoff_origin_write(const struct handoff_origin *origin, const char *method, const char *url,
                          struct base_buffer *head)
{
    const char *target = url + origin->url_size;
    base_buffer_text(head, method);
    base_buffer_text(head, *target == '/' ? " " : " /");
    base_buffer_append(head, target, strcspn(target, "#"));
    base_buffer_text(head, " HTTP/1.1\r\n");
    base_buffer_append(head, origin->head.data, origin->head.size);
}

/* ---- origins -------------------------------------------------------------------------------- */

static void free_origin(struct handoff_origin *origin)
{
    base_buffer_free(&origin->head);
    base_free(origin->host);
    base_free(origin);
}

static struct handoff_origin *new_origin(const char *url, size_t size)
{
    struct handoff_origin *origin = base_calloc(1, sizeof *origin + size + 1);
    if (!origin)
        return NULL;
    TAILQ_INIT(&origin->idle);
    memcpy(origin->url, url, size);
    origin->url_size = size;
    if (read_origin(origin, origin->url))
        return origin;
    free_origin(origin);
    return NULL;
}

struct handoff_origin *handoff_origin_use(struct handoff_origins *origins, const char *url)
{
    if (!is_usual(url))
        return NULL;
    const size_t size = origin_size(url);
    struct handoff_origin_bucket *bucket = origin_bucket(origins, url, size);
    struct handoff_origin *origin = LIST_FIRST(bucket);
    while (origin && (origin->url_size != size || memcmp(origin->url, url, size) != 0))
        origin = LIST_NEXT(origin, entry);
    if (!origin) {
        origin = new_origin(url, size);
        if (!origin)
            return NULL;
        LIST_INSERT_HEAD(bucket, origin, entry);
    }
    origin->users++;
    return origin;
}

void handoff_origin_leave(struct handoff_origin **origin)
{
    struct handoff_origin *left = *origin;
    *origin = NULL;
    if (!left)
        return;
    BASE_CHECK(left->users > 0);
    if (--left->users > 0)
        return;
    BASE_CHECK(TAILQ_EMPTY(&left->idle));
    LIST_REMOVE(left, entry);
    free_origin(left);
}
