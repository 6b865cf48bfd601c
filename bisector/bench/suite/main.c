/*
 * The command line. `true` comes first: it is what exec_test executes where entry.c has no short way. It and `patch`,
 * which patch_series starts, are not for people.
 */
#include "suite.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST_TESTS = 64, LONGEST_SAMPLE_MS = 600000, DEFAULT_SAMPLE_MS = 500, MOST_CPUS = 8192 };

/* A thousandth of the shortest sample that is any good. Early in a boot the clock may follow the tick: 4 ms. */
enum { COARSEST_CLOCK_NS = 100000 };

struct job {
    const struct test *test;
    uint64_t ops; /* 0: to be calibrated */
    uint64_t values[MOST_PARAMS];
};

/* Parameters as typed; they are looked at when the tests are known. */
struct settings {
    char *texts[MOST_TESTS];
    unsigned count;
};

static const char usage[] =
    "usage: bisector-suite --list [--json]\n"
    "       bisector-suite run TEST [--ops N | --sample-ms M] [--samples S] [--cpu N] [--dir D] [--tag T] [--param K=V]...\n"
    "           [--counters C[,C...]]\n"
    "       bisector-suite run-all --batches TEST=OPS[,TEST=OPS...] [--cpu N] [--dir D] [--tag T] [--param TEST.K=V]...\n"
    "           [--counters C[,C...]]\n"
    "       bisector-suite calibrate TEST[,TEST...] [--sample-ms M] [--cpu N] [--dir D] [--tag T] [--param TEST.K=V]...\n";

static uint64_t number(const char *what, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    uintmax_t value = strtoumax(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < least || value > most)
        give_up(EX_USAGE, "%s: a number from %" PRIu64 " to %" PRIu64 " is wanted, got \"%s\"", what, least, most, text);
    return value;
}

static const struct test *wanted_test(const char *name)
{
    const struct test *test = find_test(name);
    if (test == NULL)
        give_up(EX_USAGE, "there is no test \"%s\"; see --list", name);
    return test;
}

static uint64_t wanted_ops(const struct test *test, const char *text)
{
    uint64_t ops = number("operations", text, 1, UINT64_C(1000000000000000));
    if (ops % test->grain != 0)
        give_up(EX_USAGE, "%s counts in steps of %" PRIu64 " operations, got %" PRIu64, test->name, test->grain, ops);
    return ops;
}

static struct job new_job(const struct test *test, uint64_t ops)
{
    struct job job = {.test = test, .ops = ops};
    for (unsigned i = 0; i < MOST_PARAMS; i++)
        job.values[i] = test->params[i].fallback;
    return job;
}

static uint64_t wanted_value(const struct param *param, const char *text)
{
    if (param->words == NULL)
        return number(param->name, text, param->least, param->most);
    for (uint64_t i = param->least; i <= param->most; i++)
        if (strcmp(param->words[i], text) == 0)
            return i;
    give_up(EX_USAGE, "%s: no such word \"%s\"; see --list", param->name, text);
}

/* "variant=wide" of the only test, or "page_test.variant=wide". */
static void set_param(struct job *jobs, unsigned count, char *text)
{
    char *value = strchr(text, '='), *name = text;
    if (value == NULL)
        give_up(EX_USAGE, "--param wants K=V or TEST.K=V, got \"%s\"", text);
    *value++ = '\0';
    char *dot = strchr(text, '.');
    if (dot != NULL) {
        *dot = '\0';
        name = dot + 1;
    } else if (count != 1) {
        give_up(EX_USAGE, "--param %s: of which test? TEST.%s=%s is wanted", text, text, value);
    }
    for (unsigned job = 0; job < count; job++)
        for (unsigned i = 0; i < MOST_PARAMS && jobs[job].test->params[i].name != NULL; i++)
            if ((dot == NULL || strcmp(jobs[job].test->name, text) == 0)
                && strcmp(jobs[job].test->params[i].name, name) == 0) {
                jobs[job].values[i] = wanted_value(&jobs[job].test->params[i], value);
                return;
            }
    give_up(EX_USAGE, "there is no parameter \"%s\" of a test that is run; see --list", name);
}

static void set_params(struct job *jobs, unsigned count, const struct settings *settings)
{
    for (unsigned i = 0; i < settings->count; i++)
        set_param(jobs, count, settings->texts[i]);
}

