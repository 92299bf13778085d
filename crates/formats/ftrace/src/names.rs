//! Names behind addresses: the kernel's symbols and its constant strings.
//!
//! Records hold addresses of functions and of strings; what they mean stands in
//! `/proc/kallsyms` and `printk_formats`, which a recording may carry.

use std::collections::HashMap;

/// What is known about addresses of one kernel.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: HashMap<u64, Box<str>>,
    /// Ascending by address.
    functions: Vec<(u64, Box<str>)>,
}

impl Names {
    /// Nothing known.
    pub fn new() -> Self {
        Names::default()
    }

    /// Takes in `printk_formats`: lines of `0xADDRESS : "text\n"`. Odd lines are passed over.
    #[must_use]
    pub fn with_printk_formats(mut self, text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        self.texts.extend(text.lines().filter_map(printk_line));
        self
    }

    /// Takes in `kallsyms`: lines of `ADDRESS TYPE NAME [MODULE]`. Without permission the kernel
    /// shows all addresses as 0; such lines say nothing and are passed over.
    #[must_use]
    pub fn with_kallsyms(mut self, text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        self.functions.extend(text.lines().filter_map(kallsyms_line));
        self.functions.sort_by_key(|(address, _)| *address);
        self
    }

    /// The constant string at an address.
    pub fn text(&self, address: u64) -> Option<&str> {
        self.texts.get(&address).map(AsRef::as_ref)
    }

    /// The symbol an address lies in, and how far behind its start.
    pub fn function(&self, address: u64) -> Option<(&str, u64)> {
        let at = self.functions.partition_point(|(start, _)| *start <= address);
        // Behind the last symbol anything may be.
        if at == self.functions.len() {
            return None;
        }
        let (start, name) = self.functions.get(at.checked_sub(1)?)?;
        Some((name, address - start))
    }
}

fn printk_line(line: &str) -> Option<(u64, Box<str>)> {
    let (address, text) = line.split_once(':')?;
    let address = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16).ok()?;
    let text = text.strip_prefix(' ').unwrap_or(text);
    let text = text.strip_prefix('"').unwrap_or(text);
    let text = text.strip_suffix('"').unwrap_or(text);
    Some((address, text.strip_suffix("\\n").unwrap_or(text).into()))
}

fn kallsyms_line(line: &str) -> Option<(u64, Box<str>)> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
    let _type = words.next()?;
    Some((address, words.next()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_functions() {
        let names = Names::new()
            .with_printk_formats(b"0xffff10 : \"Start scheduler-tick\"\n0x20 : \"a: b\\n\"\nx\n")
            .with_kallsyms(b"0000000000000020 T b\n10 t a [mod]\n30 T end\n0 T hidden\n?\n");
        assert_eq!(names.text(0xffff10), Some("Start scheduler-tick"));
        assert_eq!(names.text(0x20), Some("a: b"));
        assert_eq!(names.function(0x10), Some(("a", 0)));
        assert_eq!(names.function(0x2f), Some(("b", 15)));
        assert_eq!(names.function(0x5), None);
        assert_eq!(names.function(0x30), None);
    }
}
