//! Reads iperf 2's comma-separated reports (`-y C`). No I/O.
//!
//! A row is `time,local,port,remote,port,id,from-to,bytes,bits a second`, and for UDP also `jitter ms,lost,total,lost %,out
//! of order`. What differs between versions:
//!
//! | version | difference | what is done |
//! |---|---|---|
//! | all | times have one decimal: a 1 s run is known to 10 % | the time is computed from bytes and bits a second |
//! | 2.0 | with several threads a row with id −1 sums up the others | rows with a negative id are left out |
//! | 2.0 | a UDP client also prints the server's row | only the side that receives is asked |
//! | 2.1.8 | a UDP sender's own row has total −1 and lost −nan | it has no losses then |
//! | 2.1.8 | the time is 1970, or has a fraction with `-e` | it is not looked at |
//! | 2.2 | a first line with the columns' names | lines that begin with no digit are left out |
//! | any, `-i` | rows of intervals come before the row of the whole | the row that ends last is a flow's |

use std::collections::BTreeMap;

/// What one flow did over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flow {
    /// Payload bytes.
    pub(crate) bytes: u64,
    /// Payload bytes a second.
    pub(crate) bytes_per_second: f64,
    /// Of a UDP receiver: datagrams lost, and all that were sent.
    pub(crate) datagrams: Option<(u64, u64)>,
}

/// The flows of a report, one per pair of end points; an error names the row that cannot be read.
pub(crate) fn flows(report: &str) -> Result<Vec<Flow>, String> {
    let mut last: BTreeMap<String, (f64, Flow)> = BTreeMap::new();
    for line in report.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())) {
        let row = row(line).ok_or_else(|| format!("iperf's row \"{line}\" cannot be read"))?;
        let Some((ends, end, flow)) = row else { continue };
        if last.get(&ends).is_none_or(|(known, _)| *known <= end) {
            last.insert(ends, (end, flow));
        }
    }
    Ok(last.into_values().map(|(_, flow)| flow).collect())
}

/// End points, end time and flow; `Some(None)` for a sum.
fn row(line: &str) -> Option<Option<(String, f64, Flow)>> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let &[_, local, local_port, remote, remote_port, id, interval, bytes, bits, ref more @ ..] =
        fields.as_slice()
    else {
        return None;
    };
    if id.parse::<i64>().ok()? < 0 {
        return Some(None);
    }
    let (_, end) = interval.split_once('-')?;
    let bits: f64 = bits.parse().ok().filter(|bits: &f64| bits.is_finite() && *bits >= 0.0)?;
    let flow = Flow {
        bytes: bytes.parse().ok()?,
        bytes_per_second: bits / 8.0,
        datagrams: datagrams(more)?,
    };
    Some(Some((format!("{local}:{local_port}-{remote}:{remote_port}"), end.parse().ok()?, flow)))
}

/// Lost and total of a receiver's row; `Some(None)` where the sender does not know.
fn datagrams(more: &[&str]) -> Option<Option<(u64, u64)>> {
    let &[_, lost, total, ..] = more else { return Some(None) };
    let (lost, total): (i64, i64) = (lost.parse().ok()?, total.parse().ok()?);
    let count = |value| u64::try_from(value).ok();
    // Datagrams out of order are counted as lost when they are missed and taken back when they come.
    Some(count(total).filter(|&total| total > 0).map(|total| (count(lost).unwrap_or(0), total)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tcp_of_two_threads() {
        let report = "\
20240101120000,127.0.0.1,54862,127.0.0.1,15201,2,0.0-1.0,2000000000,16000000000
20240101120000,127.0.0.1,54866,127.0.0.1,15201,1,0.0-1.0,1000000000,8000000000
20240101120000,127.0.0.1,0,127.0.0.1,15201,-1,0.0-1.0,3000000000,24000000000
";
        let mut flows = flows(report).unwrap();
        flows.sort_by_key(|flow| flow.bytes);
        assert_eq!(flows.len(), 2, "the sum is left out");
        assert_eq!(flows[0].bytes_per_second, 1e9);
        assert_eq!(flows[1], Flow { bytes: 2_000_000_000, bytes_per_second: 2e9, datagrams: None });
    }

    #[test]
    fn udp_of_receiver_and_sender() {
        let received = "19700101000000,::1,43968,::1,15206,1,0.0-1.0,640,5120,0.003,10,20,50.0,3";
        assert_eq!(flows(received).unwrap()[0].datagrams, Some((10, 20)));
        let sent = "19700101000000,::1,43968,::1,15206,1,0.0-1.0,640,5120,0.000,0,-1,-0.000,0";
        assert_eq!(flows(sent).unwrap()[0].datagrams, None);
        let nothing = "19700101000000,::1,43968,::1,15206,1,0.0-3.1,0,0,0.000,0,0,-nan,0";
        assert_eq!(flows(nothing).unwrap()[0].datagrams, None);
    }

    #[test]
    fn intervals_headings_and_warnings_are_left_out() {
        let report = "\
time,srcaddress,srcport,dstaddr,dstport,transferid,istart,iend,bytes,speed
[  3] WARNING: did not receive ack of last datagram after 10 tries.
1,a,1,b,2,1,0.0-0.5,100,1600
1,a,1,b,2,1,0.5-1.0,200,3200
1,a,1,b,2,1,0.0-1.0,300,2400
";
        let flows = flows(report).unwrap();
        assert_eq!(flows.len(), 1);
        assert_eq!(flows[0].bytes, 300);
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        assert!(flows("1,a,1,b,2,1,0.0-1.0,many,2400").is_err());
        assert!(flows("1,a,1,b,2,1,0.0-1.0,1,-nan").is_err());
        assert!(flows("1,a,1").is_err());
        assert_eq!(flows("").unwrap(), []);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-z,.\\-\n]{0,200}") {
            let _ = flows(&text);
        }
    }
}
