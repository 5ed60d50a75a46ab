//! `cavalcade top`: the coflows of a running coordinator or agent, or the ports of a switch, looked at again and again.
//!
//! One connection is kept and asked each time; when it is lost the last picture stays and says so, and another is
//! tried. What is drawn is a function of the last two answers ([`Picture`]), so that it can be tested without a terminal.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use cavalcade_runtime::administration::proto::{SwitchPort, View};
use cavalcade_runtime::administration::{AdministrationError, Administrator};
use cavalcade_runtime::block_on;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

use super::{amount, connect, duration, heading, place, refused, switch, versioned};
use crate::arguments::Top;
use crate::failure::{Failure, Kind};
use crate::output::print;

/// The longest time before a key is handled.
const KEYS: Duration = Duration::from_millis(50);

/// `cavalcade top`.
pub(crate) fn run(options: &Top) -> Result<(), Failure> {
    let place = place(&options.at)?;
    if !options.json && !std::io::stdout().is_terminal() {
        return Err(Failure::usage("'cavalcade top' needs a terminal on standard output")
            .help("use --json for a line of JSON each time, or 'cavalcade ps' for one look"));
    }
    let every = duration(options.every);
    let runs = block_on(async {
        let first = match connect(&place).await {
            Ok(administrator) => administrator,
            Err(error) => return Ok(Err(refused(error))),
        };
        if options.json { Ok(lines(first, every).await) } else { watch(first, &place, every).await.map(Ok) }
    });
    runs.map_err(|error| Failure::new(Kind::Runtime, error.to_string()))?
}

/// A line of JSON each time, until somebody stops it.
async fn lines(mut administrator: Administrator, every: Duration) -> Result<(), Failure> {
    loop {
        let view = administrator.look("", false).await.map_err(refused)?;
        print(&format!("{}\n", versioned(&view)?))?;
        tokio::time::sleep(every).await;
    }
}

