/*
 * The tests in order, by name, and as `--list` prints them; the controller reads names, units and directions there.
 * The table itself is in table_aim.c and table_own.c.
 */
#include "suite.h"

#include <string.h>

static const struct test *const tables[] = {aim_tests, own_tests};

/* In the order of the list; NULL beyond its end. */
static const struct test *test_at(unsigned index)
{
    for (unsigned table = 0; table < sizeof tables / sizeof tables[0]; table++)
        for (const struct test *test = tables[table]; test->name != NULL; test++)
            if (index-- == 0)
                return test;
    return NULL;
}

const struct test *find_test(const char *name)
{
    const struct test *test;
    for (unsigned i = 0; (test = test_at(i)) != NULL; i++)
        if (strcmp(test->name, name) == 0)
            return test;
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

static void print_phases_json(const struct test *test)
{
    printf(",\"phases\":[");
    for (unsigned i = 0; i < MOST_PHASES && test->phases[i] != NULL; i++)
        printf("%s\"%s\"", i ? "," : "", test->phases[i]);
    printf("]");
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
    print_phases_json(test);
    print_params_json(test);
    printf("}");
}

void print_tests(bool json)
{
    if (json) {
        printf("{\"v\":1,\"type\":\"tests\",\"suite\":\"%s\",\"digest\":\"%s\"", SUITE_VERSION, SUITE_DIGEST);
        printf(",\"counters\":[");
        for (unsigned i = 0; i < COUNTERS; i++)
            printf("%s\"%s\"", i ? "," : "", counter_name(i));
        printf("],\"tests\":[");
    }
    const struct test *test;
    for (unsigned i = 0; (test = test_at(i)) != NULL; i++) {
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
