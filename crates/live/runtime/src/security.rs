//! Authentication: certificates on everything that leaves a host, and what each role is authorised
//! to send.
//!
//! # The idea
//! One authority signs a certificate for each component of a site, and a component's *role* is a
//! name in its certificate ([`Role`]): the coordinator, the agent at one port, or an administrator.
//! Both sides of a TLS connection show theirs (TLS 1.3 only). So a host that has been broken into
//! can say false things of its own port and of no other: the coordinator takes reports for port 3
//! from the certificate of agent 3 alone, and agents obey only a coordinator. Addresses prove
//! nothing and are not looked at.
//!
//! Datagrams between hosts carry a tag under a key that only their two agents can make
//! ([`Pairs`]): without it a datagram is dropped. On a host the kernel says which user a client is,
//! and a coflow belongs to one user (`control::agent`); reports carry that user, so that it holds
//! across hosts as well.
//!
//! The authority revokes certificates by a list that is copied to the components (`trust`). A
//! broken authority is replaced: `authority.pem` holds two while certificates are exchanged
//! (`cavalcade renew --new-authority`).
//!
//! # What was rejected
//! - Bearer tokens beside certificates: a second secret that says less.
//! - A public authority and host names: hosts of a cluster often have none, and an agent cares
//!   which port it is.

mod issue;
mod pairs;
mod seal;
mod trust;
mod words;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use cavalcade_model::PortId;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, RootCertStore};
use tokio::task::JoinSet;

pub use issue::{
    AUTHORITY_FOLDER, IssueError, Issued, Signed, is_revoked, issue, issue_authority, renew, revoke,
    role_signed_by,
};
pub use pairs::Pairs;
pub(crate) use seal::{Seal, TAG};
use trust::Trust;
pub(crate) use trust::{Side, Watched};
pub(crate) use words::{of_handshake, of_tls};

/// The certificates of the authority.
pub const AUTHORITY_FILE: &str = "authority.pem";
/// A component's own certificate.
pub const CERTIFICATE_FILE: &str = "certificate.pem";
/// The key to it.
pub const KEY_FILE: &str = "key.pem";
/// The certificates that count no more, if any.
pub const REVOKED_FILE: &str = "revoked.pem";
/// The list of revoked certificates that was accepted last, kept by the component itself: the next
/// one revokes no fewer, also after a restart. With another authority it is void.
pub const HEEDED_FILE: &str = "revoked-heeded.pem";
/// The certificates of all agents of a site, in the folder of each.
pub const AGENTS_FILE: &str = "agents.pem";

/// The domain behind a role in a certificate. The domain is one that no public name can have.
const DOMAIN: &str = ".cavalcade.internal";

/// The protocol of agents, as TLS names it.
pub(crate) const ALPN_FRAMES: &[u8] = b"cavalcade";
/// The protocol of administration.
pub(crate) const ALPN_GRPC: &[u8] = b"h2";

/// The role of a certificate's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Give orders.
    Coordinator,
    /// Report for one port.
    Agent(PortId),
    /// Look at everything, and put flows back to plain TCP.
    Administrator,
}

impl Role {
    /// Its name in a certificate.
    pub fn name(self) -> String {
        format!("{self}{DOMAIN}")
    }

    /// The role whose folder has the name `folder`.
    pub fn from_folder(folder: &str) -> Option<Self> {
        Self::from_name(&format!("{folder}{DOMAIN}"))
    }

    /// The role that has `name` in a certificate.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.strip_suffix(DOMAIN)? {
            "coordinator" => Some(Self::Coordinator),
            "administrator" => Some(Self::Administrator),
            agent => {
                let role = Self::Agent(PortId(agent.strip_prefix("agent-")?.parse().ok()?));
                (role.to_string() == agent).then_some(role)
            }
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Coordinator => f.write_str("coordinator"),
            Self::Agent(port) => write!(f, "agent-{}", port.0),
            Self::Administrator => f.write_str("administrator"),
        }
    }
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file does not hold what its name says.
    #[error("{} holds no {expected} in PEM form{instead}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expected contents.
        expected: &'static str,
        /// What it holds in their place, if that is known, and the cure.
        instead: &'static str,
    },
    /// The certificate is of no use with its authority and its key, now.
    #[error("the certificate {} cannot be used: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A list of revoked certificates leaves out one that was revoked.
    #[error(
        "{} leaves out a certificate that was revoked: copy the latest list, and renew the certificate of a component that is to come back, with --new-key",
        path.display()
    )]
    RolledBack {
        /// The file.
        path: PathBuf,
    },
    /// A secret that every user of the host may read or write.
    #[error("every user may read {}: say 'chmod 600 {}', and renew with --new-key if others have used this host", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// A folder that is no use for datagrams between hosts.
    #[error("the folder {} has no keys with other agents: {reason}", path.display())]
    NoPairs {
        /// The folder.
        path: PathBuf,
        /// Why, and the cure.
        reason: String,
    },
    /// The certificate is for another component.
    #[error("the certificate {} is for {found}, not for {needed}", path.display())]
    WrongRole {
        /// The file.
        path: PathBuf,
        /// The role found.
        found: Role,
        /// The role needed.
        needed: Role,
    },
}

