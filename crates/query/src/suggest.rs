//! "Did you mean …?"

/// The candidate most like `name`, if one is like it at all.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let name = name.to_lowercase();
    let allowed = (name.chars().count() / 3).max(1);
    let near = candidates.into_iter().map(|c| (distance(&name, &c.to_lowercase()), c));
    near.filter(|(distance, _)| *distance <= allowed).min_by_key(|(d, _)| *d).map(|(_, c)| c)
}

/// Letters to change, insert, leave out or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *to && b[j - 1] == *from {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_mistyped_and_nothing_else() {
        let tables = ["exits", "vcpu_states", "wakeups", "irqs"];
        assert_eq!(nearest("exit", tables), Some("exits"));
        assert_eq!(nearest("vcpu_state", tables), Some("vcpu_states"));
        assert_eq!(nearest("wakeusp", tables), Some("wakeups"));
        assert_eq!(nearest("EXITS", tables), Some("exits"));
        assert_eq!(nearest("elephants", tables), None);
    }
}
