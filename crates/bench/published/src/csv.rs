//! Comma-separated values as RFC 4180 has them: what this folder reads and writes, and no more.

/// Lines of fields. Quoted fields may hold commas and doubled quotes, not line ends.
pub(super) fn read(text: &str) -> Vec<Vec<String>> {
    text.lines().filter(|line| !line.is_empty()).map(fields).collect()
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                push(&mut fields, '"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => push(&mut fields, char),
        }
    }
    fields
}

fn push(fields: &mut [String], char: char) {
    if let Some(last) = fields.last_mut() {
        last.push(char);
    }
}

/// One line, with its end.
pub(super) fn line<'a>(fields: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = fields.into_iter().map(quote).collect();
    quoted.join(",") + "\n"
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let fields = ["plain", "with, comma", "with \"quotes\", too", ""];
        assert_eq!(read(&line(fields)), [fields.map(str::to_owned).to_vec()]);
    }
}
