/*
 * shell_rtns_1 and fork_shell: the machine's shell on a fixed script.
 *
 * AIM9's shell_rtns_1 looks for its script in PATH, and where it is not found times "command not found" and prints a
 * good number. Here a script ends with a status that it is told, another one each time, and only once all it did has
 * succeeded: any other status fails the sample. AIM9's script lists a folder, whatever is in it; ours executes one
 * program, this one as `true`, which is the same everywhere.
 */
#include "suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From 32 to 95: no shell ends with one of these by itself. */
enum { FIRST_STATUS = 32, STATUSES = 64, EXIT_SCRIPT_FAILED = 125 };

/* busybox is a shell when it is called "sh", as we call them all. */
const char *const shell_paths[SHELLS] = {"/bin/sh", "/bin/dash", "/bin/bash", "/bin/busybox"};

static const char rtns_script[] = "\"$2\" true || exit 125\n"
                                  "exit \"$1\"\n";

/* Twenty subshells, each of which ends with a status of its own. */
static const char fork_script[] = "i=0\n"
                                  "while [ \"$i\" -lt 20 ]; do\n"
                                  "    ( exit \"$i\" )\n"
                                  "    [ \"$?\" -eq \"$i\" ] || exit 125\n"
                                  "    i=$((i + 1))\n"
                                  "done\n"
                                  "exit \"$1\"\n";

static char script_path[PATH_BYTES];

static void write_script(const struct work *work, const char *text)
{
    char folder[PATH_BYTES];
    if (realpath(work->directory, folder) == NULL)
        give_up(EX_REFUSED, "%s: %s", work->directory, strerror(errno));
    int length = snprintf(script_path, sizeof script_path, "%s/script", folder);
    if (length < 0 || (size_t)length >= sizeof script_path)
        give_up(EX_REFUSED, "the directory's path is too long: %s", folder);
    FILE *file = fopen(script_path, "w");
    if (file == NULL || fputs(text, file) == EOF || fclose(file) == EOF)
        give_up(EX_REFUSED, "%s cannot be written: %s", script_path, strerror(errno));
}

static const char *shell_of(const struct work *work)
{
    return shell_paths[work->values[0]];
}

static bool run_script(const struct work *work, uint64_t op)
{
    char status[12];
    unsigned expected = FIRST_STATUS + (unsigned)(op % STATUSES);
    snprintf(status, sizeof status, "%u", expected);
    char *const arguments[] = {"sh", script_path, status, (char *)work->helper, NULL};
    char *const environment[] = {NULL};
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0) {
        execve(shell_of(work), arguments, environment);
        _exit(EXIT_NOT_EXECUTED);
    }
    unsigned got = (unsigned)wait_for(child, "the shell");
    if (got == EXIT_NOT_EXECUTED)
        give_up(EX_CHECK, "%s could not be executed, or a program by it (status %u)", shell_of(work), got);
    if (got == EXIT_SCRIPT_FAILED)
        give_up(EX_CHECK, "what the script of %s does failed (status %u)", shell_of(work), got);
    if (got != expected)
        give_up(EX_CHECK, "%s ended with status %u, expected %u", shell_of(work), got, expected);
    return true;
}

static void try_shell(const struct work *work)
{
    if (access(shell_of(work), X_OK) < 0)
        give_up(EX_UNSUPPORTED, "there is no shell %s: %s", shell_of(work), strerror(errno));
    if (!run_script(work, 0))
        give_up(EX_REFUSED, "fork: %s: is RLIMIT_NPROC or pids.max set?", strerror(errno));
}

void rtns_set_up(struct work *work)
{
    write_script(work, rtns_script);
    find_own_program(work);
    try_shell(work);
}

void fork_shell_set_up(struct work *work)
{
    write_script(work, fork_script);
    try_shell(work);
}

void fork_shell_batch(struct work *work, uint64_t ops)
{
    for (uint64_t op = 0; op < ops; op++)
        if (!run_script(work, op))
            give_up(EX_CHECK, "fork: %s after %ju operations", strerror(errno), (uintmax_t)op);
}

void rtns_batch(struct work *work, uint64_t ops)
{
    fork_shell_batch(work, ops); /* it is the script that differs */
}
