#!/usr/bin/env python3
"""Checks that every dependency is compiled once, for the binaries, the tests, the benchmark and the studies alike:
once.py -p PACKAGE..., the packages that `make build` builds together.

Cargo compiles a dependency again, and all that depends on it, where another command selects packages that want other
features of it. What the shipped binaries are built with must do for all: a feature that only tests want is named in the
workspace's Cargo.toml too.
"""
import subprocess
import sys
from collections import defaultdict


def forms(lines: list[str]) -> dict[str, set[str]]:
    """Package and version, and the sets of features it is compiled with (for the program, for build scripts)."""
    found = defaultdict(set)
    for line in lines:
        package, _, features = line.removesuffix(" (*)").partition("|")
        # Crates of our own have a path, and are compiled anew anyway.
        if package and "(/" not in package:
            found[package.removesuffix(" (proc-macro)")].add(features)
    return found


def built(arguments: list[str]) -> dict[str, set[str]]:
    return forms(subprocess.run(
        ["cargo", "tree", "--locked", "--prefix", "none", "-f", "{p}|{f}", *arguments],
        check=True, capture_output=True, text=True).stdout.splitlines())


def again(shipped: dict[str, set[str]], other: dict[str, set[str]]) -> list[str]:
    """What another command compiles in a form that the shipped binaries do not have."""
    problems = []
    for package in sorted(shipped.keys() & other.keys()):
        known = set(",".join(shipped[package]).split(","))
        for form in sorted(other[package] - shipped[package]):
            features = sorted(set(form.split(",")) - known) or [form or "no features"]
            problems.append(f"{package} is compiled again, with {', '.join(features)}")
    return problems


def main() -> int:
    packages = sys.argv[1:]
    if not packages:
        print("once: which packages are built together?", file=sys.stderr)
        return 2
    shipped = built([*packages, "-e", "normal,build"])
    others = {
        "the tests": ["--workspace", "-e", "normal,build,dev"],
        "the benchmark": [*packages, "-p", "transect-ratios", "-e", "normal,build"],
        "the studies": [*packages, "-p", "transect-studies", "-e", "normal,build"],
    }
    problems = [f"{problem}, for {what}" for what, arguments in others.items()
                for problem in again(shipped, built(arguments))]
    for problem in problems:
        print(f"once: {problem}", file=sys.stderr)
    if not problems:
        print(f"once: {len(shipped)} dependencies, each compiled once")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
