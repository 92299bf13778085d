//! The published numbers: `docs/reference/studies/xenmon/published.csv`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::csv::Table;
use crate::page::short;

/// One number that the publication states.
#[derive(Clone, Debug)]
pub(super) struct Published {
    /// Where: the figure it is about, as `Fig. 4`.
    pub figure: String,
    /// The pair of weights.
    pub configuration: String,
    /// `dom0`, `dom1`, or empty for what is about neither.
    pub domain: String,
    /// `heavy`, `light` or `most`.
    pub load: String,
    /// `about`, `at most`, `below`, `from` or `up to from` and then `to`.
    pub bound: String,
    /// The number.
    pub value: f64,
    /// Where it contradicts others of the same source.
    pub flagged: bool,
}

/// Reads the file of a folder.
pub(super) fn read(folder: &Path) -> Result<Vec<Published>> {
    let path = folder.join("published.csv");
    let name = || path.display().to_string();
    let text = fs::read_to_string(&path).with_context(name)?;
    parse(&text).with_context(name)
}

fn parse(text: &str) -> Result<Vec<Published>> {
    let of = |row: crate::csv::Row<'_>| {
        let text = |name: &str| row.text(name).map(str::to_owned);
        Ok(Published {
            figure: text("figure")?,
            configuration: text("configuration")?,
            domain: text("domain")?,
            load: text("load")?,
            bound: text("bound")?,
            value: row.number("value")?,
            flagged: row.text("note")?.contains("FLAG"),
        })
    };
    Table::parse(text)?.rows().map(of).collect()
}

/// What is published about one cell of a table, in words.
pub(super) fn cell(
    all: &[Published],
    figure: &str,
    configuration: &str,
    domain: &str,
    load: &str,
) -> String {
    let about = all.iter().filter(|it| {
        (it.figure.as_str(), it.configuration.as_str(), it.load.as_str())
            == (figure, configuration, load)
            && (it.domain == domain || it.domain == "both")
    });
    let mut text = String::new();
    for it in about {
        let flag = if it.flagged { "\u{a0}⚑" } else { "" };
        text += &match it.bound.as_str() {
            "about" => format!("{}{flag}", short(it.value)),
            "at most" => format!("≤\u{a0}{}{flag}", short(it.value)),
            "below" => format!("<\u{a0}{}{flag}", short(it.value)),
            "up to from" => format!("≤\u{a0}{}–", short(it.value)),
            "from" => format!("{}–", short(it.value)),
            _ => format!("{}{flag}", short(it.value)),
        };
    }
    if text.is_empty() { "–".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_ranges_read_as_such() {
        let all = parse(
            "figure,configuration,domain,load,metric,unit,bound,value,place,note\n\
             Fig. 8,Conf_2,both,heavy,m,1/s,from,10000,p,\nFig. 8,Conf_2,both,heavy,m,1/s,to,12000,p,\n\
             Fig. 8,Conf_0.5,both,light,m,1/s,up to from,7000,p,\nFig. 8,Conf_0.5,both,light,m,1/s,to,8000,p,\n\
             Fig. 9,Conf_0.5,both,light,m,us,below,60,p,\nFig. 4,Conf_10,dom0,heavy,m,%,at most,45,p,\nFig. 9,Conf_0.5,dom1,heavy,m,us,about,2000,p,FLAG sums\n",
        )
        .unwrap();
        assert_eq!(cell(&all, "Fig. 8", "Conf_2", "dom1", "heavy"), "10,000–12,000");
        assert_eq!(cell(&all, "Fig. 8", "Conf_0.5", "dom0", "light"), "≤\u{a0}7,000–8,000");
        assert_eq!(cell(&all, "Fig. 9", "Conf_0.5", "dom0", "light"), "<\u{a0}60.0");
        assert_eq!(cell(&all, "Fig. 4", "Conf_10", "dom0", "heavy"), "≤\u{a0}45.0");
        assert_eq!(cell(&all, "Fig. 4", "Conf_10", "dom1", "heavy"), "–");
        assert_eq!(cell(&all, "Fig. 9", "Conf_0.5", "dom1", "heavy"), "2,000\u{a0}⚑");
    }
}
