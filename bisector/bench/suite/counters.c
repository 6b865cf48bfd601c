/*
 * The kernel's own counts of a batch (perf_event_open): of the process that measures and of the children it makes.
 *
 * Opened only when asked for, before the set-up, and off until the batch begins. What cannot be counted is missing,
 * with the reason, and never zero: a counter that this machine or its permissions do not have, one that never ran,
 * and one that ran for a part of the time only, whose value would be an estimate.
 */
#include "suite.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Counters of one group are scheduled together. Two to a group: a processor has four or more, and a watchdog one. */
enum group { INSTRUCTIONS, CYCLES, SOFTWARE, GROUPS };

struct counter {
    const char *name;
    uint32_t type;
    uint64_t config;
    enum group group;
    bool not_user, not_kernel;
};

static const struct counter known[COUNTERS] = {
    {"instructions:u", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, INSTRUCTIONS, .not_kernel = true},
    {"instructions:k", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, INSTRUCTIONS, .not_user = true},
    {"cycles:u", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, CYCLES, .not_kernel = true},
    {"cycles:k", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, CYCLES, .not_user = true},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, SOFTWARE, .not_user = false},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, SOFTWARE, .not_user = false},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, SOFTWARE, .not_user = false},
};

static int descriptors[COUNTERS];
static int leaders[GROUPS] = {-1, -1, -1};

const char *counter_name(unsigned index)
{
    return index < COUNTERS ? known[index].name : NULL;
}

static const char *why_not(int error)
{
    switch (error) {
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
        return "not supported";
    case EACCES:
    case EPERM:
        return "not permitted: perf_event_paranoid or a filter of system calls forbids it";
    case ENOSYS:
        return "the kernel has no perf_event_open";
    default:
        return strerror(error);
    }
}

static int open_counter(const struct counter *counter)
{
    struct perf_event_attr attributes = {
        .type = counter->type,
        .size = sizeof attributes,
        .config = counter->config,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = leaders[counter->group] < 0, /* the others of a group go with their leader */
        .inherit = true,
        .exclude_user = counter->not_user,
        .exclude_kernel = counter->not_kernel,
        .exclude_hv = true,
    };
    /* Read one by one: a group of inherited counters cannot be read at once before Linux 6.13. */
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, leaders[counter->group], PERF_FLAG_FD_CLOEXEC);
}

void open_counters(unsigned asked, struct count *counts)
{
    for (unsigned i = 0; i < COUNTERS; i++) {
        descriptors[i] = -1;
        counts[i].asked = asked >> i & 1;
        if (!counts[i].asked)
            continue;
        descriptors[i] = open_counter(&known[i]);
        if (descriptors[i] < 0)
            snprintf(counts[i].missing, sizeof counts[i].missing, "%s", why_not(errno));
        else if (leaders[known[i].group] < 0)
            leaders[known[i].group] = descriptors[i];
    }
}

static void switch_groups(unsigned long request)
{
    for (unsigned group = 0; group < GROUPS; group++)
        if (leaders[group] >= 0 && ioctl(leaders[group], request, PERF_IOC_FLAG_GROUP) < 0)
            give_up(EX_REFUSED, "a counter cannot be switched: %s", strerror(errno));
}

void start_counters(void)
{
    switch_groups(PERF_EVENT_IOC_ENABLE);
}

void stop_counters(void)
{
    switch_groups(PERF_EVENT_IOC_DISABLE);
}

static void read_counter(int descriptor, struct count *count)
{
    uint64_t read_values[3]; /* in the order of read_format */
    if (read(descriptor, read_values, sizeof read_values) != sizeof read_values) {
        snprintf(count->missing, sizeof count->missing, "it cannot be read: %s", strerror(errno));
        return;
    }
    count->value = read_values[0];
    count->enabled_ns = read_values[1];
    count->running_ns = read_values[2];
    if (count->running_ns == 0)
        snprintf(count->missing, sizeof count->missing, "it never ran: the processor had no counter free");
    else if (count->running_ns < count->enabled_ns)
        snprintf(count->missing, sizeof count->missing, "it ran for a part of the time only: %ju of %ju ns",
                 (uintmax_t)count->running_ns, (uintmax_t)count->enabled_ns);
}

void read_counters(struct count *counts)
{
    for (unsigned i = 0; i < COUNTERS; i++)
        if (descriptors[i] >= 0 && counts[i].asked)
            read_counter(descriptors[i], &counts[i]);
}
