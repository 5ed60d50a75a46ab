//! A build that has no programs for the kernel: `cargo xtask without-clang` makes one for this.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use cavalcade_enforce::{Error, Kernel, Limits, Place, missing};

/// Set where the build is to have none.
const WANTED: &str = "CAVALCADE_TEST_WITHOUT_CLANG";

#[test]
fn a_build_without_clang_says_so_when_its_programs_are_to_be_loaded() {
    let Some(reason) = missing() else {
        assert_eq!(std::env::var_os(WANTED), None, "this build has found a clang");
        return;
    };
    let place = Place { above: "/".into(), name: "cavalcade-test-without-clang".into() };
    let error = Kernel::load(place, Limits::default()).unwrap_err();
    assert!(matches!(error, Error::NotBuilt(_)), "{error}");
    if std::env::var_os(WANTED).is_some() {
        assert!(reason.starts_with("clang was not found when this program was built"), "{reason}");
    }
    let said = error.to_string();
    assert_eq!(said, format!("built without kernel enforcement: {reason}; install clang and build again"));
}
