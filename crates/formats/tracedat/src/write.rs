//! Writes trace.dat files of version 7, for trace-cmd, KernelShark and ourselves.
//!
//! Everything but the events is known and small when a recording ends, and the sizes of the
//! events' data are known too. So a file is *planned*: [`FileSpec::plan`] says which bytes stand
//! where and at which (page-aligned) offset each CPU's data goes. The recorder then moves the
//! pages it has spooled there without touching them (`copy_file_range`). The options come before
//! the data, unlike trace-cmd's: a file cut within its data still says what it holds.
//!
//! Compressed data has no size before it is compressed; [`FileSpec::write`] streams it.

mod encode;
mod layout;
mod option;
mod spec;

pub use crate::metadata::Metadata;
pub use spec::{BufferSpec, CpuSpec, FileSpec, WriteError};

use crate::read::{Compression, MAGIC, option::id};
use encode::Encoder;
use layout::{BufferPlace, Checked, DataLayout, alignment};
use spec::spec_error;
use std::io::{Read, Seek, SeekFrom, Write};
use transect_ftrace::Endian;

/// Pages per compressed chunk, as trace-cmd has it: a reader needs no more memory than this.
const PAGES_PER_CHUNK: u64 = 10;

/// A stretch of the file to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Bytes {
        /// Where.
        offset_bytes: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// One CPU's data, which the caller puts there.
    CpuData {
        /// Where: a multiple of the buffer's page size.
        offset_bytes: u64,
        /// How much.
        size_bytes: u64,
        /// Which of [`FileSpec::buffers`].
        buffer: usize,
        /// Which CPU.
        cpu: u32,
    },
}

/// Where everything goes in an uncompressed file. What lies between the pieces is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In ascending order of offset.
    pub pieces: Vec<Piece>,
    /// Length of the file: set it (`set_len`), as the last piece may be empty.
    pub file_bytes: u64,
}

impl FileSpec {
    /// Plans an uncompressed file.
    ///
    /// # Errors
    /// [`WriteError::Spec`]: the compression is another, a size cannot be, or a CPU is named twice.
    pub fn plan(&self) -> Result<Plan, WriteError> {
        if self.compression != Compression::None {
            return spec_error("a compressed file cannot be planned; use `write`");
        }
        let buffers = self.checked_buffers()?;
        // Offsets are fixed-size fields, so a first pass with zeroes gives the length of the head.
        let mut layout = DataLayout::default();
        let mut head = Vec::new();
        for _ in 0..2 {
            head = self.head(&buffers, &layout, true)?;
            layout = DataLayout::new(&buffers, head.len() as u64);
        }
        let mut pieces = vec![Piece::Bytes { offset_bytes: 0, bytes: head }];
        for (at, (buffer, place)) in buffers.iter().zip(&layout.buffers).enumerate() {
            let mut encoder = self.encoder(place.header_offset);
            let desc = self.strings(&buffers).1[at];
            encoder.section(id::BUFFER, false, desc, place.end - place.header_offset - 16);
            let bytes = encoder.finish();
            pieces.push(Piece::Bytes { offset_bytes: place.header_offset, bytes });
            for (data, offset_bytes) in buffer.spec.cpus.iter().zip(&place.cpu_offsets) {
                if let (Some(buffer), true) = (buffer.index, data.size_bytes > 0) {
                    pieces.push(Piece::CpuData {
                        offset_bytes: *offset_bytes,
                        size_bytes: data.size_bytes,
                        buffer,
                        cpu: data.cpu,
                    });
                }
            }
        }
        Ok(Plan { pieces, file_bytes: layout.file_bytes })
    }

