//! Messages over anything that reads and writes bytes.

use std::io;

use cavalcade_wire::{Frames, Message, frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Messages that wait for a slow peer before its connection is given up.
const QUEUE: usize = 256;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Where messages to a peer go. Dropping it closes the connection once they are written.
pub(crate) type Outlet<M> = mpsc::Sender<M>;

/// Runs a connection: hands every message that arrives to `hear`, writes what the outlet gets. Returns the outlet; `gone` is
/// called once, when the connection is over for whatever reason.
pub(crate) fn run<S, In, Out>(
    stream: S,
    limit: usize,
    mut hear: impl FnMut(In) + 'static,
    gone: impl FnOnce() + 'static,
) -> Outlet<Out>
where
    S: AsyncRead + AsyncWrite + 'static,
    In: Message + 'static,
    Out: Message + 'static,
{
    let (outlet, queue) = mpsc::channel(QUEUE);
    tokio::task::spawn_local(async move {
        let (reader, writer) = tokio::io::split(stream);
        tokio::select! {
            _ = read(reader, limit, &mut hear) => {}
            _ = write(writer, queue) => {}
        }
        gone();
    });
    outlet
}

async fn read<In: Message>(
    mut reader: impl AsyncRead + Unpin,
    limit: usize,
    hear: &mut impl FnMut(In),
) -> io::Result<()> {
    let mut frames = Frames::with_limit(limit);
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = reader.read(&mut chunk).await?;
        if length == 0 {
            return Ok(());
        }
        frames.push(&chunk[..length]);
        while let Some(message) = frames.pop().map_err(io::Error::other)? {
            hear(message);
        }
    }
}

/// Writes all that waits at once: one system call for a whole round.
async fn write<Out: Message>(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Out>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(message) = queue.recv().await {
        bytes.clear();
        frame(&message, &mut bytes);
        while let Ok(message) = queue.try_recv() {
            frame(&message, &mut bytes);
        }
        writer.write_all(&bytes).await?;
    }
    writer.shutdown().await
}
