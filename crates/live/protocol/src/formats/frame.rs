//! Messages on a byte stream: four bytes of length, little-endian, then the message.

use super::bytes::Message;
use super::error::WireError;

/// The longest message in bytes. What says more, as a snapshot of a million flows, comes in pieces.
pub const MAX_FRAME: usize = 2 << 20;

/// Appends `message` as a frame.
///
/// # Errors
/// If the message is longer than [`MAX_FRAME`]; nothing is appended then.
pub fn frame(message: &impl Message, out: &mut Vec<u8>) -> Result<(), WireError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    message.encode(out);
    let length = out.len() - start - 4;
    if length > MAX_FRAME {
        out.truncate(start);
        return Err(WireError::FrameTooLong { length: length as u64, limit: MAX_FRAME });
    }
    out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct Frames {
    buffer: Vec<u8>,
    start: usize,
    /// Bytes of the next message at most, and of those behind it.
    limit: usize,
    later: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self::with_limit(MAX_FRAME)
    }
}

impl Frames {
    /// For messages of at most `limit` bytes: small where the other side is not trusted.
    pub fn with_limit(limit: usize) -> Self {
        Self::with_limits(limit, limit)
    }

    /// For a first message of at most `first` bytes, and others of at most `later`: each is held to
    /// its own limit, also where one read brings them together.
    pub fn with_limits(first: usize, later: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, limit: first.min(MAX_FRAME), later: later.min(MAX_FRAME) }
    }

    /// Takes in bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start * 2 >= self.buffer.len() {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that have arrived and belong to no message that was handed out.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next message; `None` until all of it has arrived.
    ///
    /// # Errors
    /// If a frame is too long or no message. The stream is of no use afterwards.
    pub fn pop<M: Message>(&mut self) -> Result<Option<M>, WireError> {
        let waiting = &self.buffer[self.start..];
        let Some((head, rest)) = waiting.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > self.limit {
            return Err(WireError::FrameTooLong { length: length as u64, limit: self.limit });
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let message = M::decode(bytes)?;
        self.start += 4 + length;
        self.limit = self.later;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_come_out_however_the_stream_is_cut(
            texts in prop::collection::vec("[a-z]{0,40}", 0..20),
            cut in 1usize..50,
        ) {
            let mut stream = Vec::new();
            texts.iter().for_each(|text| frame(text, &mut stream).unwrap());
            let mut frames = Frames::default();
            let mut read = Vec::new();
            for piece in stream.chunks(cut) {
                frames.push(piece);
                while let Some(text) = frames.pop::<String>().unwrap() {
                    read.push(text);
                }
            }
            prop_assert_eq!(read, texts);
        }
    }

    #[test]
    fn what_comes_with_the_first_message_is_held_to_the_limit_of_later_ones() {
        let mut stream = Vec::new();
        for text in ["short", "a longer one", "a longer one still"] {
            frame(&text.to_owned(), &mut stream).unwrap();
        }
        let mut frames = Frames::with_limits(6, 13);
        frames.push(&stream);
        assert_eq!(frames.pop().unwrap(), Some("short".to_owned()));
        assert_eq!(frames.pop().unwrap(), Some("a longer one".to_owned()));
        assert_eq!(frames.pop::<String>(), Err(WireError::FrameTooLong { length: 19, limit: 13 }));
    }

    #[test]
    fn a_frame_beyond_the_limit_is_refused_at_its_head() {
        let mut frames = Frames::with_limit(100);
        frames.push(&101u32.to_le_bytes());
        assert_eq!(frames.pop::<String>(), Err(WireError::FrameTooLong { length: 101, limit: 100 }));
    }
}
