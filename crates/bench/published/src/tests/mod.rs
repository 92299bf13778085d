//! The numbers are all there, every row has its entry, and the rule does what it says.

mod docs;
mod judged;
mod made;
mod numbers;
mod words;

/// Compares with a file of `testdata` or `docs`; with `UPDATE_GOLDEN=1` it is written anew.
fn golden(path: &str, found: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let path = path.display();
    assert!(found == expected, "{path} is out of date: run the test with UPDATE_GOLDEN=1");
}
