/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The framing of a request, see framing.h: one walk over its headers. libmicrohttpd has refused
 * before what it cannot read at all; docs/security.md lists what that is, and what neither sees.
 *
 * On the request's loop thread.
 */
#include "exporter/http/framing.h"

#include <string.h>
#include <strings.h>

#include "exporter/http/http_private.h"

struct framing {
    const char *host;
    const char *length;          /* Content-Length */
    const char *coding;          /* Transfer-Encoding */
    const char *content_coding;  /* Content-Encoding, where it is not "identity" */
    struct exporter_problem why; /* code HANDOFF_OK: nothing is wrong so far */
};

static enum MHD_Result reject_ambiguous(struct framing *framing, const char *detail,
                                        const char *field, const char *seen)
{
    framing->why = (struct exporter_problem){
        .code = HANDOFF_ERR_AMBIGUOUS, .detail = detail, .field = field, .seen = seen};
    return MHD_NO;
}

static bool is_named(const char *name, size_t size, const char *wanted)
{
    return size == strlen(wanted) && strncasecmp(name, wanted, size) == 0;
}

/* RFC 9112 5.1: a blank before the colon hides a header from whoever takes it for a part of the
 * name. */
static bool has_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] <= ' ')
            return true;
    }
    return false;
}

static enum MHD_Result note_framing(struct framing *framing, const char *name, size_t size,
                                    const char *value)
{
    if (is_named(name, size, "Host")) {
        if (framing->host != NULL)
            return reject_ambiguous(framing, "Host may be given only once", "Host", value);
        framing->host = value;
    } else if (is_named(name, size, "Content-Length")) {
        if (framing->length != NULL && strcmp(framing->length, value) != 0)
            return reject_ambiguous(framing, "conflicting lengths", "Content-Length", value);
        framing->length = value;
    } else if (is_named(name, size, "Transfer-Encoding")) {
        if (framing->coding != NULL)
            return reject_ambiguous(framing, "Transfer-Encoding may be given only once",
                                    "Transfer-Encoding", value);
        framing->coding = value;
    } else if (is_named(name, size, "Content-Encoding") && strcasecmp(value, "identity") != 0) {
        framing->content_coding = value;
    }
    return MHD_YES;
}

static enum MHD_Result check_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                    size_t name_size, const char *value, size_t value_size)
{
    (void)kind;
    struct framing *framing = arg;
    if (has_blank(name, name_size))
        return reject_ambiguous(framing, "space in a header name", name, NULL);
    if (value == NULL)
        value = "";
    else if (memchr(value, '\r', value_size) != NULL)
        return reject_ambiguous(framing, "carriage return in a header", name, NULL);
    return note_framing(framing, name, name_size, value);
}

/* What only all headers together tell. */
static void check_coding(struct framing *framing, const char *version)
{
    if (framing->coding != NULL && framing->length != NULL)
        reject_ambiguous(framing, "both Content-Length and Transfer-Encoding", "Transfer-Encoding",
                         framing->coding);
    else if (framing->coding != NULL && strcmp(version, "HTTP/1.0") == 0)
        reject_ambiguous(framing, "Transfer-Encoding needs HTTP/1.1", "Transfer-Encoding",
                         framing->coding);
    else if (framing->coding != NULL && strcasecmp(framing->coding, "chunked") != 0)
        framing->why = (struct exporter_problem){.code = HANDOFF_ERR_UNKNOWN_TRANSFER_CODING,
                                                 .detail = "unknown transfer coding",
                                                 .field = "Transfer-Encoding",
                                                 .seen = framing->coding,
                                                 .allowed = "chunked"};
    else if (framing->content_coding != NULL)
        framing->why = (struct exporter_problem){.code = HANDOFF_ERR_UNKNOWN_CONTENT_CODING,
                                                 .detail = "send the body uncompressed",
                                                 .field = "Content-Encoding",
                                                 .seen = framing->content_coding,
                                                 .allowed = "identity"};
}

bool exporter_framing_check(struct exporter_request *request, const char *version)
{
    struct framing framing = {0};
    MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, check_header, &framing);
    if (framing.why.code == HANDOFF_OK)
        check_coding(&framing, version);
    if (framing.why.code == HANDOFF_OK)
        return true;
    framing.why.header = (struct exporter_header){"Connection", "close"};
    request->refusal = framing.why;
    return false;
}
