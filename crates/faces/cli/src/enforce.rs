//! `cavalcade enforce`: the kernel path in the foreground, until Ctrl-C.
//!
//! It is a process of its own, not a part of the agent: it needs rights that the agent does not,
//! and what it does to the agent is what any client may.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use cavalcade_enforce::{
    Conditions, Control, Enforcer, Error, Kept, Kernel, Limits, Place, Seal, Site, Status, Stray, Trouble,
    Window, containers,
};
use cavalcade_model::PortId;
use cavalcade_protocol::Directory;
use cavalcade_runtime::administration::proto;
use cavalcade_runtime::{Identity, Pairs};

use crate::arguments::{EnforceCommand, EnforceOptions, Options, rule};
use crate::failure::{Failure, Kind};
use crate::live::{
    addresses, administration_path, allow, config, distinct, logging, show_enforcer, socket_path,
};
use crate::output::tell;

/// `cavalcade enforce`.
pub(crate) fn run(command: &EnforceCommand) -> Result<(), Failure> {
    // Of what may be repeated, flags add to what the file says.
    let EnforceOptions { tag, containers: folders, .. } = &command.own;
    let own = EnforceOptions { tag: Vec::new(), containers: Vec::new(), ..command.own.clone() };
    let flags = config::File { enforce: own, ..config::File::default() };
    let (file, _) = config::read(command.file.config.as_deref(), &flags)?;
    let _log = logging::start(&file.log);
    let mut options = file.enforce;
    let tags = [&tag[..], &options.tag].concat();
    let mut folders = [&folders[..], &options.containers].concat();
    options.certificates = options.certificates.or(file.agent.access.certificates);
    options.hosts = options.hosts.over(file.site.hosts);
    let agent = socket_path(options.socket.as_deref().or(file.agent.socket.as_deref()));
    let door = options.door();
    let place = options.group.as_deref().map_or_else(Place::of_host, Place::below).map_err(lacking)?;
    if folders.is_empty() {
        folders = containers::FOLDERS.map(Into::into).to_vec();
    }
    // Those of flags have been checked.
    let failed = |text: &str, reason| Failure::input(format!("[enforce] tag = \"{text}\": {reason}"));
    let read = |text: &String| rule(text).map_err(|reason| failed(text, reason));
    let classes = options.dscp.unwrap_or_default();
    let conditions = Conditions {
        door: door.clone(),
        agent: agent.clone(),
        classes,
        rules: tags.iter().map(read).collect::<Result<_, _>>()?,
        of_user: options.coflows_of_user(),
        containers: folders,
        site: site(&options)?,
    };
    let control = control(&options)?;
    // A coflow takes one, for its link to the agent, and a client library another.
    let _ = cavalcade_runtime::raise_descriptors();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    // Without the handler a signal ends the process, and the kernel lifts all limits.
    let _ = ctrlc::set_handler(move || stopped.store(true, Ordering::Relaxed));
    options.metrics.iter().try_for_each(|address| allow(*address, false))?;
    // Before the groups are removed that one which was killed has left.
    let kept = Kept::beside(&door);
    let mut kernel = Kernel::load(place, limits(&options)).map_err(lacking)?;
    if control.is_some() {
        kernel.control(control).map_err(lacking)?;
    }
    if let Some(rule) = options.demote {
        kernel.demote(&rule, classes).map_err(lacking)?;
    }
    let mut enforcer = Enforcer::new(kernel, conditions).map_err(lacking)?;
    enforcer.take_up(kept);
    let is_given = options.administration.is_some();
    let administration = options.administration.unwrap_or_else(|| administration_path(&door));
    let _shown = Shown::new((administration, is_given), options.metrics, enforcer.window())?;
    cavalcade_runtime::ready();
    tell(&format!(
        "Commands are tagged at {}; the agent is looked for at {}.",
        door.display(),
        agent.display()
    ));
    enforcer.serve(&stop).map_err(|error| Failure::new(Kind::Runtime, error.to_string()))
}

