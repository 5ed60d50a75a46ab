/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Congestion controls of the kernel's TCP: the laws of laws.h between its events and its windows (struct_ops).
 *
 * A control takes over the window as a whole (`cong_control`): what the kernel would do at a mark or a loss besides is left
 * out, so that a window is what the law says after each acknowledgement. Its state lies in the connection itself. Each
 * control has an `on_ack_*` of its own and shares everything else.
 *
 * Where a law differs from its transport, because the kernel's TCP is not the sans-IO one:
 * - after a time-out the window grows with what is acknowledged, as RFC 5681 has it, while the transport waits for all that was
 *   lost; and a recovery that turns out to have been for nothing gives the window back;
 * - a mark is known for each acknowledgement as far as the other end tells exactly, which it does where it has one of these
 *   controls as well. Another end keeps saying it until it is told that the window was cut: then the share is too high.
 *
 * The sections' names are one that aya lets through; crates/live/enforce/src/congestion loads them as what they are.
 */
#include "flow.h"
#include "laws.h"

static long (*bpf_skb_ecn_set_ce)(struct __sk_buff *skb) = (void *)BPF_FUNC_skb_ecn_set_ce;
static long (*bpf_tcp_send_ack)(void *tcp, __u32 until) = (void *)BPF_FUNC_tcp_send_ack;

#define TCP_SYN_SENT 2
#define CA_RECOVERY 3
#define CA_LOSS 4
#define ECN_IS_CE 5
#define ECN_NO_CE 4
#define ACK_TIMER 2
#define ACK_NOW 16
#define DEMAND_CWR 4
#define PACING_NONE 0
#define PACING_NEEDED 1
/* Bytes of IP and TCP before a segment, and the round trips that a deadline is kept away from. */
#define HEADERS 40
#define GUARD 6

/* The kernel's structures, as far as they are used: places are those of the running kernel (CO-RE). */
#define OF_KERNEL __attribute__((preserve_access_index))

struct sock_common {
	volatile unsigned char skc_state;
} OF_KERNEL;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
} OF_KERNEL;

struct inet_sock {
	struct sock sk;
} OF_KERNEL;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
} OF_KERNEL;

struct minmax_sample {
	__u32 v;
} OF_KERNEL;

struct minmax {
	struct minmax_sample s[3];
} OF_KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct minmax rtt_min;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 prior_cwnd;
	__u32 delivered;
	__u32 delivered_ce;
	__u8 ecn_flags;
	__u8 is_cwnd_limited : 1;
} OF_KERNEL;

/* Reads a bit field of a byte. */
#define read_bits(from, field)                                                                                        \
	({                                                                                                            \
		const __u8 *at = (const void *)(from);                                                                \
		at += __builtin_preserve_field_info((from)->field, 0);                                                \
		asm volatile("" : "+r"(at));                                                                          \
		__u64 bits = *at;                                                                                     \
		bits <<= __builtin_preserve_field_info((from)->field, 4);                                             \
		bits >>= __builtin_preserve_field_info((from)->field, 5);                                             \
		bits;                                                                                                 \
	})

/* What a connection keeps, in the place that the kernel has for it: 104 bytes. */
struct state {
	struct cv_pursuit pursuit;
	struct cv_law law;
	__u32 has_begun;
	__u32 seen_delivered;
	__u32 seen_marked;
	/* Of the receiving end: what had arrived before the last packet, and whether that was marked. */
	__u32 arrived;
	__u32 arrived_marked;
};

_Static_assert(sizeof(struct state) <= 104, "the kernel has no more room in a connection");

static inline_always struct state *state_of(struct tcp_sock *tcp)
{
	return (struct state *)tcp->inet_conn.icsk_ca_priv;
}

static inline_always struct cv_network *read_network(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&network, &zero);
}

