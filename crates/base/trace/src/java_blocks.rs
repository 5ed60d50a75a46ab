//! Blocks as two libraries of Java frame them, in which Spark writes logs: `LZ4BlockOutputStream`
//! of lz4-java and `SnappyOutputStream` of snappy-java. The blocks themselves are decompressed by
//! crates.
//!
//! ```text
//! LZ4     "LZ4Block" token compressed_length length checksum data          lengths and checksum little endian
//! Snappy  82 "SNAPPY" 00 version version, then: compressed_length data …   lengths big endian
//! ```
//!
//! A token is the method (16: stored, 32: LZ4) and the size of blocks; the checksum is the lower 28
//! bits of XXH32 with a seed of its own. An LZ4 stream ends with a block of no length; a Snappy
//! stream ends with its file, or where another one begins. Blocks are at most 32 MiB in LZ4, and as
//! much is allowed in Snappy, whose usual size is 32 KiB.

use std::io::{self, BufRead, Read};

use twox_hash::XxHash32;

/// The longest block.
const LONGEST: usize = 32 << 20;
const LZ4_MAGIC: &[u8; 8] = b"LZ4Block";
const LZ4_SEED: u32 = 0x9747_b28c;
const LZ4_STORED: u8 = 0x10;
const LZ4_PACKED: u8 = 0x20;
const SNAPPY_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";

/// A block, decompressed, of which `at` bytes have been handed out.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    at: usize,
}

impl Block {
    fn hand_out(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&self.bytes[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }

    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// A stream of lz4-java.
pub(crate) struct Lz4Blocks<R> {
    raw: R,
    block: Block,
    ended: bool,
}

impl<R: BufRead> Lz4Blocks<R> {
    pub(crate) fn new(raw: R) -> Self {
        Self { raw, block: Block::default(), ended: false }
    }

    /// What lies behind it.
    pub(crate) fn into_inner(self) -> R {
        self.raw
    }

    fn next_block(&mut self) -> io::Result<()> {
        let magic: [u8; 8] = bytes(&mut self.raw)?;
        let [token] = bytes(&mut self.raw)?;
        let packed = u32::from_le_bytes(bytes(&mut self.raw)?) as usize;
        let length = u32::from_le_bytes(bytes(&mut self.raw)?) as usize;
        let checksum = u32::from_le_bytes(bytes(&mut self.raw)?);
        if &magic != LZ4_MAGIC || packed.max(length) > LONGEST {
            return Err(bad("no block of LZ4 begins here"));
        }
        if length == 0 {
            self.ended = true;
            return Ok(());
        }
        let data = data(&mut self.raw, packed)?;
        let bytes = match token & 0xf0 {
            LZ4_STORED => data,
            LZ4_PACKED => {
                lz4_flex::block::decompress(&data, length).map_err(|error| bad(error.to_string()))?
            }
            _ => return Err(bad("a block is packed by an unknown method")),
        };
        if bytes.len() != length || XxHash32::oneshot(LZ4_SEED, &bytes) & 0x0fff_ffff != checksum {
            return Err(bad("a block has not the checksum that it says"));
        }
        self.block = Block { bytes, at: 0 };
        Ok(())
    }
}

impl<R: BufRead> Read for Lz4Blocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.block.is_empty() && !self.ended {
            self.next_block()?;
        }
        self.block.hand_out(buffer)
    }
}

/// A stream of snappy-java.
pub(crate) struct SnappyBlocks<R> {
    raw: R,
    block: Block,
    /// Whether its head has been read.
    begun: bool,
}

impl<R: BufRead> SnappyBlocks<R> {
    pub(crate) fn new(raw: R) -> Self {
        Self { raw, block: Block::default(), begun: false }
    }

    /// What lies behind it.
    pub(crate) fn into_inner(self) -> R {
        self.raw
    }

