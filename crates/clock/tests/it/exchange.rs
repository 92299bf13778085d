//! What the bracket estimator promises, over simulated channels.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers chosen by the tests"
)]

use proptest::prelude::*;
use transect_clock::exchange::{Bracket, Piece, RateModel, estimate};

/// A host clock that is `host0 + (guest - guest0) * (1 + drift)`, drift in 1e-9.
#[derive(Clone, Copy, Debug)]
struct Truth {
    host0: u64,
    guest0: u64,
    drift_ppb: i64,
}

impl Truth {
    /// Twice the host time, so that half ticks can be told.
    fn host_doubled(&self, guest: u64) -> i128 {
        let ahead = i128::from(guest) - i128::from(self.guest0);
        2 * i128::from(self.host0)
            + 2 * ahead
            + (2 * ahead * i128::from(self.drift_ppb)).div_euclid(1_000_000_000)
    }

    fn bracket(&self, guest: u64, there: u64, back: u64) -> Bracket {
        let twice = self.host_doubled(guest);
        Bracket {
            host_send: twice.div_euclid(2) as u64 - there,
            guest,
            host_recv: twice.div_euclid(2) as u64 + back,
        }
    }

    fn check(&self, piece: &Piece, guest: u64) -> Result<(), TestCaseError> {
        let (host, bound) = (piece.host_from_guest(guest).unwrap(), piece.bound_ticks(guest));
        let off = self.host_doubled(guest) - 2 * i128::from(host);
        prop_assert!(
            off.unsigned_abs() <= 2 * u128::from(bound),
            "guest {guest}: {host} +- {bound}, off by {off}/2 ({self:?})"
        );
        Ok(())
    }
}

fn truth(max_drift_ppb: i64) -> impl Strategy<Value = Truth> {
    (1u64 << 32..1 << 50, 1u64 << 32..1 << 50, -max_drift_ppb..=max_drift_ppb)
        .prop_map(|(host0, guest0, drift_ppb)| Truth { host0, guest0, drift_ppb })
}

/// Gaps between exchanges and their two delays: from nothing to far beyond the gaps.
fn channel() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let delay = || prop_oneof![0u64..50, 0u64..100_000, 0u64..50_000_000];
    prop::collection::vec((0u64..2_000_000_000, delay(), delay()), 1..60)
}

fn brackets(truth: &Truth, channel: &[(u64, u64, u64)]) -> Vec<Bracket> {
    let mut guest = truth.guest0;
    channel
        .iter()
        .map(|(gap, there, back)| {
            guest += gap;
            truth.bracket(guest, *there, *back)
        })
        .collect()
}

