//! A schedule as trace events, for the viewers of Chrome and Perfetto (the JSON of Chrome's trace
//! event format).
//!
//! Two groups of tracks. *Coflows*, in order of arrival: each has one slice from its arrival to its
//! finish, and inside it a slice for each time in which any of its flows is sent; what is left is
//! waiting. *Ports*, one track for each lane: a slice for each time in which a flow is sent from
//! the port without a pause. Flows that share a port lie in lanes of their own, so that no slice
//! cuts another. Time zero is the first arrival.
//!
//! The cost is O(n log n) for n segments, all of which are kept, and a look at the lanes of its
//! port for each slice.

use std::io::{self, Write};

use cavalcade_metrics::Sent;
use cavalcade_model::{CoflowId, Instant, PortId, Workload};
use serde_json::{Value, json};

/// The tracks of coflows and of ports.
const COFLOWS: u32 = 1;
const PORTS: u32 = 2;

/// Writes the trace events of a run of `workload` in which coflows arrived and finished at these
/// instants.
///
/// # Errors
/// If `out` cannot be written, or a time or coflow is missing.
pub fn trace_events(
    workload: &Workload,
    arrival: &[Instant],
    finish: &[Instant],
    mut sent: Vec<Sent>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let coflows = workload.coflow_count();
    if arrival.len() != coflows || finish.len() != coflows {
        let problem =
            format!("{} arrivals and {} finishes of {coflows} coflows", arrival.len(), finish.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    if let Some(stranger) = sent.iter().find(|sent| sent.flow.index() >= workload.flows().len()) {
        let problem = format!("flow {} is not in the workload", stranger.flow);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    sent.retain(|sent| sent.bytes > 0.0);
    let sent = joined(sent, |sent| sent.flow);
    let mut events = Events { out, any: false };
    events.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    of_coflows(workload, arrival, finish, &sent, &mut events)?;
    of_ports(workload, &sent, &mut events)?;
    events.out.write_all(b"\n]}\n")
}

/// Joins what is sent without a pause of what `of` names, a flow or a coflow, and orders it by that
/// and time.
fn joined<K: Ord>(mut sent: Vec<Sent>, of: impl Fn(&Sent) -> K) -> Vec<Sent> {
    sent.sort_by(|a, b| of(a).cmp(&of(b)).then(a.from_ns.total_cmp(&b.from_ns)));
    let mut joined: Vec<Sent> = Vec::new();
    for next in sent {
        match joined.last_mut() {
            Some(last) if of(last) == of(&next) && next.from_ns - last.to_ns < 1.0 => {
                last.to_ns = last.to_ns.max(next.to_ns);
                last.bytes += next.bytes;
            }
            _ => joined.push(next),
        }
    }
    joined
}

/// Events, one to a line.
struct Events<'a> {
    out: &'a mut dyn Write,
    any: bool,
}

impl Events<'_> {
    fn write(&mut self, event: &Value) -> io::Result<()> {
        if std::mem::replace(&mut self.any, true) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.out, event)?;
        Ok(())
    }

    /// Names a group of tracks, or a track of it.
    fn name(&mut self, group: u32, track: Option<usize>, name: &str) -> io::Result<()> {
        let what = if track.is_some() { "thread_name" } else { "process_name" };
        let track = track.unwrap_or(0);
        self.write(&json!({"ph": "M", "pid": group, "tid": track, "name": what, "args": {"name": name}}))?;
        if what == "process_name" {
            return Ok(());
        }
        let order = json!({"sort_index": track});
        self.write(
            &json!({"ph": "M", "pid": group, "tid": track, "name": "thread_sort_index", "args": order}),
        )
    }

    fn slice(
        &mut self,
        (group, track): (u32, usize),
        name: &str,
        (from_ns, to_ns): (f64, f64),
        facts: Value,
    ) -> io::Result<()> {
        // The format counts in microseconds.
        let (begin, duration) = (from_ns / 1e3, (to_ns - from_ns).max(0.0) / 1e3);
        self.write(&json!({
            "ph": "X", "pid": group, "tid": track, "name": name, "ts": begin, "dur": duration, "args": facts,
        }))
    }
}

fn of_coflows(
    workload: &Workload,
    arrival: &[Instant],
    finish: &[Instant],
    sent: &[Sent],
    events: &mut Events<'_>,
) -> io::Result<()> {
    events.name(COFLOWS, None, "coflows")?;
    let coflow_of = |sent: &Sent| workload.coflow_of(sent.flow);
    let sent = joined(sent.to_vec(), coflow_of);
    let mut order: Vec<usize> = (0..workload.coflow_count()).collect();
    order.sort_by_key(|&coflow| (arrival[coflow], coflow));
    for (track, coflow) in order.into_iter().enumerate() {
        let id = CoflowId::from_index(coflow);
        let (name, facts) = (workload.coflow_name(id), workload.coflow(id));
        events.name(COFLOWS, Some(track), &name)?;
        let about = json!({"coflow": coflow, "flows": facts.width(), "bytes": facts.size().get()});
        let life = (arrival[coflow].as_f64(), finish[coflow].as_f64());
        events.slice((COFLOWS, track), &name, life, about)?;
        let first = sent.partition_point(|sent| coflow_of(sent) < id);
        for sent in sent[first..].iter().take_while(|sent| coflow_of(sent) == id) {
            let time = (sent.from_ns.max(life.0), sent.to_ns.min(life.1));
            events.slice((COFLOWS, track), "sent", time, json!({}))?;
        }
    }
    Ok(())
}

