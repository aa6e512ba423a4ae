/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers which functions ran while tracing was on; scripts/house --crossings preloads it into a
 * daemon that was built with -finstrument-functions.
 *
 * SIGRTMIN switches tracing on, SIGRTMIN+1 switches it off and writes the addresses, relative to
 * the program, to $CALL_TRACE_FILE. Any thread enters functions; a slot of the table is claimed by
 * compare-and-swap, so no lock and no allocation happens on the way.
 */
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SLOTS = 1 << 14 };

static _Atomic(uintptr_t) seen[SLOTS];
static atomic_bool tracing;
static uintptr_t base;

__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *caller);
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    if (!atomic_load_explicit(&tracing, memory_order_relaxed))
        return;
    uintptr_t address = (uintptr_t)function;
    for (size_t at = (address >> 2) % SLOTS;; at = (at + 1) % SLOTS) {
        uintptr_t found = 0;
        if (atomic_compare_exchange_strong(&seen[at], &found, address) || found == address)
            return;
    }
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}

__attribute__((no_instrument_function)) static void switch_on(int signal)
{
    (void)signal;
    for (size_t i = 0; i < SLOTS; i++)
        atomic_store(&seen[i], 0);
    atomic_store(&tracing, true);
    int fd = open(getenv("CALL_TRACE_FILE"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) {
        dprintf(fd, "tracing\n");
        close(fd);
    }
}

__attribute__((no_instrument_function)) static void switch_off(int signal)
{
    (void)signal;
    atomic_store(&tracing, false);
    int fd = open(getenv("CALL_TRACE_FILE"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (size_t i = 0; i < SLOTS && fd >= 0; i++) {
        uintptr_t address = atomic_load(&seen[i]);
        if (address)
            dprintf(fd, "0x%lx\n", (unsigned long)(address - base));
    }
    if (fd >= 0) {
        dprintf(fd, "end\n");
        close(fd);
    }
}

__attribute__((no_instrument_function)) static int first_object(struct dl_phdr_info *info,
                                                                size_t size, void *arg)
{
    (void)size;
    (void)arg;
    base = info->dlpi_addr; /* the first object is the program */
    return 1;
}

__attribute__((constructor, no_instrument_function)) static void install(void)
{
    dl_iterate_phdr(first_object, NULL);
    signal(SIGRTMIN, switch_on);
    signal(SIGRTMIN + 1, switch_off);
}
