#!/usr/bin/env python3
"""Tests of prose.py and docs.py."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from docs import anchors, links
from prose import Text, count, fault_of_subject, html, markdown, rust, script, texts_of


def found(text: str) -> dict[str, int]:
    return {kind: len(places) for kind, places in count([Text(1, text)]).found.items()}


class Counting(unittest.TestCase):
    def test_headless_pronouns_are_counted(self):
        for text in (
            "It shows who had the CPU.",
            "Whoever comes first waits.",
            "The report states what it costs.",
            "Who may ask",
            "It names the vCPU, and who waited.",
            "In whose way",
            "It explains who waits.",
            "The table determines whose CPU it was.",
            "| It shows who had the CPU | Is it unknown? |",
            "- It shows what it costs\n- Is it idle?",
        ):
            self.assertEqual(found(text)["headless"], 1, text)

    def test_pronouns_with_a_noun_and_questions_are_not(self):
        for text in ("A user who reads the report", "a thread whose vCPU is halted", "clients whose request was refused", "What is steal?", "Which thread waited?"):
            self.assertEqual(found(text)["headless"], 0, text)

    def test_told_and_nobody_are_counted(self):
        self.assertEqual(found("The guest told it, nobody knows; the file says so, as somebody said."), {"headless": 0, "told": 3, "nobody": 2})
        self.assertEqual(found("Someone tells it; the file says nothing."), {"headless": 0, "told": 2, "nobody": 1})

    def test_lines_stay_where_they_are(self):
        text = "# One\n\n```\nwho what\n```\n\nIt shows `who` and\nwhat it is.\n"
        self.assertEqual(count(markdown(text)).found["headless"], [(8, "# One   .     It shows  .  and what it is. ")])


class Extraction(unittest.TestCase):
    def test_rust_strings_and_comments_are_told_apart(self):
        source = '// what it is\nfn f() { println!("who had the CPU {x}"); let c = \'"\'; } // said here\n#[cfg(test)]\nmod tests { fn g() { "what a long text"; } }\n'
        strings, comments = rust(source)
        self.assertEqual([s.line for s in strings], [2])
        self.assertIn("who had the CPU", strings[0].text)
        self.assertEqual([c.text for c in comments], ["what it is\nsaid here"])

    def test_doc_comments_of_clap_are_strings(self):
        strings, comments = rust("#[derive(Args)]\nstruct A {\n    /// What to record\n    a: u8, // why not\n}\n")
        self.assertEqual([s.text for s in strings], ["What to record"])
        strings, comments = rust("#[derive(Args)]\nstruct A {\n    /// Record\n    a: u8,\n}\n/// What it is\nstruct B;\n")
        self.assertEqual(([s.text for s in strings], [c.text for c in comments]), (["Record"], ["What it is"]))
        self.assertEqual(len(comments), 1)

    def test_raw_and_multiline_strings(self):
        strings, _ = rust('const A: &str = r#"say "what it is" here"#;\nconst B: &str = "one line and \\\n    what follows it";\n')
        self.assertEqual([s.line for s in strings], [1, 2])
        self.assertEqual(count(strings).found["headless"][1][0], 3)

    def test_scripts_and_pages(self):
        strings, comments = script("// what\nconst a = `${n} rows of what was lost`; const b = 'x';\n")
        self.assertEqual((len(strings), len(comments)), (1, 1))
        self.assertEqual(len(count(html('<p title="who had it">See <b>what</b> it is</p><script>what()</script>')).found["headless"]), 2)

    def test_other_files_of_users(self):
        for path, text in (
            ("sql/a.sql", "-- what it is\nSELECT 1\n"),
            ("dist/grafana/a.json", '{"title": "Who waits"}'),
            ("studies/papers/a.toml", 'note = """\nwhat it is\n"""'),
            ("Makefile", "a: ## Say what it is\n"),
        ):
            ((kind, texts),) = texts_of(path, text)
            self.assertEqual((kind, len(count(texts).found["headless"])), ("strings", 1), path)

    def test_tests_are_no_strings_of_users(self):
        self.assertEqual(list(texts_of("crates/cli/tests/it/report.rs", '"who had the CPU"')), [])
        self.assertEqual([kind for kind, _ in texts_of("docs/start/install.md", "x")], ["documentation"])


class Subjects(unittest.TestCase):
    def test_imperatives_pass(self):
        for subject in ("limiter: judge steal against wall time", "docs, cli: rewrite the help of record", "query: embed the list"):
            self.assertIsNone(fault_of_subject(subject), subject)

    def test_statements_and_long_lines_fail(self):
        for subject in ("docs: a token does not keep users out", "Fixed it", "cli: fixed the help", "cli: fixing the help", "cli: adds the help", "serve: README", "docs: new wording", "cli: " + "x" * 70):
            self.assertIsNotNone(fault_of_subject(subject), subject)


class Links(unittest.TestCase):
    def test_links_pictures_and_anchors_are_found(self):
        text = "[a](b.md#c) ![p](q.png) [![x](y.svg)](z.md)\n```\n[no](no.md)\n```\n`[no](no.md)` <a href=\"h.md\">"
        self.assertEqual({target for _, target in links(text)} - {"no.md"}, {"b.md#c", "q.png", "y.svg", "z.md", "h.md"})

    def test_anchors_are_those_of_github(self):
        text = "# The pipe: protocol 2\n## `--to perfetto`\n## A\n## A\n"
        self.assertEqual(anchors(text), {"the-pipe-protocol-2", "--to-perfetto", "a", "a-1"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--quiet"] if "--quiet" in sys.argv else sys.argv)
