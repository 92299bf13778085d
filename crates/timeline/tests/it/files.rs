//! The files of tiles: the same bytes from the same tables, and none trusted that was changed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    reason = "tests report by failing, and are of small numbers"
)]

use crate::common::{Place, Random, cpu_slices, exits, machines, vcpu_states};
use std::fs;
use transect_model::table::Row;
use transect_timeline::{Tile, TimelineError, View};

fn place() -> Place {
    let mut random = Random::new(42);
    let states = (0..3).flat_map(|vcpu| vcpu_states(&mut random, vcpu, 1000, 9000));
    let states: Vec<_> = states.map(Row::VcpuState).collect();
    let slices = cpu_slices(&mut random, 40, 9000).into_iter().map(Row::CpuSlice);
    let exits = exits(&mut random, 5000).into_iter().map(Row::Exit);
    Place::new(machines().into_iter().chain(states).chain(slices).chain(exits))
}

/// Reads every interval, and the tiles of the upper levels.
fn read_all(view: &View) -> Result<usize, TimelineError> {
    let mut rows = 0;
    for track in view.tracks() {
        rows += view.intervals(track.track, 0, i64::MAX / 4, 1 << 40)?.len();
        for level in view.top_level() - 2..=view.top_level() {
            for index in 0..=(view.to() - view.origin()) / (512 << level) {
                rows += match view.tile(track.track, level, index)? {
                    Some(Tile::Exact(rows)) => rows.len(),
                    Some(Tile::Shares(shares)) => shares.len(),
                    Some(Tile::Values(values)) => values.len(),
                    None => 0,
                };
            }
        }
    }
    Ok(rows)
}

#[test]
fn any_number_of_threads_makes_the_same_bytes() {
    let place = place();
    let mut made = Vec::new();
    for threads in [1, 2, 7, 1] {
        place.ensure(threads).unwrap();
        made.push(place.files());
        fs::remove_dir_all(place.parent().join("view")).unwrap();
    }
    assert!(made[0].len() > 3 && made.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn what_is_there_is_used_and_stale_tiles_are_not() {
    let place = place();
    place.ensure(2).unwrap();
    let stamp = place.path_of("stamp.json");
    let made = fs::metadata(&stamp).unwrap().modified().unwrap();
    place.ensure(2).unwrap();
    assert_eq!(fs::metadata(&stamp).unwrap().modified().unwrap(), made);
    fs::write(place.tables().join("stamp.json"), "{}").unwrap();
    assert!(View::open(place.parent(), &place.tables()).is_err());
    place.ensure(2).unwrap();
    assert_ne!(fs::metadata(&stamp).unwrap().modified().unwrap(), made);
}

#[test]
fn a_cut_file_is_made_again() {
    let place = place();
    place.ensure(2).unwrap();
    let whole = place.files();
    for name in whole.keys().filter(|name| name.ends_with(".tiles")) {
        let bytes = &whole[name];
        for keep in [0, 7, bytes.len() / 2, bytes.len() - 1] {
            fs::write(place.path_of(name), &bytes[..keep]).unwrap();
            let error = View::open(place.parent(), &place.tables()).unwrap_err();
            assert!(error.is_damage(), "{name} cut to {keep}: {error}");
        }
        place.ensure(2).unwrap();
        assert_eq!(place.files(), whole);
    }
}

#[test]
fn no_changed_byte_is_drawn() {
    let place = place();
    let rows = read_all(&place.ensure(2).unwrap()).unwrap();
    assert!(rows > 10_000);
    let whole = place.files();
    let mut random = Random::new(3);
    for name in whole.keys().filter(|name| name.ends_with(".tiles")) {
        for _ in 0..8 {
            let mut bytes = whole[name].clone();
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= 1 << random.below(8);
            fs::write(place.path_of(name), &bytes).unwrap();
            let read = View::open(place.parent(), &place.tables()).and_then(|v| read_all(&v));
            match read {
                // The magic, or what these tiles and levels did not need.
                Ok(shown) => assert_eq!(shown, rows, "{name} byte {at}"),
                Err(error) => assert!(error.is_damage(), "{name} byte {at}: {error}"),
            }
        }
        fs::write(place.path_of(name), &whole[name]).unwrap();
    }
}

#[test]
fn a_maker_that_was_killed_is_in_nobodys_way() {
    let place = place();
    let tmp = place.parent().join("view.tmp");
    fs::create_dir(&tmp).unwrap();
    fs::write(tmp.join("0000-cpu_slices.tiles"), "half").unwrap();
    place.ensure(2).unwrap();
    assert!(!tmp.exists());
}
