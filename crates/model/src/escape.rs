//! Text from outside as text that a terminal, a page or a JSON reader cannot obey.
//!
//! Guests, processes and files choose names, and a name can hold anything: an escape sequence that moves the cursor, a
//! line end that forges the next line, a direction control that shows `exe.txt` as `txt.exe`. Each kind of output has
//! one function here, and every program uses it: [`one_line`] and [`terminal`] for terminals and logs, [`html`] for
//! pages. [`Guard`](crate::guard::Guard) does the same for a stream, [`Untrusted`](crate::untrusted::Untrusted) makes
//! the compiler ask for it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Must the character not reach a reader as it is? Controls (C0, DEL, C1), line and paragraph separators, direction
/// controls, and characters without a width, which make two different names look alike.
pub const fn is_unsafe(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}'..='\u{ffff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Appends a character, an unsafe one as an escape: `\n`, `\x1b`, `\u{202e}`.
pub fn push_char(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..='\u{9f}' if is_unsafe(c) => {
            push_formatted(out, format_args!("\\x{:02x}", u32::from(c)))
        }
        _ if is_unsafe(c) => push_formatted(out, format_args!("\\u{{{:x}}}", u32::from(c))),
        _ => out.push(c),
    }
}

fn push_formatted(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = out.write_fmt(text);
}

/// No character of the text needs an escape.
fn is_plain(text: &str) -> bool {
    // Most names are ASCII: a look at the bytes suffices.
    text.bytes().all(|byte| matches!(byte, b' '..=b'~')) || !text.chars().any(is_unsafe)
}

/// The text on one line, without a character that a terminal obeys. A backslash stays as it is, so that text which has
/// been escaped before does not change: this is the last wall in front of a terminal or log.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    text.chars().for_each(|c| push_char(&mut out, c));
    Cow::Owned(out)
}

/// Lines of a text with a layout of its own (an error in TOML with its caret) behind one another, each as by
/// [`one_line`] and all but the first indented: no line of it looks like one that the program began.
pub fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, line) in text.trim_end().split('\n').enumerate() {
        out.push_str(if at == 0 { "" } else { "\n    " });
        out.push_str(&one_line(line.trim_end()));
    }
    out
}

/// As [`one_line`], and two different texts never look the same: a backslash that would read as the begin of an escape
/// is doubled. Others stay, for systemd's control groups are named `a\x2db.slice`.
pub fn terminal(text: &str) -> Cow<'_, str> {
    if is_plain(text) && !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        push_char(&mut out, c);
        if c == '\\' && reads_as_escape(rest.as_str()) {
            out.push('\\');
        }
    }
    Cow::Owned(out)
}

/// Would a backslash in front of this text be taken for the begin of an escape?
fn reads_as_escape(rest: &str) -> bool {
    match rest.chars().next() {
        None => false,
        Some('x') => {
            let code = rest.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            code.is_some_and(|code| is_unsafe(char::from(code)))
        }
        Some('u') => rest.get(1..2) == Some("{"),
        Some(c) => matches!(c, '\\' | 'n' | 'r' | 't') || is_unsafe(c),
    }
}

