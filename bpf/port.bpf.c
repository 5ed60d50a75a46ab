/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Marks at a port of the lab: a packet that joins a queue of so many bytes or more is marked (ECN), as a switch does it for DCTCP.
 *
 * The queues are virtual. HTB, which holds the port to its rate, says nothing of its queues to programs; so the program keeps the
 * sums that its queues have. What arrives is added to its class, and what the time since has sent is taken away, from the highest
 * class first. An idle port saves up a burst, as HTB does: what passes at once has no queue, and lengthens no round trip.
 *
 * Packets of a flow arrive joined (GSO): all of them find the queue that the first finds, and are marked or not together.
 *
 * A port's egress runs on all processors at once, without a lock of the kernel's. The sums are therefore behind a lock of their own:
 * each packet finds what all before it have left, and none is lost or counted twice. The clock is read before the lock is taken
 * (the kernel allows no call inside), so that of two packets the later one may come with the earlier time; it then drains nothing.
 */
#include "kernel.h"
#include "port.h"

static long (*bpf_skb_ecn_set_ce)(struct __sk_buff *skb) = (void *)BPF_FUNC_skb_ecn_set_ce;
static long (*bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_lock;
static long (*bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_unlock;

#define SECOND 1000000000ull
#define OF_IPV4 0x0800
#define ETHERNET 14
/* Packets below 128 bytes have a queue of their own, which marks nothing. */
#define OF_DATA 0xff80
#define ECN_BITS 3

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_port);
} port SEC(".maps");

/* The class of each DSCP. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CV_DSCPS);
	__type(key, __u32);
	__type(value, __u32);
} classes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_passed);
} passed SEC(".maps");

struct queues {
	struct bpf_spin_lock lock;
	/* What left by then is taken away. */
	__u64 drained_at;
	/* Bytes that pass at once. */
	__u64 saved;
	__u64 bytes[CV_CLASSES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queues);
} queues SEC(".maps");

/* Takes away what the time until `now` has sent. What is left of it, less than a byte, counts the next time. */
static inline_always void drain(struct queues *of, __u64 rate, __u64 burst, __u64 now)
{
	__u64 budget, saved, elapsed = now > of->drained_at ? now - of->drained_at : 0;

	/* Whole seconds by themselves: the product is to fit into a word. */
	if (elapsed >= SECOND) {
		budget = elapsed / SECOND * rate;
		of->drained_at = now - elapsed % SECOND;
	} else {
		budget = elapsed * rate / SECOND;
		of->drained_at += budget * SECOND / rate;
	}
	for (int class = 0; class < CV_CLASSES; class++) {
		__u64 sent = of->bytes[class] < budget ? of->bytes[class] : budget;

		of->bytes[class] -= sent;
		budget -= sent;
	}
	if (!budget)
		return;
	of->drained_at = now;
	saved = of->saved + budget;
	of->saved = saved < burst ? saved : burst;
}

/* Lets a packet join, and returns the bytes that it found in its queue. */
static inline_always __u64 join(struct queues *of, const struct cv_port *settings, __u32 class, __u32 bytes, __u64 now)
{
	__u64 found, passing, rate = settings->rate, burst = settings->burst, limit = settings->limit;

	bpf_spin_lock(&of->lock);
	drain(of, rate, burst, now);
	passing = bytes < of->saved ? bytes : of->saved;
	of->saved -= passing;
	bytes -= passing;
	found = of->bytes[class & (CV_CLASSES - 1)];
	if (found + bytes <= limit)
		of->bytes[class & (CV_CLASSES - 1)] = found + bytes;
	bpf_spin_unlock(&of->lock);
	return found;
}

SEC("classifier")
int mark(struct __sk_buff *skb)
{
	__u32 zero = 0, segments = skb->gso_segs ? skb->gso_segs : 1, dscp, *class;
	struct cv_port *settings = bpf_map_lookup_elem(&port, &zero);
	struct cv_passed *counts = bpf_map_lookup_elem(&passed, &zero);
	struct queues *of = bpf_map_lookup_elem(&queues, &zero);
	__u8 head[4];
	__u64 found;

	if (!settings || !counts || !of || !settings->rate || skb->protocol != to_network_16(OF_IPV4) ||
	    bpf_skb_load_bytes(skb, ETHERNET, head, sizeof(head)) < 0 || !((head[2] << 8 | head[3]) & OF_DATA))
		return 0;
	dscp = head[1] >> 2;
	class = bpf_map_lookup_elem(&classes, &dscp);
	if (!class)
		return 0;
	found = join(of, settings, *class, skb->wire_len, bpf_ktime_get_ns());
	if (!(head[1] & ECN_BITS))
		return 0;
	__sync_fetch_and_add(&counts->markable, segments);
	if (found >= settings->mark_at && bpf_skb_ecn_set_ce(skb))
		__sync_fetch_and_add(&counts->marked, segments);
	return 0;
}

char terms[] SEC("license") = "GPL";