    /// Writes a whole file of any compression. `data` gives a reader of each CPU's sub-buffers,
    /// called with the buffer's index in [`FileSpec::buffers`] and the CPU.
    ///
    /// # Errors
    /// As [`FileSpec::plan`]; the output or a source fails; a source gives another number of bytes
    /// than specified.
    pub fn write<W, R>(
        &self,
        mut out: W,
        mut data: impl FnMut(usize, u32) -> std::io::Result<R>,
    ) -> Result<(), WriteError>
    where
        W: Write + Seek,
        R: Read,
    {
        if self.compression != Compression::None {
            return self.write_compressed(&mut out, &mut data);
        }
        let plan = self.plan()?;
        for piece in &plan.pieces {
            match piece {
                Piece::Bytes { offset_bytes, bytes } => {
                    pad_to(&mut out, *offset_bytes)?;
                    out.write_all(bytes)?;
                }
                Piece::CpuData { offset_bytes, size_bytes, buffer, cpu } => {
                    pad_to(&mut out, *offset_bytes)?;
                    let source = data(*buffer, *cpu)?;
                    let copied = std::io::copy(&mut source.take(*size_bytes), &mut out)?;
                    check_size(*cpu, copied, *size_bytes)?;
                }
            }
        }
        pad_to(&mut out, plan.file_bytes)?;
        Ok(())
    }

    fn write_compressed<W, R>(
        &self,
        out: &mut W,
        data: &mut impl FnMut(usize, u32) -> std::io::Result<R>,
    ) -> Result<(), WriteError>
    where
        W: Write + Seek,
        R: Read,
    {
        let mut buffers = self.checked_buffers()?;
        let head = self.head(&buffers, &DataLayout::default(), false)?;
        out.write_all(&head)?;
        let mut layout = DataLayout::default();
        for (at, buffer) in buffers.iter_mut().enumerate() {
            let desc = self.strings_of_spec()[at];
            let place = self.compressed_buffer(out, buffer, desc, data)?;
            layout.buffers.push(place);
        }
        // The chain's last link: where the data turned out to be.
        let end = out.stream_position()?;
        let mut encoder = self.encoder(end);
        self.option_section(&mut encoder, |encoder| {
            for (buffer, place) in buffers.iter().zip(&layout.buffers) {
                option::buffer(encoder, &buffer.spec, place)?;
            }
            Ok(())
        })?;
        out.write_all(&encoder.finish())?;
        let link = self.next_options_offset(&head)?;
        out.seek(SeekFrom::Start(link))?;
        out.write_all(&self.endian.bytes_u64(end))?;
        out.seek(SeekFrom::End(0))?;
        Ok(())
    }

    /// Writes one buffer's section; leaves the compressed sizes in its specification.
    fn compressed_buffer<W, R>(
        &self,
        out: &mut W,
        buffer: &mut Checked,
        desc: u32,
        data: &mut impl FnMut(usize, u32) -> std::io::Result<R>,
    ) -> Result<BufferPlace, WriteError>
    where
        W: Write + Seek,
        R: Read,
    {
        let header_offset = out.stream_position()?;
        let header = |size: u64| {
            let mut encoder = self.encoder(header_offset);
            encoder.section(id::BUFFER, true, desc, size);
            encoder.finish()
        };
        out.write_all(&header(0))?;
        let align = alignment(&buffer.spec);
        let mut cpu_offsets = Vec::new();
        for cpu in &mut buffer.spec.cpus {
            let offset = out.stream_position()?.next_multiple_of(align);
            cpu_offsets.push(offset);
            let Some(index) = buffer.index.filter(|_| cpu.size_bytes > 0) else { continue };
            pad_to(out, offset)?;
            let source = data(index, cpu.cpu)?;
            let chunk_bytes = u64::from(buffer.spec.page_bytes) * PAGES_PER_CHUNK;
            self.chunks(out, source, cpu, chunk_bytes)?;
            cpu.size_bytes = out.stream_position()? - offset;
        }
        let end = out.stream_position()?;
        out.seek(SeekFrom::Start(header_offset))?;
        out.write_all(&header(end - header_offset - 16))?;
        out.seek(SeekFrom::Start(end))?;
        Ok(BufferPlace { header_offset, cpu_offsets, end })
    }

