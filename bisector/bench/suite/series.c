/*
 * patch_series: 99 patches pushed onto a tree of files and popped off it, by shell scripts that start a small program
 * for each step. Nearly all of it is fork, exec and exit, as with the scripts that kernel patches were kept with in
 * 2002 (push and pop were timed apart then as well).
 *
 * Tree and patches follow from a seed. While they are made, the tree after all patches is made in memory, by other
 * means than the patches; after each push and each pop the files must have the content that was worked out so.
 * Looking at them is not timed.
 *
 * The small program is this one (patch.c).
 */
#include "suite.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATCHES = 99,
    FOLDERS = 8,
    FILES = 32,
    FIRST_LINES = 120,
    MOST_LINES = 1024,
    CONTEXT_LINES = 3,
    MOST_FILES_OF_A_PATCH = 2,
    PUSH = 0,
    POP = 1,
};

/* A line is known by its number: no two are alike. */
struct file {
    unsigned lines;
    unsigned numbers[MOST_LINES];
};

struct tree {
    struct file files[FILES];
    unsigned last_number;
};

static const char push_script[] = "while read -r name; do\n"
                                  "    for file in $(\"$2\" patch files patches/$name); do\n"
                                  "        \"$2\" patch copy $file $file~$name || exit 125\n"
                                  "    done\n"
                                  "    \"$2\" patch apply patches/$name || exit 125\n"
                                  "    echo $name >>applied || exit 125\n"
                                  "done <series\n"
                                  "exit \"$1\"\n";

static const char pop_script[] = "while name=$(\"$2\" patch take applied) || exit 125; [ -n \"$name\" ]; do\n"
                                 "    \"$2\" patch reverse patches/$name || exit 125\n"
                                 "    for file in $(\"$2\" patch files patches/$name); do\n"
                                 "        \"$2\" patch restored $file $file~$name || exit 125\n"
                                 "    done\n"
                                 "done\n"
                                 "exit \"$1\"\n";

static struct script push, pop;
static uint64_t hash_before, hash_pushed;
static uint64_t random_state;

static void name_file(unsigned file, char *name)
{
    sprintf(name, "d%u/f%u", file % FOLDERS, file);
}