/// The thread that shows the enforcer, as long as this is kept.
struct Shown {
    close: tokio::sync::watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Shown {
    /// Begins to show what `window` does.
    ///
    /// # Errors
    /// If what was named cannot be listened at.
    fn new(
        administration: (PathBuf, bool),
        metrics: Option<SocketAddr>,
        window: Window,
    ) -> Result<Self, Failure> {
        let (close, stop) = tokio::sync::watch::channel(false);
        let (ready, listens) = channel();
        let thread = std::thread::spawn(move || {
            let look = || Some(window.look()).filter(|status| status.is_serving).map(shown);
            // Who waits has gone where the program ends.
            show_enforcer(administration, metrics, look, stop, |outcome| drop(ready.send(outcome)));
        });
        let ended = || Err(Failure::new(Kind::Runtime, "the thread that shows the enforcer failed"));
        listens.recv().unwrap_or_else(|_| ended())?;
        Ok(Self { close, thread: Some(thread) })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.close.send(true);
        if let Some(thread) = self.thread.take() {
            // It removes its socket; what fails in it has been logged.
            let _ = thread.join();
        }
    }
}

/// How an enforcer stands, in the words of the service.
fn shown(status: Status) -> proto::Enforcer {
    let stray = |stray: Stray| proto::Stray {
        coflow: stray.key.map(|key| key.to_string()).unwrap_or_default(),
        name: stray.task.unwrap_or_default(),
        bytes: stray.bytes,
    };
    let trouble = |trouble: Trouble| {
        let Trouble { what, times, reason } = trouble;
        proto::Trouble { what: what.to_owned(), times, reason }
    };
    proto::Enforcer {
        coflows: status.coflows as u64,
        obedient: status.obedient as u64,
        flows: status.flows as u64,
        libraries: status.libraries as u64,
        releasing: status.releasing as u64,
        unscheduled_bytes: status.unscheduled,
        strays: status.strays.into_iter().map(stray).collect(),
        troubles: status.troubles.into_iter().map(trouble).collect(),
    }
}

/// The times by which the kernel acts without being told.
fn limits(options: &EnforceOptions) -> Limits {
    Limits { silence: options.silence(), idle: options.idle(), ..Limits::default() }
}

/// The congestion control for connections of coflows.
fn control(options: &EnforceOptions) -> Result<Option<Control>, Failure> {
    let &EnforceOptions { line_rate, marking, largest, answer_marks: answers, .. } = options;
    let Some(law) = options.congestion else {
        if line_rate.is_some() || marking.is_some() || largest.is_some() || answers {
            let problem =
                "--line-rate, --marking, --largest and --answer-marks say something of a congestion control";
            return Err(Failure::usage(problem).help("name one with --congestion, or leave them out"));
        }
        return Ok(None);
    };
    let (line_rate, marking, largest) = (options.line_rate(), options.marking(), options.largest());
    Ok(Some(Control { law, line_rate, marking, largest, answers }))
}

/// The other enforcers of the site, where this host has certificates to speak to them.
fn site(options: &EnforceOptions) -> Result<Option<Site>, Failure> {
    let Some(folder) = &options.certificates else { return Ok(None) };
    let identity = Identity::load(folder).map_err(|error| Failure::input(error.to_string()))?;
    let pairs = identity.pairs().map_err(|error| Failure::input(error.to_string()))?;
    let hosts = &options.hosts;
    distinct(hosts).map_err(|twice| Failure::usage(format!("--hosts: {twice}")))?;
    if hosts.is_empty() {
        return Err(Failure::usage("other enforcers are to be told of connections, and no host is named")
            .help(
                "give --hosts with the addresses that agents have, or --config with a file that lists them",
            ));
    }
    let (listen, addresses, directory) = (options.listen(), addresses(hosts), Directory::of_hosts(hosts));
    let Some(&own) = addresses.get(pairs.own().index()) else {
        let (folder, own) = (folder.display(), pairs.own().0);
        return Err(Failure::usage(format!("{folder} is of agent-{own}, and --hosts names {}", hosts.len()))
            .help("name all hosts, in the order that they have for agents"));
    };
    if let Err(error) = UdpSocket::bind((own, 0)) {
        tracing::warn!(
            address = %own, %error,
            "the certificate is of a host whose address is not one of this host: others drop what it reports, unless that \
             address is translated"
        );
    }
    Ok(Some(Site { listen, hosts: addresses, directory, seal: Box::new(OfSite(pairs)) }))
}

/// The keys of this host's agent with others, as enforcers use them.
#[derive(Debug)]
struct OfSite(Pairs);

impl Seal for OfSite {
    fn close(&mut self, to: PortId, message: &mut Vec<u8>) -> bool {
        self.0.refresh();
        self.0.close(to, message)
    }
    fn open<'a>(&mut self, from: PortId, sealed: &'a [u8]) -> Option<&'a [u8]> {
        self.0.refresh();
        self.0.open(from, sealed)
    }
}

/// A reason for which this host cannot do it, with the next best thing.
fn lacking(error: Error) -> Failure {
    let failure = Failure::new(Kind::Capability, error.to_string());
    match error {
        Error::InUse(_) | Error::Foreign(_) => failure,
        Error::File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => failure.help(
            "it takes root, or CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and CAP_DAC_OVERRIDE; 'cavalcade doctor' tries each feature",
        ),
        Error::NoControls(_) => failure.help("leave out --congestion: all else works without"),
        _ => failure.help(
            "'cavalcade doctor' tries each feature; programs that use a client library need none of them",
        ),
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::Nanos;

    use super::*;

    #[test]
    fn a_time_on_the_command_line_wins_over_the_file_and_both_over_the_usual() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            own: EnforceOptions,
        }
        let read = |words: &[&str], idle| {
            let line = Line::try_parse_from([&["enforce"], words].concat()).unwrap();
            limits(&line.own.over(EnforceOptions { idle, ..EnforceOptions::default() }))
        };
        let usual = Limits::default();
        assert_eq!(read(&[], None), usual);
        assert_eq!(read(&[], Some(Nanos(10_000))), Limits { idle: Nanos(10_000), ..usual });
        let both = read(&["--idle", "2ms", "--silence", "1s"], Some(Nanos(10_000)));
        let said = Limits { idle: Nanos::from_millis(2), silence: Nanos::from_secs(1), ..usual };
        assert_eq!(both, said);
    }
}
