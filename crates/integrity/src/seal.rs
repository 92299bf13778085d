//! A JSON object with its own checksum, as its last member.
//!
//! ```text
//! {                                {"TscRate":…,"checksum":"1c291ca3"}
//!   "format": 1,
//!   "checksum": "1c291ca3"
//! }
//! ```
//! The checksum is the CRC-32 of all bytes before the comma in front of it, eight hexadecimal digits. Any
//! JSON reader reads the object, and one without a seal is what an earlier version wrote.

/// Whether a text is what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// It is.
    Whole,
    /// It is not.
    Broken,
    /// It has no seal that could tell.
    None,
}

/// Between the content and the digits, in a text of several lines.
const BEFORE: &str = ",\n  \"checksum\": \"";
/// Behind the digits.
const BEHIND: &str = "\"\n}\n";
/// The same in an object of one line.
const LINE_BEFORE: &str = ",\"checksum\":\"";
const LINE_BEHIND: &str = "\"}";
const DIGITS: usize = 8;

/// Adds the seal to an object as `serde_json::to_string_pretty` writes it, and a newline. What has no
/// member stays without.
pub fn seal(object: &str) -> String {
    match object.trim_end().strip_suffix("\n}") {
        Some(content) => put(content, BEFORE, BEHIND),
        None => format!("{}\n", object.trim_end()),
    }
}

/// Adds the seal to an object of one line, without a newline.
pub fn seal_line(object: &str) -> String {
    match object.strip_suffix('}').filter(|content| content.len() > 1) {
        Some(content) => put(content, LINE_BEFORE, LINE_BEHIND),
        None => object.to_owned(),
    }
}

/// Is the object of several lines what was sealed?
pub fn seal_of(text: &str) -> Seal {
    check(text, BEFORE, BEHIND)
}

/// Is the object of one line, given without its newline, what was sealed?
pub fn seal_of_line(line: &str) -> Seal {
    check(line, LINE_BEFORE, LINE_BEHIND)
}

fn put(content: &str, before: &str, behind: &str) -> String {
    let sum = crc32fast::hash(content.as_bytes());
    format!("{content}{before}{sum:08x}{behind}")
}

fn check(text: &str, before: &str, behind: &str) -> Seal {
    let sealed = text.strip_suffix(behind).and_then(|text| {
        let (content, digits) = text.split_at_checked(text.len().checked_sub(DIGITS)?)?;
        Some((content.strip_suffix(before)?, digits))
    });
    match sealed {
        None => Seal::None,
        Some((content, digits)) => {
            let is_right = digits == format!("{:08x}", crc32fast::hash(content.as_bytes()));
            if is_right { Seal::Whole } else { Seal::Broken }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = "{\n  \"format\": 1,\n  \"name\": \"wéb\"\n}";
    const LINE: &str = "{\"a\":[1,2]}";

    #[test]
    fn a_sealed_object_is_whole_and_still_an_object() {
        let sealed = seal(OBJECT);
        assert_eq!(seal_of(&sealed), Seal::Whole);
        assert!(
            sealed.starts_with("{\n  \"format\": 1,\n  \"name\": \"wéb\",\n  \"checksum\": \"")
        );
        let line = seal_line(LINE);
        assert_eq!(seal_of_line(&line), Seal::Whole);
        assert!(line.starts_with("{\"a\":[1,2],\"checksum\":\"") && line.ends_with("\"}"));
    }

    #[test]
    fn what_has_no_seal_is_told_as_such() {
        assert_eq!(seal_of(&format!("{OBJECT}\n")), Seal::None);
        assert_eq!(seal_of_line(LINE), Seal::None);
        for text in ["", "{}", "[]", "\"}", "é\"}"] {
            assert_eq!((seal_of(text), seal_of_line(text)), (Seal::None, Seal::None), "{text}");
        }
        assert_eq!(seal_line("{}"), "{}");
        assert_eq!(seal("{}"), "{}\n");
    }

    /// A flip breaks the seal, or it is in the seal and the content is what was written.
    #[test]
    fn no_flip_in_the_content_passes() {
        let check = |sealed: String, content: usize, seal_of: fn(&str) -> Seal| {
            for at in 0..sealed.len() {
                for bit in 0..8 {
                    let mut bytes = sealed.clone().into_bytes();
                    bytes[at] ^= 1 << bit;
                    let Ok(text) = String::from_utf8(bytes) else { continue };
                    let found = seal_of(&text);
                    assert_ne!(found, Seal::Whole, "byte {at}");
                    assert!(at >= content || found == Seal::Broken, "byte {at}");
                }
            }
        };
        check(seal(OBJECT), OBJECT.len() - 2, seal_of);
        check(seal_line(LINE), LINE.len() - 1, seal_of_line);
    }
}
