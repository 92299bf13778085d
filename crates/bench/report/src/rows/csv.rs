//! Rows as CSV (RFC 4180).

use super::table::{Rows, Value};

impl Rows {
    /// The table as CSV: a line of names, CRLF at every line's end, quotes where they are needed. Empty is what is
    /// missing; an empty text is `""`.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let names: Vec<&str> = self.columns().iter().map(|column| column.name).collect();
        out.push_str(&names.join(","));
        out.push_str("\r\n");
        for row in self.rows() {
            line(&mut out, row);
        }
        out
    }
}

fn line(out: &mut String, row: &[Value]) {
    for (nth, value) in row.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        match value {
            Value::Missing => {}
            Value::Text(text) => field(out, text),
            Value::Count(count) => out.push_str(&count.to_string()),
            Value::Number(number) => out.push_str(&shortest(*number)),
            Value::Switch(switch) => out.push_str(&switch.to_string()),
        }
    }
    out.push_str("\r\n");
}

fn field(out: &mut String, text: &str) {
    let is_plain = !text.is_empty() && !text.contains(['"', ',', '\r', '\n']);
    if is_plain {
        out.push_str(text);
    } else {
        out.push('"');
        out.push_str(&text.replace('"', "\"\""));
        out.push('"');
    }
}

/// The shortest decimal that reads back as the same number; very large and very small ones with an exponent.
fn shortest(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-7..1e16).contains(&magnitude) {
        format!("{number:e}")
    } else {
        number.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let mut out = String::new();
        let row = [
            Value::text("plain"),
            Value::text("a,b"),
            Value::text("say \"hi\"\r\n"),
            Value::text(""),
            Value::Missing,
            Value::Count(u64::MAX),
            Value::Switch(true),
        ];
        line(&mut out, &row);
        assert_eq!(out, "plain,\"a,b\",\"say \"\"hi\"\"\r\n\",\"\",,18446744073709551615,true\r\n");
    }

    #[test]
    fn numbers_read_back_as_they_were() {
        for number in [0.1 + 0.2, -0.0, 1e-300, 123_456_789.125, f64::MAX, f64::MIN_POSITIVE] {
            let back: f64 = shortest(number).parse().unwrap();
            assert_eq!(back.to_bits(), number.to_bits());
        }
        assert_eq!(shortest(0.000_1), "0.0001");
        assert_eq!(shortest(1e-9), "1e-9");
    }
}
