#!/usr/bin/env bash
# The whole test suite, in the order in which a failure is cheapest to find. Called by `make test`,
# which has installed and built everything before.
set -euo pipefail
cd "$(dirname "$0")/../.."

log=$TRANSECT_CACHE/test.log
started=$SECONDS
step() { printf '\n== %s (%d s so far)\n' "$1" "$((SECONDS - started))"; }

step "formatting, lints, layers"
make --no-print-directory lint

step "unit, property, golden and end-to-end tests"
# The release binaries that `make build` made are what the end-to-end tests run. Their failures say what was seen, which
# a backtrace of the test's own harness only buries.
RUST_BACKTRACE=0 \
TRANSECT_BIN_DIR=$(realpath "${CARGO_TARGET_DIR:-target}") \
TRANSECT_PYTHON=$TRANSECT_CACHE/venv/bin/python \
    cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log" || {
    # What failed, once more where it is looked for, each with what it said.
    printf '\n== what failed, of all that %s has\n' "$log"
    awk '/^---- .* ----$/ { shown = 1 } /^failures:$/ { shown = 0 } shown' "$log"
    exit 1
}

step "the page: types, core, and in a real browser"
(cd web && npm test --silent && npm run --silent test:browser)

step "fuzzing every codec"
bash fuzz/run.sh "${FUZZ_SECONDS:-60}"

step "done"
