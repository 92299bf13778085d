//! Names that end up as files. A guest may send any name; none may leave its folder.

use crate::error::StoreError;

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'+'))
}

/// One file name in the recording directory.
pub(crate) fn check_file(name: &str) -> Result<(), StoreError> {
    if is_plain(name) {
        Ok(())
    } else {
        Err(StoreError::Name { what: "file name", name: name.to_owned() })
    }
}

/// A relative path inside a `<stem>.meta/` folder: the file's path below tracefs.
pub(crate) fn check_meta(name: &str) -> Result<(), StoreError> {
    if name.split('/').all(is_plain) && name.split('/').count() <= 8 {
        Ok(())
    } else {
        Err(StoreError::Name { what: "meta file name", name: name.to_owned() })
    }
}

/// A file stem for a machine's name: whatever is not a plain character becomes `_`.
pub fn stem_from_name(kind_prefix: &str, name: &str) -> String {
    let mut stem = String::from(kind_prefix);
    stem.extend(
        name.chars()
            .take(100)
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }),
    );
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_the_folder() {
        for bad in ["", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a\0b", ".hidden", "a\nb"] {
            assert!(check_meta(bad).is_err(), "{bad:?}");
            assert!(check_file(bad).is_err(), "{bad:?}");
        }
        assert!(check_meta("events/sched/sched_switch/format").is_ok());
        assert!(check_file("guest-web1.dat").is_ok());
        assert_eq!(stem_from_name("guest-", "../we b"), "guest-___we_b");
    }
}
