/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The switch in the kernel: XDP programs at its ports do what crates/baraat/switch does in a process, for all frames whose way is known.
 *
 * What is the same: classes by task-id, sums per task, nominal and actual rate, virtual capacity, epochs, eviction, all in integers.
 * The port's logic (spc_port.h) is a second copy of transport's, and crates/baraat/switch/src/kernel/functions.rs holds the two together: the same
 * headers in, the same frames out, bit for bit.
 *
 * What XDP cannot do, and what is done instead:
 * - It cannot hold a packet back. There is no queue, so each class has a virtual one: bytes offered, less what the link has carried
 *   since. Its length is what the virtual capacity falls with, and what finds no room in it is dropped. So rates are those of the
 *   link and of the classes, but a burst that fits the buffer passes at once, and no packet of one class overtakes one of the other.
 * - It cannot send one frame by several ports with different headers, nor make a packet of another. What is for all ports, what goes to an
 *   unknown address, beacons, and questions that six switches have answered go to the process (XDP_PASS), whose packet
 *   sockets hear what the kernel's stack hears.
 * - It keeps no state per flow: streams that ask for fair shares (RCP) are plain traffic here.
 * - Loops may not stand under a spin lock of the kernel's, so a port is taken by compare-and-swap. A program cannot be put off for
 *   another one on its processor, and never waits while it has a port: who waits, waits for another processor.
 */
#include "kernel.h"
#include "switch.h"

#define HOPS 6
#define SPC_BYTES 26
#define FRAME_BYTES 60
#define ETHERNET 14
#define AGEING 300000000000ULL
#define HEARD_AGAIN 1000000000ULL
#define CHUNK 128
#define LONGEST 65536
/* Byte 4 of the header, and byte 23. */
#define SCALE 0x0f
#define ASKS 0x40
#define PARITY_0 0x80
#define HOP 7

static long (*bpf_loop)(__u32 times, void *step, void *context, __u64 flags) = (void *)BPF_FUNC_loop;
static long (*bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)BPF_FUNC_redirect_map;
static __u64 (*bpf_xdp_get_buff_len)(struct xdp_md *xdp) = (void *)BPF_FUNC_xdp_get_buff_len;
static long (*bpf_xdp_load_bytes)(struct xdp_md *xdp, __u32 offset, void *to, __u32 length) =
	(void *)BPF_FUNC_xdp_load_bytes;
static __s64 (*bpf_csum_diff)(void *from, __u32 from_size, void *to, __u32 to_size, __u32 seed) =
	(void *)BPF_FUNC_csum_diff;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CV_MOST_PORTS);
	__type(key, __u32);
	__type(value, struct cv_port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, CV_MOST_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} links SEC(".maps");

/* Ports by the number of their interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CV_MOST_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} interfaces SEC(".maps");

/* Addresses that were learned; the one that was not used for longest makes room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct cv_place);
} learned SEC(".maps");

/* Addresses that were said. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct cv_place);
} said SEC(".maps");

/* Bytes that the process has sent by each port, beginning with none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CV_MOST_PORTS);
	__type(key, __u32);
	__type(value, __u64);
} relayed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_state);
} state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_counts);
} counts SEC(".maps");

#include "spc_port.h"

static inline_always __u16 word_at(const __u8 *bytes)
{
	return (__u16)bytes[0] << 8 | bytes[1];
}

static inline_always __u32 long_at(const __u8 *bytes)
{
	return (__u32)word_at(bytes) << 16 | word_at(bytes + 2);
}

static inline_always __u32 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static inline_always __u64 address_at(const __u8 *bytes)
{
	return (__u64)word_at(bytes) << 32 | long_at(bytes + 2);
}

/*
 * Writes a question's answer into the header, and corrects the UDP checksum by the difference (RFC 1624). Returns the number of ports that
 * have answered.
 */
