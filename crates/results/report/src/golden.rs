//! Golden files of this crate, in `tests/golden`.
//! `CAVALCADE_GOLDEN=rewrite cargo test -p cavalcade-report` writes them again; read the difference
//! before committing.

use std::path::Path;
use std::{env, fs};

/// Compares `text` with the golden file of that name, or writes it.
pub(crate) fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if env::var_os("CAVALCADE_GOLDEN").is_some_and(|value| value == "rewrite") {
        fs::write(&path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == text, "{name} differs; CAVALCADE_GOLDEN=rewrite accepts this:\n{text}");
}
