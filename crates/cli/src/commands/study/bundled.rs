//! The bundled program, recorded for a study.

use crate::commands::workload;
use crate::{embedded, ui};
use anyhow::Result;
use freehold_collect::{Options, Stage, WhichStacks};
use std::path::Path;

/// Records the radiosity application run with `arguments` to `path`, without its own output.
pub fn record(path: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = workload::default_program()?;
    command.extend(arguments.iter().map(Into::into));
    let options = Options {
        output: path.to_owned(),
        library: embedded::RECORD.unpack()?,
        stacks: WhichStacks::Off,
        check_stacks: false,
        command,
        environment: None,
        recorder: format!("freehold {}", env!("CARGO_PKG_VERSION")),
        mute: true,
    };
    let mut bar = ui::Progress::new("writing the trace");
    let outcome = freehold_collect::record(&options, &mut |stage| {
        if let Stage::Writing { done, total } = stage {
            bar.set(done, total);
        }
    })?;
    outcome.notes.iter().for_each(|note| eprintln!("freehold: {note}"));
    Ok(())
}
