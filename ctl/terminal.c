/* SPDX-License-Identifier: Apache-2.0 */
/* What we print on; see terminal.h. One thread. */
#include "ctl/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_WITHOUT_TERMINAL = 100 };

bool ctl_on_terminal(FILE *out)
{
    return isatty(fileno(out)) == 1;
}

size_t ctl_terminal_width(FILE *out)
{
    struct winsize size;
    if (ctl_on_terminal(out) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return WIDTH_WITHOUT_TERMINAL;
}

/* https://no-color.org: set, and not empty. */
static bool shows_colours(FILE *out)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return ctl_on_terminal(out) && !(no && *no) && !(terminal && strcmp(terminal, "dumb") == 0);
}

void ctl_tone_begin(FILE *out, enum ctl_tone tone)
{
    static const char *const codes[] = {[CTL_STRONG] = "1",
                                        [CTL_FAINT] = "2",
                                        [CTL_GOOD] = "32",
                                        [CTL_BUSY] = "33",
                                        [CTL_BAD] = "31"};
    if (tone != CTL_PLAIN && shows_colours(out))
        fprintf(out, "\033[%sm", codes[tone]);
}

void ctl_tone_end(FILE *out, enum ctl_tone tone)
{
    if (tone != CTL_PLAIN && shows_colours(out))
        fputs("\033[0m", out);
}

void ctl_line_over(FILE *out)
{
    fputs("\r\033[K", out);
}
