/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of terms: written, and walked through. A list is only read once its segment was checked, so
 * what it says of itself holds; what is used as an index is bounded all the same. Pure; any thread.
 */
#include "lib/search/postings.h"

#include <string.h>

#include "lib/base/check.h"

/* What a document's number needs at most, and a count less one. */
enum { DOCUMENT_BITS_MAX = 24, COUNT_BITS_MAX = 7 };

enum { STRIDE = 8 }; /* documents that a seek passes at once */

_Static_assert(SEARCH_DOCUMENTS_MAX == 1 << DOCUMENT_BITS_MAX, "any gap fits");
_Static_assert((uint64_t)SEARCH_DOCUMENTS_MAX *(SEARCH_BLOCK + 9) <= UINT32_MAX,
               "a sum of gaps may be too great, and is then seen to be");
_Static_assert(SEARCH_COUNT_MAX < 1 << COUNT_BITS_MAX, "any count fits");

/* ---- numbers in few bits --------------------------------------------------------------------- */

static int bits_needed(uint32_t number)
{
    return number == 0 ? 0 : 32 - __builtin_clz(number);
}

static size_t packed_size(size_t count, int bits)
{
    return (count * (size_t)bits + 7) / 8;
}

static void pack(unsigned char *to, const uint32_t *numbers, size_t count, int bits)
{
    uint64_t held = 0;
    int filled = 0;
    for (size_t i = 0; i < count; i++) {
        held |= (uint64_t)numbers[i] << filled;
        for (filled += bits; filled >= 8; filled -= 8, held >>= 8)
            *to++ = (unsigned char)held;
    }
    if (filled > 0)
        *to = (unsigned char)held;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A block as it is packed. */
struct packing {
    uint32_t gaps[SEARCH_BLOCK], counts[SEARCH_BLOCK];
    size_t count;
    struct search_block block;
};

static void prepare_block(struct packing *packing, const struct search_posting *postings,
                          size_t count, const uint8_t *lengths, int64_t before)
{
    uint32_t gaps = 0, counts = 0;
    packing->count = count;
    packing->block = (struct search_block){.min_length = UINT8_MAX};
    for (size_t i = 0; i < count; i++) {
        const uint32_t document = postings[i].document, times = postings[i].count;
        BASE_CHECK((int64_t)document > before && times >= 1 && times <= SEARCH_COUNT_MAX);
        gaps |= packing->gaps[i] = (uint32_t)(document - before - 1);
        counts |= packing->counts[i] = times - 1;
        if (times > packing->block.max_count)
            packing->block.max_count = (uint8_t)times;
        if (lengths[document] < packing->block.min_length)
            packing->block.min_length = lengths[document];
        before = document;
    }
    packing->block.last = (uint32_t)before;
    packing->block.document_bits = (uint8_t)bits_needed(gaps);
    packing->block.count_bits = (uint8_t)bits_needed(counts);
}

static size_t block_size(const struct packing *packing)
{
    return packed_size(packing->count, packing->block.document_bits) +
           packed_size(packing->count, packing->block.count_bits);
}

static void append_block(struct base_buffer *buffer, const struct packing *packing)
{
    unsigned char room[sizeof packing->gaps + sizeof packing->counts];
    const size_t first = packed_size(packing->count, packing->block.document_bits);
    pack(room, packing->gaps, packing->count, packing->block.document_bits);
    pack(room + first, packing->counts, packing->count, packing->block.count_bits);
    base_buffer_append(buffer, room, block_size(packing));
}

static void append_table(struct base_buffer *buffer, const struct search_posting *postings,
                         size_t count, const uint8_t *lengths, struct search_list *list)
{
    struct packing packing;
    uint32_t at = 0;
    for (size_t i = 0; i < count; i += SEARCH_BLOCK) {
        const size_t some = count - i < SEARCH_BLOCK ? count - i : SEARCH_BLOCK;
        prepare_block(&packing, postings + i, some, lengths,
                      i > 0 ? (int64_t)postings[i - 1].document : -1);
        packing.block.at = at;
        at += (uint32_t)block_size(&packing);
        base_buffer_append(buffer, &packing.block, sizeof packing.block);
        if (packing.block.max_count > list->max_count)
            list->max_count = packing.block.max_count;
        if (packing.block.min_length < list->min_length)
            list->min_length = packing.block.min_length;
    }
}

void search_postings_append(struct base_buffer *buffer, const struct search_posting *postings,
                            size_t count, const uint8_t *lengths)
{
    static const char nothing[3];
    struct packing packing = {.count = 0};
    struct search_list list = {.count = (uint32_t)count, .min_length = UINT8_MAX};
    BASE_CHECK(count > 0);
    base_buffer_append(buffer, nothing, -buffer->size & 3);
    const size_t head = buffer->size;
    base_buffer_append(buffer, &list, sizeof list);
    if (count > SEARCH_BLOCK)
        append_table(buffer, postings, count, lengths, &list);
    for (size_t i = 0; i < count; i += SEARCH_BLOCK) {
        const size_t some = count - i < SEARCH_BLOCK ? count - i : SEARCH_BLOCK;
        prepare_block(&packing, postings + i, some, lengths,
                      i > 0 ? (int64_t)postings[i - 1].document : -1);
        append_block(buffer, &packing);
    }
    if (count <= SEARCH_BLOCK) {
        list.max_count = packing.block.max_count;
        list.min_length = packing.block.min_length;
        list.document_bits = packing.block.document_bits;
        list.count_bits = packing.block.count_bits;
    }
    if (!buffer->failed)
        memcpy(buffer->data + head, &list, sizeof list);
}

/* ---- walking --------------------------------------------------------------------------------- */

/* The bytes of a file were sound when it was checked, but may have changed since: then the list has
   nothing more. */
static void end_broken(struct search_cursor *cursor)
{
    search_segment_distrust(cursor->segment);
    cursor->count = cursor->nblocks = cursor->at = cursor->filled = 0;
    cursor->blocks = NULL;
}

static void open_single(struct search_cursor *cursor, uint32_t single)
{
    const uint32_t document = single & (SEARCH_DOCUMENTS_MAX - 1);
    const uint32_t times = single >> SEARCH_SINGLE_SHIFT & SEARCH_COUNT_MAX;
    if (document >= cursor->segment->head.documents || times == 0) {
        end_broken(cursor);
        return;
    }
    cursor->count = cursor->nblocks = cursor->filled = 1;
    cursor->documents[0] = document;
    cursor->count_bits = 0;
    cursor->least_count = times;
    cursor->only = (struct search_block){.last = document,
                                         .max_count = (uint8_t)times,
                                         .min_length = cursor->segment->lengths[document]};
}

static void open_list(struct search_cursor *cursor, uint32_t at)
{
    const struct search_head *head = &cursor->segment->head;
    const uint8_t *bytes = cursor->segment->postings + at;
    struct search_list list;
    if (at % 4 != 0 || at > head->postings_size || head->postings_size - at < sizeof list) {
        end_broken(cursor);
        return;
    }
    memcpy(&list, bytes, sizeof list);
    const size_t nblocks = list.count / SEARCH_BLOCK + (list.count % SEARCH_BLOCK > 0);
    const size_t table = nblocks > 1 ? nblocks * sizeof *cursor->blocks : 0;
    if (list.count == 0 || list.count > head->documents ||
        table > head->postings_size - at - sizeof list) {
        end_broken(cursor);
        return;
    }
    bytes += sizeof list;
    cursor->count = list.count;
    cursor->nblocks = (uint32_t)nblocks;
    cursor->only = (struct search_block){.last = UINT32_MAX,
                                         .max_count = list.max_count,
                                         .min_length = list.min_length,
                                         .document_bits = list.document_bits,
                                         .count_bits = list.count_bits};
    if (nblocks > 1)
        cursor->blocks = (const struct search_block *)(const void *)bytes;
    cursor->numbers = bytes + table;
}

void search_cursor_open(struct search_cursor *cursor, const struct search_segment *segment,
                        size_t term)
{
    const uint32_t list = segment->lists[term];
    cursor->segment = segment;
    cursor->blocks = NULL;
    cursor->numbers = NULL;
    cursor->block = cursor->at = cursor->filled = 0;
    cursor->least_count = 1;
    if (list & SEARCH_SINGLE)
        open_single(cursor, list);
    else
        open_list(cursor, list);
}

static uint32_t documents_in_block(const struct search_cursor *cursor)
{
    return cursor->block + 1 < cursor->nblocks ? SEARCH_BLOCK
                                               : cursor->count - cursor->block * SEARCH_BLOCK;
}

/* Eight numbers of as many bits, known to the compiler, are that many bytes. */
__attribute__((always_inline)) static inline void
unpack_gaps(const uint8_t *from, uint32_t *to, uint32_t count, uint32_t next, const int bits)
{
    for (uint32_t i = 0; i < count; i += 8, from += bits)
        for (size_t k = 0; k < 8; k++) {
            to[i + k] = next + search_unpack(from, k, bits);
            next = to[i + k] + 1;
        }
}

#define UNPACK(bits)                                                                               \
    case bits:                                                                                     \
        unpack_gaps(from, to, count, next, bits);                                                  \
        break

/* The documents of a block, from the first one that it can have. Up to seven more than the count
   are written, and twice as many bytes read, past the end. */
static void unpack_documents(const uint8_t *from, uint32_t *to, uint32_t count, uint32_t next,
                             int bits)
{
    switch (bits) {
        UNPACK(0);
        UNPACK(1);
        UNPACK(2);
        UNPACK(3);
        UNPACK(4);
        UNPACK(5);
        UNPACK(6);
        UNPACK(7);
        UNPACK(8);
        UNPACK(9);
        UNPACK(10);
        UNPACK(11);
        UNPACK(12);
        UNPACK(13);
        UNPACK(14);
        UNPACK(15);
        UNPACK(16);
    default:
        for (uint32_t i = 0; i < count; i++) {
            to[i] = next + search_unpack(from, i, bits);
            next = to[i] + 1;
        }
    }
}

static bool is_in_postings(const struct search_cursor *cursor, const struct search_block *block,
                           uint32_t count)
{
    const struct search_segment *segment = cursor->segment;
    const size_t room = (size_t)(segment->postings + segment->head.postings_size - cursor->numbers);
    return block->document_bits <= DOCUMENT_BITS_MAX && block->count_bits <= COUNT_BITS_MAX &&
           block->at <= room &&
           packed_size(count, block->document_bits) + packed_size(count, block->count_bits) <=
               room - block->at;
}

void search_cursor_fill(struct search_cursor *cursor)
{
    if (cursor->filled > 0)
        return;
    const struct search_block block = *search_cursor_block(cursor);
    const uint32_t count = documents_in_block(cursor);
    if (!is_in_postings(cursor, &block, count)) {
        end_broken(cursor);
        return;
    }
    const uint8_t *gaps = cursor->numbers + block.at;
    const uint32_t before = cursor->block > 0 ? cursor->blocks[cursor->block - 1].last : 0;
    const uint32_t documents = cursor->segment->head.documents;
    if (before >= documents) {
        end_broken(cursor);
        return;
    }
    unpack_documents(gaps, cursor->documents, count, before + (cursor->block > 0),
                     block.document_bits);
    const uint32_t last = cursor->documents[count - 1];
    if (last >= documents || (cursor->blocks && last != block.last)) {
        end_broken(cursor);
        return;
    }
    cursor->counts = gaps + packed_size(count, block.document_bits);
    cursor->count_bits = block.count_bits;
    cursor->at = 0;
    cursor->filled = count;
}

/* Doubling steps, then halves: what is near is found near. */
bool search_cursor_reach(struct search_cursor *cursor, uint32_t document)
{
    if (cursor->block >= cursor->nblocks)
        return false;
    if (search_cursor_block(cursor)->last >= document)
        return true;
    cursor->filled = 0;
    if (!cursor->blocks) {
        cursor->block = cursor->nblocks;
        return false;
    }
    uint32_t below = cursor->block, step = 1;
    while (below + step < cursor->nblocks && cursor->blocks[below + step].last < document) {
        below += step;
        step *= 2;
    }
    uint32_t above = below + step < cursor->nblocks ? below + step : cursor->nblocks;
    while (above - below > 1) {
        const uint32_t middle = below + (above - below) / 2;
        if (cursor->blocks[middle].last < document)
            below = middle;
        else
            above = middle;
    }
    cursor->block = above;
    return above < cursor->nblocks;
}

bool search_cursor_seek(struct search_cursor *cursor, uint32_t document)
{
    if (!search_cursor_reach(cursor, document))
        return false;
    search_cursor_fill(cursor);
    while (cursor->at + STRIDE < cursor->filled &&
           cursor->documents[cursor->at + STRIDE - 1] < document)
        cursor->at += STRIDE;
    while (cursor->at < cursor->filled && cursor->documents[cursor->at] < document)
        cursor->at++;
    if (cursor->at < cursor->filled)
        return true;
    cursor->filled = 0; /* a block without a table does not say where it ends */
    cursor->block++;
    if (cursor->block >= cursor->nblocks)
        return false;
    search_cursor_fill(cursor);
    return cursor->filled > 0;
}

uint32_t search_cursor_rank(struct search_cursor *cursor, uint32_t document)
{
    if (!search_cursor_seek(cursor, document))
        return cursor->count;
    return cursor->block * SEARCH_BLOCK + cursor->at;
}
