/*
 * fork_test and exec_test.
 *
 * Against AIM9: one wait for each child (AIM9 waits once more, until there is no child left), and the child leaves
 * by _exit, without running the parent's exit handlers.
 */
#include "suite.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NOT_EXECUTED = 127 };

static int wait_for(pid_t child, const char *what)
{
    int status;
    pid_t got;
    do
        got = waitpid(child, &status, 0);
    while (got < 0 && errno == EINTR);
    if (got != child)
        give_up(EX_CHECK, "waitpid: %s", strerror(errno));
    if (WIFSIGNALED(status))
        give_up(EX_CHECK, "%s was killed by signal %d", what, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* The exit status differs from child to child: it proves that this child ran, with its copy of our memory. */
static bool fork_once(unsigned expected)
{
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0)
        _exit((int)expected);
    unsigned got = (unsigned)wait_for(child, "a child of fork_test");
    if (got != expected)
        give_up(EX_CHECK, "a child of fork_test ended with status %u, expected %u", got, expected);
    return true;
}

void fork_set_up(struct work *work)
{
    (void)work;
    if (!fork_once(1))
        give_up(EX_REFUSED, "fork: %s: is RLIMIT_NPROC or pids.max set?", strerror(errno));
}

void fork_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t op = 0; op < ops; op++)
        if (!fork_once((unsigned)(op & 0x7f)))
            give_up(EX_CHECK, "fork: %s after %ju operations", strerror(errno), (uintmax_t)op);
}

static bool exec_once(const struct work *work)
{
    char *const arguments[] = {(char *)work->helper, "true", NULL};
    char *const environment[] = {NULL};
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0) {
        execve(work->helper, arguments, environment);
        _exit(EXIT_NOT_EXECUTED);
    }
    int got = wait_for(child, "the helper of exec_test");
    if (got != 0)
        give_up(EX_CHECK, got == EXIT_NOT_EXECUTED ? "exec_test: %s could not be executed (status %d)"
                                                   : "exec_test: %s ended with status %d",
                work->helper, got);
    return true;
}

/*
 * The helper is this program, found once and then executed by a name relative to its folder: "/proc/self/exe" in
 * the loop would measure procfs, and an absolute path the depth of the folder somebody put us in.
 */
void exec_set_up(struct work *work)
{
    char path[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        give_up(EX_REFUSED, "exec_test: /proc/self/exe cannot be read: %s", strerror(errno));
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (length >= (ssize_t)sizeof path - 1 || slash == NULL)
        give_up(EX_REFUSED, "exec_test: this program's path is too long: %s", path);
    snprintf(work->helper, sizeof work->helper, "./%.*s", (int)(sizeof work->helper - 3), slash + 1);
    *slash = '\0';
    if (chdir(path[0] != '\0' ? path : "/") < 0)
        give_up(EX_REFUSED, "exec_test: %s: %s", path, strerror(errno));
    if (access(work->helper, X_OK) < 0)
        give_up(EX_REFUSED, "exec_test: %s/%s: %s", path, work->helper + 2, strerror(errno));
    if (!exec_once(work))
        give_up(EX_REFUSED, "fork: %s: is RLIMIT_NPROC or pids.max set?", strerror(errno));
}

void exec_batch(struct work *work, uint64_t ops)
{
    for (uint64_t op = 0; op < ops; op++)
        if (!exec_once(work))
            give_up(EX_CHECK, "fork: %s after %ju operations", strerror(errno), (uintmax_t)op);
}
