/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the API as text; see show.h. One thread. */
#include "ctl/show.h"

#include <string.h>

const char *ctl_text(yyjson_val *object, const char *key)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, key));
    return text ? text : "";
}

enum handoff_state ctl_state(yyjson_val *handoff)
{
    return handoff_state_of_name(ctl_text(handoff, "state"));
}

double ctl_number(yyjson_val *object, const char *key)
{
    return yyjson_get_num(yyjson_obj_get(object, key));
}

/* Control characters of ASCII, and of Latin-1 (U+0080 to U+009F), which some terminals obey too. */
static bool is_control_character(const unsigned char *at)
{
    return at[0] < 0x20 || at[0] == 0x7F || (at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0);
}

/* Unicode's Bidi_Control characters: they can make a text look like another, and affect what
 * follows it. U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069. */
static bool is_bidi_control(const unsigned char *at)
{
    if (at[0] == 0xD8)
        return at[1] == 0x9C;
    if (at[0] != 0xE2)
        return false;
    return (at[1] == 0x80 &&
            (at[2] == 0x8E || at[2] == 0x8F || (at[2] >= 0xAA && at[2] <= 0xAE))) ||
           (at[1] == 0x81 && at[2] >= 0xA6 && at[2] <= 0xA9);
}

/* The number of bytes of a character after the first. */
static size_t bytes_behind(const unsigned char *at)
{
    return at[0] >= 0xE0 ? 2 : at[0] >= 0xC0 ? 1 : 0;
}

/* Returns its last byte. */
static const unsigned char *put_visible(FILE *out, const unsigned char *at)
{
    const bool control = is_control_character(at) || is_bidi_control(at);
    putc(control ? '?' : *at, out);
    return control ? at + bytes_behind(at) : at;
}

void ctl_put(FILE *out, const char *text, int width)
{
    int columns = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        columns += (*at & 0xC0) != 0x80; /* else of a character already counted */
        at = put_visible(out, at);
    }
    for (; columns < width; columns++)
        putc(' ', out);
}

void ctl_put_line(const char *before, const char *text)
{
    fputs(before, stdout);
    ctl_put(stdout, text, 0);
    putchar('\n');
}

void ctl_put_lines(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '\n' || *at == '\t')
            putchar(*at);
        else
            at = put_visible(stdout, at);
    }
}

