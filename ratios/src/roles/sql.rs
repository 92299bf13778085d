//! Answers SQL over a folder of tables, one query a line, as long as lines come: by a child of the engine, as `transect view`
//! asks one, warm after the first.

use super::protocol;
use anyhow::{Context, Result};
use arrow::{
    array::{AsArray, RecordBatch},
    compute::{cast, sum},
    datatypes::{DataType, Float64Type},
};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead, stdin},
    path::PathBuf,
    time::Instant,
};
use transect_ask::{Engine, Options, Patience, Query, program};

/// `ratios role sql`.
#[derive(Debug, Args)]
pub struct Sql {
    /// The folder of tables.
    tables: PathBuf,
}

/// Time of a query, and a checksum of its answer for comparisons.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Wall time until the last row was there.
    pub seconds: f64,
    /// Rows.
    pub rows: u64,
    /// Sum of each column, null for those that are no numbers.
    pub sums: Vec<Option<f64>>,
}

impl Sql {
    pub(super) fn play(&self) -> Result<()> {
        let mut engine = Engine::start(&program()?, &self.tables, &Options::default())?;
        protocol::ready()?;
        for line in stdin().lock().lines() {
            let sql: String = serde_json::from_str(&line?)?;
            protocol::told(&answer(&mut engine, sql)?)?;
        }
        Ok(())
    }
}

fn answer(engine: &mut Engine, sql: String) -> Result<Answer> {
    let begun = Instant::now();
    let query = Query { sql, ..Query::default() };
    let batches = engine.ask(&query, &Patience::default())?.batches()?;
    let seconds = begun.elapsed().as_secs_f64();
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let columns = batches.first().map_or(0, RecordBatch::num_columns);
    let sums = (0..columns).map(|at| column_sum(&batches, at)).collect::<Result<_>>()?;
    Ok(Answer { seconds, rows, sums })
}

fn column_sum(batches: &[RecordBatch], at: usize) -> Result<Option<f64>> {
    let mut total = 0.0;
    for batch in batches {
        let column = batch.columns().get(at).context("batches of one answer differ")?;
        if !column.data_type().is_numeric() {
            return Ok(None);
        }
        let numbers = cast(column, &DataType::Float64)?;
        total += sum(numbers.as_primitive::<Float64Type>()).unwrap_or(0.0);
    }
    Ok(Some(total))
}
