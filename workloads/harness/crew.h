/*
 * The workers: started once, parked between batches, released all together.
 * crew_threads.c and crew_processes.c are the two kinds.
 */
#ifndef CREW_H
#define CREW_H

#include "harness.h"

enum milestone {
    CREW_PARKED, /* every worker has entered, or has come back from its batch */
    CREW_READY,  /* every worker of a token workload is about to wait */
    CREW_CLOSED  /* the last message has arrived */
};

struct crew {
    void (*start)(struct run *run);
    void (*release)(struct run *run);

    /* Wait for the milestone; once a second call `nudge` (or NULL) and look for progress. */
    void (*await)(struct run *run, enum milestone milestone, void (*nudge)(struct run *));

    void (*dismiss)(struct run *run);
};

extern const struct crew thread_crew, process_crew;

/* Ends the program (status 70) when for --stall seconds no operation was done. */
struct watch {
    uint64_t since_ns;
    unsigned long seen;
};

struct watch watch_begin(const struct run *run);
void watch_check(const struct run *run, struct watch *watch);

#endif
