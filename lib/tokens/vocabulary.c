/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and checking a compiled vocabulary; vocabulary.h tells the story. Any thread. */
#include "lib/tokens/vocabulary.h"

#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/tokens/split.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct handoff_vocabulary_header) == 128, "the header is part of the format");
_Static_assert(sizeof(struct handoff_vocabulary_header) % HANDOFF_VOCABULARY_ALIGNMENT == 0,
               "the first part begins right after the header");

static _Atomic(uint64_t) opened;

static enum handoff_code report_at_byte(struct handoff_error *error, enum handoff_code code,
                                        const char *message, uint64_t position)
{
    handoff_error_set(error, code, message, NULL, NULL);
    handoff_error_seen(error, "byte %" PRIu64, position);
    return code;
}

static enum handoff_code report_errno(struct handoff_error *error, const char *message)
{
    char reason[64];
    const enum handoff_code code =
        errno == ENOMEM ? HANDOFF_ERR_OUT_OF_MEMORY : HANDOFF_ERR_VOCABULARY_MISSING;

    return handoff_error_set(error, code, message, NULL, strerror_r(errno, reason, sizeof(reason)));
}

/* --- layout and checksum ------------------------------------------------------------------- */

static uint64_t aligned_end(uint64_t start, uint64_t count, uint64_t size)
{
    uint64_t end = start + count * size, unit = HANDOFF_VOCABULARY_ALIGNMENT;

    return (end + unit - 1) / unit * unit;
}

/* Cannot overflow: a count has 32 bits, a size at most 5. */
struct handoff_vocabulary_layout
handoff_vocabulary_layout(const struct handoff_vocabulary_header *header)
{
    struct handoff_vocabulary_layout layout;

    layout.shorts = sizeof(*header);
    layout.longs = aligned_end(layout.shorts, header->short_slots,
                               sizeof(struct handoff_vocabulary_short_slot));
    layout.pairs = aligned_end(layout.longs, header->long_slots, sizeof(uint32_t));
    layout.byte_ids = aligned_end(layout.pairs, header->pair_slots, sizeof(uint64_t));
    layout.byte_pairs = aligned_end(layout.byte_ids, 256, sizeof(uint32_t));
    layout.offsets = aligned_end(layout.byte_pairs, 65536, sizeof(uint32_t));
    layout.blob = aligned_end(layout.offsets, (uint64_t)header->token_count + 1, sizeof(uint32_t));
    layout.total = aligned_end(layout.blob, header->blob_size, 1);
    return layout;
}

void handoff_vocabulary_attach(struct handoff_vocabulary *vocabulary, const void *file)
{
    const struct handoff_vocabulary_header *header = file;
    struct handoff_vocabulary_layout layout = handoff_vocabulary_layout(header);
    const uint8_t *start = file;

    vocabulary->header = header;
    vocabulary->shorts = (const void *)(start + layout.shorts);
    vocabulary->longs = (const void *)(start + layout.longs);
    vocabulary->pairs = (const void *)(start + layout.pairs);
    vocabulary->byte_ids = (const void *)(start + layout.byte_ids);
    vocabulary->byte_pairs = (const void *)(start + layout.byte_pairs);
    vocabulary->offsets = (const void *)(start + layout.offsets);
    vocabulary->blob = start + layout.blob;
}

/*
 * Four lanes of multiply and rotate: it must keep up with memory, because every start reads the
 * whole file, and must detect damage, not malice. Every step is invertible given its input word, so
 * a single changed word always changes the result.
 */
