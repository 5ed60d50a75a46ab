//! Baraat's Fig 7 (claim B15), live: a client reads 400 KB from each of three servers of its rack, in 1 to 8 requests at once, as SPC
//! streams through a real switch between network namespaces, by each of its carriers; beside it the packet engine's prediction of the
//! same run.
//!
//! Run as root: `cargo run --profile test -p cavalcade-switch --example fig07`.
//!
//! The paper has links of 1 Gbps; here they have 50 Mbps, which two cores carry, and a request takes twenty times as long.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "an example fails by panicking and prints its figures"
)]

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, reason = "it has only a part of the tests' needs")]
mod support;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use cavalcade_model::{Bytes, Flow, Nanos, PortId, WorkloadBuilder};
use cavalcade_sim_packet::{Link, Network, Options, simulate};
use cavalcade_spc::Endpoint;
use cavalcade_switch::Carrier;
use cavalcade_transport::stream::frame::OVERHEAD;
use support::{Net, RATE, ROUND_TRIP, Switch, address, options, within};

const REQUEST: usize = 400_000;
const SERVERS: u8 = 3;
const PORT: u16 = 4_000;
const ROUNDS: usize = 3;

/// Serves 400 KB to each connection, for ever.
fn serve(host: &str, number: u8) {
    let (ready, started) = std::sync::mpsc::channel();
    within(host, move || {
        let listener = Endpoint::bind(address(number, PORT), options()).unwrap().listen();
        ready.send(()).unwrap();
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || {
                let mut request = [0; 1];
                stream.read_exact(&mut request).and_then(|()| stream.write_all(&[7; REQUEST])).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
        }
    });
    started.recv().unwrap();
}

/// Reads from one server under a task.
fn read(endpoint: &Endpoint, server: u8, task: u32) {
    let mut stream = endpoint.connect(address(server, PORT), task).unwrap();
    stream.write_all(b"?").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), REQUEST);
}

/// Runs so many requests at once, and returns their mean time in ms.
fn live(client: &str, requests: u32, first_task: u32) -> f64 {
    let times = within(client, move || {
        let endpoint = Endpoint::bind("0.0.0.0:0", options()).unwrap();
        let barrier = Arc::new(Barrier::new(requests as usize));
        let tasks: Vec<_> = (0..requests)
            .map(|request| {
                let (endpoint, barrier) = (endpoint.clone(), Arc::clone(&barrier));
                within_same(move || {
                    barrier.wait();
                    let begun = Instant::now();
                    thread::scope(|scope| {
                        for server in 2..2 + SERVERS {
                            let endpoint = &endpoint;
                            scope.spawn(move || read(endpoint, server, first_task + request));
                        }
                    });
                    begun.elapsed()
                })
            })
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect::<Vec<Duration>>()
    });
    let times = times.join().unwrap();
    times.iter().map(Duration::as_secs_f64).sum::<f64>() / f64::from(requests) * 1e3
}

fn within_same<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(work)
}

/// Predicts the same with the packet engine.
fn predicted(transport: &str, requests: u32) -> f64 {
    // Four links there and back; the rest of the round trip is two packets' time.
    let delay = Nanos(ROUND_TRIP.get().saturating_sub(2 * 240_000) / 4);
    let network = Network::star(4, Link { rate: RATE, delay }).unwrap();
    let mut builder = WorkloadBuilder::new(4);
    for request in 0..requests {
        let flow = |server: u32| Flow {
            src: PortId(server),
            dst: PortId(0),
            size: Bytes(REQUEST as u64),
            wave: Nanos::ZERO,
        };
        let flows = (1..=u32::from(SERVERS)).map(flow).collect();
        builder.coflow(request.to_string(), cavalcade_model::Instant::ZERO, flows);
    }
    let workload = builder.build().unwrap();
    let options = Options { overhead: OVERHEAD, ..Options::default() };

    struct Simulate<'a>(&'a cavalcade_model::Workload, &'a Network, &'a Options);
    impl cavalcade_transport::Visitor for Simulate<'_> {
        type Output = cavalcade_sim_packet::Run;
        fn visit<T: cavalcade_transport::Definition>(self, transport: &T) -> Self::Output {
            simulate(self.0, self.1, transport, None, self.2, None).unwrap()
        }
    }
    let run = cavalcade_transport::parse(transport).unwrap().visit(Simulate(&workload, &network, &options));
    let total: f64 = run.outcome.coflow_finish.iter().map(|time| time.as_secs_f64()).sum();
    total / f64::from(requests) * 1e3
}

fn main() {
    figure(Carrier::Process);
    match cavalcade_switch::kernel::missing() {
        Some(why) => println!("nothing by the kernel: {why}"),
        None => figure(Carrier::Kernel),
    }
    // Servers serve for ever.
    std::process::exit(0);
}

fn figure(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=1 + SERVERS).map(|number| net.host(number, &sw)).collect();
    let ports: Vec<_> = (1..=1 + SERVERS).map(|number| format!("p{number}")).collect();
    let switch = Switch::carried(carrier, &sw, 1, &ports);
    for number in 2..2 + SERVERS {
        serve(&hosts[usize::from(number) - 1], number);
    }
    println!("{carrier:?}\nrequests   live ms (of {ROUNDS})      spc predicted   off    rcp predicted");
    let mut task = 1;
    for requests in [1, 2, 4, 8] {
        let times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                task += requests;
                thread::sleep(Duration::from_millis(300));
                live(&hosts[0], requests, task)
            })
            .collect();
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let (median, spc, rcp) = (sorted[ROUNDS / 2], predicted("spc", requests), predicted("rcp", requests));
        let spread = format!("{median:.1} ({:.1}–{:.1})", sorted[0], sorted[ROUNDS - 1]);
        println!(
            "{requests:>8}   {spread:<24} {spc:>8.1} {:>+9.1} % {rcp:>12.1}",
            (median / spc - 1.0) * 100.0
        );
    }
    let running = switch.end();
    println!("{:?}", running.report.ports[0]);
}
