//! Where each pCPU's records are in a file: a walk over the CPU_CHANGE records only.

use crate::{
    problem::{Error, Problem, Problems, What},
    word::{CPU_CHANGE_BYTES, CPU_CHANGE_HEAD, Head, MAX_CPUS, word_at},
};
use std::{collections::BTreeMap, ops::Range};
use transect_model::ids::CpuId;

/// A stretch of one pCPU's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First byte of the file after its CPU_CHANGE record.
    pub at: usize,
    /// How many bytes.
    pub bytes: usize,
}

/// The windows of a file, by pCPU, in the order they were written: a CPU's in order of time.
///
/// 16 bytes of memory per window, which takes at least 16 bytes in the file (and in practice a
/// poll's worth of records). A file that grows is read on with [`Self::extend`].
#[derive(Clone, Debug, Default)]
pub struct Index {
    cpus: BTreeMap<u32, Vec<Window>>,
    /// Where the next window's CPU_CHANGE record should be.
    next: usize,
    /// The window before it, to be cut short if it proves too long.
    last: Option<(u32, usize)>,
    /// CPU_CHANGE records read.
    windows: u64,
    problems: Problems,
    /// Of each pCPU, how many windows come before records that are missing.
    holes: BTreeMap<u32, Vec<usize>>,
    /// The same where any pCPU can miss records: how many windows those had that were known by then.
    holes_of_all: Vec<BTreeMap<u32, usize>>,
}

/// What is at a place where a window should begin.
enum Found {
    /// A window with so many bytes in all.
    Window { cpu: u32, bytes: usize },
    /// The file ends first.
    End,
    /// Something else.
    Other,
}

fn look(file: &[u8], at: usize) -> Found {
    let rest = &file[at.min(file.len())..];
    if rest.len() < CPU_CHANGE_BYTES {
        return match rest.first_chunk::<4>() {
            Some(head) if *head != CPU_CHANGE_HEAD.to_le_bytes() => Found::Other,
            _ => Found::End,
        };
    }
    if word_at(rest, 0) != CPU_CHANGE_HEAD {
        return Found::Other;
    }
    Found::Window { cpu: word_at(rest, 4), bytes: word_at(rest, 8) as usize }
}

impl Index {
    /// Checks that this is an xentrace file at all, from its first bytes.
    ///
    /// # Errors
    /// If it is empty, too short for one window, or begins otherwise.
    pub fn check(file: &[u8]) -> Result<(), Error> {
        let begin = &file[..file.len().min(8)];
        if file.is_empty() {
            return Err(Error::Empty);
        }
        let head = CPU_CHANGE_HEAD.to_le_bytes();
        if begin[..begin.len().min(4)] != head[..begin.len().min(4)] {
            let found: Vec<String> = begin.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(Error::Magic { found: found.join(" ") });
        }
        if file.len() < CPU_CHANGE_BYTES {
            return Err(Error::Cut { at_bytes: file.len() as u64 });
        }
        Ok(())
    }

    /// Reads on to the last window that is whole; `file` is the same file, as long as before or
    /// longer.
    pub fn extend(&mut self, file: &[u8]) {
        while self.next < file.len() {
            match look(file, self.next) {
                Found::Window { bytes, .. }
                    if file.len() - self.next - CPU_CHANGE_BYTES < bytes =>
                {
                    // Too long for the file: not written yet, or wrong. Only the end tells.
                    return;
                }
                Found::Window { cpu, bytes } => self.window(cpu, bytes, bytes),
                Found::End => return,
                Found::Other => {
                    let Some(found) = self.resync(file) else { return };
                    self.skip_to(found);
                }
            }
        }
    }

    /// Reads what is left when the file will not grow any more.
    pub fn finish(&mut self, file: &[u8]) {
        loop {
            self.extend(file);
            if self.next >= file.len() {
                return;
            }
            let rest = file.len() - self.next;
            match look(file, self.next) {
                Found::Window { cpu, bytes } if cpu < MAX_CPUS => {
                    // Is there a window within what it claims? Then its size is wrong, not the file
                    // short.
                    let there = rest - CPU_CHANGE_BYTES;
                    self.window(cpu, there, bytes);
                    if self.walk_last(file).is_none() {
                        let missing_bytes = (bytes - there) as u64;
                        let what = What::Truncated { missing_bytes };
                        self.problems.add(file.len(), cpu_of(cpu), what);
                        return;
                    }
                }
                Found::End => {
                    self.problems.add(self.next, None, What::CutChange);
                    self.next = file.len();
                    return;
                }
                Found::Window { .. } | Found::Other => match self.resync(file) {
                    Some(found) => self.skip_to(found),
                    None => {
                        self.skip_to(file.len());
                        return;
                    }
                },
            }
        }
    }

