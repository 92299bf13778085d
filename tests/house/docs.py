#!/usr/bin/env python3
"""The check of the documentation in `make check`. It fails where

- a relative link of a page names a file or a heading that does not exist,
- a page under docs/ is not linked from docs/README.md, or needs more than two clicks from README.md,
- a path of the tree named in a page as inline code (`crates/…`, `tests/house/…`) does not exist,
- README.md has more than 500 words beside its code blocks and pictures,
- a codec, a probe, or a state of the model has no place in the page that lists them.

Pages that are made from code are compared by the tests of that code (CONTRIBUTING.md, "Documentation").
"""

import posixpath
import re
import sys
from pathlib import Path

import prose

README_WORDS = 500
INDEX = "docs/README.md"
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.S | re.M)
LINK = re.compile(r"(!?)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HREF = re.compile(r"\b(?:href|src)=\"([^\"]+)\"")
# The roots of paths that belong to the tree. A glob, a placeholder in capitals or a brace list is not one path.
TREE = re.compile(r"`((?:crates|tests|testbed|testdata|web|bpf|ratios|docs|dist|fuzz|plans|sql|studies)/[\w./@-]+)`")


def blank(match: re.Match) -> str:
    return "\n" * match[0].count("\n")


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    text = re.sub(r"`([^`]*)`", r"\1", heading)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>]*>|[*]", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    found: set[str] = set()
    for m in re.finditer(r"^#{1,6}\s+(.*?)\s*#*$", FENCE.sub(blank, text), re.M):
        base = name = slug(m[1])
        number = 0
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found.add(name)
    return found | set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text))


def links(text: str) -> list[tuple[int, str]]:
    """The targets of a page, with their lines."""
    body = FENCE.sub(blank, text)
    body = re.sub(r"`[^`\n]*`(?!\])", lambda m: m[0] if "](" in m[0] else "`" + "x" * (len(m[0]) - 2) + "`", body)
    found = [(m.start(), m[2]) for m in LINK.finditer(body)] + [(m.start(), m[1]) for m in HREF.finditer(body)]
    # A picture inside of a link.
    found += [(m.start(), m[1]) for m in re.finditer(r"!\[[^\]]*\]\(([^)\s]+)\)", body)]
    return sorted({(body.count("\n", 0, at) + 1, target) for at, target in found})


def main() -> int:
    faults: list[str] = []
    files = {f for f in prose.files() if Path(f).exists()}
    folders = {p for f in files for p in map(str, Path(f).parents)}
    everything = files | folders
    pages = {f: Path(f).read_text() for f in sorted(files) if f.endswith(".md")}
    heads = {f: anchors(text) for f, text in pages.items()}
    leads: dict[str, set[str]] = {f: set() for f in pages}
    checked = 0
    for page, text in pages.items():
        for line, target in links(text):
            if re.match(r"[a-z][a-z+.-]*:", target):
                continue
            checked += 1
            path, _, anchor = target.partition("#")
            full = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
            if full not in files and full not in folders:
                faults.append(f"{page}:{line}: no file {full}")
                continue
            if full in folders and f"{full}/README.md" in files:
                full = f"{full}/README.md"
            leads[page].add(full)
            if anchor and full in heads and anchor not in heads[full]:
                faults.append(f"{page}:{line}: {full} has no heading #{anchor}")
        body = FENCE.sub(blank, text)
        for m in TREE.finditer(body):
            path = m[1].rstrip("/.")
            # A README of a crate names paths from there.
            bases = ["", *map(str, Path(page).parents)]
            exists = any(posixpath.normpath(posixpath.join(base, path)) in everything for base in bases)
            # `tests/it/…` of the crate that the sentence is about.
            exists = exists or path.startswith("tests/") and any(f.endswith(f"/{path}") for f in everything)
            placeholder = re.search(r"(^|/)(NAME|TABLE|TIER|[a-z_-]*NAME[a-z_-]*)(\.|/|$)|(^|/)dist/(index|dashboard|assets)", path)
            # CHANGELOG.md names files as they were; the figures of performance.md have names like paths.
            if not exists and not placeholder and page not in ("CHANGELOG.md", "docs/internals/words.md", "docs/internals/performance.md"):
                faults.append(f"{page}:{body.count(chr(10), 0, m.start()) + 1}: no path {m[1]}")
    docs = {f for f in pages if f.startswith("docs/")}
    if INDEX not in pages:
        faults.append(f"{INDEX} is missing")
    else:
        for page in sorted(docs - {INDEX} - leads[INDEX]):
            faults.append(f"{INDEX} does not link {page}")
        if INDEX not in leads["README.md"]:
            faults.append(f"README.md does not link {INDEX}")
    front = FENCE.sub("", pages["README.md"])
    front = re.sub(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)", "", front, flags=re.S)
    front = re.sub(r"\]\([^)]*\)", "]", front)
    words = len(re.findall(r"[^\s|]*[A-Za-z0-9][^\s|]*", front))
    if words > README_WORDS:
        faults.append(f"README.md has {words} words, at most {README_WORDS}")
    lists = [
        ("docs/reference/formats.md", sorted({f.split("/")[2] for f in files if re.match(r"crates/formats/[a-z]+/Cargo.toml$", f)})),
        ("ARCHITECTURE.md", sorted({f.split("/")[2] for f in files if re.match(r"crates/probes/[a-z]+/Cargo.toml$", f)})),
    ]
    for page, names in lists:
        for name in names:
            if name not in pages.get(page, ""):
                faults.append(f"{page} lacks {name}")
    states = re.findall(r"State::\w+ => \"(\w+)\"", Path("crates/model/src/state.rs").read_text())
    described = pages["docs/reference/states.md"] + pages["docs/reference/xen.md"]
    faults += [f"docs/reference/states.md and xen.md lack the state `{name}`" for name in sorted(set(states)) if f"`{name}`" not in described]
    print("\n".join(faults) if faults else f"docs: {len(pages)} pages, {checked} links, README.md {words} words")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
