//! Names that a path does not tell: out of the files that container managers keep of what runs.
//!
//! Read are only files below directories of root's, once per container, a megabyte of each at most. No
//! manager is asked: docker's socket and the kubelet's API can do more than tell names.

use super::{Kind, Level};
use serde_json::Value;
use std::{
    collections::HashMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A container whose files say nothing may have come before them: it is asked again after so long.
const ASK_AGAIN: Duration = Duration::from_secs(30);
const LARGEST: u64 = 1 << 20;
/// Files of containers are looked at so many times a window.
const LOOKS: usize = 32;
/// Where containerd's shims keep each container's configuration, below which are namespaces.
const TASKS: &[&str] = &[
    "run/containerd/io.containerd.runtime.v2.task",
    "run/k3s/containerd/io.containerd.runtime.v2.task",
    "var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task",
];
const DOCKER: &str = "var/lib/docker/containers";
/// Of podman and cri-o.
const STORAGE: &str = "run/containers/storage/overlay-containers";
const PODMAN: &str = "var/lib/containers/storage/overlay-containers/containers.json";

/// What a manager's files tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) name: Option<String>,
    pub(crate) pod: Option<String>,
    pub(crate) namespace: Option<String>,
}

#[derive(Debug)]
struct Known {
    told: Told,
    looked: Instant,
    seen: bool,
}

/// Names of containers by their ids, and of pods by theirs.
#[derive(Debug)]
pub(crate) struct Names {
    root: PathBuf,
    known: HashMap<String, Known>,
    looks: usize,
}

impl Default for Names {
    fn default() -> Self {
        Names::below("/")
    }
}

impl Names {
    pub(crate) fn below(root: impl Into<PathBuf>) -> Self {
        Names { root: root.into(), known: HashMap::new(), looks: LOOKS }
    }

    /// What is known of a container; looks if it is a new one. Of a pod: what its containers have told.
    pub(crate) fn of(&mut self, level: &Level) -> Told {
        let Some(id) = &level.id else { return Told::default() };
        if let Some(known) = self.known.get_mut(id) {
            known.seen = true;
            let is_final = known.told != Told::default() || level.kind == Kind::Pod;
            if is_final || known.looked.elapsed() < ASK_AGAIN {
                return known.told.clone();
            }
        }
        if level.kind == Kind::Pod || self.looks == 0 {
            return Told::default();
        }
        self.looks -= 1;
        let told = self.look(level, id);
        if let (Some(pod), Some(name)) = (&level.pod, &told.pod) {
            let pod_told =
                Told { name: Some(name.clone()), pod: None, namespace: told.namespace.clone() };
            self.note(pod, pod_told);
        }
        self.note(id, told.clone());
        told
    }

    fn note(&mut self, id: &str, told: Told) {
        self.known.insert(id.to_owned(), Known { told, looked: Instant::now(), seen: true });
    }

    /// Drops who was not asked for since the last call.
    pub(crate) fn forget_the_gone(&mut self) {
        self.looks = LOOKS;
        self.known.retain(|_, known| std::mem::take(&mut known.seen));
    }

    fn look(&self, level: &Level, id: &str) -> Told {
        let runtime = level.runtime.unwrap_or(level.kind);
        let docker = || self.docker(id);
        let containerd = || self.containerd(id);
        let storage = || {
            let told = oci(&self.json(&format!("{STORAGE}/{id}/userdata/config.json"))?);
            (told != Told::default()).then_some(told)
        };
        let podman = || self.podman(id);
        let found = match runtime {
            Kind::Docker => docker(),
            Kind::Containerd => containerd(),
            Kind::Crio => storage(),
            Kind::Podman => podman(),
            Kind::Kubernetes | Kind::Container | Kind::Ecs => {
                containerd().or_else(storage).or_else(docker).or_else(podman)
            }
            _ => None,
        };
        found.unwrap_or_default()
    }

