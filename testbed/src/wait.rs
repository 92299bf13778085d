//! Waiting for a text that a guest or job writes: `guest.wait_for("ready").within(60)?`.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Something whose text grows until it ends.
pub(crate) trait Watched {
    /// What it is called in errors.
    fn title(&self) -> String;
    /// All it has said so far.
    fn said(&self) -> Result<String>;
    /// Why it will say no more, once that is so.
    fn over(&self) -> Result<Option<String>>;
    /// An error about it, with the logs that explain it.
    fn failure(&self, message: &str) -> anyhow::Error;
    /// The same, of something that did not happen in time.
    fn too_late(&self, message: &str) -> anyhow::Error;
}

/// A wait being described; nothing happens before [`WaitFor::within`].
#[must_use = "a wait begins with .within(seconds)"]
pub struct WaitFor<'a> {
    watched: &'a dyn Watched,
    text: String,
    times: usize,
}

impl<'a> WaitFor<'a> {
    pub(crate) fn new(watched: &'a dyn Watched, text: &str) -> Self {
        Self { watched, text: text.to_owned(), times: 1 }
    }

    /// Waits until that many lines have the text (default 1).
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Waits at most `seconds`; gives the line. An error says what was seen instead.
    pub fn within(self, seconds: u64) -> Result<String> {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            // Asked first: what was said before the end still counts.
            let over = self.watched.over()?;
            let said = self.watched.said()?;
            if let Some(line) = self.matching(&said) {
                return Ok(line);
            }
            let (title, text) = (self.watched.title(), &self.text);
            if let Some(why) = over {
                return Err(self
                    .watched
                    .failure(&format!("{title} {why} before it said '{text}'")));
            }
            if Instant::now() >= deadline {
                return Err(self
                    .watched
                    .too_late(&format!("{title} did not say '{text}' within {seconds} s")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Only whole lines count: the last one may still grow.
    fn matching(&self, said: &str) -> Option<String> {
        let (whole, _) = said.rsplit_once('\n')?;
        let mut lines = whole.lines().filter(|line| line.contains(&self.text));
        lines.nth(self.times.checked_sub(1)?).map(str::to_owned)
    }
}

/// The last lines of a log, for an error message.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
