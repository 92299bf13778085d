//! Asks a folder of tables and says how long the answers took: `ask TABLES RUNS SQL...`.
//!
//! Prints one line a query: the fastest and the median run in ms, rows, and the length of the
//! answer; without runs, the answer.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::time::Instant;
use transect_query::output::{Format, Limits, writer};
use transect_query::{Database, Options, Stop};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (tables, runs) = (args.next().ok_or("TABLES")?, args.next().ok_or("RUNS")?.parse()?);
    let threads = std::env::var("THREADS").ok().and_then(|n| n.parse().ok());
    let default = Options::default();
    let options = Options { threads: threads.unwrap_or(default.threads), ..default };
    for sql in args {
        let mut times = Vec::new();
        let mut answer = (0, 0);
        if runs == 0 {
            let database = Database::open(tables.as_ref(), &options)?;
            let table = Format::Table(Limits::default());
            println!("{}", String::from_utf8_lossy(&ask(&database, &sql, table)?.1));
            continue;
        }
        for _ in 0..runs {
            let begun = Instant::now();
            // What the command line pays, too: the tables are opened anew.
            let database = Database::open(tables.as_ref(), &options)?;
            let (rows, text) = ask(&database, &sql, Format::Csv)?;
            answer = (rows, text.len());
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or(0.0);
        let (rows, bytes) = answer;
        println!("{:9.1} {median:9.1} ms {rows} rows {bytes} bytes  {sql}", times[0]);
    }
    Ok(())
}

fn ask(database: &Database, sql: &str, format: Format) -> Result<(usize, Vec<u8>), Box<dyn Error>> {
    let mut text = Vec::new();
    let mut count = 0;
    for statement in database.parse(sql)? {
        let mut rows = database.run(statement)?;
        let mut csv = writer(format, &rows.schema(), &mut text)?;
        while let Some(batch) = rows.next(&Stop::never())? {
            count += batch.num_rows();
            csv.write(&batch)?;
        }
        csv.finish()?;
    }
    Ok((count, text))
}
