/* The one table of tests. `--list` prints it; the controller reads names, units and directions from there. */
#include "suite.h"

#include <string.h>

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
        .set_up = memory_set_up,
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
        .set_up = creat_set_up,
        .batch = creat_batch,
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

static void print_test_json(const struct test *test)
{
    printf("{\"name\":");
    print_json_text(test->name);
    printf(",\"unit\":");
    print_json_text(test->unit);
    printf(",\"better\":\"%s\",\"aim\":", direction(test));
    print_json_text(test->aim);
    printf(",\"aim_units\":");
    print_json_text(test->aim_units);
    printf(",\"aim_factor\":%llu,\"op\":", (unsigned long long)test->aim_factor);
    print_json_text(test->op);
    printf(",\"grain\":%llu,\"faults_per_op\":", (unsigned long long)test->grain);
    if (test->fault_rule == FAULTS_WITHIN_1_PERCENT)
        printf("%.6f}", test->faults_per_op);
    else
        printf(test->fault_rule == FAULTS_AT_MOST ? "0}" : "null}");
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
            printf("%-10s %s, %s is better, as AIM9's %s\n", test->name, test->unit, direction(test), test->aim);
            printf("%-10s %s\n", "", test->op);
        }
    }
    if (json)
        printf("]}\n");
}
