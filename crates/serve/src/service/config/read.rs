//! From a file to settings.

use super::fields::FIELDS;
use super::settings::Config;
use crate::service::triggers::Trigger;
use std::io;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something in it is not valid.
    #[error("{}: {wrong}", path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// Line, field, what is wrong and what would be right.
        wrong: String,
    },
}

impl Config {
    /// Reads a file. Whether its settings go together is told by [`Self::check`], behind what flags change.
    ///
    /// # Errors
    /// It cannot be read; or the first thing in it that is not valid, with line and field.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let config = parse(&text);
        config.map_err(|wrong| ConfigError::Wrong { path: path.to_owned(), wrong })
    }

    /// Reads a text.
    ///
    /// # Errors
    /// The first thing in it that is not valid, with line and field.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config = parse(text)?;
        config.check()?;
        Ok(config)
    }
}

fn parse(text: &str) -> Result<Config, String> {
    let at = |offset: usize, what: String| {
        let line = text.get(..offset).unwrap_or(text).matches('\n').count() + 1;
        format!("line {line}: {what}")
    };
    let table = DeTable::parse(text).map_err(|error| {
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        at(error.span().map_or(0, |span| span.start), what)
    })?;
    let mut config = Config::default();
    for (key, value) in table.get_ref() {
        let (name, offset): (&str, _) = (key.get_ref(), key.span().start);
        match value.get_ref() {
            DeValue::Array(list) if name == "trigger" => {
                for item in list.iter() {
                    let offset = item.span().start;
                    let DeValue::Table(table) = item.get_ref() else {
                        return Err(at(offset, "trigger: write [[trigger]]".to_owned()));
                    };
                    let trigger = trigger(table).map_err(|(at_value, what)| {
                        at(at_value.unwrap_or(offset), format!("trigger: {what}"))
                    })?;
                    if config.triggers.iter().any(|known| known.name == trigger.name) {
                        let what = format!("trigger: two triggers are named {:?}", trigger.name);
                        return Err(at(offset, what));
                    }
                    config.triggers.push(trigger);
                }
            }
            DeValue::Table(section) => {
                if !FIELDS.iter().any(|field| field.section == name) || name.is_empty() {
                    let sections: Vec<_> = sections().collect();
                    let what = format!(
                        "unknown section [{name}]; the sections are {}",
                        sections.join(", ")
                    );
                    return Err(at(offset, what));
                }
                for (key, value) in section {
                    set(&mut config, name, key.get_ref(), value.get_ref())
                        .map_err(|what| at(key.span().start, what))?;
                }
            }
            plain => set(&mut config, "", name, plain).map_err(|what| at(offset, what))?,
        }
    }
    Ok(config)
}

fn sections() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    let named = FIELDS.iter().map(|field| field.section).filter(|section| !section.is_empty());
    named.filter(move |section| std::mem::replace(&mut last, section) != *section)
}

fn set(config: &mut Config, section: &str, name: &str, value: &DeValue<'_>) -> Result<(), String> {
    let full = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
    let known = FIELDS.iter().find(|field| (field.section, field.name) == (section, name));
    let Some(field) = known else {
        let of_section = FIELDS.iter().filter(|field| field.section == section);
        let names: Vec<_> = of_section.map(|field| field.name).collect();
        let place = if section.is_empty() {
            "above the first section".to_owned()
        } else {
            format!("in [{section}]")
        };
        return Err(format!(
            "{full}: unknown setting {place}; the settings there are {}",
            names.join(", ")
        ));
    };
    (field.set)(config, value)
        .map_err(|wanted| format!("{full}: {}; it must be {wanted}", said(value)))
}

/// What somebody wrote, short.
fn said(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", text.chars().take(60).collect::<String>()),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        other => format!("a {}", other.type_str()),
    }
}

/// A trigger; or where in the file the mistake is, and what it is.
fn trigger(table: &DeTable<'_>) -> Result<Trigger, (Option<usize>, String)> {
    let mut words = Vec::new();
    for (key, value) in table {
        let offset = Some(key.span().start);
        let name: &str = key.get_ref();
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if name == "seconds" => number.as_str().to_owned(),
            other => {
                return Err((offset, format!("{name}: {}; it must be in quotes", said(other))));
            }
        };
        words.push((name.to_owned(), text, offset));
    }
    let get = |name: &str| words.iter().find(|(known, ..)| known == name);
    let known = ["name", "of", "match", "when", "for", "cooldown", "seconds"];
    if let Some((name, _, offset)) = words.iter().find(|(name, ..)| !known.contains(&name.as_str()))
    {
        return Err((
            *offset,
            format!("{name}: unknown setting; the settings are {}", known.join(", ")),
        ));
    }
    let text = |name: &str| get(name).map(|(_, text, _)| text.as_str());
    Trigger::new(&text).map_err(|(name, what)| {
        (get(name).and_then(|(_, _, offset)| *offset), format!("{name}: {what}"))
    })
}
