//! Writes recordings of machines and clocks that are hard to come by, for the tests' corpus:
//! big-endian and 32-bit, every kind of field, every kind of record, clocks that drift.
//!
//! `cargo run -p transect-tracedat --example odd -- FOLDER`
#![allow(clippy::print_stderr, reason = "a tool of the developers")]

use std::{error::Error, fs::File, io::Cursor, path::Path};
use transect_ftrace::{Endian, PageLayout, encode::PageBuilder};
use transect_tracedat::{
    BufferSpec, Compression, CpuSpec, CpuStat, FileSpec, Guest, Metadata, Options, ShiftSample,
    TimeShift, Tsc2Nsec,
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: odd FOLDER")?;
    let folder = Path::new(&folder);
    let drifting = Options { time_shift: Some(drift()), ..Options::default() };
    let converted = Options {
        tsc2nsec: Some(Tsc2Nsec { mult: 12_924_312, shift: 25, offset_ns: 77 }),
        date: Some("0x5f5e100".into()),
        offset: Some("-12345".into()),
        ..Options::default()
    };
    write(folder, "odd-le64", Odd { endian: Endian::Little, long: 8 }, facts())?;
    write(folder, "odd-be64", Odd { endian: Endian::Big, long: 8 }, Options::default())?;
    write(folder, "odd-be32", Odd { endian: Endian::Big, long: 4 }, Options::default())?;
    write(folder, "odd-le32", Odd { endian: Endian::Little, long: 4 }, Options::default())?;
    write(folder, "odd-drifting", Odd { endian: Endian::Little, long: 8 }, drifting)?;
    write(folder, "odd-converted", Odd { endian: Endian::Little, long: 8 }, converted)?;
    Ok(())
}

/// Every option that is a plain fact.
fn facts() -> Options {
    Options {
        cpu_stats: vec![CpuStat::parse("CPU: 0\nentries: 0\noverrun: 12\nread events: 9\n")],
        trace_clock: Some("local [global] x86-tsc\n".into()),
        uname: Some("Linux odd 6.18.0 x86_64".into()),
        cpu_count: Some(2),
        version: Some("transect".into()),
        trace_id: Some(0x0123_4567_89ab_cdef),
        guests: vec![Guest { name: "web".into(), trace_id: 42, cpus: vec![(0, 100), (1, 101)] }],
        ..Options::default()
    }
}

/// A clock that is scaled, and jumps, with interpolation between samples on CPU 0 only.
fn drift() -> TimeShift {
    let sample = |time, offset| ShiftSample { time, offset, scaling: 3 << 20, fraction: 21 };
    TimeShift {
        peer_trace_id: 1,
        flags: TimeShift::INTERPOLATE,
        cpus: vec![
            vec![sample(1_000, 500), sample(300_000_000, 700), sample(900_000_000, -40_000)],
            vec![sample(0, 5)],
        ],
    }
}

#[derive(Clone, Copy)]
struct Odd {
    endian: Endian,
    long: usize,
}

/// A record under construction.
struct Record {
    odd: Odd,
    bytes: Vec<u8>,
}

impl Record {
    fn new(odd: Odd, id: u16, tid: u32) -> Self {
        let mut bytes = odd.endian.bytes_u16(id).to_vec();
        bytes.extend([0, 0]);
        bytes.extend(odd.endian.bytes_u32(tid));
        Record { odd, bytes }
    }

    fn u16(mut self, value: u16) -> Self {
        self.bytes.extend(self.odd.endian.bytes_u16(value));
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.bytes.extend(self.odd.endian.bytes_u32(value));
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.bytes.extend(self.odd.endian.bytes_u64(value));
        self
    }

    fn long(self, value: u64) -> Self {
        if self.odd.long == 8 { self.u64(value) } else { self.u32((value & 0xffff_ffff) as u32) }
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }
}

impl Odd {
    fn layout(self) -> PageLayout {
        PageLayout {
            endian: self.endian,
            commit_bytes: self.long,
            commit_offset_bytes: 8,
            data_offset_bytes: 8 + self.long,
            page_bytes: 4096,
        }
    }

