/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a family that are the same in every scrape, made once at registration by the
 * registering thread.
 */
#include <math.h>
#include <string.h>

#include "lib/metrics/escape.h"
#include "lib/metrics/family.h"
#include "lib/metrics/names.h"
#include "lib/metrics/number.h"

static const char *type_name(enum metric_type type)
{
    static const char *const names[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};
    return names[type];
}

static struct metric_piece piece_begin(const struct metric_buffer *bytes)
{
    return (struct metric_piece){.at = (uint32_t)bytes->length};
}

static void piece_end(const struct metric_buffer *bytes, struct metric_piece *piece)
{
    piece->length = (uint32_t)bytes->length - piece->at;
}

static struct metric_piece sample_name(struct metric_buffer *bytes, const char *name, size_t length,
                                       const char *suffix)
{
    struct metric_piece piece = piece_begin(bytes);
    metric_buffer_append(bytes, name, length);
    metric_buffer_append_text(bytes, suffix);
    piece_end(bytes, &piece);
    return piece;
}

static void append_help(struct metric_buffer *bytes, const char *help, enum metric_quoting quoting)
{
    size_t length = strlen(help);
    char *room = metric_buffer_room(bytes, length * METRIC_ESCAPE_GROWTH);
    if (room)
        metric_buffer_take(bytes, metric_escape(room, help, length, quoting));
}

static void append_meta(struct metric_buffer *bytes, const char *keyword, const char *name,
                        size_t length)
{
    metric_buffer_append_text(bytes, keyword);
    metric_buffer_append(bytes, name, length);
    metric_buffer_append_text(bytes, " ");
}

static struct metric_piece text_head(struct metric_buffer *bytes,
                                     const struct metric_family *family)
{
    struct metric_piece piece = piece_begin(bytes);
    size_t length = strlen(family->name);
    append_meta(bytes, "# HELP ", family->name, length);
    append_help(bytes, family->help, METRIC_UNQUOTED);
    append_meta(bytes, "\n# TYPE ", family->name, length);
    metric_buffer_append_text(bytes, type_name(family->type));
    metric_buffer_append_text(bytes, "\n");
    piece_end(bytes, &piece);
    return piece;
}

/* `length`: of the family's name, which 1.0 cuts at _total and 2.0 does not. */
static struct metric_piece openmetrics_head(struct metric_buffer *bytes,
                                            const struct metric_family *family, size_t length,
                                            const char *type)
{
    struct metric_piece piece = piece_begin(bytes);
    append_meta(bytes, "# TYPE ", family->name, length);
    metric_buffer_append_text(bytes, type);
    if (*family->unit != '\0') {
        append_meta(bytes, "\n# UNIT ", family->name, length);
        metric_buffer_append_text(bytes, family->unit);
    }
    append_meta(bytes, "\n# HELP ", family->name, length);
    append_help(bytes, family->help, METRIC_QUOTED);
    metric_buffer_append_text(bytes, "\n");
    piece_end(bytes, &piece);
    return piece;
}

static struct metric_piece bucket_label(struct metric_buffer *bytes, bool follows, double bound,
                                        char *(*print)(char *, double))
{
    struct metric_piece piece = piece_begin(bytes);
    metric_buffer_append_text(bytes, follows ? ",le=\"" : "{le=\"");
    char *room = metric_buffer_room(bytes, METRIC_NUMBER_MAX);
    if (room)
        metric_buffer_take(bytes, print(room, bound));
    metric_buffer_append_text(bytes, "\"} ");
    piece_end(bytes, &piece);
    return piece;
}

static void build_buckets(struct metric_texts *texts, const struct metric_family *family)
{
    const struct metric_grid *grid = family->grid;
    bool follows = family->nlabels > 0;
    for (size_t i = 0; i <= grid->nclassic; i++) {
        double bound = i < grid->nclassic ? grid->classic[i] : INFINITY;
        texts->text_le[i] = bucket_label(&texts->bytes, follows, bound, metric_number_bound);
        texts->openmetrics_le[i] =
            bucket_label(&texts->bytes, follows, bound, metric_number_canonical);
    }
}

bool metric_texts_build(struct metric_texts *texts, const struct metric_family *family)
{
    struct metric_buffer *bytes = &texts->bytes;
    size_t length = strlen(family->name);
    size_t base = metric_base_length(family->name, family->type);
    texts->text_head = text_head(bytes, family);
    texts->unknown = family->type == METRIC_COUNTER && base == length;
    texts->openmetrics_head =
        openmetrics_head(bytes, family, base, texts->unknown ? "unknown" : type_name(family->type));
    texts->openmetrics_2_head = openmetrics_head(bytes, family, length, type_name(family->type));
    texts->name = sample_name(bytes, family->name, length, "");
    texts->created = sample_name(bytes, family->name, base, "_created");
    if (family->type == METRIC_HISTOGRAM) {
        texts->bucket = sample_name(bytes, family->name, length, "_bucket");
        texts->sum = sample_name(bytes, family->name, length, "_sum");
        texts->count = sample_name(bytes, family->name, length, "_count");
        build_buckets(texts, family);
    }
    return !bytes->failed;
}
