//! The coordinator on TCP.

use std::collections::BTreeMap;
use std::io;

use cavalcade_control::Coordinator;
use cavalcade_model::PortId;
use cavalcade_wire::{MAX_FRAME, Orders, Report};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::Stop;
use crate::clock::{Clock, sleep_until};
use crate::connection::{self, Outlet};

/// What connections tell the machine.
enum Incoming {
    Report(u64, Report),
    Gone(u64),
}

/// Reports taken in before orders are looked at: a burst of a thousand agents is one round.
const BURST: usize = 4096;

/// Connections by number, and which of them leads to which agent. Many agents may share one.
#[derive(Default)]
struct Routes {
    outlets: BTreeMap<u64, Outlet<Orders>>,
    to: BTreeMap<PortId, u64>,
}

/// Runs `coordinator` for agents that connect to `listener`, until told to stop or deposed. Returns the highest term that it
/// heard of.
///
/// # Errors
/// Where the listener fails.
pub async fn serve_coordinator(
    mut coordinator: Coordinator,
    listener: TcpListener,
    mut stop: Stop,
) -> io::Result<Coordinator> {
    let clock = Clock::default();
    let (sender, mut inbox) = mpsc::unbounded_channel();
    let mut routes = Routes::default();
    let mut next_connection = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Out of descriptors, or a connection that was gone at once: others may still come.
                if let Ok((stream, _)) = accepted {
                    routes.outlets.insert(next_connection, attend(stream, next_connection, sender.clone()));
                    next_connection += 1;
                } else {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
            Some(first) = inbox.recv() => {
                take_in(&mut coordinator, &mut routes, clock, first);
                for _ in 0..BURST {
                    let Ok(next) = inbox.try_recv() else { break };
                    take_in(&mut coordinator, &mut routes, clock, next);
                }
            }
            () = sleep_until(clock, coordinator.poll_timeout()) => {}
            _ = stop.changed() => return Ok(coordinator),
        }
        coordinator.handle_timeout(clock.now());
        send_orders(&mut coordinator, &mut routes);
        if coordinator.is_deposed() {
            return Ok(coordinator);
        }
    }
}

fn attend(stream: TcpStream, number: u64, sender: mpsc::UnboundedSender<Incoming>) -> Outlet<Orders> {
    // Orders are small and late ones are worthless.
    let _ = stream.set_nodelay(true);
    let gone = sender.clone();
    connection::run(
        stream,
        MAX_FRAME,
        move |report| drop(sender.send(Incoming::Report(number, report))),
        move || drop(gone.send(Incoming::Gone(number))),
    )
}

fn take_in(coordinator: &mut Coordinator, routes: &mut Routes, clock: Clock, incoming: Incoming) {
    match incoming {
        Incoming::Report(number, report) => {
            routes.to.insert(report.port, number);
            coordinator.handle_report(clock.now(), report);
        }
        Incoming::Gone(number) => {
            routes.outlets.remove(&number);
            let lost: Vec<PortId> =
                routes.to.iter().filter(|(_, route)| **route == number).map(|(&port, _)| port).collect();
            for port in lost {
                routes.to.remove(&port);
                coordinator.handle_disconnected(port);
            }
        }
    }
}

fn send_orders(coordinator: &mut Coordinator, routes: &mut Routes) {
    while let Some((port, orders)) = coordinator.poll_orders() {
        let Some(&number) = routes.to.get(&port) else { continue };
        let sent = routes.outlets.get(&number).map(|outlet| outlet.try_send(orders));
        if !matches!(sent, Some(Ok(()))) {
            // It does not keep up, or is gone: without its outlet the connection ends.
            routes.outlets.remove(&number);
            coordinator.handle_disconnected(port);
        }
    }
}
