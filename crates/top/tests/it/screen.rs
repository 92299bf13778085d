//! What a user sees, over a log of a real host with real guests: a nested KVM host on which `greedy` (a busy loop)
//! has the CPU that `starved` (2 ms of work every 20 ms) wants.
//!
//! Goldens are under `golden/`; `TRANSECT_BLESS=1` writes them anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use ratatui::{
    Terminal,
    backend::TestBackend,
    style::{Color, Modifier},
};
use std::{fs, path::PathBuf};
use transect_live::lines;
use transect_top::{After, App, Key, Log, Looks, Moment, Past, Ring, draw};

fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/live/nested.jsonl")
}

fn replay() -> App {
    let mut app = App::new(Past::Log(Box::new(Log::open(&testdata()).unwrap())), Looks::default());
    app.key(Key::Char('L'));
    app
}

fn live(looks: Looks) -> App {
    let mut app = App::new(Past::Seen(Ring::default()), looks);
    let text = fs::read(testdata()).unwrap();
    for snapshot in lines::Reader::new(text.as_slice()) {
        app.push(Moment::new(snapshot.unwrap()));
    }
    app
}

fn keys(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let key = match key {
            '\n' => Key::Enter,
            '\u{1b}' => Key::Esc,
            '\t' => Key::Tab,
            other => Key::Char(other),
        };
        assert_eq!(app.key(key), After::Stay);
    }
}

