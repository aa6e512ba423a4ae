/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as RFC 9112 has them, and as it has them not, whole and in pieces of every size. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "client/transport/http_answer.h"

#define OK      "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK "Transfer-Encoding: chunked\r\n\r\n"

struct expected {
    const char *bytes;
    int status;
    const char *body;
    bool keep;
    const char *ack;         /* NULL: none */
    const char *retry_after; /* NULL: none */
    size_t behind;           /* bytes that do not belong to it */
    bool closed;             /* the connection ends behind it */
};

static const struct expected good[] = {
    {OK "Content-Length: 2\r\n\r\n{}", 200, "{}", true, NULL, NULL, 0, false},
    {OK "content-length:2\n\n{}", 200, "{}", true, NULL, NULL, 0, false},
    {OK "Content-Length: 0\r\nHandoff-Ack: \t x1 \r\n\r\n", 200, "", true, "x1", NULL, 0, false},
    {OK "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}HTTP", 200, "{}", true, NULL, NULL, 4,
     false},
    {"HTTP/1.1 204\r\nHANDOFF-ACK:x1\r\n\r\n", 204, "", true, "x1", NULL, 0, false},
    {"HTTP/1.1 304 Not Modified\r\n\r\n", 304, "", true, NULL, NULL, 0, false},
    {"HTTP/1.1 503 \r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 503, "", true, NULL, "7", 0,
     false},
    /* the connection's future */
    {OK "Connection: x, Close\r\nContent-Length: 0\r\n\r\n", 200, "", false, NULL, NULL, 0, false},
    {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", false, NULL, NULL, 0, false},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, "", true, NULL,
     NULL, 0, false},
    {"HTTP/1.1 204\r\nContent-Length: 0\r\n\r\n", 204, "", true, NULL, NULL, 0, false},
    {"HTTP/1.1 204\r\nContent-Length: 7\r\n\r\n", 204, "", false, NULL, NULL, 0, false},
    {"HTTP/1.1 204\r\nTransfer-Encoding: chunked\r\n\r\n", 204, "", false, NULL, NULL, 0, false},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, "", false, NULL, NULL, 0,
     false},
    {OK "Connection: close\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, "", false,
     NULL, NULL, 0, false},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     200, "", false, NULL, NULL, 0, false},
    {OK "\r\nto the end", 200, "to the end", false, NULL, NULL, 0, true},
    {OK "Connection: keep-alive\r\n\r\n", 200, "", false, NULL, NULL, 0, true},
    /* before the answer */
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n" OK
     "Content-Length: 1\r\n\r\nx",
     200, "x", true, NULL, NULL, 0, false},
    {"HTTP/1.1 103 Early Hints\r\nHandoff-Ack: x1\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\n"
     "HTTP/1.1 204 No Content\r\n\r\n",
     204, "", true, NULL, NULL, 0, false},
    /* chunks */
    {CHUNKED "2\r\n{}\r\n0\r\n\r\n", 200, "{}", true, NULL, NULL, 0, false},
    {CHUNKED "0a;name=\"v\"\r\n0123456789\r\nA \r\n0123456789\r\n000\r\n\r\n", 200,
     "01234567890123456789", true, NULL, NULL, 0, false},
    /* trailers: read to their end, and of no effect */
    {CHUNKED "0\r\nHandoff-Ack: x1\r\nRetry-After: 7\r\nContent-Length: 5\r\n\r\nnext", 200, "",
     true, NULL, NULL, 4, false},
    {OK "Handoff-Ack: x1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHandoff-Ack: x2\r\n\r\n", 200,
     "", true, "x1", NULL, 0, false},
    {OK "Content-Length: 9\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 200, "x",
     false, NULL, NULL, 0, false},
    /* what is passed over */
    {OK "Transfer-Encoding: identity\r\nContent-Length: 1\r\n\r\nx", 200, "x", true, NULL, NULL, 0,
     false},
    {OK "X-Long: a\r\n  b\r\nContent-Length: 1\r\n\r\nx", 200, "x", true, NULL, NULL, 0, false},
};