static own_stack __u32 write_answer(__u8 *spc, const struct question *question)
{
	__u8 new[SPC_BYTES], hop = spc[23] & HOP;
	__u32 stated = word_at(spc - 2), sum;
	int at;

	__builtin_memcpy(new, spc, SPC_BYTES);
#pragma unroll
	for (at = 0; at < HOPS; at++) {
		if (at != hop)
			continue;
		new[5 + 2 * at] = question->nominal;
		new[6 + 2 * at] = question->actual;
		if (at == 0)
			new[4] = (new[4] & ~PARITY_0) | (question->parity ? PARITY_0 : 0);
		else
			new[23] = (new[23] & ~(4 << at)) | (question->parity ? 4 << at : 0);
	}
	new[23]++;
	sum = (__u16)~stated;
#pragma unroll
	for (at = 0; at < SPC_BYTES; at += 2)
		sum += (__u16)~word_at(spc + at) + (__u32)word_at(new + at);
	if (stated) {
		sum = (__u16)~fold(sum);
		if (!sum)
			sum = 0xffff;
		spc[-2] = sum >> 8;
		spc[-1] = sum;
	}
	__builtin_memcpy(spc, new, SPC_BYTES);
	return new[23] & HOP;
}

struct summing {
	struct xdp_md *xdp;
	__u32 at;
	__u32 left;
	__u32 sum;
};

static long add_chunk(__u32 number, struct summing *summing)
{
	__u8 chunk[CHUNK] = {};
	__u32 length = summing->left;

	if (length > CHUNK)
		length = CHUNK;
	if (length == 0 || length > CHUNK || bpf_xdp_load_bytes(summing->xdp, summing->at, chunk, length))
		return 1;
	summing->sum = bpf_csum_diff(0, 0, chunk, CHUNK, summing->sum);
	summing->at += length;
	summing->left -= length;
	return 0;
}

#define IS_PLAIN 0
#define IS_SPC 1
#define IS_MALFORMED 2

/* A frame as far as the switch reads it. */
struct content {
	__u32 kind;
	__u32 addresses; /* Offset of the IP addresses, and their words. */
	__u32 words;
	__u32 transport; /* Offset of the header behind IP's. */
	__u32 length; /* From there on, as IP's header says. */
	__u8 protocol; /* 0 where it is a fragment, or unknown. */
};

static inline_always struct content classify(const __u8 *frame, const __u8 *end)
{
	struct content content = {};
	const __u8 *spc;
	__u32 options;

	if (frame + ETHERNET + 20 > end)
		return content;
	if (word_at(frame + 12) == 0x0800) {
		options = frame[ETHERNET] & 15;
		if (frame[ETHERNET] >> 4 != 4 || options < 5 || word_at(frame + ETHERNET + 6) & 0x3fff)
			return content;
		content.protocol = frame[ETHERNET + 9];
		content.addresses = ETHERNET + 12;
		content.words = 4;
		content.transport = ETHERNET + 4 * options;
		content.length = less(word_at(frame + ETHERNET + 2), 4 * options);
	} else if (word_at(frame + 12) == 0x86dd) {
		content.protocol = frame[ETHERNET + 6];
		content.addresses = ETHERNET + 8;
		content.words = 16;
		content.transport = ETHERNET + 40;
		content.length = word_at(frame + ETHERNET + 4);
	}
	if (content.protocol != 17)
		return content;
	spc = frame + content.transport + 8;
	if (spc + SPC_BYTES + 4 > end)
		return content;
	if (long_at(spc + SPC_BYTES) == 0x52435001) {
		if (spc + FRAME_BYTES > end || spc[30] > 3 || (spc[23] & HOP) > HOPS)
			content.kind = IS_MALFORMED;
		return content;
	}
	if (long_at(spc + SPC_BYTES) != 0x53504301)
		return content;
	content.kind = IS_SPC;
	if (spc + FRAME_BYTES > end || spc[30] > 3 || (spc[23] & HOP) > HOPS)
		content.kind = IS_MALFORMED;
	return content;
}

