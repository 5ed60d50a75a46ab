//! Certificates for a site: an authority of its own, and one certificate for each component.
//!
//! Keys are ECDSA on P-256. The authority's key is made here, signs, and goes only to those who
//! keep the site's files. Its name in certificates follows from its key, so that two authorities of
//! a site are told apart while one takes the other's place, and a key is all that signing takes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cavalcade_model::PortId;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

use super::{AGENTS_FILE, AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, Role, certificates_in, own_role};

/// Time at which a list of revoked certificates says that the next one comes. Nothing waits for it.
const NEXT_LIST: Duration = Duration::from_secs(3650 * 86_400);

/// The authority's own folder.
pub const AUTHORITY_FOLDER: &str = "authority";

/// The files of one component.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The folder that they belong into.
    pub folder: String,
    /// The files.
    pub files: Vec<IssuedFile>,
}

/// A file of one component.
#[derive(Clone, Debug)]
pub struct IssuedFile {
    /// Its name.
    pub name: &'static str,
    /// Its contents; `agents.pem` is the same one in all folders.
    pub contents: Arc<str>,
    /// True if only its owner may read it.
    pub is_secret: bool,
}

/// The reason that a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The library that makes certificates refused.
    #[error("a certificate cannot be made: {0}")]
    Refused(#[from] rcgen::Error),
    /// A file to revoke by is not what it should be.
    #[error("{0} is no {1} in PEM form")]
    Malformed(&'static str, &'static str),
}

/// Files for a site of `hosts` hosts, valid from `begin` to `end`: the authority's, the
/// coordinator's, an administrator's, and each agent's.
///
/// # Errors
/// If the operating system gives no random numbers.
pub fn issue(hosts: u32, begin: SystemTime, end: SystemTime) -> Result<Vec<Issued>, IssueError> {
    let authority = new_authority(begin, end)?;
    let agents = (0..hosts).map(|port| Role::Agent(PortId(port)));
    let roles = [Role::Coordinator, Role::Administrator].into_iter().chain(agents);
    let signed = roles.map(|role| Ok((role, sign(&authority, role, None, begin, end)?)));
    let signed = signed.collect::<Result<Vec<_>, IssueError>>()?;
    let agents = signed.iter().filter(|(role, _)| matches!(role, Role::Agent(_)));
    let agents: Arc<str> = agents.map(|(_, agent)| agent.certificate.as_str()).collect::<String>().into();
    let file = |name, contents: Arc<str>, is_secret| IssuedFile { name, contents, is_secret };
    let certificate: Arc<str> = authority.pem().into();
    let mut components = vec![Issued {
        folder: AUTHORITY_FOLDER.to_owned(),
        files: vec![
            file(AUTHORITY_FILE, certificate.clone(), false),
            file(KEY_FILE, authority.key().serialize_pem().into(), true),
            file(AGENTS_FILE, agents.clone(), false),
        ],
    }];
    for (role, signed) in signed {
        let mut files = vec![
            file(AUTHORITY_FILE, certificate.clone(), false),
            file(CERTIFICATE_FILE, signed.certificate.into(), false),
            file(KEY_FILE, signed.key.into(), true),
        ];
        if matches!(role, Role::Agent(_)) {
            files.push(file(AGENTS_FILE, agents.clone(), false));
        }
        components.push(Issued { folder: role.to_string(), files });
    }
    Ok(components)
}

/// A certificate and its key, in PEM form.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// An authority: its certificate and its key, in PEM form, valid from `begin` to `end`.
///
/// # Errors
/// If the operating system gives no random numbers.
pub fn issue_authority(begin: SystemTime, end: SystemTime) -> Result<Signed, IssueError> {
    let authority = new_authority(begin, end)?;
    Ok(Signed { certificate: authority.pem(), key: authority.key().serialize_pem() })
}

/// A certificate for `role`, signed with the authority's key and valid from `begin` to `end`; for
/// the key that there is, or for a new one. Keys are in PEM form.
///
/// # Errors
/// If one of them is not what it should be.
pub fn renew(
    authority_key: &str,
    role: Role,
    key: Option<&str>,
    begin: SystemTime,
    end: SystemTime,
) -> Result<Signed, IssueError> {
    sign(&issuer(authority_key)?, role, key, begin, end)
}

fn sign(
    authority: &Issuer<'_, KeyPair>,
    role: Role,
    key: Option<&str>,
    begin: SystemTime,
    end: SystemTime,
) -> Result<Signed, IssueError> {
    let key = match key {
        Some(text) => KeyPair::from_pem(text)
            .map_err(|_| IssueError::Malformed("the component's key", "private key"))?,
        None => KeyPair::generate()?,
    };
    let certificate = parameters(role, begin, end)?.signed_by(&key, authority)?.pem();
    Ok(Signed { certificate, key: key.serialize_pem() })
}

