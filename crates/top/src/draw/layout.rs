//! Who gets how much of the screen.

use crate::table::Column;

/// Smaller terminals are only told so.
pub(crate) const LEAST: (u16, u16) = (20, 6);

/// Lines for a text over the view: all but the line on top and the one at the bottom.
pub(crate) fn text_height(height: u16) -> usize {
    usize::from(height.saturating_sub(2))
}

/// The columns that fit, with their widths, and the names of the others.
pub(crate) struct Columns<'a> {
    pub(crate) shown: Vec<(usize, usize)>,
    pub(crate) left_out: Vec<&'a str>,
}

/// Gives columns room by rank, and what is left to those that can use it.
pub(crate) fn columns(columns: &[Column], width: usize) -> Columns<'_> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|at| columns[*at].rank);
    let (mut fits, mut left) = (vec![false; columns.len()], width);
    for at in by_rank {
        let gap = usize::from(at > 0);
        let wanted = usize::from(columns[at].width) + gap;
        // The name is there in any case.
        if wanted <= left || at == 0 {
            fits[at] = true;
            left = left.saturating_sub(wanted);
        }
    }
    let mut shown: Vec<(usize, usize)> = Vec::new();
    for (at, column) in columns.iter().enumerate().filter(|(at, _)| fits[*at]) {
        shown.push((at, usize::from(column.width)));
    }
    widen(columns, &mut shown, left);
    let left_out = columns.iter().enumerate().filter(|(at, _)| !fits[*at]);
    Columns { shown, left_out: left_out.map(|(_, column)| column.title.as_str()).collect() }
}

/// Gives what is left to the columns that can be wider, from the left: whatever they hold, so that nothing moves
/// from one window to the next.
fn widen(columns: &[Column], shown: &mut [(usize, usize)], mut left: usize) {
    for (at, width) in shown.iter_mut() {
        let more = usize::from(columns[*at].widest).saturating_sub(*width).min(left);
        *width += more;
        left -= more;
    }
}

/// Lines for each list of a page, its header included: the one that keys move in first, each of the others
/// at least two as long as there is room.
pub(crate) fn heights(wanted: &[usize], focus: usize, height: usize) -> Vec<usize> {
    let order = std::iter::once(focus).chain((0..wanted.len()).filter(|at| *at != focus));
    let order: Vec<usize> = order.filter(|at| *at < wanted.len()).collect();
    let (mut given, mut left) = (vec![0; wanted.len()], height);
    for least in [4, usize::MAX] {
        for at in &order {
            let more = wanted[*at].min(least) - given[*at];
            // A header without a row is no list.
            let more = if given[*at] == 0 && left < 2 { 0 } else { more.min(left) };
            given[*at] += more;
            left -= more;
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_by_rank_and_the_rest_of_the_room_is_used() {
        let all = [
            Column::text("NAME", 12, 20, 0),
            Column::number("CPU%", 6, 0),
            Column::number("IO/s", 5, 7),
            Column::text("ANTAGONIST", 12, 20, 1),
        ];
        let at = |width| {
            let columns = columns(&all, width);
            let total = columns.shown.iter().map(|(_, width)| width + 1).sum::<usize>() - 1;
            assert!(total <= width.max(12), "{total} in {width}");
            (columns.shown, columns.left_out)
        };
        assert_eq!(at(10), (vec![(0, 12)], vec!["CPU%", "IO/s", "ANTAGONIST"]));
        assert_eq!(at(31), (vec![(0, 18), (1, 6), (2, 5)], vec!["ANTAGONIST"]));
        assert_eq!(at(33), (vec![(0, 13), (1, 6), (3, 12)], vec!["IO/s"]));
        assert_eq!(at(100).0, vec![(0, 20), (1, 6), (2, 5), (3, 20)]);
    }

    #[test]
    fn the_list_in_use_has_room_first() {
        assert_eq!(heights(&[30], 0, 20), [20]);
        assert_eq!(heights(&[9, 9, 3], 0, 20), [9, 8, 3]);
        assert_eq!(heights(&[9, 9, 3], 1, 20), [8, 9, 3]);
        assert_eq!(heights(&[9, 9, 9], 2, 5), [0, 0, 5]);
        assert_eq!(heights(&[9, 9, 9], 0, 6), [4, 2, 0]);
        assert_eq!(heights(&[], 0, 6), Vec::<usize>::new());
    }
}
