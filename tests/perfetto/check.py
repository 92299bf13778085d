#!/usr/bin/env python3
"""Checks an exported Perfetto trace against Perfetto's schema and against the tables.

    check.py TRACE ROWS.jsonl

TRACE is what `transect export --to perfetto` wrote, ROWS what `--to jsonl` wrote of the same
recording. The trace is decoded with the protobuf classes Perfetto publishes on PyPI; nothing of
transect's own code is used. Exits 0 if all of this holds, else prints what does not and exits 1:

- schema: no field unknown to the schema, at any depth; every interned id was introduced before;
- order: packets are sorted by time; every slice that begins ends, innermost first; tracks are
  declared once, before use, after their parents;
- rows: every slice, instant and counter value is one row with the same ts, dur and columns, and
  every row that is to be drawn is there, exactly once;
- guest slices inside vCPU slices are the guest's own slices cut to them;
- wall clock: it is stated where the table wall_clock has it, with the same time;
- arrows: each leaves one wakeup and arrives where that thread begins to run.
"""

import json
import re
import sys
from collections import Counter, defaultdict

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

MAX_SHOWN = 5
EVENT = pb.TrackEvent


class Failures:
    def __init__(self):
        self.count = 0

    def say(self, what):
        self.count += 1
        if self.count <= 40:
            print(f"FAILED: {what}")


def check_known(message, path, failures):
    """No unknown field in the message or in any message inside it."""
    for field in UnknownFieldSet(message):
        failures.say(f"{path} has field {field.field_number}, which the schema does not have")
    for field, value in message.ListFields():
        if field.message_type is None:
            if field.enum_type is not None:
                values = value if isinstance(value, (list, tuple)) or hasattr(value, "append") else [value]
                for number in values:
                    if number not in field.enum_type.values_by_number:
                        failures.say(f"{path}.{field.name} is {number}, which the enum does not have")
            continue
        inner = value if hasattr(value, "append") else [value]
        for item in inner:
            check_known(item, f"{path}.{field.name}", failures)


class Track:
    def __init__(self, descriptor, parent):
        self.uuid = descriptor.uuid
        self.name = descriptor.name
        self.parent = parent
        self.counter = descriptor.counter if descriptor.HasField("counter") else None
        self.table = self.actor = None
        # "vcpu_states of machine_id 1 vcpu 0"
        found = re.fullmatch(r"([a-z_.]+) of machine_id (\d+)(?: (cpu|vcpu|tid|cgroup) (.*))?", descriptor.description)
        if found:
            self.table, machine, kind, value = found.groups()
            self.actor = {"machine_id": int(machine)}
            if kind:
                self.actor[kind] = value if kind == "cgroup" else int(value)
        shift = re.search(r"stamps are trace time \+ (\d+) in", descriptor.description)
        self.shift = int(shift[1]) if shift else None


