//! Snapshots: recordings of the last seconds, kept in a bounded number.
//!
//! One thread takes them, one after the other; who asks waits for it. Each is a directory
//! `snapshots/ID.transect`, with its description `snapshots/ID.json` beside it, which is written last (`descriptions.rs`).

use super::descriptions::{REMOVED, Snap, Survey, survey, text_of};
use chrono::{DateTime, Local, Offset as _, TimeZone, Utc};
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Requests that may wait for their turn.
const QUEUED: usize = 4;
/// How long somebody waits for a snapshot.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the flight recorder is asked how far it reaches back.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Takes recordings of the last seconds: the flight recorder, as its owner knows it.
pub trait Recorder: Send {
    /// Writes what it holds of the last seconds as a recording, a directory that is not there yet.
    ///
    /// # Errors
    /// One line: what, where, what to do.
    fn snapshot(&mut self, dir: &Path, last: Duration, why: &str) -> Result<Recorded, String>;

    /// How much of the past it holds now.
    fn reaches_back(&mut self) -> Duration;
}

/// What a snapshot has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorded {
    /// Events.
    pub events: u64,
    /// Events that were lost in it.
    pub lost: u64,
    /// The host's wall clock at both ends of its window, ns since 1970 (UTC); none where unknown.
    pub window_unix_ns: (Option<i64>, Option<i64>),
}

/// What is wished.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) seconds: u64,
    pub(crate) reason: String,
    pub(crate) trigger: Option<String>,
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoSnap {
    /// Too many wait already.
    Busy,
    /// The recorder cannot, or there is none.
    Failed(String),
}

type Reply = Sender<Result<Snap, NoSnap>>;

#[derive(Default)]
struct Inner {
    keep: usize,
    limit_bytes: u64,
    kept: Vec<Snap>,
    asked: u64,
    triggered: u64,
    failed: u64,
    /// Since when the flight recorder has everything, ns since 1970.
    held_since_unix_ns: Option<u64>,
    /// The last name's time, and how many had it.
    named: (String, u32),
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) asked: u64,
    pub(crate) triggered: u64,
    pub(crate) failed: u64,
    pub(crate) kept: u64,
    pub(crate) bytes: u64,
}

/// All snapshots, and the way to a new one.
pub(crate) struct Snapshots {
    dir: PathBuf,
    /// Why there is no flight recorder.
    pub(crate) cannot: Option<String>,
    /// Snapshots that cannot be listed, a line each.
    pub(crate) told: Vec<String>,
    inner: Mutex<Inner>,
    queue: Mutex<Option<SyncSender<(Wish, Reply)>>>,
}

/// The thread's end.
pub(crate) type Wishes = Receiver<(Wish, Reply)>;

