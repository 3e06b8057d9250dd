//! Addresses become modules and offsets, and those get names.

use super::symbols::Names;
use super::{Mapped, Place, Trie};
use crate::finish::plan::Plan;
use freehold_trace::{Call, Frame, Module, Stacks};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs;

impl Trie {
    /// The stacks for the trace. Reads the files of the modules, as they are now.
    pub fn resolve(self, plan: &Plan) -> Stacks {
        let Trie { mut stacks, places, modules, families, .. } = self;
        let mut known: FxHashMap<(String, String), u32> = FxHashMap::default();
        let mut by_module: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            let mapped = modules.get(&place.family).and_then(|all| find(all, place));
            let frame = match mapped {
                None => Frame { offset: place.address, exact: place.exact, ..Frame::default() },
                Some(mapped) => {
                    let key = (mapped.path.clone(), mapped.build_id.clone());
                    let module = *known.entry(key).or_insert_with_key(|(path, build_id)| {
                        let (path, build_id) = (path.clone(), build_id.clone());
                        stacks.add_module(Module { path, build_id })
                    });
                    by_module.entry(module).or_default().push(at);
                    let offset = place.address.wrapping_sub(mapped.bias);
                    Frame { module: Some(module), offset, exact: place.exact, calls: Vec::new() }
                }
            };
            stacks.frames_mut()[at] = frame;
        }
        for (module, frames) in by_module {
            let names = Names::of(&stacks.modules()[module as usize]);
            name(&mut stacks, &names, &frames);
        }
        let pids = plan.processes.values().filter_map(|process| {
            let family = families.get(&process.info.id.0)?;
            Some((*family, process.info.os_pid))
        });
        name_jit(&mut stacks, &places, pids.collect());
        stacks
    }
}

/// The module of a frame.
fn find<'a>(modules: &'a [Mapped], place: &Place) -> Option<&'a Mapped> {
    modules.iter().find(|module| {
        module.generation == place.generation
            && module.start <= place.address
            && place.address < module.end
    })
}

/// Names frames of one module. The same offset stands in several families.
fn name(stacks: &mut Stacks, names: &Names, frames: &[usize]) {
    let mut known: FxHashMap<u64, Vec<Call>> = FxHashMap::default();
    for &at in frames {
        let frame = &mut stacks.frames_mut()[at];
        let address = frame.offset.wrapping_sub(u64::from(!frame.exact));
        frame.calls = known.entry(address).or_insert_with(|| names.calls(address)).clone();
    }
}

/// Code made at run time, by the maps that runtimes leave for profilers: `/tmp/perf-PID.map`, a line for each function:
/// begin and size in hexadecimal digits, and the name.
fn name_jit(stacks: &mut Stacks, places: &[Place], pids: Vec<(u32, u32)>) {
    let mut maps: BTreeMap<u32, BTreeMap<u64, (u64, String)>> = BTreeMap::new();
    for (family, pid) in pids {
        let Ok(text) = fs::read(format!("/tmp/perf-{pid}.map")) else { continue };
        let map = maps.entry(family).or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            let mut parts = line.splitn(3, ' ');
            let mut number =
                || u64::from_str_radix(parts.next()?.trim_start_matches("0x"), 16).ok();
            if let (Some(begin), Some(size)) = (number(), number()) {
                let name = parts.next().unwrap_or_default().to_owned();
                map.insert(begin, (begin.saturating_add(size), name));
            }
        }
    }
    for (frame, place) in stacks.frames_mut().iter_mut().zip(places) {
        let Some(map) = maps.get(&place.family).filter(|_| frame.module.is_none()) else {
            continue;
        };
        let address = place.address.wrapping_sub(u64::from(!place.exact));
        if let Some((_, (end, function))) = map.range(..=address).next_back()
            && address < *end
        {
            frame.calls = vec![Call { function: function.clone(), file: None, line: None }];
        }
    }
}
