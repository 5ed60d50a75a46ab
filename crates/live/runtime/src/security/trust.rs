//! Which certificates are accepted at present, and which one is shown: a component's folder, as it
//! is now.
//!
//! # The idea
//! A folder holds a component's certificate and key, the authorities that it trusts, and perhaps a
//! list of revoked certificates (RFC 5280, signed by the authority). All are read at the start and
//! looked at every two seconds, so a certificate is renewed, an authority added or a component
//! revoked by copying files. A change holds for connections to come and for those that there are:
//! [`Watched`] has its peer verified again when files have changed, and once a minute besides, so
//! that a certificate that runs out ends its connections. Parts of a site speak many times a
//! second, so that is soon.
//!
//! # Invariants
//! - Files that do not belong together, or that others would refuse, stop a component from starting
//!   and change nothing in one that runs: what was read before holds, and the log says so. So files
//!   may be copied one after the other.
//! - A list only grows while a component runs: one that leaves out a certificate that was revoked
//!   is refused, as is one that is gone. Who was revoked comes back with a new certificate.
//! - A list speaks of certificates of the authority that signed it, and says nothing of others.
//!
//! # What was rejected
//! - Refusing everybody once a list is older than it says (`nextUpdate`): who forgets to renew it
//!   would stop the site.
//! - Asking the authority (OCSP): it is a folder that somebody keeps, and no service.
//! - Reading files again by a signal: who copies a file to a thousand hosts would have to reach
//!   their processes too.
//! - Reading the end of a certificate out of its bytes: that is the last second at which it can be
//!   verified, which also counts the authority's.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use cavalcade_model::PortId;
use p256::SecretKey;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, ClientConfig, ServerConfig, version::TLS13};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;

use super::pairs::{by_port, on_the_curve};
use super::{
    AGENTS_FILE, ALPN_FRAMES, ALPN_GRPC, AUTHORITY_FILE, CERTIFICATE_FILE, HEEDED_FILE, KEY_FILE,
    REVOKED_FILE, Role, SecurityError, certificates_in, coordinator_name, of_tls, own_role, private_key_in,
    provider, read, read_secret, roots,
};

/// The time between two looks at files.
const LOOK: Duration = Duration::from_secs(2);
/// The time between two verifications of a connection's peer.
pub(super) const VERIFIED: Duration = Duration::from_secs(60);
/// Days before the end of the own certificate at which the log warns.
const WARNINGS: [u64; 3] = [1, 7, 30];
const DAY: u64 = 86_400;
/// Certificates are looked for no further ahead, in seconds.
const FAR: u64 = 200 * 365 * DAY;

/// A component's folder, and what follows from it as it is now.
#[derive(Debug)]
pub(super) struct Trust {
    pub(super) role: Role,
    pub(super) folder: PathBuf,
    pub(super) accepted: RwLock<Option<Arc<Accepted>>>,
}

/// The files, as they are.
#[derive(PartialEq, Eq)]
pub(super) struct Files {
    pub(super) authorities: Vec<u8>,
    pub(super) chain: Vec<u8>,
    pub(super) key: Vec<u8>,
    /// None where there is no list.
    pub(super) list: Option<Vec<u8>>,
    /// None where there are no certificates of agents.
    pub(super) agents: Option<Vec<u8>>,
}

/// A private key is among them.
impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Files")
    }
}

/// The peers that the files let in.
#[derive(Debug)]
pub(super) struct Accepted {
    /// Counts changes of files.
    pub(super) number: u64,
    files: Files,
    /// Serial numbers of certificates that count no more.
    revoked: BTreeSet<Vec<u8>>,
    /// The last second since 1970 at which others accept the own certificate.
    until: u64,
    /// The certificates of agents as the folder has them: unverified.
    pub(super) agents: BTreeMap<PortId, CertificateDer<'static>>,
    /// The own key, where it is one on P-256.
    pub(super) secret: Option<SecretKey>,
    pub(super) server: Arc<ServerConfig>,
    pub(super) client: Arc<ClientConfig>,
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
}

