//! Which function of a call stack is the site: the innermost that the programmer wrote.
//!
//! Five kinds of functions are folded into the one that called them:
//! those that allocate by name (`malloc`, `operator new`); those whose name ends like one (`xmalloc`, `g_realloc`,
//! `strdup`); those of the standard libraries of C++ and Rust (by their names, `std::`, `alloc::`, `core::`, or their source files), which are templates in the
//! program's own code;
//! everything in the C and C++ libraries' files and the loader; and functions without a name that one which allocates calls
//! (`sqlite3Malloc` → `libsqlite3.so.0+0xa7504` → `malloc`). Where nothing else is on the stack, the
//! innermost function that does not allocate by name is the site.
//!
//! Invariant: a node of the trie has the site of its caller unless its own frame has one, so one pass over the nodes knows all.

use super::names::qualified;
use freehold_trace::{Frame, FrameId, StackId, Stacks};
use rustc_hash::FxHashMap;
use std::path::Path;

/// Ends of names of functions that allocate for others.
const ALLOCATING: [&str; 10] = [
    "malloc",
    "calloc",
    "realloc",
    "zalloc",
    "memalign",
    "aligned_alloc",
    "reallocarray",
    "malloc0",
    "strdup",
    "strndup",
];
/// The C++ operators, and Rust's own entrances.
const ENTRANCES: [&str; 6] =
    ["operator new", "__rust_alloc", "__rust_realloc", "__rdl_", "__rg_", "__rustc::__r"];
/// Namespaces of standard libraries.
const STANDARD: [&str; 7] =
    ["std::", "__gnu_cxx::", "__cxxabiv1::", "alloc::", "core::", "hashbrown::", "__rustc::"];
/// Parts of the paths of their source files: debug information may leave out the namespace of a function that was inlined.
const STANDARD_FILES: [&str; 2] = ["/include/c++/", "/rustc/"];
/// Where programs and threads begin, in the program's own file.
const BEGINNINGS: [&str; 2] = ["_start", "_init"];
/// Beginnings of file names of the libraries whose callers count.
const LIBRARIES: [&str; 10] = [
    "libc.so",
    "libc-2",
    "libstdc++.so",
    "libc++.so",
    "libc++abi.so",
    "libgcc_s.so",
    "libpthread",
    "ld-linux",
    "libfreehold_",
    "libheaptrack_",
];

/// How little of a site a function is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    /// The programmer's own.
    Own,
    /// A library's.
    Library,
    /// It allocates, as its name says.
    Allocator,
}

fn rank(function: &Function) -> Rank {
    let name = qualified(&function.name);
    // Versions of a function that the compiler made: `grow.part.0`.
    let last = name.rsplit("::").next().unwrap_or(name);
    let last = last.split('.').next().unwrap_or(last).to_ascii_lowercase();
    let allocates = ALLOCATING.iter().any(|end| last.ends_with(end))
        || ENTRANCES.iter().any(|entrance| name.starts_with(entrance));
    if allocates {
        return Rank::Allocator;
    }
    let module = function.module.as_deref().unwrap_or_default();
    let place = function.place.as_deref().unwrap_or_default();
    let of_library = LIBRARIES.iter().any(|library| module.starts_with(library))
        || STANDARD_FILES.iter().any(|part| place.contains(part));
    match of_library || is_standard(name) || BEGINNINGS.contains(&name) {
        true => Rank::Library,
        false => Rank::Own,
    }
}

fn is_standard(name: &str) -> bool {
    let begins = |name: &str| STANDARD.iter().any(|space| name.starts_with(space));
    // Rust: `<Type as Trait>::function`. A programmer's type, or trait, is the programmer's.
    let Some((owner, of)) = name.strip_prefix('<').and_then(|rest| rest.split_once(" as ")) else {
        return begins(name.trim_start_matches(['<', '&']));
    };
    let owner = owner.trim_start_matches(['&', '[', '*']);
    begins(of) && (begins(owner) || !owner.contains("::"))
}

/// A function of a stack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Function {
    /// Its whole name, or module and offset where it has none.
    pub(super) name: String,
    /// File and line.
    pub(super) place: Option<String>,
    pub(super) module: Option<String>,
}

