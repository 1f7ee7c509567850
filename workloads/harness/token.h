/*
 * One message in transit: what kqtest and eptest have in common.
 *
 * A socketpair, both ends watched by the queue, carries one message of 4 bytes. Whoever is
 * told that an end is readable takes the message there and writes it back to the same end,
 * so that it arrives at the other: to and fro. One operation is one message taken.
 *
 * The message is its own sequence number. A worker knows only the last one that it has
 * seen itself, so checking costs no memory that is shared: an old number, or one at the
 * wrong end, is an error at once; any other doubled message makes the sum of the operations
 * too large or is left over in a socket, and a lost one stops all progress. So every fault
 * is found by the end of its batch.
 */
#ifndef TOKEN_H
#define TOKEN_H

#include "harness.h"

enum { SIDE_A, SIDE_B, SIDE_STOP }; /* what an event is about */

struct token {
    int ends[2];   /* the socketpair, not blocking */
    int stop_pipe; /* readable when the workers shall come back; watch it by level */
};

/* A worker's view of the messages of a batch. */
struct hand {
    unsigned long ops, empty;
    int64_t last;  /* the number seen last */
    uint32_t held; /* the number taken and not yet passed on */
};

extern struct token token;

void token_open(void);
struct hand token_hand(void);

enum taken { TOKEN_NONE, TOKEN_HELD, TOKEN_LAST };

/* Read the message at this side; TOKEN_NONE if another worker was faster. */
enum taken token_take(struct worker *worker, struct hand *hand, int side);

/* Read on until there is nothing more: what an edge-triggered event asks for. */
void token_drain(const struct hand *hand, int side);

/* Write the message that is held back to the side that it came from. */
void token_pass(struct hand *hand, int side);

/* The three of struct workload. */
void token_begin(struct run *run);
void token_stop(struct run *run);
void token_check(struct run *run);

#endif
