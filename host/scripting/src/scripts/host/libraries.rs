//! `libraries`: the code that scripts get with `require`.

use super::fault;
use super::state::RunState;
use crate::scripts::bindings::Refusal;
use crate::scripts::bindings::belvedere::script::libraries::Host;
use crate::scripts::bindings::belvedere::script::types::FaultCode;

impl Host for RunState {
    fn load(&mut self, name: String) -> Result<Vec<u8>, Refusal> {
        self.count_call()?;
        let Some(library) = self.scripts.library(&name) else {
            return Err(
                fault::new(FaultCode::BadInput, format!("require: there is no library {name:?}")).into()
            );
        };
        match &library.bytecode {
            Ok(bytecode) => Ok(bytecode.to_vec()),
            Err(failure) => Err(fault::new(FaultCode::BadInput, format!("require: {failure}")).into()),
        }
    }
}
