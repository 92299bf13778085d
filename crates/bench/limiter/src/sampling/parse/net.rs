//! `/proc/net`.

use super::line::{column, lines, numbers};
use transect_bench_core::samples::{NetCounts, NicCounts};

/// Reads `/proc/net/dev`.
#[must_use]
pub fn net_dev(text: &[u8]) -> Vec<(String, NicCounts)> {
    lines(text)
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let figures = numbers(rest);
            let counts = NicCounts {
                received_bytes: column(&figures, 0),
                received_packets: column(&figures, 1),
                sent_bytes: column(&figures, 8),
                sent_packets: column(&figures, 9),
                dropped: column(&figures, 3).saturating_add(column(&figures, 11)),
            };
            (figures.len() >= 16).then(|| (name.trim().to_owned(), counts))
        })
        .collect()
}

/// Reads `/proc/net/snmp` or `/proc/net/netstat` (a line of names, then one of values) into what is wanted of it.
#[must_use]
pub fn netstat(text: &[u8]) -> NetCounts {
    let mut counts = NetCounts::default();
    let mut names: Option<(&str, &str)> = None;
    for line in lines(text) {
        let Some((group, rest)) = line.split_once(':') else { continue };
        match names.take() {
            Some((of, keys)) if of == group => {
                for (key, value) in keys.split_ascii_whitespace().zip(numbers(rest)) {
                    place(&mut counts, group, key, value);
                }
            }
            _ => names = Some((group, rest)),
        }
    }
    counts
}

fn place(counts: &mut NetCounts, group: &str, key: &str, value: u64) {
    let target = match (group, key) {
        ("Tcp", "OutSegs") => &mut counts.tcp_sent,
        ("Tcp", "RetransSegs") => &mut counts.tcp_retransmitted,
        ("Tcp", "PassiveOpens") => &mut counts.tcp_passive_opens,
        ("TcpExt", "ListenOverflows") => &mut counts.listen_overflows,
        ("TcpExt", "ListenDrops") => &mut counts.listen_drops,
        ("Udp", "InDatagrams") => &mut counts.udp_received,
        ("Udp", "OutDatagrams") => &mut counts.udp_sent,
        ("Udp", "RcvbufErrors") => &mut counts.udp_buffer_errors,
        _ => return,
    };
    *target = value;
}

/// Reads `/proc/net/softnet_stat`: a line per CPU, hexadecimal columns processed, dropped, time_squeeze.
#[must_use]
pub fn softnet(text: &[u8]) -> NetCounts {
    let mut counts = NetCounts::default();
    for line in lines(text) {
        let mut words =
            line.split_ascii_whitespace().map(|word| u64::from_str_radix(word, 16).unwrap_or(0));
        let mut add = |target: &mut u64| {
            *target = target.saturating_add(words.next().unwrap_or(0));
        };
        add(&mut counts.softnet_processed);
        add(&mut counts.softnet_dropped);
        add(&mut counts.softnet_squeezed);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces() {
        let text = b"Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop \
            fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    lo: 15 7 0 1 0 0 0 0 \
            16 8 0 2 0 0 0 0\neth0:520541723   11852    0    0    0     0          0         0   584055    6796    0    0    0 0 0 0\n";
        let nics = net_dev(text);
        assert_eq!(nics.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["lo", "eth0"]);
        let (_, lo) = nics.first().unwrap();
        assert_eq!((lo.received_bytes, lo.sent_packets, lo.dropped), (15, 8, 3));
        assert_eq!(nics.last().unwrap().1.received_bytes, 520_541_723);
    }

    #[test]
    fn named_columns() {
        let text = b"Ip: Forwarding DefaultTTL\nIp: 2 64\nTcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens OutSegs RetransSegs\n\
            Tcp: 1 -1 43 9 309100 46\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 1189150 591981 5 6463657 5\n\
            TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 12 13\n";
        let counts = netstat(text);
        assert_eq!((counts.tcp_passive_opens, counts.tcp_retransmitted), (9, 46));
        assert_eq!((counts.listen_overflows, counts.listen_drops), (12, 13));
        assert_eq!((counts.udp_sent, counts.udp_buffer_errors), (6_463_657, 5));
    }

    #[test]
    fn softnet_of_two_cpus() {
        let counts = softnet(b"00000006 00000001 00000002 0\n00002e5d 00000000 00000001 0\n");
        assert_eq!(counts.softnet_processed, 6 + 0x2e5d);
        assert_eq!((counts.softnet_dropped, counts.softnet_squeezed), (1, 3));
    }
}
