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
 * Part of what is measured: it does what it must by few system calls, and any doubt is an exit status of 1.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 64 * 1024 };

static char patch_text[MOST_BYTES], old_text[MOST_BYTES], new_text[MOST_BYTES];

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bisector-suite patch: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* The whole file, as a text that ends with a zero byte; returns its length. */
static size_t load(const char *path, char *text)
{
    size_t length = 0;
    ssize_t got;
    int file = open(path, O_RDONLY);
    if (file < 0)
        fail("%s: %s", path, strerror(errno));
    while ((got = read(file, text + length, MOST_BYTES - length)) > 0)
        length += (size_t)got;
    if (got < 0 || length == MOST_BYTES || close(file) < 0)
        fail("%s cannot be read, or is too long", path);
    text[length] = '\0';
    return length;
}

static void save(const char *path, const char *text, size_t length)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, text, length) != (ssize_t)length || close(file) < 0)
        fail("%s cannot be written: %s", path, strerror(errno));
}

/* Bytes of the line at `text`, its end included; 0 at the end of the text. */
static size_t line_length(const char *text)
{
    return strcspn(text, "\n") + (strchr(text, '\n') != NULL);
}

/* The name in a line like "+++ b/NAME"; the rest of the text is untouched. */
static void read_name(const char *line, char *name)
{
    size_t length = strcspn(line + 6, "\n");
    if (length == 0 || length >= PATH_BYTES)
        fail("not a name: %.80s", line);
    memcpy(name, line + 6, length);
    name[length] = '\0';
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
        fail("%s becomes too long", editing->name);
    memcpy(editing->end, line, length);
    editing->end += length;
}

/* Takes one line of the old text, which must be this one. */
static void expect(struct editing *editing, const char *line, size_t length)
{
    if (line_length(editing->rest) != length || memcmp(editing->rest, line, length) != 0)
        fail("%s: line %lu is not what the patch says", editing->name, editing->line);
    editing->rest += length;
    editing->line++;
}

/* From the line "@@ -1,7 +1,8 @@" on; returns where the next hunk or file begins. */
static const char *apply_hunk(struct editing *editing, const char *at, bool reverse)
{
    unsigned long starts[2], counts[2];
    if (sscanf(at, "@@ -%lu,%lu +%lu,%lu @@", &starts[0], &counts[0], &starts[1], &counts[1]) != 4)
        fail("%s: not a hunk: %.40s", editing->name, at);
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
            fail("%s: the hunk ends too early at line %lu", editing->name, editing->line);
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
    char name[PATH_BYTES], unfinished[PATH_BYTES + 4];
    load(path, patch_text);
    for (const char *at = patch_text; *at != '\0';) {
        if (strncmp(at, "--- a/", 6) != 0)
            fail("%s: not the beginning of a file: %.40s", path, at);
        at += line_length(at);
        if (strncmp(at, "+++ b/", 6) != 0)
            fail("%s: not the name of a file: %.40s", path, at);
        read_name(at, name);
        at += line_length(at);
        load(name, old_text);
        struct editing editing = {.name = name, .rest = old_text, .end = new_text, .line = 1};
        while (strncmp(at, "@@ ", 3) == 0)
            at = apply_hunk(&editing, at, reverse);
        emit(&editing, editing.rest, strlen(editing.rest));
        snprintf(unfinished, sizeof unfinished, "%s.new", name);
        save(unfinished, new_text, (size_t)(editing.end - new_text));
        if (rename(unfinished, name) < 0)
            fail("%s: %s", name, strerror(errno));
    }
}

static void print_names(const char *path)
{
    char name[PATH_BYTES];
    load(path, patch_text);
    for (const char *at = patch_text; *at != '\0'; at += line_length(at))
        if (strncmp(at, "+++ b/", 6) == 0) {
            read_name(at, name);
            puts(name);
        }
}

static void compare_and_remove(const char *path, const char *copy)
{
    size_t length = load(path, old_text);
    if (load(copy, new_text) != length || memcmp(old_text, new_text, length) != 0)
        fail("%s is not what it was", path);
    if (unlink(copy) < 0)
        fail("%s: %s", copy, strerror(errno));
}

static void take_last_line(const char *path)
{
    size_t length = load(path, old_text), start = length > 0 ? length - 1 : 0;
    while (start > 0 && old_text[start - 1] != '\n')
        start--;
    fputs(old_text + start, stdout);
    if (length > 0 && truncate(path, (off_t)start) < 0)
        fail("%s: %s", path, strerror(errno));
}

int patch_tool(char **words)
{
    const char *what = words[0], *first = what != NULL ? words[1] : NULL, *second = first != NULL ? words[2] : NULL;
    if (first == NULL)
        fail("what, and with which file?");
    if (strcmp(what, "files") == 0)
        print_names(first);
    else if (strcmp(what, "apply") == 0 || strcmp(what, "reverse") == 0)
        apply(first, *what == 'r');
    else if (strcmp(what, "take") == 0)
        take_last_line(first);
    else if (strcmp(what, "copy") == 0 && second != NULL)
        save(second, old_text, load(first, old_text));
    else if (strcmp(what, "restored") == 0 && second != NULL)
        compare_and_remove(first, second);
    else
        fail("%s is not understood", what);
    if (fflush(stdout) == EOF)
        fail("the output cannot be written: %s", strerror(errno));
    return 0;
}
