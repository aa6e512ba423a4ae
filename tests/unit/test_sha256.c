/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 against the examples of FIPS 180-4 and NIST's CAVP byte vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/sha256.h"

struct vector {
    const char *text;
    const char *digest;
};

static const struct vector vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
     "lmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        unsigned char digest[BASE_SHA256_BYTES];
        char hex[BASE_SHA256_HEX_SIZE];

        base_sha256(vectors[i].text, strlen(vectors[i].text), digest);
        base_sha256_hex(digest, hex);
        assert_string_equal(hex, vectors[i].digest);
    }
}

/* A million times 'a', added in steps that never fall on a block's edge. */
static void test_streaming(void **state)
{
    struct base_sha256 hash;
    unsigned char digest[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_SIZE];
    char step[997];
    size_t left = 1000000;

    (void)state;
    memset(step, 'a', sizeof(step));
    base_sha256_start(&hash);
    while (left > 0) {
        size_t now = left < sizeof(step) ? left : sizeof(step);
        base_sha256_add(&hash, step, now);
        left -= now;
    }
    base_sha256_finish(&hash, digest);
    base_sha256_hex(digest, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_streaming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
