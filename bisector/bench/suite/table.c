/* The one table of tests. `--list` prints it; the controller reads names, units and directions from there. */
#include "suite.h"

#include <string.h>

static const char *const page_variants[] = {"fixed", "wide"};

const struct test suite_tests[] = {
    {
        .name = "page_test",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "page_test",
        .aim_units = "System Allocations & Pages",
        .aim_factor = 1700,
        .op = "16 of 17: move the break up by 4 KiB and write one byte in every 128 of the new page; "
              "1 of 17: move the break down by 64 KiB",
        .grain = 1700,
        .fault_rule = FAULTS_WITHIN_1_PERCENT,
        .faults_per_op = 16.0 / 17.0,
        .calls = {{"brk", 1702}},
        .params = {{.name = "variant", .most = 1, .words = page_variants}},
        .set_up = page_set_up,
        .batch = page_batch,
    },
    {
        .name = "brk_test",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "brk_test",
        .aim_units = "System Memory Allocations",
        .aim_factor = 17000,
        .op = "16 of 17: move the break up by 4 KiB, nothing is touched; 1 of 17: move the break down by 64 KiB",
        .grain = 17000,
        .fault_rule = FAULTS_AT_MOST,
        .faults_per_op = 0.001,
        .calls = {{"brk", 17002}},
        .set_up = memory_set_up,
        .batch = brk_batch,
    },
    {
        .name = "fork_test",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "fork_test",
        .aim_units = "Task Creations",
        .aim_factor = 100,
        .op = "fork, the child leaves by _exit, the parent waits for it",
        .grain = 1,
        .calls = {{"clone", 1}, {"set_robust_list", 1}, {"exit_group", 1}, {"wait4", 1}},
        .set_up = fork_set_up,
        .batch = fork_batch,
    },
    {
        .name = "exec_test",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "exec_test",
        .aim_units = "Program Loads",
        .aim_factor = 5,
        .op = "fork, the child executes this static program as `true`, the parent waits for it",
        .grain = 1,
        .calls = {{"clone", 1}, {"set_robust_list", 1}, {"execve", 1}, {"exit_group", 1}, {"wait4", 1}},
        .set_up = exec_set_up,
        .batch = exec_batch,
    },
    {
        .name = "creat-clo",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "creat-clo",
        .aim_units = "File Creations and Closes",
        .aim_factor = 1000,
        .op = "creat and close one file in a private directory; one unlink for every 1000",
        .grain = 1000,
        .wants_directory = true,
        .calls = {{"creat", 1000}, {"close", 1000}, {"unlink", 1}},
        .set_up = creat_set_up,
        .batch = creat_batch,
    },
    {
        .name = "link_test",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "link_test",
        .aim_units = "Link/Unlink Pairs",
        .aim_factor = 63,
        .op = "remove and make one of 7 links to a file; for every 63, the file is created with its links and removed",
        .grain = 63,
        .wants_directory = true,
        .calls = {{"creat", 1}, {"close", 1}, {"link", 70}, {"unlink", 71}, {"newfstatat", 1}},
        .set_up = link_set_up,
        .batch = link_batch,
    },
    {
        .name = "dir_rtns_1",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "dir_rtns_1",
        .aim_units = "Directory Operations",
        .aim_factor = 10000,
        .op = "read one entry of a private directory with a fixed number of them, from the start again at its end",
        .grain = 10000,
        .wants_directory = true,
        .calls = {{"openat", 1}, {"getdents64", 199}, {"lseek", 99}, {"close", 1}},
        .params = {{.name = "entries", .fallback = 98, .least = 1, .most = 10000}},
        .set_up = dir_set_up,
        .batch = dir_batch,
    },
    {
        .name = "disk_src",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "disk_src",
        .aim_units = "Directory Searches",
        .aim_factor = 75,
        .op = "75 stand, as AIM9 credits them, for 57 stat of deep paths and 43 creat, close and unlink in deep folders",
        .grain = 75,
        .wants_directory = true,
        .calls = {{"newfstatat", 57}, {"creat", 43}, {"close", 43}, {"unlink", 43}},
        .params = {{.name = "depth", .fallback = 6, .least = 1, .most = 16}},
        .set_up = lookup_set_up,
        .batch = lookup_batch,
    },
    {
        .name = "signal_test",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "signal_test",
        .aim_units = "Signal Traps",
        .aim_factor = 1000,
        .op = "a process sends itself SIGUSR2; the handler installs itself again",
        .grain = 1000,
        .fault_rule = FAULTS_AT_MOST,
        .faults_per_op = 0.01,
        .calls = {{"kill", 1000}, {"rt_sigaction", 1000}, {"rt_sigreturn", 1000}},
        .set_up = signal_set_up,
        .batch = signal_batch,
    },
    {
        .name = "getppid",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "getppid, the cheapest call into the kernel that is always made",
        .grain = 1000,
        .fault_rule = FAULTS_AT_MOST,
        .faults_per_op = 0.01,
        .calls = {{"getppid", 1000}},
        .set_up = no_set_up,
        .batch = getppid_batch,
    },
    {
        .name = "getpriority",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "getpriority of the process itself",
        .grain = 1000,
        .fault_rule = FAULTS_AT_MOST,
        .faults_per_op = 0.01,
        .calls = {{"getpriority", 1000}},
        .set_up = no_set_up,
        .batch = getpriority_batch,
    },
    {
        .name = "stat",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "stat of one file in a private directory, `depth` names deep",
        .grain = 1,
        .wants_directory = true,
        .calls = {{"newfstatat", 1}},
        .params = {{.name = "depth", .fallback = 1, .least = 1, .most = 16}},
        .set_up = stat_set_up,
        .batch = stat_batch,
    },
    {
        .name = "open_close",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "open and close one file in a private directory, `depth` names deep",
        .grain = 1,
        .wants_directory = true,
        .calls = {{"openat", 1}, {"close", 1}},
        .params = {{.name = "depth", .fallback = 1, .least = 1, .most = 16}},
        .set_up = stat_set_up,
        .batch = open_batch,
    },
    {
        .name = "pipe_cpy",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "pipe_cpy",
        .aim_units = "Pipe Messages",
        .aim_factor = 100,
        .op = "one process writes a message of `size` bytes to a pipe and reads it",
        .grain = 1,
        .calls = {{"write", 1}, {"read", 1}},
        .params = {{.name = "size", .fallback = 64, .least = 1, .most = 4096}},
        .set_up = pipe_set_up,
        .batch = message_batch,
    },
    {
        .name = "stream_pipe",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "stream_pipe",
        .aim_units = "Stream Pipe Messages",
        .aim_factor = 100,
        .op = "one process writes a message of `size` bytes to a pair of stream sockets and reads it",
        .grain = 1,
        .calls = {{"write", 1}, {"read", 1}},
        .params = {{.name = "size", .fallback = 64, .least = 1, .most = 4096}},
        .set_up = stream_set_up,
        .batch = message_batch,
    },
    {
        .name = "dgram_pipe",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "dgram_pipe",
        .aim_units = "DataGram Pipe Messages",
        .aim_factor = 100,
        .op = "one process writes a message of `size` bytes to a pair of datagram sockets and reads it",
        .grain = 1,
        .calls = {{"write", 1}, {"read", 1}},
        .params = {{.name = "size", .fallback = 64, .least = 1, .most = 4096}},
        .set_up = dgram_set_up,
        .batch = message_batch,
    },
    {
        .name = "tcp_test",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "tcp_test",
        .aim_units = "TCP/IP Messages",
        .aim_factor = 90,
        .op = "one process writes a message of `size` bytes to a TCP connection over the loopback interface and reads it",
        .grain = 1,
        .calls = {{"write", 1}, {"read", 1}},
        .params = {{.name = "size", .fallback = 64, .least = 1, .most = 4096}},
        .set_up = tcp_set_up,
        .batch = message_batch,
    },
    {
        .name = "udp_test",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "udp_test",
        .aim_units = "UDP/IP DataGrams",
        .aim_factor = 100,
        .op = "one process writes a message of `size` bytes to UDP over the loopback interface and reads it",
        .grain = 1,
        .calls = {{"write", 1}, {"read", 1}},
        .params = {{.name = "size", .fallback = 64, .least = 1, .most = 4096}},
        .set_up = udp_set_up,
        .batch = message_batch,
    },
    {
        .name = "shared_memory",
        .unit = "ops/s",
        .higher_is_better = true,
        .aim = "shared_memory",
        .aim_units = "Shared Memory Operations",
        .aim_factor = 100,
        .op = "4 semop and 2 copies of 2 KiB in a shared segment; for every 100 a segment and 2 semaphores are made and removed",
        .grain = 100,
        .calls = {{"semget", 1}, {"shmget", 1}, {"shmat", 1}, {"shmctl", 1}, {"semtimedop", 400}, {"shmdt", 1}, {"semctl", 1}},
        .set_up = shared_set_up,
        .batch = shared_batch,
    },
    {
        .name = "fault_anon",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "write to a fresh page of anonymous memory; mmap and munmap for every 1024",
        .grain = 1024,
        .fault_rule = FAULTS_WITHIN_1_PERCENT,
        .faults_per_op = 1.0,
        .calls = {{"mmap", 1}, {"munmap", 1}},
        .set_up = no_set_up,
        .batch = fault_anon_batch,
    },
    {
        .name = "fault_file_private",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "write to a fresh page of a private mapping of a file in memory; mmap and munmap for every 1024",
        .grain = 1024,
        .fault_rule = FAULTS_WITHIN_1_PERCENT,
        .faults_per_op = 1.0,
        .calls = {{"mmap", 1}, {"munmap", 1}},
        .set_up = fault_file_set_up,
        .batch = fault_private_batch,
    },
    {
        .name = "fault_file_shared",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "write to a fresh page of a shared mapping of a file in memory; mmap and munmap for every 1024",
        .grain = 1024,
        .fault_rule = FAULTS_WITHIN_1_PERCENT,
        .faults_per_op = 1.0,
        .calls = {{"mmap", 1}, {"munmap", 1}},
        .set_up = fault_file_set_up,
        .batch = fault_shared_batch,
    },
    {
        .name = "fault_cow",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "a child writes to one page that it shares with its parent; one fork for every 256",
        .grain = 256,
        .calls = {{"clone", 1}, {"set_robust_list", 1}, {"exit_group", 1}, {"wait4", 1}},
        .set_up = fault_cow_set_up,
        .batch = fault_cow_batch,
    },
    {
        .name = "mmap_cycle",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "map one page, write to it, unmap it",
        .grain = 1000,
        .fault_rule = FAULTS_WITHIN_1_PERCENT,
        .faults_per_op = 1.0,
        .calls = {{"mmap", 1000}, {"munmap", 1000}},
        .set_up = no_set_up,
        .batch = mmap_batch,
    },
    {
        .name = "mprotect_split",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "make the middle page of three read-only, then writable again: one mapping becomes three, then one",
        .grain = 1,
        .calls = {{"mprotect", 2}},
        .set_up = split_set_up,
        .batch = split_batch,
    },
    {
        .name = "mremap_move",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "move `pages` touched pages to another place",
        .grain = 2,
        .calls = {{"mremap", 2}},
        .params = {{.name = "pages", .fallback = 16, .least = 1, .most = 1024}},
        .set_up = mremap_set_up,
        .batch = mremap_batch,
    },
    {
        .name = "ctl_alu",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "a control: one step of a random generator in registers; no kernel can change it",
        .grain = 1000000,
        .fault_rule = FAULTS_AT_MOST,
        .faults_per_op = 0.001,
        .set_up = no_set_up,
        .batch = alu_batch,
    },
    {
        .name = "ctl_memcpy",
        .unit = "ops/s",
        .higher_is_better = true,
        .op = "a control: copy 32 KiB in user space; no kernel can change it",
        .grain = 10000,
        .fault_rule = FAULTS_AT_MOST,
        .faults_per_op = 0.001,
        .set_up = no_set_up,
        .batch = memcpy_batch,
    },
};

