//! Control groups by their paths.

/// The control groups above a path, from the top, and it: `/a`, `/a/b`. The root is none of them.
pub(crate) fn groups_of(path: &str) -> impl Iterator<Item = &str> {
    let below_root = (path.len() > 1).then_some(path).into_iter();
    below_root.flat_map(|path| {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        ends.map(move |end| &path[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::groups_of;

    #[test]
    fn groups_from_the_top() {
        let of = |path| groups_of(path).collect::<Vec<_>>();
        assert_eq!(of("/a/b/c"), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(of("/a"), ["/a"]);
        assert!(of("/").is_empty() && of("").is_empty());
    }
}
