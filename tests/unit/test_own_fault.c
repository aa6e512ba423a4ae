/* SPDX-License-Identifier: Apache-2.0 */
/* What failed because we ran out of something, and what is the agent's. */
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "client/transport/own_fault.h"

static const struct sockaddr *address(const struct sockaddr_in *in)
{
    return (const void *)in;
}

static void test_what_any_call_can_run_out_of(void **state)
{
    (void)state;
    assert_int_equal(handoff_own_fault_of_errno(EMFILE), HANDOFF_FAULT_DESCRIPTORS);
    assert_int_equal(handoff_own_fault_of_errno(ENFILE), HANDOFF_FAULT_DESCRIPTORS);
    assert_int_equal(handoff_own_fault_of_errno(ENOBUFS), HANDOFF_FAULT_MEMORY);
    assert_int_equal(handoff_own_fault_of_errno(ENOMEM), HANDOFF_FAULT_MEMORY);
    assert_int_equal(handoff_own_fault_of_errno(ECONNREFUSED), HANDOFF_FAULT_NONE);
    assert_int_equal(handoff_own_fault_of_errno(0), HANDOFF_FAULT_NONE);
}

static void test_ports_are_out_only_where_the_address_could_be_reached(void **state)
{
    (void)state;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(9)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(handoff_own_fault_of_connect(EADDRNOTAVAIL, address(&here), sizeof here),
                     HANDOFF_FAULT_PORTS);
    assert_int_equal(handoff_own_fault_of_connect(ECONNREFUSED, address(&here), sizeof here),
                     HANDOFF_FAULT_NONE);
    /* link-local without an interface: no local address belongs to it */
    struct sockaddr_in6 nowhere = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    assert_int_equal(inet_pton(AF_INET6, "fe80::1", &nowhere.sin6_addr), 1);
    assert_int_equal(
        handoff_own_fault_of_connect(EADDRNOTAVAIL, (const void *)&nowhere, sizeof nowhere),
        HANDOFF_FAULT_NONE);
    assert_int_equal(handoff_own_fault_of_connect(EADDRNOTAVAIL, NULL, 0), HANDOFF_FAULT_NONE);
}

static void test_now(void **state)
{
    (void)state;
    struct rlimit before, none;
    assert_int_equal(handoff_own_fault_now(), HANDOFF_FAULT_NONE);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(handoff_own_fault_now(), HANDOFF_FAULT_DESCRIPTORS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_each_says_what_we_lacked(void **state)
{
    (void)state;
    assert_int_equal(handoff_fault_shortage(HANDOFF_FAULT_DESCRIPTORS),
                     HANDOFF_SHORTAGE_DESCRIPTORS);
    assert_int_equal(handoff_fault_shortage(HANDOFF_FAULT_MEMORY), HANDOFF_SHORTAGE_MEMORY);
    assert_int_equal(handoff_fault_shortage(HANDOFF_FAULT_PORTS), HANDOFF_SHORTAGE_PORTS);
    assert_int_equal(handoff_fault_shortage(HANDOFF_FAULT_CONNECTION), HANDOFF_SHORTAGE_NONE);
    assert_int_equal(handoff_failure_of_errno(ENOBUFS, true).fault, HANDOFF_FAULT_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_any_call_can_run_out_of),
        cmocka_unit_test(test_ports_are_out_only_where_the_address_could_be_reached),
        cmocka_unit_test(test_now),
        cmocka_unit_test(test_each_says_what_we_lacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
