/* SPDX-License-Identifier: Apache-2.0 */
/* Handoffs and attempts as text; see show.h. One thread. */
#include "ctl/show.h"

#include <string.h>

#include "ctl/table.h"
#include "ctl/text.h"

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

/* ---- handoffs ----------------------------------------------------------------------------------
 */

void ctl_put_state(FILE *out, yyjson_val *handoff, int width)
{
    char text[256];
    const char *reason = ctl_text(handoff, "reason");
    const enum ctl_tone tone = ctl_tone_of_state(handoff);
    snprintf(text, sizeof(text), *reason ? "%s (%s)" : "%s", ctl_text(handoff, "state"), reason);
    ctl_tone_begin(out, tone);
    ctl_put(out, text, width);
    ctl_tone_end(out, tone);
}

enum ctl_tone ctl_tone_of_state(yyjson_val *handoff)
{
    switch (ctl_state(handoff)) {
    case HANDOFF_STATE_ACKNOWLEDGED:
        return CTL_GOOD;
    case HANDOFF_STATE_IN_FLIGHT:
    case HANDOFF_STATE_AWAITING_ACK:
        return CTL_BUSY;
    case HANDOFF_STATE_PARKED:
    case HANDOFF_STATE_EXPIRED:
        return CTL_BAD;
    case HANDOFF_STATE_DISCARDED:
        return CTL_FAINT;
    default:
        return CTL_PLAIN;
    }
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
        if (*ctl_text(one, "detail")) {
            fputs(" (", stdout);
            ctl_put(stdout, ctl_text(one, "detail"), 0);
            putchar(')');
        }
        putchar('\n');
    }
}

size_t ctl_open_gaps(yyjson_val *handoff)
{
    yyjson_val *gap;
    size_t i, count, open = 0;
    yyjson_arr_foreach(yyjson_obj_get(handoff, "gaps"), i, count, gap) open +=
        !*ctl_text(gap, "recovered_at");
    return open;
}

static void show_gaps(yyjson_val *handoff)
{
    yyjson_val *gap;
    size_t i, count;
    yyjson_arr_foreach(yyjson_obj_get(handoff, "gaps"), i, count, gap)
    {
        const bool recovered = *ctl_text(gap, "recovered_at") != '\0';
        printf("%-12s", recovered ? "recovered" : "gap");
        ctl_put(stdout, ctl_text(gap, "id"), 0);
        fputs(recovered ? ": fetched later by " : ": not available to ", stdout);
        ctl_put(stdout, ctl_text(gap, "agent"), 0);
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

void ctl_show_handoff(const struct ctl_line *line, yyjson_val *handoff)
{
    (void)line;
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
    if (*ctl_text(handoff, "replaced_by"))
        print_field("replaced by", ctl_text(handoff, "replaced_by"));
    if (*ctl_text(handoff, "progress"))
        show_progress(handoff);
    printf("%-12s%.0f\n", "tokens", ctl_number(handoff, "token_count"));
    show_memories(handoff);
    show_gaps(handoff);
}

void ctl_show_handoff_line(const struct ctl_line *line, yyjson_val *handoff)
{
    (void)line;
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

/* Passing an agent over is no attempt: it has no number and took no time. */
static void put_attempt(struct ctl_table *table, yyjson_val *attempt)
{
    const bool made = yyjson_is_num(yyjson_obj_get(attempt, "attempt"));
    char took[32] = "-", number[32] = "-", status[32] = "-";
    if (made) {
        snprintf(number, sizeof number, "%.0f", ctl_number(attempt, "attempt"));
        snprintf(took, sizeof took, "%.3f s", ctl_number(attempt, "duration_seconds"));
    }
    if (ctl_number(attempt, "status") > 0)
        snprintf(status, sizeof status, "%.0f", ctl_number(attempt, "status"));
    ctl_table_put(table, number);
    ctl_table_put(table, ctl_text(attempt, "at"));
    ctl_table_put(table, took);
    ctl_table_put(table, ctl_text(attempt, "target_agent"));
    ctl_table_put(table, ctl_text(attempt, "result"));
    ctl_table_put(table, status);
    ctl_table_put(table, ctl_text(attempt, "peer"));
    ctl_table_note(table, "error", ctl_text(attempt, "error"), 8);
    ctl_table_note(table, "answer", ctl_text(attempt, "answer"), 4);
}

void ctl_show_attempts(const struct ctl_line *line, yyjson_val *list)
{
    static const struct ctl_column columns[] = {
        {"ATTEMPT", CTL_RIGHT, 0}, {"AT", 0, 0},     {"TOOK", CTL_RIGHT, 0},
        {"AGENT", CTL_SHRINKS, 8}, {"RESULT", 0, 0}, {"STATUS", 0, 0},
        {"PEER", CTL_SHRINKS, 4},  {NULL, 0, 0}};
    size_t i, count;
    yyjson_val *attempt, *items = yyjson_obj_get(list, "items");
    if (yyjson_arr_size(items) == 0) {
        puts("no attempts yet");
        return;
    }
    struct ctl_table *table = ctl_table_begin(line, columns);
    yyjson_arr_foreach(items, i, count, attempt)
    {
        put_attempt(table, attempt);
    }
    ctl_table_end(table);
}

void ctl_show_next(yyjson_val *list)
{
    if (!*ctl_text(list, "next"))
        return;
    fputs("more: --cursor ", stdout);
    ctl_put(stdout, ctl_text(list, "next"), 0);
    putchar('\n');
}
