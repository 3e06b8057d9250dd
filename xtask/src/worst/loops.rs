//! Which functions of a library hold a loop, and how long those without can take: from its disassembly.
//!
//! A jump backwards alone is no loop (compilers put rare code behind and jump back into the common
//! one), and a cycle is one even if it runs forwards first. So the graph of instructions is searched,
//! not the directions of jumps. Where there is no cycle, the longest path through the graph is a bound on the
//! instructions of a call that no adversary has to find: every call takes some path.

use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// One function: its instructions in order, and whom they call.
#[derive(Debug, Default)]
pub struct Function {
    /// By address: where control can go next, within the function.
    next: BTreeMap<u64, Vec<u64>>,
    /// By address: the function called or jumped to.
    calls: BTreeMap<u64, String>,
    /// Jumps and calls by register or memory: where they lead is not known here.
    blind: usize,
}

/// Every function by its name.
pub type Functions = BTreeMap<String, Function>;

/// Every function of the library by name. `None` when there is no objdump.
pub fn functions(library: &Path) -> anyhow::Result<Option<Functions>> {
    let command = ["-d", "--no-show-raw-insn", "-C"];
    let Ok(output) = Command::new("objdump").args(command).arg(library).output() else {
        return Ok(None);
    };
    anyhow::ensure!(output.status.success(), "objdump fails on {}", library.display());
    Ok(Some(parse(&String::from_utf8(output.stdout).context("objdump's text")?)))
}

/// Reads what objdump prints.
fn parse(text: &str) -> Functions {
    let mut functions = Functions::new();
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
                    function.calls.insert(at, whom.to_owned());
                }
                None => function.blind += 1,
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
    /// How many loops: jumps back to an instruction that leads to the jump, and jumps to who knows where.
    pub fn loops(&self) -> usize {
        let (mut open, mut done, mut loops) = (BTreeSet::new(), BTreeSet::new(), self.blind);
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

/// The most instructions that a call of `root` can take, with all that it calls but functions that are `rare`
/// (by the ends of their names), whose calls count as one. `None` where a loop is, or a function that is not in the
/// library.
pub fn longest(functions: &Functions, root: &str, rare: &[&str]) -> Option<u64> {
    let function = functions.get(root).filter(|function| function.loops() == 0)?;
    let mut lengths = BTreeMap::new();
    // No cycle: a walk along jumps ends, and a place is done when all behind it are.
    let mut todo = vec![*function.next.keys().next()?];
    while let Some(&at) = todo.last() {
        let next = function.next.get(&at)?;
        let before = todo.len();
        todo.extend(next.iter().filter(|to| !lengths.contains_key(*to)));
        if todo.len() > before {
            continue;
        }
        todo.pop();
        let called = match function.calls.get(&at) {
            Some(whom) if !rare.iter().any(|rare| whom.ends_with(rare)) => {
                longest(functions, whom, rare)?
            }
            _ => 0,
        };
        let behind = next.iter().map(|to| lengths[to]).max().unwrap_or(0);
        lengths.insert(at, 1 + called + behind);
    }
    lengths.into_values().max()
}

/// The functions that `root` reaches by calls and jumps, itself included, which have loops.
pub fn loops_below(functions: &Functions, root: &str) -> anyhow::Result<BTreeMap<String, usize>> {
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
        todo.extend(function.calls.values().cloned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{longest, loops_below, parse};

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

    #[test]
    fn the_longest_path_takes_the_longer_way_and_what_it_calls() {
        let functions = parse(TEXT);
        assert_eq!(longest(&functions, "straight", &["round"]), Some(6), "by 1010");
        assert_eq!(longest(&functions, "straight", &[]), None, "it calls a loop");
        let calls = TEXT.replace("jne    2000 <round>", "jne    2005 <round+0x5>");
        assert_eq!(longest(&parse(&calls), "straight", &[]), Some(6 + 3));
        let blind = calls.replace("jne    2005 <round+0x5>", "jmp    *%rax");
        assert_eq!(longest(&parse(&blind), "round", &[]), None, "it leads who knows where");
    }
}
