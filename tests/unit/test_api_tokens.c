/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens file: what it may say, what it may not, and whom a token stands for. */
#include "exporter/access/api_tokens.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_A "token-of-analyst-1"
#define TOKEN_B "token-of-analyst-2"
#define TOKEN_C "dG9rZW4rb2YvY29kZXI_~.=="

static struct base_arena arena;
static struct exporter_error error;

static int clear(void **state)
{
    (void)state;
    base_arena_free(&arena);
    return 0;
}

static const struct exporter_api_tokens *read_bytes(const char *text, size_t length)
{
    exporter_error_set(&error, "%s", "");
    return exporter_api_tokens_read("FILE", text, length, &arena, &error);
}

static const struct exporter_api_tokens *read_good(const char *text)
{
    const struct exporter_api_tokens *tokens = read_bytes(text, strlen(text));
    assert_string_equal(error.text, "");
    assert_non_null(tokens);
    return tokens;
}

static void assert_name(const struct exporter_api_tokens *tokens, const char *token,
                        const char *name)
{
    const struct exporter_token_owner *found =
        exporter_api_tokens_owner(tokens, token, strlen(token));
    assert_string_equal(found != NULL ? found->name : "(nobody)", name);
}

static void test_tokens_and_their_names(void **state)
{
    (void)state;
    const struct exporter_api_tokens *tokens = read_good("# who may call\n"
                                                         "\n"
                                                         "analyst " TOKEN_A "\n"
                                                         "  analyst\t" TOKEN_B "   # until Monday\n"
                                                         "\t# a blank before it\r\n"
                                                         "coder " TOKEN_C "\r\n"
                                                         "@operator token-of-the-operator");
    assert_name(tokens, TOKEN_A, "analyst");
    assert_name(tokens, TOKEN_B, "analyst");
    assert_name(tokens, TOKEN_C, "coder");
    assert_name(tokens, "token-of-the-operator", EXPORTER_OPERATOR);
    assert_name(tokens, "", "(nobody)");
    assert_name(tokens, "analyst", "(nobody)");
    assert_name(tokens, "token-of-analyst-", "(nobody)");
    assert_name(tokens, TOKEN_A " ", "(nobody)");
    assert_name(tokens, "Token-of-analyst-1", "(nobody)");
    assert_null(exporter_api_tokens_owner(tokens, TOKEN_A, strlen(TOKEN_A) - 1));
}

static void test_tokens_that_are_bound_to_scopes(void **state)
{
    (void)state;
    const struct exporter_api_tokens *tokens =
        read_good("analyst " TOKEN_A " scopes=user:alice,team/red # until Monday\n"
                  "analyst " TOKEN_B "\n");
    assert_name(tokens, TOKEN_A, "analyst");
    assert_string_equal(exporter_api_tokens_owner(tokens, TOKEN_A, strlen(TOKEN_A))->scopes,
                        "user:alice,team/red");
    assert_null(exporter_api_tokens_owner(tokens, TOKEN_B, strlen(TOKEN_B))->scopes);
}

static void test_tokens_that_are_bound_to_channels(void **state)
{
    (void)state;
    const struct exporter_api_tokens *tokens =
        read_good("analyst " TOKEN_A " receive=news publish=alarms,oauth-2.1 scopes=user:alice\n"
                  "analyst " TOKEN_B " publish=\n");
    const struct exporter_token_owner *bound =
        exporter_api_tokens_owner(tokens, TOKEN_A, strlen(TOKEN_A));
    assert_string_equal(bound->publish, "alarms,oauth-2.1");
    assert_string_equal(bound->receive, "news");
    assert_string_equal(bound->scopes, "user:alice");
    bound = exporter_api_tokens_owner(tokens, TOKEN_B, strlen(TOKEN_B));
    assert_string_equal(bound->publish, "");
    assert_null(bound->receive);
    assert_null(bound->scopes);
}

static void test_scopes_have_a_length(void **state)
{
    char text[64 + EXPORTER_SCOPES_MAX];
    (void)state;
    int used = snprintf(text, sizeof text, "a " TOKEN_A " scopes=");
    for (int i = 0; i < EXPORTER_SCOPES_MAX; i++)
        text[used + i] = i % 100 == 99 ? ',' : 'x';
    read_bytes(text, (size_t)used + EXPORTER_SCOPES_MAX);
    assert_string_equal(error.text, "");
    text[used + EXPORTER_SCOPES_MAX] = 'x';
    read_bytes(text, (size_t)used + EXPORTER_SCOPES_MAX + 1);
    assert_string_equal(error.text,
                        "FILE:1: api.tokens_file: saw scopes of 513 bytes, allowed: 512");
}

