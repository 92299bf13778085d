//! Accounts of subordinate user ids.
//!
//! A user with a range in `/etc/subuid` can run processes under each of its uids, in a user namespace (newuidmap(1)): 65536
//! of them where useradd(8) allots the range. For limits of one user all of them are that user.

use std::fs;

/// The user that can run processes as `uid`: the uid itself, or the owner of the range that it lies in.
pub(crate) fn find_account(uid: u32) -> u32 {
    let read = |path| {
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    resolve_account(uid, &read("/etc/subuid"), || read("/etc/passwd"))
}

/// As [`find_account`], from the text of subuid(5) and passwd(5). The owner of a range that is not in passwd (of LDAP, for
/// example) is stood for by the range's first uid.
fn resolve_account(uid: u32, subuid: &str, passwd: impl Fn() -> String) -> u32 {
    let range = subuid.lines().find_map(|line| {
        let mut fields = line.trim().splitn(3, ':');
        let (name, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        let (first, count): (u32, u64) = (first.parse().ok()?, count.parse().ok()?);
        let is_in = uid.checked_sub(first).is_some_and(|offset| u64::from(offset) < count);
        is_in.then_some((name, first))
    });
    let Some((name, first)) = range else { return uid };
    let passwd = passwd();
    let of_name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse().ok()
    });
    of_name.or_else(|| name.parse().ok()).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBUID: &str = "alice:100000:65536\nbad line\n1002:165536:65536\ncarol:231072:65536\n\
                          dora:4294967295:18446744073709551615\n";

    fn account_of(uid: u32) -> u32 {
        let passwd = || "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n".to_owned();
        resolve_account(uid, SUBUID, passwd)
    }

    #[test]
    fn subordinate_uid_is_its_owners() {
        assert_eq!((account_of(100_000), account_of(165_535)), (1000, 1000));
        assert_eq!((account_of(165_536), account_of(231_071)), (1002, 1002));
        assert_eq!((account_of(231_072), account_of(296_607)), (231_072, 231_072));
        assert_eq!(account_of(u32::MAX), u32::MAX);
    }

    #[test]
    fn uid_outside_all_ranges_is_itself() {
        for uid in [0, 1000, 65_534, 99_999, 296_608] {
            assert_eq!(account_of(uid), uid);
        }
        assert_eq!(resolve_account(100_000, "", String::new), 100_000);
    }
}
