//! The description of the API, made of the table of routes.

use super::columns::columns;
use super::route::Route;
use serde_json::{Map, Value, json};
use transect_live::TABLES;
use transect_model::column::{Column, ColumnType};

/// Tables whose rows have distributions.
const LENGTHS: [&str; 4] = ["window_details", "exit_windows", "io_windows", "container_windows"];

/// OpenAPI 3.0.
pub(crate) fn description(routes: &[Route]) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        let method = route.method.name().to_ascii_lowercase();
        methods[method] = operation(route);
    }
    let mut schemas = Map::new();
    for (place, table) in TABLES.iter().enumerate() {
        let mut schema = row(columns(place));
        if LENGTHS.contains(table) {
            schema["properties"]["lengths"] = json!({
                "type": "array",
                "description": "The distribution behind the quantiles: [from_ns, count] for each bucket in use, a quarter \
                                of a power of two wide.",
                "items": { "type": "array", "items": { "type": "integer", "format": "int64" } },
            });
        }
        schemas.insert((*table).to_owned(), schema);
    }
    schemas.insert("window".to_owned(), window());
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "transect serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "CPU time, waiting and exits of every VM, container and vCPU of this host: now, in the past, and, as a \
                            recording of the last seconds, event by event. Times are ns. Times whose names end in \
                            unix_ns count from 1970; other times are on the host's trace clock.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "refusal": refusal() },
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut answers = Map::new();
    for (status, doc, kind) in route.answers {
        let answer =
            answers.entry(status.to_string()).or_insert_with(|| json!({ "description": doc }));
        if !kind.is_empty() {
            answer["content"][*kind] = json!({ "schema": schema(route, kind) });
        }
    }
    for status in ["400", "401", "403", "429", "503"] {
        answers
            .entry(status)
            .or_insert_with(|| json!({ "$ref": "#/components/responses/refusal" }));
    }
    let mut parameters: Vec<Value> = route
        .params
        .iter()
        .map(|param| {
            json!({
                "name": param.name,
                "in": "query",
                "required": false,
                "description": param.doc,
                "example": param.example,
                "schema": { "type": "string" },
            })
        })
        .collect();
    if route.path.contains("{id}") {
        parameters.push(json!({
            "name": "id",
            "in": "path",
            "required": true,
            "description": "Identifier of the snapshot.",
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9-]{1,32}$" },
        }));
    }
    let mut operation = json!({
        "summary": route.doc,
        "x-scope": route.scope.words().last().unwrap_or(&"none"),
        "parameters": parameters,
        "responses": answers,
    });
    if !route.scope.words().is_empty() {
        operation["security"] = json!([{ "token": [] }]);
    }
    if let Some(body) = route.body {
        let example: Value = serde_json::from_str(body).unwrap_or_default();
        operation["requestBody"] = json!({
            "content": { "application/json": { "schema": { "type": "object" }, "example": example } },
        });
    }
    operation
}

fn schema(route: &Route, kind: &str) -> Value {
    match (route.path, kind) {
        ("/api/v1/now", "application/json") => json!({ "$ref": "#/components/schemas/window" }),
        ("/api/v1/history", "application/json") => json!({
            "type": "object",
            "properties": {
                "step_ns": { "type": "integer" },
                "gone": {
                    "type": "array",
                    "description": "Stretches of the range whose windows are damaged or missing on disk and left out. Absent without any.",
                    "items": { "type": "object", "properties": {
                        "from_unix_ns": { "type": "integer", "format": "int64" },
                        "until_unix_ns": { "type": "integer", "format": "int64" },
                        "windows": { "type": "integer" },
                    } },
                },
                "windows": {
                    "type": "array",
                    "items": { "$ref": "#/components/schemas/window" },
                },
            },
        }),
        (_, "application/json") => json!({ "type": "object" }),
        _ => json!({ "type": "string", "format": "binary" }),
    }
}

fn refusal() -> Value {
    json!({
        "description": "The request is refused: the error, and a hint to a request that succeeds.",
        "content": { "application/json": { "schema": {
            "type": "object",
            "required": ["error"],
            "properties": { "error": { "type": "string" }, "hint": { "type": "string" } },
        } } },
    })
}

fn window() -> Value {
    let mut properties = Map::new();
    for name in ["ts", "dur", "ended_unix_ns", "missed_windows", "run"] {
        properties.insert(name.to_owned(), json!({ "type": "integer", "format": "int64" }));
    }
    for table in TABLES {
        let row = json!({ "$ref": format!("#/components/schemas/{table}") });
        let is_one = table == "health";
        let rows = if is_one { row } else { json!({ "type": "array", "items": row }) };
        properties.insert(table.to_owned(), rows);
    }
    json!({ "type": "object", "properties": properties })
}

fn row(columns: &[Column]) -> Value {
    let mut properties = Map::new();
    for column in columns {
        let ty = match column.ty {
            ColumnType::Bool => json!({ "type": "boolean" }),
            ColumnType::I32 | ColumnType::U32 => json!({ "type": "integer" }),
            ColumnType::I64 | ColumnType::U64 => json!({ "type": "integer", "format": "int64" }),
            ColumnType::F64 => json!({ "type": "number" }),
            ColumnType::Text => json!({ "type": "string" }),
        };
        let mut property = ty;
        property["description"] = json!(column.doc.trim());
        // What cannot be had here is null in every column.
        property["nullable"] = json!(true);
        properties.insert(column.name.to_owned(), property);
    }
    json!({ "type": "object", "properties": properties })
}
