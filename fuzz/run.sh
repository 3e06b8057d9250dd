#!/bin/sh
# Runs a fuzz target on stable Rust: fuzz/run.sh TARGET [SECONDS]
# FREEHOLD_SEED makes it the same run every time (CI does); without it every run is a new one.
set -eu
cd "$(dirname "$0")"
target=${1:?usage: fuzz/run.sh read_trace|import|malloc|realtime|options [SECONDS]}
seconds=${2:-120}
# What cargo-fuzz would pass, without the sanitizer, which needs nightly: bounds, overflows and
# unwraps panic by themselves.
RUSTFLAGS="--cfg fuzzing -Cdebug-assertions -Coverflow-checks -Cpasses=sancov-module \
 -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
 -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares" \
  cargo build --quiet --release --target x86_64-unknown-linux-gnu --bin "$target"
new=$(mktemp -d)
mkdir -p "artifacts/$target"
trap 'rm -rf "$new"' EXIT
exe=${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu/release/$target
TMPDIR=$new "$exe" -seed="${FREEHOLD_SEED:-0}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=16384 \
  -print_final_stats=1 -artifact_prefix="artifacts/$target/" "$new" "corpus/$target"
