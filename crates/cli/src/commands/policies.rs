//! `freehold policies`: the registry of policies and models, for people and programs.

use crate::ui;
use anyhow::Result;
use freehold_blocks::policy::PolicyInfo;
use freehold_lab::models::{self, MODELS};
use freehold_lab::results::SCHEMA_VERSION;
use std::process::ExitCode;

/// List the policies, and models of other allocators, that a trace can be replayed on.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold policies
  freehold policies --json
  freehold replay app.fht --on best-fit,buddy")]
pub struct Args {
    /// Print JSON: {"schema_version": 1, "policies": [{"name", "about", "model"}, …]}.
    #[arg(long)]
    json: bool,
}

/// Prints the list.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.json {
        let one = |policy: &PolicyInfo| {
            let model = MODELS.contains(policy);
            serde_json::json!({ "name": policy.name, "about": policy.about, "model": model })
        };
        let policies: Vec<_> = models::all().map(one).collect();
        let document =
            serde_json::json!({ "schema_version": SCHEMA_VERSION, "policies": policies });
        ui::print(format_args!("{document:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let longest = models::all().map(|policy| policy.name.len()).max().unwrap_or(0);
    let line = |policy: &PolicyInfo| format!("{:longest$}  {}\n", policy.name, policy.about);
    ui::print(models::all().map(line).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
