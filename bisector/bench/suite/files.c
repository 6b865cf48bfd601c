/*
 * creat-clo: one file, created and closed 1000 times, then unlinked. As in AIM9, 999 of 1000 creations therefore
 * truncate a file that is there. The name is relative to a private directory, whatever the depth of that one.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CREATIONS_PER_UNLINK = 1000 };

static const char file_name[] = "creat-clo";

static void create_and_close(int status)
{
    int descriptor = creat(file_name, 0600);
    if (descriptor < 0)
        give_up(status, "creat: %s", strerror(errno));
    if (close(descriptor) < 0)
        give_up(status, "close: %s", strerror(errno));
}

static void remove_file(int status)
{
    if (unlink(file_name) < 0)
        give_up(status, "unlink: %s", strerror(errno));
}

void enter_directory(const struct work *work)
{
    if (chdir(work->directory) < 0)
        give_up(EX_REFUSED, "%s: %s", work->directory, strerror(errno));
}

void creat_set_up(struct work *work)
{
    enter_directory(work);
    create_and_close(EX_REFUSED);
    remove_file(EX_REFUSED);
}

void creat_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t calls = ops / CREATIONS_PER_UNLINK; calls > 0; calls--) {
        for (unsigned creation = 0; creation < CREATIONS_PER_UNLINK; creation++)
            create_and_close(EX_CHECK);
        remove_file(EX_CHECK);
    }
}
