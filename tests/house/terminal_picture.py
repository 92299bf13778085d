#!/usr/bin/env python3
"""Renders text with terminal colours into a picture for the documentation.

    tmux capture-pane -e -p -t SESSION | terminal_picture.py docs/images/top.png
    transect report DIR | terminal_picture.py docs/images/report.png

It reads standard input, writes a page beside the picture, and lets Chromium take the screenshot.
"""

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BASIC = ["#1b1f24", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#c9d1d9"]
BRIGHT = ["#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc"]
PAPER, INK = "#0d1117", "#c9d1d9"
FONT_PX, ROW_PX, MARGIN_PX = 14, 18, 16


def palette(number: int) -> str:
    if number < 16:
        return (BASIC + BRIGHT)[number]
    if number >= 232:
        level = 8 + 10 * (number - 232)
        return f"#{level:02x}{level:02x}{level:02x}"
    steps = [0, 95, 135, 175, 215, 255]
    number -= 16
    return "#" + "".join(f"{steps[part]:02x}" for part in (number // 36, number // 6 % 6, number % 6))


class Style:
    """The attributes that SGR sequences (ECMA-48, 8.3.117) set."""

    def __init__(self) -> None:
        self.ink, self.paper, self.flags = None, None, set()

    def apply(self, codes: list[int]) -> None:
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()
            elif code in (1, 2, 3, 4, 7):
                self.flags.add(code)
            elif code == 22:
                self.flags -= {1, 2}
            elif code in (23, 24, 27):
                self.flags.discard(code - 20)
            elif code in (38, 48) and codes:
                kind = codes.pop(0)
                if kind == 5:
                    colour = palette(codes.pop(0))
                else:
                    colour = "#" + "".join(f"{codes.pop(0):02x}" for _ in range(3))
                if code == 38:
                    self.ink = colour
                else:
                    self.paper = colour
            elif code == 39:
                self.ink = None
            elif code == 49:
                self.paper = None
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.ink = (BASIC if code < 90 else BRIGHT)[code % 10]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self.paper = (BASIC if code < 100 else BRIGHT)[code % 10]

    def css(self) -> str:
        ink, paper = self.ink or INK, self.paper
        if 7 in self.flags:
            ink, paper = paper or PAPER, self.ink or INK
        parts = [f"color:{ink}"]
        parts += [f"background:{paper}"] if paper else []
        parts += ["font-weight:bold"] if 1 in self.flags else []
        parts += ["opacity:.65"] if 2 in self.flags else []
        parts += ["text-decoration:underline"] if 4 in self.flags else []
        return ";".join(parts)


def page(text: str) -> str:
    style, out = Style(), []
    for piece in re.split(r"(\x1b\[[0-9;:]*m)", text):
        if piece.startswith("\x1b"):
            style.apply([int(code or 0) for code in re.split("[;:]", piece[2:-1])])
        elif piece:
            out.append(f'<span style="{style.css()}">{html.escape(piece)}</span>')
    return (
        f'<meta charset="utf-8"><body style="margin:{MARGIN_PX}px;background:{PAPER}">'
        f'<pre style="margin:0;font:{FONT_PX}px/{ROW_PX}px \'DejaVu Sans Mono\',monospace">{"".join(out)}</pre>'
    )


def main() -> None:
    picture = Path(sys.argv[1]).resolve()
    text = sys.stdin.read().rstrip("\n")
    lines = re.sub(r"\x1b\[[0-9;:]*m", "", text).split("\n")
    # DejaVu Sans Mono: a character is 0.602 em wide.
    width = int(max(map(len, lines)) * FONT_PX * 0.602) + 2 * MARGIN_PX + 2
    height = len(lines) * ROW_PX + 2 * MARGIN_PX
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "page.html")
        source.write_text(page(text))
        command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1"]
        command += [f"--screenshot={picture}", f"--window-size={width},{height}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
