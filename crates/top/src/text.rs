//! Texts in columns of a terminal: how many they take, and what of them fits.

use ratatui::text::Span;
use transect_model::escape::one_line;

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// A text in so many columns: names keep their beginning, paths their end. A terminal obeys no character of it.
pub(crate) fn shortened(text: &str, room: usize, cut: char) -> String {
    let text = one_line(text);
    if width(&text) <= room {
        return text.into_owned();
    }
    let Some(room) = room.checked_sub(1) else { return String::new() };
    let mut kept = String::new();
    let mut used = 0;
    let is_path = text.starts_with('/');
    let mut chars: Vec<char> = text.chars().collect();
    if is_path {
        chars.reverse();
    }
    for c in chars {
        used += width(c.encode_utf8(&mut [0; 4]));
        if used > room {
            break;
        }
        kept.push(c);
    }
    match is_path {
        true => std::iter::once(cut).chain(kept.chars().rev()).collect(),
        false => format!("{kept}{cut}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_beginning_and_paths_their_end() {
        assert_eq!(shortened("a-long-name", 6, '~'), "a-lon~");
        assert_eq!(shortened("/system.slice/web.service", 8, '~'), "~service");
        assert_eq!(shortened("short", 5, '~'), "short");
        assert_eq!(shortened("x", 0, '~'), "");
        assert_eq!(shortened("a\u{1b}[2J\n\u{202e}", 20, '~'), "a\\x1b[2J\\n\\u{202e}");
        assert_eq!(shortened("a\u{1b}[2J", 6, '~'), "a\\x1b~");
        assert_eq!(shortened("日本語です", 5, '~'), "日本~");
    }
}
