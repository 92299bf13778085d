//! What `transect explain` says: why threads and vCPUs were slow, for people and for programs.
//!
//! ```text
//! rows ─▶ transect_explain (a path for each root) ─▶ Explained ─┬─▶ its words ─▶ text
//!                                                               └─▶ its lines ─▶ JSON
//! ```

mod json;
mod text;

pub use json::write as write_json;
pub(crate) use text::write_findings;
pub use text::{Shown, write as write_text};

use transect_model::time::TimeUnit;

/// The unit of all times, and how a recording is called.
#[derive(Clone, Debug)]
pub struct About {
    /// The recording.
    pub recording: String,
    /// Unit of its times.
    pub unit: TimeUnit,
    /// Where its time begins: moments are shown from here on.
    pub start: i64,
}

#[cfg(test)]
mod tests {
    use super::{About, Shown, write_json, write_text};
    use transect_explain::{Actor, Explained, Root, Rows, ThreadId, detect::Range};
    use transect_model::{
        ids::{CpuId, MachineId, Tid},
        state::ThreadState,
        table::{Tables, Thread, ThreadStateRow},
        time::{Span, TimeUnit, Timestamp},
    };

    #[test]
    fn docs_describe_every_column() {
        let docs = include_str!("../../../../docs/reference/explain.md");
        for list in transect_explain::lines::LISTS {
            for column in list.columns {
                let (list, column) = (list.name, column.name);
                assert!(
                    docs.contains(&format!("`{column}`")),
                    "explain.md lacks {column} of {list}"
                );
            }
        }
    }

    #[test]
    fn docs_describe_every_finding_and_state() {
        let docs = include_str!("../../../../docs/reference/explain.md");
        let findings = transect_explain::detect::Detector::ALL.map(|detector| detector.as_str());
        let states = transect_explain::Doing::ALL.map(|doing| doing.as_str());
        for word in findings.iter().chain(&states) {
            assert!(docs.contains(&format!("`{word}`")), "explain.md lacks {word}");
        }
    }

    /// Names come from guests: no line of theirs, and nothing that a terminal obeys.
    #[test]
    fn names_from_outside_are_escaped() {
        let name = "web\u{1b}[1A\r\nall is well\u{9b}2J\u{202e}\"";
        let (machine_id, tid) = (MachineId(0), Tid(7));
        let tables = Tables {
            threads: vec![Thread {
                machine_id,
                tid,
                pid: None,
                name: name.to_owned(),
                cgroup: Some(name.to_owned()),
                allowed_cpus: None,
                policy: None,
                nice: None,
                rt_priority: None,
            }],
            thread_states: vec![ThreadStateRow {
                ts: 0,
                dur: 2_000_000_000,
                machine_id,
                tid,
                cpu: Some(CpuId(0)),
                state: ThreadState::Runnable,
                effective: None,
                reason: None,
                waker_tid: None,
                waker_context: None,
            }],
            ..Tables::default()
        };
        let rows = Rows::new(&tables);
        let actor = Actor::Thread(ThreadId { machine: machine_id, tid });
        let window = Span { start: Timestamp::new(0), end: Timestamp::new(2_000_000_000) };
        let range = Range { from: 0, until: 2_000_000_000, second: Some(1_000_000_000) };
        let roots = vec![Root::explain(&rows, actor, window)];
        let explained = Explained::new(&rows, &tables, roots, range);
        let about = About { recording: name.to_owned(), unit: TimeUnit::Ns, start: 0 };
        let mut text = Vec::new();
        let shown = Shown { width: None, top: 10 };
        write_text(&rows, &about, &explained, shown, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("web\\x1b[1A\\r\\nall is well\\x9b2J"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text}");
        let mut json = Vec::new();
        write_json(&rows, &about, &explained, true, &mut json).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["recording"], name);
        assert!(json["roots"][0]["name"].as_str().unwrap().starts_with(name));
    }
}