/// The functions of a frame, the innermost first; never none.
pub(super) fn functions(stacks: &Stacks, frame: &Frame) -> Vec<Function> {
    let module = frame.module.and_then(|module| stacks.modules().get(module as usize));
    let module = module.map(|module| {
        let name = Path::new(&module.path).file_name();
        name.map_or_else(|| module.path.clone(), |name| name.to_string_lossy().into_owned())
    });
    if frame.calls.is_empty() {
        let name = match &module {
            Some(module) => format!("{module}+{:#x}", frame.offset),
            None => format!("code at {:#x}", frame.offset),
        };
        return vec![Function { name, place: None, module }];
    }
    let named = frame.calls.iter().map(|call| Function {
        name: call.function.clone(),
        place: call.file.as_ref().map(|file| match call.line {
            Some(line) => format!("{file}:{line}"),
            None => file.clone(),
        }),
        module: module.clone(),
    });
    named.collect()
}

/// Sites by number, and a rank each.
type Ranked = (Rank, u32);

/// Which site each stack of a trace belongs to.
pub(super) struct Folding {
    /// By node; the first is that of no stack.
    of_node: Vec<u32>,
    sites: Vec<Function>,
    /// Of each frame its site, were it alone, and the number of its functions: frames of the same ones have the same.
    of_frame: Vec<(u32, u32)>,
}

impl Folding {
    /// Folds all stacks.
    pub(super) fn new(stacks: &Stacks) -> Folding {
        let mut numbers: FxHashMap<Function, u32> = FxHashMap::default();
        let mut sites = vec![Function { name: super::NO_STACK.into(), ..Function::default() }];
        let mut of_frame = Vec::with_capacity(stacks.frames().len());
        let mut same: FxHashMap<Vec<String>, u32> = FxHashMap::default();
        let mut numbers_of_functions = Vec::with_capacity(stacks.frames().len());
        for frame in stacks.frames() {
            let functions = functions(stacks, frame);
            let next = same.len() as u32;
            let names = functions.iter().map(|function| function.name.clone()).collect();
            numbers_of_functions.push(*same.entry(names).or_insert(next));
            of_frame.push(best(functions).map(|(rank, function)| {
                let number = *numbers.entry(function.clone()).or_insert_with(|| {
                    sites.push(function);
                    sites.len() as u32 - 1
                });
                (rank, number)
            }));
        }
        let mut of_node: Vec<Ranked> = Vec::with_capacity(stacks.len() + 1);
        of_node.push((Rank::Allocator, 0));
        let mut is_allocators = vec![false; stacks.len() + 1];
        for node in 1..=stacks.len() as u32 {
            let (parent, frame) = stacks.node(StackId(node)).unwrap_or_default();
            let outer = of_node.get(parent.0 as usize).copied().unwrap_or((Rank::Allocator, 0));
            let own = (frame.0 as usize).checked_sub(1).and_then(|at| *of_frame.get(at)?);
            let is_named = stacks.frame(frame).is_some_and(|frame| !frame.calls.is_empty());
            let inside = !is_named && is_allocators[parent.0 as usize];
            is_allocators[node as usize] =
                inside || (is_named && own.is_some_and(|(rank, _)| rank == Rank::Allocator));
            of_node.push(match own {
                _ if inside && outer.1 != 0 => outer,
                // Of equals the inner one; but of functions that allocate the outer one.
                Some(own) if own.0 < outer.0 || outer.1 == 0 => own,
                Some(own) if own.0 == outer.0 && own.0 != Rank::Allocator => own,
                _ => outer,
            });
        }
        let sites_of_frames = of_frame.into_iter().map(|best| best.map_or(0, |(_, site)| site));
        Folding {
            of_node: of_node.into_iter().map(|(_, site)| site).collect(),
            sites,
            of_frame: sites_of_frames.zip(numbers_of_functions).collect(),
        }
    }

    /// The number of a frame's functions, whatever their lines.
    pub(super) fn functions_of(&self, frame: FrameId) -> u32 {
        self.frame(frame).map_or(u32::MAX, |(_, functions)| functions)
    }

    /// A stack without what its site called.
    pub(super) fn outwards_of_site(&self, stacks: &Stacks, stack: StackId) -> StackId {
        let (site, mut at) = (self.site(stack), stack);
        while let Some((outer, frame)) = stacks.node(at) {
            if self.frame(frame).is_some_and(|(own, _)| own == site) {
                break;
            }
            at = outer;
        }
        at
    }

