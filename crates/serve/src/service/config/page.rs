//! `docs/reference/configuration.md`, made from the table of settings. `UPDATE_GOLDEN=1` writes it anew.

use super::fields::{EXAMPLES, FIELDS, Field};
use super::{AT_ONCE, Config};
use std::fmt::Write as _;
use toml::de::DeValue;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");

const HEAD: &str = "# Configuration of `transect serve`\n\n\
    `transect serve --config FILE` reads a TOML file. Every setting has a default, so an empty file is valid. An unknown \
    setting or an invalid value is an error with its line. `transect serve --print-config` prints all settings with their \
    current values as such a file. `SIGHUP` reloads the file: settings marked *at once* take effect then, all others after a \
    restart. [Running the daemon](serve.md) explains their use. Generated from the table of settings.\n";

/// The values that a setting accepts, in the words of its own error.
fn accepted(field: &Field) -> &'static str {
    let mut config = Config::default();
    let wrong = [DeValue::Boolean(true), DeValue::String("".into())];
    wrong.iter().find_map(|value| (field.set)(&mut config, value).err()).unwrap_or("any text")
}

fn page() -> String {
    let defaults = Config::default();
    let mut page = String::from(HEAD);
    let mut section = None;
    for field in FIELDS {
        if section != Some(field.section) {
            section = Some(field.section);
            match field.section {
                "" => page.push_str("\n## Above all sections\n"),
                name => drop(write!(page, "\n## [{name}]\n")),
            }
            page.push_str("\n| setting | default | accepted values | takes effect | meaning |\n|---|---|---|---|---|\n");
        }
        let example = EXAMPLES.iter().find(|(s, n, _)| (*s, *n) == (field.section, field.name));
        let default = match ((field.show)(&defaults), example) {
            (Some(value), _) => format!("`{value}`"),
            (None, Some((.., example))) => format!("not set; example: `{example}`"),
            (None, None) => "not set".to_owned(),
        };
        let full = match field.section {
            "" => field.name.to_owned(),
            section => format!("{section}.{}", field.name),
        };
        let effect = if AT_ONCE.contains(&full.as_str()) { "at once" } else { "restart" };
        let (name, accepted) = (field.name, accepted(field).replace('|', "\\|"));
        let _ = writeln!(page, "| `{name}` | {default} | {accepted} | {effect} | {} |", field.doc);
    }
    page.push_str(
        "\n`tls.certificate` and `tls.key` are read again at once where the daemon already serves TLS.\n\n\
         ## [[trigger]]\n\nAny number of sections. Each takes a snapshot when its condition has held long enough; triggers \
         are reloaded at once. [Triggers](serve.md) explains the conditions.\n\n```toml\n",
    );
    let printed = defaults.print();
    let trigger = printed.split_once("# [[trigger]]").map_or("", |(_, rest)| rest);
    page.push_str("[[trigger]]");
    for line in trigger.lines() {
        let _ = writeln!(page, "{}", line.trim_start_matches("# "));
    }
    page.push_str("```\n");
    page
}

#[test]
fn page_of_settings_equals_the_table() {
    let found = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, &found).unwrap();
    }
    let expected = std::fs::read_to_string(PAGE).unwrap_or_default();
    let advice =
        "docs/reference/configuration.md is out of date: run the test with UPDATE_GOLDEN=1";
    assert!(found == expected, "{advice}");
}
