#!/usr/bin/env bash
# Rust tests as all tiers run them: nextest.sh [ARGUMENTS OF `cargo nextest run`]; `-p transect-store`, `-E 'test(excerpt)'`.
# `nextest.sh cargo COMMAND...` runs a cargo command in the same way.
#
# They are built with the profile `bench` of Cargo.toml, whose dependencies are those of the shipped binaries. Only the
# programs of our own that tests start would take each other's place, `target/release/transect` for one: those of the tests
# have a folder of their own, `target/tests`.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${TRANSECT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/transect}

# Where `make build` builds, and where the tests of whole programs find the shipped ones.
TRANSECT_BIN_DIR=$(realpath -m "${TRANSECT_BIN_DIR:-${CARGO_TARGET_DIR:-target}}")
export TRANSECT_BIN_DIR
export CARGO_BUILD_BUILD_DIR=$TRANSECT_BIN_DIR CARGO_TARGET_DIR=$TRANSECT_BIN_DIR/tests

if [[ ${1:-} == cargo ]]; then exec cargo "$2" --profile bench "${@:3}"; fi
exec "$cache/venv/bin/cargo-nextest" nextest run --cargo-profile bench "$@"
