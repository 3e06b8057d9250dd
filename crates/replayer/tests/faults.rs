//! A broken allocator is noticed, named, and harms no other.

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::{Library, Script, bytes, measure, quick, replay, tangle};
use freehold_lab::real::{
    Allocator, Options, Prepared, RealError, Touch, Trouble, replay_prepared,
};
use freehold_trace::{Api, Request};

/// Enough events for every way of `broken.c` to show.
fn events() -> Prepared {
    let mut script = Script::new();
    for object in 0..400 {
        script.malloc(0, object, 40);
        script.make(0, 1000 + object, Request { api: Api::Calloc, ..bytes(40) });
    }
    for object in 0..400 {
        script.realloc(0, object, 80 + u64::from(object)).free(0, 1000 + object).free(0, object);
    }
    script.finish()
}

fn trouble_with(broken: &str, options: &Options) -> Trouble {
    let library = Library::compile("broken.c", &[&format!("BREAK={broken}")]);
    let allocators = [Allocator::glibc(), library.allocator(), Allocator::glibc()];
    let found = replay(&events(), &allocators, options).unwrap();
    assert!(found[0].is_ok() && found[2].is_ok(), "the sound allocators are not concerned");
    match &found[1] {
        Ok(_) => panic!("{broken} was not noticed"),
        Err(RealError::Allocator { allocator, trouble }) => {
            assert_eq!(allocator, "under test");
            trouble.clone()
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_sound_one_passes() {
    let library = Library::compile("broken.c", &["BREAK=SOUND"]);
    for touch in [Touch::None, Touch::Page, Touch::All] {
        measure(&events(), &library.allocator(), &Options { touch, ..quick() });
        measure(&tangle(4, 5_000, 9), &library.allocator(), &Options { touch, ..quick() });
    }
}

#[test]
fn corruption_is_noticed() {
    for (broken, words) in [
        ("OVERLAP", "lost its content"),
        ("MISALIGN", "not a multiple"),
        ("DIRTY_CALLOC", "not zero"),
        ("FORGETFUL_REALLOC", "lost its content"),
    ] {
        let trouble = trouble_with(broken, &quick());
        let Trouble::Misbehaved { what } = &trouble else { panic!("{broken}: {trouble}") };
        assert!(what.contains(words), "{broken}: {what}");
    }
}

#[test]
fn a_crash_is_named() {
    let trouble = trouble_with("CRASH", &quick());
    let said = trouble.to_string();
    assert!(said.contains("SIGSEGV") && said.contains("heap is on fire"), "{said}");
}

#[test]
fn an_exit_is_named() {
    let trouble = trouble_with("CODE", &quick());
    assert!(matches!(trouble, Trouble::Ended { code: 42, .. }), "{trouble}");
}

#[test]
fn a_hang_is_ended() {
    let timeout = Some(Duration::from_secs(10));
    let trouble = trouble_with("HANG", &Options { timeout, ..quick() });
    assert!(matches!(trouble, Trouble::TooSlow { .. }), "{trouble}");
}

#[test]
fn half_a_malloc_is_refused() {
    let defines = ["BREAK=SOUND", "NO_MEMALIGN"];
    let library = Library::compile("broken.c", &defines);
    let found = replay(&events(), &[library.allocator()], &quick()).unwrap();
    let Err(RealError::Allocator { trouble, .. }) = &found[0] else { panic!("taken") };
    let Trouble::NotInterposed { function, .. } = trouble else { panic!("{trouble}") };
    assert_eq!(function, "posix_memalign");
}

#[test]
fn what_is_no_library_is_refused_in_the_words_of_the_loader() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "not a library").unwrap();
    let allocators =
        [Allocator::library("text", text), Allocator::library("gone", PathBuf::from("/gone.so"))];
    for result in replay(&events(), &allocators, &quick()).unwrap() {
        let Err(RealError::Allocator { trouble, .. }) = &result else { panic!("taken") };
        assert!(matches!(trouble, Trouble::NotLoaded { .. }), "{trouble}");
        assert!(trouble.to_string().contains("cannot be preloaded"), "{trouble}");
    }
}

#[test]
fn a_limit_makes_failures_and_not_an_error() {
    let mut script = Script::new();
    for object in 0..64 {
        script.malloc(0, object, 1 << 20);
    }
    for object in 0..64 {
        script.realloc(0, object, 2 << 20).free(0, object);
    }
    let limited = Options { limit: Some(16 << 20), ..quick() };
    let measured = measure(&script.finish(), &Allocator::glibc(), &limited);
    let failures = measured.outcome.failures;
    assert!((45..=64 + 16).contains(&failures), "{failures} failures");
    assert!(measured.outcome.peak_memory <= 17 << 20);
}

#[test]
fn an_interruption_ends_the_running_child() {
    let library = Library::compile("broken.c", &["BREAK=HANG"]);
    let prepared = events();
    let replayer = Path::new(env!("CARGO_BIN_EXE_freehold-replayer"));
    let interrupted = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let allocators = [library.allocator()];
        let options = quick();
        let found =
            replay_prepared(&prepared, &allocators, &options, replayer, &interrupted, &mut || {});
        assert!(matches!(found, Err(RealError::Interrupted)));
    });
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_replayer_that_is_not_there_is_named() {
    let nowhere = Path::new("no/such/replayer");
    let go_on = AtomicBool::new(false);
    let found =
        replay_prepared(&events(), &[Allocator::glibc()], &quick(), nowhere, &go_on, &mut || {});
    assert!(found.unwrap_err().to_string().contains("no/such/replayer"));
}
