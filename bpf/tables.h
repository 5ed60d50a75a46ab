/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the enforcer tells the programs, and they it, beside what sockets carry (flow.h): which sockets belong to which coflow, how
 * flows are to be sent, what holds for all, and what has happened.
 */
#ifndef CAVALCADE_TABLES_H
#define CAVALCADE_TABLES_H

#include "flow.h"

#define COFLOWS 65536
#define RULES 1024
#define CLAIMS 16384
#define TURNS 4096
#define MADE_BYTES (256 << 10)
#define TURNED_BYTES (64 << 10)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CV_GROUPS);
	__type(key, __u64);
	__type(value, __u32);
} groups SEC(".maps");

/* Coflows of rules: all sockets of a user, and all connections to or from a port. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RULES);
	__type(key, __u32);
	__type(value, __u32);
} users SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RULES);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

/* The coflows that there are: a connection may outlive its coflow. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COFLOWS);
	__type(key, __u32);
	__type(value, struct cv_coflow);
} coflows SEC(".maps");

/* By coflow, the bytes of packets that its sockets sent by other means than TCP: UDP, and what it
 * carries. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, COFLOWS);
	__type(key, __u32);
	__type(value, __u64);
} strays SEC(".maps");

/* Connections from outside whose other end has named a coflow, or vouches for one. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CLAIMS);
	__type(key, struct cv_pair);
	__type(value, struct cv_claim);
} claims SEC(".maps");

/* Connections of tagged sockets, for whose coflow the enforcer is to vouch. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, MADE_BYTES);
} made SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CV_FLOWS);
	__type(key, struct cv_flow);
	__type(value, struct cv_order);
} orders SEC(".maps");

/* Flows one of whose connections is taking its turn at a gate that is off, for as long as that
 * takes, with the time at which it began: so no two take the same one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TURNS);
	__type(key, struct cv_flow);
	__type(value, __u64);
} turns SEC(".maps");

/* Flows that are counted from now on (to find them among the counts takes a look at every place of that table), and those that have
 * got their first connection or lost their last: the enforcer need not find that out by looking all the time. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TURNED_BYTES);
} turned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_settings);
} settings SEC(".maps");

static inline_always struct cv_settings *read_settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

static inline_always int is_lifted(const struct cv_settings *all, __u64 now)
{
	return all->is_lifted || (now > all->alive_at && now - all->alive_at > all->silence);
}

#endif
