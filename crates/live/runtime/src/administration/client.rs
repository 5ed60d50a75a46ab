//! The administrator's end.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};

use super::proto::administration_client::AdministrationClient;
use super::proto::{
    DrainReply, DrainRequest, Explanation, HistoryReply, HistoryRequest, LookRequest, ReloadReply,
    ReloadRequest, View, WhyRequest,
};
use crate::security::{ALPN_GRPC, Identity, coordinator_name};

/// The longest time to an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer: a hundred thousand flows fit.
const LONGEST: usize = 64 << 20;

/// Why an administrator gets no answer.
#[derive(Debug, thiserror::Error)]
pub enum AdministrationError {
    /// No process listens there.
    #[error("no answer at {place}: {reason}")]
    Unreachable {
        /// The place.
        place: String,
        /// Why.
        reason: String,
    },
    /// The subject of the question is not there.
    #[error("{0}")]
    NotFound(String),
    /// The question is invalid.
    #[error("{0}")]
    Invalid(String),
    /// It went wrong on the way or there.
    #[error("{0}")]
    Failed(String),
}

impl From<Status> for AdministrationError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::NotFound => Self::NotFound(message),
            Code::InvalidArgument => Self::Invalid(message),
            _ => Self::Failed(message),
        }
    }
}

/// A connection to a coordinator or an agent, to look and to switch.
#[derive(Debug)]
pub struct Administrator {
    client: AdministrationClient<Channel>,
}

impl Administrator {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// If no process listens there, or it is not for this user.
    pub async fn at_socket(path: &Path) -> Result<Self, AdministrationError> {
        let owned = path.to_owned();
        let connect = move |_: Uri| {
            let path = owned.clone();
            async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
        };
        let channel = endpoint().connect_with_connector(tower::service_fn(connect)).await;
        Self::over(channel, &path.display().to_string())
    }

    /// Connects to the coordinator at `address` with an administrator's certificate.
    ///
    /// # Errors
    /// If no process listens there, or one of both certificates is refused.
    pub async fn at_address(address: SocketAddr, identity: &Identity) -> Result<Self, AdministrationError> {
        let connector = identity.connector(ALPN_GRPC);
        let connect = move |_: Uri| {
            let connector = connector.clone();
            async move {
                let stream = tokio::net::TcpStream::connect(address).await?;
                connector.connect(coordinator_name(), stream).await.map(TokioIo::new)
            }
        };
        let channel = endpoint().connect_with_connector(tower::service_fn(connect)).await;
        Self::over(channel, &address.to_string())
    }

    fn over(
        channel: Result<Channel, tonic::transport::Error>,
        place: &str,
    ) -> Result<Self, AdministrationError> {
        let unreachable = |error: tonic::transport::Error| {
            let mut reason: &dyn std::error::Error = &error;
            while let Some(source) = reason.source() {
                reason = source;
            }
            AdministrationError::Unreachable { place: place.to_owned(), reason: reason.to_string() }
        };
        let client = AdministrationClient::new(channel.map_err(unreachable)?);
        Ok(Self { client: client.max_decoding_message_size(LONGEST) })
    }

    /// Asks for all coflows, or the one that `coflow` means (its key, id or name).
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn look(&mut self, coflow: &str, with_flows: bool) -> Result<View, AdministrationError> {
        let request = LookRequest { coflow: coflow.to_owned(), with_flows };
        Ok(self.client.look(request).await?.into_inner())
    }

    /// Why a coflow goes as it does.
    ///
    /// # Errors
    /// If it is not known there, or the connection is lost.
    pub async fn why(&mut self, coflow: &str) -> Result<Explanation, AdministrationError> {
        Ok(self.client.why(WhyRequest { coflow: coflow.to_owned() }).await?.into_inner())
    }

    /// Puts flows back to plain TCP, or ends that.
    ///
    /// # Errors
    /// If there is no such host or coflow, too many drains hold, or the connection is lost.
    pub async fn drain(&mut self, request: DrainRequest) -> Result<DrainReply, AdministrationError> {
        Ok(self.client.drain(request).await?.into_inner())
    }

    /// Has the configuration file read again, or, where `log_level` is not empty, only that set.
    ///
    /// # Errors
    /// If there is no file, it is wrong, there is no such level, or the connection is lost.
    pub async fn reload(&mut self, log_level: &str) -> Result<ReloadReply, AdministrationError> {
        Ok(self.client.reload(ReloadRequest { log_level: log_level.to_owned() }).await?.into_inner())
    }

    /// The coflows that were over within the last hour, the last one first: `most` of them, or all
    /// where that is zero.
    ///
    /// # Errors
    /// If it is an agent's, or the connection is lost.
    pub async fn history(&mut self, most: u32) -> Result<HistoryReply, AdministrationError> {
        Ok(self.client.history(HistoryRequest { most }).await?.into_inner())
    }
}

/// The address is for the protocol's headers alone: connections are made above.
fn endpoint() -> Endpoint {
    Endpoint::from_static("http://cavalcade.internal").timeout(PATIENCE).connect_timeout(PATIENCE)
}