    /// A JSON file below the root. None if it is not there, no file, or too large.
    fn json(&self, path: &str) -> Option<Value> {
        let path = self.root.join(path);
        // What would block, or lead elsewhere, is not opened.
        if !fs::symlink_metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn docker(&self, id: &str) -> Option<Told> {
        let config = self.json(&format!("{DOCKER}/{id}/config.v2.json"))?;
        let labels = &config["Config"]["Labels"];
        let kube = of_keys(labels, CRI_O);
        let name = text(&config["Name"]).map(|name| name.trim_start_matches('/').to_owned());
        Some(Told { name: kube.name.or(name), ..kube })
    }

    fn containerd(&self, id: &str) -> Option<Told> {
        TASKS.iter().find_map(|tasks| {
            let namespaces = fs::read_dir(self.root.join(tasks)).ok()?;
            namespaces.flatten().find_map(|namespace| {
                let namespace = namespace.file_name();
                let path = Path::new(tasks).join(namespace).join(id).join("config.json");
                let told = oci(&self.json(path.to_str()?)?);
                (told != Told::default()).then_some(told)
            })
        })
    }

    fn podman(&self, id: &str) -> Option<Told> {
        let all = self.json(PODMAN)?;
        let found = all.as_array()?.iter().find(|one| one["id"] == id)?;
        Some(Told { name: Some(text(&found["names"][0])?), ..Told::default() })
    }
}

/// Keys of a container's name, its pod's and its namespace.
type Keys = [&'static str; 3];
/// containerd's CRI plugin (pkg/cri/annotations).
const CRI: Keys = [
    "io.kubernetes.cri.container-name",
    "io.kubernetes.cri.sandbox-name",
    "io.kubernetes.cri.sandbox-namespace",
];
/// The kubelet's labels, which cri-o and docker keep.
const CRI_O: Keys =
    ["io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace"];
const NERDCTL: Keys = ["nerdctl/name", "", ""];

/// The annotations of an OCI runtime's config.json.
fn oci(config: &Value) -> Told {
    let annotations = &config["annotations"];
    let mut told = of_keys(annotations, CRI);
    if told == Told::default() {
        told = of_keys(annotations, CRI_O);
    }
    if told == Told::default() {
        told = of_keys(annotations, NERDCTL);
    }
    // The container that only keeps a pod's namespaces.
    if annotations["io.kubernetes.cri.container-type"] == "sandbox" {
        told.name = Some("pause".to_owned());
    }
    told
}

fn of_keys(map: &Value, [name, pod, namespace]: Keys) -> Told {
    Told { name: text(&map[name]), pod: text(&map[pod]), namespace: text(&map[namespace]) }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::levels;

    const ID: &str = "3e4d2a1b0c9f8e7d6c5b4a392817160504f3e2d1c0b9a8978675645342312011";
    const UID: &str = "2f4c1a3e-8b7d-4c6e-9a01-b2c3d4e5f607";

    /// A host's files, and what they make of a path's innermost container.
    struct Host(tempfile::TempDir);

    impl Host {
        fn with(path: &str, json: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(path.replace("{id}", ID));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, json.replace("{id}", ID)).unwrap();
            Host(dir)
        }

        fn tells(&self, path: &str) -> [Option<String>; 3] {
            let path = path.replace("{id}", ID).replace("{uid}", UID);
            let mut names = Names::below(self.0.path());
            let told = names.of(levels(&path).last().unwrap());
            [told.name, told.pod, told.namespace]
        }
    }

    fn told(name: &str, pod: &str, namespace: &str) -> [Option<String>; 3] {
        [name, pod, namespace].map(|text| (!text.is_empty()).then(|| text.to_owned()))
    }

    #[test]
    fn dockers_names_are_its_own() {
        let host = Host::with(
            "var/lib/docker/containers/{id}/config.v2.json",
            r#"{"ID":"{id}","Name":"/web","Config":{"Image":"nginx","Labels":{"a":"b"}}}"#,
        );
        assert_eq!(host.tells("/docker/{id}"), told("web", "", ""));
        assert_eq!(host.tells("/system.slice/docker-{id}.scope"), told("web", "", ""));
        assert_eq!(host.tells("/machine.slice/libpod-{id}.scope"), told("", "", ""), "podman's");
    }

    #[test]
    fn pods_are_named_by_what_their_runtime_keeps() {
        let config = r#"{"ociVersion":"1.1.0","annotations":{
            "io.kubernetes.cri.container-name":"app","io.kubernetes.cri.container-type":"container",
            "io.kubernetes.cri.sandbox-name":"shop-0","io.kubernetes.cri.sandbox-namespace":"prod"}}"#;
        let host = Host::with(
            "run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json",
            config,
        );
        assert_eq!(host.tells("/kubepods/burstable/pod{uid}/{id}"), told("app", "shop-0", "prod"));
        let config = r#"{"annotations":{"io.kubernetes.container.name":"db",
            "io.kubernetes.pod.name":"shop-1","io.kubernetes.pod.namespace":"test"}}"#;
        let host = Host::with(
            "run/containers/storage/overlay-containers/{id}/userdata/config.json",
            config,
        );
        let path = "/kubepods.slice/kubepods-pod2f4c1a3e_8b7d_4c6e_9a01_b2c3d4e5f607.slice/crio-{id}.scope";
        assert_eq!(host.tells(path), told("db", "shop-1", "test"));
        // And the pod itself, once one of its containers has been asked.
        let mut names = Names::below(host.0.path());
        let levels = levels(&path.replace("{id}", ID));
        assert_eq!(names.of(&levels[0]), Told::default());
        names.of(&levels[1]);
        assert_eq!(names.of(&levels[0]).name.as_deref(), Some("shop-1"));
        names.forget_the_gone();
        names.forget_the_gone();
        assert_eq!(names.of(&levels[0]), Told::default(), "forgotten");
    }

    #[test]
    fn podmans_names_are_in_its_list() {
        let json = r#"[{"id":"00","names":["other"]},{"id":"{id}","names":["db"],"metadata":"x"}]"#;
        let host = Host::with(PODMAN, json);
        assert_eq!(host.tells("/machine.slice/libpod-{id}.scope/container"), told("db", "", ""));
    }

    #[test]
    fn what_is_no_file_of_names_tells_none() {
        let path = "var/lib/docker/containers/{id}/config.v2.json";
        for json in ["", "[", "[1]", r#"{"Name":3}"#, "null"] {
            assert_eq!(Host::with(path, json).tells("/docker/{id}"), told("", "", ""), "{json}");
        }
        let large = format!(r#"{{"Name":"/x","pad":"{}"}}"#, "y".repeat(2 << 20));
        assert_eq!(Host::with(path, &large).tells("/docker/{id}"), told("", "", ""));
        let host = Host::with("elsewhere.json", r#"{"Name":"/secret"}"#);
        let link = host.0.path().join(path.replace("{id}", ID));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(host.0.path().join("elsewhere.json"), link).unwrap();
        assert_eq!(host.tells("/docker/{id}"), told("", "", ""), "a link leads anywhere");
    }
}
