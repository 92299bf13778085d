//! The page.

use crate::report::{assert_golden, sample};
use transect_bench_report::{Report, html::page};

/// The page without what is the same in all of them.
fn own(page: &str) -> String {
    let mut out = page.to_owned();
    for (from, to) in [("<style>", "</style>"), ("<script>", "</script>")] {
        let start = out.find(from).unwrap() + from.len();
        let end = start + out[start..].find(to).unwrap();
        out.replace_range(start..end, "…");
    }
    out
}

/// Parsed by a parser that forgives nothing.
pub(crate) fn assert_well_formed(page: &str) {
    if let Err(error) = roxmltree::Document::parse_with_options(
        page,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    ) {
        let line = page.lines().nth(error.pos().row as usize - 1).unwrap_or_default();
        panic!("{error}: {}", line.chars().take(2_000).collect::<String>());
    }
}

#[test]
fn pages_are_as_they_were_and_well_formed() {
    for (name, report) in [
        ("rich.html", sample::rich()),
        ("empty.html", Report::default()),
        ("one-block.html", sample::one_block()),
    ] {
        let page = page(&report).unwrap();
        assert_well_formed(&page);
        assert_golden(name, &own(&page));
    }
}

#[test]
fn the_page_is_an_archive() {
    let report = sample::rich();
    let page = page(&report).unwrap();
    let tag = "<script type=\"application/json\" id=\"report\">";
    let start = page.find(tag).unwrap() + tag.len();
    let end = start + page[start..].find("</script>").unwrap();
    let back: Report = serde_json::from_str(&page[start..end]).unwrap();
    assert_eq!(back, report);
}

#[test]
fn hostile_names_stay_text() {
    let page = page(&sample::rich()).unwrap();
    let document = roxmltree::Document::parse_with_options(
        &page,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    )
    .unwrap();
    for node in document.descendants() {
        let name = node.tag_name().name();
        assert!(!matches!(name, "img" | "iframe" | "object" | "link"), "{name}");
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on"), "{}", attribute.name());
        }
    }
    let scripts = document
        .descendants()
        .filter(|node| node.has_tag_name("script") || node.tag_name().name() == "script");
    assert_eq!(scripts.count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("<!--") && !page.contains('\u{202e}') && !page.contains('\u{1b}'));
}

#[test]
fn the_page_fetches_nothing() {
    let page = page(&sample::rich()).unwrap();
    for loader in ["src=\"", "@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(loader), "{loader}");
    }
    let links = page
        .split("http")
        .skip(1)
        .filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
    let links: Vec<&str> = links.map(|rest| &rest[..40]).collect();
    assert!(links.iter().all(|link| link.starts_with("://www.w3.org/1999/xhtml")), "{links:?}");
}

#[test]
fn large_results_stay_small_pages() {
    let report = sample::large();
    assert_eq!(report.cells.len(), 100);
    let points: usize = report.cells.iter().map(|cell| cell.points.len()).sum();
    assert!(points >= 4_000);
    let page = page(&report).unwrap();
    assert_well_formed(&page);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    let dots = page.matches("class=\"dot").count();
    assert_eq!(dots, points, "every point is drawn");
}

/// Writes the pages for a look at them: `BENCH_PAGES=/tmp/pages cargo test -p transect-bench-report --test it report`.
#[test]
fn pages_can_be_looked_at() {
    let Some(folder) = std::env::var_os("BENCH_PAGES").map(std::path::PathBuf::from) else {
        println!("skipped: BENCH_PAGES is not set");
        return;
    };
    for (name, report) in
        [("rich", sample::rich()), ("large", sample::large()), ("begun", sample::one_block())]
    {
        std::fs::write(folder.join(name).with_extension("html"), page(&report).unwrap()).unwrap();
    }
}
