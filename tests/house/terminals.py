#!/usr/bin/env python3
"""Checks that text from outside (guests, processes, files) reaches terminals and pages through one place per kind.

- `print!` and its kin are denied by clippy; only programs of tests and of the benchmark may allow them. Here the files
  that open standard output or standard error themselves are listed, each with its reason.
- `Untrusted::raw_for_storage` gives text out unescaped: the files that call it are listed, each with its reason.
- HTML, terminal and control-character escapes are written in `crates/model/src/escape.rs` only.
- The pages set text as text: no call that parses a string as HTML or code.

A list that names a file without such a use fails, too, so that the lists stay true.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The programs' own writers, and streams that carry no text for people.
STREAMS = {
    "crates/agent/src/terminal.rs": "the agent's writer",
    "crates/bench/platforms/src/bin/echo-worker.rs": "a protocol on standard output",
    "crates/bench/worker/src/bin/transect-bench-worker.rs": "the worker's writer",
    "crates/bench/worker/src/lib.rs": "a protocol on standard output; the worker's errors, escaped",
    "crates/bench/worker/src/one.rs": "a protocol on standard output",
    "crates/cli/src/terminal.rs": "transect's writer",
    "crates/query/src/bin/transect-sql/answer.rs": "asks whether it is a terminal",
    "crates/query/src/bin/transect-sql/output.rs": "asks whether it is a terminal",
    "crates/query/src/bin/transect-sql/pipe.rs": "a protocol on standard output",
    "crates/query/src/bin/transect-sql/terminal.rs": "transect-sql's writer",
    "crates/top/src/run/terminal.rs": "the screen; ratatui draws cells",
}

# Programs that may use the macros.
PRINTS = {"crates/bench/platforms/src/bin/echo-worker.rs": "a protocol on standard output"}

# Text from outside as it came: to be stored, sent or compared.
RAW = {
    "crates/model/src/untrusted.rs": "its definition",
    "crates/probes/guest/src/discover.rs": "compares UUIDs",
    "crates/probes/guest/src/proto/wire.rs": "sends it",
    "crates/probes/guest/src/serve.rs": "looks a clock up by its name",
    "crates/probes/guest/src/session/run.rs": "looks a clock up by its name; text that becomes untrusted again",
    "crates/recorder/src/guest_sink.rs": "the manifest and the files of a guest",
}

STREAM = re.compile(r"(?<![.\w])(?:std::)?(?:io::)?(?:stdout|stderr)\(\)")
ALLOWED = re.compile(r"(?:allow|expect)\((?:[^)]*\b)?clippy::print_std(?:out|err)")
ESCAPE = re.compile(r"""["'](?:&lt;|\\\\x1b|\\\\u\{)|escape_default\(|escape_debug\(""")
ESCAPES = {
    "crates/bench/report/src/html/mod.rs": "JSON inside a page",
    "crates/cli/src/pages.rs": "tests only",
    "crates/formats/compact/src/header.rs": "quotes the begin of a file",
    "crates/model/src/escape.rs": "the place of it",
    "crates/model/src/guard.rs": "the same for streams",
    "crates/model/src/json.rs": "JSON",
    "crates/serve/src/service/config/fields.rs": "TOML",
}
MARKUP = re.compile(
    r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|parseFromString|srcdoc|setHTMLUnsafe)\b"
    r"|document\.write|\beval\(|new Function\(|\.on[a-z]+ = [\"'`]"
)


def sources() -> list[Path]:
    """Rust files of programs and libraries, without tests, examples and benchmarks of speed."""
    skipped = {"tests", "examples", "benches"}
    files = (p for p in (ROOT / "crates").rglob("*.rs") if not skipped & set(p.relative_to(ROOT).parts))
    return sorted(p for p in files if p.name not in ("tests.rs", "build.rs"))


def code(path: Path) -> str:
    """The file's code: without comments and without its tests."""
    text = path.read_text()
    text = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.M)[0]
    return re.sub(r"^\s*//.*$", "", text, flags=re.M)


def pages() -> list[Path]:
    ours = [p for end in ("ts", "js", "mjs", "html") for folder in ("src", "dashboard", "static")
            for p in (ROOT / "web" / folder).rglob(f"*.{end}")]
    return sorted(ours + [p for p in (ROOT / "crates" / "bench" / "report" / "src" / "html").glob("*.js")])


def uses(files: list[Path], pattern: re.Pattern) -> set[str]:
    return {str(p.relative_to(ROOT)) for p in files if pattern.search(code(p))}


def beside(found: set[str], allowed: dict[str, str], what: str, instead: str) -> list[str]:
    return ([f"{path}: {what}: {instead}" for path in sorted(found - allowed.keys())]
            + [f"{path}: is listed in tests/house/terminals.py and does not need to be" for path in sorted(allowed.keys() - found)])


def main() -> int:
    files = sources()
    problems = beside(uses(files, STREAM), STREAMS, "opens standard output or standard error",
                      "print by the terminal module of the program")
    problems += beside(uses(files, re.compile(r"raw_for_storage\b")), RAW, "takes untrusted text raw",
                       "use terminal(), html() or json(); to store it, list the file with the reason")
    problems += beside(uses(files, ALLOWED), PRINTS, "allows print macros", "print by the terminal module of the program")
    problems += beside(uses(files, ESCAPE), ESCAPES, "escapes by itself", "use transect_model::escape")
    web = pages()
    if len(web) < 20:
        problems.append("web: the sources of the pages were not found")
    problems += [f"{path}: parses a string as HTML or code: set textContent" for path in sorted(uses(web, MARKUP))]
    for problem in problems:
        print(f"terminals: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