/*
 * Computes the checksum of TCP or UDP where the sender's kernel has left it to a device: then the sum of the pseudo-header stands in its
 * place. Where a whole checksum is that by chance, it is computed again and stays as it is. Returns 1 where it was written.
 */
static own_stack int finish(struct xdp_md *xdp, const struct content *content)
{
	__u32 addresses = content->addresses, words = content->words, transport = content->transport;
	__u32 length = content->length, protocol = content->protocol;
	__u8 *frame = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end, *place;
	__u32 field = protocol == IPPROTO_TCP ? 16 : 6, sum, at;
	struct summing summing = { .xdp = xdp, .at = transport, .left = length };

	if (length < field + 2 || transport > 128 || addresses > 32)
		return 0;
	sum = to_network_16(protocol) + to_network_16(length);
	if (frame + addresses + 8 > end || (words == 16 && frame + addresses + 32 > end))
		return 0;
	if (words == 16) {
#pragma unroll
		for (at = 4; at < 16; at++)
			sum += *(__u16 *)(frame + addresses + 2 * at);
	}
#pragma unroll
	for (at = 0; at < 4; at++)
		sum += *(__u16 *)(frame + addresses + 2 * at);
	place = frame + transport + field;
	if (place + 2 > end || *(__u16 *)place != fold(sum))
		return 0;
	bpf_loop(LONGEST / CHUNK, add_chunk, &summing, 0);
	if (summing.left)
		return 0;
	sum = (__u16)~fold(summing.sum);
	if (!sum && protocol != IPPROTO_TCP)
		sum = 0xffff;
	frame = (void *)(long)xdp->data;
	end = (void *)(long)xdp->data_end;
	place = frame + transport + field;
	if (place + 2 > end)
		return 0;
	*(__u16 *)place = sum;
	return 1;
}

static inline_always void learn(const __u8 *source, __u32 from, __u64 now, __u64 era)
{
	__u64 address = address_at(source);
	struct cv_place *known, place = { .port = from, .heard = now, .era = era };

	if (source[0] & 1)
		return;
	known = bpf_map_lookup_elem(&said, &address);
	if (known)
		return;
	known = bpf_map_lookup_elem(&learned, &address);
	if (!known || known->port != from || known->era != era)
		bpf_map_update_elem(&learned, &address, &place, BPF_ANY);
	else if (between(known->heard, now) >= HEARD_AGAIN)
		known->heard = now;
}

/* The port of an address, or CV_MOST_PORTS. */
static inline_always __u32 port_of(const __u8 *destination, __u64 now, __u64 era)
{
	__u64 address = address_at(destination);
	struct cv_place *known = bpf_map_lookup_elem(&said, &address);

	if (known)
		return known->port;
	known = bpf_map_lookup_elem(&learned, &address);
	if (!known || known->era != era || between(known->heard, now) >= AGEING)
		return CV_MOST_PORTS;
	return known->port;
}

/* Puts a packet of SPC into its queue, after it has been answered where it asks. */
static inline_always int offer_spc(struct cv_port *port, __u32 to, __u8 *spc, __u64 size, __u64 now)
{
	struct question question = {};
	__u8 hop = spc[23] & HOP, of_sender = spc[30] == 0 || spc[30] == 2, asks = spc[4] & ASKS;
	int at;

	if (of_sender && asks && hop >= HOPS)
		return XDP_PASS;
	if (port->spc_queued + size > port->buffer) {
		port->spc_dropped++;
		return XDP_DROP;
	}
	if (of_sender) {
		see(port, now, least_of(size, 0xffff));
		if (asks) {
			question.id = long_at(spc);
			question.unit = 1ULL << (spc[4] & SCALE);
			question.demand = spc[24];
			question.previous_demand = spc[25];
#pragma unroll
			for (at = 0; at < HOPS; at++)
				if (at == hop) {
					question.previous = spc[17 + at];
					question.parity = at ? spc[23] >> (2 + at) & 1 : spc[4] >> 7;
				}
			question.parity = answer(port, to, now, &question);
			port->questions += write_answer(spc, &question) > 0;
		}
	}
	port->spc_queued += size;
	port->spc_packets++;
	port->spc_bytes += size;
	if (port->spc_longest < port->spc_queued)
		port->spc_longest = port->spc_queued;
	return XDP_REDIRECT;
}

