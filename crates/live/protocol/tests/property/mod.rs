//! What holds for any bytes, for tests and fuzz targets.

use cavalcade_protocol::{AgentMessage, ClientMessage, Datagram, Frames, Message, Orders, Report};

/// Bytes are refused, or they are exactly what the message that was read is written as.
pub(crate) fn decoding_holds<M: Message>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        assert_eq!(message.to_bytes(), bytes, "one message has two forms");
    }
}

/// Decodes bytes as every message, and as a stream of frames.
pub(crate) fn everything_holds(bytes: &[u8]) {
    decoding_holds::<ClientMessage>(bytes);
    decoding_holds::<AgentMessage>(bytes);
    decoding_holds::<Report>(bytes);
    decoding_holds::<Orders>(bytes);
    decoding_holds::<Datagram>(bytes);
    let mut frames = Frames::default();
    for piece in bytes.chunks(7) {
        frames.push(piece);
        while let Ok(Some(_)) = frames.pop::<ClientMessage>() {}
    }
}
