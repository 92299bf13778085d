//! What libbpf and the verifier say while loading, kept for the error message.

use std::sync::{Mutex, Once, PoisonError};

/// Lines kept: the verifier's verdict is among the last.
const LINES: usize = 24;
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
static HOOK: Once = Once::new();

/// From here on libbpf's words are kept instead of printed.
pub(crate) fn listen() {
    HOOK.call_once(|| {
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, |_, text| {
            let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
            said.extend(text.lines().map(str::to_owned));
            let extra = said.len().saturating_sub(LINES);
            said.drain(..extra);
        })));
    });
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// What has been said since, each line on its own.
pub(crate) fn lines() -> String {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.iter().flat_map(|line| ["\n  ", line]).collect()
}

/// The verifier's verdict, or libbpf's last word: one line.
pub(crate) fn verdict() -> Option<String> {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let end = said.iter().position(|line| line.starts_with("processed "));
    let verdict = end.and_then(|end| said.get(end.checked_sub(1)?)).or_else(|| said.first())?;
    Some(verdict.trim_start_matches("libbpf: ").trim().to_owned())
}
