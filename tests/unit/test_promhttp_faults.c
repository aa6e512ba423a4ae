/* SPDX-License-Identifier: Apache-2.0 */
/* links: handoff_promhttp */
/* wraps: calloc MHD_add_response_header MHD_create_response_from_callback */
/*
 * promhttp without memory: each allocation of an answer fails once, with those of libmicrohttpd
 * that it makes for us. The client gets an answer that says what it is, or none.
 */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/prom/prom.h"
#include "lib/promhttp/promhttp.h"
#include "tests/support/unit.h"

void *__real_calloc(size_t n, size_t size);
enum MHD_Result __real_MHD_add_response_header(struct MHD_Response *response, const char *name,
                                               const char *value);
struct MHD_Response *
__real_MHD_create_response_from_callback(uint64_t size, size_t block_size,
                                         MHD_ContentReaderCallback read, void *arg,
                                         MHD_ContentReaderFreeCallback release);
void *__wrap_calloc(size_t n, size_t size);
enum MHD_Result __wrap_MHD_add_response_header(struct MHD_Response *response, const char *name,
                                               const char *value);
struct MHD_Response *
__wrap_MHD_create_response_from_callback(uint64_t size, size_t block_size,
                                         MHD_ContentReaderCallback read, void *arg,
                                         MHD_ContentReaderFreeCallback release);

static atomic_int fail_at; /* the call that fails, counted from 1; 0: none, or it has */

static bool fails(void)
{
    return atomic_load(&fail_at) > 0 && atomic_fetch_sub(&fail_at, 1) == 1;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

enum MHD_Result __wrap_MHD_add_response_header(struct MHD_Response *response, const char *name,
                                               const char *value)
{
    return fails() ? MHD_NO : __real_MHD_add_response_header(response, name, value);
}

struct MHD_Response *__wrap_MHD_create_response_from_callback(uint64_t size, size_t block_size,
                                                              MHD_ContentReaderCallback read,
                                                              void *arg,
                                                              MHD_ContentReaderFreeCallback release)
{
    return fails() ? NULL
                   : __real_MHD_create_response_from_callback(size, block_size, read, arg, release);
}

static void ask(struct MHD_Daemon *daemon, char *answer, size_t room)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                  "Accept-Encoding: gzip\r\n\r\n";
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(client, request, sizeof request - 1, 0), sizeof request - 1);
    size_t length = 0;
    ssize_t got;
    while (length < room - 1 && (got = recv(client, answer + length, room - 1 - length, 0)) > 0)
        length += (size_t)got;
    assert_true(length < room - 1);
    answer[length] = '\0'; /* the compressed part may hold NUL, the head does not */
    close(client);
}

static bool is_whole(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 200 ", 13) == 0;
}

static void check_answer(const char *answer)
{
    if (is_whole(answer)) {
        assert_non_null(strstr(answer, "\r\nContent-Encoding: gzip\r\n"));
        assert_non_null(strstr(answer, "\r\nContent-Type: text/plain; version=0.0.4"));
        assert_non_null(strstr(answer, "\r\nVary: Accept, Accept-Encoding\r\n"));
    } else if (*answer != '\0') {
        assert_int_equal(strncmp(answer, "HTTP/1.1 503 ", 13), 0);
    }
}

static void test_an_answer_is_labelled_or_there_is_none(void **state)
{
    (void)state;
    static char answer[1 << 16];
    assert_int_equal(prom_collector_registry_default_init(), 0);
    struct MHD_Daemon *daemon =
        promhttp_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL);
    assert_non_null(daemon);
    int failed = 0;
    for (;; failed++) {
        atomic_store(&fail_at, failed + 1);
        ask(daemon, answer, sizeof answer);
        check_answer(answer);
        if (atomic_exchange(&fail_at, 0) > 0)
            break; /* there was no such call any more */
    }
    assert_true(is_whole(answer));
    assert_true(failed >= 8); /* the page, the lists of a scrape, gzip, the response, 3 headers */
    MHD_stop_daemon(daemon);
    prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_is_labelled_or_there_is_none),
    };
    return RUN_TESTS(tests);
}