/// The role in a certificate that one of `authorities` has signed and that is valid now; both in
/// PEM form.
pub fn role_signed_by(certificate: &[u8], authorities: &[u8]) -> Option<Role> {
    let path = std::path::Path::new(CERTIFICATE_FILE);
    let chain = certificates_in(path, certificate).ok()?;
    own_role(path, &chain, &certificates_in(path, authorities).ok()?).ok()
}

/// Whether `certificate` is on one of `lists`; both in PEM form.
///
/// # Errors
/// If one of them is not what it should be.
pub fn is_revoked(certificate: &[u8], lists: &[u8]) -> Result<bool, IssueError> {
    Ok(revoked_by(lists)?.contains_key(&serial(certificate, "a certificate to be renewed")?))
}

/// The serial number of a certificate in PEM form, which is `named` where it is none.
fn serial(text: &[u8], named: &'static str) -> Result<Vec<u8>, IssueError> {
    let malformed = || IssueError::Malformed(named, "certificate");
    let certificate = CertificateDer::from_pem_slice(text).map_err(|_| malformed())?;
    let parsed = webpki::EndEntityCert::try_from(&certificate).map_err(|_| malformed())?;
    Ok(parsed.serial().to_vec())
}

/// The lists that revoke `certificates` from `now` on, and all that `former` did, one signed with
/// each of the authorities' keys. All are in PEM form.
///
/// # Errors
/// If one of them is not what it should be.
pub fn revoke(
    authority_keys: &[&str],
    former: Option<&[u8]>,
    certificates: &[Vec<u8>],
    now: SystemTime,
) -> Result<String, IssueError> {
    let mut revoked = former.map(revoked_by).transpose()?.unwrap_or_default();
    for text in certificates {
        revoked.entry(serial(text, "what is to be revoked")?).or_insert(now);
    }
    let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let entry = |(serial, at): (&Vec<u8>, &SystemTime)| RevokedCertParams {
        serial_number: SerialNumber::from(serial.clone()),
        revocation_time: (*at).into(),
        reason_code: None,
        invalidity_date: None,
    };
    let list = || CertificateRevocationListParams {
        this_update: now.into(),
        next_update: (now + NEXT_LIST).into(),
        crl_number: SerialNumber::from(since_1970),
        issuing_distribution_point: None,
        revoked_certs: revoked.iter().map(entry).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    authority_keys.iter().map(|key| Ok(list().signed_by(&issuer(key)?)?.pem()?)).collect()
}

/// Makes the issuer that signs with an authority's key: its name follows from it.
fn issuer(key: &str) -> Result<Issuer<'static, KeyPair>, IssueError> {
    let key =
        KeyPair::from_pem(key).map_err(|_| IssueError::Malformed("the authority's key", "private key"))?;
    let now = SystemTime::now();
    Ok(Issuer::new(authority_parameters(&key, now, now)?, key))
}

/// The serial numbers on lists, with when they were revoked.
fn revoked_by(lists: &[u8]) -> Result<BTreeMap<Vec<u8>, SystemTime>, IssueError> {
    let malformed = || IssueError::Malformed("the former list", "list of revoked certificates");
    let mut revoked = BTreeMap::new();
    for list in CertificateRevocationListDer::pem_slice_iter(lists) {
        let list = list.map_err(|_| malformed())?;
        let list = webpki::BorrowedCertRevocationList::from_der(&list).map_err(|_| malformed())?;
        for entry in &list {
            let entry = entry.map_err(|_| malformed())?;
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.revocation_date.as_secs());
            revoked.insert(entry.serial_number.to_vec(), at);
        }
    }
    if revoked.is_empty() && CertificateRevocationListDer::from_pem_slice(lists).is_err() {
        return Err(malformed());
    }
    Ok(revoked)
}

fn new_authority(
    begin: SystemTime,
    end: SystemTime,
) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let key = KeyPair::generate()?;
    CertifiedIssuer::self_signed(authority_parameters(&key, begin, end)?, key)
}

fn authority_parameters(
    key: &KeyPair,
    begin: SystemTime,
    end: SystemTime,
) -> Result<CertificateParams, rcgen::Error> {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key_raw());
    let short: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut params = named(&format!("Cavalcade authority {short}"), Vec::new(), begin, end)?;
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
