//! Numbers in as few bytes as they need: seven bits a byte, the lowest first (LEB128).

/// Appends a number.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
pub(crate) fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Takes a number from the front; none where the bytes end in the middle of it.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    let mut shift = 0;
    loop {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f).checked_shl(shift)?;
        if first & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

/// Signed numbers with small ones near zero.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The inverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(values: Vec<i64>) {
            let mut bytes = Vec::new();
            for value in &values {
                put(&mut bytes, zigzag(*value));
            }
            let mut rest = &bytes[..];
            let back: Vec<i64> = values.iter().map(|_| unzigzag(take(&mut rest).unwrap())).collect();
            prop_assert_eq!(back, values);
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while take(&mut rest).is_some() {}
        }
    }
}
