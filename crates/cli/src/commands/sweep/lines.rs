//! Missing cells as commands, one a line, for whoever distributes commands.
//!
//! A line is one trace under one limit, on all policies: a cell alone would be too short to be worth a process.

use super::Args;
use crate::ui::quoted;
use freehold_lab::sweep::{Job, Subject};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The commands.
pub fn of<'a>(args: &Args, missing: impl Iterator<Item = &'a Job>) -> String {
    // By the order of their first cells.
    let (mut lines, mut known): (Vec<(String, Line)>, _) = (Vec::new(), HashMap::new());
    for job in missing {
        let head = head(job);
        let at = *known.entry(head.clone()).or_insert(lines.len());
        if at == lines.len() {
            lines.push((head, Line::default()));
        }
        lines[at].1.add(job);
    }
    let out = quoted(&args.out.to_string_lossy());
    let mut text = String::new();
    for (head, line) in lines {
        let command = format!("freehold sweep {head}{} --part --out {out}", line.words());
        let _ = match args.json {
            true => writeln!(text, "{}", json!({ "command": command, "cells": line.cells })),
            false => writeln!(text, "{command}"),
        };
    }
    text
}

/// What the cells of a line share.
fn head(job: &Job) -> String {
    match &job.cell.subject {
        Subject::Replay { trace, limit, .. } => {
            format!("--traces {} --limit {limit}", quoted(&trace.to_string_lossy()))
        }
        Subject::Study { name, quick } => {
            let set = job.cell.set.iter().map(|(name, value)| setting(name, &[value.as_str()]));
            let quick = if *quick { " --quick" } else { "" };
            format!("--study {}{quick}{}", quoted(name), set.collect::<String>())
        }
    }
}

/// What they do not share.
#[derive(Default)]
struct Line<'a> {
    cells: Vec<&'a str>,
    on: Vec<&'a str>,
    set: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Line<'a> {
    fn add(&mut self, job: &'a Job) {
        self.cells.extend(job.name.as_deref());
        let Subject::Replay { on, .. } = &job.cell.subject else { return };
        if !self.on.contains(&on.as_str()) {
            self.on.push(on);
        }
        for (name, value) in &job.cell.set {
            let values = self.set.entry(name).or_default();
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
    }

    fn words(&self) -> String {
        let on = match self.on.is_empty() {
            true => String::new(),
            false => format!(" --on {}", quoted(&self.on.join(","))),
        };
        let set = self.set.iter().map(|(name, values)| setting(name, values));
        on + &set.collect::<String>()
    }
}

fn setting(name: &str, values: &[&str]) -> String {
    format!(" --set {}", quoted(&format!("{name}={}", values.join(","))))
}
