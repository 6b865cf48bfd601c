/*
 * One page-table layout for every run, with address randomisation left on (memory.c says why it is).
 *
 * A fork copies a page table for every 2 MiB that hold a page of ours. Chance puts the used part of the stack or of
 * the heap across such a boundary in a few runs of a hundred: fork_test was 3 % and exec_test 1.5 % slower in those
 * (6.1, instruction clock). So a program that finds itself laid out that way starts over, and is laid out anew.
 */
#include "suite.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

enum {
    PAGE_TABLE_SPAN_BYTES = 2 * 1024 * 1024,
    STACK_BYTES = 64 * 1024,  /* more than we ever use below main() */
    HEAP_BYTES = 256 * 1024,  /* a libc takes 132 KiB at first */
    MOST_STARTS = 30,         /* one in four starts over; without randomisation all do, in vain: 10 ms */
};

static const char starts_variable[] = "BISECTOR_SUITE_STARTS";

static bool in_one_table(uintptr_t first, uintptr_t last)
{
    return first / PAGE_TABLE_SPAN_BYTES == last / PAGE_TABLE_SPAN_BYTES;
}

static bool is_laid_out_as_usual(void)
{
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    uintptr_t stack_top = getauxval(AT_EXECFN); /* the last string on it */
    uintptr_t heap = (uintptr_t)sbrk(0);
    uintptr_t statics = (uintptr_t)starts_variable;
    return in_one_table(stack - STACK_BYTES, stack_top) && in_one_table(heap - HEAP_BYTES, heap + HEAP_BYTES)
           && !in_one_table(statics, heap);
}

/* Returns if the layout is as usual, or cannot be had: then a run may be one of those few. */
void settle_layout(char **argv)
{
    const char *text = getenv(starts_variable);
    int starts = text != NULL ? atoi(text) : 0;
    char next[16];
    if (is_laid_out_as_usual() || starts < 0 || starts >= MOST_STARTS)
        return;
    snprintf(next, sizeof next, "%d", starts + 1);
    if (setenv(starts_variable, next, 1) == 0)
        execv("/proc/self/exe", argv);
}
