//! The command line of `freehold-radiosity`, here so that other programs can offer it, too.

use super::physics::Check;
use super::progress::Progress;
use super::render::{self, Quality};
use super::scene::Scene;
use super::scene_file::SceneFileError;
use super::solver::{self, Settings, Solution, Watch};
use super::statistics::{HeapStatistics, Phase};
use super::{physics, scene_file, scenes};
use anyhow::{Context, Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

const EXAMPLES: &str = "\
Examples:
  freehold-radiosity                                  the room of 534 polygons, all processors
  freehold-radiosity --threads 1 --json               the same on one thread, as JSON
  freehold-radiosity --scene cornell --picture box.png
  freehold-radiosity --scene house.obj --picture house.png
  freehold-radiosity --scene my.toml --epsilon 1e-4 --picture my.png --height 800
  freehold record -o t.fht -- freehold-radiosity --threads 1 --accesses 10
  freehold-radiosity --check                          the analytic checks as well

It exits with 0, with 1 when the solution fails a check of its physics, with 2 when it cannot
start or finish.";

/// Light a scene by parallel hierarchical radiosity.
#[derive(Debug, clap::Parser)]
#[command(name = "freehold-radiosity", version, after_help = EXAMPLES)]
pub struct Args {
    /// `room`, `cornell` or a scene file: TOML, or OBJ with its MTL file (Kd reflects, Ke emits).
    #[arg(long, default_value = "room", value_name = "SCENE")]
    pub scene: String,
    /// Threads; 0 takes all processors.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub threads: usize,
    /// Most iterations of refine, gather, push, pull.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: u32,
    /// Share of the emitted power that a link may misplace [default: 2.45e-4 room, 2e-5 others].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub epsilon: Option<f64>,
    /// Share of the scene's area below which meshes are not split [default: 1e-4 room, 2e-5 others].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub least_area: Option<f64>,
    /// Do not scale rows of form factors to sum to one.
    #[arg(long)]
    pub no_closure: bool,
    /// Stop when the solution would occupy more than this.
    #[arg(long, value_name = "MIB")]
    pub memory_limit: Option<u64>,
    /// Tell a recorder the memory accesses of every N-th iteration; 0: none.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub accesses: u32,
    /// Of those iterations, tell of the work on one surface in N only.
    #[arg(long, default_value_t = 1, value_name = "N", requires = "accesses")]
    pub of_patches: u32,
    /// Of all other iterations, tell of one piece of work in N; 0: of none.
    #[arg(long, default_value_t = 0, value_name = "N", requires = "accesses")]
    pub of_units: u32,
    /// Stop after the last iteration: the light is neither settled nor checked.
    #[arg(long, conflicts_with_all = ["picture", "check"])]
    pub break_off: bool,
    /// Write a picture (PNG).
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Height of the picture in pixels.
    #[arg(long, default_value_t = 600, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub height: u32,
    /// How the picture is shaded.
    #[arg(long, value_enum, default_value = "final")]
    pub shading: Quality,
    /// Print statistics as JSON.
    #[arg(long)]
    pub json: bool,
    /// Also check form factors and the furnace against their exact values.
    #[arg(long)]
    pub check: bool,
}

/// The peak of this process's resident memory; 0 where the system does not tell.
fn peak_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

/// The processor time of all threads of this process, in the hundredths that Linux counts in; 0 where the
/// system does not tell.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may hold anything; of the fields behind it the 12th and 13th are meant.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let told = behind.split_whitespace().skip(11).take(2);
    told.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("expected a share: a number above 0, at most 1".to_owned()),
    }
}

/// Does what the arguments ask for.
///
/// # Errors
/// The scene cannot be used, the threads cannot be started, a limit was reached, or the picture
/// cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    run_on_heap(args, || Ok(None))
}

/// The same in a program that brings its own heap; `look` is called once, with the solution alive and all
/// other threads asleep.
///
/// # Errors
/// As [`run`], or what `look` says.
pub fn run_on_heap(
    args: &Args,
    look: impl FnOnce() -> Result<Option<HeapStatistics>>,
) -> Result<ExitCode> {
    let scene = choose_scene(&args.scene)?;
    if let Some(path) = &args.picture {
        check_folder(path)?;
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(args.threads)
        .build()
        .with_context(|| format!("cannot start {} threads", args.threads))?;
    let mut solution = pool.install(|| solve(args, &scene))?;
    solution.statistics.peak_resident_bytes = peak_resident_bytes();
    solution.statistics.heap = look()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&solution.statistics)?);
    } else {
        print!("{}", solution.statistics);
    }
    let mut passed = solution.statistics.physics.passed();
    if args.check {
        for check in pool.install(physics::analytic_checks) {
            passed &= check.passed();
            eprintln!("{}", verdict(&check));
        }
    }
    // On its own threads: taken apart here, the solution would start another pool for that.
    pool.install(|| drop(solution));
    Ok(ExitCode::from(u8::from(!passed)))
}

fn verdict(check: &Check) -> String {
    let Check { name, found, tolerated } = check;
    let word = if check.passed() { "ok    " } else { "FAILED" };
    format!("  {word}     {name}: {found:.2e} (at most {tolerated:.2e})")
}

fn choose_scene(name: &str) -> Result<Scene> {
    match name {
        "room" => Ok(scenes::room()),
        "cornell" => Ok(scenes::cornell()),
        file => scene_file::read(Path::new(file)).map_err(|error| match error {
            SceneFileError::Read { .. } => {
                anyhow!("{error}; other scenes are `room` and `cornell`")
            }
            error => error.into(),
        }),
    }
}

/// A picture that cannot be written should fail before the work, not after it.
fn check_folder(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        bail!("cannot write {}: {} is no folder", path.display(), folder.display());
    }
    Ok(())
}

/// The settings that the arguments ask for. The room's defaults give the published profile.
pub fn settings(args: &Args) -> Settings {
    let (epsilon, least_area) = if args.scene == "room" { (2.45e-4, 1e-4) } else { (2e-5, 2e-5) };
    Settings {
        iterations: args.iterations,
        epsilon: args.epsilon.unwrap_or(epsilon),
        least_area: args.least_area.unwrap_or(least_area),
        converged: 1e-6,
        closure: !args.no_closure,
        watch: Watch {
            every: args.accesses,
            patches: args.of_patches,
            units: args.of_units,
            stops: args.break_off,
        },
        memory_limit: args.memory_limit.map_or(u64::MAX, |mib| mib.saturating_mul(1 << 20)),
    }
}

fn solve(args: &Args, scene: &Scene) -> Result<Solution> {
    let never = AtomicBool::new(false);
    let mut progress = Progress::new();
    let mut report = |done, of| progress.show(done, of);
    let solution = solver::solve(scene, &settings(args), &mut report, &never);
    progress.clear();
    let mut solution = solution?;
    solution.statistics.processor_seconds = processor_seconds();
    if let Some(path) = &args.picture {
        let started = std::time::Instant::now();
        let height = args.height as usize;
        render::render(&solution, &scene.camera, height, args.shading).write_png(path)?;
        solution.statistics.add(Phase::Picture, started.elapsed().as_secs_f64());
    }
    Ok(solution)
}
