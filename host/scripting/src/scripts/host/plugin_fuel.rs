//! Takes what plugins computed for a run out of its fuel.

use std::time::Duration;

use super::state::RunState;
use crate::scripts::limits;

impl RunState {
    /// The time that plugins computed for the run and that was not subtracted from its fuel yet, in units of fuel.
    pub(in crate::scripts) fn plugin_fuel(&self) -> u64 {
        let micros = u64::try_from(self.plugin_time.as_micros()).unwrap_or(u64::MAX);
        micros.saturating_mul(limits::PLUGIN_FUEL_PER_MICROSECOND).saturating_add(self.unpaid_fuel)
    }

    /// Whether plugins computed for longer than the run's fuel lasted.
    pub(in crate::scripts) fn plugins_used_up_fuel(&self) -> bool {
        self.unpaid_fuel > 0
    }

    /// Takes what plugins computed out of `left`, the run's fuel. `false` when that is used up.
    pub(super) fn pay_plugin_fuel(&mut self, left: &mut u64) -> bool {
        let fuel = self.plugin_fuel();
        self.plugin_time = Duration::ZERO;
        self.unpaid_fuel = fuel.saturating_sub(*left);
        *left = left.saturating_sub(fuel);
        self.unpaid_fuel == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scripts::host::RunInfo;
    use crate::scripts::host::tid::TidClock;
    use belvedere_base::clock::{Clock, Timestamp};
    use belvedere_protocol::trigger::TriggerKind;

    #[test]
    fn what_plugins_compute_is_taken_out_of_the_fuel() {
        let info = RunInfo::check("xrpc.query:com.example.get".into(), TriggerKind::Query);
        let clock = Clock::fixed(Timestamp(0));
        let mut state = RunState::without_services(info, clock, Arc::new(TidClock::new(0)));
        let millisecond = 1_000 * limits::PLUGIN_FUEL_PER_MICROSECOND;
        let mut left = 3 * millisecond;
        state.plugin_time = Duration::from_millis(2);
        assert!(state.pay_plugin_fuel(&mut left));
        assert_eq!((left, state.plugin_fuel()), (millisecond, 0));
        state.plugin_time = Duration::from_millis(2);
        assert!(!state.pay_plugin_fuel(&mut left));
        assert_eq!((left, state.plugin_fuel()), (0, millisecond), "the rest is charged at the run's end");
    }
}
