//! `format` files: what one event's records look like.
//!
//! A file has the lines `name:`, `ID:`, `format:`, one `field:` line per field (common fields,
//! an empty line, the event's own) and `print fmt:` (`kernel/trace/trace_events.c`,
//! `f_show()`). Everything is kept, also for events nothing else in the project knows.

use crate::{
    error::FormatError,
    field::{Declaration, Field, FieldKind, classify, is_signed_type},
};

/// One event's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The tracepoint's system (`sched`, `kvm`).
    pub system: Box<str>,
    /// The tracepoint's name (`sched_switch`).
    pub name: Box<str>,
    /// Its number: `common_type` of its records. Differs from boot to boot.
    pub id: u16,
    /// The four or five `common_*` fields.
    pub common: Vec<Field>,
    /// The event's own fields, in the kernel's order.
    pub fields: Vec<Field>,
    /// The print format, verbatim; empty if there was none.
    pub print_fmt: Box<str>,
}

impl EventFormat {
    /// Longest `format` file that is read; the kernel's longest (KVM's exit reasons) are about
    /// 12 KiB. What is longer is read up to here.
    pub const MAX_TEXT_BYTES: usize = 1 << 20;

    /// Reads one `format` file. `long_bytes` is the size of the traced kernel's `long`, which
    /// element sizes of dynamic arrays depend on.
    ///
    /// # Errors
    /// [`FormatError`], naming the event and field.
    pub fn parse(system: &str, text: &[u8], long_bytes: usize) -> Result<Self, FormatError> {
        let text = as_text(text)?;
        let mut event = Parser { system, name: "?", long_bytes, bits: BitRun::default() };
        event.name = line_value(text, "name:").ok_or_else(|| event.missing("name"))?;
        let id = line_value(text, "ID:").ok_or_else(|| event.missing("ID"))?;
        let id = id.parse().map_err(|_| event.bad_number(id, "event ID (16 bits)"))?;
        let (mut common, mut fields) = (Vec::new(), Vec::new());
        for line in text.lines().map(str::trim) {
            if let Some(line) = line.strip_prefix("field:").or(line.strip_prefix("field special:"))
            {
                let field = event.field(line)?;
                let list =
                    if field.name.starts_with("common_") { &mut common } else { &mut fields };
                list.push(field);
            }
        }
        if common.is_empty() {
            return Err(event.missing("field:… common_type"));
        }
        Ok(EventFormat {
            system: system.into(),
            name: event.name.into(),
            id,
            common,
            fields,
            print_fmt: text.split_once("print fmt:").map_or("", |(_, rest)| rest.trim()).into(),
        })
    }

    /// `system:name`, as people write it.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }

    /// One of the event's own fields, or a common one.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().chain(&self.common).find(|field| &*field.name == name)
    }
}

fn as_text(bytes: &[u8]) -> Result<&str, FormatError> {
    let bytes = bytes.get(..EventFormat::MAX_TEXT_BYTES).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|err| FormatError::NotText { at: err.valid_up_to() })
}

/// What follows `key` on the line that starts with it.
fn line_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(key)).map(str::trim)
}

struct Parser<'a> {
    system: &'a str,
    name: &'a str,
    long_bytes: usize,
    bits: BitRun,
}

/// Consecutive bitfields share one storage unit; their shifts add up.
#[derive(Default)]
struct BitRun {
    offset_bytes: usize,
    used: u8,
}

impl Parser<'_> {
    fn event(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }

    fn missing(&self, line: &'static str) -> FormatError {
        FormatError::MissingLine { event: self.event(), line }
    }

    fn bad_number(&self, text: &str, what: &'static str) -> FormatError {
        FormatError::BadNumber { event: self.event(), text: text.into(), what }
    }

    fn bad_field(&self, line: &str, why: &'static str) -> FormatError {
        FormatError::BadField { event: self.event(), line: line.into(), why }
    }

    fn field(&mut self, line: &str) -> Result<Field, FormatError> {
        let (text, rest) =
            line.split_once(';').ok_or_else(|| self.bad_field(line, "missing `;` at the end"))?;
        let declaration = Declaration::parse(text)
            .ok_or_else(|| self.bad_field(line, "type and name are missing"))?;
        let offset_bytes = self.number(text, rest, "offset")?;
        let size_bytes = self.number(text, rest, "size")?;
        let is_signed = match part(rest, "signed") {
            None => is_signed_type(declaration.type_name),
            Some("0") => false,
            Some("1") => true,
            Some(other) => return Err(self.bad_number(other, "`signed:` (0 or 1)")),
        };
        let mut kind = classify(&declaration, size_bytes, is_signed, self.long_bytes);
        match &mut kind {
            FieldKind::Dynamic { .. } if size_bytes != 4 => {
                return Err(self.bad_field(line, "a locator must have 4 bytes"));
            }
            FieldKind::Bits { shift, width } => {
                *shift = self
                    .bits
                    .take(offset_bytes, size_bytes, *width)
                    .ok_or_else(|| self.bad_field(line, "the bits do not fit into the field"))?;
            }
            _ => {}
        }
        // `char comm[16]` is of type `char[16]`.
        let brackets = text.find('[').filter(|_| text.trim_end().ends_with(']'));
        let type_name = match brackets {
            Some(at) => format!("{}{}", declaration.type_name, text[at..].trim_end()),
            None => declaration.type_name.to_owned(),
        };
        Ok(Field {
            name: declaration.name.into(),
            type_name: type_name.into(),
            offset_bytes,
            size_bytes,
            is_signed,
            kind,
        })
    }

    fn number(&self, field: &str, rest: &str, key: &'static str) -> Result<usize, FormatError> {
        let text = part(rest, key).ok_or_else(|| FormatError::MissingPart {
            event: self.event(),
            field: field.into(),
            part: key,
        })?;
        // A record is at most one sub-buffer; 64 KiB is the most the locators can address.
        text.parse::<u16>()
            .map(usize::from)
            .map_err(|_| self.bad_number(text, "field offset or size (16 bits)"))
    }
}

