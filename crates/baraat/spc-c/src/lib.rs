//! SPC streams for C: the functions of `include/cavalcade_spc.h`, which documents each of them.
//!
//! `install.sh PREFIX LIBRARY` puts the library, the header and a pkg-config file where compilers
//! look for them. Python's module (`python/cavalcade_spc.py`) stands on the same functions.
//!
//! # Invariants
//! - A function returns zero or more, or the negative number of an error as `errno.h` has them; the
//!   words of the last error of a thread are kept for it (`cavalcade_spc_error`).
//! - What was opened belongs to the caller until it is closed. Handles may be used by several
//!   threads at once, but one that is closed by no one any more.
//! - Null pointers are refused where a handle is expected. All other pointers are trusted, as in
//!   any C library.
//!
//! Rejected: a generated header. It is thirty lines of declarations, and people read it.

#![allow(unsafe_code, reason = "C has no other way in: each function says what it takes on trust")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io::{self, Read, Write};
use std::net::{Shutdown, ToSocketAddrs};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_spc::counters::AgentCounter;
use cavalcade_spc::{Endpoint, IdSource, Options, Settings, SpcListener, SpcStream, TaskCounter};

/// A wait without an end, as `CAVALCADE_SPC_FOREVER`.
const FOREVER: i64 = -1;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The fabric, as all its hosts and switches are told.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fabric {
    /// The rate of the host's link, in bits per second.
    pub rate_bps: u64,
    /// The round trip of the idle fabric across its longest path, in nanoseconds.
    pub round_trip_ns: u64,
}

/// A source of task-ids.
pub struct Counter(Box<dyn IdSource>);

impl std::fmt::Debug for Counter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Counter")
    }
}

/// Keeps the words of an error and returns its negative number.
fn fail(error: &io::Error) -> c_int {
    use io::ErrorKind as Kind;
    let number = error.raw_os_error().unwrap_or_else(|| match error.kind() {
        Kind::TimedOut => libc::ETIMEDOUT,
        Kind::WouldBlock => libc::EAGAIN,
        Kind::ConnectionRefused => libc::ECONNREFUSED,
        Kind::ConnectionReset => libc::ECONNRESET,
        Kind::ConnectionAborted => libc::ECONNABORTED,
        Kind::HostUnreachable => libc::EHOSTUNREACH,
        Kind::NotConnected => libc::ENOTCONN,
        Kind::BrokenPipe => libc::EPIPE,
        Kind::InvalidInput | Kind::InvalidData => libc::EINVAL,
        Kind::PermissionDenied => libc::EACCES,
        Kind::NotFound => libc::ENOENT,
        Kind::QuotaExceeded => libc::EDQUOT,
        Kind::AddrInUse => libc::EADDRINUSE,
        _ => libc::EIO,
    });
    let words = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = words);
    -number
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.to_owned())
}

/// Returns the number of an outcome.
fn outcome(result: io::Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| fail(&error))
}

/// # Safety
/// `text` is null or ends with a zero.
unsafe fn text<'a>(text: *const c_char) -> io::Result<&'a str> {
    if text.is_null() {
        return Err(invalid("a text is null"));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| invalid("a text is not UTF-8"))
}

/// # Safety
/// `handle` is null or was given out and not closed.
unsafe fn held<'a, T>(handle: *const T) -> io::Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.ok_or_else(|| invalid("a handle is null"))
}

/// # Safety
/// `out` is null or may be written.
unsafe fn give<T>(out: *mut *mut T, made: io::Result<T>) -> c_int {
    outcome(made.and_then(|made| {
        if out.is_null() {
            return Err(invalid("there is no place for the handle"));
        }
        // SAFETY: it may be written, the caller says.
        unsafe { *out = Box::into_raw(Box::new(made)) };
        Ok(0)
    }))
}

/// # Safety
/// `handle` is null or was given out and not closed.
unsafe fn close<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: it came from a box, and is not used after this.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// Writes text with a zero behind it; refuses one that does not fit.
///
/// # Safety
/// `out` is null or has `size` bytes.
unsafe fn write_text(text: &str, out: *mut c_char, size: usize) -> io::Result<c_int> {
    if out.is_null() || text.len() >= size {
        return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
    }
    // SAFETY: there are `size` bytes, more than the text has.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        *out.add(text.len()) = 0;
    }
    Ok(text.len() as c_int)
}

fn time(nanos: i64) -> Option<Duration> {
    (nanos > FOREVER).then(|| Duration::from_nanos(nanos.unsigned_abs()))
}

