//! Names as frames of folded stacks.

use transect_model::escape;

/// Stands for the stack of a row without a sample at the event with which the stage begins.
pub(crate) const NO_STACK: &str = "[no stack]";
/// Stands for the frames in the kernel that the recorder had no room for.
pub(crate) const NOT_KEPT: &str = "[stack not kept]";
/// Marks a frame in the kernel, as flamegraph.pl and other tools expect it.
pub(crate) const KERNEL: &str = "_[k]";
/// Separates the frames of a folded stack.
pub(crate) const SEPARATOR: char = ';';

/// The name as a frame. Names come from guests: control characters are shown as escapes, and a semicolon would be read
/// as the end of the frame.
pub(crate) fn frame_from_name(name: &str) -> String {
    let shown = escape::terminal(name.trim()).replace(SEPARATOR, ":");
    if shown.is_empty() { "?".to_owned() } else { shown }
}

/// The frames of a folded stack without the mark of the kernel, the innermost first.
pub(crate) fn innermost_first(stack: &str) -> impl Iterator<Item = &str> {
    stack.rsplit(SEPARATOR).map(|frame| frame.strip_suffix(KERNEL).unwrap_or(frame))
}
