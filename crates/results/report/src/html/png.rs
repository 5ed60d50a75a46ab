//! A small indexed PNG, for pictures of many cells: sixteen levels of one colour, from transparent
//! to opaque.
//!
//! As SVG rectangles the heat maps of fifteen policies would take some 10 MB; as PNG they take a
//! hundredth of that. The levels differ in opacity, not in lightness, so one picture fits a light
//! page and a dark one.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

/// The number of levels; level 0 is transparent.
pub(super) const LEVELS: u8 = 16;

/// The `data:` address of a picture: `cells` row by row, each a level, all of the colour `rgb`.
///
/// # Panics
/// If cells are not a whole number of rows, or one is no level.
pub(super) fn address(cells: &[u8], width: usize, rgb: [u8; 3]) -> String {
    format!("data:image/png;base64,{}", base64(&encode(cells, width, rgb)))
}

fn encode(cells: &[u8], width: usize, rgb: [u8; 3]) -> Vec<u8> {
    assert!(width > 0 && cells.len().is_multiple_of(width), "cells fill whole rows");
    assert!(cells.iter().all(|&cell| cell < LEVELS), "a cell is one of {LEVELS} levels");
    let size = |value: usize| u32::try_from(value).expect("a picture is small").to_be_bytes();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    // Four bits for each cell, indexed colour, nothing optional.
    let header = [&size(width)[..], &size(cells.len() / width), &[4, 3, 0, 0, 0]].concat();
    chunk(&mut png, b"IHDR", &header);
    chunk(&mut png, b"PLTE", &rgb.repeat(usize::from(LEVELS)));
    chunk(&mut png, b"tRNS", &(0..LEVELS).map(|level| level * (255 / (LEVELS - 1))).collect::<Vec<u8>>());
    chunk(&mut png, b"IDAT", &compressed(cells, width));
    chunk(&mut png, b"IEND", &[]);
    png
}

fn compressed(cells: &[u8], width: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let mut lines = Vec::with_capacity(cells.len() / 2 + cells.len() / width);
    for line in cells.chunks(width) {
        // The filter of the line: none.
        lines.push(0);
        lines.extend(line.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)));
    }
    encoder.write_all(&lines).and_then(|()| encoder.finish()).expect("writing to memory cannot fail")
}

fn chunk(png: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    let mut crc = Crc::new();
    crc.update(name);
    crc.update(content);
    png.extend(u32::try_from(content.len()).expect("a chunk is small").to_be_bytes());
    png.extend(name);
    png.extend(content);
    png.extend(crc.sum().to_be_bytes());
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let three = [group[0], group.get(1).copied().unwrap_or(0), group.get(2).copied().unwrap_or(0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            out.push(if digit <= group.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_its_standard() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        assert!(pairs.iter().all(|(plain, coded)| base64(plain.as_bytes()) == *coded));
    }

    #[test]
    fn a_picture_has_its_size_and_its_lines() {
        let png = encode(&[0, 15, 7, 1, 2, 3], 3, [1, 2, 3]);
        assert_eq!(&png[16..24], &[0, 0, 0, 3, 0, 0, 0, 2]);
        let at = png.windows(4).position(|name| name == b"IDAT").unwrap() + 4;
        let mut lines = Vec::new();
        let mut reader = flate2::read::ZlibDecoder::new(&png[at..]);
        std::io::Read::read_to_end(&mut reader, &mut lines).unwrap();
        assert_eq!(lines, [0, 0x0f, 0x70, 0, 0x12, 0x30]);
    }
}
