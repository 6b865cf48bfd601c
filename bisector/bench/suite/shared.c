/*
 * shared_memory: System V semaphores and shared memory, as AIM9's: one call makes a segment and a set of semaphores,
 * 100 times takes and gives two semaphores around two copies, and removes both.
 */
#include "suite.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { ROUNDS = 100, SEGMENT_BYTES = 4096, HALF_BYTES = SEGMENT_BYTES / 2, SEMAPHORES = 2 };

/* In a namespace of their own nothing is left behind, however the sample ends. Without the right to one: removed by
 * each call, as AIM9 does. */
void shared_set_up(struct work *work)
{
    (void)work;
    if (unshare(CLONE_NEWIPC) < 0 && errno != EPERM && errno != EINVAL && errno != ENOSYS)
        give_up(EX_REFUSED, "unshare: %s", strerror(errno));
    int segment = shmget(IPC_PRIVATE, SEGMENT_BYTES, IPC_CREAT | 0600);
    if (segment < 0)
        give_up(errno == ENOSYS ? EX_UNSUPPORTED : EX_REFUSED, "shmget: %s: %s", strerror(errno),
                "does the kernel have SYSVIPC?");
    if (shmctl(segment, IPC_RMID, NULL) < 0)
        give_up(EX_REFUSED, "shmctl: %s", strerror(errno));
}

static void change(int set, unsigned short semaphore, short by)
{
    struct sembuf step = {.sem_num = semaphore, .sem_op = by};
    if (semtimedop(set, &step, 1, NULL) < 0) /* some libcs make semop of it, others do not */
        give_up(EX_CHECK, "semop: %s", strerror(errno));
}

static void copy_under_semaphores(int set, unsigned char *memory)
{
    unsigned char half[HALF_BYTES];
    for (unsigned round = 0; round < ROUNDS; round++) {
        memset(half, (int)round, sizeof half);
        change(set, 0, 1);
        memcpy(memory, half, sizeof half);
        change(set, 0, -1);
        change(set, 1, 1);
        memcpy(memory + HALF_BYTES, memory, HALF_BYTES);
        change(set, 1, -1);
        if (memory[SEGMENT_BYTES - 1] != (unsigned char)round)
            give_up(EX_CHECK, "the segment does not hold what was copied to it");
    }
}

void shared_batch(struct work *work, uint64_t ops)
{
    (void)work;
    for (uint64_t calls = ops / ROUNDS; calls > 0; calls--) {
        int set = semget(IPC_PRIVATE, SEMAPHORES, IPC_CREAT | 0600);
        int segment = shmget(IPC_PRIVATE, SEGMENT_BYTES, IPC_CREAT | 0600);
        if (set < 0 || segment < 0)
            give_up(EX_CHECK, "semget or shmget: %s", strerror(errno));
        void *memory = shmat(segment, NULL, 0);
        /* The kernel keeps it until it is detached, and no longer. */
        if (memory == (void *)-1 || shmctl(segment, IPC_RMID, NULL) < 0)
            give_up(EX_CHECK, "shmat or shmctl: %s", strerror(errno));
        copy_under_semaphores(set, memory);
        if (shmdt(memory) < 0 || semctl(set, 0, IPC_RMID) < 0)
            give_up(EX_CHECK, "shmdt or semctl: %s", strerror(errno));
    }
}