static inline_always int offer_plain(struct cv_port *port, __u64 size)
{
	if (port->plain_queued + size > port->buffer) {
		port->plain_dropped++;
		return XDP_DROP;
	}
	port->plain_queued += size;
	port->plain_packets++;
	port->plain_bytes += size;
	if (port->plain_longest < port->plain_queued)
		port->plain_longest = port->plain_queued;
	return XDP_REDIRECT;
}

/* What the process has sent is in the way of plain traffic as well. */
static inline_always void count_relayed(struct cv_port *port, __u32 to)
{
	__u64 *sent = bpf_map_lookup_elem(&relayed, &to);

	if (!sent || *sent == port->relayed)
		return;
	port->plain_queued = least_of(port->plain_queued + *sent - port->relayed, port->buffer);
	port->relayed = *sent;
}

static inline_always int carry(struct xdp_md *xdp, __u64 now, __u64 era)
{
	__u8 *frame = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end, *spc;
	__u32 zero = 0, interface = xdp->ingress_ifindex, *from, to;
	struct cv_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct content content;
	struct cv_port *port;
	__u64 size;
	int verdict;

	from = bpf_map_lookup_elem(&interfaces, &interface);
	if (!count || !from || frame + ETHERNET > end)
		return XDP_PASS;
	learn(frame + 6, *from, now, era);
	if (frame[0] & 1)
		return XDP_PASS;
	content = classify(frame, end);
	if (content.kind == IS_MALFORMED) {
		count->received++;
		count->malformed++;
		return XDP_DROP;
	}
	to = port_of(frame, now, era);
	port = bpf_map_lookup_elem(&ports, &to);
	if (!port)
		return XDP_PASS;
	size = bpf_xdp_get_buff_len(xdp) - ETHERNET;
	if (to == *from || size > port->mtu) {
		count->received++;
		count->filtered += to == *from;
		count->too_large += to != *from;
		return XDP_DROP;
	}
	if (content.protocol == IPPROTO_TCP || content.protocol == 17) {
		count->finished += finish(xdp, &content);
		frame = (void *)(long)xdp->data;
		end = (void *)(long)xdp->data_end;
	}
	if (!take(port, to)) {
		__sync_fetch_and_add(&port->busy, 1);
		return XDP_DROP;
	}
	count_relayed(port, to);
	drain(port, now);
	spc = frame + content.transport + 8;
	if (content.kind != IS_SPC)
		verdict = offer_plain(port, size);
	else if (content.transport > 128 || spc + FRAME_BYTES > end)
		verdict = XDP_DROP;
	else
		verdict = offer_spc(port, to, spc, size, now);
	give_back(port);
	if (verdict == XDP_PASS)
		return XDP_PASS;
	count->received++;
	return verdict == XDP_REDIRECT ? bpf_redirect_map(&links, to, XDP_DROP) : verdict;
}

SEC("xdp.frags")
int forward(struct xdp_md *xdp)
{
	__u32 zero = 0;
	struct cv_state *now = bpf_map_lookup_elem(&state, &zero);

	return now && now->forwards ? carry(xdp, bpf_ktime_get_ns(), now->era) : XDP_PASS;
}

/* The switch at a time that a test says. Nothing attaches it. */
SEC("xdp.frags")
int forward_as_function(struct xdp_md *xdp)
{
	__u32 zero = 0;
	struct cv_state *now = bpf_map_lookup_elem(&state, &zero);

	return now ? carry(xdp, now->now, now->era) : XDP_PASS;
}

char terms[] SEC("license") = "GPL";
