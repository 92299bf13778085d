//! One field of an event: its C declaration and where its bytes are.

/// What a field's bytes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// An integer of the field's size; signedness in [`Field::is_signed`].
    Int,
    /// `bool` / `_Bool`.
    Bool,
    /// An address.
    Pointer,
    /// `enum x`: an integer whose names only the print format knows.
    Enum,
    /// Some bits of an integer. Shift counts from the least significant bit.
    Bits {
        /// Bits below the value.
        shift: u8,
        /// Bits of the value.
        width: u8,
    },
    /// `char x[N]`: text up to the first zero byte.
    Str,
    /// `T x[N]` of integers.
    Array(Element),
    /// `cpumask_t x`: a bit per CPU, in words of the machine's `long`.
    CpuMask,
    /// A struct or anything else with a size but no known meaning.
    Bytes,
    /// Out of line: a 32-bit locator (length << 16 | offset) at the field, data behind the record.
    Dynamic {
        /// Offsets count from behind the locator (`__rel_loc`) instead of from the record's start
        /// (`__data_loc`).
        is_relative: bool,
        /// What the located bytes mean.
        kind: DynamicKind,
    },
}

/// What the bytes of a `__data_loc` or `__rel_loc` field mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DynamicKind {
    /// `char[]`.
    Str,
    /// `cpumask_t` (6.2 and later) or a bitmask of longs, as cpumasks were declared before.
    CpuMask,
    /// `T[]` of integers.
    Array(Element),
    /// Anything else.
    Bytes,
}

/// Element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    /// Bytes of one element: 1, 2, 4 or 8.
    pub size_bytes: u8,
    /// Is the top bit a sign?
    pub is_signed: bool,
}

/// One `field:` line of a `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, without array brackets.
    pub name: Box<str>,
    /// The C type as the kernel printed it, including `__data_loc` and `[]`.
    pub type_name: Box<str>,
    /// Bytes from the start of the record's payload.
    pub offset_bytes: usize,
    /// Bytes in the fixed part of the record (4 for a locator).
    pub size_bytes: usize,
    /// Is the top bit a sign? From the line's `signed:` (absent before Linux 2.6.33: then from the
    /// type). For arrays of plain integers it is the elements'.
    pub is_signed: bool,
    /// What the bytes mean.
    pub kind: FieldKind,
}

impl Field {
    /// First byte behind the field's fixed part.
    pub fn end_bytes(&self) -> usize {
        self.offset_bytes.saturating_add(self.size_bytes)
    }
}

/// A declaration taken apart: `unsigned char insn[15]` → type, name, array length, bit width.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Declaration<'a> {
    pub(crate) type_name: &'a str,
    pub(crate) name: &'a str,
    /// Elements of a fixed array (product of all dimensions); `None` if it is none or `[]`.
    pub(crate) array_len: Option<usize>,
    pub(crate) is_array: bool,
    pub(crate) bit_width: Option<u8>,
}

impl<'a> Declaration<'a> {
    /// `None` if there is no type and name to be found.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (text, bit_width) = split_bit_width(text.trim())?;
        let (text, dimensions) = split_dimensions(text)?;
        let name_at = text
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
        let (type_name, name) = (text[..name_at].trim_end(), &text[name_at..]);
        if type_name.is_empty() || name.is_empty() {
            return None;
        }
        let array_len = match dimensions {
            "" => None,
            list => array_len(list),
        };
        Some(Declaration {
            type_name,
            name,
            array_len,
            is_array: !dimensions.is_empty() || type_name.ends_with(']'),
            bit_width,
        })
    }
}

/// `int x:3` → (`int x`, 3). `None` if there is a colon but no width.
fn split_bit_width(text: &str) -> Option<(&str, Option<u8>)> {
    match text.rsplit_once(':') {
        None => Some((text, None)),
        Some((head, width)) => {
            let width = width.trim().parse().ok().filter(|w| (1..=64).contains(w))?;
            Some((head.trim_end(), Some(width)))
        }
    }
}

