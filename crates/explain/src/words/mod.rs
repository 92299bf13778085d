//! Explanations in words, unescaped: names come from outside, and the writer of each face escapes them.

pub mod findings;
pub mod names;
pub mod sentences;
