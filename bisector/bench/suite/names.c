/* stat, open_close, link_test and disk_src: names looked up, made and removed in a private directory. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINKS = 7,
    LINK_ROUNDS = 9,
    PAIRS_PER_CALL = LINKS * LINK_ROUNDS,
    SEARCHES_CREDITED = 75,
    SEARCHES = 57,
    CREATIONS = 43,
    FOLDERS = 10, /* of disk_src, each `depth` deep */
    NAME_BYTES = 128,
};

static char deep_path[NAME_BYTES];
static char folders[FOLDERS][NAME_BYTES];
static char fresh_files[CREATIONS][NAME_BYTES];
static char known_files[SEARCHES][NAME_BYTES];
static ino_t known_inodes[SEARCHES];

static ino_t stat_or_give_up(const char *path, int status)
{
    struct stat found;
    if (fstatat(AT_FDCWD, path, &found, 0) < 0)
        give_up(status, "stat of %s: %s", path, strerror(errno));
    return found.st_ino;
}

static void create(const char *path, int status)
{
    int descriptor = creat(path, 0600);
    if (descriptor < 0)
        give_up(status, "creat of %s: %s", path, strerror(errno));
    if (close(descriptor) < 0)
        give_up(status, "close: %s", strerror(errno));
}

static void remove_name(const char *path, int status)
{
    if (unlink(path) < 0)
        give_up(status, "unlink of %s: %s", path, strerror(errno));
}

/* "f0/d/d", its folders made; `depth` counts the names, the file's own among them. */
static void make_folders(char *path, unsigned number, uint64_t depth)
{
    int length = 0;
    for (uint64_t level = 1; level < depth; level++) {
        length += level == 1 ? snprintf(path, NAME_BYTES, "f%u", number)
                             : snprintf(path + length, NAME_BYTES - (size_t)length, "/d");
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            give_up(EX_REFUSED, "mkdir of %s: %s", path, strerror(errno));
    }
    snprintf(path + length, NAME_BYTES - (size_t)length, length > 0 ? "/" : "");
}

void stat_set_up(struct work *work)
{
    enter_directory(work);
    make_folders(deep_path, 0, work->values[0]);
    strcat(deep_path, "file");
    create(deep_path, EX_REFUSED);
}

void stat_batch(struct work *work, uint64_t ops)
{
    (void)work;
    ino_t file = stat_or_give_up(deep_path, EX_CHECK);
    for (uint64_t op = 1; op < ops; op++)
        if (stat_or_give_up(deep_path, EX_CHECK) != file)
            give_up(EX_CHECK, "stat: another file than before");
}

void open_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t op = 0; op < ops; op++) {
        int descriptor = open(deep_path, O_RDONLY);
        if (descriptor < 0)
            give_up(EX_CHECK, "open: %s", strerror(errno));
        if (close(descriptor) < 0)
            give_up(EX_CHECK, "close: %s", strerror(errno));
    }
}

static void link_or_give_up(const char *name, int status)
{
    if (link("file", name) < 0)
        give_up(status, "link: %s", strerror(errno));
}

void link_set_up(struct work *work)
{
    enter_directory(work);
    create("file", EX_REFUSED);
    link_or_give_up("link0", EX_REFUSED);
    remove_name("link0", EX_REFUSED);
    remove_name("file", EX_REFUSED);
}

void link_batch(struct work *work, uint64_t ops)
{
    static const char *const names[LINKS] = {"link0", "link1", "link2", "link3", "link4", "link5", "link6"};
    (void)work;
    for (uint64_t calls = ops / PAIRS_PER_CALL; calls > 0; calls--) {
        struct stat file;
        create("file", EX_CHECK);
        for (unsigned i = 0; i < LINKS; i++)
            link_or_give_up(names[i], EX_CHECK);
        for (unsigned round = 0; round < LINK_ROUNDS; round++)
            for (unsigned i = 0; i < LINKS; i++) {
                remove_name(names[i], EX_CHECK);
                link_or_give_up(names[i], EX_CHECK);
            }
        if (fstatat(AT_FDCWD, "file", &file, 0) < 0 || file.st_nlink != LINKS + 1)
            give_up(EX_CHECK, "the file does not have its %d links", LINKS);
        for (unsigned i = 0; i < LINKS; i++)
            remove_name(names[i], EX_CHECK);
        remove_name("file", EX_CHECK);
    }
}

/* Found files and fresh ones lie over all folders, in an order that is the same in every run. */
void lookup_set_up(struct work *work)
{
    enter_directory(work);
    for (unsigned i = 0; i < FOLDERS; i++)
        make_folders(folders[i], i, work->values[0]);
    for (unsigned i = 0; i < SEARCHES; i++) {
        snprintf(known_files[i], NAME_BYTES, "%.*sknown%u", NAME_BYTES / 2, folders[i * 7 % FOLDERS], i);
        create(known_files[i], EX_REFUSED);
        known_inodes[i] = stat_or_give_up(known_files[i], EX_REFUSED);
    }
    for (unsigned i = 0; i < CREATIONS; i++)
        snprintf(fresh_files[i], NAME_BYTES, "%.*sfresh%u", NAME_BYTES / 2, folders[i * 3 % FOLDERS], i);
}

void lookup_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t calls = ops / SEARCHES_CREDITED; calls > 0; calls--) {
        for (unsigned i = 0; i < SEARCHES; i++) {
            if (stat_or_give_up(known_files[i], EX_CHECK) != known_inodes[i])
                give_up(EX_CHECK, "%s: another file than before", known_files[i]);
            if (i < CREATIONS) {
                create(fresh_files[i], EX_CHECK);
                remove_name(fresh_files[i], EX_CHECK);
            }
        }
    }
}
