//! Real interfaces: AF_PACKET sockets, with up to [`BATCH`] packets in a system call.
//!
//! The socket receives what comes in by its interface, whatever its destination, and nothing that
//! leaves it. The kernel says with each packet what it has not finished (`struct virtio_net_hdr`),
//! and is told the same when the packet leaves. All of these are settings of the socket: they go
//! with it, however the process ends.
//!
//! Frames with a VLAN tag are left out, and counted: the kernel takes the tag off before a socket
//! sees the frame, and without it the frame would come out of its network in another one. The
//! kernel says so beside the frame (`struct tpacket_auxdata`).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use cavalcade_transport::stream::SMALLEST;

use crate::error::SwitchError;
use crate::packet::Unfinished;
use crate::port::Packet;

/// Packets in a system call.
pub const BATCH: usize = 64;
/// The largest frame that the kernel hands over: uncut TCP.
const LARGEST: usize = 65_536 + 64;
const NOTE: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
/// Words of what the kernel says beside a frame (`CMSG_SPACE(sizeof(struct tpacket_auxdata))`), and
/// its flag for a tag that was taken off (`TP_STATUS_VLAN_VALID`).
const REMARK: usize = 5;
const TAG_IS_VALID: u32 = 1 << 4;
/// The bits of a tag that name a network.
const NETWORK_OF_TAG: u16 = 0xfff;
/// The kernel's buffer for a socket that is not read.
const KERNEL_BUFFER: libc::c_int = 8 << 20;

/// An interface that is open.
#[derive(Debug)]
pub struct Device {
    name: String,
    index: u32,
    mtu: u32,
    socket: OwnedFd,
    memory: Vec<u8>,
    /// Packets that the kernel had no room for.
    missed: u64,
    /// Packets that it did not take.
    unsent: u64,
    /// Frames that were left out because they had a VLAN tag.
    tagged: u64,
}

