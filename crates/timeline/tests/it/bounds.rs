//! Requests for tiles that are refused.
#![allow(clippy::unwrap_used, reason = "tests report by failing, and are of small numbers")]

use crate::common::{Place, Random, machines, vcpu_states};
use transect_model::table::Row;
use transect_timeline::{MAX_ROWS, TilesRequest, TimelineError, View};

/// States of a vCPU, more than one tile gives as they are.
fn open_view() -> (Place, View) {
    let states = vcpu_states(&mut Random::new(5), 0, 1_000_000_007, 5000);
    let place = Place::new(machines().into_iter().chain(states.into_iter().map(Row::VcpuState)));
    let view = place.ensure(1).unwrap();
    (place, view)
}

fn request(view: &View, level: u8, repeats: usize) -> TilesRequest {
    let track = view.tracks().iter().find(|track| track.intervals == 5000).unwrap().track;
    TilesRequest { level, first: 0, count: 1, tracks: vec![track; repeats] }
}

#[test]
fn level_without_sums_is_refused() {
    let (_place, view) = open_view();
    let coarsest = view.level_max();
    assert!(view.tiles(&request(&view, coarsest, 1), MAX_ROWS).is_ok());
    for level in [coarsest + 1, 53, 54, u8::MAX] {
        let refused = view.tiles(&request(&view, level, 1), MAX_ROWS);
        assert!(matches!(refused, Err(TimelineError::Request(_))), "{level}");
    }
}

#[test]
fn repeated_track_is_refused() {
    let (_place, view) = open_view();
    let refused = view.tiles(&request(&view, view.top_level(), 2), MAX_ROWS);
    assert!(matches!(refused, Err(TimelineError::Request(_))));
}

#[test]
fn answer_with_more_rows_than_accepted_is_refused() {
    let (_place, view) = open_view();
    let request = request(&view, view.top_level(), 1);
    let refused = view.tiles(&request, 100).unwrap_err();
    assert_eq!(refused.to_string(), "more than 100 rows: ask for fewer tiles at once");
    assert!(view.tiles(&request, 512 * 16).is_ok());
}
