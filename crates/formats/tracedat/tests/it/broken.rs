//! Broken input: cut at every fiftieth of its length, flipped bytes, zeroed pages. Never a panic or
//! a hang; what stands before the damage is still read; the damage is always told.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};
use transect_ftrace::{CoreDecoder, Names, RawText};
use transect_tracedat::{Item, TraceDat};

/// No file of the corpus takes a tenth of it, unoptimized and on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Stamps and payloads of one CPU.
type Events = Vec<(u64, Vec<u8>)>;

/// What reading a file gave.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Per buffer and CPU.
    events: BTreeMap<(String, u32), Events>,
    /// Fatal error, metadata problems, stream problems.
    told: Vec<String>,
}

impl Outcome {
    fn count(&self) -> usize {
        self.events.values().map(Vec::len).sum()
    }
}

/// Reads everything there is to read, in every way.
fn read(file: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let trace = match TraceDat::parse(file) {
        Ok(trace) => trace,
        Err(err) => {
            outcome.told.push(err.to_string());
            return outcome;
        }
    };
    outcome.told.extend(trace.problems().iter().map(ToString::to_string));
    let names =
        Names::new().with_kallsyms(&trace.kallsyms()).with_printk_formats(&trace.printk_formats());
    let mut text = RawText::new(trace.events(), names);
    let decoder = CoreDecoder::new(trace.events());
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let mut stream = trace.stream(buffer, cpu).expect("a listed CPU");
            let list = outcome.events.entry((buffer.name.clone(), cpu)).or_default();
            while let Some(item) = stream.next() {
                match item {
                    Item::Event { ts, payload } => {
                        let _ = buffer.timing.report_ns(ts.get(), cpu);
                        let _ = decoder.decode(payload);
                        let _ = trace.events().values(payload).count();
                        if list.len() < 50 {
                            text.fields(payload, &mut String::new());
                        }
                        list.push((ts.get(), payload.to_vec()));
                    }
                    Item::Lost { .. } => {}
                    Item::Problem(problem) => outcome.told.push(problem.to_string()),
                }
            }
        }
    }
    outcome
}

fn in_time(what: &str, file: &[u8]) -> Outcome {
    let start = Instant::now();
    let outcome = read(file);
    assert!(start.elapsed() < DEADLINE, "{what}: took {:?}", start.elapsed());
    outcome
}

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../testdata/succeed/tracedat");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ext| ext == "dat") {
            files.push((path.clone(), std::fs::read(path).expect("a recording")));
        }
    }
    assert!(files.len() > 10);
    files
}

#[test]
fn cut_at_every_fiftieth() {
    for (path, file) in corpus() {
        let whole = in_time("whole", &file);
        assert_eq!(whole.told, Vec::<String>::new(), "{}", path.display());
        let mut last = 0;
        for part in 0..50 {
            let cut = file.len() * part / 50;
            let what = format!("{} cut at {cut}", path.display());
            let outcome = in_time(&what, &file[..cut]);
            assert!(!outcome.told.is_empty(), "{what}: not told");
            assert!(outcome.told.iter().all(|text| !text.is_empty()));
            // More of the file never gives less, and never more than there is.
            let count = outcome.count();
            assert!(count >= last && count <= whole.count(), "{what}: {last} then {count} events");
            last = count;
        }
        println!("{}: {} events, {last} before the last cut", path.display(), whole.count());
        assert!(last > 0, "{}: nothing read of 49 fiftieths", path.display());
    }
}

/// Where the file says which data is whose, the events before a cut are exactly a beginning of
/// each CPU's events.
#[test]
fn before_a_cut_nothing_is_missing() {
    for (path, file) in corpus() {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        // trace-cmd writes that behind the data; see `read/recover.rs` for what is done then.
        let is_known = name.starts_with("v6") || ["pair", "odd"].iter().any(|p| name.contains(p));
        let whole = read(&file);
        for part in 1..50 {
            let cut = file.len() * part / 50;
            let outcome = read(&file[..cut]);
            for (key, events) in &outcome.events {
                let all = whole.events.get(key).map_or(&[][..], Vec::as_slice);
                let is_beginning = all.starts_with(events);
                assert!(is_beginning || !is_known, "{name} cut at {cut}: {key:?} is no beginning");
            }
        }
    }
}

/// A small generator: the same flips in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).expect("small")
    }
}

#[test]
fn flipped_bytes() {
    let mut random = Random(0x5eed);
    for (path, file) in corpus() {
        for round in 0..60 {
            let mut broken = file.clone();
            // Half of the rounds damage the beginning, where all the structure is.
            let range = if round % 2 == 0 { file.len() } else { file.len().min(16384) };
            for _ in 0..1 + random.next(8) {
                let at = random.next(range);
                broken[at] ^= u8::try_from(1 + random.next(255)).expect("a byte");
            }
            in_time(&format!("{} flip round {round}", path.display()), &broken);
        }
    }
}

#[test]
fn zeroed_pages_are_counted() {
    let (_, file) = corpus()
        .into_iter()
        .find(|(path, _)| path.ends_with("v7-none.dat"))
        .expect("the uncompressed one");
    let trace = TraceDat::parse(&file).expect("readable");
    let data = trace.buffers()[0].cpus[0];
    let mut broken = file.clone();
    let start = usize::try_from(data.offset_bytes).expect("small") + 4096;
    broken[start..start + 2 * 4096].fill(0);
    let (whole, outcome) = (read(&file), read(&broken));
    let told = format!(
        "CPU {} at byte {start}: 2 page(s) of zeroes, never written: their events are missing",
        data.cpu
    );
    assert_eq!(outcome.told, [told]);
    let key = (String::new(), data.cpu);
    let (whole, events) = (&whole.events[&key], &outcome.events[&key]);
    let before = whole.iter().zip(events).take_while(|(a, b)| a == b).count();
    assert!(whole.ends_with(&events[before..]), "what follows the zeroes is still read");
    assert!(before > 0 && before < events.len());
}

#[test]
fn nothing_at_all() {
    assert_eq!(
        read(b"").told,
        [
            "not a trace.dat file: it begins with nothing (the file is empty), expected 17 08 44 \"tracing\"; check the file name, or copy the file again"
        ]
    );
    assert_eq!(read(&[0; 100_000]).told.len(), 1);
}
