//! Which certificates are accepted, as long as the process runs: what the authority signed and has not revoked.
//!
//! # The idea
//! A list of revoked certificates (RFC 5280, signed by the authority) may stand beside a part's own. It is read at the start
//! and looked at every two seconds. A change holds for connections to come and for those that there are: [`Watched`] sees at
//! each read and write whether the list is still the one by which its peer was accepted, and else has it verified again.
//! Parts of a site speak many times a second, so one that is revoked is cut off as soon as the list is read.
//!
//! # Invariants
//! - A list that is no list, or that the authority did not sign, stops a part from starting, and changes nothing in one that
//!   runs: the former list holds, and the log says so. A list that was there and is gone is such a one.
//! - A list speaks of certificates of the authority that signed it, and says nothing of others.
//!
//! # What was rejected
//! - Refusing everybody once a list is older than it says (`nextUpdate`): whoever forgets to renew it would stop the site.
//! - Asking the authority (OCSP): it is a folder that somebody keeps, and no service.
//! - Reading the list again by a signal: who copies a file to a thousand hosts would have to reach their processes too.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

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

use super::{ALPN_FRAMES, ALPN_GRPC, Role, SecurityError, coordinator_name, provider, read, roots};

/// How often the list is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// A part's certificate and authorities, and what follows from the list as it is now.
#[derive(Debug)]
pub(super) struct Trust {
    pub(super) role: Role,
    pub(super) authorities: Vec<CertificateDer<'static>>,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    /// Its own certificate and the list, for messages.
    pub(super) certificate: PathBuf,
    pub(super) list: PathBuf,
    pub(super) accepted: RwLock<Option<Arc<Accepted>>>,
}

/// Whom one list lets in.
#[derive(Debug)]
pub(super) struct Accepted {
    /// Counts the lists.
    number: u64,
    /// The file as it was; none where there was none.
    text: Option<Vec<u8>>,
    pub(super) server: Arc<ServerConfig>,
    pub(super) client: Arc<ClientConfig>,
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
}

/// Which side of a connection a peer is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// It has connected to us.
    Client,
    /// We have connected to it: a coordinator.
    Coordinator,
}

impl Trust {
    /// What holds now.
    pub(super) fn accepted(&self) -> Arc<Accepted> {
        let accepted = self.accepted.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(accepted.as_ref().expect("the list was read when the certificate was loaded"))
    }

    /// Reads the list, and returns whether it is another than before.
    ///
    /// # Errors
    /// Where it is gone or cannot be used; what held goes on to hold.
    pub(super) fn reread(&self) -> Result<bool, SecurityError> {
        let before = self.accepted.read().unwrap_or_else(PoisonError::into_inner).clone();
        let had_list = before.as_ref().is_some_and(|before| before.text.is_some());
        let text = match read(&self.list) {
            Err(SecurityError::Unreadable { error, .. })
                if error.kind() == io::ErrorKind::NotFound && !had_list =>
            {
                None
            }
            found => Some(found?),
        };
        let number = match before {
            Some(before) if before.text == text => return Ok(false),
            Some(before) => before.number + 1,
            None => 0,
        };
        let accepted = self.accept(number, text)?;
        *self.accepted.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(accepted));
        Ok(true)
    }

    /// Whom a list lets in.
    fn accept(&self, number: u64, text: Option<Vec<u8>>) -> Result<Accepted, SecurityError> {
        let malformed = || SecurityError::Malformed {
            path: self.list.clone(),
            expected: "list of revoked certificates of this authority",
        };
        let found: Result<Vec<_>, _> = text
            .as_deref()
            .map_or(Ok(Vec::new()), |text| CertificateRevocationListDer::pem_slice_iter(text).collect());
        let lists = found.map_err(|_| malformed())?;
        if text.is_some() && lists.is_empty() {
            return Err(malformed());
        }
        let unusable = |error: rustls::Error| {
            let reason = error.to_string();
            SecurityError::Unusable { path: self.certificate.clone(), reason }
        };
        let (clients, servers) = self.verifiers(lists).map_err(|_| malformed())?;
        // A list with a signature that is wrong is found out when it is used, so it is used here.
        match self.verify_own(&servers) {
            Err(rustls::Error::InvalidCertRevocationList(_)) => return Err(malformed()),
            // Who runs with a certificate that is revoked is refused by the others; until then it heeds the list itself.
            Err(error) if number == 0 => return Err(unusable(error)),
            Err(error) => tracing::error!(%error, "the own certificate is of no use any more"),
            Ok(()) => {}
        }
        let (server, client) = self.configurations(&clients, &servers).map_err(unusable)?;
        Ok(Accepted { number, text, server, client, clients, servers })
    }

    fn verifiers(
        &self,
        lists: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<(Arc<dyn ClientCertVerifier>, Arc<WebPkiServerVerifier>), rustls::Error> {
        let (roots, provider) = (Arc::new(roots(&self.authorities)?), Arc::new(provider()));
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

    fn verify_own(&self, servers: &WebPkiServerVerifier) -> Result<(), rustls::Error> {
        let (own, between) = self.chain.split_first().expect("a file without certificates was refused");
        let name = self.role.name().try_into().expect("a role is a name in a domain");
        servers.verify_server_cert(own, between, &name, &[], UnixTime::now()).map(|_| ())
    }

    fn configurations(
        &self,
        clients: &Arc<dyn ClientCertVerifier>,
        servers: &Arc<WebPkiServerVerifier>,
    ) -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), rustls::Error> {
        let provider: Arc<CryptoProvider> = Arc::new(provider());
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(clients.clone())
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        server.alpn_protocols = vec![ALPN_FRAMES.to_vec(), ALPN_GRPC.to_vec()];
        // Connections last; resuming them would only keep state for peers that may have been replaced.
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_webpki_verifier(servers.clone())
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())?;
        Ok((Arc::new(server), Arc::new(client)))
    }
}

impl Accepted {
    /// That a peer with this certificate would be let in.
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

/// Looks at the list every now and then, until what is returned is dropped.
pub(super) fn watch(trust: &Arc<Trust>) -> JoinSet<()> {
    let trust = Arc::clone(trust);
    let mut watching = JoinSet::new();
    watching.spawn_local(async move {
        let mut said = None;
        loop {
            match trust.reread() {
                Ok(false) => said = None,
                Ok(true) => tracing::info!("the list of revoked certificates is another"),
                Err(error) => {
                    let text = error.to_string();
                    if said.as_ref() != Some(&text) {
                        tracing::error!("{text}: the former list of revoked certificates holds");
                        said = Some(text);
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    watching
}

/// A connection whose peer is verified again whenever the list of revoked certificates is another.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    trust: Arc<Trust>,
    side: Side,
    chain: Vec<CertificateDer<'static>>,
    /// The number of the list by which it was accepted.
    number: u64,
}

impl<S> Watched<S> {
    /// A connection whose peer has shown `chain`.
    pub(super) fn new(stream: S, trust: Arc<Trust>, side: Side, chain: Vec<CertificateDer<'static>>) -> Self {
        // The list may have changed since the handshake began: so the first read verifies.
        Self { stream, trust, side, chain, number: u64::MAX }
    }

    fn check(&mut self) -> io::Result<()> {
        let accepted = self.trust.accepted();
        if accepted.number != self.number {
            let refused = |error| io::Error::new(io::ErrorKind::PermissionDenied, error);
            accepted.verify(self.side, &self.chain).map_err(refused)?;
            self.number = accepted.number;
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
