//! `xl list -l` and `xl sched-credit…`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Its name; empty where it was gone before anyone could ask.
    pub name: String,
    /// Its UUID, lower case.
    #[serde(default)]
    pub uuid: String,
    /// pv, pvh or hvm; empty if not known.
    #[serde(default)]
    pub kind: String,
    /// How many vCPUs it was given.
    #[serde(default)]
    pub vcpus: u32,
    /// Its weight, under credit and credit2.
    #[serde(default)]
    pub weight: Option<u32>,
    /// At most so many percent of one pCPU; 0 is no limit.
    #[serde(default)]
    pub cap: Option<u32>,
}

/// What the domains were made with, by number: the JSON of `xl list -l`, whose domains look as in
/// `libxl_domain_config`. What makes no sense is left out.
pub fn domains_in_list(json: &str) -> BTreeMap<u32, Domain> {
    let list: Value = serde_json::from_str(json).unwrap_or_default();
    let domains = list.as_array().into_iter().flatten();
    domains.filter_map(domain).collect()
}

fn domain(value: &Value) -> Option<(u32, Domain)> {
    let id = number(&value["domid"])?;
    let (create, build) = (&value["config"]["c_info"], &value["config"]["b_info"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // Weights that were never set are -1.
    let scheduling = &build["sched_params"];
    let domain = Domain {
        name: text(&create["name"]),
        uuid: text(&create["uuid"]).to_lowercase(),
        kind: text(&create["type"]),
        vcpus: number(&build["max_vcpus"]).unwrap_or(0),
        weight: number(&scheduling["weight"]),
        cap: number(&scheduling["cap"]),
    };
    Some((id, domain))
}

fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

/// Weight and cap of each domain, by number: `xl sched-credit` and `sched-credit2`, a line of
/// `name ID weight cap` for each. Names may hold spaces, so it is read from the right.
pub fn weights_in(table: &str) -> BTreeMap<u32, (u32, u32)> {
    let read = |line: &str| {
        let mut words = line.split_whitespace().rev();
        let mut word = || words.next()?.parse::<u32>().ok();
        let (cap, weight, id) = (word()?, word()?, word()?);
        Some((id, (weight, cap)))
    };
    table.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_list_is_read() {
        let domains = domains_in_list(include_str!("../../testdata/xl-list-l.txt"));
        let all: Vec<_> = domains.iter().map(|(id, domain)| (*id, domain.name.as_str())).collect();
        assert_eq!(all, [(0, "Domain-0"), (1, "duty"), (2, "hog")]);
        let (duty, hog) = (&domains[&1], &domains[&2]);
        assert_eq!((duty.kind.as_str(), duty.vcpus), ("pv", 2));
        assert_eq!((hog.kind.as_str(), hog.vcpus), ("pvh", 1));
        assert_eq!(duty.weight, Some(512));
        assert_eq!(hog.uuid.len(), 36);
    }

    #[test]
    fn real_weights_are_read() {
        let weights = weights_in(include_str!("../../testdata/xl-sched-credit2.txt"));
        assert_eq!(weights, BTreeMap::from([(0, (256, 0)), (1, (512, 0)), (2, (256, 30))]));
    }

    #[test]
    fn nonsense_names_nobody() {
        assert!(domains_in_list("").is_empty());
        assert!(domains_in_list("[{}, {\"domid\": -1}, 7]").is_empty());
        assert!(weights_in("Cpupool Pool-0: ratelimit=1000us\nName ID Weight Cap\n").is_empty());
    }
}
