//! Compressed traces, told by their first bytes and decompressed as they are read: gzip, Zstandard,
//! LZ4 and Snappy.
//!
//! Spark compresses its logs with Zstandard since 3.2, and before that with LZ4 unless told
//! otherwise; its LZ4 and Snappy come in framings of Java's libraries ([`crate::java_blocks`]).
//! LZF, its fourth codec, is recognised to be refused: no library for it is kept up.
//!
//! A file may hold several compressed members one after the other, as `cat a.gz b.gz` gives, and
//! zeros behind the last, as tapes and block devices leave them; gzip and tar read both. Where the
//! data ends inside a member, what came before has been handed out, and [`Broken::CutOff`] says
//! that there was more: a log that is still written looks so.
//!
//! Nothing is held but the codec's window, at most 128 MiB (Zstandard's limit unless told
//! otherwise).

use std::io::{self, BufRead, Read};

use cavalcade_model::Bytes;
use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::error::TraceErrorKind;
use crate::java_blocks::{Lz4Blocks, SnappyBlocks};

/// Reason that no more comes out of a file.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The data ends inside a compressed member.
    CutOff {
        /// The codec.
        codec: Codec,
    },
    /// What is there cannot be read.
    Damaged(TraceErrorKind),
}

impl Broken {
    /// What is wrong with a trace that has to be whole.
    pub(crate) fn into_kind(self) -> TraceErrorKind {
        match self {
            Broken::CutOff { codec } => codec.cut_off(),
            Broken::Damaged(kind) => kind,
        }
    }
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Plain,
    Gzip,
    Zstandard,
    /// A frame as the program `lz4` writes it.
    Lz4Frame,
    /// Blocks as Java's library writes them.
    Lz4Blocks,
    Snappy,
}

impl Codec {
    /// The name of its data in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Codec::Plain => "plain",
            Codec::Gzip => "gzip",
            Codec::Zstandard => "Zstandard",
            Codec::Lz4Frame | Codec::Lz4Blocks => "LZ4",
            Codec::Snappy => "Snappy",
        }
    }

    /// The problem of its data where they end too early.
    pub(crate) fn cut_off(self) -> TraceErrorKind {
        TraceErrorKind::Damaged { compression: self.name(), reason: "it ends too early".to_owned() }
    }

    /// Tells the codec from the first bytes; none that is not read here. No trace in text begins
    /// like any of these: each has a byte that is no text or a control character (behind `LZ4Block`
    /// the top byte of a length of at most 32 MB), and names have none.
    fn of(begin: &[u8]) -> Result<Self, TraceErrorKind> {
        Ok(match begin {
            [0x1f, 0x8b, ..] => Codec::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Codec::Zstandard,
            [0x04, 0x22, 0x4d, 0x18, ..] => Codec::Lz4Frame,
            [b'L', b'Z', b'4', b'B', b'l', b'o', b'c', b'k', _, _, _, _, 0..=2, ..] => Codec::Lz4Blocks,
            [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, ..] => Codec::Snappy,
            [b'Z', b'V', 0 | 1, ..] => return Err(TraceErrorKind::UnsupportedCompression { codec: "lzf" }),
            _ => Codec::Plain,
        })
    }
}

/// How many bytes tell a codec.
const TELLING: usize = 13;

/// What a file holds, decompressed.
pub(crate) struct Content<'a> {
    codec: Codec,
    member: Member<Raw<'a>>,
}

impl<'a> Content<'a> {
    /// Looks at the first bytes of `file`.
    pub(crate) fn new(file: Box<dyn BufRead + 'a>) -> Result<Self, Broken> {
        let mut raw = Raw { file, ahead: Vec::new(), at: 0 };
        let begin = raw.peek().map_err(|error| unreadable(&error))?;
        let codec = Codec::of(begin).map_err(Broken::Damaged)?;
        let member = Member::new(codec, raw).map_err(|error| broken(codec, &error))?;
        Ok(Self { codec, member })
    }

