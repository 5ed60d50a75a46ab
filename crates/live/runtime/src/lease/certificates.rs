//! What the connection to etcd is made with, where that is not clear text.
//!
//! etcd is no part of the site: its certificates are its operator's, and name its servers by their
//! addresses. A folder has them under the same names as a component's own: `authority.pem`, and
//! `certificate.pem` with `key.pem` where etcd asks its clients for certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, version::TLS13};
use tokio_rustls::TlsConnector;

use crate::security::{
    ALPN_GRPC, AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, SecurityError, certificates, of_tls, private_key,
    provider, roots,
};

/// The authorities that a coordinator accepts for etcd, and its own certificate.
#[derive(Clone, Debug)]
pub struct LeaseCertificates {
    client: Arc<ClientConfig>,
}

impl LeaseCertificates {
    /// Reads `authority.pem` from `folder`, and `certificate.pem` and `key.pem` where the former is
    /// there.
    ///
    /// # Errors
    /// If one cannot be read, is no PEM, or they do not fit.
    pub fn load(folder: &Path) -> Result<Self, SecurityError> {
        let path = folder.join(CERTIFICATE_FILE);
        let authorities = certificates(&folder.join(AUTHORITY_FILE))?;
        let own = match path.exists() {
            true => Some((certificates(&path)?, private_key(&folder.join(KEY_FILE))?)),
            false => None,
        };
        let unusable = |error: rustls::Error| {
            let reason = of_tls(&error);
            SecurityError::Unusable { path: path.clone(), reason }
        };
        Ok(Self { client: Arc::new(configuration(&authorities, own).map_err(unusable)?) })
    }

    pub(super) fn connector(&self) -> TlsConnector {
        TlsConnector::from(self.client.clone())
    }
}

fn configuration(
    authorities: &[CertificateDer<'static>],
    own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots(authorities)?);
    let mut client = match own {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    client.alpn_protocols = vec![ALPN_GRPC.to_vec()];
    Ok(client)
}