impl Device {
    /// Opens an interface by its name.
    ///
    /// # Errors
    /// If there is none, it is down or carries packets that are too small, or the process may not.
    pub fn open(name: &str) -> Result<Self, SwitchError> {
        let index = index_of(name).ok_or_else(|| SwitchError::NoInterface { name: name.to_owned() })?;
        let socket = socket(name)?;
        let (flags, mtu) = (flags_of(&socket, name)?, mtu_of(&socket, name)?);
        if flags & libc::IFF_UP == 0 {
            return Err(SwitchError::Down { name: name.to_owned() });
        }
        if mtu < u32::from(SMALLEST) {
            return Err(SwitchError::SmallMtu { name: name.to_owned(), mtu, least: SMALLEST });
        }
        let device = Self {
            name: name.to_owned(),
            index,
            mtu,
            socket,
            memory: vec![0; BATCH * LARGEST],
            missed: 0,
            unsent: 0,
            tagged: 0,
        };
        device.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1 as libc::c_int)?;
        device.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1 as libc::c_int)?;
        device.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1 as libc::c_int)?;
        device.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1 as libc::c_int)?;
        // Beyond what the host allows everybody it takes CAP_NET_ADMIN, which a switch can do
        // without.
        device
            .set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, KERNEL_BUFFER)
            .or_else(|_| device.set(libc::SOL_SOCKET, libc::SO_RCVBUF, KERNEL_BUFFER))?;
        let everything = libc::packet_mreq {
            mr_ifindex: index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        device.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, everything)?;
        device.bind(index)?;
        Ok(device)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the largest IP packet that it carries.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns whether there is something at the other end of its link.
    ///
    /// # Errors
    /// If the interface has gone.
    pub(crate) fn is_connected(&self) -> Result<bool, SwitchError> {
        let flags = flags_of(&self.socket, &self.name);
        // Looked at last: it may go at any time, and a question about one that has gone fails.
        if self.is_gone() {
            return Err(SwitchError::Gone { name: self.name.clone() });
        }
        Ok(flags? & libc::IFF_RUNNING != 0)
    }

    /// Returns whether the interface has gone; another one of its name is not this one.
    pub(crate) fn is_gone(&self) -> bool {
        index_of(&self.name) != Some(self.index)
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: T) -> Result<(), SwitchError> {
        let length = size_of::<T>() as libc::socklen_t;
        #[expect(unsafe_code, reason = "the standard library has no packet sockets")]
        // SAFETY: the kernel reads `length` bytes of a value that is as long.
        let result =
            unsafe { libc::setsockopt(self.raw(), level, option, (&raw const value).cast(), length) };
        if result == 0 {
            Ok(())
        } else {
            Err(SwitchError::system(format!("set option {option} of {}", self.name)))
        }
    }

    fn bind(&self, index: u32) -> Result<(), SwitchError> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index as libc::c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        #[expect(unsafe_code, reason = "the standard library has no packet sockets")]
        // SAFETY: the kernel reads `length` bytes of an address that is as long.
        let result = unsafe { libc::bind(self.raw(), (&raw const address).cast(), length) };
        if result == 0 { Ok(()) } else { Err(SwitchError::system(format!("bind to {}", self.name))) }
    }

    /// Takes in what has arrived, up to [`BATCH`] frames, and returns how many there were.
    ///
    /// # Errors
    /// If the interface has gone, or what `each` returns.
    pub fn receive(
        &mut self,
        mut each: impl FnMut(&[u8], Option<Unfinished>, Option<u16>) -> Result<(), SwitchError>,
    ) -> Result<usize, SwitchError> {
        let mut parts: [libc::iovec; BATCH] =
            std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        for (part, memory) in parts.iter_mut().zip(self.memory.chunks_exact_mut(LARGEST)) {
            *part = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: LARGEST };
        }
        let mut remarks = [[0u64; REMARK]; BATCH];
        let mut messages: [libc::mmsghdr; BATCH] = std::array::from_fn(|at| {
            let mut message = message(&mut parts[at], 1);
            message.msg_hdr.msg_control = remarks[at].as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = size_of_val(&remarks[at]) as _;
            message
        });
        #[expect(unsafe_code, reason = "the standard library has no calls for many packets")]
        // SAFETY: each message has one part, which is a chunk of `memory` of that length, and room
        // for control bytes, which is an array of `remarks` of that length, and all outlive the
        // call.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            return self.passing(io::Error::last_os_error()).map(|()| 0);
        }
        let frames = messages.iter().zip(&remarks).zip(self.memory.chunks_exact(LARGEST));
        for ((message, remark), memory) in frames.take(count as usize) {
            if had_tag(remark) {
                self.tagged += 1;
                continue;
            }
            let length = (message.msg_len as usize).min(LARGEST);
            if length > NOTE {
                let (note, frame) = memory[..length].split_at(NOTE);
                let (unfinished, piece) = read_note(note);
                each(frame, unfinished, piece)?;
            }
        }
        Ok(count as usize)
    }

    /// Returns the number of packets that the interface did not take.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Returns the number of frames that were left out because they had a VLAN tag.
    pub fn tagged(&self) -> u64 {
        self.tagged
    }

    /// Sends packets, and returns how many are done with: sent, or refused by the interface.
    ///
    /// # Errors
    /// If the interface has gone.
    pub fn send(&mut self, packets: &[Packet]) -> Result<usize, SwitchError> {
        let packets = &packets[..packets.len().min(BATCH)];
        let mut notes = [[0u8; NOTE]; BATCH];
        let mut parts: [[libc::iovec; 2]; BATCH] = std::array::from_fn(|_| {
            std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 })
        });
        for ((packet, note), part) in packets.iter().zip(&mut notes).zip(&mut parts) {
            write_note(packet.unfinished, note);
            part[0] = libc::iovec { iov_base: note.as_mut_ptr().cast(), iov_len: NOTE };
            part[1] = libc::iovec {
                iov_base: packet.bytes.as_ptr().cast_mut().cast(),
                iov_len: packet.bytes.len(),
            };
        }
        let mut messages: [libc::mmsghdr; BATCH] =
            std::array::from_fn(|at| message(parts[at].as_mut_ptr(), 2));
        #[expect(unsafe_code, reason = "the standard library has no calls for many packets")]
        // SAFETY: each message has two parts, a note and a packet's bytes, which the kernel only
        // reads, and all outlive the call.
        let count = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                packets.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
                return Ok(0);
            }
            // The first packet is lost, as on any link that is down or full.
            self.unsent += 1;
            return self.passing(error).map(|()| 1);
        }
        Ok(count as usize)
    }

    /// Returns whether the interface is still there after an error; one that only means "not now"
    /// is none.
    fn passing(&self, error: io::Error) -> Result<(), SwitchError> {
        match error.raw_os_error() {
            // Too often to look.
            Some(libc::EAGAIN | libc::EINTR) => Ok(()),
            _ if self.is_gone() => Err(SwitchError::Gone { name: self.name.clone() }),
            _ if is_lasting(&error) => Err(SwitchError::System { what: format!("use {}", self.name), error }),
            // It is one packet's or the moment's, as ENETDOWN, which is said once when a link goes
            // down, that may come up again.
            _ => Ok(()),
        }
    }

    /// Returns the number of packets for which the kernel had no room before they were read.
    pub fn missed(&mut self) -> u64 {
        let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        #[expect(unsafe_code, reason = "the standard library has no packet sockets")]
        // SAFETY: the kernel writes at most `length` bytes, which `counts` has.
        let result = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        if result == 0 {
            // Each call sets the kernel's count back.
            self.missed += u64::from(counts.tp_drops);
        }
        self.missed
    }
}

