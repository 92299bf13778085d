//! Version 7: sections found through chained option sections.

use super::{cursor::Cursor, header::Header, parts::Parts, reader::Reader, recover};
use crate::problem::{Error, Place};

pub(super) fn read(
    file: &[u8],
    mut cursor: Cursor<'_>,
    header: &Header,
    parts: &mut Parts,
) -> Result<(), Error> {
    let place = Place::Section("OPTIONS");
    let mut reader = Reader { file, header, parts, sections: Vec::new(), is_complete: false };
    match cursor.u64("options' offset") {
        Ok(offset) => reader.option_chain(offset),
        Err(cut) => reader.parts.cut(cut, place),
    }
    if !reader.is_complete {
        recover::find_sections(&mut reader, cursor.offset());
    }
    reader.read_sections()?;
    reader.make_buffers();
    Ok(())
}
