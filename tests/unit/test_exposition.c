/* SPDX-License-Identifier: Apache-2.0 */
/* A scrape as a stream: whatever its format, no read makes or compresses more than one step. */
#include "tests/unit/metric_support.h"

#include <zlib.h>

#include "lib/exposition/stream.h"

enum {
    SERIES = 20000,
    STEP = 64 << 10,
    ONE_SERIES = 4 << 10, /* more than the longest of them */
    ROOM = 32 << 10,      /* what libmicrohttpd asks for at a time */
};

static const struct metric_desc histogram_desc = {
    .name = "large_seconds",
    .help = "One family of megabytes.",
    .type = METRIC_HISTOGRAM,
    .labels = {"target_agent"},
    .bounds = (const double[]){0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1},
    .nbounds = 10,
};

static struct metric_registry *large_registry(void)
{
    struct metric_registry *registry = registry_with(1, SERIES + 1);
    struct metric_family *family = must_register(registry, &histogram_desc);
    for (int i = 0; i < SERIES; i++) {
        char value[16];
        snprintf(value, sizeof value, "agent-%d", i);
        metric_observe(metric_resolve(family, VALUES(value)), 0.5);
    }
    return registry;
}

/* All that is read, and how many reads it took. */
struct copy {
    struct metric_buffer bytes;
    size_t reads, later;
};

static void append(struct metric_buffer *buffer, const char *bytes, size_t length)
{
    if (buffer->capacity - buffer->length < length) {
        buffer->capacity = 2 * (buffer->capacity + length);
        buffer->data = realloc(buffer->data, buffer->capacity);
        assert_non_null(buffer->data);
    }
    memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
}

static struct copy read_stream(struct metric_registry *registry, enum metric_format format,
                               bool gzip)
{
    static char bytes[ROOM];
    struct copy copy = {0};
    struct exposition_stream stream;
    const struct metric_scrape_options options = {.format = format};
    struct metric_scrape *scrape = metric_scrape_begin(registry, &options);
    assert_non_null(scrape);
    assert_true(exposition_stream_open(&stream, scrape, gzip));
    ssize_t length;
    while ((length = exposition_stream_read(&stream, bytes, sizeof bytes)) != EXPOSITION_END) {
        assert_int_not_equal(length, EXPOSITION_FAILED);
        copy.reads++;
        copy.later += length == EXPOSITION_LATER;
        if (length > 0)
            append(&copy.bytes, bytes, (size_t)length);
    }
    assert_true(stream.ended);
    assert_int_equal(exposition_stream_read(&stream, bytes, sizeof bytes), EXPOSITION_END);
    exposition_stream_close(&stream);
    metric_scrape_end(&scrape);
    return copy;
}

static void inflate_all(struct metric_buffer *bytes, size_t size)
{
    char *text = malloc(size);
    assert_non_null(text);
    z_stream stream = {.next_in = (Bytef *)bytes->data,
                       .avail_in = (uInt)bytes->length,
                       .next_out = (Bytef *)text,
                       .avail_out = (uInt)size};
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK); /* +16: nothing but gzip */
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.total_out, size);
    inflateEnd(&stream);
    metric_buffer_free(bytes);
    *bytes = (struct metric_buffer){.data = text, .length = size, .capacity = size};
}

/* What an earlier scrape had differs in nothing, since nothing is counted meanwhile. */
static void check_stream(struct metric_registry *registry, enum metric_format format, bool gzip)
{
    const struct metric_scrape_options options = {.format = format};
    struct metric_buffer whole = scrape_steps(registry, &options, 1);
    struct copy copy = read_stream(registry, format, gzip);
    assert_true(whole.length > (size_t)10 * STEP);
    assert_true(copy.reads >= whole.length / (STEP + ONE_SERIES));
    if (gzip)
        inflate_all(&copy.bytes, whole.length);
    assert_int_equal(copy.bytes.length, whole.length);
    assert_memory_equal(copy.bytes.data, whole.data, whole.length);
    if (gzip || format == METRIC_PROTOBUF) /* steps whose bytes are not ready to be sent */
        assert_true(copy.later > 0);
    else
        assert_int_equal(copy.later, 0);
    metric_buffer_free(&copy.bytes);
    metric_buffer_free(&whole);
}

static void test_a_read_makes_one_step_at_most(void **state)
{
    (void)state;
    struct metric_registry *registry = large_registry();
    for (int format = METRIC_TEXT; format <= METRIC_OPENMETRICS_2; format++) {
        check_stream(registry, (enum metric_format)format, false);
        check_stream(registry, (enum metric_format)format, true);
    }
    metric_registry_free(&registry);
}

/* One message of megabytes is made in as many steps as the text of the same series. */
static void test_a_step_ends_inside_a_message(void **state)
{
    (void)state;
    struct metric_registry *registry = large_registry();
    const struct metric_scrape_options options = {.format = METRIC_PROTOBUF};
    struct metric_scrape *scrape = metric_scrape_begin(registry, &options);
    struct metric_buffer out = {0};
    size_t steps = 0;
    size_t without = 0;
    while (metric_scrape_step(scrape, &out, STEP)) {
        steps++;
        without += out.length == 0;
    }
    assert_true(steps >= out.length / (STEP + ONE_SERIES));
    assert_true(without + 1 >= steps);
    metric_scrape_end(&scrape);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_makes_one_step_at_most),
        cmocka_unit_test(test_a_step_ends_inside_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
