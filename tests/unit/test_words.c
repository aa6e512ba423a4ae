/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terms of texts, with the text that each was read from: "a b a/b*" are two words and a whole.
 * A whole ends with "*", a pair with "+", a single character with "-".
 */
#include "tests/support/unit.h"

#include "lib/words/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/words/document.h"

enum { MOST = 512 };

struct terms {
    struct words_term list[MOST];
    size_t count;
};

static struct terms read_terms(struct base_span text, unsigned flags, size_t room)
{
    struct words_reader reader;
    struct terms terms = {.count = 0};
    size_t count;
    words_begin(&reader, text, flags);
    while ((count = words_read(&reader, terms.list + terms.count, room)) > 0) {
        terms.count += count;
        assert_true(terms.count + room <= MOST);
    }
    return terms;
}

static struct terms terms_of(const char *text)
{
    return read_terms(base_span_text(text), 0, 64);
}

static void expect_read(const char *text, unsigned flags, const char *expected)
{
    static const char *const marks[] = {"", "*", "+", "-"};
    struct terms terms = read_terms(base_span_text(text), flags, 64);
    char seen[2048] = "";
    for (size_t i = 0; i < terms.count; i++) {
        const struct words_term *term = &terms.list[i];
        size_t size = strlen(seen);
        (void)snprintf(seen + size, sizeof seen - size, "%s%.*s%s", i > 0 ? " " : "",
                       (int)(term->end - term->begin), text + term->begin, marks[term->kind]);
    }
    assert_string_equal(seen, expected);
}

static bool has_term(const struct terms *terms, uint64_t hash)
{
    for (size_t i = 0; i < terms->count; i++)
        if (terms->list[i].hash == hash)
            return true;
    return false;
}

/* Every term of the query is a term of the document. */
static bool finds(const char *query, const char *document)
{
    struct terms wanted = read_terms(base_span_text(query), WORDS_QUERY, 64);
    struct terms given = terms_of(document);
    assert_true(wanted.count > 0);
    for (size_t i = 0; i < wanted.count; i++)
        if (!has_term(&given, wanted.list[i].hash))
            return false;
    return true;
}

/* They have a term in common. */
static bool touches(const char *query, const char *document)
{
    struct terms wanted = read_terms(base_span_text(query), WORDS_QUERY, 64);
    struct terms given = terms_of(document);
    for (size_t i = 0; i < wanted.count; i++)
        if (has_term(&given, wanted.list[i].hash))
            return true;
    return false;
}

static void words_end_at_what_is_no_letter(void **state)
{
    (void)state;
    expect_read("The flow, past a (flat) plate!", 0, "The flow past a flat plate");
    expect_read("  ", 0, "");
    expect_read("", 0, "");
    expect_read("... -- ?!", 0, "");
    expect_read("one\ntwo\tthree", 0, "one two three");
    expect_read("word--word", 0, "word word");
    expect_read("Ende. Anfang", 0, "Ende Anfang");
    expect_read("Größe der Straße", 0, "Größe der Straße");
    expect_read("привет, мир", 0, "привет мир");
    expect_read("a\xff"
                "b",
                0, "a b");
    expect_read("πρόβλημα σίγμας", 0, "πρόβλημα σίγμας");
}

static void case_accents_and_forms_of_letters_do_not_count(void **state)
{
    (void)state;
    assert_true(finds("CONNECTION", "connection"));
    assert_true(finds("Zurich", "Zürich"));
    assert_true(finds("Zu\xcc\x88rich", "ZÜRICH"));
    assert_true(finds("strasse", "Straße"));
    assert_true(finds("STRASSE", "STRAẞE"));
    assert_true(finds("naive cafe", "naïve café"));
    assert_true(finds("Lodz", "Łódź"));
    assert_true(finds("smorrebrod", "smørrebrød"));
    assert_true(finds("oeuvre", "œuvre"));
    assert_true(finds("ｅｒｒｏｒ", "ERROR"));
    assert_true(finds("eﬃcient", "efficient"));
    assert_true(finds("ΣΊΣΥΦΟΣ", "σίσυφος"));
    assert_true(finds("ЁЛКА", "елка"));
    assert_true(finds("İstanbul", "istanbul"));
    assert_true(finds("\xd7\xa9\xd6\xb8\xd7\x9c\xd7\x95\xd6\xb9\xd7\x9d", "שלום"));
    assert_true(finds("don’t", "don't"));
    assert_true(finds("ﾃﾞｰﾀ", "データ"));
    assert_false(finds("か", "が"));
    assert_false(finds("कि", "का"));
}