fn screen(app: &mut App, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    app.resize(width, height);
    terminal.draw(|frame| draw(app, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().clone()
}

fn lines_of(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let backend = screen(app, width, height);
    let buffer = backend.buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn golden(name: &str, app: &mut App, width: u16, height: u16) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/golden/{name}-{width}x{height}.txt"));
    let shown = lines_of(app, width, height).join("\n") + "\n";
    if std::env::var_os("TRANSECT_BLESS").is_some() {
        fs::write(&path, &shown).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(shown, golden, "{}: TRANSECT_BLESS=1 writes it anew", path.display());
}

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 10)];

/// Each view at each size.
fn golden_at_all_sizes(name: &str, way: &str) {
    for (width, height) in SIZES {
        let mut app = replay();
        app.resize(width, height);
        keys(&mut app, way);
        golden(name, &mut app, width, height);
    }
}

#[test]
fn vms_and_groups() {
    golden_at_all_sizes("all", "");
}

#[test]
fn a_vm_s_vcpus() {
    golden_at_all_sizes("vm", "/starved\n\n");
}

#[test]
fn a_vcpu_s_exits_and_antagonists() {
    golden_at_all_sizes("vcpu", "/starved\n\n\n");
}

#[test]
fn cpus_one_after_the_other() {
    golden_at_all_sizes("cpu", "cc");
}

#[test]
fn the_keys() {
    golden_at_all_sizes("help", "?");
}

#[test]
fn what_is_missing() {
    golden_at_all_sizes("missing", "m");
}

#[test]
fn what_rules_found() {
    golden_at_all_sizes("findings", "f");
}

/// A finding is on the first screen and on those of its actor; from the list Enter leads to the actor.
#[test]
fn a_finding_leads_to_its_actor() {
    let mut app = live(Looks::default());
    let all = lines_of(&mut app, 120, 40);
    let told = "starved vcpu0 waited ";
    assert!(all[2].contains("finding") && all[2].contains(told), "{}", all[2]);
    keys(&mut app, "f");
    let list = lines_of(&mut app, 120, 40);
    assert!(list[2].starts_with(told) && list[3].starts_with("try: pin it"), "{list:#?}");
    keys(&mut app, "\n");
    let one = lines_of(&mut app, 120, 40);
    assert!(one[1].ends_with("starved vCPU 0"), "{}", one[1]);
    assert!(one.iter().any(|line| line.contains("(f):") && line.contains(told)), "{one:#?}");
    // A page without findings has no such line.
    keys(&mut app, "\u{1b}\u{1b}t/qemu\n\n");
    let other = lines_of(&mut app, 120, 40);
    assert!(!other.iter().any(|line| line.contains("(f):")), "{other:#?}");
}

/// The heaviest antagonist is named on the first screen and on the vCPU's own.
#[test]
fn the_hog_is_named() {
    let mut app = live(Looks::default());
    let all = lines_of(&mut app, 80, 24);
    let starved = all.iter().find(|line| line.starts_with("starved")).unwrap();
    assert!(starved.contains("9% greedy"), "{starved}");
    keys(&mut app, "/starved\n\n\n");
    let one = lines_of(&mut app, 80, 24);
    let ways = one.iter().position(|line| line.starts_with("ANTAGONISTS")).unwrap();
    assert!(one[ways + 1].starts_with("greedy vCPU 0"), "{one:#?}");
    // And from there to the hog, for which it waited.
    keys(&mut app, "\t\n");
    let hog = lines_of(&mut app, 80, 24);
    assert!(hog[1].ends_with("greedy vCPU 0"), "{hog:#?}");
    let waiters = hog.iter().position(|line| line.starts_with("WAITERS")).unwrap();
    assert!(hog[waiters + 1].starts_with("starved vCPU 0"), "{hog:#?}");
}

#[test]
fn colours_mark_waiting_and_nothing_else() {
    let mut app = live(Looks::default());
    let coloured = |backend: &TestBackend| -> Vec<(u16, Color)> {
        let buffer = backend.buffer();
        let cells = (0..24).flat_map(|y| (0..80).map(move |x| (x, y)));
        let mut rows: Vec<_> = cells
            .filter(|at| buffer[*at].fg != Color::Reset)
            .map(|(x, y)| (y, buffer[(x, y)].fg))
            .collect();
        rows.dedup();
        rows
    };
    // The cursor's row is reversed instead; the second one is `starved`, the third waits 3.5 %.
    let first = screen(&mut app, 80, 24);
    assert_eq!(coloured(&first), [(5, Color::Red)]);
    let at = (0..80).find(|x| first.buffer()[(*x, 5)].fg == Color::Red).unwrap();
    assert!(first.buffer()[(at, 5)].modifier.contains(Modifier::BOLD));
    assert!(first.buffer()[(0, 4)].modifier.contains(Modifier::REVERSED));
    let mut plain = live(Looks { is_plain: true, ..Looks::default() });
    let plain = screen(&mut plain, 80, 24);
    assert_eq!(coloured(&plain), []);
    assert!(plain.buffer()[(at, 5)].modifier.contains(Modifier::BOLD), "told without colour, too");
}

#[test]
fn without_utf8_it_is_ascii() {
    let mut app = live(Looks { is_ascii: true, ..Looks::default() });
    for way in ["", "c", "?", "m", "\u{1b}t", "\n"] {
        keys(&mut app, way);
        for line in lines_of(&mut app, 100, 30) {
            assert!(line.is_ascii(), "{line}");
        }
    }
    golden("ascii", &mut live(Looks { is_ascii: true, ..Looks::default() }), 80, 24);
}

#[test]
fn one_goes_back_and_forth_and_time_goes_on() {
    let mut app = live(Looks::default());
    let top = |app: &mut App| lines_of(app, 80, 24)[0].clone();
    let newest = top(&mut app);
    assert!(newest.contains("LIVE 01:14:23 UTC"), "{newest}");
    keys(&mut app, "hh");
    let before = top(&mut app);
    assert!(before.ends_with("PAUSED 01:14:21 UTC (-2s)"), "{before}");
    // A new window does not move what is looked at.
    let text = fs::read(testdata()).unwrap();
    let next = lines::Reader::new(text.as_slice()).next().unwrap().unwrap();
    app.push(Moment::new(next));
    assert!(top(&mut app).contains("PAUSED 01:14:21 UTC"), "{}", top(&mut app));
    keys(&mut app, "[[");
    assert!(top(&mut app).contains("PAUSED 01:14:17 UTC"));
    let bottom = lines_of(&mut app, 80, 24)[23].clone();
    assert!(bottom.starts_with("this is the oldest window"), "{bottom}");
    keys(&mut app, " ");
    assert!(top(&mut app).contains("LIVE 01:14:17 UTC"), "the one pushed last: {}", top(&mut app));
    keys(&mut app, " ");
    assert!(top(&mut app).contains("PAUSED"));
    keys(&mut app, "L");
    assert!(top(&mut app).contains("LIVE"));
}

#[test]
fn a_filter_that_nothing_matches_says_so() {
    let mut app = replay();
    keys(&mut app, "/nobody");
    let typing = lines_of(&mut app, 80, 24);
    assert!(typing[23].starts_with("/nobody_"), "{typing:#?}");
    assert!(typing[4].starts_with("none of 3 rows matches the filter"), "{typing:#?}");
    keys(&mut app, "\n");
    let kept = lines_of(&mut app, 80, 24);
    assert!(kept[1].contains("filter \"nobody\" (Esc: clear)"), "{kept:#?}");
    keys(&mut app, "\u{1b}");
    assert!(lines_of(&mut app, 80, 24)[5].starts_with("starved"));
    keys(&mut app, "/x\u{1b}");
    assert!(lines_of(&mut app, 80, 24)[5].starts_with("starved"), "Esc takes it back");
}

#[test]
fn sorting_goes_from_column_to_column() {
    let mut app = replay();
    let names = |app: &mut App| -> Vec<String> {
        let lines = lines_of(app, 80, 24);
        lines[4..7].iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&mut app), ["/", "starved", "greedy"]);
    keys(&mut app, "<<");
    assert_eq!(names(&mut app), ["/", "greedy", "starved"], "by CPU%");
    keys(&mut app, "r");
    assert_eq!(names(&mut app), ["starved", "greedy", "/"]);
    keys(&mut app, "<<");
    assert_eq!(names(&mut app), ["/", "greedy", "starved"], "by name");
}

