//! Which functions of a library hold a loop: every cycle among the jumps of its disassembly.
//!
//! A jump backwards alone is no loop (compilers put rare code behind and jump back into the common
//! one), and a cycle is one even if it runs forwards first. So the graph of instructions is searched,
//! not the directions of jumps.

use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// One function: its instructions in order, and whom it calls.
#[derive(Debug, Default)]
pub struct Function {
    /// By address: where control can go next, within the function.
    next: BTreeMap<u64, Vec<u64>>,
    /// Functions called or jumped to.
    pub calls: BTreeSet<String>,
}

/// Every function of the library by name. `None` when there is no objdump.
pub fn functions(library: &Path) -> anyhow::Result<Option<BTreeMap<String, Function>>> {
    let command = ["-d", "--no-show-raw-insn", "-C"];
    let Ok(output) = Command::new("objdump").args(command).arg(library).output() else {
        return Ok(None);
    };
    anyhow::ensure!(output.status.success(), "objdump fails on {}", library.display());
    Ok(Some(parse(&String::from_utf8(output.stdout).context("objdump's text")?)))
}

/// Reads what objdump prints.
fn parse(text: &str) -> BTreeMap<String, Function> {
    let mut functions: BTreeMap<String, Function> = BTreeMap::new();
    let mut name = String::new();
    let mut falls_from = None;
    for line in text.lines() {
        if let Some(head) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            name = head.1.to_owned();
            falls_from = None;
            continue;
        }
        let Some((at, code)) = instruction(line) else { continue };
        let function = functions.entry(name.clone()).or_default();
        if let Some(before) = falls_from {
            function.next.entry(before).or_default().push(at);
        }
        function.next.entry(at).or_default();
        let (verb, target) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
        falls_from = (!ends(verb)).then_some(at);
        if verb.starts_with('j') || verb.starts_with("call") {
            match goal(target) {
                Some((to, whom)) if verb.starts_with('j') && whom == name => {
                    function.next.entry(at).or_default().push(to);
                }
                Some((_, whom)) => {
                    function.calls.insert(whom.to_owned());
                }
                None => {}
            }
        }
    }
    functions
}

/// `address: code` of a line.
fn instruction(line: &str) -> Option<(u64, &str)> {
    let (at, code) = line.split_once(":\t")?;
    Some((u64::from_str_radix(at.trim(), 16).ok()?, code.trim()))
}

/// Whether control never goes on behind it.
fn ends(verb: &str) -> bool {
    matches!(verb, "ret" | "retq" | "jmp" | "jmpq" | "ud2" | "int3" | "hlt")
}

/// The address, and the function, of `12af <name+0x34>`.
fn goal(target: &str) -> Option<(u64, &str)> {
    let (at, rest) = target.trim().split_once(" <")?;
    let whom = rest.strip_suffix('>')?;
    let whom = whom.rsplit_once("+0x").map_or(whom, |(whom, _)| whom);
    Some((u64::from_str_radix(at, 16).ok()?, whom))
}

impl Function {
    /// How many loops: jumps back to an instruction that leads to the jump.
    pub fn loops(&self) -> usize {
        let (mut open, mut done, mut loops) = (BTreeSet::new(), BTreeSet::new(), 0);
        for &start in self.next.keys() {
            if done.contains(&start) {
                continue;
            }
            let mut path = vec![(start, 0)];
            open.insert(start);
            while let Some((at, taken)) = path.last_mut() {
                let Some(&to) = self.next.get(at).and_then(|next| next.get(*taken)) else {
                    open.remove(at);
                    done.insert(*at);
                    path.pop();
                    continue;
                };
                *taken += 1;
                if open.contains(&to) {
                    loops += 1;
                } else if !done.contains(&to) && self.next.contains_key(&to) {
                    open.insert(to);
                    path.push((to, 0));
                }
            }
        }
        loops
    }
}

/// The functions that `root` reaches by calls and jumps, itself included, which have loops.
pub fn loops_below(
    functions: &BTreeMap<String, Function>,
    root: &str,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut todo = vec![root.to_owned()];
    while let Some(name) = todo.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(function) = functions.get(&name) else {
            anyhow::ensure!(name != root, "the library has no function {root}");
            continue;
        };
        let loops = function.loops();
        if loops > 0 {
            found.insert(name, loops);
        }
        todo.extend(function.calls.iter().cloned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{loops_below, parse};

    const TEXT: &str = "
0000000000001000 <straight>:
    1000:\ttest   %rdi,%rdi
    1003:\tjne    1010 <straight+0x10>
    1005:\tcall   2000 <round>
    100a:\tret
    1010:\tnop
    1011:\tjmp    1005 <straight+0x5>

0000000000002000 <round>:
    2000:\tdec    %rdi
    2003:\tjne    2000 <round>
    2005:\tret
";

    #[test]
    fn a_cycle_is_a_loop_and_a_jump_back_alone_is_none() {
        let functions = parse(TEXT);
        assert_eq!(functions["straight"].loops(), 0);
        assert_eq!(functions["round"].loops(), 1);
        let below = loops_below(&functions, "straight").expect("it is there");
        assert_eq!(below.into_iter().collect::<Vec<_>>(), [("round".to_owned(), 1)]);
        assert!(loops_below(&functions, "absent").is_err());
    }
}
