//! Integers of the traced machine, which may have another byte order and word size than ours.

/// Byte order of the traced machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

macro_rules! read {
    ($(#[$doc:meta])* $name:ident -> $int:ident) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(self, bytes: &[u8], at: usize) -> Option<$int> {
            let chunk = bytes.get(at..)?.first_chunk()?;
            Some(match self {
                Endian::Little => $int::from_le_bytes(*chunk),
                Endian::Big => $int::from_be_bytes(*chunk),
            })
        }
    };
}

impl Endian {
    /// The byte order of the machine this code runs on.
    pub const NATIVE: Endian =
        if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

    read! {
        /// The 16-bit integer at byte `at`, `None` if it is not wholly inside.
        u16 -> u16
    }
    read! {
        /// The 32-bit integer at byte `at`, `None` if it is not wholly inside.
        u32 -> u32
    }
    read! {
        /// The 64-bit integer at byte `at`, `None` if it is not wholly inside.
        u64 -> u64
    }

    /// The unsigned integer of `size` bytes at byte `at`; `None` if it is not wholly inside or
    /// `size` is no integer size (1, 2, 4, 8).
    #[inline]
    pub fn uint(self, bytes: &[u8], at: usize, size: usize) -> Option<u64> {
        match size {
            1 => bytes.get(at).map(|b| u64::from(*b)),
            2 => self.u16(bytes, at).map(u64::from),
            4 => self.u32(bytes, at).map(u64::from),
            8 => self.u64(bytes, at),
            _ => None,
        }
    }

    /// Like [`Endian::uint`], but the top bit of the integer is its sign.
    #[inline]
    pub fn int(self, bytes: &[u8], at: usize, size: usize) -> Option<i64> {
        match size {
            1 => bytes.get(at).map(|b| i64::from(b.cast_signed())),
            2 => self.u16(bytes, at).map(|v| i64::from(v.cast_signed())),
            4 => self.u32(bytes, at).map(|v| i64::from(v.cast_signed())),
            8 => self.u64(bytes, at).map(u64::cast_signed),
            _ => None,
        }
    }

    /// `value` as this machine's 16 bits.
    pub fn bytes_u16(self, value: u16) -> [u8; 2] {
        match self {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        }
    }

    /// `value` as this machine's 32 bits.
    pub fn bytes_u32(self, value: u32) -> [u8; 4] {
        match self {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        }
    }

    /// `value` as this machine's 64 bits.
    pub fn bytes_u64(self, value: u64) -> [u8; 8] {
        match self {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_signs_and_orders() {
        let bytes = [0xff, 0xfe, 0x01, 0x02, 0, 0, 0, 0x80];
        assert_eq!(Endian::Little.uint(&bytes, 0, 2), Some(0xfeff));
        assert_eq!(Endian::Big.uint(&bytes, 0, 2), Some(0xfffe));
        assert_eq!(Endian::Big.int(&bytes, 0, 2), Some(-2));
        assert_eq!(Endian::Little.int(&bytes, 0, 1), Some(-1));
        assert_eq!(Endian::Little.int(&bytes, 0, 8), Some(0x8000_0000_0201_feffu64.cast_signed()));
        assert_eq!(Endian::Little.uint(&bytes, 5, 4), None);
        assert_eq!(Endian::Little.uint(&bytes, usize::MAX, 4), None);
        assert_eq!(Endian::Little.uint(&bytes, 0, 3), None);
    }
}
