//! `docs/reference/studies/paths.md`, made from `docs/reference/studies/paths/stages.csv`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::plan::{PLATFORMS, Platform, STAGES};
use crate::csv::Table;
use crate::page::{replaced, table};

/// What people wrote, for a folder that has no page yet.
const PAGE: &str = include_str!("../../../docs/reference/studies/paths.md");

/// Functions with which the network stack hands a packet to a device, of any kind: what is inside of them is the device's.
const DEVICE: &str = "dev_hard_start_xmit";

/// Beginnings of the functions with which the kernel enters an interrupt on x86: what is around them is interrupted.
const ENTRIES: [&str; 4] = ["exc_", "asm_", "sysvec_", "common_interrupt"];

/// The folder of the CSV file and of the flame graphs, in the folder of all studies.
pub fn folder(studies: &Path) -> PathBuf {
    studies.join("paths")
}

/// The page, in the folder of all studies.
pub fn path(studies: &Path) -> PathBuf {
    studies.join("paths.md")
}

/// Writes the page anew. A folder without one gets that of this source.
///
/// # Errors
/// If the CSV file is not there or incomplete, or the page lacks a part.
pub fn write(studies: &Path) -> Result<()> {
    let page = path(studies);
    if !page.exists() {
        fs::write(&page, PAGE).with_context(|| page.display().to_string())?;
    }
    let text = text(studies)?;
    fs::write(&page, text).with_context(|| page.display().to_string())
}

/// What the page should be.
///
/// # Errors
/// As [`write`].
pub fn text(studies: &Path) -> Result<String> {
    let (page, file) = (path(studies), folder(studies).join("stages.csv"));
    let read = |file: &Path| fs::read_to_string(file).with_context(|| file.display().to_string());
    let lines = lines(&Table::parse(&read(&file)?)?)?;
    let mut text = read(&page)?;
    for (part, computed) in [
        ("platforms", platforms(&lines)),
        ("statements", statements(&lines)),
        ("stacks", stacks(&lines)),
    ] {
        text = replaced(&text, part, &computed).with_context(|| page.display().to_string())?;
    }
    Ok(text)
}

/// A line of `stages.csv`.
#[derive(Clone, Debug)]
struct Line {
    platform: String,
    stage: String,
    machine: String,
    thread: String,
    events: u64,
    found: u64,
    same: u64,
    /// The innermost first.
    stack: Vec<String>,
}

fn lines(table: &Table) -> Result<Vec<Line>> {
    let line = |row: crate::csv::Row<'_>| {
        let text = |column| row.text(column).map(str::to_owned);
        Ok(Line {
            platform: text("platform")?,
            stage: text("stage")?,
            machine: text("machine")?,
            thread: text("thread")?,
            events: row.number("events")?,
            found: row.number("found")?,
            same: row.number("same")?,
            stack: row.text("stack")?.split(' ').map(str::to_owned).collect(),
        })
    };
    table.rows().map(line).collect()
}

fn of<'l>(lines: &'l [Line], platform: &str, stage: &str) -> Option<&'l Line> {
    lines.iter().find(|line| line.platform == platform && line.stage == stage)
}

/// The stages of a platform of which stacks are known, in order.
fn known<'l>(lines: &'l [Line], platform: &str) -> Vec<&'l Line> {
    STAGES.iter().filter_map(|stage| of(lines, platform, stage.name)).collect()
}

/// The frames that are on the packet's way: in an interrupt, not those of the thread that it interrupts.
fn on_the_way(line: &Line) -> &[String] {
    let enters = |function: &String| ENTRIES.iter().any(|entry| function.starts_with(entry));
    let entry = line.stack.iter().position(enters);
    entry.map_or(&line.stack, |entry| &line.stack[..=entry])
}

/// How many frames are on the way: of each stage those that are not around an earlier stage too.
fn frames(lines: &[Line], platform: &str) -> usize {
    let known = known(lines, platform);
    let new = |(at, line): (usize, &&Line)| {
        let shared = |earlier: &&Line| {
            let pairs = on_the_way(line).iter().rev().zip(on_the_way(earlier).iter().rev());
            pairs.take_while(|(one, other)| one == other).count()
        };
        let in_thread = known[..at]
            .iter()
            .filter(|earlier| (&earlier.machine, &earlier.thread) == (&line.machine, &line.thread));
        on_the_way(line).len() - in_thread.map(shared).max().unwrap_or(0)
    };
    known.iter().enumerate().map(new).sum()
}

