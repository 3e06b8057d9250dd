//! The socket by which processes of the program find us, and passing descriptors through it.
//!
//! Invariant: every descriptor made here is close-on-exec; the program inherits none.

use freehold_record::hello::{Hello, KEY_BYTES, MAGIC, NAME_BYTES, Welcome};
use freehold_record::ring_set::LAYOUT;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A listening socket with an abstract name, and the key that callers must know.
pub struct Listener {
    socket: OwnedFd,
    address: String,
    key: [u8; KEY_BYTES],
}

/// One caller.
pub struct Caller(OwnedFd);

impl Listener {
    /// Listens under a fresh name.
    pub fn new() -> io::Result<Listener> {
        let mut random = [0; KEY_BYTES + 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let (key, tail) = random.split_at(KEY_BYTES);
        let name = format!("freehold-{}-{}", std::process::id(), hex(tail));
        debug_assert!(name.len() <= NAME_BYTES);
        let socket = listen(&name)?;
        let address = format!("{name}:{}", hex(key));
        let key = key.try_into().map_err(io::Error::other)?;
        Ok(Listener { socket, address, key })
    }

    /// What the program's environment says.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next caller, if one waits.
    pub fn accept(&self) -> Option<Caller> {
        let flags = libc::SOCK_CLOEXEC;
        let null = std::ptr::null_mut();
        // SAFETY: the socket is open; no address is asked for.
        let fd = unsafe { libc::accept4(self.socket.as_raw_fd(), null, null.cast(), flags) };
        // SAFETY: the descriptor is new and ours.
        (fd >= 0).then(|| Caller(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Whether the caller says the right words.
    pub fn believes(&self, hello: &Hello) -> bool {
        hello.magic == MAGIC && hello.layout == LAYOUT && hello.key == self.key
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn listen(name: &str) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: all zero is a valid sockaddr_un; the name with its leading zero fits by NAME_BYTES.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, kind, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_un = zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path.iter_mut().skip(1).zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let len = (size_of::<libc::sa_family_t>() + 1 + name.len()) as libc::socklen_t;
        if libc::bind(fd, (&raw const address).cast(), len) != 0 || libc::listen(fd, 4096) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }
}

impl Caller {
    /// What the caller says, within a second. None for one that only looked whether we live.
    pub fn hear(&self) -> Option<Hello> {
        let patience = libc::timeval { tv_sec: 1, tv_usec: 0 };
        let mut bytes = [0u8; size_of::<Hello>()];
        // SAFETY: the option takes a timeval; the kernel writes at most the buffer.
        let received = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const patience).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            );
            libc::recv(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0)
        };
        (received == bytes.len() as isize).then(|| Hello::from_bytes(bytes))
    }

    /// The process at the other end, as this side numbers processes.
    pub fn pid(&self) -> Option<i32> {
        // SAFETY: the kernel writes one ucred of the size told.
        unsafe {
            let mut who: libc::ucred = zeroed();
            let mut len = size_of::<libc::ucred>() as libc::socklen_t;
            let done = libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut who).cast(),
                &mut len,
            );
            (done == 0 && who.pid > 0).then_some(who.pid)
        }
    }

    /// Answers, with two descriptors.
    pub fn welcome(&self, welcome: Welcome, descriptors: [&OwnedFd; 2]) -> io::Result<()> {
        const RIGHTS: u32 = 2 * size_of::<RawFd>() as u32;
        let mut bytes = welcome.to_bytes();
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // An array of words is aligned as a cmsghdr must be.
        let mut control = [0u64; 8];
        // SAFETY: the message names buffers of their true sizes; CMSG_SPACE of two descriptors fits
        // the control buffer, so CMSG_FIRSTHDR and CMSG_DATA stay inside of it.
        let sent = unsafe {
            let mut message: libc::msghdr = zeroed();
            message.msg_iov = &mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(RIGHTS) as usize;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(RIGHTS) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            data.write_unaligned(descriptors[0].as_raw_fd());
            data.add(1).write_unaligned(descriptors[1].as_raw_fd());
            libc::sendmsg(self.0.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
