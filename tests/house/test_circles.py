#!/usr/bin/env python3
"""Tests of the check of circles: which files point at which."""
import sys
import tempfile
import unittest
from pathlib import Path

import circles


def arrows(files: dict[str, str]) -> set[str]:
    """`a -> b` for each file of a crate that points at another."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (to := Path(folder, "src", path)).parent.mkdir(parents=True, exist_ok=True)
            to.write_text(text)
        found = circles.Crate(Path(folder)).arrows()
    return {f"{circles.name(one)} -> {circles.name(other)}" for one, others in found.items() for other in others}


def found(files: dict[str, str]) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (to := Path(folder, "src", path)).parent.mkdir(parents=True, exist_ok=True)
            to.write_text(text)
        return [list(map(circles.name, circle)) for circle, _ in circles.Crate(Path(folder)).circles()]


class Circles(unittest.TestCase):
    def test_a_name_leads_to_where_it_is_defined(self):
        files = {
            "lib.rs": "mod a;\nmod b;\npub use a::{One, Two as Deux};\n",
            "a.rs": "pub struct One;\npub struct Two;\n",
            "b.rs": "use crate::Deux;\nfn f(_: Deux) {}\n",
        }
        self.assertEqual(arrows(files), {"b -> a"})

    def test_a_face_hands_on_and_does_not_use(self):
        face = {"lib.rs": "mod a;\npub use a::One;\npub struct Other;\n", "a.rs": "use super::Other;\npub struct One(Other);\n"}
        self.assertEqual(arrows(face), {"a -> the root"})
        self.assertEqual(found(face), [])
        user = {**face, "lib.rs": face["lib.rs"] + "fn f(_: One) {}\n"}
        self.assertEqual(found(user), [["the root", "a"]])

    def test_paths_in_code_and_globs_are_arrows(self):
        files = {
            "lib.rs": "mod a;\nmod b;\nmod c;\n",
            "a.rs": "fn f() { crate::b::g(); }\n",
            "b.rs": "use super::c::*;\npub fn g() { h() }\n",
            "c/mod.rs": "mod d;\npub use d::h;\n",
            "c/d.rs": "pub fn h() {}\n",
        }
        self.assertEqual(arrows(files), {"a -> b", "b -> c::d"})

    def test_a_circle_may_go_over_others(self):
        files = {
            "lib.rs": "mod a;\nmod b;\nmod c;\n",
            "a.rs": "use crate::b::B;\npub struct A(B);\n",
            "b.rs": "use crate::c::C;\npub struct B(C);\n",
            "c.rs": "use crate::a::A;\npub struct C(Option<Box<A>>);\n",
        }
        self.assertEqual(found(files), [["a", "b", "c"]])

    def test_comments_literals_and_tests_point_at_nothing(self):
        files = {
            "lib.rs": "mod a;\npub struct One;\n",
            "a.rs": '// crate::One\nconst T: &str = "crate::One";\n#[cfg(test)]\nmod tests {\n    use crate::One;\n    fn f() { { One; } }\n}\n',
        }
        self.assertEqual(arrows(files), set())

    def test_methods_are_no_names_and_macros_make_some(self):
        files = {
            "lib.rs": "mod a;\nmod b;\n",
            "a.rs": "use crate::b;\nimpl A {\n    fn b(&self) { b::go() }\n}\npub struct A;\n",
            "b.rs": "use crate::a::A;\npub fn go() {}\ntable! {\n    Row in \"rows\" {}\n}\n",
        }
        self.assertEqual(found(files), [["a", "b"]])
        files = {"lib.rs": "mod b;\nuse b::Row;\n", "b.rs": "table! {\n    Row in \"rows\" {}\n}\n"}
        self.assertEqual(arrows(files), {"the root -> b"})

    def test_other_crates_are_no_files(self):
        files = {"lib.rs": "mod a;\nuse anyhow::Result;\nuse a::*;\nuse std::io::*;\nfn f() -> Result<()> { Ok(()) }\n",
                 "a.rs": "use anyhow::*;\nuse serde::serde;\nfn g() { serde::x() }\n"}
        self.assertEqual(arrows(files), set())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
