/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of scopes, see full_text.h. A text is split by the tokenizer that the index has, so a scope
 * finds the same words as before; splitting the result again gives the same words, as they have no
 * other characters than letters and digits. The thread: full_text.h.
 */
#include "client/spine/embedded/full_text.h"

#include "lib/base/error.h"

/* As in the declaration of memories_text. */
static const char *tokenizer_options[] = {"remove_diacritics", "2"};

struct scoping {
    struct base_buffer *buffer;
    int64_t scope;
};

static int append_word(void *context, int flags, const char *word, int size, int start, int end)
{
    const struct scoping *scoping = context;
    (void)flags;
    (void)start;
    (void)end;
    base_buffer_printf(scoping->buffer, "%lldz", (long long)scoping->scope);
    base_buffer_append(scoping->buffer, word, (size_t)size);
    base_buffer_byte(scoping->buffer, ' ');
    return scoping->buffer->failed ? SQLITE_NOMEM : SQLITE_OK;
}

bool handoff_full_text_words(fts5_api *api, int64_t scope, struct base_span text,
                             struct base_buffer *buffer)
{
    struct scoping scoping = {buffer, scope};
    fts5_tokenizer methods;
    Fts5Tokenizer *tokenizer;
    void *context;
    if (api->xFindTokenizer(api, "unicode61", &context, &methods) != SQLITE_OK ||
        methods.xCreate(context, tokenizer_options, 2, &tokenizer) != SQLITE_OK)
        return false;
    const int result = methods.xTokenize(tokenizer, &scoping, FTS5_TOKENIZE_DOCUMENT, text.data,
                                         (int)text.size, append_word);
    methods.xDelete(tokenizer);
    return result == SQLITE_OK && !buffer->failed;
}

/* handoff_scope_words(scope, text); of no text, none. */
static void give_scope_words(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct base_buffer words = {0};
    const char *text = (const char *)sqlite3_value_text(arguments[1]);
    (void)count;
    if (!text)
        return;
    if (handoff_full_text_words(sqlite3_user_data(context), sqlite3_value_int64(arguments[0]),
                                base_span(text, (size_t)sqlite3_value_bytes(arguments[1])), &words))
        sqlite3_result_text64(context, words.data ? words.data : "", words.size, SQLITE_TRANSIENT,
                              SQLITE_UTF8);
    else
        sqlite3_result_error_nomem(context);
    base_buffer_free(&words);
}

fts5_api *handoff_full_text_api(struct handoff_db *db, struct handoff_error *error)
{
    fts5_api *api = NULL;
    sqlite3_stmt *find = handoff_db_statement(db, "SELECT fts5(?1)", error);
    if (!find)
        return NULL;
    sqlite3_bind_pointer(find, 1, &api, "fts5_api_ptr", NULL);
    handoff_db_row(find);
    if (handoff_db_end(db, find, error) != HANDOFF_OK)
        return NULL;
    if (!api)
        handoff_error_no_memory(error);
    return api;
}

enum handoff_code handoff_full_text_register(struct handoff_db *db, fts5_api *api,
                                             struct handoff_error *error)
{
    return sqlite3_create_function(db->sqlite, "handoff_scope_words", 2,
                                   SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, api,
                                   give_scope_words, NULL, NULL) == SQLITE_OK
               ? HANDOFF_OK
               : handoff_error_no_memory(error);
}
