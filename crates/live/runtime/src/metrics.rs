//! Figures of a running part for a monitoring system, as OpenMetrics text over HTTP; and whether it
//! runs (`/healthz`) and does what it is there for (`/readyz`).
//!
//! Figures are written from the machine's own counters on request; only histograms are kept
//! here. Labels are classes, gates, reasons and the few users that have most: never a coflow, a
//! flow or a host, of which there are ever more.

use std::convert::Infallible;
use std::io;

use cavalcade_control::{Agent, Coordinator};
use cavalcade_model::Instant;
use cavalcade_protocol::{Gate, Limit};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::administration::proto::{Enforcer, Switch, SwitchClass, SwitchPort};
use crate::administration::{Query, ask};
use crate::capacity::descriptors;
use crate::coordinator::tls_for;
use crate::incidents::Incident;
use crate::limits::{Holding, UserFigures, of_users};
use crate::occasional::Occasional;
use crate::security::Identity;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The counts of an agent's shell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShellCounters {
    /// Datagrams that could not be decoded or authenticated.
    pub(crate) garbled: u64,
    /// Number of slowdowns of clients whose users have none any more.
    pub(crate) slowed: u64,
}

/// Distributions at a coordinator.
#[derive(Debug)]
pub(crate) struct Distributions {
    round: Histogram,
    age: Histogram,
}

impl Default for Distributions {
    fn default() -> Self {
        Self {
            round: Histogram::new(exponential_buckets(10e-6, 2.0, 17)),
            age: Histogram::new(exponential_buckets(1e-3, 2.0, 12)),
        }
    }
}

impl Distributions {
    /// A round took so long, and the report from the agent that was silent for longest was so old.
    pub(crate) fn round(&self, took: std::time::Duration, oldest_nanos: u64) {
        self.round.observe(took.as_secs_f64());
        self.age.observe(oldest_nanos as f64 / 1e9);
    }
}

/// Labels of a figure, each with its value.
type Labels = Vec<(&'static str, String)>;

/// A family of figures, one for each choice of labels.
struct Family<M> {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    values: Vec<(Labels, M)>,
}

/// All figures of one part at one time.
#[derive(Default)]
struct Figures {
    counters: Vec<Family<ConstCounter<u64>>>,
    gauges: Vec<Family<ConstGauge<i64>>>,
}

impl Holding<'_> {
    fn write(&self, figures: &mut Figures) {
        figures.gauge("open_connections", "Connections of clients or agents", self.connections);
        figures.gauge(
            "open_connections_limit",
            "Connections that may be open (--max-connections)",
            self.capacity.connections,
        );
        figures.gauge("buffered_bytes", "Bytes that wait, from others and for them", self.meter.held());
        figures.gauge("buffered_bytes_limit", "Bytes that may wait (--max-buffers)", self.meter.most());
        figures.counter(
            "buffers_full",
            "Times that a connection was not read, or closed, because of --max-buffers",
            self.meter.found_full(),
        );
        figures.counter(
            "administrators_turned_away",
            "Connections of administrators beyond those that are served at once",
            self.lines.turned_away(),
        );
        let incidents = Incident::ALL.map(|one| (one.name().to_owned(), self.incidents.count(one)));
        let help = "What went wrong with those who connect (ps --hosts), by kind";
        figures.counters_by("incidents", help, None, "kind", incidents);
        if let Some(until) = self.until {
            let help = "Last second since 1970 at which the certificate is accepted";
            figures.gauge("certificate_until_seconds", help, until as usize);
        }
        let version = [(env!("CARGO_PKG_VERSION").to_owned(), 1)];
        figures.gauges_by("build", "The version of the program", "version", version);
        if let Some((open, most)) = descriptors() {
            figures.gauge("descriptors", "Descriptors that are open", open);
            figures.gauge("descriptors_limit", "Descriptors that may be open", most);
        }
    }
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Figures")
    }
}

