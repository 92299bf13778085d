//! What is looked at: lists of actors, and single ones.

mod all;
mod behind;
mod cpu;
mod findings;
mod lines;
mod one;
mod page;
mod pressure;
mod scene;
mod threads;
mod view;

pub use view::View;

pub(crate) use page::page;
pub(crate) use scene::{LONG, Page, Scene, per_cent};
pub(crate) use view::{into, title};
