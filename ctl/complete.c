/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions of shells. The scripts are a few lines each: they hand the words of the line to
 * `handoffctl __complete`, which prints what the last one can become, each with a tab and what it
 * means, or ":files" where the shell knows better. So no script has a list that could grow stale,
 * and agents and ids come from the sidecar. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/api.h"
#include "ctl/show.h"
#include "ctl/text.h"
#include "lib/base/check.h"
#include "lib/base/rfc3339.h"
#include "lib/base/units.h"

enum { TIMEOUT_MS = 1000 }; /* somebody waits with a finger on the key */

/* Where the cursor is: the words before it, and the one at it. */
struct cursor {
    const char **words;
    size_t count; /* of the words before */
    const char *word;
    const struct ctl_command *command; /* NULL: its name is not complete */
    size_t operands;                   /* of the command, before the cursor */
};

static void offer(const struct cursor *cursor, const char *text, const char *meaning)
{
    if (strncmp(text, cursor->word, strlen(cursor->word)) == 0)
        printf("%s\t%s\n", text, meaning);
}

/* ---- what values there are --------------------------------------------------------------------
 */

static void offer_choices(const struct cursor *cursor, const char *choices)
{
    char choice[64];
    for (unsigned i = 0; *base_choice_copy(choices, i, choice, sizeof choice); i++)
        offer(cursor, choice, "");
}

static void offer_states(const struct cursor *cursor)
{
#define HANDOFF_STATE(name, number, text, kind, meaning) offer(cursor, text, meaning);
#include "client/model/handoff_model.def"
}

