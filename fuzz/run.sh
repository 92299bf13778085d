#!/bin/sh
# Fuzzes every codec: fuzz/run.sh [SECONDS per target, default 60] [TARGET...]
# Stable Rust, no cargo-fuzz: the coverage instrumentation it would pass is passed here. A crash, a
# hang of more than 10 s on one input or more than 512 MiB of memory ends with status 1 and leaves
# the input in fuzz/artifacts.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- ftrace_format ftrace_page tracedat

target_dir=${TRANSECT_FUZZ_TARGET:-${CARGO_TARGET_DIR:-$PWD/../target}/fuzz}
host=$(rustc -vV | sed -n 's/^host: //p')
# --target keeps the flags away from build scripts and the like.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
 -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1" \
    cargo build --release --quiet --target "$host" --target-dir "$target_dir"

corpus=$target_dir/corpus
data=../testdata
mkdir -p artifacts "$corpus"

# Seeds: what the tests read, cut to a size at which mutation is fast.
seed() { # TARGET FILE...
    target=$1; shift
    mkdir -p "$corpus/$target"
    for file in "$@"; do
        [ -e "$file" ] || continue
        name=$(printf '%s' "$file" | tr '/' '_')
        [ -e "$corpus/$target/$name" ] || head -c 65536 "$file" > "$corpus/$target/$name"
    done
}
seed tracedat $data/succeed/tracedat/*.dat $data/fail/tracedat/*.dat
seed ftrace_format $data/succeed/ftrace/*.format $data/fail/ftrace/*.format
seed ftrace_page $data/succeed/ftrace/*.page $data/fail/ftrace/*.page

status=0
for target in "$@"; do
    echo "fuzz $target: $seconds s"
    mkdir -p "$corpus/$target"
    log=$target_dir/$target.log
    if "$target_dir/$host/release/$target" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=512 -max_len=65536 -artifact_prefix=artifacts/ -print_final_stats=1 \
        "$corpus/$target" > "$log" 2>&1; then
        sed -n 's/^stat::number_of_executed_units: */  runs: /p; s/^stat::peak_rss_mb: */  peak MiB: /p' "$log"
    else
        status=1
        tail -40 "$log"
    fi
done
rmdir artifacts 2> /dev/null || true
exit $status