#[test]
fn a_cut_log_is_shown_to_its_last_whole_window() {
    let scratch = tempfile::tempdir().unwrap();
    let open = |name: &str, text: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, text).unwrap();
        Log::open(&path)
    };
    let text = fs::read(testdata()).unwrap();
    let log = open("cut.jsonl", &text[..text.len() - 1000]).unwrap();
    assert_eq!(log.len(), 6);
    let note = log.note().unwrap().to_owned();
    assert!(note.contains("the log ends inside a window") && note.starts_with("line "), "{note}");
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    let line: usize = note[5..].split(':').next().unwrap().parse().unwrap();
    assert!((lines - 9..=lines).contains(&line), "{note}: of {lines}");
    let mut app = App::new(Past::Log(Box::new(log)), Looks::default());
    let bottom = &lines_of(&mut app, 120, 24)[23];
    assert!(bottom.starts_with("line ") && bottom.contains("ends inside a window"), "{bottom}");

    // A window that is broken in the middle is told where it would be.
    let broken = String::from_utf8(text.clone()).unwrap();
    let third = broken.match_indices("{\"table\":\"snapshot\"").nth(2).unwrap().0;
    let mut broken = broken.into_bytes();
    broken[third + 200..third + 210].fill(b'!');
    let mut app =
        App::new(Past::Log(Box::new(open("broken.jsonl", &broken).unwrap())), Looks::default());
    keys(&mut app, "ll");
    let shown = lines_of(&mut app, 100, 24);
    assert!(
        shown[1].contains("Cannot show this window") && shown[2].starts_with("line "),
        "{shown:#?}"
    );
    keys(&mut app, "l");
    assert!(lines_of(&mut app, 80, 24)[5].starts_with("starved"), "the next one is whole");

    let error = |name: &str, text: &[u8]| open(name, text).map(|_| ()).unwrap_err().to_string();
    assert!(error("empty.jsonl", b"").ends_with("contains no complete window"));
    assert!(error("x.csv", b"a,b\n1,2\n").contains("x.csv: line 1: not a JSON object"));
    assert!(error("short.jsonl", &text[..300]).contains("ends inside a window"));
}

