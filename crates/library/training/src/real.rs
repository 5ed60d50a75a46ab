//! Real files, for tests.

use std::io::Read as _;

use flate2::read::GzDecoder;

use crate::error::ReadError;
use crate::read::{Options, Read, WorkloadFile, read};

/// Reads files of these names and contents.
pub(crate) fn read_files(files: Vec<(String, Vec<u8>)>, options: &Options) -> Result<Read, ReadError> {
    let file = |(name, content): (String, Vec<u8>)| WorkloadFile {
        name,
        content: Box::new(std::io::Cursor::new(content)),
    };
    read(files.into_iter().map(file).collect(), options)
}

/// A compressed file; `None` where public data is not there.
pub(crate) fn unpacked(path: &str) -> Option<Vec<u8>> {
    let bytes = cavalcade_testing::public_data(path)?;
    let mut content = Vec::new();
    GzDecoder::new(&bytes[..]).read_to_end(&mut content).unwrap();
    Some(content)
}

/// The files of a compressed archive, without those that hold what a Mac knows of others.
pub(crate) fn archived(path: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let tar = unpacked(path)?;
    let (mut files, mut at) = (Vec::new(), 0);
    while tar.get(at).is_some_and(|&byte| byte != 0) {
        let text = |range: std::ops::Range<usize>| {
            String::from_utf8_lossy(&tar[range]).trim_matches(['\0', ' ']).to_owned()
        };
        let (name, size) = (text(at..at + 100), usize::from_str_radix(&text(at + 124..at + 135), 8).unwrap());
        let is_file = matches!(tar[at + 156], b'0' | 0);
        if size > 0 && is_file && !name.rsplit('/').next().unwrap_or_default().starts_with("._") {
            files.push((name, tar[at + 512..at + 512 + size].to_vec()));
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    files.sort();
    Some(files)
}
