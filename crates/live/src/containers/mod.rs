//! Control groups as people know them: which container, pod, machine, service or slice a path is.
//!
//! **What.** [`levels`] is a pure function from a control group's path to the containers it lies in, from the
//! outermost to the innermost; a path that lies in none gives the unit of systemd, or the group, that it
//! is. Names that only a manager's own files tell (docker's, a pod's) are [`names`]' part.
//!
//! **Constraints.** Paths are what the kernel tells of processes ([`docs/reference/live.md`] has the table). Identifiers
//! are not trusted: a group may be named by anybody who may make groups, so a shape has to fit as a
//! whole (64 hexadecimal digits, a UUID), and what does not fit is a plain group.

mod level;
mod names;
mod shapes;
mod sum;

pub(crate) use level::{Kind, Level};
pub(crate) use sum::{Containers, active_groups};

/// The containers that a control group lies in, the outermost first. Without any: the service, scope or
/// slice that it is or lies in, or the group itself. The root is nothing of all that.
pub(crate) fn levels(path: &str) -> Vec<Level> {
    let mut found: Vec<Level> = Vec::new();
    let mut unit: Option<Level> = None;
    let mut above: Vec<&str> = Vec::new();
    let mut end = 0;
    for part in path.split('/') {
        end += part.len() + 1;
        if part.is_empty() {
            continue;
        }
        let here = path.get(..end - 1).unwrap_or(path);
        let pod =
            found.last().filter(|level| level.kind == Kind::Pod && is_right_above(level, here));
        let pod_id = pod.and_then(|pod| pod.id.clone());
        for shape in shapes::of(&above, part, pod_id.as_deref()) {
            found.push(shape.at(here));
        }
        if found.is_empty() {
            unit = shapes::unit(part, unit.as_ref()).map(|shape| shape.at(here)).or(unit);
        }
        above.push(part);
    }
    match (found.is_empty(), unit) {
        (false, _) => found,
        (true, Some(unit)) => vec![unit],
        (true, None) => shapes::group(&above).map(|shape| shape.at(path)).into_iter().collect(),
    }
}

/// Is the pod's group the parent of this one, or the same (told by one name)?
fn is_right_above(pod: &Level, here: &str) -> bool {
    here.strip_prefix(&pod.path).is_some_and(|rest| rest.matches('/').count() <= 1)
}

#[cfg(test)]
mod tests;