uint64_t handoff_vocabulary_checksum(const void *file, size_t size)
{
    const uint64_t prime = UINT64_C(0x9e3779b185ebca87);
    const size_t field = offsetof(struct handoff_vocabulary_header, checksum);
    const uint8_t *bytes = file;
    uint64_t lanes[4] = {1, 2, 3, 4}, words[4], result = size;

    for (size_t at = 0; at + sizeof(words) <= size; at += sizeof(words)) {
        memcpy(words, bytes + at, sizeof(words));
        if (at == field / sizeof(words) * sizeof(words))
            words[field % sizeof(words) / sizeof(words[0])] = 0;
        for (int i = 0; i < 4; i++) {
            uint64_t mixed = (lanes[i] ^ words[i]) * prime;
            lanes[i] = mixed << 31 | mixed >> 33;
        }
    }
    for (int i = 0; i < 4; i++)
        result = (result ^ lanes[i]) * prime + (uint64_t)i;
    return result ^ result >> 32;
}

/* --- checking ------------------------------------------------------------------------------ */

static enum handoff_code check_kind(const struct handoff_vocabulary_header *header, size_t size,
                                    struct handoff_error *error)
{
    if (size < sizeof(*header) ||
        memcmp(header->magic, HANDOFF_VOCABULARY_FILE_MAGIC, sizeof(header->magic)) != 0)
        return report_at_byte(error, HANDOFF_ERR_VOCABULARY_FOREIGN,
                              "not a compiled vocabulary file", 0);
    if (header->byte_order != HANDOFF_VOCABULARY_BYTE_ORDER)
        return report_at_byte(error, HANDOFF_ERR_VOCABULARY_FOREIGN,
                              "the vocabulary was compiled for the other byte order",
                              offsetof(struct handoff_vocabulary_header, byte_order));
    if (header->version != HANDOFF_VOCABULARY_VERSION)
        return report_at_byte(
            error, HANDOFF_ERR_VOCABULARY_FOREIGN,
            "the vocabulary was compiled by an incompatible version of this program",
            offsetof(struct handoff_vocabulary_header, version));
    if (header->file_size != size)
        return report_at_byte(error, HANDOFF_ERR_VOCABULARY_CORRUPT,
                              "the file size differs from the header",
                              offsetof(struct handoff_vocabulary_header, file_size));
    return HANDOFF_OK;
}

static bool in_range(uint32_t value, uint32_t low, uint32_t high)
{
    return value >= low && value <= high;
}

static enum handoff_code check_numbers(const struct handoff_vocabulary_header *header,
                                       struct handoff_error *error)
{
    size_t wrong = 0;

    if (!memchr(header->encoding, '\0', sizeof(header->encoding)) || !header->encoding[0])
        wrong = offsetof(struct handoff_vocabulary_header, encoding);
    else if (!handoff_split_for(header->pattern))
        wrong = offsetof(struct handoff_vocabulary_header, pattern);
    else if (!in_range(header->token_count, 256, HANDOFF_VOCABULARY_MAX_TOKENS))
        wrong = offsetof(struct handoff_vocabulary_header, token_count);
    else if (!in_range(header->short_slots, 1, HANDOFF_VOCABULARY_MAX_SLOTS))
        wrong = offsetof(struct handoff_vocabulary_header, short_slots);
    else if (!in_range(header->long_slots, 1, HANDOFF_VOCABULARY_MAX_SLOTS))
        wrong = offsetof(struct handoff_vocabulary_header, long_slots);
    else if (!in_range(header->pair_slots, 1, HANDOFF_VOCABULARY_MAX_SLOTS))
        wrong = offsetof(struct handoff_vocabulary_header, pair_slots);
    else if (header->reserved[0] || header->reserved[1])
        wrong = offsetof(struct handoff_vocabulary_header, reserved);
    else if (handoff_vocabulary_layout(header).total != header->file_size)
        wrong = offsetof(struct handoff_vocabulary_header, blob_size);
    if (wrong)
        return report_at_byte(error, HANDOFF_ERR_VOCABULARY_CORRUPT,
                              "a header field is out of range", wrong);
    return HANDOFF_OK;
}