    fn frame(&self, frame: FrameId) -> Option<(u32, u32)> {
        self.of_frame.get((frame.0 as usize).checked_sub(1)?).copied()
    }

    /// How many there are.
    pub(super) fn sites(&self) -> usize {
        self.sites.len()
    }

    /// The site of a stack, by its number.
    #[inline]
    pub(super) fn site(&self, stack: StackId) -> u32 {
        self.of_node.get(stack.0 as usize).copied().unwrap_or(0)
    }

    /// The function that a site is.
    pub(super) fn function(&self, site: u32) -> &Function {
        &self.sites[site as usize]
    }
}

/// The function of a frame that is most of a site: the innermost of the best rank.
fn best(functions: Vec<Function>) -> Option<(Rank, Function)> {
    let ranked = functions.into_iter().map(|f| (rank(&f), f));
    ranked.min_by_key(|(rank, _)| *rank)
}

/// A stack around its site.
pub(super) struct Around {
    /// Who called the site, the next one first.
    pub(super) callers: Vec<Function>,
    /// What the site called: a function of a library that allocates, but not the allocator itself.
    pub(super) via: Option<Function>,
    /// The outermost callers are unknown.
    pub(super) cut: bool,
}

/// What stands around the site of a stack.
pub(super) fn around(stacks: &Stacks, stack: StackId, site: &Function) -> Around {
    let all = expanded(stacks, stack);
    let cut = stacks.walk(stack).last() == Some(FrameId::CUT);
    let at = all.iter().position(|function| function == site);
    let inner = &all[..at.unwrap_or(0)];
    let is_library = |f: &&Function| rank(f) == Rank::Library;
    let via = inner.last().filter(is_library).cloned();
    let mut callers: Vec<Function> =
        all.iter().skip(at.map_or(all.len(), |at| at + 1)).cloned().collect();
    // Who calls main says nothing.
    let is_own = |f: &Function| rank(f) == Rank::Own;
    callers.truncate(callers.iter().rposition(is_own).map_or(0, |last| last + 1));
    Around { callers, via, cut }
}

/// All functions of a stack, the innermost first.
pub(super) fn expanded(stacks: &Stacks, stack: StackId) -> Vec<Function> {
    let frames = stacks.walk(stack).filter_map(|frame| stacks.frame(frame));
    frames.flat_map(|frame| functions(stacks, frame)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wrote_a_function_is_known_by_its_name_and_file() {
        for (function, module, expected) in [
            ("malloc", None, Rank::Allocator),
            ("xmalloc", Some("git"), Rank::Allocator),
            ("operator new(unsigned long)", Some("libstdc++.so.6"), Rank::Allocator),
            (
                "std::__new_allocator<int>::allocate(unsigned long, void const*)",
                Some("app"),
                Rank::Library,
            ),
            ("void std::vector<A>::push_back(A&&)", Some("app"), Rank::Library),
            ("std::vector<int> make<int>(int)", Some("app"), Rank::Own),
            ("_IO_file_doallocate", Some("libc.so.6"), Rank::Library),
            ("<alloc::vec::Vec<T> as core::clone::Clone>::clone", Some("app"), Rank::Library),
            ("<app::Item as core::clone::Clone>::clone", Some("app"), Rank::Own),
            ("<str as alloc::string::ToString>::to_string", Some("app"), Rank::Library),
            ("_start", Some("app"), Rank::Library),
            ("allocate_rooms(int)", Some("app"), Rank::Own),
        ] {
            let module = module.map(str::to_owned);
            let known = Function { name: function.into(), place: None, module };
            assert_eq!(rank(&known), expected, "{function}");
        }
        let inlined = |name: &str, file: &str| {
            rank(&Function { name: name.into(), place: Some(format!("{file}:7")), module: None })
        };
        assert_eq!(inlined("_M_get_node", "/usr/include/c++/14/bits/stl_tree.h"), Rank::Library);
        assert_eq!(inlined("call_once", "/rustc/59807/library/core/src/ops.rs"), Rank::Library);
        assert_eq!(inlined("make_node", "/src/tree.h"), Rank::Own);
    }
}
