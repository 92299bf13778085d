//! What VMM command lines say: names, addresses, sockets.
//!
//! QEMU's options are `key=value` lists in which a comma of a value is doubled; since 6.0 libvirt
//! writes devices as JSON objects instead (`-device '{"driver":"vhost-vsock-pci","guest-cid":3}'`).

use std::path::PathBuf;

/// The host's end of a virtio-serial port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialPort {
    /// Name the guest sees (`org.transect.0`), where it is given.
    pub name: Option<String>,
    /// The chardev's Unix socket.
    pub path: PathBuf,
}

/// What a QEMU command line says about the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QemuLine {
    pub(super) name: Option<String>,
    pub(super) uuid: Option<String>,
    pub(super) vsock_cid: Option<u32>,
    pub(super) serial_ports: Vec<SerialPort>,
}

/// One option's value, taken apart. The bare first word has the empty key.
type Pairs = Vec<(String, String)>;

/// Reads a QEMU command line.
pub(super) fn qemu(args: &[String]) -> QemuLine {
    let mut line = QemuLine::default();
    let mut sockets = Vec::new();
    let mut ports = Vec::new();
    for option in args.windows(2) {
        let [flag, value] = option else { continue };
        match flag.trim_start_matches('-') {
            "name" if flag.starts_with('-') => line.name = vm_name(&pairs(value)),
            "uuid" if flag.starts_with('-') => line.uuid = Some(value.to_lowercase()),
            "chardev" if flag.starts_with('-') => sockets.extend(chardev_socket(&pairs(value))),
            "device" if flag.starts_with('-') => device(&pairs(value), &mut line, &mut ports),
            _ => {}
        }
    }
    line.serial_ports = ports
        .into_iter()
        .filter_map(|(chardev, name)| {
            let (_, path) = sockets.iter().find(|(id, _)| *id == chardev)?;
            Some(SerialPort { name, path: path.clone() })
        })
        .collect();
    line
}

fn vm_name(pairs: &Pairs) -> Option<String> {
    get(pairs, "guest").or_else(|| get(pairs, "")).filter(|name| !name.is_empty())
}

fn chardev_socket(pairs: &Pairs) -> Option<(String, PathBuf)> {
    let backend = get(pairs, "").or_else(|| get(pairs, "backend"))?;
    let is_socket = backend == "socket";
    is_socket.then_some(())?;
    Some((get(pairs, "id")?, get(pairs, "path")?.into()))
}

fn device(pairs: &Pairs, line: &mut QemuLine, ports: &mut Vec<(String, Option<String>)>) {
    let driver = get(pairs, "").or_else(|| get(pairs, "driver")).unwrap_or_default();
    if driver.contains("vsock") {
        line.vsock_cid =
            get(pairs, "guest-cid").and_then(|cid| cid.parse().ok()).or(line.vsock_cid);
    }
    let is_port = driver == "virtserialport" || driver == "virtconsole";
    if let Some(chardev) = get(pairs, "chardev").filter(|_| is_port) {
        ports.push((chardev, get(pairs, "name")));
    }
}

fn get(pairs: &Pairs, key: &str) -> Option<String> {
    pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
}

/// An option's value as pairs, in either notation.
fn pairs(value: &str) -> Pairs {
    match value.trim_start().starts_with('{') {
        true => json_pairs(value),
        false => comma_pairs(value),
    }
}

fn comma_pairs(value: &str) -> Pairs {
    let mut items = vec![String::new()];
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        if c == ',' && chars.next_if_eq(&',').is_none() {
            items.push(String::new());
        } else if let Some(item) = items.last_mut() {
            item.push(c);
        }
    }
    items
        .into_iter()
        .map(|item| match item.split_once('=') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None => (String::new(), item),
        })
        .collect()
}

/// Strings and numbers of a JSON object, nested ones flattened: enough for `-device`, `-chardev`.
fn json_pairs(text: &str) -> Pairs {
    let mut pairs = Pairs::new();
    let mut key: Option<String> = None;
    let mut is_value = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                let word = json_string(&mut chars);
                if is_value {
                    pairs.extend(key.take().map(|key| (key, word)));
                    is_value = false;
                } else {
                    key = Some(word);
                }
            }
            ':' => is_value = true,
            ',' | '{' | '}' => is_value = false,
            c if is_value && !c.is_whitespace() && c != '[' && c != ']' => {
                let mut word = c.to_string();
                while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '}' | ']')) {
                    word.push(c);
                }
                pairs.extend(key.take().map(|key| (key, word.trim_end().to_owned())));
                is_value = false;
            }
            _ => {}
        }
    }
    pairs
}

