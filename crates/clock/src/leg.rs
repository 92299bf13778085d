//! Several edges in a row, told as one: for the rows of `clock_edges`.

use crate::{
    edge::{Edge, Method},
    hop::Map,
};

/// The largest bound of the whole way within the span that the evidence covers, in ticks of the
/// clock it leads to. `None` beyond 64 bits.
pub(crate) fn bound(way: &[&Edge]) -> Option<u64> {
    way.iter().try_fold(0, |bound, edge| edge.grown(bound))
}

/// The method that makes it a way between two machines; that of the only edge if there is one.
pub(crate) fn method(way: &[&Edge]) -> Option<Method> {
    let between = way.iter().find(|edge| edge.from.machine != edge.to.machine);
    between.or(way.first()).map(|edge| edge.method)
}

/// The clock led to minus the clock come from where the evidence starts (in ticks of the clock led
/// to), and ticks of the latter per tick of the former. Of the first map of each edge.
pub(crate) fn offset_and_rate(way: &[&Edge]) -> (i128, f64) {
    let rate = way.iter().map(|edge| edge.rate()).product();
    if let [only] = way {
        return (only.start().map_or(0, Map::offset), rate);
    }
    let maps: Option<Vec<&Map>> = way.iter().map(|edge| edge.start()).collect();
    (maps.and_then(|maps| offset(&maps, way)).unwrap_or(0), rate)
}

fn offset(maps: &[&Map], way: &[&Edge]) -> Option<i128> {
    // A stamp near where the first estimate on the way starts: exact maps hold anywhere.
    let at = maps.iter().position(|map| matches!(map, Map::Curve(_)))?;
    let Map::Curve(curve) = maps.get(at)? else { return None };
    let stamp = maps.get(..at)?.iter().rev().try_fold(curve.start().0, |stamp, map| match map {
        Map::Tsc(tsc) => tsc.guest_from_host(stamp),
        _ => None,
    })?;
    let led_to = maps.iter().try_fold(stamp, |stamp, map| map.host_at(stamp))?;
    let is_same_unit = way.first()?.from.is_tsc() == way.last()?.to.is_tsc();
    let rate: f64 = way.iter().map(|edge| edge.rate()).product();
    let come_from = if is_same_unit { i128::from(stamp) } else { scaled(stamp, rate) };
    Some(i128::from(led_to) - come_from)
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, for printing only")]
#[expect(clippy::cast_precision_loss, reason = "the clocks differ in unit")]
fn scaled(stamp: u64, rate: f64) -> i128 {
    (stamp as f64 / rate) as i128
}
