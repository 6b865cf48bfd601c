/*
 * What the files of the suite share: the table of tests, and how a sample process reports or gives up.
 *
 * Rules of the house: no libc call that allocates inside a measured batch, every return value looked at, and no
 * number ever printed for work that did not run.
 */
#ifndef BISECTOR_SUITE_H
#define BISECTOR_SUITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define SUITE_VERSION "2"
#ifndef SUITE_DIGEST
#define SUITE_DIGEST "unknown"
#endif

/* EX_CHECK: a test did not do its work under this kernel. EX_REFUSED: this environment does not allow the test. */
enum { EX_DONE = 0, EX_USAGE = 2, EX_CHECK = 3, EX_REFUSED = 4, EX_UNSUPPORTED = 77 };

enum { PAGE_BYTES = 4096, TEXT_BYTES = 512, PATH_BYTES = 1024, MOST_PARAMS = 2, MOST_CALLS = 8, MOST_PHASES = 2 };

enum { EXIT_NOT_EXECUTED = 127 }; /* of a child that could not execute what it should */

/* What may be chosen of a test: a number from `least` to `most`, or one of `words`, whose index is the value. */
struct param {
    const char *name;
    uint64_t fallback, least, most;
    const char *const *words;
};

/* System calls, by the name that strace gives them on x86-64, for one grain of operations with default parameters. */
struct call {
    const char *name;
    uint64_t per_grain;
};

/* What a test's own process knows. `directory` is private to this sample and empty. */
struct work {
    const char *directory;
    uint64_t batches;
    unsigned char *base;
    const uint64_t *values; /* of the test's parameters, in their order */
    char helper[PATH_BYTES];
    double faults_beside; /* for a grain: of what belongs to the test and not to its operation; counted in set-up */
    uint64_t phase_ns[MOST_PHASES]; /* added to by a batch of a test that has phases */
};

/* Minor faults per operation: exactly 16/17 within 1 %, at most so many, or just reported. */
enum fault_rule { FAULTS_REPORTED, FAULTS_WITHIN_1_PERCENT, FAULTS_AT_MOST };

struct test {
    const char *name;
    const char *unit;
    bool higher_is_better;
    const char *aim;       /* the AIM9 test with the same operation */
    const char *aim_units; /* what AIM9 calls the operations it counts */
    uint64_t aim_factor;   /* operations that AIM9 credits for one call */
    const char *op;        /* what one operation is, for people */
    uint64_t grain;        /* a batch is a multiple of this */
    enum fault_rule fault_rule;
    double faults_per_op;
    bool wants_directory;
    const char *phases[MOST_PHASES]; /* parts of a batch that are timed apart; its time is their sum */
    struct call calls[MOST_CALLS];
    struct param params[MOST_PARAMS];
    void (*set_up)(struct work *);
    void (*batch)(struct work *, uint64_t ops);
    void (*prove)(struct work *); /* not timed, after the last batch: gives up unless its work is seen to be done */
};

/* The table, in two parts; a test without a name ends each. */
extern const struct test aim_tests[];
extern const struct test own_tests[];

/* Starts the program over, a few times at most, until its stack and heap lie as they usually do. */
void settle_layout(char **argv);

const struct test *find_test(const char *name);

void enter_directory(const struct work *work);

/* Goes to this program's folder; its name there is work->helper. */
void find_own_program(struct work *work);

/* The exit status of a child; gives up if it was killed. */
int wait_for(pid_t child, const char *what);

/* Where a shell may be, as words of a test's first parameter; and the chosen one, which is there. */
enum { SHELLS = 4 };
extern const char *const shell_paths[SHELLS];
const char *wanted_shell(const struct work *work);

/* Makes a file, before anything is measured. */
void write_text(const char *path, const char *text);

struct script {
    const char *shell, *path, *program;
};

/* Runs it; it gets a status to end with ($1) and `program` ($2). Gives up with `refusal` unless it ends with that. */
void run_script(const struct script *script, uint64_t op, int refusal);

/* `bisector-suite patch ...`, what the scripts of patch_series start; ends the process. */
_Noreturn void patch_tool(char **words);

/* splitmix64: the next number of a sequence, below `limit`; any state will do as a seed, also 0. */
unsigned random_below(uint64_t *state, unsigned limit);