impl Figures {
    fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.count(name, help, None, [(Labels::new(), value)]);
    }

    fn counters_by(
        &mut self,
        name: &'static str,
        help: &'static str,
        unit: Option<Unit>,
        label: &'static str,
        values: impl IntoIterator<Item = (String, u64)>,
    ) {
        self.count(name, help, unit, values.into_iter().map(|(value, count)| (vec![(label, value)], count)));
    }

    fn count(
        &mut self,
        name: &'static str,
        help: &'static str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let values = values.into_iter().map(|(labels, count)| (labels, ConstCounter::new(count))).collect();
        self.counters.push(Family { name, help, unit, values });
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, value: usize) {
        self.measure(name, help, None, [(Labels::new(), value)]);
    }

    fn gauges_by(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (String, usize)>,
    ) {
        self.measure(
            name,
            help,
            None,
            values.into_iter().map(|(value, count)| (vec![(label, value)], count)),
        );
    }

    fn measure(
        &mut self,
        name: &'static str,
        help: &'static str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (Labels, usize)>,
    ) {
        let values =
            values.into_iter().map(|(labels, count)| (labels, ConstGauge::new(count as i64))).collect();
        self.gauges.push(Family { name, help, unit, values });
    }
}

fn write_family<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family<M>,
    metric_type: prometheus_client::metrics::MetricType,
) -> std::fmt::Result {
    let mut written =
        encoder.encode_descriptor(family.name, family.help, family.unit.as_ref(), metric_type)?;
    for (labels, metric) in &family.values {
        if labels.is_empty() {
            return metric.encode(written);
        }
        metric.encode(written.encode_family(labels)?)?;
    }
    Ok(())
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        use prometheus_client::metrics::MetricType;
        for family in &self.counters {
            write_family(&mut encoder, family, MetricType::Counter)?;
        }
        self.gauges.iter().try_for_each(|family| write_family(&mut encoder, family, MetricType::Gauge))
    }
}

fn by_class(bytes: &[u64]) -> Vec<(String, u64)> {
    bytes.iter().enumerate().map(|(class, &bytes)| (class.to_string(), bytes)).collect()
}

/// Returns the number of flows of each gate; those at rest count as such.
fn by_gate(flows: impl Iterator<Item = (Gate, bool)>) -> [(String, usize); 4] {
    let mut counts = [0; 4];
    for (gate, rests) in flows {
        counts[match gate {
            _ if rests => 3,
            Gate::Off {} => 0,
            Gate::Open {} => 1,
            Gate::Paced { .. } => 2,
        }] += 1;
    }
    let mut counts = counts.into_iter();
    ["off", "open", "paced", "rests"].map(|gate| (gate.to_owned(), counts.next().unwrap_or(0)))
}

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("a String takes all that is written to it");
    text
}

/// The figures of a coordinator.
pub(crate) fn of_coordinator(
    coordinator: &Coordinator,
    now: Instant,
    held: &Holding<'_>,
    kept: &Distributions,
) -> String {
    let counters = coordinator.counters();
    let mut figures = Figures::default();
    figures.counter("rounds", "Times at which orders were computed", counters.rounds);
    figures.counter("reports", "Reports taken in", counters.reports);
    figures.counter("reports_left_out", "Reports that came twice or late", counters.reports_left_out);
    figures.counter("orders", "Messages of orders to agents", counters.orders);
    let gates = ["off", "open", "paced"].map(str::to_owned).into_iter().zip(counters.decisions);
    figures.counters_by("decisions", "New gates for flows", None, "gate", gates);
    let classes = by_class(&counters.sent_by_class);
    figures.counters_by(
        "sent",
        "Bytes reported, by the class of their coflow",
        Some(Unit::Bytes),
        "class",
        classes,
    );
    figures.counter("agents_lost", "Agents that were silent for longer than a lease", counters.agents_lost);
    figures.counter(
        "foreign_parts",
        "Parts of coflows of another user, not taken in",
        counters.foreign_parts,
    );
    figures.counter("stale_parts", "Coflows refused because their serial was stale", counters.stale_parts);
    figures.counter("over_limit", "Coflows and flows of agents that had too many", counters.over_limit);
    figures.counter(
        "stalled_flows",
        "Flows that were allowed to send and made no progress",
        counters.stalled_flows,
    );
    figures.counter(
        "unconfirmed_flows",
        "Flows that might send, and of which nothing arrived by their receivers' word",
        counters.unconfirmed_flows,
    );
    figures.counter(
        "excessive_bytes",
        "Reports of bytes that no line could have carried",
        counters.excessive_bytes,
    );
    figures.counter(
        "forged_standings",
        "Terms and kill switches that no coordinator has sealed",
        counters.forged_standings,
    );
    held.write(&mut figures);
    figures.gauge("term", "Term of this coordinator", coordinator.term() as usize);
    figures.gauge("leads", "Whether this coordinator leads", usize::from(!coordinator.is_deposed()));
    figures.gauge("agents", "Agents that are heard of", coordinator.agents());
    figures.gauge("coflows", "Coflows that are known", coordinator.status().count());
    let flows = coordinator.status().flat_map(|coflow| coflow.flows);
    figures.gauges_by(
        "flows",
        "Open flows, by gate",
        "gate",
        by_gate(flows.map(|flow| (flow.gate, flow.rests))),
    );
    figures.gauge("drained", "Whether the kill switch is on", usize::from(coordinator.is_drained()));
    figures.gauge("drains", "Drains that hold", coordinator.drains().len());
    let oldest = coordinator.last_reports().map(|(_, at)| now.since(at).0).max().unwrap_or(0);
    figures.gauge(
        "oldest_report_age_milliseconds",
        "How long the quietest agent has been silent",
        (oldest / 1_000_000) as usize,
    );
    let mut registry = Registry::with_prefix("cavalcade");
    registry.register_collector(Box::new(figures));
    registry.register_with_unit("round", "How long a round took", Unit::Seconds, kept.round.clone());
    let help = "How old the oldest report was at a round";
    registry.register_with_unit("report_age", help, Unit::Seconds, kept.age.clone());
    text(&registry)
}

