//! Certificates for a site: an authority of its own, and one certificate for each part.
//!
//! Keys are ECDSA on P-256. The authority's key is made here, signs, and goes to nobody but whoever keeps the site's files.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use cavalcade_model::PortId;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

use super::{AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, Role, SEAL_FILE, Seal};

/// When a list of revoked certificates says that the next one comes. Nothing waits for it.
const NEXT_LIST: Duration = Duration::from_secs(3650 * 86_400);

/// The authority's own folder.
pub const AUTHORITY_FOLDER: &str = "authority";

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
    /// A file to revoke by is not what it should be.
    #[error("{0} is no {1} in PEM form")]
    Malformed(&'static str, &'static str),
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

/// The list that revokes `certificates` from `now` on, and all that `former` did, signed with the authority's key. All three
/// are in PEM form, and so is the list.
///
/// # Errors
/// Where one of them is not what it should be.
pub fn revoke(
    authority_key: &str,
    former: Option<&[u8]>,
    certificates: &[Vec<u8>],
    now: SystemTime,
) -> Result<String, IssueError> {
    let mut revoked = former.map(revoked_by).transpose()?.unwrap_or_default();
    for text in certificates {
        let malformed = || IssueError::Malformed("what is to be revoked", "certificate");
        let certificate = CertificateDer::from_pem_slice(text).map_err(|_| malformed())?;
        let parsed = webpki::EndEntityCert::try_from(&certificate).map_err(|_| malformed())?;
        revoked.entry(parsed.serial().to_vec()).or_insert(now);
    }
    let key = KeyPair::from_pem(authority_key)
        .map_err(|_| IssueError::Malformed("the authority's key", "private key"))?;
    // What a list says of its authority follows from its name and key.
    let authority = Issuer::new(authority_parameters(now, now)?, key);
    let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let entry = |(serial, at): (Vec<u8>, SystemTime)| RevokedCertParams {
        serial_number: SerialNumber::from(serial),
        revocation_time: at.into(),
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: now.into(),
        next_update: (now + NEXT_LIST).into(),
        crl_number: SerialNumber::from(since_1970),
        issuing_distribution_point: None,
        revoked_certs: revoked.into_iter().map(entry).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    Ok(list.signed_by(&authority)?.pem()?)
}

/// The serial numbers on a list, with when they were revoked.
fn revoked_by(list: &[u8]) -> Result<BTreeMap<Vec<u8>, SystemTime>, IssueError> {
    let malformed = || IssueError::Malformed("the former list", "list of revoked certificates");
    let list = CertificateRevocationListDer::from_pem_slice(list).map_err(|_| malformed())?;
    let list = webpki::BorrowedCertRevocationList::from_der(&list).map_err(|_| malformed())?;
    let entry = |entry: Result<webpki::BorrowedRevokedCert<'_>, webpki::Error>| {
        let entry = entry.map_err(|_| malformed())?;
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.revocation_date.as_secs());
        Ok((entry.serial_number.to_vec(), at))
    };
    list.into_iter().map(entry).collect()
}

fn authority(begin: SystemTime, end: SystemTime) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    CertifiedIssuer::self_signed(authority_parameters(begin, end)?, KeyPair::generate()?)
}

fn authority_parameters(begin: SystemTime, end: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = named("Cavalcade authority", Vec::new(), begin, end)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
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