static void offer_reasons(const struct cursor *cursor)
{
#define HANDOFF_REASON(name, text, kind, outcome, meaning)                                         \
    if (handoff_reason_parks(HANDOFF_REASON_##name))                                               \
        offer(cursor, text, meaning);
#include "client/model/handoff_model.def"
}

/* The options that say where the sidecar is, from the words before the cursor. */
static void take_address(const struct cursor *cursor, struct ctl_line *line,
                         struct ctl_given *given)
{
    for (size_t i = 0; i + 1 < cursor->count; i++) {
        const char *word = cursor->words[i];
        const struct ctl_option *option =
            strncmp(word, "--", 2) == 0 ? ctl_find_option(line->command, word, strlen(word)) : NULL;
        if (option && option->argument)
            given[line->ngiven++] = (struct ctl_given){option, cursor->words[i + 1], NULL};
    }
}

/* The items of a list of the API, by one of their texts. */
static void offer_listed(const struct cursor *cursor, const char *path, const char *key,
                         const char *meaning)
{
    struct ctl_given *given = calloc(cursor->count + 1, sizeof *given);
    struct ctl_line line = {.command = cursor->command, .given = given};
    const struct ctl_call call = {
        .method = "GET", .path = path, .timeout_ms = TIMEOUT_MS, .quiet = true};
    struct ctl_answer answer = {0};
    size_t i, count;
    yyjson_val *item;
    if (!given || !cursor->command->calls_api) {
        free(given);
        return;
    }
    take_address(cursor, &line, given);
    if (ctl_api_exchange(&line, &call, &answer) == CTL_OK && answer.body) {
        yyjson_doc *doc = yyjson_read(answer.body, answer.size, 0);
        yyjson_arr_foreach(yyjson_obj_get(yyjson_doc_get_root(doc), "items"), i, count, item)
        {
            char *text = ctl_clean(ctl_text(item, key)),
                 *means = ctl_clean(ctl_text(item, meaning));
            offer(cursor, text ? text : "", means ? means : "");
            free(text);
            free(means);
        }
        yyjson_doc_free(doc);
    }
    ctl_answer_free(&answer);
    free(given);
}

/* Those of the last day: the list begins with the oldest. */
static void offer_recent(const struct cursor *cursor)
{
    enum { DAY_S = 86400 };
    char since[BASE_RFC3339_SIZE], path[128];
    base_rfc3339_seconds(((int64_t)time(NULL) - DAY_S) * 1000, since);
    snprintf(path, sizeof path, "/v1/handoffs?limit=1000&since=%s", since);
    offer_listed(cursor, path, "id", "target_agent");
}

static void offer_values(const struct cursor *cursor, enum ctl_kind kind, const char *choices)
{
    switch (kind) {
    case CTL_CHOICE:
    case CTL_WORD:
        offer_choices(cursor, choices);
        break;
    case CTL_STATE:
        offer_states(cursor);
        break;
    case CTL_REASON:
        offer_reasons(cursor);
        break;
    case CTL_FILE:
        puts(":files");
        break;
    case CTL_AGENT:
        offer_listed(cursor, "/v1/agents", "name", "circuit");
        break;
    case CTL_PARKED:
        offer_listed(cursor, "/v1/parked?limit=100", "id", "target_agent");
        break;
    case CTL_HANDOFF:
        offer_recent(cursor);
        break;
    case CTL_COMMAND:
    case CTL_TEXT:
    case CTL_WHOLE:
        break;
    }
}

/* ---- commands and options ---------------------------------------------------------------------
 */

/* The next words of names that begin with `prefix`, each once; a group has no meaning of its own.
 */
static void offer_names(const struct cursor *cursor, const char *prefix)
{
    const size_t length = strlen(prefix);
    const char *last = "";
    for (size_t i = 0; i < ctl_command_count; i++) {
        const struct ctl_command *command = &ctl_commands[i];
        char word[64];
        if (command->hidden || strncmp(command->name, prefix, length) != 0)
            continue;
        const char *rest = command->name + length;
        const size_t end = strcspn(rest, " ");
        if (strncmp(last, rest, end) == 0 && (last[end] == ' ' || last[end] == '\0'))
            continue;
        last = rest;
        snprintf(word, sizeof word, "%.*s", (int)end, rest);
        offer(cursor, word, rest[end] ? "" : command->help);
    }
}

static void offer_options_of(const struct cursor *cursor, const struct ctl_option *options)
{
    for (; options && options->name; options++) {
        char word[64];
        snprintf(word, sizeof word, "--%s", options->name);
        offer(cursor, word, options->help);
    }
}

static void offer_all_options(const struct cursor *cursor)
{
    offer_options_of(cursor, cursor->command->options);
    for (int i = 0; i < CTL_SHARED_COUNT; i++)
        offer_options_of(cursor, ctl_shared_options(cursor->command, (enum ctl_shared)i));
}

static void offer_operand(const struct cursor *cursor)
{
    const struct ctl_operand *operand = cursor->command->operands;
    char prefix[128] = "";
    for (size_t i = 0; operand && operand->name && i < cursor->operands; i++)
        operand += operand->many ? 0 : 1;
    if (!operand || !operand->name)
        return;
    if (operand->kind != CTL_COMMAND) {
        offer_values(cursor, operand->kind, operand->choices);
        return;
    }
    if (cursor->operands > 0)
        snprintf(prefix, sizeof prefix, "%s ", cursor->words[cursor->count - 1]);
    offer_names(cursor, prefix);
}

/* ---- where the cursor is ----------------------------------------------------------------------
 */

/* The option whose value the word at the cursor is; a shell may give "=" as a word. NULL: none. */
static const struct ctl_option *option_before(struct cursor *cursor)
{
    size_t last = cursor->count;
    if (last > 1 && strcmp(cursor->words[last - 1], "=") == 0)
        last--;
    if (strcmp(cursor->word, "=") == 0)
        cursor->word = "";
    const char *word = last > 0 ? cursor->words[last - 1] : "";
    const struct ctl_option *option =
        word[0] == '-' ? ctl_find_option(cursor->command, word, strlen(word)) : NULL;
    return option && option->argument ? option : NULL;
}

/* Finds the command by the words before the cursor, and counts its operands among them. */
static void find_command_at(struct cursor *cursor, char *group, size_t size)
{
    char name[128];
    for (size_t i = 0; i < cursor->count; i++) {
        const char *word = cursor->words[i];
        const struct ctl_option *option =
            word[0] == '-' ? ctl_find_option(NULL, word, strcspn(word, "=")) : NULL;
        if (option && option->argument && !strchr(word, '=')) {
            i += i + 1 < cursor->count && strcmp(cursor->words[i + 1], "=") == 0 ? 2 : 1;
            continue;
        }
        if (word[0] == '-')
            continue;
        snprintf(name, sizeof name, "%s%s%s", group, *group ? " " : "", word);
        const struct ctl_command *command = ctl_find_command(name);
        if (command && cursor->operands == 0)
            cursor->command = command;
        else if (cursor->command)
            cursor->operands++;
        if (!*group)
            snprintf(group, size, "%s", word);
    }
}

/* --name=VALUE in one word: the value is what is completed, with the option still in front. */
static void offer_value_in_word(const struct cursor *cursor)
{
    const size_t length = strcspn(cursor->word, "=");
    const struct ctl_option *option = ctl_find_option(cursor->command, cursor->word, length);
    char choice[64], whole[256];
    if (!option || !option->argument || !option->choices)
        return;
    for (unsigned i = 0; *base_choice_copy(option->choices, i, choice, sizeof choice); i++) {
        snprintf(whole, sizeof whole, "--%s=%s", option->name, choice);
        offer(cursor, whole, "");
    }
}

int ctl_complete(const struct ctl_line *line)
{
    char group[64] = "", prefix[80] = "";
    if (line->noperands == 0)
        return CTL_OK;
    struct cursor cursor = {.words = line->operands,
                            .count = line->noperands - 1,
                            .word = line->operands[line->noperands - 1]};
    find_command_at(&cursor, group, sizeof group);
    const struct ctl_option *option = option_before(&cursor);
    if (option && cursor.command) {
        offer_values(&cursor, option->kind, option->choices);
        return CTL_OK;
    }
    if (cursor.command && cursor.word[0] == '-') {
        if (strchr(cursor.word, '='))
            offer_value_in_word(&cursor);
        else
            offer_all_options(&cursor);
        return CTL_OK;
    }
    if (*group)
        snprintf(prefix, sizeof prefix, "%s ", group);
    if (!cursor.command || (ctl_is_group(cursor.command->name) && cursor.operands == 0))
        offer_names(&cursor, prefix);
    if (cursor.command)
        offer_operand(&cursor);
    return CTL_OK;
}

/* ---- the scripts ------------------------------------------------------------------------------
 */

static const char bash_script[] =
    "# handoffctl completion for bash: source <(handoffctl completion bash)\n"
    "_handoffctl() {\n"
    "    local found\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r found; do\n"
    "        if [ \"$found\" = :files ]; then\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            mapfile -t COMPREPLY < <(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
    "            return\n"
    "        fi\n"
    "        COMPREPLY+=(\"${found%%$'\\t'*}\")\n"
    "    done < <(\"${COMP_WORDS[0]}\" __complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
    "2>/dev/null)\n"
    "}\n"
    "complete -F _handoffctl handoffctl\n";

static const char zsh_script[] =
    "#compdef handoffctl\n"
    "# handoffctl completion for zsh: source <(handoffctl completion zsh)\n"
    "_handoffctl() {\n"
    "    local line\n"
    "    local -a found\n"
    "    for line in \"${(@f)$(\"${words[1]}\" __complete -- \"${(@)words[2,CURRENT]}\" "
    "2>/dev/null)}\"; do\n"
    "        [[ -z $line ]] && continue\n"
    "        if [[ $line == :files ]]; then\n"
    "            _files\n"
    "            return\n"
    "        fi\n"
    "        found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
    "    done\n"
    "    _describe handoffctl found\n"
    "}\n"
    "if [[ $funcstack[1] == _handoffctl ]]; then\n"
    "    _handoffctl\n"
    "else\n"
    "    compdef _handoffctl handoffctl\n"
    "fi\n";

static const char fish_script[] =
    "# handoffctl completion for fish: handoffctl completion fish | source\n"
    "function __handoffctl_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l word (commandline -ct)\n"
    "    set -l found ($words[1] __complete -- $words[2..-1] \"$word\" 2>/dev/null)\n"
    "    if test \"$found\" = :files\n"
    "        __fish_complete_path $word\n"
    "    else\n"
    "        printf '%s\\n' $found\n"
    "    end\n"
    "end\n"
    "complete -c handoffctl -f -a '(__handoffctl_complete)'\n";

int ctl_completion(const struct ctl_line *line)
{
    static const char *const scripts[] = {bash_script, zsh_script, fish_script};
    const struct ctl_operand *shell = &line->command->operands[0];
    const int which = base_choice_index(shell->choices, ctl_operand(line, 0));
    BASE_CHECK(which >= 0 && (size_t)which < sizeof scripts / sizeof *scripts);
    fputs(scripts[which], stdout);
    return CTL_OK;
}
