//! Which function of a stack is the site: not the allocator's own, of C, C++ and Rust.

use freehold_trace::{FrameId, StackId, Stacks};
use std::path::Path;

/// Functions that allocate for others, whole names.
const ALLOCATORS: [&str; 12] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
];
/// Beginnings of such names.
const BEGINNINGS: [&str; 12] = [
    "operator new",
    "std::allocator<",
    "std::allocator_traits<",
    "std::__new_allocator<",
    "__gnu_cxx::new_allocator<",
    "__gnu_cxx::__alloc_traits<",
    "__rdl_",
    "__rustc::__r",
    "alloc::alloc::",
    "<alloc::alloc::Global",
    "alloc::raw_vec::",
    "std::alloc::",
];
/// Middles of such names: the storage of containers.
const MIDDLES: [&str; 3] = ["::_M_allocate(", "::_M_create(", "::_M_get_node("];

fn is_folded(function: &str) -> bool {
    ALLOCATORS.contains(&function)
        || BEGINNINGS.iter().any(|beginning| function.starts_with(beginning))
        || MIDDLES.iter().any(|middle| function.contains(middle))
}

/// A function of a stack, as a site.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Folded {
    pub(super) function: String,
    pub(super) place: Option<String>,
    pub(super) module: Option<String>,
}

impl Folded {
    /// As text: the function, and its place.
    fn text(&self) -> String {
        match &self.place {
            Some(place) => format!("{} {place}", self.function),
            None => self.function.clone(),
        }
    }
}

/// The functions of a frame, the innermost first; never none.
fn functions(stacks: &Stacks, id: FrameId) -> Vec<Folded> {
    let Some(frame) = stacks.frame(id) else { return Vec::new() };
    let module = frame.module.and_then(|module| stacks.modules().get(module as usize));
    let module = module.map(|module| {
        let name = Path::new(&module.path).file_name();
        name.map_or_else(|| module.path.clone(), |name| name.to_string_lossy().into_owned())
    });
    let unnamed = || Folded {
        function: match &module {
            Some(module) => format!("{module}+{:#x}", frame.offset),
            None => format!("code at {:#x}", frame.offset),
        },
        place: None,
        module: module.clone(),
    };
    if frame.calls.is_empty() {
        return vec![unnamed()];
    }
    let named = frame.calls.iter().map(|call| Folded {
        function: call.function.clone(),
        place: call.file.as_ref().map(|file| match call.line {
            Some(line) => format!("{file}:{line}"),
            None => file.clone(),
        }),
        module: module.clone(),
    });
    named.collect()
}

/// All functions of a stack, the innermost first, and whether it is cut.
fn expanded(stacks: &Stacks, stack: StackId) -> (Vec<Folded>, bool) {
    let frames: Vec<FrameId> = stacks.walk(stack).collect();
    let cut = frames.last() == Some(&FrameId::CUT);
    (frames.into_iter().flat_map(|frame| functions(stacks, frame)).collect(), cut)
}

/// Where the site is among the functions: the outermost where all of them are folded.
fn position(functions: &[Folded]) -> usize {
    let own = functions.iter().position(|folded| !is_folded(&folded.function));
    own.unwrap_or(functions.len().saturating_sub(1))
}

/// The site of a stack.
pub(super) fn site(stacks: &Stacks, stack: StackId) -> Folded {
    let (functions, _) = expanded(stacks, stack);
    let at = position(&functions);
    let unknown = || Folded { function: "(no call stack)".into(), ..Folded::default() };
    functions.into_iter().nth(at).unwrap_or_else(unknown)
}

/// Who called a stack's site, the next one first, and whether the rest is unknown.
pub(super) fn callers(stacks: &Stacks, stack: StackId) -> (Vec<String>, bool) {
    let (functions, cut) = expanded(stacks, stack);
    let at = position(&functions);
    (functions.iter().skip(at + 1).map(Folded::text).collect(), cut)
}
