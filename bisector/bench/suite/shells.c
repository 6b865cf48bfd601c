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

void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) == EOF || fclose(file) == EOF)
        give_up(EX_REFUSED, "%s cannot be written: %s", path, strerror(errno));
}

static void write_script(const struct work *work, const char *text)
{
    char folder[PATH_BYTES];
    if (realpath(work->directory, folder) == NULL)
        give_up(EX_REFUSED, "%s: %s", work->directory, strerror(errno));
    int length = snprintf(script_path, sizeof script_path, "%s/script", folder);
    if (length < 0 || (size_t)length >= sizeof script_path)
        give_up(EX_REFUSED, "the directory's path is too long: %s", folder);
    write_text(script_path, text);
}

const char *wanted_shell(const struct work *work)
{
    const char *shell = shell_paths[work->values[0]];
    if (access(shell, X_OK) < 0)
        give_up(EX_UNSUPPORTED, "there is no shell %s: %s", shell, strerror(errno));
    return shell;
}

void run_script(const struct script *script, uint64_t op, int refusal)
{
    char status[12];
    unsigned expected = FIRST_STATUS + (unsigned)(op % STATUSES);
    snprintf(status, sizeof status, "%u", expected);
    char *const arguments[] = {"sh", (char *)script->path, status, (char *)script->program, NULL};
    char *const environment[] = {NULL};
    pid_t child = fork();
    if (child < 0)
        give_up(refusal, "fork: %s after %ju operations: is RLIMIT_NPROC or pids.max set?", strerror(errno), (uintmax_t)op);
    if (child == 0) {
        execve(script->shell, arguments, environment);
        _exit(EXIT_NOT_EXECUTED);
    }
    unsigned got = (unsigned)wait_for(child, "the shell");
    if (got == EXIT_NOT_EXECUTED)
        give_up(refusal, "%s could not be executed, or a program by it (status %u)", script->shell, got);
    if (got == EXIT_SCRIPT_FAILED)
        give_up(refusal, "what the script of %s does failed (status %u)", script->shell, got);
    if (got != expected)
        give_up(refusal, "%s ended with status %u, expected %u", script->shell, got, expected);
}

static struct script the_script;

static void try_script(const struct work *work)
{
    the_script = (struct script){.shell = wanted_shell(work), .path = script_path, .program = work->helper};
    run_script(&the_script, 0, EX_REFUSED);
}

void rtns_set_up(struct work *work)
{
    write_script(work, rtns_script);
    find_own_program(work);
    try_script(work);
}

void fork_shell_set_up(struct work *work)
{
    write_script(work, fork_script);
    try_script(work);
}

void script_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t op = 0; op < ops; op++)
        run_script(&the_script, op, EX_CHECK);
}
