/* One sample: a fresh process, a warm-up, the timed batch, and the checks that say whether it counts. */
#include "suite.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000, NS_PER_US = 1000, NS_PER_MS = 1000000, WARM_UP_DIVISOR = 10 };

/* Much smaller than PIPE_BUF, so it is written and read whole or not at all. */
struct report {
    int status;
    char reason[TEXT_BYTES];
    struct sample sample;
};

struct reading {
    struct rusage self, children;
    int cpu;
    uint64_t wall_ns;
};

/* From here on a failure of this process is its parent's to tell. */
static int report_descriptor;

static void send_report(const struct report *report)
{
    if (write(report_descriptor, report, sizeof *report) != (ssize_t)sizeof *report)
        _exit(EX_CHECK); /* the parent sees a sample without a report, and says so */
}

static void send_failure(int status, const char *reason)
{
    struct report report = {.status = status};
    snprintf(report.reason, sizeof report.reason, "%s", reason);
    send_report(&report);
}

uint64_t now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC_RAW, &now) < 0)
        give_up(EX_UNSUPPORTED, "CLOCK_MONOTONIC_RAW: %s", strerror(errno));
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

struct clock look_at_clock(void)
{
    enum { READS = 1000 };
    struct clock clock = {.step_ns = UINT64_MAX};
    uint64_t start = now_ns(), last = start;
    for (int reads = 0; reads < READS || clock.step_ns == UINT64_MAX; reads++) {
        uint64_t now = now_ns();
        if (now > last && now - last < clock.step_ns)
            clock.step_ns = now - last;
        last = now;
        clock.read_ns = (now - start) / (uint64_t)(reads + 1);
    }
    return clock;
}

static int current_cpu(void)
{
    unsigned cpu;
    if (syscall(SYS_getcpu, &cpu, NULL, NULL) < 0)
        give_up(EX_UNSUPPORTED, "getcpu: %s", strerror(errno));
    return (int)cpu;
}

static void read_usage(struct reading *reading)
{
    if (getrusage(RUSAGE_SELF, &reading->self) < 0 || getrusage(RUSAGE_CHILDREN, &reading->children) < 0)
        give_up(EX_UNSUPPORTED, "getrusage: %s", strerror(errno));
}

static uint64_t to_ns(struct timeval time)
{
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_usec * NS_PER_US;
}

/* The process and the children it has waited for, after less before. */
#define SPENT(field) \
    (after->self.field - before->self.field + after->children.field - before->children.field)
#define SPENT_NS(field)                                                                                       \
    (to_ns(after->self.field) - to_ns(before->self.field) + to_ns(after->children.field) - to_ns(before->children.field))

static void settle(struct sample *sample, double faults_beside, const struct reading *before,
                   const struct reading *after)
{
    sample->wall_ns = after->wall_ns - before->wall_ns;
    sample->user_ns = SPENT_NS(ru_utime);
    sample->sys_ns = SPENT_NS(ru_stime);
    sample->minflt = SPENT(ru_minflt);
    sample->majflt = SPENT(ru_majflt);
    sample->nvcsw = SPENT(ru_nvcsw);
    sample->nivcsw = SPENT(ru_nivcsw);
    sample->cpu_start = before->cpu;
    sample->cpu_end = after->cpu;
    sample->faults_per_op = ((double)sample->minflt - faults_beside) / (double)sample->ops;
}

/* What such a test does between its phases is to look at what they did: not timed. */
static void settle_phases(struct sample *sample, const struct work *work)
{
    sample->wall_ns = 0;
    for (unsigned i = 0; i < MOST_PHASES; i++)
        sample->wall_ns += sample->phase_ns[i] = work->phase_ns[i];
}

static void fail_check(struct sample *sample, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sample->failed_check, sizeof sample->failed_check, format, arguments);
    va_end(arguments);
    sample->ok = false;
}

static void check(const struct test *test, const struct options *options, struct sample *sample)
{
    double faults = sample->faults_per_op, expected = test->faults_per_op;
    sample->ok = true;
    if (sample->wall_ns == 0)
        fail_check(sample, "the clock did not move during %ju operations", (uintmax_t)sample->ops);
    if (options->cpu >= 0 && (sample->cpu_start != options->cpu || sample->cpu_end != options->cpu))
        fail_check(sample, "pinned to CPU %d, but started on %d and ended on %d", options->cpu, sample->cpu_start,
                   sample->cpu_end);
    if (test->fault_rule == FAULTS_WITHIN_1_PERCENT && (faults < expected * 0.99 || faults > expected * 1.01))
        fail_check(sample, "%.4f minor faults per operation, expected %.4f within 1 %%", faults, expected);
    if (test->fault_rule == FAULTS_AT_MOST && faults > expected)
        fail_check(sample, "%.4f minor faults per operation, expected at most %.4f", faults, expected);
}

static uint64_t up_to_grain(const struct test *test, uint64_t ops)
{
    uint64_t grains = (ops + test->grain - 1) / test->grain;
    return (grains > 0 ? grains : 1) * test->grain;
}

/*
 * The measured part runs on a stack that begins three quarters up a page, whatever lies above it: what a fork copies
 * and what then has to be faulted in depends on how many pages the frames lie on. Without this one run in five of
 * fork_test took 11 faults instead of 9 for an operation, and was 7 % slower. The set-up runs there too: fault_cow
 * counts in it what a fork takes.
 */
