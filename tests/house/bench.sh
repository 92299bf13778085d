#!/usr/bin/env bash
# Speed against peers: each line is a ratio measured in this run, on this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec cargo bench --locked -p transect-tracedat --bench decode "$@"