impl BitRun {
    fn take(&mut self, offset_bytes: usize, size_bytes: usize, width: u8) -> Option<u8> {
        if self.offset_bytes != offset_bytes {
            *self = BitRun { offset_bytes, used: 0 };
        }
        let shift = self.used;
        self.used = shift.checked_add(width)?;
        (usize::from(self.used) <= size_bytes.checked_mul(8)? && size_bytes <= 8).then_some(shift)
    }
}

/// The text of `key:` in `\toffset:8;\tsize:4;\tsigned:1;`.
fn part<'a>(rest: &'a str, key: &str) -> Option<&'a str> {
    rest.split(';').find_map(|part| part.trim().strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{DynamicKind, Element};

    pub(crate) const WAKING: &str = "name: sched_waking\nID: 318\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\n\
        print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid\n";

    fn with_line(line: &str) -> Result<EventFormat, FormatError> {
        let text = WAKING.replace("\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;", line);
        EventFormat::parse("sched", text.as_bytes(), 8)
    }

    #[test]
    fn a_whole_file() {
        let event = EventFormat::parse("sched", WAKING.as_bytes(), 8).unwrap();
        assert_eq!((event.full_name().as_str(), event.id), ("sched:sched_waking", 318));
        assert_eq!(event.common.len(), 4);
        assert_eq!(event.fields.len(), 2);
        assert_eq!(&*event.fields[0].type_name, "char[16]");
        assert_eq!(event.field("pid").unwrap().offset_bytes, 24);
        assert_eq!(&*event.print_fmt, "\"comm=%s pid=%d\", REC->comm, REC->pid");
    }

    #[test]
    fn a_missing_line_is_named() {
        let error = |text: &str| EventFormat::parse("sched", text.as_bytes(), 8).unwrap_err();
        let text = error(&WAKING.replace("ID:", "IE:")).to_string();
        assert_eq!(text, "format of sched:sched_waking: no `ID` line");
        assert_eq!(error("").to_string(), "format of sched:?: no `name` line");
        assert_eq!(
            with_line("\tfield:pid_t pid;\toffset:24;\tsigned:1;").unwrap_err().to_string(),
            "format of sched:sched_waking: field `pid_t pid` has no `size:`"
        );
        assert_eq!(
            with_line("\tfield:pid;\toffset:24;\tsize:4;").unwrap_err().to_string(),
            "format of sched:sched_waking: cannot read `pid;\toffset:24;\tsize:4;`: \
             type and name are missing"
        );
        assert!(with_line("\tfield:int pid;\toffset:99999;\tsize:4;").is_err());
        assert!(with_line("\tfield:__data_loc char[] x;\toffset:24;\tsize:8;").is_err());
    }

    #[test]
    fn kinds_and_old_kernels() {
        let event = with_line(
            "\tfield:int a;\toffset:24;\tsize:4;\n\
             \tfield:unsigned int lo:3;\toffset:28;\tsize:4;\tsigned:0;\n\
             \tfield:unsigned int hi:5;\toffset:28;\tsize:4;\tsigned:0;\n\
             \tfield:__rel_loc u16[] arr;\toffset:32;\tsize:4;\tsigned:0;\n",
        )
        .unwrap();
        let field = |name| event.field(name).unwrap();
        assert!(field("a").is_signed);
        assert_eq!(field("lo").kind, FieldKind::Bits { shift: 0, width: 3 });
        assert_eq!(field("hi").kind, FieldKind::Bits { shift: 3, width: 5 });
        let element = Element { size_bytes: 2, is_signed: false };
        let kind = DynamicKind::Array(element);
        assert_eq!(field("arr").kind, FieldKind::Dynamic { is_relative: true, kind });
    }

    #[test]
    fn too_many_bits_are_refused() {
        assert!(with_line("\tfield:unsigned char lo:9;\toffset:24;\tsize:1;\tsigned:0;").is_err());
    }
}
