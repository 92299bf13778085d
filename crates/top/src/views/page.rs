//! The page of a view.

use super::{
    all, cpu, findings, one,
    scene::{Page, Scene},
    threads,
    view::View,
};

/// What a view shows of these windows.
pub(crate) fn page(view: &View, scene: &Scene<'_>) -> Page {
    match view {
        View::All => all::page(scene),
        View::Vm(id) => threads::of_vm(scene, *id),
        View::Group(group) => threads::of_group(scene, group),
        View::Threads => threads::all(scene),
        View::Findings => findings::page(scene),
        View::Cpu(cpu) => cpu::page(scene, *cpu),
        View::One(who) => one::page(scene, who),
    }
}
