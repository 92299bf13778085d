//! The events of a text: their fields, their `format` files, and records made of their text.
//!
//! Field names and types are the kernel's (`include/trace/events/{sched,irq,task}.h`); places
//! within the record and the numbers of events are this file's own.

use std::collections::BTreeMap;

/// Kinds of events at most; beyond it events become `other`.
const MAX_KINDS: usize = 4096;
/// Text of an event kept at most, so that a record fits a page.
const MAX_TEXT_BYTES: usize = 2048;
const COMMON_BYTES: usize = 8;
/// A number above any the kernel itself gave, so that nobody takes them for the same.
const FIRST_ID: u16 = 1000;

/// How a field's value is printed, and kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    /// A decimal number.
    Int,
    /// 16 bytes of name; may have spaces in it.
    Comm,
    /// Letters of a task's state.
    State,
    /// `handled` or not.
    Handled,
}

/// A field: its name in the record, its name in the text, and its type.
type Field = (&'static str, &'static str, Type);

struct Known {
    system: &'static str,
    name: &'static str,
    fields: &'static [Field],
}

const WAKE: &[Field] = &[
    ("comm", "comm", Type::Comm),
    ("pid", "pid", Type::Int),
    ("prio", "prio", Type::Int),
    ("target_cpu", "target_cpu", Type::Int),
];
const VEC: &[Field] = &[("vec", "vec", Type::Int)];

const KNOWN: &[Known] = &[
    Known {
        system: "sched",
        name: "sched_switch",
        fields: &[
            ("prev_comm", "prev_comm", Type::Comm),
            ("prev_pid", "prev_pid", Type::Int),
            ("prev_prio", "prev_prio", Type::Int),
            ("prev_state", "prev_state", Type::State),
            ("next_comm", "next_comm", Type::Comm),
            ("next_pid", "next_pid", Type::Int),
            ("next_prio", "next_prio", Type::Int),
        ],
    },
    Known { system: "sched", name: "sched_waking", fields: WAKE },
    Known { system: "sched", name: "sched_wakeup", fields: WAKE },
    Known { system: "sched", name: "sched_wakeup_new", fields: WAKE },
    Known {
        system: "sched",
        name: "sched_migrate_task",
        fields: &[
            ("comm", "comm", Type::Comm),
            ("pid", "pid", Type::Int),
            ("prio", "prio", Type::Int),
            ("orig_cpu", "orig_cpu", Type::Int),
            ("dest_cpu", "dest_cpu", Type::Int),
        ],
    },
    Known {
        system: "sched",
        name: "sched_process_fork",
        fields: &[
            ("parent_comm", "comm", Type::Comm),
            ("parent_pid", "pid", Type::Int),
            ("child_comm", "child_comm", Type::Comm),
            ("child_pid", "child_pid", Type::Int),
        ],
    },
    Known {
        system: "sched",
        name: "sched_process_exit",
        fields: &[
            ("comm", "comm", Type::Comm),
            ("pid", "pid", Type::Int),
            ("prio", "prio", Type::Int),
        ],
    },
    Known { system: "irq", name: "irq_handler_entry", fields: &[("irq", "irq", Type::Int)] },
    Known {
        system: "irq",
        name: "irq_handler_exit",
        fields: &[("irq", "irq", Type::Int), ("ret", "ret", Type::Handled)],
    },
    Known { system: "irq", name: "softirq_raise", fields: VEC },
    Known { system: "irq", name: "softirq_entry", fields: VEC },
    Known { system: "irq", name: "softirq_exit", fields: VEC },
];

/// A record's form: the kernel's fields, or its text.
#[derive(Clone, Copy)]
enum Form {
    Fields(&'static Known),
    Text,
}

/// The kinds met so far.
#[derive(Default)]
pub(super) struct Kinds {
    /// Number and form by name; a known event whose text is not as expected has a second,
    /// `NAME_text`.
    ids: BTreeMap<String, (u16, Form)>,
    /// An event without flags was met.
    lacks_flags: bool,
}

impl Kinds {
    /// A record.
    pub(super) fn payload(
        &mut self,
        event: &str,
        flags: Option<u8>,
        tid: i32,
        text: &[u8],
    ) -> Vec<u8> {
        self.lacks_flags |= flags.is_none();
        let flags = flags.unwrap_or(0);
        let known = KNOWN.iter().find(|known| known.name == event);
        if let Some(known) = known
            && let Some(fields) = fields(known, text)
        {
            let mut record = common(self.id(event.to_owned(), Form::Fields(known)), flags, tid);
            record.extend(fields);
            return record;
        }
        let name = if known.is_some() { format!("{event}_text") } else { event.to_owned() };
        let mut record = common(self.id(name, Form::Text), flags, tid);
        let text = text.get(..text.len().min(MAX_TEXT_BYTES)).unwrap_or_default();
        // `__data_loc`: where the text is, and how long with its zero.
        let place = u32::try_from(COMMON_BYTES + 4).unwrap_or(0);
        let length = u32::try_from(text.len() + 1).unwrap_or(0);
        record.extend((length << 16 | place).to_ne_bytes());
        record.extend(text);
        record.push(0);
        record
    }

