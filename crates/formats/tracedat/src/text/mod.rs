//! tracefs's `trace` file as a trace.dat.
//!
//! **What.** A guest without any tool can still be traced: `cat /sys/kernel/tracing/trace`. That
//! text loses the records' bytes but not what they say; [`convert`] makes a trace.dat of version 7
//! of it, which everything that reads trace.dat reads.
//!
//! **Data flow.** lines ─▶ who, CPU, stamp, event, its text (`line.rs`) ─▶ fields (`kinds.rs`) ─▶
//! pages of a CPU ─▶ [`FileSpec`].
//!
//! **Design constraints.**
//! - Events the model knows get the kernel's fields; of all others the text is kept, in a field
//!   called `text`.
//! - Stamps without a point are ticks of `x86-tsc` (the clocks `counter` and `uptime` look the
//!   same; nobody traces with them); others are nanoseconds of a kernel clock, of which the text
//!   keeps microseconds.
//! - Flags of a line tell the context of its event; a text without flags gives records without.
//! - A line that is none of an event is counted, never silently left out. No input panics; memory
//!   is a small multiple of the text's.

mod kinds;
mod line;

use crate::{
    read::{Compression, Options},
    write::{BufferSpec, CpuSpec, FileSpec, Metadata, WriteError},
};
use kinds::Kinds;
use line::{Line, Stamp};
use std::{collections::BTreeMap, io::Cursor};
use transect_ftrace::{Endian, PageLayout, encode::PageBuilder};

const PAGE_BYTES: usize = 4096;
/// More CPUs than any Linux is built for.
const MAX_CPUS: u32 = 8192;
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

/// A converted text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The trace.dat.
    pub file: Vec<u8>,
    /// Events in it.
    pub events: u64,
    /// Lines that are neither comments nor events, and the number of the first of them.
    pub not_understood: u64,
    /// See there; 0 without any.
    pub first_not_understood: u64,
    /// Events whose stamps lie before the one before them on their CPU: they were given that one's.
    pub backwards: u64,
    /// Events that the head of the text says were overwritten before it was taken.
    pub overwritten: u64,
}

/// Why a text cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// It does not begin as a `trace` file does.
    #[error("not the text of tracefs's 'trace': it does not begin with '# tracer: nop'")]
    NotTrace,
    /// A tracer other than `nop` writes lines of its own kind.
    #[error("text of the tracer '{0}': only the events of 'nop' are supported")]
    Tracer(String),
    /// Not one line is an event.
    #[error("no line is an event")]
    NoEvent,
    /// Stamps with and without a point.
    #[error("line {line}: timestamps are in ticks in some lines and in seconds in others")]
    MixedStamps {
        /// The first line that differs.
        line: u64,
    },
    /// The file cannot be made.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Does it begin as tracefs's `trace` does?
pub fn is_text(bytes: &[u8]) -> bool {
    bytes.starts_with(b"# tracer:")
}

/// Converts the text of a `trace` file.
///
/// # Errors
/// See [`TextError`]; single lines that are not understood are counted instead.
pub fn convert(text: &[u8]) -> Result<Converted, TextError> {
    let tracer = text.strip_prefix(b"# tracer:").ok_or(TextError::NotTrace)?;
    let tracer = tracer.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
    if tracer != b"nop" {
        return Err(TextError::Tracer(String::from_utf8_lossy(tracer).into_owned()));
    }
    let mut making = Making::default();
    for (number, line) in (1..).zip(text.split(|b| *b == b'\n')) {
        making.line(number, line.trim_ascii_end())?;
    }
    making.finish()
}

#[derive(Default)]
struct Making {
    out: Converted,
    kinds: Kinds,
    in_ticks: Option<bool>,
    cpus: BTreeMap<u32, Pages>,
    cmdlines: BTreeMap<i32, Vec<u8>>,
}

