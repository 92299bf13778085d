//! The frames of stacks: notes that the writer adds when it ends.
//!
//! A note is a JSON text; one with the member `stacks` is of this module. A reader does not trust it: it may be a
//! guest's.

use crate::block::MAX_RAW_BYTES;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use transect_model::stack::{Frame, MAX_FRAMES, MAX_STACKS, Stacks};

/// Bytes of a symbol's or a module's name that are kept.
const MAX_NAME_BYTES: usize = 255;
/// Bytes of memory that the frames of one source take at most: some hundred thousand frames.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of a note that is being filled at which the next one begins: a stack more has room.
const FULL_BYTES: usize = MAX_RAW_BYTES / 4;

#[derive(Default, Serialize, Deserialize)]
struct Note {
    stacks: Part,
}

/// Some of the stacks; each part has the frames that its stacks name.
#[derive(Default, Serialize, Deserialize)]
struct Part {
    frames: Vec<Frame>,
    /// Number of a stack and places of its frames.
    of: Vec<(u32, Vec<u32>)>,
}

/// The notes that tell these stacks, each short enough for a block.
pub fn stack_notes(stacks: &Stacks) -> Vec<String> {
    let mut notes = Vec::new();
    let mut part = Part::default();
    let (mut places, mut bytes) = (HashMap::new(), 0);
    for (id, frames) in stacks {
        let mut of = Vec::with_capacity(frames.len());
        for frame in frames.iter().take(MAX_FRAMES) {
            let place = *places.entry(frame).or_insert_with(|| {
                let frame = shortened(frame);
                // Escaped, a byte may take six.
                bytes +=
                    6 * (frame.symbol.len() + frame.module.as_ref().map_or(0, String::len)) + 20;
                part.frames.push(frame);
                part.frames.len() - 1
            });
            of.push(u32::try_from(place).unwrap_or(u32::MAX));
        }
        bytes += 11 * (of.len() + 2);
        part.of.push((*id, of));
        if bytes >= FULL_BYTES {
            notes.extend(text(std::mem::take(&mut part)));
            places.clear();
            bytes = 0;
        }
    }
    if !part.of.is_empty() {
        notes.extend(text(part));
    }
    notes
}

fn text(part: Part) -> Option<String> {
    serde_json::to_string(&Note { stacks: part }).ok()
}

fn short(name: &str) -> String {
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

/// Reads the notes of one source.
#[derive(Debug)]
pub struct StackNotes {
    stacks: Stacks,
    /// Bytes of memory that further frames may take.
    room: usize,
}

impl Default for StackNotes {
    fn default() -> Self {
        StackNotes { stacks: Stacks::new(), room: MAX_BYTES }
    }
}

impl StackNotes {
    /// Adds the stacks of a note. What is no note of stacks, or of more than there may be, is left out: a stack
    /// without frames is unknown.
    pub fn read(&mut self, note: &str) {
        if !note.starts_with("{\"stacks\":") {
            return;
        }
        let Ok(Note { stacks: part }) = serde_json::from_str(note) else { return };
        for (id, places) in part.of {
            let frame = |place: &u32| part.frames.get(usize::try_from(*place).ok()?);
            let frames: Option<Vec<&Frame>> = places.iter().take(MAX_FRAMES).map(frame).collect();
            let Some(frames) = frames.filter(|frames| id < MAX_STACKS && !frames.is_empty()) else {
                continue;
            };
            let frames: Vec<Frame> = frames.into_iter().map(shortened).collect();
            let bytes = frames.iter().map(bytes_of).sum();
            let Some(room) = self.room.checked_sub(bytes) else { return };
            self.room = room;
            self.stacks.insert(id, frames);
        }
    }

    /// All stacks that were read.
    pub fn into_stacks(self) -> Stacks {
        self.stacks
    }
}

fn shortened(frame: &Frame) -> Frame {
    Frame { symbol: short(&frame.symbol), module: frame.module.as_deref().map(short) }
}

/// What a frame takes in memory, with the costs of its texts.
fn bytes_of(frame: &Frame) -> usize {
    size_of::<Frame>() + 32 + frame.symbol.len() + frame.module.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(symbol: &str, module: Option<&str>) -> Frame {
        Frame { symbol: symbol.to_owned(), module: module.map(str::to_owned) }
    }

    fn read(notes: &[String]) -> Stacks {
        let mut stacks = StackNotes::default();
        notes.iter().for_each(|note| stacks.read(note));
        stacks.into_stacks()
    }

    #[test]
    fn what_notes_tell_is_read_again() {
        let leaf = frame("net_dev_start_xmit", None);
        let stacks = Stacks::from([
            (3, vec![leaf.clone(), frame("start_xmit", Some("virtio_net"))]),
            (9, vec![leaf, frame("<\"\u{1}\u{e9}>", None)]),
        ]);
        let notes = stack_notes(&stacks);
        assert_eq!(notes.len(), 1);
        assert_eq!(read(&notes), stacks);
        assert_eq!(stack_notes(&Stacks::new()), [] as [String; 0]);
    }

    #[test]
    fn many_stacks_take_several_notes_that_fit_a_block() {
        let of = |id: u32| {
            (0..MAX_FRAMES)
                .map(move |at| frame(&format!("\u{1}{at}_{id}_{}", "x".repeat(240)), None))
        };
        let stacks: Stacks = (0..64).map(|id| (id, of(id).collect())).collect();
        let notes = stack_notes(&stacks);
        assert!(notes.len() > 1);
        assert!(
            notes.iter().all(|note| note.len() <= MAX_RAW_BYTES),
            "{:?}",
            notes.iter().map(String::len).max()
        );
        assert_eq!(read(&notes), stacks);
    }

    #[test]
    fn what_a_guest_makes_up_is_bounded() {
        let long = "\u{e9}".repeat(1000);
        let note = format!(
            r#"{{"stacks":{{"frames":[{{"symbol":"{long}"}}],"of":[[1,[0]],[2,[1]],[3,[]],[4294967295,[0]]]}}}}"#
        );
        let stacks = read(&[note, "{\"stacks\":7}".into(), "7".into(), String::new()]);
        assert_eq!(stacks.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(stacks[&1][0].symbol.len(), 254);
        let many = format!(
            r#"{{"stacks":{{"frames":[{{"symbol":"a"}}],"of":[[1,[{}0]]]}}}}"#,
            "0,".repeat(500)
        );
        assert_eq!(read(&[many])[&1].len(), MAX_FRAMES);
    }

    #[test]
    fn frames_named_again_and_again_do_not_take_all_memory() {
        let name = "n".repeat(MAX_NAME_BYTES);
        let places = vec![0; MAX_FRAMES];
        let all: Vec<(u32, &[u32])> = (0..MAX_STACKS).map(|id| (id, &places[..])).collect();
        let of = serde_json::to_string(&all).unwrap();
        let note = format!(r#"{{"stacks":{{"frames":[{{"symbol":"{name}"}}],"of":{of}}}}}"#);
        let stacks = read(&[note.clone(), note]);
        let bytes: usize = stacks.values().flatten().map(bytes_of).sum();
        assert!(stacks.len() > 1000 && bytes <= MAX_BYTES, "{} {bytes}", stacks.len());
    }
}