#[test]
fn a_log_plays_to_its_end() {
    let mut app = replay();
    keys(&mut app, " ");
    let mut played = 0;
    while app.plays_every_ns() == Some(1_000_000_000) {
        played += 1;
        assert!(lines_of(&mut app, 80, 24)[0].contains(&format!("PLAYING {played}/7")));
        app.play();
    }
    assert_eq!(played, 6);
    assert!(lines_of(&mut app, 80, 24)[0].contains("LOG 7/7"));
}

#[test]
fn before_the_first_window_and_after_the_last_it_says_so() {
    let mut app = App::new(Past::Seen(Ring::default()), Looks::default());
    assert!(lines_of(&mut app, 80, 24)[1].starts_with("waiting for the first window"));
    for key in "\nctj<r hlL?\u{1b}m\u{1b}".chars() {
        keys(&mut app, &key.to_string());
        lines_of(&mut app, 80, 24);
    }
    app.end("the kernel took the programs away".to_owned());
    assert!(lines_of(&mut app, 80, 24)[23].starts_with("the kernel took"));
}

#[test]
fn small_terminals_are_told() {
    let mut app = replay();
    assert_eq!(lines_of(&mut app, 19, 6)[0], "needs 20x6 or more");
    assert_eq!(lines_of(&mut app, 60, 5)[0], "needs 20x6 or more");
    let small = lines_of(&mut app, 20, 6);
    assert!(small[2].starts_with("/") && small[3].starts_with("starved"), "{small:#?}");
}

