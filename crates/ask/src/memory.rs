//! Amounts of memory, as people write them.

/// Parses `512M`, `2G`, `1048576`; units are powers of 1024.
///
/// # Errors
/// One line, if it is no amount of at least 1 MiB.
pub fn parse(text: &str) -> Result<usize, String> {
    let number: String = text.chars().take_while(char::is_ascii_digit).collect();
    let unit = text.get(number.len()..).unwrap_or_default().to_ascii_uppercase();
    let shift = match unit.trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("'{text}' is not an amount of memory: write 512M or 2G")),
    };
    let bytes = number.parse::<usize>().ok().and_then(|n| n.checked_mul(1_usize << shift));
    match bytes {
        Some(bytes) if bytes >= 1 << 20 => Ok(bytes),
        Some(_) => Err(format!("'{text}' is too little memory: the minimum is 1M")),
        None => Err(format!("'{text}' is not an amount of memory: write 512M or 2G")),
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
}
