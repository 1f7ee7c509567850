/*
 * mmapsem: several threads map, touch and unmap memory of one process.
 *
 * In the kernel they all need the lock of the address space. The variants put a lock of
 * the program's own round each of the two calls (the touch, a page fault, is outside of
 * it), and a loop of sched_yield() is the floor: what passing the processor on costs.
 */
#include "harness.h"

#include <sys/mman.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#ifndef MAP_POPULATE
#define MAP_POPULATE 0 /* not on this system: `supported` says so */
#endif

enum { LOCK, TOUCH, SIZE };
enum { YIELD, NOLOCK, SPINLOCK, MUTEX };
enum { FIRST_PAGE, NO_TOUCH, POPULATE };

static const char *const lock_values[] = {"yield", "nolock", "spinlock", "mutex", NULL};
static const char *const touch_values[] = {"touch", "none", "populate", NULL};

static struct {
    char before[128]; /* the lock shares its cache line with nothing */
    union {
        pthread_mutex_t mutex;
        pthread_spinlock_t spin;
    } u;
    char after[128];
} shared;

static int touch_supported(long touch)
{
    return touch != POPULATE || MAP_POPULATE != 0;
}

static void setup(struct run *run)
{
    int error = 0;

    if (run->values[LOCK] == MUTEX)
        error = pthread_mutex_init(&shared.u.mutex, NULL);
    if (run->values[LOCK] == SPINLOCK)
        error = pthread_spin_init(&shared.u.spin, PTHREAD_PROCESS_PRIVATE);
    if (error != 0)
        fail(STATUS_SYSCALL, "initialising the lock: %s", strerror(error));
}

static void lock(long kind)
{
    int error = 0;

    if (kind == MUTEX)
        error = pthread_mutex_lock(&shared.u.mutex);
    else if (kind == SPINLOCK)
        error = pthread_spin_lock(&shared.u.spin);
    if (error != 0)
        fail(STATUS_SYSCALL, "taking the lock: %s", strerror(error));
}

static void unlock(long kind)
{
    int error = 0;

    if (kind == MUTEX)
        error = pthread_mutex_unlock(&shared.u.mutex);
    else if (kind == SPINLOCK)
        error = pthread_spin_unlock(&shared.u.spin);
    if (error != 0)
        fail(STATUS_SYSCALL, "giving the lock back: %s", strerror(error));
}

static void map_once(long kind, long touch, size_t size)
{
    const int flags =
        MAP_PRIVATE | MAP_ANONYMOUS | (touch == POPULATE ? MAP_POPULATE : 0);
    void *memory;
    int error;

    lock(kind);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    unlock(kind);
    if (memory == MAP_FAILED)
        fail_call("mmap");
    if (touch == FIRST_PAGE)
        *(volatile char *)memory = 1;
    lock(kind);
    error = munmap(memory, size);
    unlock(kind);
    if (error != 0)
        fail_call("munmap");
}

static void work(struct worker *worker)
{
    const long kind = worker->run->values[LOCK];
    const long touch = worker->run->values[TOUCH];
    const size_t size = (size_t)worker->run->values[SIZE];
    const unsigned long share = worker->share;
    unsigned long done;

    for (done = 0; done < share; count_ops(worker, ++done)) {
        if (kind != YIELD)
            map_once(kind, touch, size);
        else if (sched_yield() != 0)
            fail_call("sched_yield");
    }
}

static const struct param params[] = {
    [LOCK] = {.name = "lock", .values = lock_values, .fallback = NOLOCK},
    [TOUCH] = {.name = "touch", .values = touch_values, .supported = touch_supported,
               .fallback = FIRST_PAGE},
    [SIZE] = {.name = "size", .fallback = 4096, .minimum = 1, .maximum = 67108864},
    {.name = NULL},
};

static const struct workload mmapsem = {
    .name = "mmapsem", .form = "mmap", .unit = "mapping", .params = params,
    .setup = setup, .work = work,
};

int main(int argc, char **argv)
{
    return harness_main(argc, argv, &mmapsem);
}
