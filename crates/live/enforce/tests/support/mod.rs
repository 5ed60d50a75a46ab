//! A place of its own for each test, and child processes that wait until they are tagged.
//!
//! A child is this test's own binary again, told by its environment what to do ([`play`]).

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use cavalcade_enforce::{Count, Flow, Group, Hierarchy, Kernel, Limits, Place, leftovers, missing};
use cavalcade_model::Nanos;
use cavalcade_testing::{Lines, Player, eventually, role, say, skipped, wait_for_go};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More descriptors than are looked at for one connection.
const MANY: usize = 5_000;

/// A user without rights, who owns nothing here.
pub(crate) const STRANGER: u32 = 65_534;

/// A control group of this test alone, below which its programs are attached.
pub(crate) struct Ground {
    /// The place to load at.
    pub(crate) place: Place,
    group: Option<Group>,
}

impl Ground {
    /// Makes one, or says what is missing for it.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if let Some(reason) = missing() {
            skipped(format_args!("programs for the kernel ({reason})"));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skipped("root, to load programs into the kernel");
            return None;
        }
        let Ok(Hierarchy { root }) = Hierarchy::find() else {
            skipped("control groups of version 2");
            return None;
        };
        let name = format!("cavalcade-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let group = Group::make(&root, &name).unwrap();
        let above = group.path().to_owned();
        Some(Self { place: Place { above, name }, group: Some(group) })
    }

    /// Its control group.
    pub(crate) fn group(&self) -> Group {
        Group::found(self.place.above.clone()).unwrap()
    }

    /// Loads the programs with limits that suit tests.
    pub(crate) fn load(&self) -> Kernel {
        Kernel::load(self.place.clone(), limits(Duration::from_secs(60))).unwrap()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // A failed test is told as what it is, not as what it left.
        if !std::thread::panicking() {
            assert_eq!(leftovers::find(&self.place).unwrap(), Vec::<std::path::PathBuf>::new());
        }
        let _ = leftovers::fix(&self.place);
        self.group.take();
    }
}

/// Limits with another silence.
pub(crate) fn limits(silence: Duration) -> Limits {
    Limits { silence: Nanos(silence.as_nanos() as u64), ..Limits::default() }
}

/// A process that does as its role says once it has been told to go.
pub(crate) fn player(role: &str) -> Player {
    ready(None, role)
}

/// One in a group.
pub(crate) fn player_in(group: &Group, role: &str) -> Player {
    let mut command = Command::new("sh");
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.path().display());
    command.args(["-c", &enter]);
    ready(Some(command), role)
}

/// One in a network namespace of its own.
pub(crate) fn player_apart(role: &str) -> Player {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
    ready(Some(command), role)
}