static void english_words_are_found_by_their_stem(void **state)
{
    (void)state;
    assert_true(finds("connected", "connections"));
    assert_true(finds("retries", "retrying"));
    assert_false(finds("retries", "return"));
    struct terms stem = read_terms(base_span_text("connections"), WORDS_NO_STEM, 64);
    struct terms word = read_terms(base_span_text("connect"), WORDS_NO_STEM, 64);
    assert_int_not_equal(stem.list[0].hash, word.list[0].hash);
}

static void identifiers_are_split_and_kept_whole(void **state)
{
    (void)state;
    expect_read("getUserById(x)", 0, "get User By Id getUserById* x");
    expect_read("payment_gateway", 0, "payment gateway payment_gateway*");
    expect_read("ms-4821", 0, "ms 4821 ms-4821*");
    expect_read("src/lib/words.c:42", 0, "src lib words c 42 src/lib/words.c:42*");
    expect_read("v1.2.3-rc1", 0, "v1 2 3 rc 1 v1.2.3-rc1*");
    expect_read("HTTPServer", 0, "HTTP Server HTTPServer*");
    expect_read("parseJSON", 0, "parse JSON parseJSON*");
    expect_read("IDs and URLs", 0, "IDs and URLs");
    expect_read("std::move", 0, "std move std::move*");
    expect_read("https://example.org/a", 0, "https example org a https://example.org/a*");
    expect_read("E1042 utf8 x86 4xx 10ms", 0, "E1042 utf 8 utf8* x86 4xx 10 ms 10ms*");
    expect_read("ops@example.org.", 0, "ops example org ops@example.org*");
    expect_read("1,000 items, 2", 0, "1 000 1,000* items 2");
    expect_read("one,two", 0, "one two");
    expect_read("it's", 0, "it s it's*");
    expect_read("__init__", 0, "init");
    expect_read("-3.5", 0, "3 5 3.5*");
    expect_read("a/b/c d", 0, "a b c a/b/c* d");
}

static void an_identifier_is_found_however_it_is_written(void **state)
{
    (void)state;
    static const char *const spellings[] = {"payment_gateway", "payment-gateway", "paymentGateway",
                                            "PaymentGateway", "PAYMENT_GATEWAY"};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++)
            assert_true(finds(spellings[i], spellings[j]));
    assert_true(finds("payment gateway", "payment_gateway"));
    assert_true(touches("paymentgateway", "payment_gateway"));
    assert_true(touches("MS4821", "ms-4821"));
    assert_true(finds("C:\\logs\\app", "c:/logs/app"));
    assert_true(finds("getUser", "getUserById getUser"));
    assert_true(touches("words.c", "src/lib/words.c"));
    assert_false(finds("1.2.3", "12.3"));
    assert_false(finds("ms-4821", "ms 9 4821"));
}

static void scripts_without_spaces_give_pairs(void **state)
{
    (void)state;
    expect_read("東京都", WORDS_QUERY, "東京+ 京都+");
    expect_read("東京都", 0, "東- 東京+ 京- 京都+ 都-");
    expect_read("水", WORDS_QUERY, "水");
    expect_read("データベース", 0, "デー+ ータ+ タベ+ ベー+ ース+");
    expect_read("연결이", 0, "연결+ 결이+");
    expect_read("한 국", 0, "한 국");
    expect_read("用Redis缓存", WORDS_QUERY, "用 Redis 缓存+");
    assert_true(finds("水", "水道"));
    assert_true(finds("水", "水"));
    assert_true(finds("京都", "東京都庁"));
    assert_false(finds("京東", "東京都庁"));
    assert_true(finds("연결", "연결이"));
    assert_true(finds("ภาษา", "ภาษาไทย"));
}