/// Words of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn cavalcade_spc_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// Opens an endpoint.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_endpoint_open(
    address: *const c_char,
    fabric: *const Fabric,
    out: *mut *mut Endpoint,
) -> c_int {
    // SAFETY: the caller's promise.
    let made = unsafe { text(address) }.and_then(|address| {
        let mut settings = Settings::default();
        // SAFETY: the caller's promise.
        if let Some(fabric) = unsafe { fabric.as_ref() } {
            if fabric.rate_bps == 0 || fabric.round_trip_ns == 0 {
                return Err(invalid("a fabric has a rate and a round trip"));
            }
            settings.line_rate = BitsPerSec(fabric.rate_bps);
            settings.base_rtt = Nanos(fabric.round_trip_ns);
        }
        Endpoint::bind(address, Options { settings, ..Options::default() })
    });
    // SAFETY: the caller's promise.
    unsafe { give(out, made) }
}

/// Writes an endpoint's address.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_endpoint_address(
    endpoint: *const Endpoint,
    out: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let address = unsafe { held(endpoint) }.and_then(Endpoint::local_addr);
    // SAFETY: the caller's promise.
    outcome(address.and_then(|address| unsafe { write_text(&address.to_string(), out, size) }))
}

/// Closes an endpoint.
///
/// # Safety
/// The handle is null or was given out and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_endpoint_close(endpoint: *mut Endpoint) {
    // SAFETY: the caller's promise.
    unsafe { close(endpoint) }
}

/// Opens a stream.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_connect(
    endpoint: *const Endpoint,
    peer: *const c_char,
    task: u32,
    nanos: i64,
    out: *mut *mut SpcStream,
) -> c_int {
    // SAFETY: the caller's promise.
    let asked = unsafe { held(endpoint).and_then(|endpoint| Ok((endpoint, text(peer)?))) };
    let made = asked.and_then(|(endpoint, peer)| {
        let mut last = invalid("the name has no address");
        for address in peer.to_socket_addrs()? {
            match endpoint.connect_within(address, task, time(nanos)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    });
    // SAFETY: the caller's promise.
    unsafe { give(out, made) }
}

/// Begins to open a stream.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_connect_begin(
    endpoint: *const Endpoint,
    peer: *const c_char,
    task: u32,
    out: *mut *mut SpcStream,
) -> c_int {
    // SAFETY: the caller's promise.
    let asked = unsafe { held(endpoint).and_then(|endpoint| Ok((endpoint, text(peer)?))) };
    let begun = asked.and_then(|(endpoint, peer)| {
        let first = peer.to_socket_addrs()?.next().ok_or_else(|| invalid("the name has no address"))?;
        endpoint.begin_connect(first, task)
    });
    // SAFETY: the caller's promise.
    unsafe { give(out, begun) }
}

/// Tells whether a stream is open.
///
/// # Safety
/// The handle is null or was given out and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_is_open(stream: *const SpcStream) -> c_int {
    // SAFETY: the caller's promise.
    outcome(unsafe { held(stream) }.and_then(SpcStream::is_open).map(c_int::from))
}

/// Listens at an endpoint.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_listen(
    endpoint: *const Endpoint,
    out: *mut *mut SpcListener,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(out, held(endpoint).map(Endpoint::listen)) }
}

/// Waits for a stream.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_accept(
    listener: *const SpcListener,
    nanos: i64,
    out: *mut *mut SpcStream,
) -> c_int {
    // SAFETY: the caller's promise.
    let accepted = unsafe { held(listener) }.and_then(|listener| listener.accept_within(time(nanos)));
    // SAFETY: the caller's promise.
    unsafe { give(out, accepted.map(|(stream, _)| stream)) }
}

/// Gives a descriptor to wait for a stream with.
///
/// # Safety
/// The handle is null or was given out and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_listener_descriptor(listener: *const SpcListener) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { held(listener) }.and_then(SpcListener::readiness))
}

fn number(descriptor: io::Result<BorrowedFd<'_>>) -> c_int {
    outcome(descriptor.map(|descriptor| descriptor.as_raw_fd()))
}

/// Closes a listener.
///
/// # Safety
/// The handle is null or was given out and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_listener_close(listener: *mut SpcListener) {
    // SAFETY: the caller's promise.
    unsafe { close(listener) }
}

/// Reads, within a time.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_read(
    stream: *const SpcStream,
    out: *mut u8,
    size: usize,
    nanos: i64,
) -> isize {
    // SAFETY: the caller's promise.
    let read = unsafe { held(stream) }.and_then(|mut stream| {
        if out.is_null() {
            return Err(invalid("there is no place for what is read"));
        }
        // SAFETY: there are `size` bytes, which nothing else uses during the call.
        let out = unsafe { std::slice::from_raw_parts_mut(out, size.min(isize::MAX as usize)) };
        stream.set_read_timeout(time(nanos));
        stream.read(out)
    });
    read.map_or_else(|error| fail(&error) as isize, |count| count as isize)
}