/// Tells whether this machine can make network namespaces, and run commands in them.
pub(crate) fn can_make_namespaces() -> bool {
    let can = ["unshare", "nsenter"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    if !can {
        skipped("unshare and nsenter, for a network namespace");
    }
    can
}

/// Runs a command in the network namespace of a process.
pub(crate) fn run_beside(player: &Player, line: &str) {
    let process = player.number().to_string();
    let mut command = Command::new("nsenter");
    command.args(["--target", &process, "--net", "sh", "-c", line]);
    assert!(command.status().unwrap().success(), "{line}");
}

/// One in the group of a coflow, which goes at once.
pub(crate) fn tagged(kernel: &mut Kernel, coflow: u32, role: &str) -> (Player, Group) {
    let above = kernel.place().above.clone();
    let group = kernel.tag(&above, coflow).unwrap();
    let mut player = player(role);
    kernel.admit(player.number(), &group, coflow).unwrap();
    player.go();
    (player, group)
}

fn ready(before: Option<Command>, role: &str) -> Player {
    let mut player = Player::start(before, "plays_a_role_for_other_tests", role);
    assert_eq!(player.hears(), "ready");
    player
}

/// Plays the role that the environment names; nothing where it names none.
pub(crate) fn play() {
    let Some(role) = role() else { return };
    let mut words: Vec<&str> = role.split(' ').collect();
    if words[0] == "stranger" {
        words.remove(0);
        become_stranger();
    }
    match words[..] {
        // Sends so many bytes and keeps the connection.
        ["send", to, bytes] => {
            say("ready");
            wait_for_go();
            let mut socket = TcpStream::connect(to).unwrap();
            socket.write_all(&vec![0; bytes.parse().unwrap()]).unwrap();
            say("sent");
            wait_for_go();
        }
        // The same over MPTCP.
        ["send-whole", to, bytes] => {
            say("ready");
            wait_for_go();
            let socket = whole();
            rustix::net::connect(&socket, &to.parse::<std::net::SocketAddr>().unwrap()).unwrap();
            let mut socket = TcpStream::from(socket);
            socket.write_all(&vec![0; bytes.parse().unwrap()]).unwrap();
            say("sent");
            wait_for_go();
        }
        // Sends as long as it lives over MPTCP.
        ["flood-whole", to] => {
            say("ready");
            wait_for_go();
            let socket = whole();
            rustix::net::connect(&socket, &to.parse::<std::net::SocketAddr>().unwrap()).unwrap();
            flood(TcpStream::from(socket));
        }
        // Listens for MPTCP, as servers in Go do, and answers with so many bytes.
        ["serve-whole", bytes] => {
            say("ready");
            wait_for_go();
            let socket = whole();
            rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            rustix::net::listen(&socket, 16).unwrap();
            serve(&TcpListener::from(socket), bytes.parse().unwrap());
        }
        // Sends so many datagrams of so many bytes.
        ["datagrams", to, count, bytes] => {
            say("ready");
            wait_for_go();
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let message = vec![0; bytes.parse().unwrap()];
            for _ in 0..count.parse().unwrap() {
                socket.send_to(&message, to).unwrap();
            }
            say("sent");
            wait_for_go();
        }
        // Sends a byte, and when it is told to so many more, which it leaves to the kernel.
        ["leave", to, bytes] => {
            say("ready");
            wait_for_go();
            let mut socket = TcpStream::connect(to).unwrap();
            socket.write_all(b"x").unwrap();
            say("begun");
            wait_for_go();
            socket.write_all(&vec![0; bytes.parse().unwrap()]).unwrap();
            drop(socket);
            say("left");
            wait_for_go();
        }
        // Is connected to a listener of its own, which resets the connection when it is told to;
        // keeps its end.
        ["reset"] => {
            say("ready");
            wait_for_go();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (other, _) = listener.accept().unwrap();
            socket.write_all(b"x").unwrap();
            say("begun");
            wait_for_go();
            // With a byte unread it resets.
            drop((other, listener));
            assert!(socket.read(&mut [0]).is_err());
            say("reset");
            wait_for_go();
        }
        // Sends messages of a byte when it is told to.
        ["speak", to] => {
            say("ready");
            wait_for_go();
            let mut socket = TcpStream::connect(to).unwrap();
            loop {
                wait_for_go();
                socket.write_all(b"x").unwrap();
                say("spoken");
            }
        }
        // Connects once to each of so many peers.
        ["crowd", peers] => {
            say("ready");
            wait_for_go();
            crowd(peers.parse().unwrap());
            say("has connected");
            wait_for_go();
        }
        // Sends as long as it lives.
        ["flood", to] => {
            say("ready");
            wait_for_go();
            flood(TcpStream::connect(to).unwrap());
        }
        // The same on so many connections.
        ["floods", to, connections] => {
            say("ready");
            wait_for_go();
            let floods: Vec<_> = (0..connections.parse().unwrap())
                .map(|_| TcpStream::connect(to).unwrap())
                .map(|socket| std::thread::spawn(move || flood(socket)))
                .collect();
            floods.into_iter().for_each(|flood| flood.join().unwrap());
        }
        // The same under a congestion control.
        ["flood", to, control] => {
            say("ready");
            wait_for_go();
            let socket = TcpStream::connect(to).unwrap();
            rustix::net::sockopt::set_tcp_congestion(&socket, control).unwrap();
            flood(socket);
        }
        // Sends to itself as long as it lives.
        ["solo"] => {
            say("ready");
            wait_for_go();
            let sink = Sink::new("127.0.0.1");
            flood(TcpStream::connect(sink.address).unwrap());
        }
        // Sends a message of so many bytes to itself, and then others of one byte when it is told
        // to; says how packets were marked.
        ["witness", bytes] => {
            say("ready");
            wait_for_go();
            let bytes = bytes.parse().unwrap();
            let (wire, sink) = (Wire::open(), Sink::new("127.0.0.1"));
            let mut socket = TcpStream::connect(sink.address).unwrap();
            socket.set_nodelay(true).unwrap();
            rustix::net::sockopt::set_socket_send_buffer_size(&socket, 200_000).unwrap();
            socket.write_all(&vec![0; bytes]).unwrap();
            say("written");
            eventually("all bytes", || sink.received() == bytes as u64);
            let marks = wire.marks(sink.address.port());
            let first = marks.first().unwrap().0;
            let marks: Vec<String> =
                marks.iter().map(|(number, tos)| format!("{}:{tos}", number.wrapping_sub(first))).collect();
            say(marks.join(" "));
            for more in 1.. {
                wait_for_go();
                socket.write_all(b"x").unwrap();
                eventually("the byte", || sink.received() == bytes as u64 + more);
                say(wire.marks(sink.address.port()).last().unwrap().1);
            }
        }
        // Is connected to itself over IPv4 by a socket for both families, with a mark of its own.
        // Sends a byte when it is told to, and says how that was marked.
        ["mapped"] => {
            say("ready");
            wait_for_go();
            let (wire, sink) = (Wire::open(), Sink::new("127.0.0.1"));
            let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
            let mut socket = TcpStream::connect((mapped, sink.address.port())).unwrap();
            rustix::net::sockopt::set_ip_tos(&socket, 8).unwrap();
            say("connected");
            for bytes in 1.. {
                wait_for_go();
                socket.write_all(b"x").unwrap();
                eventually("the byte", || sink.received() == bytes);
                say(wire.marks(sink.address.port()).last().unwrap().1);
            }
        }
        // Is connected before it is told to go.
        ["early", to] => {
            let socket = TcpStream::connect(to).unwrap();
            say("ready");
            wait_for_go();
            flood(socket);
        }
        // Sends so many bytes to who connects.
        ["serve", bytes] => {
            say("ready");
            wait_for_go();
            serve(&TcpListener::bind("127.0.0.1:0").unwrap(), bytes.parse().unwrap());
        }
        // The same at a listener that was opened before it is told to go.
        ["activated", bytes] => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            say("ready");
            wait_for_go();
            serve(&listener, bytes.parse().unwrap());
        }
        // Sends so many bytes to who has connected to a listener at such an address, when it is
        // told to.
        ["answer", bytes, at] => {
            say("ready");
            wait_for_go();
            let listener = TcpListener::bind(at).unwrap();
            say(listener.local_addr().unwrap());
            let (mut socket, _) = listener.accept().unwrap();
            say("accepted");
            wait_for_go();
            socket.write_all(&vec![0; bytes.parse().unwrap()]).unwrap();
            wait_for_go();
        }
        // Sends so many bytes to who has connected to a listener from before, once it is told to
        // accept.
        ["queue", bytes] => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            say("ready");
            wait_for_go();
            say(listener.local_addr().unwrap());
            wait_for_go();
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(&vec![0; bytes.parse().unwrap()]).unwrap();
            wait_for_go();
        }
        // Sends so many bytes to itself, and says what became of them.
        ["deliver", bytes] => {
            say("ready");
            wait_for_go();
            let (sink, bytes) = (Sink::new("127.0.0.1"), vec![0; bytes.parse().unwrap()]);
            match TcpStream::connect(sink.address).unwrap().write_all(&bytes) {
                Ok(()) => {
                    eventually("all bytes", || sink.received() == bytes.len() as u64);
                    say("delivered");
                }
                Err(error) => say(format!("{:?}", error.kind())),
            }
        }
        // Tries what only the enforcer may.
        ["intrude", name, group] => {
            say("ready");
            wait_for_go();
            let verdict = |is_allowed| if is_allowed { "allowed" } else { "refused" };
            say(format!("table by pin: {}", verdict(open_pin(&format!("/sys/fs/bpf/{name}/settings")))));
            say(format!("tables by number: {}", verdict(find_table())));
            let procs = format!("{group}/cgroup.procs");
            for (who, process) in [("own", std::process::id()), ("other", 1)] {
                let moved = std::fs::write(&procs, process.to_string()).is_ok();
                say(format!("{who} process: {}", verdict(moved)));
            }
        }
        // Asks for nothing in particular.
        ["ask", door] => {
            say("ready");
            wait_for_go();
            let mut stream = std::os::unix::net::UnixStream::connect(door).unwrap();
            stream.write_all(b"\n").unwrap();
            say("asked");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            say(answer.trim_end());
        }
        // Hands over what is no connection, one by a wrong cookie, one that ends elsewhere, another
        // process's end of it, the connection, and that again; says each answer. Releases it, says
        // whether that was done, and hands it over again. Then asks for more than is read at once,
        // and counts the answers.
        ["hand", door, to] => {
            let socket = TcpStream::connect(to).unwrap();
            say("ready");
            wait_for_go();
            let mut library = std::os::unix::net::UnixStream::connect(door).unwrap();
            writeln!(library, "library").unwrap();
            // Longer than one who asks for something may take.
            std::thread::sleep(Duration::from_millis(1_200));
            let mut answers = Lines::new(library.try_clone().unwrap());
            let (descriptor, cookie) =
                (socket.as_raw_fd(), rustix::net::sockopt::socket_cookie(&socket).unwrap());
            let it = format!("{descriptor}:{cookie}");
            let (near, far) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
            let by_number = [format!("0:{cookie}"), format!("{descriptor}:{}", cookie ^ 1)];
            let by_ends = [format!("{near}>{near}"), format!("{far}>{near}"), format!("{near}>{far}")];
            for which in by_number.into_iter().chain(by_ends).chain([it.clone()]) {
                writeln!(library, "connection={which} coflow=17.0.17").unwrap();
                say(answers.next().unwrap());
            }
            say(is_released(&socket));
            writeln!(library, "connection={it} coflow=17.0.17").unwrap();
            say(answers.next().unwrap());
            let asking = std::thread::spawn(move || {
                (0..2_000).for_each(|_| writeln!(library, "connection={it} coflow=17.0.17").unwrap());
                library
            });
            // By now, more is answered than there is room for.
            std::thread::sleep(Duration::from_millis(500));
            say(answers.by_ref().take(2_000).filter(|answer| answer.starts_with("no ")).count());
            let _library = asking.join().unwrap();
            wait_for_go();
        }
        // Connects, and says whether it could release that.
        ["release", to] => {
            let socket = TcpStream::connect(to).unwrap();
            say("ready");
            wait_for_go();
            say(is_released(&socket));
            wait_for_go();
        }
        // Hands over by their ends connections that it does not have, of a process with very many
        // descriptors. Says how often it is answered in two seconds.
        ["search", door] => {
            say("ready");
            wait_for_go();
            let limit = getrlimit(Resource::Nofile);
            let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
            let many: Vec<_> = (0..MANY).map_while(|_| std::fs::File::open("/dev/null").ok()).collect();
            say(if raised.is_ok() && many.len() == MANY { "has many" } else { "may not" });
            let mut library = std::os::unix::net::UnixStream::connect(door).unwrap();
            library.write_all(b"library\n").unwrap();
            let line = "connection=127.0.0.1:1>127.0.0.1:2 coflow=17.0.17\n";
            library.write_all(line.repeat(100).as_bytes()).unwrap();
            library.set_nonblocking(true).unwrap();
            say("asked");
            std::thread::sleep(Duration::from_secs(2));
            let mut answers = Vec::new();
            let _ = library.read_to_end(&mut answers);
            say(answers.iter().filter(|byte| **byte == b'\n').count());
            wait_for_go();
        }
        // Loads on a kernel that refuses a command of bpf(2), or all of them.
        ["lack", command, error, above, name] => {
            say("ready");
            wait_for_go();
            refuse_bpf(command.parse().unwrap(), error.parse().unwrap());
            let place = Place { above: above.into(), name: name.to_owned() };
            match Kernel::load(place, Limits::default()) {
                Ok(_) => say("loaded"),
                Err(error) => say(error),
            }
        }
        // Holds a coflow of a place: off, with so many milliseconds of silence.
        ["hold", above, name, group, millis] => {
            let place = Place { above: above.into(), name: name.to_owned() };
            let silence = Duration::from_millis(millis.parse().unwrap());
            let mut kernel = Kernel::load(place, limits(silence)).unwrap();
            let group = Group::make(std::path::Path::new(group).parent().unwrap(), name_of(group)).unwrap();
            kernel.tag_group(&group, 1).unwrap();
            kernel.order(Flow::of_all_peers(1), super::OFF.into()).unwrap();
            say("ready");
            wait_for_go();
            std::mem::forget(group);
        }
        _ => panic!("no role {role}"),
    }
}

