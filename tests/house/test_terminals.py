#!/usr/bin/env python3
"""Tests of the check of terminals and pages: what it must find, and what it must leave alone."""
import sys
import tempfile
import unittest
from pathlib import Path

import terminals


class Terminals(unittest.TestCase):
    def test_streams_are_found_and_fields_are_not(self):
        for line in ("std::io::stdout()", "io::stderr().lock()", "let out = stdout();"):
            self.assertTrue(terminals.STREAM.search(line), line)
        for line in ("child.stdout()", "rows.stderr()", "Stdio::piped()", "terminal::data(Syntax::Csv)"):
            self.assertFalse(terminals.STREAM.search(line), line)

    def test_print_macros_cannot_be_allowed(self):
        self.assertTrue(terminals.ALLOWED.search("#![allow(clippy::print_stdout, clippy::print_stderr)]"))
        self.assertTrue(terminals.ALLOWED.search("#[expect(clippy::unwrap_used, clippy::print_stderr)]"))
        self.assertFalse(terminals.ALLOWED.search("#![allow(unsafe_code)]"))

    def test_own_escapes_are_found(self):
        for line in ("c.escape_default()", 'text.replace(\'<\', "&lt;")', 'format!("\\\\x1b")'):
            self.assertTrue(terminals.ESCAPE.search(line), line)

    def test_markup_of_pages_is_found(self):
        for line in ("node.innerHTML = name;", "document.write(x)", "eval(text)", "a.insertAdjacentHTML('x', y)"):
            self.assertTrue(terminals.MARKUP.search(line), line)
        for line in ("node.textContent = name;", "evaluate(x)", "button.onclick = () => go();"):
            self.assertFalse(terminals.MARKUP.search(line), line)

    def test_comments_and_tests_are_not_code(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.rs"
            path.write_text("// io::stdout()\nfn f() {}\n#[cfg(test)]\nmod tests {\n    io::stdout()\n}\n")
            self.assertFalse(terminals.STREAM.search(terminals.code(path)))
            path.write_text("fn f() { io::stdout(); }\n")
            self.assertTrue(terminals.STREAM.search(terminals.code(path)))

    def test_lists_name_what_is_there_and_nothing_else(self):
        told = terminals.beside({"new.rs"}, {"old.rs": "why"}, "prints", "do not")
        self.assertEqual(len(told), 2, told)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
