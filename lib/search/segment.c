/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: opened, checked and looked into. Any thread; the threads of each field: segment.h. */
#include "lib/search/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"
#include "lib/search/guard.h"

_Static_assert(sizeof(struct search_head) == 88, "the head has no holes");

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_a_head(const struct search_head *head)
{
    struct search_head copy = *head;
    copy.head_checksum = 0;
    return memcmp(head->name, "HSEARCH", sizeof head->name) == 0 &&
           head->head_checksum == search_checksum(&copy, sizeof copy);
}

static bool is_whole_head(const struct search_head *head, uint64_t size)
{
    return is_a_head(head) && head->format == SEARCH_FORMAT && head->size == size &&
           head->documents <= SEARCH_DOCUMENTS_MAX && head->bucket_bits <= 24 &&
           head->postings_size < SEARCH_SINGLE && head->sketches_size <= UINT32_MAX &&
           search_segment_layout(head).size == size;
}

static void set_parts(struct search_segment *segment)
{
    const struct search_layout layout = search_segment_layout(&segment->head);
    const unsigned char *bytes = segment->bytes;
    segment->keys = (const void *)(bytes + layout.keys);
    segment->sums = (const void *)(bytes + layout.sums);
    segment->hashes = (const void *)(bytes + layout.hashes);
    segment->lists = (const void *)(bytes + layout.lists);
    segment->buckets = (const void *)(bytes + layout.buckets);
    segment->facts = (const void *)(bytes + layout.facts);
    segment->newest = (const void *)(bytes + layout.newest);
    segment->highest = bytes + layout.highest;
    segment->lengths = bytes + layout.lengths;
    segment->sketch_ends = (const void *)(bytes + layout.sketch_ends);
    segment->sketches = bytes + layout.sketches;
    segment->postings = bytes + layout.postings;
}

static struct search_segment *make_segment(const struct search_head *head)
{
    struct search_segment *segment = base_calloc(1, sizeof *segment);
    if (!segment)
        return NULL;
    segment->removed = base_calloc(head->documents / 64 + 1, sizeof *segment->removed);
    if (!segment->removed) {
        base_free(segment);
        return NULL;
    }
    segment->magic = SEARCH_SEGMENT_MAGIC;
    segment->head = *head;
    atomic_init(&segment->references, 1);
    return segment;
}

struct search_segment *search_segment_in_memory(char *bytes)
{
    struct search_head head;
    memcpy(&head, bytes, sizeof head);
    struct search_segment *segment = make_segment(&head);
    if (!segment)
        return NULL;
    segment->bytes = (const unsigned char *)bytes;
    atomic_init(&segment->soundness, SEARCH_SOUND);
    set_parts(segment);
    return segment;
}

static bool read_head(int file, uint32_t words, struct search_head *head)
{
    struct stat found;
    if (fstat(file, &found) != 0)
        return false;
    const ssize_t size = pread(file, head, sizeof *head, 0);
    if (size < 0)
        return false;
    const bool whole = size == (ssize_t)sizeof *head;
    errno = whole && is_a_head(head) && head->format != SEARCH_FORMAT ? ENOTSUP : EBADMSG;
    return whole && is_whole_head(head, (uint64_t)found.st_size) &&
           (words == 0 || head->words == words);
}

/* All of it, or false with errno. */
static bool read_at(int file, void *bytes, size_t wanted, uint64_t at)
{
    for (size_t size = 0; size < wanted;) {
        const ssize_t some = pread(file, (char *)bytes + size, wanted - size, (off_t)(at + size));
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0) {
            errno = some < 0 ? errno : EBADMSG;
            return false;
        }
        size += (size_t)some;
    }
    return true;
}

/* The thread that writes looks for keys to remove, before the file is checked and after: they are
   read, so that a bad sector is an error of this file's and not the end of the process. */
