//! The table as SQL sees it: one table of columns per event name.

use super::{Class, FieldType, Meaning, RecordDef, all};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type: the widest that any form of the record has.
    pub sql_type: FieldType,
    /// What the numbers mean.
    pub meaning: Meaning,
    /// What a reader should know beyond the name; may be empty.
    pub doc: &'static str,
}

/// The columns of all forms of one event.
#[derive(Clone, Debug)]
pub struct RecordSchema {
    /// Event name.
    pub name: &'static str,
    /// Its class.
    pub class: Class,
    /// When it is written.
    pub doc: &'static str,
    /// Its columns, in the order of the first form that has them.
    pub columns: Vec<Column>,
}

impl RecordSchema {
    fn merge(&mut self, row: &RecordDef) {
        if self.doc.is_empty() {
            self.doc = row.doc;
        }
        for field in row.fields {
            let sql_type = field.sql_type();
            match self.columns.iter_mut().find(|column| column.name == field.name) {
                Some(column) => column.sql_type = column.sql_type.max(sql_type),
                None => self.columns.push(Column {
                    name: field.name,
                    sql_type,
                    meaning: field.meaning,
                    doc: field.doc,
                }),
            }
        }
    }
}

/// One schema per event name, in the order of the table.
pub fn schemas() -> Vec<RecordSchema> {
    let mut schemas: Vec<RecordSchema> = Vec::new();
    for row in all() {
        match schemas.iter_mut().find(|schema| schema.name == row.name) {
            Some(schema) => schema.merge(row),
            None => {
                let mut schema = RecordSchema {
                    name: row.name,
                    class: row.class(),
                    doc: row.doc,
                    columns: Vec::new(),
                };
                schema.merge(row);
                schemas.push(schema);
            }
        }
    }
    schemas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_event_agree() {
        for schema in schemas() {
            for row in all().filter(|row| row.name == schema.name) {
                assert_eq!(row.class(), schema.class, "{}", row.name);
                for field in row.fields {
                    let column = schema.columns.iter().find(|column| column.name == field.name);
                    let column = column.unwrap();
                    assert_eq!(column.meaning, field.meaning, "{}.{}", row.name, field.name);
                    let signed = |of| of == FieldType::I32;
                    assert_eq!(
                        signed(column.sql_type),
                        signed(field.sql_type()),
                        "{}.{}",
                        row.name,
                        field.name
                    );
                }
            }
        }
    }
}