impl Making {
    fn line(&mut self, number: u64, text: &[u8]) -> Result<(), TextError> {
        if text.is_empty() || text.starts_with(b"#") {
            self.head(text);
            return Ok(());
        }
        match Line::parse(text) {
            Some(Line::Event { comm, tid, cpu, flags, stamp, event, text }) if cpu < MAX_CPUS => {
                let (in_ticks, ts) = match stamp {
                    Stamp::Ticks(ticks) => (true, ticks),
                    Stamp::Ns(ns) => (false, ns),
                };
                if *self.in_ticks.get_or_insert(in_ticks) != in_ticks {
                    return Err(TextError::MixedStamps { line: number });
                }
                if tid > 0 && !matches!(comm, b"<...>") {
                    self.cmdlines.entry(tid).or_insert_with(|| comm.to_vec());
                }
                let payload = self.kinds.payload(event, flags, tid, text);
                self.out.backwards +=
                    u64::from(!self.cpus.entry(cpu).or_default().push(ts, &payload));
                self.out.events += 1;
            }
            Some(Line::Lost { cpu, count }) if cpu < MAX_CPUS => {
                self.cpus.entry(cpu).or_default().lost(count);
            }
            _ => {
                self.out.not_understood += 1;
                if self.out.first_not_understood == 0 {
                    self.out.first_not_understood = number;
                }
            }
        }
        Ok(())
    }

    /// `# entries-in-buffer/entries-written: 10774/12000   #P:1`
    fn head(&mut self, text: &[u8]) {
        let told = std::str::from_utf8(text).ok();
        let told = told.and_then(|text| text.split_once("entries-written:"));
        let counts = told.and_then(|(_, rest)| rest.split_whitespace().next()?.split_once('/'));
        if let Some((held, written)) = counts
            && let (Ok(held), Ok(written)) = (held.parse::<u64>(), written.parse::<u64>())
        {
            self.out.overwritten = written.saturating_sub(held);
        }
    }

    fn finish(mut self) -> Result<Converted, TextError> {
        let in_ticks = self.in_ticks.ok_or(TextError::NoEvent)?;
        let clock = if in_ticks { "x86-tsc" } else { "local" };
        let data: BTreeMap<u32, Vec<u8>> =
            self.cpus.into_iter().map(|(cpu, pages)| (cpu, pages.finish())).collect();
        let cpus =
            data.iter().map(|(cpu, bytes)| CpuSpec { cpu: *cpu, size_bytes: bytes.len() as u64 });
        let cmdlines = self
            .cmdlines
            .iter()
            .map(|(tid, comm)| format!("{tid} {}\n", String::from_utf8_lossy(comm)));
        let spec = FileSpec {
            endian: Endian::NATIVE,
            long_bytes: 8,
            page_bytes: u32::try_from(PAGE_BYTES).unwrap_or_default(),
            compression: Compression::None,
            metadata: Metadata {
                header_page: HEADER_PAGE.into(),
                header_event: HEADER_EVENT.into(),
                systems: self.kinds.formats(),
                saved_cmdlines: cmdlines.collect::<String>().into_bytes(),
                ..Metadata::default()
            },
            options: Options {
                trace_clock: Some(format!("[{clock}]")),
                cpu_count: data.keys().next_back().map(|cpu| cpu + 1),
                ..Options::default()
            },
            buffers: vec![BufferSpec {
                name: String::new(),
                clock: clock.to_owned(),
                page_bytes: u32::try_from(PAGE_BYTES).unwrap_or_default(),
                cpus: cpus.collect(),
            }],
        };
        let mut file = Cursor::new(Vec::new());
        spec.write(&mut file, |_, cpu| {
            Ok(Cursor::new(data.get(&cpu).map(Vec::as_slice).unwrap_or_default()))
        })?;
        self.out.file = file.into_inner();
        Ok(self.out)
    }
}

/// One CPU's sub-buffers.
#[derive(Default)]
struct Pages {
    done: Vec<u8>,
    open: Option<PageBuilder>,
    last: u64,
    /// What was lost since the open page was begun, if anything.
    lost: Option<Option<u64>>,
}

impl Pages {
    /// Adds an event; says whether its stamp was in order.
    fn push(&mut self, ts: u64, payload: &[u8]) -> bool {
        let in_order = ts >= self.last;
        self.last = self.last.max(ts);
        if self.open.as_mut().is_some_and(|page| page.push(self.last, payload)) {
            return in_order;
        }
        self.close();
        let page = PageBuilder::new(PageLayout::native(PAGE_BYTES), self.last);
        let mut page = match self.lost.take() {
            Some(count) => page.lost(count),
            None => page,
        };
        // The largest payload is far smaller than a page.
        let _fits = page.push(self.last, payload);
        self.open = Some(page);
        in_order
    }