/* "a,b" or "a=1700,b=17000"; a test stands once. */
static unsigned parse_jobs(char *text, bool with_ops, struct job *jobs)
{
    unsigned count = 0;
    for (char *rest = text, *word; (word = strsep(&rest, ",")) != NULL;) {
        char *ops = strchr(word, '=');
        if ((ops != NULL) != with_ops)
            give_up(EX_USAGE, "%s is wanted, got \"%s\"", with_ops ? "TEST=OPS" : "TEST", word);
        if (ops != NULL)
            *ops++ = '\0';
        const struct test *test = wanted_test(word);
        for (unsigned i = 0; i < count; i++)
            if (jobs[i].test == test)
                give_up(EX_USAGE, "%s is named twice", word);
        if (count == MOST_TESTS)
            give_up(EX_USAGE, "more than %d tests", MOST_TESTS);
        jobs[count++] = new_job(test, ops != NULL ? wanted_ops(test, ops) : 0);
    }
    return count;
}

/* "page-faults,cycles:k"; a counter stands once. */
static unsigned parse_counters(char *text)
{
    unsigned asked = 0;
    for (char *rest = text, *word; (word = strsep(&rest, ",")) != NULL;) {
        unsigned index = 0;
        while (counter_name(index) != NULL && strcmp(counter_name(index), word) != 0)
            index++;
        if (counter_name(index) == NULL)
            give_up(EX_USAGE, "there is no counter \"%s\"; see --list --json", word);
        if (asked >> index & 1)
            give_up(EX_USAGE, "%s is named twice", word);
        asked |= 1U << index;
    }
    return asked;
}

/* Options after the command and its operand; `allowed` names them, e.g. "--cpu --dir". */
static void parse_options(char **words, const char *allowed, struct options *options, char **batches, char **ops,
                          struct settings *settings)
{
    for (; *words != NULL; words += 2) {
        const char *name = words[0], *value = words[1];
        const char *at = strstr(allowed, name);
        size_t length = strlen(name);
        bool whole_word = at != NULL && strchr(name, ' ') == NULL && (at[length] == ' ' || at[length] == '\0');
        if (length < 3 || !whole_word)
            give_up(EX_USAGE, "unknown option \"%s\"\n%s", name, usage);
        if (value == NULL)
            give_up(EX_USAGE, "%s wants a value", name);
        if (strcmp(name, "--cpu") == 0)
            options->cpu = (int)number(name, value, 0, MOST_CPUS - 1);
        else if (strcmp(name, "--sample-ms") == 0)
            options->sample_ms = number(name, value, 1, LONGEST_SAMPLE_MS);
        else if (strcmp(name, "--samples") == 0)
            options->samples = number(name, value, 1, 100000);
        else if (strcmp(name, "--counters") == 0)
            options->counters = parse_counters(words[1]);
        else if (strcmp(name, "--dir") == 0)
            options->directory = value;
        else if (strcmp(name, "--tag") == 0)
            options->tag = value;
        else if (strcmp(name, "--param") == 0 && settings->count < MOST_TESTS)
            settings->texts[settings->count++] = words[1];
        else if (strcmp(name, "--param") == 0)
            give_up(EX_USAGE, "more than %d parameters", MOST_TESTS);
        else if (strcmp(name, "--ops") == 0)
            *ops = words[1];
        else
            *batches = words[1];
    }
}

static void pin(int cpu)
{
    cpu_set_t *set = CPU_ALLOC(MOST_CPUS), *seen = CPU_ALLOC(MOST_CPUS);
    size_t size = CPU_ALLOC_SIZE(MOST_CPUS);
    if (set == NULL || seen == NULL)
        give_up(EX_REFUSED, "no memory for a set of CPUs");
    CPU_ZERO_S(size, set);
    CPU_ZERO_S(size, seen);
    CPU_SET_S((size_t)cpu, size, set);
    if (sched_setaffinity(0, size, set) < 0)
        give_up(EX_REFUSED, "cannot be pinned to CPU %d: %s", cpu, strerror(errno));
    if (sched_getaffinity(0, size, seen) < 0 || !CPU_EQUAL_S(size, set, seen))
        give_up(EX_REFUSED, "asked to be pinned to CPU %d, the kernel keeps another set of CPUs", cpu);
    CPU_FREE(set);
    CPU_FREE(seen);
}

