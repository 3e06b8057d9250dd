//! `cargo xtask`: see the library, which its tests use as well.

fn main() -> anyhow::Result<std::process::ExitCode> {
    xtask::main()
}
