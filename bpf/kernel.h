/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the kernel offers to programs, as far as these use it: helpers by their numbers, flags, options of sockets.
 *
 * Numbers and contexts are the kernel's stable interface (linux/bpf.h); libbpf's headers say the same and would be one
 * more thing to install.
 */
#ifndef CAVALCADE_KERNEL_H
#define CAVALCADE_KERNEL_H

#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
/* Contexts may be read in words of their own size only; the compiler would join two of them. */
#define read_word(x) (*(const volatile __u32 *)&(x))
#define inline_always inline __attribute__((always_inline))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define from_network_16(x) __builtin_bswap16(x)
#define from_network_32(x) __builtin_bswap32(x)
#define to_network_16(x) __builtin_bswap16(x)
#define to_network_32(x) __builtin_bswap32(x)
#else
#define from_network_16(x) (x)
#define from_network_32(x) (x)
#define to_network_16(x) (x)
#define to_network_32(x) (x)
#endif

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) =
	(void *)BPF_FUNC_map_update_elem;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u32 (*bpf_get_prandom_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;
static __u64 (*bpf_get_current_ancestor_cgroup_id)(int level) = (void *)BPF_FUNC_get_current_ancestor_cgroup_id;
static __u64 (*bpf_get_current_uid_gid)(void) = (void *)BPF_FUNC_get_current_uid_gid;
static long (*bpf_skb_load_bytes)(const void *skb, __u32 offset, void *to, __u32 length) =
	(void *)BPF_FUNC_skb_load_bytes;
static struct bpf_sock *(*bpf_sk_fullsock)(struct bpf_sock *sk) = (void *)BPF_FUNC_sk_fullsock;
static struct bpf_tcp_sock *(*bpf_tcp_sock)(struct bpf_sock *sk) = (void *)BPF_FUNC_tcp_sock;
static void *(*bpf_skc_to_tcp_sock)(void *sk) = (void *)BPF_FUNC_skc_to_tcp_sock;
static void *(*bpf_skc_to_mptcp_sock)(void *sk) = (void *)BPF_FUNC_skc_to_mptcp_sock; /* Since Linux 5.19. */
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, __u64 flags) = (void *)BPF_FUNC_sk_storage_get;
static long (*bpf_sk_storage_delete)(void *map, void *sk) = (void *)BPF_FUNC_sk_storage_delete;
static long (*bpf_setsockopt)(void *sk, int level, int option, void *value, int length) = (void *)BPF_FUNC_setsockopt;
static long (*bpf_getsockopt)(void *sk, int level, int option, void *value, int length) = (void *)BPF_FUNC_getsockopt;
static long (*bpf_load_hdr_opt)(struct bpf_sock_ops *ops, void *option, __u32 length, __u64 flags) =
	(void *)BPF_FUNC_load_hdr_opt;
static long (*bpf_store_hdr_opt)(struct bpf_sock_ops *ops, const void *option, __u32 length, __u64 flags) =
	(void *)BPF_FUNC_store_hdr_opt;
static long (*bpf_reserve_hdr_opt)(struct bpf_sock_ops *ops, __u32 length, __u64 flags) =
	(void *)BPF_FUNC_reserve_hdr_opt;
static long (*bpf_ringbuf_output)(void *ring, void *data, __u64 size, __u64 flags) = (void *)BPF_FUNC_ringbuf_output;
static long (*bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *ops, int flags) = (void *)BPF_FUNC_sock_ops_cb_flags_set;

#define EEXIST 17
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define IPPROTO_TCP 6
#define TCP_SYN_SENT 2
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define FLAG_FIN 1
#define FLAG_SYN 2

#define SOL_IP 0
#define IP_TOS 1
#define SOL_SOCKET 1
#define SO_PRIORITY 12
#define SO_MAX_PACING_RATE 47
#define SOL_TCP 6
#define TCP_NODELAY 1
#define TCP_KEEPIDLE 4
#define TCP_CONGESTION 13
#define TCP_SAVE_SYN 27
#define SOL_IPV6 41
#define IPV6_TCLASS 67
#define SET_SOCK_OPS_FLAGS 1008 /* TCP_BPF_SOCK_OPS_CB_FLAGS, since Linux 6.12 */

#endif