/// Returns whether an error says that there is no socket any more. All else is one packet's or the
/// moment's, whatever the kernel calls it: a packet ends no switch.
fn is_lasting(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK))
}

fn message(parts: *mut libc::iovec, count: usize) -> libc::mmsghdr {
    #[expect(unsafe_code, reason = "the structure has padding that only zeroing fills")]
    // SAFETY: a message of zeros has no name, no parts and no control bytes.
    let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
    message.msg_hdr.msg_iov = parts;
    message.msg_hdr.msg_iovlen = count;
    message
}

/// Tells whether the kernel has taken the tag of a VLAN off a frame, by what it says beside it: a
/// header of 16 bytes, the flags first, and the tag after 16 more. A tag of network 0 gives a
/// priority and no network: without it the frame goes where it should.
fn had_tag(remark: &[u64; REMARK]) -> bool {
    let [a, b, c, d, ..] = remark[2].to_ne_bytes();
    let [low, high, ..] = remark[4].to_ne_bytes();
    let is_valid = u32::from_ne_bytes([a, b, c, d]) & TAG_IS_VALID != 0;
    is_valid && u16::from_ne_bytes([low, high]) & NETWORK_OF_TAG != 0
}

/// Reads the kernel's note: what is unfinished, and the size of a segment where TCP is uncut.
fn read_note(note: &[u8]) -> (Option<Unfinished>, Option<u16>) {
    let word = |at: usize| u16::from_ne_bytes([note[at], note[at + 1]]);
    let unfinished = (note[0] & NEEDS_CHECKSUM != 0).then(|| Unfinished { start: word(6), offset: word(8) });
    (unfinished, (note[1] != 0).then(|| word(4)))
}

fn write_note(unfinished: Option<Unfinished>, note: &mut [u8; NOTE]) {
    *note = [0; NOTE];
    if let Some(Unfinished { start, offset }) = unfinished {
        note[0] = NEEDS_CHECKSUM;
        note[6..8].copy_from_slice(&start.to_ne_bytes());
        note[8..10].copy_from_slice(&offset.to_ne_bytes());
    }
}

fn index_of(name: &str) -> Option<u32> {
    // A longer one would be cut to that of another interface.
    let request = (name.len() < libc::IFNAMSIZ).then(|| request_of(name))?;
    #[expect(unsafe_code, reason = "the standard library does not know interfaces")]
    // SAFETY: the name ends with a zero.
    let index = unsafe { libc::if_nametoindex(request.ifr_name.as_ptr()) };
    (index > 0).then_some(index)
}

/// The request that turns generic receive offload on or off, and the call that takes it
/// (`linux/ethtool.h`, `linux/sockios.h`).
const SET_RECEIVE_OFFLOAD: u32 = 0x2c;
const ETHTOOL: u32 = 0x8946;