const unsigned suite_test_count = sizeof suite_tests / sizeof suite_tests[0];

const struct test *find_test(const char *name)
{
    for (unsigned i = 0; i < suite_test_count; i++)
        if (strcmp(suite_tests[i].name, name) == 0)
            return &suite_tests[i];
    return NULL;
}

static const char *direction(const struct test *test)
{
    return test->higher_is_better ? "higher" : "lower";
}

static void print_calls_json(const struct test *test)
{
    printf(",\"calls_per_grain\":{");
    for (unsigned i = 0; i < MOST_CALLS && test->calls[i].name != NULL; i++)
        printf("%s\"%s\":%llu", i ? "," : "", test->calls[i].name, (unsigned long long)test->calls[i].per_grain);
    printf("}");
}

static void print_params_json(const struct test *test)
{
    printf(",\"params\":[");
    for (unsigned i = 0; i < MOST_PARAMS && test->params[i].name != NULL; i++) {
        const struct param *param = &test->params[i];
        printf("%s{\"name\":\"%s\",", i ? "," : "", param->name);
        if (param->words == NULL) {
            printf("\"default\":%llu,\"least\":%llu,\"most\":%llu}", (unsigned long long)param->fallback,
                   (unsigned long long)param->least, (unsigned long long)param->most);
            continue;
        }
        printf("\"default\":\"%s\",\"words\":[", param->words[param->fallback]);
        for (uint64_t word = 0; word <= param->most; word++)
            printf("%s\"%s\"", word ? "," : "", param->words[word]);
        printf("]}");
    }
    printf("]");
}