/// One column per stage.
fn platforms(lines: &[Line]) -> String {
    let mut header = vec!["platform".to_owned(), "packets".to_owned()];
    header.extend(STAGES.iter().map(|stage| format!("`{}`", stage.name)));
    header.extend(["frames".to_owned(), "threads".to_owned()]);
    let row = |platform: &Platform| {
        let known = known(lines, platform.name);
        let packets = known.iter().map(|line| line.events).max().unwrap_or(0);
        let mut threads: Vec<String> = Vec::new();
        for line in known {
            let thread = format!("{} ({})", line.thread, line.machine);
            if !threads.contains(&thread) {
                threads.push(thread);
            }
        }
        let mut cells = vec![platform.title.to_owned(), packets.to_string()];
        cells.extend(STAGES.iter().map(|stage| {
            let line = of(lines, platform.name, stage.name);
            line.map_or("–".to_owned(), |line| on_the_way(line).len().to_string())
        }));
        cells.extend([frames(lines, platform.name).to_string(), threads.join(", ")]);
        cells
    };
    table("lrrrrrrl", &header, &PLATFORMS.iter().map(row).collect::<Vec<_>>())
}

/// The functions from the system call to the device: what is inside of the device is another matter.
fn to_device(line: &Line) -> &[String] {
    let device = line.stack.iter().position(|function| function == DEVICE);
    &line.stack[device.unwrap_or(0)..]
}

fn yes(is_so: bool) -> String {
    if is_so { "yes".to_owned() } else { "**no**".to_owned() }
}

/// Gregg's statements, and what is found of each.
fn statements(lines: &[Line]) -> String {
    let same = |one: &str, other: &str| {
        let [one, other] = [one, other].map(|platform| of(lines, platform, "send"));
        one.zip(other).is_some_and(|(one, other)| to_device(one) == to_device(other))
    };
    let frames = |platform: &str| frames(lines, platform);
    let is_as_short = known(lines, "native").len() == known(lines, "container").len();
    let rows = [
        [
            "A zone's process and one of the host transmit with the same stack, up to the device."
                .to_owned(),
            yes(same("native", "container")),
            "A container's process and one of the host: `send`".to_owned(),
        ],
        [
            "Zones add nothing to the path.".to_owned(),
            yes(is_as_short),
            format!(
                "{} frames, and {} in the container: its packets go through a pair of veth devices, and its host receives \
                 and forwards each",
                frames("native"),
                frames("container"),
            ),
        ],
        [
            "The transmit stack of a Xen guest is that of a KVM guest.".to_owned(),
            yes(same("kvm-vhost", "xen") && same("kvm-qemu", "xen")),
            "`send`, up to the device".to_owned(),
        ],
        [
            "With KVM, the packet passes two network stacks.".to_owned(),
            yes(["send", "host_receive"]
                .iter()
                .all(|stage| of(lines, "kvm-vhost", stage).is_some())),
            format!(
                "{} frames with QEMU, {} with vhost-net, {} with Xen",
                frames("kvm-qemu"),
                frames("kvm-vhost"),
                frames("xen")
            ),
        ],
    ];
    let header = ["statement of 2013", "here", "compared"].map(str::to_owned);
    table("lll", &header, &rows.map(|row| row.to_vec()))
}

/// The most frequent stack of each stage.
fn stacks(lines: &[Line]) -> String {
    let mut text = String::new();
    for platform in PLATFORMS {
        let _ = write!(text, "\n### {}\n\n```\n", platform.title);
        for stage in STAGES {
            let Some(line) = of(lines, platform.name, stage.name) else { continue };
            let _ = writeln!(
                text,
                "{}: {}\n  in {}, thread {}; {} of {} packets, {} of them alike",
                stage.name,
                stage.title,
                line.machine,
                line.thread,
                line.found,
                line.events,
                line.same
            );
            for function in &line.stack {
                let _ = writeln!(text, "    {function}");
            }
        }
        text += "```\n";
    }
    text
}
