/*
 * vma_mix: mmap, munmap, mprotect, mremap and writes, mixed by a seed, in a window of 4 MiB.
 *
 * The sequence is chosen once, beside a model of what the window must hold after it; every STEPS operations empty the
 * window and play it again, so the same seed makes the same calls with the same arguments under every kernel. What
 * the last batch left is compared with the model: each page's protection as /proc/self/maps tells it, and its content.
 *
 * Into how many mappings a kernel divides equal neighbours is its own affair (whether two anonymous ones may be merged
 * depends on their histories, and on the kernel's version). The model knows the fewest and the most there can be, and
 * that the same sequence must end with as many as before; and it never asks mremap for pages that a boundary may part,
 * which kernels before 6.17 refuse.
 */
#include "suite.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    WINDOW_PAGES = 1024,
    WINDOW_BYTES = WINDOW_PAGES * PAGE_BYTES,
    PAGE_TABLE_SPAN_BYTES = 2 * 1024 * 1024,
    STEPS = 1000,
    NOT_MAPPED = -1,
    SHARED = 1 << 8, /* beside the protection; never in the model */
};

enum kind { MAP, UNMAP, PROTECT, MOVE, WRITE };

struct step {
    enum kind kind;
    int protection;
    unsigned page, pages, to;
    unsigned char mark;
};

/* `parted`: a boundary of mappings may lie before this page. The last element is the end of the window. */
struct page {
    int protection;
    unsigned char content;
    bool parted;
};

static struct step steps[STEPS];
static struct page model[WINDOW_PAGES + 1];
static unsigned char *window;
static unsigned usual_mappings;
static uint64_t random_state;

static unsigned below(unsigned limit)
{
    return random_below(&random_state, limit);
}

/* The first page from a random one on, around the window, that is mapped (and writable); WINDOW_PAGES if none is. */
static unsigned some_page(int protection)
{
    unsigned from = below(WINDOW_PAGES);
    for (unsigned i = 0; i < WINDOW_PAGES; i++) {
        const struct page *page = &model[(from + i) % WINDOW_PAGES];
        if (page->protection != NOT_MAPPED && (page->protection & protection) == protection)
            return (from + i) % WINDOW_PAGES;
    }
    return WINDOW_PAGES;
}

/* How many pages from `page` on are mapped, at most `most`; `whole`: and certainly by one mapping. */
static unsigned mapped_from(unsigned page, unsigned most, bool whole)
{
    unsigned pages = 1;
    while (pages < most && page + pages < WINDOW_PAGES && model[page + pages].protection != NOT_MAPPED
           && !(whole && model[page + pages].parted))
        pages++;
    return pages;
}

/* Somewhere that does not overlap the pages to be moved; false if the random place does and there is no other. */
static bool choose_target(struct step *step)
{
    step->to = below(WINDOW_PAGES - step->pages + 1);
    if (step->to + step->pages <= step->page || step->page + step->pages <= step->to)
        return true;
    step->to = step->page + step->pages;
    return step->to + step->pages <= WINDOW_PAGES;
}

static struct step choose(unsigned longest)
{
    static const enum kind kinds[] = {MAP,     MAP,     MAP,     MAP,  MAP,  MAP,   UNMAP, UNMAP, UNMAP, PROTECT,
                                      PROTECT, PROTECT, PROTECT, MOVE, MOVE, WRITE, WRITE, WRITE, WRITE, WRITE};
    static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE};
    struct step step = {.kind = kinds[below(sizeof kinds / sizeof kinds[0])], .pages = 1 + below(longest)};
    step.protection = protections[below(4)];
    step.mark = (unsigned char)(1 + below(255));
    if (step.kind == PROTECT || step.kind == MOVE || step.kind == WRITE) {
        step.page = some_page(step.kind == WRITE ? PROT_READ | PROT_WRITE : PROT_NONE);
        if (step.page < WINDOW_PAGES) {
            step.pages = step.kind == WRITE ? 1 : mapped_from(step.page, step.pages, step.kind == MOVE);
            if (step.kind != MOVE || choose_target(&step))
                return step;
        }
        step.kind = MAP; /* there is nothing to do the other to, or no room */
    }
    step.page = below(WINDOW_PAGES - step.pages + 1);
    return step;
}

static void set_pages(unsigned page, unsigned pages, int protection)
{
    for (unsigned i = 0; i < pages; i++)
        model[page + i] = (struct page){.protection = protection, .parted = i == 0};
    model[page + pages].parted = true;
}

static void follow(const struct step *step)
{
    struct page moved[WINDOW_PAGES];
    switch (step->kind) {
    case MAP:
        set_pages(step->page, step->pages, step->protection);
        break;
    case UNMAP:
        set_pages(step->page, step->pages, NOT_MAPPED);
        break;
    case PROTECT:
        for (unsigned i = 0; i < step->pages; i++)
            model[step->page + i].protection = step->protection;
        model[step->page].parted = model[step->page + step->pages].parted = true;
        break;
    case MOVE:
        memcpy(moved, model + step->page, step->pages * sizeof moved[0]);
        set_pages(step->page, step->pages, NOT_MAPPED);
        memcpy(model + step->to, moved, step->pages * sizeof moved[0]);
        model[step->to].parted = model[step->to + step->pages].parted = true;
        break;
    case WRITE:
        model[step->page].content = step->mark;
        break;
    }
}