/* As macOS writes file names, and NFD all text. */
static void hangul_may_be_written_in_its_letters(void **state)
{
    (void)state;
    static const char whole[] = "결제가 실패",
                      letters[] = "\u1100\u1167\u11af\u110c\u1166\u1100\u1161 \u1109\u1175\u11af"
                                  "\u1111\u1162";
    expect_read("결제가", 0, "결제+ 제가+");
    expect_read("\u1100\u1167\u11af\u110c\u1166", 0, "\u1100\u1167\u11af\u110c\u1166+");
    assert_true(finds(whole, letters));
    assert_true(finds(letters, whole));
    assert_true(finds("결제", letters));
    assert_false(finds("결재", letters));
    (void)terms_of(
        "\u1100 \u1100\u1100 \u1161\u11af \u1112\u1175\u11c2\u1112 \u1113\u1161 \xe1\x84");
}

static void positions_count_words_and_pairs(void **state)
{
    (void)state;
    struct terms terms = terms_of("one payment_gateway two 東京都 x");
    static const struct {
        uint32_t position;
        enum words_kind kind;
    } expected[] = {{0, WORDS_WORD}, {1, WORDS_WORD},   {2, WORDS_WORD}, {1, WORDS_WHOLE},
                    {3, WORDS_WORD}, {4, WORDS_SINGLE}, {4, WORDS_PAIR}, {5, WORDS_SINGLE},
                    {5, WORDS_PAIR}, {5, WORDS_SINGLE}, {6, WORDS_WORD}};
    assert_int_equal(terms.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < terms.count; i++) {
        assert_int_equal(terms.list[i].position, expected[i].position);
        assert_int_equal(terms.list[i].kind, expected[i].kind);
    }
}

static void the_room_for_terms_does_not_change_them(void **state)
{
    (void)state;
    static const char text[] =
        "getUserById failed at src/lib/words.c:42 with 東京都 and HTTPServer/2.0, MS-4821.";
    struct terms all = terms_of(text);
    for (size_t room = WORDS_READ_MIN; room < 40; room++) {
        struct terms terms = read_terms(base_span_text(text), 0, room);
        assert_int_equal(terms.count, all.count);
        for (size_t i = 0; i < all.count; i++) {
            assert_true(terms.list[i].hash == all.list[i].hash);
            assert_int_equal(terms.list[i].begin, all.list[i].begin);
            assert_int_equal(terms.list[i].position, all.list[i].position);
        }
    }
}

static char *repeat(const char *what, size_t times)
{
    size_t size = strlen(what);
    char *text = malloc(size * times + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * size, what, size);
    text[size * times] = '\0';
    return text;
}

static void a_word_of_any_length_is_one_term(void **state)
{
    (void)state;
    char *once = repeat("abcdefgh", 32 << 10), *other = repeat("abcdefgh", (32 << 10) - 1);
    struct terms long_one = terms_of(once), same = terms_of(once), shorter = terms_of(other);
    assert_int_equal(long_one.count, 1);
    assert_int_equal(long_one.list[0].end, 256 << 10);
    assert_true(long_one.list[0].hash == same.list[0].hash);
    assert_true(long_one.list[0].hash != shorter.list[0].hash);
    free(once);
    free(other);
}

static void a_document_has_each_term_once_with_its_count(void **state)
{
    (void)state;
    struct words_document document = {0};
    for (int round = 0; round < 3; round++) {
        words_document_begin(&document);
        assert_true(words_document_add(&document, base_span_text("wave waves of shock"), 1, 0));
        assert_true(words_document_add(&document, base_span_text("shock-wave"), 3, 0));
        words_document_end(&document);
        assert_int_equal(document.count, 4); /* wave, of, shock, and the whole */
        assert_int_equal(document.terms[0].count, 5);
        assert_int_equal(document.terms[1].count, 1);
        assert_int_equal(document.terms[2].count, 4);
        assert_int_equal(document.terms[3].count, 3);
        assert_int_equal(document.length, 6);
        assert_int_equal(document.sketch.size, WORDS_SKETCH_HEAD + 7);
    }
    words_document_clear(&document);
    assert_null(document.terms);
}