/// The side of a connection that a peer is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// It has connected to us.
    Client,
    /// We have connected to it: a coordinator.
    Coordinator,
}

impl Trust {
    /// Returns what holds now.
    pub(super) fn accepted(&self) -> Arc<Accepted> {
        let accepted = self.accepted.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(accepted.as_ref().expect("the list was read when the certificate was loaded"))
    }

    /// Reads the files, and returns whether they are others than before.
    ///
    /// # Errors
    /// If one is gone or they cannot be used; what held goes on to hold.
    pub(super) fn reread(&self) -> Result<bool, SecurityError> {
        let before = self.accepted.read().unwrap_or_else(PoisonError::into_inner).clone();
        let files = self.files(before.as_deref())?;
        if before.as_ref().is_some_and(|before| before.files == files) {
            return Ok(false);
        }
        let accepted = self.accept(before.as_deref(), files)?;
        if let Some(list) = &accepted.files.list {
            self.keep_revoked(list);
        }
        *self.accepted.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(accepted));
        Ok(true)
    }

    /// Reads the files. What was there once may not be gone.
    fn files(&self, before: Option<&Accepted>) -> Result<Files, SecurityError> {
        let if_there = |name: &str, was_there: bool| match read(&self.folder.join(name)) {
            Err(SecurityError::Unreadable { error, .. })
                if error.kind() == io::ErrorKind::NotFound && !was_there =>
            {
                Ok(None)
            }
            found => found.map(Some),
        };
        let before = before.map(|before| &before.files);
        let list = if_there(REVOKED_FILE, before.is_some_and(|before| before.list.is_some()))?;
        // Nobody else has a use for them.
        let agents = match self.role {
            Role::Agent(_) => if_there(AGENTS_FILE, before.is_some_and(|before| before.agents.is_some()))?,
            Role::Coordinator | Role::Administrator => None,
        };
        Ok(Files {
            authorities: read(&self.folder.join(AUTHORITY_FILE))?,
            chain: read(&self.folder.join(CERTIFICATE_FILE))?,
            key: read_secret(&self.folder.join(KEY_FILE))?,
            list,
            agents,
        })
    }

    /// Reads the peers that files let in, which follow on those of `before`.
    fn accept(&self, before: Option<&Accepted>, files: Files) -> Result<Accepted, SecurityError> {
        let path = self.folder.join(CERTIFICATE_FILE);
        let authorities = certificates_in(&self.folder.join(AUTHORITY_FILE), &files.authorities)?;
        let chain = certificates_in(&path, &files.chain)?;
        let key = private_key_in(&self.folder.join(KEY_FILE), &files.key)?;
        let is_same = before.is_some_and(|before| before.files.chain == files.chain);
        if !is_same {
            let found = own_role(&path, &chain, &authorities)?;
            if found != self.role {
                return Err(SecurityError::WrongRole { path, found, needed: self.role });
            }
        }
        let lists = self.lists(files.list.as_deref())?;
        let revoked = revoked_on(&lists, &authorities).ok_or_else(|| self.malformed_list())?;
        let kept = before.map_or_else(|| self.kept_revoked(&authorities), |before| before.revoked.clone());
        if !kept.is_subset(&revoked) {
            return Err(SecurityError::RolledBack { path: self.folder.join(REVOKED_FILE) });
        }
        let unusable = |error: rustls::Error| {
            let reason = of_tls(&error);
            SecurityError::Unusable { path: path.clone(), reason }
        };
        let (clients, servers) = verifiers(&authorities, lists).map_err(|_| self.malformed_list())?;
        // A list with a signature that is wrong is found out when it is used, so it is used here.
        match self.verify_own(&servers, &chain, UnixTime::now()) {
            Err(rustls::Error::InvalidCertRevocationList(_)) => return Err(self.malformed_list()),
            // Who runs with a certificate that is revoked is refused by the others; until then it
            // obeys the list itself.
            Err(error) if !is_same => return Err(unusable(error)),
            Err(error) => {
                tracing::error!("this component's own certificate is no longer valid: {}", of_tls(&error))
            }
            Ok(()) => {}
        }
        let until = last_second(|at| self.verify_own(&servers, &chain, at).is_ok());
        let (server, client) = configurations(&chain, &key, &clients, &servers).map_err(unusable)?;
        let number = before.map_or(0, |before| before.number + 1);
        let agents = files.agents.as_deref();
        let agents = agents.map(|text| certificates_in(&self.folder.join(AGENTS_FILE), text)).transpose()?;
        let (agents, secret) = (by_port(agents.unwrap_or_default()), on_the_curve(&key));
        Ok(Accepted { number, files, revoked, until, agents, secret, server, client, clients, servers })
    }

    /// The serial numbers on the list that was heeded before the last start; none where that is of
    /// another authority.
    fn kept_revoked(&self, authorities: &[CertificateDer<'_>]) -> BTreeSet<Vec<u8>> {
        let kept = std::fs::read(self.folder.join(HEEDED_FILE)).ok();
        let lists = kept.and_then(|kept| self.lists(Some(&kept)).ok()).unwrap_or_default();
        revoked_on(&lists, authorities).unwrap_or_default()
    }

    /// Keeps a list for the next start, whole or not at all. A folder that cannot be written to is
    /// no reason to stop.
    fn keep_revoked(&self, list: &[u8]) {
        let (path, new) = (
            self.folder.join(HEEDED_FILE),
            self.folder.join(format!("{HEEDED_FILE}.{}", std::process::id())),
        );
        if std::fs::read(&path).is_ok_and(|kept| kept == list) {
            return;
        }
        if let Err(error) = std::fs::write(&new, list).and_then(|()| std::fs::rename(&new, &path)) {
            let path = path.display();
            tracing::warn!(%path, %error, "an older list of revoked certificates would not be noticed after a restart");
        }
    }

    fn malformed_list(&self) -> SecurityError {
        SecurityError::Malformed {
            path: self.folder.join(REVOKED_FILE),
            expected: "list of revoked certificates of this authority",
            instead: "",
        }
    }

    fn lists(
        &self,
        text: Option<&[u8]>,
    ) -> Result<Vec<CertificateRevocationListDer<'static>>, SecurityError> {
        let Some(text) = text else { return Ok(Vec::new()) };
        let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
        found.ok().filter(|lists| !lists.is_empty()).ok_or_else(|| self.malformed_list())
    }

    fn verify_own(
        &self,
        servers: &WebPkiServerVerifier,
        chain: &[CertificateDer<'_>],
        at: UnixTime,
    ) -> Result<(), rustls::Error> {
        let (own, between) = chain.split_first().expect("a file without certificates was refused");
        let name = self.role.name().try_into().expect("a role is a name in a domain");
        servers.verify_server_cert(own, between, &name, &[], at).map(|_| ())
    }

    /// The last second since 1970 at which others accept the own certificate.
    pub(super) fn until(&self) -> u64 {
        self.accepted().until
    }
}

