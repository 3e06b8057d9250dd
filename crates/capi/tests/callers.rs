//! The profile of a C++ program names who allocated, whatever the form of operator new.
//!
//! The program tells where its functions are and what each asked for; the profile is held against that.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::Path;
use support::pprof::{self, Sample};
use support::{assert_passed, compile_with, folder, run};

/// A function of the program: where its code is, and how many bytes it asked for.
struct Site {
    name: String,
    code: Range<u64>,
    bytes: f64,
}

impl Site {
    fn parse(line: &str) -> Site {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[name, start, end, bytes] = fields.as_slice() else { panic!("four fields: {line}") };
        let hex = |digits| u64::from_str_radix(digits, 16).expect("an address");
        Site {
            name: name.into(),
            code: hex(start)..hex(end),
            bytes: bytes.parse().expect("a number"),
        }
    }

    fn is_among(&self, callers: &[u64]) -> bool {
        callers.iter().any(|caller| self.code.contains(caller))
    }
}

/// Compiles `sites.cpp` with more arguments and runs it; its functions, and what the profile says.
fn profile(arguments: &[&str]) -> (Vec<Site>, Vec<Sample>) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/sites.cpp");
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let program = compile_with(&source, &arguments);
    let file = program.with_extension("pb");
    let path = file.to_str().expect("a path of ours");
    assert!(file.starts_with(folder()));
    let output = run(&program, &[], &[("FREEHOLD_PROFILE", path), ("FREEHOLD_PROFILE_RATE", "4K")]);
    assert_passed("sites.cpp", &output);
    let said = String::from_utf8_lossy(&output.stdout);
    let samples = pprof::samples(&fs::read(&file).expect("written at exit")).collect();
    (said.lines().map(Site::parse).collect(), samples)
}

/// Bytes ever of the samples that `wanted` chooses.
fn bytes(samples: &[Sample], wanted: impl Fn(&Sample) -> bool) -> f64 {
    samples.iter().filter(|sample| wanted(sample)).map(|sample| sample.values[1] as f64).sum()
}

#[track_caller]
fn names_who_allocated(arguments: &[&str]) {
    let (sites, samples) = profile(arguments);
    let all = bytes(&samples, |_| true);
    let named = bytes(&samples, |sample| sites.iter().any(|site| site.is_among(&sample.callers)));
    assert!(named >= 0.95 * all, "{named} of {all} bytes have a name ({arguments:?})");
    for site in &sites {
        // 8 MiB at a sample in 4 KiB, about 2,000 samples: a standard deviation is 2.2 %, of large blocks 3.7 %.
        let ratio = bytes(&samples, |sample| site.is_among(&sample.callers)) / site.bytes;
        assert!((0.85..1.15).contains(&ratio), "{}: {ratio} ({arguments:?})", site.name);
    }
}

/// The naked halves of our operators had no unwind information: not a byte had a name.
fn profiles_name_callers_of_operator_new() {
    names_who_allocated(&[]);
}

fn profiles_name_callers_without_frame_pointers() {
    names_who_allocated(&["-O2", "-fomit-frame-pointer"]);
}

freehold_testkit::trials! {
    profiles_name_callers_of_operator_new,
    profiles_name_callers_without_frame_pointers,
}
