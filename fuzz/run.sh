#!/bin/sh
# Fuzzes every codec: fuzz/run.sh [SECONDS, default 60] [TARGET...]
# Stable Rust, no cargo-fuzz: the coverage instrumentation it would pass is passed here. A crash, a
# hang of more than 10 s on one input or more than 512 MiB of memory ends with status 1 and leaves
# the input in fuzz/artifacts, which is named. What is found is kept and built on by the next run;
# with CI set every run begins with the same corpus and seed. (What then still differs is how far it
# comes, and which branches count as new where a target has hash maps, whose order std makes random.)
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- compact ftrace_format ftrace_page tracedat guest_channel xentrace live_lines

target_dir=${TRANSECT_FUZZ_TARGET:-${CARGO_TARGET_DIR:-$PWD/../target}/fuzz}
host=$(rustc -vV | sed -n 's/^host: //p')
# --target keeps the flags away from build scripts and the like.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
 -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1" \
    cargo build --release --quiet --target "$host" --target-dir "$target_dir"

corpus=$target_dir/corpus seed=
if [ -n "${CI:-}" ]; then
    corpus=$target_dir/corpus-ci seed='-seed=1 -reload=0'
    rm -rf "$corpus"
fi
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
seed live_lines $data/succeed/live/*.jsonl
seed xentrace $data/succeed/xentrace/*.bin $data/fail/xentrace/*.bin
seed compact $data/succeed/compact/*.compact $data/fail/compact/*.compact
seed ftrace_format $data/succeed/ftrace/*/*.format $data/fail/ftrace/*.format
# Pages as they stand in an uncompressed recording, behind a byte that says how they are laid out.
mkdir -p "$corpus/ftrace_page"
for page in 1 2 3; do
    { printf '\140'; tail -c $((page * 4096)) $data/succeed/tracedat/v7-none.dat | head -c 4096; } \
        > "$corpus/ftrace_page/page$page"
done

# All at once: the script takes SECONDS, whatever the number of targets.
fuzz() { # TARGET
    "$target_dir/$host/release/$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=512 \
        -max_len=65536 -artifact_prefix="artifacts/$1-" -print_final_stats=1 $seed \
        "$corpus/$1" > "$target_dir/$1.log" 2>&1
}
jobs=
for target in "$@"; do
    mkdir -p "$corpus/$target"
    fuzz "$target" &
    jobs="$jobs $target:$!"
done
trap 'for job in $jobs; do kill "${job#*:}" 2> /dev/null; done' INT TERM
status=0
for job in $jobs; do
    target=${job%:*}
    log=$target_dir/$target.log
    if wait "${job#*:}"; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
        echo "fuzz $target: $runs runs in $seconds s, no crash, at most $peak MiB"
    else
        status=1
        input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
        echo "fuzz $target: failed${input:+ on $PWD/$input}; the end of $log says:"
        tail -40 "$log"
    fi
done
rmdir artifacts 2> /dev/null || true
exit $status