/// `u8 x[4][6]` → (`u8 x`, `[4][6]`).
fn split_dimensions(text: &str) -> Option<(&str, &str)> {
    if !text.ends_with(']') {
        return Some((text, ""));
    }
    let mut at = text.len();
    while text[..at].ends_with(']') {
        at = text[..at].rfind('[')?;
    }
    Some((text[..at].trim_end(), &text[at..]))
}

/// Product of `[4][6]`; `None` when a dimension is no number (a macro or empty).
fn array_len(list: &str) -> Option<usize> {
    list.split_terminator(']').try_fold(1usize, |product, part| {
        let len: usize = part.trim_start_matches('[').trim().parse().ok()?;
        product.checked_mul(len)
    })
}

/// What a type says about itself, found from its words.
pub(crate) fn classify(
    declaration: &Declaration<'_>,
    size_bytes: usize,
    is_signed: bool,
    long_bytes: usize,
) -> FieldKind {
    let type_name = declaration.type_name;
    for (prefix, is_relative) in [("__data_loc ", false), ("__rel_loc ", true)] {
        if let Some(target) = type_name.strip_prefix(prefix) {
            return FieldKind::Dynamic { is_relative, kind: classify_dynamic(target, long_bytes) };
        }
    }
    if declaration.is_array {
        return classify_array(declaration, size_bytes, is_signed);
    }
    if let Some(width) = declaration.bit_width {
        return FieldKind::Bits { shift: 0, width };
    }
    let words = || type_name.split_whitespace();
    if type_name.ends_with('*') && size_bytes <= 8 {
        FieldKind::Pointer
    } else if words().any(|w| w == "cpumask_t") || type_name == "struct cpumask" {
        FieldKind::CpuMask
    } else if words().any(|w| w == "bool" || w == "_Bool") && size_bytes == 1 {
        FieldKind::Bool
    } else if words().any(|w| w == "enum") {
        FieldKind::Enum
    } else if matches!(size_bytes, 1 | 2 | 4 | 8) && !is_aggregate(type_name) {
        FieldKind::Int
    } else {
        FieldKind::Bytes
    }
}

fn is_aggregate(type_name: &str) -> bool {
    type_name.split_whitespace().any(|w| w == "struct" || w == "union")
}

fn classify_array(declaration: &Declaration<'_>, size_bytes: usize, is_signed: bool) -> FieldKind {
    let base = declaration.type_name.split('[').next().unwrap_or_default().trim_end();
    if base == "char" || base == "const char" {
        return FieldKind::Str;
    }
    if is_aggregate(base) {
        return FieldKind::Bytes;
    }
    let element = declaration.array_len.filter(|len| *len > 0).map(|len| size_bytes / len);
    match element {
        Some(size @ (1 | 2 | 4 | 8)) => FieldKind::Array(Element {
            size_bytes: u8::try_from(size).unwrap_or(1),
            is_signed: is_signed && !base.contains("unsigned"),
        }),
        _ => FieldKind::Bytes,
    }
}

fn classify_dynamic(target: &str, long_bytes: usize) -> DynamicKind {
    let base = target.trim_end_matches("[]").trim();
    match base {
        "char" | "const char" => return DynamicKind::Str,
        "cpumask_t" => return DynamicKind::CpuMask,
        // `__bitmask()` of include/trace/stages: cpumasks before 6.2 and other masks of longs.
        "unsigned long" => return DynamicKind::CpuMask,
        _ => {}
    }
    match element_of(base, long_bytes) {
        Some(element) => DynamicKind::Array(element),
        None => DynamicKind::Bytes,
    }
}

