/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The kernel path: connections of programs that know nothing of coflows are tagged, counted, gated, paced and marked.
 *
 * tag          a socket that is made in a coflow's control group, or by its user, carries the coflow; what it accepts
 *              inherits that, and so do the subflows of MPTCP, which the kernel makes
 * connections  a connection learns its peer when it is made, and takes on its flow's rate and class; one that has no coflow
 *              yet may get one by its port, or from the other end (see struct option)
 * gate         counts new data as it leaves, and refuses it while the flow is off; what is no TCP
 *              it counts apart (strays)
 * touch        brings one connection up to date, when the enforcer sets an option of it, and lets one go when its client library says
 *              so by an option
 * refresh      goes over all TCP sockets: sets what has changed, pushes what waited at a gate that has opened, and tags what was there
 *              before (late.h)
 *
 * Orders are for flows, however many connections they have: a rate is shared out among those with data to send (share_of), and what
 * passes a gate that is off passes it for all of them (trickles).
 *
 * Where this host sorts messages by itself (demotion.h), their class is set with each packet, whatever class the orders say, unless that
 * is one of flows with deadlines.
 *
 * Invariants. Without a sign of life from the enforcer for settings.silence every gate is open, and a connection that sends
 * gets back its own rate and class within a round trip; a mark that only the enforcer can set stays (options.h). Retransmissions,
 * acknowledgements and everything without payload always pass. Whatever a program cannot read or find it lets pass.
 *
 * OFF is no low rate: a connection that was paced at some kbps wakes up tenths of seconds, or minutes, after the rate has
 * changed. TCP keeps refused data as unsent, and a push makes it try again at once.
 */
#include "demotion.h"
#include "late.h"
#include "options.h"
#include "share.h"
#include "tables.h"

#define PAGE 4096
#define REACHED (1ull << 32)

/* The orders of a flow, or else those of its coflow for all peers; NULL where nothing is to be limited. */
static inline_always struct cv_order *order_of(const struct cv_socket *socket, __u64 now)
{
	struct cv_settings *all = read_settings();
	struct cv_flow flow = flow_of(socket);
	struct cv_order *order;

	if (!all || is_lifted(all, now))
		return 0;
	order = bpf_map_lookup_elem(&orders, &flow);
	if (order)
		return order;
	to_all_peers(&flow);
	return bpf_map_lookup_elem(&orders, &flow);
}

/* The count of a flow; NULL where its coflow is forgotten, or its user has too many flows. */
static inline_always struct cv_count *count_of(const struct cv_socket *socket)
{
	struct cv_flow flow = flow_of(socket);
	struct cv_count *count = bpf_map_lookup_elem(&counts, &flow);
	struct cv_coflow *coflow;
	struct cv_count fresh = {};

	if (count)
		return count;
	coflow = bpf_map_lookup_elem(&coflows, &flow.coflow);
	if (!coflow || !has_room(coflow->owner))
		return 0;
	if (!bpf_map_update_elem(&counts, &flow, &fresh, BPF_NOEXIST)) {
		begin_flow(coflow->owner);
		begin_flow(CV_EVERYBODY);
		bpf_ringbuf_output(&turned, &flow, sizeof(flow), BPF_RB_NO_WAKEUP);
	}
	return bpf_map_lookup_elem(&counts, &flow);
}

/* Notes whether a connection's application has written more than has passed. */
static inline_always void note_unsent(struct cv_socket *socket, struct cv_count *count, int is_unsent)
{
	if (!!socket->is_unsent == is_unsent)
		return;
	socket->is_unsent = is_unsent;
	/* A count that was forgotten meanwhile has none to take away. */
	if (socket->is_counted && (is_unsent || count->unsent))
		__sync_fetch_and_add(&count->unsent, is_unsent ? 1 : -1);
}

static inline_always void count_socket(struct cv_socket *socket, int is_open)
{
	struct cv_flow flow = flow_of(socket);
	struct cv_count *count;

	if (!!socket->is_counted == is_open)
		return;
	count = count_of(socket);
	if (!count)
		return;
	/* A count that was forgotten meanwhile has none to take away. */
	if (is_open || count->sockets)
		__sync_fetch_and_add(&count->sockets, is_open ? 1 : -1);
	/* Only while it is counted: that it ends is not said of others. */
	if (!is_open)
		note_unsent(socket, count, 0);
	socket->is_counted = is_open;
	if (is_open && socket->is_unsent)
		__sync_fetch_and_add(&count->unsent, 1);
	if (count->sockets == (is_open ? 1 : 0))
		bpf_ringbuf_output(&turned, &flow, sizeof(flow), 0);
}