    fn id(&mut self, name: String, form: Form) -> u16 {
        if let Some((id, _)) = self.ids.get(&name) {
            return *id;
        }
        let next = u16::try_from(self.ids.len()).unwrap_or(u16::MAX).saturating_add(FIRST_ID);
        if self.ids.len() >= MAX_KINDS {
            return self.ids.entry("other".to_owned()).or_insert((next, Form::Text)).0;
        }
        self.ids.insert(name, (next, form));
        next
    }

    /// Flags that not every line had tell nothing: they have no name then.
    fn common_fields(&self) -> String {
        let name = if self.lacks_flags { "common_untold" } else { "common_flags" };
        COMMON.replace("common_flags", name)
    }

    /// Each system's `format` files.
    pub(super) fn formats(&self) -> Vec<(String, Vec<Vec<u8>>)> {
        let mut systems: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
        for (name, (id, form)) in &self.ids {
            let (system, format) = match form {
                Form::Fields(known) => {
                    (known.system, format_of(name, *id, &self.common_fields(), known.fields))
                }
                Form::Text => ("text", text_format(name, *id, &self.common_fields())),
            };
            systems.entry(system).or_default().push(format.into_bytes());
        }
        systems.into_iter().map(|(system, formats)| (system.to_owned(), formats)).collect()
    }
}

fn common(id: u16, flags: u8, tid: i32) -> Vec<u8> {
    let mut record = Vec::with_capacity(80);
    record.extend(id.to_ne_bytes());
    record.extend([flags, 0]);
    record.extend(tid.to_ne_bytes());
    record
}

/// The values of all fields; none if the text is not as the kernel prints it.
fn fields(known: &Known, text: &[u8]) -> Option<Vec<u8>> {
    let mut record = Vec::with_capacity(64);
    let mut rest = text;
    for (at, (_, key, kind)) in known.fields.iter().enumerate() {
        let begin = find(rest, format!("{key}=").as_bytes())? + key.len() + 1;
        rest = rest.get(begin..)?;
        let next = known.fields.get(at + 1).map(|(_, key, _)| format!(" {key}="));
        let is_name = *kind == Type::Comm;
        let end = match next.filter(|_| is_name) {
            Some(next) => find(rest, next.as_bytes())?,
            None => rest.iter().position(|b| *b == b' ').unwrap_or(rest.len()),
        };
        let (value, after) = rest.split_at_checked(end)?;
        put(&mut record, *kind, value)?;
        rest = after;
    }
    Some(record)
}

fn put(record: &mut Vec<u8>, kind: Type, value: &[u8]) -> Option<()> {
    match kind {
        Type::Int => {
            let number: i32 = std::str::from_utf8(value).ok()?.parse().ok()?;
            record.extend(number.to_ne_bytes());
        }
        Type::Comm => {
            let mut name = [0; 16];
            let length = value.len().min(15);
            name.get_mut(..length)?.copy_from_slice(value.get(..length)?);
            record.extend(name);
        }
        Type::State => record.extend(state(value)?.to_ne_bytes()),
        Type::Handled => record.extend(i32::from(value == b"handled").to_ne_bytes()),
    }
    Some(())
}

/// `R+`, `S`, `D|K`: the letters of `prev_state`. `+` is `TASK_REPORT_MAX`, which is 0x100 since
/// 4.14.
fn state(text: &[u8]) -> Option<u32> {
    let mut bits = 0;
    for letter in text.iter().filter(|letter| **letter != b'|') {
        bits |= match letter {
            b'R' => 0,
            b'S' => 0x1,
            b'D' => 0x2,
            b'T' => 0x4,
            b't' => 0x8,
            b'X' => 0x10,
            b'Z' => 0x20,
            b'P' => 0x40,
            b'I' => 0x80,
            b'+' => 0x100,
            // Letters of other kernels that come with one of those.
            b'A'..=b'Z' | b'a'..=b'z' => 0,
            _ => return None,
        };
    }
    (!text.is_empty()).then_some(bits)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

fn format_of(name: &str, id: u16, common: &str, fields: &[Field]) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n{common}");
    let mut offset = COMMON_BYTES;
    let (mut print, mut args) = (Vec::new(), String::new());
    for (name, key, kind) in fields {
        let (declared, size, signed, shown) = match kind {
            Type::Comm => (format!("char {name}[16]"), 16, 1, "%s"),
            Type::State => (format!("unsigned int {name}"), 4, 0, "%x"),
            Type::Int | Type::Handled => (format!("int {name}"), 4, 1, "%d"),
        };
        text += &format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
        offset += size;
        print.push(format!("{key}={shown}"));
        args += &format!(", REC->{name}");
    }
    text + &format!("\nprint fmt: \"{}\"{args}\n", print.join(" "))
}

fn text_format(name: &str, id: u16, common: &str) -> String {
    format!(
        "name: {name}\nID: {id}\nformat:\n{common}\tfield:__data_loc char[] text;\toffset:{COMMON_BYTES};\tsize:4;\
         \tsigned:1;\n\nprint fmt: \"%s\", __get_str(text)\n"
    )
}
