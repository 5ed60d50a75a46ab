//! What agents say to each other in datagrams, under a key of each two of them.
//!
//! # The idea
//! An agent's folder holds the certificates of all agents of the site (`agents.pem`), which are
//! public. The key of two agents is what each makes of its own private key and of the public key in
//! the other's certificate (Diffie-Hellman on P-256): nobody else has it, and no secret is shared.
//! So a host that was broken into speaks for itself alone.
//!
//! # Invariants
//! - A peer's certificate is verified as that of one who connects: its authority, its end, and the
//!   list of those revoked; again when files have changed, and every minute. Why one is not
//!   accepted is logged once.
//! - Each direction has a key of its own, so nothing comes back to its sender as another's word.
//! - What is old or comes twice is left out by its number and time
//!   (`cavalcade_protocol::Negotiation`).
//!
//! # Cost
//! A peer's first datagram after files have changed costs an operation on the curve and a
//! verification, its first in a minute a verification, each other one a tag. `agents.pem` is read
//! with the other files every two seconds.
//!
//! # What was rejected
//! - Keys of pairs in files: as many as the square of the hosts, and to be withdrawn by hand.
//! - A signature in each datagram: 0.1 ms each, for statements of which a host makes thousands in a
//!   second.
//! - DTLS: a handshake between each pair of hosts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use cavalcade_model::PortId;
use p256::ecdh::diffie_hellman;
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey};
use p256::{PublicKey, SecretKey};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::trust::{Accepted, Looks, Trust, VERIFIED};
use super::{Role, Seal, of_tls, role_of};

/// The keys of one agent with each other.
#[derive(Debug)]
pub struct Pairs {
    trust: Arc<Trust>,
    looks: Looks,
    own: PortId,
    /// The number of the files by which `known` was made.
    number: u64,
    known: BTreeMap<PortId, Known>,
}

/// The keys with one peer: to it, and from it.
#[derive(Debug)]
struct Known {
    keys: [Seal; 2],
    verified_at: Instant,
    /// Why its certificate is not accepted, if it is not.
    refused: Option<String>,
}

impl Pairs {
    /// For the agent at port `own`.
    pub(super) fn new(trust: Arc<Trust>, own: PortId) -> Self {
        Self { trust, looks: Looks::default(), own, number: 0, known: BTreeMap::new() }
    }

    /// Returns the port of the agent whose keys these are.
    pub fn own(&self) -> PortId {
        self.own
    }

    /// Looks at the files, unless it has done so in the last two seconds: for those who run without
    /// the loop of an agent, which does.
    pub fn refresh(&mut self) {
        self.looks.look_if_due(&self.trust);
    }

    /// Adds the tag of `message` for `to` behind it; false where there is no key with that agent.
    pub fn close(&mut self, to: PortId, message: &mut Vec<u8>) -> bool {
        let Some([ours, _]) = self.keys(to) else { return false };
        ours.close(message);
        true
    }

    /// The message in front of its tag; `None` unless `from` has made that for this agent.
    pub fn open<'a>(&mut self, from: PortId, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let [_, theirs] = self.keys(from)?;
        theirs.open(sealed)
    }

    /// The keys to and from a peer, where its certificate is accepted.
    fn keys(&mut self, peer: PortId) -> Option<&[Seal; 2]> {
        let accepted = self.trust.accepted();
        if self.number != accepted.number {
            (self.number, self.known) = (accepted.number, BTreeMap::new());
        }
        // Whom strangers make up takes no room here.
        let certificate = accepted.agents.get(&peer)?;
        if !self.known.contains_key(&peer) {
            self.known.insert(peer, Known::new(&accepted, certificate, (self.own, peer))?);
        }
        let known = self.known.get_mut(&peer)?;
        if known.verified_at.elapsed() >= VERIFIED {
            known.verify(&accepted, certificate, peer);
        }
        known.refused.is_none().then_some(&known.keys)
    }
}

impl Known {
    /// Makes the keys of agent `own` with `peer`, which has this certificate; none where one of
    /// both has a key of another curve.
    fn new(
        accepted: &Accepted,
        certificate: &CertificateDer<'_>,
        (own, peer): (PortId, PortId),
    ) -> Option<Self> {
        let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
        let theirs = PublicKey::from_public_key_der(&parsed.subject_public_key_info()).ok()?;
        let ours = accepted.secret.as_ref()?;
        let shared = diffie_hellman(ours.to_nonzero_scalar(), theirs.as_affine());
        let of_direction = |from: PortId, to: PortId| {
            let purpose = format!("cavalcade datagram from {} to {}", from.0, to.0);
            Seal::derived(shared.raw_secret_bytes(), &purpose)
        };
        let keys = [of_direction(own, peer), of_direction(peer, own)];
        let mut known = Self { keys, verified_at: Instant::now(), refused: None };
        known.verify(accepted, certificate, peer);
        Some(known)
    }

    fn verify(&mut self, accepted: &Accepted, certificate: &CertificateDer<'_>, peer: PortId) {
        self.verified_at = Instant::now();
        let refused = accepted.verify_agent(certificate).err().map(|error| of_tls(&error));
        if let Some(reason) = refused.as_ref().filter(|_| refused != self.refused) {
            tracing::warn!(agent = peer.0, %reason, "datagrams of an agent are dropped for its certificate in agents.pem");
        }
        self.refused = refused;
    }
}

/// The certificates of agents among these, by port; the last of a port counts.
pub(super) fn by_port(
    certificates: Vec<CertificateDer<'static>>,
) -> BTreeMap<PortId, CertificateDer<'static>> {
    let ports = certificates.into_iter().filter_map(|certificate| match role_of(&certificate)? {
        Role::Agent(port) => Some((port, certificate)),
        Role::Coordinator | Role::Administrator => None,
    });
    ports.collect()
}

