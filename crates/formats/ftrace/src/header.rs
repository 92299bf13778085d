//! `header_page` and `header_event`: how sub-buffers and record headers are laid out.

use crate::{endian::Endian, error::FormatError};

/// Layout of one sub-buffer ("page"): header, then records.
///
/// Sub-buffers are one memory page by default; since Linux 6.8 `buffer_subbuf_size_kb` makes them
/// larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Byte order of all numbers in it.
    pub endian: Endian,
    /// Bytes of the commit word: the traced kernel's `long`.
    pub commit_bytes: usize,
    /// Offset of the commit word (the 64-bit stamp comes before it).
    pub commit_offset_bytes: usize,
    /// Offset of the first record.
    pub data_offset_bytes: usize,
    /// Bytes of the whole sub-buffer.
    pub page_bytes: usize,
}

/// Larger than any sub-buffer the kernel makes (its order is limited so that they stay ≤ 64 KiB
/// for 4 KiB pages and ≤ 1 MiB for 64 KiB pages).
const MAX_PAGE_BYTES: usize = 16 << 20;

impl PageLayout {
    /// What every 64-bit little-endian kernel of the last fifteen years uses.
    pub fn native(page_bytes: usize) -> Self {
        PageLayout {
            endian: Endian::NATIVE,
            commit_bytes: 8,
            commit_offset_bytes: 8,
            data_offset_bytes: 16,
            page_bytes,
        }
    }

    /// Reads `events/header_page`. The page size is that of the top buffer; use
    /// [`PageLayout::with_page_bytes`] for an instance with another.
    ///
    /// # Errors
    /// A field is missing, or the layout is not one a page can have.
    pub fn parse(text: &[u8], endian: Endian) -> Result<Self, FormatError> {
        let text = std::str::from_utf8(text)
            .map_err(|err| FormatError::NotText { at: err.valid_up_to() })?;
        let (stamp_offset, stamp_bytes) = place(text, "timestamp")?;
        let (commit_offset_bytes, commit_bytes) = place(text, "commit")?;
        let (data_offset_bytes, data_bytes) = place(text, "data")?;
        if (stamp_offset, stamp_bytes) != (0, 8) {
            return Err(bad(format!(
                "timestamp is {stamp_bytes} bytes at {stamp_offset}, expected 8 at 0"
            )));
        }
        if !matches!(commit_bytes, 4 | 8) || commit_offset_bytes != 8 {
            return Err(bad(format!(
                "commit is {commit_bytes} bytes at {commit_offset_bytes}, expected 4 or 8 at 8"
            )));
        }
        if data_offset_bytes < commit_offset_bytes + commit_bytes {
            return Err(bad(format!("data at {data_offset_bytes} overlaps the commit word")));
        }
        let layout = PageLayout {
            endian,
            commit_bytes,
            commit_offset_bytes,
            data_offset_bytes,
            page_bytes: 0,
        };
        layout.with_page_bytes(data_offset_bytes.saturating_add(data_bytes))
    }

    /// The same header on sub-buffers of another size.
    ///
    /// # Errors
    /// The size holds no record, or is absurd.
    pub fn with_page_bytes(self, page_bytes: usize) -> Result<Self, FormatError> {
        if page_bytes <= self.data_offset_bytes || page_bytes > MAX_PAGE_BYTES {
            return Err(bad(format!("invalid sub-buffer size of {page_bytes} bytes")));
        }
        Ok(PageLayout { page_bytes, ..self })
    }

    /// Bytes a full sub-buffer holds behind its header.
    pub fn capacity_bytes(&self) -> usize {
        self.page_bytes.saturating_sub(self.data_offset_bytes)
    }
}

fn bad(text: String) -> FormatError {
    FormatError::HeaderPage(text)
}

