#!/usr/bin/env python3
"""Makes one folder the copy of a work tree, and touches nothing in it that is the same: copy_tree.py TREE COPY.

Cargo's output for the copy stays good, since files that have not changed keep their times. Files that git ignores in the
tree are not copied. The copy keeps the folders of the builds, and loses everything else that the tree does not have.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Cargo's folder, and what `make web` made from package-lock.json and from the page's sources.
STAYS = ("target", "web/node_modules", "web/dist")


def files(tree: Path) -> list[str]:
    """Every file of the work tree that git does not ignore, whoever owns it."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={tree}", "-C", tree, "ls-files", "-z",
         "--cached", "--others", "--exclude-standard"], check=True, capture_output=True).stdout
    names = {os.fsdecode(name) for name in listed.split(b"\0") if name}
    return sorted(name for name in names if (tree / name).is_symlink() or (tree / name).is_file())


def content(path: Path) -> tuple:
    """What makes two files the same: kind, right to be run, bytes."""
    if path.is_symlink():
        return ("link", os.readlink(path))
    if not path.is_file():
        return ("none",)
    return ("file", os.access(path, os.X_OK), path.read_bytes())


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def copy(tree: Path, target: Path) -> tuple[int, int]:
    """Files written and files and folders removed."""
    names = [name for name in files(tree) if target not in (tree / name).parents]
    wanted = set(names)
    folders = {str(parent) for name in names for parent in Path(name).parents}
    written = removed = 0
    for place, inner, found in os.walk(target):
        here = Path(place).relative_to(target)
        for name in inner + found:
            path = str(here / name)
            is_dir = (target / path).is_dir() and not (target / path).is_symlink()
            if path in STAYS or path in (folders if is_dir else wanted):
                continue
            remove(target / path)
            removed += 1
        inner[:] = [name for name in inner
                    if str(here / name) in folders and not (target / here / name).is_symlink()]
    for name in names:
        if content(tree / name) == content(target / name):
            continue
        remove(target / name)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        # With the time of now: what was built from the old file is older.
        shutil.copy(tree / name, target / name, follow_symlinks=False)
        if not (target / name).is_symlink():
            os.utime(target / name)
        written += 1
    return written, removed


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    tree, target = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if tree == target or target in tree.parents:
        print(f"copy: {target} has the tree {tree} in it, and what a tree does not have is removed", file=sys.stderr)
        return 2
    target.mkdir(parents=True, exist_ok=True)
    written, removed = copy(tree, target)
    print(f"copy: {target} has the files of {tree}: {written} written, {removed} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
