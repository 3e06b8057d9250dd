//! The command line of the kernels, here so that other programs can offer it, too.

use super::{Farm, Kernel, Picture};
use anyhow::{Result, ensure};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  freehold-kernel fast                                   find the corners of the picture, check them
  freehold-kernel gaussian --slaves 8 --width 512
  freehold record -o fast.fht -- freehold-kernel fast    what `freehold study mesh` runs: one slave

It exits with 0, with 1 when the result is not that of the plain computation, with 2 when it cannot start.";

/// Run a kernel in the master-slave design on a generated picture, and check its result.
#[derive(Debug, clap::Parser)]
#[command(name = "freehold-kernel", version, after_help = EXAMPLES)]
pub struct Args {
    /// Which.
    #[arg(value_enum)]
    pub kernel: Kernel,
    /// Slaves, a thread each; with one, a recorder hears which words each task touches.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub slaves: u16,
    /// Rows and columns of a tile: of integral (else 8) and of matmul's blocks (else 6).
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u16).range(2..=48))]
    pub side: Option<u16>,
    /// Columns of the picture; whole tiles.
    #[arg(long, default_value_t = 128, value_name = "PIXELS")]
    pub width: u16,
    /// Rows.
    #[arg(long, default_value_t = 96, value_name = "PIXELS")]
    pub height: u16,
}

/// Does what the arguments ask for.
///
/// # Errors
/// A picture that is not made of whole tiles.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (width, height) = (usize::from(args.width), usize::from(args.height));
    ensure!(
        args.side.is_none() || args.kernel.takes_side(),
        "--side is for integral and matmul: the tiles of {} have 8 x 8 pixels",
        args.kernel.name()
    );
    let side = args.side.map_or(args.kernel.side(), usize::from);
    // Matrix multiplication takes what whole blocks there are.
    let tile = if args.kernel == Kernel::Matmul { 8 } else { side };
    let whole = |pixels: usize| pixels > 0 && pixels.is_multiple_of(tile);
    ensure!(
        whole(width) && whole(height),
        "a picture has whole tiles of {tile} x {tile} pixels, not {width} x {height}"
    );
    let (picture, farm) = (Picture::generated(width, height), Farm::new(args.slaves.into()));
    if args.slaves == 1 {
        farm.watch();
    }
    let (result, right) = args.kernel.run(&farm, &picture, side);
    if args.slaves == 1 {
        farm.end_watch();
    }
    let word = if right { "as computed plainly" } else { "NOT as computed plainly" };
    println!("{} of {width} x {height}: {result:016x}, {word}", args.kernel.name());
    Ok(ExitCode::from(u8::from(!right)))
}
