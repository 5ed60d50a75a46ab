//! Handshakes, which may not take for ever.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::{client, server};

use crate::security::{
    ALPN_FRAMES, ALPN_GRPC, Identity, Role, Side, Watched, coordinator_name, of_handshake, role_of,
};

/// The longest handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// A peer that has connected.
pub(crate) struct Visitor {
    /// Its role, by its certificate.
    pub(crate) role: Role,
    /// True if it wants to administrate.
    pub(crate) is_grpc: bool,
}

/// Shows our certificate and sees theirs.
pub(crate) async fn accept(
    identity: &Identity,
    stream: TcpStream,
) -> io::Result<(Watched<server::TlsStream<TcpStream>>, Visitor)> {
    let stream = in_time(identity.acceptor().accept(stream)).await?;
    let (_, connection) = stream.get_ref();
    let chain = connection.peer_certificates().unwrap_or_default();
    let role = chain.first().and_then(role_of).ok_or_else(|| {
        io::Error::new(io::ErrorKind::PermissionDenied, "the certificate names no part of a site")
    })?;
    let is_grpc = connection.alpn_protocol() == Some(ALPN_GRPC);
    let chain = chain.to_vec();
    Ok((identity.watched(stream, Side::Client, chain), Visitor { role, is_grpc }))
}

/// Connects to a coordinator as an agent: over TLS, and only if its certificate says that it is
/// one.
pub(crate) async fn connect(
    identity: &Identity,
    stream: TcpStream,
) -> io::Result<Watched<client::TlsStream<TcpStream>>> {
    let stream = in_time(identity.connector(ALPN_FRAMES).connect(coordinator_name(), stream)).await?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
    Ok(identity.watched(stream, Side::Coordinator, chain))
}

/// Connects to the coordinator at `address` with an agent's certificate, to speak to it in the
/// place of an agent.
///
/// # Errors
/// If the coordinator does not listen, or one of both certificates is refused.
pub async fn connect_as_agent(
    identity: &Identity,
    address: std::net::SocketAddr,
) -> io::Result<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + use<>> {
    connect(identity, TcpStream::connect(address).await?).await
}

async fn in_time<T>(handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(PATIENCE, handshake).await {
        Ok(done) => done.map_err(of_handshake),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")),
    }
}
