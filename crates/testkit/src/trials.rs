//! Tests that may lack a tool: ignored then, by name and counted, which the standard harness can
//! only say of a test before it runs.
//!
//! Such tests stand in files of their own, with `harness = false` in the manifest, without
//! `#[test]`, and with [`trials!`](crate::trials!) at the end. What lacks a tool calls
//! [`skip`](crate::skip()), however deep.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind};
use std::process::ExitCode;

thread_local! {
    static IN_TRIAL: Cell<bool> = const { Cell::new(false) };
}

/// Why a trial ended early.
struct Skipped(String);

/// Makes the `main` of a file of tests out of their names (paths, where they are in modules).
#[macro_export]
macro_rules! trials {
    ($($test:path),+ $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::run_trials(&[$((stringify!($test), $test as fn())),+])
        }
    };
}

/// Runs the tests that the command line asks for. See [`trials!`](crate::trials!).
pub fn run_trials(tests: &[(&'static str, fn())]) -> ExitCode {
    let arguments = Arguments::from_args();
    let trial = |&(name, test): &(&'static str, fn())| {
        Trial::ignorable_test(name.replace(' ', ""), move || run(test))
    };
    libtest_mimic::run(&arguments, tests.iter().map(trial).collect()).exit_code()
}

/// Ends the trial that runs on this thread, if one does: it then counts as ignored.
pub(crate) fn end_trial(why: &str) {
    if IN_TRIAL.get() {
        // Unwinds without the message of a panic.
        resume_unwind(Box::new(Skipped(why.to_owned())));
    }
}

fn run(test: fn()) -> Result<Completion, Failed> {
    IN_TRIAL.set(true);
    let done = catch_unwind(test);
    IN_TRIAL.set(false);
    match done {
        Ok(()) => Ok(Completion::Completed),
        Err(payload) => match payload.downcast::<Skipped>() {
            Ok(skipped) => Ok(Completion::ignored_with(&skipped.0)),
            Err(payload) => Err(message(&*payload).into()),
        },
    }
}

/// The harness has printed where the panic was; this is what it said.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_a_tool_is_ignored_and_what_fails_fails() {
        if std::env::var_os("CI").is_none() {
            let skipped = run(|| crate::skip("there is no such tool"));
            let Ok(Completion::Ignored { reason }) = skipped else { panic!("not ignored") };
            assert_eq!(reason.as_deref(), Some("there is no such tool"));
        }
        assert!(matches!(run(|| ()), Ok(Completion::Completed)));
        let failed = run(|| resume_unwind(Box::new("said")));
        assert_eq!(
            failed.err().and_then(|f| f.message().map(str::to_owned)).as_deref(),
            Some("said")
        );
        assert!(!IN_TRIAL.get());
    }
}