class Reader:
    """Rebuilds slices, instants, counter values and arrows from the packets."""

    def __init__(self, trace, failures):
        self.failures = failures
        self.tracks = {}
        self.interned = defaultdict(dict)
        self.open = defaultdict(list)
        self.slices, self.instants, self.counters = [], [], []
        self.clocks = []
        self.last = None
        for packet in trace.packet:
            self.packet(packet)
        for uuid, stack in self.open.items():
            if stack:
                failures.say(f"{len(stack)} slices of track '{self.tracks[uuid].name}' never end")

    def packet(self, packet):
        if packet.trusted_packet_sequence_id != 1:
            self.failures.say("a packet without its sequence id")
        for kind, field in (("category", "event_categories"), ("name", "event_names"), ("note", "debug_annotation_names")):
            for entry in getattr(packet.interned_data, field):
                self.introduce(kind, entry.iid, entry.name)
        for entry in packet.interned_data.debug_annotation_string_values:
            self.introduce("value", entry.iid, entry.str.decode())
        if packet.HasField("clock_snapshot"):
            self.clocks.append({clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks})
        if packet.HasField("track_descriptor"):
            self.track(packet.track_descriptor)
        if packet.HasField("track_event"):
            self.event(packet)

    def introduce(self, kind, iid, text):
        if iid in self.interned[kind]:
            self.failures.say(f"{kind} {iid} is introduced twice")
        self.interned[kind][iid] = text

    def look_up(self, kind, iid):
        if iid not in self.interned[kind]:
            self.failures.say(f"{kind} {iid} is used before it is introduced")
        return self.interned[kind].get(iid)

    def track(self, descriptor):
        if descriptor.uuid in self.tracks or descriptor.uuid == 0:
            self.failures.say(f"track {descriptor.uuid} is declared twice or has no number")
        parent = None
        if descriptor.HasField("parent_uuid"):
            parent = self.tracks.get(descriptor.parent_uuid)
            if parent is None:
                self.failures.say(f"track '{descriptor.name}' comes before its parent")
        self.tracks[descriptor.uuid] = Track(descriptor, parent)

    def event(self, packet):
        event, ts = packet.track_event, packet.timestamp
        if self.last is not None and ts < self.last:
            self.failures.say(f"ts {ts} comes after {self.last}")
        self.last = ts
        track = self.tracks.get(event.track_uuid)
        if track is None:
            self.failures.say(f"an event of the undeclared track {event.track_uuid}")
            return
        if event.type == EVENT.TYPE_COUNTER:
            self.counters.append((track, ts, event.counter_value))
        elif event.type == EVENT.TYPE_SLICE_END:
            if not self.open[event.track_uuid]:
                self.failures.say(f"a slice of track '{track.name}' ends at {ts} without a begin")
                return
            begun = self.open[event.track_uuid].pop()
            begun["dur"] = ts - begun["ts"]
            self.slices.append(begun)
        else:
            self.begin(event, ts, track)

    def begin(self, event, ts, track):
        if len(event.category_iids) != 1:
            self.failures.say(f"an event with {len(event.category_iids)} categories")
            return
        item = {
            "track": track,
            "ts": ts,
            "category": self.look_up("category", event.category_iids[0]),
            "name": self.look_up("name", event.name_iid),
            "notes": {self.look_up("note", note.name_iid): self.note(note) for note in event.debug_annotations},
            "out": list(event.flow_ids),
            "in": list(event.terminating_flow_ids),
        }
        if event.type == EVENT.TYPE_SLICE_BEGIN:
            self.open[event.track_uuid].append(item)
        elif event.type == EVENT.TYPE_INSTANT:
            self.instants.append(item)
        else:
            self.failures.say(f"an event of type {event.type}")

    def note(self, note):
        kind = note.WhichOneof("value")
        if kind == "string_value_iid":
            return self.look_up("value", note.string_value_iid)
        return getattr(note, kind)


def shift_of(reader, failures):
    """How far the trace's stamps are from trace time: every machine must say the same."""
    shifts = {track.shift for track in reader.tracks.values() if track.shift is not None}
    if len(shifts) != 1:
        failures.say(f"the machines' tracks state these shifts: {sorted(shifts)}")
    return min(shifts, default=0)


class Rows:
    """The tables, and who is who in them."""

    def __init__(self, path):
        self.tables = defaultdict(list)
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                self.tables[row.pop("table")].append(row)
        self.machines = {row["machine_id"]: row for row in self["machines"]}
        self.threads = {(row["machine_id"], row["tid"]): row["name"] for row in self["threads"]}
        self.vcpus = {}
        for row in self["vcpus"]:
            host = self.machines.get(row["machine_id"], {}).get("parent_id")
            if host is not None and row["vmm_tid"] is not None:
                self.vcpus[host, row["vmm_tid"]] = (row["machine_id"], row["vcpu"])

    def __getitem__(self, table):
        return self.tables.get(table, [])

    def thread(self, machine, tid):
        return self.threads.get((machine, tid)) or f"tid {tid}"

    def host_thread(self, machine, tid):
        if (machine, tid) in self.vcpus:
            vm, vcpu = self.vcpus[machine, tid]
            return f"{self.machines[vm]['name']} vcpu{vcpu}"
        return self.thread(machine, tid)


