//! `ev_NAME`, one table per kind of event with one column per field, and `events` over all.

use super::add::{add, internal};
use super::files::{Files, From, TableFile};
use super::table::RecordingTable;
use crate::error::QueryError;
use crate::ready::block_on_memory;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::prelude::SessionContext;
use parquet::arrow::parquet_to_arrow_schema;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The columns every event has, in the order `events` shows them.
const COMMON: [(&str, DataType, bool); 4] = [
    ("ts", DataType::Int64, false),
    ("machine_id", DataType::UInt32, false),
    ("cpu", DataType::UInt32, true),
    ("tid", DataType::Int32, true),
];

/// The files of each event that was recorded, by its name.
pub(crate) fn find(dir: &Path, from: From<'_>) -> Result<Vec<(String, Files)>, QueryError> {
    let mut found = Vec::new();
    for event in names(dir)? {
        let files = Files::of_table(&dir.join("events"), &format!("name={event}"), from)?;
        found.push((event, files));
    }
    Ok(found)
}

/// Registers a table for each event that was recorded, and `events`.
pub(crate) fn register(
    context: &SessionContext,
    found: Vec<(String, Files)>,
) -> Result<(), QueryError> {
    let mut selects = Vec::new();
    for (event, files) in found {
        let Some(first) = files.0.first() else { continue };
        let schema = file_schema(first)?;
        let table = format!("ev_{event}");
        selects.push(select(&event, &table, &schema));
        add(context, &table, Arc::new(RecordingTable::new(schema, files)))?;
    }
    if selects.is_empty() {
        return add(context, "events", Arc::new(RecordingTable::new(none(), Files::default())));
    }
    let sql = format!("CREATE VIEW events AS {}", selects.join(" UNION ALL "));
    block_on_memory(context.sql(&sql)).map(drop).map_err(|error| internal(&error))
}

/// The kinds of events there are files of.
fn names(dir: &Path) -> Result<Vec<String>, QueryError> {
    let dir = dir.join("events");
    let failed = |source| QueryError::Tables { path: dir.clone(), source };
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        names.extend(name.to_string_lossy().strip_prefix("name=").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn file_schema(file: &TableFile) -> Result<SchemaRef, QueryError> {
    let metadata = file.read_metadata()?;
    let description = metadata.file_metadata().schema_descr();
    let schema = parquet_to_arrow_schema(description, None).map_err(|error| {
        let source = io::Error::new(io::ErrorKind::InvalidData, error);
        QueryError::Tables { path: file.path.clone(), source }
    })?;
    let view = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
        }
        _ => Arc::clone(field),
    };
    Ok(Arc::new(Schema::new(schema.fields().iter().map(view).collect::<Vec<_>>())))
}

/// One branch of `events`: the common columns, the name, and the event's own fields as text
/// `field=value field=value`.
fn select(event: &str, table: &str, schema: &Schema) -> String {
    let mut sql = String::from("SELECT ");
    for (name, kind, _) in &COMMON {
        match schema.index_of(name) {
            Ok(_) => drop(write!(sql, "{name}, ")),
            Err(_) => drop(write!(sql, "arrow_cast(NULL, '{kind}') AS {name}, ")),
        }
    }
    let own = schema.fields().iter().filter(|f| COMMON.iter().all(|(name, ..)| f.name() != name));
    let fields: Vec<String> = own
        .map(|f| {
            format!("'{}=' || \"{}\"", f.name().replace('\'', "''"), f.name().replace('"', "\"\""))
        })
        .collect();
    let args = match fields.as_slice() {
        [] => "''".to_owned(),
        fields => format!("concat_ws(' ', {})", fields.join(", ")),
    };
    let name = event.replace('\'', "''");
    let _ = write!(
        sql,
        "arrow_cast('{name}', 'Utf8View') AS name, arrow_cast({args}, 'Utf8View') AS args FROM \"{}\"",
        table.replace('"', "\"\"")
    );
    sql
}

/// The schema of `events` where nothing was recorded.
fn none() -> SchemaRef {
    let mut fields: Vec<Field> =
        COMMON.iter().map(|(name, kind, null)| Field::new(*name, kind.clone(), *null)).collect();
    fields.push(Field::new("name", DataType::Utf8View, false));
    fields.push(Field::new("args", DataType::Utf8View, false));
    Arc::new(Schema::new(fields))
}
