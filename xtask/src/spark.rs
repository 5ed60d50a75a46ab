//! `cargo xtask spark`: the plugin for Spark (`clients/spark`) in the oldest and the newest Spark
//! that it is for.
//!
//! Both come from Python's package registry, and stay in the target directory. A small application
//! runs on each: as stock Spark does, and with the plugin on a cluster of two executors under an
//! agent of this host. Its rows have to be the same. In its second part another coflow keeps the
//! host's port. On one line the agent is killed meanwhile; on the other the readers' patience is 5
//! s. The newest line authenticates and encrypts. Shuffles are small here, and most of their bytes
//! leave before an order comes: that a gate which stays shut fails no job is held by the plugin's
//! own tests, which Maven runs first.
//!
//! Rejected: a cluster in network namespaces, which needs root and tells no more about rows.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use cavalcade_testing::{Lines, free_port};
use serde_json::Value;

use crate::fetch::runs;
use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(240);
const JAR: &str = "clients/spark/target/cavalcade-spark-0.1.0.jar";

/// What happens while another coflow goes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// The agent is killed.
    Killed,
    /// Nothing; the readers' patience is short.
    Held,
}

/// A line of Spark, as Python's registry has it.
struct Line {
    version: &'static str,
    scala: &'static str,
    trial: Trial,
    /// Properties of its application with the plugin.
    more: &'static [&'static str],
}

const LINES: [Line; 2] = [
    Line {
        version: "3.5.9",
        scala: "2.12",
        trial: Trial::Held,
        more: &["spark.shuffle.io.connectionTimeout=5s", "spark.shuffle.io.maxRetries=1"],
    },
    Line {
        version: "4.3.0",
        scala: "2.13",
        trial: Trial::Killed,
        more: &[
            "spark.authenticate=true",
            "spark.authenticate.secret=of-this-test",
            "spark.network.crypto.enabled=true",
        ],
    },
];

/// Properties of every application.
const PLAIN: [&str; 6] = [
    "spark.ui.enabled=false",
    "spark.ui.showConsoleProgress=false",
    "spark.sql.shuffle.partitions=2",
    "spark.sql.autoBroadcastJoinThreshold=-1",
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
];

/// Returns what is needed and missing on this machine.
pub(crate) fn missing() -> Option<&'static str> {
    let tools = [("javac", "-version"), ("mvn", "-version"), ("python3", "--version")];
    let has_venv = || {
        let mut python = Command::new("python3");
        python.args(["-c", "import ensurepip, venv"]).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    };
    let has_all = tools.into_iter().all(|(program, argument)| runs(program, argument)) && has_venv();
    (!has_all).then_some("a JDK 17, Maven as 'mvn' and Python 3 with venv")
}

/// Builds the jar with its own tests, and runs the application on each line.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    workspace.cargo(&["build", "--release", "-p", "cavalcade-cli"]).check()?;
    check_with(workspace, &workspace.target.join("release/cavalcade"))
}

