/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nearly every answer arrives in one piece, so lines are parsed in place; only a line split between
 * two pieces is copied first. Pure but for the body's buffer, any thread.
 *
 * Strict wherever a mistake would take part of the next answer for the end of this one: conflicting
 * lengths, an unknown transfer coding, a malformed chunk size. Everything else in the head is
 * ignored.
 */
#include "client/transport/http_answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/check.h"
#include "lib/base/span.h"

void handoff_http_answer_begin(struct handoff_http_answer *answer)
{
    *answer = (struct handoff_http_answer){.body = {.limit = HANDOFF_HTTP_BODY_MAX},
                                           .line = {.limit = HANDOFF_HTTP_HEAD_MAX}};
}

void handoff_http_answer_free(struct handoff_http_answer *answer)
{
    base_buffer_free(&answer->body);
    base_buffer_free(&answer->line);
}

static enum handoff_http_progress broken(struct handoff_http_answer *answer,
                                         enum handoff_fault fault)
{
    answer->fault = fault;
    answer->keep = false;
    return HANDOFF_HTTP_BROKEN;
}

static enum handoff_http_progress garbled(struct handoff_http_answer *answer, const char *detail)
{
    answer->detail = detail;
    return broken(answer, HANDOFF_FAULT_GARBLED);
}

/* ---- values --------------------------------------------------------------------------------- */

static bool is_space_or_tab(char byte)
{
    return byte == ' ' || byte == '\t';
}

static struct base_span without_blanks(struct base_span text)
{
    while (text.size > 0 && is_space_or_tab(text.data[0]))
        text = base_span(text.data + 1, text.size - 1);
    while (text.size > 0 && is_space_or_tab(text.data[text.size - 1]))
        text.size--;
    return text;
}

static bool equals_word(struct base_span text, const char *word)
{
    return text.size == strlen(word) && strncasecmp(text.data, word, text.size) == 0;
}

/* Takes the first item off a list separated by commas. */
static struct base_span next_list_item(struct base_span *list)
{
    const char *comma = memchr(list->data, ',', list->size);
    size_t size = comma ? (size_t)(comma - list->data) : list->size;
    struct base_span first = without_blanks(base_span(list->data, size));
    size_t past = comma ? size + 1 : size;
    *list = base_span(list->data + past, list->size - past);
    return first;
}

static bool list_has_word(struct base_span list, const char *word)
{
    while (list.size > 0) {
        if (equals_word(next_list_item(&list), word))
            return true;
    }
    return false;
}

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : 16;
}

/* Digits only; saturates above the size of any body that we accept. */
static bool parse_number(struct base_span text, unsigned base, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned)digit_value(text.data[i]);
        if (digit >= base)
            return false;
        *number = *number < UINT32_MAX ? *number * base + digit : UINT32_MAX;
    }
    return text.size > 0;
}

static void keep_text(char *to, size_t room, struct base_span from)
{
    size_t size = from.size < room ? from.size : room - 1;
    memcpy(to, from.data, size);
    to[size] = '\0';
}

/* ---- the head ------------------------------------------------------------------------------- */

/* "HTTP/1.1 200 OK"; the phrase after the number may be missing, and the space before it too. */
static enum handoff_http_progress read_status(struct handoff_http_answer *answer,
                                              struct base_span line)
{
    enum { MINOR = sizeof "HTTP/1." - 1, STATUS = sizeof "HTTP/1.1 " - 1, END = STATUS + 3 };
    uint64_t minor, status;
    if (line.size < END || memcmp(line.data, "HTTP/1.", MINOR) != 0 ||
        !parse_number(base_span(line.data + MINOR, 1), 10, &minor) || line.data[MINOR + 1] != ' ' ||
        !parse_number(base_span(line.data + STATUS, 3), 10, &status) || status < 100 ||
        (line.size > END && line.data[END] != ' '))
        return broken(answer, HANDOFF_FAULT_NOT_HTTP);
    answer->status = (int)status;
    answer->is_1_0 = minor == 0;
    answer->keep = !answer->is_1_0;
    answer->closes = false;
    answer->part = HANDOFF_HTTP_HEADERS;
    return HANDOFF_HTTP_MORE;
}

static enum handoff_http_progress note_length(struct handoff_http_answer *answer,
                                              struct base_span value)
{
    uint64_t length;
    if (!parse_number(value, 10, &length) || (answer->has_length && length != answer->missing))
        return garbled(answer, "invalid or conflicting Content-Length");
    answer->has_length = true;
    answer->missing = length;
    return HANDOFF_HTTP_MORE;
}

