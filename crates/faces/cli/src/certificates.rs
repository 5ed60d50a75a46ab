//! `cavalcade certificates`: a folder for each component of a site; `cavalcade renew`: new
//! certificates in it; `cavalcade revoke`: the list of those that count no more.

mod renew;

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use cavalcade::output::{Folder, write_file};
use cavalcade_runtime::security::{self, AGENTS_FILE, CERTIFICATE_FILE, Issued, REVOKED_FILE, issue};

pub(crate) use renew::run as renew;

use crate::arguments::{Certificates, Revoke};
use crate::failure::{Failure, Kind};
use crate::output::tell;

const DAY: Duration = Duration::from_secs(86_400);
/// Hosts whose clocks are behind accept a new certificate as well.
const EARLIER: Duration = Duration::from_secs(3_600);

/// `cavalcade certificates`.
pub(crate) fn run(options: &Certificates) -> Result<(), Failure> {
    let now = SystemTime::now();
    let components = issue(options.hosts, now - EARLIER, now + DAY * options.days)
        .map_err(|error| Failure::new(Kind::Runtime, error.to_string()))?;
    let folder = Folder::create(&options.dir)?;
    components.iter().try_for_each(|component| write(&folder, component))?;
    folder.keep()?;
    let dir = options.dir.display();
    tell(&format!(
        "{} folders in {dir}, valid for {} days: copy {dir}/coordinator and {dir}/agent-N to the hosts that they are for, \
         and keep {dir}/authority private",
        components.len(),
        options.days
    ));
    Ok(())
}

/// `cavalcade revoke`.
pub(crate) fn revoke(options: &Revoke) -> Result<(), Failure> {
    let read = |name: &Path| {
        let path = options.dir.join(name);
        std::fs::read(&path).map_err(|error| {
            Failure::file("read", &path, &error).help(
                "name the folder that 'cavalcade certificates' made, and components by their folders in it",
            )
        })
    };
    let authority = Path::new(security::AUTHORITY_FOLDER);
    let keys = renew::authority_keys(&options.dir)?;
    let list = authority.join(REVOKED_FILE);
    let former = options.dir.join(&list).exists().then(|| read(&list)).transpose()?;
    let components =
        options.components.iter().map(|component| read(&Path::new(component).join(CERTIFICATE_FILE)));
    let components = components.collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let text = security::revoke(&keys, former.as_deref(), &components, SystemTime::now())
        .map_err(|error| Failure::input(error.to_string()))?;
    let list = options.dir.join(list);
    write_file(&list, |out| out.write_all(text.as_bytes()))?;
    tell(&format!(
        "{} revokes {}: copy it into the folder of every component's certificate, where it is read within two seconds",
        list.display(),
        options.components.join(", ")
    ));
    Ok(())
}

/// Creates a file that is not there yet; a secret one only its owner may read.
fn create(path: &Path, is_secret: bool) -> std::io::Result<std::fs::File> {
    let mode = if is_secret { 0o600 } else { 0o644 };
    std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Has a file stand in another folder as well: as often as there are agents it takes its room once.
fn link(file: &Path, at: &Path) -> std::io::Result<()> {
    std::fs::hard_link(file, at).or_else(|_| std::fs::copy(file, at).map(|_| ()))
}

fn write(folder: &Folder, component: &Issued) -> Result<(), Failure> {
    let failed = |error: std::io::Error| folder.failure(&component.folder, &error);
    std::fs::DirBuilder::new().mode(0o700).create(folder.path(&component.folder)).map_err(failed)?;
    for file in &component.files {
        let name = format!("{}/{}", component.folder, file.name);
        if file.name == AGENTS_FILE && component.folder != security::AUTHORITY_FOLDER {
            let of_all = folder.path(format!("{}/{AGENTS_FILE}", security::AUTHORITY_FOLDER));
            link(&of_all, &folder.path(&name)).map_err(|error| folder.failure(&name, &error))?;
            continue;
        }
        let created = create(&folder.path(&name), file.is_secret);
        let written = created.and_then(|mut created| created.write_all(file.contents.as_bytes()));
        written.map_err(|error| folder.failure(&name, &error))?;
    }
    Ok(())
}
