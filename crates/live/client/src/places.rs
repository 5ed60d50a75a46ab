//! Where an agent is looked for by programs that name no place.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variable that names the agent's socket.
const SOCKET: &str = "CAVALCADE_SOCKET";
/// The name of the socket in a folder of sockets.
const NAME: &str = "cavalcade.sock";

/// The places where an agent is looked for, in that order: `$CAVALCADE_SOCKET` alone where it is
/// set; else `cavalcade.sock` in `$XDG_RUNTIME_DIR`, where this user's own agent listens, and in
/// `/run`, where that of the host does.
pub fn default_places() -> Vec<PathBuf> {
    places(std::env::var_os(SOCKET), std::env::var_os("XDG_RUNTIME_DIR"))
}

fn places(named: Option<OsString>, own: Option<OsString>) -> Vec<PathBuf> {
    let is_set = |text: &OsString| !text.is_empty();
    if let Some(named) = named.filter(is_set) {
        return vec![named.into()];
    }
    let folders = own.filter(is_set).map(PathBuf::from).into_iter().chain([PathBuf::from("/run")]);
    let mut places: Vec<PathBuf> = folders.map(|folder| folder.join(NAME)).collect();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_place_counts_alone_and_else_the_users_own_before_the_hosts() {
        let of = |named: &str, own: &str| -> Vec<String> {
            let given = |text: &str| Some(OsString::from(text));
            places(given(named), given(own)).iter().map(|place| place.display().to_string()).collect()
        };
        assert_eq!(of("/tmp/a.sock", "/run/user/7"), ["/tmp/a.sock"]);
        assert_eq!(of("", "/run/user/7"), ["/run/user/7/cavalcade.sock", "/run/cavalcade.sock"]);
        assert_eq!(of("", ""), ["/run/cavalcade.sock"]);
        assert_eq!(of("", "/run"), ["/run/cavalcade.sock"]);
        assert_eq!(places(None, None), [PathBuf::from("/run/cavalcade.sock")]);
    }
}