/// Has the kernel refuse a command of `bpf(2)` to this thread, or all of them where it is negative.
fn refuse_bpf(command: i32, error: u32) {
    let statement = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let unless_equal = |k, jf| libc::sock_filter { code: BPF_JEQ, jt: 0, jf, k };
    const BPF_LOAD: u16 = 0x20;
    const BPF_JEQ: u16 = 0x15;
    const BPF_RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const REFUSE: u32 = 0x0005_0000;
    // Places in `struct seccomp_data`: the call's number, and the lower half of its first argument.
    let (number, argument) = (0, if cfg!(target_endian = "big") { 20 } else { 16 });
    let mut filter = vec![statement(BPF_LOAD, number), unless_equal(libc::SYS_bpf as u32, 3)];
    if let Ok(command) = u32::try_from(command) {
        filter.extend([statement(BPF_LOAD, argument), unless_equal(command, 1)]);
    } else {
        filter[1].jf = 1;
    }
    filter.extend([statement(BPF_RETURN, REFUSE | error), statement(BPF_RETURN, ALLOW)]);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    #[expect(unsafe_code, reason = "there is no safe way to filter system calls")]
    // SAFETY: the kernel copies the program, which outlives the calls.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    assert_eq!(results, [0; 2], "{}", std::io::Error::last_os_error());
}

