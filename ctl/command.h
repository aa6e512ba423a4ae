/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - a sub-command of handoffctl. Each has its own file with a run function; main.c has
 * the table of them.
 */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

/* Exit codes, the same for every sub-command. */
enum {
    CTL_OK = 0,
    CTL_FAILED = 1, /* the command is valid but did not succeed; stderr says why */
    CTL_USAGE = 2,  /* the command line is invalid */
};

struct ctl_command {
    const char *name;
    const char *arguments; /* "FILE" */
    const char *help;      /* one line */
    const char *details;   /* further lines and examples, each ending in a newline, or "" */
    /* argv[0] is the sub-command's name; returns an exit code. */
    int (*run)(const struct ctl_command *command, int argc, char *const argv[]);
};

/* Prints the problem and the usage line on stderr; returns CTL_USAGE. */
int ctl_usage_error(const struct ctl_command *command, const char *what);

int ctl_check_config(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_store(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_audit(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_tokens(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_envelope(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_send(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_list(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_status(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_attempts(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_task(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_inbox(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_ack(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_nack(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_deliver(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_cancel(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_park(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_extend(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_parked(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_agents(const struct ctl_command *command, int argc, char *const argv[]);
int ctl_memories(const struct ctl_command *command, int argc, char *const argv[]);

#endif
