//! The last look at a component, and how fast things have gone since the one before.

use std::collections::BTreeMap;

use cavalcade_runtime::administration::proto::{Coflow, SwitchPort, View};

use crate::administration::is_root;

/// The last look, with rates since the one before.
#[derive(Default)]
pub(super) struct Looks {
    now: Option<View>,
    /// Of each coflow, or of each port of a switch, in bits per second; none for what was not there
    /// before.
    rates: Vec<Option<f64>>,
    /// Of the coordinator, per second.
    rounds: f64,
}

impl Looks {
    /// Takes in another look, without coflows that only stand for others.
    pub(super) fn take(&mut self, mut view: View) {
        view.coflows.retain(|coflow| !is_root(coflow));
        let before = self.now.take().unwrap_or_default();
        let seconds = view.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
        let per_second = |more: u64| if seconds > 0.0 { more as f64 / seconds } else { 0.0 };
        self.rounds = per_second(view.rounds.saturating_sub(before.rounds));
        let formerly: BTreeMap<&str, u64> = sent(&before).into_iter().collect();
        let rate = |(name, bytes): (&str, u64)| {
            formerly.get(name).map(|former| 8.0 * per_second(bytes.saturating_sub(*former)))
        };
        self.rates = sent(&view).into_iter().map(rate).collect();
        self.now = Some(view);
    }

    /// The last look.
    pub(super) fn view(&self) -> Option<&View> {
        self.now.as_ref()
    }

    /// The coflows of the last look, in the order in which they go.
    pub(super) fn coflows(&self) -> &[Coflow] {
        self.now.as_ref().map_or(&[], |view| &view.coflows)
    }

    /// The rates of the coflows, or of the ports of a switch, in the same order.
    pub(super) fn rates(&self) -> &[Option<f64>] {
        &self.rates
    }

    /// Sums up all flows in a line.
    pub(super) fn sums(&self, view: &View) -> String {
        // Added to zero: the sum of nothing is a negative zero.
        let rate = bits(0.0 + self.rates.iter().flatten().sum::<f64>());
        if view.switch.is_some() {
            return format!("{rate} sent");
        }
        let sum = |count: fn(&Coflow) -> u32| -> u32 { view.coflows.iter().map(count).sum() };
        let oldest = view.hosts.iter().map(|host| host.silent_ns).max();
        let oldest =
            oldest.map_or_else(String::new, |nanos| format!(", oldest report {:.0} ms", nanos as f64 / 1e6));
        let rounds = match view.port {
            None => format!(", {:.0} rounds/s", self.rounds),
            Some(_) => format!(", {} clients", view.clients),
        };
        format!(
            "{} coflows; flows: {} open, {} paced, {} off, {} idle; {rate}{rounds}{oldest}",
            view.coflows.len(),
            sum(|coflow| coflow.open),
            sum(|coflow| coflow.paced),
            sum(|coflow| coflow.off),
            sum(|coflow| coflow.resting),
        )
    }
}

/// Returns how many bytes each coflow has sent, or each port of a switch, by name.
fn sent(view: &View) -> Vec<(&str, u64)> {
    match &view.switch {
        Some(switch) => switch.ports.iter().map(|port| (port.name.as_str(), sent_by(port))).collect(),
        None => view.coflows.iter().map(|coflow| (coflow.coflow.as_str(), coflow.sent_bytes)).collect(),
    }
}

fn sent_by(port: &SwitchPort) -> u64 {
    [port.spc, port.plain].into_iter().flatten().map(|class| class.bytes).sum()
}

/// Formats a rate.
pub(super) fn bits(rate: f64) -> String {
    let units = [(1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s")];
    let unit = units.iter().find(|(size, _)| rate >= *size);
    unit.map_or_else(|| format!("{rate:.0} b/s"), |(size, name)| format!("{:.1} {name}", rate / size))
}