static const struct {
    const char *bytes;
    const char *fault; /* a part of it */
} bad[] = {
    {"", "without answering"},
    {"HTTP/1.1 2", "in the middle"},
    {OK, "in the middle"},
    {OK "Content-Length: 3\r\n\r\n{}", "in the middle"},
    {CHUNKED "2\r\n{}\r\n", "in the middle"},
    {"\x16\x03\x01 what?\r\n", "not HTTP"},
    {"HTTP/2 200 OK\r\n\r\n", "not HTTP"},
    {"HTTP/1.1 20 OK\r\n\r\n", "not HTTP"},
    {"HTTP/1.1 099 OK\r\n\r\n", "not HTTP"},
    {"HTTP/1.1 2000\r\n\r\n", "not HTTP"},
    {"HTTP/1.x 200 OK\r\n\r\n", "not HTTP"},
    {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "another protocol"},
    {OK "what\r\n\r\n", "without a colon"},
    {OK "Content-Length: -1\r\n\r\n", "Content-Length"},
    {OK "Content-Length: 1, 1\r\n\r\n", "Content-Length"},
    {OK "Content-Length:\r\n\r\n", "Content-Length"},
    {OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length"},
    {OK "Content-Length: 65537\r\n\r\n", "longer than"},
    {OK "Content-Length: 99999999999999999999999999\r\n\r\n", "longer than"},
    {OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "Transfer-Encoding"},
    {OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding"},
    {CHUNKED "g\r\n", "invalid chunk size"},
    {CHUNKED "\r\n", "invalid chunk size"},
    {CHUNKED "0x2\r\n{}\r\n", "invalid chunk size"},
    {CHUNKED "ffffffffffffffffff\r\n", "longer than"},
    {CHUNKED "1\r\n{}\r\n", "longer than its declared size"},
};

/* In pieces of `step` bytes; an end of the connection is told where nothing else ends it. */
static enum handoff_http_progress feed(struct handoff_http_answer *answer, const char *bytes,
                                       size_t size, size_t step, size_t *taken)
{
    enum handoff_http_progress progress = HANDOFF_HTTP_MORE;
    handoff_http_answer_begin(answer);
    *taken = 0;
    while (progress == HANDOFF_HTTP_MORE && *taken < size) {
        size_t piece = size - *taken < step ? size - *taken : step, used;
        char *copy = malloc(piece); /* so that a sanitizer sees a byte too far */
        memcpy(copy, bytes + *taken, piece);
        progress = handoff_http_answer_read(answer, copy, piece, &used);
        free(copy);
        assert_true(used <= piece && (used == piece || progress != HANDOFF_HTTP_MORE));
        *taken += used;
    }
    return progress == HANDOFF_HTTP_MORE ? handoff_http_answer_end(answer) : progress;
}

static void check_good(const struct expected *row, size_t step)
{
    struct handoff_http_answer answer;
    const size_t size = strlen(row->bytes);
    size_t taken;
    assert_int_equal(feed(&answer, row->bytes, size, step, &taken), HANDOFF_HTTP_WHOLE);
    assert_int_equal(taken, size - row->behind);
    assert_int_equal(answer.part == HANDOFF_HTTP_BODY_TO_THE_END, row->closed);
    assert_int_equal(answer.status, row->status);
    assert_int_equal(answer.keep, row->keep);
    assert_int_equal(answer.body.size, strlen(row->body));
    assert_memory_equal(answer.body.size ? answer.body.data : "", row->body, strlen(row->body));
    assert_int_equal(answer.has_ack, row->ack != NULL);
    assert_string_equal(answer.ack, row->ack ? row->ack : "");
    assert_string_equal(answer.retry_after, row->retry_after ? row->retry_after : "");
    handoff_http_answer_free(&answer);
}

static void test_answers_in_pieces_of_every_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (size_t step = 1; step <= strlen(good[i].bytes); step++)
            check_good(&good[i], step);
}

static void check_words(const struct handoff_http_answer *answer, const char *part)
{
    const struct handoff_failure failure = {.fault = answer->fault, .detail = answer->detail};
    char words[160];
    handoff_failure_write(&failure, words, sizeof words);
    assert_non_null(strstr(words, part));
}

static void test_what_is_no_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t step = 1; step <= strlen(bad[i].bytes) + 1; step++) {
            struct handoff_http_answer answer;
            size_t taken;
            assert_int_equal(feed(&answer, bad[i].bytes, strlen(bad[i].bytes), step, &taken),
                             HANDOFF_HTTP_BROKEN);
            check_words(&answer, bad[i].fault);
            assert_false(answer.keep);
            handoff_http_answer_free(&answer);
        }
    }
}

