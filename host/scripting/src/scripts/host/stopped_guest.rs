//! Finds the script's line in an instance whose guest did not return: it trapped, or the host stopped it. Also reads how
//! many instructions a dry run executed, and the profile of a run.
//!
//! Nothing can enter such a component again, but the guest's core instance and its memory are still there. wasmtime gives
//! access to them through the core dump of a trap, so this module makes one in the same store, and calls a function of the
//! guest that only reads its heap. Runs that end by themselves pay nothing for that (`docs/adr/0036-a-line-for-every-failure.md`).

use wasmtime::{Engine, Global, Instance, Module, Result, Store, Val, WasmCoreDump};

use super::state::RunState;
use crate::scripts::profile::RunProfile;

/// A module whose start function traps: `(module (func unreachable) (start 0))`.
const TRAP: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x04\x01\x60\0\0\
    \x03\x02\x01\0\
    \x08\x01\0\
    \x0a\x05\x01\x03\0\0\x0b";

/// The guest's function (`guest-lua/c/meter.c`).
const SCRIPT_LINE: &str = "script_line";

/// The guest's function that returns how many instructions its run has left (`guest-lua/c/meter.c`).
const INSTRUCTIONS_LEFT: &str = "instructions_left";

/// The profiled guest's function that returns the address of its tables (`guest-lua/c/profile.c`), and the memory that they are in.
const PROFILE_TABLES: &str = "profile_tables";
const MEMORY: &str = "memory";

/// The guest's pointer to its C stack, which may have overflowed.
const STACK_POINTER: &str = "__stack_pointer";

/// Bytes of C stack for [`SCRIPT_LINE`]: a fraction of the guest's stack, below which its data begins.
const STACK: i32 = 64 << 10;

/// Fuel for [`SCRIPT_LINE`], a millisecond: it walks the frames above the script's, of which Lua allows some hundred.
const FUEL: u64 = 10_000_000;

/// Finds lines; one per engine.
#[derive(Clone)]
pub(super) struct StoppedGuest(Module);

impl StoppedGuest {
    pub(super) fn new(engine: &Engine) -> Result<Self> {
        Ok(Self(Module::new(engine, TRAP)?))
    }

    /// The script's line at which the guest stopped. `None` when no line of it was running, or the guest's memory does not
    /// tell.
    pub(super) async fn script_line(&self, store: &mut Store<RunState>) -> Option<u32> {
        self.call(store, SCRIPT_LINE).await.filter(|line| *line > 0)
    }

    /// The number of instructions that the run of the guest had left when it ended.
    pub(super) async fn instructions_left(&self, store: &mut Store<RunState>) -> Option<u32> {
        self.call(store, INSTRUCTIONS_LEFT).await
    }

    /// The profile of the run of the profiled guest.
    pub(super) async fn profile(&self, store: &mut Store<RunState>) -> Option<RunProfile> {
        let (guest, tables) = self.call_in(store, PROFILE_TABLES).await?;
        let memory = guest.get_memory(&mut *store, MEMORY)?;
        let (bytes, state) = memory.data_and_store_mut(store);
        state.take_profile(bytes, tables)
    }

    async fn call(&self, store: &mut Store<RunState>, function: &str) -> Option<u32> {
        self.call_in(store, function).await.map(|(_, answer)| answer)
    }

    /// Calls a function of the guest without changing the store's fuel, and returns its core instance and the answer. `None` when
    /// it can't be called.
    async fn call_in(&self, store: &mut Store<RunState>, function: &str) -> Option<(Instance, u32)> {
        // The run's use of fuel is read from what is left.
        let fuel = store.get_fuel().ok()?;
        let answer = self.read(store, function).await.unwrap_or_else(|error| {
            tracing::debug!(
                function,
                error = error.root_cause().to_string(),
                "the guest's memory does not tell"
            );
            None
        });
        store.set_fuel(fuel).ok()?;
        answer
    }

    async fn read(&self, store: &mut Store<RunState>, function: &str) -> Result<Option<(Instance, u32)>> {
        store.set_fuel(FUEL)?;
        let trapped = Instance::new_async(&mut *store, &self.0, &[]).await.err();
        let instances = trapped
            .as_ref()
            .and_then(|error| error.downcast_ref::<WasmCoreDump>())
            .map(WasmCoreDump::instances);
        for instance in instances.unwrap_or_default() {
            let Ok(found) = instance.get_typed_func::<(), u32>(&mut *store, function) else { continue };
            if let Some(stack) = instance.get_global(&mut *store, STACK_POINTER) {
                reset(&stack, store)?;
            }
            let answer = found.call_async(&mut *store, ()).await?;
            return Ok(Some((*instance, answer)));
        }
        Ok(None)
    }
}

/// Gives the function a stack of its own, over frames that nothing will return to.
fn reset(stack: &Global, store: &mut Store<RunState>) -> Result<()> {
    stack.set(&mut *store, Val::I32(STACK))
}
