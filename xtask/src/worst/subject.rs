//! Who is measured: functions out of a shared library, called over memory of ours.

use super::step::{Call, Stepper};
use anyhow::Context;
use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;

/// An allocator's three functions: `create(memory, size, 32)`, `malloc(heap, size)`, `free(heap, block)`.
pub struct Subject {
    /// What the table calls it.
    pub name: String,
    create: Option<unsafe extern "C" fn(*mut u8, usize, usize) -> usize>,
    malloc: Call,
    free: Call,
}

/// The smallest block that strict mode is given; others ignore it.
const SMALLEST: usize = 32;

unsafe extern "C" fn libc_malloc(_: usize, size: usize) -> usize {
    // SAFETY: any size will do.
    unsafe { libc::malloc(size) as usize }
}

unsafe extern "C" fn libc_free(_: usize, block: usize) -> usize {
    // SAFETY: the player frees what `libc_malloc` gave, once.
    unsafe { libc::free(block as *mut libc::c_void) };
    0
}

impl Subject {
    /// Three functions of a library.
    pub fn of(name: &str, library: &Path, functions: [&str; 3]) -> anyhow::Result<Subject> {
        let path = CString::new(library.to_str().context("a path that is not UTF-8")?)?;
        // SAFETY: loading runs the library's initialisers; the user named it.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        anyhow::ensure!(!handle.is_null(), "{name}: {} cannot be loaded", library.display());
        let find = |function: &str| {
            let symbol = CString::new(function)?;
            // SAFETY: the handle is open.
            let at = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            anyhow::ensure!(!at.is_null(), "{name}: {} has no {function}", library.display());
            Ok(at)
        };
        let [create, malloc, free] = functions;
        let (create, malloc, free) = (find(create)?, find(malloc)?, find(free)?);
        // SAFETY: functions of C with these parameters, or fewer of them.
        unsafe {
            Ok(Subject {
                name: name.to_owned(),
                create: Some(std::mem::transmute::<
                    *mut libc::c_void,
                    unsafe extern "C" fn(*mut u8, usize, usize) -> usize,
                >(create)),
                malloc: std::mem::transmute::<*mut libc::c_void, Call>(malloc),
                free: std::mem::transmute::<*mut libc::c_void, Call>(free),
            })
        }
    }

    /// The C library's malloc, which has no region: it takes what it needs.
    pub fn libc() -> Subject {
        Subject { name: "glibc".to_owned(), create: None, malloc: libc_malloc, free: libc_free }
    }
}

/// The worst of some calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// Instructions of the longest malloc.
    pub malloc: u64,
    /// Instructions of the longest free.
    pub free: u64,
    /// How many calls were counted.
    pub calls: u64,
}

impl Worst {
    /// The worse of both.
    pub fn max(self, other: Worst) -> Worst {
        Worst {
            malloc: self.malloc.max(other.malloc),
            free: self.free.max(other.free),
            calls: self.calls + other.calls,
        }
    }
}

/// One heap of a subject, played on.
pub struct Player<'a> {
    subject: &'a Subject,
    stepper: &'a mut Stepper,
    heap: usize,
    /// How many bytes the heap was given.
    pub len: usize,
    /// Blocks in use, and the byte each is filled with.
    held: HashMap<usize, u8>,
    /// The worst so far.
    pub worst: Worst,
    /// Calls made, and one in how many is counted.
    made: u64,
    stride: u64,
    _memory: Memory,
}

/// Page-aligned memory, zero at first.
struct Memory {
    at: *mut u8,
    layout: std::alloc::Layout,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `Player::new` with this layout.
        unsafe { std::alloc::dealloc(self.at, self.layout) };
    }
}

/// At most so many bytes of a block are written and compared.
const MARKED: usize = 16;

impl<'a> Player<'a> {
    /// A new heap of `len` bytes.
    pub fn new(
        subject: &'a Subject,
        stepper: &'a mut Stepper,
        len: usize,
        stride: usize,
    ) -> anyhow::Result<Self> {
        let layout = std::alloc::Layout::from_size_align(len, 1 << 21)?;
        // SAFETY: the layout is not empty.
        let at = unsafe { std::alloc::alloc_zeroed(layout) };
        anyhow::ensure!(!at.is_null(), "no memory for a heap of {len} bytes");
        let memory = Memory { at, layout };
        // SAFETY: the memory is the heap's alone until the player ends.
        let heap = subject.create.map_or(1, |create| unsafe { create(at, len, SMALLEST) });
        anyhow::ensure!(heap != 0, "{} makes no heap of {len} bytes", subject.name);
        Ok(Player {
            subject,
            stepper,
            heap,
            len,
            held: HashMap::new(),
            worst: Worst::default(),
            made: 0,
            stride: stride as u64,
            _memory: memory,
        })
    }

    /// Makes a call: counted if it is its turn, which looks random and is the same on every run.
    fn call(&mut self, function: Call, argument: usize) -> (usize, u64) {
        self.made += 1;
        if (self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(self.stride) {
            self.worst.calls += 1;
            return self.stepper.count(function, self.heap, argument);
        }
        // SAFETY: the same call as the counted one.
        (unsafe { function(self.heap, argument) }, 0)
    }

    /// Asks for a block.
    pub fn malloc(&mut self, size: usize) -> Option<usize> {
        let (block, steps) = self.call(self.subject.malloc, size);
        self.worst.malloc = self.worst.malloc.max(steps);
        if block == 0 {
            return None;
        }
        let mark = self.made as u8;
        // SAFETY: the block is ours and has so many bytes.
        unsafe { (block as *mut u8).write_bytes(mark, size.min(MARKED)) };
        let twice = self.held.insert(block, mark);
        assert!(twice.is_none(), "{}: a block was given out twice", self.subject.name);
        Some(block)
    }

    /// Gives a block of `size` bytes back.
    pub fn free(&mut self, block: usize, size: usize) {
        let mark = self.held.remove(&block).expect("the programs free what they hold");
        // SAFETY: the block is ours and has so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(block as *const u8, size.min(MARKED)) };
        assert!(bytes.iter().all(|&byte| byte == mark), "{}: overwritten", self.subject.name);
        let (_, steps) = self.call(self.subject.free, block);
        self.worst.free = self.worst.free.max(steps);
    }
}