static void append(struct base_buffer *bytes, const char *text, int times)
{
    for (int i = 0; i < times; i++)
        base_buffer_text(bytes, text);
}

static void check_long(struct base_buffer *bytes, enum handoff_http_progress progress,
                       const char *fault)
{
    struct handoff_http_answer answer;
    size_t taken;
    assert_int_equal(feed(&answer, bytes->data, bytes->size, 4096, &taken), progress);
    if (fault)
        check_words(&answer, fault);
    assert_true(answer.body.size <= HANDOFF_HTTP_BODY_MAX);
    assert_true(answer.line.size <= HANDOFF_HTTP_HEAD_MAX);
    handoff_http_answer_free(&answer);
    base_buffer_clear(bytes);
}

static void test_nothing_grows_without_end(void **state)
{
    (void)state;
    struct base_buffer bytes = {0};
    append(&bytes, OK, 1);
    append(&bytes, "X-Filler: 0123456789\r\n", HANDOFF_HTTP_HEAD_MAX / 20);
    check_long(&bytes, HANDOFF_HTTP_BROKEN, "headers are too large");
    append(&bytes, OK "X-Filler: ", 1);
    append(&bytes, "0123456789", HANDOFF_HTTP_HEAD_MAX / 10);
    check_long(&bytes, HANDOFF_HTTP_BROKEN, "headers are too large");
    append(&bytes, OK "\r\n", 1);
    append(&bytes, "0123456789abcdef", HANDOFF_HTTP_BODY_MAX / 16);
    check_long(&bytes, HANDOFF_HTTP_WHOLE, NULL);
    append(&bytes, OK "\r\nx", 1);
    append(&bytes, "0123456789abcdef", HANDOFF_HTTP_BODY_MAX / 16);
    check_long(&bytes, HANDOFF_HTTP_BROKEN, "longer than");
    append(&bytes, CHUNKED, 1);
    append(&bytes, "8000\r\n", 1);
    append(&bytes, "01234567", 0x8000 / 8);
    append(&bytes, "\r\n8001\r\n", 1);
    append(&bytes, "01234567", 0x8000 / 8);
    append(&bytes, "x\r\n0\r\n\r\n", 1);
    check_long(&bytes, HANDOFF_HTTP_BROKEN, "longer than");
    append(&bytes, "HTTP/1.1 100 Continue\r\n\r\n", HANDOFF_HTTP_HEAD_MAX / 24);
    check_long(&bytes, HANDOFF_HTTP_BROKEN, "headers are too large");
    base_buffer_free(&bytes);
}

/* "x1" and then anything would be read as "x1". */
static void test_a_nul_is_no_end(void **state)
{
    (void)state;
    static const char bytes[] = OK "Handoff-Ack: x1\0, not\r\nContent-Length: 0\r\n\r\n";
    for (size_t step = 1; step < sizeof bytes; step++) {
        struct handoff_http_answer answer;
        size_t taken;
        assert_int_equal(feed(&answer, bytes, sizeof bytes - 1, step, &taken), HANDOFF_HTTP_BROKEN);
        check_words(&answer, "NUL");
        handoff_http_answer_free(&answer);
    }
}

static void test_long_values_are_cut(void **state)
{
    (void)state;
    struct handoff_http_answer answer;
    struct base_buffer bytes = {0};
    size_t taken;
    append(&bytes, OK "Handoff-Ack: ", 1);
    append(&bytes, "a", 300);
    append(&bytes, "\r\nRetry-After: ", 1);
    append(&bytes, "1", 300);
    append(&bytes, "\r\nContent-Length: 0\r\n\r\n", 1);
    assert_int_equal(feed(&answer, bytes.data, bytes.size, bytes.size, &taken), HANDOFF_HTTP_WHOLE);
    assert_int_equal(strlen(answer.ack), HANDOFF_HTTP_ACK_MAX - 1);
    assert_int_equal(strlen(answer.retry_after), HANDOFF_RETRY_AFTER_SIZE - 1);
    handoff_http_answer_free(&answer);
    base_buffer_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_in_pieces_of_every_size),
        cmocka_unit_test(test_what_is_no_answer),
        cmocka_unit_test(test_nothing_grows_without_end),
        cmocka_unit_test(test_a_nul_is_no_end),
        cmocka_unit_test(test_long_values_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
