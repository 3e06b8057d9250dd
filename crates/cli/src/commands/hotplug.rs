//! `freehold hotplug`: memory blocks of this machine, which of them could be unplugged, and doing it.

mod text;
mod writer;

use crate::ui;
use anyhow::{Context, Result, bail};
use freehold_core::frames::Interleave;
use freehold_hotplug::apply::{self, Done, Outcome};
use freehold_hotplug::{Machine, Plan, Tree, Wanted};
use freehold_lab::human;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Show which memory could be unplugged from this machine, at what cost, and take it offline.
///
/// Linux unplugs memory in blocks of 128 MiB or more, and says of every block that it is removable. `show` looks at every page:
/// what is free, what can move, what pins the block. `plan` chooses blocks, the emptiest first, while there is room elsewhere for
/// what must move. Both change nothing. `apply` makes such a plan and carries it out. All need root.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold hotplug show
  freehold hotplug plan --node 1 --most-used 100
  freehold hotplug apply --blocks 4 --timeout 30
  freehold hotplug apply --pairs 2              blocks two apart are interleaved: both go or none
  freehold hotplug online 32 33 --movable
  freehold hotplug plan --json | jq .promised_bytes

Exit status: 0 done; 1 something could not be done, or read; 2 the command line was wrong; 130 interrupted.")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Every memory block: state, node, zone, what is in it, whether it could go.
    Show(Look),
    /// Which blocks to take offline, and how much has to move. Changes nothing.
    Plan(PlanArgs),
    /// Make a plan and take its blocks offline, one set after the other. A set that cannot go is put back.
    Apply(ApplyArgs),
    /// Put blocks online again.
    Online(OnlineArgs),
    /// Write a word into a file: what `apply` runs, so that it can be broken off.
    #[command(hide = true)]
    Write {
        /// The file.
        file: PathBuf,
        /// The word.
        word: String,
    },
}

#[derive(clap::Args)]
struct Look {
    /// Print JSON (schema version 1: crates/hotplug/src/blocks.rs).
    #[arg(long)]
    json: bool,
    /// Read a copy of another machine's /sys and /proc in this folder.
    #[arg(long, value_name = "FOLDER")]
    tree: Option<PathBuf>,
}

#[derive(clap::Args)]
struct PlanArgs {
    #[command(flatten)]
    look: Look,
    /// Blocks of this node only.
    #[arg(long, value_name = "NODE")]
    node: Option<u32>,
    /// At most this many blocks.
    #[arg(long, value_name = "COUNT")]
    blocks: Option<u64>,
    /// Leave out blocks that are fuller than this, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100))]
    most_used: u32,
    /// Memory that stays free in addition to what the kernel keeps; half a block by default.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    slack: Option<u64>,
    /// Interleaving ties each block to the one this many blocks further on (a power of two), within windows of twice as many.
    #[arg(long, value_name = "STRIDE", value_parser = stride)]
    pairs: Option<u8>,
}

#[derive(clap::Args)]
struct ApplyArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Give up on a block after this many seconds; then its set is put back.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

#[derive(clap::Args)]
struct OnlineArgs {
    #[command(flatten)]
    look: Look,
    /// The numbers of the blocks, as `show` prints them.
    #[arg(required = true, value_name = "BLOCK")]
    blocks: Vec<u64>,
    /// Into the movable zone, from which they can be taken again.
    #[arg(long)]
    movable: bool,
    /// Give up on a block after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

fn size(text: &str) -> Result<u64, String> {
    human::parse_bytes(text).ok_or_else(|| "a size such as 64M or 1G is meant".to_owned())
}

fn stride(text: &str) -> Result<u8, String> {
    match text.parse::<u32>() {
        Ok(stride) if stride.is_power_of_two() && stride <= 4096 => Ok(stride.ilog2() as u8),
        _ => Err("a power of two up to 4096 is meant".to_owned()),
    }
}

/// Does what was asked.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.what {
        What::Show(look) => show(&look),
        What::Plan(args) => plan(&args),
        What::Apply(args) => apply(&args),
        What::Online(args) => online(&args),
        What::Write { file, word } => writer::write(&file, &word),
    }
}

