//! A small recording's tables, made of the CSV files in `tests/fixture` by the model's schema.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the report")]

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use transect_model::table::{ColumnType, TABLES, TableDoc};
use transect_query::arrow::array::{AsArray, RecordBatch};
use transect_query::arrow::compute::{cast, filter_record_batch, kernels::cmp};
use transect_query::arrow::csv::ReaderBuilder;
use transect_query::arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use transect_query::output::{Format, writer};
use transect_query::{Database, Options, QueryError, Stop};

/// The fixture's tables in a folder that goes away with the value.
pub(crate) fn fixture() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for table in TABLES {
        let csv = Path::new("tests/fixture").join(format!("{}.csv", table.name));
        if csv.exists() {
            write_table(dir.path(), table, &csv);
        }
    }
    event(
        dir.path(),
        "kvm_exit",
        "ts,machine_id,cpu,tid,exit_reason,guest_rip\n100,0,0,101,12,4096\n200,0,0,101,30,8192\n",
        &[
            ("ts", DataType::Int64),
            ("machine_id", DataType::UInt32),
            ("cpu", DataType::UInt32),
            ("tid", DataType::Int32),
            ("exit_reason", DataType::UInt32),
            ("guest_rip", DataType::UInt64),
        ],
    );
    event(
        dir.path(),
        "sched_waking",
        "ts,machine_id,cpu,tid,comm,pid\n150,1,0,500,nginx,500\n",
        &[
            ("ts", DataType::Int64),
            ("machine_id", DataType::UInt32),
            ("cpu", DataType::UInt32),
            ("tid", DataType::Int32),
            ("comm", DataType::Utf8),
            ("pid", DataType::Int32),
        ],
    );
    event(
        dir.path(),
        "kvm_inj_virq",
        "ts,machine_id,cpu,tid,vector\n4500,0,0,101,236\n",
        &[
            ("ts", DataType::Int64),
            ("machine_id", DataType::UInt32),
            ("cpu", DataType::UInt32),
            ("tid", DataType::Int32),
            ("vector", DataType::UInt32),
        ],
    );
    event(
        dir.path(),
        "sched_switch",
        "ts,machine_id,cpu,tid,prev_comm,prev_state,next_comm\n4000,0,0,101,CPU 0/KVM,0,hog\n",
        &[
            ("ts", DataType::Int64),
            ("machine_id", DataType::UInt32),
            ("cpu", DataType::UInt32),
            ("tid", DataType::Int32),
            ("prev_comm", DataType::Utf8),
            ("prev_state", DataType::Int64),
            ("next_comm", DataType::Utf8),
        ],
    );
    dir
}

pub(crate) fn open() -> (TempDir, Database) {
    let dir = fixture();
    let database = Database::open(dir.path(), &Options::default()).unwrap();
    (dir, database)
}

/// The result of one statement as CSV.
pub(crate) fn csv(database: &Database, sql: &str) -> Result<String, QueryError> {
    let mut out = Vec::new();
    for statement in database.parse(sql)? {
        let mut rows = database.run(statement)?;
        let mut csv = writer(Format::Csv, &rows.schema(), &mut out)?;
        while let Some(batch) = rows.next(&Stop::never())? {
            csv.write(&flat(&batch))?;
        }
        csv.finish()?;
    }
    Ok(String::from_utf8(out).unwrap())
}

/// Lists as text, which CSV has no other way to hold.
fn flat(batch: &RecordBatch) -> RecordBatch {
    let text = |column: &transect_query::arrow::array::ArrayRef| match column.data_type() {
        DataType::List(_) => cast(column, &DataType::Utf8).unwrap(),
        _ => Arc::clone(column),
    };
    let columns: Vec<_> = batch.columns().iter().map(text).collect();
    let fields: Vec<_> = batch
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(f, c)| Field::new(f.name(), c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn arrow_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::I32 => DataType::Int32,
        ColumnType::U32 => DataType::UInt32,
        ColumnType::I64 => DataType::Int64,
        ColumnType::U64 => DataType::UInt64,
        ColumnType::F64 => DataType::Float64,
        ColumnType::Text => DataType::Utf8,
    }
}

fn write_table(dir: &Path, table: &TableDoc, csv: &Path) {
    let fields: Vec<_> =
        table.columns.iter().map(|c| Field::new(c.name, arrow_type(c.ty), c.nullable)).collect();
    let batch = read(&fs::read_to_string(csv).unwrap(), Schema::new(fields));
    let machine = batch.schema().index_of("machine_id");
    match (machine, batch.schema().index_of("ts")) {
        (Ok(machine), Ok(_)) => {
            let ids = batch.column(machine).as_primitive::<UInt32Type>().clone();
            let mut machines = ids.values().to_vec();
            machines.sort_unstable();
            machines.dedup();
            for id in machines {
                let scalar = transect_query::arrow::array::UInt32Array::new_scalar(id);
                let rows = filter_record_batch(&batch, &cmp::eq(&ids, &scalar).unwrap()).unwrap();
                let path = dir.join(table.name).join(format!("machine_id={id}"));
                write_parquet(&path.join("bucket=0.parquet"), &rows);
            }
        }
        _ => write_parquet(&dir.join(format!("{}.parquet", table.name)), &batch),
    }
}

fn event(dir: &Path, name: &str, text: &str, fields: &[(&str, DataType)]) {
    let fields: Vec<_> =
        fields.iter().map(|(n, kind)| Field::new(*n, kind.clone(), false)).collect();
    let path = dir.join("events").join(format!("name={name}")).join("part.parquet");
    write_parquet(&path, &read(text, Schema::new(fields)));
}

fn read(text: &str, schema: Schema) -> RecordBatch {
    let schema = Arc::new(schema);
    let reader = ReaderBuilder::new(Arc::clone(&schema)).with_header(true);
    let batches: Vec<_> = reader.build(text.as_bytes()).unwrap().collect::<Result<_, _>>().unwrap();
    transect_query::arrow::compute::concat_batches(&schema, &batches).unwrap()
}

/// Writes a file as the recording's writer does: sorted by ts, and saying so.
pub(crate) fn write_parquet(path: &Path, batch: &RecordBatch) {
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::SortingColumn;
    use parquet::file::properties::WriterProperties;
    const GROUP: usize = 1000;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let ts = batch.schema().index_of("ts").ok().map(|at| SortingColumn {
        column_idx: i32::try_from(at).unwrap(),
        descending: false,
        nulls_first: false,
    });
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP))
        .set_sorting_columns(ts.map(|ts| vec![ts]))
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    // Of a batch of many groups the writer would call itself for each: a thousand were too deep without optimisation.
    for from in (0..batch.num_rows()).step_by(GROUP) {
        writer.write(&batch.slice(from, GROUP.min(batch.num_rows() - from))).unwrap();
    }
    writer.close().unwrap();
}
