//! The talk with the parent: connect, say who we are, map what comes, close everything.
//!
//! Invariant: the address is read from the environment once, before the program can change it, and
//! stays; the doorbell, once mapped, stays mapped, in forked children too.

use super::patience::Patience;
use super::thread::Thread;
use super::{filtered, next, process, stacks, sys};
use crate::hello::{
    self, FORK, Hello, IMAGE, KEY_BYTES, LAST, MAGIC, MORE, NAME_BYTES, NOBODY, Welcome,
};
use crate::ring_set::{DOORBELL_BYTES, Doorbell, RingSet, SET_BYTES};
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::size_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering, fence};

/// Longest wait for the parent's answer.
const ANSWER_SECONDS: i64 = 10;
/// Longest that the end of a process waits for the parent's last look.
const LAST_SECONDS: i64 = 1;
/// Turns given to others before sleeping while closed rings wait for the drain.
const TURNS: u32 = 50;
/// One sleep for a closed ring to be free.
const NAP_MS: i64 = 1;

struct Address {
    name: [u8; NAME_BYTES],
    length: usize,
    key: [u8; KEY_BYTES],
}

struct Once(UnsafeCell<Address>);

// SAFETY: written under the process's lock before `STATE` says so, read only after.
unsafe impl Sync for Once {}

static ADDRESS: Once =
    Once(UnsafeCell::new(Address { name: [0; NAME_BYTES], length: 0, key: [0; KEY_BYTES] }));

/// What is known of the address: nothing yet, that there is none, or all.
static STATE: AtomicU32 = AtomicU32::new(UNREAD);
const UNREAD: u32 = 0;
const ABSENT: u32 = 1;
const READ: u32 = 2;

static DOORBELL: AtomicPtr<Doorbell> = AtomicPtr::new(null_mut());

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// Reads the address, if the C library has the environment by now. With the process's lock held.
fn read_address() {
    // SAFETY: `environ` is null or a null-terminated array of strings.
    unsafe {
        if environ.is_null() {
            return;
        }
        let mut entry = environ;
        while !(*entry).is_null() {
            if let Some(text) = value(CStr::from_ptr(*entry).to_bytes()) {
                return set_address(text);
            }
            entry = entry.add(1);
        }
    }
    STATE.store(ABSENT, Ordering::Release);
}

/// The value, if the entry is our variable's.
fn value(entry: &[u8]) -> Option<&[u8]> {
    entry.strip_prefix(hello::VARIABLE.as_bytes())?.strip_prefix(b"=")
}

fn set_address(text: &[u8]) {
    let Some((name, key)) = hello::parse_address(text) else {
        return STATE.store(ABSENT, Ordering::Release);
    };
    // SAFETY: the lock is held and STATE still says that nobody reads.
    let address = unsafe { &mut *ADDRESS.0.get() };
    for (to, from) in address.name.iter_mut().zip(name) {
        *to = *from;
    }
    address.length = name.len();
    address.key = key;
    STATE.store(READ, Ordering::Release);
}

fn address() -> Option<&'static Address> {
    // SAFETY: once STATE is READ (Acquire pairs with the Release above), nobody writes.
    (STATE.load(Ordering::Acquire) == READ).then(|| unsafe { &*ADDRESS.0.get() })
}

impl Address {
    fn name(&self) -> &[u8] {
        self.name.get(..self.length).unwrap_or(&[])
    }
}

/// Opens the recording of this process, if nobody has yet. False if there is none.
pub fn open(thread: &mut Thread, tick: u64) -> bool {
    process::talk(thread, |thread| {
        if process::ticket() == 0 {
            open_locked(thread, tick);
        }
    });
    process::ticket() > process::OVER
}

fn open_locked(thread: &mut Thread, tick: u64) {
    if STATE.load(Ordering::Relaxed) == UNREAD {
        read_address();
    }
    match STATE.load(Ordering::Relaxed) {
        UNREAD => return, // too early: the C library is not up yet
        ABSENT => return process::end(),
        _ => {}
    }
    let parent = process::NUMBER.load(Ordering::Relaxed);
    let what = if parent == NOBODY { IMAGE } else { FORK };
    let forked_by = if thread.numbered_in != 0 { thread.number } else { NOBODY };
    let tick = if thread.fork_tick != 0 { thread.fork_tick } else { tick };
    process::protect();
    match ask(what, parent, forked_by, tick) {
        Some(welcome) => {
            stacks::obey(welcome.stacks);
            process::begin(welcome.process, welcome.clock);
        }
        None => {
            if let Some(bell) = doorbell().filter(|_| filtered::is_set()) {
                bell.filtered.fetch_add(1, Ordering::Relaxed);
            }
            process::end();
        }
    }
}

