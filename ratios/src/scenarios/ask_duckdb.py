"""Answers SQL over a folder of tables with DuckDB, one query a line: the role `sql`, for a peer.

An answer stays in the engine (a temporary table): what Python does with rows is not measured.
"""
import json
import os
import sys
import time

import duckdb

tables, threads = sys.argv[1], int(sys.argv[2])
con = duckdb.connect(config={"threads": threads})
for name in sorted(os.listdir(tables)):
    if os.path.isdir(os.path.join(tables, name)) and name != "events":
        files = os.path.join(tables, name, "**", "*.parquet").replace("'", "''")
        con.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)")
print("READY", flush=True)
for line in sys.stdin:
    sql = json.loads(line)
    begun = time.perf_counter()
    con.execute(f"CREATE OR REPLACE TEMP TABLE answer AS {sql}")
    seconds = time.perf_counter() - begun
    sums = []
    for column, kind in con.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'answer' ORDER BY column_index").fetchall():
        numeric = kind.startswith(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"))
        total = con.execute(f'SELECT sum("{column}") FROM answer').fetchone()[0] if numeric else None
        sums.append(float(total or 0) if numeric else None)
    rows = con.execute("SELECT count(*) FROM answer").fetchone()[0]
    print(json.dumps({"seconds": seconds, "rows": rows, "sums": sums}), flush=True)