/// The text for HTML, as content or inside a quoted attribute. Unsafe characters other than line ends and tabs are
/// shown as on a terminal: a browser obeys direction controls, too.
pub fn html(text: &str) -> Cow<'_, str> {
    let is_special = |c| matches!(c, '&' | '<' | '>' | '"' | '\'');
    if is_plain(text) && !text.contains(is_special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            _ => push_char(&mut out, c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Undoes [`terminal`].
    fn unescaped(text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let (read, bytes) = if c == '\\' { escape(rest) } else { (c, c.len_utf8()) };
            out.push(read);
            rest = &rest[bytes..];
        }
        out
    }

    /// The character that the text's first escape stands for, and the escape's length.
    fn escape(text: &str) -> (char, usize) {
        let code = |digits: &str| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        match text[1..].chars().next() {
            Some('\\') => ('\\', 2),
            Some('n') => ('\n', 2),
            Some('r') => ('\r', 2),
            Some('t') => ('\t', 2),
            Some('x') => match text.get(2..4).and_then(code) {
                Some(c) if is_unsafe(c) => (c, 4),
                _ => ('\\', 1),
            },
            Some('u') if text[2..].starts_with('{') => {
                let end = text.find('}').unwrap();
                (code(&text[3..end]).unwrap(), end + 1)
            }
            _ => ('\\', 1),
        }
    }

    /// Texts in which controls and begins of escapes are frequent.
    fn texts() -> impl Strategy<Value = String> {
        let one = prop_oneof![
            any::<char>(),
            prop::sample::select(vec![
                '\\',
                'x',
                'u',
                '{',
                '}',
                'n',
                't',
                'r',
                '0',
                '1',
                'b',
                '9',
                '2',
                'e',
                '\n',
                '\x1b',
                '\u{9b}',
                '\u{202e}',
                '\u{2028}',
                '\u{200b}',
                '\u{7f}',
                '\u{feff}',
                '\u{e0041}',
            ]),
        ];
        prop::collection::vec(one, 0..40).prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn terminal_text_is_one_safe_line_and_gives_back_the_original(text in texts()) {
            let shown = terminal(&text);
            prop_assert!(!shown.chars().any(is_unsafe), "{shown:?}");
            prop_assert_eq!(unescaped(&shown), text);
        }

        #[test]
        fn one_line_is_safe_and_does_not_change_what_has_been_escaped(text in texts()) {
            let once = one_line(&text).into_owned();
            prop_assert!(!once.chars().any(is_unsafe), "{once:?}");
            prop_assert_eq!(one_line(&once), once.as_str());
            let shown = terminal(&text).into_owned();
            prop_assert_eq!(one_line(&shown), shown.as_str());
        }

        #[test]
        fn html_has_no_markup_of_the_text(text in texts()) {
            let shown = html(&text);
            let has_markup = shown.contains(['<', '>', '"', '\'']);
            prop_assert!(!has_markup, "{}", shown);
            prop_assert!(!shown.chars().any(|c| is_unsafe(c) && !matches!(c, '\n' | '\t')));
        }
    }

    #[test]
    fn every_standard_control_and_format_character_is_unsafe() {
        let controls = (0..=0x9f_u32).filter_map(char::from_u32).filter(|c| c.is_control());
        let bidi = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        assert!(controls.chain(bidi.chars()).chain(['\u{2028}', '\u{2029}']).all(is_unsafe));
        assert!(!" ~éß中→…–µ\u{fffd}🦀".chars().any(is_unsafe));
    }

    #[test]
    fn escapes_are_short_and_backslashes_of_names_stay() {
        let shown = terminal("a\x1b[2J\n\t\u{9b}1m\u{202e}b\u{7f}");
        assert_eq!(shown, "a\\x1b[2J\\n\\t\\x9b1m\\u{202e}b\\x7f");
        assert_eq!(terminal("/system.slice/a\\x2db.service"), "/system.slice/a\\x2db.service");
        // An escape that the text itself spells is not taken for one.
        assert_eq!(terminal("a\\x1b[2J\\n"), "a\\\\x1b[2J\\\\n");
        assert!(matches!(terminal("vcpu 0/KVM é"), Cow::Borrowed(_)));
    }

    #[test]
    fn later_lines_are_indented() {
        let text = "bad TOML\n  |\n1 | a\x1b[2J\r\ntransect: forged\n";
        assert_eq!(indented(text), "bad TOML\n      |\n    1 | a\\x1b[2J\n    transect: forged");
    }

    #[test]
    fn html_is_escaped_in_text_and_attributes() {
        assert_eq!(
            html("<a href=\"x\" o='&'>\n\u{202e}\x1b"),
            "&lt;a href=&quot;x&quot; o=&#39;&amp;&#39;&gt;\n\\u{202e}\\x1b"
        );
    }
}