/// A private key as keys of pairs are made of it; none of another curve.
pub(super) fn on_the_curve(key: &PrivateKeyDer<'_>) -> Option<SecretKey> {
    match key {
        PrivateKeyDer::Pkcs8(key) => SecretKey::from_pkcs8_der(key.secret_pkcs8_der()).ok(),
        PrivateKeyDer::Sec1(key) => SecretKey::from_sec1_der(key.secret_sec1_der()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    use super::super::{
        AGENTS_FILE, AUTHORITY_FOLDER, CERTIFICATE_FILE, Identity, Issued, KEY_FILE, REVOKED_FILE, issue,
        renew, revoke,
    };
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn site(hosts: u32) -> Vec<Issued> {
        issue(hosts, SystemTime::now() - DAY, SystemTime::now() + DAY).unwrap()
    }

    fn contents<'a>(site: &'a [Issued], component: &str, name: &str) -> &'a str {
        let component = site.iter().find(|issued| issued.folder == component).unwrap();
        &component.files.iter().find(|file| file.name == name).unwrap().contents
    }

    fn write(above: &Path, site: &[Issued], component: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let folder = above.join(component);
        std::fs::create_dir_all(&folder).unwrap();
        for file in &site.iter().find(|issued| issued.folder == component).unwrap().files {
            let path = folder.join(file.name);
            std::fs::write(&path, &*file.contents).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        folder
    }

    fn pairs(folder: &Path) -> Pairs {
        Identity::load(folder).unwrap().pairs().unwrap()
    }

    fn closed(by: &mut Pairs, to: u32) -> Vec<u8> {
        let mut message = b"desired".to_vec();
        assert!(by.close(PortId(to), &mut message));
        message
    }

    #[test]
    fn only_the_other_end_opens_what_one_has_closed_and_only_as_that_ones() {
        let folder = tempfile::tempdir().unwrap();
        let site = site(3);
        let mut agents = [0, 1, 2].map(|port| pairs(&write(folder.path(), &site, &format!("agent-{port}"))));
        let sealed = closed(&mut agents[0], 1);
        assert_eq!(agents[1].open(PortId(0), &sealed), Some(&b"desired"[..]));
        assert_eq!(agents[1].open(PortId(2), &sealed), None, "as another's");
        assert_eq!(agents[2].open(PortId(0), &sealed), None, "at another host");
        assert_eq!(agents[0].open(PortId(1), &sealed), None, "back at its sender");
        assert!(!agents[0].close(PortId(3), &mut Vec::new()), "a host that is not of the site");
        assert_eq!(agents[0].open(PortId(3), &sealed), None);
    }

    #[test]
    fn a_host_of_another_authority_and_one_that_is_revoked_have_no_keys_with_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (site(2), site(2));
        let path = write(folder.path(), &ours, "agent-0");
        let (mut own, mut peer) = (pairs(&path), pairs(&write(folder.path(), &ours, "agent-1")));
        let mut stranger = pairs(&write(&folder.path().join("theirs"), &theirs, "agent-1"));
        let sealed = closed(&mut stranger, 0);
        assert_eq!(own.open(PortId(1), &sealed), None);
        let sealed = closed(&mut peer, 0);
        assert!(own.open(PortId(1), &sealed).is_some());
        let key = contents(&ours, AUTHORITY_FOLDER, KEY_FILE);
        let certificate = contents(&ours, "agent-1", CERTIFICATE_FILE);
        let list = revoke(&[key], None, &[certificate.into()], SystemTime::now()).unwrap();
        std::fs::write(path.join(REVOKED_FILE), list).unwrap();
        own.refresh();
        assert_eq!(own.open(PortId(1), &sealed), None);
        assert!(!own.close(PortId(1), &mut Vec::new()));
    }

    #[test]
    fn a_host_whose_certificate_has_run_out_has_no_keys_and_comes_back_with_a_new_one_of_the_same_key() {
        let folder = tempfile::tempdir().unwrap();
        let site = site(2);
        let path = write(folder.path(), &site, "agent-0");
        let (mut own, mut peer) = (pairs(&path), pairs(&write(folder.path(), &site, "agent-1")));
        let sealed = closed(&mut peer, 0);
        let authority = contents(&site, AUTHORITY_FOLDER, KEY_FILE);
        let key = contents(&site, "agent-1", KEY_FILE);
        let mut listed_until = |end: SystemTime| {
            let role = Role::Agent(PortId(1));
            let signed = renew(authority, role, Some(key), SystemTime::now() - 3 * DAY, end).unwrap();
            std::fs::write(path.join(AGENTS_FILE), signed.certificate).unwrap();
            own.looks = Looks::default();
            own.refresh();
            own.open(PortId(1), &sealed).is_some()
        };
        assert!(!listed_until(SystemTime::now() - DAY));
        assert!(listed_until(SystemTime::now() + DAY));
    }

    #[test]
    fn made_up_senders_take_no_room_and_a_list_of_agents_that_is_gone_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let site = site(2);
        let path = write(folder.path(), &site, "agent-0");
        let (mut own, mut peer) = (pairs(&path), pairs(&write(folder.path(), &site, "agent-1")));
        assert!((2..10_000).all(|port| own.open(PortId(port), b"desired, and a tag that is none").is_none()));
        assert!(own.known.is_empty());
        std::fs::remove_file(path.join(AGENTS_FILE)).unwrap();
        own.refresh();
        assert!(own.open(PortId(1), &closed(&mut peer, 0)).is_some());
    }
}