/* Says what is known of the flow's goal. */
static inline_always void read_goal(struct tcp_sock *tcp, struct cv_event *ack)
{
	struct cv_socket *socket = bpf_sk_storage_get(&sockets, tcp, 0, 0);
	struct cv_flow flow, any;
	struct cv_goal *goal;
	struct cv_count *count;
	__u64 sent, mss = tcp->mss_cache;

	if (!socket || !mss)
		return;
	flow = any = flow_of(socket);
	goal = bpf_map_lookup_elem(&goals, &flow);
	if (!goal) {
		to_all_peers(&any);
		goal = bpf_map_lookup_elem(&goals, &any);
	}
	if (!goal)
		return;
	ack->deadline = goal->deadline;
	count = bpf_map_lookup_elem(&counts, &flow);
	sent = count ? count->sent : 0;
	/* What has been sent beyond its size says that the size was wrong. */
	if (goal->size < sent || !goal->size)
		return;
	sent = goal->size - sent + (tcp->snd_nxt - tcp->snd_una);
	ack->remaining = at_most((sent + mss - 1) / mss, LARGEST_FLOW - 1);
	ack->size_known = 1;
}

static inline_always void read_event(struct tcp_sock *tcp, struct state *state, struct cv_event *ack)
{
	__u32 delivered = tcp->delivered, marked = tcp->delivered_ce;

	ack->now = bpf_ktime_get_ns();
	ack->round_trip = (__u64)tcp->srtt_us * 125;
	ack->segments = delivered - state->seen_delivered;
	ack->marked = marked != state->seen_marked;
	ack->una = tcp->snd_una;
	ack->next = tcp->snd_nxt;
	ack->recovering = read_bits(&tcp->inet_conn, icsk_ca_state) == CA_RECOVERY;
	ack->limited = read_bits(tcp, is_cwnd_limited);
	state->seen_delivered = delivered;
	state->seen_marked = marked;
}

static inline_always void read_network_for(struct tcp_sock *tcp, struct cv_event *ack)
{
	struct cv_network *all = read_network();
	__u32 mss = tcp->mss_cache;

	if (!all || !mss)
		return;
	ack->largest = at_most((all->largest + mss - 1) / mss, LARGEST_FLOW);
	ack->capacity = (all->line_rate << 16) / (mss + HEADERS);
	ack->threshold = all->marking / (mss + HEADERS);
	ack->guard = (__u64)tcp->rtt_min.s[0].v * 1000 * GUARD;
}

/* As the kernel paces those that have no pace of their own: this also says how much goes into one burst. */
static inline_always void pace(struct tcp_sock *tcp, const struct cv_law *law)
{
	struct sock *sk = (struct sock *)tcp;
	__u64 rate, most = sk->sk_max_pacing_rate;
	__u32 percent = law->window < law->threshold / 2 ? 200 : 120;
	__u32 segments = law->window > tcp->packets_out ? law->window : tcp->packets_out;

	if (!tcp->srtt_us)
		return;
	rate = (__u64)tcp->mss_cache * segments * percent * (1000000 / 100 * 8) / tcp->srtt_us;
	sk->sk_pacing_rate = rate < most ? rate : most;
}

/* A flow that is held to its rate sends at that, and less than a segment in a round trip where that is enough. */
static inline_always void pace_strictly(struct tcp_sock *tcp, const struct cv_pursuit *pursuit)
{
	struct sock *sk = (struct sock *)tcp;
	__u64 rate, most = sk->sk_max_pacing_rate, window = pursuit->window;

	if (tcp->srtt_us < 8)
		return;
	if (window >> 36)
		window = 1ull << 36;
	rate = ((window * tcp->mss_cache >> 10) * 1000000 / (tcp->srtt_us / 8)) >> 10;
	rate = rate ? rate : 1;
	sk->sk_pacing_rate = rate < most ? rate : most;
	if (sk->sk_pacing_status == PACING_NONE)
		sk->sk_pacing_status = PACING_NEEDED;
}

static inline_always void apply(struct tcp_sock *tcp, const struct cv_law *law)
{
	__u32 clamp = tcp->snd_cwnd_clamp;

	tcp->snd_cwnd = law->window < clamp ? law->window : clamp;
	tcp->snd_ssthresh = law->threshold;
}

