/* The lines: one JSON object each, an "env" first, the samples, an "end" last. Aggregation is done elsewhere. */
#include "suite.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

typedef unsigned long long whole;

/* First line of a file of /proc or /sys, or null: a small guest may have neither. */
static void print_file(const char *key, const char *path)
{
    char line[TEXT_BYTES];
    FILE *file = fopen(path, "r");
    bool read = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL)
        fclose(file);
    printf(",\"%s\":", key);
    if (!read) {
        printf("null");
        return;
    }
    line[strcspn(line, "\n")] = '\0';
    print_json_text(line);
}

void print_env(const struct options *options, bool thp_disabled, const struct clock *clock)
{
    struct utsname system;
    if (uname(&system) < 0)
        give_up(EX_UNSUPPORTED, "uname: %s", strerror(errno));
    printf("{\"v\":1,\"type\":\"env\",\"suite\":\"%s\",\"digest\":\"%s\",\"compiler\":", SUITE_VERSION, SUITE_DIGEST);
    print_json_text(__VERSION__);
    printf(",\"tag\":");
    print_json_text(options->tag);
    printf(",\"release\":");
    print_json_text(system.release);
    printf(",\"version\":");
    print_json_text(system.version);
    printf(",\"arch\":");
    print_json_text(system.machine);
    print_file("boot_id", "/proc/sys/kernel/random/boot_id");
    print_file("clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    print_file("thp", "/sys/kernel/mm/transparent_hugepage/enabled");
    printf(",\"thp_disabled\":%s", thp_disabled ? "true" : "false");
    print_file("aslr", "/proc/sys/kernel/randomize_va_space");
    printf(",\"cpus\":%ld,\"cpu\":", sysconf(_SC_NPROCESSORS_ONLN));
    printf(options->cpu < 0 ? "null" : "%d", options->cpu);
    printf(",\"clock\":\"CLOCK_MONOTONIC_RAW\",\"clock_step_ns\":%llu,\"clock_read_ns\":%llu}\n",
           (whole)clock->step_ns, (whole)clock->read_ns);
}

static void print_params(const struct test *test, const uint64_t *values)
{
    printf(",\"params\":{");
    for (unsigned i = 0; i < MOST_PARAMS && test->params[i].name != NULL; i++) {
        const struct param *param = &test->params[i];
        printf(i ? "," : "");
        print_json_text(param->name);
        putchar(':');
        if (param->words != NULL)
            print_json_text(param->words[values[i]]);
        else
            printf("%llu", (whole)values[i]);
    }
    putchar('}');
}

/* Two objects: what was counted, and why the others of those asked for were not. */
static void print_counts(const struct count *counts)
{
    bool any = false;
    for (unsigned i = 0; i < COUNTERS; i++)
        any = any || counts[i].asked;
    if (!any)
        return;
    const char *between = "";
    printf(",\"counters\":{");
    for (unsigned i = 0; i < COUNTERS; i++)
        if (counts[i].asked && counts[i].missing[0] == '\0') {
            printf("%s\"%s\":{\"value\":%llu,\"enabled_ns\":%llu,\"running_ns\":%llu}", between, counter_name(i),
                   (whole)counts[i].value, (whole)counts[i].enabled_ns, (whole)counts[i].running_ns);
            between = ",";
        }
    printf("},\"missing_counters\":{");
    between = "";
    for (unsigned i = 0; i < COUNTERS; i++)
        if (counts[i].missing[0] != '\0') {
            printf("%s\"%s\":", between, counter_name(i));
            print_json_text(counts[i].missing);
            between = ",";
        }
    putchar('}');
}

void print_sample(const struct test *test, const uint64_t *values, uint64_t index, const struct sample *sample)
{
    printf("{\"v\":1,\"type\":\"sample\",\"test\":");
    print_json_text(test->name);
    print_params(test, values);
    printf(",\"sample\":%llu,\"ops\":%llu,\"warmup_ops\":%llu", (whole)index, (whole)sample->ops,
           (whole)sample->warmup_ops);
    printf(",\"wall_ns\":%llu,\"user_ns\":%llu,\"sys_ns\":%llu", (whole)sample->wall_ns, (whole)sample->user_ns,
           (whole)sample->sys_ns);
    for (unsigned i = 0; i < MOST_PHASES && test->phases[i] != NULL; i++)
        printf("%s\"%s\":%llu%s", i ? "," : ",\"phases\":{", test->phases[i], (whole)sample->phase_ns[i],
               i + 1 == MOST_PHASES || test->phases[i + 1] == NULL ? "}" : "");
    printf(",\"minflt\":%lld,\"majflt\":%lld,\"nvcsw\":%lld,\"nivcsw\":%lld", (long long)sample->minflt,
           (long long)sample->majflt, (long long)sample->nvcsw, (long long)sample->nivcsw);
    printf(",\"cpu_start\":%d,\"cpu_end\":%d", sample->cpu_start, sample->cpu_end);
    print_counts(sample->counts);
    printf(",\"checks\":{\"ok\":%s,\"faults_per_op\":%.4f}}\n", sample->ok ? "true" : "false", sample->faults_per_op);
}

void print_calibration(const struct test *test, uint64_t ops, uint64_t sample_ms)
{
    printf("{\"v\":1,\"type\":\"calibration\",\"test\":");
    print_json_text(test->name);
    printf(",\"ops\":%llu,\"sample_ms\":%llu}\n", (whole)ops, (whole)sample_ms);
}

void print_end(const char *counted, uint64_t count)
{
    printf("{\"v\":1,\"type\":\"end\",\"%s\":%llu,\"ok\":true}\n", counted, (whole)count);
}
