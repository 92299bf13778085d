//! What is varied: the scheduler, the weights, the load; and in which order.

use transect_testbed::xen::Scheduler;

/// Xen booted in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Its name in tables and files.
    pub name: &'static str,
    /// What it is, for a legend.
    pub title: &'static str,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// More of Xen's command line.
    pub xen_arguments: &'static str,
}

/// All of them. The last has no rate limit: who wakes may take the pCPU at once, as under BVT, where otherwise who
/// runs is left alone for a millisecond (`sched_ratelimit_us`, 1000 by default).
pub const SETUPS: [Setup; 3] = [
    Setup { name: "credit", title: "credit", scheduler: Scheduler::Credit, xen_arguments: "" },
    Setup { name: "credit2", title: "credit2", scheduler: Scheduler::Credit2, xen_arguments: "" },
    Setup {
        name: "credit-unlimited",
        title: "credit, no rate limit",
        scheduler: Scheduler::Credit,
        xen_arguments: "sched_ratelimit_us=0",
    },
];

/// A pair of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// As the publication calls it: dom0's share by dom1's.
    pub name: &'static str,
    /// Weight of dom0.
    pub dom0_weight: u32,
    /// Weight of the server's domU.
    pub dom1_weight: u32,
}

impl Configuration {
    /// dom0's weight to dom1's, in lowest terms: `1:2`.
    pub fn ratio(&self) -> String {
        let (mut common, mut rest) = (self.dom0_weight, self.dom1_weight);
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        let common = common.max(1);
        format!("{}:{}", self.dom0_weight / common, self.dom1_weight / common)
    }
}

/// The publication's four. There a weight of 20 beside one of 10 means half the share, which it says itself of BVT; here
/// more weight is more CPU, so that the ratios of the shares are what is taken over.
pub const CONFIGURATIONS: [Configuration; 4] = [
    Configuration { name: "Conf_0.5", dom0_weight: 128, dom1_weight: 256 },
    Configuration { name: "Conf_Equal", dom0_weight: 256, dom1_weight: 256 },
    Configuration { name: "Conf_2", dom0_weight: 512, dom1_weight: 256 },
    Configuration { name: "Conf_10", dom0_weight: 2560, dom1_weight: 256 },
];

/// Where the heaviest load is also run without a trace, to see what tracing costs.
pub const UNTRACED: Configuration = CONFIGURATIONS[1];

/// Requests per second: from a light load to more than can be answered.
pub const RATES: [u32; 4] = [150, 350, 550, 750];

/// How often each is repeated, each time on a host booted anew.
pub const REPETITIONS: u32 = 3;

/// The server's own work for a request, beside what the kernels do for it. Chosen so that dom0 and dom1 have about 45 and
/// 55 % of the pCPU under a heavy load where dom0 may have as much as it wants, as in the publication's Fig. 4d.
pub const WORK_US: u32 = 550;

/// The length of an answer: the publication's file.
pub const REPLY_BYTES: u32 = 10 * 1024;

/// One run: a pair of weights and a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The weights.
    pub configuration: Configuration,
    /// Requests per second.
    pub rate: u32,
    /// Is Xen's trace recorded?
    pub traced: bool,
}

/// All runs on one host, in an order of their own for each repetition: what drifts must not look like an effect.
pub fn steps(repetition: u32, rates: &[u32]) -> Vec<Step> {
    let mut steps = Vec::new();
    for configuration in CONFIGURATIONS {
        let traced = |&rate| Step { configuration, rate, traced: true };
        steps.extend(rates.iter().map(traced));
    }
    let configuration = UNTRACED;
    let heaviest = rates.iter().max();
    steps.extend(heaviest.map(|&rate| Step { configuration, rate, traced: false }));
    shuffle(&mut steps, repetition);
    steps
}

/// Fisher and Yates, with numbers of Steele, Lea and Flood's SplitMix64.
fn shuffle(steps: &mut [Step], seed: u32) {
    let mut state = u64::from(seed);
    for last in (1..steps.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let choices = last as u64 + 1;
        let other = usize::try_from((number ^ (number >> 31)) % choices).unwrap_or(last);
        steps.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_the_publications_ratios() {
        let ratios = CONFIGURATIONS.map(|it| it.ratio());
        assert_eq!(ratios, ["1:2", "1:1", "2:1", "10:1"]);
    }

    #[test]
    fn every_step_is_made_in_an_order_of_its_repetition() {
        let (first, second) = (steps(1, &RATES), steps(2, &RATES));
        assert_eq!(first.len(), 4 * RATES.len() + 1);
        assert_ne!(first, second);
        assert!(second.iter().all(|step| first.contains(step)));
        assert_eq!(first, steps(1, &RATES));
    }
}