/* Has a listening socket keep SYNs, so that what they say can be read when a connection is there. */
static inline_always void save_syns(void *sk)
{
	int on = 1;

	bpf_setsockopt(sk, SOL_TCP, TCP_SAVE_SYN, &on, sizeof(on));
}

/*
 * The class, plus one, that this host gives to a message which has sent so much; 0 where it gives none. A flow with a deadline goes
 * above all messages as long as the orders, or else the clock, let it, and after that below them.
 */
static inline_always __u32 sort(const struct cv_socket *socket, const struct cv_order *order, __u64 sent, __u64 now)
{
	struct cv_demotion *rule = read_demotion();
	struct cv_settings *all = read_settings();
	struct cv_flow flow = flow_of(socket);
	__u64 deadline, size;
	struct cv_goal *goal;

	if (!rule || !all || is_lifted(all, now) || (order && order->class < rule->first))
		return 0;
	goal = bpf_map_lookup_elem(&goals, &flow);
	size = goal ? goal->size : 0;
	if (!goal) {
		to_all_peers(&flow);
		goal = bpf_map_lookup_elem(&goals, &flow);
	}
	deadline = goal && rule->first ? goal->deadline : 0;
	if (deadline && order && order->class != CV_KEEP)
		return 0;
	if (deadline)
		return now < deadline ? 1 : rule->last + 1;
	return class_of_message(rule, socket, sent, size) + 1;
}

/* The same of a message whose next bytes are sent now, which may begin it; `is_done` if all before them have been acknowledged. */
static inline_always __u32 sort_next(struct cv_socket *socket, const struct cv_order *order, int is_done, __u64 now)
{
	struct cv_settings *all = read_settings();
	int begins = all && begins_message(socket, is_done, now, all->idle);

	if (begins)
		socket->lifts = 0;
	return sort(socket, order, begins ? 0 : socket->message, now);
}

/*
 * The rate that a connection may have of its flow's: an equal part with all that have data to send. It is taken anew whenever the
 * connection is brought up to date, so within a round trip of one that begins or ends, or is done for now, the others have its part.
 */
static inline_always __u32 share_of(const struct cv_socket *socket, const struct cv_order *order)
{
	struct cv_flow flow = flow_of(socket);
	struct cv_count *count;
	__u64 senders = 1;
	__u32 share;

	if (!order || order->rate == CV_UNLIMITED)
		return CV_UNLIMITED;
	count = bpf_map_lookup_elem(&counts, &flow);
	if (count)
		senders = count->unsent + !(socket->is_unsent && socket->is_counted);
	/* A count that has lost its way may not take a part of the rate for good. */
	if (count && senders > count->sockets)
		senders = count->sockets;
	if (senders <= 1)
		return order->rate;
	share = order->rate / senders;
	if (share < CV_LEAST_SHARE)
		share = CV_LEAST_SHARE;
	return share < order->rate ? share : order->rate;
}

/* Whether a share is another one. By a thirty-second it is not: of hundreds of connections one is always done or begins. */
static inline_always int is_other_share(__u64 share, __u64 before)
{
	return share > before + before / 32 || share < before - before / 32;
}

/* Sets what the orders say and what this host's own sorting says, or what the application had said where there is neither. `sk` is what
 * options are set on, which a program over connections has in its context, `common` the socket itself, where the program may read it. */
static inline_always void follow(void *sk, void *common, int is_v6, struct cv_socket *socket,
				 const struct cv_order *order, __u32 class)
{
	__u32 own_rate, index = class - 1, generation = order ? order->generation : 0;
	struct cv_class *sorted = class ? bpf_map_lookup_elem(&classes, &index) : 0;
	struct tcp_sock *tcp = 0;
	__u32 rate, tos, priority, share = share_of(socket, order);
	int is_new_rate = generation != socket->applied || (generation && is_other_share(share, socket->share));

	if (!is_new_rate && class == socket->class)
		return;
	/* What its application has set can be read through the socket itself alone. */
	if (!common && is_mapped(is_v6, socket) && !socket->applied && !socket->class)
		return;
	if (common) {
		tcp = bpf_skc_to_tcp_sock(common);
		if (!tcp)
			return;
	}
	if (!socket->applied && !socket->class)
		remember_own(sk, tcp, is_v6, socket);
	own_rate = socket->own_rate;
	rate = share < own_rate ? share : own_rate;
	tos = sorted ? sorted->tos : order && order->tos != CV_KEEP ? order->tos : (__u32)socket->own_tos;
	priority = sorted ? sorted->priority :
		   order && order->priority != CV_KEEP ? order->priority : (__u32)socket->own_priority;
	if (is_new_rate) {
		set_rate(sk, tcp, rate);
		socket->share = share;
	}
	if (is_mapped(is_v6, socket)) {
		ask_for_mark(socket, tos, priority);
		tos = CV_KEEP;
	}
	set_class(sk, is_v6, tos, priority);
	socket->applied = generation;
	socket->class = class;
}