fn of_ports(workload: &Workload, sent: &[Sent], events: &mut Events<'_>) -> io::Result<()> {
    events.name(PORTS, None, "ports, what they send")?;
    let mut of_port: Vec<Vec<Sent>> = vec![Vec::new(); workload.ports() as usize];
    for sent in sent {
        of_port[workload.flow(sent.flow).src.index()].push(*sent);
    }
    let mut first = 0;
    for (port, mut sent) in of_port.into_iter().enumerate() {
        sent.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns).then(a.flow.cmp(&b.flow)));
        // The end of the last slice of each lane.
        let mut lanes: Vec<f64> = Vec::new();
        for Sent { flow, from_ns, to_ns, bytes } in sent {
            let free = lanes.iter().position(|end| *end <= from_ns + 1e-3);
            let lane = free.unwrap_or(lanes.len());
            if free.is_none() {
                lanes.push(to_ns);
                let nth = if lane == 0 { String::new() } else { format!(" ({})", lane + 1) };
                let name = workload.port_name(PortId(port as u32));
                events.name(PORTS, Some(first + lane), &format!("{name}{nth}"))?;
            }
            lanes[lane] = to_ns;
            let gbps = bytes * 8.0 / (to_ns - from_ns).max(1e-3);
            let to = workload.flow(flow).dst;
            let mut about = json!({"flow": flow.0, "to": to.0, "bytes": bytes.round(), "Gbps": gbps});
            if workload.names_ports() {
                about["to_host"] = workload.port_name(to).into();
            }
            let name = workload.coflow_name(workload.coflow_of(flow));
            events.slice((PORTS, first + lane), &name, (from_ns, to_ns), about)?;
        }
        first += lanes.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{Bytes, Flow, Nanos, PortId, WorkloadBuilder};

    use super::*;
    use cavalcade_model::FlowId;

    fn workload(names: &[&str]) -> Workload {
        let flow =
            |src, dst| Flow { src: PortId(src), dst: PortId(dst), size: Bytes(1_000), wave: Nanos::ZERO };
        let mut builder = WorkloadBuilder::new(3);
        builder.coflow("a \"b\"", Instant(7_000), vec![flow(0, 1), flow(0, 2)]);
        builder.coflow("c", Instant(9_000), vec![flow(1, 2)]);
        builder.port_names(names.iter().map(|name| (*name).to_owned()).collect());
        builder.build().unwrap()
    }

    #[test]
    fn tracks_of_ports_are_called_by_their_hosts_where_these_have_names() {
        let named = |names: &[&str]| {
            let events = events_of(&workload(names), vec![sent(1, 0.0, 8_000.0, 1_000.0)]);
            let track =
                events.iter().rfind(|event| event["name"] == "thread_name").unwrap()["args"]["name"].clone();
            (track, events.last().unwrap()["args"]["to_host"].clone())
        };
        assert_eq!(named(&["web", "db", "cache"]), (json!("web"), json!("cache")));
        assert_eq!(named(&[]), (json!("port 0"), Value::Null));
    }

    fn events(sent: Vec<Sent>) -> Vec<Value> {
        events_of(&workload(&[]), sent)
    }

    fn events_of(workload: &Workload, sent: Vec<Sent>) -> Vec<Value> {
        let mut out = Vec::new();
        let (arrival, finish) = ([Instant(0), Instant(2_000)], [Instant(16_000), Instant(10_000)]);
        trace_events(workload, &arrival, &finish, sent, &mut out).unwrap();
        let all: Value = serde_json::from_slice(&out).unwrap();
        all["traceEvents"].as_array().unwrap().clone()
    }

    fn sent(flow: u32, from_ns: f64, to_ns: f64, bytes: f64) -> Sent {
        Sent { flow: FlowId(flow), from_ns, to_ns, bytes }
    }

    #[test]
    fn slices_of_a_track_lie_inside_each_other_or_apart() {
        let events = events(vec![
            sent(0, 0.0, 4_000.0, 250.0),
            sent(0, 4_000.0, 8_000.0, 750.0),
            sent(1, 0.0, 4_000.0, 250.0),
            sent(1, 8_000.0, 16_000.0, 750.0),
            sent(2, 2_000.0, 10_000.0, 1_000.0),
        ]);
        let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        let of = |event: &Value| {
            let [from, span] = ["ts", "dur"].map(|key| event[key].as_f64().unwrap());
            ((event["pid"].as_u64(), event["tid"].as_u64()), from, from + span)
        };
        for (one, other) in slices.iter().flat_map(|one| slices.iter().map(move |other| (of(one), of(other))))
        {
            let (first, second) = if one.1 <= other.1 { (one, other) } else { (other, one) };
            let is_apart = first.0 != second.0 || first.2 <= second.1;
            assert!(is_apart || second.2 <= first.2 || first.1 == second.1, "{first:?} {second:?}");
        }
        // Two coflows with one time of sending each, and four times at ports: a change of rate is
        // no pause.
        assert_eq!(slices.len(), 2 + 2 + 4);
        assert_eq!(slices[0]["name"], "a \"b\"");
        assert_eq!(slices[0]["dur"], 16.0);
        assert_eq!(slices[1]["dur"], 16.0, "something of it is sent at all times");
    }

    #[test]
    fn what_is_not_of_the_workload_is_refused() {
        let mut out = Vec::new();
        let times = [Instant(0), Instant(1)];
        assert!(trace_events(&workload(&[]), &times, &times[..1], Vec::new(), &mut out).is_err());
        assert!(
            trace_events(&workload(&[]), &times, &times, vec![sent(9, 0.0, 1.0, 1.0)], &mut out).is_err()
        );
        assert!(out.is_empty());
    }
}
