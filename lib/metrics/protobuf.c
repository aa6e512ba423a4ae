/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.prometheus.client.MetricFamily messages, each preceded by its length, with histograms in the
 * classic and the native form.
 *
 * Hand-written: the wire format needs varints, fixed 64-bit numbers and lengths, a page of code. A
 * generated encoder would first build a tree of heap objects for each scrape. A message's length
 * precedes it but is known only after it, so a message is written after room for a one-byte length
 * and moved by the few bytes that a larger length needs. Families grow to megabytes, over many
 * steps: a family grows in the scrape's own buffer, and goes out after its length when it is whole.
 * The thread that scrapes.
 */
#include <math.h>
#include <string.h>

#include "lib/metrics/escape.h"
#include "lib/metrics/native.h"
#include "lib/metrics/scrape.h"

/* Field numbers, by message. */
enum { FAMILY_NAME = 1, FAMILY_HELP = 2, FAMILY_TYPE = 3, FAMILY_METRIC = 4, FAMILY_UNIT = 5 };
enum {
    METRIC_LABEL = 1,
    METRIC_GAUGE_FIELD = 2,
    METRIC_COUNTER_FIELD = 3,
    METRIC_HISTOGRAM_FIELD = 7
};
enum { LABEL_NAME = 1, LABEL_VALUE = 2 };
enum { GAUGE_VALUE = 1 };
enum { COUNTER_VALUE = 1, COUNTER_EXEMPLAR = 2, COUNTER_START = 3 };
enum {
    HISTOGRAM_COUNT = 1,
    HISTOGRAM_SUM = 2,
    HISTOGRAM_BUCKET = 3,
    HISTOGRAM_SCHEMA = 5,
    HISTOGRAM_ZERO_THRESHOLD = 6,
    HISTOGRAM_ZERO_COUNT = 7,
    HISTOGRAM_POSITIVE_SPAN = 12,
    HISTOGRAM_POSITIVE_DELTA = 13,
    HISTOGRAM_START = 15,
    HISTOGRAM_EXEMPLARS = 16,
};
enum { BUCKET_COUNT = 1, BUCKET_BOUND = 2, BUCKET_EXEMPLAR = 3 };
enum { SPAN_OFFSET = 1, SPAN_LENGTH = 2 };
enum { EXEMPLAR_LABEL = 1, EXEMPLAR_VALUE = 2, EXEMPLAR_TIMESTAMP = 3 };
enum { TIMESTAMP_SECONDS = 1, TIMESTAMP_NANOS = 2 };

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

enum {
    VARINT_MAX = 10,  /* bytes of 64 bits in groups of 7 */
    SPAN_GAP_MAX = 2, /* up to this many empty buckets cost less as zeros than a new span */
};

/* ---- wire format ---------------------------------------------------------------------------- */

static char *write_varint(char *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *out++ = (char)(value | 0x80);
    *out++ = (char)value;
    return out;
}

static uint64_t zigzag(int64_t value)
{
    uint64_t twice = (uint64_t)value << 1;
    return value < 0 ? ~twice : twice;
}

static void put_varint(struct metric_buffer *out, uint64_t value)
{
    char *room = metric_buffer_room(out, VARINT_MAX);
    if (room)
        metric_buffer_take(out, write_varint(room, value));
}

static void put_tag(struct metric_buffer *out, unsigned field, enum wire_type type)
{
    put_varint(out, field << 3 | type);
}

static void put_number(struct metric_buffer *out, unsigned field, uint64_t value)
{
    put_tag(out, field, WIRE_VARINT);
    put_varint(out, value);
}

static void put_double(struct metric_buffer *out, unsigned field, double value)
{
    put_tag(out, field, WIRE_FIXED64);
    uint64_t bits = metric_bits_of(value);
    char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(bits >> (8 * i));
    metric_buffer_append(out, bytes, sizeof bytes);
}

/* Begins a length-delimited field; returns the place for close_message. */
static size_t open_message(struct metric_buffer *out, unsigned field)
{
    put_tag(out, field, WIRE_BYTES);
    size_t at = out->length;
    metric_buffer_append(out, "", 1); /* room for the length */
    return at;
}

static void close_message(struct metric_buffer *out, size_t at)
{
    if (out->failed)
        return;
    BASE_CHECK(at < out->length); /* else the length would wrap */
    size_t length = out->length - at - 1;
    char prefix[VARINT_MAX];
    size_t size = (size_t)(write_varint(prefix, length) - prefix);
    if (size > 1) {
        if (metric_buffer_room(out, size - 1) == NULL)
            return;
        memmove(out->data + at + size, out->data + at + 1, length);
        out->length += size - 1;
    }
    memcpy(out->data + at, prefix, size);
}

