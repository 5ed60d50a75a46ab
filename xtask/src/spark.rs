//! `cargo xtask spark`: the plugin for Spark (`clients/spark`) in the oldest and the newest Spark
//! that it is for.
//!
//! Both come from Python's package registry, and stay in the target directory. A small application
//! runs on each: as stock Spark does, and with the plugin on a cluster of two executors under an
//! agent of this host. Its rows have to be the same. In its second part another coflow keeps the
//! host's port. On one line the agent is killed meanwhile; on the other the readers' patience is 5
//! s. The newest line authenticates and encrypts. Shuffles are small here, and most of their bytes
//! leave before an order comes; faults in mid-shuffle are for a slow network ([`faults`]). That a
//! gate which stays shut fails no job is held by the plugin's own tests as well, which Maven runs
//! first.

mod faults;
mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::fetch::runs;
use crate::steps::{Failure, Run};
use crate::workspace::Workspace;
use site::{Commands, Running, Site, name, number, until};

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

/// Properties that make it a cluster whose executors fetch over the network.
const CLUSTER: [&str; 2] = ["spark.master=local-cluster[2,1,1024]", "spark.shuffle.readHostLocalDisk=false"];

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

/// Builds the program and the jar, with the jar's own tests, and runs the application on each line,
/// and again under faults where this machine can.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    check_with(workspace, &built(workspace)?)
}

/// The same with a program that is there.
pub(crate) fn check_with(workspace: &Workspace, program: &Path) -> Result<(), Failure> {
    fetch(workspace)?;
    let needs = faults::missing();
    each(workspace, |application| {
        compare(application, program)?;
        match needs {
            Some(needs) => eprintln!("left out: faults in mid-shuffle, which need {needs}"),
            None => faults::check(application, program)?,
        }
        Ok(())
    })
}

/// The same without faults, with the Sparks that are there.
pub(crate) fn briefly(workspace: &Workspace) -> Result<(), Failure> {
    let program = built(workspace)?;
    each(workspace, |application| compare(application, &program))
}

fn built(workspace: &Workspace) -> Result<PathBuf, Failure> {
    workspace.cargo(&["build", "--release", "-p", "cavalcade-cli"]).check()?;
    Ok(workspace.target.join("release/cavalcade"))
}