def key(values):
    """A row as something that can be counted; columns that are null do not count."""
    return tuple(sorted((name, value) for name, value in values.items() if value is not None))


def drawn(item):
    """A drawn slice or instant as the row it claims to be, plus its name."""
    row = dict(item["track"].actor or {}) | item["notes"] | {"ts": item["ts"], "drawn_name": item["name"]}
    if "dur" in item:
        row["dur"] = item["dur"]
    return row


def expected_vcpu_state(row, rows):
    by = None
    if row["by_tid"]:
        host = rows.machines[row["machine_id"]]["parent_id"]
        by = rows.host_thread(row["by_machine_id"] if host is None else host, row["by_tid"])
    return row | {"state": None, "by": by, "drawn_name": row["state"]}


def expected_domain_state(row, _rows):
    return row | {"state": None, "drawn_name": row["state"]}


def expected_exit(row, _rows):
    return row | {"reason": None, "drawn_name": row["reason"]}


def expected_cpu_slice(row, rows):
    if row["tid"] == 0:
        return None
    name = "unknown" if row["tid"] is None else rows.host_thread(row["machine_id"], row["tid"])
    return row | {"drawn_name": name}


def expected_thread_state(row, _rows):
    name = row["state"]
    if row["effective"] not in (None, "running"):
        name += f": {row['effective']}"
    return row | {"drawn_name": name}


# Linux' softirqs by number (include/linux/interrupt.h, 6.1).
SOFTIRQS = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"]


def expected_irq(row, _rows):
    vector = row["vector"]
    match row["source"]:
        case "line":
            name = f"irq {vector}"
        case "softirq":
            name = f"softirq {SOFTIRQS[vector] if vector < len(SOFTIRQS) else vector}"
        case source:
            name = source
    return row | {"drawn_name": name}


def expected_syscall(row, _rows):
    return row | {"drawn_name": f"syscall {row['nr']}"}


def expected_lost(row, _rows):
    return row | {"cause": None, "drawn_name": row["cause"]}


EXPECTED = {
    "vcpu_states": expected_vcpu_state,
    "domain_states": expected_domain_state,
    "exits": expected_exit,
    "cpu_slices": expected_cpu_slice,
    "thread_states": expected_thread_state,
    "irqs": expected_irq,
    "syscalls": expected_syscall,
    "lost": expected_lost,
}


def compare(what, found, wanted, failures):
    """Two lists of rows must be the same, whatever their order."""
    found, wanted = Counter(map(key, found)), Counter(map(key, wanted))
    for missing in list((wanted - found).elements())[:MAX_SHOWN]:
        failures.say(f"{what}: a row is not in the trace: {dict(missing)}")
    for extra in list((found - wanted).elements())[:MAX_SHOWN]:
        failures.say(f"{what}: the trace has what the table has not: {dict(extra)}")
    return sum(wanted.values())


def check_rows(reader, rows, failures):
    items = defaultdict(list)
    for item in reader.slices + reader.instants:
        items[item["category"]].append(item)
    compared = {}
    for table, expect in EXPECTED.items():
        found = [drawn(item) for item in items.pop(table, [])]
        wanted = [expected for row in rows[table] if (expected := expect(row, rows)) is not None]
        compared[table] = compare(table, found, wanted, failures)
    compared["wakeups"] = check_wakeups(items.pop("wakeups", []), rows, failures)
    compared["guest slices"] = check_guest_slices(items.pop("guest_cpu_slices", []), rows, failures)
    compared["windows"] = check_counters(reader, rows, failures)
    for category in items:
        failures.say(f"slices of category '{category}', which is no table")
    return compared


