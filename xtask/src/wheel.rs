//! The package for Python: a wheel and an sdist out of the release build, installed where there is
//! no compiler, and tried.
//!
//! Nothing is built a second time: the program is the one that `cargo run --release` of the README
//! has made, and the extension is built with the same profile. The backend (`python/backend`) packs
//! both. Tools and libraries of the tests are fetched beforehand into a virtual environment below
//! the target folder, and stay there for the next time.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::fetch::runs;
use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// Versions of Python that all of the pinned tools are made for.
const FITS: &str = "import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))";
/// The glibc that a portable wheel needs: that of Debian 10, RHEL 8 and Ubuntu 18.10.
const OLDEST_GLIBC: &str = "2.28";
/// What builds the package.
const BACKEND: &str = "python/backend/cavalcade_build.py";
/// The tools of a portable build.
const TOOLS: &str = "python/backend/requirements.txt";
/// The tools and libraries of the tests.
const NEEDS: &str = "python/tests/requirements.txt";
/// Those that the pages' examples and the notebooks use, for a machine that has no others.
const USED: [&str; 7] = ["fsspec", "ipykernel", "nbclient", "numpy", "pandas", "polars", "pyarrow"];
/// Seconds after which tests of a folder hang, however busy the machine is.
const PATIENCE: &str = "1200";
/// Has a test that takes longer say where it stands.
const TELL: &str = "faulthandler_timeout=600";

/// Tells what this machine lacks.
pub(crate) fn missing() -> Option<&'static str> {
    let fits = Command::new("python3").args(["-c", FITS]).output().is_ok_and(|ran| ran.status.success());
    (!fits).then_some("Python 3.11 to 3.13 as 'python3', with pip and venv (in Debian: python3-venv)")
}

/// Tells what this machine lacks to make one with Python and nothing else.
pub(crate) fn missing_for_clean() -> Option<&'static str> {
    // What it is made of is tried as a whole: containers allow one part and refuse another.
    let apart =
        ["--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let mut trial = Command::new("unshare");
    let trial = trial.args(apart).args(["ip", "link", "set", "lo", "up"]).output();
    let fits =
        trial.is_ok_and(|ran| ran.status.success()) && runs("ldd", "--version") && runs("ldconfig", "-p");
    (!fits).then_some(
        "root on Linux for namespaces and mounts, 'ip' (in Debian: iproute2), and ldd and ldconfig of glibc",
    )
}

/// Gets tools and libraries of the tests from Python's index, unless they are there.
pub(crate) fn fetch(workspace: &Workspace) -> Result<(), Failure> {
    let place = Place::of(workspace);
    let mut version = Command::new("python3");
    version.arg("-V");
    let version = Run::new(version).printed()?;
    install(workspace, &place, &version)?;
    download(workspace, &place, &version)
}

fn install(workspace: &Workspace, place: &Place, version: &str) -> Result<(), Failure> {
    let wanted = version.to_owned() + &workspace.read(NEEDS)?;
    let mark = place.environment.join("installed.txt");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    fs::create_dir_all(&place.environment)?;
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&place.environment);
    Run::new(make).check()?;
    // As wheels only: where one would have to be compiled, this machine has a Python that they are
    // not made for.
    let install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-r", NEEDS];
    place.python(workspace).args(&install).check()?;
    // It fetches the rest of itself when it is first used.
    place.python(workspace).args(&["-m", "pyright", "--version"]).check()?;
    Ok(fs::write(mark, wanted)?)
}

/// Fetches the wheels that a clean machine installs, with all that those need.
fn download(workspace: &Workspace, place: &Place, version: &str) -> Result<(), Failure> {
    let needs = workspace.read(NEEDS)?;
    let is_used = |line: &&str| line.split_once("==").is_some_and(|(name, _)| USED.contains(&name));
    let wanted: Vec<&str> = needs.lines().filter(is_used).collect();
    let said = format!("{version}{}", wanted.join("\n"));
    let mark = place.index.join("downloaded.txt");
    if fs::read_to_string(&mark).is_ok_and(|downloaded| downloaded == said) {
        return Ok(());
    }
    if place.index.exists() {
        fs::remove_dir_all(&place.index)?;
    }
    let index = place.index.display().to_string();
    let download = ["-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", &index];
    place.python(workspace).args(&[&download[..], &wanted].concat()).check()?;
    Ok(fs::write(mark, said)?)
}

