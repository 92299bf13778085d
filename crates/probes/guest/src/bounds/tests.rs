use super::*;
use crate::proto::{CompactRun, Stats, Welcome, Words};

const PAGE: u32 = 4096;

fn facts() -> MachineFacts {
    MachineFacts {
        nodename: "web".into(),
        cpu_count: 2,
        page_bytes: PAGE,
        ..MachineFacts::default()
    }
}

fn welcome(facts: MachineFacts) -> Frame<'static> {
    Frame::Welcome(Welcome { version: 2, agent: "0.1.0".into(), facts })
}

fn started(page_bytes: u32) -> Frame<'static> {
    Frame::Started(Started { clock: "mono".into(), page_bytes, ..Started::default() })
}

fn words(cpu: u32, lost: u64) -> Frame<'static> {
    Frame::Words(Words { cpu, side: 0, position: 0, sync_ns: 0, lost, words: &[0; 8] })
}

/// A guest whose source is known.
fn recording(bounds: Bounds) -> Account {
    recording_as(bounds, &started(PAGE))
}

fn recording_compact(bounds: Bounds) -> Account {
    let compact = Some(CompactRun::default());
    let run = Started { clock: "mono".into(), page_bytes: 1, compact, ..Started::default() };
    recording_as(bounds, &Frame::Started(run))
}

fn recording_as(bounds: Bounds, started: &Frame<'_>) -> Account {
    let mut account = Account::new(bounds);
    account.connect();
    account.admit(&welcome(facts())).unwrap();
    account.admit(started).unwrap();
    account.count_link().unwrap();
    account.begin_source().unwrap();
    account.enter(Phase::Recording);
    account
}

/// The first error of the frame, sent up to so many times.
fn sent(account: &mut Account, frame: &Frame<'_>, times: usize) -> String {
    let mut results = (0..times).map(|_| account.admit(frame));
    results.find_map(Result::err).map_or_else(String::new, |excess| excess.to_string())
}

#[test]
fn what_an_honest_guest_sends_is_admitted() {
    let mut account = Account::new(Bounds::default());
    account.connect();
    account.admit(&welcome(facts())).unwrap();
    for number in 0..3000 {
        let name = format!("events/a/{number}/format");
        account.admit(&Frame::Meta { name, more: false, bytes: &[0; 2000] }).unwrap();
    }
    for _ in 0..320 {
        let name = "kallsyms".to_owned();
        account.admit(&Frame::Meta { name, more: true, bytes: &[0; 48 << 10] }).unwrap();
    }
    account.admit(&started(PAGE)).unwrap();
    account.begin_source().unwrap();
    account.enter(Phase::Recording);
    let pages = vec![0; 65536];
    for cpu in 0..2 {
        account.admit(&Frame::Data { cpu, pages: &pages }).unwrap();
    }
    let cpus = vec![CpuStats { cpu: 1, overrun: 1 << 30, ..CpuStats::default() }];
    account.admit(&Frame::Stats(Stats { cpus, ..Stats::default() })).unwrap();
}