static void a_long_document_has_a_bounded_number_of_terms(void **state)
{
    (void)state;
    struct words_document document = {0};
    size_t size = 0, words = WORDS_DOCUMENT_TERMS + 1000;
    char *text = malloc(words * 8);
    assert_non_null(text);
    for (size_t i = 0; i < words; i++)
        size += (size_t)sprintf(text + size, "%zu ", i);
    words_document_begin(&document);
    assert_true(words_document_add(&document, base_span(text, size), 1, 0));
    assert_true(words_document_add(&document, base_span_text("1 1 1 1"), 100, 0));
    words_document_end(&document);
    assert_int_equal(document.count, WORDS_DOCUMENT_TERMS);
    assert_int_equal(document.length, words + 4);
    assert_int_equal(document.terms[1].count, WORDS_COUNT_MAX);
    words_document_begin(&document);
    assert_true(words_document_add(&document, base_span_text("1 fresh start"), 1, 0));
    assert_int_equal(document.count, 3);
    words_document_clear(&document);
    free(text);
}

static struct words_sketch sketch_of(const char *text)
{
    struct words_document document = {0};
    words_document_begin(&document);
    assert_true(words_document_add(&document, base_span_text(text), 1, 0));
    words_document_end(&document);
    struct words_sketch sketch = document.sketch;
    words_document_clear(&document);
    return sketch;
}

static bool is_near(const char *a, const char *b)
{
    struct words_sketch first = sketch_of(a), second = sketch_of(b);
    bool near = words_sketch_is_near(first.bytes, first.size, second.bytes, second.size);
    assert_int_equal(words_sketch_is_near(second.bytes, second.size, first.bytes, first.size),
                     near);
    return near;
}

#define SIXTEEN "a b c d e f g h i j k l m n o "

static void nearly_the_same_words_are_nearly_the_same_text(void **state)
{
    (void)state;
    assert_true(is_near("The deploy failed.", "the DEPLOY failed"));
    assert_false(is_near("the deploy failed", "the deploy succeeded"));
    assert_false(is_near("deploy failed the", "the deploy failed"));
    assert_false(is_near("room 甲", "room 乙"));
    assert_true(is_near(SIXTEEN "p", SIXTEEN "q"));
    assert_true(is_near(SIXTEEN "p", SIXTEEN));
    assert_false(is_near(SIXTEEN "p q", SIXTEEN "x y"));
    assert_false(is_near("", ""));
}

/* However long they are: what was put elsewhere is a word twice as well. */
static void words_in_another_order_are_another_text(void **state)
{
    (void)state;
    static const char more[] = "and " SIXTEEN SIXTEEN SIXTEEN "at last";
    char first[512], second[512];
    assert_false(is_near(SIXTEEN "gateway calls ledger", SIXTEEN "ledger calls gateway"));
    assert_false(is_near("retry " SIXTEEN "later", SIXTEEN "later retry"));
    assert_true(is_near(SIXTEEN "gateway calls ledger", "so " SIXTEEN "gateway calls ledger"));
    (void)snprintf(first, sizeof first, "gateway calls ledger %s", more);
    (void)snprintf(second, sizeof second, "ledger calls gateway %s", more);
    assert_false(is_near(first, second));
    (void)snprintf(second, sizeof second, "gateway asks ledger %s again", more);
    assert_true(is_near(first, second));
}

#define TWENTY                                                                                     \
    "the limit of requests for each client of the gateway per minute in the cluster of payments "  \
    "is "

static void what_tells_texts_apart_keeps_them_apart(void **state)
{
    (void)state;
    assert_true(is_near(TWENTY "low", TWENTY "small"));
    assert_false(is_near(TWENTY "100", TWENTY "200"));
    assert_false(is_near(TWENTY "100", TWENTY "low"));
    assert_false(is_near(TWENTY "from 100 to 200", TWENTY "from 200 to 100"));
    assert_false(is_near(TWENTY "v1.2", TWENTY "v1.3"));
    assert_false(is_near(TWENTY "max_rate", TWENTY "max_burst"));
    assert_false(is_near(TWENTY "maxRate", TWENTY "maxBurst"));
    assert_false(is_near(TWENTY "for Alice", TWENTY "for Bob"));
    assert_false(is_near(TWENTY "\xc3\x96mer", TWENTY "\xc3\x84nne"));
    assert_false(is_near(TWENTY "known", TWENTY "not known"));
    assert_false(is_near(TWENTY "known", TWENTY "never known"));
    assert_true(is_near(TWENTY "known", TWENTY "note known"));
    assert_false(is_near(TWENTY "known", TWENTY "cannot known"));
}

