/* SPDX-License-Identifier: Apache-2.0 */
/* From the status page to the review page: an address that the reader's browser can reach, or none.
 */
#include "exporter/status/review_link.h"

#include <string.h>

#include "tests/support/unit.h"

static const char *link_of(const struct exporter_lifecycle_state *daemon, const char *host)
{
    static char link[EXPORTER_REVIEW_LINK_SIZE];
    const bool known = exporter_review_link(link, daemon, host);
    assert_int_equal(known, link[0] != '\0');
    return link;
}

static void test_the_configured_address_is_taken_as_it_is(void **state)
{
    const struct exporter_lifecycle_state daemon = {.api_url = "https://sidecar.example/agents/",
                                                    .api_address = "unix:/run/api",
                                                    .api_is_local = true};
    (void)state;
    assert_string_equal(link_of(&daemon, NULL), "https://sidecar.example/agents/review");
    assert_string_equal(link_of(&daemon, "10.0.0.7:9780"), "https://sidecar.example/agents/review");
}

static void test_loopback_is_linked_to_for_readers_on_this_machine(void **state)
{
    static const char *const here[] = {"localhost", "LOCALHOST:9780", "a.localhost:9780",
                                       "127.0.0.1", "127.8.9.1:9780", "[::1]",
                                       "[::1]:9780"};
    static const char *const elsewhere[] = {"sidecar.example",
                                            "10.0.0.7:9780",
                                            "[2001:db8::1]",
                                            "127.example.com",
                                            "notlocalhost",
                                            "[::1",
                                            "",
                                            "["};
    const struct exporter_lifecycle_state daemon = {.api_address = "127.0.0.1:8780",
                                                    .api_is_local = true};
    (void)state;
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        assert_string_equal(link_of(&daemon, here[i]), "http://127.0.0.1:8780/review");
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        assert_string_equal(link_of(&daemon, elsewhere[i]), "");
    assert_string_equal(link_of(&daemon, NULL), "");
}

static void test_an_api_on_every_address_has_the_name_of_the_page(void **state)
{
    const struct exporter_lifecycle_state v4 = {.api_address = "0.0.0.0:8780"};
    const struct exporter_lifecycle_state v6 = {.api_address = "[::]:8781"};
    (void)state;
    assert_string_equal(link_of(&v4, "sidecar.example:9780"), "http://sidecar.example:8780/review");
    assert_string_equal(link_of(&v6, "[2001:db8::1]:9780"), "http://[2001:db8::1]:8781/review");
    assert_string_equal(link_of(&v6, "10.0.0.7"), "http://10.0.0.7:8781/review");
}

static void test_an_api_on_one_address_has_that(void **state)
{
    const struct exporter_lifecycle_state daemon = {.api_address = "10.0.0.7:8780"};
    (void)state;
    assert_string_equal(link_of(&daemon, "sidecar.example"), "http://10.0.0.7:8780/review");
}

static void test_what_is_no_name_makes_no_link(void **state)
{
    static const char *const hosts[] = {"a b",       "a\"onclick=", "a/b",
                                        "user@host", "[::1",        "\xc3\xa4"};
    const struct exporter_lifecycle_state daemon = {.api_address = "0.0.0.0:8780"};
    char longest[300];
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        assert_string_equal(link_of(&daemon, hosts[i]), "");
    }
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_string_equal(link_of(&daemon, longest), "");
}

static void test_a_unix_socket_is_no_address_for_a_browser(void **state)
{
    const struct exporter_lifecycle_state daemon = {.api_address = "unix:/run/api",
                                                    .api_is_local = true};
    (void)state;
    assert_string_equal(link_of(&daemon, "localhost"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_configured_address_is_taken_as_it_is),
        cmocka_unit_test(test_loopback_is_linked_to_for_readers_on_this_machine),
        cmocka_unit_test(test_an_api_on_every_address_has_the_name_of_the_page),
        cmocka_unit_test(test_an_api_on_one_address_has_that),
        cmocka_unit_test(test_what_is_no_name_makes_no_link),
        cmocka_unit_test(test_a_unix_socket_is_no_address_for_a_browser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
