//! Containers by their labels.
//!
//! A runtime names a container's control group by the container's id, and writes what it knows of
//! the container into a file in a folder of that name: Docker as `config.v2.json`, others as the
//! bundle's `config.json`, whose annotations hold the labels. Both are read as they are, so no
//! runtime has to be asked, and none is trusted with more than its own containers.
//!
//! Tried by hand with control groups of both versions mounted and runc 1.1.5, on the host's
//! network: connections of a container of Docker 20.10.24 were tagged by its label, and containerd
//! 1.6.20 writes labels (`ctr run --label`) as annotations. Podman 4.3.1 writes labels into its own
//! database alone, so there a rule finds what `podman run --annotation` says; with that its
//! connections were tagged.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::groups::folders_in;

/// The folders in which Docker, Podman and containerd keep what they know of containers, each under
/// its id.
pub const FOLDERS: [&str; 5] = [
    "/var/lib/docker/containers",
    "/var/lib/containers/storage/overlay-containers",
    "/run/containerd/io.containerd.runtime.v2.task/default",
    "/run/containerd/io.containerd.runtime.v2.task/moby",
    "/run/containerd/io.containerd.runtime.v2.task/k8s.io",
];

/// Files below a container's folder, and where labels are in them.
const FILES: [(&str, &str); 3] = [
    ("config.v2.json", "/Config/Labels"),
    ("config.json", "/annotations"),
    ("userdata/config.json", "/annotations"),
];

/// Digits of a container's id.
const DIGITS: usize = 64;
/// The largest file that is read.
const LARGEST: u64 = 4 << 20;
/// Groups of containers are no deeper than this in the hierarchy.
const DEEPEST: usize = 16;

/// The control groups below `root` of containers that have a label of this value, by what stands in
/// `folders`.
pub(crate) fn labelled(root: &Path, folders: &[PathBuf], label: (&str, &str)) -> Vec<PathBuf> {
    let mut found = Vec::new();
    look_below(root, DEEPEST, &mut |group, id| {
        if folders.iter().any(|folder| has_label(&folder.join(id), label)) {
            found.push(group.to_owned());
        }
    });
    found
}

fn look_below(group: &Path, depth: usize, see: &mut impl FnMut(&Path, &str)) {
    for below in folders_in(group) {
        match below.file_name().and_then(|name| id_in(name.to_str()?)) {
            Some(id) => see(&below, id),
            None if depth > 0 => look_below(&below, depth - 1, see),
            None => {}
        }
    }
}

/// The id in the name of a container's group, as `docker-ID.scope` or the id alone.
fn id_in(name: &str) -> Option<&str> {
    let is_id = |word: &&str| word.len() == DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.split(['-', '.', ':']).find(is_id)
}

fn has_label(folder: &Path, (key, value): (&str, &str)) -> bool {
    FILES.iter().any(|(file, place)| {
        let path = folder.join(file);
        let is_small = fs::metadata(&path).is_ok_and(|found| found.len() <= LARGEST);
        let text = if is_small { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        let known: Value = serde_json::from_slice(&text).unwrap_or_default();
        let labels = known.pointer(place).and_then(Value::as_object);
        labels.and_then(|labels| labels.get(key)).and_then(Value::as_str) == Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f0c2e8a91b34f0c2e8a91b34f0c2e8a91b34f0c2e8a91b34f0c2e8a91b34f0c";

    /// Of what Podman 4.3.1 writes for `--annotation app=web --label app=db`: the label is in its
    /// database.
    const PODMAN: &str = r#"{"ociVersion":"1.0.2-dev","annotations":{"app":"web","io.container.manager":"libpod",
        "io.podman.annotations.autoremove":"FALSE","org.opencontainers.image.stopSignal":"15"}}"#;

    #[test]
    fn names_of_groups_hold_ids_in_the_forms_of_all_runtimes() {
        let bare = [ID.to_owned(), format!("libpod-{ID}")];
        let scopes = ["docker", "libpod", "cri-containerd"].map(|runtime| format!("{runtime}-{ID}.scope"));
        for name in bare.iter().chain(&scopes) {
            assert_eq!(id_in(name), Some(ID), "{name}");
        }
        for name in ["system.slice", "docker-4f0c.scope", &"g".repeat(64)] {
            assert_eq!(id_in(name), None, "{name}");
        }
    }

    #[test]
    fn labels_are_found_in_files_of_each_form_and_nothing_is_found_in_what_is_no_json() {
        let folder = std::env::temp_dir().join(format!("cavalcade-containers-{}", std::process::id()));
        fs::create_dir_all(folder.join("userdata")).unwrap();
        let label = ("app", "web");
        assert!(!has_label(&folder, label));
        for (file, text) in [
            ("config.v2.json", r#"{"Config":{"Labels":{"app":"web"}}}"#),
            ("config.json", r#"{"annotations":{"app":"web"}}"#),
            ("userdata/config.json", PODMAN),
        ] {
            fs::write(folder.join(file), text).unwrap();
            assert!(has_label(&folder, label), "{file}");
            assert!(!has_label(&folder, ("app", "db")), "{file}");
            for wrong in ["", "[[[", r#"{"Config":{"Labels":[]},"annotations":{"app":7}}"#] {
                fs::write(folder.join(file), wrong).unwrap();
                assert!(!has_label(&folder, label), "{file} {wrong}");
            }
            fs::remove_file(folder.join(file)).unwrap();
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
