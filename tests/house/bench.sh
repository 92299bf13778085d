#!/usr/bin/env bash
# Speed against peers: every row is a ratio measured in this run, on this machine; also written to
# bench.json beside the build output. Arguments are bench's (--list, --only NAME, --quick, …).
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release --locked -p transect-cli -p transect-testbed -p transect-query -p transect-ratios
target=$(realpath "${CARGO_TARGET_DIR:-target}")
if ((EUID == 0)); then
    exec "$target/release/ratios" "$@"
fi
# Tracing needs root.
exec sudo --preserve-env=TRANSECT_CACHE,CARGO_TARGET_DIR "$target/release/ratios" "$@"
