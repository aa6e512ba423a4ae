/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of protobuf messages for tests, written from the wire format's description and the field
 * numbers of io.prometheus.client, not from the encoder. Malformed input fails the test. */
#ifndef METRIC_DECODER_H
#define METRIC_DECODER_H

#include "tests/unit/metric_support.h"

struct message {
    const unsigned char *at;
    size_t length;
};

struct field {
    unsigned number;
    unsigned wire;
    uint64_t varint;      /* wire type 0 */
    double fixed64;       /* wire type 1 */
    struct message bytes; /* wire type 2 */
};

static inline uint64_t read_varint(struct message *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        assert_true(in->length > 0);
        unsigned char byte = *in->at++;
        in->length--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
    fail_msg("varint of more than 10 bytes");
    return 0;
}

static inline struct message read_bytes(struct message *in)
{
    uint64_t length = read_varint(in);
    assert_true(length <= in->length);
    struct message bytes = {.at = in->at, .length = (size_t)length};
    in->at += length;
    in->length -= (size_t)length;
    return bytes;
}

static inline double read_fixed64(struct message *in)
{
    assert_true(in->length >= 8);
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits |= (uint64_t)in->at[i] << (8 * i);
    in->at += 8;
    in->length -= 8;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline bool read_field(struct message *in, struct field *field)
{
    if (in->length == 0)
        return false;
    uint64_t tag = read_varint(in);
    *field = (struct field){.number = (unsigned)(tag >> 3), .wire = (unsigned)(tag & 7)};
    assert_true(field->number > 0);
    if (field->wire == 0)
        field->varint = read_varint(in);
    else if (field->wire == 1)
        field->fixed64 = read_fixed64(in);
    else if (field->wire == 2)
        field->bytes = read_bytes(in);
    else
        fail_msg("wire type %u", field->wire);
    return true;
}

/* The nth field (from 0) of that number; false when there are fewer. */
static inline bool has_field(struct message in, unsigned number, size_t nth, struct field *field)
{
    while (read_field(&in, field)) {
        if (field->number == number && nth-- == 0)
            return true;
    }
    return false;
}

static inline size_t count_fields(struct message in, unsigned number)
{
    struct field field;
    size_t count = 0;
    while (read_field(&in, &field))
        count += field.number == number;
    return count;
}

static inline struct field get_field(struct message in, unsigned number, unsigned wire)
{
    struct field field = {0};
    if (!has_field(in, number, 0, &field))
        fail_msg("no field %u", number);
    assert_int_equal(field.wire, wire);
    assert_int_equal(count_fields(in, number), 1);
    return field;
}

static inline struct message get_message(struct message in, unsigned number)
{
    return get_field(in, number, 2).bytes;
}

static inline struct message nth_message(struct message in, unsigned number, size_t nth)
{
    struct field field = {0};
    if (!has_field(in, number, nth, &field))
        fail_msg("no field %u number %zu", number, nth);
    assert_int_equal(field.wire, 2);
    return field.bytes;
}

static inline void assert_bytes(struct message bytes, const char *text)
{
    assert_int_equal(bytes.length, strlen(text));
    assert_memory_equal(bytes.at, text, bytes.length);
}

static inline int64_t unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* The MetricFamily of that name in a delimited stream; length 0 when there is none. */
static inline struct message find_family(const struct metric_buffer *scrape, const char *name)
{
    struct message in = {.at = (const unsigned char *)scrape->data, .length = scrape->length};
    while (in.length > 0) {
        struct message family = read_bytes(&in);
        struct message called = get_message(family, 1);
        if (called.length == strlen(name) && memcmp(called.at, name, called.length) == 0)
            return family;
    }
    return (struct message){0};
}

enum { DECODED_MAX = 20000 };

/* A native histogram with its spans and deltas resolved into (index, population). */
struct native {
    int schema;
    double zero_threshold;
    uint64_t zero_count;
    uint64_t sample_count;
    double sample_sum;
    size_t nspans;
    size_t nbuckets; /* with the empty ones inside spans */
    size_t npopulated;
    int index[DECODED_MAX];
    int64_t count[DECODED_MAX];
    uint64_t total; /* of all buckets, that of zero too */
};

static inline void decode_buckets(struct message histogram, struct native *native)
{
    struct field field;
    struct message deltas = {0};
    if (has_field(histogram, 13, 0, &field))
        deltas = get_message(histogram, 13); /* packed */
    int64_t population = 0, index = 0;
    for (size_t span = 0; span < native->nspans; span++) {
        struct message at = nth_message(histogram, 12, span);
        int64_t offset = unzigzag(get_field(at, 1, 0).varint);
        uint64_t length = get_field(at, 2, 0).varint;
        assert_true(span == 0 || offset >= 0);
        index += offset;
        for (; length > 0; length--, index++) {
            population += unzigzag(read_varint(&deltas));
            assert_true(population >= 0);
            assert_true(native->nbuckets < DECODED_MAX);
            native->index[native->nbuckets] = (int)index;
            native->count[native->nbuckets++] = population;
            native->npopulated += population > 0;
            native->total += (uint64_t)population;
        }
    }
    assert_int_equal(deltas.length, 0); /* as many deltas as the spans say */
}

static inline void decode_native(struct message histogram, struct native *native)
{
    *native = (struct native){0};
    native->schema = (int)unzigzag(get_field(histogram, 5, 0).varint);
    native->zero_threshold = get_field(histogram, 6, 1).fixed64;
    native->zero_count = get_field(histogram, 7, 0).varint;
    native->sample_count = get_field(histogram, 1, 0).varint;
    native->sample_sum = get_field(histogram, 2, 1).fixed64;
    native->nspans = count_fields(histogram, 12);
    native->total = native->zero_count;
    decode_buckets(histogram, native);
}

#endif
