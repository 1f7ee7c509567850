/* One message in transit: see token.h. */
#include "token.h"

#include <sys/types.h>
#include <sys/socket.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct token token;

static int stop_writer;

static void no_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        fail_call("fcntl");
}

void token_open(void)
{
    int stop[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, token.ends) != 0)
        fail_call("socketpair");
    if (pipe(stop) != 0)
        fail_call("pipe");
    token.stop_pipe = stop[0];
    stop_writer = stop[1];
    no_blocking(token.ends[SIDE_A]);
    no_blocking(token.ends[SIDE_B]);
    no_blocking(stop[0]);
    no_blocking(stop[1]);
}

struct hand token_hand(void)
{
    struct hand hand = {0, 0, -1, 0};

    return hand;
}

/* Number 0 is sent from A and arrives at B, number 1 the other way. */
static int side_of(uint32_t number)
{
    return number % 2 == 0 ? SIDE_B : SIDE_A;
}

static ssize_t read_message(int side, uint32_t *number)
{
    ssize_t n;

    do
        n = read(token.ends[side], number, sizeof *number);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN)
        fail_call("read of the socket");
    return n;
}

enum taken token_take(struct worker *worker, struct hand *hand, int side)
{
    uint32_t number;
    ssize_t n = read_message(side, &number);

    if (n < 0) {
        worker->empty_wakeups = ++hand->empty;
        return TOKEN_NONE;
    }
    if (n != (ssize_t)sizeof number)
        fail(STATUS_UNTRUSTED, "short read: %ld of %d bytes of a message", (long)n,
             (int)sizeof number);
    if ((int64_t)number <= hand->last || number >= worker->run->ops || side_of(number) != side)
        fail(STATUS_UNTRUSTED, "message %lu came out of order: lost or doubled",
             (unsigned long)number);
    hand->last = number;
    hand->held = number;
    count_ops(worker, ++hand->ops);
    return number + 1 == worker->run->ops ? TOKEN_LAST : TOKEN_HELD;
}

void token_drain(const struct hand *hand, int side)
{
    uint32_t number;

    if (read_message(side, &number) >= 0)
        fail(STATUS_UNTRUSTED, "a second message lay behind message %lu: doubled",
             (unsigned long)hand->held);
}

static void send_message(int side, uint32_t number)
{
    ssize_t n;

    do
        n = write(token.ends[side], &number, sizeof number);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        fail_call("write to the socket");
    if (n != (ssize_t)sizeof number)
        fail(STATUS_UNTRUSTED, "short write: %ld of %d bytes of a message", (long)n,
             (int)sizeof number);
}

void token_pass(struct hand *hand, int side)
{
    send_message(side, hand->held + 1);
}

void token_begin(struct run *run)
{
    (void)run;
    send_message(SIDE_A, 0);
}

void token_stop(struct run *run)
{
    (void)run;
    if (write(stop_writer, "", 1) < 0 && errno != EAGAIN)
        fail_call("write to the stop pipe");
}

void token_check(struct run *run)
{
    char bytes[64];
    uint32_t number;
    ssize_t n;

    (void)run;
    if (read_message(SIDE_A, &number) >= 0 || read_message(SIDE_B, &number) >= 0)
        fail(STATUS_UNTRUSTED, "message %lu is left over: doubled", (unsigned long)number);
    do
        n = read(token.stop_pipe, bytes, sizeof bytes);
    while (n > 0 || (n < 0 && errno == EINTR));
    if (n == 0 || errno != EAGAIN)
        fail_call("read of the stop pipe");
}
