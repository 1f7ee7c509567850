/* Workers that are threads, parked on a condition variable. */
#include "crew.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t go = PTHREAD_COND_INITIALIZER;   /* to the workers */
static pthread_cond_t news = PTHREAD_COND_INITIALIZER; /* to the controller */
static pthread_t threads[MAX_THREADS];

/* Guarded by lock. */
static int parked, ready, closed, quitting;
static unsigned generation; /* counts releases */

/* Called with the lock held; returns whether there is another batch. */
static int park(struct run *run)
{
    unsigned before = generation;

    if (++parked == run->options.threads) {
        /* The last one to come takes the reading: nobody computes any more. */
        if (!run->workload->token)
            run->usage_end = usage_now();
        pthread_cond_signal(&news);
    }
    while (generation == before && !quitting)
        pthread_cond_wait(&go, &lock);
    return !quitting;
}

static void *thread_main(void *argument)
{
    struct worker *worker = argument;
    struct run *run = worker->run;

    if (run->workload->enter != NULL)
        run->workload->enter(worker);
    pthread_mutex_lock(&lock);
    while (park(run)) {
        pthread_mutex_unlock(&lock);
        run->workload->work(worker);
        worker->end_ns = now_ns();
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    if (run->workload->leave != NULL)
        run->workload->leave(worker);
    return NULL;
}

static void start(struct run *run)
{
    pthread_attr_t attributes;
    int i, error;

    /* The default may be 8 MiB, times 1024 too much for a small guest. */
    if ((error = pthread_attr_init(&attributes)) != 0 ||
        (error = pthread_attr_setstacksize(&attributes, 1024 * 1024)) != 0)
        fail(STATUS_SYSCALL, "pthread_attr_setstacksize: %s", strerror(error));
    for (i = 0; i < run->options.threads; i++) {
        error = pthread_create(&threads[i], &attributes, thread_main, &run->workers[i]);
        if (error != 0)
            fail(STATUS_SYSCALL, "pthread_create of thread %d of %d: %s", i + 1,
                 run->options.threads, strerror(error));
    }
    pthread_attr_destroy(&attributes);
}

static void release(struct run *run)
{
    (void)run;
    pthread_mutex_lock(&lock);
    parked = ready = closed = 0;
    generation++;
    pthread_cond_broadcast(&go);
    pthread_mutex_unlock(&lock);
}

static int reached(const struct run *run, enum milestone milestone)
{
    switch (milestone) {
    case CREW_PARKED: return parked == run->options.threads;
    case CREW_READY: return ready == run->options.threads;
    case CREW_CLOSED: return closed;
    }
    return 0;
}

static void await(struct run *run, enum milestone milestone, void (*nudge)(struct run *))
{
    struct watch watch = watch_begin(run);

    pthread_mutex_lock(&lock);
    while (!reached(run, milestone)) {
        struct timeval now;
        struct timespec until;
        int error;

        if (nudge != NULL)
            nudge(run);
        /* The wall clock, as older systems offer no other here: a step of it only
           shifts the next look, never the measured time. */
        gettimeofday(&now, NULL);
        until.tv_sec = now.tv_sec + 1;
        until.tv_nsec = now.tv_usec * 1000;
        do
            error = pthread_cond_timedwait(&news, &lock, &until);
        while (error == 0 && !reached(run, milestone));
        if (error != 0 && error != ETIMEDOUT)
            fail(STATUS_SYSCALL, "pthread_cond_timedwait: %s", strerror(error));
        if (error == ETIMEDOUT && !reached(run, milestone))
            watch_check(run, &watch);
    }
    pthread_mutex_unlock(&lock);
}

static void dismiss(struct run *run)
{
    int i, error;

    pthread_mutex_lock(&lock);
    quitting = 1;
    pthread_cond_broadcast(&go);
    pthread_mutex_unlock(&lock);
    for (i = 0; i < run->options.threads; i++)
        if ((error = pthread_join(threads[i], NULL)) != 0)
            fail(STATUS_SYSCALL, "pthread_join: %s", strerror(error));
}

void run_ready(struct run *run)
{
    pthread_mutex_lock(&lock);
    if (++ready == run->options.threads)
        pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

void run_close(struct run *run)
{
    uint64_t end_ns = now_ns();
    struct usage usage = usage_now(); /* before anybody is woken only to be parked */

    pthread_mutex_lock(&lock);
    if (closed)
        fail(STATUS_UNTRUSTED, "the last message arrived twice");
    closed = 1;
    run->end_ns = end_ns;
    run->usage_end = usage;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

const struct crew thread_crew = {start, release, await, dismiss};
