//! Access control on disk: the rights of the files that transect makes, and checks of the files that it relies on.
//!
//! A recording contains names of processes, VMs and files of every user of a host. Its directory has mode 0700 and its
//! files have mode 0600, whatever the umask is; with a group, 0750 and 0640 ([`create_top`]). The rights of
//! everything below that directory follow from it ([`create_dir`], [`create_file`]): tables that are made later, also by
//! another user, have the owner, the group and at most the rights of the directory that they are in.
//!
//! ```text
//! directory   0700   0750   0755   0770
//! its files   0600   0640   0644   0640
//! its folders 0700   0750   0755   0750
//! ```
//!
//! A daemon relies on its directory of data and on its files of tokens and keys: [`own_dir`] and [`read_secret`] refuse
//! those that another user can change or read.
//!
//! File systems without modes (vfat, some network file systems) keep the rights that they are mounted with.

mod check;
mod create;
mod folder;
mod group;
#[cfg(test)]
mod tests;

pub use check::{AccessError, check_dir, open_read, open_update, open_write, own_dir, read_secret};
pub use create::{
    Readers, check_top, create_dir, create_dir_all, create_file, create_top, replace_file,
};
pub use folder::{FolderError, NewFolder, lock_folder};
pub use group::Group;
