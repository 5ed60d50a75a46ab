//! Builds programs for the kernel and the Rust side of what they share with a crate: what the build
//! scripts of `enforce` and `switch` have in common.
//!
//! Without clang, or where it fails, a crate is built without the programs and says so when they
//! are used: a plain build needs nothing but a Rust toolchain. The shared headers are read line by
//! line; their grammar is in the first lines of `enforce.h`.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes `shared.rs` in cargo's folder. For each name and constant it has Rust of `NAME.h`, and
/// under the constant `NAME.bpf.c` compiled, or why it is not.
pub(crate) fn build(programs: &[(&str, &str)], flags: &[&str]) {
    // Not `env!`: the script may have been compiled in another checkout, whose sources are not to
    // be built then.
    let sources = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo names the crate's folder"))
        .join("../../../bpf");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo names the folder"));
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rerun-if-env-changed=PATH");
    let mut shared = String::new();
    for (name, constant) in programs {
        let header = fs::read_to_string(sources.join(format!("{name}.h")))
            .expect("the header is part of the repository");
        shared += &translate(&header).unwrap_or_else(|line| panic!("{name}.h: cannot read '{line}'"));
        let object = format!("{name}.o");
        let value = match compile(&sources.join(format!("{name}.bpf.c")), &out.join(&object), flags) {
            Ok(()) => format!("Ok(aya::include_bytes_aligned!(concat!(env!(\"OUT_DIR\"), \"/{object}\")))"),
            Err(reason) => {
                // Looks again once something has been installed.
                println!("cargo:rerun-if-changed=/usr/bin");
                // One line is what people are shown.
                format!("Err({:?})", reason.lines().next().unwrap_or_default())
            }
        };
        _ = writeln!(
            shared,
            "/// The programs of `{name}.bpf.c`, or why this build has none.\npub(crate) const {constant}: Result<&[u8], &str> = {value};"
        );
    }
    fs::write(out.join("shared.rs"), shared).expect("cargo's folder can be written");
}

/// Compiles the programs. The kernel's headers are those of the C library, which clang does not
/// look for by itself when it compiles for the kernel.
fn compile(source: &Path, object: &Path, flags: &[&str]) -> Result<(), String> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    // A machine that builds for another has its own headers alone; what is taken from them, sizes
    // of integers, is the same in both.
    let host = env::var("HOST").unwrap_or_default();
    let host = host.split('-').next().unwrap_or_default();
    let endian = env::var("CARGO_CFG_TARGET_ENDIAN").unwrap_or_default();
    let target = if endian == "big" { "bpfeb" } else { "bpfel" };
    let output = Command::new("clang")
        .args(["-O2", "-g", "-Wall", "-Wextra", "-target", target])
        .args(flags)
        .args([arch.as_str(), host].map(|arch| format!("-idirafter/usr/include/{arch}-linux-gnu")))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|error| format!("clang was not found when this program was built ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let fault = said.lines().find(|line| line.contains("error")).unwrap_or("it gave no reason");
    Err(format!("clang could not build the programs: {fault}"))
}

/// Makes Rust of the header: constants, and structs whose words go to and from the kernel as
/// arrays.
fn translate(header: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        if let Some(constant) = line.strip_prefix("#define CV_") {
            let (definition, documentation) = split(constant);
            let (name, value) = definition.split_once(' ').ok_or(line)?;
            _ = writeln!(text, "/// {documentation}\npub(crate) const {name}: u32 = {};", value.trim());
        } else if let Some(name) = line.strip_prefix("struct cv_").and_then(|line| line.strip_suffix(" {")) {
            let fields: Vec<&str> = lines.by_ref().take_while(|line| *line != "};").collect();
            structure(&mut text, name, &fields)?;
        }
    }
    Ok(text)
}

/// A definition and its documentation: `what; /* why */`.
fn split(line: &str) -> (&str, &str) {
    let (definition, comment) = line.split_once("/*").unwrap_or((line, "*/"));
    (definition.trim().trim_end_matches(';'), comment.trim().trim_end_matches("*/").trim())
}

fn structure(text: &mut String, name: &str, fields: &[&str]) -> Result<(), String> {
    let (first, rest) = name.split_at(1);
    let name = first.to_uppercase() + rest;
    let mut word = "";
    let (mut members, mut to, mut from) = (String::new(), String::new(), String::new());
    for (position, line) in fields.iter().enumerate() {
        let (definition, documentation) = split(line);
        let (kind, field) = definition.split_once(' ').ok_or(*line)?;
        word = match kind {
            "__u32" if matches!(word, "" | "u32") => "u32",
            "__u64" if matches!(word, "" | "u64") => "u64",
            _ => return Err((*line).to_owned()),
        };
        _ = writeln!(members, "    /// {documentation}\n    pub(crate) {field}: {word},");
        _ = write!(to, "self.{field}, ");
        _ = write!(from, "{field}: words[{position}], ");
    }
    let count = fields.len();
    _ = writeln!(
        text,
        "/// `struct cv_{}` of the header.\n#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]\n\
         pub(crate) struct {name} {{\n{members}}}\n\
         /// Its words, as the kernel has them.\npub(crate) type {name}Words = [{word}; {count}];\n\
         #[allow(dead_code, reason = \"both ways for every struct\")]\nimpl {name} {{\n\
         pub(crate) fn to_words(self) -> {name}Words {{ [{to}] }}\n\
         pub(crate) fn from_words(words: {name}Words) -> Self {{ Self {{ {from} }} }}\n}}",
        name.to_lowercase()
    );
    Ok(())
}
