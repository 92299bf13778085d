//! The clock evidence of a recording: the best of what its file, or its copy, has.

use crate::{
    error::{StoreError, io_error},
    manifest::{COPIES, Manifest},
    problem::OpenProblem,
};
use std::{fs, io, path::Path};
use transect_clock::evidence::{Evidence, RateSource};
use transect_integrity::{Seal, seal_of_line};

/// Name of the file of clock evidence: one JSON record per line, in order of time.
pub const CLOCKS_FILE_NAME: &str = "clocks.jsonl";

/// The evidence of a recording; that of its copy, if the file is not what was written.
pub(crate) fn evidence_of(
    dir: &Path,
    manifest: &Manifest,
    problems: &mut Vec<OpenProblem>,
) -> Result<Vec<Evidence>, StoreError> {
    let mut found = Vec::new();
    let evidence = read_evidence(dir, &mut found);
    let copies = dir.join(COPIES);
    let has_other_length = problems.iter().any(|problem| problem.file == CLOCKS_FILE_NAME);
    if evidence.is_ok() && found.is_empty() && !has_other_length {
        return evidence;
    }
    let written = manifest.files.get(CLOCKS_FILE_NAME).map(|entry| entry.bytes);
    let is_whole =
        fs::metadata(copies.join(CLOCKS_FILE_NAME)).is_ok_and(|facts| Some(facts.len()) == written);
    let mut of_copy = Vec::new();
    match read_evidence(&copies, &mut of_copy) {
        Ok(copy) if is_whole && of_copy.is_empty() => {
            problems.retain(|problem| problem.file != CLOCKS_FILE_NAME);
            problems.push(OpenProblem {
                file: CLOCKS_FILE_NAME.to_owned(),
                message: "damaged: its copy is used; transect verify --repair restores it"
                    .to_owned(),
                data_loss: false,
            });
            Ok(copy)
        }
        _ => {
            problems.extend(found);
            evidence
        }
    }
}

pub(crate) fn read_evidence(
    dir: &Path,
    problems: &mut Vec<OpenProblem>,
) -> Result<Vec<Evidence>, StoreError> {
    let path = dir.join(CLOCKS_FILE_NAME);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(io_error("read", path)(e)),
    };
    let has_seals = text.lines().any(|line| seal_of_line(line) == Seal::Whole);
    let mut evidence = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let record = match seal_of_line(line) {
            Seal::Broken => Err("its checksum is wrong".to_owned()),
            Seal::None if has_seals => Err("its checksum is missing".to_owned()),
            Seal::Whole | Seal::None => serde_json::from_str(line).map_err(|why| why.to_string()),
        };
        match record {
            Ok(record) => evidence.push(record),
            Err(why) => problems.push(OpenProblem {
                file: CLOCKS_FILE_NAME.to_owned(),
                message: format!(
                    "line {} is skipped: {why}: timestamps may be converted with a larger error",
                    at + 1
                ),
                data_loss: true,
            }),
        }
    }
    Ok(best_rates(evidence))
}

/// A rate measured again over a longer span replaces the former ones of its machine: only the
/// best is kept, in the place of the first.
fn best_rates(evidence: Vec<Evidence>) -> Vec<Evidence> {
    let mut kept: Vec<Evidence> = Vec::with_capacity(evidence.len());
    for record in evidence {
        let Some((machine, ppm)) = rate_of(&record) else {
            kept.push(record);
            continue;
        };
        let former = kept.iter_mut().find(|k| rate_of(k).is_some_and(|(m, _)| m == machine));
        match former {
            Some(former) if rate_of(former).is_some_and(|(_, former)| ppm <= former) => {
                *former = record;
            }
            Some(_) => {}
            None => kept.push(record),
        }
    }
    kept
}

fn rate_of(record: &Evidence) -> Option<(transect_model::ids::MachineId, f64)> {
    match record {
        Evidence::TscRate { machine, how: RateSource::Measured, error_ppm, .. } => {
            Some((*machine, *error_ppm))
        }
        Evidence::TscRate { machine, .. } => Some((*machine, 0.0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::MachineId;

    fn rate(machine: u32, mult: u32, error_ppm: f64) -> Evidence {
        let how = RateSource::Measured;
        Evidence::TscRate {
            machine: MachineId(machine),
            mult,
            shift: 31,
            offset_ns: 0,
            how,
            error_ppm,
        }
    }

    #[test]
    fn the_best_measured_rate_wins_per_machine() {
        let restart = Evidence::ClockRestart { machine: MachineId(1), at_host: 5 };
        let all = vec![
            rate(0, 1, 2.0),
            restart.clone(),
            rate(1, 7, 1.0),
            rate(0, 2, 0.1),
            rate(0, 3, 9.0),
        ];
        assert_eq!(best_rates(all), [rate(0, 2, 0.1), restart, rate(1, 7, 1.0)]);
    }
}