/// Gets a ring for one more thread: a free one, one that the drain frees just now, or a new set's.
pub fn more(thread: &mut Thread) -> bool {
    process::talk(thread, more_locked)
}

fn more_locked(thread: &mut Thread) -> bool {
    if process::try_take(thread) {
        return true;
    }
    let number = process::NUMBER.load(Ordering::Relaxed);
    // Threads that begin meanwhile take rings without the lock: all of the new set's, if they are many.
    while process::may_grow() && ask(MORE, number, thread.number, 0).is_some() {
        if process::try_take(thread) {
            return true;
        }
    }
    let (mut turns, mut patience) = (0, Patience::new());
    // A closed ring is somebody's soon; one in use may be so for good.
    while process::has_closed_rings() {
        ring_doorbell();
        if turns < TURNS {
            sys::pass();
            turns += 1;
        } else {
            sys::nap(NAP_MS);
            if patience.is_over() {
                process::end();
                return false;
            }
        }
        if process::try_take(thread) {
            return true;
        }
    }
    process::try_take(thread)
}

/// A socket to the parent, or the error number.
fn call(address: &Address) -> Result<sys::Descriptor, i32> {
    if filtered::is_set() { Err(libc::EPERM) } else { sys::connect(address.name()) }
}

/// One exchange with the parent; the set that it gives is added.
fn ask(what: u32, number: u32, thread: u32, tick: u64) -> Option<Welcome> {
    let address = address()?;
    let socket = call(address).ok()?;
    sys::set_patience(&socket, ANSWER_SECONDS);
    let question = Hello::new(address.key, what, number, thread, tick);
    let question = Hello { malloc: next::known_malloc(), ..question };
    if !sys::send(&socket, &question.to_bytes()) {
        return None;
    }
    let (answer, [set, doorbell]) = sys::receive::<{ size_of::<Welcome>() }>(&socket)?;
    let welcome = Welcome::from_bytes(answer);
    if welcome.magic != MAGIC {
        return None;
    }
    if DOORBELL.load(Ordering::Relaxed).is_null() {
        DOORBELL.store(doorbell.map(DOORBELL_BYTES)?.cast(), Ordering::Release);
    }
    let set = set.map(SET_BYTES)?.cast::<RingSet>();
    // SAFETY: a mapping of SET_BYTES that nobody ever unmaps.
    unsafe { process::add(set) };
    Some(welcome)
}

/// The process is about to end: gives the parent time for a last look at its memory. Not in a child of `vfork`, which
/// has its parent's memory. Takes no lock, because a handler of a signal may end the process anywhere.
pub fn last() {
    if filtered::is_set() || process::ticket() <= process::OVER || !process::has_begun() {
        return;
    }
    let Some(address) = address() else { return };
    let Ok(socket) = call(address) else { return };
    sys::set_patience(&socket, LAST_SECONDS);
    let number = process::NUMBER.load(Ordering::Relaxed);
    if sys::send(&socket, &Hello::new(address.key, LAST, number, NOBODY, 0).to_bytes()) {
        // There is no answer but the end of the talk.
        let _ = sys::receive::<{ size_of::<Welcome>() }>(&socket);
    }
}

/// Whether somebody still listens for us.
pub fn parent_lives() -> bool {
    let Some(address) = address() else { return false };
    match call(address) {
        Ok(_) => true,
        // Out of descriptors or memory, or forbidden, says nothing about the parent.
        Err(error) => error != libc::ECONNREFUSED,
    }
}

fn doorbell() -> Option<&'static Doorbell> {
    // SAFETY: null or a mapping that stays; a Doorbell is atomics only.
    unsafe { DOORBELL.load(Ordering::Acquire).as_ref() }
}

/// Wakes the drain if it sleeps. The fence orders the events published before against the look at
/// `sleeping`: the drain sets it, fences, and looks at the rings again before it sleeps.
pub fn ring_doorbell() {
    fence(Ordering::SeqCst);
    if let Some(bell) = doorbell()
        && bell.sleeping.load(Ordering::Relaxed) != 0
        && bell.sleeping.swap(0, Ordering::SeqCst) != 0
    {
        sys::wake(&bell.sleeping);
    }
}

/// The drain's heartbeat.
pub fn heartbeat() -> u32 {
    doorbell().map_or(0, |bell| bell.heartbeat.load(Ordering::Relaxed))
}