/// Offset and size of the line `field: type NAME; offset:…; size:…;`.
fn place(text: &str, name: &str) -> Result<(usize, usize), FormatError> {
    let line = text
        .lines()
        .find(|line| {
            let declaration = line.split(';').next().unwrap_or_default();
            declaration.split_whitespace().next_back() == Some(name)
        })
        .ok_or_else(|| bad(format!("no field `{name}`")))?;
    let number = |key: &str| {
        line.split(';')
            .find_map(|part| part.trim().strip_prefix(key))
            .and_then(|text| text.trim().parse::<u32>().ok())
            .and_then(|value| usize::try_from(value).ok())
            .ok_or_else(|| bad(format!("field `{name}` has no valid `{key}`")))
    };
    Ok((number("offset:")?, number("size:")?))
}

/// Record header constants, as `events/header_event` states them.
const HEADER_EVENT: [(&str, u32); 6] = [
    ("type_len", 5),
    ("time_delta", 27),
    ("array", 32),
    ("padding", 29),
    ("time_extend", 30),
    ("data max type_len", 28),
];

/// Checks that records are encoded the one way this codec knows
/// (`kernel/trace/ring_buffer.c`, `ring_buffer_print_entry_header()`; unchanged since 2.6.31).
///
/// # Errors
/// A constant is missing or differs.
pub fn check_header_event(text: &[u8]) -> Result<(), FormatError> {
    let text =
        std::str::from_utf8(text).map_err(|err| FormatError::NotText { at: err.valid_up_to() })?;
    for (name, expected) in HEADER_EVENT {
        let found = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.trim_start().strip_prefix([':', '=']))
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).find(|d| !d.is_empty()))
            .and_then(|digits| digits.parse::<u32>().ok());
        let found = found.or_else(|| max_type_len(text, name));
        match found {
            Some(value) if value == expected => {}
            Some(value) => {
                return Err(FormatError::HeaderEvent(format!(
                    "`{name}` is {value}, expected {expected}: unsupported record encoding"
                )));
            }
            None => return Err(FormatError::HeaderEvent(format!("no `{name}`"))),
        }
    }
    Ok(())
}

/// `data max type_len  == 28` has its value behind `==` instead of `:`.
fn max_type_len(text: &str, name: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.trim().starts_with(name))?;
    line.rsplit_once("==")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
    const EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
        \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
        \tpadding     : type == 29\n\ttime_extend : type == 30\n\
        \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

    #[test]
    fn a_usual_page() {
        let layout = PageLayout::parse(PAGE.as_bytes(), Endian::Little).unwrap();
        assert_eq!(layout, PageLayout { endian: Endian::Little, ..PageLayout::native(4096) });
        assert_eq!(layout.capacity_bytes(), 4080);
        assert_eq!(layout.with_page_bytes(65536).unwrap().capacity_bytes(), 65520);
        assert!(layout.with_page_bytes(16).is_err());
    }

    #[test]
    fn a_32_bit_page() {
        let text = PAGE
            .replace("offset:8;\tsize:8", "offset:8;\tsize:4")
            .replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
        let layout = PageLayout::parse(text.as_bytes(), Endian::Big).unwrap();
        assert_eq!((layout.commit_bytes, layout.data_offset_bytes), (4, 12));
    }

    #[test]
    fn broken_pages_are_explained() {
        let error = |text: String| {
            PageLayout::parse(text.as_bytes(), Endian::Little).unwrap_err().to_string()
        };
        assert_eq!(error(PAGE.replace("commit", "commut")), "header_page: no field `commit`");
        assert_eq!(
            error(PAGE.replace("4080", "99999999999")),
            "header_page: field `data` has no valid `size:`"
        );
        assert_eq!(
            error(PAGE.replace("offset:16", "offset:9")),
            "header_page: data at 9 overlaps the commit word"
        );
    }

    #[test]
    fn the_record_encoding_is_checked() {
        check_header_event(EVENT.as_bytes()).unwrap();
        let old = EVENT.replace("29", "0");
        assert_eq!(
            check_header_event(old.as_bytes()).unwrap_err().to_string(),
            "header_event: `padding` is 0, expected 29: unsupported record encoding"
        );
        assert!(check_header_event(b"").is_err());
    }
}
