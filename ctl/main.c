/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl: the operator's command line. A sub-command is one row of the table below; the help
 * and "did you mean" follow from it. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/api.h"
#include "ctl/command.h"
#include "ctl/request.h"
#include "exporter/version.h"
#include "lib/base/nearest.h"

static const struct ctl_command commands[] = {
    {"check-config", "FILE...", "Check configuration files.",
     "Prints one line per file: a summary, or its first error with line and column.\n"
     "Exit code: 0 all files are valid, 1 one is not, 2 usage error.\n"
     "\n"
     "Example:\n"
     "  handoffctl check-config /etc/handoff-exporter.yml\n",
     ctl_check_config},
    {"tokens", "[--encoding NAME] [--json] FILE", "Count the tokens of a text file (- is stdin).",
     "  --encoding NAME  o200k_base (the default), cl100k_base, or estimate: an upper bound\n"
     "  --json           print {\"tokens\": N, \"encoding\": NAME} instead of the number\n"
     "\n"
     "Vocabularies are read from $HANDOFF_VOCABULARY_DIR; if that is unset, from where they were\n"
     "installed or built with this program.\n"
     "Without a vocabulary and without --encoding the count is an estimate, and stderr says so.\n"
     "Exit code: 0 counted, 1 the file or the named vocabulary cannot be read, 2 usage error.\n"
     "\n"
     "Examples:\n"
     "  handoffctl tokens brief.md\n"
     "  git diff | handoffctl tokens --json -\n",
     ctl_tokens},
    {"store", "check PATH | backup PATH DESTINATION | reindex PATH",
     "Check a store, back it up while it is in use, or rebuild its search index.",
     "PATH is the directory given to --storage.path; for check and backup, it can also be the\n"
     "database file in it. Those two only read the store and can be run while the daemon is\n"
     "running. check verifies the structure, the digest of every envelope, its ledger and the\n"
     "search index. backup writes one new file; to restore it, stop the daemon, empty the\n"
     "directory and copy the file there as handoff.db. reindex reads all memories and rebuilds\n"
     "the index by which they are searched; stop the daemon first. The daemon rebuilds what is\n"
     "missing or damaged by itself.\n"
     "Exit code: 0 sound, written or rebuilt, 1 damaged or not written, 2 usage error.\n"
     "\n"
     "Examples:\n"
     "  handoffctl store check /var/lib/handoff-exporter\n"
     "  handoffctl store backup /var/lib/handoff-exporter /backup/handoff-monday.db\n",
     ctl_store},
    {"audit", "PATH TASK [--json]", "Verify the envelopes and ledgers of a task.",
     "PATH is that of store check; a running daemon is not disturbed. Prints the envelopes of "
     "TASK,\n"
     "oldest first: hop, id, agents, parents, and what was omitted. Each digest and link is\n"
     "verified, and each ledger is folded again and compared with its envelope.\n"
     "  --json   print one JSON object for each envelope\n"
     "Exit code: 0 sound, 1 a problem was found, or the store cannot be read, 2 usage error, 4 no\n"
     "envelope has this task.\n"
     "\n"
     "Examples:\n"
     "  handoffctl audit /var/lib/handoff-exporter task-42\n"
     "  handoffctl audit /var/lib/handoff-exporter task-42 --json | jq .omitted\n",
     ctl_audit},
    {"envelope", "[FILE] [OPTION ...]", "Assemble an envelope and print it, without delivering it.",
     CTL_REQUEST_DETAILS
     "The envelope is printed as indented JSON, or\n"
     "  --json                  exactly as it is stored\n"
     "  --markdown              as a Markdown brief for a prompt\n" CTL_API_DETAILS "\n"
     "Examples:\n"
     "  handoffctl envelope --from analyst --to coder --summary 'Write the retry logic' \\\n"
     "      --memory ms-4821 --recent 20 --max-tokens 4000 --markdown\n"
     "  handoffctl envelope request.json --json | jq .tokens\n",
     ctl_envelope},
    {"send", "[FILE] [OPTION ...]", "Hand work to an agent and wait for its acknowledgement.",
     CTL_REQUEST_DETAILS
     "  --async                 return once it is accepted, without waiting for delivery\n"
     "  --idempotency-key KEY   a repeat with this key returns the first handoff\n"
     "  --json                  print the API's JSON instead of text\n"
     "On a terminal, a line on stderr follows the attempts. Interrupting the wait does not cancel\n"
     "the handoff; see handoffctl status. Exit code 1 also means that it was parked or "
     "expired.\n" CTL_API_DETAILS "\n"
     "Examples:\n"
     "  handoffctl send --from analyst --to code-generator --summary 'Write the retry logic' \\\n"
     "      --memory ms-4821 --deadline 2030-01-31T18:00:00Z\n"
     "  handoffctl send request.json --async --idempotency-key run-17 --json | jq -r .id\n",
     ctl_send},
    {"handoffs", "[OPTION ...]", "List handoffs, oldest first.",
     "  --state STATE     only those in this state, as status shows it\n"
     "  --source AGENT    only those that AGENT sent\n"
     "  --target AGENT    only those that AGENT has, or had last\n"
     "  --task TASK       only those of TASK\n"
     "  --since TIME      only those made at TIME (RFC 3339) or later\n"
     "  --limit N         at most N, up to 1000; the default is 50\n"
     "  --cursor CURSOR   the next page, as the end of the last one says\n"
     "  --json            print the API's JSON instead of text\n" CTL_API_DETAILS "\n"
     "Examples:\n"
     "  handoffctl handoffs --state awaiting_ack --target coder\n"
     "  handoffctl handoffs --since 2030-01-31T18:00:00Z --json | jq -r '.items[].id'\n",
     ctl_list},
    {"status", "ID [--json]", "Show a handoff's status.",
     CTL_API_DETAILS "\n"
                     "Example:\n"
                     "  handoffctl status 01890a5d-ac96-774b-bcce-b302099a8057\n",
     ctl_status},
    {"attempts", "ID [--json]", "List the attempts to deliver a handoff.",
     CTL_API_DETAILS "\n"
                     "Example:\n"
                     "  handoffctl attempts 01890a5d-ac96-774b-bcce-b302099a8057\n",
     ctl_attempts},
    {"task", "[complete] TASK [--json]",
     "Show the handoffs of a task as a tree, or complete the task.",
     "Each handoff is indented under the one that it continues. complete records the number of "
     "the\n"
     "task's handoffs, once; repeating it changes nothing.\n" CTL_API_DETAILS "\n"
     "Examples:\n"
     "  handoffctl task task-42\n"
     "  handoffctl task complete task-42\n"
     "  handoffctl task task-42 --json | jq '.items[] | [.hop, .target_agent, .state]'\n",
     ctl_task},
    {"inbox", "AGENT [--wait TIME] [--ack] [--json]", "Take the next handoff for an agent.",
     "  --wait TIME   wait up to TIME for one, at most 60s\n"
     "  --ack         acknowledge it after printing it; else acknowledge it before its lease "
     "expires\n"
     "  --json        print the envelope instead of a brief\n" CTL_API_DETAILS
     "Exit code 4 also means that none arrived in time.\n"
     "\n"
     "Examples:\n"
     "  handoffctl inbox reviewer --wait 20s\n"
     "  handoffctl inbox reviewer --wait 20s --ack --json | jq .context.task\n",
     ctl_inbox},
    {"ack", "ID [--json]", "Acknowledge a handoff on behalf of its agent.",
     CTL_API_DETAILS "\n"
                     "Example:\n"
                     "  handoffctl ack 01890a5d-ac96-774b-bcce-b302099a8057\n",
     ctl_ack},
    {"nack", "ID [--reason TEXT] [--final] [--json]",
     "Report that the agent did not accept a handoff.",
     "It is retried, or parked immediately with --final.\n" CTL_API_DETAILS "\n"
     "Examples:\n"
     "  handoffctl nack 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'the model is overloaded'\n"
     "  handoffctl nack 01890a5d-ac96-774b-bcce-b302099a8057 --final --reason 'not my work'\n",
     ctl_nack},
    {"deliver", "ID [--json]", "Deliver an envelope that was assembled before, and wait.",
     "POST /v1/envelopes assembles and stores one. It is delivered once: a repeat shows its "
     "handoff.\n" CTL_API_DETAILS "\n"
     "Example:\n"
     "  handoffctl deliver 01890a5d-ac96-774b-bcce-b302099a8057\n",
     ctl_deliver},
    {"cancel", "ID [--reason TEXT] [--json]", "Take back a handoff that is not acknowledged.",
     "It is discarded, wherever it is: waiting, with an agent, or parked. The agent may have\n"
     "received it all the same.\n" CTL_API_DETAILS "\n"
     "Example:\n"
     "  handoffctl cancel 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'the plan changed'\n",
     ctl_cancel},
    {"park", "ID --reason TEXT [--json]", "Park a handoff that is not acknowledged.",
     "It is delivered no further, until it is replayed or discarded; see handoffctl "
     "parked.\n" CTL_API_DETAILS "\n"
     "Example:\n"
     "  handoffctl park 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'waits for the customer'\n",
     ctl_park},
    {"extend", "ID [--progress TEXT] [--json]",
     "Extend the time that an agent has to acknowledge, and report its progress.",
     CTL_API_DETAILS
     "\n"
     "Example:\n"
     "  handoffctl extend 01890a5d-ac96-774b-bcce-b302099a8057 --progress 'ran 40 of 120 tests'\n",
     ctl_extend},
    {"parked", "list|show|replay|discard [ID] [OPTION ...]",
     "List, replay or discard handoffs that could not be delivered.",
     "  list          --target AGENT, --reason REASON, --limit N, --cursor CURSOR\n"
     "  list --expired  those that expired instead; only a replay with --edit revives one\n"
     "  show ID       show the handoff with its attempts\n"
     "  replay ID     deliver it again, with --to AGENT to another agent; with --edit FILE send a\n"
     "                new handoff in its place, changed by the request fields in the JSON object\n"
     "  replay --target AGENT  replay all handoffs parked for AGENT; --to AGENT, --reason REASON,\n"
     "                at most --rate N per second (default 10), at most --limit N in total\n"
     "  discard ID    --reason TEXT; it is kept as discarded and never delivered\n"
     "  --json        print the API's JSON instead of text\n" CTL_API_DETAILS "\n"
     "Examples:\n"
     "  handoffctl parked list --target code-generator\n"
     "  handoffctl parked show 01890a5d-ac96-774b-bcce-b302099a8057\n"
     "  handoffctl parked replay --target code-generator --rate 5\n"
     "  handoffctl parked replay 01890a5d-ac96-774b-bcce-b302099a8057 --to reviewer\n"
     "  handoffctl parked discard 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'task is over'\n",
     ctl_parked},
    {"agents", "[reset AGENT] [--json]", "List agents and their circuits, or close a circuit.",
     CTL_API_DETAILS "\n"
                     "Examples:\n"
                     "  handoffctl agents\n"
                     "  handoffctl agents reset code-generator\n",
     ctl_agents},
    {"memories", "put|get|list|search|pin|unpin|rm [ID|TEXT] [OPTION ...]",
     "Read and change memories in the embedded spine.",
     "  put ID     --content TEXT or --file FILE (- is stdin), --summary TEXT,\n"
     "             --importance low|medium|high|critical, --tag TAG (repeatable),\n"
     "             --metadata JSON, --pin, --scope SCOPE, --task TASK\n"
     "  get ID     print one memory\n"
     "  list       --query TEXT, --recent N, --pinned, --scope SCOPE[,SCOPE], --limit N,\n"
     "             --cursor CURSOR\n"
     "  search TEXT  the memories that fit a text, and why: score and words; options as for list\n"
     "  pin ID, unpin ID, rm ID\n"
     "  --json     print the API's JSON instead of text\n" CTL_API_DETAILS "\n"
     "Examples:\n"
     "  handoffctl memories put ms-4821 --file notes.md --summary 'Gateway limits' --tag gateway\n"
     "  handoffctl memories put alice-1 --content 'She prefers email' --scope user:alice\n"
     "  handoffctl memories search 'payment retries' --limit 5\n",
     ctl_memories},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const struct ctl_command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static void print_usage(FILE *out)
{
    fputs("usage: handoffctl COMMAND [ARGUMENT ...]\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++) {
        fprintf(out, "  %s %s\n      %s\n", commands[i].name, commands[i].arguments,
                commands[i].help);
    }
    fputs("\nhandoffctl COMMAND --help describes a command, handoffctl --version prints the "
          "version.\n",
          out);
}

static void print_command_usage(FILE *out, const struct ctl_command *command)
{
    fprintf(out, "usage: handoffctl %s %s\n\n%s\n%s", command->name, command->arguments,
            command->help, command->details);
}

int ctl_usage_error(const struct ctl_command *command, const char *what)
{
    fprintf(stderr, "handoffctl %s: %s\nusage: handoffctl %s %s\n", command->name, what,
            command->name, command->arguments);
    return CTL_USAGE;
}

static int unknown_command(const char *name)
{
    struct base_nearest nearest = base_nearest_begin(name, strlen(name));

    for (size_t i = 0; i < COMMANDS; i++)
        base_nearest_offer(&nearest, commands[i].name, strlen(commands[i].name));
    if (nearest.best)
        fprintf(stderr, "handoffctl: unknown command \"%s\", did you mean %s?\n", name,
                nearest.best);
    else
        fprintf(stderr, "handoffctl: unknown command \"%s\", see handoffctl --help\n", name);
    return CTL_USAGE;
}

static int is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

static int run_command(int argc, char *argv[])
{
    if (argc < 2) {
        print_usage(stderr);
        return CTL_USAGE;
    }
    if (is_help(argv[1])) {
        print_usage(stdout);
        return CTL_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("handoffctl, version %s\n", exporter_version());
        return CTL_OK;
    }
    const struct ctl_command *command = find_command(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    if ((argc > 2 && is_help(argv[2])) || (argc > 3 && is_help(argv[3]))) { /* also after a verb */
        print_command_usage(stdout, command);
        return CTL_OK;
    }
    return command->run(command, argc - 1, argv + 1);
}

/* A full disk is a failure, even if the command succeeded: its output is incomplete. */
static int flush_output(int code)
{
    const int why = fflush(stdout) != 0 ? errno : 0;
    if (why == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "handoffctl: cannot write output: %s\n", strerror(why != 0 ? why : EIO));
    return code == CTL_OK ? CTL_FAILED : code;
}

int main(int argc, char *argv[])
{
    return flush_output(run_command(argc, argv));
}
