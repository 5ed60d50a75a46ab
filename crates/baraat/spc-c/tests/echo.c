/* A server that sends each stream back reversed, and a client of it: echo serve ADDRESS COUNT | echo ask ADDRESS TASK BYTES */
#include <cavalcade_spc.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const cavalcade_spc_fabric fabric = { 50000000, 2000000 };

static long checked(const char *what, long result) {
    if (result < 0) {
        fprintf(stderr, "%s: %s (%s)\n", what, cavalcade_spc_error(), strerror((int)-result));
        exit(1);
    }
    return result;
}

/* Waits until a descriptor shows what is asked of it. */
static void wait_for(int descriptor, short events) {
    struct pollfd asked = { .fd = (int)checked("descriptor", descriptor), .events = events };
    if (poll(&asked, 1, 30000) != 1 || !(asked.revents & events))
        exit(4);
}

static size_t read_all(cavalcade_spc_stream *stream, uint8_t **out) {
    size_t length = 0, room = 0;
    for (;;) {
        if (length == room)
            *out = realloc(*out, room += 65536);
        long count = checked("read", cavalcade_spc_read(stream, *out + length, room - length, CAVALCADE_SPC_FOREVER));
        if (count == 0)
            return length;
        length += (size_t)count;
    }
}

static void write_all(cavalcade_spc_stream *stream, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        long count = checked("write", cavalcade_spc_write(stream, bytes, size, CAVALCADE_SPC_FOREVER));
        bytes += count;
        size -= (size_t)count;
    }
    checked("shutdown", cavalcade_spc_shutdown(stream, SHUT_WR));
}

static void reverse(uint8_t *bytes, size_t size) {
    for (size_t low = 0; low + 1 < size - low; low++) {
        uint8_t byte = bytes[low];
        bytes[low] = bytes[size - 1 - low];
        bytes[size - 1 - low] = byte;
    }
}

static int serve(const char *address, int count) {
    cavalcade_spc_endpoint *endpoint;
    cavalcade_spc_listener *listener;
    checked("open", cavalcade_spc_endpoint_open(address, &fabric, &endpoint));
    checked("listen", cavalcade_spc_listen(endpoint, &listener));
    cavalcade_spc_stream *none;
    if (cavalcade_spc_accept(listener, 1000000, &none) != -ETIMEDOUT)
        return 2;
    if (cavalcade_spc_accept(listener, 0, &none) != -EAGAIN)
        return 2;
    puts("listens");
    fflush(stdout);
    while (count-- > 0) {
        cavalcade_spc_stream *stream;
        uint8_t *all = NULL;
        uint32_t task;
        wait_for(cavalcade_spc_listener_descriptor(listener), POLLIN);
        checked("accept", cavalcade_spc_accept(listener, 0, &stream));
        checked("task", cavalcade_spc_task(stream, &task));
        size_t length = read_all(stream, &all);
        reverse(all, length);
        write_all(stream, all, length);
        checked("wait", cavalcade_spc_wait_acknowledged(stream));
        printf("task %u: %zu bytes\n", task, length);
        fflush(stdout);
        cavalcade_spc_close(stream);
        free(all);
    }
    cavalcade_spc_listener_close(listener);
    cavalcade_spc_endpoint_close(endpoint);
    return 0;
}

static int ask(const char *address, uint32_t task, size_t size) {
    cavalcade_spc_endpoint *endpoint;
    cavalcade_spc_stream *stream;
    cavalcade_spc_counter *counter;
    uint32_t id;
    checked("counter", cavalcade_spc_counter_new(task, 4, 0, &counter));
    checked("next", cavalcade_spc_counter_next(counter, &id));
    cavalcade_spc_counter_close(counter);
    /* The agent's: 3, 7, 11 and so on, whoever else asks. */
    uint32_t of_agent, next;
    checked("the agent's counter", cavalcade_spc_counter_of_agent(getenv("COUNTERS"), "own", &counter));
    checked("the agent's id", cavalcade_spc_counter_next(counter, &of_agent));
    checked("its next one", cavalcade_spc_counter_next(counter, &next));
    cavalcade_spc_counter_close(counter);
    if (of_agent % 4 != 3 || next != of_agent + 4)
        return 2;
    checked("open", cavalcade_spc_endpoint_open("0.0.0.0:0", &fabric, &endpoint));
    if (cavalcade_spc_connect(NULL, address, id, CAVALCADE_SPC_FOREVER, &stream) != -EINVAL)
        return 2;
    checked("connect", cavalcade_spc_connect_begin(endpoint, address, id, &stream));
    wait_for(cavalcade_spc_descriptor(stream), POLLOUT);
    if (checked("opened", cavalcade_spc_is_open(stream)) != 1)
        return 2;
    uint8_t *bytes = malloc(size), *back = NULL;
    for (size_t at = 0; at < size; at++)
        bytes[at] = (uint8_t)(at * 7 + at / 251);
    write_all(stream, bytes, size);
    wait_for(cavalcade_spc_descriptor(stream), POLLIN);
    size_t length = read_all(stream, &back);
    reverse(back, length);
    int same = length == size && memcmp(bytes, back, size) == 0;
    printf("%s\n", same ? "same" : "different");
    cavalcade_spc_close(stream);
    cavalcade_spc_endpoint_close(endpoint);
    return same ? 0 : 3;
}

int main(int count, char **arguments) {
    if (count == 4 && strcmp(arguments[1], "serve") == 0)
        return serve(arguments[2], atoi(arguments[3]));
    if (count == 5 && strcmp(arguments[1], "ask") == 0)
        return ask(arguments[2], (uint32_t)atoi(arguments[3]), (size_t)atol(arguments[4]));
    return 64;
}
