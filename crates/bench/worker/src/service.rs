//! The worker proper: one job after another.

use super::{
    WorkerError,
    events::{Event, Events},
    facts, family,
    hashes::Hashes,
    job,
    own::Own,
};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use std::{
    fs,
    io::{self, BufRead, Write},
    path::Path,
};
use transect_bench_core::protocol::{FromWorker, Job, ToWorker};

/// Why the worker ends.
#[derive(Debug)]
pub(crate) enum Quit {
    /// It was told to, or nobody is there any more.
    Orderly,
    /// It cannot go on.
    Error(WorkerError),
}

/// Has the file system put each folder that is made in this one somewhere else, where it can.
///
/// With a journal ext4 does not use an inode again for minutes after its file was removed, and looks at each of those
/// first (Linux, fs/ext4/ialloc.c `recently_deleted`, 60 s and 300 s more while it is not written). Every run makes a folder
/// for its files and removes it: the next one's, right beside it, took up to ten times as long to make as many
/// files. What `chattr +T` does (`FS_TOPDIR_FL`) puts it elsewhere: mostly, as groups come round again where runs follow
/// each other fast (docs/reference/studies/published-files.md).
fn spread_folders(folder: &Path) {
    let spread = || {
        let folder = fs::File::open(folder)?;
        let flags = ioctl_getflags(&folder)?;
        Ok::<_, io::Error>(ioctl_setflags(&folder, flags | IFlags::TOPDIR)?)
    };
    // Other file systems have no such groups, or no such flag.
    let _ = spread();
}

/// The worker.
pub(crate) struct Service<W> {
    pub(crate) own: Own,
    pub(crate) events: Events,
    pub(crate) hashes: Hashes,
    /// Jobs so far.
    pub(crate) jobs: u64,
    output: W,
}

impl<W: Write> Service<W> {
    /// Gets ready and says hello.
    pub(crate) fn start(
        input: impl BufRead + Send + 'static,
        output: W,
        own: &Own,
    ) -> Result<Self, WorkerError> {
        family::adopt()?;
        let events = Events::of(input)?;
        fs::create_dir_all(own.folder.join("keep"))
            .map_err(|error| WorkerError::Folder { folder: own.folder.clone(), error })?;
        spread_folders(&own.folder);
        let mut hashes = Hashes::default();
        let hello = FromWorker::Hello(Box::new(facts::look(own, &mut hashes)?));
        let mut service = Self { own: own.clone(), events, hashes, jobs: 0, output };
        match service.say(&hello) {
            // Nobody is there: the input says the same.
            Ok(()) | Err(Quit::Orderly) => Ok(service),
            Err(Quit::Error(error)) => Err(error),
        }
    }

    /// Until the end.
    pub(crate) fn serve(mut self) -> Result<(), WorkerError> {
        loop {
            let Some(event) = self.events.next(None) else { continue };
            let done = match self.idle(event) {
                Ok(Some(job)) => self.job(job),
                other => other.map(|_| ()),
            };
            match done {
                Ok(()) => {}
                Err(Quit::Orderly) => return Ok(()),
                Err(Quit::Error(error)) => return Err(error),
            }
        }
    }

    fn idle(&self, event: Event) -> Result<Option<Job>, Quit> {
        let out_of_turn = |message| WorkerError::OutOfTurn { message, when: "without a job" };
        match event {
            Event::Said(ToWorker::Prepare(job)) => Ok(Some(*job)),
            // The job has just failed, or ended, by itself; its answer is on the way.
            Event::Said(ToWorker::Go | ToWorker::Cancel) if self.jobs > 0 => Ok(None),
            Event::Said(ToWorker::Go) => Err(Quit::Error(out_of_turn("Go"))),
            Event::Said(ToWorker::Cancel) => Err(Quit::Error(out_of_turn("Cancel"))),
            Event::Said(ToWorker::End) | Event::Closed | Event::Signal => Err(Quit::Orderly),
            Event::Garbage(error) => Err(Quit::Error(error)),
            Event::One(..) | Event::OneGone(_) => Ok(None),
        }
    }

    /// One job, and its answer.
    fn job(&mut self, job: Job) -> Result<(), Quit> {
        self.jobs += 1;
        let ended = job::attempt(self, job);
        // Whoever is left belonged to it.
        family::sweep();
        match ended {
            Ok(result) => self.say(&FromWorker::Done(Box::new(result))),
            Err(job::Stop::Fault(fault)) => self.say(&FromWorker::Faulted(fault)),
            Err(job::Stop::Quit(quit)) => Err(quit),
        }
    }

    /// Says something to the procedure.
    pub(crate) fn say(&mut self, what: &FromWorker) -> Result<(), Quit> {
        let failed = |error| Quit::Error(WorkerError::System { what: "answer".into(), error });
        let line = serde_json::to_string(what).map_err(|error| failed(error.into()))?;
        let written = self
            .output
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| self.output.flush());
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Quit::Orderly),
            other => other.map_err(failed),
        }
    }
}
