#!/usr/bin/env python3
"""Tests of copy_tree.py."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from copy_tree import copy

OLD = 1_000_000_000


class CopyTree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree, self.copied = Path(self.folder.name, "tree"), Path(self.folder.name, "copy")
        self.copied.mkdir()
        subprocess.run(["git", "init", "-q", self.tree], check=True)
        self.put(self.tree, ".gitignore", "/target/\n/web/node_modules/\n/web/dist/\n")
        self.put(self.tree, "src/a.rs", "a")
        self.put(self.tree, "src/b.rs", "b")
        subprocess.run(["git", "-C", self.tree, "add", "-A"], check=True)

    def put(self, root, name, text):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def copy(self):
        """Copies, and makes every file of the copy an old one."""
        done = copy(self.tree, self.copied)
        for path in self.copied.rglob("*"):
            os.utime(path, (OLD, OLD), follow_symlinks=False)
        return done

    def test_what_is_the_same_keeps_its_time(self):
        self.assertEqual(self.copy(), (3, 0))
        self.put(self.tree, "src/a.rs", "changed")
        self.put(self.tree, "src/b.rs", "b")
        self.assertEqual(copy(self.tree, self.copied), (1, 0))
        self.assertEqual((self.copied / "src/b.rs").stat().st_mtime, OLD)
        self.assertGreater((self.copied / "src/a.rs").stat().st_mtime, OLD)
        self.assertEqual((self.copied / "src/a.rs").read_text(), "changed")

    def test_a_file_changed_back_is_new(self):
        self.copy()
        self.put(self.copied, "src/a.rs", "of an earlier commit")
        os.utime(self.tree / "src/a.rs", (OLD, OLD))
        copy(self.tree, self.copied)
        self.assertGreater((self.copied / "src/a.rs").stat().st_mtime, OLD)

    def test_what_is_gone_or_ignored_is_not_in_the_copy(self):
        self.put(self.tree, "target/debug/x", "built")
        self.copy()
        self.assertFalse((self.copied / "target").exists())
        for name in ("web/build/x", "src/left.rs", "old/folder/c.rs"):
            self.put(self.copied, name, "left over")
        (self.tree / "src/b.rs").unlink()
        self.assertEqual(copy(self.tree, self.copied), (0, 4))
        self.assertEqual(sorted(path.name for path in self.copied.iterdir()), [".gitignore", "src"])
        self.assertEqual([path.name for path in (self.copied / "src").iterdir()], ["a.rs"])

    def test_what_was_built_stays(self):
        self.put(self.tree, "web/build.mjs", "")
        self.copy()
        self.put(self.copied, "web/node_modules/p/index.js", "kept")
        self.put(self.copied, "web/dist/index.html", "kept")
        self.put(self.copied, "target/release/transect", "kept")
        self.put(self.copied, "web/build/test/x.mjs", "not kept")
        self.assertEqual(copy(self.tree, self.copied), (0, 1))
        self.assertTrue((self.copied / "web/node_modules/p/index.js").exists())
        self.assertTrue((self.copied / "web/dist/index.html").exists())
        self.assertTrue((self.copied / "target/release/transect").exists())

    def test_kinds_of_files(self):
        self.copy()
        (self.tree / "src/b.rs").chmod(0o755)
        (self.tree / "link").symlink_to("src/a.rs")
        (self.tree / "src/a.rs").unlink()
        self.put(self.tree, "src/a.rs/inner", "a folder now")
        self.assertEqual(copy(self.tree, self.copied), (3, 1))
        self.assertTrue(os.access(self.copied / "src/b.rs", os.X_OK))
        self.assertEqual(os.readlink(self.copied / "link"), "src/a.rs")
        self.assertEqual((self.copied / "src/a.rs/inner").read_text(), "a folder now")
        (self.tree / "src/a.rs/inner").unlink()
        (self.tree / "src/a.rs").rmdir()
        self.put(self.tree, "src/a.rs", "a file again")
        copy(self.tree, self.copied)
        self.assertEqual((self.copied / "src/a.rs").read_text(), "a file again")
        self.assertEqual(copy(self.tree, self.copied), (0, 0))


if __name__ == "__main__":
    unittest.main()
