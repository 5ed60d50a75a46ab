//! Streams for programs on tokio. The endpoint's own thread turns them, so no runtime's driver is
//! needed.

use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::endpoint::Endpoint;
use crate::listener::SpcListener;
use crate::stream::SpcStream;

impl Endpoint {
    /// Opens a stream, as [`Endpoint::connect`], without a wait of the thread. A future that is
    /// dropped gives it up.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub async fn connect_async(&self, peer: SocketAddr, task: u32) -> io::Result<SpcStream> {
        let stream = self.begin_connect(peer, task)?;
        poll_fn(|context| stream.attempt(context.waker(), true, |entry, _| stream.opened(entry))).await?;
        Ok(stream)
    }
}

impl SpcListener {
    /// Waits for a stream, as [`SpcListener::accept`], without a wait of the thread.
    ///
    /// # Errors
    /// If the endpoint's socket has failed.
    pub async fn accept_async(&self) -> io::Result<(SpcStream, SocketAddr)> {
        poll_fn(|context| {
            let mut state = self.owner.shared.lock();
            if let Some(accepted) = self.take(&mut state) {
                return Poll::Ready(Ok(accepted));
            }
            state.check()?;
            if !state.acceptors.iter().any(|waker| waker.will_wake(context.waker())) {
                state.acceptors.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

impl AsyncRead for SpcStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = &*self;
        let room = out.initialize_unfilled();
        let count = ready!(stream.attempt(context.waker(), false, |entry, _| stream.try_read(entry, room)))?;
        out.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SpcStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = &*self;
        stream.attempt(context.waker(), true, |entry, now| stream.try_write(entry, now, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shutdown(Shutdown::Write))
    }
}
