//! Plans and other files that people write, in TOML.

use serde::de::DeserializeOwned;

/// Reads the text of a file. An error is one line of text, `line N: what`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    ::toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.get(..start).unwrap_or(text).matches('\n').count() + 1;
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        format!("line {line}: {what}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        number: u32,
    }

    #[test]
    fn errors_have_the_line_and_are_one_line() {
        assert_eq!(from_str("number = 7"), Ok(Table { number: 7 }));
        let wrong = |text: &str| from_str::<Table>(text).unwrap_err();
        assert_eq!(
            wrong("# a table\n\nnumbre = 7"),
            "line 3: unknown field `numbre`, expected `number`"
        );
        assert_eq!(wrong("number = 1\nnumber = 2"), "line 2: duplicate key");
        assert_eq!(wrong(""), "line 1: missing field `number`");
        assert!(wrong("\nnumber = 'a'").starts_with("line 2: invalid type: string \"a\""));
        assert!(wrong("number = [1").starts_with("line 1: "));
    }
}
