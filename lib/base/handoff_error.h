/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff_error.h - errors as values: codes, their names and classes, and one struct for a failure.
 *
 * Part of the public interface; handoff.h includes it. A file of its own, because lib/base and
 * lib/tokens report failures too and know nothing of handoffs.
 */
#ifndef HANDOFF_ERROR_H
#define HANDOFF_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define HANDOFF_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HANDOFF_MUST_CHECK
#endif

/* HANDOFF_OK is 0; the rest is HANDOFF_ERR_INVALID and so on, one per row of handoff_codes.def. */
enum handoff_code {
#define CODE(name, text, class, meaning) HANDOFF_ERR_##name,
#include "handoff_codes.def"
#undef CODE
    HANDOFF_CODE_COUNT,
    HANDOFF_OK = HANDOFF_ERR_OK
};

/* What kind of refusal a code is. An edge (HTTP, an exit status) maps these, not the codes. */
enum handoff_class {
    HANDOFF_CLASS_NONE,
    HANDOFF_CLASS_INVALID,         /* the caller has to send something else */
    HANDOFF_CLASS_TOO_LARGE,       /* less of it */
    HANDOFF_CLASS_NOT_FOUND,       /* it is not there */
    HANDOFF_CLASS_GONE,            /* it was there, and will not come back */
    HANDOFF_CLASS_CONFLICT,        /* it is there, and different */
    HANDOFF_CLASS_REFUSED,         /* understood, but a rule forbids it */
    HANDOFF_CLASS_BUSY,            /* later, with less at once */
    HANDOFF_CLASS_UNAUTHENTICATED, /* say who you are */
    HANDOFF_CLASS_FORBIDDEN,       /* not you */
    HANDOFF_CLASS_FAILED,          /* a party behind us said no */
    HANDOFF_CLASS_TIMEOUT,         /* a party behind us took too long */
    HANDOFF_CLASS_UNAVAILABLE,     /* later */
    HANDOFF_CLASS_INTERNAL,        /* our fault, or broken data */
    HANDOFF_CLASS_METHOD,          /* it is there, and this cannot be done with it */
    HANDOFF_CLASS_UNIMPLEMENTED,   /* sent in a way that we do not read */
    HANDOFF_CLASS_MEDIA_TYPE       /* the content is in a form that we do not read */
};

/* One failure. A value: copy it freely, nothing has to be released. */
struct handoff_error {
    enum handoff_code code;
    const char
        *message;   /* constant text: what is wrong and what to do about it; never NULL once set */
    char field[64]; /* which field, option or file ("tags[3]", "storage.path"), or "" */
    char seen[160]; /* what was found there, cut to fit, or "" */
    char allowed[96]; /* what is allowed, or "" */
    int64_t needed;   /* the number that would do, where the code speaks of one; else 0 */
};

/* The stable name, "invalid_request", as the API has it in `code`; static. An unknown number gives
   "internal". Any thread. */
const char *handoff_code_name(enum handoff_code code);
/* One sentence on the code, for people; static. Any thread. */
const char *handoff_code_meaning(enum handoff_code code);
/* What kind of refusal it is; decide by this rather than by a list of codes. Any thread. */
enum handoff_class handoff_code_class(enum handoff_code code);

/* Writes the whole error as one line, "message (field: seen X, allowed Y)", into `text`, which has
   room for `size` bytes; it is always terminated, and cut between characters. Returns the length
   that it would have had, as snprintf does. 512 bytes hold any error. */
size_t handoff_error_text(const struct handoff_error *error, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
