//! Descriptors that show whether a call would wait, for programs that wait for many things at once
//! with `poll`, `epoll` or `select`.
//!
//! A stream has no descriptor of its own: its endpoint's socket carries others as well. It gets one
//! end of a pair of local sockets. It is readable while the stream is, because a byte lies in it,
//! and writable while the stream is, because its buffer is full otherwise. Programs poll it; they
//! must not read or write it.
//!
//! Cost: two descriptors for a stream that was asked for one, and then a system call or two each
//! time its readiness changes.
//!
//! Rejected: an eventfd. It can be read and not written, or both, but never neither.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Bytes that fill what is left of the shown end's buffer in a write or two; the kernel gives it no
/// less than some 4 KB.
static FILL: [u8; 4096] = [0; 4096];

/// The pair, and what it shows.
#[derive(Debug)]
pub(crate) struct Readiness {
    shown: Arc<OwnedFd>,
    own: OwnedFd,
    readable: bool,
    writable: bool,
}

impl Readiness {
    /// A pair that can be written and not read.
    fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (shown, own) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        set_socket_send_buffer_size(&shown, 1)?;
        Ok(Self { shown: Arc::new(shown), own, readable: false, writable: true })
    }

    /// Returns the end that programs poll, and makes the pair where there is none.
    pub(crate) fn descriptor_in(place: &mut Option<Self>) -> io::Result<Arc<OwnedFd>> {
        let readiness = match place {
            Some(readiness) => readiness,
            None => place.insert(Self::new()?),
        };
        Ok(Arc::clone(&readiness.shown))
    }

    /// Shows what would not wait now. A call that the kernel refuses leaves it as it was, for the
    /// next time.
    pub(crate) fn show(&mut self, readable: bool, writable: bool) {
        if readable != self.readable {
            let mut byte = [0];
            let turned = if readable {
                rustix::io::write(&self.own, &byte)
            } else {
                rustix::io::read(&self.shown, &mut byte)
            };
            // Nothing to take back: a program has read what it was not to.
            if turned.is_ok() || !readable {
                self.readable = readable;
            }
        }
        if writable != self.writable {
            if writable {
                while rustix::io::read(&self.own, &mut [0; FILL.len()]).is_ok_and(|count| count > 0) {}
            } else {
                while rustix::io::write(&self.shown, &FILL).is_ok() {}
            }
            self.writable = writable;
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn seen(of: &Readiness) -> (bool, bool) {
        let mut asked = [PollFd::new(&*of.shown, PollFlags::IN | PollFlags::OUT)];
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        let seen = asked[0].revents();
        (seen.contains(PollFlags::IN), seen.contains(PollFlags::OUT))
    }

    #[test]
    fn a_descriptor_shows_each_of_the_four_cases_from_each_other() {
        let mut shown = Readiness::new().unwrap();
        assert_eq!(seen(&shown), (false, true));
        let cases = [(false, false), (false, true), (true, false), (true, true)];
        for from in cases {
            for to in cases {
                for case in [from, to] {
                    shown.show(case.0, case.1);
                    assert_eq!(seen(&shown), case);
                }
            }
        }
    }
}
