/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Users' shares of the table of counts: a user may have as many flows as are free.
 *
 * One who wants all therefore gets half of the table, two get a third each, and however many there are, a part of it stays free for
 * the next user. Nobody has to choose a number. Programs begin flows, and only the enforcer takes them out of the table: each side
 * counts what it does, so that neither overwrites what the other has written.
 */
#ifndef CAVALCADE_SHARE_H
#define CAVALCADE_SHARE_H

#include "flow.h"

#define USERS 65536

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, USERS);
	__type(key, __u32);
	__type(value, __u64);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, USERS);
	__type(key, __u32);
	__type(value, __u64);
} ended SEC(".maps");

/* The flows that a user has. One that has ended while it began may be missing for a moment, never below none. */
static inline_always __s64 flows_of(__u32 user)
{
	__u64 *from = bpf_map_lookup_elem(&begun, &user), *to = bpf_map_lookup_elem(&ended, &user);

	return (from ? *from : 0) - (to ? *to : 0);
}

static inline_always int has_room(__u32 user)
{
	return flows_of(user) < CV_FLOWS - flows_of(CV_EVERYBODY);
}

static inline_always void begin_flow(__u32 user)
{
	__u64 *count = bpf_map_lookup_elem(&begun, &user), none = 0;

	if (!count) {
		bpf_map_update_elem(&begun, &user, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&begun, &user);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
}

#endif
