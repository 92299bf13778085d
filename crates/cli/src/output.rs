//! Where an export goes: standard output, or a file that appears only when it is whole.

use crate::terminal;
use anyhow::{Context as _, ensure};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use transect_model::guard::{Guard, Syntax};

/// An output under way. Dropped unfinished, it leaves no file behind.
pub(crate) enum Output {
    Stdout(BufWriter<Guard<Stdout>>),
    File { out: BufWriter<Guard<File>>, target: PathBuf, part: Part },
}

/// The file's temporary name; removed if it is not renamed.
pub(crate) struct Part(Option<PathBuf>);

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // The error that brought us here is the one to tell.
            let _ = fs::remove_file(path);
        }
    }
}

impl Output {
    /// Starts writing lines of text to `path`, or to standard output for `-`. What is no plain file (a pipe, a
    /// device) is written directly.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Output::Stdout(BufWriter::new(terminal::data(Syntax::Json))));
        }
        let is_special = fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        let part = if is_special { path.to_owned() } else { part_of(path) };
        let file =
            File::create(&part).with_context(|| format!("cannot write {}", part.display()))?;
        // The device may be a terminal.
        let syntax = file.is_terminal().then_some(Syntax::Json);
        let file = Guard::new(file, syntax);
        let guard = Part((!is_special).then_some(part));
        Ok(Output::File { out: BufWriter::new(file), target: path.to_owned(), part: guard })
    }

    /// As [`Output::create`] for bytes that are no text, of which a terminal would obey some.
    pub(crate) fn binary(path: &Path) -> anyhow::Result<Self> {
        let is_terminal = match path.as_os_str().as_encoded_bytes() {
            b"-" => terminal::is_stdout_terminal(),
            _ => {
                fs::metadata(path).is_ok_and(|meta| meta.file_type().is_char_device())
                    && File::open(path).is_ok_and(|file| file.is_terminal())
            }
        };
        ensure!(
            !is_terminal,
            "the output is a terminal and this format is binary: write to a file (-o FILE) or to a pipe"
        );
        Self::create(path)
    }

    /// Everything is written: the file gets its name.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        match self {
            Output::Stdout(mut out) => Ok(out.flush()?),
            Output::File { mut out, target, mut part } => {
                out.flush().with_context(|| format!("cannot write {}", target.display()))?;
                if let Some(path) = &part.0 {
                    fs::rename(path, &target)
                        .with_context(|| format!("cannot name {}", target.display()))?;
                }
                part.0 = None;
                Ok(())
            }
        }
    }
}

fn part_of(path: &Path) -> PathBuf {
    let mut part = path.to_owned();
    part.as_mut_os_string().push(".part");
    part
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Stdout(out) => out.write(bytes),
            Output::File { out, .. } => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Stdout(out) => out.flush(),
            Output::File { out, .. } => out.flush(),
        }
    }
}
