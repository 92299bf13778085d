//! Interrupt lines and the names of their handlers, from `/proc/interrupts`.

use crate::Namespaces;
use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};
use transect_model::setting::{MAX_IRQ_LINES, MAX_IRQ_NAME_BYTES, shortened};

/// An interrupt line that has a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IrqLine {
    /// Its number, as in `irq_handler_entry`.
    pub irq: i32,
    /// The names of its handlers as the kernel prints them: `virtio1-req.0`, or `a, b` for a shared line.
    pub name: String,
}

/// The lines of this machine, at most [`MAX_IRQ_LINES`]; none if the file cannot be read.
pub fn all() -> Vec<IrqLine> {
    let procfs = Namespaces::current().procfs().unwrap_or(Path::new("/proc"));
    match File::open(procfs.join("interrupts")) {
        // A line of a machine with 8,192 CPUs has 90 KB, and the machine has thousands of lines.
        Ok(file) => parse(BufReader::with_capacity(1 << 16, file)),
        Err(_) => Vec::new(),
    }
}

/// The lines of the file's text, up to an error. A line that has another form, no number or no name is left out.
fn parse(text: impl BufRead) -> Vec<IrqLine> {
    let lines = text.split(b'\n').map_while(io::Result::ok);
    lines.filter_map(|line| parse_line(&line)).take(MAX_IRQ_LINES).collect()
}

/// ` 36:  17890719  326229  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0` (Linux 6.1 kernel/irq/proc.c,
/// `show_interrupts`): number, counts, chip, hardware number and flow, trigger on some architectures, names.
fn parse_line(line: &[u8]) -> Option<IrqLine> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let irq = std::str::from_utf8(&line[..colon]).ok()?.trim().parse().ok()?;
    let mut rest = Words(&line[colon + 1..]);
    rest.skip_while_next(|word| word.iter().all(u8::is_ascii_digit));
    let _chip = rest.next()?;
    // An interrupt without a domain has blanks in place of the hardware number.
    let is_hardware = |word: &[u8]| {
        let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && matches!(word.get(digits), None | Some(b'-'))
    };
    rest.skip_next_if(is_hardware);
    rest.skip_next_if(|word| matches!(word, b"Level" | b"Edge"));
    rest.skip_next_if(|word| word.starts_with(b"-"));
    let name = String::from_utf8_lossy(rest.0.trim_ascii());
    let name = shortened(&name, MAX_IRQ_NAME_BYTES).to_owned();
    (!name.is_empty()).then_some(IrqLine { irq, name })
}

/// Words with blanks around them.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn split(&self) -> (&'a [u8], &'a [u8]) {
        let text = self.0.trim_ascii_start();
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        text.split_at(end)
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let (word, rest) = self.split();
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn skip_next_if(&mut self, is_skipped: impl Fn(&[u8]) -> bool) -> bool {
        let (word, rest) = self.split();
        let is_skipped = !word.is_empty() && is_skipped(word);
        if is_skipped {
            self.0 = rest;
        }
        is_skipped
    }

    fn skip_while_next(&mut self, is_skipped: impl Fn(&[u8]) -> bool) {
        while self.skip_next_if(&is_skipped) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(i32, String)> {
        parse(text.as_bytes()).into_iter().map(|line| (line.irq, line.name)).collect()
    }

    fn named(irq: i32, name: &str) -> (i32, String) {
        (irq, name.to_owned())
    }

    /// Of a guest of Firecracker, Linux 6.18.
    const X86: &str = "           CPU0       CPU1       \n\
        \u{20}24:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
        \u{20}36:   17890719     326229 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
        \u{20} 9:          0          0  IO-APIC   9-fasteoi   acpi\n\
        \u{20}16:         12          3  IR-IO-APIC  16-fasteoi   i801_smbus, ehci_hcd:usb1\n\
        \u{20}27:          0          1  IR-PCI-MSI-0000:00:1c.0    0-edge      PCIe PME, aerdrv\n\
        \u{20}40:          7          0 PCI-MSIX-0000:00:04.0   0-edge    \n\
        NMI:          0          0   Non-maskable interrupts\n\
        ERR:          0\n";

    #[test]
    fn names_are_what_follows_the_flow() {
        let expected = [
            named(24, "ACPI:Ged"),
            named(36, "virtio1-req.0"),
            named(9, "acpi"),
            named(16, "i801_smbus, ehci_hcd:usb1"),
            named(27, "PCIe PME, aerdrv"),
        ];
        assert_eq!(lines(X86), expected);
    }

    #[test]
    fn other_architectures_and_hypervisors() {
        let arm64 = "           CPU0       CPU1       \n\
            \u{20}11:       5281       4890     GICv3  27 Level     arch_timer\n\
            \u{20}13:          0          0     GICv3 220 Edge    -edge      smmu event\n\
            \u{20}14:          0          0     GICv3  23 Level   \n\
            IPI0:       2000       3000       Rescheduling interrupts\n";
        assert_eq!(lines(arm64), [named(11, "arch_timer"), named(13, "smmu event")]);
        let xen = "           CPU0       \n\
            \u{20}48:      10000  xen-percpu    -virq      timer0\n\
            \u{20}69:        325   xen-dyn    -event     blkif\n\
            \u{20}70:          5   xen-dyn    -event     eth0-q0-tx\n";
        assert_eq!(lines(xen), [named(48, "timer0"), named(69, "blkif"), named(70, "eth0-q0-tx")]);
    }

    /// A guest's file is as its kernel wrote it; a module can give its handler any name.
    #[test]
    fn odd_files_are_read_as_far_as_they_can_be() {
        for odd in [
            "",
            "\n",
            ":\n",
            "1:\n",
            " 1: 5\n",
            "x: 1 2 chip 3-edge name\n",
            "99999999999: 1 c 1 n\n",
        ] {
            assert_eq!(lines(odd), [], "{odd:?}");
        }
        let bytes = b" 1: 5  chip  1-edge   \xff\xfe\x1b[2J\n 2: 5  chip  1-edge   last, without a line break";
        let names: Vec<String> = parse(&bytes[..]).into_iter().map(|line| line.name).collect();
        assert_eq!(names, ["\u{fffd}\u{fffd}\u{1b}[2J", "last, without a line break"]);
    }

    #[test]
    fn many_cpus_lines_and_long_names_stay_within_bounds() {
        let counts = " 4294967295".repeat(8192);
        let text = format!("7:{counts}  PCI-MSI  3-edge      {}\n", "é".repeat(200));
        let long = parse(text.as_bytes());
        assert_eq!((long.len(), long[0].irq), (1, 7));
        assert_eq!(long[0].name, "é".repeat(MAX_IRQ_NAME_BYTES / 2));
        let many: String =
            (0..MAX_IRQ_LINES + 5).map(|irq| format!("{irq}: 0 c 1-edge n\n")).collect();
        assert_eq!(parse(many.as_bytes()).len(), MAX_IRQ_LINES);
    }

    /// The numbers of sysfs, which has a folder for each descriptor (`CONFIG_SPARSE_IRQ`), and its names of handlers.
    #[test]
    fn lines_of_this_machine_agree_with_sysfs() {
        let lines = all();
        for line in &lines {
            let actions = format!("/sys/kernel/irq/{}/actions", line.irq);
            let Ok(actions) = std::fs::read_to_string(&actions) else { continue };
            assert_eq!(actions.trim(), line.name.replace(", ", ","));
        }
        if lines.is_empty() {
            println!("skipped: this machine has no interrupt lines");
        }
    }
}
