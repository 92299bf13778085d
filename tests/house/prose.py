#!/usr/bin/env python3
"""The prose check of `make check`: the language of the documentation and of every string that a user reads.

    prose.py            print the figures; fail where one is over its goal
    prose.py --list     print every counted place as well: file, line, words around it
    prose.py FILE...    the same for these files only, with every counted place

It counts three constructions that make a sentence hard to read, per 1,000 words (docs/internals/style.md):

- headless `who`, `whom`, `whose`, `whoever`, `what`, `whatever`: a pronoun where a noun belongs. A direct question may have one.
- `told`, `said`, `says` and their present tense: a program reports, prints, returns, records.
- `nobody`, `somebody` and the like: name the subject.

Documentation and strings have goals. Comments are counted and printed, not judged. Code blocks and inline code do not count.
Commits after the one that added this file need a subject `area: imperative summary` of at most 72 characters.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Iterator, NamedTuple

GOALS = {"headless": 0.2, "told": 0.2, "nobody": 0.1}
# A list of former wording, and the generated copy of it, quotes what this check counts.
EXEMPT = {"docs/internals/words.md"}
JUDGED = ("documentation", "strings")

# `who` may follow a word for people. `whose` may follow any noun: after these words, which are none, it has nothing to refer to.
PEOPLE = "user users people person persons client clients party parties author authors engineer engineers developer developers reader readers".split()
NO_NOUN = (
    "and or but nor of to for from by with on in at as is are was were be behind about than that if when while until not only no out "
    "see sees saw show shows showed shown know knows known tell tells told say says said ask asks asked name names print prints "
    "state states find finds found decide decides depend depends learn learns report reports explain explains determine determines "
    "compare compares compared check checks record records list lists define defines give gives given choose chooses"
).split()
WHAT = re.compile(r"\b(?:what|whatever|whoever)\b", re.I)
WHO = re.compile(r"(?P<before>[\w'-]*)(?P<gap>\W*)\b(?P<word>who|whom|whose)\b", re.I)
TOLD = re.compile(r"\b(?:told|tells?|said|says?)\b", re.I)
NOBODY = re.compile(r"\b(?:nobody|somebody|no one|someone|anybody|everybody)\b", re.I)


class Text(NamedTuple):
    """A piece of prose and the line on which it begins."""

    line: int
    text: str


class Count(NamedTuple):
    words: int
    found: dict[str, list[tuple[int, str]]]


def question(text: str, at: int) -> bool:
    """Does the sentence around `at` end with a question mark?"""
    end = re.compile(r"[.?!:;](?=\s|$|[\"')])|\n\n|\||\n\s*[-*#>|]").search(text, at)
    return bool(end) and end.group() == "?"


def count(texts: list[Text]) -> Count:
    words, found = 0, {kind: [] for kind in GOALS}

    def note(kind: str, piece: Text, at: int) -> None:
        around = piece.text[max(0, at - 40) : at + 40].replace("\n", " ")
        found[kind].append((piece.line + piece.text.count("\n", 0, at), around))

    for piece in texts:
        words += len(re.findall(r"\b[A-Za-z][A-Za-z'-]*\b", piece.text))
        for m in WHAT.finditer(piece.text):
            if not question(piece.text, m.start()):
                note("headless", piece, m.start())
        for m in WHO.finditer(piece.text):
            before, gap = m["before"].lower(), m["gap"]
            has_noun = before in PEOPLE if m["word"].lower() != "whose" else before not in NO_NOUN
            headless = not before or not has_noun or re.search(r"[^\s,*_`\"')]", gap)
            if headless and not question(piece.text, m.end()):
                note("headless", piece, m.end() - 3)
        for m in TOLD.finditer(piece.text):
            note("told", piece, m.start())
        for m in NOBODY.finditer(piece.text):
            note("nobody", piece, m.start())
    return Count(words, found)


def blank(match: re.Match) -> str:
    """The newlines of a text that does not count, so that lines stay where they are."""
    return " . " + "\n" * match[0].count("\n")


def markdown(text: str) -> list[Text]:
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", blank, text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    text = re.sub(r"`[^`\n]+(?:\n[^`\n]+)?`", blank, text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return [Text(1, text)]


RUST = re.compile(
    r"(?P<block>/\*.*?\*/)|(?P<line>//[^\n]*)|(?P<raw>b?r(?P<hashes>#*)\".*?\"(?P=hashes))"
    r"|(?P<str>b?\"(?:[^\"\\]|\\.)*\")|(?P<char>b?'(?:[^'\\\n]|\\[^\n]{1,8}?)')",
    re.S,
)
SCRIPT = re.compile(
    r"(?P<block>/\*.*?\*/)|(?P<line>//[^\n]*)|(?P<str>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<template>`(?:[^`\\]|\\.)*`)",
    re.S,
)
CLAP = re.compile(r"derive\([^)]*\b(?:Parser|Args|Subcommand|ValueEnum)\b[^)]*\)")


def prose(literal: str) -> bool:
    """Is it a text for people: two words at least, and no statement of SQL or of bpftrace?"""
    return len(re.findall(r"[A-Za-z]{2,}", literal)) >= 2 and " " in literal.strip() and not re.match(r"\W*(SELECT|WITH|CREATE)\b|.*/!@", literal, re.S)


def rust(text: str) -> tuple[list[Text], list[Text]]:
    """The strings and the comments. Test modules have neither; doc comments that clap prints are strings."""
    text = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.M)[0]
    # The items whose doc comments clap prints: from the attribute to the closing brace of the item.
    spans = [(m.start(), text.find("\n}", m.end())) for m in CLAP.finditer(text)]
    strings, comments = [], []
    for m in RUST.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        if m["line"] is not None:
            body = m["line"].lstrip("/!").strip()
            is_help = m["line"].startswith("///") and any(first < m.start() < last for first, last in spans)
            target = strings if is_help else comments
            if target and target[-1].line + target[-1].text.count("\n") + 1 == line:
                target[-1] = Text(target[-1].line, target[-1].text + "\n" + body)
            else:
                target.append(Text(line, body))
        elif m["block"] is not None:
            comments.append(Text(line, m["block"]))
        elif m["str"] is not None or m["raw"] is not None:
            literal = re.sub(r"\\\n\s*", lambda _: "\n", m[0])
            literal = re.sub(r"\{[^{}\s]*\}", "x", literal)
            # The reason of a lint attribute is a comment.
            is_reason = text[max(0, m.start() - 9) : m.start()].endswith("reason = ")
            if prose(literal):
                (comments if is_reason else strings).append(Text(line, re.sub(r"`[^`]*`", blank, literal)))
    comments = [Text(c.line, re.sub(r"`[^`\n]*`", blank, c.text)) for c in comments]
    return [Text(s.line, re.sub(r"`[^`\n]*`", blank, s.text)) for s in strings], comments


def script(text: str) -> tuple[list[Text], list[Text]]:
    strings, comments = [], []
    for m in SCRIPT.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        if m["str"] is not None or m["template"] is not None:
            literal = re.sub(r"\$\{[^}]*\}", "x", m[0])
            if prose(literal):
                strings.append(Text(line, literal))
        else:
            comments.append(Text(line, m[0]))
    return strings, comments


def html(text: str) -> list[Text]:
    text = re.sub(r"<(script|style)\b.*?</\1>", blank, text, flags=re.S)
    attributes = [Text(text.count("\n", 0, m.start()) + 1, m[1]) for m in re.finditer(r"\b(?:title|aria-label|placeholder)=\"([^\"]*)\"", text)]
    return [Text(1, re.sub(r"<[^>]*>", blank, text)), *attributes]


def python(text: str) -> list[Text]:
    """The comments and docstrings of a script of the house."""
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append(Text(token.start[0], token.string.lstrip("# ")))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and (doc := ast.get_docstring(node)):
            comments.append(Text(node.body[0].lineno, re.sub(r"`[^`\n]*`", blank, doc)))
    return comments


def texts_of(path: str, text: str) -> Iterator[tuple[str, list[Text]]]:
    """The kinds of prose in one file of the tree."""
    if path.endswith(".md"):
        yield "documentation", markdown(text)
    elif re.search(r"(^|/)(tests?|tests\.rs|it|examples|browser|firefox|dev)(/|$)|_tests\.rs$", path):
        return
    elif path.endswith(".rs"):
        strings, comments = rust(text)
        # Programs for developers print for developers.
        yield ("comments" if path.startswith(("tests/", "testbed/", "fuzz/")) else "strings"), strings
        yield "comments", comments
    elif path.endswith(".ts"):
        strings, comments = script(text)
        yield "strings", strings
        yield "comments", comments
    elif path.endswith(".html") and path.startswith("web/"):
        # Those of docs/reference/studies are output of the versions that measured.
        yield "strings", html(text)
    elif path.endswith(".toml") and path.startswith(("studies/papers/", "plans/")):
        yield "strings", [Text(text.count("\n", 0, m.start()) + 1, m[0]) for m in re.finditer(r"\"\"\".*?\"\"\"|\"[^\"\n]*\"", text, re.S) if prose(m[0])]
    elif path.startswith("sql/"):
        yield "strings", [Text(n, line.lstrip("- ")) for n, line in enumerate(text.splitlines(), 1) if line.startswith("--")]
    elif path.startswith("dist/grafana/") and path.endswith(".json"):
        yield "strings", [Text(text.count("\n", 0, m.start()) + 1, m[1]) for m in re.finditer(r"\"(?:title|description|legendFormat)\": \"([^\"]*)\"", text)]
    elif path.startswith(".github/"):
        yield "documentation", [Text(1, text)]
    elif path == "Makefile":
        yield "strings", [Text(text.count("\n", 0, m.start()) + 1, m[1]) for m in re.finditer(r"## (.*)", text)]
    elif path.endswith(".py"):
        yield "comments", python(text)


def files() -> list[str]:
    try:
        # `.ci/run` tests a copy that is no repository, of the files of the clone that it names.
        tree = os.environ.get("TRANSECT_CLONE", ".")
        command = ["git", "-c", f"safe.directory={tree}", "-C", tree, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        return [f for f in out.split("\0") if f]
    except (OSError, subprocess.CalledProcessError):
        skip = {"node_modules", "target", "dist", "build", ".git"}
        return [p.as_posix() for p in Path(".").rglob("*") if p.is_file() and not skip & set(p.parts[:2])]


def subjects() -> list[str]:
    """The subjects of the commits after the one that added this check; a clone without history has none.

    Raises:
        subprocess.CalledProcessError: `.ci/run` named the clone, and git cannot read it.
    """
    def git(*arguments: str) -> str:
        # `.ci/run` tests a copy without the history, and names the clone.
        tree = os.environ.get("TRANSECT_CLONE", ".")
        return subprocess.run(["git", "-c", f"safe.directory={tree}", "-C", tree, *arguments], capture_output=True, check=True, text=True).stdout.strip()

    try:
        if git("rev-parse", "--is-shallow-repository") == "true":
            raise ValueError("the clone is shallow")
        first = git("log", "--diff-filter=A", "--format=%H", "--", "tests/house/prose.py").splitlines()
        if not first:
            raise ValueError("the commit that added this check is not in the history")
        return git("log", "--no-merges", "--format=%h %s", f"{first[-1]}..HEAD").splitlines()
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        if "TRANSECT_CLONE" in os.environ and not isinstance(error, ValueError):
            raise
        reason = error if isinstance(error, ValueError) else "no git history here"
        print(f"commit subjects: skipped: {reason}")
        return []


# Words that begin a statement. A summary begins with a verb: "limiter: judge steal against wall time".
STATEMENT = set(
    "a an the one no each every all it its this that these there what who we i some any two three new better more less done green".split()
)
IMPERATIVES_IN_S = set("pass process focus discuss press express bless address access compress guess cross dismiss miss bypass".split())


def fault_of_subject(subject: str) -> str | None:
    if len(subject) > 72:
        return f"{len(subject)} characters, at most 72"
    m = re.fullmatch(r"[a-z0-9.][a-z0-9 ,_./-]*: (\S+).*", subject)
    if not m:
        return "not of the form `area: imperative summary`"
    verb = m[1]
    # This finds statements and the other forms of a verb. It cannot find a noun.
    other_form = re.search(r"[^aeu]ed$|[a-z]{3}ing$|[^s]s$", verb) and verb not in ("embed", "shed", "bring", "string") and verb not in IMPERATIVES_IN_S
    if verb.lower() in STATEMENT or not verb.islower() or other_form:
        return f"'{verb}' is no imperative"
    return None


def main() -> int:
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")]
    listed = bool(wanted) or "--list" in sys.argv
    sums: dict[str, dict[str, int]] = {}
    for path in wanted or files():
        if path in EXEMPT or "node_modules" in path:
            continue
        try:
            text = Path(path).read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        for kind, texts in texts_of(path, text):
            result = count(texts)
            row = sums.setdefault(kind, {"words": 0, **{k: 0 for k in GOALS}})
            row["words"] += result.words
            for name, places in result.found.items():
                row[name] += len(places)
                if listed and (kind in JUDGED or wanted):
                    for line, around in places:
                        print(f"{path}:{line}: {kind}: {name}: {around}")
    status = 0
    print(f"prose, per 1,000 words: {'words':>14} {'who/what':>9} {'told/says':>10} {'nobody':>7}")
    for kind in ("documentation", "strings", "comments"):
        row = sums.get(kind, {"words": 0, **{k: 0 for k in GOALS}})
        rates = {k: 1000 * row[k] / max(1, row["words"]) for k in GOALS}
        over = [k for k, goal in GOALS.items() if kind in JUDGED and not wanted and rates[k] > goal]
        end = f"  over the goal: {', '.join(over)} (prose.py --list)" if over else ("" if kind in JUDGED else "  (not judged)")
        print(f"  {kind:<20} {row['words']:>15,} {rates['headless']:>9.2f} {rates['told']:>10.2f} {rates['nobody']:>7.2f}{end}")
        status |= bool(over)
    print(f"  {'goal':<36} {GOALS['headless']:>9.2f} {GOALS['told']:>10.2f} {GOALS['nobody']:>7.2f}")
    for subject in [] if wanted else subjects():
        commit, _, line = subject.partition(" ")
        if fault := fault_of_subject(line):
            print(f"commit {commit} '{line}': {fault}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