/// The serial numbers on lists; `None` if one is no list, or none of them is by one of
/// `authorities`: a list by a stranger is heeded by no check, so it would revoke nothing and not
/// say so.
fn revoked_on(
    lists: &[CertificateRevocationListDer<'_>],
    authorities: &[CertificateDer<'_>],
) -> Option<BTreeSet<Vec<u8>>> {
    let (mut revoked, mut is_heeded) = (BTreeSet::new(), lists.is_empty());
    for list in lists {
        let list = webpki::BorrowedCertRevocationList::from_der(list).ok()?;
        for entry in &list {
            revoked.insert(entry.ok()?.serial_number.to_vec());
        }
        let list = webpki::CertRevocationList::from(list);
        is_heeded |= authorities.iter().any(|authority| {
            webpki::anchor_from_trusted_cert(authority).is_ok_and(|anchor| *anchor.subject == *list.issuer())
        });
    }
    is_heeded.then_some(revoked)
}

/// The last second since 1970, from now on, at which something holds that ends once.
fn last_second(holds: impl Fn(UnixTime) -> bool) -> u64 {
    let now = UnixTime::now().as_secs();
    let (mut last, mut first_not) = (now, now + FAR);
    while first_not - last > 1 {
        let middle = last + (first_not - last) / 2;
        if holds(UnixTime::since_unix_epoch(Duration::from_secs(middle))) {
            last = middle;
        } else {
            first_not = middle;
        }
    }
    last
}

fn verifiers(
    authorities: &[CertificateDer<'static>],
    lists: Vec<CertificateRevocationListDer<'static>>,
) -> Result<(Arc<dyn ClientCertVerifier>, Arc<WebPkiServerVerifier>), rustls::Error> {
    let (roots, provider) = (Arc::new(roots(authorities)?), Arc::new(provider()));
    let refused = |error: rustls::server::VerifierBuilderError| rustls::Error::General(error.to_string());
    // Of two authorities one may have no list.
    let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .with_crls(lists.clone())
        .only_check_end_entity_revocation()
        .allow_unknown_revocation_status()
        .build()
        .map_err(refused)?;
    let servers = WebPkiServerVerifier::builder_with_provider(roots, provider)
        .with_crls(lists)
        .only_check_end_entity_revocation()
        .allow_unknown_revocation_status()
        .build()
        .map_err(refused)?;
    Ok((clients, servers))
}

fn configurations(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
    clients: &Arc<dyn ClientCertVerifier>,
    servers: &Arc<WebPkiServerVerifier>,
) -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(provider());
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients.clone())
        .with_single_cert(chain.to_vec(), key.clone_key())?;
    server.alpn_protocols = vec![ALPN_FRAMES.to_vec(), ALPN_GRPC.to_vec()];
    // Connections last; resuming them would only keep state for peers that may have been replaced.
    server.send_tls13_tickets = 0;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_webpki_verifier(servers.clone())
        .with_client_auth_cert(chain.to_vec(), key.clone_key())?;
    Ok((Arc::new(server), Arc::new(client)))
}

impl Accepted {
    /// Checks that an agent with this certificate would be let in.
    pub(super) fn verify_agent(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        self.clients.verify_client_cert(certificate, &[], UnixTime::now()).map(|_| ())
    }

    /// Checks that a peer with this certificate would be let in.
    fn verify(&self, side: Side, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let missing = || rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let (peer, between) = chain.split_first().ok_or_else(missing)?;
        match side {
            Side::Client => self.clients.verify_client_cert(peer, between, UnixTime::now()).map(|_| ()),
            Side::Coordinator => {
                let name = coordinator_name();
                self.servers.verify_server_cert(peer, between, &name, &[], UnixTime::now()).map(|_| ())
            }
        }
    }
}

/// Looks at the files every now and then, until what is returned is dropped.
pub(super) fn watch(trust: &Arc<Trust>) -> JoinSet<()> {
    let trust = Arc::clone(trust);
    let mut watching = JoinSet::new();
    watching.spawn_local(async move {
        let mut looks = Looks::default();
        loop {
            looks.look(&trust);
            tokio::time::sleep(LOOK).await;
        }
    });
    watching
}

/// Looks at a component's files; what is logged of them is logged once.
#[derive(Debug, Default)]
pub(super) struct Looks {
    last: Option<Instant>,
    said: Option<String>,
    warned: Option<u64>,
}

impl Looks {
    /// Looks unless it has done so just now.
    pub(super) fn look_if_due(&mut self, trust: &Trust) {
        if self.last.is_none_or(|last| last.elapsed() >= LOOK) {
            self.look(trust);
        }
    }

    fn look(&mut self, trust: &Trust) {
        self.last = Some(Instant::now());
        match trust.reread() {
            Ok(false) => self.said = None,
            Ok(true) => {
                tracing::info!(folder = %trust.folder.display(), "certificates or the revocation list changed");
            }
            Err(error) => {
                let text = error.to_string();
                if self.said.as_ref() != Some(&text) {
                    tracing::error!("{text}: what was read before holds");
                    self.said = Some(text);
                }
            }
        }
        warn_of_end(trust.until(), &mut self.warned);
    }
}

/// Warns once at each of some numbers of days before the end of the own certificate.
fn warn_of_end(until: u64, warned: &mut Option<u64>) {
    let left = until.saturating_sub(UnixTime::now().as_secs());
    let due = WARNINGS.into_iter().find(|days| left <= days * DAY);
    if due.is_some() && (warned.is_none() || due < *warned) {
        tracing::warn!("the certificate {}: renew it with 'cavalcade renew DIR COMPONENT'", end_in(left));
    }
    *warned = due;
}

/// The end of a certificate after so many seconds, in words.
fn end_in(left: u64) -> String {
    let units = [(DAY, "day"), (3_600, "hour"), (60, "minute")];
    match units.into_iter().find(|(unit, _)| left >= *unit) {
        _ if left == 0 => "has expired".to_owned(),
        Some((unit, name)) if left < 2 * unit => format!("expires in a little more than one {name}"),
        Some((unit, name)) => format!("expires in {} {name}s", left / unit),
        None => "expires in less than a minute".to_owned(),
    }
}

/// A connection whose peer is verified again whenever files have changed, and every minute.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    trust: Arc<Trust>,
    side: Side,
    chain: Vec<CertificateDer<'static>>,
    /// The number of the files by which it was accepted, and when that was.
    number: u64,
    verified_at: tokio::time::Instant,
}

