//! A machine that the guests of one cell share: the nested host of `nested-kvm`, the Xen host of domains.

use super::{Guest, whole};
use crate::platform::Shape;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::fitted::Fitted;

/// virtio-serial has 31 ports, of which one is the host's own (Linux `drivers/char/virtio_console.c`).
const MOST_GUESTS: u32 = 16;

/// Where a platform keeps the one that its guests share.
pub(crate) type Shared = Mutex<Weak<World>>;

/// A machine with guests. It ends with its last guest.
pub(crate) struct World {
    guest: Mutex<Guest>,
    /// The handle of the host.
    pub fitted: Fitted,
    sizes: Sizes,
    taken: Mutex<BTreeSet<u32>>,
}

/// What a host is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub cpus: u32,
    pub memory_mib: u32,
    pub disk_mib: u32,
    /// Guests at most.
    pub guests: u32,
    pin: Vec<u32>,
}

impl Sizes {
    /// The parameters `guests` (how many it will have at most, 4), `host_cpus` (2, or the guests' if more) and
    /// `host_memory_mib` (`own_mib`, and for each guest `each_mib`).
    pub(crate) fn of(
        platform: &str,
        shape: &Shape,
        own_mib: u32,
        each_mib: u32,
    ) -> Result<Self, Refusal> {
        let guests = whole(shape, "guests", 4)?.max(shape.index + 1);
        if guests > MOST_GUESTS {
            let why = format!("its host has {MOST_GUESTS} guests at most, not {guests}");
            return Err(Refusal::new(Kind::NotHere, format!("platform {platform}"), why));
        }
        Ok(Self {
            cpus: whole(shape, "host_cpus", shape.cpus.max(2))?,
            memory_mib: whole(shape, "host_memory_mib", own_mib + guests * each_mib)?,
            disk_mib: (shape.disk_mib.max(16) + 16) * guests + 64,
            guests,
            pin: shape.pin.clone(),
        })
    }
}

impl World {
    /// The one that is there and does, or a new one.
    pub(crate) fn of(
        shared: &Shared,
        platform: &str,
        sizes: Sizes,
        boot: impl FnOnce(&Sizes) -> Result<Guest, Fault>,
    ) -> Result<Arc<Self>, Fault> {
        let mut world = lock(shared);
        if let Some(there) = world.upgrade().filter(|there| there.fitted.check_alive().is_ok()) {
            if there.sizes == sizes {
                return Ok(there);
            }
            let why = "a host of another size is still in use";
            return Err(Refusal::new(Kind::Different, format!("platform {platform}"), why).into());
        }
        let guest = boot(&sizes)?;
        let fitted = guest.fitted().clone();
        let new =
            Arc::new(Self { guest: Mutex::new(guest), fitted, sizes, taken: Mutex::default() });
        *world = Arc::downgrade(&new);
        Ok(new)
    }

    /// The host as a machine.
    pub(crate) fn host(&self) -> MutexGuard<'_, Guest> {
        lock(&self.guest)
    }

    /// A place for one guest more, from 0.
    pub(crate) fn take_place(&self, platform: &str) -> Result<u32, Refusal> {
        let mut taken = lock(&self.taken);
        let free = (0..self.sizes.guests).find(|place| !taken.contains(place));
        let free = free.ok_or_else(|| {
            let why = format!("its host was started for {} guests", self.sizes.guests);
            Refusal::new(Kind::Plan, format!("platform {platform}"), why)
                .mend("raise the parameter guests")
        })?;
        taken.insert(free);
        Ok(free)
    }

    /// A place that nobody has used, or that can be used again.
    pub(crate) fn give_back(&self, place: u32) {
        lock(&self.taken).remove(&place);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
