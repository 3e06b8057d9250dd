//! How many lines of cache a call touches: the addresses of its loads and stores, and of its instructions.
//!
//! The stepper hands over the registers before every instruction; the disassembly says which of them
//! make an address. The stack is left out, for it is warm whatever the allocator does; so are instructions
//! outside of the measured library. An access that crosses into a second line counts as one.

use anyhow::Context;
use freehold_stepper::{Moment, REGISTERS};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

/// log2 of the bytes of a line.
const LINE_LOG2: u32 = 6;

/// What an offset is added to, beside registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Zero,
    /// Where the library begins.
    Library,
    /// Thread-local storage, whose place is not known: a space of its own.
    Thread,
}

/// How an instruction addresses memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Operand {
    origin: Origin,
    offset: i64,
    /// Places in a [`Moment`]'s registers.
    base: Option<usize>,
    index: Option<usize>,
    scale: i64,
}

/// Below the stack's pointer and above it, in bytes: its red zone, and what callers keep.
const STACK: (u64, u64) = (128, 64 << 10);

/// The instructions of a library that touch memory, by their place in it.
#[derive(Debug)]
pub struct Touches {
    path: PathBuf,
    by_place: HashMap<u64, Operand>,
}

impl Touches {
    /// Of the library at `path`. `None` when there is no objdump.
    pub fn of(path: &Path) -> anyhow::Result<Option<Touches>> {
        let Ok(output) =
            Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(path).output()
        else {
            return Ok(None);
        };
        anyhow::ensure!(output.status.success(), "objdump fails on {}", path.display());
        let text = String::from_utf8(output.stdout).context("objdump's text")?;
        let path = path.canonicalize()?;
        Ok(Some(Touches { path, by_place: text.lines().filter_map(instruction).collect() }))
    }

    /// Lines of data and lines of instructions that these moments touch.
    pub fn count(&self, moments: &[Moment]) -> (u64, u64) {
        let (mut data, mut code) = (BTreeSet::new(), BTreeSet::new());
        let mut object = Object::default();
        for moment in moments {
            if !object.holds(moment.at) {
                object = Object::around(moment.at, &self.path);
            }
            let Some(base) = object.base else { continue };
            code.insert(moment.at >> LINE_LOG2);
            if let Some(operand) = self.by_place.get(&(moment.at - base)) {
                data.extend(operand.address(moment, base).map(|at| at >> LINE_LOG2));
            }
        }
        (data.len() as u64, code.len() as u64)
    }
}

/// A stretch of instructions, and where their library begins if it is the one that is looked at.
#[derive(Default)]
struct Object {
    from: u64,
    to: u64,
    base: Option<u64>,
}

/// Instructions this near to each other are of one library: the stretch that is asked about once.
const PAGE: u64 = 4096;

impl Object {
    fn holds(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }

    fn around(at: u64, path: &Path) -> Object {
        let from = at / PAGE * PAGE;
        // SAFETY: filled by the call, and looked at only if it says so.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: any address may be asked about.
        let found = unsafe { libc::dladdr(at as *const libc::c_void, &raw mut info) } != 0;
        let is_it = found && !info.dli_fname.is_null() && {
            // SAFETY: a string of the loader's, which lives as long as the library.
            let name = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
            name.to_str()
                .is_ok_and(|name| Path::new(name).canonicalize().is_ok_and(|name| name == path))
        };
        Object { from, to: from + PAGE, base: is_it.then_some(info.dli_fbase as u64) }
    }
}

impl Operand {
    /// Where it points at that moment, just before the instruction, in a library at `base`; `None`: at the stack.
    fn address(&self, moment: &Moment, base: u64) -> Option<u64> {
        let register = |at: Option<usize>| at.map_or(0, |at| moment.registers[at]);
        let at = register(self.base)
            .wrapping_add(register(self.index).wrapping_mul(self.scale as u64))
            .wrapping_add(self.offset as u64);
        match self.origin {
            Origin::Zero => {
                let from = moment.stack().saturating_sub(STACK.0);
                (!(from..from + STACK.0 + STACK.1).contains(&at)).then_some(at)
            }
            Origin::Library => Some(base + at),
            Origin::Thread => Some(at ^ 1 << 63),
        }
    }
}