/* Every entry is found, wherever it stands. */
static void test_as_many_as_there_may_be(void **state)
{
    (void)state;
    enum { LINE = 64 };
    static char text[(EXPORTER_TOKENS_MAX + 1) * LINE];
    char token[LINE], name[LINE];
    size_t used = 0;
    for (int i = 0; i < EXPORTER_TOKENS_MAX; i++)
        used += (size_t)snprintf(text + used, LINE, "agent-%d token-number-%06d\n", i / 4, i);
    const struct exporter_api_tokens *tokens = read_good(text);
    for (int i = 0; i < EXPORTER_TOKENS_MAX; i++) {
        snprintf(token, sizeof token, "token-number-%06d", i);
        snprintf(name, sizeof name, "agent-%d", i / 4);
        assert_name(tokens, token, name);
    }
    assert_name(tokens, "token-number-004000", "(nobody)");
    snprintf(text + used, LINE, "one-more token-number-%06d\n", EXPORTER_TOKENS_MAX);
    assert_null(read_bytes(text, strlen(text)));
    assert_string_equal(error.text,
                        "FILE:4001: api.tokens_file: saw too many tokens, allowed: 4000");
}

#define NAMES   "an agent's name of 1 to 128 letters, digits and ._-, or @operator"
#define SCOPE   "1 to 128 characters of A-Z a-z 0-9 . _ : @ / -"
#define CHANNEL "1 to 128 letters, digits and ._-"
#define LETTERS "letters, digits and -._~+/, and = at the end"

static void test_bad_files(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "FILE: api.tokens_file: saw no tokens, allowed: one NAME TOKEN per line"},
        {"# nobody\n\n", "FILE: api.tokens_file: saw no tokens, allowed: one NAME TOKEN per line"},
        {"a " TOKEN_A "\ncoder\n",
         "FILE:2: api.tokens_file: saw one word, allowed: NAME TOKEN [scopes=SCOPE,SCOPE] "
         "[publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"},
        {TOKEN_A "\n", "FILE:1: api.tokens_file: saw one word, allowed: NAME TOKEN "
                       "[scopes=SCOPE,SCOPE] [publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"},
        {"coder # " TOKEN_A,
         "FILE:1: api.tokens_file: saw one word, allowed: NAME TOKEN [scopes=SCOPE,SCOPE] "
         "[publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"},
        {"a " TOKEN_A " " TOKEN_B,
         "FILE:1: api.tokens_file: saw more than two words, allowed: "
         "NAME TOKEN [scopes=SCOPE,SCOPE] [publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"},
        {"a " TOKEN_A " // comment",
         "FILE:1: api.tokens_file: saw more than two words, allowed: "
         "NAME TOKEN [scopes=SCOPE,SCOPE] [publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"},
        {"a " TOKEN_A " scopes=user:alice more",
         "FILE:1: api.tokens_file: saw more than two words, allowed: NAME TOKEN "
         "[scopes=SCOPE,SCOPE] [publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"},
        {"a " TOKEN_A " scopes=", "FILE:1: api.tokens_file: saw a scope of 0 bytes (not shown), "
                                  "allowed: " SCOPE},
        {"a " TOKEN_A " scopes=user:alice,", "FILE:1: api.tokens_file: saw a scope of 0 bytes (not "
                                             "shown), allowed: " SCOPE},
        {"a " TOKEN_A " scopes=user=alice", "FILE:1: api.tokens_file: saw a scope of 10 bytes (not "
                                            "shown), allowed: " SCOPE},
        {"a " TOKEN_A " scopes=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q",
         "FILE:1: api.tokens_file: saw 17 scopes, allowed: 16"},
        {"@operator " TOKEN_A " scopes=user:alice",
         "FILE:1: api.tokens_file: saw scopes of @operator, allowed: scopes of an agent's token"},
        {"a " TOKEN_A " publish=news,", "FILE:1: api.tokens_file: saw a channel of 0 bytes (not "
                                        "shown), allowed: " CHANNEL},
        {"a " TOKEN_A " receive=@all", "FILE:1: api.tokens_file: saw a channel of 4 bytes (not "
                                       "shown), allowed: " CHANNEL},
        {"a " TOKEN_A " publish=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q",
         "FILE:1: api.tokens_file: saw 17 channels, allowed: 16"},
        {"a " TOKEN_A " publish=news publish=alarms",
         "FILE:1: api.tokens_file: saw publish= twice, allowed: once in a line"},
        {"@operator " TOKEN_A " publish=news",
         "FILE:1: api.tokens_file: saw channels of @operator, allowed: channels of an agent's "
         "token"},
        {"a fifteen-letters",
         "FILE:1: api.tokens_file: saw a token of 15 bytes, allowed: 16 to 512"},
        {TOKEN_A " analyst", "FILE:1: api.tokens_file: saw a token of 7 bytes, allowed: 16 to 512"},
        {"\n\na token#with#sharps#in#it", "FILE:3: api.tokens_file: saw a token with invalid "
                                          "characters (not shown), allowed: " LETTERS},
        {"a \"token in quotes\"",
         "FILE:1: api.tokens_file: saw more than two words, allowed: NAME "
         "TOKEN [scopes=SCOPE,SCOPE] [publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"},
        {"a token=with=equals", "FILE:1: api.tokens_file: saw a token with invalid characters (not "
                                "shown), allowed: " LETTERS},
        {"a ================", "FILE:1: api.tokens_file: saw a token with invalid characters (not "
                               "shown), allowed: " LETTERS},
        {"a/b " TOKEN_A,
         "FILE:1: api.tokens_file: saw a name of 3 bytes (not shown), allowed: " NAMES},
        {"coder: " TOKEN_A,
         "FILE:1: api.tokens_file: saw a name of 6 bytes (not shown), allowed: " NAMES},
        {"@admin " TOKEN_A,
         "FILE:1: api.tokens_file: saw an unknown name with @ (not shown), allowed: @operator"},
        {"next " TOKEN_A, "FILE:1: api.tokens_file: saw next, allowed: a name other than other, "
                          "next and broadcast"},
        {"a " TOKEN_A "\nb " TOKEN_B "\nc " TOKEN_A,
         "FILE:3: api.tokens_file: saw the token of line 1 again, allowed: each token once"},
        {"a " TOKEN_A "\na " TOKEN_A,
         "FILE:2: api.tokens_file: saw the token of line 1 again, allowed: each token once"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(read_bytes(cases[i].text, strlen(cases[i].text)));
        assert_string_equal(error.text, cases[i].message);
        assert_null(strstr(error.text, "token-of"));
    }
}

