/* SPDX-License-Identifier: Apache-2.0 */
/* What marks a request as made by somebody else's page. */
#include "exporter/access/request_origin.h"
#include "tests/support/unit.h"

static void test_foreign_pages(void **state)
{
    static const struct {
        const char *origin;
        const char *site;
        const char *host;
        bool foreign;
    } cases[] = {
        {NULL, NULL, "localhost:9780", false}, /* curl */
        {NULL, NULL, NULL, false},
        {NULL, "none", "localhost:9780", false}, /* typed into the address bar */
        {NULL, "same-origin", "localhost:9780", false},
        {"http://localhost:9780", "same-origin", "localhost:9780", false},
        {"http://localhost:9780", NULL, "localhost:9780", false},
        {"HTTP://LOCALHOST:9780", NULL, "localhost:9780", false},
        {"https://evil.example", "cross-site", "localhost:9780", true},
        {NULL, "cross-site", "localhost:9780", true},
        {NULL, "same-site", "localhost:9780", true}, /* another port of the same host */
        {"http://localhost:9780", "cross-site", "localhost:9780", true},
        {"https://evil.example", NULL, "localhost:9780", true},
        {"http://localhost:9781", NULL, "localhost:9780", true},
        {"http://localhost:97800", NULL, "localhost:9780", true},
        {"null", NULL, "localhost:9780", true},
        {"", NULL, "localhost:9780", true},
        {"http://localhost:9780", NULL, NULL, true},
        {NULL, "", "localhost:9780", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (exporter_origin_is_foreign(cases[i].origin, cases[i].site, cases[i].host) !=
            cases[i].foreign)
            fail_msg("case %zu: Origin %s, Sec-Fetch-Site %s, Host %s", i, cases[i].origin,
                     cases[i].site, cases[i].host);
    }
}

static void test_names_of_this_machine(void **state)
{
    static const char *const ours[] = {
        "localhost", "sidecar:8780",   "LocalHost:1", "x",    "a.localhost",
        "127.0.0.1", "127.0.0.1:8780", "[::1]:8780",  "[::1]"};
    static const char *const others[] = {"evil.example",
                                         "evil.example:8780",
                                         "not.localhost.example",
                                         "localhost.example",
                                         "127.0.0.1.example",
                                         "localhost.",
                                         "1.2.3.4a",
                                         "ai.",
                                         ".localhost",
                                         "a.notlocalhost"};
    (void)state;
    assert_true(exporter_origin_names_this_machine(NULL));
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!exporter_origin_names_this_machine(ours[i]))
            fail_msg("%s", ours[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (exporter_origin_names_this_machine(others[i]))
            fail_msg("%s", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_foreign_pages),
                                       cmocka_unit_test(test_names_of_this_machine)};
    return RUN_TESTS(tests);
}