static bool read_keys(struct search_segment *segment, int file)
{
    const size_t size = segment->head.documents * sizeof(int64_t);
    segment->own_keys = base_malloc(size + 1);
    errno = segment->own_keys ? errno : ENOMEM;
    segment->keys = segment->own_keys;
    return segment->own_keys &&
           read_at(file, segment->own_keys, size, search_segment_layout(&segment->head).keys);
}

static struct search_segment *map_segment(int file, uint32_t words)
{
    struct search_head head;
    if (!read_head(file, words, &head))
        return NULL;
    struct search_segment *segment = make_segment(&head);
    if (!segment) {
        errno = ENOMEM;
        return NULL;
    }
    void *bytes = mmap(NULL, head.size, PROT_READ, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) {
        search_segment_close(&segment);
        return NULL;
    }
    segment->bytes = bytes;
    segment->mapped = true;
    set_parts(segment);
    errno = ENOMEM;
    if (!search_guard_add(bytes, head.size, &segment->soundness, SEARCH_DAMAGED) ||
        !read_keys(segment, file)) {
        const int why = errno;
        search_segment_close(&segment);
        errno = why;
        return NULL;
    }
    segment->file = file; /* the caller's until here */
    atomic_init(&segment->file_users, 1);
    return segment;
}

struct search_segment *search_segment_open(const char *path, uint32_t words, int64_t label)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return NULL;
    struct search_segment *segment = map_segment(file, words);
    const int why = errno;
    if (segment)
        segment->label = label;
    else
        close(file);
    errno = why;
    return segment;
}

