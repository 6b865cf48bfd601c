/*
 * page_test and brk_test: AIM9's operation, with the shrink done right.
 *
 * One AIM9 call is: break up by 1 MiB; then ROUNDS times { break down by 64 KiB; 16 times { break up by 4 KiB;
 * page_test only: write 1 byte in every 128 of it } }; break back. 17 operations are credited for a round, so the
 * two breaks around the rounds are not counted. On 64-bit systems AIM9 itself passes the negative step as a 32-bit
 * number without a prototype, which grows the break by nearly 4 GiB instead; here the step is an intptr_t.
 *
 * Own choice: the break starts 64 KiB above a multiple of 2 MiB. The window that is freed and touched then always
 * lies in one page table that always stays; with a break wherever address randomisation put it, in 3 % of the runs
 * the window would straddle two page tables and free and allocate one of them in every round.
 *
 * Address randomisation stays on. Without it the heap adjoins the program's zeroed data, and a 6.1 kernel took
 * another way through brk: 70 200 instead of 91 000 brk_test operations per second (measured with an instruction
 * clock), which is not what anybody's programs see.
 */
#include "suite.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ROOM_BYTES = 1024 * 1024,
    PAGES_PER_ROUND = 16,
    WINDOW_BYTES = PAGES_PER_ROUND * PAGE_BYTES,
    STRIDE_BYTES = 128,
    OPS_PER_ROUND = PAGES_PER_ROUND + 1,
    PAGE_TABLE_SPAN_BYTES = 2 * 1024 * 1024,
    PAGE_TEST_ROUNDS = 100,
    BRK_TEST_ROUNDS = 1000,
    VARIANT_WIDE = 1,
};

/* AIM9's own step on 64-bit systems: 64 KiB down, passed as an unsigned 32-bit number. */
static const intptr_t wide_step = (intptr_t)UINT32_C(0xffff0000);

/* The system call itself: libc's sbrk keeps a copy of the break, and what it does differs between libcs. */
static unsigned char *set_break(unsigned char *to)
{
    return (unsigned char *)syscall(SYS_brk, to); /* the break in force afterwards, moved or not */
}

static unsigned char *move_break(unsigned char *from, intptr_t step)
{
    unsigned char *to = from + step;
    unsigned char *got = set_break(to);
    if (got != to)
        give_up(EX_CHECK, "brk: moving the break by %jd bytes from %p left it at %p", (intmax_t)step, (void *)from,
                (void *)got);
    return to;
}

/* Proves that the environment grants the room (RLIMIT_DATA, RLIMIT_AS, overcommit) before anything is measured. */
void memory_set_up(struct work *work)
{
    uintptr_t start = (uintptr_t)set_break(NULL);
    uintptr_t above = (start + PAGE_TABLE_SPAN_BYTES - 1) / PAGE_TABLE_SPAN_BYTES * PAGE_TABLE_SPAN_BYTES;
    work->base = (unsigned char *)(above + WINDOW_BYTES);
    if (set_break(work->base + ROOM_BYTES) != work->base + ROOM_BYTES)
        give_up(EX_REFUSED, "the break cannot be moved up by %ju bytes: is RLIMIT_DATA or RLIMIT_AS set?",
                (uintmax_t)((uintptr_t)work->base + ROOM_BYTES - start));
    if (set_break(work->base) != work->base)
        give_up(EX_REFUSED, "the break cannot be moved back down");
}

void page_set_up(struct work *work)
{
    memory_set_up(work);
    if (work->values[0] != VARIANT_WIDE)
        return;
    if (set_break(work->base + wide_step) != work->base + wide_step)
        give_up(EX_REFUSED, "variant wide: the break cannot be moved up by 4 GiB: less memory than that, without overcommit?");
    if (set_break(work->base) != work->base)
        give_up(EX_REFUSED, "the break cannot be moved back down");
}

static void touch_page(unsigned char *page, unsigned char mark)
{
    volatile unsigned char *bytes = page;
    for (unsigned at = 0; at < PAGE_BYTES; at += STRIDE_BYTES)
        bytes[at] = mark;
}

/* 512 reads per 1700 operations, well under a thousandth of the time: the bytes are where they were written. */
static void check_window(const unsigned char *end, unsigned char mark)
{
    const volatile unsigned char *bytes = end - WINDOW_BYTES;
    for (unsigned at = 0; at < WINDOW_BYTES; at += STRIDE_BYTES)
        if (bytes[at] != mark)
            give_up(EX_CHECK, "memory at %p holds %u where %u was written", (const void *)(end - WINDOW_BYTES + at),
                    bytes[at], mark);
}

/* As many bytes down as up: a shrink that grows, as AIM9's does, would show here and nowhere else. */
static void end_call(const struct work *work, unsigned char *end, intptr_t grown)
{
    if (move_break(end, -(intptr_t)ROOM_BYTES - grown) != work->base)
        give_up(EX_CHECK, "brk: the break did not come back to where it was");
}

void page_batch(struct work *work, uint64_t ops)
{
    bool wide = work->values[0] == VARIANT_WIDE;
    intptr_t shrink = wide ? wide_step : -(intptr_t)WINDOW_BYTES;
    intptr_t grown = wide ? PAGE_TEST_ROUNDS * (wide_step + WINDOW_BYTES) : 0;
    for (uint64_t calls = ops / (PAGE_TEST_ROUNDS * OPS_PER_ROUND); calls > 0; calls--) {
        unsigned char mark = (unsigned char)(calls | 1);
        unsigned char *end = move_break(work->base, ROOM_BYTES);
        for (unsigned round = 0; round < PAGE_TEST_ROUNDS; round++) {
            end = move_break(end, shrink);
            for (unsigned page = 0; page < PAGES_PER_ROUND; page++) {
                unsigned char *fresh = end;
                end = move_break(end, PAGE_BYTES);
                touch_page(fresh, mark);
            }
        }
        check_window(end, mark);
        end_call(work, end, grown);
    }
}

void brk_batch(struct work *work, uint64_t ops)
{
    for (uint64_t calls = ops / (BRK_TEST_ROUNDS * OPS_PER_ROUND); calls > 0; calls--) {
        unsigned char *end = move_break(work->base, ROOM_BYTES);
        for (unsigned round = 0; round < BRK_TEST_ROUNDS; round++) {
            end = move_break(end, -(intptr_t)WINDOW_BYTES);
            for (unsigned page = 0; page < PAGES_PER_ROUND; page++)
                end = move_break(end, PAGE_BYTES);
        }
        end_call(work, end, 0);
    }
}