impl Look {
    fn tree(&self) -> Result<Tree> {
        if let Some(folder) = &self.tree {
            return Ok(Tree::at(folder));
        }
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } != 0 {
            bail!(
                "this needs root: what is in memory is read from /proc/kpageflags, which nobody else may; try sudo"
            );
        }
        Ok(Tree::real())
    }

    fn print(
        &self,
        document: &serde_json::Value,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let mut out = io::stdout().lock();
        let printed = if self.json { writeln!(out, "{document:#}") } else { text(&mut out) };
        printed.and_then(|()| out.flush()).context("cannot print")
    }
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(page).unwrap_or(4096)
}

fn show(look: &Look) -> Result<ExitCode> {
    let machine = Machine::read(&look.tree()?, page_bytes())?;
    let mut document = serde_json::to_value(&machine)?;
    document["schema"] = 1.into();
    document["c"] = json!(machine.c());
    look.print(&document, |out| text::machine(out, &machine))?;
    Ok(ExitCode::SUCCESS)
}

impl PlanArgs {
    fn make(&self, tree: &Tree) -> Result<(Machine, Plan)> {
        let machine = Machine::read(tree, page_bytes())?;
        let wanted = Wanted {
            node: self.node,
            most_blocks: self.blocks,
            most_used: self.most_used * 10,
            slack: self.slack.map(|bytes| bytes / machine.page_bytes),
            interleave: self
                .pairs
                .map_or(Interleave::None, |stride_log2| Interleave::Pairs { stride_log2 }),
        };
        let plan = Plan::new(&machine, &wanted);
        Ok((machine, plan))
    }
}

fn plan_document(machine: &Machine, plan: &Plan) -> serde_json::Value {
    json!({
        "schema": 1,
        "block_bytes": machine.block_bytes,
        "page_bytes": machine.page_bytes,
        "sets": plan.sets,
        "left": plan.left,
        "promised_blocks": plan.blocks(),
        "promised_bytes": plan.blocks() * machine.block_bytes,
        "migrated_bytes": plan.migrated() * machine.page_bytes,
        "migrated_at_most_bytes": plan.migrated_at_most() * machine.page_bytes,
        "free_bytes": machine.free() * machine.page_bytes,
        "offline_bytes": machine.offline() * machine.page_bytes,
        "c": machine.c(),
    })
}

fn plan(args: &PlanArgs) -> Result<ExitCode> {
    let (machine, plan) = args.make(&args.look.tree()?)?;
    args.look.print(&plan_document(&machine, &plan), |out| text::plan(out, &machine, &plan))?;
    Ok(ExitCode::SUCCESS)
}

fn apply(args: &ApplyArgs) -> Result<ExitCode> {
    let tree = args.plan.look.tree()?;
    let (machine, plan) = args.plan.make(&tree)?;
    let stop = ui::interrupted();
    let mut writer = writer::Child { patience: Duration::from_secs(args.timeout) };
    let quiet = args.plan.look.json;
    let tell = |done: &Done| {
        if !quiet {
            // Who does not listen any more does not stop what was begun.
            let _ = writeln!(io::stdout(), "{}", text::done(done));
        }
    };
    let done = apply::apply(&tree, &plan, &mut writer, &|| ui::is_raised(&stop), tell);
    let after = Machine::read(&tree, page_bytes())?;
    let mut document = plan_document(&machine, &plan);
    document["done"] = json!(done);
    document["after"] = json!({
        "offline_bytes": after.offline() * after.page_bytes,
        "free_bytes": after.free() * after.page_bytes,
        "c": after.c(),
        "migrated_bytes": text::moved(&machine, &after),
    });
    args.plan.look.print(&document, |out| text::after(out, &machine, &after, &plan))?;
    Ok(match done.iter().all(|done| done.outcome == Outcome::Offline) {
        _ if ui::is_raised(&stop) => ExitCode::from(ui::EXIT_INTERRUPTED),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn online(args: &OnlineArgs) -> Result<ExitCode> {
    let tree = args.look.tree()?;
    let mut writer = writer::Child { patience: Duration::from_secs(args.timeout) };
    let refused = apply::restore(&tree, &args.blocks, args.movable, &mut writer);
    let list: Vec<_> =
        refused.iter().map(|(block, why)| json!({ "block": block, "why": why })).collect();
    let document = json!({ "schema": 1, "blocks": args.blocks, "refused": list });
    args.look.print(&document, |out| {
        writeln!(out, "{} of {} online", args.blocks.len() - refused.len(), args.blocks.len())
    })?;
    for (block, why) in &refused {
        eprintln!("freehold: block {block}: {why}");
    }
    Ok(if refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
