/* mmap_cycle, mprotect_split, mremap_move: the address space changed and changed back. And the controls. */
#include "suite.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { SPLIT_PAGES = 3, MOST_MOVED_PAGES = 1024, COPY_BYTES = 32 * 1024 };

static unsigned char *room;
static unsigned char copy_from[COPY_BYTES], copy_to[COPY_BYTES];

static unsigned char *map(size_t bytes, int protection, int status)
{
    void *mapping = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        give_up(status, "mmap: %s", strerror(errno));
    return mapping;
}

void mmap_set_up(struct work *work)
{
    (void)work;
    if (munmap(map(PAGE_BYTES, PROT_READ | PROT_WRITE, EX_REFUSED), PAGE_BYTES) < 0)
        give_up(EX_REFUSED, "munmap: %s", strerror(errno));
}

void mmap_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t op = 0; op < ops; op++) {
        volatile unsigned char *page = map(PAGE_BYTES, PROT_READ | PROT_WRITE, EX_CHECK);
        *page = 1;
        if (*page != 1 || page[1] != 0)
            give_up(EX_CHECK, "a new page is not empty, or does not hold what was written");
        if (munmap((void *)page, PAGE_BYTES) < 0)
            give_up(EX_CHECK, "munmap: %s", strerror(errno));
    }
}

void split_set_up(struct work *work)
{
    (void)work;
    room = map(SPLIT_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, EX_REFUSED);
    memset(room, 1, SPLIT_PAGES * PAGE_BYTES);
}

static void protect(int protection)
{
    if (mprotect(room + PAGE_BYTES, PAGE_BYTES, protection) < 0)
        give_up(EX_CHECK, "mprotect: %s", strerror(errno));
}

void split_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t op = 0; op < ops; op++) {
        protect(PROT_READ);
        protect(PROT_READ | PROT_WRITE);
    }
}

void mremap_set_up(struct work *work)
{
    size_t bytes = work->values[0] * PAGE_BYTES;
    room = map(2 * bytes, PROT_NONE, EX_REFUSED);
    if (mmap(room, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != room)
        give_up(EX_REFUSED, "mmap: %s", strerror(errno));
    memset(room, 1, bytes);
}

/* Between two places; after an odd number of moves the pages lie in the other one, so each batch moves them back. */
void mremap_batch(struct work *work, uint64_t ops)
{
    size_t bytes = work->values[0] * PAGE_BYTES;
    for (uint64_t op = 0; op < ops; op++) {
        unsigned char *from = room + (op % 2 ? bytes : 0), *to = room + (op % 2 ? 0 : bytes);
        if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
            give_up(EX_CHECK, "mremap: %s", strerror(errno));
        if (*(volatile unsigned char *)(to + bytes - 1) != 1)
            give_up(EX_CHECK, "the pages did not move");
    }
}

/* A xorshift: the next number needs the one before, and the last one tells that all were made. */
void alu_batch(struct work *work, uint64_t ops)
{
    uint64_t state = 1;
    (void)work;
    for (uint64_t op = 0; op < ops; op++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        __asm__ volatile("" : "+r"(state));
    }
    if (state == 0)
        give_up(EX_CHECK, "the generator stopped");
}

void memcpy_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t op = 0; op < ops; op++) {
        copy_from[op % COPY_BYTES] = (unsigned char)op;
        memcpy(copy_to, copy_from, COPY_BYTES);
        __asm__ volatile("" ::: "memory");
    }
    if (memcmp(copy_to, copy_from, COPY_BYTES) != 0)
        give_up(EX_CHECK, "the copy differs");
}