static inline_always void begin(struct tcp_sock *tcp, struct state *state)
{
	law_begin(&state->law, tcp->snd_cwnd, tcp->snd_una);
	/* What was delivered before, the SYN among it, was none of this law's. */
	state->seen_delivered = tcp->delivered;
	state->seen_marked = tcp->delivered_ce;
	state->has_begun = 1;
}

static inline_always int control(__u64 *context, int kind)
{
	struct tcp_sock *tcp = (void *)context[0];
	struct state *state = state_of(tcp);
	struct cv_event ack = {};
	int is_held;

	/* The kernel sets the initial window after the answer to the SYN. */
	if (((struct sock *)tcp)->__sk_common.skc_state == TCP_SYN_SENT)
		return 0;
	if (!state->has_begun)
		begin(tcp, state);
	read_event(tcp, state, &ack);
	if (kind != CV_DCTCP) {
		read_goal(tcp, &ack);
		read_network_for(tcp, &ack);
	}
	is_held = law_control(&state->law, &state->pursuit, &ack, kind);
	apply(tcp, &state->law);
	if (is_held)
		pace_strictly(tcp, &state->pursuit);
	else
		pace(tcp, &state->law);
	return 0;
}

SEC("tp_btf/dctcp")
int on_ack_dctcp(__u64 *context)
{
	return control(context, CV_DCTCP);
}

SEC("tp_btf/d2tcp")
int on_ack_d2tcp(__u64 *context)
{
	return control(context, CV_D2TCP);
}

SEC("tp_btf/tafe")
int on_ack_tafe(__u64 *context)
{
	return control(context, CV_TAFE);
}

SEC("tp_btf/mcp")
int on_ack_mcp(__u64 *context)
{
	return control(context, CV_MCP);
}

/* The kernel asks before it repairs losses. The law says what holds with the next acknowledgement; until then nothing grows. */
SEC("tp_btf/ssthresh")
int threshold(__u64 *context)
{
	struct tcp_sock *tcp = (void *)context[0];
	__u32 window = tcp->snd_cwnd;

	return window / 2 < 2 ? 2 : window / 2;
}

/* Losses that were none: the window that was before comes back. */
SEC("tp_btf/undo")
int undo(__u64 *context)
{
	struct tcp_sock *tcp = (void *)context[0];
	struct state *state = state_of(tcp);
	__u32 window = state->has_begun ? state->law.window : tcp->snd_cwnd;

	if (tcp->prior_cwnd > window)
		window = tcp->prior_cwnd;
	state->law.window = at_most(window, LARGEST_WINDOW);
	return window;
}

SEC("tp_btf/state")
int on_state(__u64 *context)
{
	struct tcp_sock *tcp = (void *)context[0];
	struct state *state = state_of(tcp);

	if ((__u8)context[1] == CA_LOSS && read_bits(&tcp->inet_conn, icsk_ca_state) != CA_LOSS && state->has_begun)
		law_timeout(&state->law);
	return 0;
}

static inline_always void echo(struct tcp_sock *tcp, int marked)
{
	if (marked)
		tcp->ecn_flags |= DEMAND_CWR;
	else
		tcp->ecn_flags &= ~DEMAND_CWR;
}

/* The receiving end: where the mark changes, what came before is acknowledged with the old state, and this packet at once. */
SEC("tp_btf/event")
int on_event(__u64 *context)
{
	struct tcp_sock *tcp = (void *)context[0];
	struct state *state = state_of(tcp);
	int event = context[1], marked = event == ECN_IS_CE;

	if (event != ECN_IS_CE && event != ECN_NO_CE)
		return 0;
	if (!!state->arrived_marked != marked) {
		if (tcp->inet_conn.icsk_ack.pending & ACK_TIMER) {
			echo(tcp, state->arrived_marked);
			bpf_tcp_send_ack(tcp, state->arrived);
		}
		tcp->inet_conn.icsk_ack.pending |= ACK_NOW;
	}
	state->arrived = tcp->rcv_nxt;
	state->arrived_marked = marked;
	echo(tcp, marked);
	return 0;
}

