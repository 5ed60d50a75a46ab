//! Certificates for a site: an authority of its own, and one certificate for each part.
//!
//! Keys are ECDSA on P-256. The authority's key is made here, signs, and goes to nobody but whoever keeps the site's files.

use std::time::SystemTime;

use cavalcade_model::PortId;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};

use super::{AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, Role, SEAL_FILE, Seal};

/// The authority's own folder.
const AUTHORITY_FOLDER: &str = "authority";

/// The files of one part.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The folder that they belong into.
    pub folder: String,
    /// The files.
    pub files: Vec<IssuedFile>,
}

/// A file of one part.
#[derive(Clone, Debug)]
pub struct IssuedFile {
    /// Its name.
    pub name: &'static str,
    /// Its contents.
    pub contents: String,
    /// Whether nobody but its owner may read it.
    pub is_secret: bool,
}

/// That a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The library that makes certificates refused.
    #[error("a certificate cannot be made: {0}")]
    Refused(#[from] rcgen::Error),
    /// The operating system gives no random numbers.
    #[error("the operating system gives no random numbers")]
    NoRandomness,
}

/// Files for a site of `hosts` hosts, valid from `begin` to `end`: the authority's, the coordinator's, an administrator's, and
/// each agent's.
///
/// # Errors
/// Where the operating system gives no random numbers.
pub fn issue(hosts: u32, begin: SystemTime, end: SystemTime) -> Result<Vec<Issued>, IssueError> {
    let authority = authority(begin, end)?;
    let seal = Seal::generate().ok_or(IssueError::NoRandomness)?;
    let file = |name, contents, is_secret| IssuedFile { name, contents, is_secret };
    let mut parts = vec![Issued {
        folder: AUTHORITY_FOLDER.to_owned(),
        files: vec![
            file(AUTHORITY_FILE, authority.pem(), false),
            file(KEY_FILE, authority.key().serialize_pem(), true),
        ],
    }];
    let agents = (0..hosts).map(|port| Role::Agent(PortId(port)));
    for role in [Role::Coordinator, Role::Administrator].into_iter().chain(agents) {
        let key = KeyPair::generate()?;
        let certificate = parameters(role, begin, end)?.signed_by(&key, &authority)?;
        let mut files = vec![
            file(AUTHORITY_FILE, authority.pem(), false),
            file(CERTIFICATE_FILE, certificate.pem(), false),
            file(KEY_FILE, key.serialize_pem(), true),
        ];
        if matches!(role, Role::Agent(_)) {
            files.push(file(SEAL_FILE, seal.to_text(), true));
        }
        parts.push(Issued { folder: role.to_string(), files });
    }
    Ok(parts)
}

fn authority(begin: SystemTime, end: SystemTime) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = named("Cavalcade authority", Vec::new(), begin, end)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn parameters(role: Role, begin: SystemTime, end: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = named(&format!("Cavalcade {role}"), vec![role.name()], begin, end)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn named(
    name: &str,
    domains: Vec<String>,
    begin: SystemTime,
    end: SystemTime,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(domains)?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    params.not_before = begin.into();
    params.not_after = end.into();
    Ok(params)
}
