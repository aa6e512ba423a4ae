/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task as a tree: each handoff under the one that it continues. One whose parent is not in the
 * list is a root. The list is in the order of acceptance, so a parent comes before its children,
 * and each node is written once. On the loop of the request.
 */
#include "exporter/review/tree.h"

#include <string.h>

#include "exporter/review/frame.h"

enum { NO_PARENT = -1, SUMMARY_MOST = 120 };

struct tree {
    FILE *out;
    const char *current;
    yyjson_val *nodes[REVIEW_TREE_MAX];
    int parents[REVIEW_TREE_MAX];
    int count;
};

static void write_node(const struct tree *tree, yyjson_val *handoff)
{
    const char *id = review_string(handoff, "id");
    const bool is_current = strcmp(id, tree->current) == 0;
    fputs(is_current ? "<strong>" : "", tree->out);
    review_write_text(tree->out, review_string(handoff, "source_agent"));
    fputs(" <span aria-label=\"to\">\u2192</span> ", tree->out);
    review_write_text(tree->out, review_string(handoff, "target_agent"));
    fputs(is_current ? "</strong> " : " ", tree->out);
    review_write_text(tree->out, review_string(handoff, "state"));
    fputs(": ", tree->out);
    if (is_current)
        review_write_beginning(tree->out, review_string(handoff, "summary"), SUMMARY_MOST);
    else
        review_write_handoff_link(tree->out, id, review_string(handoff, "summary"));
}

/* Recursion is as deep as the chain, which the number of nodes bounds. */
static void write_branch(const struct tree *tree, int parent) // NOLINT(misc-no-recursion)
{
    bool any = false;
    for (int i = 0; i < tree->count; i++) {
        if (tree->parents[i] != parent)
            continue;
        fputs(any ? "" : parent == NO_PARENT ? "<ul class=\"tree\">\n" : "<ul>\n", tree->out);
        any = true;
        fputs("<li>", tree->out);
        write_node(tree, tree->nodes[i]);
        write_branch(tree, i);
        fputs("</li>\n", tree->out);
    }
    fputs(any ? "</ul>\n" : "", tree->out);
}

static int place_in_tree(const struct tree *tree, const char *id)
{
    for (int i = 0; *id != '\0' && i < tree->count; i++) {
        if (strcmp(review_string(tree->nodes[i], "id"), id) == 0)
            return i;
    }
    return NO_PARENT;
}

void review_write_tree(FILE *out, yyjson_val *items, const char *current)
{
    struct tree tree = {.out = out, .current = current};
    size_t i, count;
    yyjson_val *handoff;
    yyjson_arr_foreach(items, i, count, handoff)
    {
        if (tree.count == REVIEW_TREE_MAX)
            break;
        tree.parents[tree.count] = place_in_tree(&tree, review_string(handoff, "previous_id"));
        tree.nodes[tree.count++] = handoff;
    }
    write_branch(&tree, NO_PARENT);
}
