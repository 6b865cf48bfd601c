/* dir_rtns_1: the entries of one directory, read again and again. AIM9 reads /bin, so its number depends on the
 * system's packages; here the number of entries is a parameter, and libc's buffer is replaced by one of our own. */
#include "suite.h"

#include <errno.h>
#include <stddef.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { READS_PER_CALL = 10000, BUFFER_BYTES = 32768, DOTS = 2, NAME_BYTES = 32 };

/* The kernel's struct linux_dirent64, up to its name. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
};

static _Alignas(struct entry) unsigned char buffer[BUFFER_BYTES];

void dir_set_up(struct work *work)
{
    char name[NAME_BYTES];
    enter_directory(work);
    for (uint64_t entry = 0; entry < work->values[0]; entry++) {
        snprintf(name, sizeof name, "entry%06ju", (uintmax_t)entry);
        int descriptor = creat(name, 0600);
        if (descriptor < 0 || close(descriptor) < 0)
            give_up(EX_REFUSED, "creat of %s: %s", name, strerror(errno));
    }
}

/* Entries in the buffer: walked one by one as a reader does, since a record's length is only in the record. */
static uint64_t count_records(long filled, uint64_t at_most)
{
    uint64_t count = 0;
    for (long at = 0; at < filled && count < at_most; count++) {
        unsigned short length;
        memcpy(&length, buffer + at + offsetof(struct entry, length), sizeof length);
        if (length == 0 || at + length > filled)
            give_up(EX_CHECK, "getdents64: a record of %u bytes", length);
        at += length;
    }
    return count;
}

static void read_entries(int directory, uint64_t in_scan)
{
    uint64_t seen = 0;
    for (uint64_t reads = 0; reads < READS_PER_CALL;) {
        long filled = syscall(SYS_getdents64, directory, buffer, (size_t)BUFFER_BYTES);
        if (filled < 0)
            give_up(EX_CHECK, "getdents64: %s", strerror(errno));
        uint64_t got = count_records(filled, READS_PER_CALL - reads);
        reads += got;
        seen += got;
        if (filled > 0)
            continue;
        if (seen != in_scan)
            give_up(EX_CHECK, "%ju entries read of %ju", (uintmax_t)seen, (uintmax_t)in_scan);
        seen = 0;
        if (lseek(directory, 0, SEEK_SET) < 0)
            give_up(EX_CHECK, "lseek: %s", strerror(errno));
    }
}

void dir_batch(struct work *work, uint64_t ops)
{
    for (uint64_t calls = ops / READS_PER_CALL; calls > 0; calls--) {
        int directory = open(".", O_RDONLY | O_DIRECTORY);
        if (directory < 0)
            give_up(EX_CHECK, "open: %s", strerror(errno));
        read_entries(directory, work->values[0] + DOTS);
        if (close(directory) < 0)
            give_up(EX_CHECK, "close: %s", strerror(errno));
    }
}