/// The integer types kernel headers use in dynamic arrays, where no `size:` tells.
fn element_of(base: &str, long_bytes: usize) -> Option<Element> {
    let base = base.strip_prefix("const ").unwrap_or(base);
    let long = u8::try_from(long_bytes).unwrap_or(8);
    let (size_bytes, is_signed) = match base {
        "u8" | "__u8" | "uint8_t" | "unsigned char" | "bool" => (1, false),
        "s8" | "__s8" | "int8_t" | "signed char" => (1, true),
        "u16" | "__u16" | "__le16" | "__be16" | "uint16_t" | "unsigned short" => (2, false),
        "s16" | "__s16" | "int16_t" | "short" => (2, true),
        "u32" | "__u32" | "__le32" | "__be32" | "uint32_t" | "unsigned int" | "unsigned" => {
            (4, false)
        }
        "s32" | "__s32" | "int32_t" | "int" => (4, true),
        "u64" | "__u64" | "__le64" | "__be64" | "uint64_t" | "unsigned long long" => (8, false),
        "s64" | "__s64" | "int64_t" | "long long" => (8, true),
        "long" => (long, true),
        "size_t" | "uintptr_t" => (long, false),
        _ => return None,
    };
    Some(Element { size_bytes, is_signed })
}

/// Signedness for kernels whose `format` files have no `signed:` (before 2.6.33).
pub(crate) fn is_signed_type(type_name: &str) -> bool {
    let mut words = type_name.split_whitespace();
    !type_name.ends_with('*')
        && !words.clone().any(|w| w == "unsigned" || w == "bool" || w == "struct")
        && words.any(|w| {
            matches!(w, "int" | "long" | "short" | "char" | "pid_t" | "s8" | "s16" | "s32" | "s64")
                || matches!(w, "__s8" | "__s16" | "__s32" | "__s64")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str, size: usize, signed: bool) -> FieldKind {
        classify(&Declaration::parse(text).unwrap(), size, signed, 8)
    }

    #[test]
    fn declarations_split() {
        let parse = |text| Declaration::parse(text).unwrap();
        assert_eq!(parse("unsigned char common_flags").name, "common_flags");
        assert_eq!(parse("const char * name").type_name, "const char *");
        assert_eq!(parse("const char *name").name, "name");
        assert_eq!(parse("char comm[16]").array_len, Some(16));
        assert_eq!(parse("u8 mac[4][6]").array_len, Some(24));
        assert_eq!(parse("char x[TASK_COMM_LEN]").array_len, None);
        assert_eq!(parse("__data_loc char[] filename").type_name, "__data_loc char[]");
        assert_eq!(parse("unsigned int flags:3").bit_width, Some(3));
        assert_eq!(Declaration::parse("lonely"), None);
        assert_eq!(Declaration::parse("]"), None);
        assert_eq!(Declaration::parse(""), None);
    }

    #[test]
    fn kinds() {
        assert_eq!(kind("int x", 4, true), FieldKind::Int);
        assert_eq!(kind("bool x", 1, false), FieldKind::Bool);
        assert_eq!(kind("void * x", 8, false), FieldKind::Pointer);
        assert_eq!(kind("enum zone x", 4, false), FieldKind::Enum);
        assert_eq!(kind("char x[16]", 16, true), FieldKind::Str);
        assert_eq!(kind("struct foo x", 8, false), FieldKind::Bytes);
        assert_eq!(kind("cpumask_t x", 128, false), FieldKind::CpuMask);
        let array = |size_bytes, is_signed| FieldKind::Array(Element { size_bytes, is_signed });
        assert_eq!(kind("unsigned long args[6]", 48, false), array(8, false));
        assert_eq!(kind("__u8 insn[15]", 15, false), array(1, false));
        assert_eq!(kind("int fds[2]", 8, true), array(4, true));
        let dynamic = |is_relative, kind| FieldKind::Dynamic { is_relative, kind };
        assert_eq!(kind("__data_loc char[] x", 4, true), dynamic(false, DynamicKind::Str));
        assert_eq!(kind("__rel_loc char[] x", 4, true), dynamic(true, DynamicKind::Str));
        assert_eq!(kind("__data_loc cpumask_t x", 4, false), dynamic(false, DynamicKind::CpuMask));
        assert_eq!(
            kind("__data_loc __u64[] x", 4, false),
            dynamic(false, DynamicKind::Array(Element { size_bytes: 8, is_signed: false }))
        );
        assert_eq!(kind("__data_loc struct x[] y", 4, false), dynamic(false, DynamicKind::Bytes));
    }
}