    /// Enters the window at `next`; of the `claimed` bytes so many are there.
    fn window(&mut self, cpu: u32, bytes: usize, claimed: usize) {
        let at = self.next + CPU_CHANGE_BYTES;
        self.windows += 1;
        self.last = None;
        if cpu >= MAX_CPUS {
            let bytes = u32::try_from(claimed).unwrap_or(u32::MAX);
            self.problems.add(self.next, None, What::NoSuchCpu { cpu, bytes });
        } else if bytes > 0 {
            let windows = self.cpus.entry(cpu).or_default();
            self.last = Some((cpu, claimed));
            windows.push(Window { at, bytes });
        } else {
            self.cpus.entry(cpu).or_default();
        }
        self.next = at + bytes;
    }

    /// No window begins at `next`. Either the one before is too long, or there is rubbish: where
    /// does the next one begin?
    fn resync(&mut self, file: &[u8]) -> Option<usize> {
        if let Some(at) = self.walk_last(file) {
            return Some(at);
        }
        find_window(file, self.next)
    }

    /// Walks the records of the last window. A CPU_CHANGE record among them is the next window:
    /// it is cut short there, and `next` set to it.
    fn walk_last(&mut self, file: &[u8]) -> Option<usize> {
        let (cpu, claimed) = self.last?;
        let window = self.cpus.get_mut(&cpu)?.last_mut()?;
        let records = &file[window.at..window.at + window.bytes];
        let mut at = 0;
        while at < records.len() {
            let head = Head(word_at(records, at));
            if head.0 == CPU_CHANGE_HEAD {
                let begin = window.at;
                window.bytes = at;
                let what = What::WindowTooLong {
                    claimed_bytes: u32::try_from(claimed).unwrap_or(u32::MAX),
                    bytes: u32::try_from(at).unwrap_or(u32::MAX),
                };
                self.problems.add(begin - CPU_CHANGE_BYTES, cpu_of(cpu), what);
                if at == 0 {
                    self.cpus.get_mut(&cpu)?.pop();
                }
                self.next = begin + at;
                self.last = None;
                return Some(self.next);
            }
            at += head.bytes();
        }
        self.last = None;
        None
    }

    fn skip_to(&mut self, at: usize) {
        if at > self.next {
            let skipped_bytes = (at - self.next) as u64;
            self.problems.add(self.next, None, What::NoWindow { skipped_bytes });
            self.next = at;
        }
    }

    /// Reads a whole file of which these ranges are not what was written: in order and apart from one
    /// another; the last one may be behind its end, where bytes are missing.
    ///
    /// A window whose CPU_CHANGE record is undamaged is read up to the damage, and the next one is where that
    /// record says. Behind a damaged one, the next is searched for, and every pCPU can miss records.
    pub(crate) fn around(file: &[u8], damage: &[Range<u64>]) -> Self {
        let mut index = Index::default();
        while index.next < file.len() {
            let head = index.next..index.next + CPU_CHANGE_BYTES;
            if let Some(damaged) = damage_in(damage, &head) {
                index.jump(file, damaged.end.max(index.next + 1), true);
                continue;
            }
            match look(file, index.next) {
                Found::Window { cpu, bytes } => index.window_around(file, damage, cpu, bytes),
                Found::Other | Found::End => index.jump(file, index.next + 1, false),
            }
        }
        if damage.last().is_some_and(|damaged| damaged.end > file.len() as u64) {
            index.hole_of_all();
        }
        index
    }

    /// Enters the window at `next` as far as it is undamaged.
    fn window_around(&mut self, file: &[u8], damage: &[Range<u64>], cpu: u32, bytes: usize) {
        let records = self.next + CPU_CHANGE_BYTES;
        let end = records.saturating_add(bytes);
        let Some(damaged) = damage_in(damage, &(records..end)) else {
            return match end <= file.len() {
                true => self.window(cpu, bytes, bytes),
                false => self.jump(file, file.len(), false),
            };
        };
        let whole = damaged.start.saturating_sub(records);
        self.window(cpu, whole, bytes);
        self.last = None;
        let left_out_bytes = (end - records - whole) as u64;
        self.problems.add(records + whole, cpu_of(cpu), What::Damaged { left_out_bytes });
        let windows = self.cpus.get(&cpu).map_or(0, Vec::len);
        self.holes.entry(cpu).or_default().push(windows);
        self.next = end.min(file.len());
    }