static uint64_t hash_more(uint64_t hash, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

static const uint64_t no_hash = UINT64_C(0xcbf29ce484222325);

static int print_line(char *text, unsigned number)
{
    return sprintf(text, "line %010u of the tree\n", number * 2654435761U); /* distinct: the factor is odd */
}

static uint64_t hash_of_tree(const struct tree *tree)
{
    uint64_t hash = no_hash;
    char text[64];
    for (unsigned file = 0; file < FILES; file++)
        for (unsigned line = 0; line < tree->files[file].lines; line++)
            hash = hash_more(hash, text, (size_t)print_line(text, tree->files[file].numbers[line]));
    return hash;
}

/* Of the files as they are on the disk. */
static uint64_t hash_of_files(void)
{
    uint64_t hash = no_hash;
    char name[32], text[PAGE_BYTES];
    for (unsigned file = 0; file < FILES; file++) {
        size_t got;
        name_file(file, name);
        FILE *stream = fopen(name, "r");
        if (stream == NULL)
            give_up(EX_CHECK, "%s: %s", name, strerror(errno));
        while ((got = fread(text, 1, sizeof text, stream)) > 0)
            hash = hash_more(hash, text, got);
        if (ferror(stream) || fclose(stream) == EOF)
            give_up(EX_CHECK, "%s cannot be read", name);
    }
    return hash;
}

static FILE *create(const char *name)
{
    FILE *stream = fopen(name, "w");
    if (stream == NULL)
        give_up(EX_REFUSED, "%s: %s", name, strerror(errno));
    return stream;
}

static void finish(FILE *stream, const char *name)
{
    if (ferror(stream) || fclose(stream) == EOF)
        give_up(EX_REFUSED, "%s cannot be written: %s", name, strerror(errno));
}

static void make_folder(const char *name)
{
    if (mkdir(name, 0700) < 0)
        give_up(EX_REFUSED, "%s: %s", name, strerror(errno));
}

static void make_tree(struct tree *tree)
{
    char name[32], text[64];
    for (unsigned folder = 0; folder < FOLDERS; folder++) {
        snprintf(name, sizeof name, "d%u", folder);
        make_folder(name);
    }
    for (unsigned i = 0; i < FILES; i++) {
        struct file *file = &tree->files[i];
        name_file(i, name);
        FILE *stream = create(name);
        for (; file->lines < FIRST_LINES; file->lines++) {
            file->numbers[file->lines] = ++tree->last_number;
            print_line(text, tree->last_number);
            fputs(text, stream);
        }
        finish(stream, name);
    }
}

static void print_lines(FILE *patch, char mark, const unsigned *numbers, unsigned count)
{
    char text[64];
    for (unsigned i = 0; i < count; i++) {
        print_line(text, numbers[i]);
        fputc(mark, patch);
        fputs(text, patch);
    }
}

/* Up to three lines go, up to three come, at a random place; written as a hunk, and done to the tree in memory. */
static void change_file(struct tree *tree, unsigned index, FILE *patch)
{
    struct file *file = &tree->files[index];
    unsigned gone = random_below(&random_state, 4), come = random_below(&random_state, 4) + (gone == 0);
    unsigned at = random_below(&random_state, file->lines - gone + 1), added[4];
    unsigned before = at < CONTEXT_LINES ? at : CONTEXT_LINES, behind = file->lines - at - gone;
    unsigned after = behind < CONTEXT_LINES ? behind : CONTEXT_LINES;
    char name[32];
    name_file(index, name);
    for (unsigned i = 0; i < come; i++)
        added[i] = ++tree->last_number;
    fprintf(patch, "--- a/%s\n+++ b/%s\n@@ -%u,%u +%u,%u @@\n", name, name, at - before + 1, before + gone + after,
            at - before + 1, before + come + after);
    print_lines(patch, ' ', file->numbers + at - before, before);
    print_lines(patch, '-', file->numbers + at, gone);
    print_lines(patch, '+', added, come);
    print_lines(patch, ' ', file->numbers + at + gone, after);
    memmove(file->numbers + at + come, file->numbers + at + gone, behind * sizeof added[0]);
    memcpy(file->numbers + at, added, come * sizeof added[0]);
    file->lines = file->lines - gone + come;
}

static void make_patches(struct tree *tree)
{
    char name[32];
    FILE *series = create("series");
    make_folder("patches");
    for (unsigned number = 1; number <= PATCHES; number++) {
        unsigned first = random_below(&random_state, FILES);
        unsigned files = 1 + random_below(&random_state, MOST_FILES_OF_A_PATCH);
        snprintf(name, sizeof name, "patches/%02u", number);
        FILE *patch = create(name);
        for (unsigned i = 0; i < files; i++)
            change_file(tree, (first + i) % FILES, patch);
        finish(patch, name);
        fprintf(series, "%02u\n", number);
    }
    finish(series, "series");
}

static void check_files(const char *done, uint64_t expected)
{
    uint64_t got = hash_of_files();
    if (got != expected)
        give_up(EX_CHECK, "after the patches were %s the files have the hash %016jx, expected %016jx", done, (uintmax_t)got,
                (uintmax_t)expected);
}

static uint64_t run_phase(const struct script *script, uint64_t op, int status)
{
    uint64_t start = now_ns();
    run_script(script, op, status);
    return now_ns() - start;
}

static void push_and_pop(struct work *work, uint64_t op, int status)
{
    work->phase_ns[PUSH] += run_phase(&push, op, status);
    check_files("pushed", hash_pushed);
    work->phase_ns[POP] += run_phase(&pop, op, status);
    check_files("popped", hash_before);
}

void series_set_up(struct work *work)
{
    size_t bytes = sizeof(struct tree);
    static char program[PATH_BYTES];
    const char *shell = wanted_shell(work);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0 || length >= (ssize_t)sizeof program - 1)
        give_up(EX_REFUSED, "/proc/self/exe cannot be read: %s", strerror(errno));
    enter_directory(work);
    random_state = work->values[1];
    struct tree *tree = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (tree == MAP_FAILED)
        give_up(EX_REFUSED, "mmap: %s", strerror(errno));
    make_tree(tree);
    hash_before = hash_of_tree(tree);
    make_patches(tree);
    hash_pushed = hash_of_tree(tree);
    munmap(tree, bytes); /* no fork shall copy it */
    write_text("push", push_script);
    write_text("pop", pop_script);
    push = (struct script){.shell = shell, .path = "push", .program = program};
    pop = (struct script){.shell = shell, .path = "pop", .program = program};
}

/* The first series, a warm-up, shows whether there is room for all copies and whether shell and program start. */
void series_batch(struct work *work, uint64_t ops)
{
    static bool allowed;
    for (uint64_t series = 0; series < ops / PATCHES; series++) {
        push_and_pop(work, series, allowed ? EX_CHECK : EX_REFUSED);
        allowed = true;
    }
}
