//! Loads a congestion control into the kernel: what aya lacks, in the kernel's own calls.
//!
//! A control is a table of one entry that has the layout of the kernel's
//! `struct tcp_congestion_ops`, with the descriptors of programs where the kernel has pointers. A
//! *link* to the table registers it under its name, until the last descriptor of the link is
//! closed: so it is gone with the process that loaded it, however that ends. Connections hold the
//! table themselves, and keep the control for as long as they are open or until they are given
//! another.
//!
//! The object's relocations are done by aya's own parser, which this crate has anyway.

#![expect(unsafe_code, reason = "neither the standard library nor rustix has bpf(2)")]

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya::Btf;
use aya_obj::Object;
use aya_obj::generated::bpf_insn;

use super::types::{self, Structure};
use crate::Error;
use crate::error::last_words;

/// The commands of bpf(2) that are used.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const TYPES_LOAD: libc::c_long = 18;
const LINK_CREATE: libc::c_long = 28;
/// The kinds of table, program and attachment, and the table's flag by which a link registers it.
const TABLE: u32 = 26;
const PROGRAM: u32 = 27;
const ATTACHMENT: u32 = 44;
const BY_LINK: u32 = 1 << 13;
/// The control's own flag: connections with it ask for marks.
const NEEDS_MARKS: u32 = 2;
/// The most bytes of a name, with the zero behind it.
const NAME: usize = 16;
/// Room for what the verifier says.
const LOG: usize = 1 << 20;

/// The kernel's structures that make a control.
pub(super) struct Kinds {
    /// The structure with the programs.
    operations: Structure,
    /// The table's entry, which has it inside, at this place.
    entry: Structure,
    inside: usize,
}

impl Kinds {
    /// Reads them from the running kernel.
    pub(super) fn read() -> Result<Self, Error> {
        let description = std::fs::read(types::PATH).map_err(|error| Error::NoTypes(error.to_string()))?;
        let find = |name: &str| {
            types::find(&description, name).ok_or_else(|| Error::NoControls(format!("it has no {name}")))
        };
        let operations = find("tcp_congestion_ops")?;
        let entry = find("bpf_struct_ops_tcp_congestion_ops")?;
        let (_, inside) =
            entry.member("data").ok_or_else(|| Error::NoControls("its table has no data".to_owned()))?;
        Ok(Self { operations, entry, inside })
    }

    fn member(&self, name: &str) -> Result<(usize, usize), Error> {
        self.operations
            .member(name)
            .ok_or_else(|| Error::NoControls(format!("its tcp_congestion_ops has no {name}")))
    }
}

/// The programs of an object, relocated, and not yet in the kernel.
pub(super) struct Programs(Object);

impl Programs {
    /// Reads an object; its tables are those given.
    pub(super) fn read(object: &[u8], tables: &BTreeMap<&str, BorrowedFd<'_>>) -> Result<Self, Error> {
        let mut object = Object::parse(object).map_err(Error::refused("the congestion controls"))?;
        let own = Btf::from_sys_fs().map_err(|error| Error::NoTypes(error.to_string()))?;
        object.relocate_btf(&own).map_err(|error| Error::NoControls(error.to_string()))?;
        let known = object.maps.clone();
        // A table that is not given is one of tests, and no control uses it.
        let given = known
            .iter()
            .filter_map(|(name, table)| Some((name.as_str(), tables.get(name.as_str())?.as_raw_fd(), table)));
        let of_controls = object.programs.iter().filter(|(_, program)| is_control(program));
        let sections: HashSet<usize> = of_controls.map(|(_, program)| program.section_index).collect();
        object.functions.retain(|(section, _), _| sections.contains(section));
        object.relocate_maps(given, &HashSet::new()).map_err(|error| Error::NoControls(error.to_string()))?;
        Ok(Self(object))
    }

    fn instructions(&self, name: &str) -> &[bpf_insn] {
        let program = &self.0.programs[name];
        &self.0.functions[&program.function_key()].instructions
    }

    /// Loads a program as this member of a control.
    fn load(&self, name: &'static str, kinds: &Kinds, member: usize) -> Result<OwnedFd, Error> {
        let instructions = self.instructions(name);
        let mut request = ProgramLoad {
            kind: PROGRAM,
            instructions: instructions.len() as u32,
            code: address(instructions),
            license: c"GPL".as_ptr() as u64,
            name: padded(name),
            attach_kind: member as u32,
            attach_type: kinds.operations.id,
            ..ProgramLoad::default()
        };
        // SAFETY: code and license outlive the call, and the kernel only reads them.
        if let Ok(program) = unsafe { call(PROGRAM_LOAD, &request) } {
            return Ok(program);
        }
        let log = vec![0_u8; LOG];
        (request.log_level, request.log_size, request.log) = (1, LOG as u32, address(&log));
        // SAFETY: as above; the kernel also writes into the log, no more than its size.
        let refused = unsafe { call(PROGRAM_LOAD, &request) };
        refused.map_err(|error| {
            Error::NoControls(format!(
                "{name}: {error}: {}",
                last_words(String::from_utf8_lossy(&log).trim_end_matches('\0'))
            ))
        })
    }
}