/// Adds the use of those users who are nearest to a limit, and their budget.
fn add_users(figures: &mut Figures, agent: &Agent, metered: &[UserFigures]) {
    let budget = agent.budget();
    let allowed = Limit::ALL.map(|limit| (limit.name().to_owned(), budget.of(limit) as usize));
    figures.gauges_by("user_budget", "What one user's clients may have", "limit", allowed);
    let users = of_users(agent, metered);
    let families = [
        ("user_connections", "Connections of a user's clients"),
        ("user_coflows", "Coflows of a user's clients, and those that linger"),
        ("user_flows", "Open flows of a user's clients"),
        ("user_bytes", "Bytes that wait, from a user's clients and for them"),
    ];
    for (place, (name, help)) in families.into_iter().enumerate() {
        let of_user = |(user, used): &(u32, [usize; 4])| (user.to_string(), used[place]);
        figures.gauges_by(name, help, "user", users.iter().map(of_user));
    }
}

/// The figures of an agent.
pub(crate) fn of_agent(
    agent: &Agent,
    now: Instant,
    shell: &ShellCounters,
    held: &Holding<'_>,
    users: &[UserFigures],
) -> String {
    let counters = agent.counters();
    let mut figures = Figures::default();
    let classes = by_class(&counters.sent_by_class);
    figures.counters_by(
        "sent",
        "Bytes sent, by the class of their flow",
        Some(Unit::Bytes),
        "class",
        classes,
    );
    figures.counter(
        "fallbacks",
        "Times that a coordinator was lost and all flows were open again",
        counters.fallbacks,
    );
    figures.counter("directives", "Directives to clients", counters.directives);
    let refusals = agent.refusals().map(|(reason, count)| (reason.to_owned(), count));
    figures.counters_by("refusals", "Refusals to clients, by reason", None, "reason", refusals);
    let slowed = users.iter().map(|user| user.slowed).sum::<u64>() + shell.slowed;
    figures.counter("clients_slowed", "Times that a client was not read because it was too fast", slowed);
    add_users(&mut figures, agent, users);
    figures.counter("reports", "Reports to a coordinator", counters.reports);
    figures.counter(
        "flows_left_alone",
        "Flows that went as plain TCP to what is no port",
        counters.left_alone,
    );
    let left_out = counters.datagrams_left_out;
    figures.counter("datagrams_left_out", "Datagrams that were too old or came twice", left_out);
    figures.counter(
        "datagrams_garbled",
        "Datagrams that could not be decoded or authenticated",
        shell.garbled,
    );
    held.write(&mut figures);
    if let Some(term) = agent.obeys() {
        figures.gauge("term", "Term of the coordinator that is obeyed", term as usize);
    }
    if let Some(at) = agent.orders_heard_at() {
        let help = "How long ago orders came last";
        figures.gauge("orders_age_milliseconds", help, (now.since(at).0 / 1_000_000) as usize);
    }
    figures.gauge("clients", "Clients that are connected", agent.clients());
    figures.gauge("coflows", "Coflows that are known", agent.parts().count());
    let flows = agent.status().map(|flow| (flow.told.gate, flow.rests));
    figures.gauges_by("flows", "Open flows, by gate", "gate", by_gate(flows));
    figures.gauge(
        "coordinated",
        "Whether a coordinator is obeyed at present",
        usize::from(agent.obeys().is_some()),
    );
    figures.gauge("drained", "Whether the kill switch is on", usize::from(agent.is_drained()));
    figures.gauge("drains", "Drains of this host that hold", agent.drains().len());
    let mut registry = Registry::with_prefix("cavalcade");
    registry.register_collector(Box::new(figures));
    text(&registry)
}

