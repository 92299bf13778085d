#!/usr/bin/env python3
"""Reads a recording's tables with DuckDB and says what it sees, as JSON.

For every table: rows, the sum of each number, how many of each column are null, and the distinct
texts' total length. For every event: rows. Another program's reader has nothing in common with our
writer but the format, so equal sums mean that the files say what they should.

usage: duckdb_check.py TABLES_DIR
"""
import json
import pathlib
import sys

import duckdb


def column(name, kind):
    quoted = '"' + name.replace('"', '""') + '"'
    if kind == "VARCHAR":
        value = f"sum(length({quoted}))"
    elif kind == "BOOLEAN":
        value = f"sum({quoted}::int)"
    else:
        value = f"sum({quoted}::hugeint)" if kind != "DOUBLE" else f"sum({quoted})"
    return f"count({quoted}), {value}"


def table(connection, files):
    source = f"read_parquet({files!r}, hive_partitioning = false)"
    columns = connection.sql(f"describe select * from {source}").fetchall()
    parts = ", ".join(column(name, kind) for name, kind, *_ in columns)
    (row,) = connection.sql(f"select count(*), {parts} from {source}").fetchall()
    told = {"rows": row[0], "columns": {}}
    for at, (name, kind, *_) in enumerate(columns):
        value = row[2 + 2 * at]
        told["columns"][name] = {
            "type": kind,
            "values": row[1 + 2 * at],
            "sum": None if value is None else float(value) if kind == "DOUBLE" else str(int(value)),
        }
    return told


def main():
    connection = duckdb.connect()
    tables = {}
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        if not folder.is_dir():
            continue
        inner = sorted(folder.iterdir()) if folder.name == "events" else [folder]
        for one in inner:
            files = sorted(str(path) for path in one.rglob("*.parquet"))
            name = one.name if one is folder else f"events/{one.name.removeprefix('name=')}"
            tables[name] = table(connection, files)
    json.dump(tables, sys.stdout)


if __name__ == "__main__":
    main()