/// The same with a program that is there.
pub(crate) fn check_with(workspace: &Workspace, program: &Path) -> Result<(), Failure> {
    let maven = Run::new(Command::new("mvn")).args(&["-q", "-B", "package"]);
    maven.in_folder(&workspace.root.join("clients/spark")).check()?;
    for line in &LINES {
        let start = Instant::now();
        let home = installed(workspace, line.version)?;
        eprintln!("Spark {}: there after {:.0} s", line.version, start.elapsed().as_secs_f64());
        let application = Application { workspace, line, home };
        let wanted = application.rows_of_stock()?;
        eprintln!("Spark {}: stock after {:.0} s", line.version, start.elapsed().as_secs_f64());
        let rows = application.rows_under_orders(program)?;
        let _ = fs::remove_dir_all(application.home.join("work"));
        if rows != wanted {
            return Err(Failure::new(format!(
                "Spark {}: rows {rows:?}, stock Spark has {wanted:?}",
                line.version
            )));
        }
        eprintln!(
            "Spark {}: the rows are those of stock Spark ({:.0} s)",
            line.version,
            start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// Returns the home of a version of Spark, and fetches it where it is not there.
fn installed(workspace: &Workspace, version: &str) -> Result<PathBuf, Failure> {
    let folder = workspace.target.join("spark").join(version);
    if !folder.exists() {
        let parts = workspace.target.join("spark/parts");
        let tools = workspace.target.join("spark/python");
        let _ = fs::remove_dir_all(&parts);
        if !tools.exists() {
            Run::new(Command::new("python3")).args(&["-m", "venv"]).args(&[&text(&tools)]).quietly()?;
        }
        let pip = Run::new(Command::new(tools.join("bin/pip")));
        let package = format!("pyspark=={version}");
        // Its one dependency is inside as well.
        pip.args(&["install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target"])
            .args(&[&text(&parts), &package])
            .check()?;
        fs::rename(&parts, &folder)?;
    }
    Ok(folder.join("pyspark"))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

struct Application<'a> {
    workspace: &'a Workspace,
    line: &'a Line,
    home: PathBuf,
}

impl Application<'_> {
    /// Starts it, with these properties as well.
    fn start(&self, properties: &[String]) -> Result<Running, Failure> {
        let library = fs::read_dir(self.home.join("python/lib"))?.flatten().map(|entry| entry.path());
        let bridge = library.into_iter().find(|path| text(path).contains("py4j")).unwrap_or_default();
        let mut job = Command::new("python3");
        job.arg(self.workspace.root.join("clients/spark/tests/job.py")).args(PLAIN).args(properties);
        let packages = self.home.parent().unwrap_or(&self.home);
        job.env("PYTHONPATH", format!("{}:{}", text(packages), text(&bridge)))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SPARK_HOME", &self.home)
            .env("SPARK_SCALA_VERSION", self.line.scala)
            .env("SPARK_LOCAL_IP", "127.0.0.1")
            .current_dir(&self.home);
        let mut running = Running::start(&mut job)?;
        running.wait_for("ready")?;
        Ok(running)
    }

    /// Both parts without the plugin.
    fn rows_of_stock(&self) -> Result<[String; 2], Failure> {
        let mut job = self.start(&["spark.master=local[2]".to_owned()])?;
        let rows = [part(&mut job, "first")?, part(&mut job, "second")?];
        job.ends()?;
        Ok(rows)
    }

    /// Both parts with the plugin, under an agent; in the second another coflow goes first.
    fn rows_under_orders(&self, program: &Path) -> Result<[String; 2], Failure> {
        let site = Site::start(program)?;
        let mut properties = vec![
            "spark.master=local-cluster[2,1,1024]".to_owned(),
            "spark.shuffle.readHostLocalDisk=false".to_owned(),
            "spark.plugins=cavalcade.spark.CavalcadePlugin".to_owned(),
            format!("spark.jars={}", text(&self.workspace.root.join(JAR))),
            format!("spark.cavalcade.socket={}", text(&site.agent_socket())),
        ];
        properties.extend(self.line.more.iter().map(|&one| one.to_owned()));
        let mut job = self.start(&properties)?;
        let first = part(&mut job, "first")?;
        site.until("the first part's shuffles end as coflows by their names, and were sent", || {
            let over = site.coflows("--history")?;
            Ok(over.iter().any(|one| name(one) == "first")
                && over.iter().any(|one| name(one).starts_with("first/") && sent(one) > 0))
        })?;
        let mut holder = site.hold(self.workspace)?;
        job.send("second")?;
        let is_second = |one: &Value| name(one).starts_with("second/");
        site.until("a shuffle of the second part is listed", || Ok(site.coflows("")?.iter().any(is_second)))?;
        let second = match self.line.trial {
            Trial::Killed => {
                site.kill_agent();
                rows(&mut job)?
            }
            Trial::Held => rows(&mut job)?,
        };
        holder.ends()?;
        job.ends()?;
        Ok([first, second])
    }
}

fn name(coflow: &Value) -> &str {
    coflow["name"].as_str().unwrap_or_default()
}

fn sent(coflow: &Value) -> u64 {
    coflow["sent_bytes"].as_u64().unwrap_or_default()
}

fn part(job: &mut Running, name: &str) -> Result<String, Failure> {
    job.send(name)?;
    rows(job)
}

fn rows(job: &mut Running) -> Result<String, Failure> {
    job.wait_for("rows ")
}

/// A program that is told lines and answers with lines; it ends with this.
struct Running {
    child: Child,
    lines: Lines<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| Failure::new("no output"))?;
        Ok(Self { child, lines: Lines::new(output) })
    }

    fn send(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.child.stdin.as_mut().ok_or_else(|| Failure::new("its input has ended"))?;
        writeln!(input, "{line}").and_then(|()| input.flush()).map_err(Failure::from)
    }

    /// Returns what follows after `mark` in the first line that has it.
    fn wait_for(&mut self, mark: &str) -> Result<String, Failure> {
        self.lines.after(mark).ok_or_else(|| Failure::new(format!("it ended without '{mark}'")))
    }

    /// Ends its input and waits for its end.
    fn ends(&mut self) -> Result<(), Failure> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("it ended with {status}"))) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A coordinator and the agent of this host, with their sockets in a folder of their own.
