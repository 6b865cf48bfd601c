/*
 * fork_test and exec_test.
 *
 * Against AIM9: one wait for each child (AIM9 waits once more, until there is no child left), and the child leaves
 * by _exit, without running the parent's exit handlers.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VARIANT_DYNAMIC = 1 };

int wait_for(pid_t child, const char *what)
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

/* `refusal`: the exit status if the helper cannot be executed. */
static bool exec_once(const struct work *work, int refusal)
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
    if (got == EXIT_NOT_EXECUTED)
        give_up(refusal, "exec_test: %s could not be executed (status %d)", work->helper, got);
    if (got != 0)
        give_up(EX_CHECK, "exec_test: %s ended with status %d", work->helper, got);
    return true;
}

/*
 * This program, found once and then executed by a name relative to its folder: "/proc/self/exe" in the loop would
 * measure procfs, and an absolute path the depth of the folder somebody put us in.
 */
void find_own_program(struct work *work)
{
    char path[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        give_up(EX_REFUSED, "/proc/self/exe cannot be read: %s", strerror(errno));
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (length >= (ssize_t)sizeof path - 1 || slash == NULL)
        give_up(EX_REFUSED, "this program's path is too long: %s", path);
    snprintf(work->helper, sizeof work->helper, "./%.*s", (int)(sizeof work->helper - 3), slash + 1);
    *slash = '\0';
    if (chdir(path[0] != '\0' ? path : "/") < 0)
        give_up(EX_REFUSED, "%s: %s", path, strerror(errno));
    if (access(work->helper, X_OK) < 0)
        give_up(EX_REFUSED, "%s/%s: %s", path, work->helper + 2, strerror(errno));
}

/* An ELF program of this machine's kind that names an interpreter, the dynamic loader. */
static bool is_dynamic(const char *path)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;
    bool found = false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    if (read(file, &header, sizeof header) == (ssize_t)sizeof header && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0
        && header.e_phentsize == sizeof segment)
        for (unsigned i = 0; i < header.e_phnum && !found; i++) {
            off_t at = (off_t)(header.e_phoff + i * sizeof segment);
            found = pread(file, &segment, sizeof segment, at) == (ssize_t)sizeof segment && segment.p_type == PT_INTERP;
        }
    close(file);
    return found;
}

/*
 * The machine's own `true`. One that we brought would have to suit whatever C library there is (or bring its own
 * loader, which no program of that machine uses); and kernels are only compared on one machine, whose `true` stays.
 */
static void find_dynamic_program(struct work *work)
{
    static const char *const paths[] = {"/usr/bin/true", "/bin/true"};
    for (unsigned i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (is_dynamic(paths[i]) && access(paths[i], X_OK) == 0) {
            snprintf(work->helper, sizeof work->helper, "%s", paths[i]);
            return;
        }
    give_up(EX_UNSUPPORTED, "variant dynamic: neither %s nor %s is a dynamically linked program", paths[0], paths[1]);
}

void exec_set_up(struct work *work)
{
    bool dynamic = work->values[0] == VARIANT_DYNAMIC;
    if (dynamic)
        find_dynamic_program(work);
    else
        find_own_program(work);
    if (!exec_once(work, dynamic ? EX_UNSUPPORTED : EX_CHECK))
        give_up(EX_REFUSED, "fork: %s: is RLIMIT_NPROC or pids.max set?", strerror(errno));
}

void exec_batch(struct work *work, uint64_t ops)
{
    for (uint64_t op = 0; op < ops; op++)
        if (!exec_once(work, EX_CHECK))
            give_up(EX_CHECK, "fork: %s after %ju operations", strerror(errno), (uintmax_t)op);
}