static void give_up_at(const struct step *step, int status, const char *call)
{
    give_up(status, "step %td of the sequence: %s: %s", step - steps, call, strerror(errno));
}

static void play(int status)
{
    if (munmap(window, WINDOW_BYTES) < 0)
        give_up(status, "munmap: %s", strerror(errno));
    for (const struct step *step = steps; step < steps + STEPS; step++) {
        unsigned char *at = window + step->page * PAGE_BYTES, *to = window + step->to * PAGE_BYTES;
        size_t bytes = step->pages * PAGE_BYTES;
        switch (step->kind) {
        case MAP:
            if (mmap(at, bytes, step->protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
                give_up_at(step, status, "mmap");
            break;
        case UNMAP:
            if (munmap(at, bytes) < 0)
                give_up_at(step, status, "munmap");
            break;
        case PROTECT:
            if (mprotect(at, bytes, step->protection) < 0)
                give_up_at(step, status, "mprotect");
            break;
        case MOVE:
            if (mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
                give_up_at(step, status, "mremap");
            break;
        case WRITE:
            *(volatile unsigned char *)at = step->mark;
            break;
        }
    }
}

/* The protection of each page of the window, and how many mappings there are in it. */
static unsigned read_map(int *protections)
{
    char line[PATH_BYTES];
    unsigned mappings = 0;
    for (unsigned page = 0; page < WINDOW_PAGES; page++)
        protections[page] = NOT_MAPPED;
    FILE *file = fopen("/proc/self/maps", "r");
    if (file == NULL)
        give_up(EX_REFUSED, "/proc/self/maps: %s", strerror(errno));
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long from, to, first = (unsigned long)window;
        char may[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, may) != 3)
            continue; /* the rest of a line that is longer than ours */
        if (to <= first || from >= first + WINDOW_BYTES)
            continue;
        mappings++;
        for (unsigned page = 0; page < WINDOW_PAGES; page++)
            if (first + page * PAGE_BYTES >= from && first + page * PAGE_BYTES < to)
                protections[page] = (may[0] == 'r' ? PROT_READ : 0) | (may[1] == 'w' ? PROT_WRITE : 0)
                                    | (may[2] == 'x' ? PROT_EXEC : 0) | (may[3] == 'p' ? 0 : SHARED);
    }
    fclose(file);
    return mappings;
}

static void check_count(unsigned mappings)
{
    unsigned fewest = 0, most = 0;
    for (unsigned page = 0; page < WINDOW_PAGES; page++) {
        if (model[page].protection == NOT_MAPPED)
            continue;
        bool first = page == 0 || model[page - 1].protection != model[page].protection;
        fewest += first;
        most += first || model[page].parted;
    }
    if (mappings < fewest || mappings > most)
        give_up(EX_CHECK, "%u mappings, expected %u to %u", mappings, fewest, most);
}

static unsigned check_map(void)
{
    static int seen[WINDOW_PAGES];
    unsigned mappings = read_map(seen);
    for (unsigned page = 0; page < WINDOW_PAGES; page++)
        if (seen[page] != model[page].protection)
            give_up(EX_CHECK, "page %u of the window has protection %d, expected %d (-1: it is not mapped)", page,
                    seen[page], model[page].protection);
    check_count(mappings);
    return mappings;
}

void mix_set_up(struct work *work)
{
    size_t room = WINDOW_BYTES + PAGE_TABLE_SPAN_BYTES + 2 * PAGE_BYTES;
    unsigned char *start = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        give_up(EX_REFUSED, "mmap: %s", strerror(errno));
    /* Two whole page tables, wherever chance put us; nothing of the window's edges adjoins anything but this room. */
    uintptr_t above = (uintptr_t)start + PAGE_BYTES + PAGE_TABLE_SPAN_BYTES - 1;
    window = (unsigned char *)(above / PAGE_TABLE_SPAN_BYTES * PAGE_TABLE_SPAN_BYTES);
    random_state = work->values[0];
    set_pages(0, WINDOW_PAGES, NOT_MAPPED);
    for (unsigned i = 0; i < STEPS; i++) {
        steps[i] = choose((unsigned)work->values[1]);
        follow(&steps[i]);
    }
    play(EX_REFUSED);
    usual_mappings = check_map();
}

void mix_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t sequences = ops / STEPS; sequences > 0; sequences--)
        play(EX_CHECK);
}

void mix_prove(struct work *work)
{
    (void)work;
    unsigned mappings = check_map();
    if (mappings != usual_mappings)
        give_up(EX_CHECK, "%u mappings, and %u after the same sequence before", mappings, usual_mappings);
    for (unsigned page = 0; page < WINDOW_PAGES; page++) {
        const volatile unsigned char *at = window + page * PAGE_BYTES;
        if (model[page].protection == NOT_MAPPED)
            continue;
        if (mprotect((void *)at, PAGE_BYTES, PROT_READ) < 0)
            give_up(EX_CHECK, "mprotect: %s", strerror(errno));
        if (*at != model[page].content)
            give_up(EX_CHECK, "page %u of the window holds %u, expected %u", page, *at, model[page].content);
    }
}