static void run_timed(const struct test *test, struct work *work, uint64_t ops, struct reading *before,
                      struct reading *after)
{
    enum { FROM_PAGE_START = PAGE_BYTES / 4 * 3 };
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    volatile unsigned char *room = __builtin_alloca((here - FROM_PAGE_START) % PAGE_BYTES + 1);
    *room = 0;
    test->set_up(work);
    test->batch(work, up_to_grain(test, ops / WARM_UP_DIVISOR));
    read_usage(after); /* the first use of these pages is not timed either */
    memset(work->phase_ns, 0, sizeof work->phase_ns);
    read_usage(before);
    before->cpu = current_cpu();
    start_counters();
    before->wall_ns = now_ns();
    test->batch(work, ops);
    after->wall_ns = now_ns();
    stop_counters();
    after->cpu = current_cpu();
    read_usage(after);
}

static _Noreturn void be_sample_process(const struct test *test, const uint64_t *values, uint64_t ops, const struct options *options, const char *directory,
                                        int descriptor, pid_t parent)
{
    static struct report report;
    static struct reading before, after;
    static struct work work;
    report_descriptor = descriptor;
    hand_failures_to(send_failure);
    /* A benchmark that outlives its program would disturb the next one. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        give_up(EX_UNSUPPORTED, "PR_SET_PDEATHSIG: %s", strerror(errno));
    if (getppid() != parent)
        _exit(EX_CHECK);
    work.directory = directory;
    work.values = values;
    open_counters(options->counters, report.sample.counts);
    run_timed(test, &work, ops, &before, &after);
    read_counters(report.sample.counts);
    if (test->prove != NULL)
        test->prove(&work);
    report.sample.ops = ops;
    report.sample.warmup_ops = up_to_grain(test, ops / WARM_UP_DIVISOR);
    settle(&report.sample, work.faults_beside * (double)(ops / test->grain), &before, &after);
    if (test->phases[0] != NULL)
        settle_phases(&report.sample, &work);
    check(test, options, &report.sample);
    send_report(&report);
    _exit(EX_DONE);
}

static void receive_report(int descriptor, pid_t process, struct report *report)
{
    ssize_t got;
    do
        got = read(descriptor, report, sizeof *report);
    while (got < 0 && errno == EINTR);
    int status;
    pid_t ended;
    do
        ended = waitpid(process, &status, 0);
    while (ended < 0 && errno == EINTR);
    report->reason[sizeof report->reason - 1] = '\0';
    if (ended != process)
        snprintf(report->reason, sizeof report->reason, "waitpid: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        snprintf(report->reason, sizeof report->reason, "the sample's process was killed by signal %d",
                 WTERMSIG(status));
    else if (got != (ssize_t)sizeof *report)
        snprintf(report->reason, sizeof report->reason, "the sample's process ended with status %d and no report",
                 WEXITSTATUS(status));
    else
        return;
    report->status = EX_CHECK;
}

static void make_directory(const struct options *options, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/bisector-XXXXXX", options->directory);
    if (length < 0 || (size_t)length >= size)
        give_up(EX_REFUSED, "the directory's path is too long: %s", options->directory);
    if (mkdtemp(path) == NULL)
        give_up(EX_REFUSED, "no directory can be made in %s: %s", options->directory, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    remove(path); /* what stays is said nowhere: the sample's own failure is what matters */
    return 0;
}

static void remove_directory(const char *path)
{
    enum { OPEN_DIRECTORIES = 16 };
    nftw(path, remove_entry, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
}

struct sample measure(const struct test *test, const uint64_t *values, uint64_t ops, const struct options *options)
{
    static struct report report;
    char directory[PATH_BYTES] = "";
    int ends[2];
    name_test_at_work(test->name);
    if (pipe(ends) < 0)
        give_up(EX_REFUSED, "pipe: %s", strerror(errno));
    if (test->wants_directory)
        make_directory(options, directory, sizeof directory);
    fflush(NULL);
    pid_t parent = getpid(), process = fork();
    if (process == 0) {
        close(ends[0]);
        be_sample_process(test, values, ops, options, directory, ends[1], parent);
    }
    int reason = errno;
    close(ends[1]);
    if (process > 0)
        receive_report(ends[0], process, &report);
    close(ends[0]);
    if (test->wants_directory)
        remove_directory(directory);
    if (process < 0)
        give_up(EX_REFUSED, "no process for the sample: fork: %s", strerror(reason));
    if (report.status != EX_DONE)
        give_up(report.status, "%s", report.reason);
    return report.sample;
}

/*
 * Doubles until a quarter of the wanted length, scales, and looks again: something else that ran meanwhile makes a
 * batch look long and the next ones short, so only a batch that was seen to last (nearly) long enough is taken.
 * It ends: the operations only ever grow.
 */
uint64_t calibrate(const struct test *test, const uint64_t *values, const struct options *options)
{
    double wanted_ns = (double)(options->sample_ms * NS_PER_MS);
    for (uint64_t ops = test->grain;;) {
        struct sample sample = measure(test, values, ops, options);
        if (!sample.ok)
            give_up(EX_CHECK, "%s", sample.failed_check);
        double wanted_part = wanted_ns / (double)sample.wall_ns;
        uint64_t scaled = (uint64_t)(wanted_part * (double)(ops / test->grain) + 0.5) * test->grain;
        if (wanted_part > 4)
            ops *= 2;
        else if (wanted_part > 1.25 && scaled > ops)
            ops = scaled;
        else
            return ops;
    }
}