/// A component's certificate with its key, and whom it trusts.
#[derive(Clone, Debug)]
pub struct Identity {
    trust: Arc<Trust>,
    notary: Seal,
}

impl Identity {
    /// Reads the files of one component from `folder`, and checks that they belong together and are
    /// valid now. They are looked at again every two seconds while a coordinator or agent runs.
    ///
    /// # Errors
    /// If one is missing, is no PEM, or they do not fit.
    pub fn load(folder: &Path) -> Result<Self, SecurityError> {
        let path = folder.join(CERTIFICATE_FILE);
        let authorities = certificates(&folder.join(AUTHORITY_FILE))?;
        let key = private_key(&folder.join(KEY_FILE))?;
        let notary = Seal::derived(key.secret_der(), "cavalcade standing");
        let role = own_role(&path, &certificates(&path)?, &authorities)?;
        let trust = Trust { role, folder: folder.to_owned(), accepted: RwLock::default() };
        trust.reread()?;
        Ok(Self { trust: Arc::new(trust), notary })
    }

    /// Returns the role of this certificate.
    pub fn role(&self) -> Role {
        self.trust.role
    }

    /// The last second since 1970 at which others accept this certificate.
    pub fn valid_until(&self) -> u64 {
        self.trust.until()
    }

    /// The keys of datagrams with other agents.
    ///
    /// # Errors
    /// If it is no agent's, the folder has no certificates of agents, or the own key is of another
    /// curve than P-256.
    pub fn pairs(&self) -> Result<Pairs, SecurityError> {
        let lacking = |reason: &str| {
            let path = self.trust.folder.clone();
            Err(SecurityError::NoPairs { path, reason: reason.to_owned() })
        };
        let accepted = self.trust.accepted();
        match self.role() {
            Role::Agent(_) if accepted.agents.is_empty() => {
                lacking("it has no agents.pem: say 'cavalcade renew DIR', which makes it, and copy it here")
            }
            Role::Agent(_) if accepted.secret.is_none() => {
                lacking("its key is not on P-256: renew it with --new-key")
            }
            Role::Agent(port) => Ok(Pairs::new(Arc::clone(&self.trust), port)),
            other => lacking(&format!("it is that of {other}, and agents alone send datagrams")),
        }
    }

    /// Returns the seal of a coordinator's standing: the same for all that share its certificate.
    pub(crate) fn notary(&self) -> Seal {
        self.notary.clone()
    }

    /// Checks that it is the certificate of `needed`.
    ///
    /// # Errors
    /// If it is that of another component: with it the other side would refuse what is said.
    pub fn require(self, needed: Role) -> Result<Self, SecurityError> {
        if self.role() == needed {
            return Ok(self);
        }
        let path = self.trust.folder.join(CERTIFICATE_FILE);
        Err(SecurityError::WrongRole { path, found: self.role(), needed })
    }

    /// For connections that come in.
    pub(crate) fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        tokio_rustls::TlsAcceptor::from(self.trust.accepted().server.clone())
    }

    /// For connections to a coordinator, to speak `protocol`.
    pub(crate) fn connector(&self, protocol: &[u8]) -> tokio_rustls::TlsConnector {
        let mut client = ClientConfig::clone(&self.trust.accepted().client);
        client.alpn_protocols = vec![protocol.to_vec()];
        tokio_rustls::TlsConnector::from(Arc::new(client))
    }
}

impl Identity {
    /// Looks at the files every now and then, until what is returned is dropped.
    pub(crate) fn watch(&self) -> JoinSet<()> {
        trust::watch(&self.trust)
    }

