//! Folded lines, the input of other tools: `group;stage;frame;frame… ns`.

use crate::flames::Flames;
use std::io::{self, Write};

/// Writes one line for each stack of each stage. With several recordings, the first frame is the recording's name.
///
/// # Errors
/// The writer's.
pub fn write_folded(recordings: &[(String, Flames)], out: &mut dyn Write) -> io::Result<()> {
    for (recording, flames) in recordings {
        let recording = match recordings.len() {
            1 => String::new(),
            _ => format!("{};", crate::frame::frame_from_name(recording)),
        };
        for group in &flames.groups {
            for stage in &group.stages {
                let (title, name) = (group.title(), &stage.name);
                for stack in stage.stacks.iter().flat_map(|stacks| &stacks.folded) {
                    writeln!(out, "{recording}{title};{name};{} {}", stack.frames, stack.ns)?;
                }
            }
        }
    }
    Ok(())
}
