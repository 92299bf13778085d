//! What `transect explain` says: why threads and vCPUs were slow, for people and for programs.
//!
//! ```text
//! rows ─▶ transect_explain (a path for each root) ─▶ Explained ─┬─▶ sentences ─▶ text
//!                                                               └─▶ lines     ─▶ JSON
//! ```

mod explained;
mod findings;
mod json;
mod lines;
mod names;
mod root;
mod sentences;
mod text;

pub use explained::Explained;
pub use json::write as write_json;
pub use lines::columns;
pub use root::{About, Root};
pub use text::{Shown, write as write_text};

#[cfg(test)]
mod tests {
    #[test]
    fn docs_describe_every_column() {
        let docs = include_str!("../../../../docs/reference/explain.md");
        for (list, columns) in super::columns() {
            for column in columns {
                assert!(
                    docs.contains(&format!("`{column}`")),
                    "explain.md lacks {column} of {list}"
                );
            }
        }
    }
}