    /// A connection that ends when the certificate of its peer, which has shown `chain`, is revoked
    /// or runs out.
    pub(crate) fn watched<S>(
        &self,
        stream: S,
        side: Side,
        chain: Vec<CertificateDer<'static>>,
    ) -> Watched<S> {
        Watched::new(stream, Arc::clone(&self.trust), side, chain)
    }
}

/// The name that a coordinator's certificate has to have.
pub(crate) fn coordinator_name() -> ServerName<'static> {
    ServerName::try_from(Role::Coordinator.name()).expect("it is a name in a domain")
}

/// The role in a certificate that has been verified.
pub(crate) fn role_of(certificate: &CertificateDer<'_>) -> Option<Role> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    parsed.valid_dns_names().find_map(Role::from_name)
}

/// Makes a store that trusts these authorities.
pub(crate) fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    authorities.iter().try_for_each(|authority| roots.add(authority.clone()))?;
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>, SecurityError> {
    std::fs::read(path).map_err(|error| SecurityError::Unreadable { path: path.to_owned(), error })
}

/// Reads a file that only its owner and their group may read.
fn read_secret(path: &Path) -> Result<Vec<u8>, SecurityError> {
    use std::os::unix::fs::PermissionsExt;
    let unreadable = |error| SecurityError::Unreadable { path: path.to_owned(), error };
    let mode = std::fs::metadata(path).map_err(unreadable)?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(SecurityError::Exposed { path: path.to_owned() });
    }
    read(path)
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, SecurityError> {
    private_key_in(path, &read_secret(path)?)
}

fn private_key_in(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, SecurityError> {
    let malformed = |_| malformed(path, "private key", text);
    PrivateKeyDer::from_pem_slice(text).map_err(malformed)
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    certificates_in(path, &read(path)?)
}

fn certificates_in(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(malformed(path, "certificate", text)),
    }
}

fn malformed(path: &Path, expected: &'static str, text: &[u8]) -> SecurityError {
    SecurityError::Malformed { path: path.to_owned(), expected, instead: words::instead(text) }
}

