/* First touches of pages: anonymous, of a file in memory (private and shared), and after a fork. */
#include "suite.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES_PER_MAPPING = 1024, MAPPING_BYTES = PAGES_PER_MAPPING * PAGE_BYTES };
enum { COW_PAGES = 256, FORKS_PER_GRAIN = 4, BARE_GRAINS = 4 };

static int memory_file = -1;
static unsigned char *parents_pages;

static unsigned char *map(int flags, int file, int status)
{
    void *mapping = mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE, flags, file, 0);
    if (mapping == MAP_FAILED)
        give_up(status, "mmap: %s", strerror(errno));
    return mapping;
}

static void unmap(void *mapping, int status)
{
    if (munmap(mapping, MAPPING_BYTES) < 0)
        give_up(status, "munmap: %s", strerror(errno));
}

/* Every page must hold what it did when it was new, and then takes a mark. */
static void touch_pages(unsigned char *mapping, unsigned pages, unsigned char expected, unsigned char mark)
{
    volatile unsigned char *bytes = mapping;
    for (unsigned page = 0; page < pages; page++)
        bytes[page * PAGE_BYTES] = mark;
    for (unsigned page = 0; page < pages; page++)
        if (bytes[page * PAGE_BYTES] != mark || bytes[page * PAGE_BYTES + 1] != expected)
            give_up(EX_CHECK, "page %u holds something else than was written", page);
}

static void fault_batch(int flags, uint64_t ops)
{
    for (uint64_t mappings = ops / PAGES_PER_MAPPING; mappings > 0; mappings--) {
        unsigned char *mapping = map(flags, memory_file, EX_CHECK);
        touch_pages(mapping, PAGES_PER_MAPPING, memory_file < 0 ? 0 : 1, (unsigned char)(mappings | 2));
        unmap(mapping, EX_CHECK);
    }
}

/* What a limit forbids shows here: it is no kernel's doing. */
void fault_anon_set_up(struct work *work)
{
    (void)work;
    unmap(map(MAP_PRIVATE | MAP_ANONYMOUS, -1, EX_REFUSED), EX_REFUSED);
}

void fault_anon_batch(struct work *work, uint64_t ops)
{
    (void)work;
    fault_batch(MAP_PRIVATE | MAP_ANONYMOUS, ops);
}

void fault_file_set_up(struct work *work)
{
    (void)work;
    memory_file = memfd_create("bisector", 0);
    if (memory_file < 0)
        give_up(errno == ENOSYS ? EX_UNSUPPORTED : EX_REFUSED, "memfd_create: %s", strerror(errno));
    if (ftruncate(memory_file, MAPPING_BYTES) < 0)
        give_up(EX_REFUSED, "ftruncate: %s", strerror(errno));
    unsigned char *mapping = map(MAP_SHARED, memory_file, EX_REFUSED);
    memset(mapping, 1, MAPPING_BYTES); /* its pages are there: a fault finds them and allocates none of them */
    unmap(mapping, EX_REFUSED);
}

void fault_private_set_up(struct work *work)
{
    fault_file_set_up(work);
    unmap(map(MAP_PRIVATE, memory_file, EX_REFUSED), EX_REFUSED);
}

void fault_private_batch(struct work *work, uint64_t ops)
{
    (void)work;
    fault_batch(MAP_PRIVATE, ops);
}

void fault_shared_batch(struct work *work, uint64_t ops)
{
    (void)work;
    fault_batch(MAP_SHARED, ops);
}

/* One child, which writes to `pages` of the pages that it shares with us. */
static void fork_and_touch(unsigned pages, unsigned char mark)
{
    int status;
    pid_t child = fork();
    if (child < 0)
        give_up(EX_CHECK, "fork: %s", strerror(errno));
    if (child == 0) {
        touch_pages(parents_pages, pages, 1, mark);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child)
        give_up(EX_CHECK, "waitpid: %s", strerror(errno));
    if (WIFSIGNALED(status))
        give_up(EX_CHECK, "a child of fault_cow was killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        give_up(EX_CHECK, "a child of fault_cow ended with status %d", WEXITSTATUS(status));
}

/* Ours and of the children that were waited for. */
static long minor_faults(void)
{
    struct rusage self, children;
    if (getrusage(RUSAGE_SELF, &self) < 0 || getrusage(RUSAGE_CHILDREN, &children) < 0)
        give_up(EX_UNSUPPORTED, "getrusage: %s", strerror(errno));
    return self.ru_minflt + children.ru_minflt;
}

/* A fork has faults of its own, as many as the kernel and the layout make of it: counted here, without a write. */
void fault_cow_set_up(struct work *work)
{
    parents_pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, EX_REFUSED);
    memset(parents_pages, 1, COW_PAGES * PAGE_BYTES);
    fork_and_touch(COW_PAGES, 2);
    long before = minor_faults();
    for (unsigned forks = 0; forks < FORKS_PER_GRAIN * BARE_GRAINS; forks++)
        fork_and_touch(0, 2);
    work->faults_beside = (double)(minor_faults() - before) / BARE_GRAINS;
}

/* The child writes to the pages it shares with us; ours stay as they were, or it was no copy. */
void fault_cow_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t forks = ops / COW_PAGES; forks > 0; forks--)
        fork_and_touch(COW_PAGES, (unsigned char)(forks | 2));
    for (unsigned page = 0; page < COW_PAGES; page++)
        if (parents_pages[page * PAGE_BYTES] != 1)
            give_up(EX_CHECK, "a child wrote to its parent's page %u", page);
}
