//! A damaged history as clients see it.

use super::{Running, wait_for};
use arrow::ipc::reader::StreamReader;
use serde_json::json;
use std::path::{Path, PathBuf};
use transect_history::synthetic::START_UNIX_NS;

const S: u64 = 1_000_000_000;

fn windows_file(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(data.join("history")).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_string_lossy().contains("/w-")).unwrap()
}

/// Flips a bit in the content of the second frame. Gives its time.
fn damage(path: &Path) -> (u64, u64) {
    let mut bytes = std::fs::read(path).unwrap();
    let names: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"transect")).collect();
    let note = names[1] - 8;
    bytes[note + 60 + 20] ^= 1;
    std::fs::write(path, &bytes).unwrap();
    let u64_at =
        |at: usize| u64::from_le_bytes(bytes[note + at..note + at + 8].try_into().unwrap());
    (u64_at(28), u64_at(36))
}

#[test]
fn damaged_windows_are_left_out_and_every_place_states_them() {
    let running = Running::start(|_| {});
    let status = || running.get("/api/v1/status").json()["history"].clone();
    wait_for("windows on disk", || status()["windows_written"].as_u64() > Some(20));
    let until = START_UNIX_NS + 20 * S;
    let path = format!("/api/v1/history?from={START_UNIX_NS}&until={until}&step=1s&tables=windows");
    let whole = running.get(&path);
    assert_eq!(whole.header("transect-windows-gone"), None);
    let whole = whole.json();
    assert!(whole.get("gone").is_none());
    assert_eq!(status()["windows_gone"], 0);
    let (from, to) = damage(&windows_file(running.data.path()));
    let count = (to - from) / S;
    assert!(count > 0 && to < until);
    for _ in 0..2 {
        let answer = running.get(&path);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("transect-windows-gone"), Some(&*count.to_string()));
        let answer = answer.json();
        let gone = json!([{ "from_unix_ns": from, "until_unix_ns": to, "windows": count }]);
        assert_eq!(answer["gone"], gone);
        // All others are as they were.
        let is_whole = |window: &&serde_json::Value| {
            let end = window["ended_unix_ns"].as_u64().unwrap();
            end <= from || end > to
        };
        let all = whole["windows"].as_array().unwrap();
        let expected: Vec<_> = all.iter().filter(is_whole).collect();
        assert_eq!(expected.len() as u64, 20 - count);
        assert_eq!(answer["windows"].as_array().unwrap().iter().collect::<Vec<_>>(), expected);
    }
    assert_eq!(
        running.ask("HEAD", &path, &[], "").header("transect-windows-gone").unwrap(),
        count.to_string()
    );
    let accept = [("Accept", "application/vnd.apache.arrow.stream")];
    let answer = running.ask("GET", &path, &accept, "");
    let reader = StreamReader::try_new(&answer.body[..], None).unwrap();
    let metadata = reader.schema().metadata.clone();
    assert_eq!(metadata["transect.gone_windows"], count.to_string());
    assert!(metadata["transect.gone"].contains(&from.to_string()), "{metadata:?}");
    assert!(reader.map(Result::unwrap).map(|batch| batch.num_rows()).sum::<usize>() > 0);
    assert_eq!((&status()["windows_gone"], &status()["state"]), (&json!(count), &json!("ok")));
    let metrics = String::from_utf8(running.get("/metrics").body).unwrap();
    let line = format!("transect_history_windows_gone {count}");
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
    let log = running.log.lock().unwrap();
    let lines: Vec<_> = log.iter().filter(|line| line.contains("windows are gone")).collect();
    assert_eq!(lines.len(), 1, "{log:?}");
    assert!(lines[0].contains("transect verify"), "{lines:?}");
}
