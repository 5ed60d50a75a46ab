//! Streams for programs on tokio. The endpoint's own thread turns them, so no runtime's driver is needed.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::SpcStream;

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