/// Place and operand of a line of disassembly, if it touches memory that counts.
fn instruction(line: &str) -> Option<(u64, Operand)> {
    let (place, code) = line.split_once(":\t")?;
    let place = u64::from_str_radix(place.trim(), 16).ok()?;
    // A prefix is a word of its own.
    let code = ["lock ", "rep ", "repz ", "repnz ", "bnd "]
        .iter()
        .fold(code.trim(), |code, prefix| code.strip_prefix(prefix).unwrap_or(code).trim_start());
    let (verb, operands) = code.split_once(char::is_whitespace)?;
    let touches =
        !verb.starts_with("lea") && !verb.starts_with("nop") && !verb.starts_with("prefetch");
    let operand = touches.then(|| operand(operands)).flatten()?;
    Some((place, operand))
}

/// `-0x8(%rdx,%rcx,8)`, `0x2f3a(%rip)  # 25fd8 <...>`, `%fs:0x28` among the operands of an instruction.
fn operand(operands: &str) -> Option<Operand> {
    let (operands, target) = match operands.split_once('#') {
        Some((operands, target)) => (operands, Some(target.trim())),
        None => (operands, None),
    };
    let origin = if operands.contains("%fs:") { Origin::Thread } else { Origin::Zero };
    let Some((before, inside)) = operands.split_once('(') else {
        let offset = operands.split_once("%fs:")?.1.split(',').next()?;
        return Some(Operand { origin, offset: number(offset)?, ..Operand::default() });
    };
    let inside = inside.split(')').next()?;
    // The offset is what is left of the parenthesis, behind a comma or a segment.
    let offset = before.rsplit([',', ':', '*', ' ']).next().unwrap_or("");
    let offset = if offset.is_empty() { 0 } else { number(offset)? };
    let mut parts = inside.split(',').map(str::trim);
    let base = parts.next().unwrap_or("");
    if base == "%rip" {
        // Where that is stands in the comment.
        let offset = i64::from_str_radix(target?.split_whitespace().next()?, 16).ok()?;
        return Some(Operand { origin: Origin::Library, offset, ..Operand::default() });
    }
    let index = parts.next().and_then(register);
    let scale = parts.next().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    Some(Operand { origin, offset, base: register(base), index, scale })
}

/// Its place in a [`Moment`]'s registers.
fn register(name: &str) -> Option<usize> {
    let name = name.strip_prefix('%')?;
    REGISTERS.iter().position(|known| *known == name)
}

/// A number as objdump writes it.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.trim().strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.trim()),
    };
    let value = u64::from_str_radix(digits.strip_prefix("0x")?, 16).ok()?;
    Some((value as i64).wrapping_mul(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &str) -> Option<Operand> {
        instruction(&format!("  12af:\t{code}")).map(|(_, operand)| operand)
    }

    #[test]
    fn an_operand_says_where_it_points() {
        let at = |name: &str| register(&format!("%{name}"));
        let mut moment = Moment::default();
        for (value, name) in [(0x10_0000, "rdx"), (5, "rcx"), (0x7fff_0000, "rsp")] {
            moment.registers[at(name).unwrap()] = value;
        }
        let points = |code: &str| read(code).and_then(|operand| operand.address(&moment, 0x4000));
        assert_eq!(points("mov    -0x8(%rdx,%rcx,8),%rax"), Some(0x10_0000 + 40 - 8));
        assert_eq!(points("lock xadd %eax,0x10(%rdx)"), Some(0x10_0010));
        assert_eq!(points("tzcnt  0x80(%rdx,%rcx,8),%r8"), Some(0x10_00a8));
        assert_eq!(points("mov    0x2f3a(%rip),%rax        # 25fd8 <x>"), Some(0x4000 + 0x25fd8));
        assert_eq!(points("mov    %fs:0xfffffffffffffff8,%rax"), Some(-8_i64 as u64 ^ 1 << 63));
        assert_eq!(points("jmp    *0x8(,%rcx,8)"), Some(48));
        for none in [
            "lea    0x8(%rdx),%rax",
            "nopw   0x0(%rax,%rax,1)",
            "push   %rbx",
            "mov    %rax,0x8(%rsp)",
        ] {
            assert_eq!(points(none), None, "{none}");
        }
    }
}