void search_segment_close(struct search_segment **segment)
{
    struct search_segment *closing = segment ? *segment : NULL;
    if (!closing)
        return;
    BASE_CHECK_MAGIC(closing, SEARCH_SEGMENT_MAGIC);
    *segment = NULL;
    if (atomic_fetch_sub_explicit(&closing->references, 1, memory_order_acq_rel) > 1)
        return;
    if (closing->mapped) {
        search_guard_remove(closing->bytes);
        munmap((void *)(uintptr_t)closing->bytes, closing->head.size);
    } else {
        base_free((void *)(uintptr_t)closing->bytes);
    }
    if (atomic_load(&closing->file_users) > 0)
        close(closing->file);
    base_free(closing->own_keys);
    base_free(closing->removed);
    closing->magic = 0;
    base_free(closing);
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool stop_is_set(const atomic_bool *stop)
{
    return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

static int write_all(int file, struct base_span bytes, const atomic_bool *stop)
{
    while (bytes.size > 0) {
        if (stop_is_set(stop))
            return ECANCELED;
        const size_t most = 1 << 20;
        const ssize_t size = write(file, bytes.data, bytes.size < most ? bytes.size : most);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            return size < 0 ? errno : EIO;
        bytes = base_span(bytes.data + size, bytes.size - (size_t)size);
    }
    return fsync(file) == 0 ? 0 : errno;
}

int search_segment_write(const char *path, struct base_span bytes, const atomic_bool *stop)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return errno;
    int failed = write_all(file, bytes, stop);
    if (close(file) != 0 && failed == 0)
        failed = errno;
    if (failed != 0)
        unlink(path);
    return failed;
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool is_too_late(int64_t deadline_ns)
{
    struct timespec now;
    if (deadline_ns == 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec > deadline_ns;
}

/* UNCHECKED: it is too late, or stopped. */
static enum search_soundness read_through(const struct search_segment *segment, int64_t deadline_ns,
                                          const atomic_bool *stop)
{
    enum { AT_ONCE = 64 * 1024 };
    _Alignas(8) unsigned char some[AT_ONCE];
    struct search_checksum sum;
    uint64_t at = sizeof segment->head;
    search_checksum_begin(&sum);
    while (at < segment->head.size) {
        const uint64_t left = segment->head.size - at;
        const size_t wanted = left < AT_ONCE ? (size_t)left : AT_ONCE;
        if (!read_at(segment->file, some, wanted, at))
            return SEARCH_DAMAGED;
        search_checksum_add(&sum, some, wanted);
        at += wanted;
        if (is_too_late(deadline_ns) || stop_is_set(stop))
            return SEARCH_UNCHECKED;
    }
    return search_checksum_end(&sum) == segment->head.checksum ? SEARCH_SOUND : SEARCH_DAMAGED;
}

/* False: it was checked, and closed. */
static bool hold_file(struct search_segment *segment)
{
    unsigned users = atomic_load(&segment->file_users);
    while (users > 0)
        if (atomic_compare_exchange_weak(&segment->file_users, &users, users + 1))
            return true;
    return false;
}

static void release_file(struct search_segment *segment)
{
    if (atomic_fetch_sub(&segment->file_users, 1) == 1)
        close(segment->file);
}

/* Several may check it at once; the first verdict holds, and then nobody needs the file again. */
static int check_through(struct search_segment *segment, int64_t deadline_ns,
                         const atomic_bool *stop)
{
    int before = SEARCH_UNCHECKED; /* it may be known as damaged meanwhile */
    if (!hold_file(segment))
        return atomic_load(&segment->soundness);
    int soundness = (int)read_through(segment, deadline_ns, stop);
    if (soundness != SEARCH_UNCHECKED &&
        atomic_compare_exchange_strong(&segment->soundness, &before, soundness))
        release_file(segment);
    else
        soundness = before;
    release_file(segment);
    return soundness;
}

static int soundness_of(struct search_segment *segment, int64_t deadline_ns,
                        const atomic_bool *stop)
{
    const int soundness = atomic_load_explicit(&segment->soundness, memory_order_acquire);
    BASE_CHECK_MAGIC(segment, SEARCH_SEGMENT_MAGIC);
    return soundness == SEARCH_UNCHECKED ? check_through(segment, deadline_ns, stop) : soundness;
}

bool search_segment_is_usable(struct search_segment *segment, int64_t deadline_ns)
{
    return soundness_of(segment, deadline_ns, NULL) == SEARCH_SOUND;
}

void search_segment_distrust(const struct search_segment *segment)
{
    BASE_CHECK(segment->mapped); /* else it is a bug of ours */
    atomic_store((_Atomic(int) *)(uintptr_t)&segment->soundness, SEARCH_DAMAGED);
}

bool search_segment_check(struct search_segment *segment, const atomic_bool *stop)
{
    return soundness_of(segment, 0, stop) != SEARCH_DAMAGED;
}

/* ---- documents ------------------------------------------------------------------------------- */

uint32_t search_segment_lower(const struct search_segment *segment, int64_t key)
{
    uint32_t first = 0, count = segment->head.documents;
    while (count > 0) {
        const uint32_t half = count / 2;
        if (segment->keys[first + half] < key) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

uint64_t search_segment_lengths(const struct search_segment *segment, uint32_t document)
{
    uint64_t sum = segment->sums[document / SEARCH_SUM_EVERY];
    for (uint32_t i = document - document % SEARCH_SUM_EVERY; i < document; i++)
        sum += search_length_of(segment->lengths[i]);
    return sum;
}

struct base_span search_segment_sketch(const struct search_segment *segment, uint32_t document)
{
    const uint32_t begin = document > 0 ? segment->sketch_ends[document - 1] : 0;
    const uint32_t end = segment->sketch_ends[document];
    if (begin > end || end > segment->head.sketches_size || end - begin > SEARCH_SKETCH_MAX)
        return base_span("", 0);
    return base_span((const char *)segment->sketches + begin, end - begin);
}

static bool find_document(const struct search_segment *segment, int64_t key, uint32_t *document)
{
    *document = search_segment_lower(segment, key);
    return *document < segment->head.documents && segment->keys[*document] == key;
}

bool search_segment_has(const struct search_segment *segment, int64_t key)
{
    uint32_t document;
    return find_document(segment, key, &document);
}

bool search_segment_has_removed(const struct search_segment *segment, int64_t key)
{
    uint32_t document;
    return find_document(segment, key, &document) && search_segment_is_removed(segment, document);
}

static void remove_document(struct search_segment *segment, uint32_t document)
{
    const uint64_t bit = UINT64_C(1) << (document % 64);
    if (!(atomic_fetch_or_explicit(&segment->removed[document / 64], bit, memory_order_release) &
          bit))
        atomic_fetch_add_explicit(&segment->removed_count, 1, memory_order_relaxed);
}

bool search_segment_remove(struct search_segment *segment, int64_t key)
{
    uint32_t document;
    if (!find_document(segment, key, &document))
        return false;
    remove_document(segment, document);
    return true;
}

size_t search_segment_removed_size(const struct search_segment *segment)
{
    return segment->head.documents / 8 + (segment->head.documents % 8 > 0);
}

void search_segment_save_removed(const struct search_segment *segment, uint8_t *bits)
{
    for (size_t i = 0; i < search_segment_removed_size(segment); i++)
        bits[i] = (uint8_t)(atomic_load_explicit(&segment->removed[i / 8], memory_order_relaxed) >>
                            (i % 8 * 8));
}

bool search_segment_load_removed(struct search_segment *segment, struct base_span bits)
{
    if (bits.size != search_segment_removed_size(segment))
        return false;
    for (uint32_t i = 0; i < segment->head.documents; i++)
        if ((unsigned char)bits.data[i / 8] >> (i % 8) & 1)
            remove_document(segment, i);
    return true;
}

size_t search_segment_keys(const struct search_segment *segment, size_t from, int64_t *keys,
                           bool *removed, size_t capacity)
{
    size_t count = 0;
    for (; count < capacity && from + count < segment->head.documents; count++) {
        keys[count] = segment->keys[from + count];
        removed[count] = search_segment_is_removed(segment, (uint32_t)(from + count));
    }
    return count;
}

/* ---- terms ----------------------------------------------------------------------------------- */

static size_t bucket_of_hash(const struct search_segment *segment, uint64_t hash)
{
    const uint32_t bits = segment->head.bucket_bits;
    return bits > 0 ? (size_t)(hash >> (64 - bits)) : 0;
}

/* Whoever chooses the words may fill a bucket, so it is halved and not walked through. */
static int64_t find_term(const struct search_segment *segment, uint64_t hash)
{
    const struct search_head *head = &segment->head;
    const size_t bucket = bucket_of_hash(segment, hash);
    uint32_t first = segment->buckets[bucket], end = segment->buckets[bucket + 1];
    end = end < head->terms ? end : head->terms;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (segment->hashes[middle] < hash)
            first = middle + 1;
        else
            end = middle;
    }
    return first < head->terms && segment->hashes[first] == hash ? (int64_t)first : -1;
}

void search_segment_terms(const struct search_segment *segment, const uint64_t *hashes,
                          size_t count, int64_t *terms)
{
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(&segment->buckets[bucket_of_hash(segment, hashes[i])]);
    for (size_t i = 0; i < count; i++) {
        const uint32_t first = segment->buckets[bucket_of_hash(segment, hashes[i])];
        __builtin_prefetch(segment->hashes + first);
        __builtin_prefetch(segment->lists + first);
    }
    for (size_t i = 0; i < count; i++) {
        terms[i] = find_term(segment, hashes[i]);
        if (terms[i] >= 0 && !(segment->lists[terms[i]] & SEARCH_SINGLE))
            __builtin_prefetch(segment->postings + segment->lists[terms[i]]);
    }
}

/* ---- what others ask ------------------------------------------------------------------------- */

void search_segment_read_facts(const struct search_segment *segment,
                               struct search_segment_facts *facts)
{
    BASE_CHECK_MAGIC(segment, SEARCH_SEGMENT_MAGIC);
    *facts = (struct search_segment_facts){
        .label = segment->label,
        .first = segment->head.first,
        .last = segment->head.last,
        .words = segment->head.words,
        .documents = segment->head.documents,
        .removed = atomic_load_explicit(&segment->removed_count, memory_order_relaxed),
        .bytes = segment->head.size,
        .checksum = segment->head.head_checksum,
        .in_file = segment->mapped,
        .damaged = search_segment_is_damaged(segment)};
}
