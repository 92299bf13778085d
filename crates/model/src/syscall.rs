//! System calls by number.

use syscalls::x86_64::Sysno;

/// The name of an x86-64 system call; of a number that none has, `syscall NR`.
pub fn name(nr: i64) -> String {
    let known = usize::try_from(nr).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("syscall {nr}"), |known| known.name().to_owned())
}

/// The number of a name, or of a number.
pub fn number(text: &str) -> Option<i64> {
    let known = text.parse::<Sysno>().ok().map(|known| i64::from(known.id()));
    known.or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!((name(18).as_str(), number("pwrite64")), ("pwrite64", Some(18)));
        assert_eq!((name(-1).as_str(), name(9999).as_str()), ("syscall -1", "syscall 9999"));
        assert_eq!((number("202"), number("no_such_call")), (Some(202), None));
        for nr in 0..600 {
            assert!(number(&name(nr)).is_none_or(|back| back == nr), "{nr}");
        }
    }
}