/// Builds the wheel and the sdist into `target/wheels`, for this machine's glibc.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    // One after the other: built together their dependencies would have the features of both, and
    // the program would be built again.
    workspace.cargo(&["build", "--release"]).check()?;
    workspace.cargo(&["build", "--release", "-p", "cavalcade-python"]).check()?;
    let artifacts = format!("artifacts={}", workspace.target.join("release").display());
    pack(workspace, "python3".as_ref(), &[&artifacts])
}

/// Builds them for any Linux with the glibc [`OLDEST_GLIBC`], and for another processor than this
/// one where it is named. The tools come from Python's index.
pub(crate) fn build_portable(workspace: &Workspace, machine: Option<&str>) -> Result<PathBuf, Failure> {
    let tools = workspace.target.join("portable-tools");
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(&tools);
    Run::new(make).check()?;
    let python = tools.join("bin/python");
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "-r", TOOLS]).current_dir(&workspace.root);
    Run::new(install).check()?;
    let portable = format!("portable={OLDEST_GLIBC}");
    let machine = machine.map(|machine| format!("machine={machine}"));
    let settings: Vec<&str> = std::iter::once(&portable).chain(&machine).map(String::as_str).collect();
    pack(workspace, &python, &settings)
}

/// Has the backend, run by this Python, whose neighbours it finds first, make both.
fn pack(workspace: &Workspace, python: &Path, settings: &[&str]) -> Result<PathBuf, Failure> {
    let place = Place::of(workspace);
    fs::create_dir_all(&place.wheels)?;
    for entry in fs::read_dir(&place.wheels)? {
        fs::remove_file(entry?.path())?;
    }
    let wheels = place.wheels.display().to_string();
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = python.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
    let path = env::join_paths(beside.into_iter().chain(env::split_paths(&path)))
        .map_err(|error| Failure::new(error.to_string()))?;
    let made = |words: &[&str]| {
        let mut command = Command::new(python);
        command.args(["-B", BACKEND]).args(words).current_dir(&workspace.root);
        Run::new(command).env("PATH", &path).check()
    };
    made(&["sdist", &wheels])?;
    made(&[&["wheel", &wheels], settings].concat())?;
    let wheel = place.wheel()?;
    eprintln!("{}: {:.1} MB", wheel.display(), fs::metadata(&wheel)?.len() as f64 / 1e6);
    Ok(wheel)
}

/// Installs and tries the wheel that was built where there is Python and nothing else:
/// `python/tests/clean`.
pub(crate) fn clean(workspace: &Workspace) -> Result<(), Failure> {
    let place = Place::of(workspace);
    let mut machine = Command::new(timeout()?);
    machine.args(["-k", "10", PATIENCE, "python3", "-B", "python/tests/clean/machine.py"]);
    machine.args([place.environment.join("clean"), place.wheel()?, place.index]).current_dir(&workspace.root);
    Run::new(machine).check()
}

/// Builds, installs and tries the package. Types are checked beside the tests, which mostly wait.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let place = Place::of(workspace);
    let wheel = build(workspace)?.display().to_string();
    let install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", &wheel];
    place.python(workspace).args(&install).check()?;
    thread::scope(|scope| {
        let types = scope.spawn(|| types(workspace, &place));
        let tests = tests(workspace, &place);
        let types = types.join().map_err(|_| Failure::new("the check of types panicked"))?;
        all([types, tests])
    })
}

/// One failure of all that failed.
fn all(ends: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let failed: Vec<_> =
        ends.into_iter().filter_map(Result::err).map(|failure| failure.to_string()).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
}

/// The tests and the notebooks, with the installed package and nothing else of the checkout on the
/// path.
fn tests(workspace: &Workspace, place: &Place) -> Result<(), Failure> {
    let program = workspace.target.join("release/cavalcade");
    let run =
        |words: &[&str]| place.bounded(workspace)?.args(words).env("CAVALCADE_PROGRAM", &program).check();
    // Those of the live client run with the tests of the crate `client`, under each version of
    // Python.
    let folders = ["analysis", "sweeps", "outside", "package"].map(|folder| {
        let pytest = ["-m", "pytest", "-c", "python/pyproject.toml", "-p", "no:cacheprovider", "-o", TELL];
        let tests = format!("python/tests/{folder}");
        run(&[&pytest[..], &[tests.as_str()]].concat())
    });
    all(folders.into_iter().chain([run(&["python/tests/package/notebooks.py"])]))
}

