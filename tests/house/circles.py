#!/usr/bin/env python3
"""Finds the circles of files within each crate, and checks that ARCHITECTURE.md names each that stays:
circles.py [FOLDER OF A CRATE ...]; with folders, prints what ties each of their circles.

A file points at another if it uses a name that the other defines, through however many `use` of other files; a file that
only hands a name on (`pub use`) does not use it. Files that point at each other, directly or over others, are a circle:
none of them can be read, moved or tested without the rest. Tests are not looked at.
"""
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
# Functions at the margin alone: those of an `impl` are no names of the file.
DEFINITION = re.compile(
    r"^(?:\s*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?(?:struct|enum|union|trait|type|const|static|macro_rules!)"
    r"|(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|async|unsafe|extern(?:\s+\"[^\"]*\")?)\s+)*fn)\s+(\w+)", re.M)
MAKER = re.compile(r"^\w+! *[({]", re.M)
USE = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.M)
PATH = re.compile(r"(?<![\w:.])(?:r#)?[A-Za-z_]\w*(?:\s*::\s*(?:r#)?[A-Za-z_]\w*)+")
NAMED = re.compile(r"^- `([^`]+)`: ", re.M)


def code(text: str) -> str:
    """The text without comments, literals, and the modules that are compiled for tests alone."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'',
                  lambda found: '""' if found[0][0] in "\"br'" else "", text, flags=re.S)
    while found := re.search(r"#\[cfg\((?:test|all\(test[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(?:mod|use|fn|impl)\b", text):
        end = closing(text, found.end())
        text = text[:found.start()] + text[end:]
    return text


def closing(text: str, start: int) -> int:
    """The end of the item that begins before `start`: its semicolon, or the brace that closes its block."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at + 1
        elif text[at] == ";" and depth == 0:
            return at + 1
    return len(text)


