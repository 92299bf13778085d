#!/usr/bin/env python3
"""The end of a test run, from the JUnit files of its parts: summary.py [--failed PART]... FILE...

Prints what was skipped and why, the slowest tests, how often a dead or hung machine was made again, what failed, and as
the last line how many tests passed, failed and were skipped. Exits with 1 if one failed, if a file is missing, or for a
part without a file that failed.

A test that failed and passed when it was tried again has passed only if the failed attempt was the emulator's: the
testbed proved it (MACHINE_FAILED, printed by testbed/src/rundir.rs) or the deadline of the test was over.
"""
import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

MACHINE_FAILED = "testbed: an emulated machine died or hung"
BOOTED_AGAIN = "testbed: booted again"
SLOWEST = 20
ATTEMPTS = ("flakyFailure", "flakyError", "rerunFailure", "rerunError")


@dataclass
class Test:
    name: str
    seconds: float
    failed: bool = False
    skips: list[str] = field(default_factory=list)
    again: int = 0
    why: str = ""


def text_of(element: ElementTree.Element) -> str:
    return "\n".join([element.get("message") or "", element.get("type") or "", *element.itertext()])


def is_the_machines(attempt: ElementTree.Element) -> bool:
    words = f"{attempt.get('type')} {attempt.get('message')}".lower()
    return MACHINE_FAILED in text_of(attempt) or "timeout" in words or "timed out" in words


def read_case(suite: str, case: ElementTree.Element) -> Test:
    # nextest names the binary in the suite; node names its file in no place that helps.
    name = " ".join(part for part in (suite, case.get("name", "?")) if part)
    test = Test(name, float(case.get("time") or 0))
    attempts = [child for child in case if child.tag in ATTEMPTS]
    failures = [child for child in case if child.tag in ("failure", "error")]
    said = "\n".join(text_of(child) for child in case if child.tag in ("system-out", "system-err"))
    test.skips = re.findall(r"^skipped: ?(.*)$", said, re.MULTILINE)
    test.again = said.count(BOOTED_AGAIN)
    for child in case:
        if child.tag == "skipped":
            test.skips.append(child.get("message") or "no reason is given")
    test.failed = bool(failures)
    if test.failed:
        test.why = (failures[0].get("message") or failures[0].get("type") or "").strip()
    for attempt in attempts:
        test.seconds += float(attempt.get("time") or 0)
        if is_the_machines(attempt):
            test.again += 1
        elif not test.failed:
            test.failed = True
            test.why = "an attempt failed, and no machine had died or hung: the test is not reliable"
    return test


def read(path: Path) -> list[Test]:
    # The root: nextest's <testsuites> of <testsuite name=BINARY>, node's of <testcase> or suites of them.
    tests = []

    def walk(element: ElementTree.Element, suite: str) -> None:
        for child in element:
            if child.tag == "testcase":
                tests.append(read_case(suite, child))
            elif child.tag == "testsuite":
                walk(child, child.get("name", ""))

    walk(ElementTree.parse(path).getroot(), "")
    return tests


def print_table(parts: dict[str, list[Test]]) -> None:
    print(f"{'part':<24}{'passed':>8}{'failed':>8}{'skipped':>9}{'again':>7}")
    for part, tests in parts.items():
        passed, failed, skipped = count(tests)
        print(f"{part:<24}{passed:>8}{failed:>8}{skipped:>9}{sum(t.again for t in tests):>7}")


def count(tests: list[Test]) -> tuple[int, int, int]:
    failed = sum(test.failed for test in tests)
    skipped = sum(bool(test.skips) and not test.failed for test in tests)
    return len(tests) - failed - skipped, failed, skipped


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--failed", action="append", default=[], metavar="PART")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    parts, problems = {}, list(options.failed)
    for path in options.files:
        try:
            parts[path.stem] = read(path)
        except (OSError, ElementTree.ParseError) as error:
            problems.append(f"no result of {path}: {error}")
    tests = [test for part in parts.values() for test in part]
    skipped = [test for test in tests if test.skips and not test.failed]
    if skipped:
        print("\nskipped:")
        for test in skipped:
            print(f"  {test.name}: {'; '.join(dict.fromkeys(test.skips))}")
    print(f"\nthe slowest {min(SLOWEST, len(tests))}:")
    for test in sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]:
        print(f"  {test.seconds:7.1f} s  {test.name}")
    print()
    print_table(parts)
    remade = [test for test in tests if test.again]
    if remade:
        print("\nmachines that were made again:")
        for test in remade:
            print(f"  {test.name}: {test.again}")
    print(f"\nagain: {sum(test.again for test in tests)}")
    failed = [test for test in tests if test.failed]
    for test in failed:
        print(f"failed: {test.name}: {test.why}")
    for problem in problems:
        print(f"failed: {problem}")
    passed, failures, skips = count(tests)
    print(f"{passed} passed, {failures + len(problems)} failed, {skips} skipped")
    return 1 if failures or problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