    fn header_page(self) -> String {
        let (long, data) = (self.long, 8 + self.long);
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{};\tsigned:1;\n",
            4096 - data
        )
    }

    fn metadata(self) -> Metadata {
        let long = self.long;
        let scalars = format(
            "scalars",
            7,
            &[
                ("s8 a", 8, 1, 1),
                ("unsigned char b", 9, 1, 0),
                ("s16 c", 10, 2, 1),
                ("s32 d", 12, 4, 1),
                ("s64 e", 16, 8, 1),
                ("bool f", 24, 1, 0),
                ("enum hue g", 28, 4, 0),
                ("void * h", 32, long, 0),
                ("unsigned long i", 32 + long, long, 0),
                ("long j", 32 + 2 * long, long, 1),
            ],
            r#""a=%d c=%hd d=%#x g=%5u j=%ld", REC->a, REC->c, REC->d, REC->g, REC->j"#,
        );
        let arrays = format(
            "arrays",
            8,
            &[
                ("char comm[16]", 8, 16, 0),
                ("u16 x[3]", 24, 6, 0),
                ("__u8 y[2]", 30, 2, 0),
                ("struct point z", 32, 12, 0),
                ("__data_loc char[] s", 44, 4, 0),
                ("__data_loc u32[] t", 48, 4, 0),
                ("__data_loc unsigned long[] m", 52, 4, 0),
                ("__rel_loc char[] u", 56, 4, 0),
                ("__rel_loc u16[] v", 60, 4, 0),
            ],
            r#""comm=%s s=%s", REC->comm, __get_str(s)"#,
        );
        let large = format("large", 9, &[("char text[200]", 8, 200, 0)], r#""%s", REC->text"#);
        Metadata {
            header_page: self.header_page().into_bytes(),
            header_event: HEADER_EVENT.into(),
            ftrace_events: Vec::new(),
            systems: vec![("odd".into(), vec![scalars, arrays, large])],
            saved_cmdlines: b"100 CPU 0/KVM\n101 b-[1]\n".to_vec(),
            ..Metadata::default()
        }
    }

    fn scalars(self, tid: u32, value: u32) -> Vec<u8> {
        let record = Record::new(self, 7, tid).bytes(&[0xfe, 0xfd]).u16(0xfffc).u32(value);
        let record = record.u64(u64::MAX - 4).bytes(&[1, 0, 0, 0]).u32(2);
        record.long(0xdead_0000_beef).long(0x1234).long(u64::MAX).bytes
    }

    fn arrays(self, tid: u32) -> Vec<u8> {
        let mut record = Record::new(self, 8, tid).bytes(b"a name\0\0\0\0\0\0\0\0\0\0");
        record = record.u16(1).u16(2).u16(0xfff0).bytes(b"k\0").bytes(&[1; 12]);
        record = record.u32(6 << 16 | 64).u32(8 << 16 | 72).u32(8 << 16 | 80);
        // Relative ones count from behind their locator.
        record = record.u32(4 << 16 | (88 - 60)).u32(4 << 16 | (92 - 64));
        let data = record.bytes(b"hello\0\0\0").u32(7).u32(0x8000_0000);
        let masked = if self.long == 8 { data.u64(5) } else { data.u32(5).u32(1) };
        masked.bytes(b"rel\0").u16(3).u16(4).bytes
    }

    fn large(self, tid: u32) -> Vec<u8> {
        let mut text = [b'x'; 200];
        text[199] = 0;
        Record::new(self, 9, tid).bytes(&text).bytes
    }

    /// Two pages a CPU, with gaps between them, far stamps, long records.
    fn pages(self, cpu: u32) -> Vec<u8> {
        let tid = 100 + cpu;
        let start = 1_000_000 + u64::from(cpu);
        let mut first = PageBuilder::new(self.layout(), start);
        let mut is_full = first.push(start, &self.scalars(tid, 0xffff_fffd));
        is_full &= first.push(start + 10, &self.arrays(tid));
        is_full &= first.push(start + 400_000_000, &self.large(tid));
        is_full &= first.push_absolute(start + 400_000_123);
        is_full &= first.push(start + 400_000_124, &self.scalars(0, 16));
        let count = (cpu == 0).then_some(12_345);
        let later = start + 800_000_000;
        let mut second = PageBuilder::new(self.layout(), later).lost(count);
        is_full &= second.push(later, &self.scalars(999, 3));
        while second.push(later + 5, &self.large(tid)) {}
        assert!(is_full, "the records fit");
        [first.finish(), second.finish()].concat()
    }
}

const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

fn format(name: &str, id: u16, fields: &[(&str, usize, usize, u8)], print: &str) -> Vec<u8> {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let common = [
        ("unsigned short common_type", 0, 2, 0),
        ("unsigned char common_flags", 2, 1, 0),
        ("unsigned char common_preempt_count", 3, 1, 0),
        ("int common_pid", 4, 4, 1),
    ];
    let mut lines = |list: &[(&str, usize, usize, u8)]| {
        for (field, offset, size, signed) in list {
            let rest = format!("offset:{offset};\tsize:{size};\tsigned:{signed};");
            text.push_str(&format!("\tfield:{field};\t{rest}\n"));
        }
        text.push('\n');
    };
    lines(&common);
    lines(fields);
    text.push_str(&format!("print fmt: {print}\n"));
    text.into_bytes()
}

fn write(folder: &Path, name: &str, odd: Odd, options: Options) -> Result<(), Box<dyn Error>> {
    let cpus = [0, 1].map(|cpu| CpuSpec { cpu, size_bytes: 8192 }).to_vec();
    let spec = FileSpec {
        endian: odd.endian,
        long_bytes: u8::try_from(odd.long)?,
        page_bytes: 4096,
        compression: Compression::Zstd,
        metadata: odd.metadata(),
        options,
        buffers: vec![BufferSpec {
            name: String::new(),
            clock: "local".into(),
            page_bytes: 4096,
            cpus,
        }],
    };
    let path = folder.join(name).with_extension("dat");
    spec.write(File::create(&path)?, |_, cpu| Ok(Cursor::new(odd.pages(cpu))))?;
    eprintln!("{}: {} bytes", path.display(), std::fs::metadata(&path)?.len());
    Ok(())
}
