use super::*;
use crate::net::bench_of::{job, run, run_crew, value};
use transect_bench_core::{RunResult, crew};

fn is_missing() -> bool {
    let refused = Iperf::Tcp.can_run(&job(&Iperf::Tcp, Role::Whole, &[])).err();
    if let Some(refusal) = &refused {
        eprintln!("skipped: {refusal}");
    }
    refused.is_some()
}

const SHORT: (&str, Param) = ("seconds", Param::Int(1));

#[test]
fn tcp_runs_on_loopback_both_ways() {
    if is_missing() {
        return;
    }
    for direction in ["forward", "reverse"] {
        let params =
            [SHORT, ("threads", Param::Int(2)), ("direction", Param::Text(direction.into()))];
        let job = job(&Iperf::Tcp, Role::Whole, &params);
        let (metrics, _) = run(&Iperf::Tcp, &job, &tempfile::tempdir().unwrap()).unwrap();
        assert_eq!(metrics[0].name, "throughput", "{direction}");
        assert!(metrics[0].value > 1e6, "{direction}: {metrics:?}");
    }
}

#[test]
fn udp_counts_what_arrives_and_what_is_lost() {
    if is_missing() {
        return;
    }
    let params = [SHORT, ("packets", Param::Int(2000)), ("threads", Param::Int(2))];
    let job = job(&Iperf::Udp, Role::Whole, &params);
    let (metrics, _) = run(&Iperf::Udp, &job, &tempfile::tempdir().unwrap()).unwrap();
    assert_eq!(metrics[0].name, "packet_rate");
    let sent = value(&metrics, "sent_packet_rate");
    assert!(sent < 5000.0, "two threads of 2000 a second: {sent}");
    assert!(metrics[0].value > 0.0 && metrics[0].value < 1.2 * sent, "{metrics:?}");
    assert!((0.0..=1.0).contains(&value(&metrics, "lost_share")));
}

#[test]
fn two_servers_and_a_client_make_one_figure() {
    if is_missing() {
        return;
    }
    let keep = tempfile::tempdir().unwrap();
    let (generated, servers) = run_crew(&Iperf::Tcp, 2, &[SHORT], &keep);
    let result = |ran: crate::net::bench_of::Ran| RunResult {
        metrics: ran.unwrap().0,
        ..RunResult::default()
    };
    let generated = result(generated);
    let servers: Vec<RunResult> = servers.into_iter().map(result).collect();
    let mut all = vec![(Role::Generator, &generated)];
    all.extend(servers.iter().map(|server| (Role::Server, server)));
    let metrics = crew::combine(&Iperf::Tcp.about(), &all).unwrap();
    assert_eq!(metrics[0].name, "throughput");
    let sum: f64 = servers.iter().map(|server| server.metrics[0].value).sum();
    assert!((metrics[0].value - sum).abs() < 1.0);
    assert!(value(&metrics, "sent_throughput") > 0.0);
}

#[test]
fn a_client_without_a_server_fails_and_says_why() {
    if is_missing() {
        return;
    }
    let mut job = job(&Iperf::Tcp, Role::Generator, &[SHORT]);
    job.peers = vec![format!("127.0.0.1:{}", free_port().unwrap())];
    let fault = run(&Iperf::Tcp, &job, &tempfile::tempdir().unwrap()).unwrap_err();
    assert!(fault.to_string().contains("iperf's client"), "{fault}");
}

#[test]
fn what_iperf_cannot_do_is_refused() {
    if is_missing() {
        return;
    }
    let reverse = [("direction", Param::Text("reverse".into()))];
    let job = job(&Iperf::Udp, Role::Whole, &reverse);
    let fault = run(&Iperf::Udp, &job, &tempfile::tempdir().unwrap()).unwrap_err();
    assert!(matches!(fault, Fault::Refused(refusal) if refusal.kind == Kind::NotHere));
}