/// The figures of a switch, as it shows itself to administrators.
pub(crate) fn of_switch(switch: &Switch) -> String {
    let mut figures = Figures::default();
    figures.counter("received_frames", "Frames that came in", switch.received);
    figures.counter("flooded_frames", "Frames that went to all ports", switch.flooded);
    let left_out = [
        ("malformed", switch.malformed),
        ("too_many_switches", switch.refused),
        ("too_large", switch.too_large),
        ("stays", switch.filtered),
    ];
    let left_out = left_out.map(|(reason, count)| (reason.to_owned(), count));
    figures.counters_by("left_out_frames", "Frames that were not passed on", None, "reason", left_out);
    figures.gauge("addresses", "Addresses that are known", switch.addresses as usize);
    type OfClass = fn(&SwitchClass) -> u64;
    type OfPort = fn(&SwitchPort) -> u64;
    let counts: [(&str, &str, Option<Unit>, OfClass); 3] = [
        ("sent", "Bytes sent", Some(Unit::Bytes), |class| class.bytes),
        ("sent_packets", "Packets sent", None, |class| class.packets),
        ("dropped_packets", "Packets for which a queue had no room", None, |class| class.dropped),
    ];
    for (name, help, unit, of) in counts {
        figures.count(name, help, unit, by_port_and_class(switch, of));
    }
    let gauges: [(&str, &str, OfClass); 2] = [
        ("queue", "Bytes that wait", |class| class.queued_bytes),
        ("longest_queue", "The most bytes that have waited", |class| class.longest_bytes),
    ];
    for (name, help, of) in gauges {
        let values = by_port_and_class(switch, of).map(|(labels, bytes)| (labels, bytes as usize));
        figures.measure(name, help, Some(Unit::Bytes), values);
    }
    let by_port = |of: OfPort| switch.ports.iter().map(move |port| (port.name.clone(), of(port)));
    figures.counters_by(
        "questions",
        "Questions of SPC answered",
        None,
        "port",
        by_port(|port| port.questions),
    );
    let help = "Packets that the kernel dropped before they were read";
    figures.counters_by("missed_packets", help, None, "port", by_port(|port| port.missed));
    figures.counters_by(
        "unsent_packets",
        "Packets that the interface did not take",
        None,
        "port",
        by_port(|port| port.unsent),
    );
    let help = "Frames that were left out because they had a VLAN tag";
    figures.counters_by("tagged_frames", help, None, "port", by_port(|port| port.tagged));
    let gauges: [(&str, &str, OfPort); 3] = [
        ("tasks", "Tasks of which a port keeps anything", |port| port.tasks),
        ("granted_bits_per_second", "What a port has granted to tasks", |port| port.granted_bps),
        ("link_bits_per_second", "What a port's link carries", |port| port.rate_bps),
    ];
    for (name, help, of) in gauges {
        figures.gauges_by(name, help, "port", by_port(of).map(|(port, value)| (port, value as usize)));
    }
    let version = [(env!("CARGO_PKG_VERSION").to_owned(), 1)];
    figures.gauges_by("build", "The version of the program", "version", version);
    let mut registry = Registry::with_prefix("cavalcade_switch");
    registry.register_collector(Box::new(figures));
    text(&registry)
}

/// The figures of an enforcer, as it shows itself to administrators.
pub(crate) fn of_enforcer(enforcer: &Enforcer) -> String {
    let mut figures = Figures::default();
    figures.gauge("coflows", "Coflows that are tagged", enforcer.coflows as usize);
    figures.gauge("obedient", "Coflows that the agent answers for at present", enforcer.obedient as usize);
    figures.gauge("flows", "Flows that are counted", enforcer.flows as usize);
    figures.gauge("libraries", "Client libraries that hand connections over", enforcer.libraries as usize);
    figures.gauge(
        "releasing",
        "Refused coflows whose processes are being let go",
        enforcer.releasing as usize,
    );
    let help = "Bytes that coflows have sent by other means than TCP, which nothing orders";
    let unscheduled = std::iter::once((Labels::new(), enforcer.unscheduled_bytes));
    figures.count("unscheduled", help, Some(Unit::Bytes), unscheduled);
    let troubles = enforcer.troubles.iter().map(|trouble| (trouble.what.clone(), trouble.times));
    figures.counters_by("troubles", "What could not be done for somebody", None, "what", troubles);
    let version = [(env!("CARGO_PKG_VERSION").to_owned(), 1)];
    figures.gauges_by("build", "The version of the program", "version", version);
    let mut registry = Registry::with_prefix("cavalcade_enforcer");
    registry.register_collector(Box::new(figures));
    text(&registry)
}

