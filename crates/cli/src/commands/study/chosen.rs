//! Which settings a study runs with: its default, `--quick`, a file, every `--set`, in this order.

use crate::ui;
use anyhow::{Context, Result};
use freehold_lab::studies::settings::Settings;
use std::fs;
use std::path::PathBuf;

/// The arguments that choose settings, the same for every study that has a settings file.
#[derive(clap::Args)]
pub struct Chosen {
    /// Settings that differ from the default, as TOML.
    file: Option<PathBuf>,
    /// Change one setting; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Fewer attempts, in seconds instead of minutes (unless --set says otherwise).
    #[arg(long)]
    quick: bool,
    /// Print the default settings, with what each means, and run nothing.
    #[arg(long)]
    pub settings: bool,
}

impl Chosen {
    /// `default` is the study's own file, `quick` the changes that `--quick` makes.
    ///
    /// # Errors
    /// The file cannot be read; an unknown key; a value of the wrong kind.
    pub fn settings(&self, default: &str, quick: &[&str]) -> Result<Settings> {
        let mut settings = Settings::of_default(default)?;
        if self.quick {
            quick.iter().try_for_each(|change| settings.set(change))?;
        }
        if let Some(path) = &self.file {
            let name = path.display().to_string();
            let text =
                fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
            settings.lay_over(&name, &text).with_context(|| name.clone())?;
        }
        for change in &self.set {
            settings.set(change).with_context(|| format!("--set {change}"))?;
        }
        Ok(settings)
    }

    /// The command as it could be typed again; `study` as in `freehold study NAME`.
    pub fn command_line(&self, study: &str) -> String {
        let mut words = vec![format!("freehold study {study}")];
        words.extend(self.file.as_ref().map(|file| file.display().to_string()));
        if self.quick {
            words.push("--quick".to_owned());
        }
        words.extend(self.set.iter().map(|change| format!("--set {}", ui::quoted(change))));
        words.join(" ")
    }
}