/// Draws until a key ends it.
async fn watch(first: Administrator, place: &super::Place, every: Duration) -> std::io::Result<()> {
    let mut administrator = Some(first);
    let mut picture = Picture::default();
    let mut terminal = ratatui::try_init()?;
    let mut next = tokio::time::Instant::now();
    let result = loop {
        if tokio::time::Instant::now() >= next {
            next = tokio::time::Instant::now() + every;
            picture.take(look(&mut administrator, place).await);
        }
        if let Err(error) = terminal.draw(|frame| picture.draw(frame)) {
            break Err(error);
        }
        match ends() {
            Ok(false) => tokio::time::sleep(KEYS).await,
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    ratatui::try_restore()?;
    result
}

async fn look(kept: &mut Option<Administrator>, place: &super::Place) -> Result<View, AdministrationError> {
    let mut administrator = match kept.take() {
        Some(administrator) => administrator,
        None => connect(place).await?,
    };
    let view = administrator.look("", false).await?;
    *kept = Some(administrator);
    Ok(view)
}

/// Returns whether a key says that it is enough.
fn ends() -> std::io::Result<bool> {
    while event::poll(Duration::ZERO)? {
        if let Event::Key(key) = event::read()? {
            let interrupts = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
            if interrupts || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The last two looks.
#[derive(Default)]
struct Picture {
    before: Option<View>,
    now: Option<View>,
    problem: Option<String>,
}

impl Picture {
    fn take(&mut self, looked: Result<View, AdministrationError>) {
        match looked {
            Ok(view) => {
                self.before = self.now.replace(view);
                self.problem = None;
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
    }

    /// Returns the rate of each coflow between the two looks, in bits per second.
    fn rates(&self) -> BTreeMap<&str, f64> {
        let (Some(before), Some(now)) = (&self.before, &self.now) else { return BTreeMap::new() };
        let seconds = now.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
        let sent: BTreeMap<&str, u64> =
            before.coflows.iter().map(|coflow| (coflow.coflow.as_str(), coflow.sent_bytes)).collect();
        let rate = |coflow: &'_ cavalcade_runtime::administration::proto::Coflow| {
            let more = coflow.sent_bytes.saturating_sub(*sent.get(coflow.coflow.as_str())?);
            (seconds > 0.0).then(|| 8.0 * more as f64 / seconds)
        };
        now.coflows.iter().filter_map(|coflow| Some((coflow.coflow.as_str(), rate(coflow)?))).collect()
    }

    /// Rounds in a second between the two looks.
    fn rounds(&self) -> f64 {
        let (Some(before), Some(now)) = (&self.before, &self.now) else { return 0.0 };
        let seconds = now.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
        if seconds > 0.0 { now.rounds.saturating_sub(before.rounds) as f64 / seconds } else { 0.0 }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, flows, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(2),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        match &self.now {
            Some(view) => {
                frame.render_widget(Line::from(heading(view)).bold(), head);
                frame.render_widget(Line::from(self.sums(view)), flows);
                let table = match &view.switch {
                    Some(switch) => self.port_table(&switch.ports),
                    None => self.table(view),
                };
                frame.render_widget(table, body);
            }
            None => frame.render_widget(Line::from("asking …"), head),
        }
        let keys = Span::from("q ends").dim();
        let foot_line = match &self.problem {
            Some(problem) => Line::from(vec![Span::from(format!("{problem}   ")).red(), keys]),
            None => Line::from(keys),
        };
        frame.render_widget(foot_line, foot);
    }

    /// Returns the rate of each port of a switch between the two looks, in bits per second.
    fn port_rates(&self) -> Vec<Option<f64>> {
        let switch =
            |view: &Option<View>| view.as_ref().and_then(|view| view.switch.clone()).unwrap_or_default();
        let (before, now) = (switch(&self.before), switch(&self.now));
        let times = [&self.before, &self.now].map(|view| view.as_ref().map_or(0, |view| view.now_ns));
        let seconds = times[1].saturating_sub(times[0]) as f64 / 1e9;
        let sent = |port: &SwitchPort| {
            [port.spc, port.plain].into_iter().flatten().map(|class| class.bytes).sum::<u64>()
        };
        let rate = |(at, port): (usize, &SwitchPort)| {
            let more = sent(port).saturating_sub(sent(before.ports.get(at)?));
            (seconds > 0.0).then(|| 8.0 * more as f64 / seconds)
        };
        now.ports.iter().enumerate().map(rate).collect()
    }

    fn port_table(&self, ports: &[SwitchPort]) -> Table<'static> {
        let rows: Vec<Row<'static>> = ports
            .iter()
            .zip(self.port_rates())
            .map(|(port, rate)| {
                let rate = rate.map_or_else(|| "-".to_owned(), bits);
                Row::new(std::iter::once(rate).chain(switch::cells(port)).collect::<Vec<_>>())
            })
            .collect();
        let widths = [12, 12, 9, 9, 6, 10, 9, 9, 6, 9, 9, 6].map(Constraint::Length);
        let header: Vec<&str> = std::iter::once("rate").chain(switch::COLUMNS).collect();
        Table::new(rows, widths).header(Row::new(header).bold())
    }

    fn sums(&self, view: &View) -> String {
        if view.switch.is_some() {
            return format!("{} sent", bits(0.0 + self.port_rates().into_iter().flatten().sum::<f64>()));
        }
        let sum = |count: fn(&cavalcade_runtime::administration::proto::Coflow) -> u32| -> u32 {
            view.coflows.iter().map(count).sum()
        };
        // Added to zero: the sum of nothing is a negative zero.
        let rate: f64 = 0.0 + self.rates().values().sum::<f64>();
        let quietest = view.hosts.iter().map(|host| host.silent_ns).max();
        let quietest = quietest
            .map_or_else(String::new, |nanos| format!(", oldest report {:.0} ms", nanos as f64 / 1e6));
        let rounds = match view.port {
            None => format!(", {:.0} rounds/s", self.rounds()),
            Some(_) => format!(", {} clients", view.clients),
        };
        format!(
            "{} coflows; flows: {} open, {} paced, {} off, {} rest; {}{rounds}{quietest}",
            view.coflows.len(),
            sum(|coflow| coflow.open),
            sum(|coflow| coflow.paced),
            sum(|coflow| coflow.off),
            sum(|coflow| coflow.resting),
            bits(rate),
        )
    }

    fn table(&self, view: &View) -> Table<'static> {
        let rates = self.rates();
        let rows: Vec<Row<'static>> = view
            .coflows
            .iter()
            .map(|coflow| {
                let rate = rates.get(coflow.coflow.as_str()).copied();
                let sends = coflow.open + coflow.paced > 0;
                let size = coflow.size_bytes.map_or_else(|| "-".to_owned(), amount);
                let age =
                    coflow.age_ns.map_or_else(|| "-".to_owned(), |age| format!("{:.1} s", age as f64 / 1e9));
                let cells = [
                    coflow.id.clone(),
                    coflow.name.clone().unwrap_or_else(|| "-".to_owned()),
                    coflow.class.to_string(),
                    rate.map_or_else(|| "-".to_owned(), bits),
                    amount(coflow.sent_bytes),
                    size,
                    coflow.open.to_string(),
                    coflow.paced.to_string(),
                    coflow.off.to_string(),
                    coflow.resting.to_string(),
                    age,
                ];
                // What waits is dim, what sends is not.
                let style = if sends { Style::new() } else { Style::new().add_modifier(Modifier::DIM) };
                Row::new(cells).style(style)
            })
            .collect();
        let header = ["id", "name", "class", "rate", "sent", "size", "open", "paced", "off", "rests", "age"];
        let widths = [9, 33, 5, 12, 10, 10, 5, 5, 5, 5, 9].map(Constraint::Length);
        Table::new(rows, widths).header(Row::new(header).bold())
    }
}

fn bits(rate: f64) -> String {
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    let unit = units.iter().find(|(size, _)| rate >= *size);
    unit.map_or_else(|| format!("{rate:.0} bit/s"), |(size, name)| format!("{:.1} {name}", rate / size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_runtime::administration::proto::{Coflow, Switch, SwitchClass};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn view(now_ns: u64, sent_bytes: u64) -> View {
        let coflow = Coflow {
            coflow: "7.0.7".to_owned(),
            id: "63cbe1e".to_owned(),
            name: Some("sort-7".to_owned()),
            sent_bytes,
            open: 2,
            off: 1,
            ..Coflow::default()
        };
        View {
            role: "coordinator".to_owned(),
            ports: 4,
            policy: "dclas".to_owned(),
            now_ns,
            rounds: now_ns / 10_000_000,
            coflows: vec![coflow],
            ..View::default()
        }
    }

    fn drawn(picture: &Picture) -> String {
        let mut terminal = Terminal::new(TestBackend::new(120, 8)).unwrap();
        terminal.draw(|frame| picture.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn rates_come_from_two_looks_and_a_lost_connection_keeps_the_picture() {
        let mut picture = Picture::default();
        picture.take(Ok(view(1_000_000_000, 1_000_000)));
        picture.take(Ok(view(3_000_000_000, 251_000_000)));
        let text = drawn(&picture);
        for part in
            ["policy dclas", "1.0 Gbit/s", "100 rounds/s", "2 open, 0 paced, 1 off", "63cbe1e", "sort-7"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        picture.take(Err(AdministrationError::Failed("it is being stopped".to_owned())));
        let text = drawn(&picture);
        assert!(text.contains("it is being stopped") && text.contains("sort-7"), "{text}");
    }

    #[test]
    fn a_switch_is_shown_by_ports_with_their_rates() {
        let look = |now_ns: u64, bytes: u64| {
            let spc = SwitchClass { bytes, dropped: 3, ..SwitchClass::default() };
            let port = SwitchPort {
                name: "eth7".to_owned(),
                rate_bps: 1_000_000_000,
                granted_bps: 800_000_000,
                spc: Some(spc),
                tasks: 2,
                ..SwitchPort::default()
            };
            let switch = Switch { id: 0xab, ports: vec![port], ..Switch::default() };
            View { role: "switch".to_owned(), now_ns, switch: Some(switch), ..View::default() }
        };
        let mut picture = Picture::default();
        picture.take(Ok(look(1_000_000_000, 1_000_000)));
        picture.take(Ok(look(2_000_000_000, 101_000_000)));
        let text = drawn(&picture);
        for part in ["switch 00000000000000ab", "800.0 Mbit/s", "eth7", "1Gbps", "800Mbps", "101.0 MB"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