def check_wakeups(items, rows, failures):
    """Wakeups stand on the track of the waker (an interrupt's is that of its CPU's interrupts), or of its CPU if the
    waker has no track."""
    has_track = {(row["machine_id"], row["tid"]) for row in rows["thread_states"]}
    found = []
    for item in items:
        row = drawn(item)
        on = item["track"].actor
        row["tid"] = item["notes"]["tid"]
        row["on_thread"] = item["track"].table == "thread_states"
        row.setdefault("waker_tid", None)
        waker = (on["machine_id"], row["waker_tid"])
        if row["on_thread"] and on["tid"] != row["waker_tid"]:
            failures.say(f"a wakeup by {waker} stands on the track of tid {on['tid']}")
        if not row["on_thread"]:
            row["cpu"] = item["notes"].get("cpu")
            if on["cpu"] != row["waker_cpu"]:
                failures.say(f"a wakeup on CPU {row['waker_cpu']} stands on the track of CPU {on['cpu']}")
        found.append(row)
    wanted = [
        row
        | {
            "drawn_name": f"wakes {rows.host_thread(row['machine_id'], row['tid'])}",
            "on_thread": (row["machine_id"], row["waker_tid"]) in has_track,
        }
        for row in rows["wakeups"]
    ]
    return compare("wakeups", found, wanted, failures)


def check_guest_slices(items, rows, failures):
    """Inside each slice of a vCPU thread: the guest CPU's slices, cut to it."""
    guests = defaultdict(list)
    for row in rows["cpu_slices"]:
        machine = rows.machines.get(row["machine_id"], {})
        if machine.get("parent_id") is not None and row["tid"]:
            guests[row["machine_id"], row["cpu"]].append(row)
    for slices in guests.values():
        slices.sort(key=lambda row: row["ts"])
    wanted = []
    for outer in rows["cpu_slices"]:
        start, end = outer["ts"], outer["ts"] + outer["dur"]
        if outer["vcpu"] is None or outer["tid"] == 0:
            continue
        for inner in guests[outer["vcpu_machine_id"], outer["vcpu"]]:
            first, last = max(start, inner["ts"]), min(end, inner["ts"] + inner["dur"])
            if inner["ts"] >= end:
                break
            if first < last:
                wanted.append({
                    "host": outer["machine_id"], "host_cpu": outer["cpu"], "ts": first, "dur": last - first,
                    "machine_id": inner["machine_id"], "cpu": inner["cpu"], "tid": inner["tid"],
                    "drawn_name": rows.thread(inner["machine_id"], inner["tid"]),
                })  # fmt: skip
    found = [
        item["notes"]
        | {"host": item["track"].actor["machine_id"], "host_cpu": item["track"].actor["cpu"]}
        | {"ts": item["ts"], "dur": item["dur"], "drawn_name": item["name"]}
        for item in items
    ]
    return compare("guest slices", found, wanted, failures)


COUNTERS = ["gotten_ns", "waited_ns", "blocked_ns", "unknown_ns", "exits", "io_count"]


def check_counters(reader, rows, failures):
    is_in_ticks = any(row["time_unit"] == "ticks" for row in rows["machines"])
    time = pb.CounterDescriptor.UNIT_COUNT if is_in_ticks else pb.CounterDescriptor.UNIT_TIME_NS
    found = []
    for track, ts, value in reader.counters:
        table, column = track.table.split(".")
        unit = track.counter.unit if track.counter else None
        wanted_unit = time if column.endswith("_ns") else pb.CounterDescriptor.UNIT_COUNT
        if table != "windows" or unit != wanted_unit:
            failures.say(f"counter '{track.name}' is of {table} with unit {unit}")
        found.append(track.actor | {"ts": ts, "column": column, "value": value})
    wanted = [
        {"ts": row["ts"], "machine_id": row["machine_id"], "column": column, "value": row[column]}
        | ({"cgroup": row["cgroup"]} if row["vcpu"] is None else {"vcpu": row["vcpu"]})
        for row in rows["windows"]
        if row["cpu"] is None  # a domain's part on one pCPU is not drawn
        for column in COUNTERS
    ]
    return compare("windows", found, wanted, failures)


