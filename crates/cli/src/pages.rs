//! `docs/reference/verbs.md`, made from the command line's own definition. `UPDATE_GOLDEN=1` writes it anew.

use crate::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory as _};
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/verbs.md");

const HEAD: &str = "# Verbs and flags\n\n\
    Every verb of `transect` with its arguments, as in `transect VERB --help`. Generated from the command line's definition.\n\n\
    | exit code | meaning |\n|---|---|\n\
    | 0 | success |\n\
    | 1 | the run failed, or its result is negative (`doctor`, `bench gate`) |\n\
    | 2 | the command line is not valid |\n\
    | that of the command | `record -- COMMAND`, if the recording succeeded |\n";

/// One cell of a table: on one line, without a separator in it.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// `--guest <GUEST>` or `DIR`, as a user types it.
fn spelling(arg: &Arg) -> String {
    let value = arg
        .get_value_names()
        .filter(|_| arg.get_action().takes_values())
        .map(|names| names.iter().map(|name| format!("{name}")).collect::<Vec<_>>().join(" "));
    let mut all: Vec<String> = Vec::new();
    all.extend(arg.get_short().map(|short| format!("-{short}")));
    all.extend(arg.get_long().map(|long| format!("--{long}")));
    let flags = all.join(", ");
    match value {
        Some(value) if flags.is_empty() => format!("`{value}`"),
        // `--flight-recorder 8M` would take 8M for something else.
        Some(value) if arg.is_require_equals_set() => match arg.get_num_args() {
            Some(number) if number.min_values() == 0 => format!("`{flags}[={value}]`"),
            _ => format!("`{flags}={value}`"),
        },
        Some(value) => format!("`{flags} {value}`"),
        None => format!("`{flags}`"),
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut text = help.map(|help| cell(&help.to_string())).unwrap_or_default();
    let shows = arg.get_action().takes_values();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| shows && !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {}", value.get_name(), cell(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        let _ = write!(text, ".<br>Values:<br>{}", values.join("<br>"));
    }
    if let Some(aliases) = arg.get_visible_aliases().filter(|aliases| !aliases.is_empty()) {
        let aliases: Vec<String> = aliases.iter().map(|alias| format!("`--{alias}`")).collect();
        let _ = write!(text, ". Alias: {}", aliases.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    if shows && !defaults.is_empty() {
        let _ = write!(text, ". Default: `{}`", defaults.join(" "));
    }
    text
}

/// The arguments under one heading; none: nothing.
fn table(page: &mut String, heading: &str, args: &[&Arg]) {
    if args.is_empty() {
        return;
    }
    let _ = write!(page, "\n| {heading} | meaning |\n|---|---|\n");
    for arg in args {
        let _ = writeln!(page, "| {} | {} |", spelling(arg), meaning(arg));
    }
}

fn section(page: &mut String, verb: &Command, name: &str, depth: usize) {
    let _ = write!(page, "\n{} {name}\n\n", "#".repeat(depth));
    let about = verb.get_long_about().or_else(|| verb.get_about());
    let _ = writeln!(
        page,
        "{}.",
        cell(&about.map(ToString::to_string).unwrap_or_default()).trim_end_matches('.')
    );
    let usage = verb.clone().bin_name(name).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = write!(page, "\n```text\n{usage}\n```\n");
    let shown: Vec<&Arg> = verb
        .get_arguments()
        .filter(|arg| {
            !arg.is_hide_set() && !matches!(arg.get_action(), ArgAction::Help | ArgAction::Version)
        })
        .filter(|arg| !matches!(arg.get_action(), ArgAction::HelpLong | ArgAction::HelpShort))
        .collect();
    let (places, flags): (Vec<&Arg>, Vec<&Arg>) =
        shown.into_iter().partition(|arg| arg.is_positional());
    table(page, "argument", &places);
    let mut headings: Vec<Option<&str>> = vec![None];
    for arg in &flags {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        let group: Vec<&Arg> =
            flags.iter().filter(|arg| arg.get_help_heading() == heading).copied().collect();
        table(page, heading.unwrap_or("flag"), &group);
    }
    if let Some(after) = verb.get_after_long_help().or_else(|| verb.get_after_help()) {
        let after = after.to_string();
        let lines: Vec<&str> = after.trim().lines().map(str::trim_end).collect();
        let _ = write!(page, "\n```text\n{}\n```\n", lines.join("\n"));
    }
    for inner in
        verb.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        section(page, inner, &format!("{name} {}", inner.get_name()), depth + 1);
    }
}

/// The page.
fn verbs_page() -> String {
    let mut cli = Cli::command();
    cli.build();
    let mut page = String::from(HEAD);
    for verb in
        cli.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
    {
        section(&mut page, verb, &format!("transect {}", verb.get_name()), 2);
    }
    page
}

#[test]
fn page_of_verbs_equals_the_definition() {
    let found = verbs_page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, &found).unwrap();
    }
    let expected = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        found == expected,
        "docs/reference/verbs.md is out of date: run the test with UPDATE_GOLDEN=1"
    );
}

#[test]
fn flags_are_spelled_as_they_are_typed() {
    let page = verbs_page();
    for wanted in
        ["`--flight-recorder[=SIZE]`", "`-o, --output DIR`", "`--json`", "Alias: `--cpu-hz`"]
    {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn every_verb_and_flag_has_help_and_every_verb_an_example() {
    fn walk(verb: &Command, path: &str, faults: &mut Vec<String>) {
        let inner: Vec<&Command> =
            verb.get_subcommands().filter(|inner| inner.get_name() != "help").collect();
        for arg in verb.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_help().is_none())
        {
            faults.push(format!("{path}: {} has no help", arg.get_id()));
        }
        let has_example =
            verb.get_after_help().is_some_and(|after| after.to_string().contains("Example"));
        if inner.is_empty() && !has_example {
            faults.push(format!("{path}: no example"));
        }
        for inner in inner.into_iter().filter(|inner| !inner.is_hide_set()) {
            walk(inner, &format!("{path} {}", inner.get_name()), faults);
        }
    }
    let mut cli = Cli::command();
    cli.build();
    let mut faults = Vec::new();
    walk(&cli, "transect", &mut faults);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
