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
use transect_timeline::{Lookup, Tile, TimelineError, Verified, View, Wanted};

fn place() -> Place {
    Place::new(rows())
}

fn rows() -> Vec<Row> {
    let mut random = Random::new(42);
    let states = (0..3).flat_map(|vcpu| vcpu_states(&mut random, vcpu, 1000, 9000));
    let states: Vec<_> = states.map(Row::VcpuState).collect();
    let slices = cpu_slices(&mut random, 40, 9000).into_iter().map(Row::CpuSlice);
    let exits = exits(&mut random, 5000).into_iter().map(Row::Exit);
    machines().into_iter().chain(states).chain(slices).chain(exits).collect()
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
    let place = Place::stamped("one", &rows());
    place.ensure(2).unwrap();
    let stamp = place.path_of("stamp.json");
    let made = fs::metadata(&stamp).unwrap().modified().unwrap();
    place.ensure(2).unwrap();
    assert_eq!(fs::metadata(&stamp).unwrap().modified().unwrap(), made);
    let verify = || transect_timeline::verify(place.parent(), &place.tables()).unwrap();
    assert!(matches!(verify(), Verified::Whole { files, .. } if files > 2));
    place.stamp("two", &rows());
    assert!(View::open(place.parent(), &place.tables()).is_err());
    assert!(matches!(verify(), Verified::Stale));
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

/// Where tiles begin and end is in the stamp alone.
#[test]
fn no_changed_byte_of_the_stamp_is_believed() {
    let place = place();
    let made = place.ensure(2).unwrap();
    let path = place.path_of("stamp.json");
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let error = View::open(place.parent(), &place.tables()).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("stamp.json"), "{at}: {error}");
    }
    let again = place.ensure(2).unwrap();
    assert_eq!((again.origin(), again.to()), (made.origin(), made.to()));
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn verification_finds_every_changed_byte_of_the_tiles() {
    let place = place();
    place.ensure(2).unwrap();
    let verify = || transect_timeline::verify(place.parent(), &place.tables()).unwrap();
    let whole = place.files();
    let all: usize = whole.iter().filter(|(n, _)| n.ends_with(".tiles")).map(|f| f.1.len()).sum();
    assert!(matches!(verify(), Verified::Whole { bytes, .. } if bytes == all as u64));
    let mut random = Random::new(5);
    for (name, content) in &whole {
        for _ in 0..20 {
            let mut bytes = content.clone();
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= 1 << random.below(8);
            fs::write(place.path_of(name), &bytes).unwrap();
            let Verified::Damaged(errors) = verify() else { panic!("{name} byte {at}") };
            assert!(errors.len() == 1 && errors[0].to_string().contains(name), "{errors:?}");
        }
        fs::remove_file(place.path_of(name)).unwrap();
        let is_gone = matches!(verify(), Verified::Damaged(_));
        assert!(is_gone, "{name}");
        fs::write(place.path_of(name), content).unwrap();
    }
    fs::remove_dir_all(place.parent().join("view")).unwrap();
    assert!(matches!(verify(), Verified::None));
}

/// No tile and no row is made of tables that are not what was written.
#[test]
fn damaged_tables_are_an_error_that_names_the_file() {
    let place = Place::stamped("", &rows());
    let name = "exits/machine_id=1/bucket=0.parquet";
    let path = place.tables().join(name);
    let whole = fs::read(&path).unwrap();
    let rows = Lookup::new(&place.tables()).rows("exits", &Wanted::default()).unwrap();
    let mut random = Random::new(9);
    for number in 0..40 {
        let mut bytes = whole.clone();
        let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        match number {
            0 => bytes.truncate(at),
            _ => bytes[at] ^= 1 << random.below(8),
        }
        fs::write(&path, &bytes).unwrap();
        let tell = |error: TimelineError| {
            let (damage, text) = (error.table_damage().cloned(), error.to_string());
            assert!(damage.is_some_and(|damage| damage.path == path), "{text}");
            assert!(text.contains("transect verify"), "{text}");
        };
        tell(place.ensure(2).map(drop).unwrap_err());
        tell(Lookup::new(&place.tables()).rows("exits", &Wanted::default()).unwrap_err());
    }
    fs::write(&path, &whole).unwrap();
    place.ensure(2).unwrap();
    assert_eq!(Lookup::new(&place.tables()).rows("exits", &Wanted::default()).unwrap(), rows);
}