/// Turns generic receive offload on, which an end of a virtual cable needs to take what a switch in
/// the kernel sends it.
///
/// # Errors
/// If there is no such interface, or it will not.
pub fn receive_offload(name: &str) -> Result<(), SwitchError> {
    let socket = socket(name)?;
    let mut value = [SET_RECEIVE_OFFLOAD, 1];
    #[expect(unsafe_code, reason = "the standard library does not know interfaces")]
    // SAFETY: the kernel reads the name, which ends with a zero, and two words that outlive the
    // call.
    let result = unsafe {
        let mut request = request_of(name);
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        libc::ioctl(socket.as_raw_fd(), ETHTOOL as libc::Ioctl, &raw mut request)
    };
    if result < 0 { Err(SwitchError::system(format!("turn on receive offload of {name}"))) } else { Ok(()) }
}

/// A request about an interface.
fn request_of(name: &str) -> libc::ifreq {
    #[expect(unsafe_code, reason = "the structure has a union that only zeroing fills")]
    // SAFETY: a request of zeros is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *place = byte as libc::c_char;
    }
    request
}

fn socket(name: &str) -> Result<OwnedFd, SwitchError> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    #[expect(unsafe_code, reason = "the standard library has no packet sockets")]
    // SAFETY: the call touches no memory; a descriptor that it returns is ours alone. With protocol
    // 0 nothing arrives before the socket is bound.
    let socket = unsafe {
        let descriptor = libc::socket(libc::AF_PACKET, kind, 0);
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
    };
    socket.ok_or_else(|| match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => {
            SwitchError::NoPrivilege { name: name.to_owned() }
        }
        error => SwitchError::System { what: "open a packet socket".to_owned(), error },
    })
}

/// Returns the flags of an interface.
fn flags_of(socket: &OwnedFd, name: &str) -> Result<libc::c_int, SwitchError> {
    #[expect(unsafe_code, reason = "the standard library does not know interfaces")]
    // SAFETY: the kernel reads the name, which ends with a zero, and writes the union of the
    // request, of which the field is read that the call is about.
    unsafe {
        let mut request = request_of(name);
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) < 0 {
            return Err(SwitchError::system(format!("ask about {name}")));
        }
        Ok(libc::c_int::from(request.ifr_ifru.ifru_flags))
    }
}

/// Returns the MTU of an interface.
fn mtu_of(socket: &OwnedFd, name: &str) -> Result<u32, SwitchError> {
    #[expect(unsafe_code, reason = "the standard library does not know interfaces")]
    // SAFETY: as for its flags.
    unsafe {
        let mut request = request_of(name);
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) < 0 {
            return Err(SwitchError::system(format!("ask about {name}")));
        }
        Ok(u32::try_from(request.ifr_ifru.ifru_mtu).unwrap_or(0))
    }
}

/// What a switch waits for: packets at its interfaces.
pub(crate) struct Sources(Vec<libc::pollfd>);

impl Sources {
    pub(crate) fn new(devices: &[Device]) -> Self {
        let source = |device: &Device| libc::pollfd { fd: device.raw(), events: libc::POLLIN, revents: 0 };
        Self(devices.iter().map(source).collect())
    }

    /// Waits until one of them has something, for at most so many nanoseconds.
    pub(crate) fn wait(&mut self, nanos: u64) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: (nanos / 1_000_000_000) as libc::time_t,
            tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
        };
        let (sources, count) = (self.0.as_mut_ptr(), self.0.len() as libc::nfds_t);
        #[expect(unsafe_code, reason = "the standard library cannot wait for several sockets")]
        // SAFETY: there are as many entries as are named, and they outlive the call, as the timeout
        // does.
        let result = unsafe { libc::ppoll(sources, count, &raw const timeout, std::ptr::null()) };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns whether the one of this number had something.
    pub(crate) fn is_ready(&self, at: usize) -> bool {
        self.0[at].revents != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_of_a_packet_ends_what_carries_the_others() {
        let lasting = (1..=133).filter(|&number| is_lasting(&io::Error::from_raw_os_error(number)));
        assert_eq!(lasting.collect::<Vec<_>>(), [libc::EBADF, libc::ENOTSOCK]);
    }
}