fn is_control(program: &aya_obj::Program) -> bool {
    matches!(program.section, aya_obj::ProgramSection::BtfTracePoint)
}

/// A congestion control that is registered until this is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    _link: OwnedFd,
}

/// Registers a control under this name: members of the kernel's structure, and the programs for
/// them.
pub(super) fn register(
    kinds: &Kinds,
    programs: &Programs,
    name: &str,
    members: &[(&str, &'static str)],
) -> Result<Registered, Error> {
    let refused = |error: io::Error| match error.raw_os_error() {
        Some(libc::EEXIST) => {
            Error::Refused { what: "the congestion control", reason: format!("there is a {name}") }
        }
        _ => Error::NoControls(error.to_string()),
    };
    let table = new_table(kinds, name).map_err(refused)?;
    let mut entry = vec![0_u8; kinds.entry.size];
    let mut put = |member: usize, bytes: &[u8]| {
        let at = kinds.inside + member;
        entry[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let mut loaded = Vec::new();
    for &(member, program) in members {
        let (position, at) = kinds.member(member)?;
        let program = programs.load(program, kinds, position)?;
        put(at, &(program.as_raw_fd() as u64).to_ne_bytes());
        loaded.push(program);
    }
    put(kinds.member("name")?.1, &padded(name));
    put(kinds.member("flags")?.1, &NEEDS_MARKS.to_ne_bytes());
    let key = 0_u32;
    let update = [table.as_raw_fd() as u64, &raw const key as u64, address(&entry), 0];
    // SAFETY: key and entry have the sizes that the table was made with, and the kernel only reads
    // them.
    unsafe { raw_call(MAP_UPDATE, &update) }.map_err(refused)?;
    let link = [table.as_raw_fd() as u32, 0, ATTACHMENT, 0];
    // SAFETY: the request has no pointers.
    let link = unsafe { call(LINK_CREATE, &link) }.map_err(refused)?;
    Ok(Registered { _link: link })
}

fn new_table(kinds: &Kinds, name: &str) -> io::Result<OwnedFd> {
    let description = types::smallest();
    let request = TypesLoad {
        description: address(&description),
        length: description.len() as u32,
        ..TypesLoad::default()
    };
    // SAFETY: the description outlives the call, and the kernel only reads it.
    let description = unsafe { call(TYPES_LOAD, &request) }?;
    let name_words: [u32; 4] = std::array::from_fn(|word| {
        let bytes: [u8; NAME] = padded(&name.replace('.', "_"));
        u32::from_ne_bytes(std::array::from_fn(|byte| bytes[4 * word + byte]))
    });
    let [n0, n1, n2, n3] = name_words;
    let value = kinds.entry.size as u32;
    let types = description.as_raw_fd() as u32;
    let request = [TABLE, 4, value, 1, BY_LINK, 0, 0, n0, n1, n2, n3, 0, types, 0, 0, kinds.entry.id];
    // SAFETY: the request has no pointers.
    unsafe { call(MAP_CREATE, &request) }
}

/// The kernel's request to load a program, as far as it is used.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME],
    interface: u32,
    attach_kind: u32,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
    lines: u64,
    line_count: u32,
    attach_type: u32,
}

/// The kernel's request to load a description of types.
#[repr(C)]
#[derive(Default)]
struct TypesLoad {
    description: u64,
    log: u64,
    length: u32,
    log_size: u32,
    log_level: u32,
    unused: u32,
}

fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as u64
}

fn padded(name: &str) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    let length = name.len().min(NAME - 1);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

/// Calls bpf(2), which answers with a descriptor.
///
/// # Safety
/// The request has to be one of the command's, and what its addresses point to has to be there for
/// the call.
unsafe fn call<T>(command: libc::c_long, request: &T) -> io::Result<OwnedFd> {
    // SAFETY: as promised by the caller; what comes back is a new descriptor that nothing else
    // owns.
    unsafe { raw_call(command, request).map(|descriptor| OwnedFd::from_raw_fd(descriptor as i32)) }
}

/// Calls bpf(2).
///
/// # Safety
/// As for [`call`].
unsafe fn raw_call<T>(command: libc::c_long, request: &T) -> io::Result<libc::c_long> {
    // SAFETY: the request is as long as is said; the rest is promised by the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *request, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
