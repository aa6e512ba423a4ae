/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router: cuts a path into segments and compares them with the rows, one after the other. The
 * tables have a few dozen rows and a row differs in its first or second segment, so a search tree
 * would save nothing that could be measured.
 *
 * Segments are decoded after the path was cut, so that an encoded slash stays inside its segment.
 *
 * Pure: the tables do not change after startup.
 */
#include "exporter/http/router.h"

#include <string.h>
#include <strings.h>

#include "lib/base/utf8.h"

/* ---- paths ---------------------------------------------------------------------------------- */

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

static bool is_text(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        uint32_t character;
        const size_t size = base_utf8_next(text, left, &character);
        if (character == BASE_UTF8_INVALID)
            return false;
        text += size;
        left -= size;
    }
    return true;
}

bool exporter_percent_decode(char *text)
{
    char *out = text;
    for (const char *in = text; *in != '\0'; in++) {
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int high = hex_value(in[1]);
        int low = high < 0 ? -1 : hex_value(in[2]);
        if (low < 0 || high * 16 + low == 0)
            return false;
        *out++ = (char)(high * 16 + low);
        in += 2;
    }
    *out = '\0';
    return is_text(text); /* it may come back in JSON, or be stored */
}

/* The path of "http://host/path"; other texts are answered as they are. */
static const char *path_of_url(const char *raw)
{
    const size_t scheme = strncasecmp(raw, "http://", 7) == 0    ? 7
                          : strncasecmp(raw, "https://", 8) == 0 ? 8
                                                                 : 0;
    const size_t host = scheme > 0 ? strcspn(raw + scheme, "/") : 0;
    if (host == 0)
        return raw;
    raw += scheme + host;
    return *raw != '\0' ? raw : "/";
}

enum exporter_path_result exporter_path_parse(struct exporter_path *path, const char *raw)
{
    path->count = 0;
    raw = path_of_url(raw);
    const size_t length = strlen(raw);
    if (length >= sizeof path->text)
        return EXPORTER_PATH_TOO_LONG;
    if (raw[0] != '/')
        return EXPORTER_PATH_MALFORMED;
    memcpy(path->text, raw, length + 1);
    char *rest = path->text + 1;
    while (rest != NULL) {
        if (path->count == EXPORTER_SEGMENTS_MAX)
            return EXPORTER_PATH_TOO_LONG;
        char *segment = strsep(&rest, "/");
        if (!exporter_percent_decode(segment))
            return EXPORTER_PATH_MALFORMED;
        path->segments[path->count++] = segment;
    }
    return EXPORTER_PATH_OK;
}

/* ---- matching ------------------------------------------------------------------------------- */

/* One segment of a pattern against one of the path; moves *pattern to the next slash or the end. */
static bool segment_matches(const char **pattern, const char *segment, bool *is_param)
{
    const char *begin = *pattern + 1; /* behind the slash */
    const size_t length = strcspn(begin, "/");
    *pattern = begin + length;
    *is_param = length >= 2 && begin[0] == '{' && begin[length - 1] == '}';
    if (*is_param)
        return segment[0] != '\0';
    return strncmp(segment, begin, length) == 0 && segment[length] == '\0';
}

static bool path_matches(const char *pattern, const struct exporter_path *path,
                         struct exporter_route_match *match)
{
    match->nparams = 0;
    for (size_t i = 0; i < path->count; i++) {
        bool is_param;
        if (*pattern == '\0' || !segment_matches(&pattern, path->segments[i], &is_param))
            return false;
        if (is_param && match->nparams < EXPORTER_PARAMS_MAX)
            match->params[match->nparams++] = path->segments[i];
    }
    return *pattern == '\0';
}

static bool method_matches(const struct exporter_route *route, const char *method)
{
    if (strcmp(route->method, method) == 0)
        return true;
    return strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0;
}

static void allow_append(char allow[EXPORTER_ALLOW_MAX], const char *method)
{
    const size_t used = strlen(allow);
    const size_t separator = used > 0 ? 2 : 0;
    if (used + separator + strlen(method) >= EXPORTER_ALLOW_MAX)
        return;
    memcpy(allow + used, ", ", separator);
    memcpy(allow + used + separator, method, strlen(method) + 1);
}

static void allow_route(char allow[EXPORTER_ALLOW_MAX], const struct exporter_route *route)
{
    allow_append(allow, route->method);
    if (strcmp(route->method, "GET") == 0)
        allow_append(allow, "HEAD");
}

enum exporter_route_result exporter_route_find(const struct exporter_routes *routes,
                                               const char *method, const struct exporter_path *path,
                                               struct exporter_route_match *match)
{
    memset(match, 0, sizeof *match);
    for (size_t i = 0; i < routes->count; i++) {
        const struct exporter_route *route = &routes->items[i];
        if (!path_matches(route->pattern, path, match))
            continue;
        if (method_matches(route, method)) {
            match->route = route;
            return EXPORTER_ROUTE_FOUND;
        }
        allow_route(match->allow, route);
    }
    if (match->allow[0] == '\0')
        return EXPORTER_ROUTE_UNKNOWN;
    allow_append(match->allow, "OPTIONS");
    return strcmp(method, "OPTIONS") == 0 ? EXPORTER_ROUTE_FOUND : EXPORTER_ROUTE_METHOD;
}