/* One word more, or for one. */
static void a_negation_tells_texts_apart_in_other_languages(void **state)
{
    (void)state;
    static const char *const negations[] = {"nicht", "kein", "pas",  "jamais", "sin",  "nunca",
                                            "senza", "não",  "niet", "geen",   "inte", "ikke",
                                            "nie",   "bez",  "не",   "без"};
    char text[512];
    for (size_t i = 0; i < sizeof negations / sizeof *negations; i++) {
        (void)snprintf(text, sizeof text, TWENTY "%s known", negations[i]);
        if (is_near(TWENTY "known", text) || is_near(TWENTY "now known", text))
            fail_msg("\"%s\" tells nothing", negations[i]);
    }
}

/* So long that one character more or less is little. */
static void a_negation_tells_texts_apart_in_scripts_without_spaces(void **state)
{
    (void)state;
    static const char chinese[] = "支付网关在夜间结算开始时会再次调用总账系统并且等待银行返回结果"
                                  "然后关闭窗口最后通知值班工程师检查日志这条",
                      japanese[] =
                          "夜間の決済照合が始まるとゲートウェイは総勘定元帳をもう一度呼び出"
                          "してから銀行の応答を待ちウィンドウを閉じて当番に通知し",
                      korean[] =
                          "야간 정산이 시작되면 게이트웨이는 총계정원장을 다시 호출하고 은행의"
                          " 응답을 기다린 다음 창을 닫고 당직 엔지니어에게 알립니다 ";
    static const struct {
        const char *text, *one, *other;
        bool near;
    } pairs[] = {
        {chinese, "会用", "不用", false},       {chinese, "会用", "没用", false},
        {chinese, "会用", "能用", true},        {japanese, "ます", "ません", false},
        {japanese, "た", "ない", false},        {japanese, "ます", "た", true},
        {korean, "재시도", "안 재시도", false}, {korean, "한다", "못한다", false},
    };
    char one[512], other[512];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        (void)snprintf(one, sizeof one, "%s%s", pairs[i].text, pairs[i].one);
        (void)snprintf(other, sizeof other, "%s%s", pairs[i].text, pairs[i].other);
        if (is_near(one, other) != pairs[i].near)
            fail_msg("%s and %s", pairs[i].one, pairs[i].other);
    }
}

static void signs_tell_texts_of_the_same_words_apart(void **state)
{
    (void)state;
    assert_false(is_near("the limit is 5", "the limit is -5"));
    assert_false(is_near("rate < 5", "rate > 5"));
    assert_false(is_near("rate \xe2\x89\xa4 5", "rate \xe2\x89\xa5 5"));
    assert_false(is_near("5 %", "5 $"));
    assert_false(is_near("build \xe2\x9c\x85", "build \xe2\x9d\x8c"));
    assert_false(is_near(TWENTY "rate < 5", TWENTY "rate > 5"));
    assert_true(is_near("\"the limit\" - is (now) 5.", "the limit is: now, 5"));
}

static void a_text_longer_than_its_sketch_is_near_to_itself_alone(void **state)
{
    (void)state;
    char first[4096] = "", second[4096] = "";
    for (int i = 0; i < 1000; i++) {
        strcat(first, i == 20 ? "x " : "y ");
        strcat(second, i == 900 ? "x " : "y ");
    }
    assert_true(is_near(first, first));
    assert_false(is_near(first, second));
}

static void a_sketch_tells_which_words_of_a_query_follow_each_other(void **state)
{
    (void)state;
    struct terms query = terms_of("the shock wave the shock");
    uint64_t hashes[MOST];
    uint8_t counts[WORDS_SKETCH_ORDERS];
    struct words_order order;
    for (size_t i = 0; i < query.count; i++)
        hashes[i] = query.list[i].hash;
    words_order_begin(&order, hashes, query.count);
    assert_int_equal(order.count, 6);
    struct words_sketch sketch =
        sketch_of("a shock wave and shock new waves; wave, shock; the end");
    words_order_count(&order, sketch.bytes, sketch.size, counts);
    static const uint8_t expected[] = {0, 3, 1, 0, 2, 4};
    assert_memory_equal(counts, expected, 6);
    words_order_count(&order, sketch.bytes, 0, counts);
    assert_int_equal(counts[1], 0);
}

