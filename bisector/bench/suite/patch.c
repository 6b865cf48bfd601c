/*
 * `bisector-suite patch`: the small program that the scripts of patch_series start, in the tree's folder.
 *
 *   files PATCH      prints the names of the files that a patch changes
 *   apply PATCH      applies a unified diff: every line of context must be exactly where the patch says
 *   reverse PATCH    takes it back
 *   copy FROM TO     keeps a copy
 *   restored A B     ends well if A is what B is, and removes B
 *   take LIST        prints the last line of a file and removes it there; nothing if there is none
 *
 * Any doubt is an exit status of 1. Nothing of the C library is used: entry.c comes here before that has started,
 * for the same reason as with `true`. Its start was four fifths of the CPU time of patch_series in a virtual machine.
 */
#include "suite.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined(__x86_64__)
#include <errno.h>
#endif

enum { MOST_BYTES = 64 * 1024, NAME_BYTES = 256 };

static char patch_text[MOST_BYTES], old_text[MOST_BYTES], new_text[MOST_BYTES];

/* What the kernel returns: minus the error's number if it is below zero. */
static long call(long number, long first, long second, long third, long fourth)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = fourth;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
#else
    long result = syscall(number, first, second, third, fourth);
    return result < 0 ? -errno : result;
#endif
}

/* The barriers keep a compiler from making calls of the C library's functions out of the loops. */
static size_t length_of(const char *text)
{
    size_t length = 0;
    for (; text[length] != '\0'; length++)
        __asm__ volatile("" ::: "memory");
    return length;
}

static void copy_bytes(char *to, const char *from, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        to[i] = from[i];
        __asm__ volatile("" ::: "memory");
    }
}

static bool same_bytes(const char *first, const char *second, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (first[i] != second[i])
            return false;
    return true;
}

static bool is_word(const char *word, const char *wanted)
{
    return same_bytes(word, wanted, length_of(wanted) + 1);
}

/* A text ends with a zero byte, which no prefix has. */
static bool begins_with(const char *text, const char *prefix)
{
    return same_bytes(text, prefix, length_of(prefix));
}

static void print(int file, const char *text, size_t length)
{
    if (call(SYS_write, file, (long)text, (long)length, 0) != (long)length)
        call(SYS_exit_group, 1, 0, 0, 0);
}

/* "bisector-suite patch: NAME: REASON" and, if there is one, the number: of an error, or of a line. */
static _Noreturn void fail(const char *name, const char *reason, unsigned long number)
{
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = '\n';
    for (; number > 0; number /= 10)
        digits[--at] = (char)('0' + number % 10);
    print(STDERR_FILENO, "bisector-suite patch: ", 22);
    print(STDERR_FILENO, name, length_of(name));
    print(STDERR_FILENO, ": ", 2);
    print(STDERR_FILENO, reason, length_of(reason));
    print(STDERR_FILENO, digits + at, sizeof digits - at);
    for (;;)
        call(SYS_exit_group, 1, 0, 0, 0);
}

static long checked(long result, const char *name, const char *reason)
{
    if (result < 0)
        fail(name, reason, (unsigned long)-result);
    return result;
}

/* The whole file, as a text that ends with a zero byte; returns its length. */
static size_t load(const char *path, char *text)
{
    size_t length = 0;
    long got, file = checked(call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY, 0), path, "cannot be opened: error ");
    do {
        got = call(SYS_read, file, (long)(text + length), (long)(MOST_BYTES - length), 0);
        length += (size_t)checked(got, path, "cannot be read: error ");
    } while (got > 0 && length < MOST_BYTES);
    if (length == MOST_BYTES)
        fail(path, "is too long", 0);
    call(SYS_close, file, 0, 0, 0);
    text[length] = '\0';
    return length;
}