impl<S> Watched<S> {
    /// A connection whose peer has shown `chain`.
    pub(super) fn new(stream: S, trust: Arc<Trust>, side: Side, chain: Vec<CertificateDer<'static>>) -> Self {
        // The files may have changed since the handshake began: so the first read verifies.
        Self { stream, trust, side, chain, number: u64::MAX, verified_at: tokio::time::Instant::now() }
    }

    fn check(&mut self) -> io::Result<()> {
        let accepted = self.trust.accepted();
        if accepted.number != self.number || self.verified_at.elapsed() >= VERIFIED {
            let refused = |error| io::Error::new(io::ErrorKind::PermissionDenied, error);
            accepted.verify(self.side, &self.chain).map_err(refused)?;
            (self.number, self.verified_at) = (accepted.number, tokio::time::Instant::now());
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_said_in_the_largest_unit_that_fits() {
        let said = [0, 59, 60, 7_199, 7_200, DAY, 30 * DAY - 1].map(end_in);
        assert_eq!(
            said,
            [
                "has expired",
                "expires in less than a minute",
                "expires in a little more than one minute",
                "expires in a little more than one hour",
                "expires in 2 hours",
                "expires in a little more than one day",
                "expires in 29 days"
            ]
        );
    }

    #[test]
    fn the_end_of_a_certificate_is_warned_of_once_at_each_of_three_times() {
        let (now, mut warned) = (UnixTime::now().as_secs(), None);
        let mut stages = Vec::new();
        for days in [90, 31, 29, 28, 6, 5, 0, 400, 20] {
            // Half a day more, so that the test takes no part in the count.
            warn_of_end(now + days * DAY + DAY / 2, &mut warned);
            stages.push(warned);
        }
        let (one, seven, thirty) = (Some(1), Some(7), Some(30));
        assert_eq!(stages, [None, None, thirty, thirty, seven, seven, one, None, thirty]);
    }

    #[test]
    fn the_last_second_is_found_to_the_second() {
        let end = UnixTime::now().as_secs() + 12_345;
        assert_eq!(last_second(|at| at.as_secs() <= end), end);
    }
}