void memory_set_up(struct work *work);
void page_set_up(struct work *work);
void page_batch(struct work *work, uint64_t ops);
void brk_batch(struct work *work, uint64_t ops);
void fork_set_up(struct work *work);
void fork_batch(struct work *work, uint64_t ops);
void exec_set_up(struct work *work);
void exec_batch(struct work *work, uint64_t ops);
void creat_set_up(struct work *work);
void creat_batch(struct work *work, uint64_t ops);
void signal_set_up(struct work *work);
void signal_batch(struct work *work, uint64_t ops);
void getppid_batch(struct work *work, uint64_t ops);
void getpriority_batch(struct work *work, uint64_t ops);
void no_set_up(struct work *work);
void stat_set_up(struct work *work);
void stat_batch(struct work *work, uint64_t ops);
void open_batch(struct work *work, uint64_t ops);
void link_set_up(struct work *work);
void link_batch(struct work *work, uint64_t ops);
void dir_set_up(struct work *work);
void dir_batch(struct work *work, uint64_t ops);
void alu_batch(struct work *work, uint64_t ops);
void dgram_set_up(struct work *work);
void fault_anon_batch(struct work *work, uint64_t ops);
void fault_anon_set_up(struct work *work);
void fault_cow_batch(struct work *work, uint64_t ops);
void fault_cow_set_up(struct work *work);
void fault_file_set_up(struct work *work);
void fault_private_batch(struct work *work, uint64_t ops);
void fault_private_set_up(struct work *work);
void fault_shared_batch(struct work *work, uint64_t ops);
void memcpy_batch(struct work *work, uint64_t ops);
void message_batch(struct work *work, uint64_t ops);
void mmap_batch(struct work *work, uint64_t ops);
void mmap_set_up(struct work *work);
void mremap_batch(struct work *work, uint64_t ops);
void mremap_set_up(struct work *work);
void pipe_set_up(struct work *work);
void shared_batch(struct work *work, uint64_t ops);
void shared_set_up(struct work *work);
void split_batch(struct work *work, uint64_t ops);
void split_set_up(struct work *work);
void stream_set_up(struct work *work);
void tcp_set_up(struct work *work);
void udp_set_up(struct work *work);
void lookup_set_up(struct work *work);
void lookup_batch(struct work *work, uint64_t ops);
void rtns_set_up(struct work *work);
void fork_shell_set_up(struct work *work);
void script_batch(struct work *work, uint64_t ops);
void series_set_up(struct work *work);
void series_batch(struct work *work, uint64_t ops);
void mix_set_up(struct work *work);
void mix_batch(struct work *work, uint64_t ops);
void mix_prove(struct work *work);

enum { COUNTERS = 7, REASON_BYTES = 96 };

/* What the kernel counted during a batch; missing if `missing` says why. */
struct count {
    bool asked;
    uint64_t value, enabled_ns, running_ns;
    char missing[REASON_BYTES];
};

/* By its index, NULL beyond the last one. */
const char *counter_name(unsigned index);

/* `asked` has a bit for each counter by index. Without any of them none of these makes a system call. */
void open_counters(unsigned asked, struct count *counts);
void start_counters(void);
void stop_counters(void);
void read_counters(struct count *counts);

struct options {
    int cpu; /* -1: not pinned */
    unsigned counters; /* a bit for each */
    const char *directory;
    const char *tag;
    uint64_t ops;
    uint64_t sample_ms;
    uint64_t samples;
};

struct sample {
    uint64_t ops, warmup_ops;
    uint64_t wall_ns, user_ns, sys_ns;
    uint64_t phase_ns[MOST_PHASES];
    int64_t minflt, majflt, nvcsw, nivcsw;
    int cpu_start, cpu_end;
    double faults_per_op;
    struct count counts[COUNTERS];
    bool ok;
    char failed_check[TEXT_BYTES];
};

/* Measures one batch in a process of its own. Ends the program if the sample does not count. */
struct sample measure(const struct test *test, const uint64_t *values, uint64_t ops, const struct options *options);

/* Operations for one sample of about `options->sample_ms`: a whole number of grains, at least one. */
uint64_t calibrate(const struct test *test, const uint64_t *values, const struct options *options);

struct clock {
    uint64_t step_ns, read_ns;
};

/* The smallest step seen and the cost of one reading. */
struct clock look_at_clock(void);

void print_env(const struct options *options, bool thp_disabled, const struct clock *clock);
void print_sample(const struct test *test, const uint64_t *values, uint64_t index, const struct sample *sample);
void print_calibration(const struct test *test, uint64_t ops, uint64_t sample_ms);
void print_end(const char *counted, uint64_t count);
void print_tests(bool json);
void print_json_text(const char *text);

/* Ends the program with the reason on standard error and as a line of type "error". */
_Noreturn void give_up(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
void name_test_at_work(const char *name);

/* From now on `give_up` hands its reason to `taker` and says nothing: the sample's process, whose parent speaks. */
void hand_failures_to(void (*taker)(int status, const char *reason));

uint64_t now_ns(void);

#endif
