//! Results that do not count, for a cause that a counter recorded; never for their value.

use crate::{
    journal::{CellResult, PartResult},
    plan::ProcedurePlan,
};
use transect_bench_core::protocol::Role;
use transect_bench_stats::design::{Cause, Exclusion};

/// Why a result must not be counted in.
pub(super) fn of(result: &CellResult, plan: &ProcedurePlan) -> Vec<Exclusion> {
    let worked = |part: &&PartResult| matches!(part.role, Role::Whole | Role::Server);
    let machines = || result.parts.iter().filter(worked);
    let stolen = machines().filter_map(|part| stolen(part, plan.stolen_at_most?));
    machines().flat_map(throttled).chain(stolen).collect()
}

/// A plan has no quota. So one that cuts in is somebody else's: a service's, a container's that all of this runs in.
fn throttled(part: &PartResult) -> Vec<Exclusion> {
    let groups = part.result.samples.groups.iter().filter(|group| group.throttled_periods > 0);
    let exclusion = |group: &transect_bench_core::samples::GroupUse| Exclusion {
        cause: Cause::Throttled,
        evidence: format!(
            "{} {}: control group {} was throttled in {} periods, for {:.1} ms",
            part.place,
            part.index,
            group.path,
            group.throttled_periods,
            group.throttled_ns as f64 / 1e6
        ),
    };
    groups.map(exclusion).collect()
}

fn stolen(part: &PartResult, at_most: f64) -> Option<Exclusion> {
    let cpus = part.result.samples.cpus.iter().map(|cpu| cpu.times);
    let (stolen, all) =
        cpus.fold((0, 0), |(stolen, all), time| (stolen + time.steal, all + time.all()));
    let share = stolen as f64 / all.max(1) as f64;
    (share > at_most).then(|| Exclusion {
        cause: Cause::Stolen,
        evidence: format!(
            "{} {}: {:.1} % of its CPU time was stolen, the plan allows {:.1} %",
            part.place,
            part.index,
            share * 100.0,
            at_most * 100.0
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_bench_core::{
        protocol::RunResult,
        samples::{CpuUse, GroupUse, Samples},
    };

    fn result(role: Role, samples: Samples) -> CellResult {
        let result = RunResult { samples, ..RunResult::default() };
        let part = PartResult { place: "native".into(), index: 0, role, result };
        CellResult { parts: vec![part], ..CellResult::default() }
    }

    #[test]
    fn a_throttled_machine_does_not_count_and_a_throttled_bystander_does() {
        let group = GroupUse {
            path: "/a".into(),
            throttled_periods: 3,
            throttled_ns: 42_000_000,
            ..GroupUse::default()
        };
        let samples = Samples { groups: vec![group, GroupUse::default()], ..Samples::default() };
        let plan = ProcedurePlan::default();
        let [exclusion] = &of(&result(Role::Whole, samples.clone()), &plan)[..] else {
            panic!("one group, one cause")
        };
        assert_eq!(exclusion.cause, Cause::Throttled);
        assert!(exclusion.evidence.contains("/a was throttled in 3 periods, for 42.0 ms"));
        assert_eq!(of(&result(Role::Bystander, samples), &plan), []);
    }

    #[test]
    fn stolen_time_counts_only_where_the_plan_limits_it() {
        let mut cpu = CpuUse::default();
        (cpu.times.user, cpu.times.steal) = (90, 10);
        let result = result(Role::Whole, Samples { cpus: vec![cpu], ..Samples::default() });
        let with = |stolen_at_most| {
            of(&result, &ProcedurePlan { stolen_at_most, ..ProcedurePlan::default() })
        };
        assert_eq!(with(None), []);
        assert_eq!(with(Some(0.10)), []);
        assert_eq!(with(Some(0.09))[0].cause, Cause::Stolen);
        assert!(with(Some(0.0))[0].evidence.contains("10.0 % of its CPU time was stolen"));
    }
}
