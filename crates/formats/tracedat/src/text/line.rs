//! One line of `trace`: `TASK-PID [(TGID)] [CPU] FLAGS STAMP: EVENT: TEXT`.

/// When, as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// `78016673557`.
    Ticks(u64),
    /// `78.016673`, in nanoseconds.
    Ns(u64),
}

/// A line's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// An event.
    Event {
        comm: &'a [u8],
        tid: i32,
        cpu: u32,
        /// `common_flags` as far as the interrupts go; none if the text has no flags.
        flags: Option<u8>,
        stamp: Stamp,
        event: &'a str,
        text: &'a [u8],
    },
    /// `CPU:1 [LOST 12 EVENTS]`, or without a number.
    Lost { cpu: u32, count: Option<u64> },
}

impl<'a> Line<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        lost(line).or_else(|| event(line))
    }
}

fn lost(line: &[u8]) -> Option<Line<'_>> {
    let rest = std::str::from_utf8(line).ok()?.strip_prefix("CPU:")?;
    let (cpu, rest) = rest.split_once(" [LOST ")?;
    let count = rest.strip_suffix("EVENTS]")?.trim();
    Some(Line::Lost { cpu: cpu.parse().ok()?, count: count.parse().ok() })
}

fn event(line: &[u8]) -> Option<Line<'_>> {
    let (at, cpu, rest) = cpu(line)?;
    let mut who = line.get(..at)?.trim_ascii();
    if who.ends_with(b")") {
        let open = who.iter().rposition(|b| *b == b'(')?;
        who = who.get(..open)?.trim_ascii_end();
    }
    let dash = who.iter().rposition(|b| *b == b'-')?;
    let tid = number(who.get(dash + 1..)?)?;
    let comm = who.get(..dash)?;
    let (flags, stamp, rest) = stamp(rest)?;
    let end = rest.iter().position(|b| *b == b':')?;
    let event = std::str::from_utf8(rest.get(..end)?.trim_ascii()).ok()?;
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if event.is_empty() || !event.bytes().all(is_name) {
        return None;
    }
    let text = rest.get(end + 1..)?.trim_ascii_start();
    Some(Line::Event { comm, tid, cpu, flags, stamp, event, text })
}

/// Where `[000]` stands, its number, and what follows. A task's name may have brackets of its own,
/// but hardly these.
fn cpu(line: &[u8]) -> Option<(usize, u32, &[u8])> {
    let mut from = 0;
    while let Some(open) = line.get(from..)?.iter().position(|b| *b == b'[') {
        let open = from + open;
        let rest = line.get(open + 1..)?;
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits >= 3
            && rest.get(digits) == Some(&b']')
            && let Some(cpu) = number(rest.get(..digits)?)
        {
            return Some((open, cpu, rest.get(digits + 1..)?));
        }
        from = open + 1;
    }
    None
}

/// The first word that is a stamp and a colon, with the flags before it if there are any.
fn stamp(rest: &[u8]) -> Option<(Option<u8>, Stamp, &[u8])> {
    let (mut from, mut flags) = (0, None);
    for _ in 0..3 {
        let begin = from + rest.get(from..)?.iter().position(|b| *b != b' ')?;
        let word = rest.get(begin..)?;
        let length = word.iter().position(|b| *b == b' ').unwrap_or(word.len());
        if let Some(text) = word.get(..length)?.strip_suffix(b":")
            && let Some(stamp) = read_stamp(text)
        {
            return Some((flags, stamp, rest.get(begin + length..)?));
        }
        flags = flags.or_else(|| read_flags(word.get(..length)?));
        from = begin + length;
    }
    None
}

/// `d.h1.`: the third letter tells of interrupts (`trace_print_lat_fmt`, kernel/trace/trace_output.c).
fn read_flags(word: &[u8]) -> Option<u8> {
    let (hardirq, softirq, nmi) = (0x08, 0x10, 0x40);
    Some(match word.get(2)? {
        b'Z' => nmi | hardirq,
        b'z' => nmi,
        b'H' => hardirq | softirq,
        b'h' => hardirq,
        b's' => softirq,
        b'.' => 0,
        _ => return None,
    })
}

fn read_stamp(text: &[u8]) -> Option<Stamp> {
    let text = std::str::from_utf8(text).ok()?;
    let Some((seconds, fraction)) = text.split_once('.') else {
        return text.parse().ok().map(Stamp::Ticks);
    };
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let unit = 10u64.checked_pow(9 - u32::try_from(fraction.len()).ok()?)?;
    let below = fraction.parse::<u64>().ok()?.checked_mul(unit)?;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(below)?;
    Some(Stamp::Ns(ns))
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_anything_in_them() {
        let line = b" odd [12] name-x-77 (     77) [003] .....     5.000123: print: [004] 7: x";
        let Some(Line::Event { comm, tid, cpu, flags, stamp, event, text }) = Line::parse(line)
        else {
            panic!("no event")
        };
        assert_eq!((comm, tid, cpu), (&b"odd [12] name-x"[..], 77, 3));
        assert_eq!(flags, Some(0));
        assert_eq!((stamp, event, text), (Stamp::Ns(5_000_123_000), "print", &b"[004] 7: x"[..]));
    }

    #[test]
    fn flags_tell_of_interrupts() {
        let flags =
            |flags: &str| match Line::parse(format!("a-1 [000] {flags} 1.5: x: y").as_bytes()) {
                Some(Line::Event { flags, .. }) => flags,
                other => panic!("{other:?}"),
            };
        let cases = [("d.h1.", 0x08), ("dNs2.", 0x10), ("d.H2.", 0x18), ("d.Z3.", 0x48)];
        for (text, told) in cases {
            assert_eq!(flags(text), Some(told), "{text}");
        }
        assert_eq!(flags("....1"), Some(0));
        // Without the option `irq-info` there are none.
        assert_eq!(flags(""), None);
    }

    #[test]
    fn no_text_panics() {
        let whole = b"a-1 [000] d..2. 123: x: y";
        for end in 0..whole.len() {
            let _line = Line::parse(&whole[..end]);
        }
        for broken in [
            "[000]",
            "-[000]:",
            "a-1 [000] 1.2.3: x:",
            "CPU: [LOST EVENTS]",
            "a-1 [99999999999] x 1: y:",
        ] {
            assert_eq!(Line::parse(broken.as_bytes()), None, "{broken}");
        }
    }
}