def leaves(tree: str, before: tuple = ()) -> list[tuple[tuple, str]]:
    """Each path of a `use` tree, and the name by which it is known."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = tree.partition(" as ")
        parts = before + tuple(part.strip() for part in path.split("::") if part.strip())
        if parts and parts[-1] == "self":
            parts = parts[:-1]
        return [(parts, alias.strip() or (parts[-1] if parts else ""))]
    before += tuple(part.strip() for part in head.split("::") if part.strip())
    depth, piece, found = 0, "", []
    for letter in rest[:rest.rfind("}")] + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found += leaves(piece, before) if piece.strip() else []
            piece = ""
        else:
            piece += letter
    return found


class File:
    def __init__(self, path: Path, module: tuple):
        self.path, self.module = path, module
        text = code(path.read_text())
        self.defined = set(DEFINITION.findall(text))
        self.imports, self.globs, self.handed_on = {}, [], set()
        for public, tree in USE.findall(text):
            for parts, name in leaves(re.sub(r"\s+", " ", tree)):
                if name == "*":
                    self.globs.append(parts[:-1])
                elif parts:
                    self.imports[name] = parts
                    if public:
                        self.handed_on.add(name)
        self.makes_names = bool(MAKER.search(text))
        self.body = USE.sub("", text)
        self.words = set(re.findall(r"\w+", self.body))


class Crate:
    def __init__(self, folder: Path):
        self.files = {}
        for path in sorted((folder / "src").rglob("*.rs")):
            parts = path.relative_to(folder / "src").with_suffix("").parts
            if "tests" in parts or parts[0] == "bin" or parts == ("main",) and (folder / "src/lib.rs").exists():
                continue
            module = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
            self.files[module] = File(path, module)

    def module(self, start: tuple, parts: tuple) -> tuple[tuple, tuple] | None:
        """The module that a path written in `start` begins with, and the rest of the path."""
        if parts[0] == "crate":
            return (), parts[1:]
        if parts[0] == "self":
            return start, parts[1:]
        if parts[0] == "super":
            base = start
            while parts and parts[0] == "super":
                base, parts = base[:-1], parts[1:]
            return base, parts
        if start + parts[:1] in self.files:
            return start + parts[:1], parts[1:]
        return None

    def definition(self, start: tuple, parts: tuple, seen=frozenset(), is_inside=False) -> tuple | None:
        """The file that defines what a path written in the file `start` names; None if it is another crate's."""
        if not parts or (start, parts) in seen or start not in self.files:
            return None
        seen |= {(start, parts)}
        if found := self.module(start, parts):
            module, rest = found
            if not rest:
                return None  # a module, not a name
            return self.definition(module, rest, seen, True) if module != start or rest != parts else None
        file = self.files[start]
        if parts[0] in file.defined:
            return start
        if parts[0] in file.imports:
            target = file.imports[parts[0]]
            found = self.module(start, target)
            if found and found[0] in self.files and found[0] + found[1] in self.files:
                return self.definition(found[0] + found[1], parts[1:], seen)  # an imported module
            if target[0] == parts[0] and found is None:
                return None  # another crate's
            return self.definition(start, target + parts[1:], seen)
        for glob in file.globs:
            target = self.module(start, glob)
            if target and (found := self.definition(target[0], target[1] + parts, seen)) is not None:
                return found
        # What else comes from a file whose macros define names.
        return start if file.makes_names and is_inside else None

    def arrows(self) -> dict[tuple, dict[tuple, set[str]]]:
        arrows = defaultdict(lambda: defaultdict(set))
        for module, file in self.files.items():
            used = [(path, name) for name, path in file.imports.items() if name not in file.handed_on or name in file.words]
            used += [(path := tuple(re.split(r"\s*::\s*", found)), path[-1]) for found in PATH.findall(file.body)]
            for glob in file.globs:
                used += [(glob + (word,), word) for word in file.words]
            for path, name in used:
                other = self.definition(module, path)
                if other is not None and other != module:
                    arrows[module][other].add(path[-1])
        return arrows

    def circles(self) -> list[tuple[list[tuple], dict]]:
        arrows = self.arrows()
        reach = {}
        for start in self.files:
            reached, todo = set(), [start]
            while todo:
                for other in arrows[todo.pop()]:
                    if other not in reached:
                        reached.add(other)
                        todo.append(other)
            reach[start] = reached
        found, done = [], set()
        for start in sorted(self.files):
            if start not in done and start in reach[start]:
                circle = sorted(other for other in reach[start] if start in reach[other])
                done |= set(circle)
                found.append((circle, arrows))
        return found


def crates() -> list[Path]:
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", str(HOUSE / "Cargo.toml")],
        check=True, capture_output=True, text=True).stdout
    folders = {Path(package["manifest_path"]).parent for package in json.loads(metadata)["packages"]}
    return sorted(folder for folder in folders if (folder / "src").is_dir())


def name(module: tuple) -> str:
    return "::".join(module) or "the root"


def main(arguments: list[str]) -> int:
    named = set(NAMED.findall((HOUSE / "ARCHITECTURE.md").read_text()))
    problems, count, files = [], 0, 0
    for folder in [Path(argument).resolve() for argument in arguments] or crates():
        crate = Crate(folder)
        files += len(crate.files)
        where = str(folder.relative_to(HOUSE))
        for circle, arrows in crate.circles():
            count += 1
            title = f"{where}: " + ", ".join(map(name, circle))
            if arguments:
                print(f"{title}")
                for one in circle:
                    for other in circle:
                        if other in arrows[one]:
                            print(f"    {name(one)} -> {name(other)}: {', '.join(sorted(arrows[one][other]))}")
            elif title not in named:
                problems.append(f"not named in ARCHITECTURE.md: `{title}`")
            named.discard(title)
    if not arguments:
        problems += [f"ARCHITECTURE.md names a circle that is none: `{title}`"
                     for title in sorted(named) if re.match(r"(crates|testbed|ratios|studies)\b[^`]*: ", title)]
        for problem in problems:
            print(f"circles: {problem}", file=sys.stderr)
        if not problems:
            print(f"circles: {files} files, {count} circles, each named in ARCHITECTURE.md")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
