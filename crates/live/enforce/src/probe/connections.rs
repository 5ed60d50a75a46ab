//! Connections of this host with itself, whose ends belong to control groups although this process
//! is in none of them.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::groups::Group;

/// Makes a connection from one group to another; its two ends.
pub(super) fn connect(from: &Group, to: &Group) -> Result<(TcpStream, TcpStream), String> {
    connect_between(from, to).map_err(|error| format!("no connection on loopback: {error}"))
}

fn connect_between(from: &Group, to: &Group) -> io::Result<(TcpStream, TcpStream)> {
    let listener = socket_in(to)?;
    net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    net::listen(&listener, 1)?;
    let listener = TcpListener::from(listener);
    let socket = socket_in(from)?;
    net::connect(&socket, &listener.local_addr()?)?;
    let (accepted, _) = listener.accept()?;
    let socket = TcpStream::from(socket);
    // What is written is sent at once, so that what becomes of it can be seen at once.
    socket.set_nodelay(true)?;
    Ok((socket, accepted))
}

/// Makes a TCP socket in a group. Sockets belong to the group of the process that makes them, so a
/// child goes there and hands it over.
fn socket_in(group: &Group) -> io::Result<OwnedFd> {
    let members = File::options().write(true).open(group.path().join("cgroup.procs"))?;
    let (here, there) = net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let make = move || {
        rustix::io::write(&members, b"0")?;
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        let sockets = [socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(&sockets));
        net::sendmsg(&there, &[IoSlice::new(b"x")], &mut rights, SendFlags::empty())?;
        Ok(())
    };
    let mut command = Command::new("true");
    #[expect(unsafe_code, reason = "what runs between fork and exec may only do little")]
    // SAFETY: `make` makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(make);
    }
    command.spawn()?.wait()?;
    receive(&here)
}

/// Takes a descriptor that was handed over.
fn receive(from: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    net::recvmsg(from, &mut [IoSliceMut::new(&mut [0])], &mut rights, flags)?;
    let handed = rights.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    handed.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
