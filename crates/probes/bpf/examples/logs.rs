//! Records for a while and says what came: `logs SECONDS FAMILY[,FAMILY…] [FILE]`.
//!
//! FILE is a compact file, for looking at records while developing: no names, no clocks, no more
//! than the logs held.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::{fs::File, io, io::Write, path::Path, process::ExitCode, time::Duration};

use transect_bpf::{Compact, FAMILIES, Family, LogSink, Plan};
use transect_compact::{BlockWriter, FileHeader, LogId, Slice, SliceSink, Totals};
use transect_model::{exit::Isa, ids::CpuId};

#[derive(Default)]
struct Sink {
    file: Option<BlockWriter<File>>,
    slices: u64,
}

impl LogSink for Sink {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        self.slices += 1;
        let Some(file) = &mut self.file else { return Ok(()) };
        file.slice(Slice { log: LogId { cpu, side }, position, sync_ns, lost, words })
    }
}

fn begin(path: &str, cpus: usize) -> Result<BlockWriter<File>, Box<dyn std::error::Error>> {
    let isa = if Path::new("/sys/module/kvm_amd").exists() { Isa::Svm } else { Isa::Vmx };
    let header = FileHeader::new(u32::try_from(cpus)?, isa, "");
    Ok(BlockWriter::new(File::create(path)?, &header)?)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("logs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, families, rest @ ..] = arguments.as_slice() else {
        return Err("usage: logs SECONDS FAMILY[,FAMILY…] [FILE]".into());
    };
    let find = |name: &str| FAMILIES.into_iter().find(|family| family.as_str() == name);
    let families: Option<Vec<Family>> = families.split(',').map(find).collect();
    let plan = Plan::of(&families.ok_or("no such family")?);
    let mut compact = Compact::load(&plan)?;
    let file = rest.first().map(|path| begin(path, compact.cpus())).transpose()?;
    let sink = Sink { file, slices: 0 };
    let consumer = compact.consume(sink)?;
    compact.attach()?;
    // Programs are attached: whoever waits for this line may begin.
    println!("absent: {:?}; kvm_exit: {}", compact.absent(), compact.kvm_exit_method().as_str());
    std::thread::sleep(Duration::from_secs_f64(seconds.parse()?));
    let mut finished = compact.stop(consumer)?;
    if let Some(file) = finished.sink.file.take() {
        let mut file = file.finish(&Totals::default())?;
        file.flush()?;
    }
    println!(
        "{} slices, {} bytes, {} events lost",
        finished.sink.slices,
        finished.stats.bytes(),
        finished.stats.lost()
    );
    for log in &finished.stats.logs {
        println!("{log:?}");
    }
    println!(
        "missed: {:?}; failure: {:?}",
        finished.stats.missed,
        finished.failure.map(|e| e.to_string())
    );
    Ok(())
}