fn steady() -> RateModel {
    RateModel { same_counter_within_ppm: None, ..RateModel::same_tsc() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_truth_is_inside_the_bound_whatever_the_channel(
        truth in truth(900_000), channel in channel(), at in -20_000_000_000i64..140_000_000_000,
    ) {
        let brackets = brackets(&truth, &channel);
        let found = estimate(&brackets, &steady());
        prop_assert_eq!(found.pieces.len(), 1);
        prop_assert_eq!(found.contradicting + found.impossible, 0);
        let piece = &found.pieces[0];
        prop_assert_eq!(piece.brackets, brackets.len());
        let at = truth.guest0.saturating_add_signed(at);
        if truth.host_doubled(at) > 1 << 33 {
            truth.check(piece, at)?;
        }
        for b in &brackets {
            truth.check(piece, b.guest)?;
            truth.check(piece, b.guest + 1_234_567)?;
        }
    }

    #[test]
    fn more_brackets_never_widen_the_bound(
        truth in truth(900_000), channel in channel(), keep in prop::collection::vec(any::<bool>(), 60),
        at in -20_000_000_000i64..140_000_000_000,
    ) {
        let all = brackets(&truth, &channel);
        let some: Vec<Bracket> =
            all.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(b, _)| *b).collect();
        prop_assume!(!some.is_empty());
        let (all, some) = (estimate(&all, &steady()), estimate(&some, &steady()));
        let at = truth.guest0.saturating_add_signed(at);
        let (more, fewer) = (all.pieces[0].bound_ticks(at), some.pieces[0].bound_ticks(at));
        // Rounding to whole ticks: middle, half width, slope.
        prop_assert!(more <= fewer + 4, "{more} > {fewer}");
    }

    #[test]
    fn between_the_same_counters_the_bound_is_half_the_tightest_bracket_or_better(
        truth in truth(0), channel in channel(),
    ) {
        // Enough time between first and last to prove that nothing is scaled.
        let mut channel = channel;
        channel.push((10_000_000_000, 500_000, 500_000));
        channel.insert(0, (0, 500_000, 500_000));
        let brackets = brackets(&truth, &channel);
        let tightest = brackets.iter().map(|b| b.host_recv - b.host_send).min().unwrap();
        let piece = &estimate(&brackets, &RateModel::same_tsc()).pieces[0];
        prop_assert!(piece.same_counter);
        for at in [truth.guest0 - (1 << 31), truth.guest0, truth.guest0 + (1 << 36)] {
            truth.check(piece, at)?;
            prop_assert!(piece.bound_ticks(at) <= tightest.div_ceil(2) + 3);
        }
    }

    #[test]
    fn a_clock_far_off_the_nominal_rate_is_found_out(
        truth in truth(300_000_000).prop_filter("beyond the limit", |t| t.drift_ppb.abs() > 20_000_000),
        delays in prop::collection::vec((0u64..100_000, 0u64..100_000), 12..40),
    ) {
        let channel: Vec<_> = delays.iter().map(|(t, b)| (200_000_000, *t, *b)).collect();
        let brackets = brackets(&truth, &channel);
        let found = estimate(&brackets, &RateModel::same_tsc());
        prop_assert_eq!(found.pieces.len(), 1);
        prop_assert!(found.pieces[0].outside_limit);
        for b in &brackets {
            truth.check(&found.pieces[0], b.guest + 99_999_999)?;
        }
    }

    #[test]
    fn a_step_starts_a_new_piece_and_both_hold(
        truth in truth(500_000), step in 50_000_000i64..1_000_000_000_000,
        delays in prop::collection::vec((0u64..1_000_000, 0u64..1_000_000), 12..60),
        cut in 4usize..8,
    ) {
        let channel: Vec<_> = delays.iter().map(|(t, b)| (200_000_000, *t, *b)).collect();
        let mut brackets = brackets(&truth, &channel);
        let after = Truth { guest0: truth.guest0 - (step as u64).min(truth.guest0), ..truth };
        for b in &mut brackets[cut..] {
            b.guest -= truth.guest0 - after.guest0;
        }
        let found = estimate(&brackets, &steady());
        prop_assert_eq!(found.pieces.len(), 2, "{:?}", found);
        for b in &brackets[..cut] {
            truth.check(&found.pieces[0], b.guest)?;
        }
        for b in &brackets[cut..] {
            after.check(&found.pieces[1], b.guest)?;
        }
    }

    #[test]
    fn one_false_answer_is_dropped_and_counted(
        truth in truth(500_000), at in 2usize..8, shift in 100_000_000u64..1_000_000_000,
        delays in prop::collection::vec((0u64..1_000_000, 0u64..1_000_000), 14..40),
    ) {
        let channel: Vec<_> = delays.iter().map(|(t, b)| (200_000_000, *t, *b)).collect();
        let mut brackets = brackets(&truth, &channel);
        brackets[at].guest += shift;
        let found = estimate(&brackets, &steady());
        prop_assert_eq!((found.pieces.len(), found.contradicting), (1, 1), "{:?}", found);
        for b in &brackets {
            truth.check(&found.pieces[0], b.guest)?;
        }
    }

    #[test]
    fn any_rubbish_ends_and_never_runs_backwards(
        raw in prop::collection::vec(
            (any::<u64>(), any::<u64>(), any::<u64>(), 0u32..62, 0u32..62), 0..80),
    ) {
        let brackets: Vec<Bracket> = raw
            .iter()
            .map(|&(s, g, w, cut, cut_w)| Bracket {
                host_send: s >> cut,
                guest: g >> cut,
                host_recv: (s >> cut).saturating_add(w >> cut_w),
            })
            .collect();
        for model in [RateModel::same_tsc(), RateModel::kernel_clocks(),
            RateModel { nominal: None, ..RateModel::kernel_clocks() }] {
            let found = estimate(&brackets, &model);
            let used: usize = found.pieces.iter().map(|p| p.brackets).sum();
            prop_assert!(used + found.contradicting + found.impossible <= brackets.len());
            for piece in &found.pieces {
                let hosts: Vec<_> =
                    (0..64).map(|bit| piece.host_from_guest(1 << bit)).skip_while(Option::is_none).collect();
                let in_range: Vec<u64> = hosts.into_iter().flatten().collect();
                prop_assert!(in_range.is_sorted(), "{in_range:?}");
                let _ = piece.bound_ticks(u64::MAX);
                let _ = piece.worst_bound_ticks();
            }
        }
    }
}