fn become_stranger() {
    #[expect(unsafe_code, reason = "the standard library changes users of commands only")]
    // SAFETY: these calls take numbers and change nothing but this process's rights.
    let results = unsafe {
        [
            libc::setgroups(0, std::ptr::null()),
            libc::setresgid(STRANGER, STRANGER, STRANGER),
            libc::setresuid(STRANGER, STRANGER, STRANGER),
        ]
    };
    assert_eq!(results, [0; 3], "{}", std::io::Error::last_os_error());
}

/// Tells whether this process may open what is pinned at `path`: `bpf(BPF_OBJ_GET)`.
fn open_pin(path: &str) -> bool {
    let path = std::ffi::CString::new(path).unwrap();
    ask_kernel(7, &[path.as_ptr() as u64, 0])
}

/// Tells whether this process may learn the number of a table, by which it could open it:
/// `bpf(BPF_MAP_GET_NEXT_ID)`.
fn find_table() -> bool {
    ask_kernel(12, &[0, 0])
}

fn ask_kernel(command: i32, attributes: &[u64]) -> bool {
    #[expect(unsafe_code, reason = "there is no safe way to ask for what is refused")]
    // SAFETY: the kernel reads the attributes, which outlive the call, and the path that the first
    // of them may point to.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), std::mem::size_of_val(attributes))
    };
    result >= 0
}

