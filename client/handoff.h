/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff.h - the embedded handoff client.
 *
 * The one public header of client/. A host program (our daemon, or any C program) assembles
 * envelopes, stores and delivers them through it. The library never prints and never exits;
 * expected failures come back as values.
 */
#ifndef HANDOFF_H
#define HANDOFF_H

#include <stdbool.h>
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

/* The version of the library, "MAJOR.MINOR.PATCH". The string is static. */
const char *handoff_version(void);

/* ---- errors -------------------------------------------------------------------------------- */

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
    HANDOFF_CLASS_CONFLICT,        /* it is there, and different */
    HANDOFF_CLASS_REFUSED,         /* understood, but a rule forbids it */
    HANDOFF_CLASS_BUSY,            /* later, with less at once */
    HANDOFF_CLASS_UNAUTHENTICATED, /* say who you are */
    HANDOFF_CLASS_FORBIDDEN,       /* not you */
    HANDOFF_CLASS_FAILED,          /* a party behind us said no */
    HANDOFF_CLASS_TIMEOUT,         /* a party behind us took too long */
    HANDOFF_CLASS_UNAVAILABLE,     /* later */
    HANDOFF_CLASS_INTERNAL         /* our fault, or broken data */
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

/* "invalid_request"; static. An unknown number gives "internal". */
const char *handoff_code_name(enum handoff_code code);
/* One sentence on the code; static. */
const char *handoff_code_meaning(enum handoff_code code);
enum handoff_class handoff_code_class(enum handoff_code code);

/* Writes the whole error as one line, "message (field: seen X, allowed Y)", always terminated.
   Returns the length it would have had, as snprintf does. */
size_t handoff_error_text(const struct handoff_error *error, char *text, size_t size);

/* ---- agents -------------------------------------------------------------------------------- */

/* What counts as an acknowledgement of a delivery. */
enum handoff_ack_mode {
    HANDOFF_ACK_EXPLICIT, /* an answer that names the handoff's id */
    HANDOFF_ACK_STATUS    /* any 2xx but 202 */
};

/* The major versions of envelopes that an agent reads, or-ed. */
enum handoff_accepts { HANDOFF_ACCEPTS_1 = 1 << 0, HANDOFF_ACCEPTS_2 = 1 << 1 };

enum handoff_emit {
    HANDOFF_EMIT_SINGLE, /* the newest version that the agent reads */
    HANDOFF_EMIT_DUAL    /* one document that carries both forms */
};

/* One agent that handoffs can be sent to. The host fills it in, with every default applied. */
struct handoff_agent_options {
    const char *name;
    const char *url; /* http or https; NULL: it pulls from its inbox */
    uint64_t token_budget;
    int64_t timeout_ms;     /* of one attempt, or of a lease of its inbox */
    int64_t ack_timeout_ms; /* of an acknowledgement that was announced with 202 */
    unsigned retries;       /* after the first attempt */
    enum handoff_ack_mode ack;
    const char *const *alternates; /* names, tried in this order when it cannot be reached */
    size_t nalternates;
    unsigned accepts; /* enum handoff_accepts */
    enum handoff_emit emit;
    unsigned breaker_failures; /* exhausted handoffs in a row that open the circuit; 0: never */
    int64_t breaker_cooldown_ms;
    int64_t backoff_base_ms, backoff_max_ms;
    const char *ca_file, *cert_file, *key_file; /* NULL: the system's authorities, no certificate */
    const char *bearer_token;                   /* NULL: none. Never logged, never stored. */
};

/* ---- counting tokens --------------------------------------------------------------------- */

/*
 * A tokenizer counts the tokens of text in one encoding, exactly as OpenAI's tiktoken does, or
 * estimates them where no vocabulary is at hand. Text is UTF-8. What is no valid UTF-8 counts as if
 * every maximal ill-formed subsequence were U+FFFD, for a model can only ever be given that.
 * Special tokens such as <|endoftext|> are ordinary text.
 *
 * A tokenizer may be used by any number of threads at once; closing it needs that none does.
 */
struct handoff_tokenizer;

/*
 * Opens the vocabulary of an encoding, "o200k_base" or "cl100k_base": the file ENCODING.vocabulary
 * in the directory, or, where that is NULL, in $HANDOFF_VOCABULARY_DIR, or, where that is unset or
 * empty, in the folder that was chosen when the library was built (.../share/handoff-exporter).
 * The name "estimate" gives the estimating tokenizer. NULL on failure, and the error says why:
 * unknown_encoding, vocabulary_missing, vocabulary_foreign, vocabulary_corrupt or out_of_memory,
 * with the file in field and the place in it in seen.
 */
struct handoff_tokenizer *handoff_tokenizer_open_encoding(const char *encoding,
                                                          const char *directory,
                                                          struct handoff_error *error);

/* Opens one vocabulary file, whatever its encoding. */
struct handoff_tokenizer *handoff_tokenizer_open(const char *path, struct handoff_error *error);

/*
 * The tokenizer that needs no vocabulary. It never tells less than either encoding has tokens, so
 * what fits by it fits in truth; it tells about three times as many for English text.
 * Always there, never NULL.
 */
struct handoff_tokenizer *handoff_tokenizer_estimate(void);

/* "o200k_base", "cl100k_base" or "estimate"; lives as long as the tokenizer. */
const char *handoff_tokenizer_encoding(const struct handoff_tokenizer *tokenizer);

/* Closes and clears the pointer; NULL and the estimating tokenizer are fine. */
void handoff_tokenizer_close(struct handoff_tokenizer **tokenizer);

/*
 * Counts. OUT_OF_MEMORY: only text that is no valid UTF-8 or has a run of more than 256 bytes that
 * nothing cuts (white space does) needs any. TOO_LARGE: such a run has more than 1 GiB. The count
 * is set on success only.
 */
enum handoff_code handoff_tokens_count(const struct handoff_tokenizer *tokenizer, const char *text,
                                       size_t length, size_t *count) HANDOFF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
