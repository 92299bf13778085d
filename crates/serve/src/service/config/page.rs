//! `docs/reference/configuration.md`, made from the table of settings. `UPDATE_GOLDEN=1` writes it anew.

use super::Config;
use super::fields::{AT_ONCE, EXAMPLES, FIELDS, Field};
use crate::service::api_page::compare;
use std::fmt::Write as _;
use toml::de::DeValue;

const HEAD: &str = "# Configuration of `transect serve`\n\n\
    `transect serve --config FILE` reads a TOML file. Every setting has a default, so an empty file is valid. An unknown \
    setting or an invalid value is an error with its line. `transect serve --print-config` prints all settings with their \
    current values as such a file. `SIGHUP` reloads the file: settings marked *at once* take effect then, all others after a \
    restart. [Running the daemon](serve.md) explains their use. Generated from the table of settings.\n";

const TRIGGERS: &str = "\nOn SIGHUP, a daemon that serves TLS also rereads the files of `tls.certificate` and `tls.key`.\n\n\
    ## [[trigger]]\n\nThe section may be repeated. Each trigger takes a snapshot when its condition has held for `for`; SIGHUP \
    reloads all triggers. [Snapshots and triggers](serve.md#snapshots-and-triggers) explains the conditions.\n\n\
    | setting | default | accepted values | meaning |\n|---|---|---|---|\n\
    | `name` | required | 1 to 64 letters, digits, `-`, `_`, `.` | Name in the log and in the snapshot's reason. |\n\
    | `of` | `\"vcpu\"` | `\"vcpu\"`, `\"vm\"` or `\"cgroup\"` | Kind of actor. |\n\
    | `match` | `\"*\"` | a pattern; `*` and `?` are wildcards | Name of the VM, or path of the control group. |\n\
    | `when` | required | a column of `windows` or `window_details`, `>`, `>=`, `<` or `<=`, a number, a share (`20%`) or a duration; or the name of a finding, alone or compared with a share | Condition on one window. |\n\
    | `for` | `\"0ns\"` | a duration up to 1 day | Time for which the condition must hold. |\n\
    | `cooldown` | `\"5m\"` | a duration up to 1 day | Time after a snapshot in which this trigger takes none. |\n\
    | `seconds` | `10` | a whole number from 1 to 600 | Seconds of the past in the snapshot. |\n\n```toml\n";

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
                "" => page.push_str("\n## Top-level settings\n"),
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
    page.push_str(TRIGGERS);
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
    compare("configuration.md", &page());
}

#[test]
fn table_of_triggers_has_the_defaults_of_the_parser() {
    let config = Config::parse("[[trigger]]\nname = \"a\"\nwhen = \"exits > 1\"").unwrap();
    for line in config.triggers[0].print().lines().skip(1) {
        let (name, value) = line.split_once(" = ").unwrap();
        let row = TRIGGERS.lines().find(|row| row.starts_with(&format!("| `{name}` |"))).unwrap();
        let is_default = row.contains(&format!("| `{value}` |"));
        assert!(is_default || row.contains("| required |"), "{line}: {row}");
    }
}
