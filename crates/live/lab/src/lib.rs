//! The lab: a trace replayed as real TCP transfers, under the coordinator, agents and client library that are deployed.
//!
//! A simulation says what a policy would be worth; this says what it is worth through sockets, a kernel, a network and
//! a control plane that is late. Every part is the program's own: `cavalcade coordinator`, `cavalcade agent` at each host,
//! and at each host one process that sends and receives ([`serve_host`]), as an application with the client library does. In
//! racks the network is the program's own as well, `cavalcade switch` at each place, and flows go over TCP or as SPC streams; or it is made of
//! bridges, whose ports have the classes and marks that some policies need.
//!
//! # Three networks
//! | transport | a host is | a port's rate is held by | needs |
//! |---|---|---|---|
//! | `netns` | a network namespace, joined to a bridge by a veth pair | HTB at both ends of the pair | root on Linux, `ip`, `tc` |
//! | racks (`--fabric`) | a network namespace, joined to the switch of its rack, as that is to a root | HTB at the host, the switches' own pace beyond; with `--carrier bridge` HTB at both | root on Linux, `ip`, `tc` |
//! | `loopback` | an address of 127.77.0.0/16 | token buckets in the processes that send and receive | Linux |
//!
//! On loopback nothing limits a connection but its ends, so the lab's own processes do: all flows that leave a host take
//! tokens of one bucket before they write, and all that arrive take tokens of another before they read, with receive
//! buffers so short that a reader who waits makes its senders wait. Plain TCP is limited by it as everything else
//! is. Rates are those of payload; for the headers of packets HTB is given as much more as full packets need.
//!
//! # Three ways to carry out orders
//! By the client library in the application that sends, or by the kernel (`--enforce kernel`): then each host has an enforcer in place of
//! the library, and each coflow of a host a process of its own that is plain TCP and is tagged as `cavalcade run` tags
//! (`senders`). Who goes first, network, report and prediction are the same. Sizes, which no library says, a sender says when it asks
//! to be tagged, as `cavalcade run --sends` does. With `--enforce handed` hosts have both: the library, which hands its connections over
//! to the enforcer.
//!
//! # Who holds to the order
//! Under `--enforce kernel` the ports of the lab are those of a switch with eight queues, of which a higher one always goes first, by
//! the DSCP that enforcers give to packets (`namespaces`). Policies of hosts (`dcas`, `pias`, `karuna`) and `tafe` leave order to
//! them: agents and coordinator then run with `--by-class`, close no gate, and hold flows back only by a policy's caps. No host knows
//! what meets at a receiver, so with gates at senders alone `dcas` was 60 to 80 % above its prediction. Such runs stand beside the
//! packet engine's of the same policy and congestion control, with frames, queues and timers like the lab's. Other policies of
//! coordinators go by gates and rates, and what they call a class is marked as well.
//! Under `pias` and `karuna` the kernel of each host sorts messages itself (`--demote`), so that the packet which reaches a threshold is in
//! the next class. With orders of agents alone, flows of 100 KB at 400 Mbps were over in the highest class, at thresholds of 20 KB.
//!
//! # Congestion controls
//! A paper that proposes a transport beside its policy is run over that, where the kernel path has it as a congestion control: `karuna`
//! over `mcp`, `pias` over `dctcp`, `tafe` over `tafe`; `--congestion` names another for all, or none, which is Reno. The switch's ports
//! then mark (`marks`) from the transport's threshold on and hold its buffer: K is 97.5 KB and the buffer 360 KB at any rate, as in the
//! packet engine, unless `--congestion dctcp:marking=30KB` says less. Receivers belong to no coflow; their hosts' enforcers give them the
//! control all the same (`--answer-marks`), or they would report nearly every packet as marked.
//!
//! In `marks::live` two senders and a port of 40 Mbps: the round trip is 3.9 ms with marks from 30 KB on, and 45 ms for Reno in the
//! same queues; 1,858 of 5,339 packets were marked, and senders had heard of 1,835.
//!
//! `sincronia-10-0.9-FB-UPWS` on 5 hosts, medians of five runs (least to most) of the release build on two cores with nothing else on
//! them; at 1 Gbps with `--scale 5`. The prediction is the one to judge by: the control plane's with Δ, the packet engine's where
//! ports hold the order, fair sharing for `tcp`:
//!
//! | | 200 Mbps: mean CCT, s | off the prediction | of a core per Gbps | 1 Gbps: mean CCT, s | off | of a core per Gbps |
//! |---|---|---|---|---|---|---|
//! | `tcp` | 0.400 (0.392 – 0.421) | 1.0 % | – | 0.380 (0.345 – 0.398) | 5.8 % | – |
//! | `dcas` | 0.378 (0.371 – 0.430) | 4.4 % (packets) | 14.8 % | 0.346 (0.344 – 0.362) | 0.3 % | 3.0 % |
//! | `pias` over `dctcp` | 0.399 (0.392 – 0.410) | −2.4 % (packets) | 13.1 % | 0.392 (0.377 – 0.419) | 3.8 % | 2.8 % |
//! | `karuna` over `mcp` | 0.402 (0.397 – 0.406) | −1.7 % (packets) | 13.3 % | 0.369 (0.361 – 0.401) | −2.3 % | 3.4 % |
//! | `tafe` over `tafe` | 0.393 (0.381 – 0.415) | 1.0 % (packets) | 18.8 % | 0.360 (0.353 – 0.372) | 3.0 % | 3.5 % |
//! | `aalo` | 0.437 (0.403 – 0.454) | 10.2 % (with Δ) | 18.8 % | 0.446 (0.427 – 0.451) | 1.7 % | 3.2 % |
//! | `varys` | 0.360 (0.356 – 0.377) | 1.9 % (with Δ) | 15.5 % | 0.339 (0.335 – 0.363) | −0.7 % | 3.9 % |
//!
//! Agent and enforcer cost by the clock and not by bytes: at 1 Gbps 22 to 33 times less for a gigabit than the library took at ports of
//! 25 Mbps (84 to 92 %), at 200 Mbps, of which this trace uses 72, four to seven times less. What they pay for is wakes: a program on this
//! machine that only sleeps 10 ms takes 31 to 36 µs a wake, an agent some 38 and an enforcer 50. In the two seconds of `dcas` at 200 Mbps five
//! agents woke 1,100 times and five enforcers 760 times; before they slept until something is due it was 1,400 and 1,000. Most wakes of a busy
//! host are one of each part for each Δ. It is their threads' time, to which
//! Linux without `IRQ_TIME_ACCOUNTING` also adds the interrupts that come while they run: a fifth of an enforcer's samples are such, which
//! carry the lab's own network (`perf record`). Runs of one day differed by a half (12.5 to 17 % for `dcas`).
//!
//! `aalo` at 200 Mbps has two outcomes, and so has its prediction: the sixth coflow takes 0.42 s, or 0.61 s where it falls below others a round
//! sooner (four of the five runs). Predicted with Δ of 8, 9, 9.5 and 10.5 ms the mean is 0.420 s, with 10, 11 and 12 ms 0.396. Beside the
//! outcome that they share runs are 1.7 to 8 % late; 10.2 % is the median of one beside the prediction of the other.
//!
//! `varys`, measured and predicted, is of the time when coflows that found a link full did not share what others leave
//! (`docs/policies.md`).
//!
//! `tafe` is predicted without an order of tasks inside a queue, which hosts' own links keep in the packet engine and eight queues do not.
//!
//! `varys` at 200 Mbps gives flows that are to wait next to no rate. The kernel was asked for 1 Mbps then, and when the rate rose such
//! a flow first finished the pause behind its last burst, 58 ms for 7 KB: seen in samples of sockets, and each coflow ended some 50 ms
//! late. Such flows wait at their gate since then (`cavalcade_enforce`), and hosts' bursts are short at low rates.
//!
//! At 1 Gbps `pias`, `karuna` and `tafe` were 15 to 30 % off, and with `--congestion none` within 1.5 %: the length of a port's virtual queue
//! was wrong. HTB sends what two milliseconds carry at once after a pause, 250 KB at this
//! rate. The virtual queue kept these bytes, beyond the threshold of 97.5 KB, for as long as a sender kept to its rate. It now saves up
//! what HTB does (`marks`). Reno with ECN over such ports, K 97.5 KB, four seconds each on a busy machine:
//!
//! | | before: received | marked | since: received | marked |
//! |---|---|---|---|---|
//! | 1 Gbps, a sender alone | 904 Mbps | 62 % | 1,000 Mbps | 0 |
//! | 1 Gbps, two senders | 815 Mbps | 83 % | 994 Mbps | 0.7 % |
//! | 200 Mbps, a sender alone | 200 Mbps | 0 | 200 Mbps | 0 |
//!
//! It was not that packets arrive joined and are marked together: with hosts that join none, two senders had 990 Mbps, and round trips of
//! 0.68 ms in place of 0.59. Shorter bursts are no cure: with a quarter of a millisecond two senders had 791 Mbps, as timers are late.
//!
//! Until hosts waited for the processes that send for them (`senders`), and these said sizes, coflows of the kernel path ended 0.2 s late,
//! whatever their sizes: `aalo` was 63 % off, `dcas` 57 %, `varys` 143 %.
//!
//! Hosts' tables of connections are small (`namespaces`), because an enforcer walks over them; groups and programs of a lab that was
//! killed are found by the number of its process, like its namespaces.
//!
//! # Invariants
//! - Every byte received is digested, and every transfer's digest and length compared with what was to be sent: a run in
//!   which a byte is wrong, missing or twice is an error and has no figures.
//! - Nothing outlives a run. Processes die with their parent (the kernel sees to it), namespaces and files go when the lab is
//!   dropped, and what a killed lab left behind is found by the number of its process and removed when the next begins.
//! - Completion times are counted from when the trace says that a coflow arrives to when the last byte was read. Whatever the
//!   live system adds is in them: registration, connection set-up, waiting for the first orders.
//!
//! # How close it comes
//! By how much the mean CCT was above the fluid engine's prediction, and in parentheses above that of the control plane itself;
//! namespaces, on two cores that were busy with other work as well:
//!
//! | trace | rate | `tcp` | `sebf` | `dclas` | `dcas` |
//! |---|---|---|---|---|---|
//! | `sincronia-10-0.9-FB-UPWS` | 200 Mbps | 1.6 % | 7.0 % (1.8 %) | −24 % (2.2 %) | 11 % (−1.7 %) |
//! | the README's of 16 ports, 102 coflows, `--scale 0.25` | 25 Mbps | −0.2 % | 10.4 % (3.4 %) | 11.2 % (5.3 %) | |
//! | one such of 98 coflows, `--scale 0.125` | 25 Mbps | 4.8 % | 12.8 % (3.8 %) | 9.7 % (0.1 %) | 110 % (8.1 %) |
//!
//! These are single runs from before SYNs went with acknowledgements and time-outs were short (`namespaces`). Since then a policy is run
//! five times (`--repeat`), and of the first trace the medians were, while some 20 other threads wanted the two cores:
//!
//! | | mean CCT, s (least – most) | above the prediction | above that with Δ | SYNs sent again | time-outs in five runs |
//! |---|---|---|---|---|---|
//! | `tcp` | 0.415 (0.408 – 3.458) | 4.7 % | – | 0 | 5 |
//! | `sebf` | 0.382 (0.364 – 0.421) | 11.0 % | 2.2 % | 0 | 3 |
//! | `dclas` | 0.434 (0.398 – 0.563) | −18.9 % | 9.5 % | 0 | 4 |
//! | `dcas` | 0.487 (0.427 – 0.517) | 38.5 % | 21.7 % | 0 | 2 |
//!
//! Before, six runs had up to 28 % between them on an idle machine, and the slow ones were those with a lost SYN.
//!
//! The longer coflows are beside Δ, the closer. Agent and client library took 1.8 % of a core at each of the 16 hosts, nearly
//! all of it by the clock and not by bytes: so a gigabit that is the sum of many slow ports costs more than one port's, which
//! took 2.2 % (three coflows of 100 to 400 MB, 1 Gbps).
//!
//! Two of these are differences between what engine and live system do, and not of how well:
//! - `dclas` on the first trace: most of its coflows are smaller than the first threshold, 10 MB. There the engine keeps to FIFO;
//!   agents leave what is so small to TCP and report nothing, which is fair sharing. With `first_threshold=1MB` it is −5.4 %, with
//!   `3MB` 1.9 %.
//! - `dcas` on the second: in the engine its priorities hold at receivers too, as in a network with enough of them. With the
//!   library hosts keep to them on what they send, and what meets at a receiver is shared by TCP.
//!
//! What a lab cannot show is a policy on a port so slow that its queue (`namespaces`: 100 KB at least) is many Δ long, or on
//! flows so short that they fit into it: a gate that closes does not call back what has left. At 15 Mbps and flows of 40 to 800 KB
//! `sebf` came out at three times its prediction. And 16 ports at 100 Mbps are more packets than two cores can carry: plain TCP
//! came out 60 % above fair sharing. A run in which that is off says little of the others.
//!
//! # What was rejected
//! - Threads in place of processes for the small version: what breaks when a process is killed is then not tried.
//! - netlink in place of `ip` and `tc`: a lab is built once a run, and what it does can be typed by hand.
//! - A netem delay: many kernels lack it. Round trips here are those of a rack.

mod bucket;
mod decisions;
mod enforcers;
mod error;
mod host;
mod marks;
mod message;
mod namespaces;
mod payload;
mod process;
mod racks;
mod replay;
mod run;
mod senders;
mod site;
mod workload;

pub use decisions::Decision;
pub use error::LabError;
pub use host::{HostSetup, Streams, serve_host};
pub use marks::{Marking, missing as marks_missing};
pub use namespaces::{
    CONTROL_PORT, Losses, Namespaces, Ports, coordinator_address, host_address, port_buffer,
};
pub use payload::digest_of;
pub use replay::{Fault, Victim};
pub use run::{
    Burst, Congestion, Cost, Enforcement, Measured, Racks, Recovery, Setup, SwitchedBy, Transport, run,
};
pub use senders::{KernelPath, serve_sender};
pub use site::{find_stale, remove_stale};
pub use workload::{Prepared, Scheduler, prepare};