static enum handoff_http_progress note_coding(struct handoff_http_answer *answer,
                                              struct base_span value)
{
    if (equals_word(value, "identity")) /* an old name for no coding */
        return HANDOFF_HTTP_MORE;
    if (answer->chunked || !equals_word(value, "chunked"))
        return garbled(answer, "unexpected Transfer-Encoding");
    answer->chunked = true;
    return HANDOFF_HTTP_MORE;
}

static void note_connection(struct handoff_http_answer *answer, struct base_span value)
{
    answer->closes |= list_has_word(value, "close");
    answer->keep |= list_has_word(value, "keep-alive"); /* HTTP/1.0 must ask for it */
}

static enum handoff_http_progress note_header(struct handoff_http_answer *answer,
                                              struct base_span name, struct base_span value)
{
    if (equals_word(name, "Content-Length"))
        return note_length(answer, value);
    if (equals_word(name, "Transfer-Encoding"))
        return note_coding(answer, value);
    if (equals_word(name, "Handoff-Ack")) {
        keep_text(answer->ack, sizeof answer->ack, value);
        answer->has_ack = true;
    } else if (equals_word(name, "Connection")) {
        note_connection(answer, value);
    } else if (equals_word(name, "Retry-After")) {
        keep_text(answer->retry_after, sizeof answer->retry_after, value);
    }
    return HANDOFF_HTTP_MORE;
}

/* The head is complete: decides how the end of the body is found. */
static enum handoff_http_progress decide_body_framing(struct handoff_http_answer *answer)
{
    if (answer->status == 101)
        return garbled(answer, "unexpected switch to another protocol");
    if (answer->status < 200) { /* interim: the final answer follows */
        answer->part = HANDOFF_HTTP_STATUS;
        answer->has_length = answer->chunked = answer->has_ack = false;
        answer->missing = 0;
        answer->ack[0] = answer->retry_after[0] = '\0';
        return HANDOFF_HTTP_MORE;
    }
    answer->keep &= !answer->closes;
    if (answer->status == 204 || answer->status == 304) { /* no body, whatever its headers say */
        answer->keep &= !answer->chunked && answer->missing == 0;
        return HANDOFF_HTTP_WHOLE;
    }
    if (answer->chunked) {
        answer->keep &= !answer->has_length && !answer->is_1_0; /* RFC 9112 6.1: smuggling */
        answer->part = HANDOFF_HTTP_CHUNK_SIZE;
        return HANDOFF_HTTP_MORE;
    }
    if (!answer->has_length) {
        answer->keep = false;
        answer->part = HANDOFF_HTTP_BODY_TO_THE_END;
        return HANDOFF_HTTP_MORE;
    }
    if (answer->missing > answer->body.limit)
        return broken(answer, HANDOFF_FAULT_BODY_SIZE);
    answer->part = HANDOFF_HTTP_BODY;
    return answer->missing == 0 ? HANDOFF_HTTP_WHOLE : HANDOFF_HTTP_MORE;
}

/* A header, a trailer, or the empty line after them. A trailer says nothing that counts: whoever
 * passes an answer on may drop it (RFC 9110 6.5.1), and an acknowledgement is never a matter of
 * luck.
 */
static enum handoff_http_progress read_header_line(struct handoff_http_answer *answer,
                                                   struct base_span line)
{
    const bool is_trailer = answer->part == HANDOFF_HTTP_TRAILERS;
    if (line.size == 0)
        return is_trailer ? HANDOFF_HTTP_WHOLE : decide_body_framing(answer);
    if (is_space_or_tab(line.data[0])) /* obsolete line folding, never of a header we use */
        return HANDOFF_HTTP_MORE;
    const char *colon = memchr(line.data, ':', line.size);
    if (!colon)
        return garbled(answer, "header without a colon");
    if (memchr(line.data, '\0', line.size)) /* RFC 9110 5.5; would truncate copied values */
        return garbled(answer, "NUL byte in a header");
    size_t size = (size_t)(colon - line.data);
    struct base_span name = base_span(line.data, size);
    struct base_span value = without_blanks(base_span(colon + 1, line.size - size - 1));
    return is_trailer ? HANDOFF_HTTP_MORE : note_header(answer, name, value);
}

/* ---- the body ------------------------------------------------------------------------------- */

static enum handoff_http_progress read_chunk_size(struct handoff_http_answer *answer,
                                                  struct base_span line)
{
    const char *extension = memchr(line.data, ';', line.size);
    if (extension)
        line.size = (size_t)(extension - line.data);
    if (!parse_number(without_blanks(line), 16, &answer->missing))
        return garbled(answer, "invalid chunk size");
    if (answer->missing > answer->body.limit)
        return broken(answer, HANDOFF_FAULT_BODY_SIZE);
    answer->part = answer->missing > 0 ? HANDOFF_HTTP_CHUNK : HANDOFF_HTTP_TRAILERS;
    return HANDOFF_HTTP_MORE;
}

