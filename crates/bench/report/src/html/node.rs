//! Elements: what is built with them is well-formed and escaped, whatever the data is called.
//!
//! The page is HTML that is XML too, so that a test can have it parsed by a parser that forgives nothing.

use std::fmt::{Display, Write};
use transect_model::escape::html;

/// An element under construction.
pub(super) struct Element {
    name: &'static str,
    classes: String,
    attributes: String,
    body: String,
}

/// Elements that have no body in HTML, and shapes of SVG, which seldom have one.
const CLOSED: [&str; 8] = ["meta", "input", "br", "path", "circle", "line", "rect", "use"];

/// A new element.
pub(super) const fn el(name: &'static str) -> Element {
    Element { name, classes: String::new(), attributes: String::new(), body: String::new() }
}

impl Element {
    /// Adds an attribute.
    pub(super) fn attr(mut self, name: &str, value: impl Display) -> Self {
        let value = escaped(&value.to_string());
        let _ = write!(self.attributes, " {name}=\"{value}\"");
        self
    }

    /// Adds a class, or several that are separated by blanks.
    pub(super) fn class(mut self, name: &str) -> Self {
        if !self.classes.is_empty() {
            self.classes.push(' ');
        }
        self.classes.push_str(&escaped(name));
        self
    }

    /// Adds text.
    pub(super) fn text(mut self, text: impl AsRef<str>) -> Self {
        self.body.push_str(&escaped(text.as_ref()));
        self
    }

    /// Adds an element.
    pub(super) fn child(mut self, child: Self) -> Self {
        child.render_into(&mut self.body);
        self
    }

    /// Adds elements.
    pub(super) fn children(self, children: impl IntoIterator<Item = Self>) -> Self {
        children.into_iter().fold(self, Self::child)
    }

    /// Adds what is well-formed and escaped already: style sheet, script, JSON.
    pub(super) fn trusted(mut self, text: &str) -> Self {
        self.body.push_str(text);
        self
    }

    /// The element as text.
    pub(super) fn render(self) -> String {
        let mut out = String::new();
        self.render_into(&mut out);
        out
    }

    fn render_into(self, out: &mut String) {
        let Self { name, classes, attributes, body } = self;
        let class =
            if classes.is_empty() { String::new() } else { format!(" class=\"{classes}\"") };
        let _ = if body.is_empty() && CLOSED.contains(&name) {
            write!(out, "<{name}{class}{attributes}/>")
        } else {
            write!(out, "<{name}{class}{attributes}>{body}</{name}>")
        };
        if BLOCKS.contains(&name) {
            out.push('\n');
        }
    }
}

/// A line's end behind these makes the page readable as text, and its golden copy comparable by lines.
const BLOCKS: [&str; 14] = [
    "head", "meta", "title", "style", "script", "section", "nav", "h2", "h3", "p", "tr", "figure",
    "details", "main",
];

/// Text for bodies and attributes, with the line ends of any system.
fn escaped(text: &str) -> String {
    html(&text.replace("\r\n", "\n")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_data_says_it_stays_text() {
        let hostile = "</td><script>alert('x')</script>\" onload=\"y\u{0}\u{202e}&amp;";
        let found = el("td").attr("title", hostile).text(hostile).render();
        assert_eq!(found.matches('<').count(), 2, "{found}");
        assert_eq!(found.matches('"').count(), 2, "{found}");
        assert!(found.contains("\\x00\\u{202e}&amp;amp;"), "{found}");
    }

    #[test]
    fn elements_without_a_body_are_closed_as_html_wants_it() {
        assert_eq!(el("td").render(), "<td></td>");
        assert_eq!(el("path").attr("d", "M0 0").render(), "<path d=\"M0 0\"/>");
        assert_eq!(
            el("circle").child(el("title").text("x")).render(),
            "<circle><title>x</title>\n</circle>"
        );
    }
}
