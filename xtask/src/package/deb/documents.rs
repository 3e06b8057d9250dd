//! What Debian's policy wants of every package: changelog, copyright, and what lintian is told.

use super::{VERSION, compress};
use crate::package::{put, root};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The project has no address of its own yet, so this one is none; `OVERRIDES` says so to lintian.
pub const MAINTAINER: &str = "The Freehold developers <freehold@localhost>";

/// What lintian reports and what stays as it is, with the reason.
const OVERRIDES: &str = "# The project has no address of its own yet. Who publishes the package puts theirs.\nbogus-mail-host *\nbogus-mail-host-in-debian-changelog *\n\
                         # Nobody has published the package in Debian, so there is no report that it closes.\n\
                         initial-upload-closes-no-bugs *\n";

/// The commit that packages are built of: its day is theirs.
pub struct Revision {
    /// Since 1970.
    pub seconds: String,
    /// As changelogs write it.
    date: String,
}

impl Revision {
    pub fn of_the_sources() -> Result<Revision> {
        let arguments = ["log", "-1", "--format=%ct%n%cD"];
        let output = Command::new("git").args(arguments).current_dir(root()).output();
        let output = output.context("git is needed: packages bear their commit's date")?;
        if !output.status.success() {
            bail!("git log: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let said = String::from_utf8(output.stdout)?;
        let (seconds, date) = said.trim().split_once('\n').context("git log prints two lines")?;
        Ok(Revision { seconds: seconds.to_owned(), date: date.to_owned() })
    }
}

/// Adds them to a package's folder.
pub fn add(package: &str, folder: &Path, revision: &Revision) -> Result<()> {
    let documents = folder.join("usr/share/doc").join(package);
    put(&documents.join("copyright"), &copyright()?)?;
    let changelog = format!(
        "freehold ({VERSION}) unstable; urgency=medium\n\n  * Built from the project's sources; changelog.gz tells what is new.\n\n \
         -- {MAINTAINER}  {}\n",
        revision.date
    );
    put(&documents.join("changelog.Debian"), &changelog)?;
    compress(&documents.join("changelog.Debian"))?;
    put(&documents.join("changelog"), &fs::read_to_string(root().join("CHANGELOG.md"))?)?;
    compress(&documents.join("changelog"))?;
    put(&folder.join("usr/share/lintian/overrides").join(package), OVERRIDES)
}

/// In the form that machines read.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT"))?;
    // The licence's own title and notice stand in fields.
    let (head, terms) =
        mit.split_once("Permission is").context("LICENSE-MIT grants a permission")?;
    let notice = head.lines().find_map(|line| line.strip_prefix("Copyright (c) "));
    let notice = notice.context("LICENSE-MIT has a notice")?;
    let terms = format!("Permission is{terms}");
    let indented =
        |line: &str| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") };
    let terms: String = terms.trim_end().lines().map(indented).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Freehold\n\n\
         Files: *\nCopyright: {notice}\nLicense: Apache-2.0 or Expat\n\
         Comment: The other files of this folder have the notices of the code that the package\n contains and that is not the project's.\n\n\
         License: Apache-2.0\n On Debian systems, the licence is in /usr/share/common-licenses/Apache-2.0.\n\n\
         License: Expat\n{terms}"
    ))
}