impl Snapshots {
    /// Learns what is there; removes what is not whole.
    ///
    /// # Errors
    /// The directory cannot be read or made.
    pub(crate) fn open(
        dir: PathBuf,
        keep: usize,
        limit_bytes: u64,
        cannot: Option<String>,
    ) -> Result<(Self, Wishes), String> {
        transect_access::own_dir(&dir).map_err(|error| error.to_string())?;
        let Survey { kept, told } =
            survey(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let (sender, wishes) = sync_channel(QUEUED);
        let inner = Mutex::new(Inner { keep, limit_bytes, kept, ..Inner::default() });
        let queue = Mutex::new(Some(sender));
        Ok((Snapshots { dir, cannot, told, inner, queue }, wishes))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn list(&self) -> Vec<Snap> {
        self.lock().kept.clone()
    }

    /// Since when the flight recorder has everything, ns since 1970; none: there is no flight recorder.
    pub(crate) fn held_since_unix_ns(&self) -> Option<u64> {
        self.lock().held_since_unix_ns
    }

    pub(crate) fn numbers(&self) -> Numbers {
        let inner = self.lock();
        Numbers {
            asked: inner.asked,
            triggered: inner.triggered,
            failed: inner.failed,
            kept: inner.kept.len() as u64,
            bytes: inner.kept.iter().map(|snap| snap.bytes).sum(),
        }
    }

    /// Where a snapshot is, if there is one of that name.
    pub(crate) fn path(&self, id: &str) -> Option<PathBuf> {
        let is_known = self.lock().kept.iter().any(|snap| snap.id == id);
        is_known.then(|| self.dir.join(format!("{id}.transect")))
    }

    /// How many are kept from now on, and how large they may be together.
    pub(crate) fn limit(&self, keep: usize, limit_bytes: u64) {
        let mut inner = self.lock();
        (inner.keep, inner.limit_bytes) = (keep, limit_bytes);
        drop(inner);
        self.make_room(0);
    }

    /// Deletes one; false: there is none of that name. It is not listed any more, even where its files stay.
    pub(crate) fn delete(&self, id: &str) -> Result<bool, String> {
        let mut inner = self.lock();
        let Some(place) = inner.kept.iter().position(|snap| snap.id == id) else {
            return Ok(false);
        };
        inner.kept.remove(place);
        drop(inner);
        self.remove(id).map(|()| true)
    }

    /// Its files. The recording gets another name first: if the daemon ends now, the next one removes the rest.
    fn remove(&self, id: &str) -> Result<(), String> {
        let (about, dir) =
            (self.dir.join(format!("{id}.json")), self.dir.join(format!("{id}.transect")));
        let gone = |path: &Path, removed: io::Result<()>| match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", path.display()))
            }
            _ => Ok(()),
        };
        let removed = self.dir.join(format!("{id}.{REMOVED}"));
        gone(&dir, fs::rename(&dir, &removed))?;
        gone(&about, fs::remove_file(&about))?;
        gone(&removed, fs::remove_dir_all(&removed))
    }