/*
 * A listener for both families was given its class as IPv6 has it. What it accepts over IPv4 has the mark of the listener's IP_TOS instead,
 * and takes on its class anew. Rate and priority are the same for both.
 */
static inline_always void begin_mapped(struct cv_socket *socket, const struct tcp_sock *tcp)
{
	if (!tcp || !(socket->applied || socket->class))
		return;
	socket->own_tos = tcp->inet_conn.icsk_inet.tos & DSCP_BITS;
	socket->class = CV_KEEP;
}

/* Brings a connection up to date. */
static inline_always void update(void *sk, void *common, int is_v6, struct cv_socket *socket)
{
	__u64 now = bpf_ktime_get_ns();
	struct cv_order *order = order_of(socket, now);

	follow(sk, common, is_v6, socket, order, sort(socket, order, socket->message, now));
}

/* Gives a socket the place's congestion control, or its own where there is none, no marks to go by, or it is plain TCP. */
static inline_always void choose_control(void *sk, struct cv_socket *socket, int is_free)
{
	struct cv_settings *all = read_settings();
	__u64 now = bpf_ktime_get_ns();
	int is_chosen = all && all->control_0 && is_free && socket->coflow && !is_lifted(all, now);
	struct cv_order *order = is_chosen ? order_of(socket, now) : 0;

	is_chosen = is_chosen && !(order && order->gate == CV_PLAIN);
	steer(sk, socket, is_chosen ? all->control_0 : 0, is_chosen ? all->control_1 : 0);
}

/* Has listeners accept what asks for marks as congestion controls do; what connects asks by its own control. */
static inline_always void accept_marks(struct bpf_sock_ops *ops)
{
	struct cv_settings *all = read_settings();

	if (!ops->is_fullsock && all && all->control_0 && !is_lifted(all, bpf_ktime_get_ns()))
		ops->reply = 1;
}

/* The innermost group that stands for a coflow counts: programs make groups of their own below it. A rule for the user comes
 * after all groups. */
SEC("cgroup/sock_create")
int tag(struct bpf_sock *sk)
{
	struct cv_socket fresh = {};
	__u32 *coflow = 0;
	__u32 user;
	__u64 group;

	if ((sk->type != SOCK_STREAM && sk->type != SOCK_DGRAM) || (sk->family != AF_INET && sk->family != AF_INET6))
		return 1;
	for (int depth = DEEPEST_GROUP; depth > 0 && !coflow; depth--) {
		group = bpf_get_current_ancestor_cgroup_id(depth);
		if (group)
			coflow = bpf_map_lookup_elem(&groups, &group);
	}
	if (!coflow) {
		user = bpf_get_current_uid_gid();
		coflow = bpf_map_lookup_elem(&users, &user);
	}
	if (coflow) {
		fresh.coflow = *coflow;
		bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	}
	return 1;
}

