/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stems are those that FTS5's porter tokenizer gives, which somebody else wrote from the same
 * paper: for the examples of the paper, for every ending that a step knows behind every kind of
 * beginning, and for random letters.
 */
#include "tests/support/unit.h"

#include "lib/words/stem.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlite3 *db;

static void run(const char *sql)
{
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static int open_oracle(void **state)
{
    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    run("CREATE VIRTUAL TABLE text USING fts5(word, tokenize = 'porter')");
    run("CREATE VIRTUAL TABLE stems USING fts5vocab(text, instance)");
    run("BEGIN");
    return 0;
}

static int close_oracle(void **state)
{
    (void)state;
    return sqlite3_close(db);
}

static void ask_for(const char *word)
{
    static sqlite3_stmt *insert;
    if (!word) {
        sqlite3_finalize(insert);
        insert = NULL;
        return;
    }
    if (!insert)
        assert_int_equal(sqlite3_prepare_v2(db, "INSERT INTO text VALUES (?1)", -1, &insert, NULL),
                         SQLITE_OK);
    sqlite3_bind_text(insert, 1, word, -1, SQLITE_TRANSIENT);
    assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
    sqlite3_reset(insert);
}

/* Compares all that was asked for; returns how many. */
static int compare(void)
{
    int count = 0;
    sqlite3_stmt *stems;
    ask_for(NULL);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT word, term FROM stems JOIN text"
                                        " ON text.rowid = stems.doc",
                                        -1, &stems, NULL),
                     SQLITE_OK);
    for (; sqlite3_step(stems) == SQLITE_ROW; count++) {
        char stem[WORDS_STEM_MAX + 2];
        const char *word = (const char *)sqlite3_column_text(stems, 0);
        size_t size = strlen(word);
        memcpy(stem, word, size);
        size = words_stem(stem, size);
        stem[size] = '\0';
        if (strcmp(stem, (const char *)sqlite3_column_text(stems, 1)) != 0)
            print_message("%s\n", word);
        assert_string_equal(stem, (const char *)sqlite3_column_text(stems, 1));
    }
    sqlite3_finalize(stems);
    run("DELETE FROM text");
    return count;
}

static const char *const examples[] = {
    "caresses",    "ponies",      "ties",        "caress",       "cats",
    "feed",        "agreed",      "plastered",   "bled",         "motoring",
    "sing",        "conflated",   "troubled",    "sized",        "hopping",
    "tanned",      "falling",     "hissing",     "fizzed",       "failing",
    "filing",      "happy",       "sky",         "relational",   "conditional",
    "rational",    "valenci",     "hesitanci",   "digitizer",    "conformabli",
    "radicalli",   "differentli", "vileli",      "analogousli",  "vietnamization",
    "predication", "operator",    "feudalism",   "decisiveness", "hopefulness",
    "callousness", "formaliti",   "sensitiviti", "sensibiliti",  "triplicate",
    "formative",   "formalize",   "electriciti", "electrical",   "hopeful",
    "goodness",    "revival",     "allowance",   "inference",    "airliner",
    "gyroscopic",  "adjustable",  "defensible",  "irritant",     "replacement",
    "adjustment",  "dependent",   "adoption",    "homologou",    "communism",
    "activate",    "angulariti",  "homologous",  "effective",    "bowdlerize",
    "probate",     "rate",        "cease",       "controll",     "roll",
    "yes",         "say",         "syzygy",      "yyy",          "eee",
    "sss",         "ing",         "ied",         "ion",
};

static void the_examples_of_the_paper(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        ask_for(examples[i]);
    assert_int_equal(compare(), sizeof examples / sizeof *examples);
}

static void every_ending_behind_every_beginning(void **state)
{
    static const char *const beginnings[] = {
        "a",       "b",       "ba",
        "ab",      "bay",     "y",
        "ry",      "ess",     "bet",
        "beat",    "tomat",   "probabl",
        "realis",  "fall",    "hopp",
        "snow",    "box",     "tray",
        "organiz", "conflat", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqr"};
    static const char *const endings[] = {
        "s",       "sses",  "ies",   "ss",    "eed",     "ed",      "ing",     "y",     "ational",
        "tional",  "enci",  "anci",  "izer",  "abli",    "alli",    "entli",   "eli",   "ousli",
        "ization", "ation", "ator",  "alism", "iveness", "fulness", "ousness", "aliti", "iviti",
        "biliti",  "icate", "ative", "alize", "iciti",   "ical",    "ful",     "ness",  "al",
        "ance",    "ence",  "er",    "ic",    "able",    "ible",    "ant",     "ement", "ment",
        "ent",     "ion",   "sion",  "tion",  "ou",      "ism",     "ate",     "iti",   "ous",
        "ive",     "ize",   "e",     "l",     "ll",      "logi",    "bli"};
    int asked = 0;
    (void)state;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        for (size_t j = 0; j < sizeof endings / sizeof *endings; j++)
            for (size_t k = 0; k < sizeof endings / sizeof *endings; k += 5) {
                char word[80];
                (void)snprintf(word, sizeof word, "%s%s%s", beginnings[i], k > 0 ? endings[k] : "",
                               endings[j]);
                if (strlen(word) <= WORDS_STEM_MAX) {
                    ask_for(word);
                    asked++;
                }
            }
    assert_int_equal(compare(), asked);
}

static void random_letters(void **state)
{
    static const char letters[] = "aaeeiioouuyybcdfglmnrsstttvwxz";
    unsigned seed = 7;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char word[16] = {0};
        size_t size = 1 + (seed >> 20) % 12;
        for (size_t at = 0; at < size; at++) {
            seed = seed * 1103515245 + 12345;
            word[at] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        ask_for(strcmp(word, "eed") != 0 ? word : "feed");
    }
    assert_int_equal(compare(), 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_paper),
        cmocka_unit_test(every_ending_behind_every_beginning),
        cmocka_unit_test(random_letters),
    };
    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
