//! What is printed: data to standard output, messages to standard error.

use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;

/// Writes data to standard output. A reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// If standard output cannot be written for another reason.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// [`print()`] for what is not known to be text.
///
/// # Errors
/// As there.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::file("write", Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Writes a message to standard error.
pub(crate) fn tell(message: &str) {
    // Nothing can be said where standard error is gone.
    let _ = writeln!(io::stderr(), "{message}");
}