proptest! {
    // Each case is thousands of corridors.
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_wandering_clock_stays_inside_its_bound(
        rates in prop::collection::vec(-50_000i64..=50_000, 3..120),
        mean_ppb in -400_000i64..400_000,
        delays in prop_oneof![
            prop::collection::vec((0u64..100_000, 0u64..100_000), 120),
            prop::collection::vec((0u64..100, 0u64..100), 120),
        ],
        every in prop_oneof![Just(250_000_000usize), Just(1_300_000_000)],
    ) {
        // One second of guest time at each rate.
        let (start, host0) = (1u64 << 40, 1u64 << 41);
        let host_at = |guest: u64| {
            let (mut host, mut left) = (i128::from(host0) * 1_000_000_000, i128::from(guest - start));
            for rate in &rates {
                let part = left.min(1_000_000_000);
                host += part * i128::from(1_000_000_000 + mean_ppb + rate);
                left -= part;
            }
            host += left * i128::from(1_000_000_000 + mean_ppb);
            (host / 1_000_000_000) as u64
        };
        let end = start + rates.len() as u64 * 1_000_000_000;
        let brackets: Vec<Bracket> = (start..=end)
            .step_by(every)
            .zip(delays.iter().cycle())
            .map(|(guest, (there, back))| Bracket {
                host_send: host_at(guest) - there,
                guest,
                host_recv: host_at(guest) + back,
            })
            .collect();
        let found = estimate(&brackets, &RateModel::kernel_clocks());
        prop_assert_eq!(found.pieces.len(), 1);
        let piece = &found.pieces[0];
        for guest in (start..end).step_by(77_777_777) {
            let (host, bound) = (piece.host_from_guest(guest).unwrap(), piece.bound_ticks(guest));
            prop_assert!(host.abs_diff(host_at(guest)) <= bound);
            prop_assert!(bound < 300_000, "useless bound {bound}");
        }
    }
}

#[test]
fn a_long_recording_is_fitted_in_no_time() {
    let truth = Truth { host0: 1 << 45, guest0: 1 << 44, drift_ppb: 12_345 };
    let channel: Vec<_> = (0..50_000u64)
        .map(|i| (200_000_000, 20_000 + i * 7_919 % 60_000, 15_000 + i * 104_729 % 90_000))
        .collect();
    let brackets = brackets(&truth, &channel);
    let start = std::time::Instant::now();
    for model in [steady(), RateModel::kernel_clocks()] {
        let found = estimate(&brackets, &model);
        assert_eq!(found.pieces.len(), 1);
        assert!(found.pieces[0].worst_bound_ticks() < 70_000);
    }
    let took = start.elapsed();
    assert!(took.as_secs() < 20, "took {took:?} (unoptimized build, slow machine)");
}

#[test]
fn contradictions_without_end_are_cut_into_pieces_in_linear_time() {
    let brackets: Vec<Bracket> = (0..20_000u64)
        .map(|i| Bracket {
            host_send: i * 1_000,
            guest: i * 7_919 % 20_000 * 1_000,
            host_recv: i * 1_000 + 10,
        })
        .collect();
    let found = estimate(&brackets, &steady());
    assert!(found.pieces.len() > 1_000);
}
