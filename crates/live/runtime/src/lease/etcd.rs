//! A lease kept in etcd: a key that lives as long as its holder renews it.
//!
//! Taking it is one transaction: if the key is free, and the term is still what it was when it was
//! read, write both. The key hangs on an etcd lease of a few seconds, which is renewed three times
//! in that time. By its own clock a leader counts from before it asked, so it knows that it has
//! lost the lease before etcd gives it to another.
//!
//! Rejected: the crate `etcd-client`, whose build needs `protoc`; of etcd's interface five calls
//! are needed.

use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

use super::{Leadership, LeaseCertificates, log_once, next_term};
use proto::compare::{CompareTarget, TargetUnion};
use proto::kv_client::KvClient;
use proto::lease_client::LeaseClient;
use proto::request_op::Request;
use proto::{
    Compare, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest, RangeRequest,
    RequestOp, TxnRequest,
};

#[allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    unreachable_pub,
    dead_code,
    reason = "made by prost and tonic from proto/etcd.proto"
)]
mod proto {
    tonic::include_proto!("etcdserverpb");
}

/// Lifetime of the key without renewal.
const TIME_TO_LIVE: Duration = Duration::from_secs(3);
/// The longest time to an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two attempts of a standby to take the key.
const LOOK: Duration = Duration::from_millis(250);

/// Waits until `key` is free, and takes it.
pub(super) async fn acquire(
    servers: &[SocketAddr],
    key: &str,
    certificates: Option<&LeaseCertificates>,
    above: u64,
) -> Leadership {
    let mut said = None;
    for server in servers.iter().cycle() {
        match attempt(*server, key, certificates, above).await {
            Ok(Some(leadership)) => return leadership,
            Ok(None) => log_once(&mut said, format!("standing by: another coordinator holds {key} in etcd")),
            Err(status) => {
                log_once(&mut said, format!("no lease: etcd at {server} says {}", reason(&status)))
            }
        }
        tokio::time::sleep(LOOK).await;
    }
    std::future::pending().await
}

/// Returns the cause at the bottom of an error.
fn reason(status: &Status) -> String {
    let mut reason: &dyn std::error::Error = status;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

/// A connection that is made again whenever it is lost.
async fn connect(
    server: SocketAddr,
    certificates: Option<&LeaseCertificates>,
) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{server}"))?;
    let endpoint = endpoint.timeout(PATIENCE).connect_timeout(PATIENCE);
    let Some(certificates) = certificates else { return endpoint.connect().await };
    let connector = certificates.connector();
    let over_tls = move |_: Uri| {
        let connector = connector.clone();
        async move {
            let stream = tokio::net::TcpStream::connect(server).await?;
            connector.connect(server.ip().into(), stream).await.map(TokioIo::new)
        }
    };
    endpoint.connect_with_connector(tower::service_fn(over_tls)).await
}

/// Tries to take the key; none where it is held.
async fn attempt(
    server: SocketAddr,
    key: &str,
    certificates: Option<&LeaseCertificates>,
    above: u64,
) -> Result<Option<Leadership>, Status> {
    let channel = connect(server, certificates).await;
    let channel = channel.map_err(|error| Status::from_error(error.into()))?;
    let mut values = KvClient::new(channel.clone());
    let mut leases = LeaseClient::new(channel);
    let term_key = format!("{key}/term");
    let found = values.range(RangeRequest { key: term_key.clone().into() }).await?.into_inner().kvs;
    let (last, revision) = found.first().map_or((&[][..], 0), |found| (&found.value[..], found.mod_revision));
    let term = next_term(&String::from_utf8_lossy(last), above);
    let since = Instant::now();
    let ttl = TIME_TO_LIVE.as_secs() as i64;
    let lease = leases.lease_grant(LeaseGrantRequest { ttl }).await?.into_inner().id;
    let is_free = Compare {
        target: CompareTarget::Create as i32,
        key: key.to_owned().into(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let is_same_term = Compare {
        target: CompareTarget::Mod as i32,
        key: term_key.clone().into(),
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Compare::default()
    };
    let put = |key: &str, lease| {
        let (key, value) = (key.to_owned().into(), term.to_string().into());
        RequestOp { request: Some(Request::RequestPut(PutRequest { key, value, lease })) }
    };
    let success = vec![put(key, lease), put(&term_key, 0)];
    let taken = values.txn(TxnRequest { compare: vec![is_free, is_same_term], success }).await;
    if !taken.as_ref().is_ok_and(|taken| taken.get_ref().succeeded) {
        // It would go by itself, a little later.
        drop(leases.lease_revoke(LeaseRevokeRequest { id: lease }).await);
        return taken.map(|_| None);
    }
    let (losing, lost) = oneshot::channel();
    let (renewing, given_up) = oneshot::channel();
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = renew(&mut leases, lease, since) => tracing::warn!("lost the lease in etcd"),
            _ = given_up => drop(leases.lease_revoke(LeaseRevokeRequest { id: lease }).await),
        }
        drop(losing);
    });
    Ok(Some(Leadership { term, lost: Some(lost), renewing }))
}

/// Renews the lease until that was not possible for as long as it lives.
async fn renew(leases: &mut LeaseClient<Channel>, id: i64, mut since: Instant) {
    while since.elapsed() < TIME_TO_LIVE {
        let asked = Instant::now();
        let request = tokio_stream::once(LeaseKeepAliveRequest { id });
        let answered = async {
            let mut answers = leases.lease_keep_alive(request).await?.into_inner();
            answers.message().await
        };
        let left = TIME_TO_LIVE.saturating_sub(since.elapsed());
        match tokio::time::timeout(left.min(PATIENCE), answered).await {
            Ok(Ok(Some(answer))) if answer.ttl > 0 => since = asked,
            // It has run out, and another may have it.
            Ok(Ok(Some(_))) => return,
            _ => {}
        }
        tokio::time::sleep(TIME_TO_LIVE / 6).await;
    }
}