static void save(const char *path, const char *text, size_t length)
{
    long file = call(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    checked(file, path, "cannot be made: error ");
    if (checked(call(SYS_write, file, (long)text, (long)length, 0), path, "cannot be written: error ") != (long)length)
        fail(path, "was not written whole", 0);
    checked(call(SYS_close, file, 0, 0, 0), path, "cannot be closed: error ");
}

/* Bytes of the line at `text`, its end included; 0 at the end of the text. */
static size_t line_length(const char *text)
{
    size_t length = 0;
    while (text[length] != '\0' && text[length] != '\n')
        length++;
    return length + (text[length] == '\n');
}

/* From a line "+++ b/NAME", which must be one. */
static void read_name(const char *patch, const char *line, char *name)
{
    size_t length = line_length(line + 6) - 1;
    if (length == 0 || length >= NAME_BYTES)
        fail(patch, "has a file without a name, or with a long one", 0);
    copy_bytes(name, line + 6, length);
    name[length] = '\0';
}

/* Digits at *at, after `mark`. */
static unsigned long read_number(const char *patch, const char **at, const char *mark)
{
    unsigned long number = 0;
    if (!begins_with(*at, mark))
        fail(patch, "has something else where a hunk should begin", 0);
    for (*at += length_of(mark); **at >= '0' && **at <= '9'; ++*at)
        number = number * 10 + (unsigned long)(**at - '0');
    return number;
}

/* One file while it is patched: what is left of the old text, and the end of the new one. */
struct editing {
    const char *name;
    const char *rest;
    char *end;
    unsigned long line; /* of `rest` */
};

static void emit(struct editing *editing, const char *line, size_t length)
{
    if ((size_t)(editing->end - new_text) + length >= MOST_BYTES)
        fail(editing->name, "becomes too long", 0);
    copy_bytes(editing->end, line, length);
    editing->end += length;
}

/* Takes one line of the old text, which must be this one. */
static void expect(struct editing *editing, const char *line, size_t length)
{
    if (line_length(editing->rest) != length || !same_bytes(editing->rest, line, length))
        fail(editing->name, "is not what the patch says in line ", editing->line);
    editing->rest += length;
    editing->line++;
}

/* From the line "@@ -1,7 +1,8 @@" on; returns where the next hunk or file begins. */
static const char *apply_hunk(struct editing *editing, const char *at, bool reverse)
{
    unsigned long starts[2], counts[2];
    starts[0] = read_number(editing->name, &at, "@@ -");
    counts[0] = read_number(editing->name, &at, ",");
    starts[1] = read_number(editing->name, &at, " +");
    counts[1] = read_number(editing->name, &at, ",");
    at += line_length(at);
    while (editing->line < starts[reverse] && *editing->rest != '\0') {
        size_t length = line_length(editing->rest);
        emit(editing, editing->rest, length);
        editing->rest += length;
        editing->line++;
    }
    while (counts[0] > 0 || counts[1] > 0) {
        size_t length = line_length(at);
        bool is_old = *at == ' ' || *at == (reverse ? '+' : '-'), is_new = *at == ' ' || *at == (reverse ? '-' : '+');
        if (length < 2 || (!is_old && !is_new) || counts[reverse] < is_old || counts[!reverse] < is_new)
            fail(editing->name, "has a hunk that ends too early, at line ", editing->line);
        if (is_old)
            expect(editing, at + 1, length - 1);
        if (is_new)
            emit(editing, at + 1, length - 1);
        counts[reverse] -= is_old;
        counts[!reverse] -= is_new;
        at += length;
    }
    return at;
}

static void apply(const char *path, bool reverse)
{
    char name[NAME_BYTES], unfinished[NAME_BYTES + 4];
    load(path, patch_text);
    for (const char *at = patch_text; *at != '\0';) {
        if (!begins_with(at, "--- a/"))
            fail(path, "has something else where a file should begin", 0);
        at += line_length(at);
        if (!begins_with(at, "+++ b/"))
            fail(path, "has something else where a file should be named", 0);
        read_name(path, at, name);
        at += line_length(at);
        load(name, old_text);
        struct editing editing = {.name = name, .rest = old_text, .end = new_text, .line = 1};
        do
            at = apply_hunk(&editing, at, reverse);
        while (begins_with(at, "@@ "));
        emit(&editing, editing.rest, length_of(editing.rest));
        copy_bytes(unfinished, name, length_of(name));
        copy_bytes(unfinished + length_of(name), ".new", 5);
        save(unfinished, new_text, (size_t)(editing.end - new_text));
        long done = call(SYS_renameat, AT_FDCWD, (long)unfinished, AT_FDCWD, (long)name);
        checked(done, name, "cannot be replaced: error ");
    }
}

static void print_names(const char *path)
{
    load(path, patch_text);
    for (const char *at = patch_text; *at != '\0'; at += line_length(at))
        if (begins_with(at, "+++ b/"))
            print(STDOUT_FILENO, at + 6, line_length(at + 6));
}

static void compare_and_remove(const char *path, const char *copy)
{
    size_t length = load(path, old_text);
    if (load(copy, new_text) != length || !same_bytes(old_text, new_text, length))
        fail(path, "is not what it was", 0);
    checked(call(SYS_unlinkat, AT_FDCWD, (long)copy, 0, 0), copy, "cannot be removed: error ");
}

static void take_last_line(const char *path)
{
    size_t length = load(path, old_text), start = length > 0 ? length - 1 : 0;
    while (start > 0 && old_text[start - 1] != '\n')
        start--;
    if (length == 0)
        return;
    print(STDOUT_FILENO, old_text + start, length - start);
    checked(call(SYS_truncate, (long)path, (long)start, 0, 0), path, "cannot be cut: error ");
}

_Noreturn void patch_tool(char **words)
{
    const char *what = words[0], *first = what != NULL ? words[1] : NULL, *second = first != NULL ? words[2] : NULL;
    if (first == NULL)
        fail("?", "what, and with which file?", 0);
    if (is_word(what, "files"))
        print_names(first);
    else if (is_word(what, "apply") || is_word(what, "reverse"))
        apply(first, *what == 'r');
    else if (is_word(what, "take"))
        take_last_line(first);
    else if (is_word(what, "copy") && second != NULL)
        save(second, old_text, load(first, old_text));
    else if (is_word(what, "restored") && second != NULL)
        compare_and_remove(first, second);
    else
        fail(what, "is not understood, or wants another file", 0);
    for (;;)
        call(SYS_exit_group, 0, 0, 0, 0);
}