/// What a guest says of itself is checked before anything is made of it.
#[test]
fn impossible_machines_are_refused() {
    type Change = fn(&mut MachineFacts);
    let changes: [(&str, Change); 5] = [
        ("the number of CPUs 4294967295", |facts| facts.cpu_count = u32::MAX),
        ("the number of CPUs 0", |facts| facts.cpu_count = 0),
        ("host name of 60000 bytes", |facts| facts.nodename = "x".repeat(60_000).into()),
        ("more than 64 trace clocks", |facts| facts.clocks = vec![Untrusted::default(); 30_000]),
        ("problem of 60000 bytes", |facts| facts.problem = "x".repeat(60_000).into()),
    ];
    for (expected, change) in changes {
        let mut account = Account::new(Bounds::default());
        let mut machine = facts();
        change(&mut machine);
        let error = sent(&mut account, &welcome(machine), 1);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    for bytes in [0, 1, 4097, 1 << 30] {
        let mut account = Account::new(Bounds::default());
        account.admit(&welcome(facts())).unwrap();
        let error = sent(&mut account, &started(bytes), 1);
        assert!(error.contains("the sub-buffer size"), "{bytes}: {error}");
    }
}

#[test]
fn events_before_the_start_are_refused() {
    let mut account = Account::new(Bounds::default());
    account.admit(&welcome(facts())).unwrap();
    for frame in [words(0, 0), Frame::Data { cpu: 0, pages: &[0; PAGE as usize] }] {
        let error = sent(&mut account, &frame, 1);
        assert!(error.contains("events before the start"), "{error}");
    }
}

/// A second description does not change what the first allowed.
#[test]
fn the_first_description_stands() {
    let mut account = recording(Bounds::default());
    account.admit(&welcome(MachineFacts { cpu_count: 8000, ..facts() })).unwrap();
    let page = Frame::Data { cpu: 2, pages: &[0; PAGE as usize] };
    assert!(sent(&mut account, &page, 1).contains("the guest has 2 CPUs"));
    account.admit(&started(8192)).unwrap();
    account.admit(&Frame::Data { cpu: 0, pages: &[0; PAGE as usize] }).unwrap();
}

#[test]
fn memory_is_bounded_before_start_and_after_stop() {
    let empty = |number: usize| Frame::Meta { name: number.to_string(), more: true, bytes: &[] };
    for phase in [Phase::Starting, Phase::Ending] {
        let mut account = recording(Bounds::default());
        account.enter(phase);
        let error = (0..100_000).find_map(|number| account.admit(&empty(number)).err());
        assert!(error.unwrap().to_string().contains("8192 descriptive files"));
        account.enter(phase);
        let same = Frame::Meta { name: String::new(), more: true, bytes: &[] };
        assert!(sent(&mut account, &same, 1 << 20).contains("bytes of descriptive files"));
    }
    let mut account = recording(Bounds::default());
    account.enter(Phase::Starting);
    let pages = vec![0; 65536];
    let error = sent(&mut account, &Frame::Data { cpu: 0, pages: &pages }, 100);
    assert!(error.contains("4194304 bytes before the start"), "{error}");
}

#[test]
fn disk_files_and_frames_are_bounded_while_recording() {
    let bounds = Bounds { disk_bytes: 1 << 20, ..Bounds::default() };
    let pages = vec![0; 65536];
    let data = Frame::Data { cpu: 0, pages: &pages };
    assert!(sent(&mut recording(bounds), &data, 17).contains("its part of the disk"));
    assert!(
        sent(&mut recording_compact(bounds), &words(0, 0), 1 << 20)
            .contains("its part of the disk")
    );
    let reading = crate::stamp::TscReading {
        clock: crate::stamp::StampClock::Mono,
        tsc_before: 1,
        ns: 2,
        tsc_after: 3,
    };
    let error = sent(&mut recording(bounds), &Frame::Reading(reading), 1 << 20);
    assert!(error.contains("100 clock readings per second"), "{error}");
    for frame in
        [Frame::Stats(Stats::default()), Frame::Stopped, Frame::Data { cpu: 0, pages: &[] }]
    {
        let error = sent(&mut recording(Bounds::default()), &frame, 1 << 20);
        assert!(error.contains("1000 frames without events per second"), "{error}");
    }
    // Each boot of the guest makes files anew.
    let mut account = recording(Bounds { files: 100, ..Bounds::default() });
    let error =
        (0..1000).find_map(|_| account.begin_source().and_then(|()| account.admit(&data)).err());
    assert!(error.unwrap().to_string().contains("100 files"));
}

#[test]
fn connections_are_bounded() {
    let mut account = recording(Bounds::default());
    let error = (0..2000).find_map(|_| account.count_link().err()).unwrap();
    assert_eq!(error.to_string(), "it sent more than 1000 connections");
    let error = (0..2000).find_map(|_| account.may_break_again().err()).unwrap();
    assert_eq!(error.to_string(), "it sent more than 7 streams with protocol errors");
}

/// 18446744074 G lost events were reported once.
#[test]
fn impossible_counts_are_refused() {
    let cpus = vec![CpuStats { cpu: 0, overrun: u64::MAX, ..CpuStats::default() }];
    let stats = Frame::Stats(Stats { cpus, ..Stats::default() });
    let mut account = recording_compact(Bounds::default());
    for frame in [stats, words(0, u64::MAX / 2)] {
        assert!(sent(&mut account, &frame, 1).contains("the count of lost events"));
    }
    let log = LogTotals { cpu: 0, lost: u64::MAX, ..LogTotals::default() };
    assert!(account.totals(&[log]).is_err());
    assert!(account.totals(&[LogTotals { cpu: 2, ..LogTotals::default() }]).is_err());
    assert!(account.totals(&[LogTotals::default(); 7]).is_err());
    account.totals(&[LogTotals::default(); 6]).unwrap();
}

#[test]
fn guests_share_half_of_the_free_space() {
    let share = |free, guests| Bounds::default().with_share_of_disk(free, guests).disk_bytes;
    assert_eq!((share(Some(100), 1), share(Some(100), 5), share(Some(100), 0)), (50, 10, 50));
    assert_eq!(share(None, 3), Bounds::default().disk_bytes);
}

#[test]
fn records_are_those_of_the_collector() {
    let mut account = recording_compact(Bounds::default());
    account.admit(&words(1, 5)).unwrap();
    let page = Frame::Data { cpu: 0, pages: &[0; PAGE as usize] };
    assert!(sent(&mut account, &page, 1).contains("pages from a compact collector"));
    let mut account = recording(Bounds::default());
    assert!(sent(&mut account, &words(1, 5), 1).contains("records from a full collector"));
}