/// The rest of a JSON string after its opening quote.
fn json_string(chars: &mut impl Iterator<Item = char>) -> String {
    let mut word = String::new();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => word.push('\n'),
                Some('t') => word.push('\t'),
                Some('u') => {
                    let hex: String = chars.take(4).collect();
                    let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                    word.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                Some(other) => word.push(other),
                None => break,
            },
            other => word.push(other),
        }
    }
    word
}

/// The value of `--flag VALUE` or `--flag=VALUE`.
pub(super) fn flag(args: &[String], name: &str) -> Option<String> {
    let after = args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1).cloned());
    let joined =
        || args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=').map(str::to_owned));
    after.or_else(joined)
}

/// `cid=3` in a comma-separated value (Cloud Hypervisor's `--vsock cid=3,socket=…`).
pub(super) fn cid_of(value: &str) -> Option<u32> {
    get(&comma_pairs(value), "cid")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn args(line: &[&str]) -> Vec<String> {
        line.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn plain_qemu_is_read() {
        let line = qemu(&args(&[
            "qemu-system-x86_64",
            "-name",
            "guest=web,,1,debug-threads=on",
            "-uuid",
            "AB12",
            "-chardev",
            "socket,id=c0,path=/run/a,,b.sock,server=on,wait=off",
            "-device",
            "virtserialport,chardev=c0,name=org.transect.0",
            "-device",
            "vhost-vsock-pci,guest-cid=42",
            "-chardev",
            "pty,id=c1",
            "-device",
            "virtserialport,chardev=c1",
        ]));
        assert_eq!(line.name.as_deref(), Some("web,1"));
        assert_eq!(line.uuid.as_deref(), Some("ab12"));
        assert_eq!(line.vsock_cid, Some(42));
        let port = SerialPort { name: Some("org.transect.0".into()), path: "/run/a,b.sock".into() };
        assert_eq!(line.serial_ports, [port]);
        assert_eq!(qemu(&args(&["kvm", "-name", "db"])).name.as_deref(), Some("db"));
    }

    #[test]
    fn libvirt_json_is_read() {
        let line = qemu(&args(&[
            "/usr/bin/qemu-system-x86_64",
            "-name",
            "guest=vm-7,debug-threads=on",
            "-chardev",
            "socket,id=charchannel0,fd=33,server=on,wait=off",
            "-chardev",
            r#"{"id":"c2","backend":{"type":"socket","data":{"path":"/x"}}}"#,
            "-device",
            r#"{"driver":"vhost-vsock-pci","id":"vsock0","guest-cid":7,"vhostfd":"31","bus":"pci.6"}"#,
            "-device",
            r#"{"driver":"virtserialport","bus":"v.0","nr":1,"chardev":"charchannel0","name":"org.q"}"#,
        ]));
        assert_eq!((line.name.as_deref(), line.vsock_cid), (Some("vm-7"), Some(7)));
        assert!(line.serial_ports.is_empty(), "a passed descriptor has no path to compare");
    }

    #[test]
    fn flags_of_other_vmms() {
        let line = args(&["cloud-hypervisor", "--vsock", "cid=3,socket=/tmp/x", "--id=fc-1"]);
        assert_eq!(flag(&line, "--vsock").and_then(|value| cid_of(&value)), Some(3));
        assert_eq!(flag(&line, "--id").as_deref(), Some("fc-1"));
        assert_eq!(flag(&line, "--name"), None);
    }

    proptest! {
        #[test]
        fn no_command_line_panics(line in proptest::collection::vec("(-name|-device|-chardev|-uuid|\\PC{0,40}|[{}\",:\\\\a-z=]{0,40})", 0..12)) {
            qemu(&line);
        }

        #[test]
        fn doubled_commas_come_back(value in "[a-z,]{1,20}") {
            let option = format!("socket,id=c,path=/{}", value.replace(',', ",,"));
            prop_assert_eq!(get(&comma_pairs(&option), "path"), Some(format!("/{value}")));
        }
    }
}
