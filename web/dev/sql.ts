// SQL for the development server: the made-up recording's main tables in SQLite (compiled to
// WebAssembly), filled when first asked. The real server's SQL is DataFusion's; plain SELECTs agree.
import { columnFromArray, float64, int64, tableFromColumns, tableToIPC, utf8, type Column } from "@uwdata/flechette";
import initSqlJs, { type Database, type SqlValue, type Statement } from "sql.js";
import { CALL, Explainer } from "./explain.ts";
import { madeRequests } from "./requests.ts";
import { ORIGIN, type Recording } from "./simulate.ts";

/** Rows per table: SQLite in WebAssembly takes its time to fill. */
const MOST_ROWS = 20_000;

export class SqlTables {
  private database: Promise<Database> | undefined;

  constructor(private readonly recording: Recording) {}

  /** Runs a query. Throws SQLite's own message. */
  async query(sql: string, limit: number): Promise<{ body: Uint8Array; truncated: boolean }> {
    this.database ??= this.fill();
    const database = await this.database;
    const statement = database.prepare(this.withAnswers(database, sql));
    try {
      const names = statement.getColumnNames();
      const rows: SqlValue[][] = [];
      // sql.js takes a second argument that its types do not know.
      const get = statement.get as (this: Statement, bind: null, how: { useBigInt: boolean }) => SqlValue[];
      while (rows.length <= limit && statement.step()) rows.push(get.call(statement, null, { useBigInt: true }));
      const truncated = rows.length > limit;
      if (truncated) rows.pop();
      const columns = names.map((name, i): [string, Column<unknown>] => [name, column(rows.map((row) => row[i] ?? null))]);
      return { body: tableToIPC(tableFromColumns(columns), { format: "stream" })!, truncated };
    } finally {
      statement.free();
    }
  }

  /** Puts tables in the place of calls of the functions that explain. */
  private withAnswers(database: Database, sql: string): string {
    const call = CALL.exec(sql);
    if (!call) return sql;
    const { columns, rows } = new Explainer(this.recording).answer(call[1]!.toLowerCase(), call[2]!);
    database.run("DROP TABLE IF EXISTS answer");
    this.rows(database, "answer", columns, rows);
    return sql.replace(CALL, "answer");
  }

  /** Makes a table with these rows. */
  private rows(database: Database, name: string, columns: string, rows: readonly (readonly SqlValue[])[]): void {
    database.run(`CREATE TABLE ${name} (${columns})`);
    const insert = database.prepare(`INSERT INTO ${name} VALUES (${columns.split(",").map(() => "?").join(", ")})`);
    database.run("BEGIN");
    for (const row of rows) insert.run([...row]);
    database.run("COMMIT");
    insert.free();
  }

  private async fill(): Promise<Database> {
    const library = await initSqlJs();
    const database = new library.Database();
    database.run("CREATE TABLE machines (machine_id INTEGER, name TEXT, kind TEXT, parent_id INTEGER, domid INTEGER)");
    for (const m of this.recording.machines) database.run("INSERT INTO machines VALUES (?, ?, ?, ?, ?)", [m.machine_id, m.name, m.kind, m.parent_id, m.parent_id === null ? null : m.machine_id - 1]);
    for (const { name, columns, rows } of madeRequests(this.recording)) this.rows(database, name, columns, rows);
    this.table(database, "cpu_slices", "cpu", "cpu INTEGER, vcpu_machine_id INTEGER, vcpu INTEGER");
    this.table(database, "vcpu_states", "vcpu", "vcpu INTEGER, state TEXT, reason TEXT, by_machine_id INTEGER");
    this.table(database, "thread_states", "thread", "tid INTEGER, state TEXT, reason TEXT");
    this.table(database, "exits", "exits", "vcpu INTEGER, reason TEXT");
    this.table(database, "ticks", "ticks", "name TEXT");
    database.run("CREATE VIEW events AS SELECT ts, machine_id, NULL AS cpu, NULL AS tid, name, '' AS args FROM ticks");
    return database;
  }

  private table(database: Database, name: string, kind: string, columns: string): void {
    database.run(`CREATE TABLE ${name} (ts INTEGER, dur INTEGER, machine_id INTEGER, ${columns})`);
    const marks = columns.split(",").map(() => "?").join(", ");
    const insert = database.prepare(`INSERT INTO ${name} VALUES (?, ?, ?, ${marks})`);
    database.run("BEGIN");
    let count = 0;
    for (const track of this.recording.tracks.filter((t) => t.kind === kind)) {
      const own = this.recording.intervals.get(track.track);
      for (let i = 0; own && i < own.ts.length && count < MOST_ROWS; i++, count++) {
        const key = this.recording.keys[own.key[i]!]!;
        const waits = key.class === "preempted" || key.class === "waking";
        const more: Record<string, (number | string | null)[]> = {
          cpu: [track.cpu, key.machine_id, key.vcpu],
          vcpu: [track.vcpu, key.state, key.reason, waits ? key.machine_id : null],
          thread: [track.tid, key.state, key.reason],
          exits: [track.vcpu, key.reason],
          ticks: [key.state],
        };
        // Stamps exceed what sql.js takes as a number, and it takes no BigInt: as text into an INTEGER column.
        insert.run([String(ORIGIN + BigInt(Math.round(own.ts[i]!))), Math.round(own.dur[i]!), track.machine_id, ...more[kind]!]);
      }
    }
    database.run("COMMIT");
    insert.free();
  }
}

function column(values: SqlValue[]): Column<unknown> {
  const some = values.find((value) => value !== null);
  if (typeof some === "bigint") return columnFromArray(values.map((v) => (typeof v === "number" ? BigInt(Math.round(v)) : v)), int64());
  if (typeof some === "number") return columnFromArray(values.map((v) => (v === null ? null : Number(v))), float64());
  return columnFromArray(values.map((v) => (v === null ? null : String(v))), utf8());
}