    /// Asks for one, and waits for it.
    pub(crate) fn take(&self, wish: Wish) -> Result<Snap, NoSnap> {
        let reply = self.ask(wish)?;
        let gone = || NoSnap::Failed("the snapshot takes longer than a minute".to_owned());
        reply.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(gone()))
    }

    /// Asks for one.
    pub(crate) fn ask(&self, wish: Wish) -> Result<Receiver<Result<Snap, NoSnap>>, NoSnap> {
        if let Some(why) = &self.cannot {
            return Err(NoSnap::Failed(why.clone()));
        }
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = queue.as_ref() else {
            return Err(NoSnap::Failed("the daemon is shutting down".to_owned()));
        };
        let (reply, answer) = channel();
        match sender.try_send((wish, reply)) {
            Ok(()) => Ok(answer),
            Err(TrySendError::Full(_)) => Err(NoSnap::Busy),
            Err(TrySendError::Disconnected(_)) => {
                Err(NoSnap::Failed("the flight recorder has stopped".to_owned()))
            }
        }
    }

    /// No more are taken.
    pub(crate) fn end(&self) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Takes what is asked for, until nobody can ask any more.
    pub(crate) fn run(&self, wishes: &Wishes, recorder: &mut dyn Recorder, tell: &dyn Fn(&str)) {
        loop {
            let reaches_back =
                u64::try_from(recorder.reaches_back().as_nanos()).unwrap_or(u64::MAX);
            self.lock().held_since_unix_ns = Some(unix_now_ns().saturating_sub(reaches_back));
            let (wish, reply) = match wishes.recv_timeout(LOOK_EVERY) {
                Ok(wished) => wished,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let taken = self.one(&wish, recorder);
            match &taken {
                Ok(snap) => tell(&format!("snapshot {}: {}", snap.id, snap.reason)),
                Err(NoSnap::Failed(why)) => {
                    tell(&format!("snapshot failed ({}): {why}", wish.reason))
                }
                Err(NoSnap::Busy) => {}
            }
            // Who asked may have gone.
            let _ = reply.send(taken);
        }
    }

    fn one(&self, wish: &Wish, recorder: &mut dyn Recorder) -> Result<Snap, NoSnap> {
        let taken_unix_ns = unix_now_ns();
        let id = self.free_id(taken_unix_ns);
        let dir = self.dir.join(format!("{id}.transect"));
        self.make_room(1);
        let last = Duration::from_secs(wish.seconds);
        let written = recorder.snapshot(&dir, last, &wish.reason).and_then(|recorded| {
            let snap = Snap {
                id: id.clone(),
                taken_unix_ns,
                seconds: wish.seconds,
                reason: wish.reason.clone(),
                trigger: wish.trigger.clone(),
                events: recorded.events,
                lost: recorded.lost,
                bytes: bytes_of(&dir),
                from_unix_ns: recorded.window_unix_ns.0,
                until_unix_ns: recorded.window_unix_ns.1,
            };
            let text = text_of(&snap);
            let path = self.dir.join(format!("{id}.json"));
            let written = transect_access::create_file(&path)
                .and_then(|mut file| io::Write::write_all(&mut file, &text));
            written.map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(snap)
        });
        let mut inner = self.lock();
        match written {
            Ok(snap) => {
                *(if wish.trigger.is_some() { &mut inner.triggered } else { &mut inner.asked }) +=
                    1;
                inner.kept.push(snap.clone());
                drop(inner);
                self.make_room(0);
                Ok(snap)
            }
            Err(why) => {
                inner.failed += 1;
                drop(inner);
                let _ = fs::remove_dir_all(&dir);
                Err(NoSnap::Failed(why))
            }
        }
    }

    /// Deletes the oldest until so many more may come; the last is not deleted for its size.
    fn make_room(&self, more: usize) {
        // Tables and tiles are made when somebody looks at one.
        for Snap { id, .. } in self.list() {
            let bytes = bytes_of(&self.dir.join(format!("{id}.transect")));
            // One that was deleted meanwhile has none.
            if let Some(snap) = self.lock().kept.iter_mut().find(|snap| snap.id == id) {
                snap.bytes = bytes;
            }
        }
        loop {
            let mut inner = self.lock();
            let bytes: u64 = inner.kept.iter().map(|snap| snap.bytes).sum();
            let is_too_much = bytes > inner.limit_bytes && inner.kept.len() > 1;
            if inner.kept.len() + more <= inner.keep && !is_too_much || inner.kept.is_empty() {
                return;
            }
            let oldest = inner.kept.remove(0);
            drop(inner);
            // What stays is removed at the next start.
            let _ = self.remove(&oldest.id);
        }
    }

    /// The time, and a number if that is taken.
    fn free_id(&self, unix_ns: u64) -> String {
        let time = local_name(unix_ns);
        let named = &mut self.lock().named;
        if named.0 != time {
            *named = (time.clone(), 0);
        }
        loop {
            // No name is used again: somebody may have the one before open.
            let number = named.1;
            named.1 += 1;
            let id = if number == 0 { time.clone() } else { format!("{time}-{number}") };
            if !self.dir.join(format!("{id}.transect")).exists() {
                return id;
            }
        }
    }
}

/// `20261128T034620p0100`: the local time and its offset to UTC, `p` for plus and `m` for minus (URLs and
/// shells have other uses for a plus), or `Z` for UTC.
fn local_name(unix_ns: u64) -> String {
    let time = DateTime::<Utc>::from(UNIX_EPOCH + Duration::from_nanos(unix_ns));
    name_of(&time.with_timezone(&Local))
}

fn name_of<Z: TimeZone<Offset: Display>>(time: &DateTime<Z>) -> String {
    let offset = match time.offset().fix().local_minus_utc() {
        0 => "Z".to_owned(),
        _ => time.format("%z").to_string().replace('+', "p").replace('-', "m"),
    };
    format!("{}{offset}", time.format("%Y%m%dT%H%M%S"))
}

fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn bytes_of(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_of(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

/// Writes a recording as a tar: what was recorded, and not what was made of it since.
pub(crate) fn pack(dir: &Path, id: &str, to: &mut dyn Write) -> io::Result<()> {
    let mut tar = tar::Builder::new(to);
    tar.mode(tar::HeaderMode::Deterministic);
    tar.follow_symlinks(false);
    let mut paths: Vec<_> =
        fs::read_dir(dir)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths.iter().filter(|path| path.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        tar.append_path_with_name(path, format!("{id}.transect/{name}"))?;
    }
    tar.into_inner()?.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::super::descriptions::is_id;
    use super::*;

    struct Fake(Vec<u8>);

    impl Recorder for Fake {
        fn snapshot(&mut self, dir: &Path, _: Duration, why: &str) -> Result<Recorded, String> {
            if why == "bad" {
                return Err("no".to_owned());
            }
            fs::create_dir(dir).map_err(|e| e.to_string())?;
            fs::write(dir.join("host.compact"), &self.0).map_err(|e| e.to_string())?;
            Ok(Recorded { events: 3, lost: 1, window_unix_ns: (Some(5), None) })
        }

        fn reaches_back(&mut self) -> Duration {
            Duration::ZERO
        }
    }

    fn wish(reason: &str) -> Wish {
        Wish { seconds: 5, reason: reason.to_owned(), trigger: None }
    }

    #[test]
    fn the_newest_are_kept_in_bounds_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Snapshots::open(dir.path().join("s"), 3, 1500, None).unwrap();
        let (snapshots, _wishes) = open();
        let ids: Vec<_> = (0..5)
            .map(|n| snapshots.one(&wish(&n.to_string()), &mut Fake(vec![1; 400])).unwrap().id)
            .collect();
        let kept = |snapshots: &Snapshots| {
            snapshots.list().iter().map(|snap| snap.reason.clone()).collect::<Vec<_>>()
        };
        assert_eq!(kept(&snapshots), ["2", "3", "4"]);
        assert!(snapshots.path(&ids[0]).is_none() && snapshots.path(&ids[4]).unwrap().is_dir());
        // Two of 700 bytes and one of 400 are too much.
        snapshots.one(&wish("5"), &mut Fake(vec![1; 700])).unwrap();
        snapshots.one(&wish("6"), &mut Fake(vec![1; 700])).unwrap();
        assert_eq!(kept(&snapshots), ["5", "6"]);
        assert_eq!(
            snapshots.one(&wish("bad"), &mut Fake(vec![])),
            Err(NoSnap::Failed("no".to_owned()))
        );
        // What was not whole is removed.
        fs::create_dir(dir.path().join("s/20200101T000000Z.transect")).unwrap();
        drop(snapshots);
        let (snapshots, _wishes) = open();
        assert_eq!(kept(&snapshots), ["5", "6"]);
        assert_eq!(fs::read_dir(dir.path().join("s")).unwrap().count(), 4);
        assert!(snapshots.path("../s").is_none());
    }

    #[test]
    fn times_and_names() {
        let name = |unix_s: i64, offset_s: i32| {
            let zone = chrono::FixedOffset::east_opt(offset_s).unwrap();
            name_of(&DateTime::from_timestamp(unix_s, 0).unwrap().with_timezone(&zone))
        };
        assert_eq!(name(0, 0), "19700101T000000Z");
        assert_eq!(name(1_709_210_096, 0), "20240229T123456Z");
        assert_eq!(name(1_790_000_400, 3_600), "20260921T152000p0100");
        assert_eq!(name(1_790_000_400, -12_600), "20260921T105000m0330");
        assert!(is_id(&local_name(1_790_000_400_000_000_000)));
        assert!(is_id("20240229T123456Z-1") && !is_id("..") && !is_id("a/b") && !is_id(""));
    }

    #[test]
    fn a_tar_has_what_was_recorded() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("host.compact"), "events").unwrap();
        fs::create_dir(dir.path().join("tables")).unwrap();
        fs::write(dir.path().join("tables/x"), "made of it").unwrap();
        let mut bytes = Vec::new();
        pack(dir.path(), "a", &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let names: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["a.transect/host.compact"]);
    }
}
