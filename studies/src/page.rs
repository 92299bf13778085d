//! Pages that people write and runs fill: between `<!-- study: NAME -->` and `<!-- end of NAME -->` stands what was
//! computed.

use anyhow::{Context, Result};

/// The page with `text` between the markers of a part.
///
/// # Errors
/// If the page has no such part.
pub fn replaced(page: &str, part: &str, text: &str) -> Result<String> {
    let (open, close) = (format!("<!-- study: {part} -->"), format!("<!-- end of {part} -->"));
    let (before, rest) =
        page.split_once(&open).with_context(|| format!("the page has no {open}"))?;
    let (_, after) = rest.split_once(&close).with_context(|| format!("the page has no {close}"))?;
    Ok(format!("{before}{open}\n{text}{close}{after}"))
}

/// A table in Markdown. `align` has a letter for each column: `l` or `r`.
pub fn table(align: &str, header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule: Vec<_> = align.chars().map(|side| if side == 'r' { "--:" } else { "---" }).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{}|\n{body}", line(header), rule.join("|"))
}

/// A number as people write it: three significant figures, thousands set apart.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let places = match size {
        _ if size >= 99.95 || size == 0.0 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    match text.len() {
        4.. if places == 0 && size >= 1000.0 => {
            let (front, back) = text.split_at(text.len() - 3);
            format!("{front},{back}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_replaced_and_nothing_else() {
        let page = "# P\n<!-- study: a -->\nstale\n<!-- end of a -->\nwords\n";
        let new = replaced(page, "a", "fresh\n").unwrap();
        assert_eq!(new, "# P\n<!-- study: a -->\nfresh\n<!-- end of a -->\nwords\n");
        assert_eq!(replaced(&new, "a", "fresh\n").unwrap(), new);
        assert!(replaced(page, "b", "").unwrap_err().to_string().contains("<!-- study: b -->"));
    }

    #[test]
    fn tables_and_numbers_are_for_people() {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table("lr", &cells(["a", "b"]), &[cells(["x|y", "1"])]);
        assert_eq!(text, "| a | b |\n|---|--:|\n| x\\|y | 1 |\n");
        let shorts = [0.0, 0.1234, 1.234, 12.34, 123.4, 1234.4, 12345.6].map(short);
        assert_eq!(shorts, ["0", "0.123", "1.23", "12.3", "123", "1,234", "12,346"]);
    }
}
