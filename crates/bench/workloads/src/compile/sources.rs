//! C files that compile: made here, the same everywhere.

use crate::support::random::Random;
use std::{fmt::Write as _, fs, io, path::Path};

/// Changes when what is made changes.
pub(super) const VERSION: u32 = 2;
/// Headers that units choose from.
const HEADERS: u64 = 96;
/// Of which each includes so many, its own neighbours first, so that none is left out.
const INCLUDED: u64 = 24;
/// Functions of a unit.
const FUNCTIONS: u64 = 10;

/// Writes a makefile, headers, and so many units.
pub(super) fn write(folder: &Path, units: u64) -> io::Result<()> {
    fs::create_dir(folder.join("include"))?;
    // No header that nobody reads: a cold cache is proved by all of them being read.
    let headers = HEADERS.min(units * INCLUDED);
    for n in 0..headers {
        fs::write(folder.join(format!("include/h{n}.h")), header(n))?;
    }
    for n in 0..units {
        fs::write(folder.join(format!("unit{n}.c")), unit(n, headers))?;
    }
    fs::write(folder.join("Makefile"), makefile(units))
}

fn makefile(units: u64) -> String {
    let objects: Vec<String> = (0..units).map(|n| format!("$(O)/unit{n}.o")).collect();
    format!(
        "OBJECTS = {}\n\
         all: $(O)/all.o\n\
         $(O)/all.o: $(OBJECTS)\n\t$(CC) -nostdlib -r -o $@ $(OBJECTS)\n\
         warm: $(O)/unit0.o\n\t$(CC) -nostdlib -r -o $(O)/warm.o $<\n\
         $(O)/%.o: %.c\n\t$(CC) -O2 -pipe -Iinclude -c -o $@ $<\n\
         .PHONY: all warm\n",
        objects.join(" ")
    )
}

/// A structure, constants, and small inline functions on it, as the headers of a kernel have.
fn header(n: u64) -> String {
    let mut random = Random(n);
    let mut text = format!("#ifndef H{n}_H\n#define H{n}_H\nstruct s{n} {{\n");
    for field in 0..12 {
        let kind = random.pick(&["int", "long", "unsigned", "char *", "unsigned short"]);
        let _ = writeln!(text, "\t{kind} f{field};");
    }
    text += "\tlong v[16];\n\tstruct s *next;\n};\n";
    for constant in 0..40 {
        let _ = writeln!(text, "#define H{n}_C{constant} 0x{:x}", random.below(1 << 24));
    }
    for inline in 0..12 {
        let (a, b) = (random.below(16), random.below(40));
        let _ = writeln!(
            text,
            "static inline long h{n}_i{inline}(struct s{n} *s, long x)\n{{\n\
             \tif (x & H{n}_C{b})\n\t\ts->v[{a}] += x;\n\telse\n\t\ts->v[{a}] ^= H{n}_C{inline};\n\
             \treturn s->v[(x + {a}) & 15];\n}}"
        );
    }
    text + "#endif\n"
}

fn unit(n: u64, headers: u64) -> String {
    let mut random = Random(1000 + n);
    let mut included: Vec<u64> = (0..INCLUDED).map(|k| (n * INCLUDED + k) % headers).collect();
    included.sort_unstable();
    included.dedup();
    let mut text = String::new();
    for h in &included {
        let _ = writeln!(text, "#include \"h{h}.h\"");
    }
    for f in 0..FUNCTIONS {
        function(&mut text, &mut random, n, f, &included);
    }
    text
}

/// A loop over a switch of inline calls: work for inliner, optimiser and register allocator.
fn function(text: &mut String, random: &mut Random, n: u64, f: u64, included: &[u64]) {
    let h = random.pick(included);
    let _ = write!(
        text,
        "long u{n}_f{f}(struct s{h} *s, long *a, long n)\n{{\n\tlong x = H{h}_C{}, i;\n\
         \tfor (i = 0; i < n; i++) {{\n\t\tswitch ((a[i] + x) % 7) {{\n",
        random.below(40)
    );
    for case in 0..6 {
        let (i, v, c) = (random.below(12), random.below(16), random.below(40));
        let _ = writeln!(
            text,
            "\t\tcase {case}:\n\t\t\tx += h{h}_i{i}(s, a[i] ^ x) * {};\n\t\t\ta[i] = s->v[{v}] + H{h}_C{c};\n\t\t\tbreak;",
            random.below(90) + 3
        );
    }
    let call = if f > 0 { format!("x -= a[0] > x ? x : a[0] / {};", f + 2) } else { "x--;".into() };
    let _ =
        writeln!(text, "\t\tdefault:\n\t\t\t{call}\n\t\t}}\n\t}}\n\treturn x + (long)s->f1;\n}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_read_by_some_unit() {
        for units in [1, 3, 4, 24] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), units).unwrap();
            let all: String = (0..units)
                .map(|n| fs::read_to_string(folder.path().join(format!("unit{n}.c"))).unwrap())
                .collect();
            for header in fs::read_dir(folder.path().join("include")).unwrap() {
                let name = header.unwrap().file_name().into_string().unwrap();
                assert!(all.contains(&format!("\"{name}\"")), "{units} units: {name}");
            }
        }
    }
}
