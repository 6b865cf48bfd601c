/* The one way to give up: with the reason, as a line of type "error" or handed to whoever measures. */
#include "suite.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static const char *test_at_work;
static void (*handed_to)(int status, const char *reason);

void name_test_at_work(const char *name)
{
    test_at_work = name;
}

void hand_failures_to(void (*taker)(int status, const char *reason))
{
    handed_to = taker;
}

_Noreturn void give_up(int status, const char *format, ...)
{
    char reason[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (handed_to != NULL) {
        handed_to(status, reason);
        _exit(status);
    }
    fprintf(stderr, "bisector-suite: %s%s%s\n", test_at_work ? test_at_work : "", test_at_work ? ": " : "", reason);
    if (status != EX_USAGE) {
        printf("{\"v\":1,\"type\":\"error\",\"exit\":%d,\"test\":", status);
        print_json_text(test_at_work ? test_at_work : "");
        printf(",\"reason\":");
        print_json_text(reason);
        printf("}\n");
        fflush(stdout);
    }
    exit(status);
}
