//! `cavalcade renew`: new certificates in the folder of a site, for all components or some, for
//! hosts that join, and under a new authority.
//!
//! Parts look at their folders every two seconds, so what is copied there is used without a
//! restart. Every file is replaced as a whole; a component that sees a new key before the
//! certificate to it waits for that.
//!
//! An authority is replaced in three steps, between which files are copied: `--new-authority` makes
//! one and has every component trust both; a plain renewal signs certificates with the new one;
//! `--retire-authority` ends the trust in the former one.

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cavalcade_model::PortId;
use cavalcade_runtime::Role;
use cavalcade_runtime::security::{
    self, AGENTS_FILE, AUTHORITY_FILE, AUTHORITY_FOLDER, CERTIFICATE_FILE, IssueError, KEY_FILE, REVOKED_FILE,
};

use super::{DAY, EARLIER, create, link};
use crate::arguments::Renew;
use crate::failure::{Failure, Kind};
use crate::output::tell;

/// The key of the authority that was replaced, until it is retired.
const FORMER_KEY_FILE: &str = "former-key.pem";

/// `cavalcade renew`.
pub(crate) fn run(options: &Renew) -> Result<(), Failure> {
    let site = Site { dir: &options.dir };
    let now = SystemTime::now();
    let span = (now - EARLIER, now + DAY * options.days);
    let dir = options.dir.display();
    if options.new_authority {
        site.new_authority(span)?;
        tell(&format!(
            "a new authority in {dir}: copy authority.pem to every component, then run 'cavalcade renew {dir}' and copy the \
             certificates, then 'cavalcade renew {dir} --retire-authority'"
        ));
        return Ok(());
    }
    if options.retire_authority {
        site.retire_authority()?;
        tell(&format!(
            "the former authority of {dir} is not trusted any more: copy authority.pem to every component, authority/agents.pem to \
             every agent, and authority/revoked.pem where there is one"
        ));
        return Ok(());
    }
    let joined = options.hosts.map_or(Ok(Vec::new()), |hosts| site.add_hosts(hosts, span))?;
    let named = if options.components.is_empty() && joined.is_empty() {
        site.components_in_use()?
    } else {
        options.components.clone()
    };
    for component in &named {
        if !options.new_key && site.is_revoked(component)? {
            let refused = format!("{component} was revoked, and its key may be in other hands");
            return Err(Failure::usage(refused).help("renew it with --new-key"));
        }
        site.renew(component, options.new_key, span)?;
    }
    let agents = site.gather_agents()?;
    let all: Vec<&str> = joined.iter().chain(&named).map(String::as_str).collect();
    tell(&format!(
        "certificates for {} in {dir}, valid for {} days: copy them to their hosts, and {dir}/{AUTHORITY_FOLDER}/{AGENTS_FILE} ({agents} \
         in all) to every agent's folder, where they are used within two seconds",
        all.join(", "),
        options.days
    ));
    Ok(())
}

/// The keys of the authorities that a site trusts: that which signs, and the former one where it
/// has not been retired.
pub(super) fn authority_keys(dir: &Path) -> Result<Vec<String>, Failure> {
    let site = Site { dir };
    let former = site.path(AUTHORITY_FOLDER, FORMER_KEY_FILE);
    let former = former.exists().then(|| site.text(AUTHORITY_FOLDER, FORMER_KEY_FILE)).transpose()?;
    Ok(std::iter::once(site.text(AUTHORITY_FOLDER, KEY_FILE)?).chain(former).collect())
}

type Span = (SystemTime, SystemTime);

/// The folder of a site.
struct Site<'a> {
    dir: &'a Path,
}

