//! The README is the format's description: its numbers, example and table come from the code.
//!
//! After a change: `TRANSECT_UPDATE=1 cargo test -p transect-xentrace --test it readme`, and review.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::{fmt::Write, fs, path::Path};
use transect_model::ids::CpuId;
use transect_xentrace::{Writer, XenEvent, XenVcpu, records, word};

/// Replaces what stands between `<!-- mark: … -->` and `<!-- end mark -->`.
fn with_section(text: &str, mark: &str, content: &str) -> String {
    let begin = text.find(&format!("<!-- {mark}")).unwrap_or_else(|| panic!("no {mark} mark"));
    let begin = begin + text[begin..].find("-->").unwrap() + "-->\n".len();
    let end = begin + text[begin..].find(&format!("<!-- end {mark} -->")).unwrap();
    format!("{}{content}{}", &text[..begin], &text[end..])
}

fn numbers() -> String {
    let rows = [
        ("LOST_RECORDS", word::LOST_RECORDS),
        ("WRAP_BUFFER", word::WRAP_BUFFER),
        ("CPU_CHANGE", word::CPU_CHANGE),
        ("CPU_CHANGE with its count of words", word::CPU_CHANGE_HEAD),
        ("cycle flag", word::CYCLE_FLAG),
        ("mask of the event", word::EVENT_MASK),
        ("addresses of 64 bits", word::FLAG_64),
        ("nested guest", word::NESTED_FLAG),
    ];
    let mut text = String::from("| constant | number |\n|---|---|\n");
    for (name, number) in rows {
        writeln!(text, "| {name} | `{number:08x}` |").unwrap();
    }
    writeln!(
        text,
        "\nMost words of a record: {}. Most pCPUs: {}.",
        word::MAX_EXTRA_WORDS,
        word::MAX_CPUS
    )
    .unwrap();
    text
}

fn example() -> String {
    let mut writer = Writer::new(Vec::new(), 4096);
    let vcpu = XenVcpu { dom: 3, vcpu: 1 };
    writer.event(CpuId(2), 0x18_414a_a5a2, &XenEvent::Wake { vcpu }).unwrap();
    writer.event(CpuId(2), 0, &XenEvent::Injection { vector: 0xf3 }).unwrap();
    let bytes = writer.finish().unwrap();
    let says = [
        "CPU_CHANGE, two words",
        "pCPU 2",
        "32 bytes of records follow",
        "sched_wake, stamped, two words",
        "stamp, low",
        "stamp, high",
        "domain 3",
        "vCPU 1",
        "hvm_inj_virq, no stamp, two words",
        "vector 0xf3",
        "not fake",
    ];
    assert_eq!(bytes.len(), says.len() * 4);
    let mut text = String::from("```\n");
    for (word, says) in bytes.chunks(4).zip(says) {
        let hex: Vec<String> = word.iter().map(|byte| format!("{byte:02x}")).collect();
        let value = u32::from_le_bytes(word.try_into().unwrap());
        writeln!(text, "{}   {value:08x}   {says}", hex.join(" ")).unwrap();
    }
    text.push_str("```\n");
    text
}

#[test]
fn readme_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let is = fs::read_to_string(&path).unwrap();
    let should = with_section(&is, "numbers", &numbers());
    let should = with_section(&should, "example", &example());
    let should = with_section(&should, "records", &records::markdown());
    if std::env::var_os("TRANSECT_UPDATE").is_some() {
        fs::write(&path, &should).unwrap();
    }
    assert!(
        is == should,
        "README.md is not what the code says; bless it and review the difference"
    );
}
