#!/usr/bin/env bash
# One tier of the tests: test.sh check | test | guests [NAME]. CONTRIBUTING.md has the table. Called by
# the make target of the tier, which has installed and built everything it needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

tier=$1 only=${2:-}
venv=$TRANSECT_CACHE/venv
results=$TRANSECT_CACHE/results/$tier
rm -rf "$results" && mkdir -p "$results"
started=$SECONDS status=0 files=() failed=()

minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

# part NAME COMMAND...: one part of the run, with its time; the run goes on after a part that failed.
part() {
    local name=$1 begun=$SECONDS; shift
    printf '\n== %s\n' "$name"
    "$@" || { status=1; printf '== %s: failed\n' "$name"; }
    printf '== %s: %s\n' "$name" "$(minutes $((SECONDS - begun)))"
}

# A failure prints what the test saw; a backtrace of the harness would bury it.
export RUST_BACKTRACE=0
# Tests of whole programs run the shipped ones, which `make build` made.
TRANSECT_BIN_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export TRANSECT_BIN_DIR

# A part that leaves no JUnit file.
plain() { # NAME COMMAND...
    local name=$1; shift
    "$@" || { failed+=(--failed "$name"); return 1; }
}

rust() { # PROFILE [FILTER]
    local profile=$1 filter=${2:-} code=0
    rm -f "target/nextest/$profile/junit.xml"
    bash tests/house/nextest.sh --workspace --locked --tests --profile "$profile" ${filter:+-E "$filter"} || code=$?
    cp "target/nextest/$profile/junit.xml" "$results/rust.xml" || code=1
    files+=("$results/rust.xml")
    return $code
}

page() { # NAME SCRIPT
    local code=0
    (cd web && TRANSECT_JUNIT=$results/$1.xml npm run --silent "$2") || code=$?
    files+=("$results/$1.xml")
    return $code
}

case $tier in
check | test)
    part "formatting, lints, layers, documentation" make --no-print-directory lint
    # What is wrong there is quick to mend, and the rest would be run again for it.
    ((status == 0)) || exit 1
    part "the page: types and core" page page test
    ;;
esac
case $tier in
check)
    part "unit, property, golden and corpus tests" rust check
    ;;
test)
    export TRANSECT_PYTHON=$venv/bin/python
    part "unit, property, golden, peer and host tests, and the flagship" rust test
    part "examples in the documentation of the crates" plain "examples in the documentation" \
        bash tests/house/nextest.sh cargo test --workspace --locked --doc --quiet
    part "the page in Chromium" page browser test:browser
    part "fuzzing every codec" plain "fuzzing" bash fuzz/run.sh "${FUZZ_SECONDS:-60}"
    ;;
guests)
    if [[ -z $only || $only == firefox ]]; then part "the page in Firefox" page firefox test:firefox; fi
    if [[ $only != firefox ]]; then
        part "machines${only:+: $only}" rust guests "${only:+test(/(^|::)$only::/)}"
    fi
    ;;
*)
    echo "test.sh: no tier '$tier': check, test or guests" >&2
    exit 2
    ;;
esac

printf '\n== make %s: %s\n' "${tier/#guests/test-guests}" "$(minutes $((SECONDS - started)))"
python3 tests/house/summary.py "${failed[@]}" "${files[@]}" || status=1
exit $status
