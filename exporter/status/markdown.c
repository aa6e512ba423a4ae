/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markdown to HTML, see markdown.h: one pass over the lines, with one block open at a time. A line
 * either goes on with the open block or closes it and opens its own.
 *
 * Pure, apart from the stream that it writes to; any thread.
 */
#include "exporter/status/markdown.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "exporter/status/html.h"

enum markdown_block {
    MARKDOWN_NONE,
    MARKDOWN_PARAGRAPH,
    MARKDOWN_BULLETS,
    MARKDOWN_NUMBERS,
    MARKDOWN_TABLE_HEAD,
    MARKDOWN_TABLE,
    MARKDOWN_CODE,
};

struct markdown {
    FILE *out;
    const char *base;
    enum markdown_block open;
};

struct markdown_span {
    const char *begin, *end;
};

/* ---- in a line ------------------------------------------------------------------------------ */

static const char *find_byte(struct markdown_span span, char byte)
{
    return span.begin < span.end ? memchr(span.begin, byte, (size_t)(span.end - span.begin)) : NULL;
}

static bool begins_with(struct markdown_span span, const char *text)
{
    const size_t length = strlen(text);
    return (size_t)(span.end - span.begin) >= length && memcmp(span.begin, text, length) == 0;
}

static void render_span(FILE *out, struct markdown_span span)
{
    for (; span.begin < span.end; span.begin++)
        exporter_html_text(out, (const char[]){*span.begin, '\0'});
}

/* NAME.md, of letters and digits alone. */
static bool is_page_link(struct markdown_span url)
{
    const char *at = url.begin;
    while (at < url.end && isalnum((unsigned char)*at))
        at++;
    return at > url.begin && url.end - at == 3 && memcmp(at, ".md", 3) == 0;
}

static void render_link(struct markdown *markdown, struct markdown_span words,
                        struct markdown_span url)
{
    if (!is_page_link(url)) {
        render_span(markdown->out, words);
        return;
    }
    url.end -= 3;
    fputs("<a href=\"", markdown->out);
    exporter_html_text(markdown->out, markdown->base);
    render_span(markdown->out, url);
    fputs("\">", markdown->out);
    render_span(markdown->out, words);
    fputs("</a>", markdown->out);
}

/* "[words](url)" or "`code`" at the beginning: writes it and answers where it ends; else NULL. */
static const char *render_inline(struct markdown *markdown, struct markdown_span span)
{
    const bool is_link = *span.begin == '[';
    const struct markdown_span rest = {span.begin + 1, span.end};
    const char *end = find_byte(rest, is_link ? ']' : '`');
    if (end == NULL)
        return NULL;
    const struct markdown_span inner = {rest.begin, end};
    if (!is_link) {
        fputs("<code>", markdown->out);
        render_span(markdown->out, inner);
        fputs("</code>", markdown->out);
        return end + 1;
    }
    const char *close = find_byte((struct markdown_span){end, span.end}, ')');
    if (close == NULL || end[1] != '(')
        return NULL;
    render_link(markdown, inner, (struct markdown_span){end + 2, close});
    return close + 1;
}

static void render_line(struct markdown *markdown, struct markdown_span span)
{
    while (span.begin < span.end) {
        const bool special = *span.begin == '[' || *span.begin == '`';
        const char *after = special ? render_inline(markdown, span) : NULL;
        if (after == NULL) {
            after = span.begin + 1;
            render_span(markdown->out, (struct markdown_span){span.begin, after});
        }
        span.begin = after;
    }
}

/* ---- blocks --------------------------------------------------------------------------------- */

static const char *const markdown_opens[] = {
    [MARKDOWN_NONE] = "",
    [MARKDOWN_PARAGRAPH] = "<p>",
    [MARKDOWN_BULLETS] = "<ul>",
    [MARKDOWN_NUMBERS] = "<ol>",
    [MARKDOWN_TABLE_HEAD] = "<table><thead>\n",
    [MARKDOWN_TABLE] = "</thead><tbody>\n",
    [MARKDOWN_CODE] = "<pre><code>",
};
static const char *const markdown_closes[] = {
    [MARKDOWN_NONE] = "",
    [MARKDOWN_PARAGRAPH] = "</p>\n",
    [MARKDOWN_BULLETS] = "</li></ul>\n",
    [MARKDOWN_NUMBERS] = "</li></ol>\n",
    [MARKDOWN_TABLE_HEAD] = "</thead></table>\n",
    [MARKDOWN_TABLE] = "</tbody></table>\n",
    [MARKDOWN_CODE] = "</code></pre>\n",
};

