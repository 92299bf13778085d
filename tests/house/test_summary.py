#!/usr/bin/env python3
"""Which attempts of a test the summary forgives, and that it loses no failure. The files are as nextest and node write them."""
import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import summary

DEAD = f"{summary.MACHINE_FAILED} (logs)"


def nextest(*cases: str) -> str:
    return f'<testsuites><testsuite name="transect-e2e::guests">{"".join(cases)}</testsuite></testsuites>'


def case(inside: str = "", name: str = "xen::record") -> str:
    return f'<testcase name="{name}" time="1.5">{inside}</testcase>'


def attempt(tag: str, said: str = "", kind: str = "test failure with exit code 101") -> str:
    return f'<{tag} time="2.5" message="panicked" type="{kind}"><system-err>{said}</system-err></{tag}>'


class Summary(unittest.TestCase):
    def of(self, *texts: str, more: tuple[str, ...] = ()) -> tuple[int, list[str]]:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            files = [Path(folder) / f"part{number}.xml" for number in range(len(texts))]
            for file, text in zip(files, texts):
                file.write_text(text)
            code = summary.main([*more, *map(str, files)])
        return code, out.getvalue().splitlines()

    def last(self, *texts: str, more: tuple[str, ...] = ()) -> tuple[int, str]:
        code, lines = self.of(*texts, more=more)
        return code, lines[-1]

    def test_parts_are_added_up(self) -> None:
        node = '<testsuites><testcase name="a" time="0.1"/><testcase name="b"><skipped message="no Firefox"/></testcase></testsuites>'
        self.assertEqual(self.last(nextest(case()), node), (0, "2 passed, 0 failed, 1 skipped"))

    def test_a_test_that_printed_a_reason_is_skipped(self) -> None:
        code, lines = self.of(nextest(case("<system-out>running 1 test\nskipped: no tmux here\n</system-out>")))
        self.assertEqual((code, lines[-1]), (0, "0 passed, 0 failed, 1 skipped"))
        self.assertIn("  transect-e2e::guests xen::record: no tmux here", lines)

    def test_an_attempt_whose_machine_died_is_forgiven_and_counted(self) -> None:
        code, lines = self.of(nextest(case(attempt("flakyFailure", DEAD))))
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 0 skipped"))
        self.assertIn("again: 1", lines)

    def test_an_attempt_past_its_deadline_is_forgiven(self) -> None:
        text = nextest(case(attempt("flakyFailure", kind="test timeout")))
        self.assertEqual(self.last(text), (0, "1 passed, 0 failed, 0 skipped"))

    def test_any_other_failed_attempt_fails_the_run(self) -> None:
        text = nextest(case(attempt("flakyFailure", "expected 3, got 4")))
        self.assertEqual(self.last(text), (1, "0 passed, 1 failed, 0 skipped"))
        mixed = nextest(case(attempt("flakyFailure", DEAD) + attempt("flakyFailure", "expected 3, got 4")))
        self.assertEqual(self.last(mixed), (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_machine_that_died_each_time_is_a_failure(self) -> None:
        text = nextest(case(attempt("failure", DEAD) + attempt("rerunFailure", DEAD)))
        self.assertEqual(self.last(text), (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_machine_that_was_booted_again_is_counted(self) -> None:
        _, lines = self.of(nextest(case(f"<system-err>{summary.BOOTED_AGAIN} (hung)</system-err>")))
        self.assertIn("again: 1", lines)

    def test_a_part_without_results_is_a_failure(self) -> None:
        self.assertEqual(self.last(more=("/nowhere.xml",)), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.last("<testsuites><tests"), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.last(nextest(case()), more=("--failed", "fuzzing")), (1, "1 passed, 1 failed, 0 skipped"))

    def test_the_lines_of_the_testbed_are_those_looked_for(self) -> None:
        source = (Path(__file__).parents[2] / "testbed/src/again.rs").read_text()
        for line in (summary.MACHINE_FAILED, summary.BOOTED_AGAIN):
            self.assertIn(f'"{line}"', source)


if __name__ == "__main__":
    unittest.main()
