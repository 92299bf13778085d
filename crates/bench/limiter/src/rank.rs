//! Causes before symptoms, then the longest hold.

use super::limiter::{Limiter, LimiterKind as Kind, LimiterKind, Suspect};

/// What explains what: cause, symptoms, and how large the cause must be beside the symptom to be the first.
///
/// 0.5: halving the cause then changes at least a quarter as much as halving the symptom would. Steal and the emulator
/// need less, as what they take looks like the guest's own CPU time (`CONFIG_PARAVIRT_TIME_ACCOUNTING` off).
const EXPLAINS: &[(Kind, &[Kind], f64)] = &[
    (Kind::CpuQuota, &[Kind::RunQueue, Kind::SingleThread, Kind::AllCpus, Kind::Lock], 0.3),
    (Kind::Steal, &[Kind::SingleThread, Kind::AllCpus, Kind::RunQueue, Kind::PacketRate], 0.2),
    // Who is not run does not empty its sockets.
    (Kind::Steal, &[Kind::PacketLoss], 0.5),
    (Kind::RunQueue, &[Kind::PacketLoss], 0.5),
    (Kind::RunQueue, &[Kind::SingleThread, Kind::AllCpus], 0.5),
    (Kind::Memory, &[Kind::DiskBandwidth, Kind::DiskLatency, Kind::SingleThread], 0.3),
    (Kind::Swap, &[Kind::Memory, Kind::DiskBandwidth, Kind::DiskLatency], 0.3),
    (Kind::IoThrottled, &[Kind::DiskBandwidth, Kind::DiskLatency], 0.3),
    (Kind::PacketRate, &[Kind::SingleThread, Kind::AllCpus, Kind::PacketLoss], 0.5),
    (Kind::NicBandwidth, &[Kind::PacketLoss], 0.5),
    (Kind::Lock, &[Kind::SingleThread], 0.3),
    (Kind::Emulator, &[Kind::SingleThread, Kind::AllCpus, Kind::ExitHandling], 0.2),
    (Kind::Emulator, &[Kind::PacketRate, Kind::Steal], 0.2),
    (Kind::Emulator, &[Kind::PacketLoss], 0.5),
    (Kind::ExitHandling, &[Kind::SingleThread, Kind::AllCpus, Kind::PacketRate], 0.3),
    // What an emulator is busy with is what it executes.
    (Kind::TracerConsumer, &[Kind::AllCpus, Kind::RunQueue, Kind::Emulator], 0.2),
    // Waiting for a load that does not come looks like anything.
    (Kind::Generator, ALL_OF_THE_MACHINE, 0.5),
];

const ALL_OF_THE_MACHINE: &[Kind] = &[
    Kind::SingleThread,
    Kind::AllCpus,
    Kind::RunQueue,
    Kind::DiskBandwidth,
    Kind::DiskLatency,
    Kind::PacketRate,
    Kind::PacketLoss,
    Kind::Lock,
];

/// The first of them, the rest behind it.
pub(super) fn rank(mut suspects: Vec<Suspect>) -> Limiter {
    suspects.sort_by(|a, b| b.held.total_cmp(&a.held));
    let mut ranked = Vec::new();
    while !suspects.is_empty() {
        let unexplained = suspects
            .iter()
            .position(|suspect| !suspects.iter().any(|cause| explains(cause, suspect)));
        // Two that explain each other do not occur in the table; if they did, the longer hold is first.
        ranked.push(suspects.remove(unexplained.unwrap_or(0)));
    }
    let mut ranked = ranked.into_iter();
    let Some(first) = ranked.next() else { return Limiter::default() };
    Limiter {
        kind: first.kind,
        place: first.place,
        held: first.held,
        confidence: first.confidence,
        evidence: first.evidence,
        runners_up: ranked.collect(),
        blind: Vec::new(),
    }
}

fn explains(cause: &Suspect, symptom: &Suspect) -> bool {
    if cause.kind == symptom.kind {
        return false;
    }
    // Whatever is busy explains that others slept for it.
    if symptom.kind == LimiterKind::Latency {
        return cause.held >= 0.3 * symptom.held;
    }
    EXPLAINS.iter().any(|(kind, symptoms, least)| {
        *kind == cause.kind
            && symptoms.contains(&symptom.kind)
            && cause.held >= least * symptom.held
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::{Confidence, Place};

    fn suspect(kind: Kind, held: f64) -> Suspect {
        let (place, confidence) = (Place::Machine, Confidence::Likely);
        Suspect { kind, place, held, confidence, evidence: String::new() }
    }

    fn first(suspects: &[(Kind, f64)]) -> Kind {
        rank(suspects.iter().map(|(kind, held)| suspect(*kind, *held)).collect()).kind
    }

    #[test]
    fn a_cause_is_before_its_symptom_unless_it_is_small() {
        assert_eq!(first(&[(Kind::SingleThread, 0.9), (Kind::CpuQuota, 0.5)]), Kind::CpuQuota);
        assert_eq!(first(&[(Kind::SingleThread, 0.9), (Kind::CpuQuota, 0.1)]), Kind::SingleThread);
        assert_eq!(first(&[(Kind::DiskLatency, 0.8), (Kind::Memory, 0.4)]), Kind::Memory);
        assert_eq!(first(&[(Kind::Latency, 0.9), (Kind::ListenQueue, 0.5)]), Kind::ListenQueue);
        assert_eq!(
            first(&[(Kind::Emulator, 0.9), (Kind::TracerConsumer, 0.3)]),
            Kind::TracerConsumer
        );
        assert_eq!(first(&[(Kind::PacketLoss, 0.8), (Kind::Steal, 0.5)]), Kind::Steal);
        assert_eq!(first(&[(Kind::PacketLoss, 0.8), (Kind::Steal, 0.3)]), Kind::PacketLoss);
        assert_eq!(first(&[]), Kind::Unknown);
    }

    #[test]
    fn chains_of_causes_are_followed() {
        let all = [(Kind::AllCpus, 0.9), (Kind::RunQueue, 0.6), (Kind::CpuQuota, 0.5)];
        assert_eq!(first(&all), Kind::CpuQuota);
    }

    #[test]
    fn nothing_explains_itself_in_a_circle() {
        for (cause, symptoms, _) in EXPLAINS {
            for symptom in *symptoms {
                let back =
                    EXPLAINS.iter().any(|(kind, of, _)| kind == symptom && of.contains(cause));
                assert!(!back, "{cause:?} and {symptom:?}");
            }
        }
    }

    #[test]
    fn all_are_kept() {
        let suspects = vec![suspect(Kind::Lock, 0.4), suspect(Kind::SingleThread, 0.9)];
        assert_eq!(rank(suspects).runners_up.len(), 1);
    }
}