static void words_of_two_texts_do_not_follow_each_other(void **state)
{
    (void)state;
    struct terms query = terms_of("shock wave");
    uint64_t hashes[] = {query.list[0].hash, query.list[1].hash};
    uint8_t counts[WORDS_SKETCH_ORDERS];
    struct words_order order;
    struct words_document document = {0};
    words_order_begin(&order, hashes, 2);
    words_document_begin(&document);
    assert_true(words_document_add(&document, base_span_text("a shock"), 1, 0));
    assert_true(words_document_add(&document, base_span_text("wave"), 1, 0));
    words_document_end(&document);
    words_order_count(&order, document.sketch.bytes, document.sketch.size, counts);
    assert_int_equal(counts[0], 0);
    words_document_clear(&document);
}

static uint64_t hash_of_number(unsigned number, char *text, size_t room)
{
    struct words_reader reader;
    struct words_term terms[8];
    snprintf(text, room, "x%u ", number);
    words_begin(&reader, base_span_text(text), 0);
    return words_read(&reader, terms, 8) > 0 ? terms[0].hash : 0;
}

static size_t longest_run(const struct words_document *document)
{
    size_t run = 0, longest = 0;
    for (size_t i = 0; i < 2 * document->table_size; i++) {
        run = document->table[i % document->table_size] ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* Somebody may choose words whose hashes end alike: each would be looked for behind all others. */
static void test_chosen_words_do_not_queue(void **state)
{
    enum { CHOSEN = 200, ALIKE = 0x1ff };
    struct words_document document = {0};
    char text[32];
    (void)state;
    words_document_begin(&document);
    for (unsigned i = 0, count = 0; count < CHOSEN; i++) {
        if ((hash_of_number(i, text, sizeof text) & ALIKE) != 0)
            continue;
        assert_true(words_document_add(&document, base_span_text(text), 1, 0));
        count++;
    }
    assert_true(document.count >= CHOSEN);
    assert_in_range(longest_run(&document), 1, CHOSEN / 2);
    words_document_clear(&document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_words_do_not_queue),
        cmocka_unit_test(words_end_at_what_is_no_letter),
        cmocka_unit_test(case_accents_and_forms_of_letters_do_not_count),
        cmocka_unit_test(english_words_are_found_by_their_stem),
        cmocka_unit_test(identifiers_are_split_and_kept_whole),
        cmocka_unit_test(an_identifier_is_found_however_it_is_written),
        cmocka_unit_test(scripts_without_spaces_give_pairs),
        cmocka_unit_test(hangul_may_be_written_in_its_letters),
        cmocka_unit_test(positions_count_words_and_pairs),
        cmocka_unit_test(the_room_for_terms_does_not_change_them),
        cmocka_unit_test(a_word_of_any_length_is_one_term),
        cmocka_unit_test(a_document_has_each_term_once_with_its_count),
        cmocka_unit_test(a_long_document_has_a_bounded_number_of_terms),
        cmocka_unit_test(nearly_the_same_words_are_nearly_the_same_text),
        cmocka_unit_test(what_tells_texts_apart_keeps_them_apart),
        cmocka_unit_test(signs_tell_texts_of_the_same_words_apart),
        cmocka_unit_test(words_in_another_order_are_another_text),
        cmocka_unit_test(a_negation_tells_texts_apart_in_other_languages),
        cmocka_unit_test(a_negation_tells_texts_apart_in_scripts_without_spaces),
        cmocka_unit_test(a_text_longer_than_its_sketch_is_near_to_itself_alone),
        cmocka_unit_test(a_sketch_tells_which_words_of_a_query_follow_each_other),
        cmocka_unit_test(words_of_two_texts_do_not_follow_each_other),
    };
    return RUN_TESTS(tests);
}