static enum handoff_code report_bad_reference(const struct handoff_vocabulary *vocabulary,
                                              const void *where, struct handoff_error *error)
{
    return report_at_byte(error, HANDOFF_ERR_VOCABULARY_CORRUPT, "a table points outside the file",
                          (uint64_t)((const uint8_t *)where - (const uint8_t *)vocabulary->header));
}

static enum handoff_code report_full_table(const void *where,
                                           const struct handoff_vocabulary *vocabulary,
                                           struct handoff_error *error)
{
    return report_at_byte(error, HANDOFF_ERR_VOCABULARY_CORRUPT, "a hash table has no empty slot",
                          (uint64_t)((const uint8_t *)where - (const uint8_t *)vocabulary->header));
}

static enum handoff_code check_keys(const struct handoff_vocabulary *vocabulary,
                                    struct handoff_error *error)
{
    const struct handoff_vocabulary_header *header = vocabulary->header;
    uint32_t empty = 0;

    for (uint32_t i = 0; i < header->short_slots; i++) {
        uint64_t high = vocabulary->shorts[i].high;

        if (high == 0)
            empty++;
        else if ((high >> HANDOFF_VOCABULARY_ID_SHIFT & 0xfffff) >= header->token_count)
            return report_bad_reference(vocabulary, &vocabulary->shorts[i], error);
    }
    if (empty == 0)
        return report_full_table(vocabulary->shorts, vocabulary, error);
    empty = 0;
    for (uint32_t i = 0; i < header->long_slots; i++)
        if (vocabulary->longs[i] == HANDOFF_VOCABULARY_NO_TOKEN)
            empty++;
        else if (vocabulary->longs[i] >= header->token_count)
            return report_bad_reference(vocabulary, &vocabulary->longs[i], error);
    return empty > 0 ? HANDOFF_OK : report_full_table(vocabulary->longs, vocabulary, error);
}

static enum handoff_code check_merges(const struct handoff_vocabulary *vocabulary,
                                      struct handoff_error *error)
{
    const struct handoff_vocabulary_header *header = vocabulary->header;
    const uint64_t id_mask = HANDOFF_VOCABULARY_MAX_TOKENS - 1;
    uint32_t empty = 0;

    for (uint32_t i = 0; i < header->pair_slots; i++)
        if (vocabulary->pairs[i] == HANDOFF_VOCABULARY_EMPTY_PAIR)
            empty++;
        else if ((vocabulary->pairs[i] & id_mask) >= header->token_count)
            return report_bad_reference(vocabulary, &vocabulary->pairs[i], error);
    if (empty == 0)
        return report_full_table(vocabulary->pairs, vocabulary, error);
    for (uint32_t i = 0; i < 256; i++)
        if (vocabulary->byte_ids[i] >= header->token_count)
            return report_bad_reference(vocabulary, &vocabulary->byte_ids[i], error);
    for (uint32_t i = 0; i < 65536; i++)
        if (vocabulary->byte_pairs[i] >= header->token_count &&
            vocabulary->byte_pairs[i] != HANDOFF_VOCABULARY_NO_TOKEN)
            return report_bad_reference(vocabulary, &vocabulary->byte_pairs[i], error);
    return HANDOFF_OK;
}

static enum handoff_code check_offsets(const struct handoff_vocabulary *vocabulary,
                                       struct handoff_error *error)
{
    const struct handoff_vocabulary_header *header = vocabulary->header;

    if (vocabulary->offsets[0] != 0 ||
        vocabulary->offsets[header->token_count] != header->blob_size)
        return report_bad_reference(vocabulary, vocabulary->offsets, error);
    for (uint32_t i = 0; i < header->token_count; i++)
        if (vocabulary->offsets[i] >= vocabulary->offsets[i + 1])
            return report_bad_reference(vocabulary, &vocabulary->offsets[i], error);
    return HANDOFF_OK;
}

enum handoff_code handoff_vocabulary_check(const void *file, size_t size,
                                           struct handoff_error *error)
{
    const struct handoff_vocabulary_header *header = file;
    struct handoff_vocabulary vocabulary;
    enum handoff_code code;