    /// Reads on into `buffer`; zero where nothing is left.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        loop {
            match self.member.read(buffer) {
                Ok(0) => match core::mem::replace(&mut self.member, Member::End).into_raw() {
                    Some(raw) => self.next_member(raw)?,
                    None => return Ok(0),
                },
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.member = Member::End;
                    return Err(broken(self.codec, &error));
                }
            }
        }
    }

    /// Goes on to the member behind one that has ended, over zeros.
    fn next_member(&mut self, mut raw: Raw<'a>) -> Result<(), Broken> {
        loop {
            let begin = raw.peek().map_err(|error| unreadable(&error))?;
            let zeros = begin.iter().take_while(|&&byte| byte == 0).count();
            if begin.is_empty() {
                return Ok(());
            }
            if zeros == 0 {
                break;
            }
            raw.consume(zeros);
        }
        let codec = raw.peek().map_err(|error| unreadable(&error)).map(Codec::of)?;
        if codec.is_ok_and(|codec| codec == self.codec) {
            self.member = Member::new(self.codec, raw).map_err(|error| broken(self.codec, &error))?;
            return Ok(());
        }
        let reason = "something else follows it".to_owned();
        Err(Broken::Damaged(TraceErrorKind::Damaged { compression: self.codec.name(), reason }))
    }

    /// Reads all that is left into `text`, which must not become longer than `limit`.
    pub(crate) fn read_to_end(&mut self, text: &mut Vec<u8>, limit: Bytes) -> Result<(), Broken> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = self.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            if text.len() as u64 + count as u64 > limit.0 {
                return Err(Broken::Damaged(TraceErrorKind::TooLong { limit }));
            }
            text.extend_from_slice(&buffer[..count]);
        }
    }
}

/// How much is read at a time.
pub(crate) const BUFFER: usize = 1 << 16;

/// The bytes of a file as they lie there.
struct Raw<'a> {
    file: Box<dyn BufRead + 'a>,
    /// Bytes that have been looked at, of which `at` have been taken.
    ahead: Vec<u8>,
    at: usize,
}

impl Raw<'_> {
    /// The next few bytes, which stay.
    fn peek(&mut self) -> io::Result<&[u8]> {
        self.ahead.drain(..self.at);
        self.at = 0;
        let missing = TELLING.saturating_sub(self.ahead.len()) as u64;
        (&mut self.file).take(missing).read_to_end(&mut self.ahead)?;
        Ok(&self.ahead)
    }
}

impl BufRead for Raw<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at < self.ahead.len() { Ok(&self.ahead[self.at..]) } else { self.file.fill_buf() }
    }

    fn consume(&mut self, count: usize) {
        let looked_at = count.min(self.ahead.len() - self.at);
        self.at += looked_at;
        self.file.consume(count - looked_at);
    }
}

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

/// A reader that knows whether it was asked for more than there was: the decoder of LZ4 takes data
/// that end between two blocks for a frame's end.
struct Watched<R> {
    raw: R,
    ran_out: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.ran_out |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

/// The member that is being decompressed.
enum Member<R: BufRead> {
    Plain(R),
    Gzip(Box<GzDecoder<R>>),
    Zstandard(Box<ZstdDecoder<'static, R>>),
    Lz4Frame(Box<FrameDecoder<Watched<R>>>),
    Lz4Blocks(Lz4Blocks<R>),
    Snappy(SnappyBlocks<R>),
    /// None is left.
    End,
}

impl<R: BufRead> Member<R> {
    fn new(codec: Codec, raw: R) -> io::Result<Self> {
        Ok(match codec {
            Codec::Plain => Member::Plain(raw),
            Codec::Gzip => Member::Gzip(Box::new(GzDecoder::new(raw))),
            Codec::Zstandard => Member::Zstandard(Box::new(ZstdDecoder::with_buffer(raw)?.single_frame())),
            Codec::Lz4Frame => Member::Lz4Frame(Box::new(FrameDecoder::new(Watched { raw, ran_out: false }))),
            Codec::Lz4Blocks => Member::Lz4Blocks(Lz4Blocks::new(raw)),
            Codec::Snappy => Member::Snappy(SnappyBlocks::new(raw)),
        })
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Member::Plain(raw) => raw.read(buffer),
            Member::Gzip(member) => member.read(buffer),
            Member::Zstandard(member) => member.read(buffer),
            Member::Lz4Frame(member) => match member.read(buffer) {
                Ok(0) if member.get_ref().ran_out => Err(io::ErrorKind::UnexpectedEof.into()),
                read => read,
            },
            Member::Lz4Blocks(member) => member.read(buffer),
            Member::Snappy(member) => member.read(buffer),
            Member::End => Ok(0),
        }
    }