mod any_keys {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Key> {
        let chars = "q?m/cCt<>r hl[]Ljkgx0g";
        prop_oneof![
            4 => prop::sample::select(chars.chars().collect::<Vec<_>>()).prop_map(Key::Char),
            4 => prop::sample::select(vec![
                Key::Enter, Key::Esc, Key::Backspace, Key::Up, Key::Down, Key::Left, Key::Right,
                Key::PageUp, Key::PageDown, Key::Home, Key::End, Key::Tab, Key::BackTab,
            ]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever is pressed at whatever size: it draws, and within the terminal.
        #[test]
        fn nothing_breaks_the_screen(
            steps in prop::collection::vec((key(), 1_u16..130, 1_u16..45), 1..40)
        ) {
            let mut app = live(Looks::default());
            for (key, width, height) in steps {
                app.resize(width, height);
                app.key(key);
                screen(&mut app, width, height);
            }
        }
    }
}

/// What nobody counted is no zero.
#[test]
fn a_vm_whose_vcpus_are_not_known_has_dashes() {
    let text = fs::read(testdata()).unwrap();
    let mut snapshot = lines::Reader::new(text.as_slice()).next().unwrap().unwrap();
    let starved = snapshot.machines.iter().find(|row| row.name == "starved").unwrap().machine_id;
    snapshot.actors.retain(|row| row.window.machine_id != starved || row.window.vcpu.is_none());
    let vm = snapshot.actors.iter_mut().find(|row| row.window.machine_id == starved).unwrap();
    (vm.detail.threads, vm.window.gotten_ns, vm.window.waited_ns) = (0, 0, 0);
    snapshot.missing.push(transect_live::Missing {
        metric: "vcpu_threads".to_owned(),
        machine_id: Some(starved),
        why: "nothing tells".to_owned(),
    });
    let mut app = App::new(Past::Seen(Ring::default()), Looks::default());
    app.push(Moment::new(snapshot));
    let all = lines_of(&mut app, 80, 24);
    let row = all.iter().find(|line| line.starts_with("starved")).unwrap();
    assert!(row.matches('–').count() >= 5 && !row.contains('0'), "{row}");
    keys(&mut app, "/starved\n\n");
    let vm = lines_of(&mut app, 80, 24);
    assert!(
        vm.iter().any(|line| line.starts_with("missing vcpu_threads: nothing tells")),
        "{vm:#?}"
    );
}

/// A container stands for the control groups in it, under its own name, with its limit.
#[test]
fn containers_have_their_names_and_limits() {
    let text = fs::read(testdata()).unwrap();
    let mut snapshot = lines::Reader::new(text.as_slice()).next().unwrap().unwrap();
    let (ts, dur, machine_id) = (snapshot.ts, snapshot.dur, transect_model::ids::MachineId(0));
    let cgroup = "/kubepods.slice/pod7/abc".to_owned();
    // The threads of `/` are its, one level below.
    for thread in &mut snapshot.threads {
        thread.cgroup = Some(format!("{cgroup}/inner"));
    }
    for actor in snapshot.actors.iter_mut().filter(|actor| actor.window.cgroup.is_some()) {
        actor.window.cgroup = Some(format!("{cgroup}/inner"));
    }
    let container = transect_live::ContainerWindow {
        ts,
        dur,
        machine_id,
        kind: "kubernetes".to_owned(),
        name: "nginx".to_owned(),
        id: None,
        pod: Some("web-1".to_owned()),
        namespace: Some("shop".to_owned()),
        cgroup: cgroup.clone(),
        parent: None,
        vm_machine_id: None,
        threads: 5,
        executions: 10,
        gotten_ns: dur / 2,
        waited_ns: dur / 4,
        preempted_ns: dur / 4,
        waking_ns: 0,
        blocked_ns: 0,
        unknown_ns: 0,
        guest_ns: 0,
        exits: 0,
        migrations: 0,
        waits: 0,
        wait_p50_ns: None,
        wait_p99_ns: None,
        wait_max_ns: 0,
    };
    snapshot.containers.push((container, transect_live::Histogram::default()));
    snapshot.pressure.push(transect_live::PressureWindow {
        ts,
        dur,
        machine_id,
        cgroup: Some(cgroup),
        quota_ns: Some(50_000_000),
        period_ns: Some(100_000_000),
        periods: Some(10),
        periods_throttled: Some(9),
        throttled_ns: Some(dur * 3 / 10),
        cpu_some_ns: Some(dur / 10),
        cpu_full_ns: None,
        io_some_ns: None,
        io_full_ns: None,
        memory_some_ns: None,
        memory_full_ns: None,
    });
    let mut app = App::new(Past::Seen(Ring::default()), Looks::default());
    app.push(Moment::new(snapshot));
    let all = lines_of(&mut app, 150, 24);
    let row = all
        .iter()
        .find(|line| line.starts_with("shop/web-1/nginx") && line.contains(" kubernetes "));
    let row = row.unwrap_or_else(|| panic!("{all:#?}"));
    for value in [" 50.0 ", " 25.0 ", " 30.0 ", "% greedy"] {
        assert!(row.contains(value), "{value}: {row}");
    }
    assert!(!all.iter().any(|line| line.contains("inner")), "{all:#?}");
    keys(&mut app, "/nginx\n\n");
    let one = lines_of(&mut app, 130, 24);
    assert!(one[1].starts_with("all › shop/web-1/nginx"), "{one:#?}");
    assert!(
        one.iter().any(|line| line.starts_with(
            "limit 0.50 CPUs  throttled 30.0%  in 9 of 10 periods  CPU pressure 10.0%"
        )),
        "{one:#?}"
    );
    assert!(one.iter().any(|line| line.starts_with("starved vCPU 0")), "{one:#?}");
}