impl Site<'_> {
    fn path(&self, component: &str, file: &str) -> PathBuf {
        self.dir.join(component).join(file)
    }

    fn text(&self, component: &str, file: &str) -> Result<String, Failure> {
        let path = self.path(component, file);
        fs::read_to_string(&path).map_err(|error| {
            Failure::file("read", &path, &error).help(
                "name the folder that 'cavalcade certificates' made, and components by their folders in it",
            )
        })
    }

    /// Puts a file in the place of the former one, as a whole.
    fn put(&self, component: &str, file: &str, contents: &str, is_secret: bool) -> Result<(), Failure> {
        let (path, new) = (self.path(component, file), self.path(component, &format!("{file}.new")));
        let _ = fs::remove_file(&new);
        let written = create(&new, is_secret).and_then(|mut created| {
            created.write_all(contents.as_bytes())?;
            created.sync_all()?;
            fs::rename(&new, &path)
        });
        written.map_err(|error| Failure::file("write", &path, &error))
    }

    /// All components that have a certificate, in order of their names.
    fn components(&self) -> Result<Vec<String>, Failure> {
        let entries = fs::read_dir(self.dir).map_err(|error| Failure::file("read", self.dir, &error))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut components: Vec<String> =
            names.filter(|name| self.path(name, CERTIFICATE_FILE).exists()).collect();
        components.sort();
        Ok(components)
    }

    /// Tells whether a component's certificate is on the list of those that were revoked.
    fn is_revoked(&self, component: &str) -> Result<bool, Failure> {
        if !self.path(AUTHORITY_FOLDER, REVOKED_FILE).exists() {
            return Ok(false);
        }
        let list = self.text(AUTHORITY_FOLDER, REVOKED_FILE)?;
        let certificate = self.text(component, CERTIFICATE_FILE)?;
        security::is_revoked(certificate.as_bytes(), list.as_bytes()).map_err(refused)
    }

    /// The components that were not revoked.
    fn components_in_use(&self) -> Result<Vec<String>, Failure> {
        let mut in_use = Vec::new();
        for component in self.components()? {
            if !self.is_revoked(&component)? {
                in_use.push(component);
            }
        }
        Ok(in_use)
    }

    fn renew(&self, component: &str, has_new_key: bool, (begin, end): Span) -> Result<(), Failure> {
        let role = Role::from_folder(component).ok_or_else(|| {
            Failure::usage(format!("'{component}' is not a component of a site"))
                .help("components are coordinator, administrator, and agent-0 and so on")
        })?;
        let key = (!has_new_key).then(|| self.text(component, KEY_FILE)).transpose()?;
        let authority = self.text(AUTHORITY_FOLDER, KEY_FILE)?;
        let signed = security::renew(&authority, role, key.as_deref(), begin, end).map_err(refused)?;
        self.put(component, AUTHORITY_FILE, &self.text(AUTHORITY_FOLDER, AUTHORITY_FILE)?, false)?;
        if has_new_key {
            self.put(component, KEY_FILE, &signed.key, true)?;
        }
        self.put(component, CERTIFICATE_FILE, &signed.certificate, false)
    }

    /// Makes folders for those of the first `hosts` hosts that have none; returns their names.
    fn add_hosts(&self, hosts: u32, span: Span) -> Result<Vec<String>, Failure> {
        let components = (0..hosts).map(|port| Role::Agent(PortId(port)).to_string());
        let joined: Vec<String> = components.filter(|component| !self.dir.join(component).exists()).collect();
        for component in &joined {
            let folder = self.dir.join(component);
            let made = fs::DirBuilder::new().mode(0o700).create(&folder);
            made.map_err(|error| Failure::file("make", &folder, &error))?;
            self.renew(component, true, span)?;
        }
        Ok(joined)
    }

    /// Puts the certificates of all agents that were not revoked together, for each of them;
    /// returns how many these are.
    fn gather_agents(&self) -> Result<usize, Failure> {
        let mut agents = Vec::new();
        for component in self.components_in_use()? {
            if let Some(Role::Agent(port)) = Role::from_folder(&component) {
                agents.push((port, component));
            }
        }
        agents.sort();
        let texts = agents.iter().map(|(_, agent)| self.text(agent, CERTIFICATE_FILE));
        self.put(AUTHORITY_FOLDER, AGENTS_FILE, &texts.collect::<Result<String, _>>()?, false)?;
        let of_all = self.path(AUTHORITY_FOLDER, AGENTS_FILE);
        for (_, agent) in &agents {
            let (path, new) =
                (self.path(agent, AGENTS_FILE), self.path(agent, &format!("{AGENTS_FILE}.new")));
            let _ = fs::remove_file(&new);
            link(&of_all, &new)
                .and_then(|()| fs::rename(&new, &path))
                .map_err(|error| Failure::file("write", &path, &error))?;
        }
        Ok(agents.len())
    }

    fn new_authority(&self, (begin, end): Span) -> Result<(), Failure> {
        let former_key = self.path(AUTHORITY_FOLDER, FORMER_KEY_FILE);
        if former_key.exists() {
            return Err(Failure::usage("an authority is being replaced already")
                .help("renew all certificates, copy them, and end it with --retire-authority"));
        }
        let key = self.text(AUTHORITY_FOLDER, KEY_FILE)?;
        let both = self.text(AUTHORITY_FOLDER, AUTHORITY_FILE)?;
        let authority = security::issue_authority(begin, end).map_err(refused)?;
        self.put(AUTHORITY_FOLDER, FORMER_KEY_FILE, &key, true)?;
        self.put(AUTHORITY_FOLDER, KEY_FILE, &authority.key, true)?;
        self.trust(&(authority.certificate + &both))
    }

    fn retire_authority(&self) -> Result<(), Failure> {
        let former_key = self.path(AUTHORITY_FOLDER, FORMER_KEY_FILE);
        let both = self.text(AUTHORITY_FOLDER, AUTHORITY_FILE)?;
        // The newest stands first.
        let end = both.match_indices("-----END CERTIFICATE-----\n").next();
        let Some((at, mark)) = end.filter(|_| former_key.exists()) else {
            return Err(Failure::usage("no authority is being replaced").help("begin with --new-authority"));
        };
        let newest = &both[..at + mark.len()];
        for component in self.components()? {
            let certificate = self.text(&component, CERTIFICATE_FILE)?;
            if security::role_signed_by(certificate.as_bytes(), newest.as_bytes()).is_none() {
                return Err(Failure::usage(format!(
                    "the certificate of {component} is the former authority's"
                ))
                .help("renew it first, and copy it to its host"));
            }
        }
        // A list that only the former authority has signed is refused once it is not trusted.
        if self.path(AUTHORITY_FOLDER, REVOKED_FILE).exists() {
            let former = self.text(AUTHORITY_FOLDER, REVOKED_FILE)?;
            let key = self.text(AUTHORITY_FOLDER, KEY_FILE)?;
            let list = security::revoke(&[&key], Some(former.as_bytes()), &[], SystemTime::now());
            self.put(AUTHORITY_FOLDER, REVOKED_FILE, &list.map_err(refused)?, false)?;
        }
        self.trust(newest)?;
        fs::remove_file(&former_key).map_err(|error| Failure::file("remove", &former_key, &error))
    }

    /// Has every component trust these authorities.
    fn trust(&self, authorities: &str) -> Result<(), Failure> {
        self.put(AUTHORITY_FOLDER, AUTHORITY_FILE, authorities, false)?;
        self.components()?
            .iter()
            .try_for_each(|component| self.put(component, AUTHORITY_FILE, authorities, false))
    }
}

fn refused(error: IssueError) -> Failure {
    Failure::new(Kind::Runtime, error.to_string())
}