/* Text from outside: bytes that are not UTF-8 would make the message invalid. */
static void put_cleaned_text(struct metric_buffer *out, unsigned field, const char *text,
                             size_t length)
{
    size_t at = open_message(out, field);
    char *room = metric_buffer_room(out, length * METRIC_ESCAPE_GROWTH);
    if (room)
        metric_buffer_take(out, metric_escape(room, text, length, METRIC_BARE));
    close_message(out, at);
}

/* Text that is valid already. */
static void put_bytes(struct metric_buffer *out, unsigned field, const char *data, size_t length)
{
    put_tag(out, field, WIRE_BYTES);
    put_varint(out, length);
    metric_buffer_append(out, data, length);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void put_timestamp(struct metric_buffer *out, unsigned field, int64_t milliseconds)
{
    size_t at = open_message(out, field);
    put_number(out, TIMESTAMP_SECONDS, (uint64_t)(milliseconds / 1000));
    put_number(out, TIMESTAMP_NANOS, (uint64_t)(milliseconds % 1000) * 1000000);
    close_message(out, at);
}

/* Nothing, if it is not known. */
static void put_start(struct metric_buffer *out, unsigned field, const struct metric_series *series)
{
    const int64_t start_ms = metric_series_start(series);
    if (start_ms != METRIC_START_UNKNOWN)
        put_timestamp(out, field, start_ms);
}

static void put_label(struct metric_buffer *out, unsigned field, const char *name,
                      const char *value)
{
    size_t at = open_message(out, field);
    put_bytes(out, LABEL_NAME, name, strlen(name));
    put_cleaned_text(out, LABEL_VALUE, value, strlen(value));
    close_message(out, at);
}

static void put_exemplar(struct metric_buffer *out, unsigned field,
                         const struct metric_exemplar_slot *slot)
{
    struct metric_exemplar_copy copy;
    if (!metric_exemplar_load(slot, &copy))
        return;
    size_t at = open_message(out, field);
    const char *name = copy.text;
    for (size_t pair = 0; pair < copy.pairs; pair++) {
        const char *value = name + strlen(name) + 1;
        put_label(out, EXEMPLAR_LABEL, name, value);
        name = value + strlen(value) + 1;
    }
    put_double(out, EXEMPLAR_VALUE, copy.value);
    put_timestamp(out, EXEMPLAR_TIMESTAMP, copy.at_ms);
    close_message(out, at);
}

/* ---- histograms ----------------------------------------------------------------------------- */

static void put_classic_bucket(struct metric_buffer *out, const struct metric_series *series,
                               size_t bucket, double bound, uint64_t cumulative)
{
    size_t at = open_message(out, HISTOGRAM_BUCKET);
    put_number(out, BUCKET_COUNT, cumulative);
    put_double(out, BUCKET_BOUND, bound);
    if (series->exemplars)
        put_exemplar(out, BUCKET_EXEMPLAR, &series->exemplars[bucket]);
    close_message(out, at);
}

/* The bucket of +Inf repeats the count, so it is written only if it may carry an exemplar or is the
 * only bucket. */
static void put_classic(struct metric_scrape *scrape, const struct metric_series *series,
                        struct metric_buffer *out)
{
    const struct metric_grid *grid = series->grid;
    uint64_t cumulative = 0;
    size_t cell = 0;
    for (size_t bucket = 0; bucket < grid->nclassic; bucket++) {
        for (; grid->classic_of[cell] == bucket; cell++)
            cumulative += scrape->cells[cell];
        put_classic_bucket(out, series, bucket, grid->classic[bucket], cumulative);
    }
    if (series->exemplars || grid->nclassic == 0)
        put_classic_bucket(out, series, grid->nclassic, INFINITY, scrape->count);
}

static size_t gap_before(const struct metric_native_form *form, size_t i)
{
    return (size_t)(form->buckets[i].index - form->buckets[i - 1].index - 1);
}

static void put_span(struct metric_buffer *out, int64_t offset, uint64_t length)
{
    size_t at = open_message(out, HISTOGRAM_POSITIVE_SPAN);
    put_number(out, SPAN_OFFSET, zigzag(offset));
    put_number(out, SPAN_LENGTH, length);
    close_message(out, at);
}

/* Without any populated bucket, an empty span: it marks the histogram as native. */
static void put_spans(struct metric_buffer *out, const struct metric_native_form *form)
{
    int64_t offset = form->nbuckets > 0 ? form->buckets[0].index : 0;
    uint64_t length = form->nbuckets > 0 ? 1 : 0;
    for (size_t i = 1; i < form->nbuckets; i++) {
        size_t gap = gap_before(form, i);
        if (gap <= SPAN_GAP_MAX) {
            length += gap + 1;
            continue;
        }
        put_span(out, offset, length);
        offset = (int64_t)gap;
        length = 1;
    }
    put_span(out, offset, length);
}

static void put_deltas(struct metric_buffer *out, const struct metric_native_form *form)
{
    if (form->nbuckets == 0)
        return;
    size_t at = open_message(out, HISTOGRAM_POSITIVE_DELTA);
    uint64_t before = 0;
    for (size_t i = 0; i < form->nbuckets; i++) {
        size_t gap = i > 0 ? gap_before(form, i) : 0;
        for (size_t empty = 0; gap <= SPAN_GAP_MAX && empty < gap; empty++) {
            put_varint(out, zigzag((int64_t)(0 - before)));
            before = 0;
        }
        put_varint(out, zigzag((int64_t)(form->buckets[i].count - before)));
        before = form->buckets[i].count;
    }
    close_message(out, at);
}

/* Where there are classic buckets, these have the exemplars, and Prometheus takes them from there
 * for the native form too. From a list here Prometheus 2.51 to 2.54 skips as many as it has read
 * from the series before. */
static void put_native_exemplars(struct metric_buffer *out, const struct metric_series *series)
{
    if (series->exemplars != NULL && series->grid->nclassic == 0)
        put_exemplar(out, HISTOGRAM_EXEMPLARS, &series->exemplars[0]);
}

static void put_native(struct metric_scrape *scrape, const struct metric_series *series,
                       struct metric_buffer *out)
{
    struct metric_native_form form = metric_native_form(scrape, series->grid);
    put_number(out, HISTOGRAM_SCHEMA, zigzag(form.schema));
    put_double(out, HISTOGRAM_ZERO_THRESHOLD, form.zero_threshold);
    put_number(out, HISTOGRAM_ZERO_COUNT, form.zero_count);
    put_spans(out, &form);
    put_deltas(out, &form);
    put_native_exemplars(out, series);
}

static void put_histogram(struct metric_scrape *scrape, const struct metric_series *series,
                          struct metric_buffer *out)
{
    metric_snapshot_histogram(scrape, series);
    size_t at = open_message(out, METRIC_HISTOGRAM_FIELD);
    put_number(out, HISTOGRAM_COUNT, scrape->count);
    put_double(out, HISTOGRAM_SUM, scrape->sum);
    if (series->grid->nclassic > 0 || !series->grid->native)
        put_classic(scrape, series, out);
    if (series->grid->native)
        put_native(scrape, series, out);
    put_start(out, HISTOGRAM_START, series);
    close_message(out, at);
}

/* ---- the encoder ---------------------------------------------------------------------------- */

static void put_counter(const struct metric_series *series, struct metric_buffer *out)
{
    size_t at = open_message(out, METRIC_COUNTER_FIELD);
    put_double(out, COUNTER_VALUE, metric_snapshot_counter(series).value);
    if (series->exemplars)
        put_exemplar(out, COUNTER_EXEMPLAR, series->exemplars);
    put_start(out, COUNTER_START, series);
    close_message(out, at);
}

static void put_gauge(const struct metric_series *series, struct metric_buffer *out)
{
    size_t at = open_message(out, METRIC_GAUGE_FIELD);
    put_double(out, GAUGE_VALUE, metric_snapshot_gauge(series));
    close_message(out, at);
}

static void protobuf_series(struct metric_scrape *scrape, const struct metric_series *series,
                            struct metric_buffer *unused)
{
    (void)unused;
    struct metric_buffer *out = &scrape->message;
    size_t at = open_message(out, FAMILY_METRIC);
    const char *value = series->key;
    for (size_t i = 0; i < series->family->nlabels; i++) {
        put_label(out, METRIC_LABEL, series->family->labels[i], value);
        value += strlen(value) + 1;
    }
    switch (series->family->type) {
    case METRIC_COUNTER:
        put_counter(series, out);
        break;
    case METRIC_GAUGE:
        put_gauge(series, out);
        break;
    case METRIC_HISTOGRAM:
        put_histogram(scrape, series, out);
        break;
    }
    close_message(out, at);
}

static void protobuf_begin_family(struct metric_scrape *scrape, struct metric_buffer *unused)
{
    (void)unused;
    static const unsigned types[] = {
        [METRIC_COUNTER] = 0, [METRIC_GAUGE] = 1, [METRIC_HISTOGRAM] = 4};
    const struct metric_family *family = scrape->family;
    struct metric_buffer *out = &scrape->message;
    put_bytes(out, FAMILY_NAME, family->name, strlen(family->name));
    put_cleaned_text(out, FAMILY_HELP, family->help, strlen(family->help));
    put_number(out, FAMILY_TYPE, types[family->type]);
    if (*family->unit != '\0')
        put_bytes(out, FAMILY_UNIT, family->unit, strlen(family->unit));
}

static void protobuf_end_family(struct metric_scrape *scrape, struct metric_buffer *out)
{
    put_varint(out, scrape->message.length);
    metric_buffer_append(out, scrape->message.data, scrape->message.length);
    scrape->message.length = 0;
}

static void protobuf_end(struct metric_buffer *out)
{
    (void)out;
}

const struct metric_encoder metric_encoder_protobuf = {.family_begin = protobuf_begin_family,
                                                       .series = protobuf_series,
                                                       .family_end = protobuf_end_family,
                                                       .end = protobuf_end};
