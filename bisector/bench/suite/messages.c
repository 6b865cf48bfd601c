/*
 * pipe_cpy, stream_pipe, dgram_pipe, tcp_test and udp_test: a message goes through the kernel and comes back to the
 * one process that sent it, so no context switch belongs to the operation. AIM9 sends 99 (tcp: 89) messages of 1 to
 * 2048 bytes in a call and credits 100 (90); here an operation is one message, and its size a parameter.
 */
#include "suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_MESSAGE_BYTES = 4096, PATTERN_PRIME = 251 };

static unsigned char sent[MOST_MESSAGE_BYTES], received[MOST_MESSAGE_BYTES];
static int write_end, read_end;

static void fill_message(void)
{
    for (unsigned at = 0; at < MOST_MESSAGE_BYTES; at++)
        sent[at] = (unsigned char)(at % PATTERN_PRIME);
}

static void refuse_unless(bool done, const char *what)
{
    if (!done)
        give_up(errno == EAFNOSUPPORT || errno == ENOSYS ? EX_UNSUPPORTED : EX_REFUSED, "%s: %s", what,
                strerror(errno));
}

void pipe_set_up(struct work *work)
{
    int ends[2];
    (void)work;
    fill_message();
    refuse_unless(pipe(ends) == 0, "pipe");
    read_end = ends[0];
    write_end = ends[1];
}

static void unix_pair(int type)
{
    int ends[2];
    fill_message();
    refuse_unless(socketpair(AF_UNIX, type, 0, ends) == 0, "socketpair");
    read_end = ends[0];
    write_end = ends[1];
}

void stream_set_up(struct work *work)
{
    (void)work;
    unix_pair(SOCK_STREAM);
}

void dgram_set_up(struct work *work)
{
    (void)work;
    unix_pair(SOCK_DGRAM);
}

/* A socket of this computer's own, at whatever port is free: no name is looked up and no interface but "lo" used. */
static int loopback_socket(int type, struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;
    int descriptor = socket(AF_INET, type, 0);
    refuse_unless(descriptor >= 0, "socket");
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    refuse_unless(bind(descriptor, (struct sockaddr *)address, sizeof *address) == 0,
                  "bind to 127.0.0.1 (is the interface lo up?)");
    refuse_unless(getsockname(descriptor, (struct sockaddr *)address, &length) == 0, "getsockname");
    return descriptor;
}

void tcp_set_up(struct work *work)
{
    struct sockaddr_in address;
    int on = 1;
    (void)work;
    fill_message();
    int listener = loopback_socket(SOCK_STREAM, &address);
    refuse_unless(listen(listener, 1) == 0, "listen");
    write_end = socket(AF_INET, SOCK_STREAM, 0);
    refuse_unless(write_end >= 0, "socket");
    refuse_unless(setsockopt(write_end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
    refuse_unless(connect(write_end, (struct sockaddr *)&address, sizeof address) == 0,
                  "connect to 127.0.0.1 (is the interface lo up?)");
    read_end = accept(listener, NULL, NULL);
    refuse_unless(read_end >= 0, "accept");
    refuse_unless(close(listener) == 0, "close");
}

void udp_set_up(struct work *work)
{
    struct sockaddr_in address, own;
    (void)work;
    fill_message();
    read_end = loopback_socket(SOCK_DGRAM, &address);
    write_end = loopback_socket(SOCK_DGRAM, &own);
    refuse_unless(connect(write_end, (struct sockaddr *)&address, sizeof address) == 0,
                  "connect to 127.0.0.1 (is the interface lo up?)");
}

static void receive(size_t size)
{
    for (size_t have = 0; have < size;) {
        ssize_t got = read(read_end, received + have, size - have);
        if (got <= 0)
            give_up(EX_CHECK, "read: %s", got < 0 ? strerror(errno) : "the other end is closed");
        have += (size_t)got;
    }
}

/* First and last byte differ from message to message: one that is lost or read twice shows at once. */
void message_batch(struct work *work, uint64_t ops)
{
    size_t size = work->values[0];
    for (uint64_t op = 0; op < ops; op++) {
        sent[0] = (unsigned char)op;
        sent[size - 1] = (unsigned char)op;
        ssize_t put = write(write_end, sent, size);
        if (put != (ssize_t)size)
            give_up(EX_CHECK, "write: %s", put < 0 ? strerror(errno) : "not the whole message");
        receive(size);
        if (received[0] != sent[0] || received[size - 1] != sent[size - 1])
            give_up(EX_CHECK, "another message was read than written");
    }
    if (memcmp(sent, received, size) != 0)
        give_up(EX_CHECK, "the message changed on its way");
}
