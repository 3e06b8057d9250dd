//! Starting, parking and joining the threads of the recorded program.
//!
//! Invariant: never more threads are alive than the trace had at the same place. A spawn waits for
//! the spawns before it, then *joins* the threads that had ended before it, so that their exit
//! handlers (where a malloc flushes its caches) have run too. Only the thread whose turn it is to
//! spawn touches the yard; the gate hands it on.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use freehold_replayer::Op;

use crate::engine::{self, World};
use crate::gate::Gate;
use crate::sys::{Pages, fatal, map_shared, table};

/// Bytes of a thread's stack, its guard page and its static thread-local storage included. The loop
/// needs a page or two; the rest is for the malloc under test.
const STACK_BYTES: usize = 256 << 10;
const GUARD_BYTES: usize = 4096;

/// Where threads are kept.
pub struct Yard {
    /// Spawns done.
    spawned: Gate,
    /// Threads that have done all their work but stay until the process exits.
    parked: Gate,
    /// `pthread_t` of each thread; written before `spawned` or the join order makes it readable.
    handles: &'static [AtomicU64],
    /// Start of each thread's stack.
    stacks: &'static [AtomicU64],
    lot: Mutex<Lot>,
}

/// What only the thread at the gate touches.
struct Lot {
    /// How many of the end table have been joined.
    joined: usize,
    /// How many stacks of joined threads have been taken again, in the order of the end table.
    reusable: usize,
}

impl Yard {
    /// For `threads` threads, the main one included.
    pub fn new(threads: usize) -> Yard {
        Yard {
            spawned: Gate::new(),
            parked: Gate::new(),
            handles: table(threads, Pages::Now),
            stacks: table(threads, Pages::Now),
            lot: Mutex::new(Lot { joined: 0, reusable: 0 }),
        }
    }
}

/// Carries out a spawn.
#[cold]
pub fn spawn(world: &'static World, op: Op) {
    let yard = &world.yard;
    yard.spawned.wait_for(op.turn());
    let mut lot = yard.lot.lock().unwrap_or_else(PoisonError::into_inner);
    join_ended(world, &mut lot, op.size() as usize);
    let thread = op.slot() as usize;
    let stack = take_stack(world, &mut lot);
    yard.stacks[thread].store(stack as u64, Relaxed);
    yard.handles[thread].store(start(world, thread, stack), Relaxed);
    drop(lot);
    yard.spawned.raise();
}

/// The end of a thread that the trace left alive: it stays, with its caches, until the process exits.
pub fn park(world: &World) -> ! {
    world.yard.parked.raise();
    loop {
        // SAFETY: sleeps until a signal; touches no memory.
        unsafe { libc::pause() };
    }
}

/// Waits until all threads but the main one have ended or parked. Only for the main thread, after
/// its own stream.
pub fn wait_for_all(world: &'static World) {
    let others = world.plan.header.threads - 1;
    world.yard.spawned.wait_for(others as u32);
    let ended = world.plan.header.ended;
    let mut lot = world.yard.lot.lock().unwrap_or_else(PoisonError::into_inner);
    join_ended(world, &mut lot, ended as usize);
    drop(lot);
    world.yard.parked.wait_for((others - ended) as u32);
}

fn join_ended(world: &World, lot: &mut Lot, until: usize) {
    while lot.joined < until {
        let thread = world.plan.ended(lot.joined);
        let handle = world.yard.handles[thread].load(Relaxed);
        // SAFETY: the end table names each thread once, after its spawn; `joined` only grows, so
        // each handle is joined once. Nobody detaches.
        unsafe { libc::pthread_join(handle, ptr::null_mut()) };
        lot.joined += 1;
    }
}

/// A stack nobody uses: that of a joined thread, or a new one.
fn take_stack(world: &World, lot: &mut Lot) -> *mut u8 {
    if lot.reusable < lot.joined {
        let thread = world.plan.ended(lot.reusable);
        lot.reusable += 1;
        return world.yard.stacks[thread].load(Relaxed) as usize as *mut u8;
    }
    let stack = map_shared(STACK_BYTES, -1, Pages::Lazily);
    // SAFETY: the page belongs to the mapping just made, which nobody uses yet.
    unsafe { libc::mprotect(stack.cast(), GUARD_BYTES, libc::PROT_NONE) };
    stack
}

fn start(world: &'static World, thread: usize, stack: *mut u8) -> libc::pthread_t {
    let mut handle: libc::pthread_t = 0;
    // SAFETY: the attributes are initialised before use; the stack is a mapping of STACK_BYTES that
    // no living thread uses; `enter` takes the thread's number for its argument.
    let error = unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstack(
            &raw mut attributes,
            stack.add(GUARD_BYTES).cast(),
            STACK_BYTES - GUARD_BYTES,
        );
        let argument = ptr::without_provenance_mut::<c_void>(thread);
        let error = libc::pthread_create(&raw mut handle, &raw const attributes, enter, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        error
    };
    if error != 0 {
        let alive = world.plan.header.threads;
        fatal(format_args!("cannot start thread {thread} of {alive}: error {error}"));
    }
    handle
}

extern "C" fn enter(argument: *mut c_void) -> *mut c_void {
    let world = engine::world();
    world.run_stream(argument.addr(), world.plan.start_of(argument.addr()));
    ptr::null_mut()
}