fn by_port_and_class(switch: &Switch, of: fn(&SwitchClass) -> u64) -> impl Iterator<Item = (Labels, u64)> {
    switch.ports.iter().flat_map(move |port| {
        [("spc", &port.spc), ("plain", &port.plain)].map(|(name, class)| {
            let labels = vec![("port", port.name.clone()), ("class", name.to_owned())];
            (labels, class.as_ref().map_or(0, of))
        })
    })
}

/// Scrapers that are answered at once, at most.
const SCRAPERS: usize = 64;

/// Begins to answer `GET /metrics` at `listener`; with an identity over TLS, to who has a
/// certificate of the site.
pub(crate) fn serve(
    listener: TcpListener,
    identity: Option<Identity>,
    queries: mpsc::UnboundedSender<Query>,
) {
    tokio::task::spawn_local(attend(listener, identity, queries));
}

/// Answers a monitoring system for a coordinator that stands by, until this is dropped: it is
/// healthy, and not ready.
///
/// # Errors
/// If the listener has no address.
pub async fn stand_by(listener: TcpListener, identity: Option<&Identity>) -> io::Result<Infallible> {
    let identity = tls_for(&listener, identity)?;
    let (asker, mut queries) = mpsc::unbounded_channel();
    let answering = async {
        while let Some(query) = queries.recv().await {
            if let Query::Ready(reply) = query {
                let _ = reply.send(Err("it stands by: another coordinator leads".to_owned()));
            }
        }
    };
    tokio::join!(attend(listener, identity, asker), answering).0
}

async fn attend(
    listener: TcpListener,
    identity: Option<Identity>,
    queries: mpsc::UnboundedSender<Query>,
) -> io::Result<Infallible> {
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(SCRAPERS));
    let mut turned_away = Occasional::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        // Who is turned away comes again.
        let Ok(place) = room.clone().try_acquire_owned() else {
            if let Some(unsaid) = turned_away.admit() {
                tracing::warn!(
                    most = SCRAPERS,
                    unsaid,
                    "refused a scraper: as many are connected as can be served, a fixed number"
                );
            }
            continue;
        };
        let (identity, queries) = (identity.clone(), queries.clone());
        tokio::task::spawn_local(async move {
            let _place = place;
            // A scraper that is cut off comes again.
            let _ = match identity {
                None => answer(stream, queries).await,
                Some(identity) => match crate::tls::accept(&identity, stream).await {
                    Ok((stream, _)) => answer(stream, queries).await,
                    Err(error) => Err(error),
                },
            };
        });
    }
}

async fn answer<S>(stream: S, queries: mpsc::UnboundedSender<Query>) -> io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
{
    let service = hyper::service::service_fn(|request: Request<Incoming>| respond(request, queries.clone()));
    let mut server = hyper::server::conn::http1::Builder::new();
    server.keep_alive(false);
    let served = server.serve_connection(TokioIo::new(stream), service);
    // A client that says nothing is not waited for.
    match tokio::time::timeout(std::time::Duration::from_secs(10), served).await {
        Ok(served) => served.map_err(io::Error::other),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn respond(
    request: Request<Incoming>,
    queries: mpsc::UnboundedSender<Query>,
) -> Result<Response<String>, hyper::Error> {
    let mut response = Response::new(String::new());
    let path = request.uri().path();
    if path == "/healthz" || path == "/readyz" {
        (*response.status_mut(), *response.body_mut()) = match ask(&queries, Query::Ready).await {
            None => (StatusCode::SERVICE_UNAVAILABLE, "it is being stopped\n".to_owned()),
            Some(Err(reason)) if path == "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
            Some(_) => (StatusCode::OK, "ok\n".to_owned()),
        };
        return Ok(response);
    }
    if path != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
        *response.body_mut() = "the figures are at /metrics, health at /healthz and /readyz\n".to_owned();
        return Ok(response);
    }
    match ask(&queries, Query::Metrics).await {
        Some(text) => {
            let content_type = hyper::header::HeaderValue::from_static(OPEN_METRICS);
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            *response.body_mut() = text;
        }
        None => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
    }
    Ok(response)
}
