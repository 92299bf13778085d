//! A table: columns of a kind, rows of values.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// A count, `u64`.
    Count,
    /// A number, `f64`, finite.
    Number,
    /// True or false.
    Switch,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name: lower case, with the unit where it has one of its own.
    pub name: &'static str,
    /// What it holds; every value of it may be missing.
    pub kind: Kind,
    /// What that is.
    pub about: &'static str,
}

/// A value; its kind is its column's.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unknown, or does not apply.
    Missing,
    /// Of a [`Kind::Text`] column.
    Text(String),
    /// Of a [`Kind::Count`] column.
    Count(u64),
    /// Of a [`Kind::Number`] column.
    Number(f64),
    /// Of a [`Kind::Switch`] column.
    Switch(bool),
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Its name, for files: `runs`.
    pub name: &'static str,
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Value>>,
}

impl Rows {
    /// Its columns.
    #[must_use]
    pub const fn columns(&self) -> &'static [Column] {
        self.columns
    }

    /// Its rows; each has one value for every column.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }
}

impl Value {
    pub(super) fn text(value: impl Into<String>) -> Self {
        Self::Text(value.into())
    }

    pub(super) fn maybe_count(value: Option<u64>) -> Self {
        value.map_or(Self::Missing, Self::Count)
    }

    pub(super) fn maybe_number(value: Option<f64>) -> Self {
        value.map_or(Self::Missing, Self::Number)
    }
}
