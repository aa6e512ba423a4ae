/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - what a sub-command of handoffctl is. Each has a file of its own with its run
 * function; main.c holds the one table of them.
 */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

/* Exit codes, the same for every sub-command. */
enum {
    CTL_OK = 0,
    CTL_FAILED = 1, /* it was understood and did not succeed; stderr says why */
    CTL_USAGE = 2,  /* it was not understood */
};

struct ctl_command {
    const char *name;
    const char *arguments; /* "FILE" */
    const char *help;      /* one line */
    const char *details;   /* further lines and examples, each ended, or "" */
    /* argv[0] is the sub-command's name, as main's is the program's; answers an exit code. */
    int (*run)(const struct ctl_command *command, int argc, char *const argv[]);
};

/* Says on stderr what is wrong and how the command is used; answers CTL_USAGE. */
int ctl_usage_error(const struct ctl_command *command, const char *what);

int ctl_check_config(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_store(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_tokens(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_envelope(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_send(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_status(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_attempts(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_task(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_inbox(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_ack(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_nack(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_parked(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_agents(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_memories(const struct ctl_command *command, int argc, char *const argv[]);

#endif
