//! What is told to whoever waits while files are read and tables are made.

/// Is told what happens meanwhile; `()` wants to know nothing.
pub trait Watcher {
    /// A line for the user: damaged tables are made again.
    fn note(&self, line: &str) {
        let _ = line;
    }

    /// A line of the result: what was found in a file.
    fn say(&self, line: &str) {
        let _ = line;
    }

    /// Something begins that can take long: what is done (`making the recording's tables`), and in what it is counted
    /// (`rows`, `events`).
    fn begin(&self, doing: &'static str, what: &'static str) {
        let _ = (doing, what);
    }

    /// So many are done, and of how much in all, in a unit of its own: 0 where that is not known.
    fn at(&self, count: u64, done: (u64, u64)) {
        let _ = (count, done);
    }

    /// It is done.
    fn end(&self) {}
}

impl Watcher for () {}
