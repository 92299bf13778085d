//! The papers: one folder each in `studies/papers` with `rows.csv` (every number they print), `map.toml` (what of ours speaks to which) and
//! `README.md` (where the numbers come from, what is left out and why), and one line in [`FOLDERS`].

use super::{map::Map, source::Source};
use transect_bench_core::Fault;

/// A paper's numbers, and what of ours speaks to them.
#[derive(Clone, Debug)]
pub struct Paper {
    /// Its short name: the folder's.
    pub name: &'static str,
    /// Every row of its tables, figures and text, in their order.
    pub rows: Vec<Source>,
    /// What of ours speaks to which.
    pub map: Map,
}

macro_rules! folder {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../studies/papers/", $name, "/rows.csv")),
            include_str!(concat!("../../../../studies/papers/", $name, "/map.toml")),
        )
    };
}

/// Name, numbers and map of every paper.
const FOLDERS: [(&str, &str, &str); 6] = [
    folder!("lttng-xen"),
    folder!("repeated-research"),
    folder!("xenmon"),
    folder!("gregg2013"),
    folder!("hypertracing"),
    folder!("gebai2016"),
];

/// Every paper.
pub(super) fn all() -> Result<Vec<Paper>, Fault> {
    FOLDERS.iter().map(|(name, rows, map)| of(name, rows, map)).collect()
}

fn of(name: &'static str, rows: &str, map: &str) -> Result<Paper, Fault> {
    Ok(Paper { name, rows: Source::all(rows, name)?, map: Map::parse(map, name)? })
}
