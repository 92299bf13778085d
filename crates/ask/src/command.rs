//! Command line shared by `transect sql` and `transect-sql`: the query and the output format.

use crate::memory;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The query and the output format.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Wanted {
    /// SQL statements, separated by ; [default: read standard input; on a terminal, open a prompt]
    pub sql: Option<String>,
    /// Read the SQL from this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql")]
    pub file: Option<PathBuf>,
    /// Write comma-separated values
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Write one JSON array
    #[arg(long, group = "format")]
    pub json: bool,
    /// Write one JSON object per line
    #[arg(long, group = "format")]
    pub jsonl: bool,
    /// Write an Arrow IPC file
    #[arg(long, value_name = "FILE", group = "format")]
    pub arrow: Option<PathBuf>,
    /// Write a Parquet file
    #[arg(long, value_name = "FILE", group = "format")]
    pub parquet: Option<PathBuf>,
    /// Write to this file instead of standard output; without a format option the name decides the format (.csv,
    /// .json, .jsonl, .arrow, .parquet, .txt)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["arrow", "parquet"])]
    pub output: Option<PathBuf>,
    /// Maximum number of rows to print on a terminal
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub rows: usize,
    /// Print the query plan without running the query
    #[arg(long)]
    pub explain: bool,
    /// List tables and columns with their descriptions, without a query
    #[arg(long)]
    pub schema: bool,
    /// List views with their columns and an example each, without a query
    #[arg(long)]
    pub views: bool,
    /// Print --schema or --views as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Memory for sorting, grouping and joining, e.g. 512M; a query that needs more spills to a temporary folder
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory::parse)]
    pub memory: usize,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Aligned columns, with the number of rows shown on a terminal.
    Table(usize),
    /// Comma-separated values.
    Csv,
    /// One JSON array.
    Json,
    /// One JSON object a line.
    JsonLines,
    /// An Arrow IPC file.
    Arrow,
    /// A Parquet file.
    Parquet,
}

impl Wanted {
    /// Output file (`-` is standard output) and format.
    ///
    /// # Errors
    /// The file's name implies no format and no option gives one.
    pub fn target(&self) -> Result<(&Path, Layout), String> {
        let stdout = Path::new("-");
        if let Some(path) = &self.arrow {
            return Ok((path, Layout::Arrow));
        }
        if let Some(path) = &self.parquet {
            return Ok((path, Layout::Parquet));
        }
        let layout = match (self.csv, self.json, self.jsonl, &self.output) {
            (true, ..) => Layout::Csv,
            (_, true, ..) => Layout::Json,
            (_, _, true, _) => Layout::JsonLines,
            (_, _, _, Some(path)) => by_name(path)?,
            _ => Layout::Table(self.rows),
        };
        Ok((self.output.as_deref().unwrap_or(stdout), layout))
    }

    /// These options as command-line arguments, without the SQL, which comes last.
    pub fn options(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let switches = [
            ("--csv", self.csv),
            ("--json", self.json),
            ("--jsonl", self.jsonl),
            ("--explain", self.explain),
            ("--schema", self.schema),
            ("--views", self.views),
            ("--markdown", self.markdown),
        ];
        words.extend(switches.iter().filter(|(_, is_on)| *is_on).map(|(word, _)| (*word).into()));
        let files = [
            ("--file", &self.file),
            ("--arrow", &self.arrow),
            ("--parquet", &self.parquet),
            ("--output", &self.output),
        ];
        for (word, path) in files {
            words.extend(path.iter().map(|path| {
                let mut joined = OsString::from(format!("{word}="));
                joined.push(path);
                joined
            }));
        }
        words.push(format!("--rows={}", self.rows).into());
        words.push(format!("--memory={}", self.memory).into());
        words
    }
}

fn by_name(path: &Path) -> Result<Layout, String> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension {
        "csv" => Ok(Layout::Csv),
        "json" => Ok(Layout::Json),
        "jsonl" | "ndjson" => Ok(Layout::JsonLines),
        "arrow" | "feather" => Ok(Layout::Arrow),
        "parquet" => Ok(Layout::Parquet),
        "txt" => Ok(Layout::Table(usize::MAX)),
        _ if path.as_os_str() == "-" => Ok(Layout::Table(usize::MAX)),
        _ => Err(format!(
            "{}: unknown output format: add --csv, --json or --jsonl, or use the extension .csv, .json, .jsonl, \
             .arrow, .parquet or .txt",
            path.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        wanted: Wanted,
    }

    #[test]
    fn what_is_handed_on_is_what_was_said() {
        for words in [
            &["x", "SELECT 1"][..],
            &["x", "--csv", "--rows", "7", "--memory", "64M", "--", "-- a\nSELECT 1"],
            &["x", "-f", "a.sql", "-o", "out.json", "--explain"],
            &["x", "--schema", "--views", "--markdown", "--jsonl"],
            &["x", "--parquet=-odd.parquet", "SELECT 2"],
        ] {
            let Line { wanted } = Line::parse_from(words);
            let mut again: Vec<OsString> = vec!["x".into()];
            again.extend(wanted.options());
            again.extend(wanted.sql.iter().flat_map(|sql| ["--".into(), sql.into()]));
            assert_eq!(Line::parse_from(again).wanted, wanted, "{words:?}");
        }
    }

    #[test]
    fn a_name_says_the_format_or_an_option_does() {
        let target =
            |words: &[&str]| Line::parse_from(words).wanted.target().map(|(_, layout)| layout);
        assert_eq!(target(&["x", "-o", "a.parquet"]), Ok(Layout::Parquet));
        assert_eq!(target(&["x", "-o", "a.xyz", "--csv"]), Ok(Layout::Csv));
        assert!(target(&["x", "-o", "a.xyz"]).unwrap_err().contains(".parquet"));
        assert_eq!(target(&["x"]), Ok(Layout::Table(200)));
    }
}