    if ((code = check_kind(header, size, error)) || (code = check_numbers(header, error)))
        return code;
    if (handoff_vocabulary_checksum(file, size) != header->checksum)
        return report_at_byte(error, HANDOFF_ERR_VOCABULARY_CORRUPT,
                              "checksum mismatch: the file is damaged",
                              offsetof(struct handoff_vocabulary_header, checksum));
    handoff_vocabulary_attach(&vocabulary, file);
    if ((code = check_offsets(&vocabulary, error)) || (code = check_keys(&vocabulary, error)))
        return code;
    return check_merges(&vocabulary, error);
}

/* --- opening ------------------------------------------------------------------------------- */

static enum handoff_code map_file(int descriptor, const void **file, size_t *size,
                                  struct handoff_error *error)
{
    struct stat status;
    void *mapping;

    if (fstat(descriptor, &status) != 0)
        return report_errno(error, "cannot stat the vocabulary");
    if (!S_ISREG(status.st_mode) ||
        status.st_size < (off_t)sizeof(struct handoff_vocabulary_header))
        return report_at_byte(error, HANDOFF_ERR_VOCABULARY_FOREIGN,
                              "not a compiled vocabulary file", 0);
    *size = (size_t)status.st_size;
    /* The check reads all of it at once: one call instead of one fault per page. */
    mapping = mmap(NULL, *size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor, 0);
    if (mapping == MAP_FAILED)
        return report_errno(error, "cannot map the vocabulary");
    *file = mapping;
    return HANDOFF_OK;
}

static enum handoff_code open_and_check(const char *path, struct handoff_vocabulary *vocabulary,
                                        struct handoff_error *error)
{
    const void *file = NULL;
    size_t size = 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    enum handoff_code code;

    if (descriptor < 0)
        return report_errno(error, "cannot open the vocabulary");
    code = map_file(descriptor, &file, &size, error);
    (void)close(descriptor);
    if (code)
        return code;
    BASE_CHECK(file);
    code = handoff_vocabulary_check(file, size, error);
    if (code)
        (void)munmap((void *)(uintptr_t)file, size);
    else
        handoff_vocabulary_attach(vocabulary, file);
    if (code == HANDOFF_OK)
        vocabulary->serial = atomic_fetch_add(&opened, 1) + 1;
    return code;
}

enum handoff_code handoff_vocabulary_open(const char *path, struct handoff_vocabulary *vocabulary,
                                          struct handoff_error *error)
{
    enum handoff_code code = open_and_check(path, vocabulary, error);

    if (code)
        handoff_error_field(error, "%s", path);
    return code;
}

void handoff_vocabulary_close(struct handoff_vocabulary *vocabulary)
{
    if (vocabulary->header)
        (void)munmap((void *)(uintptr_t)vocabulary->header, vocabulary->header->file_size);
    memset(vocabulary, 0, sizeof(*vocabulary));
}

/* --- lookup of long keys ------------------------------------------------------------------- */

uint32_t handoff_vocabulary_find_long(const struct handoff_vocabulary *vocabulary,
                                      const uint8_t *bytes, size_t length)
{
    uint32_t slots = vocabulary->header->long_slots;
    uint32_t slot = handoff_vocabulary_slot(handoff_vocabulary_long_hash(bytes, length), slots);
    uint32_t token;

    while ((token = vocabulary->longs[slot]) != HANDOFF_VOCABULARY_NO_TOKEN) {
        uint32_t start = vocabulary->offsets[token];

        if (vocabulary->offsets[token + 1] - start == length &&
            memcmp(vocabulary->blob + start, bytes, length) == 0)
            return token;
        slot = slot + 1 < slots ? slot + 1 : 0;
    }
    return HANDOFF_VOCABULARY_NO_TOKEN;
}
