/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - what we print on: how wide it is, and whether it shows colours. One thread. */
#ifndef CTL_TERMINAL_H
#define CTL_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

bool ctl_on_terminal(FILE *out);
/* Of the terminal; 100 where there is none. */
size_t ctl_terminal_width(FILE *out);

/* Colours mean something, and are never all that says it. */
enum ctl_tone { CTL_PLAIN, CTL_STRONG, CTL_FAINT, CTL_GOOD, CTL_BUSY, CTL_BAD };

/* Both do nothing where it shows no colours: no terminal, a dumb one, or NO_COLOR is set. */
void ctl_tone_begin(FILE *out, enum ctl_tone tone);
void ctl_tone_end(FILE *out, enum ctl_tone tone);

/* Writes over the line of before, on a terminal; the next one starts where this one did. */
void ctl_line_over(FILE *out);

#endif