static enum handoff_http_progress read_chunk_end(struct handoff_http_answer *answer,
                                                 struct base_span line)
{
    if (line.size != 0)
        return garbled(answer, "chunk longer than its declared size");
    answer->part = HANDOFF_HTTP_CHUNK_SIZE;
    return HANDOFF_HTTP_MORE;
}

static enum handoff_http_progress append_body(struct handoff_http_answer *answer, const char *bytes,
                                              size_t size)
{
    BASE_CHECK(answer->part == HANDOFF_HTTP_BODY_TO_THE_END || size <= answer->missing);
    base_buffer_append(&answer->body, bytes, size);
    if (answer->body.failed) /* or memory ran out */
        return broken(answer, HANDOFF_FAULT_BODY_SIZE);
    if (answer->part == HANDOFF_HTTP_BODY_TO_THE_END)
        return HANDOFF_HTTP_MORE;
    answer->missing -= size;
    if (answer->missing > 0)
        return HANDOFF_HTTP_MORE;
    if (answer->part == HANDOFF_HTTP_BODY)
        return HANDOFF_HTTP_WHOLE;
    answer->part = HANDOFF_HTTP_CHUNK_END;
    return HANDOFF_HTTP_MORE;
}

/* ---- pieces --------------------------------------------------------------------------------- */

static enum handoff_http_progress read_complete_line(struct handoff_http_answer *answer,
                                                     struct base_span line)
{
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    switch (answer->part) {
    case HANDOFF_HTTP_STATUS:
        return read_status(answer, line);
    case HANDOFF_HTTP_HEADERS:
    case HANDOFF_HTTP_TRAILERS:
        return read_header_line(answer, line);
    case HANDOFF_HTTP_CHUNK_SIZE:
        return read_chunk_size(answer, line);
    default:
        return read_chunk_end(answer, line);
    }
}

static enum handoff_http_progress take_line(struct handoff_http_answer *answer, const char *bytes,
                                            size_t size, size_t *used)
{
    const char *end = memchr(bytes, '\n', size);
    *used = end ? (size_t)(end - bytes) + 1 : size;
    answer->head_size += *used;
    if (answer->head_size > HANDOFF_HTTP_HEAD_MAX)
        return broken(answer, HANDOFF_FAULT_HEAD_SIZE);
    struct base_span line = base_span(bytes, end ? *used - 1 : size);
    if (end && answer->line.size == 0)
        return read_complete_line(answer, line);
    base_buffer_append(&answer->line, line.data, line.size);
    if (answer->line.failed)
        return broken(answer, HANDOFF_FAULT_HEAD_SIZE);
    if (!end)
        return HANDOFF_HTTP_MORE;
    enum handoff_http_progress progress =
        read_complete_line(answer, base_buffer_span(&answer->line));
    base_buffer_clear(&answer->line);
    return progress;
}

static enum handoff_http_progress take_part(struct handoff_http_answer *answer, const char *bytes,
                                            size_t size, size_t *used)
{
    switch (answer->part) {
    case HANDOFF_HTTP_BODY:
    case HANDOFF_HTTP_CHUNK:
        *used = size < answer->missing ? size : (size_t)answer->missing;
        return append_body(answer, bytes, *used);
    case HANDOFF_HTTP_BODY_TO_THE_END:
        *used = size;
        return append_body(answer, bytes, size);
    default:
        return take_line(answer, bytes, size, used);
    }
}

enum handoff_http_progress handoff_http_answer_read(struct handoff_http_answer *answer,
                                                    const char *bytes, size_t size, size_t *used)
{
    enum handoff_http_progress progress = HANDOFF_HTTP_MORE;
    *used = 0;
    answer->begun |= size > 0;
    while (progress == HANDOFF_HTTP_MORE && *used < size) {
        size_t some;
        progress = take_part(answer, bytes + *used, size - *used, &some);
        *used += some;
    }
    return progress;
}

enum handoff_http_progress handoff_http_answer_end(struct handoff_http_answer *answer)
{
    if (answer->part == HANDOFF_HTTP_BODY_TO_THE_END)
        return HANDOFF_HTTP_WHOLE;
    return broken(answer, answer->begun ? HANDOFF_FAULT_BROKE_OFF : HANDOFF_FAULT_CLOSED);
}