/// Style, types of the package, and types of every example in pages and notebooks.
fn types(workspace: &Workspace, place: &Place) -> Result<(), Failure> {
    let python = |words: &[&str]| place.bounded(workspace)?.args(words).check();
    let pyright = |words: &[&str]| {
        let pyright = place.bounded(workspace)?.args(&["-m", "pyright", "--level", "error", "-p"]);
        // It would ask the index whether there is a newer one.
        pyright.env("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1").args(words).check()
    };
    let ruff =
        ["-m", "ruff", "check", "--quiet", "--no-cache", "--config", "python/pyproject.toml", "python"];
    let style = python(&ruff);
    let examples = place.environment.join("examples");
    fs::create_dir_all(&examples)?;
    let shown = examples.display().to_string();
    python(&["python/tests/package/snippets.py", &shown])?;
    // The package alone: with all that pip has installed in sight, mypy judges that as well.
    let cache = place.environment.join("mypy").display().to_string();
    let mypy =
        ["-m", "mypy", "--config-file", "python/pyproject.toml", "--no-site-packages", "--cache-dir", &cache];
    let alone = |words: &[&str]| {
        let run = place.bounded(workspace)?.args(&[&mypy[..], words].concat());
        run.env("MYPYPATH", workspace.root.join("python")).check()
    };
    let settings = format!(
        r#"{{"include": ["."], "extraPaths": ["{}"], "reportMissingImports": false, "reportMissingModuleSource": false}}"#,
        workspace.root.join("python").display()
    );
    fs::write(examples.join("pyrightconfig.json"), settings)?;
    all([
        style,
        alone(&["-p", "cavalcade"]),
        alone(&["--scripts-are-modules", "--allow-untyped-defs", &shown]),
        pyright(&["python/pyproject.toml", "python/cavalcade"]),
        pyright(&[shown.as_str()]),
    ])
}

/// Where `timeout` of the coreutils is, which ends a command together with its children.
fn timeout() -> Result<PathBuf, Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found =
        env::split_paths(&path).map(|folder| folder.join("timeout")).find(|program| program.is_file());
    found.ok_or_else(|| Failure::new("no program 'timeout' on the path (in Debian: coreutils)"))
}

/// Where the package is built and tried.
struct Place {
    wheels: PathBuf,
    environment: PathBuf,
    /// Wheels of others, in place of Python's index.
    index: PathBuf,
}

impl Place {
    fn of(workspace: &Workspace) -> Self {
        let environment = workspace.target.join("python");
        Self { wheels: workspace.target.join("wheels"), index: environment.join("index"), environment }
    }

    /// The wheel that was built last.
    fn wheel(&self) -> Result<PathBuf, Failure> {
        let mut made = fs::read_dir(&self.wheels).into_iter().flatten().flatten().map(|entry| entry.path());
        let wheel = made.find(|path| path.extension().is_some_and(|ending| ending == "whl"));
        wheel.ok_or_else(|| Failure::new(format!("no wheel in {}", self.wheels.display())))
    }

    /// The environment's Python in the root of the checkout, with no other program on its path:
    /// above all no compiler.
    fn python(&self, workspace: &Workspace) -> Run {
        self.alone(Command::new(self.programs().join("python")), workspace)
    }

    /// The same, ended with all that it has started when it takes too long.
    fn bounded(&self, workspace: &Workspace) -> Result<Run, Failure> {
        let mut bounded = Command::new(timeout()?);
        bounded.args(["-k", "10", PATIENCE]).arg(self.programs().join("python"));
        Ok(self.alone(bounded, workspace))
    }

    fn alone(&self, mut python: Command, workspace: &Workspace) -> Run {
        python.arg("-B").current_dir(&workspace.root).env_remove("PYTHONPATH");
        Run::new(python).env("PATH", self.programs())
    }

    fn programs(&self) -> PathBuf {
        self.environment.join("bin")
    }
}