/// The role in a certificate of one's own, which has to be one that others will accept today.
fn own_role(
    path: &Path,
    chain: &[CertificateDer<'_>],
    authorities: &[CertificateDer<'_>],
) -> Result<Role, SecurityError> {
    let unusable = |reason: String| SecurityError::Unusable { path: path.to_owned(), reason };
    let (own, between) = chain.split_first().expect("a file without certificates was refused");
    let parsed = webpki::EndEntityCert::try_from(own).map_err(|error| unusable(words::of_check(&error)))?;
    let anchors: Result<Vec<_>, _> = authorities.iter().map(webpki::anchor_from_trusted_cert).collect();
    let anchors = anchors.map_err(|error| unusable(format!("its authority: {}", words::of_check(&error))))?;
    let algorithms = provider().signature_verification_algorithms.all;
    let usage = webpki::KeyUsage::server_auth();
    parsed
        .verify_for_usage(algorithms, &anchors, between, UnixTime::now(), usage, None, None)
        .map_err(|error| unusable(words::of_check(&error)))?;
    role_of(own).ok_or_else(|| unusable("it names no component of a site".to_owned()))
}

pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_from_its_name_and_from_no_other() {
        for role in [Role::Coordinator, Role::Administrator, Role::Agent(PortId(0)), Role::Agent(PortId(41))]
        {
            assert_eq!(Role::from_name(&role.name()), Some(role));
        }
        for name in ["agent-07", "agent-", "agent-+1", "agent-4294967296", "root", ""] {
            assert_eq!(Role::from_name(&format!("{name}{DOMAIN}")), None, "{name}");
        }
        assert_eq!(Role::from_name("coordinator.example.org"), None);
    }

    fn write_private(path: &Path, contents: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(path, contents).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_key_that_every_user_may_read_is_refused_with_the_command_that_cures_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let site = issue(1, days(-1), days(30)).unwrap();
        let component =
            write(folder.path(), site.iter().find(|component| component.folder == "agent-0").unwrap());
        let mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(component.join(KEY_FILE), permissions).unwrap();
        };
        mode(0o644);
        let refused = Identity::load(&component).unwrap_err().to_string();
        assert!(refused.contains(KEY_FILE) && refused.contains("chmod 600"), "{refused}");
        mode(0o640);
        assert!(Identity::load(&component).is_ok(), "a group may be meant to");
    }

    #[test]
    fn a_certificate_of_another_authority_is_taken_up_while_the_component_runs_and_one_that_does_not_fit_is_not()
     {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [20, 40].map(|end| issue(1, days(-1), days(end)).unwrap());
        let find = |site: &[Issued], name: &str| {
            site.iter().find(|component| component.folder == name).unwrap().clone()
        };
        let path = write(folder.path(), &find(&first, "agent-0"));
        let identity = Identity::load(&path).unwrap();
        let left = || (identity.valid_until() - UnixTime::now().as_secs()).div_ceil(86_400);
        assert_eq!(left(), 20);
        let contents = |component: &Issued, name: &str| {
            component.files.iter().find(|file| file.name == name).unwrap().contents.to_string()
        };
        let component = find(&second, "agent-0");
        std::fs::write(path.join(CERTIFICATE_FILE), contents(&component, CERTIFICATE_FILE)).unwrap();
        assert!(identity.trust.reread().is_err(), "its authority is not trusted, and its key not there yet");
        std::fs::write(path.join(AUTHORITY_FILE), contents(&component, AUTHORITY_FILE)).unwrap();
        assert!(identity.trust.reread().is_err(), "its key is not there yet");
        assert_eq!(left(), 20, "what was read before holds");
        write_private(&path.join(KEY_FILE), &contents(&component, KEY_FILE));
        assert!(identity.trust.reread().unwrap());
        assert_eq!(left(), 40);
        let other = find(&second, "coordinator");
        std::fs::write(path.join(CERTIFICATE_FILE), contents(&other, CERTIFICATE_FILE)).unwrap();
        let refused = identity.trust.reread().unwrap_err().to_string();
        assert!(refused.contains("is for coordinator, not for agent-0"), "{refused}");
    }

    fn write(folder: &Path, issued: &Issued) -> PathBuf {
        let folder = folder.join(&issued.folder);
        std::fs::create_dir_all(&folder).unwrap();
        for file in &issued.files {
            write_private(&folder.join(file.name), &file.contents);
        }
        folder
    }

    fn days(from_now: i64) -> std::time::SystemTime {
        let day = std::time::Duration::from_secs(86_400);
        let now = std::time::SystemTime::now();
        if from_now < 0 { now - day * from_now.unsigned_abs() as u32 } else { now + day * from_now as u32 }
    }

    #[test]
    fn what_was_issued_can_be_used_by_the_part_that_it_is_for() {
        let folder = tempfile::tempdir().unwrap();
        let site = issue(2, days(-1), days(30)).unwrap();
        assert_eq!(site.len(), 5, "the authority, a coordinator, an administrator and two agents");
        let agent = site.iter().find(|component| component.folder == "agent-1").unwrap();
        let identity = Identity::load(&write(folder.path(), agent)).unwrap();
        assert_eq!(identity.role(), Role::Agent(PortId(1)));
        assert!(identity.pairs().is_ok());
        let refused = identity.require(Role::Agent(PortId(0))).unwrap_err().to_string();
        assert!(refused.ends_with("is for agent-1, not for agent-0"), "{refused}");
    }

    #[test]
    fn a_certificate_that_ran_out_or_is_of_another_authority_or_key_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let old = issue(0, days(-9), days(-2)).unwrap();
        let old =
            write(folder.path(), old.iter().find(|component| component.folder == "coordinator").unwrap());
        let shown = |folder: &Path| Identity::load(folder).unwrap_err().to_string();
        assert!(
            shown(&old).contains("coordinator/certificate.pem cannot be used: it has expired at 20"),
            "{}",
            shown(&old)
        );
        assert!(
            shown(&old).contains(" UTC: renew it with 'cavalcade renew DIR COMPONENT'"),
            "{}",
            shown(&old)
        );
        let new = issue(0, days(-1), days(2)).unwrap();
        let own = new.iter().find(|component| component.folder == "coordinator").unwrap();
        for file in own.files.iter().filter(|file| file.name != KEY_FILE) {
            write_private(&old.join(file.name), &file.contents);
        }
        assert!(shown(&old).contains("cannot be used: key.pem is the key to another one"), "{}", shown(&old));
        let encrypted =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIFHDBOBgkq\n-----END ENCRYPTED PRIVATE KEY-----\n";
        std::fs::write(old.join(KEY_FILE), encrypted).unwrap();
        assert!(
            shown(&old).contains("key.pem holds no private key in PEM form, but one with a passphrase"),
            "{}",
            shown(&old)
        );
        std::fs::write(old.join(KEY_FILE), "garbage").unwrap();
        assert!(shown(&old).contains("no private key"), "{}", shown(&old));
        std::fs::remove_file(old.join(KEY_FILE)).unwrap();
        assert!(shown(&old).contains("key.pem"), "{}", shown(&old));
    }

    #[test]
    fn a_list_that_its_authority_did_not_sign_or_that_names_the_part_itself_keeps_it_from_starting() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = [0, 1].map(|_| issue(1, days(-1), days(30)).unwrap());
        let file = |site: &[Issued], folder: &str, name: &str| {
            let component = site.iter().find(|component| component.folder == folder).unwrap();
            component.files.iter().find(|file| file.name == name).unwrap().contents.to_string()
        };
        let list = |site: &[Issued], components: &[&str]| {
            let components: Vec<_> = components
                .iter()
                .map(|component| file(site, component, CERTIFICATE_FILE).into_bytes())
                .collect();
            revoke(&[&file(site, "authority", KEY_FILE)], None, &components, std::time::SystemTime::now())
                .unwrap()
        };
        let component =
            write(folder.path(), own.iter().find(|component| component.folder == "coordinator").unwrap());
        let load = |list: &str| {
            std::fs::write(component.join(REVOKED_FILE), list).unwrap();
            Identity::load(&component).map_err(|error| error.to_string())
        };
        for wrong in ["", "garbage", &list(&other, &["agent-0"])] {
            let refused = load(wrong).unwrap_err();
            assert!(refused.contains("revoked.pem holds no list of revoked"), "{refused}");
        }
        let refused = load(&list(&own, &["coordinator"])).unwrap_err();
        assert!(refused.contains("certificate.pem cannot be used: it was revoked: renew it"), "{refused}");

        let identity = load(&list(&own, &["agent-0"])).unwrap();
        let reread = |text: &str| {
            std::fs::write(component.join(REVOKED_FILE), text).unwrap();
            identity.trust.reread()
        };
        assert!(!identity.trust.reread().unwrap(), "it is the same list");
        assert!(reread("garbage").is_err() && reread(&list(&other, &[])).is_err());
        std::fs::remove_file(component.join(REVOKED_FILE)).unwrap();
        assert!(identity.trust.reread().is_err(), "a list does not go");
        assert!(reread(&list(&own, &["agent-0", "administrator"])).unwrap());
        let refused = reread(&list(&own, &["agent-0"])).unwrap_err().to_string();
        assert!(refused.contains("leaves out a certificate that was revoked"), "{refused}");

        // Nor after a restart: what was accepted is kept beside the certificate.
        let refused = load(&list(&own, &["agent-0"])).unwrap_err();
        assert!(refused.contains("leaves out a certificate that was revoked"), "{refused}");
        std::fs::remove_file(component.join(REVOKED_FILE)).unwrap();
        assert!(Identity::load(&component).is_err(), "a list does not go");
        assert!(load(&list(&own, &["agent-0", "administrator"])).is_ok());
    }

    #[test]
    fn a_list_goes_on_listing_what_the_former_one_did() {
        let site = issue(2, days(-1), days(30)).unwrap();
        let file = |folder: &str, name: &str| {
            let component = site.iter().find(|component| component.folder == folder).unwrap();
            component.files.iter().find(|file| file.name == name).unwrap().contents.to_string()
        };
        let key = file("authority", KEY_FILE);
        let revoke = |former: Option<&str>, component: &str, day| {
            let component = file(component, CERTIFICATE_FILE).into_bytes();
            revoke(&[&key], former.map(str::as_bytes), &[component], days(day)).unwrap()
        };
        let both = revoke(Some(&revoke(None, "agent-0", -1)), "agent-1", 0);
        let list = rustls::pki_types::CertificateRevocationListDer::from_pem_slice(both.as_bytes()).unwrap();
        let list = webpki::BorrowedCertRevocationList::from_der(&list).unwrap();
        let list = webpki::CertRevocationList::from(list);
        for (component, day) in [("agent-0", -1), ("agent-1", 0)] {
            let certificate =
                CertificateDer::from_pem_slice(file(component, CERTIFICATE_FILE).as_bytes()).unwrap();
            let serial = webpki::EndEntityCert::try_from(&certificate).unwrap().serial().to_vec();
            let at = list.find_serial(&serial).unwrap().unwrap().revocation_date.as_secs();
            let expected = days(day).duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
            assert!(expected.abs_diff(at) < 3600, "{component}");
        }
    }
}