static void print_test_json(const struct test *test)
{
    printf("{\"name\":");
    print_json_text(test->name);
    printf(",\"unit\":");
    print_json_text(test->unit);
    printf(",\"better\":\"%s\",\"aim\":", direction(test));
    print_json_text(test->aim != NULL ? test->aim : "");
    printf(",\"aim_units\":");
    print_json_text(test->aim_units != NULL ? test->aim_units : "");
    printf(",\"aim_factor\":%llu,\"op\":", (unsigned long long)test->aim_factor);
    print_json_text(test->op);
    printf(",\"grain\":%llu,\"faults_per_op\":", (unsigned long long)test->grain);
    if (test->fault_rule == FAULTS_WITHIN_1_PERCENT)
        printf("%.6f", test->faults_per_op);
    else
        printf(test->fault_rule == FAULTS_AT_MOST ? "0" : "null");
    print_calls_json(test);
    print_params_json(test);
    printf("}");
}

void print_tests(bool json)
{
    if (json)
        printf("{\"v\":1,\"type\":\"tests\",\"suite\":\"%s\",\"digest\":\"%s\",\"tests\":[", SUITE_VERSION, SUITE_DIGEST);
    for (unsigned i = 0; i < suite_test_count; i++) {
        const struct test *test = &suite_tests[i];
        if (json) {
            printf(i ? "," : "");
            print_test_json(test);
        } else {
            printf("%-12s %s, %s is better%s%s\n", test->name, test->unit, direction(test),
                   test->aim != NULL ? ", as AIM9's " : "", test->aim != NULL ? test->aim : "");
            printf("%-12s %s\n", "", test->op);
        }
    }
    if (json)
        printf("]}\n");
}