/// Writes, within a time.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_write(
    stream: *const SpcStream,
    bytes: *const u8,
    size: usize,
    nanos: i64,
) -> isize {
    // SAFETY: the caller's promise.
    let written = unsafe { held(stream) }.and_then(|mut stream| {
        if bytes.is_null() {
            return Err(invalid("there is nothing to write"));
        }
        // SAFETY: there are `size` bytes, which nothing changes during the call.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, size.min(isize::MAX as usize)) };
        stream.set_write_timeout(time(nanos));
        stream.write(bytes)
    });
    written.map_or_else(|error| fail(&error) as isize, |count| count as isize)
}

/// Ends a direction, or both.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_shutdown(stream: *const SpcStream, how: c_int) -> c_int {
    // SAFETY: the caller's promise.
    outcome(unsafe { held(stream) }.and_then(|stream| {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(invalid("how is SHUT_RD, SHUT_WR or SHUT_RDWR")),
        };
        stream.shutdown(how).map(|()| 0)
    }))
}

/// Waits until all that was written is acknowledged.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_wait_acknowledged(stream: *const SpcStream) -> c_int {
    // SAFETY: the caller's promise.
    outcome(unsafe { held(stream) }.and_then(|stream| stream.wait_acknowledged().map(|()| 0)))
}

/// Tells a stream's task.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_task(stream: *const SpcStream, out: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    outcome(unsafe { held(stream).and_then(|stream| put(out, stream.task())) })
}

/// # Safety
/// `out` is null or may be written.
unsafe fn put<T>(out: *mut T, value: T) -> io::Result<c_int> {
    if out.is_null() {
        return Err(invalid("there is no place for the answer"));
    }
    // SAFETY: the caller's promise.
    unsafe { *out = value };
    Ok(0)
}

/// Writes the address of a stream's other end.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_peer(
    stream: *const SpcStream,
    out: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    outcome(unsafe { held(stream).and_then(|stream| write_text(&stream.peer_addr().to_string(), out, size)) })
}

/// Writes the address of a stream's own end.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_name(
    stream: *const SpcStream,
    out: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let address = unsafe { held(stream) }.and_then(SpcStream::local_addr);
    // SAFETY: the caller's promise.
    outcome(address.and_then(|address| unsafe { write_text(&address.to_string(), out, size) }))
}

/// Gives a descriptor to wait for a stream with.
///
/// # Safety
/// The handle is null or was given out and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_descriptor(stream: *const SpcStream) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { held(stream) }.and_then(SpcStream::readiness))
}

/// Closes a stream.
///
/// # Safety
/// The handle is null or was given out and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_close(stream: *mut SpcStream) {
    // SAFETY: the caller's promise.
    unsafe { close(stream) }
}

/// Makes a counter of this process.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_counter_new(
    first: u32,
    step: u32,
    background: c_int,
    out: *mut *mut Counter,
) -> c_int {
    let made = if step == 0 {
        Err(invalid("a counter's step is one at least"))
    } else if background == 0 {
        Ok(Counter(Box::new(TaskCounter::new(first, step))))
    } else {
        Ok(Counter(Box::new(TaskCounter::background(first, step))))
    };
    // SAFETY: the caller's promise.
    unsafe { give(out, made) }
}

/// Names a counter of the host's agent.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_counter_of_agent(
    socket: *const c_char,
    name: *const c_char,
    out: *mut *mut Counter,
) -> c_int {
    // SAFETY: the caller's promise.
    let named = unsafe { text(socket).and_then(|socket| Ok((socket, text(name)?))) };
    let made = named.map(|(socket, name)| Counter(Box::new(AgentCounter::new(socket, name))));
    // SAFETY: the caller's promise.
    unsafe { give(out, made) }
}

/// Gives the next id.
///
/// # Safety
/// Pointers are null or what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_counter_next(counter: *const Counter, out: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    let next = unsafe { held(counter) }.and_then(|counter| counter.0.next_id());
    // SAFETY: the caller's promise.
    outcome(next.and_then(|id| unsafe { put(out, id) }))
}

/// Closes a counter.
///
/// # Safety
/// The handle is null or was given out and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cavalcade_spc_counter_close(counter: *mut Counter) {
    // SAFETY: the caller's promise.
    unsafe { close(counter) }
}
