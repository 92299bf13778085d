#!/usr/bin/env python3
"""Checks that the house stands as ARCHITECTURE.md says.

Every workspace crate declares its layer in Cargo.toml ([package.metadata.transect] layer = N, or
"test" for what only tests use). A crate may depend on lower layers, and within a layer only where
listed here. A codec (crates/formats/*) never depends on another, except tracedat on ftrace.

DataFusion is in one program: nothing but ENGINE may depend on it, directly or through others.
"""
import json
import subprocess
import sys

# Dependencies within one layer that are part of the design, each with its reason.
WITHIN_LAYER = {
    ("transect-bench-published", "transect-bench-report"): "papers' numbers are judged by the report's comparisons",
    ("transect-bench-published", "transect-bench-run"): "papers' rows name cells as plans do",
    ("transect-bench-report", "transect-bench-run"): "the report is made of the journal that the run has written",
    ("transect-clock", "transect-model"): "both are vocabulary; stamps are typed by the model",
    ("transect-live", "transect-engine"): "live is the engine fed with a stream, where the kernel does not add up itself",
    ("transect-tracedat", "transect-ftrace"): "trace.dat carries ftrace pages and formats",
}

# The only package that may depend on the SQL library, whose crates all begin with this name.
ENGINE, LIBRARY = "transect-query", "datafusion"


def library_outside_engine() -> list[str]:
    """Crates of the SQL library that packages other than the engine are built with."""
    tree = subprocess.run(
        ["cargo", "tree", "--workspace", "--exclude", ENGINE, "--locked", "--prefix", "none", "-f", "{p}", "-e", "normal,build"],
        check=True, capture_output=True, text=True).stdout
    return sorted({line.split()[0] for line in tree.splitlines() if line.startswith(LIBRARY)})


def main() -> int:
    meta = json.loads(subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"],
        check=True, capture_output=True, text=True).stdout)
    packages = {p["name"]: p for p in meta["packages"]}
    problems = []
    layers = {}
    for name, package in packages.items():
        layer = ((package["metadata"] or {}).get("transect") or {}).get("layer")
        if layer is None:
            problems.append(f"{name}: no [package.metadata.transect] layer in {package['manifest_path']}")
        layers[name] = layer
    for name, package in packages.items():
        for dep in package["dependencies"]:
            other = dep["name"]
            if other not in packages or layers[name] in (None, "test"):
                continue
            if dep["kind"] == "dev":
                continue  # tests may look anywhere; shipped code may not
            if layers[other] == "test":
                problems.append(f"{name}: ships with the test-only crate {other}")
            elif layers[other] > layers[name]:
                problems.append(f"{name} (layer {layers[name]}) depends upwards on {other} (layer {layers[other]})")
            elif layers[other] == layers[name] and (name, other) not in WITHIN_LAYER:
                problems.append(f"{name} depends on {other} of its own layer {layers[name]}")
    problems += [f"only {ENGINE} may depend on {name}: cargo tree --workspace -i {name}" for name in library_outside_engine()]
    for problem in problems:
        print(f"layers: {problem}", file=sys.stderr)
    if not problems:
        print(f"layers: {len(packages)} crates, no dependency upwards, {LIBRARY} in {ENGINE} alone")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