/* The storage of a connection that has none yet: a rule may name the port that it is made to, or was accepted at. */
static inline_always struct cv_socket *tag_by_port(struct bpf_sock_ops *ops, struct bpf_sock *sk)
{
	struct cv_socket fresh = {};
	__u32 *coflow;
	__u32 port;

	if (ops->op == BPF_SOCK_OPS_TCP_CONNECT_CB)
		port = from_network_32(ops->remote_port);
	else if (ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		port = ops->local_port;
	else
		return 0;
	coflow = bpf_map_lookup_elem(&ports, &port);
	if (!coflow)
		return 0;
	fresh.coflow = *coflow;
	return bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

/* The storage of a subflow of a socket of MPTCP that has some: subflows are sockets that the kernel
 * makes, under no process. One that listens passes it on to what it accepts, also where the other
 * end knows no MPTCP. */
static inline_always struct cv_socket *tag_subflow(struct bpf_sock_ops *ops, struct bpf_sock *sk)
{
	struct cv_socket fresh = {}, *of_whole;
	void *whole;

	if (ops->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ops->op != BPF_SOCK_OPS_TCP_LISTEN_CB &&
	    ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 0;
	whole = bpf_skc_to_mptcp_sock(sk);
	if (!whole)
		return 0;
	of_whole = bpf_sk_storage_get(&sockets, whole, 0, 0);
	if (!of_whole || !of_whole->coflow)
		return 0;
	fresh.coflow = of_whole->coflow;
	return bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

/*
 * What a SYN says of the connection's coflow: option 254 with an identifier of its own (RFC 6994). Anybody can write one, so
 * it counts for nothing by itself: the enforcer of the other end has to vouch for the connection, over another way that
 * can be trusted. It saves looking for the connection among all others when that word comes.
 */
struct option {
	__u8 kind;
	__u8 length;
	__u16 identifier;
	__u32 serial_low;
	__u32 serial_high;
};

#define OPTION_KIND 254
#define OPTION_IDENTIFIER to_network_16(0xca7a)

static inline_always int vouches(void)
{
	struct cv_settings *all = read_settings();

	return all && all->vouches;
}

static inline_always __u32 ports_of(struct bpf_sock_ops *ops)
{
	return from_network_32(ops->remote_port) << 16 | ops->local_port;
}

static inline_always struct cv_pair pair_of(const struct cv_socket *socket)
{
	struct cv_flow flow = flow_of(socket);
	struct cv_pair pair = { socket->ports, flow.peer_0, flow.peer_1, flow.peer_2, flow.peer_3 };

	return pair;
}

/* Has the SYN say the coflow, where its serial is known. */
static inline_always void announce(struct bpf_sock_ops *ops, const struct cv_socket *socket)
{
	__u32 number = socket->coflow;
	struct cv_coflow *coflow = bpf_map_lookup_elem(&coflows, &number);

	if (vouches() && coflow && coflow->serial)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

static inline_always void write_option(struct bpf_sock_ops *ops, const struct cv_socket *socket)
{
	struct option option = { .kind = OPTION_KIND, .length = sizeof(option), .identifier = OPTION_IDENTIFIER };
	__u32 number = socket->coflow;
	struct cv_coflow *coflow = bpf_map_lookup_elem(&coflows, &number);

	if (!coflow || !(ops->skb_tcp_flags & FLAG_SYN))
		return;
	option.serial_low = to_network_32(coflow->serial);
	option.serial_high = to_network_32(coflow->serial >> 32);
	bpf_store_hdr_opt(ops, &option, sizeof(option), 0);
}

/* Tells the enforcer of a connection that was made, for it to vouch. */
static inline_always void tell(struct bpf_sock_ops *ops, const struct cv_socket *socket)
{
	struct cv_flow flow = flow_of(socket);
	struct cv_made connection = { flow.coflow, ports_of(ops), flow.peer_0, flow.peer_1, flow.peer_2, flow.peer_3 };

	/* Both are read first: the compiler would else join the two reads by an address, which contexts do not allow. */
	__u32 of_v4 = read_word(ops->local_ip4), of_v6 = read_word(ops->local_ip6[3]);

	connection.local_3 = ops->family == AF_INET ? of_v4 : of_v6;
	of_v6 = read_word(ops->local_ip6[2]);
	connection.local_2 = ops->family == AF_INET ? to_network_32(0x0000ffffu) : of_v6;
	if (ops->family != AF_INET) {
		connection.local_0 = read_word(ops->local_ip6[0]);
		connection.local_1 = read_word(ops->local_ip6[1]);
	}
	if (vouches())
		bpf_ringbuf_output(&made, &connection, sizeof(connection), 0);
}

/* Gives a socket the coflow for which its other end's enforcer has vouched; false where there is none. */
static inline_always int adopt(struct cv_socket *socket)
{
	struct cv_pair pair = pair_of(socket);
	struct cv_claim *claim = bpf_map_lookup_elem(&claims, &pair);

	if (!claim || !claim->coflow)
		return 0;
	socket->coflow = claim->coflow;
	return 1;
}

static inline_always void learn_peer(struct bpf_sock_ops *ops, struct cv_socket *socket)
{
	if (ops->family == AF_INET) {
		socket->peer_high = 0;
		socket->peer_low = (__u64)read_word(ops->remote_ip4) << 32 | from_network_32(0x0000ffffu);
	} else {
		socket->peer_high = (__u64)read_word(ops->remote_ip6[1]) << 32 | read_word(ops->remote_ip6[0]);
		socket->peer_low = (__u64)read_word(ops->remote_ip6[3]) << 32 | read_word(ops->remote_ip6[2]);
	}
}

/* The storage of a connection that was accepted, has no coflow, and whose SYN names one. */
static inline_always struct cv_socket *take_claim(struct bpf_sock_ops *ops, struct bpf_sock *sk)
{
	struct option option = { .kind = OPTION_KIND, .length = 4, .identifier = OPTION_IDENTIFIER };
	struct cv_socket fresh = {};
	struct cv_claim claim = {};
	struct cv_pair pair;

	if (ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB || !vouches() ||
	    bpf_load_hdr_opt(ops, &option, sizeof(option), BPF_LOAD_HDR_OPT_TCP_SYN) != sizeof(option))
		return 0;
	learn_peer(ops, &fresh);
	fresh.ports = ports_of(ops);
	pair = pair_of(&fresh);
	claim.serial_low = from_network_32(option.serial_low);
	claim.serial_high = from_network_32(option.serial_high);
	/* The word of the other end's enforcer may have come before. */
	bpf_map_update_elem(&claims, &pair, &claim, BPF_NOEXIST);
	return bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

/* Has a packet with new bytes, or ones that are sent again, go in the class of its message. */
static inline_always void sort_packet(struct bpf_sock_ops *ops, struct bpf_sock *sk, int is_v6,
				      struct cv_socket *socket)
{
	__u64 now = bpf_ktime_get_ns();
	struct cv_order *order;

	/* Without payload it belongs to no message. */
	if (!ops->skb_len || !read_demotion())
		return;
	order = order_of(socket, now);
	follow(ops, sk, is_v6, socket, order, sort_next(socket, order, ops->snd_una == ops->snd_nxt, now));
}

/* What `connections` is to be told of a connection. */
static inline_always int wanted(void)
{
	int flags = BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTT_CB_FLAG;

	return read_demotion() ? flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG : flags;
}

/* The storage of a connection that was accepted with marks and belongs to no coflow, where those get the control as well: an end
 * without one keeps echoing a mark until it is told that the window was cut. */
static inline_always struct cv_socket *answer_marks(struct bpf_sock_ops *ops, struct bpf_sock *sk)
{
	struct cv_settings *all = read_settings();
	struct cv_socket fresh = { .coflow = CV_NOBODY };

	if (ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB || !all || !all->answers || is_lifted(all, bpf_ktime_get_ns()) ||
	    !has_marks(bpf_skc_to_tcp_sock(sk)))
		return 0;
	return bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

static inline_always int follow_connection(struct bpf_sock_ops *ops, int knows_subflows)
{
	struct bpf_sock *sk = ops->sk;
	int is_v6 = ops->family == AF_INET6;
	struct cv_demotion *rule;
	struct cv_socket *socket;

	if (ops->op == BPF_SOCK_OPS_NEEDS_ECN)
		accept_marks(ops);
	if (!sk)
		return 1;
	socket = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!socket && knows_subflows)
		socket = tag_subflow(ops, sk);
	if (!socket)
		socket = tag_by_port(ops, sk);
	if (!socket)
		socket = take_claim(ops, sk);
	if (!socket)
		socket = answer_marks(ops, sk);
	if (ops->op == BPF_SOCK_OPS_TCP_LISTEN_CB && vouches())
		save_syns(ops);
	if (!socket)
		return 1;
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		/* A socket may connect once more, and count from another number. */
		socket->reached = 0;
		learn_peer(ops, socket);
		announce(ops, socket);
		choose_control(ops, socket, 1);
		update(ops, sk, is_v6, socket);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (ops->skb_tcp_flags & FLAG_SYN)
			bpf_reserve_hdr_opt(ops, sizeof(struct option), 0);
		else if (ops->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS && socket->coflow)
			sort_packet(ops, sk, is_v6, socket);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		write_option(ops, socket);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		learn_peer(ops, socket);
		if (ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB && is_mapped(is_v6, socket))
			begin_mapped(socket, bpf_skc_to_tcp_sock(sk));
		bpf_sock_ops_cb_flags_set(ops, (ops->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG) |
						       wanted());
		if (!socket->coflow && !adopt(socket))
			break;
		if (ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB)
			tell(ops, socket);
		count_socket(socket, 1);
		choose_control(ops, socket, has_marks(bpf_skc_to_tcp_sock(sk)));
		update(ops, sk, is_v6, socket);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		if (!socket->coflow) {
			if (!adopt(socket))
				break;
			count_socket(socket, 1);
		}
		choose_control(ops, socket, has_marks(bpf_skc_to_tcp_sock(sk)));
		update(ops, sk, is_v6, socket);
		break;
	case BPF_SOCK_OPS_RTO_CB:
		rule = read_demotion();
		if (!rule)
			break;
		/* The time-outs in a row before this one. */
		time_out(rule, socket, ops->args[0] + 1);
		update(ops, sk, is_v6, socket);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		choose_control(ops, socket, 1);
		update(ops, sk, is_v6, socket);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ops->args[1] == TCP_CLOSE)
			count_socket(socket, 0);
		break;
	}
	return 1;
}

/* One of the two is loaded: before Linux 5.19 no program can ask for a subflow's whole. */
SEC("sockops")
int connections(struct bpf_sock_ops *ops)
{
	return follow_connection(ops, 1);
}

SEC("sockops")
int connections_alone(struct bpf_sock_ops *ops)
{
	return follow_connection(ops, 0);
}

struct tcp_segment {
	__u32 sequence;
	__u32 payload;
	__u32 end; /* The sequence number behind it: a FIN takes one. */
};

/* Reads the sequence number and how much payload there is; 0 where that cannot be known. */
static inline_always int read_segment(struct __sk_buff *skb, struct tcp_segment *segment)
{
	__u8 first, protocol, offset_and_flags[2], options[2];
	__u32 transport;

	if (bpf_skb_load_bytes(skb, 0, &first, 1) < 0)
		return 0;
	if (first >> 4 == 4) {
		transport = (first & 15) * 4;
		if (bpf_skb_load_bytes(skb, 9, &protocol, 1) < 0)
			return 0;
	} else {
		transport = 40;
		if (bpf_skb_load_bytes(skb, 6, &protocol, 1) < 0)
			return 0;
		/* Hop-by-hop options: what is too long for an ordinary packet has its length there. */
		if (protocol == 0) {
			if (bpf_skb_load_bytes(skb, transport, options, 2) < 0)
				return 0;
			protocol = options[0];
			transport += (options[1] + 1) * 8;
		}
	}
	if (protocol != IPPROTO_TCP || bpf_skb_load_bytes(skb, transport + 12, offset_and_flags, 2) < 0 ||
	    bpf_skb_load_bytes(skb, transport + 4, &segment->sequence, 4) < 0)
		return 0;
	segment->sequence = from_network_32(segment->sequence);
	transport += (offset_and_flags[0] >> 4) * 4;
	segment->payload = skb->len > transport ? skb->len - transport : 0;
	segment->end = segment->sequence + segment->payload + (offset_and_flags[1] & FLAG_FIN);
	return 1;
}

/* How many bytes of new data were not counted before: what a queue of this host drops TCP takes for unsent, and offers it again. */
static inline_always __u32 uncounted(struct cv_socket *socket, const struct tcp_segment *segment)
{
	__s32 again = (__u32)socket->reached - segment->sequence;
	int is_again = socket->reached && again > 0 && again < 1 << 30;

	if (is_again && (__u32)again >= segment->payload)
		return 0;
	socket->reached = REACHED | (__u32)(segment->sequence + segment->payload);
	return is_again ? segment->payload - again : segment->payload;
}

static inline_always void count_data(struct cv_socket *socket, struct cv_count *count, __u32 bytes, __u64 now)
{
	socket->message += bytes;
	__sync_fetch_and_add(&count->sent, bytes);
	if (count->waiting)
		count->resumed_at = now;
	count->waiting = 0;
	/* What was asked for before a connection was accepted found no descriptor; by its first bytes there is one. */
	if (socket->mark && !socket->passed_at)
		__sync_fetch_and_add(&count->marks, 1);
	socket->passed_at = count->passed_at = now;
	socket->refused_at = 0;
}

/* Whether a time is over that began then. Another processor may have read the clock later. */
static inline_always int is_past(__u64 began, __u64 span, __u64 now)
{
	return now >= began && now - began >= span;
}

/* Takes the turn of a flow, if it is due; of connections that try at once on several processors one
 * has it. Where the kernel has no room to say who, it is had. A turn that could not be given back
 * is free again after a trickle: the map may be busy. */
static inline_always int takes_turn(const struct cv_socket *socket, struct cv_count *count, __u64 trickle, __u64 now)
{
	struct cv_flow flow = flow_of(socket);
	__u64 *since, taken_at = now;
	int is_due;
	long taken;

	if (!is_past(count->passed_at, trickle, now))
		return 0;
	taken = bpf_map_update_elem(&turns, &flow, &taken_at, BPF_NOEXIST);
	if (taken == -EEXIST) {
		since = bpf_map_lookup_elem(&turns, &flow);
		if (!since || !is_past(*since, trickle, now))
			return 0;
		*since = now;
		taken = 0;
	}
	is_due = is_past(count->passed_at, trickle, now);
	if (is_due)
		count->passed_at = now;
	if (!taken)
		bpf_map_delete_elem(&turns, &flow);
	return is_due;
}

/*
 * Whether a segment passes a gate that is off, so that its connection is not given up, and notices a gate that opens by silence. The
 * trickle is its flow's, however many connections that has. TCP tries less and less often while it is refused, so one whose turn does not
 * come for long goes before its turn.
 */
static inline_always int trickles(const struct __sk_buff *skb, const struct cv_socket *socket, struct cv_count *count,
				  __u64 trickle, __u64 now)
{
	if (skb->gso_segs > 1)
		return 0;
	if (socket->refused_at && now - socket->refused_at >= trickle * CV_TURNS)
		return 1;
	return is_past(socket->passed_at, trickle, now) && takes_turn(socket, count, trickle, now);
}

/*
 * Decides over a packet of a connection: 1 lets it pass. `next` is its next new byte, `written` the one behind the last that the
 * application has written; all before `arrived` is acknowledged.
 */
static inline_always int decide(struct __sk_buff *skb, struct cv_socket *socket, __u32 next, __u32 written, __u32 arrived)
{
	struct cv_settings *all = read_settings();
	struct tcp_segment segment;
	struct cv_count *count;
	struct cv_order *order;
	__u64 now;

	if (!all || !read_segment(skb, &segment) || !segment.payload || (__s32)(segment.sequence - next) < 0)
		return 1;
	count = count_of(socket);
	if (!count)
		return 1;
	now = bpf_ktime_get_ns();
	order = order_of(socket, now);
	/* What waits at the gate began when it came there. */
	if (begins_message(socket, arrived == next, now, all->idle)) {
		__sync_fetch_and_add(&count->messages, 1);
		socket->message = socket->lifts = 0;
	}
	if (order && order->gate == CV_OFF && !trickles(skb, socket, count, all->trickle, now)) {
		__sync_fetch_and_add(&count->refused, 1);
		count->waiting = 1;
		if (!socket->refused_at)
			socket->refused_at = now;
		note_unsent(socket, count, 1);
		return 0;
	}
	count_data(socket, count, uncounted(socket, &segment), now);
	note_unsent(socket, count, segment.end != written);
	return 1;
}

/* Counts what leaves a coflow's socket that is none of TCP: nothing orders it. */
static inline_always void count_stray(const struct cv_socket *socket, __u32 bytes)
{
	__u32 coflow = socket->coflow;
	__u64 *count = bpf_map_lookup_elem(&strays, &coflow), none = 0;

	if (!count && bpf_map_lookup_elem(&coflows, &coflow)) {
		bpf_map_update_elem(&strays, &coflow, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&strays, &coflow);
	}
	if (count)
		__sync_fetch_and_add(count, bytes);
}

SEC("cgroup_skb/egress")
int gate(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct cv_socket *socket;
	struct tcp_sock *tcp;

	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	socket = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (socket && !socket->coflow && adopt(socket))
		count_socket(socket, 1);
	if (!socket || !socket->coflow)
		return 1;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		count_stray(socket, skb->len);
	return tcp ? decide(skb, socket, tcp->snd_nxt, tcp->write_seq, tcp->snd_una) : 1;
}

/* What a packet's socket carries where tests run the gate as a function: the kernel gives such packets no TCP socket. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_socket);
} trial SEC(".maps");

/* The gate, of a packet whose mark is the next new byte of its connection, and its priority the one behind the last that was
 * written; its control block has the bytes before it that are not acknowledged. Nothing attaches it. */
SEC("cgroup_skb/egress")
int gate_as_function(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct cv_socket *socket = bpf_map_lookup_elem(&trial, &zero);

	return socket ? decide(skb, socket, skb->mark, skb->priority, skb->mark - skb->cb[1]) : 1;
}

/* This host's sorting, of a packet before its gate, or of the time-out that is so many in a row as its control block says. The class,
 * plus one, is what the socket carries afterwards. Nothing attaches it. */
SEC("cgroup_skb/egress")
int sort_as_function(struct __sk_buff *skb)
{
	__u32 zero = 0, in_a_row = skb->cb[0];
	struct cv_socket *socket = bpf_map_lookup_elem(&trial, &zero);
	struct cv_demotion *rule = read_demotion();
	__u64 now = bpf_ktime_get_ns();
	struct cv_order *order;

	if (!socket || !rule)
		return 1;
	order = order_of(socket, now);
	if (in_a_row)
		time_out(rule, socket, in_a_row);
	socket->class = in_a_row ? sort(socket, order, socket->message, now) : sort_next(socket, order, !skb->cb[1], now);
	return 1;
}

/* TCP sends what it holds back when TCP_NODELAY is set; the application's own choice comes back at once. */
static inline_always void push(void *tcp)
{
	int own = 0, on = 1;

	bpf_getsockopt(tcp, SOL_TCP, TCP_NODELAY, &own, sizeof(own));
	bpf_setsockopt(tcp, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!own)
		bpf_setsockopt(tcp, SOL_TCP, TCP_NODELAY, &own, sizeof(own));
}

/* Has the kernel tell of what becomes of a connection that is there already; false where it cannot, before Linux 6.12. */
static inline_always int is_told_of(void *sk)
{
	int flags = wanted();

	return !bpf_setsockopt(sk, SOL_TCP, SET_SOCK_OPS_FLAGS, &flags, sizeof(flags));
}

/*
 * A connection that was made before it was tagged is told of from here on; false where that cannot be. Its limits could not be
 * lifted then, so it gets none but the gate.
 */
static inline_always int is_followed(void *sk, struct cv_socket *socket)
{
	if (socket->is_counted || !(socket->peer_low | socket->peer_high))
		return 1;
	if (!is_told_of(sk))
		return 0;
	count_socket(socket, 1);
	return socket->is_counted;
}

/* Whether a client library says that the flow of a connection is over: by a time that is none. */
static inline_always int is_release(const struct bpf_sockopt *at)
{
	const __u32 *value = at->optval;

	return at->level == SOL_TCP && at->optname == TCP_KEEPIDLE && (void *)(value + 1) <= at->optval_end &&
	       *value == CV_RELEASE;
}

/* A connection is its application's again, with its own options, and sends what waited. The mark of one over IPv4 whose socket is made
 * for both families its library sets back. */
static inline_always void let_go(struct bpf_sock *sk, struct cv_socket *socket)
{
	int has_waited = !!socket->refused_at;

	steer(sk, socket, 0, 0);
	follow(sk, 0, sk->family == AF_INET6, socket, 0, 0);
	count_socket(socket, 0);
	bpf_sk_storage_delete(&sockets, sk);
	if (has_waited)
		push(sk);
}

/*
 * Brings a connection up to date where an option of it is set: with its descriptor the enforcer reaches one connection in no time, and
 * need not go over all of them. The option itself is left to the kernel, which pushes what waits where it is TCP_NODELAY; then the rate
 * is set already.
 */
SEC("cgroup/setsockopt")
int touch(struct bpf_sockopt *at)
{
	struct bpf_sock *sk = at->sk;
	struct cv_socket *socket;

	/* Of a longer value only the beginning is here: the kernel then goes on with what its caller has given. */
	if (at->optlen > PAGE)
		at->optlen = 0;
	/* One that is closed says nothing when it ends, and would be counted for ever; one that connects is followed when it has. */
	if (!sk || sk->protocol != IPPROTO_TCP || sk->state == TCP_CLOSE || sk->state == TCP_SYN_SENT)
		return 1;
	socket = bpf_sk_storage_get(&sockets, sk, 0, 0);
	/* Before Linux 6.1 nothing here says what the application's own rate is. */
	if (!socket || !socket->coflow || !rate_of(sk, 0))
		return 1;
	if (socket->is_handed && is_release(at)) {
		let_go(sk, socket);
		/* The kernel itself would refuse it. */
		at->optlen = -1;
		return 1;
	}
	if (is_followed(sk, socket))
		update(sk, 0, sk->family == AF_INET6, socket);
	return 1;
}

/* The storage of a connection from before its listener was tagged, or its rule or its other end's word came. */
static inline_always struct cv_socket *take_late(struct sock_common *common, struct tcp_sock *tcp, __u64 walk)
{
	__u32 coflow = coflow_of_queue(common, walk);
	struct cv_socket fresh;

	if (!coflow)
		coflow = coflow_of_port(common, tcp);
	/* Most connections of a host belong to no coflow: they stop here. */
	if ((!coflow && !vouches()) || !is_met(tcp))
		return 0;
	fresh = without_coflow(common);
	if (coflow && is_told_of(tcp))
		fresh.coflow = coflow;
	if (!fresh.coflow && !(vouches() && adopt(&fresh)))
		return 0;
	return bpf_sk_storage_get(&sockets, tcp, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

SEC("iter/tcp")
int refresh(struct bpf_iter__tcp *at)
{
	struct sock_common *common = at->sk_common;
	struct cv_socket *socket;
	struct cv_order *order;
	struct tcp_sock *tcp;
	__u64 now;
	int is_v6;

	if (!common)
		return 0;
	is_v6 = common->skc_family == AF_INET6;
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp)
		return 0;
	if (common->skc_state == TCP_LISTEN && vouches())
		save_syns(tcp);
	socket = bpf_sk_storage_get(&sockets, tcp, 0, 0);
	if (!socket)
		socket = take_late(common, tcp, at->meta->session_id);
	if (!socket || (!socket->coflow && !adopt(socket)))
		return 0;
	if (socket->has_queue && common->skc_state == TCP_LISTEN)
		note_queue(tcp, socket, at->meta->session_id);
	now = bpf_ktime_get_ns();
	order = order_of(socket, now);
	if (is_followed(tcp, socket)) {
		choose_control(tcp, socket, common->skc_state == TCP_LISTEN || has_marks(tcp));
		follow(tcp, tcp, is_v6, socket, order, sort(socket, order, socket->message, now));
	}
	if (socket->refused_at && !(order && order->gate == CV_OFF)) {
		socket->refused_at = 0;
		push(tcp);
	}
	return 0;
}

char terms[] SEC("license") = "GPL";
