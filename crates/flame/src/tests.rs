//! Rows by hand, and the exact text that they become.

use crate::sample::{BACKEND, DB, HOST, WEB, packet, request, sample, stack, tables, thread};
use crate::{FlameError, Flames, GroupKey, write_folded, write_page, write_text};
use transect_model::ids::{BlockDevice, MachineId};
use transect_model::stack::StackPoint::{Accept, Issue, Receive, Transmit, Wake};
use transect_model::table::Tables;

fn named(flames: Flames) -> Vec<(String, Flames)> {
    vec![("demo.transect".to_owned(), flames)]
}

fn folded(flames: Flames) -> Vec<String> {
    let mut lines = Vec::new();
    write_folded(&named(flames), &mut lines).unwrap();
    String::from_utf8(lines).unwrap().lines().map(str::to_owned).collect()
}

fn text(flames: Flames, top: usize) -> String {
    let mut text = Vec::new();
    write_text(&named(flames), top, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn page(flames: Flames) -> String {
    let mut page = Vec::new();
    write_page(&named(flames), &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// All stacks that the packet and the request can have.
fn stacked() -> Tables {
    let mut tables = tables();
    tables.stack_samples = vec![
        sample((WEB, Transmit, 100), 7, Some(1)),
        sample((HOST, Wake, 150), 60, Some(2)),
        sample((HOST, Receive, 300), 70, Some(3)),
        sample((HOST, Transmit, 350), 70, Some(3)),
        sample((HOST, Accept, 500), 0, Some(3)),
        sample((DB, Receive, 700), 0, Some(1)),
        sample((WEB, Issue, 2_010), 7, Some(1)),
        sample((HOST, Wake, 2_050), 60, Some(2)),
        sample((HOST, Issue, 2_210), 70, Some(3)),
        sample((HOST, Accept, 2_760), 0, Some(3)),
    ];
    tables.stack_samples[0].user_stack_id = Some(4);
    tables.stacks = [
        stack(WEB, 1, &["start_xmit", "tcp_sendmsg"]),
        stack(WEB, 4, &["send", "main"]),
        stack(HOST, 2, &["ioeventfd_write", "vmx_handle_exit"]),
        stack(HOST, 3, &["inner", "outer"]),
        stack(DB, 1, &["napi_poll"]),
    ]
    .concat();
    tables
}

#[test]
fn every_stage_has_the_stack_of_its_first_event() {
    let flames = Flames::gather(&stacked()).unwrap();
    let expected = "\
packets web → db;send..kick;nginx;main;send;tcp_sendmsg_[k];start_xmit_[k] 50
packets web → db;kick..pickup;CPU 0/KVM;vmx_handle_exit_[k];ioeventfd_write_[k] 100
packets web → db;host_receive..host_send;tid 70;outer_[k];inner_[k] 50
packets web → db;host_send..fetch;tid 70;outer_[k];inner_[k] 100
packets web → db;signal..guest_irq;idle;outer_[k];inner_[k] 100
packets web → db;receive..wake;idle;napi_poll_[k] 100
requests web 254:0;issue..kick;nginx;tcp_sendmsg_[k];start_xmit_[k] 40
requests web 254:0;kick..pickup;CPU 0/KVM;vmx_handle_exit_[k];ioeventfd_write_[k] 100
requests web 254:0;host_issue..host_complete;tid 70;outer_[k];inner_[k] 500
requests web 254:0;signal..guest_irq;idle;outer_[k];inner_[k] 40";
    assert_eq!(folded(flames), expected.lines().collect::<Vec<_>>());
}

#[test]
fn stages_add_up_to_the_rows_and_stacks_to_their_stage() {
    let mut tables = stacked();
    let mut other = packet();
    // No sample has this time.
    (other.send_ts, other.ts, other.dur) = (Some(101), 101, Some(899));
    tables.packets.push(other);
    let flames = Flames::gather(&tables).unwrap();
    assert_eq!(
        flames.groups.iter().map(|group| group.total_ns).collect::<Vec<_>>(),
        [Some(900 + 899), Some(1_000)]
    );
    let names: Vec<&str> =
        flames.groups[0].stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names[..3], ["send..kick", "kick..pickup", "pickup..host_receive"]);
    for stage in flames.groups.iter().flat_map(|group| &group.stages) {
        let Some(stacks) = &stage.stacks else { continue };
        assert_eq!(stacks.folded.iter().map(|stack| stack.ns).sum::<i64>(), stage.total_ns);
    }
    let first = &flames.groups[0].stages[0];
    assert_eq!((first.rows, first.total_ns), (2, 99));
    let stacks = first.stacks.as_ref().unwrap();
    assert_eq!(stacks.found_ns, 50);
    assert_eq!((stacks.folded[0].frames.as_str(), stacks.folded[0].ns), ("[no stack]", 49));
    let pickup = &flames.groups[0].stages[2];
    assert_eq!((pickup.begin, &pickup.stacks), ("pickup", &None));
}

#[test]
fn a_stack_that_was_not_kept_has_a_frame() {
    let mut tables = stacked();
    tables.stack_samples[0].kernel_stack_id = None;
    // Its frames are missing.
    tables.stack_samples[5].kernel_stack_id = Some(99);
    let mut flames = Flames::gather(&tables).unwrap();
    flames.retain_stages(&["send".to_owned(), "receive..wake".to_owned()]);
    assert_eq!(flames.groups[0].stages[0].stacks.as_ref().unwrap().found_ns, 0);
    assert_eq!(
        folded(flames),
        [
            "packets web → db;send..kick;nginx;main;send;[stack not kept] 50",
            "packets web → db;receive..wake;idle;[stack not kept] 100",
        ]
    );
}

#[test]
fn the_waking_of_the_back_end_is_preferred_to_the_first() {
    let mut tables = stacked();
    let mut other = sample((HOST, Wake, 150), 61, Some(3));
    other.ts = 149;
    tables.stack_samples.push(other);
    let kick = |tables: &Tables| {
        let mut flames = Flames::gather(tables).unwrap();
        flames.retain_groups(|key| key == GroupKey::Packets(Some(WEB), Some(DB)));
        flames.retain_stages(&["kick".to_owned()]);
        folded(flames)
    };
    assert_eq!(kick(&tables), ["packets web → db;kick..pickup;tid 61;outer_[k];inner_[k] 100"]);
    tables.stack_samples[1].woken_tid = Some(BACKEND);
    let expected =
        "packets web → db;kick..pickup;CPU 0/KVM;vmx_handle_exit_[k];ioeventfd_write_[k] 100";
    assert_eq!(kick(&tables), [expected]);
}

#[test]
fn a_packet_of_the_host_or_from_outside_has_the_stacks_of_the_host() {
    let mut tables = stacked();
    let row = &mut tables.packets[0];
    (row.machine_id, row.send_ts, row.kick_ts, row.pickup_ts) = (HOST, None, None, None);
    (row.ts, row.dur) = (300, Some(700));
    let mut flames = Flames::gather(&tables).unwrap();
    assert_eq!(flames.groups[0].key, GroupKey::Packets(None, Some(DB)));
    flames.retain_stages(&["host_receive".to_owned(), "signal".to_owned()]);
    assert_eq!(
        folded(flames)[..2],
        [
            "packets outside → db;host_receive..host_send;tid 70;outer_[k];inner_[k] 50",
            "packets outside → db;signal..guest_irq;idle;outer_[k];inner_[k] 100",
        ]
    );
}

#[test]
fn groups_are_selected_by_machine() {
    let packets = GroupKey::Packets(Some(WEB), None);
    assert!(packets.has_machine(WEB) && !packets.has_machine(DB));
    let requests = GroupKey::Requests(MachineId(3), BlockDevice(1));
    assert!(requests.has_machine(MachineId(3)) && !requests.has_machine(WEB));
}

#[test]
fn equal_stacks_of_threads_of_one_name_are_one() {
    let mut tables = stacked();
    tables.threads.push(thread(WEB, 8, "nginx"));
    let mut other = packet();
    (other.send_ts, other.ts, other.dur) = (Some(110), 110, Some(890));
    tables.packets.push(other);
    let mut second = sample((WEB, Transmit, 110), 8, Some(5));
    second.user_stack_id = Some(4);
    tables.stack_samples.push(second);
    tables.stacks.extend(stack(WEB, 5, &["start_xmit", "tcp_sendmsg"]));
    let mut flames = Flames::gather(&tables).unwrap();
    flames.retain_stages(&["send".to_owned()]);
    assert_eq!(
        folded(flames),
        ["packets web → db;send..kick;nginx;main;send;tcp_sendmsg_[k];start_xmit_[k] 90"]
    );
}

#[test]
fn lengths_that_no_recording_has_are_an_error() {
    let mut tables = stacked();
    tables.io_requests[0].issue_ts = Some(1_999);
    let error = FlameError { stage: "submit..issue".to_owned() };
    assert_eq!(Flames::gather(&tables), Err(error));
    let mut long = request();
    long.run_ts = Some(3 << 61);
    tables.io_requests = vec![long.clone(), long];
    let error = FlameError { stage: "wake..run".to_owned() };
    assert_eq!(Flames::gather(&tables), Err(error));
}

#[test]
fn hostile_names_stay_text() {
    const NAME: &str = "# <script>alert(1)</script>;\"x' \u{1b}[2J\n]]>&\u{202e} 5 6";
    let mut tables = stacked();
    tables.threads = vec![thread(WEB, 7, NAME)];
    tables.machines[1].name = NAME.to_owned();
    tables.stacks.iter_mut().for_each(|frame| frame.symbol = NAME.to_owned());
    let flames = Flames::gather(&tables).unwrap();
    let lines = folded(flames.clone());
    let shown = "# <script>alert(1)</script>:\"x' \\x1b[2J\\n]]>&\\u{202e} 5 6";
    let expected = format!(
        "packets {shown} → db;send..kick;{shown};{shown};{shown};{shown}_[k];{shown}_[k] 50"
    );
    assert_eq!(lines[0], expected);
    assert_eq!(lines.len(), 10);

    let page = page(flames);
    assert_eq!(page.matches("<script").count(), 1, "the page's own");
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    assert_eq!(page.matches("class=\"graph\"").count(), 10);
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    // Text and title of a box, and nothing else.
    assert!(
        page.lines()
            .filter(|line| line.starts_with("<div class=\"k "))
            .all(|line| { line.matches('"').count() == 10 && line.matches('<').count() == 2 })
    );
}

#[test]
fn no_width_of_a_graph_is_lost() {
    let mut tables = stacked();
    tables.threads = vec![thread(WEB, 7, "# 1 2")];
    tables.stacks.iter_mut().for_each(|frame| frame.symbol = "3 4".to_owned());
    let mut flames = Flames::gather(&tables).unwrap();
    flames.retain_stages(&["send".to_owned()]);
    let page = page(flames);
    // The stage, the thread, the program's frames and the kernel's: each is as wide as the stage.
    let widths = page.lines().filter_map(|line| line.split("data-w=\"").nth(1));
    let widths: Vec<&str> = widths.filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(widths, ["50"; 6]);
}

#[test]
fn the_page_is_the_same_each_time_and_needs_no_network() {
    let tables = stacked();
    let [one, other] = [0, 1].map(|_| page(Flames::gather(&tables).unwrap()));
    assert_eq!(one, other);
    let links =
        ["src=&quot;http", "href=&quot;http", "src=\"http", "href=\"http", "@import", "url(http"];
    assert!(links.iter().all(|link| !one.contains(link)));
    assert!(
        one.contains("<td>send..kick</td><td>1</td><td>50 ns</td><td>5.56 %</td><td>100 %</td>")
    );
    assert!(one.contains(
        "<td>pickup..host_receive</td><td>1</td><td>50 ns</td><td>5.56 %</td><td>–</td>"
    ));
}

#[test]
fn text_has_the_widest_stacks_of_each_stage() {
    let mut tables = stacked();
    let mut other = packet();
    (other.send_ts, other.ts, other.dur) = (Some(120), 120, Some(880));
    tables.packets.push(other);
    let deep = ["a", "b", "c", "d", "e", "f", "g", "h"];
    tables.stacks.retain(|frame| frame.machine_id != WEB || frame.stack_id != 1);
    tables.stacks.extend(stack(WEB, 1, &deep));
    let mut flames = Flames::gather(&tables).unwrap();
    flames.retain_groups(|key| key.has_machine(DB));
    flames.retain_stages(&["send".to_owned(), "pickup".to_owned()]);
    let expected = "\
packets web → db
  send..kick  80 ns (4.49 %) in 2 packets, 62.5 % with a stack
     62.5 %  nginx: a ← b ← c ← d ← e ← f ← … 4 more
     37.5 %  [no stack]
  pickup..host_receive  100 ns (5.62 %) in 2 packets; begins with no event that has a stack
";
    assert_eq!(text(flames.clone(), 3), expected);
    let one = text(flames, 1);
    assert!(one.contains("     37.5 %  in 1 other stack\n"), "{one}");
}

#[test]
fn rows_without_a_length_are_not_counted() {
    let mut tables = tables();
    tables.io_requests[0].dur = None;
    tables.packets.clear();
    assert_eq!(Flames::gather(&tables), Ok(Flames::default()));
}
