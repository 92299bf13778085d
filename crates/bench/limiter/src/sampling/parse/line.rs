//! Lines, numbers and columns of a text.

/// The text's lines; what is no UTF-8 is left out line by line.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

/// The numbers of a line; a word that is no number is 0, so that columns stay where they are.
pub(super) fn numbers(line: &str) -> Vec<u64> {
    line.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0)).collect()
}

/// The column, or 0 where the kernel has fewer.
pub(super) fn column(numbers: &[u64], index: usize) -> u64 {
    numbers.get(index).copied().unwrap_or(0)
}
