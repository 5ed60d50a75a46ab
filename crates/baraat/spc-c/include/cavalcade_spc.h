/* SPC streams (Baraat, SIGCOMM 2014): streams of bytes between hosts, each under a task-id by which switches give it its rate.
 *
 * Functions return zero or more, or the negative number of an error of <errno.h>; cavalcade_spc_error() then has its words.
 * Addresses are texts, as "10.0.0.7:4211" or "[fd00::7]:4211". Times are in nanoseconds; CAVALCADE_SPC_FOREVER waits without end, and
 * a wait that ends without anything returns -ETIMEDOUT, or -EAGAIN where it was given no time. Handles may be used by several threads; nothing may use one that is closed. */
#ifndef CAVALCADE_SPC_H
#define CAVALCADE_SPC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAVALCADE_SPC_FOREVER (-1)

typedef struct cavalcade_spc_endpoint cavalcade_spc_endpoint;
typedef struct cavalcade_spc_listener cavalcade_spc_listener;
typedef struct cavalcade_spc_stream cavalcade_spc_stream;
typedef struct cavalcade_spc_counter cavalcade_spc_counter;

/* What all hosts and switches of the fabric are told: the rate of the host's link, and the idle round trip of the longest path. */
typedef struct cavalcade_spc_fabric {
    uint64_t rate_bps;
    uint64_t round_trip_ns;
} cavalcade_spc_fabric;

/* The words of this thread's last error; valid until its next one. */
const char *cavalcade_spc_error(void);

/* A UDP socket that carries any number of streams. Without a fabric: 1 Gbps and 1 ms. */
int cavalcade_spc_endpoint_open(const char *address, const cavalcade_spc_fabric *fabric, cavalcade_spc_endpoint **out);
/* Its address, with a zero at the end; returns its length, or -ENOBUFS. */
int cavalcade_spc_endpoint_address(const cavalcade_spc_endpoint *endpoint, char *out, size_t size);
/* Streams and listeners go on; closing the last of all handles waits until what was written is acknowledged, but not for a peer that has been
 * silent, or without room, for 3 s. What such a one has not got is tried on as long as the process is there. */
void cavalcade_spc_endpoint_close(cavalcade_spc_endpoint *endpoint);

/* Opens a stream under a task-id; lower ids go first. Returns once it is open; a host that is silent is given up after 30 s. */
int cavalcade_spc_connect(const cavalcade_spc_endpoint *endpoint, const char *peer, uint32_t task, int64_t nanos,
                          cavalcade_spc_stream **out);
/* Begins to open a stream, and waits for nothing: its descriptor can be written once it is open or has failed. Of a name it takes the first
 * address. */
int cavalcade_spc_connect_begin(const cavalcade_spc_endpoint *endpoint, const char *peer, uint32_t task,
                                cavalcade_spc_stream **out);
/* One if it is open, zero while it is being opened, or why it is not. */
int cavalcade_spc_is_open(const cavalcade_spc_stream *stream);
/* Accepts streams from here on. */
int cavalcade_spc_listen(const cavalcade_spc_endpoint *endpoint, cavalcade_spc_listener **out);
/* The next stream; it has its opener's task-id. */
int cavalcade_spc_accept(const cavalcade_spc_listener *listener, int64_t nanos, cavalcade_spc_stream **out);
/* A descriptor for poll, epoll and select: it can be read while a stream waits to be accepted. Use it for nothing else; it is closed with the
 * listener. */
int cavalcade_spc_listener_descriptor(const cavalcade_spc_listener *listener);
void cavalcade_spc_listener_close(cavalcade_spc_listener *listener);

/* Reads what there is, at most size bytes; zero at the end. One thread at a time. */
ssize_t cavalcade_spc_read(const cavalcade_spc_stream *stream, uint8_t *out, size_t size, int64_t nanos);
/* Writes as much as there is room for, one byte at least. One thread at a time. */
ssize_t cavalcade_spc_write(const cavalcade_spc_stream *stream, const uint8_t *bytes, size_t size, int64_t nanos);
/* how as for sockets: SHUT_RD, SHUT_WR, SHUT_RDWR. */
int cavalcade_spc_shutdown(const cavalcade_spc_stream *stream, int how);
int cavalcade_spc_wait_acknowledged(const cavalcade_spc_stream *stream);
int cavalcade_spc_task(const cavalcade_spc_stream *stream, uint32_t *out);
int cavalcade_spc_peer(const cavalcade_spc_stream *stream, char *out, size_t size);
/* The address of this end. */
int cavalcade_spc_name(const cavalcade_spc_stream *stream, char *out, size_t size);
/* A descriptor for poll, epoll and select: it can be read while a read would not wait, and written while a write would not. Use it for nothing
 * else; it is closed with the stream. */
int cavalcade_spc_descriptor(const cavalcade_spc_stream *stream);
/* Ends what was written and throws away what was not read. */
void cavalcade_spc_close(cavalcade_spc_stream *stream);

/* Task-ids: first, first + step and so on, of this process; background tasks go behind all others. */
int cavalcade_spc_counter_new(uint32_t first, uint32_t step, int background, cavalcade_spc_counter **out);
/* A counter that the host's agent holds, at the agent's socket for counters; -EACCES for one that is not this user's. */
int cavalcade_spc_counter_of_agent(const char *socket, const char *name, cavalcade_spc_counter **out);
int cavalcade_spc_counter_next(const cavalcade_spc_counter *counter, uint32_t *out);
void cavalcade_spc_counter_close(cavalcade_spc_counter *counter);

#ifdef __cplusplus
}
#endif

#endif
