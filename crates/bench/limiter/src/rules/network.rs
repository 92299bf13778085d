//! Networks.

use crate::{
    limiter::{LimiterKind, Suspect},
    scene::Scene,
    view::{View, part, percent, rate, thread_name},
};
use transect_bench_core::samples::NicUse;

/// See [`super::RULES`].
pub(super) fn bandwidth(scene: &Scene<'_>) -> Vec<Suspect> {
    View::both(scene)
        .iter()
        .filter_map(|view| {
            let used = |nic: &NicUse| {
                let bytes = nic.counts.received_bytes.max(nic.counts.sent_bytes);
                Some(view.per_s(bytes) * 8.0 / nic.speed_bits_per_s? as f64)
            };
            let nics = view.samples.nics.iter().filter_map(|nic| Some((nic, used(nic)?)));
            let (nic, held) = nics.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
            let evidence = format!(
                "{} at {} of its {} Mbit/s: received {}, sent {}",
                nic.name,
                percent(held),
                nic.speed_bits_per_s.unwrap_or(0) / 1_000_000,
                rate(view.per_s(nic.counts.received_bytes)),
                rate(view.per_s(nic.counts.sent_bytes)),
            );
            (held >= 0.7).then(|| view.suspect(LimiterKind::NicBandwidth, held, evidence))
        })
        .collect()
}

/// See [`super::RULES`].
pub(super) fn packets(scene: &Scene<'_>) -> Vec<Suspect> {
    View::both(scene).iter().filter_map(packets_of).collect()
}

fn packets_of(view: &View<'_>) -> Option<Suspect> {
    let (packets, bytes) = view.samples.nics.iter().fold((0, 0), |(packets, bytes), nic| {
        let counts = &nic.counts;
        (
            packets + counts.received_packets + counts.sent_packets,
            bytes + counts.received_bytes + counts.sent_bytes,
        )
    });
    if view.per_s(packets) < 2000.0 || bytes as f64 > packets as f64 * 400.0 {
        return None;
    }
    let (cpu, softirq) = view
        .samples
        .cpus
        .iter()
        .map(|cpu| (cpu.cpu, view.share(cpu.times.softirq)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let sender = view.busiest().filter(|thread| {
        view.share(thread.cpu_ns) >= 0.7 && part(thread.system_ns, thread.cpu_ns) >= 0.6
    });
    let by_thread = sender.map_or(0.0, |thread| view.share(thread.cpu_ns));
    let by_softirq = if softirq >= 0.4 { softirq } else { 0.0 };
    let held = by_thread.max(by_softirq);
    if held <= 0.0 {
        return None;
    }
    let thread = sender.map(|thread| {
        format!(
            "thread {} ran {} of the time, mostly in the kernel; ",
            thread_name(thread),
            percent(by_thread)
        )
    });
    let net = &view.samples.net;
    let evidence = format!(
        "{:.0} packets/s of {:.0} bytes; {}soft interrupts {} of CPU {cpu}; backlog drops {}, squeezes {}",
        view.per_s(packets),
        bytes as f64 / packets as f64,
        thread.unwrap_or_default(),
        percent(softirq),
        net.softnet_dropped,
        net.softnet_squeezed,
    );
    Some(view.suspect(LimiterKind::PacketRate, held, evidence))
}

/// See [`super::RULES`].
pub(super) fn listen_queue(scene: &Scene<'_>) -> Vec<Suspect> {
    View::machine(scene)
        .and_then(|view| {
            let net = &view.samples.net;
            let overflows = net.listen_overflows;
            let is_many = overflows >= 10 || (overflows > 0 && view.per_s(overflows) >= 5.0);
            if !is_many || overflows * 100 < net.tcp_passive_opens {
                return None;
            }
            let evidence = format!(
                "listen queues overflowed {overflows} times ({:.0}/s) for {} connections accepted; {} segments retransmitted",
                view.per_s(overflows),
                net.tcp_passive_opens,
                net.tcp_retransmitted,
            );
            // Each drop holds its client for a second or more: of ten attempts, one dropped is held most of the time.
            let held = (10.0 * part(overflows, overflows + net.tcp_passive_opens)).clamp(0.3, 0.95);
            Some(view.suspect(LimiterKind::ListenQueue, held, evidence))
        })
        .into_iter()
        .collect()
}

/// See [`super::RULES`].
pub(super) fn loss(scene: &Scene<'_>) -> Vec<Suspect> {
    // On the host, where others' packets are too, only what is too much to be theirs.
    [(View::machine(scene), 0.01), (View::host(scene), 0.1)]
        .into_iter()
        .filter_map(|(view, least)| loss_of(&view?, least))
        .collect()
}

fn loss_of(view: &View<'_>, least: f64) -> Option<Suspect> {
    let net = &view.samples.net;
    let losses = [
        ("TCP segments retransmitted", net.tcp_retransmitted, net.tcp_sent),
        ("datagrams dropped at full socket buffers", net.udp_buffer_errors, datagrams(view)),
        (
            "packets dropped at a CPU's backlog",
            net.softnet_dropped,
            net.softnet_processed + net.softnet_dropped,
        ),
    ];
    let (what, lost, all) = losses
        .into_iter()
        .filter(|(_, _, all)| *all >= 100)
        .max_by(|(_, a, of_a), (_, b, of_b)| part(*a, *of_a).total_cmp(&part(*b, *of_b)))?;
    let lost_share = part(lost, all);
    let evidence = format!("{lost} of {all} {what} ({:.1} %)", lost_share * 100.0);
    // 1 % of loss already holds a TCP connection for most of its time (Mathis: throughput ~ 1/√loss).
    let held = (lost_share.sqrt() * 3.0).min(0.8);
    (lost_share >= least).then(|| view.suspect(LimiterKind::PacketLoss, held, evidence))
}

/// Datagrams that came to sockets, whether there was room or not.
fn datagrams(view: &View<'_>) -> u64 {
    view.samples.net.udp_received + view.samples.net.udp_buffer_errors
}

/// Do sockets drop a good part of what comes? Then whoever sends is not too slow.
pub(super) fn is_flooded(scene: &Scene<'_>) -> bool {
    View::both(scene).iter().any(|view| {
        let all = datagrams(view);
        all >= 100 && part(view.samples.net.udp_buffer_errors, all) >= 0.2
    })
}