/* Huge pages replace 512 faults by one. Inherited by the samples' processes; said in the env line. */
static bool disable_huge_pages(void)
{
    return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1;
}

static void begin(const struct options *options)
{
    struct clock clock = look_at_clock();
    if (clock.step_ns > COARSEST_CLOCK_NS)
        give_up(EX_REFUSED, "CLOCK_MONOTONIC_RAW moves in steps of %" PRIu64 " ns, at most %d are of use", clock.step_ns,
                COARSEST_CLOCK_NS);
    if (options->cpu >= 0)
        pin(options->cpu);
    print_env(options, disable_huge_pages(), &clock);
}

static void run(const struct job *jobs, unsigned count, const struct options *options)
{
    begin(options);
    for (unsigned i = 0; i < count; i++) {
        uint64_t ops = jobs[i].ops;
        if (ops == 0)
            ops = calibrate(jobs[i].test, jobs[i].values, options);
        for (uint64_t index = 0; index < options->samples; index++) {
            struct sample sample = measure(jobs[i].test, jobs[i].values, ops, options);
            print_sample(jobs[i].test, jobs[i].values, index, &sample);
            if (!sample.ok)
                give_up(EX_CHECK, "%s", sample.failed_check);
        }
    }
    name_test_at_work(NULL);
    print_end("samples", count * options->samples);
}

static void calibrate_all(const struct job *jobs, unsigned count, const struct options *options)
{
    begin(options);
    for (unsigned i = 0; i < count; i++)
        print_calibration(jobs[i].test, calibrate(jobs[i].test, jobs[i].values, options), options->sample_ms);
    name_test_at_work(NULL);
    print_end("calibrations", count);
}

/* A full disk or a closed pipe must not end as success. */
static int leave(void)
{
    if (fflush(stdout) == EOF || ferror(stdout)) {
        fprintf(stderr, "bisector-suite: the output cannot be written: %s\n", strerror(errno));
        return EX_REFUSED;
    }
    return EX_DONE;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "true") == 0)
        return 0;
    if (argc > 1 && strcmp(argv[1], "patch") == 0)
        patch_tool(argv + 2);
    /* Whoever started us may have ignored the first: a child could not be waited for. The others would kill us where a
     * reader is lost or a file may not grow (RLIMIT_FSIZE), before that could be said. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || signal(SIGPIPE, SIG_IGN) == SIG_ERR
        || signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
        give_up(EX_REFUSED, "signal: %s", strerror(errno));
    settle_layout(argv);
    struct job jobs[MOST_TESTS];
    const char *temporary = getenv("TMPDIR");
    struct options options = {
        .cpu = -1,
        .directory = temporary != NULL && *temporary != '\0' ? temporary : "/tmp",
        .tag = "",
        .sample_ms = DEFAULT_SAMPLE_MS,
        .samples = 1,
    };
    char *batches = NULL, *ops = NULL;
    struct settings settings = {.count = 0};
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "--list") == 0 && (argc == 2 || (argc == 3 && strcmp(argv[2], "--json") == 0))) {
        print_tests(argc == 3);
    } else if (strcmp(command, "run") == 0 && argc > 2) {
        jobs[0] = new_job(wanted_test(argv[2]), 0);
        parse_options(argv + 3, "--ops --sample-ms --samples --cpu --dir --tag --param --counters", &options, &batches, &ops,
                      &settings);
        if (ops != NULL)
            jobs[0].ops = wanted_ops(jobs[0].test, ops);
        set_params(jobs, 1, &settings);
        run(jobs, 1, &options);
    } else if (strcmp(command, "run-all") == 0) {
        parse_options(argv + 2, "--batches --cpu --dir --tag --param --counters", &options, &batches, &ops, &settings);
        if (batches == NULL)
            give_up(EX_USAGE, "run-all wants --batches TEST=OPS[,TEST=OPS...]");
        unsigned count = parse_jobs(batches, true, jobs);
        set_params(jobs, count, &settings);
        run(jobs, count, &options);
    } else if (strcmp(command, "calibrate") == 0 && argc > 2) {
        unsigned count = parse_jobs(argv[2], false, jobs);
        parse_options(argv + 3, "--sample-ms --cpu --dir --tag --param", &options, &batches, &ops, &settings);
        set_params(jobs, count, &settings);
        calibrate_all(jobs, count, &options);
    } else {
        fputs(usage, stderr);
        return EX_USAGE;
    }
    return leave();
}
