//! What a program needs beside itself, by `ldd`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that `file` is linked with, loader included; none for what is not a dynamic program or library.
pub fn of(file: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(file).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = said.lines().find(|line| line.contains("not found")) {
        anyhow::bail!("{}: {}", file.display(), line.trim());
    }
    Ok(said.lines().filter_map(path).collect())
}

/// The path of a line of ldd's: `name => path (address)` or `path (address)`.
fn path(line: &str) -> Option<PathBuf> {
    let line = line.trim();
    let path = line.split_once("=> ").map_or(line, |(_, path)| path);
    let path = path.split(" (0x").next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn lines_of_ldd_are_read() {
        let file = |line| path(line).map(|path| path.display().to_string());
        assert_eq!(
            file("\tlibc.so.6 => /lib/libc.so.6 (0x00007f)").as_deref(),
            Some("/lib/libc.so.6")
        );
        assert_eq!(file("\t/lib64/ld.so (0x00007f)").as_deref(), Some("/lib64/ld.so"));
        assert_eq!(file("\tlinux-vdso.so.1 (0x00007ffd)"), None);
        assert_eq!(file("\tstatically linked"), None);
    }
}