int ctl_show(const struct ctl_answer *answer, bool json, void (*show)(yyjson_val *root))
{
    if (answer->size == 0)
        return CTL_OK;
    if (json) {
        fwrite(answer->body, 1, answer->size, stdout);
        putchar('\n');
        return CTL_OK;
    }
    yyjson_doc *doc = yyjson_read(answer->body, answer->size, 0);
    if (!doc) {
        fputs("handoffctl: the answer is not JSON; does --api.url point to the agent API?\n",
              stderr);
        return CTL_FAILED;
    }
    show(yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return CTL_OK;
}

/* ---- handoffs ----------------------------------------------------------------------------------
 */

void ctl_put_state(FILE *out, yyjson_val *handoff, int width)
{
    char text[256];
    const char *reason = ctl_text(handoff, "reason");
    snprintf(text, sizeof(text), *reason ? "%s (%s)" : "%s", ctl_text(handoff, "state"), reason);
    ctl_put(out, text, width);
}

static void print_field(const char *name, const char *text)
{
    printf("%-12s", name);
    ctl_put(stdout, text, 0);
    putchar('\n');
}

static void show_memories(yyjson_val *handoff)
{
    yyjson_val *completeness = yyjson_obj_get(handoff, "completeness"), *one;
    size_t i, count;
    printf("%-12s%.0f of %.0f requested\n", "memories", ctl_number(completeness, "included"),
           ctl_number(completeness, "requested"));
    yyjson_arr_foreach(yyjson_obj_get(handoff, "missing"), i, count, one)
    {
        printf("%-12s", "missing");
        ctl_put(stdout, ctl_text(one, "id"), 0);
        fputs(": ", stdout);
        ctl_put(stdout, ctl_text(one, "reason"), 0);
        putchar('\n');
    }
}

static void show_progress(yyjson_val *handoff)
{
    printf("%-12s", "progress");
    ctl_put(stdout, ctl_text(handoff, "progress"), 0);
    fputs(" (", stdout);
    ctl_put(stdout, ctl_text(handoff, "progress_at"), 0);
    fputs(")\n", stdout);
}

void ctl_show_handoff(yyjson_val *handoff)
{
    print_field("handoff", ctl_text(handoff, "id"));
    printf("%-12s", "state");
    ctl_put_state(stdout, handoff, 0);
    putchar('\n');
    print_field("from", ctl_text(handoff, "source_agent"));
    print_field("to", ctl_text(handoff, "target_agent"));
    print_field("task", ctl_text(handoff, "task_id"));
    print_field("pattern", ctl_text(handoff, "pattern"));
    printf("%-12s%.0f\n", "attempts", ctl_number(handoff, "attempts"));
    print_field("created", ctl_text(handoff, "created_at"));
    if (*ctl_text(handoff, "settled_at"))
        print_field("settled", ctl_text(handoff, "settled_at"));
    if (*ctl_text(handoff, "progress"))
        show_progress(handoff);
    printf("%-12s%.0f\n", "tokens", ctl_number(handoff, "token_count"));
    show_memories(handoff);
}

void ctl_show_handoff_line(yyjson_val *handoff)
{
    ctl_put(stdout, ctl_text(handoff, "id"), 36);
    fputs("  ", stdout);
    ctl_put_state(stdout, handoff, 22);
    putchar(' ');
    ctl_put(stdout, ctl_text(handoff, "source_agent"), 0);
    fputs(" -> ", stdout);
    ctl_put(stdout, ctl_text(handoff, "target_agent"), 0);
    if (*ctl_text(handoff, "task_id"))
        fputs("  ", stdout);
    ctl_put(stdout, ctl_text(handoff, "task_id"), 0);
    putchar('\n');
}

/* ---- attempts ----------------------------------------------------------------------------------
 */

static void show_attempt(yyjson_val *attempt)
{
    bool made = yyjson_is_num(yyjson_obj_get(attempt, "attempt"));
    if (made)
        printf("%7.0f  ", ctl_number(attempt, "attempt"));
    else
        printf("%7s  ", "-");
    ctl_put(stdout, ctl_text(attempt, "at"), 25);
    if (made)
        printf("%9.3f s  ", ctl_number(attempt, "duration_seconds"));
    else
        printf("%9s    ", "-");
    ctl_put(stdout, ctl_text(attempt, "target_agent"), 20);
    putchar(' ');
    ctl_put(stdout, ctl_text(attempt, "result"), 12);
    if (ctl_number(attempt, "status") > 0)
        printf("%-7.0f", ctl_number(attempt, "status"));
    else
        printf("%-7s", "-");
    ctl_put(stdout, ctl_text(attempt, "peer"), 22);
    putchar(' ');
    ctl_put(stdout, ctl_text(attempt, "error"), 0);
    putchar('\n');
}

void ctl_show_attempts(yyjson_val *list)
{
    size_t i, count;
    yyjson_val *attempt, *items = yyjson_obj_get(list, "items");
    if (yyjson_arr_size(items) == 0) {
        puts("no attempts yet");
        return;
    }
    printf("%7s  %-25s%11s  %-20s %-12s%-7s%-22s %s\n", "ATTEMPT", "AT", "TOOK", "AGENT", "RESULT",
           "STATUS", "PEER", "ERROR");
    yyjson_arr_foreach(items, i, count, attempt)
    {
        show_attempt(attempt);
    }
}

void ctl_show_next(yyjson_val *list)
{
    if (!*ctl_text(list, "next"))
        return;
    fputs("more: --cursor ", stdout);
    ctl_put(stdout, ctl_text(list, "next"), 0);
    putchar('\n');
}