    /// What lies behind a compressed member that has been read to its end.
    fn into_raw(self) -> Option<R> {
        match self {
            Member::Plain(_) | Member::End => None,
            Member::Gzip(member) => Some(member.into_inner()),
            Member::Zstandard(member) => Some(member.finish()),
            Member::Lz4Frame(member) => Some(member.into_inner().raw),
            Member::Lz4Blocks(member) => Some(member.into_inner()),
            Member::Snappy(member) => Some(member.into_inner()),
        }
    }
}

fn broken(codec: Codec, error: &io::Error) -> Broken {
    // The system's own errors are about the file; the rest is what a codec finds in its data.
    if error.raw_os_error().is_some() {
        return unreadable(error);
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Broken::CutOff { codec },
        _ => {
            Broken::Damaged(TraceErrorKind::Damaged { compression: codec.name(), reason: error.to_string() })
        }
    }
}

fn unreadable(error: &io::Error) -> Broken {
    Broken::Damaged(TraceErrorKind::Unreadable { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TEXT: &[u8] = b"a trace, a trace, a trace, and one more";

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstandard(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 3).unwrap()
    }

    fn lz4_frame(text: &[u8]) -> Vec<u8> {
        let blocks = lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB);
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(blocks, Vec::new());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn lz4_blocks(text: &[u8]) -> Vec<u8> {
        crate::java_blocks::tests::lz4_blocks(text, 16)
    }

    fn snappy(text: &[u8]) -> Vec<u8> {
        crate::java_blocks::tests::snappy_blocks(text, 16)
    }

    type Packs = fn(&[u8]) -> Vec<u8>;

    /// All codecs but the plain one, by one that writes.
    const CODECS: [Packs; 5] = [gzip, zstandard, lz4_frame, lz4_blocks, snappy];

    /// What comes out, and why no more does.
    fn read(bytes: &[u8]) -> (Vec<u8>, Result<(), Broken>) {
        let mut text = Vec::new();
        let end = Content::new(Box::new(bytes))
            .and_then(|mut content| content.read_to_end(&mut text, Bytes(1 << 20)));
        (text, end)
    }

    #[test]
    fn members_follow_each_other_and_zeros_behind_them_are_nothing() {
        for codec in CODECS {
            let (one, two) = (codec(TEXT), codec(b" and more"));
            let whole = [TEXT, b" and more"].concat();
            for zeros in [0, 1, 12, 512, 100_000] {
                let padded = [&one[..], &two[..], &vec![0; zeros][..]].concat();
                let (text, end) = read(&padded);
                assert!(end.is_ok() && text == whole, "{zeros} zeros: {end:?}");
            }
            let (text, end) = read(&[&one[..], &[0; 8], &two[..]].concat());
            assert!(end.is_ok() && text == whole, "{end:?}");
        }
    }

    #[test]
    fn data_that_ends_early_gives_what_it_has_and_says_so() {
        for codec in CODECS {
            let text: Vec<u8> = (0..40_000u32).flat_map(|number| number.to_string().into_bytes()).collect();
            let bytes = codec(&text);
            for length in [bytes.len() - 1, bytes.len() - 40, bytes.len() / 2, 15] {
                let (found, end) = read(&bytes[..length]);
                assert!(matches!(end, Err(Broken::CutOff { .. })), "{length} of {}: {end:?}", bytes.len());
                assert!(text.starts_with(&found), "{length} of {}", bytes.len());
            }
            let (found, _) = read(&bytes[..bytes.len() - 40]);
            assert!(found.len() > text.len() / 4, "{}", found.len());
        }
    }

    #[test]
    fn what_is_no_compressed_data_is_damaged() {
        // What follows Snappy's blocks looks like one.
        for codec in &CODECS[..4] {
            let (_, end) = read(&[&codec(TEXT)[..], b"\0trailer"].concat());
            let Err(Broken::Damaged(kind)) = end else { panic!("{end:?}") };
            assert!(kind.to_string().contains("something else follows it"), "{kind}");
        }
        // Those that have checksums.
        for codec in [gzip, lz4_blocks] {
            let mut bytes = codec(&TEXT.repeat(50));
            let middle = bytes.len() / 2;
            bytes[middle..middle + 8].fill(0xff);
            assert!(matches!(read(&bytes).1, Err(Broken::Damaged(_) | Broken::CutOff { .. })));
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        for codec in [gzip, zstandard] {
            let (text, end) = read(&codec(&vec![b' '; 64 << 20]));
            assert!(matches!(end, Err(Broken::Damaged(TraceErrorKind::TooLong { .. }))), "{end:?}");
            assert!(text.len() <= 1 << 20);
        }
    }
}