static void test_lengths_at_their_bounds(void **state)
{
    char text[EXPORTER_TOKEN_MAX + 256];
    (void)state;
    snprintf(text, sizeof text, "a %0*d", EXPORTER_TOKEN_MIN, 0);
    assert_non_null(read_bytes(text, strlen(text)));
    snprintf(text, sizeof text, "a %0*d", EXPORTER_TOKEN_MAX, 0);
    assert_non_null(read_bytes(text, strlen(text)));
    snprintf(text, sizeof text, "a %0*d", EXPORTER_TOKEN_MAX + 1, 0);
    assert_null(read_bytes(text, strlen(text)));
    assert_string_equal(error.text,
                        "FILE:1: api.tokens_file: saw a token of 513 bytes, allowed: 16 to 512");
    snprintf(text, sizeof text, "%0128d " TOKEN_A, 0);
    assert_non_null(read_bytes(text, strlen(text)));
    snprintf(text, sizeof text, "%0129d " TOKEN_A, 0);
    assert_null(read_bytes(text, strlen(text)));
    assert_string_equal(
        error.text,
        "FILE:1: api.tokens_file: saw a name of 129 bytes (not shown), allowed: " NAMES);
}

static void test_zero_bytes(void **state)
{
    static const char in_name[] = "a\0b " TOKEN_A, in_token[] = "a token-of\0-somebody-else";
    (void)state;
    assert_null(read_bytes(in_name, sizeof in_name - 1));
    assert_null(read_bytes(in_token, sizeof in_token - 1));
    assert_string_equal(error.text, "FILE:1: api.tokens_file: saw a token with invalid characters "
                                    "(not shown), allowed: " LETTERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tokens_and_their_names, clear),
        cmocka_unit_test_teardown(test_tokens_that_are_bound_to_scopes, clear),
        cmocka_unit_test_teardown(test_tokens_that_are_bound_to_channels, clear),
        cmocka_unit_test_teardown(test_scopes_have_a_length, clear),
        cmocka_unit_test_teardown(test_as_many_as_there_may_be, clear),
        cmocka_unit_test_teardown(test_bad_files, clear),
        cmocka_unit_test_teardown(test_lengths_at_their_bounds, clear),
        cmocka_unit_test_teardown(test_zero_bytes, clear),
    };
    return RUN_TESTS(tests);
}