/* The laws as functions, for tests: an event and what is kept of a connection in, what is kept after it out. Nothing attaches it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_law);
} trial_law SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_event);
} trial_event SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_pursuit);
} trial_pursuit SEC(".maps");

#define TRIAL_BEGIN 16
#define TRIAL_TIMEOUT 17
#define TRIAL_PURSUIT 18

/* What to do comes as the packet's mark: a kind of law, for an acknowledgement, or one of the above. */
SEC("cgroup_skb/egress")
int law_as_function(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct cv_law *law = bpf_map_lookup_elem(&trial_law, &zero);
	struct cv_event *event = bpf_map_lookup_elem(&trial_event, &zero);
	struct cv_pursuit *pursuit = bpf_map_lookup_elem(&trial_pursuit, &zero);

	if (!law || !event || !pursuit)
		return 0;
	switch (skb->mark) {
	case TRIAL_BEGIN:
		law_begin(law, event->segments, event->una);
		break;
	case TRIAL_PURSUIT:
		pursuit_begin(pursuit, event, law->window);
		break;
	case CV_MCP:
		law_control(law, pursuit, event, CV_MCP);
		break;
	case TRIAL_TIMEOUT:
		law_timeout(law);
		break;
	case CV_DCTCP:
		law_control(law, pursuit, event, CV_DCTCP);
		break;
	case CV_D2TCP:
		law_control(law, pursuit, event, CV_D2TCP);
		break;
	case CV_TAFE:
		law_control(law, pursuit, event, CV_TAFE);
		break;
	}
	return 1;
}

/*
 * A switch's port, for tests: what joins a queue of `mark_at` bytes or more is marked. It also counts what passes, by what its headers
 * say. The queue is what has come to the near end of a link and not yet to the far one.
 */
struct port {
	__u64 mark_at;
	__u64 queue;
	__u64 asking_syns;
	__u64 other_syns;
	__u64 markable;
	__u64 other_data;
	__u64 marked;
	__u64 to_lose; /* Of the next packets with data. */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct port);
} trial_port SEC(".maps");

#define FLAG_ACK 16
#define FLAG_ECE 64
#define FLAG_CWR 128
#define PLAIN_HEADERS 80
#define DROP 2

static inline_always void count_headers(struct __sk_buff *skb, struct port *port)
{
	__u8 first[2], flags;

	if (bpf_skb_load_bytes(skb, 14, first, 2) < 0 || first[0] != 0x45 || bpf_skb_load_bytes(skb, 47, &flags, 1) < 0)
		return;
	if (flags & FLAG_SYN) {
		if ((flags & (FLAG_ECE | FLAG_CWR)) == (FLAG_ECE | FLAG_CWR))
			port->asking_syns++;
		else if (!(flags & FLAG_ACK))
			port->other_syns++;
	} else if (skb->len > 14 + PLAIN_HEADERS) {
		if ((first[1] & 3) == 2)
			port->markable++;
		else
			port->other_data++;
	}
}

SEC("classifier")
int mark_as_switch(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct port *port = bpf_map_lookup_elem(&trial_port, &zero);

	if (!port)
		return 0;
	if (port->to_lose && skb->len > 14 + PLAIN_HEADERS) {
		port->to_lose--;
		return DROP;
	}
	count_headers(skb, port);
	if (port->queue >= port->mark_at && bpf_skb_ecn_set_ce(skb))
		port->marked++;
	__sync_fetch_and_add(&port->queue, skb->len);
	return 0;
}

SEC("classifier")
int leave_switch(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct port *port = bpf_map_lookup_elem(&trial_port, &zero);

	/* What was in the queue when the count began is none of it. */
	if (port && port->queue >= skb->len)
		__sync_fetch_and_add(&port->queue, -(__u64)skb->len);
	return 0;
}

char terms[] SEC("license") = "GPL";