    /// Reads the next block; false where the stream has ended.
    fn next_block(&mut self) -> io::Result<bool> {
        if !self.begun {
            let magic: [u8; 8] = bytes(&mut self.raw)?;
            let _versions: [u8; 8] = bytes(&mut self.raw)?;
            if &magic != SNAPPY_MAGIC {
                return Err(bad("no stream of Snappy begins here"));
            }
            self.begun = true;
        }
        // A length begins with 0, 1 or 2, the head of another stream does not.
        if self.raw.fill_buf()?.first().is_none_or(|first| *first == SNAPPY_MAGIC[0]) {
            return Ok(false);
        }
        let mut length = Vec::with_capacity(4);
        (&mut self.raw).take(4).read_to_end(&mut length)?;
        // Zeros behind the stream look like blocks of no length.
        if length.iter().all(|&byte| byte == 0) {
            return Ok(false);
        }
        let length = length.try_into().map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let packed = u32::from_be_bytes(length) as usize;
        if packed > LONGEST {
            return Err(bad("no block of Snappy begins here"));
        }
        let data = data(&mut self.raw, packed)?;
        let length = snap::raw::decompress_len(&data).map_err(|error| bad(error.to_string()))?;
        if length > LONGEST {
            return Err(bad("a block is longer than any"));
        }
        let bytes =
            snap::raw::Decoder::new().decompress_vec(&data).map_err(|error| bad(error.to_string()))?;
        self.block = Block { bytes, at: 0 };
        Ok(true)
    }
}

impl<R: BufRead> Read for SnappyBlocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.block.is_empty() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        self.block.hand_out(buffer)
    }
}

fn bytes<const N: usize>(raw: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    raw.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// As many bytes; memory is taken as they come, not as they are promised.
fn data(raw: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    raw.take(length as u64).read_to_end(&mut data)?;
    if data.len() == length { Ok(data) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn bad(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `text` as lz4-java writes it, in blocks of `size` bytes.
    pub(crate) fn lz4_blocks(text: &[u8], size: usize) -> Vec<u8> {
        let block = |part: &[u8]| {
            let packed = lz4_flex::block::compress(part);
            let stored = packed.len() >= part.len();
            let data = if stored { part.to_vec() } else { packed };
            let checksum = XxHash32::oneshot(LZ4_SEED, part) & 0x0fff_ffff;
            let token = if stored { LZ4_STORED } else { LZ4_PACKED };
            let numbers = [data.len() as u32, part.len() as u32, checksum].map(u32::to_le_bytes).concat();
            [&LZ4_MAGIC[..], &[token], &numbers, &data].concat()
        };
        text.chunks(size).map(block).chain([block(b"")]).collect::<Vec<_>>().concat()
    }

    /// `text` as snappy-java writes it.
    pub(crate) fn snappy_blocks(text: &[u8], size: usize) -> Vec<u8> {
        let block = |part: &[u8]| {
            let packed = snap::raw::Encoder::new().compress_vec(part).unwrap();
            [&(packed.len() as u32).to_be_bytes()[..], &packed].concat()
        };
        let head = [&SNAPPY_MAGIC[..], &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        std::iter::once(head).chain(text.chunks(size).map(block)).collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_block_with_another_checksum_is_refused() {
        let mut bytes = lz4_blocks(&[b'x'; 40], 40);
        bytes[17] ^= 1;
        let error = Lz4Blocks::new(&bytes[..]).read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    }

    #[test]
    fn a_length_that_is_promised_takes_no_memory() {
        let mut bytes = snappy_blocks(b"text", 4);
        bytes[16..20].copy_from_slice(&(LONGEST as u32).to_be_bytes());
        let error = SnappyBlocks::new(&bytes[..]).read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// The bytes are those of lz4-java 1.8.0 and snappy-java 1.1.10.5.
    #[test]
    fn streams_of_the_libraries_themselves_are_read() {
        let text = b"aaaaaaaaaaaaaaaaaaaaaaaa\nno repeats here\n";
        let lz4 =
            b"LZ4Block\x25\x18\0\0\0\x29\0\0\0\x62\xee\x06\x09\x1fa\x01\0\x04\xf0\x02\nno repeats here\n\
            LZ4Block\x15\0\0\0\0\0\0\0\0\0\0\0\0";
        let snappy = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x18\x29\0a\x5a\x01\0\x40\nno repeats here\n";
        let mut found = Vec::new();
        Lz4Blocks::new(&lz4[..]).read_to_end(&mut found).unwrap();
        assert_eq!(found, text);
        found.clear();
        SnappyBlocks::new(&snappy[..]).read_to_end(&mut found).unwrap();
        assert_eq!(found, text);
    }
}
