//! Which cells of ours speak to a row: pairs in the order in which they are asked for.

use super::{
    map::{Against, Entry},
    papers::Paper,
    source::Source,
};
use transect_bench_core::{CacheState, Fault};
use transect_bench_run::plan::{Cell, Group, Params};

/// A pair of cells that would speak to a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    /// The cell.
    pub cell: Cell,
    /// What it is compared with; of a relation that compares nothing the cell itself.
    pub reference: Cell,
    /// Parameters that the workload must have been measured with.
    pub params: Params,
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.cell)?;
        if self.cell != self.reference {
            write!(f, " / {}", self.reference)?;
        }
        if self.params.is_empty() {
            return Ok(());
        }
        let params: Vec<String> =
            self.params.iter().map(|(name, value)| format!("{name} = {}", shown(value))).collect();
        write!(f, " with {}", params.join(", "))
    }
}

fn shown(param: &transect_bench_core::protocol::Param) -> String {
    use transect_bench_core::protocol::Param;
    match param {
        Param::Int(value) => value.to_string(),
        Param::Float(value) => value.to_string(),
        Param::Bool(value) => value.to_string(),
        Param::Text(value) => value.clone(),
    }
}

/// What an entry's words are in our words.
pub(super) struct Words {
    workloads: Vec<(String, CacheState, Params)>,
    platforms: Vec<String>,
    arms: Vec<String>,
    guests: Vec<[u32; 2]>,
}

impl Words {
    /// Translates the words of a row and its entry. An unknown word is a fault of the map.
    pub(super) fn of(paper: &Paper, row: &Source, entry: &Entry) -> Result<Self, Fault> {
        let unknown = |what: &str, word: &str| {
            Fault::failed(format!(
                "{}/map.toml: {}: {what} {word} has no equivalent here",
                paper.name, row.table
            ))
        };
        let params = params_of(row);
        let workloads = if entry.work.is_empty() {
            let work = paper
                .map
                .workloads
                .get(&row.workload)
                .ok_or_else(|| unknown("workload", &row.workload))?;
            // Where the paper does not say, the entry may.
            let cache = match (row.cache.as_str(), entry.cache) {
                ("hot", _) | ("", CacheState::Hot) => work.hot,
                ("cold", _) | ("", CacheState::Displaced) => work.cold,
                _ => work.any,
            };
            let mut all = work.params.clone();
            all.extend(params);
            vec![(work.name.clone(), cache, all)]
        } else {
            let with = |name: &String| (name.clone(), entry.cache, params.clone());
            entry.work.iter().map(with).collect()
        };
        let word = |own: &Vec<String>, found: Option<&Vec<String>>, what: &str, word: &str| {
            if own.is_empty() {
                found.cloned().ok_or_else(|| unknown(what, word))
            } else {
                Ok(own.clone())
            }
        };
        Ok(Self {
            workloads,
            platforms: word(
                &entry.on,
                paper.map.platforms.get(&row.platform),
                "platform",
                &row.platform,
            )?,
            arms: word(&entry.under, paper.map.states.get(&row.state), "state", &row.state)?,
            guests: if entry.guests.is_empty() { vec![[1, 1]] } else { entry.guests.clone() },
        })
    }
}

/// A row's `threads=4` as the parameter `threads`.
fn params_of(row: &Source) -> Params {
    let Some((name, value)) = row.params.split_once('=') else { return Params::new() };
    let value = value.parse().map_or_else(
        |_| transect_bench_core::protocol::Param::Text(value.to_owned()),
        transect_bench_core::protocol::Param::Int,
    );
    Params::from([(name.to_owned(), value)])
}

/// For each workload that is asked, the pairs that would speak, best first.
pub(super) fn pairs(paper: &Paper, words: &Words, against: Option<Against>) -> Vec<Vec<Candidate>> {
    let of_workload = |work: &(String, CacheState, Params)| {
        let mut pairs = Vec::new();
        for platform in &words.platforms {
            for arm in &words.arms {
                for guests in &words.guests {
                    pairs.extend(of_cell(paper, work, platform, arm, *guests, against));
                }
            }
        }
        pairs
    };
    words.workloads.iter().map(of_workload).collect()
}

fn of_cell(
    paper: &Paper,
    (workload, cache, params): &(String, CacheState, Params),
    platform: &str,
    arm: &str,
    [guests, than]: [u32; 2],
    against: Option<Against>,
) -> Vec<Candidate> {
    let cell = |platform: &str, arm: &str, guests: u32| Cell {
        group: Group { workload: workload.clone(), cache: *cache, guests },
        platform: platform.to_owned(),
        tracer: arm.to_owned(),
    };
    let own = [platform.to_owned()];
    let bare = paper.map.bare.get(platform).map_or(&own[..], Vec::as_slice);
    let this = cell(platform, arm, guests);
    let references: Vec<Cell> = match against {
        None => vec![this.clone()],
        Some(Against::Tracer) => vec![cell(platform, "none", guests)],
        Some(Against::Platform) => bare.iter().map(|bare| cell(bare, arm, guests)).collect(),
        Some(Against::Both) => bare.iter().map(|bare| cell(bare, "none", guests)).collect(),
        Some(Against::Guests) => vec![cell(platform, arm, than)],
    };
    let pair = |reference| Candidate { cell: this.clone(), reference, params: params.clone() };
    references.into_iter().map(pair).collect()
}