/// Builds the jar and tries each line.
fn each(
    workspace: &Workspace,
    tried: impl Fn(&Application<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    maven(workspace, &["package"])?;
    for line in &LINES {
        let application = Application { workspace, line, home: home(workspace, line.version) };
        let is_right = tried(&application);
        let _ = fs::remove_dir_all(application.work());
        is_right.map_err(|failure| Failure::new(format!("Spark {}: {failure}", line.version)))?;
    }
    Ok(())
}

/// Runs Maven in the plugin's folder.
fn maven(workspace: &Workspace, goals: &[&str]) -> Result<(), Failure> {
    let maven = Run::new(Command::new("mvn")).args(&["-q", "-B"]).args(goals);
    maven.in_folder(&workspace.root.join("clients/spark")).check()
}

/// Compares the rows under orders with stock Spark's.
fn compare(application: &Application<'_>, program: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    let (wanted, rows) = thread::scope(|scope| {
        let stock = scope.spawn(|| application.rows_of_stock());
        let rows = application.rows_under_orders(program);
        (stock.join().expect("its thread does not panic"), rows)
    });
    let (wanted, rows) = (wanted?, rows?);
    if rows != wanted {
        return Err(Failure::new(format!("rows {rows:?}, stock Spark has {wanted:?}")));
    }
    eprintln!(
        "Spark {}: the rows are those of stock Spark ({:.0} s)",
        application.line.version,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn home(workspace: &Workspace, version: &str) -> PathBuf {
    workspace.target.join("spark").join(version)
}

/// Gets the lines that are not there. As sources they are all that an installation has, and ready.
pub(crate) fn fetch(workspace: &Workspace) -> Result<(), Failure> {
    let parts = workspace.target.join("spark/parts");
    let tools = workspace.target.join("spark/python");
    for Line { version, .. } in &LINES {
        let home = home(workspace, version);
        if home.exists() {
            continue;
        }
        let _ = fs::remove_dir_all(&parts);
        fs::create_dir_all(&parts)?;
        if !tools.exists() {
            Run::new(Command::new("python3")).args(&["-m", "venv"]).args(&[&text(&tools)]).quietly()?;
        }
        let pip = Run::new(Command::new(tools.join("bin/pip"))).in_folder(&parts);
        // Its one dependency is inside as well.
        let download = ["download", "-q", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"];
        pip.args(&download).args(&["--no-binary", ":all:", &format!("pyspark=={version}")]).check()?;
        let archive = format!("pyspark-{version}.tar.gz");
        Run::new(Command::new("tar")).args(&["-xzf", &archive]).in_folder(&parts).check()?;
        fs::rename(parts.join(format!("pyspark-{version}")), home)?;
        fs::remove_dir_all(&parts)?;
    }
    maven(workspace, &["dependency:resolve", "dependency:resolve-plugins"])
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

struct Application<'a> {
    workspace: &'a Workspace,
    line: &'a Line,
    /// The folder of the version.
    home: PathBuf,
}

impl Application<'_> {
    /// The folder in which Spark's workers keep what they need.
    fn work(&self) -> PathBuf {
        self.home.join("deps/work")
    }

    /// Starts it, with these properties as well.
    fn start(&self, commands: Commands<'_>, properties: &[String]) -> Result<Running, Failure> {
        let library = fs::read_dir(self.home.join("lib"))?.flatten().map(|entry| entry.path());
        let bridge = library.into_iter().find(|path| text(path).contains("py4j")).unwrap_or_default();
        let mut job = commands(Path::new("python3"));
        job.arg(self.workspace.root.join("clients/spark/tests/job.py")).args(PLAIN).args(properties);
        job.env("PYTHONPATH", format!("{}:{}", text(&self.home), text(&bridge)))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SPARK_HOME", self.home.join("deps"))
            .env("SPARK_SCALA_VERSION", self.line.scala)
            .env("SPARK_LOCAL_IP", "127.0.0.1")
            // Of its executors too. They live for seconds, which better code would not pay back.
            .env("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .current_dir(&self.home);
        let mut running = Running::start(&mut job)?;
        running.wait_for("ready")?;
        Ok(running)
    }

    /// Both parts without the plugin.
    fn rows_of_stock(&self) -> Result<[String; 2], Failure> {
        let mut job = self.start(&here, &["spark.master=local[2]".to_owned()])?;
        let rows = [job.part("first")?, job.part("second")?];
        job.ends()?;
        Ok(rows)
    }

    /// Both parts with the plugin, under an agent; in the second another coflow goes first.
    fn rows_under_orders(&self, program: &Path) -> Result<[String; 2], Failure> {
        let site = Site::start(program, &here)?;
        let mut properties = CLUSTER.map(str::to_owned).to_vec();
        properties.extend(self.line.more.iter().map(|&one| one.to_owned()));
        properties.extend(site.properties(self.workspace));
        let mut job = self.start(&here, &properties)?;
        let first = job.part("first")?;
        until("the first part's shuffles end as coflows by their names, and were sent", || {
            let over = site.coflows("--history")?;
            Ok(over.iter().any(|one| name(one) == "first")
                && over.iter().any(|one| name(one).starts_with("first/") && number(one, "sent_bytes") > 0))
        })?;
        let mut holder = site.hold(self.workspace)?;
        job.send("second")?;
        site.until_stage("second", "a shuffle of the second part is listed", |_| true)?;
        if self.line.trial == Trial::Killed {
            site.kill_agent();
        }
        let second = job.rows()?;
        holder.ends()?;
        job.ends()?;
        Ok([first, second])
    }
}

/// The command of a program as it is.
fn here(program: &Path) -> Command {
    Command::new(program)
}
