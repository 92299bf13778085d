#!/usr/bin/env python3
"""Shows that check.py can fail: every drawn column of every table, altered in one row, is noticed.

    test_check.py TRACE ROWS.jsonl

Also appends a field the schema does not have, drops a packet, and moves one. Exits 0 if every
alteration is noticed.
"""

import contextlib
import io
import json
import sys
import tempfile

from check import EXPECTED, check
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

# An altered length shows only in a slewed row.
WALL_CLOCK = {"ts", "unix_ns"}
WINDOWS = {"ts", "machine_id", "gotten_ns", "waited_ns", "blocked_ns", "unknown_ns", "exits", "io_count"}


def fails(trace, rows):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return not check(trace, rows)
        except (KeyError, ValueError, TypeError, AttributeError):
            # Nonsense that the check stumbles over is noticed, too.
            return True


def altered(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return 7


def row_alterations(lines):
    """(table, column, lines with one value changed), for the first row of each table that has one."""
    tables = [*EXPECTED, "wakeups", "windows", "wall_clock"]
    for table in tables:
        at = next((at for at, line in enumerate(lines) if json.loads(line)["table"] == table and
                   json.loads(line).get("tid", 1) != 0), None)
        if at is None:
            continue
        row = json.loads(lines[at])
        for column in row:
            if column == "table" or (table == "windows" and column not in WINDOWS):
                continue
            if table == "wall_clock" and column not in WALL_CLOCK:
                continue
            changed = row | {column: altered(row[column])}
            yield table, column, lines[:at] + [json.dumps(changed) + "\n"] + lines[at + 1 :]


def trace_alterations(bytes_):
    """(what, bytes of a trace that is not right any more)."""
    yield "an unknown field", bytes_ + b"\x0a\x04\xfa\xff\x3f\x00"
    trace = pb.Trace()
    trace.ParseFromString(bytes_)
    events = [at for at, packet in enumerate(trace.packet) if packet.HasField("track_event")]
    middle = events[len(events) // 2]
    for what, change in (
        ("a packet dropped", lambda t: t.packet.pop(middle)),
        ("a stamp moved", lambda t: setattr(t.packet[middle], "timestamp", t.packet[middle].timestamp + 1)),
        ("a clock's packet moved to the end", lambda t: t.packet.append(t.packet.pop(events[0]))),
    ):
        copy = pb.Trace()
        copy.CopyFrom(trace)
        change(copy)
        yield what, copy.SerializeToString()


def main(trace, rows):
    with open(rows, encoding="utf-8") as file:
        lines = file.readlines()
    with open(trace, "rb") as file:
        bytes_ = file.read()
    passed, failed = 0, 0
    with tempfile.NamedTemporaryFile("w+", suffix=".jsonl") as changed:
        for table, column, new in row_alterations(lines):
            changed.seek(0)
            changed.truncate()
            changed.writelines(new)
            changed.flush()
            noticed = fails(trace, changed.name)
            passed, failed = passed + noticed, failed + (not noticed)
            if not noticed:
                print(f"FAILED: {table}.{column} altered, and the check did not notice")
    with tempfile.NamedTemporaryFile("w+b", suffix=".pftrace") as changed:
        for what, new in trace_alterations(bytes_):
            changed.seek(0)
            changed.truncate()
            changed.write(new)
            changed.flush()
            noticed = fails(changed.name, rows)
            passed, failed = passed + noticed, failed + (not noticed)
            if not noticed:
                print(f"FAILED: {what}, and the check did not notice")
    print(f"{passed} passed, {failed} failed")
    return failed == 0 and passed > 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(0 if main(sys.argv[1], sys.argv[2]) else 1)
