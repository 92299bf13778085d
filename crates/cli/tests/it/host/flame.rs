//! Stacks of packets between this host and a network of its own, as a container has.

use super::packets::recorded;
use crate::view_support::Served;
use serde_json::{Value, json};
use std::fs;

const QUESTIONS: usize = 100;

#[test]
fn stages_of_a_containers_packets_have_the_stacks_of_their_code() {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    if symbols.lines().all(|line| line.starts_with("0000000000000000 ")) {
        return println!("skipped: the kernel hides its addresses");
    }
    let recorded = recorded(&["record", "--stacks", "-o", "r"], QUESTIONS);
    let Some((server, scratch)) = recorded else { return };
    let text = |args: &[&str]| {
        let output = scratch.run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let rows = text(&["export", "r", "--to", "jsonl", "-o", "-"]);
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of =
        |table: &str| -> Vec<&Value> { rows.iter().filter(|row| row["table"] == table).collect() };
    // Nothing of what the container sends and gets is without its stack.
    let ours = of("packets").into_iter().filter(|row| {
        let device = row["device"].as_str().unwrap_or_default();
        device.starts_with(&server.device) && row["bytes"] == 8 + 8 + 20 + 14
    });
    let ours: Vec<&Value> = ours.collect();
    assert_eq!(ours.len(), 2 * QUESTIONS);
    let samples = of("stack_samples");
    for (point, cut) in [("transmit", "send_ts"), ("receive", "receive_ts")] {
        let has_stack = |row: &&&Value| {
            let is_its = |sample: &&Value| {
                sample["point"] == point
                    && sample["stage_ts"] == row[cut]
                    && sample["kernel_stack_id"].is_u64()
            };
            samples.iter().any(is_its)
        };
        let with = ours.iter().filter(has_stack).count();
        println!("{with} of {} packets have the stack of {point}", ours.len());
        assert!(with * 100 >= ours.len() * 95, "{point}: {with}");
    }
    // Widths are times: all stacks of a stage together are all of its time.
    let folded = text(&["flame", "r", "--packets", "--stage", "send", "--folded"]);
    let ns = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap();
    let sum: i64 = folded.lines().map(ns).sum();
    let stages = of("packets").into_iter().filter_map(|row| {
        let next =
            ["kick_ts", "pickup_ts", "host_receive_ts", "host_send_ts", "fetch_ts", "receive_ts"];
        let next = next.iter().find_map(|cut| row[*cut].as_i64())?;
        Some(next - row["send_ts"].as_i64()?)
    });
    assert_eq!(sum, stages.sum::<i64>(), "{folded}");
    let sends: i64 = folded.lines().filter(|line| line.contains(";udp_sendmsg")).map(ns).sum();
    println!("{sends} of {sum} ns begin in udp_sendmsg");
    assert!(sends > 0, "{folded}");
    text(&["flame", "r", "-o", "flames.html"]);
    let page = fs::read_to_string(scratch.path("flames.html")).unwrap();
    assert!(page.contains("udp_sendmsg") && page.contains("class=\"graph\""), "no flame graph");
    // The timeline's page has the same of a range.
    let mut window = rows.iter().filter_map(|row| row["ts"].as_i64()).filter(|ts| *ts > 0);
    let from = window.next().unwrap();
    let (from, to) = window.fold((from, from), |(from, to), ts| (from.min(ts), to.max(ts)));
    let recording = scratch.path("r");
    let served = Served::start(&scratch.path("cache"), &[recording.to_str().unwrap()]);
    served.ready();
    let wish = json!({ "from": from.to_string(), "to": to.to_string(), "format": "flame" });
    let (status, head, body) = served.whole("POST", "/api/export", Some(&wish));
    assert!(status == 200 && head.contains("-stacks.html\""), "{head}");
    let page = String::from_utf8(body).unwrap();
    assert!(page.contains("udp_sendmsg") && page.contains("class=\"graph\""), "no flame graph");
    // For somebody who looks at what was printed.
    println!("{}", text(&["flame", "r", "--packets"]));
}
