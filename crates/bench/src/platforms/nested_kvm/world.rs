//! The nested host that the guests of one cell share.

use crate::platforms::kit::{Guest, GuestPlan, failed, options_of, taken_by_kernel_mib, whole};
use crate::platforms::{Bed, Facts, Shape, tcg};
use crate::{Fault, Kind, Refusal};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use transect_testbed::fitted::{self, Fitted, Model};

/// Memory that QEMU and its vCPUs' page tables take in the host beside a guest's own, MiB.
const BESIDE_A_GUEST_MIB: u32 = 128;

/// virtio-serial has 31 ports, of which one is the host's own (Linux `drivers/char/virtio_console.c`).
const MOST_GUESTS: u32 = 16;

static WORLD: Mutex<Weak<World>> = Mutex::new(Weak::new());

/// A nested host. It ends with its last guest.
pub(super) struct World {
    guest: Mutex<Guest>,
    /// The handle of the host.
    pub fitted: Fitted,
    sizes: Sizes,
    taken: Mutex<BTreeSet<u32>>,
}

/// What a host is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    cpus: u32,
    memory_mib: u32,
    disk_mib: u32,
    guests: u32,
    pin: Vec<u32>,
}

impl Sizes {
    /// The parameters `guests` (how many it will have at most, 4), `host_cpus` (2, or the guests' if more) and
    /// `host_memory_mib` (what they need).
    pub(super) fn of(shape: &Shape) -> Result<Self, Refusal> {
        let guests = whole(shape, "guests", 4)?.max(shape.index + 1);
        if guests > MOST_GUESTS {
            let why = format!("a nested host has {MOST_GUESTS} guests at most, not {guests}");
            return Err(Refusal::new(Kind::NotHere, "platform nested-kvm", why));
        }
        let each = shape.memory_mib + taken_by_kernel_mib(shape.memory_mib) + BESIDE_A_GUEST_MIB;
        Ok(Self {
            cpus: whole(shape, "host_cpus", shape.cpus.max(2))?,
            memory_mib: whole(shape, "host_memory_mib", 640 + guests * each)?,
            disk_mib: (shape.disk_mib.max(16) + 16) * guests + 64,
            guests,
            pin: shape.pin.clone(),
        })
    }
}

impl World {
    /// The one that is there and does, or a new one.
    pub(super) fn of(shape: &Shape, bed: &Bed) -> Result<Arc<Self>, Fault> {
        let mut world = lock(&WORLD);
        let sizes = Sizes::of(shape)?;
        if let Some(there) = world.upgrade().filter(|there| there.fitted.check_alive().is_ok()) {
            if there.sizes == sizes {
                return Ok(there);
            }
            let why = "a nested host of other sizes is still in use";
            return Err(Refusal::new(Kind::Different, "platform nested-kvm", why).into());
        }
        let new = Arc::new(Self::boot(sizes, shape, bed)?);
        *world = Arc::downgrade(&new);
        Ok(new)
    }

    fn boot(sizes: Sizes, shape: &Shape, bed: &Bed) -> Result<Self, Fault> {
        // The host sees the cache as it is when it boots.
        fitted::inner_images().map_err(|error| failed(&error))?;
        let mut fittings = options_of(shape)?;
        fittings.cpus = sizes.cpus;
        fittings.memory_mib = sizes.memory_mib;
        fittings.bridged = true;
        fittings.pipes = 1 + sizes.guests;
        let guest = Guest::boot(GuestPlan {
            name: "nested-kvm-host",
            model: Model::NestedHost,
            fittings,
            facts: Facts {
                accelerator: "tcg".into(),
                emulated: tcg::emulated(sizes.cpus),
                ..Facts::default()
            },
            disk_mib: sizes.disk_mib,
            index: shape.index,
            bed,
        })?;
        let fitted = guest.fitted().clone();
        Ok(Self { guest: Mutex::new(guest), fitted, sizes, taken: Mutex::default() })
    }

    /// The host as a machine.
    pub(super) fn host(&self) -> MutexGuard<'_, Guest> {
        lock(&self.guest)
    }

    /// A place for one guest more, from 0.
    pub(super) fn take_place(&self) -> Result<u32, Refusal> {
        let mut taken = lock(&self.taken);
        let free = (0..self.sizes.guests).find(|place| !taken.contains(place));
        let free = free.ok_or_else(|| {
            let why = format!("its host was made for {} guests", self.sizes.guests);
            Refusal::new(Kind::Plan, "platform nested-kvm", why).mend("raise the parameter guests")
        })?;
        taken.insert(free);
        Ok(free)
    }

    /// A pipe can be used once only: QEMU's other end does not notice that a guest has gone. So a place is never given
    /// back, except by those that have not connected it.
    pub(super) fn give_back(&self, place: u32) {
        lock(&self.taken).remove(&place);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