    /// Writes one CPU's data as a number of chunks and the chunks.
    fn chunks<W: Write>(
        &self,
        out: &mut W,
        source: impl Read,
        cpu: &CpuSpec,
        chunk_bytes: u64,
    ) -> Result<(), WriteError> {
        let count = cpu.size_bytes.div_ceil(chunk_bytes);
        let too_many = |_| WriteError::Spec(format!("CPU {}: too much data", cpu.cpu));
        out.write_all(&self.endian.bytes_u32(u32::try_from(count).map_err(too_many)?))?;
        let mut source = source.take(cpu.size_bytes);
        let mut chunk = Vec::new();
        let mut copied = 0;
        for _ in 0..count {
            chunk.clear();
            (&mut source).take(chunk_bytes).read_to_end(&mut chunk)?;
            copied += chunk.len() as u64;
            let packed = encode::compress(self.compression, &chunk)?;
            out.write_all(&self.endian.bytes_u32(encode::len32(&packed)?))?;
            out.write_all(&self.endian.bytes_u32(encode::len32(&chunk)?))?;
            out.write_all(&packed)?;
        }
        check_size(cpu.cpu, copied, cpu.size_bytes)
    }

    fn encoder(&self, base: u64) -> Encoder {
        Encoder::new(self.endian, self.compression, base)
    }
}

fn check_size(cpu: u32, copied: u64, wanted: u64) -> Result<(), WriteError> {
    if copied == wanted {
        return Ok(());
    }
    spec_error(format!("CPU {cpu}: {wanted} bytes of data announced, {copied} given"))
}

/// Fills with zeroes up to `offset`.
fn pad_to<W: Write + Seek>(out: &mut W, offset: u64) -> std::io::Result<()> {
    let at = out.stream_position()?;
    let missing = offset.checked_sub(at).ok_or_else(|| {
        std::io::Error::other(format!("planned offset {offset} lies before position {at}"))
    })?;
    std::io::copy(&mut std::io::repeat(0).take(missing), out)?;
    Ok(())
}

impl FileSpec {
    /// The buffers to write, top one first and always there, CPU lists without gaps.
    fn checked_buffers(&self) -> Result<Vec<Checked>, WriteError> {
        let mut checked = Vec::new();
        if !self.buffers.iter().any(|buffer| buffer.name.is_empty()) {
            let clock = self.buffers.first().map_or("local", |buffer| &buffer.clock);
            checked.push(Checked {
                index: None,
                spec: BufferSpec {
                    clock: clock.into(),
                    page_bytes: self.page_bytes,
                    ..BufferSpec::default()
                },
            });
        }
        for (index, buffer) in self.buffers.iter().enumerate() {
            checked.push(Checked { index: Some(index), spec: check_buffer(buffer)? });
        }
        checked.sort_by_key(|buffer| !buffer.spec.name.is_empty());
        Ok(checked)
    }

    /// Everything before the data: file header, metadata, strings, options.
    fn head(
        &self,
        buffers: &[Checked],
        layout: &DataLayout,
        with_buffers: bool,
    ) -> Result<Vec<u8>, WriteError> {
        let mut encoder = self.encoder(0);
        encoder.bytes(MAGIC);
        encoder.bytes(b"7\0");
        encoder.bytes(&[u8::from(self.endian == Endian::Big), self.long_bytes]);
        encoder.u32(self.page_bytes);
        encoder.cstr(self.compression.name());
        // Of a library that made such streams; trace-cmd compares zlib's with its own.
        encoder.cstr(match self.compression {
            Compression::None => "",
            Compression::Zlib => "1.2.11",
            Compression::Zstd => "1.5.4",
        });
        let options_offset = encoder.reserve_u64();
        let (strings, descriptions) = self.strings(buffers);
        let sections = self.metadata_sections(&mut encoder, &descriptions[buffers.len()..])?;
        encoder.metadata(id::STRINGS, u32::MAX, |e| {
            e.bytes(&strings);
            Ok(())
        })?;
        encoder.patch_u64(options_offset, encoder.offset());
        self.option_section(&mut encoder, |encoder| {
            for (id, offset) in &sections {
                encoder.option(*id, |e| e.u64(*offset))?;
            }
            option::facts(encoder, &self.options)?;
            if with_buffers {
                let nowhere = BufferPlace::default();
                for (at, buffer) in buffers.iter().enumerate() {
                    let place = layout.buffers.get(at).unwrap_or(&nowhere);
                    option::buffer(encoder, &buffer.spec, place)?;
                }
            }
            Ok(())
        })?;
        Ok(encoder.finish())
    }

