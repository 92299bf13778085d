//! For tests of what takes how long: on a virtual machine whose CPUs its host sometimes stops.

use super::stops::Stops;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Duration,
};
use transect_bench_core::Fault;

/// A run in which a CPU was missed for this long does not say how quick anything is.
const MISSED: Duration = Duration::from_millis(100);
/// A run that was disturbed is made again, but not for ever.
const ROUNDS: u32 = 5;

/// Runs something and checks what came of it. If that fails and a CPU stood still meanwhile, it is done again.
pub(crate) fn undisturbed<T>(mut run: impl FnMut() -> Result<T, Fault>, check: impl Fn(&T)) -> T {
    let mut round = 1;
    loop {
        let stops = Stops::watch();
        let result = run();
        let missed = stops.end();
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let value = result.unwrap_or_else(|fault| panic!("{fault}"));
            check(&value);
            value
        }));
        match checked {
            Ok(value) => return value,
            Err(_) if missed >= MISSED && round < ROUNDS => {
                eprintln!("again: a CPU stood still for {missed:?} altogether");
            }
            Err(why) => resume_unwind(why),
        }
        round += 1;
    }
}

#[test]
fn what_is_never_good_enough_fails() {
    let mut rounds = 0;
    let run = || {
        rounds += 1;
        Ok(rounds)
    };
    let never = AssertUnwindSafe(|| undisturbed(run, |_| panic!("it is not good enough")));
    assert!(catch_unwind(never).is_err());
    // More than one only where CPUs do stand still.
    assert!((1..=ROUNDS).contains(&rounds), "{rounds}");
    assert_eq!(undisturbed(|| Ok(7), |_| {}), 7);
}