def check_flows(reader, rows, failures):
    """Each arrow leaves one wakeup and arrives where its thread begins to run."""
    leaving, arriving = {}, {}
    for item in reader.slices + reader.instants:
        for flow in item["out"]:
            if flow in leaving or item["category"] != "wakeups":
                failures.say(f"flow {flow} leaves twice or from no wakeup")
            leaving[flow] = item
        for flow in item["in"]:
            if flow in arriving or item["category"] != "thread_states":
                failures.say(f"flow {flow} arrives twice or at no thread state")
            arriving[flow] = item
    for flow in leaving.keys() ^ arriving.keys():
        failures.say(f"flow {flow} has only one end")
    for flow in leaving.keys() & arriving.keys():
        wakeup, run = leaving[flow], arriving[flow]
        woken = (wakeup["track"].actor["machine_id"], wakeup["notes"]["tid"], wakeup["ts"] + wakeup["notes"]["dur"])
        ran = (run["track"].actor["machine_id"], run["track"].actor["tid"], run["ts"])
        if woken != ran or run["notes"]["state"] != "running":
            failures.say(f"flow {flow} leaves for {woken} and arrives at {ran}")
    runs = {(r["machine_id"], r["tid"], r["ts"]) for r in rows["thread_states"] if r["state"] == "running"}
    ends = [(r["machine_id"], r["tid"], r["ts"] + r["dur"]) for r in rows["wakeups"] if r["dur"] is not None]
    wanted = len(runs.intersection(ends))
    if len(leaving) != wanted:
        failures.say(f"{len(leaving)} arrows, but {wanted} wakeups lead to a run")
    return wanted


def check_clocks(reader, rows, shift, failures):
    """The wall clock is stated at the start of each row of wall_clock that begins after the trace does, at the end of
    each slewed one, and at the trace's start; trace time never runs backwards from one statement to the next."""
    moments = [clocks[pb.BUILTIN_CLOCK_MONOTONIC] - shift for clocks in reader.clocks]
    if moments != sorted(moments):
        failures.say(f"clock snapshots are not in order of time: {moments}")
    stated = {ts: clocks[pb.BUILTIN_CLOCK_REALTIME] for ts, clocks in zip(moments, reader.clocks)
              if pb.BUILTIN_CLOCK_REALTIME in clocks}
    wanted = {}
    for row in rows["wall_clock"]:
        ts, end = row["ts"], row["ts"] + row["dur"]
        if ts <= moments[0] <= end:
            wanted[moments[0]] = row["unix_ns"] + (moments[0] - ts) * row["unix_dur"] // row["dur"]
        if row["unix_dur"] != row["dur"]:
            wanted[end] = row["unix_ns"] + row["unix_dur"]
        wanted[ts] = row["unix_ns"]
    wanted = {ts: unix for ts, unix in wanted.items() if ts >= moments[0]}
    if stated != wanted:
        failures.say(f"the wall clock is {stated}, not {wanted}")
    return len(stated)


def check(trace_path, rows_path):
    failures = Failures()
    trace = pb.Trace()
    with open(trace_path, "rb") as file:
        trace.ParseFromString(file.read())
    check_known(trace, "Trace", failures)
    reader = Reader(trace, failures)
    rows = Rows(rows_path)
    shift = shift_of(reader, failures)
    for item in reader.slices + reader.instants:
        item["ts"] -= shift
    reader.counters = [(track, ts - shift, value) for track, ts, value in reader.counters]
    compared = check_rows(reader, rows, failures)
    compared["arrows"] = check_flows(reader, rows, failures)
    compared["wall-clock times"] = check_clocks(reader, rows, shift, failures)
    numbers = ", ".join(f"{count} {what}" for what, count in compared.items() if count)
    print(f"{trace_path}: {len(trace.packet)} packets, compared {numbers}; {failures.count} failures")
    return failures.count == 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(0 if check(sys.argv[1], sys.argv[2]) else 1)