    /// Descriptions of sections: the buffers' first, then the metadata's.
    fn strings(&self, buffers: &[Checked]) -> (Vec<u8>, Vec<u32>) {
        let names = buffers.iter().map(|buffer| format!("buffer flyrecord {}", buffer.spec.name));
        let fixed = ["headers", "ftrace events", "events format", "kallsyms", "printk"];
        let fixed = fixed.into_iter().chain(["command lines"]).map(str::to_owned);
        let (mut strings, mut offsets) = (Vec::new(), Vec::new());
        for name in names.chain(fixed) {
            offsets.push(u32::try_from(strings.len()).unwrap_or(u32::MAX));
            strings.extend(name.into_bytes());
            strings.push(0);
        }
        (strings, offsets)
    }

    fn strings_of_spec(&self) -> Vec<u32> {
        self.checked_buffers().map(|buffers| self.strings(&buffers).1).unwrap_or_default()
    }

    fn metadata_sections(
        &self,
        encoder: &mut Encoder,
        descriptions: &[u32],
    ) -> Result<Vec<(u16, u64)>, WriteError> {
        let metadata = &self.metadata;
        let mut sections = Vec::new();
        let mut section = |encoder: &mut Encoder, id: u16, write: &dyn Fn(&mut Encoder)| {
            let desc = descriptions.get(usize::from(id - id::HEADER_INFO));
            sections.push((id, encoder.offset()));
            encoder.metadata(id, desc.copied().unwrap_or(u32::MAX), |e| {
                write(e);
                Ok(())
            })
        };
        section(encoder, id::HEADER_INFO, &|e| {
            e.cstr("header_page");
            e.sized64(&metadata.header_page);
            e.cstr("header_event");
            e.sized64(&metadata.header_event);
        })?;
        section(encoder, id::FTRACE_EVENTS, &|e| e.formats(&metadata.ftrace_events))?;
        section(encoder, id::EVENT_FORMATS, &|e| {
            e.u32(u32::try_from(metadata.systems.len()).unwrap_or(u32::MAX));
            for (system, formats) in &metadata.systems {
                e.cstr(system);
                e.formats(formats);
            }
        })?;
        section(encoder, id::KALLSYMS, &|e| e.sized32(&metadata.kallsyms))?;
        section(encoder, id::PRINTK, &|e| e.sized32(&metadata.printk_formats))?;
        section(encoder, id::CMDLINES, &|e| e.sized64(&metadata.saved_cmdlines))?;
        Ok(sections)
    }

    /// A section of options with the link to the next (none).
    fn option_section(
        &self,
        encoder: &mut Encoder,
        write: impl FnOnce(&mut Encoder) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let size = encoder.section(id::DONE, false, u32::MAX, 0);
        write(encoder)?;
        encoder.option(id::DONE, |e| e.u64(0))?;
        encoder.close_section(size);
        Ok(())
    }

    /// Where in the head the link to the next options is: its last eight bytes.
    fn next_options_offset(&self, head: &[u8]) -> Result<u64, WriteError> {
        (head.len() as u64).checked_sub(8).map_or_else(|| spec_error("empty head"), Ok)
    }
}

fn check_buffer(buffer: &BufferSpec) -> Result<BufferSpec, WriteError> {
    if !buffer.page_bytes.is_power_of_two() || buffer.page_bytes < 64 {
        return spec_error(format!(
            "buffer {:?}: invalid sub-buffer size of {} bytes",
            buffer.name, buffer.page_bytes
        ));
    }
    let mut cpus: Vec<CpuSpec> = Vec::new();
    for cpu in &buffer.cpus {
        let at = usize::try_from(cpu.cpu).unwrap_or(usize::MAX);
        if at > 1 << 16 {
            return spec_error(format!("buffer {:?}: invalid CPU {}", buffer.name, cpu.cpu));
        }
        while cpus.len() <= at {
            cpus.push(CpuSpec { cpu: u32::try_from(cpus.len()).unwrap_or(0), size_bytes: 0 });
        }
        if cpus[at].size_bytes > 0 {
            return spec_error(format!("buffer {:?}: CPU {} named twice", buffer.name, cpu.cpu));
        }
        cpus[at].size_bytes = cpu.size_bytes;
    }
    Ok(BufferSpec { cpus, ..buffer.clone() })
}
