#!/usr/bin/env bash
# The demo: two guests on one pCPU, a periodic task and a hog, recorded and reported.
# `make demo` has installed and built everything before.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath "${CARGO_TARGET_DIR:-target}")
exec "$target/release/testbed-demo" --bin-dir "$target" "$@"