struct Site {
    program: PathBuf,
    folder: PathBuf,
    coordinator: Child,
    agent: std::cell::RefCell<Child>,
}

impl Site {
    fn start(program: &Path) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("cavalcade-spark-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let at = format!("127.0.0.1:{}", free_port());
        let part = |words: &[&str], socket: &str| {
            let common =
                ["--hosts", "127.0.0.1,127.0.0.2", "--rate", "100Mbps", "--insecure", "--administration"];
            Command::new(program)
                .args(words)
                .args(common)
                .arg(folder.join(socket))
                .stderr(Stdio::null())
                .spawn()
        };
        let coordinator =
            part(&["coordinator", "--listen", &at, "--policy", "fifo", "--hold", "3s"], "coordinator")?;
        let socket = text(&folder.join("agent.sock"));
        let agent =
            part(&["agent", "--port", "0", "--coordinator", &at, "--socket", &socket], "administration")?;
        let program = program.to_owned();
        Ok(Self { program, folder, coordinator, agent: agent.into() })
    }

    fn agent_socket(&self) -> PathBuf {
        self.folder.join("agent.sock")
    }

    /// What the coordinator lists.
    fn coflows(&self, more: &str) -> Result<Vec<Value>, Failure> {
        let mut list = Command::new(&self.program);
        list.args(["ps", "--json", "--at"]).arg(self.folder.join("coordinator"));
        list.args((!more.is_empty()).then_some(more));
        let shown = Run::new(list).printed()?;
        let list: Value = serde_json::from_str(&shown).map_err(|error| Failure::new(error.to_string()))?;
        Ok(list["coflows"].as_array().cloned().unwrap_or_default())
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
        let start = Instant::now();
        while !holds()? {
            if start.elapsed() > PATIENCE {
                let shown = format!("{:#?}\n{:#?}", self.coflows("")?, self.coflows("--history")?);
                return Err(Failure::new(format!("it never came that {what}:\n{shown}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Has another coflow keep the port, before all that comes later.
    fn hold(&self, workspace: &Workspace) -> Result<Running, Failure> {
        let mut holder = Command::new("python3");
        holder.arg(workspace.root.join("clients/spark/tests/holder.py")).arg(self.agent_socket());
        holder.env("PYTHONPATH", workspace.root.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut holder = Running::start(&mut holder)?;
        holder.wait_for("holds")?;
        self.until("the holder is listed", || Ok(self.coflows("")?.iter().any(|one| name(one) == "holder")))?;
        Ok(holder)
    }

    fn kill_agent(&self) {
        let mut agent = self.agent.borrow_mut();
        let _ = agent.kill();
        let _ = agent.wait();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill_agent();
        let _ = self.coordinator.kill();
        let _ = self.coordinator.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
