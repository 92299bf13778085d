//! What `xl list` says.

use anyhow::{Context, Result};

/// One line of `xl list`.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// Its name; `Domain-0` is the one that takes the orders.
    pub name: String,
    /// Xen's number of it, as in traces.
    pub id: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// How many vCPUs are online.
    pub vcpus: u32,
    /// `r` running, `b` blocked, `p` paused, `s` shut down, `c` crashed, `d` dying; `-` where that is not so.
    pub state: String,
    /// CPU time it has had so far, in seconds.
    pub cpu_s: f64,
}

impl Domain {
    /// Reads the whole list.
    pub(crate) fn all_in(list: &str) -> Result<Vec<Self>> {
        list.lines().skip(1).map(Self::parse).collect()
    }

    /// From the right, because nothing forbids spaces in a name.
    fn parse(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace().rev();
        let mut word =
            || words.next().with_context(|| format!("a short line of xl list: '{line}'"));
        let odd = || format!("an odd line of xl list: '{line}'");
        let (time, state, vcpus, memory, id) = (word()?, word()?, word()?, word()?, word()?);
        let mut name: Vec<_> = words.collect();
        name.reverse();
        Ok(Self {
            name: name.join(" "),
            id: id.parse().with_context(odd)?,
            memory_mib: memory.parse().with_context(odd)?,
            vcpus: vcpus.parse().with_context(odd)?,
            state: state.to_owned(),
            cpu_s: time.parse().with_context(odd)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Xen 4.17.7.
    const LIST: &str = "Name                                        ID   Mem VCPUs\tState\tTime(s)\n\
         Domain-0                                     0  1280     1     r-----      22.9\n\
         duty                                         2   160     2     -b----       4.6\n";

    #[test]
    fn the_list_is_read() {
        let domains = Domain::all_in(LIST).unwrap();
        assert_eq!(domains.len(), 2);
        assert_eq!(domains[0].name, "Domain-0");
        let (id, memory_mib, vcpus, cpu_s) = (2, 160, 2, 4.6);
        let (name, state) = ("duty".to_owned(), "-b----".to_owned());
        assert_eq!(domains[1], Domain { name, id, memory_mib, vcpus, state, cpu_s });
        assert!(Domain::all_in("Name\nhalf 1 2\n").is_err());
    }
}
