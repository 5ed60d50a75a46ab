//! The package for Python: a wheel and an sdist out of the release build, installed where there is no compiler, and tried.
//!
//! Nothing is built a second time: the program is the one that `cargo run --release` of the README has made, and the
//! extension is built with the same profile. The backend (`python/backend`) packs both. Tools and libraries of the tests are
//! fetched beforehand into a virtual environment below the target folder, and stay there for the next time.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// Versions of Python that all of the pinned tools are made for.
const FITS: &str = "import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))";
/// The tools and libraries of the tests.
const NEEDS: &str = "python/tests/requirements.txt";
/// Seconds after which tests of a folder hang, however busy the machine is.
const PATIENCE: &str = "1200";
/// Has a test that takes longer say where it stands.
const TELL: &str = "faulthandler_timeout=600";

/// Tells what this machine lacks.
pub(crate) fn missing() -> Option<&'static str> {
    let fits = Command::new("python3").args(["-c", FITS]).output().is_ok_and(|ran| ran.status.success());
    (!fits).then_some("Python 3.11 to 3.13 as 'python3', with pip and venv (in Debian: python3-venv)")
}

/// Installs tools and libraries of the tests from Python's index, unless they are there.
pub(crate) fn fetch(workspace: &Workspace) -> Result<(), Failure> {
    let place = Place::of(workspace);
    let mut version = Command::new("python3");
    version.arg("-V");
    let wanted = Run::new(version).printed()? + &workspace.read(NEEDS)?;
    let mark = place.environment.join("installed.txt");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    fs::create_dir_all(&place.environment)?;
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&place.environment);
    Run::new(make).check()?;
    // As wheels only: where one would have to be compiled, this machine has a Python that they are not made for.
    let install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-r", NEEDS];
    place.python(workspace).args(&install).check()?;
    // It fetches the rest of itself when it is first used.
    place.python(workspace).args(&["-m", "pyright", "--version"]).check()?;
    Ok(fs::write(mark, wanted)?)
}

/// Builds the wheel and the sdist into `target/wheels`; for an older glibc than this machine's where one is named.
pub(crate) fn build(workspace: &Workspace, portable: Option<&str>) -> Result<PathBuf, Failure> {
    let place = Place::of(workspace);
    fs::create_dir_all(&place.wheels)?;
    for entry in fs::read_dir(&place.wheels)? {
        fs::remove_file(entry?.path())?;
    }
    let setting = match portable {
        Some(glibc) => format!("portable={glibc}"),
        None => {
            // One after the other: built together their dependencies would have the features of both, and the program would
            // be built again.
            workspace.cargo(&["build", "--release"]).check()?;
            workspace.cargo(&["build", "--release", "-p", "cavalcade-python"]).check()?;
            format!("artifacts={}", workspace.target.join("release").display())
        }
    };
    let wheels = place.wheels.display().to_string();
    let backend = "python/backend/cavalcade_build.py";
    let plain = |words: &[&str]| {
        let mut python = Command::new("python3");
        python.args(["-B", backend]).args(words).current_dir(&workspace.root);
        Run::new(python).check()
    };
    plain(&["sdist", &wheels])?;
    plain(&["wheel", &wheels, &setting])?;
    let mut made = fs::read_dir(&place.wheels)?.flatten().map(|entry| entry.path());
    let wheel = made.find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheel.ok_or_else(|| Failure::new("the backend made no wheel"))?;
    eprintln!("{}: {:.1} MB", wheel.display(), fs::metadata(&wheel)?.len() as f64 / 1e6);
    Ok(wheel)
}

/// Builds, installs and tries the package. Types are checked beside the tests, which mostly wait.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let place = Place::of(workspace);
    let wheel = build(workspace, None)?.display().to_string();
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

/// The tests and the notebooks, with the installed package and nothing else of the checkout on the path.
fn tests(workspace: &Workspace, place: &Place) -> Result<(), Failure> {
    let program = workspace.target.join("release/cavalcade");
    let run =
        |words: &[&str]| place.bounded(workspace)?.args(words).env("CAVALCADE_PROGRAM", &program).check();
    // Those of the live client run with the tests of the crate `client`, under each version of Python.
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
}

impl Place {
    fn of(workspace: &Workspace) -> Self {
        Self { wheels: workspace.target.join("wheels"), environment: workspace.target.join("python") }
    }

    /// The environment's Python in the root of the checkout, with no other program on its path: above all no compiler.
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
