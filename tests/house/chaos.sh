#!/usr/bin/env bash
# The long form of the damages, kills, full disks and stops (`make chaos`): prints the tables of outcomes.
# TRANSECT_CHAOS_SEED and TRANSECT_CHAOS_CASES choose the damages. The programs are those of `make build`.
set -euo pipefail
cd "$(dirname "$0")/../.."

TRANSECT_BIN_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export TRANSECT_BIN_DIR RUST_BACKTRACE=0
bash tests/house/nextest.sh -p transect-e2e --profile guests -E 'test(/^slow::chaos::/)' --no-capture
