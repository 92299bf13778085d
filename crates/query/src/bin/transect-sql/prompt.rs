//! The prompt: SQL line by line, with history and completion.

use crate::answer;
use crate::complete::{COMMANDS, SqlHelper};
use crate::terminal::{self, say};
use anyhow::Context as _;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use transect_query::{Database, QueryError, Stop, docs};

type Prompt = Editor<SqlHelper, FileHistory>;

/// Asks, answers, until the end of input.
/// `distrust` is called at the end if the tables were found to be damaged.
pub(super) fn run(database: &Database, rows: usize, distrust: impl FnOnce()) -> anyhow::Result<()> {
    let config =
        Config::builder().completion_type(CompletionType::List).max_history_size(2000)?.build();
    let mut editor: Prompt = Editor::with_config(config)?;
    editor.set_helper(Some(SqlHelper::new(database)));
    let history = history_file();
    if let Some(file) = &history {
        // There is none the first time.
        let _ = editor.load_history(file);
    }
    say!(
        "SQL prompt of this recording. .tables and .views list tables and views, .help the commands."
    );
    let stop = answer::interrupted_at_prompt()?;
    let result = ask(&mut editor, database, rows, &stop);
    if database.damage().is_some() {
        distrust();
    }
    if let Some(file) = &history {
        save(&mut editor, file)?;
    }
    result
}

fn ask(
    editor: &mut Prompt,
    database: &Database,
    rows: usize,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    loop {
        match editor.readline("sql> ") {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                let _ = editor.add_history_entry(text.trim());
                stop.store(false, Ordering::Relaxed);
                if !handle(database, text.trim(), rows, stop)? {
                    return Ok(());
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error).context("the prompt"),
        }
    }
}

/// Does what was typed; false to leave.
fn handle(
    database: &Database,
    text: &str,
    rows: usize,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<bool> {
    let mut words = text.trim_end_matches(';').split_whitespace();
    match (words.next(), words.next()) {
        (Some(".quit" | ".exit"), _) => return Ok(false),
        (Some(".help"), _) => help(),
        (Some(".tables"), _) => tables(database),
        (Some(".views"), view) => terminal::print_text(&docs::views_text(view))?,
        (Some(".schema"), Some(table)) => schema(database, table)?,
        (Some(".schema"), None) => terminal::print_text(&docs::tables_text(None))?,
        (Some(command), _) if command.starts_with('.') => {
            say!("unknown command {command}; .help lists the commands");
        }
        _ => statements(database, text, rows, stop)?,
    }
    Ok(true)
}

fn help() {
    for (name, meaning) in COMMANDS {
        say!("{name:<9} {meaning}");
    }
    say!("A statement ends with ; and may take several lines. Tab completes, ^C stops a query.");
}

fn tables(database: &Database) {
    let names = database.tables();
    let width = names.iter().map(String::len).max().unwrap_or(0) + 2;
    let screen = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
    for line in names.chunks((screen / width).max(1)) {
        let cells: Vec<String> = line.iter().map(|name| format!("{name:<width$}")).collect();
        say!("{}", cells.concat().trim_end());
    }
}

fn schema(database: &Database, table: &str) -> std::io::Result<()> {
    let described = docs::tables_text(Some(table)) + &docs::views_text(Some(table));
    if !described.is_empty() {
        return terminal::print_text(&described);
    }
    match database.schema(table) {
        Ok(schema) => {
            for field in schema.fields() {
                say!("  {:<18} {}", field.name(), field.data_type());
            }
        }
        Err(error) => terminal::print_error(&error.to_string()),
    }
    Ok(())
}

fn statements(
    database: &Database,
    text: &str,
    rows: usize,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let parsed = match database.parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            terminal::print_error(&error.to_string());
            return Ok(());
        }
    };
    for statement in parsed {
        let began = Instant::now();
        match answer::one(database, statement, rows, &Stop::on(Arc::clone(stop))) {
            Ok(count) => {
                let s = if count == 1 { "" } else { "s" };
                say!("({count} row{s}, {:.3} s)", began.elapsed().as_secs_f64());
            }
            Err(QueryError::Write(error)) => return Err(error.into()),
            Err(error) => {
                terminal::print_error(&error.to_string());
                return Ok(());
            }
        }
    }
    Ok(())
}

/// `$XDG_STATE_HOME/transect/sql_history`, or below `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    Some(state.or_else(home)?.join("transect/sql_history"))
}

fn save(editor: &mut Prompt, file: &PathBuf) -> anyhow::Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    editor.save_history(file).with_context(|| file.display().to_string())
}