    /// Events are missing here: told by the page after.
    fn lost(&mut self, count: Option<u64>) {
        self.close();
        self.lost = Some(match self.lost {
            None => count,
            Some(before) => before.and_then(|before| before.checked_add(count?)),
        });
    }

    fn close(&mut self) {
        if let Some(page) = self.open.take() {
            self.done.extend(page.finish());
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.close();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Item, TraceDat};
    use transect_ftrace::CoreDecoder;

    const TEXT: &str = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 7/9   #P:2\n#\n\
        \x20   rcu_preempt-15      [000] d..2.  78018605669: sched_switch: prev_comm=rcu_preempt prev_pid=15 \
        prev_prio=120 prev_state=I ==> next_comm=a b-c next_pid=124 next_prio=119\n\
        \x20         a b-c-124   (    124) [000] d.h1.  78026429225: softirq_raise: vec=1 [action=TIMER]\n\
        \x20         <idle>-0       [001] dNs5.  78026820629: sched_wakeup: comm=rcu_preempt pid=15 prio=120 target_cpu=001\n\
        CPU:0 [LOST 12 EVENTS]\n\
        \x20         a b-c-124     [000] d.h1.  78026829225: irq_handler_exit: irq=4 ret=handled\n\
        \x20         a b-c-124     [000] d.h1.  78026829200: what_ever: x=[1] y: 2\n\
        garbage\n";

    #[test]
    fn lines_become_events_of_their_cpus() {
        let made = convert(TEXT.as_bytes()).unwrap();
        assert_eq!((made.events, made.not_understood, made.first_not_understood), (5, 1, 11));
        assert_eq!((made.backwards, made.overwritten), (1, 2));
        let dat = TraceDat::parse(&made.file).unwrap();
        assert!(dat.problems().is_empty(), "{:?}", dat.problems());
        let buffer = &dat.buffers()[0];
        assert_eq!(buffer.clock, "x86-tsc");
        let core = CoreDecoder::new(dat.events());
        assert!(core.incomplete().is_empty());
        let mut all = Vec::new();
        for cpu in buffer.cpus() {
            let mut stream = dat.stream(buffer, cpu).unwrap();
            while let Some(item) = stream.next() {
                all.push(match item {
                    Item::Event { ts, payload } => {
                        let tid = dat.events().tid_of(payload).unwrap();
                        format!("{cpu} {} {tid} {:?}", ts.get(), core.decode(payload))
                    }
                    Item::Lost { count, .. } => format!("{cpu} lost {count:?}"),
                    Item::Problem(problem) => panic!("{problem}"),
                });
            }
        }
        assert_is_all(&all);
    }

    fn assert_is_all(all: &[String]) {
        let expected = [
            "0 78018605669 15 Some(SchedSwitch { prev: Tid(15), prev_comm: \"rcu_preempt\", prev_prio: 120, \
             prev_state: PrevState(128), next: Tid(124), next_comm: \"a b-c\", next_prio: 119 })",
            "0 78026429225 124 Some(SoftirqRaise { vector: 1, context: Some(Irq) })",
            "0 lost Some(12)",
            "0 78026829225 124 Some(IrqExit { irq: 4, handled: true })",
            "0 78026829225 124 None",
            "1 78026820629 0 Some(SchedWakeup { tid: Tid(15), comm: \"rcu_preempt\", prio: 120, target_cpu: CpuId(1), \
             context: Some(Softirq) })",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_cannot_be_converted_is_said() {
        let said = |text: &str| convert(text.as_bytes()).unwrap_err().to_string();
        assert!(said("hello").contains("'trace'"));
        assert!(said("# tracer: function\n").contains("'function'"));
        assert!(said("# tracer: nop\nx\n").contains("no line"));
        let mixed = "# tracer: nop\n a-1 [000] d... 5: x: y\n a-1 [000] d... 5.000001: x: y\n";
        assert!(said(mixed).contains("line 3"));
    }
}
