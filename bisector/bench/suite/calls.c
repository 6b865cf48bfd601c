/* signal_test and the bare system calls: what entering the kernel costs, and little else. */
#include "suite.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t traps_seen;

static void install(int signal_number);

/* As AIM9's: the handler installs itself again, a relic of System V that costs one more system call. */
static void count_trap(int signal_number)
{
    traps_seen++;
    install(signal_number);
}

static void install(int signal_number)
{
    struct sigaction action = {.sa_handler = count_trap};
    if (sigaction(signal_number, &action, NULL) < 0)
        give_up(EX_CHECK, "sigaction: %s", strerror(errno));
}

void signal_set_up(struct work *work)
{
    (void)work;
    install(SIGUSR2);
}

/* A signal to oneself is delivered before kill returns: one that is lost shows at once. */
void signal_batch(struct work *work, uint64_t ops)
{
    (void)work;
    pid_t self = getpid();
    for (uint64_t op = 0; op < ops; op++) {
        traps_seen = 0;
        if (kill(self, SIGUSR2) < 0)
            give_up(EX_CHECK, "kill: %s", strerror(errno));
        if (traps_seen != 1)
            give_up(EX_CHECK, "one signal sent, %d caught", (int)traps_seen);
    }
}

void no_set_up(struct work *work)
{
    (void)work;
}

void getppid_batch(struct work *work, uint64_t ops)
{
    (void)work;
    long parent = syscall(SYS_getppid);
    for (uint64_t op = 1; op < ops; op++)
        if (syscall(SYS_getppid) != parent)
            give_up(EX_CHECK, "getppid: another parent than %ld", parent);
}

void getpriority_batch(struct work *work, uint64_t ops)
{
    (void)work;
    long priority = syscall(SYS_getpriority, PRIO_PROCESS, 0); /* 20 less the nice value: never negative */
    if (priority < 0)
        give_up(EX_CHECK, "getpriority: %s", strerror(errno));
    for (uint64_t op = 1; op < ops; op++)
        if (syscall(SYS_getpriority, PRIO_PROCESS, 0) != priority)
            give_up(EX_CHECK, "getpriority: another priority than %ld", priority);
}
