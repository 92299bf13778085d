//! The event at which a flight recorder freezes its buffers.

use anyhow::bail;
use transect_tracefs::{Condition, EventRequest, Instance};

/// A `traceoff` trigger of an instance switches off *that instance* since 6.0 (kernel commit
/// "tracing: Have traceon and traceoff trigger honor the instance"); before, the global buffer,
/// which is not ours.
const TRIGGER_SINCE: (u32, u32) = (6, 0);

/// An event, and when it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    system: String,
    event: String,
    expression: Option<String>,
}

impl Trigger {
    /// Parses `SYS:EVENT` or `SYS:EVENT if EXPR`.
    ///
    /// # Errors
    /// It does not name one event.
    pub fn parse(spec: &str) -> anyhow::Result<Self> {
        let (event, expression) = if spec.contains(" if ") {
            let condition = Condition::parse(spec)?;
            (condition.event, Some(condition.expression))
        } else {
            let request = EventRequest::parse(spec.trim())?;
            (Some((request.system, request.event)), None)
        };
        match event {
            Some((system, event)) if !format!("{system}{event}").contains(['*', '?']) => {
                Ok(Trigger { system, event, expression })
            }
            _ => bail!(
                "--trigger {spec:?}: not a single event; write e.g. 'sched:sched_switch if prev_prio < 100'"
            ),
        }
    }

    pub(super) fn system(&self) -> &str {
        &self.system
    }

    pub(super) fn event(&self) -> &str {
        &self.event
    }

    pub(super) fn expression(&self) -> Option<&str> {
        self.expression.as_deref()
    }

    /// The event itself is recorded too, so that the snapshot shows what fired.
    pub(super) fn request(&self) -> EventRequest {
        EventRequest {
            system: self.system.clone(),
            event: self.event.clone(),
            filter: None,
            required: true,
        }
    }

    /// As the kernel wants it.
    fn text(&self) -> String {
        match &self.expression {
            Some(expression) => format!("traceoff if {expression}"),
            None => "traceoff".to_owned(),
        }
    }

    /// Arms it on a tracing instance.
    pub(super) fn arm(&self, instance: &Instance) -> anyhow::Result<()> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        if kernel_version(&release).is_some_and(|version| version < TRIGGER_SINCE) {
            bail!(
                "--trigger needs Linux 6.0 or later, this is {release}: on older kernels it stops the global trace buffer instead; use transect snapshot or SIGUSR2"
            );
        }
        Ok(instance.set_trigger(&self.system, &self.event, &self.text())?)
    }
}

fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_name_one_event() {
        let trigger = Trigger::parse("sched:sched_switch if prev_prio < 100").unwrap();
        assert_eq!(trigger.text(), "traceoff if prev_prio < 100");
        assert_eq!(Trigger::parse("kvm:kvm_exit").unwrap().text(), "traceoff");
        for bad in ["sched", "kvm:*", "", "prev_prio < 100"] {
            assert!(Trigger::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kernel_versions() {
        assert_eq!(kernel_version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("5.14.0"), Some((5, 14)));
        assert_eq!(kernel_version("x"), None);
    }
}