/* Closes the open block and opens this one. */
static void open_block(struct markdown *markdown, enum markdown_block block)
{
    fputs(markdown_closes[markdown->open], markdown->out);
    fputs(markdown_opens[block], markdown->out);
    markdown->open = block;
}

static void render_heading(struct markdown *markdown, struct markdown_span line, int level)
{
    open_block(markdown, MARKDOWN_NONE);
    line.begin += level + 1;
    fprintf(markdown->out, "<h%d>", level);
    render_line(markdown, line);
    fprintf(markdown->out, "</h%d>\n", level);
}

static void render_item(struct markdown *markdown, struct markdown_span item,
                        enum markdown_block list)
{
    if (markdown->open == list)
        fputs("</li>\n", markdown->out);
    else
        open_block(markdown, list);
    fputs("<li>", markdown->out);
    render_line(markdown, item);
}

static void render_cells(struct markdown *markdown, struct markdown_span line)
{
    const char *cell = markdown->open == MARKDOWN_TABLE_HEAD ? "th" : "td";
    const char *end;
    fputs("<tr>", markdown->out);
    line.begin++;
    for (; (end = find_byte(line, '|')) != NULL; line.begin = end + 1) {
        fprintf(markdown->out, "<%s>", cell);
        render_line(markdown, (struct markdown_span){line.begin, end});
        fprintf(markdown->out, "</%s>", cell);
    }
    fputs("</tr>\n", markdown->out);
}

/* The first row is the head, the line of dashes below it ends it. */
static void render_row(struct markdown *markdown, struct markdown_span line)
{
    const bool in_table = markdown->open == MARKDOWN_TABLE_HEAD || markdown->open == MARKDOWN_TABLE;
    if (begins_with(line, "|---") && markdown->open == MARKDOWN_TABLE_HEAD) {
        fputs(markdown_opens[MARKDOWN_TABLE], markdown->out);
        markdown->open = MARKDOWN_TABLE;
        return;
    }
    if (!in_table)
        open_block(markdown, MARKDOWN_TABLE_HEAD);
    render_cells(markdown, line);
}

/* Goes on with a paragraph or an item, or begins a paragraph. */
static void render_prose(struct markdown *markdown, struct markdown_span line)
{
    const bool in_item =
        (markdown->open == MARKDOWN_BULLETS || markdown->open == MARKDOWN_NUMBERS) &&
        *line.begin == ' ';
    if (markdown->open == MARKDOWN_PARAGRAPH || in_item)
        fputc('\n', markdown->out);
    else
        open_block(markdown, MARKDOWN_PARAGRAPH);
    while (line.begin < line.end && *line.begin == ' ')
        line.begin++;
    render_line(markdown, line);
}

static void render_code(struct markdown *markdown, struct markdown_span line)
{
    if (begins_with(line, "```")) {
        open_block(markdown, MARKDOWN_NONE);
        return;
    }
    render_span(markdown->out, line);
    fputc('\n', markdown->out);
}

/* "1. " of any number; 0: it is none. */
static size_t number_length(struct markdown_span line)
{
    const char *at = line.begin;
    while (at < line.end && isdigit((unsigned char)*at))
        at++;
    const bool is_one = at > line.begin && line.end - at > 2 && at[0] == '.' && at[1] == ' ';
    return is_one ? (size_t)(at + 2 - line.begin) : 0;
}

static void render_block_line(struct markdown *markdown, struct markdown_span line)
{
    const size_t number = number_length(line);
    if (markdown->open == MARKDOWN_CODE)
        render_code(markdown, line);
    else if (line.begin == line.end)
        open_block(markdown, MARKDOWN_NONE);
    else if (begins_with(line, "```"))
        open_block(markdown, MARKDOWN_CODE);
    else if (begins_with(line, "# ") || begins_with(line, "## "))
        render_heading(markdown, line, line.begin[1] == '#' ? 2 : 1);
    else if (begins_with(line, "- "))
        render_item(markdown, (struct markdown_span){line.begin + 2, line.end}, MARKDOWN_BULLETS);
    else if (number > 0)
        render_item(markdown, (struct markdown_span){line.begin + number, line.end},
                    MARKDOWN_NUMBERS);
    else if (*line.begin == '|')
        render_row(markdown, line);
    else
        render_prose(markdown, line);
}

void exporter_markdown_html(FILE *out, const char *text, const char *base)
{
    struct markdown markdown = {.out = out, .base = base};
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        render_block_line(&markdown, (struct markdown_span){text, text + length});
        text += length + (text[length] == '\n');
    }
    open_block(&markdown, MARKDOWN_NONE);
}