    /// Goes on at the first window from `from` on.
    fn jump(&mut self, file: &[u8], from: usize, is_damaged: bool) {
        let found = find_window(file, from.min(file.len())).unwrap_or(file.len());
        let bytes = (found - self.next) as u64;
        let what = match is_damaged {
            true => What::Damaged { left_out_bytes: bytes },
            false => What::NoWindow { skipped_bytes: bytes },
        };
        self.problems.add(self.next, None, what);
        self.hole_of_all();
        self.last = None;
        self.next = found;
    }

    fn hole_of_all(&mut self) {
        let counts = self.cpus.iter().map(|(cpu, windows)| (*cpu, windows.len()));
        self.holes_of_all.push(counts.collect());
    }

    /// A pCPU's windows in stretches between which records are missing. An empty one is at the beginning or
    /// at the end, if records are missing there.
    pub fn stretches(&self, cpu: CpuId) -> Vec<Range<usize>> {
        let of_all =
            self.holes_of_all.iter().map(|counts| counts.get(&cpu.0).copied().unwrap_or(0));
        let own = self.holes.get(&cpu.0).into_iter().flatten().copied();
        let mut holes: Vec<usize> = own.chain(of_all).collect();
        holes.sort_unstable();
        holes.dedup();
        let mut stretches = Vec::with_capacity(holes.len() + 1);
        let mut begin = 0;
        for hole in holes {
            stretches.push(begin..hole);
            begin = hole;
        }
        stretches.push(begin..self.windows(cpu).len());
        stretches
    }

    /// The pCPUs that have windows, in order.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> {
        self.cpus.keys().map(|&cpu| CpuId(cpu))
    }

    /// A pCPU's windows, in order of time.
    pub fn windows(&self, cpu: CpuId) -> &[Window] {
        self.cpus.get(&cpu.0).map_or(&[], Vec::as_slice)
    }

    /// CPU_CHANGE records read, those of empty and unusable windows too.
    pub fn changes(&self) -> u64 {
        self.windows
    }

    /// Bytes of the file that have been read.
    pub fn read_bytes(&self) -> usize {
        self.next
    }

    /// What is wrong with the windows.
    pub fn problems(&self) -> &[Problem] {
        self.problems.as_slice()
    }

    /// Forgets a pCPU's windows before `window`, counted from 0: for a live trace, so that memory
    /// stays bounded. What is left is counted from 0 again.
    pub fn forget(&mut self, cpu: CpuId, window: usize) {
        if let Some(windows) = self.cpus.get_mut(&cpu.0) {
            windows.drain(..window.min(windows.len()));
            if windows.is_empty() {
                self.last = None;
            }
        }
    }
}

/// The first of the damaged ranges that meets a range, as far as offsets fit into memory.
fn damage_in(damage: &[Range<u64>], range: &Range<usize>) -> Option<Range<usize>> {
    let next = damage.partition_point(|damaged| damaged.end <= range.start as u64);
    let damaged = damage.get(next).filter(|damaged| damaged.start < range.end as u64)?;
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    Some(at(damaged.start)..at(damaged.end))
}

fn cpu_of(cpu: u32) -> Option<CpuId> {
    (cpu < MAX_CPUS).then_some(CpuId(cpu))
}

/// The next place from `from` on that looks like a window: a CPU_CHANGE record of a CPU that can
/// be, with whole words, and after them another or the end of the file.
fn find_window(file: &[u8], from: usize) -> Option<usize> {
    let head = CPU_CHANGE_HEAD.to_le_bytes();
    let mut at = from;
    loop {
        at += file.get(at..)?.windows(head.len()).position(|window| window == head)?;
        if let Found::Window { cpu, bytes } = look(file, at) {
            let end = at + CPU_CHANGE_BYTES + bytes;
            let followed = end >= file.len() || !matches!(look(file, end), Found::Other);
            if cpu < MAX_CPUS && bytes % 4 == 0 && followed {
                return Some(at);
            }
        }
        at += 1;
    }
}