/// Makes a connection to each of so many addresses of this host, one after the other.
fn crowd(peers: u32) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for peer in 1..=peers {
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + peer);
        let socket = TcpStream::connect((address, port)).unwrap();
        // Nothing of it is to stay behind.
        rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
        drop(listener.accept().unwrap());
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

/// A socket of MPTCP.
fn whole() -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketType, ipproto, socket};
    socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::MPTCP)).unwrap()
}

fn serve(listener: &TcpListener, bytes: usize) {
    say(listener.local_addr().unwrap());
    let (mut socket, _) = listener.accept().unwrap();
    socket.write_all(&vec![0; bytes]).unwrap();
    wait_for_go();
}

fn flood(mut socket: TcpStream) {
    let chunk = vec![0; 256 << 10];
    while socket.write_all(&chunk).is_ok() {}
}

/// Everything that is sent in this network namespace.
struct Wire(std::os::fd::OwnedFd);

impl Wire {
    fn open() -> Self {
        use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
        // IPv4, in network order.
        let protocol = Protocol::from_raw(u32::from(0x0800_u16.to_be()).try_into().unwrap());
        let flags = SocketFlags::NONBLOCK;
        Self(socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, Some(protocol)).unwrap())
    }

    /// The sequence numbers of packets with payload to a port since the last call, each with the
    /// byte that has its mark.
    fn marks(&self, port: u16) -> Vec<(u32, u8)> {
        let mut found = Vec::new();
        let mut packet = [0; 2048];
        while let Ok((length, _)) =
            rustix::net::recv(&self.0, &mut packet[..], rustix::net::RecvFlags::empty())
        {
            let transport = usize::from(packet[0] & 15) * 4;
            let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
            let payload = length - transport - usize::from(packet[transport + 12] >> 4) * 4;
            if packet[9] == 6 && word(transport) as u16 == port && payload > 0 {
                found.push((word(transport + 4), packet[1]));
            }
        }
        found
    }
}

