//! Sizes, as people write them. Every size of the command line and of the settings is parsed here.

/// Parses `512K`, `8M`, `1G`, `2TiB`, `1048576` to bytes; units are powers of 1024, in upper or lower case.
///
/// # Errors
/// One line, if it is not a size, or more than 64 bits hold.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.trim_start().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(format!("'{text}' is not a size: write a whole number with K, M, G or T")),
    };
    let number: u64 = match digits.parse() {
        Ok(number) => number,
        Err(_) if digits.is_empty() => {
            return Err(format!("'{text}' is not a size: write a whole number with K, M, G or T"));
        }
        Err(_) => return Err(format!("'{text}' is out of range")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is out of range"))
}

/// Parses `512M`, `2G`, `1048576`; units are powers of 1024.
///
/// # Errors
/// One line, if it is no amount of at least 1 MiB.
pub fn parse(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    match usize::try_from(bytes) {
        Ok(bytes) if bytes >= 1 << 20 => Ok(bytes),
        Ok(_) => Err(format!("'{text}' is too little memory: the minimum is 1M")),
        Err(_) => Err(format!("'{text}' is out of range")),
    }
}

/// An amount in the largest unit it is a whole number of.
pub fn text(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 30 && b.is_multiple_of(1 << 30) => format!("{}G", b >> 30),
        b if b >= 1 << 20 => format!("{}M", b >> 20),
        b => format!("{b} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("1048576"), Ok(1 << 20));
        assert!(parse("1K").is_err() && parse("lots").is_err() && parse("").is_err());
        assert_eq!(text(512 << 20), "512M");
    }

    #[test]
    fn all_units_are_parsed_and_everything_else_is_refused() {
        for (text, shift) in [("B", 0), ("k", 10), ("KiB", 10), ("MB", 20), ("g", 30), (" TiB", 40)]
        {
            assert_eq!(parse_bytes(&format!("3{text}")), Ok(3 << shift), "{text}");
        }
        assert_eq!(parse_bytes("1T"), Ok(1 << 40));
        for bad in ["", "M", "-1M", "1.5M", "1P", "1Kibib", "1bb", "1Mi", "8 M 9", "16777216T"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert!(parse_bytes("99999999999999999999G").unwrap_err().contains("out of range"));
    }
}
