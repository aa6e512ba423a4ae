/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault behind a failed transfer of curl's. Its codes identify most of them; where they do
 * not, curl's message follows ours. That message comes from the TLS library of this build of curl,
 * so a fault that the libraries name differently is recognized here and has only our words. The
 * thread of the loop.
 */
#include <errno.h>
#include <string.h>

#include "client/transport/curl_loop.h"
#include "client/transport/own_fault.h"

static const struct {
    CURLcode code;
    enum handoff_fault fault;
} faults[] = {
    {CURLE_OUT_OF_MEMORY, HANDOFF_FAULT_MEMORY},
    {CURLE_COULDNT_RESOLVE_HOST, HANDOFF_FAULT_NAME},
    {CURLE_COULDNT_CONNECT, HANDOFF_FAULT_CONNECTION},
    {CURLE_SSL_CONNECT_ERROR, HANDOFF_FAULT_TLS},
    {CURLE_SSL_CERTPROBLEM, HANDOFF_FAULT_TLS},
    {CURLE_SSL_CIPHER, HANDOFF_FAULT_TLS},
    {CURLE_SSL_CACERT_BADFILE, HANDOFF_FAULT_TLS},
    {CURLE_SSL_ENGINE_NOTFOUND, HANDOFF_FAULT_TLS},
    {CURLE_SSL_ISSUER_ERROR, HANDOFF_FAULT_TLS},
    {CURLE_PEER_FAILED_VERIFICATION, HANDOFF_FAULT_TLS},
    {CURLE_GOT_NOTHING, HANDOFF_FAULT_CLOSED},
    {CURLE_PARTIAL_FILE, HANDOFF_FAULT_BROKE_OFF},
    {CURLE_UNSUPPORTED_PROTOCOL, HANDOFF_FAULT_NOT_HTTP}, /* no status line is HTTP/0.9 to it */
    {CURLE_WEIRD_SERVER_REPLY, HANDOFF_FAULT_GARBLED},
    {CURLE_BAD_CONTENT_ENCODING, HANDOFF_FAULT_GARBLED},
#if LIBCURL_VERSION_NUM >= 0x080600
    {CURLE_TOO_LARGE, HANDOFF_FAULT_HEAD_SIZE},
#endif
};

static const char *curl_words(const struct handoff_curl_job *job, CURLcode code)
{
    return job->error[0] ? job->error : curl_easy_strerror(code);
}

static int errno_of(const struct handoff_curl_job *job)
{
    long error = 0;
    curl_easy_getinfo(job->easy, CURLINFO_OS_ERRNO, &error);
    return (int)error;
}

/* Including the TLS handshake, if any: a request could be sent. */
static bool was_connected(const struct handoff_curl_job *job)
{
    curl_off_t connected_us = 0;
    curl_easy_getinfo(job->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    return connected_us > 0;
}

static bool curl_says(const struct handoff_curl_job *job, const char *words)
{
    return strstr(job->error, words) != NULL;
}

/* GnuTLS reports GNUTLS_E_PREMATURE_TERMINATION, a stable number; OpenSSL reports an unexpected
 * eof, unless curl told it to ignore that. */
bool handoff_curl_ended_without_notify(const struct handoff_curl_job *job, CURLcode code)
{
    return code == CURLE_RECV_ERROR &&
           (curl_says(job, "GnuTLS recv error (-110)") || curl_says(job, "unexpected eof"));
}

/* Since TLS 1.3 a server may reject a client after the handshake, while the request is being sent.
 */
static bool was_rejected_by_tls(const struct handoff_curl_job *job, CURLcode code)
{
    return code == CURLE_RECV_ERROR &&
           (curl_says(job, "GnuTLS recv error (-12)") || curl_says(job, " alert "));
}

/* Also an answer that curl cannot parse, invalid chunks for example. */
static struct handoff_failure broken_connection(const struct handoff_curl_job *job, CURLcode code)
{
    const int error = errno_of(job);
    long begun = 0;
    curl_easy_getinfo(job->easy, CURLINFO_HEADER_SIZE, &begun);
    if (handoff_curl_ended_without_notify(job, code))
        return (struct handoff_failure){.fault =
                                            begun ? HANDOFF_FAULT_BROKE_OFF : HANDOFF_FAULT_CLOSED};
    if (!begun && was_rejected_by_tls(job, code))
        return (struct handoff_failure){.fault = HANDOFF_FAULT_TLS,
                                        .detail = curl_words(job, code)};
    if (error != 0)
        return handoff_failure_of_errno(error, begun > 0);
    return (struct handoff_failure){.fault = begun ? HANDOFF_FAULT_GARBLED : HANDOFF_FAULT_OTHER,
                                    .detail = curl_words(job, code)};
}

/* Before a request could be sent: curl does not say that it could not read a certificate, say. */
static enum handoff_fault own_fault(const struct handoff_curl_job *job)
{
    const enum handoff_fault own = handoff_own_fault_of_errno(errno_of(job));
    return own != HANDOFF_FAULT_NONE ? own : handoff_own_fault_now();
}

static struct handoff_failure timeout_failure(const struct handoff_curl_job *job,
                                              int64_t connect_ms, int64_t answer_ms)
{
    if (was_connected(job))
        return (struct handoff_failure){.fault = HANDOFF_FAULT_TIME, .within_ms = answer_ms};
    return (struct handoff_failure){.fault = HANDOFF_FAULT_CONNECTION, .within_ms = connect_ms};
}

static const char *detail_of(const struct handoff_curl_job *job, CURLcode code,
                             enum handoff_fault fault)
{
    switch (fault) {
    case HANDOFF_FAULT_CONNECTION:
        return errno_of(job) ? strerror(errno_of(job)) : curl_words(job, code);
    case HANDOFF_FAULT_TLS:
    case HANDOFF_FAULT_GARBLED:
    case HANDOFF_FAULT_OTHER:
        return curl_words(job, code);
    default:
        return NULL;
    }
}

struct handoff_failure handoff_curl_failure(const struct handoff_curl_job *job, CURLcode code,
                                            int64_t connect_ms, int64_t answer_ms)
{
    struct handoff_failure failure = {.fault = HANDOFF_FAULT_OTHER};
    if (code == CURLE_OPERATION_TIMEDOUT)
        return timeout_failure(job, connect_ms, answer_ms);
    if (!was_connected(job) && (failure.fault = own_fault(job)) != HANDOFF_FAULT_NONE)
        return failure;
    failure.fault = HANDOFF_FAULT_OTHER;
    if (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR)
        return broken_connection(job, code);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i].code == code)
            failure.fault = faults[i].fault;
    /* before 8.6 curl also reported a header line over 100 KiB as out of memory */
    if (failure.fault == HANDOFF_FAULT_MEMORY && LIBCURL_VERSION_NUM < 0x080600 &&
        was_connected(job))
        failure.fault = HANDOFF_FAULT_HEAD_SIZE;
    failure.detail = detail_of(job, code, failure.fault);
    return failure;
}