/// Takes in whatever is sent, and counts it.
pub(crate) struct Sink {
    /// The address at which it listens.
    pub(crate) address: SocketAddr,
    received: Arc<AtomicU64>,
}

impl Sink {
    /// Listens at a free port of `address`.
    pub(crate) fn new(address: &str) -> Self {
        let listener = TcpListener::bind((address.parse::<IpAddr>().unwrap(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || take_in(socket.unwrap(), &count));
            }
        });
        Self { address, received }
    }

    /// Returns the number of bytes that have come.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns once so many more bytes have come.
    pub(crate) fn wait_for(&self, more: u64) {
        let from = self.received();
        eventually("more bytes", || self.received() >= from + more);
    }
}

fn take_in(mut socket: TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(length @ 1..) = socket.read(&mut buffer) {
        count.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// Returns the count of a flow to `peer`.
pub(crate) fn count(kernel: &Kernel, coflow: u32, peer: &str) -> Count {
    let wanted = Flow { coflow, peer: peer.parse().unwrap() };
    let counts = kernel.counts().unwrap();
    counts.iter().find(|(flow, _)| *flow == wanted).map(|&(_, count)| count).unwrap_or_default()
}

/// A copy of the descriptor of a process's only TCP connection.
pub(crate) fn connection_of(process: u32) -> std::os::fd::OwnedFd {
    let connections = connections_of(process);
    connections.into_iter().next().unwrap()
}

/// Says of a connection that its flow is over; whether a program has taken that in.
fn is_released(socket: &TcpStream) -> bool {
    let told = Duration::from_secs(cavalcade_protocol::Handover::RELEASE as u64);
    rustix::net::sockopt::set_tcp_keepidle(socket, told).is_ok()
}

/// Copies of the descriptors of a process's TCP connections.
pub(crate) fn connections_of(process: u32) -> Vec<std::os::fd::OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let handle = pidfd_open(Pid::from_raw(process as i32).unwrap(), PidfdFlags::empty()).unwrap();
    let numbers = 3..1_024;
    let copies = numbers.filter_map(|number| pidfd_getfd(&handle, number, PidfdGetfdFlags::empty()).ok());
    copies.filter(|socket| rustix::net::getpeername(socket).is_ok_and(|peer| peer.is_some())).collect()
}

/// An option of a socket that is an integer.
pub(crate) fn option(socket: &std::os::fd::OwnedFd, level: i32, name: i32) -> u32 {
    u32::from_ne_bytes(option_bytes(socket, level, name))
}

/// The bytes per second to which a connection's congestion control and its limit hold it.
pub(crate) fn pacing_rate(socket: &std::os::fd::OwnedFd) -> u64 {
    // `tcpi_pacing_rate` is behind 104 bytes of `struct tcp_info`.
    let info: [u8; 112] = option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_INFO);
    u64::from_ne_bytes(info[104..].try_into().unwrap())
}

fn option_bytes<const SIZE: usize>(socket: &std::os::fd::OwnedFd, level: i32, name: i32) -> [u8; SIZE] {
    use std::os::fd::AsRawFd;
    let (mut value, mut length) = ([0; SIZE], SIZE as u32);
    #[expect(unsafe_code, reason = "rustix has not all of these options")]
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes to a value that
    // is as long.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    value
}
